//! Runs treecast's protocol machines on a host: sockets, files and real time.
//!
//! This crate decides nothing about a protocol: what to send, ask for or store is up to the machines of
//! `treecast-proto`. What the kernel offers is in `treecast-host`, and with it all `unsafe` code.

/// The target of what a session logs: its events, which its caller is told as well.
pub const SESSION_LOG: &str = "treecast::session";

pub mod carousel;
mod chunk_tree;
pub mod clock;
pub mod connection;
pub mod events;
pub mod explicit;
mod fanout;
pub mod fec;
pub mod files;
pub mod hindrance;
pub mod metrics;
pub mod pacer;
pub mod receive;
pub mod seal;
pub mod security;
pub mod send;
pub mod status;
pub mod udp;
pub mod unicast;
pub mod words;
