//! Labs on this machine's kernel: packets get where they should, as fast and as whole as they should,
//! and nothing stays behind. Needs root.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use treecast_lab::{Error, Lab, Loss, Options, Role, Topology};

use crate::common::{TestLab, options, reaches};

fn namespaces(lab: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten().map(|entry| entry.path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    entries.filter(|path| name(path).starts_with(lab)).collect()
}

#[test]
fn clients_and_server_of_a_tree_reach_each_other_by_ipv4_and_ipv6() {
    let lab = TestLab::parse("tree:levels=3,clients=2", "tree");
    // Each address is bound once. A child that another test forks keeps a copy of each socket until its `exec`, even of one that is closed
    // here, and an address that it keeps cannot be bound again.
    let servers: [IpAddr; 2] = [lab.v6("server0").into(), lab.v4("server0").into()];
    let servers = servers.map(|address| (address, lab.socket("server0", address)));
    for client in ["client0", "client3", "client7"] {
        let clients: [IpAddr; 2] = [lab.v6(client).into(), lab.v4(client).into()];
        for ((server, at_server), client_address) in servers.iter().zip(clients) {
            let at_client = lab.socket(client, client_address);
            assert!(reaches(&at_client, at_server, (*server, 4000).into(), 40), "{client} to {server}");
            assert!(
                reaches(at_server, &at_client, (client_address, 4000).into(), 40),
                "{server} to {client}"
            );
        }
    }
}

#[test]
fn nothing_stays_behind() {
    let lab = TestLab::parse("tree:levels=2,clients=1", "gone");
    let name = lab.lab.name().to_owned();
    assert_eq!(namespaces(&name).len(), 1 + 3 + 2 + 1);
    let mut sleeper = Command::new("sleep");
    sleeper.arg("600").stdout(Stdio::null());
    let mut sleeper = lab.lab.spawn("client0", sleeper).unwrap();
    assert_eq!(Lab::list(&lab.options).unwrap()[0].nodes, Some(6));

    Lab::open(&name, &lab.options).unwrap().down().unwrap();
    assert!(!sleeper.wait().unwrap().success());
    assert_eq!(namespaces(&name), Vec::<PathBuf>::new());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&name));
    assert_eq!(Lab::list(&lab.options).unwrap(), []);
    assert!(matches!(Lab::open(&name, &lab.options), Err(Error::NoSuchLab { .. })));
}

#[test]
fn a_program_runs_inside_its_node() {
    let lab = TestLab::parse("lan:clients=1", "exec");
    let mut command = Command::new("cat");
    command.arg("/proc/net/if_inet6").stdout(Stdio::piped());
    let output = lab.lab.spawn("client0", command).unwrap().wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("fd000000000000010000000000000002") && text.contains("if1"), "{text}");
    assert!(matches!(lab.lab.node("client9"), Err(Error::NoSuchNode { .. })));
}

#[test]
fn a_name_that_is_taken_is_refused_and_left_alone() {
    let first = TestLab::parse("lan:clients=1", "taken");
    let topology = Topology::parse("lan:clients=1").unwrap();
    let again = |options: &Options| Lab::up(&topology, first.lab.name(), options).err().unwrap();
    assert!(matches!(again(&first.options), Error::Exists { .. }));
    // Another record, the same names: the namespaces are somebody else's.
    let elsewhere = options("taken-elsewhere");
    assert!(matches!(again(&elsewhere), Error::NamespaceTaken { .. }));
    assert_eq!(Lab::down_all(&elsewhere).unwrap(), Vec::<String>::new());
    assert_eq!(namespaces(first.lab.name()).len(), 3);
    assert!(matches!(Lab::up(&topology, "No Name", &elsewhere), Err(Error::BadName { .. })));
}

/// Sends datagrams one by one, and counts those that arrive, but none of an earlier question.
fn count_arrivals(from: &UdpSocket, to: &UdpSocket, address: SocketAddr, count: usize) -> usize {
    const TEXT: &[u8] = b"one of many";
    let mut buffer = [0; 64];
    let mut arrived = 0;
    for number in 1..=count {
        to.set_nonblocking(true).unwrap();
        from.send_to(TEXT, address).unwrap();
        while let Ok(length) = to.recv(&mut buffer) {
            arrived += usize::from(&buffer[..length] == TEXT);
        }
        // A busy kernel delivers later. More than this may not fit into its queues.
        let (mark, mut has_come) = (number.to_be_bytes(), number % 100 != 0);
        to.set_nonblocking(false).unwrap();
        to.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        while !has_come {
            from.send_to(&mark, address).unwrap();
            while let Ok(length) = to.recv(&mut buffer) {
                arrived += usize::from(&buffer[..length] == TEXT);
                has_come |= buffer[..length] == mark;
            }
        }
    }
    // Nothing is on its way any more when nothing has come for a while.
    to.set_nonblocking(false).unwrap();
    to.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    loop {
        match to.recv(&mut buffer) {
            Ok(length) => arrived += usize::from(&buffer[..length] == TEXT),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                return arrived;
            }
        }
    }
}

#[test]
fn a_lossy_client_loses_its_share_and_others_nothing() {
    const COUNT: usize = 10_000;
    let mut topology = Topology::parse("lan:clients=3").unwrap();
    let gilbert = Loss::Gilbert { to_bad: 0.05, to_good: 0.45, in_bad: 1.0, in_good: 0.0 };
    topology.networks[0].members[1].quality.loss = Loss::Uniform(0.2);
    topology.networks[0].members[2].quality.loss = gilbert;
    let lab = TestLab::up(&topology, "loss");
    let server = lab.socket("server0", lab.v6("server0").into());
    let arrivals = |client: &str| {
        let address = lab.v6(client);
        let socket = lab.socket(client, address.into());
        assert!(reaches(&server, &socket, (address, 4000).into(), 50));
        count_arrivals(&server, &socket, (address, 4000).into(), COUNT)
    };
    // Uniform: within six standard deviations. Gilbert: a tenth of the time in the bad state.
    assert!((7_760..=8_240).contains(&arrivals("client0")));
    assert!((8_500..=9_500).contains(&arrivals("client1")));
    assert_eq!(arrivals("client2"), COUNT);

    let counters = lab.lab.loss_counters("client0", "if1").unwrap();
    let total = counters.passed + counters.dropped;
    assert!(
        total >= COUNT as u64 && (0.17..0.23).contains(&(counters.dropped as f64 / total as f64)),
        "{counters:?}"
    );
    assert_eq!(lab.lab.loss_counters("client2", "if1").unwrap().dropped, 0);
}

#[test]
fn loss_can_begin_and_end_while_the_lab_is_up() {
    let lab = TestLab::parse("lan:clients=1", "lossy");
    let (at_server, at_client, to) = lab.pair();
    assert_eq!(lab.lab.loss_counters("client0", "if1").unwrap().dropped, 0);

    lab.lab.set_loss("client0", "if1", Loss::Uniform(1.0)).unwrap();
    assert!(!reaches(&at_server, &at_client, to, 2));
    // The record of the lab carries the loss: somebody else can change it.
    let elsewhere = Lab::open(lab.lab.name(), &lab.options).unwrap();
    assert!(elsewhere.loss_counters("client0", "if1").unwrap().dropped >= 2);
    elsewhere.set_loss("client0", "if1", Loss::None).unwrap();
    assert!(reaches(&at_server, &at_client, to, 40));
}

/// Super-packets that go to a node with loss are cut before they get there: each datagram counts.
#[test]
fn a_super_packet_is_lost_datagram_by_datagram() {
    let mut topology = Topology::parse("lan:clients=1").unwrap();
    topology.networks[0].members[1].quality.loss = Loss::Uniform(0.5);
    let lab = TestLab::up(&topology, "super");
    let (server, _client, to) = lab.pair();
    let before = lab.lab.loss_counters("client0", "if1").unwrap();
    set_udp_option(&server, libc::UDP_SEGMENT, 1000);
    for _ in 0..20 {
        server.send_to(&[7; 40_000], to).unwrap();
    }
    let counted = || {
        let after = lab.lab.loss_counters("client0", "if1").unwrap();
        (after.passed - before.passed, after.dropped - before.dropped)
    };
    // A busy kernel delivers later.
    let deadline = Instant::now() + Duration::from_secs(30);
    while counted().0 + counted().1 < 800 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    let (passed, dropped) = counted();
    assert!((800..=850).contains(&(passed + dropped)), "{passed} passed, {dropped} dropped");
    assert!((300..500).contains(&dropped), "{dropped} of 800");
}

/// A limit must not undo what the machine saves by super-packets, nor must it count less for them.
#[test]
fn a_super_packet_passes_a_limit_whole() {
    let lab = TestLab::parse("tree:levels=1,clients=1,rate=200M", "whole");
    let (server, client, to) = lab.pair();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    set_udp_option(&server, libc::UDP_SEGMENT, 1400);
    set_udp_option(&client, libc::UDP_GRO, 1);
    let mut buffer = vec![0; 65_536];
    let start = Instant::now();
    for _ in 0..100 {
        server.send_to(&[7; 46 * 1400], to).unwrap();
        assert_eq!(client.recv(&mut buffer).unwrap(), 46 * 1400);
    }
    // What goes through at once at the three limits on the way is not yet paid for.
    let least = 98.0 * 46.0 * (1400.0 + 62.0) * 8.0 / 200e6 - 0.02;
    assert!(start.elapsed().as_secs_f64() > least, "{:?}, not {least} s", start.elapsed());
}

fn set_udp_option(socket: &UdpSocket, name: i32, value: i32) {
    treecast_host::option::set(socket, libc::SOL_UDP, name, value).unwrap();
}

#[test]
fn a_cable_carries_its_rate_and_no_more() {
    const RATE_BPS: f64 = 50e6;
    let lab = TestLab::parse("lan:clients=1,rate=50M", "rate");
    let (server, client, to) = lab.pair();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let sender = std::thread::spawn({
        let done = Arc::clone(&done);
        move || {
            while !done.load(Ordering::Relaxed) {
                let _ = server.send_to(&[7; 1400], to);
            }
        }
    });
    let mut buffer = [0; 2048];
    let mut receive = |frames: u32| (0..frames).for_each(|_| assert!(client.recv(&mut buffer).unwrap() > 0));
    // What the burst and the queue let through at once is over by then.
    receive(3000);
    let start = Instant::now();
    receive(5000);
    // Ethernet, IPv6 and UDP headers count.
    let measured = 5000.0 * (1400.0 + 62.0) * 8.0 / start.elapsed().as_secs_f64();
    done.store(true, Ordering::Relaxed);
    sender.join().unwrap();
    // A busy machine may send less than a cable would carry.
    assert!((0.2 * RATE_BPS..1.15 * RATE_BPS).contains(&measured), "{measured} bit/s");
}

/// A bridge floods a group only until it knows who listens.
#[test]
fn a_bridge_carries_a_group_only_to_its_listeners_and_servers() {
    const COUNT: u64 = 200;
    let lab = TestLab::parse("lan:clients=2,servers=2", "snoop");
    let group: Ipv6Addr = "ff15::7ca5".parse().unwrap();
    let index = |node: &str| lab.lab.interface(node, "if1").unwrap().index;
    let listener = lab.socket("client0", Ipv6Addr::UNSPECIFIED.into());
    listener.join_multicast_v6(&group, index("client0")).unwrap();
    listener.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let server = lab.socket("server0", lab.v6("server0").into());
    let send = || {
        for _ in 0..COUNT {
            let to = std::net::SocketAddrV6::new(group, 4000, 0, index("server0"));
            server.send_to(&[1], to).unwrap();
        }
        let mut buffer = [0; 8];
        std::iter::from_fn(|| listener.recv(&mut buffer).ok()).take(COUNT as usize).count() as u64
    };
    let received_by = |node: &str| {
        let counters =
            lab.lab.enter(node, || std::fs::read_to_string("/proc/thread-self/net/dev")).unwrap().unwrap();
        let line = counters.lines().find_map(|line| line.trim().strip_prefix("if1:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    // The listener has said so at once, and says it again about a second later if that was lost. That others do not listen is
    // known when they have not answered.
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let before = [received_by("server1"), received_by("client1")];
        let heard = send();
        // The bridge serves its ports one after another: a server may get its copy after the listener, or lose it in a full
        // queue of the kernel.
        let [to_server, to_client] = [received_by("server1") - before[0], received_by("client1") - before[1]];
        if heard == COUNT && to_server >= COUNT && to_client < COUNT {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "heard {heard}, sent to a server {to_server}, to another client {to_client}"
        );
    }
}

#[test]
fn a_link_between_routers_can_be_pulled_and_put_back() {
    let topology = Topology::from_toml(
        r#"
        [nodes]
        server0 = { role = "server" }
        a = { role = "router", addresses = ["fd00:ffff::a"] }
        b = { role = "router" }
        client0 = { role = "client" }
        [lans.left]
        nodes = ["server0", "a"]
        [links.middle]
        nodes = ["a", "b"]
        [lans.right]
        nodes = ["b", "client0"]
        "#,
        "test.toml",
    );
    let lab = TestLab::up(&topology.unwrap(), "pull");
    let (at_server, at_client, to) = lab.pair();
    // A router has an address of its own, which is reached from everywhere.
    let at_router = lab.socket("a", lab.v6("a").into());
    assert_eq!(lab.v6("a").to_string(), "fd00:ffff::a");
    assert!(reaches(&at_client, &at_router, (lab.v6("a"), 4000).into(), 40));

    let (node, interface) = ("a", lab.lab.node("a").unwrap().interfaces[1].name.clone());
    lab.lab.set_link_up(node, &interface, false).unwrap();
    assert!(!reaches(&at_server, &at_client, to, 2));
    lab.lab.set_link_up(node, &interface, true).unwrap();
    assert!(reaches(&at_server, &at_client, to, 40));
    assert!(reaches(&at_client, &at_router, (lab.v6("a"), 4000).into(), 40));
}

#[test]
fn killing_a_node_ends_its_programs_and_only_those() {
    let lab = TestLab::parse("lan:clients=2", "kill");
    let sleeper = || {
        let mut command = Command::new("sleep");
        command.arg("600").stdout(Stdio::null());
        command
    };
    let mut first = lab.lab.spawn("client0", sleeper()).unwrap();
    let mut second = lab.lab.spawn("client1", sleeper()).unwrap();
    lab.lab.kill("client0").unwrap();
    assert!(!first.wait().unwrap().success());
    assert!(second.try_wait().unwrap().is_none());
    lab.lab.kill("client1").unwrap();
    assert!(!second.wait().unwrap().success());
}

#[test]
fn the_thesis_testbed_connects_every_building() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/meadcast/testbed.json");
    let lab = TestLab::parse(&format!("testbed:{file}"), "bed");
    let nodes = lab.lab.nodes();
    assert_eq!((nodes.len(), lab.lab.topology().count(Role::Router)), (204, 39));
    assert_eq!(lab.v6("c30-1").to_string(), "fd14::3:30:1");
    assert_eq!(lab.lab.node("r414").unwrap().loopback_v6[0].to_string(), "fd14::4:0:414");
    let sender = lab.socket("c30-1", lab.v6("c30-1").into());
    for to in ["c10-1", "c28-5", "c31-3", "c47-5", "r1", "r203", "r414"] {
        let address = lab.v6(to);
        let receiver = lab.socket(to, address.into());
        assert!(reaches(&sender, &receiver, (address, 4000).into(), 40), "{to}");
        let to_sender = SocketAddr::from((lab.v6("c30-1"), 4000));
        assert!(reaches(&receiver, &sender, to_sender, 40), "from {to}");
    }
    Lab::remove(lab.lab.name(), &lab.options).unwrap();
    assert_eq!(namespaces(lab.lab.name()), Vec::<PathBuf>::new());
}
