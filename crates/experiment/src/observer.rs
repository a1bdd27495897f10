//! What whoever watches an experiment is told.

use std::time::Duration;

use crate::client::Fared;

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
    /// A run is made once more.
    Again { run: &'a str, why: &'a str },
    /// A run is over.
    Finished(&'a Finished<'a>),
}

/// How a run went.
#[derive(Debug)]
pub struct Finished<'a> {
    pub number: usize,
    pub run: &'a str,
    pub duration: Duration,
    /// Clients that have all that they were to get.
    pub whole: usize,
    pub clients: usize,
    /// What the run has shown, in a line.
    pub sentence: &'a str,
    /// The values of the whole run, by measure.
    pub measures: &'a [(String, Option<f64>)],
    /// Why this machine, and not the network, was its limit.
    pub saturated: Option<&'a str>,
    pub cut_short: bool,
    /// Why the program refused to do what the run asks of it.
    pub refused: Option<&'a str>,
}
