//! Routers that speak OSPFv3 by Debian's frr. Needs root, and frr (`scripts/setup.sh test`).

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use treecast_lab::events::Fault;
use treecast_lab::{Error, Lab, Options, Routing, Topology};

use crate::common::{TestLab, options, reaches};

/// A ring of three routers; behind two of them is a host.
const RING: &str = r#"
name = "ring"
[nodes]
r1 = { role = "router", addresses = ["fd00:ff::1"] }
r2 = { role = "router", addresses = ["fd00:ff::2"] }
r3 = { role = "router", addresses = ["fd00:ff::3"] }
a = { role = "server" }
b = { role = "client" }
[links.r1-r2]
nodes = ["r1", "r2"]
[links.r2-r3]
nodes = ["r2", "r3"]
[links.r1-r3]
nodes = ["r1", "r3"]
[lans.left]
nodes = ["r1", "a"]
[lans.right]
nodes = ["r3", "b"]
"#;

/// The hop limit of a packet that crosses two routers, and not three.
const SHORT_WAY: u32 = 3;

/// The time that routes may take to change: longer than they do, also on a machine that has more to do.
const PATIENCE: Duration = Duration::from_secs(60);

fn ring(name: &str) -> TestLab {
    let options = Options { routing: Routing::Ospf, ..options(name) };
    TestLab::with(&Topology::from_toml(RING, "ring.toml").unwrap(), name, options)
}

/// The network of a node, as the kernel numbers it.
fn network(lab: &Lab, node: &str) -> u64 {
    let namespace = &lab.node(node).unwrap().namespace;
    fs::metadata(Path::new("/run/netns").join(namespace)).unwrap().ino()
}

/// The programs that run in these networks, by name.
fn programs_in(networks: &[u64]) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|process| process.path());
    let is_inside = |process: &PathBuf| {
        let network = fs::metadata(process.join("ns/net"));
        network.is_ok_and(|network| networks.contains(&network.ino()))
    };
    let names = processes.filter(is_inside).map(|process| fs::read_to_string(process.join("comm")));
    let mut names: Vec<String> = names.flatten().map(|name| name.trim_end().to_owned()).collect();
    names.sort();
    names
}

fn shared_files() -> Vec<String> {
    let files = fs::read_dir("/run/frr").into_iter().flatten().flatten();
    files.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn traffic_takes_another_way_when_a_link_goes_down_and_comes_back_with_it() {
    let before = shared_files();
    let lab = ring("ospf");
    let (a, b) = (lab.v6("a"), lab.v6("b"));
    let (from, to) = (lab.socket("a", a.into()), lab.socket("b", b.into()));
    let arrives = |hops: u32, from: &UdpSocket| {
        socket2::SockRef::from(from).set_unicast_hops_v6(hops).unwrap();
        reaches(from, &to, (b, 4000).into(), 1)
    };
    let wait_for = |hops: u32, wanted: bool, what: &str| {
        let start = Instant::now();
        while arrives(hops, &from) != wanted {
            assert!(start.elapsed() < PATIENCE, "{what}");
        }
    };
    wait_for(SHORT_WAY, true, "the link between both routers is the shortest way");

    let down = Fault::Down { link: "r1-r3".into() };
    lab.lab.begin(&down).unwrap();
    wait_for(SHORT_WAY + 1, true, "a way over the third router");
    assert!(!arrives(SHORT_WAY, &from), "which is longer");
    lab.lab.end(&down).unwrap();
    wait_for(SHORT_WAY, true, "the link is back");

    let avoided = lab.lab.set_avoided("r1-r3", true);
    assert!(matches!(avoided, Err(Error::RoutesOfProtocol { .. })), "{avoided:?}");

    // Whoever finds it again takes all of it down, as after a crash.
    let networks = ["r1", "r2", "r3"].map(|router| network(&lab.lab, router));
    assert_eq!(programs_in(&networks), ["ospf6d", "ospf6d", "ospf6d", "zebra", "zebra", "zebra"]);
    Lab::open(lab.lab.name(), &lab.options).unwrap().down().unwrap();
    assert_eq!(programs_in(&networks), Vec::<String>::new());
    assert_eq!(shared_files(), before, "Debian's frr has its own");
}
