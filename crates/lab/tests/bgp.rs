//! Routers that speak BGP by Debian's frr, in the internet of interdomain-2013, figure 6.1. Needs root, and frr
//! (`scripts/setup.sh test`).

use std::time::{Duration, Instant};

use treecast_lab::{Error, Lab, Options, Routing, Topology, events::Fault};

use crate::common::{TestLab, options, reaches};

/// The time that routes may take to change: longer than they do, also on a machine that has more to do.
const PATIENCE: Duration = Duration::from_secs(60);

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn prefixes(lab: &Lab, router: &str) -> Vec<String> {
    lab.bgp_table(router).unwrap().into_iter().map(|of| of.prefix).collect()
}

#[test]
fn a_stub_with_a_prefix_of_its_own_is_reached_by_either_link() {
    let topology = Topology::parse("interdomain:addressing=independent,stubs=3").unwrap();
    let refused = Lab::up(&topology, "x", &Options { routing: Routing::Ospf, ..options("bgp-ospf") });
    assert!(matches!(refused, Err(Error::Routing { .. })));
    let lab = TestLab::up(&topology, "bgp-own");
    let (host, far) = (lab.v6("client0"), lab.v6("far0"));
    let (from, to) = (lab.socket("far0", far.into()), lab.socket("client0", host.into()));
    assert!(reaches(&from, &to, (host, 4000).into(), 20));
    // Six blocks, and a prefix of each stub.
    wait_until("all stubs are in the global table", || prefixes(&lab.lab, "tier1-2").len() == 6 + 3);
    let down = Fault::Down { link: "a-stub".into() };
    lab.lab.begin(&down).unwrap();
    wait_until("the other link", || reaches(&from, &to, (host, 4000).into(), 1));
    lab.lab.end(&down).unwrap();
    let of_stub = || {
        let table = lab.lab.bgp_table("tier1-1").unwrap();
        table.into_iter().find(|of| of.prefix == "2001:db8:f000:100::/56").map_or(0, |of| of.routes)
    };
    wait_until("both providers announce the stub again", || of_stub() == 2);
    assert!(reaches(&from, &to, (host, 4000).into(), 20));
}

#[test]
fn shares_of_providers_blocks_are_in_no_global_table() {
    let topology = Topology::parse("interdomain:addressing=provider,stubs=4").unwrap();
    let lab = TestLab::up(&topology, "bgp-share");
    wait_until("the provider knows its stubs", || {
        let known = prefixes(&lab.lab, "provider-a");
        ["2001:db8:4000:100::/56", "2001:db8:4000:300::/56"]
            .iter()
            .all(|stub| known.contains(&(*stub).to_owned()))
    });
    for tier1 in ["tier1-1", "tier1-2"] {
        let mut known = prefixes(&lab.lab, tier1);
        known.sort();
        let blocks = ["1", "2", "4", "6", "8", "c"].map(|digit| format!("2001:db8:{digit}000::/36"));
        assert_eq!(known, blocks, "{tier1}");
    }
    // The stub's router has an address of each share.
    let [first, _] = &lab.lab.node("gateway").unwrap().loopback_v6[..] else { panic!() };
    let (from, to) = (lab.socket("far0", lab.v6("far0").into()), lab.socket("gateway", (*first).into()));
    assert!(reaches(&from, &to, (*first, 4000).into(), 20));
}
