//! A thousand unicast servers over UDP, and one to look at.
#![allow(clippy::disallowed_methods, reason = "a seed to replay comes from the environment")]

use treecast_sim::unicast::udp::run_seed;

mod seeds;

/// Every client gets the file whole, unless what is planned forbids it; none is ever wrong; and every run ends.
#[test]
fn a_thousand_seeds() {
    seeds::assert_all_pass("unicast_udp", run_seed);
}

/// The run of the seed in TREECAST_SEED (else of seed 0), with its trace.
#[test]
fn replay() {
    seeds::replay(run_seed);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    seeds::assert_reproducible(run_seed);
}
