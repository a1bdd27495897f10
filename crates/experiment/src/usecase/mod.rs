//! The use cases of meadcast-thesis-2024 (4.4, 5.1) on its testbed: a group, traffic to it, and ways to deliver that.
//!
//! An experiment of this kind has a `use_case`. [`UseCases::load`] reads it, [`run`] runs it. All runs share one network,
//! which is up with all its routers; before each run those that do not support MEADcast in it are told to pass it on.
//! Programs are sockets of this process in the nodes' namespaces, and so on one clock; MEADcast's and Xcast's
//! senders are `treecast mead`. A file may be sent by `treecast send`, too. What is measured: bytes on all links, by their interfaces' counters, of them the sender's; the time until
//! the last packet; latency, jitter and loss of each packet.

mod claims;
mod delivery;
mod director;
mod figures;
mod file;
mod measure;
mod plan;
mod play;
mod program;
mod sender;
mod session;
mod stage;
mod support;
mod traffic;

pub use director::{Order, check, preview, run};
pub use file::UseCases;
