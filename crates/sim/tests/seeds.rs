//! A thousand sessions of each protocol, and one to look at.
#![allow(clippy::disallowed_methods, reason = "a seed to replay comes from the environment")]

use std::sync::atomic::{AtomicU64, Ordering};

use treecast_sim::{
    Verdict,
    session::{self, Run},
    unicast,
};

use crate::effort::is_long;

const SEEDS: u64 = 1000;

/// Runs the scenario of a seed; verbose or not.
type RunSeed = fn(u64, bool) -> Verdict;

const PROTOCOLS: [(&str, RunSeed); 4] = [
    ("vcmtp", vcmtp_session),
    ("difference", difference),
    ("carousel", carousel),
    ("unicast_udp", unicast::run_seed),
];

fn vcmtp_session(seed: u64, verbose: bool) -> Verdict {
    verdict(session::run_seed(seed, verbose))
}

fn difference(seed: u64, verbose: bool) -> Verdict {
    verdict(session::run_difference_seed(seed, verbose))
}

fn carousel(seed: u64, verbose: bool) -> Verdict {
    verdict(session::run_carousel_seed(seed, verbose))
}

fn verdict(run: Run) -> Verdict {
    Verdict { trace: run.trace, faults: run.faults }
}

/// Every object arrives whole, or is rejected as the protocol says or a planned fault demands; none is ever
/// wrong; and every run ends by itself.
#[test]
fn a_thousand_seeds() {
    for (protocol, run_seed) in PROTOCOLS {
        let next = AtomicU64::new(0);
        let failed: Vec<String> = std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..2).map(|_| scope.spawn(|| failures(protocol, run_seed, &next))).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        assert!(failed.is_empty(), "{} of {SEEDS} seeds fail:\n{}", failed.len(), failed.join("\n"));
    }
}

fn failures(protocol: &str, run_seed: RunSeed, next: &AtomicU64) -> Vec<String> {
    let mut failed = Vec::new();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= SEEDS {
            return failed;
        }
        let verdict = run_seed(seed, false);
        if !verdict.faults.is_empty() {
            failed.push(format!(
                "{protocol}, seed {seed}: {}\n  TREECAST_PROTOCOL={protocol} TREECAST_SEED={seed} \
                 cargo test -p treecast-sim --test sim replay -- --nocapture",
                verdict.faults.join("; ")
            ));
        }
    }
}

/// The run of the seed in TREECAST_SEED (else of seed 0) of TREECAST_PROTOCOL (else of all), with its trace.
#[test]
fn replay() {
    let wanted = std::env::var("TREECAST_SEED").ok();
    let seed = wanted.as_deref().unwrap_or("0").parse().expect("TREECAST_SEED is a number");
    let protocol = std::env::var("TREECAST_PROTOCOL").ok();
    for (name, run_seed) in PROTOCOLS {
        if protocol.as_ref().is_some_and(|protocol| protocol != name) {
            continue;
        }
        let verdict = run_seed(seed, true);
        if wanted.is_some() {
            println!("{name}\n{}", verdict.trace.lines().join("\n"));
        }
        assert!(!verdict.trace.lines().is_empty());
        assert!(verdict.faults.is_empty(), "{name}, seed {seed}: {}", verdict.faults.join("\n"));
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for (name, run_seed) in PROTOCOLS {
        for seed in (0..SEEDS).step_by(if is_long() { 25 } else { 100 }) {
            let (one, other) = (run_seed(seed, false), run_seed(seed, true));
            assert_eq!(one.trace.hash(), other.trace.hash(), "{name}, seed {seed}");
            assert_ne!(one.trace.hash(), run_seed(seed + 1, false).trace.hash(), "{name}, seed {seed}");
        }
    }
}
