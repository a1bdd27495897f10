//! Several rates at once: receivers behind narrow links move to a slower group, and the others do not notice.

use std::time::Duration;

use treecast_proto::vcmtp::Repair;
use treecast_sim::{
    network::{Loss, Narrow, Path},
    session::{ObjectPlan, ReceiverFigures, ReceiverPlan, Run, Scenario, run},
};

use crate::effort::some_seeds;

const SIZES: [usize; 4] = [8_000_000, 400_000, 2_000_000, 14_000_000];

#[test]
fn slow_receivers_get_everything_and_fast_ones_do_not_notice() {
    for seed in some_seeds(1, 3) {
        for repair in [Repair::Nack, Repair::After] {
            let alone = whole(&scenario(seed, repair, &[None; 3]));
            let links = [None, None, None, Some(8_000_000), Some(8_000_000), Some(1_500_000)];
            let together = whole(&scenario(seed, repair, &links));
            let [fast, slow] = [&together[..3], &together[3..]];
            assert!(last(fast) <= last(&alone).mul_f64(1.03), "seed {seed}: {fast:?} and alone {alone:?}");
            let groups: Vec<u8> = together.iter().map(|receiver| receiver.group).collect();
            assert_eq!(groups, [0, 0, 0, 1, 1, 2], "seed {seed}");
            for receiver in &together {
                let share = receiver.duplicate_bytes as f64 / SIZES.iter().sum::<usize>() as f64;
                assert!(share <= 0.02, "seed {seed}: {receiver:?} got {share} twice");
            }
            // At 5 Mbit/s, everything takes 39 s and its headers 2; the first second was lost.
            assert!(last(&slow[..2]) < Duration::from_secs(50), "seed {seed}: {slow:?}");
        }
    }
}

/// With a timeout, the time of a slow receiver begins when its group has had its pass, and nobody fails who need not.
#[test]
fn a_timeout_waits_for_the_pass_of_the_slower_group() {
    let links = [None, Some(8_000_000)];
    let mut scenario = scenario(1, Repair::Nack, &links);
    scenario.objects.drain(..3);
    scenario.retransmission_timeout_factor = Some(0.5);
    scenario.close_at += Duration::from_secs(600);
    assert_eq!(whole(&scenario).len(), 2);
}

fn last(receivers: &[ReceiverFigures]) -> Duration {
    receivers.iter().map(|receiver| receiver.time).max().unwrap_or_default()
}

/// The receivers' figures of a run in which all of them get everything.
fn whole(scenario: &Scenario) -> Vec<ReceiverFigures> {
    let Run { faults, complete_receivers, receivers, .. } = run(scenario, false);
    assert!(faults.is_empty(), "seed {}: {}", scenario.seed, faults.join("\n"));
    assert_eq!(complete_receivers, scenario.receivers.len(), "seed {}", scenario.seed);
    receivers
}

/// At 50, 5 and 1 Mbit/s, to receivers with links of these rates.
fn scenario(seed: u64, repair: Repair, links: &[Option<u64>]) -> Scenario {
    let objects = SIZES.into_iter().map(ObjectPlan::of).collect();
    Scenario {
        seed,
        repair,
        max_run_len: 8 * 1420,
        rate_bps: 50_000_000,
        slower_rates_bps: vec![5_000_000, 1_000_000],
        ..Scenario::of(objects, links.iter().map(|link| receiver(*link)).collect())
    }
}

fn receiver(link: Option<u64>) -> ReceiverPlan {
    let path = Path { loss: Loss::Uniform(0.005), ..Path::clean(Duration::from_millis(5)) };
    ReceiverPlan {
        narrow: link.map(|rate_bps| Narrow::new(rate_bps, Duration::from_millis(100))),
        control_rate_bps: link.unwrap_or(1_000_000_000),
        ..ReceiverPlan::of(path, SIZES.len())
    }
}
