//! Runs of the workload `load`: hosts send numbered packets to a group, at a given rate or at rates among which a threshold is
//! searched (congested-multicast-2019, 5).
//!
//! Each host is a process, `treecast load run`, so that its processor time is its own. One try of a rate is a [`Trial`]. A run
//! that searches makes several and keeps the one at the threshold.

mod joins;
mod measures;
mod play;
mod search;

pub use measures::{MEASURES, rows, sentence};
pub use play::{Played, Trial};
pub use search::{Found, trials};
