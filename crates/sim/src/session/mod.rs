//! Simulates sessions of one sender and its receivers: either in a star, where everything can go wrong on the
//! way to a receiver, or in a network of nodes and cables.

mod carousel;
mod carousel_plan;
mod deaths;
mod expected;
mod forger;
mod hosts;
mod local;
mod mld;
mod placed;
mod receiver_node;
pub(crate) mod scenario;
mod sender_node;
pub(crate) mod storage;
mod stream;
mod transport;
mod ways;

pub use carousel_plan::{Carousel, Forger};
pub use deaths::{Deaths, Dying};
pub use hosts::{Figures, ReceiverFigures, Run};
pub use local::{Local, LocalFigures, PlacedSeat};
pub(crate) use local::{member, node};
pub use placed::{Explicit, Fanout, Lists, Multicast, Placed, PlacedRouter, Routing, Sample};
pub use receiver_node::ObjectFigures;
pub use scenario::{Fault, Feed, Leaving, ObjectPlan, ReceiverPlan, Scenario};
pub use stream::{Came, StreamPlan, StreamRun, run_stream};
pub use ways::{Search, room_beside_lists};

/// Runs the scenario of a seed and judges it; `verbose` keeps the lines of the trace.
pub fn run_seed(seed: u64, verbose: bool) -> Run {
    run(&Scenario::from_seed(seed), verbose)
}

/// Runs the updates by difference of a seed and judges them; `verbose` keeps the lines of the trace.
pub fn run_difference_seed(seed: u64, verbose: bool) -> Run {
    run(&Scenario::difference_from_seed(seed), verbose)
}

/// Runs the carousel of a seed and judges it; `verbose` keeps the lines of the trace.
pub fn run_carousel_seed(seed: u64, verbose: bool) -> Run {
    run(&Scenario::carousel_from_seed(seed), verbose)
}

/// Runs a scenario to its end and judges it.
pub fn run(scenario: &Scenario, verbose: bool) -> Run {
    hosts::Hosts::new(scenario, verbose).run()
}
