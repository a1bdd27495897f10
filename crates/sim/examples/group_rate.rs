//! Shows what `--rate auto` gets of simulated paths: one line for each, or a map of goodput by loss and round trip.

use std::time::Duration;

use rand::RngExt;
use treecast_proto::tfmcc::Control;
use treecast_sim::{
    network::{Loss, generator},
    tfmcc::{
        Flow, Lie, Policer, Scenario, Span,
        groups::{self, Host, Session},
        run,
    },
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

/// Several flows on 50 Mbit/s for a minute: the share of each, least, middle and most of the seeds, and the least of Jain's index.
fn shared(name: &str, flows: &[Flow], round_trips: &[f64], products: f64, seeds: u64) {
    let rate = 50_000_000;
    let mut shares: Vec<Vec<f64>> = vec![Vec::new(); flows.len()];
    let (mut jains, mut losses) = (Vec::new(), Vec::new());
    for seed in 0..seeds {
        let mut random = generator(seed, 0);
        let round_trip = millis(40.0);
        let mut plan = Scenario::alone(seed, flows[0], rate, round_trip, queue(rate, round_trip, products));
        plan.flows = flows.iter().map(|flow| (*flow, millis(random.random_range(0.0..2000.0)))).collect();
        plan.round_trips = round_trips.iter().map(|ms| millis(*ms)).collect();
        plan.length = Duration::from_secs(60);
        let figures = run(&plan);
        let parts: Vec<f64> = figures
            .iter()
            .map(|flow| flow.delivered_bps(Duration::from_secs(5), plan.length) / rate as f64)
            .collect();
        let (sum, squares) =
            (parts.iter().sum::<f64>(), parts.iter().map(|share| share * share).sum::<f64>());
        jains.push(sum * sum / (squares * parts.len() as f64));
        losses.push(figures[0].lost(Duration::from_secs(5), plan.length));
        parts.into_iter().zip(&mut shares).for_each(|(part, all)| all.push(part));
    }
    jains.sort_by(f64::total_cmp);
    losses.sort_by(f64::total_cmp);
    let shown: Vec<_> = shares
        .iter_mut()
        .map(|all| {
            all.sort_by(f64::total_cmp);
            format!("{:.2} {:.2} {:.2}", all[0], all[all.len() / 2], all[all.len() - 1])
        })
        .collect();
    println!(
        "{name:<18} {products} BDP: [{}] jain {:.2}, lost {:.3}",
        shown.join(" | "),
        jains[0],
        losses[losses.len() / 2]
    );
}

/// What a sender does in each tenth of the seconds from 5 to 15, beside others.
fn trace(name: &str, flows: &[Flow], round_trips: &[f64], products: f64, loss: f64) {
    let (rate, round_trip) = (50_000_000, millis(40.0));
    let mut plan = Scenario::alone(0, flows[0], rate, round_trip, queue(rate, round_trip, products));
    plan.flows = flows.iter().map(|flow| (*flow, Duration::ZERO)).collect();
    plan.round_trips = round_trips.iter().map(|ms| millis(*ms)).collect();
    plan.faults.loss = Loss::Uniform(loss);
    let figures = run(&plan);
    println!("{name}, {products} BDP, loss {loss}: cause, rate, delivered, dropped (Mbit/s), queue (ms)");
    for (flow, figures) in figures.iter().enumerate() {
        println!("flow {flow}: {}", steps(&figures.spans[50..150]).join(" "));
    }
}

fn steps(spans: &[Span]) -> Vec<String> {
    let step = |span: &Span| {
        let cause = span.cause.map_or("?".into(), |cause| format!("{cause:?}"));
        let mbit = |bits: u64| bits / 1_000_000;
        let dropped = mbit((span.sent_bytes - span.delivered_bytes) * 80);
        let (rate, delivered) = (mbit(span.rate_bps), mbit(span.delivered_bytes * 80));
        format!("{}{rate}>{delivered}-{dropped}q{}", &cause[..1], span.queue.as_millis())
    };
    spans.iter().map(step).collect()
}

/// What goes wrong: the share of the link that is used each second.
fn faults() {
    let (rate, round_trip) = (50_000_000, millis(40.0));
    let show = |name: &str, change: &dyn Fn(&mut Scenario)| {
        let mut plan = Scenario::alone(1, MODEL, rate, round_trip, queue(rate, round_trip, 1.0));
        plan.length = Duration::from_secs(20);
        change(&mut plan);
        let figures = &run(&plan)[0];
        let second =
            |from: u64| figures.delivered_bps(Duration::from_secs(from), Duration::from_secs(from + 1));
        let shares: Vec<_> = (0..20).map(|from| format!("{:.2}", second(from) / rate as f64)).collect();
        let lost = figures.lost(Duration::from_secs(5), plan.length);
        println!(
            "{name:<12} lost {lost:.3}, queue {:>5.1} ms: {}",
            figures.queue().as_secs_f64() * 1e3,
            shares.join(" ")
        );
    };
    show("nothing", &|_| {});
    show("outage", &|plan| {
        plan.rates_bps.extend([(Duration::from_secs(5), 0), (Duration::from_secs(10), rate)])
    });
    show("narrow", &|plan| plan.rates_bps.push((Duration::from_secs(10), rate / 10)));
    show("wider", &|plan| {
        plan.rates_bps = vec![(Duration::ZERO, rate / 10), (Duration::from_secs(10), rate)]
    });
    show("policer", &|plan| {
        plan.rates_bps = vec![(Duration::ZERO, rate * 10)];
        plan.faults.policer = Some(Policer { rate_bps: rate, burst_bytes: rate / 40 });
    });
    show("all marked", &|plan| plan.faults.marks_all = true);
    show("marks 0.1", &|plan| plan.faults.marks_above = Some(0.1));
    show("drift", &|plan| plan.faults.drift = 200e-6);
    show("drift back", &|plan| plan.faults.drift = -200e-6);
    show("jump", &|plan| plan.faults.jump = Some((millis(700.0), Duration::from_secs(6))));
    show("late", &|plan| plan.faults.lateness = millis(30.0));
    show("pauses", &|plan| (plan.faults.busy, plan.faults.idle) = (millis(500.0), millis(500.0)));
    show("bursts", &|plan| {
        plan.faults.loss = Loss::Bursts { enter: 0.002, leave: 0.2, lost: 1.0, outside: 0.0 };
    });
    show("own loss", &|plan| plan.faults.own_loss = 0.02);
    show("lies high", &|plan| plan.faults.lies = vec![Lie::Factor(10.0)]);
    show("lies low", &|plan| plan.faults.lies = vec![Lie::Factor(0.1)]);
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

/// The share that one of six receivers leaves the others by lying low: the least and the middle of five seeds, in a minute and in five.
fn liars() {
    let honest = Host {
        rate_bps: 20_000_000,
        loss: 0.0,
        lie: Lie::Truth,
        follows_calls: true,
        lateness: Duration::ZERO,
    };
    for (lie, ms) in [Lie::Factor(0.1), Lie::Factor(0.5), Lie::Bears(1_000_000), Lie::Bears(100_000)]
        .into_iter()
        .flat_map(|lie| [10, 40, 100].map(|ms| (lie, ms)))
    {
        let minutes = [1, 5].map(|minutes| {
            let length = Duration::from_secs(minutes * 60);
            let mut shares: Vec<f64> = (0..5)
                .map(|seed| {
                    let round_trip = Duration::from_millis(ms);
                    let mut plan = Session { seed, hosts: vec![honest; 6], round_trip, length };
                    let sum = |plan: &Session| {
                        let outcome = groups::run(plan);
                        (1..6).map(|host| outcome.goodput_bps(host, length)).sum::<f64>()
                    };
                    let without = sum(&plan);
                    plan.hosts[0].lie = lie;
                    sum(&plan) / without
                })
                .collect();
            shares.sort_by(f64::total_cmp);
            format!("{:.3} {:.3}", shares[0], shares[2])
        });
        println!("{lie:?}, {ms} ms: {} in a minute, {} in five", minutes[0], minutes[1]);
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

/// Tables of the share of a link that is used from the third second to the thirtieth, by loss and round trip. The queue holds one
/// bandwidth-delay product.
fn map() {
    const ROUND_TRIPS: [f64; 7] = [1.0, 5.0, 20.0, 50.0, 100.0, 200.0, 300.0];
    let rows = [0.0, 0.001, 0.005, 0.01, 0.02, 0.05];
    let auto = Flow::Auto { receivers: 3 };
    let flows = [("auto", MODEL), ("tfmcc", auto), ("CUBIC", Flow::Cubic), ("BBR", Flow::Bbr)];
    for mbit in [10, 100, 1000] {
        for (name, flow) in flows {
            println!("\n{name}, {mbit} Mbit/s\n");
            println!("| loss | {} |", ROUND_TRIPS.map(|ms| format!("{ms} ms")).join(" | "));
            println!("|---|{}", "---|".repeat(ROUND_TRIPS.len()));
            for loss in rows {
                let cells = ROUND_TRIPS.map(|ms| format!("{:.2}", cell(flow, mbit, ms, loss)));
                println!("| {:.1} % | {} |", loss * 100.0, cells.join(" | "));
            }
        }
    }
}

fn cell(flow: Flow, mbit: u64, ms: f64, loss: f64) -> f64 {
    let (rate, round_trip) = (mbit * 1_000_000, millis(ms));
    let mut plan = Scenario::alone(1, flow, rate, round_trip, queue(rate, round_trip, 1.0));
    plan.faults.loss = Loss::Uniform(loss);
    plan.control = Control::Tfmcc;
    run(&plan)[0].delivered_bps(Duration::from_secs(3), plan.length) / rate as f64
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_asked = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    if is_asked("alone") {
        for (mbit, ms) in [
            (10, 2.0),
            (10, 40.0),
            (10, 200.0),
            (100, 10.0),
            (100, 100.0),
            (1000, 2.0),
            (1000, 10.0),
            (1000, 200.0),
        ] {
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
    if words.iter().any(|word| word == "map") {
        return map();
    }
    if is_asked("liars") {
        liars();
    }
    if is_asked("start") {
        start(1000, 200.0);
    }
    if words.iter().any(|word| word == "trace") {
        trace("alone", &[MODEL], &[], 4.0, 0.0);
        trace("alone", &[MODEL], &[], 1.0, 0.01);
        trace("cubic", &[MODEL, Flow::Cubic], &[], 1.0, 0.0);
        trace("bbr", &[MODEL, Flow::Bbr], &[], 1.0, 0.0);
        trace("model", &[MODEL; 2], &[], 1.0, 0.0);
        trace("four", &[MODEL; 4], &[10.0, 20.0, 40.0, 80.0], 1.0, 0.0);
    }
    if is_asked("faults") {
        faults();
    }
    if is_asked("narrow") {
        narrowing();
    }
    if is_asked("shared") {
        for products in [1.0, 4.0] {
            shared("model, cubic", &[MODEL, Flow::Cubic], &[40.0], products, 8);
            shared("model, bbr", &[MODEL, Flow::Bbr], &[40.0], products, 8);
            shared("model, model", &[MODEL, MODEL], &[40.0], products, 8);
            shared("cubic, bbr", &[Flow::Cubic, Flow::Bbr], &[40.0], products, 8);
            shared("cubic, cubic", &[Flow::Cubic, Flow::Cubic], &[40.0], products, 8);
            shared("bbr, bbr", &[Flow::Bbr, Flow::Bbr], &[40.0], products, 8);
            shared("model, 10-80 ms", &[MODEL; 4], &[10.0, 20.0, 40.0, 80.0], products, 8);
            shared("cubic, 10-80 ms", &[Flow::Cubic; 4], &[10.0, 20.0, 40.0, 80.0], products, 8);
        }
    }
}
