//! Runs treecast's protocol machines in a simulated network and virtual time, from a seed: the same
//! seed gives the same run, packet for packet.
//!
//! This crate opens no socket or file and reads no clock. It starts threads for [`crowd`] alone. Its parts:
//!
//! - [`schedule`]: virtual time, as a queue of what happens when, and the loop that lets it pass;
//! - [`network`]: links that lose, delay, reorder and duplicate packets, connections with a delay and
//!   a rate, and receive buffers;
//! - [`graph`]: a network of nodes and cables, with routes and multicast trees, through which TCP connections go, too;
//! - [`trace`]: what happened, as a hash to compare and, when asked for, as lines to read;
//! - one module a protocol, which draws a scenario from a seed, runs it and judges how it ended.
#![forbid(unsafe_code)]

pub mod crowd;
pub mod graph;
mod judge;
pub mod network;
pub mod schedule;
pub mod session;
mod tcp;
pub mod tfmcc;
pub mod trace;
pub mod unicast;
mod world;

pub use judge::Verdict;
