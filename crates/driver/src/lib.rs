//! Runs treecast's protocol machines on a host: sockets, files and real time.
//!
//! This crate decides nothing about a protocol: what to send, ask for or store is up to the machines of
//! `treecast-proto`. It has nearly all the `unsafe` of treecast, each behind a safe function.

pub mod files;
pub mod interface;
pub mod pacer;
pub mod udp;
pub mod wake;
