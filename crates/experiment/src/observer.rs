//! What whoever watches an experiment is told.

use std::time::Duration;

use treecast_measure::analysis::SharedLink;

use super::client::Fared;

/// Something that has happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// The experiment is about to begin.
    Planned { runs: usize, estimate: Duration, left_out: &'a [String] },
    /// A network is being built.
    Building { network: &'a str, nodes: usize },
    /// The machine is to calm down before a run.
    Settling { run: &'a str },
    /// A run begins; `expected` is about what it takes, its part of the plan's estimate.
    Started { number: usize, of: usize, run: &'a str, clients: usize, expected: Duration },
    /// A client is done.
    Client { run: &'a str, node: &'a str, fared: &'a Fared },
    /// A run of a use case is over; `sentence` says what it has shown.
    Measured { number: usize, run: &'a str, sentence: &'a str, saturated: Option<&'a str> },
    /// A run is over. `whole`: clients with a verified copy.
    Finished {
        number: usize,
        run: &'a str,
        duration: Duration,
        whole: usize,
        clients: usize,
        saturated: Option<&'a str>,
        cut_short: bool,
        /// How flows shared a link.
        link: Option<&'a SharedLink>,
    },
}
