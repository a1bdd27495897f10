//! Shows what `--rate auto` gets of simulated paths: one line for each, or a map of goodput by loss and round trip.

use std::time::Duration;

use treecast_proto::tfmcc::Control;
use treecast_sim::{
    network::Loss,
    tfmcc::{Faults, Flow, Scenario, run},
};

const MODEL: Flow = Flow::Model { receivers: 3 };

fn millis(millis: f64) -> Duration {
    Duration::from_secs_f64(millis / 1000.0)
}

fn queue(rate_bps: u64, round_trip: Duration, products: f64) -> u64 {
    ((rate_bps as f64 / 8.0 * round_trip.as_secs_f64() * products) as u64).max(6 * 1500)
}

/// One flow alone.
fn alone(flow: Flow, mbit: u64, ms: f64, products: f64, loss: f64, seconds: u64) {
    let (rate, round_trip) = (mbit * 1_000_000, millis(ms));
    let mut plan = Scenario::alone(1, flow, rate, round_trip, queue(rate, round_trip, products));
    plan.length = Duration::from_secs(seconds);
    plan.faults.loss = Loss::Uniform(loss);
    if flow != MODEL {
        plan.control = Control::Tfmcc;
    }
    let flows = run(&plan);
    let part = |from: u64, until: u64| {
        flows[0].delivered_bps(Duration::from_secs(from), Duration::from_secs(until)) / rate as f64
    };
    println!(
        "{mbit:>4} Mbit/s {ms:>5} ms {products:>4} BDP {loss:>6}: used {:.3}, after 5 s {:.3}, queue {:>6.2} ms = {:.2} RTT, dropped {:.4}, reports/RTT {:.1}",
        part(0, seconds),
        part(5, seconds),
        flows[0].queue().as_secs_f64() * 1e3,
        flows[0].queue().as_secs_f64() * 1e3 / ms,
        flows[0].lost(Duration::from_secs(1), Duration::from_secs(seconds)),
        flows[0].reports as f64 / (seconds as f64 / (ms / 1e3)),
    );
}

/// Several flows on 50 Mbit/s.
fn shared(name: &str, flows: &[Flow], round_trips: &[f64], products: f64, seeds: u64) {
    let rate = 50_000_000;
    let mut lines = Vec::new();
    for seed in 0..seeds {
        let round_trip = millis(round_trips[0]);
        let mut plan = Scenario::alone(seed, flows[0], rate, round_trip, queue(rate, round_trip, products));
        plan.flows = flows.iter().zip(0..).map(|(flow, at)| (*flow, millis(f64::from(at) * (300.0 + 170.0 * seed as f64)))).collect();
        plan.round_trips = round_trips.iter().map(|ms| millis(*ms)).collect();
        plan.length = Duration::from_secs(60);
        let figures = run(&plan);
        let shares: Vec<f64> = figures
            .iter()
            .map(|flow| flow.delivered_bps(Duration::from_secs(5), plan.length) / rate as f64)
            .collect();
        let (sum, squares) = (shares.iter().sum::<f64>(), shares.iter().map(|share| share * share).sum::<f64>());
        let jain = sum * sum / (squares * shares.len() as f64);
        let shown: Vec<_> = shares.iter().map(|share| format!("{share:.2}")).collect();
        lines.push(format!("[{}] jain {jain:.2} lost {:.3}", shown.join(" "), figures[0].lost(Duration::from_secs(5), plan.length)));
    }
    println!("{name:<24} {products} BDP: {}", lines.join("; "));
}

fn narrowing() {
    let (rate, round_trip) = (50_000_000, millis(40.0));
    for products in [0.5, 1.0, 4.0] {
        let mut plan = Scenario::alone(1, MODEL, rate, round_trip, queue(rate, round_trip, products));
        plan.rates_bps.push((Duration::from_secs(10), rate / 10));
        plan.length = Duration::from_secs(20);
        let flows = run(&plan);
        let lost: Vec<_> = (0..40)
            .map(|tenth| {
                let from = Duration::from_millis(9_900 + tenth * 100);
                format!("{:.2}", flows[0].lost(from, from + Duration::from_millis(100)))
            })
            .collect();
        println!("narrows, {products} BDP: {}", lost.join(" "));
    }
}

fn start(mbit: u64, ms: f64) {
    let (rate, round_trip) = (mbit * 1_000_000, millis(ms));
    for flow in [MODEL, Flow::Bbr, Flow::Cubic] {
        let plan = Scenario::alone(1, flow, rate, round_trip, queue(rate, round_trip, 1.0));
        let flows = run(&plan);
        let mut sum = 0;
        let tenth = flows[0].spans.iter().position(|span| {
            sum += span.delivered_bytes;
            sum > 205_000_000
        });
        println!("200 MB over {mbit} Mbit/s and {ms} ms by {flow:?}: {:?} tenths of a second", tenth);
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_asked = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    if is_asked("alone") {
        for (mbit, ms) in [(10, 2.0), (10, 40.0), (10, 200.0), (100, 10.0), (100, 100.0), (1000, 2.0), (1000, 10.0), (1000, 200.0)] {
            for loss in [0.0, 0.001, 0.02] {
                alone(MODEL, mbit, ms, 1.0, loss, 30);
            }
        }
    }
    if is_asked("buffers") {
        for products in [0.1, 0.5, 4.0, 10.0] {
            alone(MODEL, 50, 40.0, products, 0.0, 30);
            alone(MODEL, 50, 40.0, products, 0.02, 30);
        }
    }
    if is_asked("start") {
        start(1000, 200.0);
    }
    if is_asked("narrow") {
        narrowing();
    }
    if is_asked("shared") {
        for products in [1.0, 4.0] {
            shared("model, cubic", &[MODEL, Flow::Cubic], &[40.0], products, 3);
            shared("model, bbr", &[MODEL, Flow::Bbr], &[40.0], products, 3);
            shared("model, model", &[MODEL, MODEL], &[40.0], products, 3);
            shared("cubic, bbr", &[Flow::Cubic, Flow::Bbr], &[40.0], products, 3);
            shared("cubic, cubic", &[Flow::Cubic, Flow::Cubic], &[40.0], products, 3);
            shared("bbr, bbr", &[Flow::Bbr, Flow::Bbr], &[40.0], products, 3);
            shared("model, 10-80 ms", &[MODEL; 4], &[10.0, 20.0, 40.0, 80.0], products, 3);
            shared("cubic, 10-80 ms", &[Flow::Cubic; 4], &[10.0, 20.0, 40.0, 80.0], products, 3);
        }
    }
    _ = Faults::default();
}
