//! A thousand VCMTP sessions, and one to look at.
#![allow(clippy::disallowed_methods, reason = "a seed to replay comes from the environment")]

use treecast_sim::{
    Verdict,
    vcmtp::{Run, run_seed},
};

mod seeds;

/// Every object arrives whole or is rejected as the protocol says, none is ever wrong, and every run ends.
#[test]
fn a_thousand_seeds() {
    seeds::assert_all_pass("vcmtp", verdict);
}

/// The run of the seed in TREECAST_SEED (else of seed 0), with its trace.
#[test]
fn replay() {
    seeds::replay(verdict);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    seeds::assert_reproducible(verdict);
}

fn verdict(seed: u64, verbose: bool) -> Verdict {
    let Run { trace, faults, .. } = run_seed(seed, verbose);
    Verdict { trace, faults }
}
