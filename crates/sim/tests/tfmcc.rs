//! What `--rate auto` promises on a shared link, over a hundred seeds each.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use rand::RngExt;
use treecast_proto::tfmcc::Control;
use treecast_sim::{
    network::generator,
    tfmcc::{Faults, Figures, Flow, Lie, Scenario, run},
};

use crate::effort::is_long;

/// How many seeds each claim on shares is tried with. Other claims are tried with fewer.
const SEEDS: u64 = 100;
const FEW_SEEDS: u64 = 30;
const RATE_BPS: u64 = 50_000_000;
const ROUND_TRIP: Duration = Duration::from_millis(40);

/// 50 Mbit/s, 40 ms, a queue of a half to two bandwidth-delay products, one to twenty receivers, flows that start within
/// two seconds.
fn scenario(seed: u64, others: &[Flow]) -> Scenario {
    let mut random = generator(seed, 0);
    let product = (RATE_BPS as f64 / 8.0 * ROUND_TRIP.as_secs_f64()) as u64;
    let receivers = random.random_range(1..=20);
    let first = Flow::Auto { receivers };
    let mut start = || Duration::from_millis(random.random_range(0..2_000));
    let flows = std::iter::once(first).chain(others.iter().copied()).map(|flow| (flow, start())).collect();
    Scenario {
        seed,
        flows,
        rates_bps: vec![(Duration::ZERO, RATE_BPS)],
        queue_bytes: random.random_range(product / 2..=product * 2),
        round_trip: ROUND_TRIP,
        length: Duration::from_secs(60),
        floor_bps: None,
        retransmits: None,
        control: Control::Tfmcc,
        round_trips: Vec::new(),
        faults: Faults::default(),
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Runs every seed, or a quarter of them if the long tests do not run. `judge` gives a number for each run, and all of them are to lie in
/// `range`. Returns them in order.
fn all_seeds(
    seeds: u64,
    range: std::ops::RangeInclusive<f64>,
    plan: impl Fn(u64) -> Scenario + Sync,
    judge: impl Fn(&[Figures]) -> f64 + Sync,
) -> Vec<f64> {
    let seeds = if is_long() { seeds } else { seeds.div_ceil(4) };
    let next = AtomicU64::new(0);
    let work = || {
        let mut found = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return found;
            }
            let plan = plan(seed);
            found.push((judge(&run(&plan)), seed, plan));
        }
    };
    let mut found: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("it runs")).collect()
    });
    found.sort_by(|one, other| one.0.total_cmp(&other.0));
    let ends = (&found[0], &found[found.len() / 2].0, &found[found.len() - 1]);
    println!("lowest {:.3}, median {:.3}, highest {:.3}", ends.0.0, ends.1, ends.2.0);
    assert!(range.contains(&ends.0.0) && range.contains(&ends.2.0), "{ends:#?}");
    found.into_iter().map(|(number, ..)| number).collect()
}

/// What the first flow gets of what the second gets.
fn share(flows: &[Figures]) -> f64 {
    let delivered = |flow: usize| flows[flow].delivered_bps(seconds(2), seconds(60));
    delivered(0) / delivered(1)
}

/// Six seeds in 400 give more than twice, up to 2.8 (docs/results/congestion-control.md). Three of them are among the first
/// hundred.
#[test]
fn against_tcp_it_gets_between_half_and_twice() {
    let shares = all_seeds(SEEDS, 0.5..=3.0, |seed| scenario(seed, &[Flow::Cubic]), share);
    assert!(shares.iter().filter(|share| **share > 2.0).count() <= 3, "{shares:.2?}");
}

#[test]
fn against_another_of_its_kind_it_gets_between_half_and_twice() {
    all_seeds(
        SEEDS,
        0.5..=2.0,
        |seed| {
            let receivers = seed as usize % 5 + 1;
            scenario(seed, &[Flow::Auto { receivers }])
        },
        share,
    );
}

#[test]
fn alone_it_fills_the_link() {
    all_seeds(
        FEW_SEEDS,
        0.85..=1.0,
        |seed| Scenario { length: seconds(30), ..scenario(seed, &[]) },
        |flows| flows[0].delivered_bps(seconds(2), seconds(30)) / RATE_BPS as f64,
    );
}

/// From three seconds after the drop on, in no second; on the whole less than 1.5 %. A receiver hears of the queue's overflow when the
/// queue is through, and what was sent meanwhile beyond the link's rate is lost.
#[test]
fn after_the_link_drops_to_a_tenth_little_is_lost_three_seconds_later() {
    let plan = |seed| Scenario {
        rates_bps: vec![(Duration::ZERO, RATE_BPS), (seconds(15), RATE_BPS / 10)],
        length: seconds(40),
        ..scenario(seed, &[])
    };
    all_seeds(FEW_SEEDS, 0.0..=0.05, plan, |flows| {
        let whole = flows[0].lost(seconds(18), seconds(40));
        assert!(whole < 0.015, "{whole}");
        let tenth = |number: u64| Duration::from_millis(number * 100);
        (180..390).map(|begin| flows[0].lost(tenth(begin), tenth(begin + 10))).fold(0.0, f64::max)
    });
}

/// For ten seconds there is nothing for the group, and retransmissions fill the rate. What arrives from the group says nothing of the
/// path then, and nobody answers retransmissions: the rate fell to 0.6 % with one of these seeds, and stayed there. What the last loss
/// event asks for is heeded, of which the news may come when retransmissions have begun: 0.38 is the least that remains.
#[test]
fn with_nothing_but_retransmissions_to_send_it_keeps_its_rate() {
    let plan = |seed| {
        let retransmits = Some(seconds(10)..seconds(20));
        Scenario { retransmits, length: seconds(20), ..scenario(seed, &[]) }
    };
    all_seeds(FEW_SEEDS, 0.35..=1.2, plan, |flows| {
        let lowest = flows[0].alone_bps.expect("it has retransmitted");
        lowest as f64 / flows[0].delivered_bps(seconds(9), seconds(10))
    });
}

/// A thousand receivers hear the same and lose the same; few of them say so. How many depends on who draws which time: in
/// the middle of all runs it is a few dozen, and in the worst a fifth of all.
#[test]
fn a_thousand_receivers_do_not_all_speak() {
    let plan = |seed| Scenario {
        flows: vec![(Flow::Auto { receivers: 1_000 }, Duration::ZERO)],
        rates_bps: vec![(Duration::ZERO, RATE_BPS / 10)],
        queue_bytes: 50_000,
        length: seconds(10),
        ..scenario(seed, &[])
    };
    let reports = all_seeds(10, 1.0..=200.0, plan, |flows| {
        let used = flows[0].delivered_bps(seconds(2), seconds(10)) / RATE_BPS as f64 * 10.0;
        assert!(used > 0.7, "{used} of the link");
        flows[0].most_reports_a_round as f64
    });
    assert!(reports[reports.len() / 2] <= 60.0, "{reports:?}");
}

#[test]
fn a_cut_cable_takes_the_rate_down_and_it_comes_back() {
    for seed in 0..10 {
        let cut = vec![(Duration::ZERO, RATE_BPS), (seconds(10), 0), (seconds(14), RATE_BPS)];
        let flows = run(&Scenario { rates_bps: cut, length: seconds(40), ..scenario(seed, &[]) });
        let sent: u64 = flows[0].spans[130..140].iter().map(|span| span.sent_bytes * 8).sum();
        assert!(sent < RATE_BPS / 100, "seed {seed}: {sent} bits in the fourth second");
        let back = flows[0].delivered_bps(seconds(30), seconds(40));
        assert!(back > RATE_BPS as f64 * 0.5, "seed {seed}: {back}");
    }
}

/// Whatever one of its receivers says, the sender leaves a TCP connection its share, and goes on.
#[test]
fn a_receiver_that_lies_is_of_little_consequence() {
    for seed in 0..20 {
        let mut plan = scenario(seed, &[Flow::Cubic]);
        plan.flows[0].0 = Flow::Auto { receivers: 4 };
        plan.faults.lies = vec![Lie::Wild];
        plan.length = seconds(20);
        let flows = run(&plan);
        let share = flows[1].delivered_bps(seconds(4), seconds(20)) / RATE_BPS as f64;
        assert!(share > 0.2, "seed {seed}: {share}");
        assert!(flows[0].lost(seconds(4), seconds(20)) < 0.1, "seed {seed}");
    }
}

/// The rival is TCP as it is: alone it fills the link, and one gets of the link what another gets, but for who comes first.
/// The range of the shares is wide because CUBIC's is: its growth leads back to the window before the loss, so that who came
/// first keeps more for most of the minute. Over 100 seeds, one got 0.30 to 3.5 times what the other did; the median shows
/// that the model favours neither.
#[test]
fn the_simulated_tcp_shares_with_another() {
    let tcp = |seed, others: &[Flow]| {
        let mut plan = scenario(seed, others);
        plan.flows[0].0 = Flow::Cubic;
        plan
    };
    all_seeds(
        FEW_SEEDS,
        0.95..=1.01,
        |seed| tcp(seed, &[]),
        |flows| flows[0].delivered_bps(seconds(2), seconds(60)) / RATE_BPS as f64,
    );
    let shares = all_seeds(FEW_SEEDS, 0.25..=4.0, |seed| tcp(seed, &[Flow::Cubic]), share);
    let median = shares[shares.len() / 2];
    assert!((0.6..1.6).contains(&median), "{median}");
}

/// Two sessions with local groups and a TCP connection share 20 Mbit/s for a minute, without any setting. The queue holds a half to one
/// bandwidth-delay product.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn sessions_with_local_groups_share_a_link_with_tcp() {
    const LINK_BPS: u64 = 20_000_000;
    for seed in 0..FEW_SEEDS / 3 {
        let mut random = generator(seed, 0);
        let local = Flow::Local { receivers: random.random_range(1..=6) };
        let mut start = || Duration::from_millis(random.random_range(0..2_000));
        let flows = [local, local, Flow::Cubic].map(|flow| (flow, start())).to_vec();
        let product = (LINK_BPS as f64 / 8.0 * ROUND_TRIP.as_secs_f64()) as u64;
        let plan = Scenario {
            flows,
            rates_bps: vec![(Duration::ZERO, LINK_BPS)],
            queue_bytes: random.random_range(product / 2..=product),
            ..scenario(seed, &[])
        };
        let part = |flow: &Figures| flow.delivered_bps(Duration::ZERO, seconds(60)) * 3.0 / LINK_BPS as f64;
        let parts: Vec<f64> = run(&plan).iter().map(part).collect();
        println!("seed {seed}, {} bytes of queue: {parts:.2?}", plan.queue_bytes);
        assert!(parts.iter().all(|part| (0.5..=2.0).contains(part)), "seed {seed}: {parts:?}");
    }
}
