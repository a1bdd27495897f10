//! Sessions with local groups, whole: what arrives, and what it costs.

mod net;

use std::time::Duration;

use net::{Link, Plan, World};

use super::Mode;

/// Sites behind a common link, with this many receivers each. A site is 20 ms from the root, and its receivers are 1 ms apart.
fn sites(seed: u64, sites: usize, receivers: usize, (core, access): (f64, f64)) -> Plan {
    let (mut links, mut hosts) = (Vec::new(), Vec::new());
    for _ in 0..sites {
        links.push(Link { above: 0, delay: Duration::from_millis(20), loss: core });
        let site = links.len();
        for _ in 0..receivers {
            links.push(Link { above: site, delay: Duration::from_micros(500), loss: access });
            hosts.push(links.len());
        }
    }
    Plan::new(seed, links, hosts)
}

fn run(plan: Plan) -> World {
    let mut world = World::new(plan);
    let faults = world.run();
    assert!(faults.is_empty(), "{faults:#?}");
    world
}

#[test]
fn one_site_without_loss() {
    let world = run(sites(1, 1, 3, (0.0, 0.0)));
    assert_eq!((world.requests, world.repairs), (0, 0));
}

#[test]
fn every_byte_arrives_in_each_mode() {
    for mode in [Mode::Sender, Mode::Hierarchical, Mode::Local] {
        for seed in 0..5 {
            let mut plan = sites(seed, 3, 4, (0.05, 0.05));
            plan.mode = mode;
            let world = run(plan);
            let figures = world.sender.figures();
            println!("{mode:?} {seed}: {figures:?} {} {} {:?}", world.requests, world.repairs, world.time());
        }
    }
}
