//! A thousand VCMTP sessions, and one to look at.
#![allow(clippy::disallowed_methods, reason = "a seed to replay comes from the environment")]

use std::sync::atomic::{AtomicU64, Ordering};

use treecast_sim::vcmtp::run_seed;

const SEEDS: u64 = 1000;

/// Every object arrives whole or is rejected as the protocol says, none is ever wrong, and every run ends.
#[test]
fn a_thousand_seeds() {
    let next = AtomicU64::new(0);
    let failed: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(|| failures(&next))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "{} of {SEEDS} seeds fail:\n{}", failed.len(), failed.join("\n"));
}

fn failures(next: &AtomicU64) -> Vec<String> {
    let mut failed = Vec::new();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= SEEDS {
            return failed;
        }
        let run = run_seed(seed, false);
        if !run.faults.is_empty() {
            failed.push(format!(
                "seed {seed}: {}\n  TREECAST_SEED={seed} cargo test -p treecast-sim replay -- --nocapture",
                run.faults.join("; ")
            ));
        }
    }
}

/// The run of the seed in TREECAST_SEED (else of seed 0), with its trace.
#[test]
fn replay() {
    let wanted = std::env::var("TREECAST_SEED").ok();
    let seed = wanted.as_deref().unwrap_or("0").parse().expect("TREECAST_SEED is a number");
    let run = run_seed(seed, true);
    if wanted.is_some() {
        println!("{}", run.trace.lines().join("\n"));
    }
    assert!(!run.trace.lines().is_empty());
    assert!(run.faults.is_empty(), "seed {seed}: {}", run.faults.join("\n"));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in (0..SEEDS).step_by(25) {
        let (one, other) = (run_seed(seed, false), run_seed(seed, true));
        assert_eq!(one.trace.hash(), other.trace.hash(), "seed {seed}");
        assert_eq!(one.figures, other.figures, "seed {seed}");
        assert_ne!(one.trace.hash(), run_seed(seed + 1, false).trace.hash());
    }
}
