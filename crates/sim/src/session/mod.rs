//! VCMTP sessions: one sender, up to eight receivers, everything that can go wrong on the way.

mod forger;
mod judge;
mod receiver_node;
pub(crate) mod scenario;
mod sender_node;
pub(crate) mod storage;
mod world;

pub use scenario::{Fault, Leaving, ObjectPlan, ReceiverPlan, Scenario};
pub use world::{Figures, ReceiverFigures, Run};

/// Runs the scenario of a seed and judges it; `verbose` keeps the lines of the trace.
pub fn run_seed(seed: u64, verbose: bool) -> Run {
    run(&Scenario::from_seed(seed), verbose)
}

/// Runs a scenario to its end and judges it.
pub fn run(scenario: &Scenario, verbose: bool) -> Run {
    world::World::new(scenario, verbose).run()
}
