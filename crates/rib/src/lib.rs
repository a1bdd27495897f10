//! The analysis of routing tables (RIBs): from a collector's file to the tables of the paper interdomain-2013.
//!
//! The path of a route, from the file to the page:
//!
//! ```text
//! file  --(source: decompress)-->  mrt (records)  --(read: all cores)-->  Dump  <--> store (SQLite)
//!                                                                          |
//!                                         analysis (stubs, providers, PI and PA, equation 6.1) --> report, page
//! ```
//!
//! A [`Dump`] holds each distinct AS path once, and each prefix once for every origin and upstream. So its size
//! depends on the routing table and not on the number of peers that sent it.

pub mod analysis;
mod asn;
mod budget;
pub use treecast_measure::date;
pub mod delegations;
pub mod dump;
pub mod family;
mod fault;
pub mod input;
mod lines;
pub mod mrt;
pub mod page;
pub mod paper;
pub mod path;
pub mod prefix;
pub mod read;
pub mod relations;
pub mod report;
pub mod source;
pub mod store;
pub mod synth;

pub use dump::{Dump, DumpKind};
pub use family::Family;
pub use prefix::Prefix;
