//! How a run of one of the simpler protocols ended.

use crate::trace::Trace;

/// A run that is over.
#[derive(Debug)]
pub struct Verdict {
    pub trace: Trace,
    /// What is wrong with it, one line each; none is as it should be.
    pub faults: Vec<String>,
}
