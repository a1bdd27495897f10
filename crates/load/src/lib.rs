//! Finds out what a network does under multicast: a load generator, and a search for the rate at which packets are
//! lost.
//!
//! This crate delivers no object. It needs no session, no ticket and no router of treecast.
//!
//! One host's part in a run of the load generator is [`run::run`]: it is handed a [`config::RunConfig`] and returns a
//! [`report::HostReport`]. [`combine::combine`] joins the reports of several hosts. [`account`] does all counting, without a socket
//! or a clock.

mod account;
mod clock_watch;
pub mod combine;
pub mod config;
pub mod packet;
mod receiver;
pub mod report;
pub mod run;
pub mod schedule;
mod sender;
pub mod snmp;
mod socket;
pub mod tables;
pub mod threshold;
mod wire_count;
