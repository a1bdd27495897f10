//! What members that lie, forge or flood cost the others.

use std::time::Duration;

use treecast_proto::local::Seat;
use treecast_wire::message::GroupId;

use super::{run, seeds, seeds_and, sites};
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
    // With seeds 7 and 30, the forger and another controller claim one group.
    for seed in seeds_and(5, &[7, 30]) {
        let mut plan = sites(seed, 1, 6, (0.0, 0.1));
        plan.harm.insert(2, Harm::Forges);
        let world = run(plan);
        let refused = |node: &Node| node.machine.figures().refused_blocks;
        assert!(world.receivers.iter().all(|node| refused(node) <= 64));
        forged += world.receivers.iter().map(refused).sum::<u64>();
    }
    assert!(forged > 0);
}

/// The time that a session takes beside the same session in which this member behaves, in the median over all seeds: at the other sites, and at
/// the member's own. The last loss of a session decides about its length, and weighs on single seeds.
fn slowed_by(harm: Harm, most: u64) -> [f64; 2] {
    let mut slowed = [Vec::new(), Vec::new()];
    for seed in seeds(most) {
        let receiver = seed as usize % 15;
        let times = |harm: Option<Harm>| {
            let mut plan = plan(seed);
            plan.harm.extend(harm.map(|harm| (receiver, harm)));
            let world = run(plan);
            let time = |node: &Node| node.received.values().max().copied();
            [false, true].map(|is_own| {
                let honest = world.receivers.iter().enumerate().filter(|(number, _)| *number != receiver);
                let there = honest.filter(|(number, _)| (*number / 5 == receiver / 5) == is_own);
                let last = there.filter_map(|(_, node)| time(node)).max().expect("all have everything");
                // The sender waits for four seconds before it begins.
                (last - treecast_proto::Instant::ZERO).saturating_sub(Duration::from_secs(4)).as_secs_f64()
            })
        };
        let (before, after) = (times(None), times(Some(harm)));
        println!("{seed}: {before:.2?} s, {after:.2?} s");
        (0..2).for_each(|part| slowed[part].push(after[part] / before[part] - 1.0));
    }
    let medians = slowed.map(|mut slowed| {
        slowed.sort_by(f64::total_cmp);
        slowed[slowed.len() / 2]
    });
    println!("{:.1} % at the other sites, {:.1} % at its own", medians[0] * 100.0, medians[1] * 100.0);
    medians
}

#[test]
fn who_floods_slows_nobody() {
    let [others, own] = slowed_by(Harm::Floods, 21);
    assert!(others < 0.05 && own < 0.05, "{:.1} %, {:.1} %", others * 100.0, own * 100.0);
}

#[test]
fn who_claims_blocks_that_it_lacks_slows_nobody() {
    let [others, own] = slowed_by(Harm::Claims, 21);
    assert!(others < 0.05 && own < 0.05, "{:.1} %, {:.1} %", others * 100.0, own * 100.0);
}

/// A live controller keeps its group: whoever else claims it at the controller above, or at the sender, has no say there.
#[test]
fn who_claims_a_group_that_another_one_leads_does_not_get_it() {
    for seed in seeds(4) {
        for receiver in [3, 7] {
            let mut plan = sites(seed, 2, 5, (0.02, 0.05));
            let seat = |receiver: usize| Seat {
                group: GroupId(1 + receiver as u32 / 5),
                controller: member(1 + receiver / 5 * 5),
                parent: member(0),
                members: 4,
            };
            plan.seats = (0..10).map(|receiver| Some(seat(receiver))).collect();
            plan.harm.insert(receiver, Harm::Usurps);
            let world = run(plan);
            println!("{seed}, {receiver}: {:?}", world.time());
        }
    }
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
            members: 4,
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
    for seed in seeds_and(2, &[6]) {
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
