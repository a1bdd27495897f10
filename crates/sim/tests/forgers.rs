//! A member of a carousel's group that sends blocks and repair symbols that it has made up: 50 packets a second.

use std::time::Duration;

use treecast_proto::fec::Share;
use treecast_sim::{
    network::{Loss, Path},
    session::{Carousel, Forger, ObjectPlan, ReceiverPlan, Scenario, run},
};

use crate::effort::some_seeds;

/// A loop takes three seconds, in which three times as many packets are forged as the object has chunks.
const SIZE: usize = 3_000_000;
const RATE_BPS: u64 = 8_000_000;

fn scenario(seed: u64, fec: bool, loss: f64, signs: bool, forger: Option<Forger>) -> Scenario {
    let path = Path { loss: Loss::Uniform(loss), ..Path::clean(Duration::from_millis(1)) };
    let receiver = |number: u64| ReceiverPlan {
        join_at: Duration::from_millis(300 * number),
        moves: Some(Vec::new()),
        ..ReceiverPlan::of(path, 1)
    };
    let (idle, start) = (Duration::from_secs(2), seed * 777_777);
    Scenario {
        seed,
        max_run_len: 44 * 1420,
        rate_bps: RATE_BPS,
        fec: fec.then_some(Share::Auto),
        carousel: Some(Carousel { idle, start, signs, forger, ..Carousel::of_seed(seed) }),
        ..Scenario::of(vec![ObjectPlan::of(SIZE)], (0..3).map(receiver).collect())
    }
}

/// What was sent until the last receiver was done, in times the object. `None` if not all was well.
fn loops(scenario: &Scenario) -> Option<f64> {
    let run = run(scenario, false);
    let sent = run.receivers.iter().map(|receiver| receiver.sent_bytes).max();
    run.faults.is_empty().then(|| sent.unwrap_or_default() as f64 / SIZE as f64)
}

/// The measure sees what forged blocks do where none are signed.
#[test]
fn a_carousel_without_signatures_is_slowed_down() {
    for seed in 0..3 {
        let alone = loops(&scenario(seed, false, 0.0, false, None)).expect("all is well");
        let with = loops(&scenario(seed, false, 0.0, false, Some(Forger::new(true))));
        println!("seed {seed}: {alone:.3} loops alone, {with:?} with a forger");
        assert!(with.is_none_or(|with| with > 2.0 * alone), "seed {seed}: {with:?}");
    }
}

#[test]
fn a_member_that_forges_50_packets_a_second_slows_no_carousel() {
    for (fec, loss) in [(false, 0.0), (true, 0.0), (false, 0.02), (true, 0.02), (true, 0.1)] {
        for seed in some_seeds(1, 3) {
            let alone = loops(&scenario(seed, fec, loss, true, None)).expect("all is well");
            for is_ahead in [false, true] {
                let with = loops(&scenario(seed, fec, loss, true, Some(Forger::new(is_ahead))))
                    .expect("all is well");
                let what = format!("fec {fec}, {loss} lost, seed {seed}, ahead {is_ahead}");
                println!("{what}: {alone:.3} alone, {with:.3} with a forger");
                assert!(with <= 1.5 * alone, "{what}: {with:.3} loops instead of {alone:.3}");
            }
        }
    }
}
