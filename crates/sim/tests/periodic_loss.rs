//! Loss that comes again after the same number of packets, as a duplex fault, a policer or a timer makes it: whatever the
//! period and the phase, every repair brings everything.
#![allow(clippy::disallowed_methods, reason = "the number of phases to try comes from the environment")]

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use rand::{Rng as _, RngExt};
use rand_chacha::ChaCha8Rng;
use treecast_proto::{fec::Share, vcmtp::Repair};
use treecast_sim::{
    graph::{CablePlan, GraphPlan},
    network::{Loss, Path, Period, generator},
    session::{
        Carousel, Fanout, Local, Multicast, ObjectPlan, Placed, PlacedSeat, ReceiverPlan, Run, Scenario, run,
    },
};

use crate::effort::is_long;

/// The periods, in packets or super-packets.
const PERIODS: std::ops::RangeInclusive<u64> = 2..=1_000;

const BLOCK_LEN: u16 = 100;

/// The messages of a loop with one small object: Contents, Begin-of-File, Digest, End-of-File and Digest.
const LOOP_MESSAGES: u64 = 5;

const RATE_BPS: u64 = 20_000_000;

type Make = fn(&mut ChaCha8Rng, u64) -> Scenario;

/// Every repair, with and without forward error correction.
const WAYS: [(&str, Make); 11] = [
    ("nack", |random, every| connected(random, every, Repair::Nack, None)),
    ("nack with symbols", |random, every| connected(random, every, Repair::Nack, Some(Share::Auto))),
    ("nack with needed symbols", |random, every| connected(random, every, Repair::Nack, Some(Share::Needed))),
    ("after", |random, every| connected(random, every, Repair::After, None)),
    ("after with symbols", |random, every| connected(random, every, Repair::After, Some(Share::Auto))),
    ("carousel", |random, every| carousel(random, every, |_| {})),
    ("carousel with symbols", |random, every| {
        carousel(random, every, |scenario| scenario.fec = Some(Share::Auto))
    }),
    ("carousel with several groups", |random, every| {
        carousel(random, every, |scenario| scenario.slower_rates_bps = vec![RATE_BPS / 2, RATE_BPS / 4])
    }),
    ("carousel of the IoT updater", |random, every| {
        carousel(random, every, |scenario| {
            scenario.carousel = scenario.carousel.map(|carousel| Carousel { is_iotup: true, ..carousel });
        })
    }),
    ("carousel of many objects", many_objects),
    ("local", local),
];

/// A session with connections, and a receiver for each kind of packet that counts.
fn connected(random: &mut ChaCha8Rng, every: u64, repair: Repair, fec: Option<Share>) -> Scenario {
    let blocks = random.random_range(every..=every * 2 + 20);
    let plans = [false, true].map(|whole| receiver(random, every, whole, 1));
    Scenario { repair, fec, ..scenario(random, vec![blocks * u64::from(BLOCK_LEN)], plans.into()) }
}

/// A carousel whose loops have a multiple of `every` packets or super-packets, now and then a little more or less.
fn carousel(random: &mut ChaCha8Rng, every: u64, change: impl FnOnce(&mut Scenario)) -> Scenario {
    let is_whole = random.random_bool(0.4);
    let run = random.random_range(2..=if every < 100 { 8 } else { 3 });
    let least = LOOP_MESSAGES.div_ceil(every) + 1;
    let packets = every * random.random_range(least..=least + if every < 100 { 10 } else { 0 });
    let other = if random.random_bool(0.3) { random.random_range(0..=5) } else { LOOP_MESSAGES };
    let blocks = (packets - other.min(packets - 1)) * if is_whole { run } else { 1 };
    let plans = vec![receiver(random, every, is_whole, 1)];
    let mut scenario = scenario(random, vec![blocks * u64::from(BLOCK_LEN)], plans);
    scenario.max_run_len = run as u32 * u32::from(BLOCK_LEN);
    scenario.carousel = Some(circling(random));
    change(&mut scenario);
    let is_iotup = scenario.carousel.is_some_and(|carousel| carousel.is_iotup);
    if is_iotup {
        // No messages, and the first object begins at 0.
        scenario.objects[0].size += LOOP_MESSAGES as usize * usize::from(BLOCK_LEN);
    }
    scenario
}

/// A carousel of small objects, each of which has a few packets in a loop.
fn many_objects(random: &mut ChaCha8Rng, every: u64) -> Scenario {
    let count = random.random_range(1..=every.clamp(4, 150));
    let blocks = random.random_range(0..=2);
    let is_whole = random.random_bool(0.4);
    let plans = vec![receiver(random, every, is_whole, count as usize)];
    let sizes = vec![blocks * u64::from(BLOCK_LEN); count as usize];
    let fec = random.random_bool(0.5).then_some(Share::Auto);
    Scenario { fec, carousel: Some(circling(random)), ..scenario(random, sizes, plans) }
}

fn circling(random: &mut ChaCha8Rng) -> Carousel {
    let start = random.next_u64();
    Carousel { idle: Duration::from_secs(2), signs: false, ..Carousel::of_seed(start) }
}

/// A group of three receivers behind a router that mend each other's losses.
fn local(random: &mut ChaCha8Rng, every: u64) -> Scenario {
    let (sender, router, receivers) = (0, 1, 3_usize);
    let mut graph = GraphPlan { forwards: vec![false; 2 + receivers], cables: Vec::new() };
    graph.forwards[router] = true;
    let ends = (0..receivers).map(|number| (router, 2 + number, true));
    for (one, other, loses) in [(sender, router, false)].into_iter().chain(ends) {
        let clean = Path::clean(Duration::from_micros(500));
        let path = Path { loss: if loses { loss(random, every, false) } else { clean.loss }, ..clean };
        for (from, to, path) in [(one, other, path), (other, one, clean)] {
            graph.cables.push(CablePlan { from, to, path, narrow: None, is_counted: true });
        }
    }
    let seat = |_| PlacedSeat { group: 1, controller: 0, parent: None };
    let network = Placed {
        graph,
        sender,
        receivers: (2..2 + receivers).collect(),
        fanout: Fanout::Multicast,
        multicast: Multicast::Tree,
        explicit: None,
        local: Some(Local {
            seats: (0..receivers).map(seat).collect(),
            settling: Duration::from_millis(200),
            ..Local::default()
        }),
        changes: Vec::new(),
        starting: Duration::from_millis(10),
        seal_bytes: 0,
        timeout: Duration::from_secs(300),
        sample: Duration::from_secs(300),
    };
    let plan = ReceiverPlan { moves: Some(Vec::new()), ..ReceiverPlan::of(Path::clean(Duration::ZERO), 1) };
    let blocks = random.random_range(every..=every * 2 + 20);
    let sizes = vec![blocks * u64::from(BLOCK_LEN)];
    Scenario { network: Some(Box::new(network)), ..scenario(random, sizes, vec![plan; receivers]) }
}

fn scenario(random: &mut ChaCha8Rng, sizes: Vec<u64>, receivers: Vec<ReceiverPlan>) -> Scenario {
    let objects = sizes.into_iter().map(|size| ObjectPlan::of(size as usize)).collect();
    Scenario {
        seed: random.next_u64(),
        block_len: BLOCK_LEN,
        max_run_len: random.random_range(1..=8) * u32::from(BLOCK_LEN),
        rate_bps: RATE_BPS,
        ..Scenario::of(objects, receivers)
    }
}

fn receiver(random: &mut ChaCha8Rng, every: u64, is_whole: bool, objects: usize) -> ReceiverPlan {
    let path = Path { loss: loss(random, every, is_whole), ..Path::clean(Duration::from_millis(1)) };
    ReceiverPlan { moves: Some(Vec::new()), ..ReceiverPlan::of(path, objects) }
}

fn loss(random: &mut ChaCha8Rng, every: u64, is_of_super_packets: bool) -> Loss {
    Loss::Periodic(Period { every, phase: random.random_range(0..every), is_of_super_packets })
}

/// Every period, at `TREECAST_PHASES` phases each, by every repair of `TREECAST_WAY` (usually all). Without `TREECAST_PHASES`, one phase
/// of each short period, and of a part of the others.
#[test]
fn no_repair_keeps_step_with_a_periodic_loss() {
    let asked = std::env::var("TREECAST_PHASES").ok();
    let phases = asked.as_deref().map_or(1, |phases| phases.parse().expect("TREECAST_PHASES is a number"));
    let wanted = std::env::var("TREECAST_WAY").ok();
    for (way, (name, make)) in (0..).zip(WAYS) {
        if wanted.as_deref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let next = AtomicU64::new(0);
        let failed: Vec<String> = std::thread::scope(|scope| {
            let work = || failures(way, make, (phases, asked.is_some()), &next);
            let workers: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        let runs = (PERIODS.end() - PERIODS.start() + 1) * phases;
        let shown = failed.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("\n");
        assert!(failed.is_empty(), "{name}: {} of {runs} runs fail:\n{shown}", failed.len());
    }
}

fn failures(way: u64, make: Make, (phases, tries_all): (u64, bool), next: &AtomicU64) -> Vec<String> {
    let mut failed = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let (every, phase) = (PERIODS.start() + number / phases, number % phases);
        if !PERIODS.contains(&every) {
            return failed;
        }
        // Long periods take long. In the long tests every fifth repair tries each of them, so one kind of carousel at least.
        let (short, one_in) = if is_long() { (200, 5) } else { (40, 50) };
        if !tries_all && every > short && every % one_in != way % one_in {
            continue;
        }
        let scenario = make(&mut generator(way << 32 | phase, every), every);
        let run = run(&scenario, false);
        if !run.faults.is_empty() || run.complete_receivers < scenario.receivers.len() {
            failed.push(format!("{}: {}", of(&scenario, every, phase), told(&run)));
        }
    }
}

fn of(scenario: &Scenario, every: u64, phase: u64) -> String {
    let path = scenario.receivers[0].path.loss;
    format!("one of {every}, sample {phase}, {} objects, {path:?}", scenario.objects.len())
}

fn told(run: &Run) -> String {
    let whole = run.receivers.iter().filter(|receiver| receiver.is_whole).count();
    format!("{whole} of {} are whole; {}", run.receivers.len(), run.faults.join("; "))
}
