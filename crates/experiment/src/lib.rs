//! Experiments: the same object, delivered in several ways, over several networks, with several schedules,
//! again and again, and measured (librecast-updates-2022, 2 to 5).
//!
//! [`Experiment::load`] reads a file, [`run`] runs it, and `treecast_measure` makes tables and the report
//! out of the database that it fills. What happens meanwhile goes to an observer as [`Event`]s.
//!
//! The order of a run: wait until the machine is quiet; start the server, and wait until clients can find
//! it; start each client when its schedule says so; when all are done, stop the server, compare every copy
//! with the source by BLAKE3, and remove it. Nobody's word is taken for a copy being right.

mod cargo;
mod claims;
mod client;
mod delivery;
mod director;
mod error;
mod feed;
mod file;
mod network;
mod observer;
mod plan;
mod programs;
mod record;
mod run;
mod schedule;
mod server;
mod sessions;
mod settle;
mod sharing;
mod source;
mod ssh;
mod stage;
mod store;
mod told;
pub mod usecase;
mod verify;

pub use claims::Finding;
pub use client::Fared;
pub use director::{Failure, Order, Preview, Results, check, preview, run};
pub use error::Error;
pub use file::{Experiment, Network};
pub use observer::Event;
pub use treecast_lab::quantity::{Size, Time};
