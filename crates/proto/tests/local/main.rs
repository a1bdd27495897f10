//! Sessions with local groups, whole: what arrives, and what it costs.
//!
//! `TREECAST_SEED` runs one seed, `TREECAST_SEEDS` so many of each test; `TREECAST_TRACE` prints every packet.

#![allow(clippy::disallowed_methods, reason = "a seed may be named in the environment")]

mod groups;
mod harm;
mod network;

use std::time::Duration;

use network::{Link, Node, Plan, World};
use treecast_proto::{
    local::{Mode, Tuning},
    object::CutShort,
};

const SITE: Duration = Duration::from_millis(20);
const ACCESS: Duration = Duration::from_micros(500);

/// A link that nothing waits for.
fn link(above: usize, delay: Duration, loss: f64) -> Link {
    Link { above, delay, loss, rate_bps: 0 }
}

/// Sites behind a common link, with this many receivers each. A site is 20 ms from the root, and its receivers are 1 ms apart.
fn sites(seed: u64, sites: usize, receivers: usize, (core, access): (f64, f64)) -> Plan {
    let (mut links, mut hosts) = (Vec::new(), Vec::new());
    for _ in 0..sites {
        links.push(link(0, SITE, core));
        let site = links.len();
        for _ in 0..receivers {
            links.push(link(site, ACCESS, access));
            hosts.push(links.len());
        }
    }
    Plan::new(seed, links, hosts)
}

fn run(plan: Plan) -> World {
    let seed = plan.seed;
    let mut world = World::new(plan);
    let faults = world.run();
    assert!(faults.is_empty(), "seed {seed}: {faults:#?}");
    world
}

/// A seed of the environment's, or those up to `most`.
fn seeds(most: u64) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    match number("TREECAST_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("TREECAST_SEEDS").unwrap_or(most)).collect(),
    }
}

/// Seeds like [`seeds`], and some more on which this has failed before.
fn seeds_and(most: u64, more: &[u64]) -> Vec<u64> {
    let mut all = seeds(most);
    if all.len() > 1 {
        all.extend(more.iter().filter(|seed| **seed >= all.len() as u64).copied().collect::<Vec<_>>());
    }
    all
}

fn sum(world: &World, figure: impl Fn(&Node) -> u64) -> u64 {
    world.receivers.iter().map(figure).sum()
}

#[test]
fn one_site_without_loss() {
    let world = run(sites(1, 1, 3, (0.0, 0.0)));
    assert_eq!((world.counts.requests, world.counts.repairs), (0, 0));
}

/// The paper's three schemes: every byte arrives in each, and only those send again who may.
#[test]
fn each_mode_mends_in_its_own_way() {
    let mut sums = [0; 3];
    for seed in seeds(5) {
        let world = |mode: Mode| {
            let mut plan = sites(seed, 3, 4, (0.05, 0.05));
            plan.mode = mode;
            // Half of the receivers lose more than a tenth, which no rate changes.
            plan.tuning.congestion_loss = 0.5;
            run(plan)
        };
        let sender = world(Mode::Sender);
        assert_eq!((sum(&sender, |node| node.machine.figures().sent_blocks), sender.counts.repairs), (0, 0));
        assert!(sender.sender.figures().session_repair_bytes > 0);
        let hierarchical = world(Mode::Hierarchical);
        assert_eq!(hierarchical.counts.regular_repairs, 0);
        assert!(sum(&hierarchical, |node| node.machine.figures().sent_blocks) > 0);
        let local = world(Mode::Local);
        assert!(local.counts.regular_repairs > 0);
        let repaired = |world: &World| {
            let figures = world.sender.figures();
            figures.session_repair_bytes + figures.group_repair_bytes
        };
        let (all, some, few) = (repaired(&sender), repaired(&hierarchical), repaired(&local));
        println!(
            "{seed}: the sender repairs {all}, {some}, {few} bytes; {} groups",
            groups::groups(&local).len()
        );
        sums = [sums[0] + all, sums[1] + some, sums[2] + few];
    }
    let [all, some, few] = sums;
    assert!(few < some && some < all, "{few} {some} {all}");
}

/// Each controller is killed once, and every survivor has every byte.
#[test]
fn controllers_that_die_cost_little() {
    let (mut added, mut faults, mut takeovers) = (Vec::new(), Vec::new(), Vec::new());
    for seed in seeds(8) {
        let world = |dies: bool| {
            let mut plan = sites(seed, 3, 5, (0.02, 0.03));
            plan.sizes = vec![300_000, 200_000];
            plan.controllers_die = dies;
            World::new(plan)
        };
        let mut calm = world(false);
        faults.extend(calm.run().into_iter().map(|fault| format!("{seed}: {fault}")));
        let mut shaken = world(true);
        let found = shaken.run().into_iter();
        faults.extend(found.map(|fault| format!("{seed}, killed {:?}: {fault}", shaken.killed)));
        assert!(!shaken.killed.is_empty(), "{seed}");
        takeovers.append(&mut shaken.takeovers);
        if let (Some(before), Some(after)) = (calm.time(), shaken.time()) {
            added.push((after.saturating_sub(before), seed));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    added.sort_unstable();
    takeovers.sort_unstable();
    let of = |list: &[Duration], share: f64| list[((list.len() - 1) as f64 * share) as usize];
    let times: Vec<Duration> = added.iter().map(|(time, _)| *time).collect();
    println!(
        "added: median {:?}, 99 % {:?}, worst {:?}; {} takeovers: median {:?}, worst {:?}",
        of(&times, 0.5),
        of(&times, 0.99),
        &added[added.len().saturating_sub(5)..],
        takeovers.len(),
        of(&takeovers, 0.5),
        &takeovers[takeovers.len().saturating_sub(5)..],
    );
    assert!(of(&times, 0.5) < Duration::from_secs(2));
    assert!(of(&takeovers, 1.0) < Duration::from_secs(1), "{takeovers:?}");
}

#[test]
fn one_loss_is_about_one_request_and_one_repair() {
    let (mut requests, mut repairs, mut losses) = (0, 0, 0);
    for seed in seeds(10) {
        let mut plan = sites(seed, 1, 12, (0.0, 0.01));
        plan.sizes = vec![500_000];
        let world = run(plan);
        requests += world.counts.requests;
        repairs += world.counts.repairs;
        losses += sum(&world, |node| node.machine.figures().lost_blocks);
    }
    let (requests, repairs) = (requests as f64 / losses as f64, repairs as f64 / losses as f64);
    println!("{requests:.2} requests and {repairs:.2} repairs for each of {losses} losses");
    assert!(requests < 1.2 && repairs < 1.5, "{requests:.2} {repairs:.2}");
}

#[test]
fn a_loss_that_all_share_is_about_one_request() {
    let (mut requests, mut repairs, mut losses) = (0, 0, 0);
    for seed in seeds(10) {
        let mut plan = sites(seed, 1, 12, (0.01, 0.0));
        plan.sizes = vec![500_000];
        let world = run(plan);
        requests += world.counts.requests;
        repairs += world.counts.repairs;
        losses += world.receivers[0].machine.figures().lost_blocks;
    }
    let (requests, repairs) = (requests as f64 / losses as f64, repairs as f64 / losses as f64);
    println!("{requests:.2} requests and {repairs:.2} repairs for each of {losses} losses that all share");
    assert!(requests < 4.5 && repairs < 1.2, "{requests:.2} {repairs:.2}");
}

#[test]
fn many_small_objects_arrive_whole() {
    for seed in seeds(2) {
        let mut plan = sites(seed, 2, 4, (0.02, 0.02));
        plan.sizes = (0..300).map(|number| number * 37 % 2_500).collect();
        let world = run(plan);
        println!("{seed}: {:?}, {} events", world.time(), world.counts.events);
    }
}

/// The sender is gone without a Goodbye. Members that lack something go on mending each other's losses, and end with an error when it has been
/// silent for the stall limit.
#[test]
fn whoever_never_hears_a_goodbye_ends_after_the_stall_limit() {
    for seed in seeds(3) {
        let mut plan = sites(seed, 1, 4, (0.05, 0.3));
        plan.sizes = vec![2_000_000];
        plan.sender_dies = Some(Duration::from_secs(9));
        let mut world = World::new(plan);
        world.run();
        for node in &world.receivers {
            let reason = node.closed_early.as_ref();
            let is_silent = matches!(reason, Some(CutShort::Silent(limit)) if limit.as_secs() == 15);
            assert!(node.closed && is_silent, "{seed}: {reason:?}");
        }
    }
}

/// The paper's semi-reliable transfer: a unit that is late is given up, and counted; the others arrive in time.
#[test]
fn a_unit_that_is_late_is_given_up() {
    for seed in seeds(3) {
        let deadline = Duration::from_millis(400);
        let mut plan = sites(seed, 2, 4, (0.1, 0.1));
        plan.sizes = vec![10_000; 100];
        plan.hashed = Duration::ZERO;
        plan.tuning = Tuning { deadline: Some(deadline), congestion_loss: 0.5, ..Tuning::default() };
        let mut world = World::new(plan);
        world.run();
        assert!(world.ended, "{seed}");
        let late = sum(&world, |node| node.machine.figures().late_objects);
        println!("{seed}: {late} of 800 are late");
        assert!((1..400).contains(&late), "{late}");
        for node in &world.receivers {
            assert!(node.closed && node.closed_early.is_none(), "{:?}", node.closed_early);
            assert_eq!(node.received.len() + node.failed.len(), 100);
            assert_eq!(node.failed.len() as u64, node.machine.figures().late_objects);
            assert!(node.released.len() > 50, "{} are released", node.released.len());
            for (object, time) in &node.received {
                let taken = *time - node.begun[object];
                assert!(taken <= deadline, "{taken:?}");
            }
        }
    }
}

/// Units of a stream come one by one. A receiver that comes late gets those from then on, and counts no earlier one as late.
#[test]
fn a_feed_goes_on_and_does_not_go_back() {
    for seed in seeds(3) {
        let mut plan = sites(seed, 2, 4, (0.02, 0.02));
        plan.sizes = vec![10_000; 150];
        plan.feed = Some(Duration::from_millis(100));
        plan.tuning =
            Tuning { deadline: Some(Duration::from_millis(500)), is_feed: true, ..Tuning::default() };
        plan.starts.insert(5, Duration::from_secs(9));
        let mut world = World::new(plan);
        world.run();
        assert!(world.ended, "{seed}");
        for (number, node) in world.receivers.iter().enumerate() {
            assert!(node.closed && node.closed_early.is_none(), "{seed}, {number}: {:?}", node.closed_early);
            let (got, late) = (node.received.len(), node.failed.len());
            println!("{seed}, {number}: {got} units, {late} late, {} released", node.released.len());
            let first = if number == 5 { 45..=60 } else { 0..=0 };
            assert!(first.contains(&(150 - got - late)), "{seed}, {number}: {got} and {late}");
            assert_eq!(late as u64, node.machine.figures().late_objects);
            assert!(late <= 10 && node.released.len() + 10 > got, "{seed}, {number}: {late} are late");
            assert!(node.received.keys().all(|unit| *unit as usize >= 150 - got - late), "{seed}, {number}");
        }
        let late = sum(&world, |node| node.failed.len() as u64);
        assert!(u64::from(world.sender.given_up()) <= late, "{} of {late}", world.sender.given_up());
    }
}

/// A receiver for which the lowest rate is too fast leaves (lgmp-mbone-1999, 4.3.1), and the others do not go on to wait for it.
#[test]
fn a_receiver_that_is_too_slow_leaves() {
    for seed in seeds(3) {
        let mut plan = sites(seed, 2, 3, (0.0, 0.01));
        // A fortieth of the rate, where the lowest is an eighth.
        plan.links[1].rate_bps = 40_000;
        plan.sizes = vec![2_000_000];
        let mut world = World::new(plan);
        let faults = world.run();
        assert_eq!(faults.len(), 1, "{faults:#?}");
        let slow = &world.receivers[0];
        // Its reports may have been lost, too: then nobody waits for it, and it hears nothing any more.
        let reason = slow.closed_early.as_ref();
        assert!(matches!(reason, Some(CutShort::Stopped(_) | CutShort::Silent(_))), "{reason:?}");
        println!("{seed}: {:?} {:?}", world.time(), slow.closed_early);
        assert!(world.time().unwrap() < Duration::from_secs(60));
    }
}

/// Who comes late gets what it has missed, from its group.
#[test]
fn who_comes_late_gets_everything() {
    for seed in seeds(3) {
        let mut plan = sites(seed, 2, 4, (0.01, 0.01));
        plan.sizes = vec![400_000, 400_000];
        plan.settling = Duration::from_secs(1);
        plan.starts.insert(2, Duration::from_millis(4_000));
        let world = run(plan);
        let figures = world.sender.figures();
        println!("{seed}: {:?} {figures:?}", world.time());
        assert!(figures.session_repair_bytes + figures.group_repair_bytes < 150_000, "{figures:?}");
    }
}

/// What was sent before a receiver came leaves at half of the session's rate when nothing else does.
#[test]
fn who_comes_when_all_is_sent_is_served_fast() {
    for seed in seeds_and(3, &[3]) {
        let mut plan = sites(seed, 1, 4, (0.0, 0.03));
        (plan.sizes, plan.rate_bps) = (vec![1_400_000], 10_000_000);
        plan.settling = Duration::from_secs(1);
        plan.hashed = Duration::from_secs(2);
        let start = Duration::from_millis(4_000);
        plan.starts.insert(2, start);
        let world = run(plan);
        let taken = world.time().unwrap() - start;
        println!("{seed}: {taken:?}");
        // At that rate alone it takes 2.2 s.
        assert!(taken < Duration::from_secs(6), "{taken:?}");
    }
}
