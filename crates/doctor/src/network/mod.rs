//! Tests between hosts: whether groups arrive, how soon, with which hop limit, how often, at which size and rate, and
//! which other hosts get them.
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
pub use groups::{MAX_NAMED, is_beyond_host};
pub use judge::{Matrix, findings};
pub use message::{Ear, Header, Heard, Host};
pub use observe::observe;
pub use seen::Observation;

/// The UDP and TCP port of the doctor, unless another is chosen.
pub const PORT: u16 = 4245;

/// Reads a request or an answer, and says nothing of it: for tests with random bytes.
pub(crate) fn read_any(bytes: &[u8]) {
    _ = serde_json::from_slice::<message::Request>(bytes);
    _ = serde_json::from_slice::<message::Answer>(bytes);
}

/// Reads a probe, and says nothing of it: for tests with random bytes.
pub(crate) fn read_probe(bytes: &[u8]) {
    _ = probe::Probe::parse(bytes);
}
