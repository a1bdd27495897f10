//! Runs of the workload `multihoming`: a stub with two providers, whose access link is cut during a TCP transfer
//! (interdomain-2013, chapter 6).
//!
//! With MAST, the stub's systems run as they would anywhere: `treecast mast srms` and `router` at its border router, `dhcp` and
//! `dns` at a server, `host` at its hosts, and `tms` at its providers. Without, the stub has a prefix of its own, and BGP alone
//! finds another way. Meanwhile, new connections are opened in both directions all the time: they show which addresses are used.

mod forge;
mod measures;
mod play;
mod probes;
mod systems;
mod tables;
mod transfer;

pub use measures::{MEASURES, rows, sentence};
pub use play::{Played, Scene};
