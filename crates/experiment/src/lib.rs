//! Experiments: the same workload, delivered in several ways over several networks, again and again, measured and judged.
//!
//! [`Experiment::load`] reads a file, [`run`] runs it, and `treecast_measure` makes tables, plots and the report out of the
//! database that it fills: file -> [`plan`] -> runs on a [`site`] -> rows and series -> claims. What happens meanwhile goes to
//! an observer as [`Event`]s.
//!
//! The order of a run: wait until the machine is quiet; start what sends, and what receives when its schedule says so; have
//! events happen by the clock; when all are done, compare every copy with the source by BLAKE3, read the counters of all
//! links, and file rows. Nobody's word is taken for a copy being right.

mod cargo;
mod carried;
mod client;
mod document;
mod ears;
mod engine;
mod error;
mod feed;
mod filing;
mod load;
mod multihoming;
mod observer;
mod plan;
mod programs;
mod record;
mod schedule;
mod server;
mod session;
mod sessions;
mod settle;
mod sharing;
pub mod simulate;
mod site;
mod source;
mod ssh;
mod store;
mod stream;
mod told;
mod verify;
mod vocabulary;

pub use client::Fared;
pub use document::{Experiment, network::Network};
pub use engine::{Bound, Failure, Order, Preview, Refusal, Results, check, run};
pub use error::Error;
pub use observer::{Event, Finished};
