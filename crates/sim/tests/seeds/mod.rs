//! Running many seeds, and one again.

use std::sync::atomic::{AtomicU64, Ordering};

use treecast_sim::Verdict;

const SEEDS: u64 = 1000;

/// Runs the scenario of a seed; verbose or not.
type RunSeed = fn(u64, bool) -> Verdict;

pub fn assert_all_pass(test: &str, run_seed: RunSeed) {
    let next = AtomicU64::new(0);
    let failed: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(|| failures(test, run_seed, &next))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "{} of {SEEDS} seeds fail:\n{}", failed.len(), failed.join("\n"));
}

fn failures(test: &str, run_seed: RunSeed, next: &AtomicU64) -> Vec<String> {
    let mut failed = Vec::new();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= SEEDS {
            return failed;
        }
        let verdict = run_seed(seed, false);
        if !verdict.faults.is_empty() {
            let replay = format!(
                "TREECAST_SEED={seed} cargo test -p treecast-sim --test {test} replay -- --nocapture"
            );
            failed.push(format!("seed {seed}: {}\n  {replay}", verdict.faults.join("; ")));
        }
    }
}

/// Runs the seed in TREECAST_SEED (else seed 0), and prints its trace when it was asked for.
pub fn replay(run_seed: RunSeed) {
    let wanted = std::env::var("TREECAST_SEED").ok();
    let seed = wanted.as_deref().unwrap_or("0").parse().expect("TREECAST_SEED is a number");
    let verdict = run_seed(seed, true);
    if wanted.is_some() {
        println!("{}", verdict.trace.lines().join("\n"));
    }
    assert!(!verdict.trace.lines().is_empty());
    assert!(verdict.faults.is_empty(), "seed {seed}: {}", verdict.faults.join("\n"));
}

pub fn assert_reproducible(run_seed: RunSeed) {
    for seed in (0..SEEDS).step_by(25) {
        let (one, other) = (run_seed(seed, false), run_seed(seed, true));
        assert_eq!(one.trace.hash(), other.trace.hash(), "seed {seed}");
        assert_ne!(one.trace.hash(), run_seed(seed + 1, false).trace.hash());
    }
}
