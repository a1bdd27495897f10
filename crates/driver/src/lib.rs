//! Runs treecast's protocol machines on a host: sockets, files and real time.
//!
//! This crate makes no decision about a protocol. The machines of `treecast-proto` decide what to send, ask for
//! or store. `treecast-host` makes the system calls, and contains all `unsafe` code.

/// The log target of a session's events. The caller gets the same events.
pub const SESSION_LOG: &str = "treecast::session";

pub mod carousel;
mod chunk_index;
mod chunk_tree;
pub mod clock;
pub mod code;
pub mod coding;
pub mod connection;
pub mod difference;
pub mod discovery;
pub mod events;
pub mod explicit;
mod fanout;
pub mod fec;
pub mod files;
pub mod hindrance;
pub mod local;
pub mod metrics;
mod name_filter;
#[doc(hidden)]
pub mod parsers;
pub mod pipe;
pub mod receive;
pub mod remedies;
#[cfg(test)]
mod scratch;
pub mod seal;
pub mod security;
pub mod send;
pub mod standing;
pub mod status;
pub mod udp;
pub mod unicast;
pub mod words;
mod zeros;
