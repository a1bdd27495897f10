//! Between hosts: whether groups arrive, how soon, with which hop limit, how often, at which size and rate, and who else gets them.
//!
//! Every host of a run has an [`Agent`]. The doctor's own host calls it, and `doctor listen` hands it what comes over TCP
//! ([`serve`]). [`observe`] asks all of them in turn, and [`findings`] judges what was seen.

mod agent;
mod control;
mod ear;
mod groups;
mod judge;
mod message;
mod observe;
mod place;
mod plan;
mod probe;
mod seen;
mod sending;
mod sockets;
mod visit;

pub use agent::Agent;
pub use control::{ControlError, serve};
pub use judge::{Matrix, findings};
pub use message::{Ear, Header, Heard, Host};
pub use observe::observe;
pub use seen::Observation;

/// The UDP and TCP port of the doctor, unless another is chosen.
pub const PORT: u16 = 4245;
