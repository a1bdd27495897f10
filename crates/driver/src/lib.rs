//! Runs treecast's protocol machines on a host: sockets, files and real time.
//!
//! This crate decides nothing about a protocol: what to send, ask for or store is up to the machines of
//! `treecast-proto`. It has nearly all the `unsafe` of treecast, each behind a safe function.

/// The target of what a session logs: its events, which its caller is told as well.
pub const SESSION_LOG: &str = "treecast::session";

pub mod carousel;
mod chunk_tree;
pub mod clock;
pub mod connection;
pub mod explicit;
mod fanout;
pub mod fec;
pub mod file_limit;
pub mod files;
pub mod frames;
pub mod interface;
pub mod metrics;
pub mod offload;
pub mod pacer;
pub mod poller;
pub mod receive;
pub mod seal;
pub mod security;
pub mod send;
pub mod status;
pub mod stop;
mod tcp_info;
pub mod udp;
pub mod unicast;
mod user;
pub mod wake;
pub mod words;
