//! Repairs that would mend nothing: the group does not reach receivers with full packets, or no more. They get what they lack over
//! their own connections, and the group is not filled with symbols for them.

use std::time::Duration;

use treecast_proto::{fec::Share, vcmtp::Repair};
use treecast_sim::{
    network::{Loss, Path},
    session::{Figures, ObjectPlan, ReceiverPlan, Scenario, run},
};

use crate::effort::some_seeds;

const SIZE: usize = 3_000_000;
const RATE_BPS: u64 = 50_000_000;

const SHARES: [Share; 3] = [Share::Auto, Share::Needed, Share::Percent(10)];

fn scenario(seed: u64, block_len: u16, paths: &[Path]) -> Scenario {
    let receiver = |path: &Path| ReceiverPlan {
        moves: Some(Vec::new()),
        control_rate_bps: RATE_BPS,
        ..ReceiverPlan::of(*path, 1)
    };
    Scenario {
        seed,
        block_len,
        max_run_len: u32::from(block_len) * 4,
        rate_bps: RATE_BPS,
        shares_rate: true,
        repair: if seed.is_multiple_of(4) { Repair::After } else { Repair::Nack },
        fec: Some(SHARES[seed as usize % SHARES.len()]),
        ..Scenario::of(vec![ObjectPlan::of(SIZE)], paths.iter().map(receiver).collect())
    }
}

fn lossy(loss: f64) -> Path {
    Path { loss: Loss::Uniform(loss), control_loss: loss, ..Path::clean(Duration::from_millis(1)) }
}

/// The figures of a run in which every receiver gets the object.
fn whole(scenario: &Scenario) -> Figures {
    let run = run(scenario, false);
    let of = format!("seed {}, {:?} {:?}", scenario.seed, scenario.repair, scenario.fec);
    assert!(run.faults.is_empty(), "{of}: {}", run.faults.join("\n"));
    assert_eq!(run.complete_receivers, scenario.receivers.len(), "{of}: {:?}", run.figures);
    run.figures
}

/// The worst of many seeds: repair symbols, to the group and to single receivers, and the time.
fn worst(make: impl Fn(u64) -> Scenario) -> (u64, Duration) {
    let figures: Vec<Figures> = some_seeds(3, 12).map(|seed| whole(&make(seed))).collect();
    let symbols = figures.iter().map(|figures| figures.repair_symbols).max().unwrap_or_default();
    (symbols, figures.iter().map(|figures| figures.time).max().unwrap_or_default())
}

/// A sender whose card has an MTU of 9,000 bytes, behind a bridge with one of 1,500. Messages pass, and blocks and symbols do not.
#[test]
fn full_packets_that_vanish_are_not_sent_again_to_the_group() {
    let blocks = (SIZE as u64).div_ceil(8_900);
    for receivers in [1, 2, 5] {
        let path = Path { longest: Some(1_500), ..lossy(0.05) };
        let (symbols, time) = worst(|seed| scenario(seed, 8_900, &vec![path; receivers]));
        println!("{receivers} receivers, {blocks} blocks: {symbols} symbols, {time:?}");
        // Each receiver is sent as many as it lacks, after two rounds for all of them. A round makes up for a loss of up to 80 %.
        assert!(symbols < blocks * (receivers as u64 + 12), "{receivers}: {symbols} symbols");
        assert!(time < Duration::from_secs(2 + 2 * receivers as u64), "{receivers}: {time:?}");
    }
}

/// A link that the receivers are behind goes dark 50 ms before the group has had everything.
#[test]
fn a_path_that_goes_dark_at_the_end_takes_a_few_rounds() {
    let blocks = (SIZE as u64).div_ceil(1_420);
    let sent = Duration::from_millis(50) + Duration::from_secs_f64(SIZE as f64 * 8.0 / RATE_BPS as f64);
    for receivers in [1, 2, 5] {
        let path = Path { cut_at: Some(sent - Duration::from_millis(50)), ..lossy(0.05) };
        let (symbols, time) = worst(|seed| scenario(seed, 1_420, &vec![path; receivers]));
        println!("{receivers} receivers, {blocks} blocks: {symbols} symbols, {time:?}");
        assert!(symbols < blocks * 2, "{receivers}: {symbols} symbols");
        assert!(time < sent + Duration::from_millis(2_500), "{receivers}: {time:?}");
    }
}
