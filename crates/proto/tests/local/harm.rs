//! What members that lie, forge or flood cost the others.

use std::time::Duration;

use treecast_proto::local::Seat;
use treecast_wire::message::GroupId;

use super::{run, seeds, sites};
use crate::network::{Harm, Node, Plan, World, member};

fn plan(seed: u64) -> Plan {
    let mut plan = sites(seed, 3, 5, (0.01, 0.02));
    plan.sizes = vec![1_000_000];
    // What leaves for one group takes room on the way to it.
    for link in &mut plan.links {
        link.rate_bps = if link.above == 0 { 2_400_000 } else { 4_000_000 };
    }
    plan
}

#[test]
fn who_forges_repairs_is_not_heard_any_more() {
    let mut forged = 0;
    for seed in seeds(5) {
        let mut plan = sites(seed, 1, 6, (0.0, 0.1));
        plan.harm.insert(2, Harm::Forges);
        let world = run(plan);
        let refused = |node: &Node| node.machine.figures().refused_blocks;
        assert!(world.receivers.iter().all(|node| refused(node) <= 64));
        forged += world.receivers.iter().map(refused).sum::<u64>();
    }
    assert!(forged > 0);
}

/// The time that a session takes at the sites other than the one where a member of this kind is, beside the same session in which it behaves, in the median over all seeds: the last loss of a session decides about its length, and weighs on single seeds.
fn slowed_by(harm: Harm, most: u64) -> f64 {
    let mut slowed = Vec::new();
    for seed in seeds(most) {
        let receiver = seed as usize % 15;
        let times = |harm: Option<Harm>| {
            let mut plan = plan(seed);
            plan.harm.extend(harm.map(|harm| (receiver, harm)));
            let world = run(plan);
            let time = |node: &Node| node.received.values().max().copied();
            let others = world.receivers.iter().enumerate().filter(|(number, _)| *number / 5 != receiver / 5);
            let last = others.filter_map(|(_, node)| time(node)).max().expect("all have everything");
            // The sender waits for four seconds before it begins.
            (last - treecast_proto::Instant::ZERO).saturating_sub(Duration::from_secs(4)).as_secs_f64()
        };
        let (before, after) = (times(None), times(Some(harm)));
        println!("{seed}: {before:.2} s, {after:.2} s");
        slowed.push(after / before - 1.0);
    }
    slowed.sort_by(f64::total_cmp);
    slowed[slowed.len() / 2]
}

#[test]
fn who_floods_slows_no_other_group() {
    let slowed = slowed_by(Harm::Floods, 11);
    println!("{:.1} % in the median", slowed * 100.0);
    assert!(slowed < 0.05, "{:.1} %", slowed * 100.0);
}

#[test]
fn who_claims_blocks_that_it_lacks_slows_no_other_group() {
    let slowed = slowed_by(Harm::Claims, 11);
    assert!(slowed < 0.05, "{:.1} %", slowed * 100.0);
}

/// How many seconds longer the other sites need when a member does this in groups that were made by hand, where the first of each site is the
/// controller. The session takes 20 s.
fn delay_by(harm: Harm, receiver: usize, seed: u64) -> f64 {
    let time = |harm: Option<Harm>| {
        let mut plan = plan(seed);
        plan.sizes = vec![4_000_000];
        let seat = |receiver: usize| Seat {
            group: GroupId(1 + receiver as u32 / 5),
            controller: member(1 + receiver / 5 * 5),
            parent: member(0),
        };
        plan.seats = (0..15).map(|receiver| Some(seat(receiver))).collect();
        plan.harm.extend(harm.map(|harm| (receiver, harm)));
        let mut world = World::new(plan);
        world.run();
        let others = world.receivers[5..].iter();
        let times = others.map(|node| node.received.get(&0).copied().expect("the others have everything"));
        (times.max().unwrap() - treecast_proto::Instant::ZERO).as_secs_f64()
    };
    let (before, after) = (time(None), time(Some(harm)));
    println!("{seed}, receiver {receiver}: {before:.2} s, {after:.2} s");
    after - before
}

/// The sender waits for such a group for 4 s, and a twentieth of the time.
#[test]
fn a_controller_that_says_its_group_lacks_everything_is_not_waited_for() {
    for seed in seeds(2) {
        let delay = delay_by(Harm::Lacks, 0, seed);
        assert!(delay < 6.0, "{delay:.2} s");
    }
}

/// Whoever is congested at the lowest rate has to leave. Who does not is not heeded any more: a member by its controller, and a controller by
/// the sender.
#[test]
fn who_sets_congestion_for_ever_is_not_heeded() {
    for (receiver, seed) in [(0, 1), (3, 2)] {
        let delay = delay_by(Harm::Congested, receiver, seed);
        assert!(delay < 30.0, "{delay:.2} s");
    }
}

/// It begins before there are groups: whoever took it for the sender would look for a group in vain.
#[test]
fn who_speaks_to_the_whole_session_is_not_taken_for_the_sender() {
    for seed in seeds(3) {
        let mut plan = sites(seed, 3, 5, (0.01, 0.05));
        plan.sizes = vec![1_000_000];
        plan.harm.insert(2, Harm::Reigns);
        println!("{seed}: {:?}", run(plan).time());
    }
}
