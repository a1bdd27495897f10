//! Routers: what a node does that forwards packets for others.
//!
//! [`mroute`] is the multicast routing daemon: it tells the kernel what to forward. [`explicit`] is the router for MEADcast and Xcast: its
//! forwarding is an eBPF program. Decisions are made by machines of `treecast-proto`; here are their sockets and their clock.
//! What the kernel offers is in `treecast-host`. The only `unsafe` code here declares structures that are shared with the
//! kernel to be plain bytes, and hands them to it.

mod clock;
mod control;
pub mod explicit;
mod mld_socket;
pub mod mroute;
mod notices;
mod raw_output;
