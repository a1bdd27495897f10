//! What members that lie, forge or flood cost the others.

use std::time::Duration;

use super::{run, seeds, sites};
use crate::network::{Harm, Node, Plan};

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

/// The time that a session takes with one member of this kind, beside the same session in which it behaves, in means over all seeds.
fn slowed_by(harm: Harm, most: u64) -> f64 {
    let (mut calm, mut harmed) = (Vec::new(), Vec::new());
    for seed in seeds(most) {
        let receiver = seed as usize % 15;
        let times = |harm: Option<Harm>| {
            let mut plan = plan(seed);
            plan.harm.extend(harm.map(|harm| (receiver, harm)));
            let world = run(plan);
            let time = |node: &Node| node.received.values().max().copied();
            let others = world.receivers.iter().enumerate().filter(|(number, _)| *number != receiver);
            let last = others.filter_map(|(_, node)| time(node)).max().expect("all have everything");
            if std::env::var_os("TREECAST_FIGURES").is_some() {
                println!("{harm:?} {:?} rate {}", world.sender.figures(), world.sender.rate_bps());
                for (number, node) in world.receivers.iter().enumerate() {
                    let place = node.machine.place().map(|place| place.controller);
                    println!(
                        "{number} {place:?} {:?} {:?} loss {}",
                        time(node),
                        node.machine.figures(),
                        node.machine.loss()
                    );
                }
            }
            // The sender waits for four seconds before it begins.
            (last - treecast_proto::Instant::ZERO).saturating_sub(Duration::from_secs(4)).as_secs_f64()
        };
        let (before, after) = (times(None), times(Some(harm)));
        println!("{seed}: {before:.2} s, {after:.2} s");
        calm.push(before);
        harmed.push(after);
    }
    harmed.iter().sum::<f64>() / calm.iter().sum::<f64>() - 1.0
}

#[test]
fn who_floods_slows_nobody() {
    let slowed = slowed_by(Harm::Floods, 4);
    assert!(slowed < 0.05, "{:.1} %", slowed * 100.0);
}

#[test]
fn who_claims_blocks_that_it_lacks_slows_nobody() {
    let slowed = slowed_by(Harm::Claims, 4);
    assert!(slowed < 0.05, "{:.1} %", slowed * 100.0);
}
