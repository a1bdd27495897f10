//! How much the tests of the simulator do: a part of the seeds and periods in `make test`, all of them in `make test-all`, which sets
//! `TREECAST_LONG`.
#![allow(clippy::disallowed_methods, reason = "the environment says how much is to be done")]

use std::{env, ops::Range};

pub fn is_long() -> bool {
    env::var_os("TREECAST_LONG").is_some()
}

/// The seeds to run: so many, or as many as `TREECAST_SEEDS` says.
pub fn seeds(count: u64) -> Range<u64> {
    let asked = env::var("TREECAST_SEEDS").ok().map(|seeds| seeds.parse().expect("a number of seeds"));
    0..asked.unwrap_or(count)
}

/// The seeds to run of a test that takes long: `few` of them, and `many` in the long tests.
pub fn some_seeds(few: u64, many: u64) -> Range<u64> {
    seeds(if is_long() { many } else { few })
}
