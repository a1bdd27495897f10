//! The verdict on a run of one of the simpler protocols.

use crate::trace::Trace;

/// The verdict on a run.
#[derive(Debug)]
pub struct Verdict {
    pub trace: Trace,
    /// The faults of the run, one line each. Empty if all went well.
    pub faults: Vec<String>,
}
