//! A member of a carousel's group that sends blocks and repair symbols that it has made up: 50 packets a second.

use std::time::Duration;

use treecast_sim::{
    carousel::{Forger, ReceiverPlan, Scenario, sent_until_done},
    network::{Loss, Path},
};

/// A loop takes three seconds, in which three times as many packets are forged as the object has chunks.
const SIZE: usize = 3_000_000;
const RATE_BPS: u64 = 8_000_000;

fn scenario(seed: u64, fec: bool, loss: f64, forger: Option<Forger>) -> Scenario {
    let receiver = |number: u64| ReceiverPlan {
        join_at: Duration::from_millis(300 * number),
        die_at: None,
        path: Path { loss: Loss::Uniform(loss), ..Path::clean(Duration::from_millis(1)) },
        faults: vec![None],
    };
    Scenario {
        seed,
        block_len: 1420,
        max_run_len: 44 * 1420,
        rate_bps: RATE_BPS,
        fec,
        start: seed * 777_777,
        first_row: 0,
        signs: true,
        forger,
        sizes: vec![SIZE],
        withdraw: None,
        receivers: (0..3).map(receiver).collect(),
    }
}

/// What was sent until the last receiver was done, in times the object.
fn loops(scenario: &Scenario) -> f64 {
    let sent = sent_until_done(scenario).unwrap_or_else(|faults| panic!("{scenario:?}: {faults:?}"));
    sent.into_iter().max().unwrap_or_default() as f64 / SIZE as f64
}

/// The measure sees what forged blocks do where none are signed.
#[test]
fn a_carousel_without_signatures_is_slowed_down() {
    for seed in 0..3 {
        let alone = Scenario { signs: false, ..scenario(seed, false, 0.0, None) };
        let with = Scenario { forger: Some(Forger::new(true)), ..alone.clone() };
        let sent = sent_until_done(&with).ok().and_then(|sent| sent.into_iter().max());
        let with = sent.map(|sent| sent as f64 / SIZE as f64);
        println!("seed {seed}: {:.3} loops alone, {with:?} with a forger", loops(&alone));
        assert!(with.is_none_or(|with| with > 2.0 * loops(&alone)), "seed {seed}: {with:?}");
    }
}

#[test]
fn a_member_that_forges_50_packets_a_second_slows_no_carousel() {
    for (fec, loss) in [(false, 0.0), (true, 0.0), (false, 0.02), (true, 0.02), (true, 0.1)] {
        for seed in 0..3 {
            let alone = loops(&scenario(seed, fec, loss, None));
            for is_ahead in [false, true] {
                let with = loops(&scenario(seed, fec, loss, Some(Forger::new(is_ahead))));
                let what = format!("fec {fec}, {loss} lost, seed {seed}, ahead {is_ahead}");
                println!("{what}: {alone:.3} alone, {with:.3} with a forger");
                assert!(with <= 1.5 * alone, "{what}: {with:.3} loops instead of {alone:.3}");
            }
        }
    }
}
