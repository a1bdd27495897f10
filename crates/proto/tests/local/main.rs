//! Sessions with local groups, whole: what arrives, and what it costs.

#![allow(clippy::disallowed_methods, reason = "a seed may be named in the environment")]

mod network;

use std::time::Duration;

use network::{Link, Plan, World};
use treecast_proto::local::Mode;

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

/// A seed of the environment's, or those up to `most`.
fn seeds(most: u64) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    match number("TREECAST_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("TREECAST_SEEDS").unwrap_or(most)).collect(),
    }
}

#[test]
fn a_controller_that_dies_costs_little() {
    let mut added = Vec::new();
    let mut faults = Vec::new();
    for seed in seeds(40) {
        let sites = |dies: bool| {
            let mut plan = sites(seed, 3, 5, (0.02, 0.03));
            let millis = 4_000 + 37 * (seed % 50);
            plan.controller_dies = dies.then(|| Duration::from_millis(millis));
            plan
        };
        let mut calm = World::new(sites(false));
        faults.extend(calm.run().into_iter().map(|fault| format!("{seed}: {fault}")));
        let mut world = World::new(sites(true));
        faults.extend(
            world.run().into_iter().map(|fault| format!("{seed}, killed {:?}: {fault}", world.killed)),
        );
        if let (Some(before), Some(after)) = (calm.time(), world.time()) {
            added.push(after.saturating_sub(before));
        }
        if seed == 0 {
            println!("{} events", calm.events_done);
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    added.sort_unstable();
    println!("added: {added:?}");
    assert!(added[added.len() / 2] < Duration::from_secs(2), "{added:?}");
}

#[test]
fn one_loss_is_about_one_request_and_one_repair() {
    let (mut requests, mut repairs, mut losses, mut duplicates) = (0, 0, 0, 0);
    for seed in seeds(10) {
        let mut plan = sites(seed, 1, 12, (0.0, 0.01));
        plan.sizes = vec![500_000];
        let world = run(plan);
        requests += world.requests;
        repairs += world.repairs;
        losses += world.receivers.iter().map(|node| node.machine.figures().lost_blocks).sum::<u64>();
        duplicates += world.receivers.iter().map(|node| node.machine.figures().duplicate_blocks).sum::<u64>();
        println!("{seed}: {:?} {:?}", world.sender.figures(), world.time());
    }
    let (requests, repairs) = (requests as f64 / losses as f64, repairs as f64 / losses as f64);
    println!(
        "{requests:.2} requests and {repairs:.2} repairs for each of {losses} losses; {duplicates} duplicates"
    );
    assert!(requests < 1.5 && repairs < 1.5, "{requests:.2} {repairs:.2}");
}

#[test]
fn a_loss_that_all_share_is_about_one_request() {
    let (mut requests, mut repairs, mut losses) = (0, 0, 0);
    for seed in seeds(10) {
        let mut plan = sites(seed, 1, 12, (0.01, 0.0));
        plan.sizes = vec![500_000];
        let world = run(plan);
        requests += world.requests;
        repairs += world.repairs;
        losses += world.receivers[0].machine.figures().lost_blocks;
        println!("{seed}: {:?} {:?}", world.sender.figures(), world.time());
    }
    let (requests, repairs) = (requests as f64 / losses as f64, repairs as f64 / losses as f64);
    println!("{requests:.2} requests and {repairs:.2} repairs for each of {losses} losses that all share");
    assert!(requests < 4.0 && repairs < 1.6, "{requests:.2} {repairs:.2}");
}

#[test]
fn groups_form_by_distance_and_are_bounded() {
    for seed in seeds(3) {
        let world = run(sites(seed, 6, 30, (0.0, 0.0)));
        let places = world.receivers.iter().map(|node| node.machine.place());
        let controllers = world.receivers.iter().filter(|node| node.machine.is_controller()).count();
        println!("{seed}: {controllers} controllers of {}", world.receivers.len());
        for (number, place) in places.enumerate() {
            let place = place.expect("everybody has a group");
            let controller = network::host_of(place.controller) - 1;
            assert_eq!(controller / 30, number / 30, "{number} is in a group of another site");
        }
        assert!((6..=24).contains(&controllers), "{controllers}");
    }
}

#[test]
fn who_forges_repairs_is_not_heard_any_more() {
    for seed in seeds(5) {
        let mut plan = sites(seed, 1, 6, (0.0, 0.1));
        plan.forgers.insert(2);
        let world = run(plan);
        let refused = |node: &network::Node| node.machine.figures().refused_blocks;
        assert!(world.receivers.iter().all(|node| refused(node) <= 64));
        assert!(world.receivers.iter().any(|node| refused(node) > 0));
    }
}
