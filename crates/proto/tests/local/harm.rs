//! What members that lie, forge or flood cost the others.

use std::time::Duration;

use treecast_proto::local::Seat;
use treecast_wire::message::GroupId;

use super::{groups::all_are_placed, run, seeds, seeds_and, sites};
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

/// The time that a session takes beside the same session in which this member behaves, in the median over all seeds: at the other sites, at
/// the member's own, and at its own where it leads the group there. The last loss of a session decides about its length, and weighs
/// on single seeds.
fn slowed_by(harm: Harm, most: u64) -> [f64; 3] {
    let mut slowed = [Vec::new(), Vec::new(), Vec::new()];
    for seed in seeds(most) {
        let receiver = seed as usize % 15;
        let times = |harm: Option<Harm>| {
            let mut plan = plan(seed);
            plan.harm.extend(harm.map(|harm| (receiver, harm)));
            let world = run(plan);
            let time = |node: &Node| node.received.values().max().copied();
            let leads = world.receivers[receiver].machine.is_controller();
            let times = [false, true].map(|is_own| {
                let honest = world.receivers.iter().enumerate().filter(|(number, _)| *number != receiver);
                let there = honest.filter(|(number, _)| (*number / 5 == receiver / 5) == is_own);
                let last = there.filter_map(|(_, node)| time(node)).max().expect("all have everything");
                // The sender waits for four seconds before it begins.
                (last - treecast_proto::Instant::ZERO).saturating_sub(Duration::from_secs(4)).as_secs_f64()
            });
            (times, leads)
        };
        let ((before, _), (after, leads)) = (times(None), times(Some(harm)));
        println!("{seed}: {before:.2?} s, {after:.2?} s{}", if leads { ", it leads its group" } else { "" });
        slowed[0].push(after[0] / before[0] - 1.0);
        slowed[if leads { 2 } else { 1 }].push(after[1] / before[1] - 1.0);
    }
    let medians = slowed.map(|mut slowed| {
        slowed.sort_by(f64::total_cmp);
        slowed.get(slowed.len() / 2).copied().unwrap_or_default()
    });
    let [others, own, led] = medians.map(|median| median * 100.0);
    println!("{others:.1} % at the other sites, {own:.1} % at its own, {led:.1} % where it leads");
    medians
}

#[test]
fn who_floods_slows_nobody() {
    let [others, own, led] = slowed_by(Harm::Floods, 21);
    assert!(others < 0.05 && own < 0.05, "{:.1} %, {:.1} %", others * 100.0, own * 100.0);
    // A controller that floods in place of sending again is found out as one that answers nothing.
    assert!(led < 1.5, "{:.1} %", led * 100.0);
}

#[test]
fn who_claims_blocks_that_it_lacks_slows_nobody() {
    let slowed = slowed_by(Harm::Claims, 21);
    let [others, own, led] = slowed;
    assert!(others < 0.05 && own < 0.05 && led < 0.05, "{slowed:.3?}");
}

/// A live controller keeps its group: whoever else claims it at the controller above, or at the sender, has no say there, and its group
/// does not follow it. The one that claims it says that it loses half, so it is never named as the successor.
#[test]
fn who_claims_a_group_that_another_one_leads_does_not_get_it() {
    // The second group is below the sender, or below the first one.
    for (seed, above) in seeds(4).into_iter().flat_map(|seed| [(seed, 0), (seed, 1)]) {
        for receiver in [3, 7] {
            let mut plan = sites(seed, 2, 5, (0.02, 0.05));
            let seat = |receiver: usize| Seat {
                group: GroupId(1 + receiver as u32 / 5),
                controller: member(1 + receiver / 5 * 5),
                parent: member(if receiver < 5 { 0 } else { above }),
                members: 4,
            };
            plan.seats = (0..10).map(|receiver| Some(seat(receiver))).collect();
            plan.harm.insert(receiver, Harm::Usurps);
            let world = run(plan);
            let parent = if receiver < 5 { 0 } else { above };
            assert!(
                !world.admitted.contains(&(parent, receiver + 1)),
                "seed {seed}: receiver {receiver} leads a group at {parent}"
            );
            let honest = world.receivers.iter().enumerate().filter(|(number, _)| *number != receiver);
            for (number, node) in honest {
                let place = node.place.as_ref().expect("everybody has a group");
                let is_followed = place.controller == member(receiver + 1);
                assert!(!is_followed, "seed {seed}: receiver {number} follows it: {place:?}");
            }
            println!("{seed}, {receiver}: {:?}", world.time());
        }
    }
}

/// Its group follows it, because a later epoch counts there, until members that lack something find out that it lies. Others take the
/// group over then.
#[test]
fn who_tells_its_group_that_it_leads_it_slows_nobody_for_long() {
    let slowed = slowed_by(Harm::Crowns, 9);
    let [others, own, led] = slowed;
    assert!(others < 0.1 && own < 0.5 && led < 0.5, "{slowed:.3?}");
}

#[test]
fn who_keeps_what_it_has_to_itself_slows_nobody() {
    let slowed = slowed_by(Harm::Hoards, 9);
    let [others, own, led] = slowed;
    assert!(others < 0.05 && own < 0.2 && led < 0.2, "{slowed:.3?}");
}

/// The others wait for it at the sender, and look for a better group each time. They have everything in the end, but the session stays
/// open for as long as this goes on.
#[test]
fn who_founds_groups_that_nobody_is_in_holds_the_others_up_for_half_a_minute_at_most() {
    for seed in seeds(4) {
        let time = |harm: Option<Harm>| {
            let mut plan = plan(seed);
            plan.harm.extend(harm.map(|harm| (seed as usize % 15, harm)));
            let mut world = World::new(plan);
            let mut faults = world.run();
            faults.retain(|fault| !fault.starts_with("the sender has not ended"));
            assert!(faults.is_empty(), "seed {seed}: {faults:#?}");
            world.time().expect("all have everything").as_secs_f64()
        };
        let (before, after) = (time(None), time(Some(Harm::Founds)));
        println!("{seed}: {before:.2} s, {after:.2} s");
        assert!(after < before + 30.0, "seed {seed}: {before:.2} s, and {after:.2} s beside it");
    }
}

/// Clocks of controllers and of members jump while data leaves, so that all deadlines are over at once. A jump beyond the stall limit is
/// taken for silence.
#[test]
fn clocks_that_jump_cost_little() {
    for (seed, by) in seeds(4).into_iter().zip([1, 3, 6, 12].into_iter().cycle()) {
        let time = |jumps: bool| {
            let mut plan = sites(seed, 3, 5, (0.01, 0.03));
            plan.sizes = vec![1_000_000];
            let (when, by) = (Duration::from_secs(6), Duration::from_secs(by));
            plan.jumps.extend((0..15).step_by(4).filter(|_| jumps).map(|receiver| (receiver, (when, by))));
            run(plan).time().expect("all have everything").as_secs_f64()
        };
        let (before, after) = (time(false), time(true));
        println!("{seed}, {by} s: {before:.2} s, {after:.2} s");
        assert!(after < before + 5.0, "seed {seed}: {before:.2} s, and {after:.2} s with a jump of {by} s");
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

/// It begins before there are groups: whoever took it for the sender would look for a group in vain, ask for what was not sent yet, and
/// take the session for one at its lowest rate. Everybody has a group, and nobody asks for more than 64 blocks that were not sent.
#[test]
fn who_speaks_to_the_whole_session_is_not_taken_for_the_sender() {
    let (mut added, mut most_ahead) = (Vec::new(), 0);
    for seed in seeds(5) {
        let session = |harm: Option<Harm>| {
            let mut plan = sites(seed, 3, 5, (0.01, 0.05));
            plan.sizes = vec![1_000_000];
            plan.harm.extend(harm.map(|harm| (2, harm)));
            run(plan)
        };
        let (calm, shaken) = (session(None), session(Some(Harm::Reigns)));
        all_are_placed(&shaken);
        let [before, after] = [&calm, &shaken].map(|world| world.time().expect("all have everything"));
        println!("{seed}: {before:?}, {after:?}, {} blocks ahead", shaken.most_ahead);
        added.push(after.as_secs_f64() / before.as_secs_f64());
        most_ahead = most_ahead.max(shaken.most_ahead);
    }
    added.sort_by(f64::total_cmp);
    assert!(most_ahead <= 64, "{most_ahead} blocks");
    assert!(added[added.len() / 2] < 1.2, "{added:.2?} times as long");
}
