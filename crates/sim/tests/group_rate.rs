//! What `--rate auto` promises on simulated paths. TREECAST_SEEDS is the number of seeds of each claim; without it there are a few.

use std::time::Duration;

use rand::RngExt;
use treecast_proto::tfmcc::Control;
use treecast_sim::{
    network::{Loss, generator},
    tfmcc::{Figures, Flow, Scenario, run},
};

const MODEL: Flow = Flow::Model { receivers: 3 };

/// A load that a link of the fairness claims carries.
const SHARED_BPS: u64 = 50_000_000;
const ROUND_TRIP: Duration = Duration::from_millis(40);

fn seeds(few: u64) -> std::ops::Range<u64> {
    let asked = std::env::var("TREECAST_SEEDS").ok().map(|seeds| seeds.parse().expect("a number of seeds"));
    0..asked.unwrap_or(few)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A queue of so many bandwidth-delay products, and of some packets at least.
fn queue_bytes(rate_bps: u64, round_trip: Duration, products: f64) -> u64 {
    ((rate_bps as f64 / 8.0 * round_trip.as_secs_f64() * products) as u64).max(8 * 1500)
}

fn alone(seed: u64, rate_bps: u64, round_trip: Duration, products: f64) -> Scenario {
    let queue = queue_bytes(rate_bps, round_trip, products);
    Scenario { length: seconds(10), ..Scenario::alone(seed, MODEL, rate_bps, round_trip, queue) }
}

fn used(flow: &Figures, rate_bps: u64, from: Duration, until: Duration) -> f64 {
    flow.delivered_bps(from, until) / rate_bps as f64
}

/// Show 2: 200 MB over 1 Gbit/s and 200 ms in at most one and a half times what BBR takes.
#[test]
fn it_starts_about_as_fast_as_bbr() {
    const RATE_BPS: u64 = 1_000_000_000;
    let round_trip = Duration::from_millis(200);
    let tenths = |flow| {
        let queue = queue_bytes(RATE_BPS, round_trip, 1.0);
        let plan = Scenario { length: seconds(12), ..Scenario::alone(1, flow, RATE_BPS, round_trip, queue) };
        let mut sum = 0;
        run(&plan)[0].spans.iter().take_while(|span| { sum += span.delivered_bytes; sum < 200_000_000 }).count()
    };
    let (ours, bbrs) = (tenths(MODEL), tenths(Flow::Bbr));
    assert!(ours * 2 <= bbrs * 3, "{ours} and {bbrs} tenths of a second");
}

/// Flows that start within two seconds, for a minute on 50 Mbit/s.
fn shares(seed: u64, flows: &[Flow], round_trips: &[Duration], products: f64) -> Vec<f64> {
    let mut random = generator(seed, 0);
    let mut start = || Duration::from_millis(random.random_range(0..2_000));
    let plan = Scenario {
        flows: flows.iter().map(|flow| (*flow, start())).collect(),
        round_trips: round_trips.to_vec(),
        length: seconds(60),
        ..alone(seed, SHARED_BPS, ROUND_TRIP, products)
    };
    let part = |flow: &Figures| used(flow, SHARED_BPS, seconds(5), plan.length);
    run(&plan).iter().map(part).collect()
}

/// Show 3: each flow gets a half to two times its share.
fn assert_fair(name: &str, flows: &[Flow], few: u64) {
    for (seed, products) in seeds(few).flat_map(|seed| [(seed, 1.0), (seed, 4.0)]) {
        let parts = shares(seed, flows, &[], products);
        let fair = 1.0 / flows.len() as f64;
        let is_fair = parts.iter().all(|part| (fair / 2.0..=fair * 2.0).contains(part));
        assert!(is_fair, "{name}: {parts:.2?}, {products} products, seed {seed}");
    }
}

#[test]
fn it_shares_with_cubic() {
    assert_fair("CUBIC", &[MODEL, Flow::Cubic], 3);
}

#[test]
fn it_shares_with_another_of_its_kind() {
    assert_fair("auto", &[MODEL, MODEL], 3);
}

/// Show 7: reports in each round trip.
#[test]
fn few_reports_reach_the_sender_whatever_the_size_of_the_group() {
    for (receivers, length) in [(10, 10), (1_000, 5), (10_000, 2)] {
        let mut plan = alone(1, 10_000_000, ROUND_TRIP, 1.0);
        plan.flows[0].0 = Flow::Model { receivers };
        plan.length = seconds(length);
        let flow = &run(&plan)[0];
        let reports = flow.reports as f64 / (plan.length.as_secs_f64() / ROUND_TRIP.as_secs_f64());
        assert!(reports <= 10.0, "{reports} in a round trip, of {receivers}");
        let used = used(flow, 10_000_000, seconds(1), plan.length);
        assert!(used > 0.8, "{used} with {receivers}");
    }
}

/// Show 7: who lies high does not raise the rate above what others bear.
#[test]
fn a_receiver_that_lies_high_does_not_flood_the_others() {
    for seed in seeds(3) {
        let mut plan = alone(seed, SHARED_BPS, ROUND_TRIP, 1.0);
        plan.faults.lie = Some(10.0);
        let flow = &run(&plan)[0];
        let (used, lost) = (used(flow, SHARED_BPS, seconds(3), plan.length), flow.lost(seconds(3), plan.length));
        assert!(used > 0.85 && lost < 0.05, "{used} used, {lost} lost, seed {seed}");
    }
}

#[test]
fn marks_on_every_packet_do_not_stop_it() {
    let mut plan = alone(1, SHARED_BPS, ROUND_TRIP, 1.0);
    plan.faults.marks_all = true;
    let used = used(&run(&plan)[0], SHARED_BPS, seconds(3), plan.length);
    assert!(used > 0.5, "{used}");
}

/// Receivers whose hosts handle packets each 30 ms only. The kernel's timestamps show that the network is not to blame.
#[test]
fn receivers_that_are_late_do_not_slow_it_down() {
    let mut plan = alone(1, SHARED_BPS, ROUND_TRIP, 1.0);
    plan.faults.lateness = Duration::from_millis(30);
    let used = used(&run(&plan)[0], SHARED_BPS, seconds(3), plan.length);
    assert!(used > 0.9, "{used}");
}

/// The floor is above the capacity. Then it holds, and what is lost is lost.
#[test]
fn a_floor_above_the_capacity_holds() {
    let mut plan = alone(1, SHARED_BPS / 10, ROUND_TRIP, 1.0);
    plan.floor_bps = Some(SHARED_BPS / 5);
    let flow = &run(&plan)[0];
    let sent: u64 = flow.spans[50..100].iter().map(|span| span.sent_bytes * 8).sum();
    let sent_bps = sent as f64 / 5.0;
    let floor_bps = SHARED_BPS as f64 / 5.0;
    assert!((floor_bps * 0.9..floor_bps * 1.2).contains(&sent_bps), "{sent_bps}");
}

/// `--rate tfmcc` is what it was.
#[test]
fn tfmcc_is_still_slowed_down_by_random_losses() {
    let mut plan = alone(1, SHARED_BPS, ROUND_TRIP, 1.0);
    plan.flows[0].0 = Flow::Auto { receivers: 3, has_liar: false };
    plan.control = Control::Tfmcc;
    plan.faults.loss = Loss::Uniform(0.01);
    let used = used(&run(&plan)[0], SHARED_BPS, seconds(3), plan.length);
    assert!(used < 0.3, "{used}");
}
