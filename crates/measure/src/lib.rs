//! What treecast measures, and how it is kept and shown: samples of a machine and of the nodes of a
//! lab, statistics, the results database, tables, plots and the report.
//!
//! This crate sends no packet, makes no namespace and knows no protocol: those who do hand it names,
//! counters and times. It depends on no other crate of treecast.
//!
//! The way of a number, from the kernel to the page:
//!
//! ```text
//! sample  --(readings)-->  monitor (SQLite file)  --> CSV, SQL, JSON, a table
//!     \--(recorder)----->  db (one SQLite file)   --> frame --> claims, plots, tables --> report (one HTML file)
//! ```
//!
//! The results of a run are its parameters, rows and series ([`db`]), whatever the experiment was. [`frame`] holds them in
//! memory, and [`expression`] works out what [`claim`]s and plots say about them. The figures of a [`paper`] are a data
//! file, and take the same way.

pub mod analysis;
pub mod claim;
pub mod condition;
pub mod db;
pub mod expression;
pub mod frame;
pub mod monitor;
pub mod paper;
pub mod plot;
pub mod report;
pub mod sample;
pub mod series;
pub mod statistics;
pub mod tables;

pub use db::{Db, DbError};
pub use statistics::Summary;
