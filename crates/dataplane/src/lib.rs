//! Routers: what a node does that forwards packets for others.
//!
//! [`mroute`] is the multicast routing daemon: it tells the kernel what to forward. [`explicit`] is the router for MEADcast and Xcast: its
//! forwarding is an eBPF program; [`tcx`] is where that stands. Decisions are made by machines of `treecast-proto`; here are their
//! sockets, clock and kernel interfaces. `unsafe` code is in
//! `sys` alone; elsewhere the kernel's structures are declared to be plain bytes.

mod classic_bpf;
mod clock;
mod control;
pub mod explicit;
mod mld_socket;
pub mod mroute;
mod netlink;
mod nftables;
mod notices;
mod raw_output;
mod sys;
pub mod tcx;
