//! The measurements that treecast makes, stores and shows: samples of a machine and of the nodes of a lab,
//! statistics, the results database, tables, plots and the report.
//!
//! This crate sends no packet, creates no namespace and knows no protocol. Other crates hand it names, counters
//! and times. Of treecast's crates it uses only `treecast-host`.
//!
//! The path of a number, from the kernel to the page:
//!
//! ```text
//! sample  --(readings)-->  monitor (SQLite file)  --> CSV, SQL, JSON, a table
//!     \--(recorder)----->  db (one SQLite file)   --> frame --> claims, plots, tables --> report (HTML)
//! ```
//!
//! The results of a run are its parameters, rows and series ([`db`]), whatever the experiment was. [`frame`]
//! holds them in memory, and [`expression`] evaluates the expressions of [`claim`]s and plots over them. The
//! figures of a [`paper`] come from a data file and are handled in the same way.

pub mod claim;
mod condition;
pub mod csv;
pub mod date;
pub mod db;
mod expression;
pub mod frame;
pub mod monitor;
pub mod paper;
pub mod plot;
pub mod rates;
pub mod report;
pub mod sample;
mod saturation;
pub mod series;
pub mod statistics;
pub mod tables;
mod words;

pub use db::{Db, DbError};
pub use saturation::saturation;
pub use statistics::Summary;
