//! The data plane of a node that forwards packets for others.
//!
//! [`mroute`] is the multicast routing daemon, which tells the kernel what to forward. [`explicit`] is the
//! router for MEADcast and Xcast, which forwards with an eBPF program. The machines of `treecast-proto` make
//! the decisions; this crate has their sockets and their clock. What the kernel offers is in `treecast-host`.
//! The only `unsafe` code here declares that structures that are shared with the kernel are plain bytes, and
//! hands them to it.

mod clock;
mod control;
pub mod explicit;
pub mod mroute;
mod notices;
mod raw_output;
