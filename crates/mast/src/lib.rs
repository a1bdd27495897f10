//! MAST: stubs with several providers, without their prefixes in the global routing table (interdomain-2013, chapter 6).
//!
//! A stub has an address block of each provider. Each host has an address out of each block. When the access link to a provider
//! fails, packets to that provider's addresses reach the stub through a tunnel by way of another provider. New connections
//! avoid these addresses, which are then *discouraged*, until the link is back.
//!
//! The paper names two protocols without describing them: SRMP, by which the stub's management system (SRMS) tells which prefixes
//! are discouraged, and ITMP, by which it asks a provider's management system (TMS) for tunnels. [`message`] defines both.
//!
//! The machines here are handed messages and times, and return messages and commands. They touch no socket, file or clock. The programs
//! around them are in [`run`].

pub mod dhcp;
pub mod dns;
mod errand;
pub mod message;
mod prefix;
pub mod run;
pub mod srms;
pub mod tms;

pub use prefix::{Prefix, PrefixError};
