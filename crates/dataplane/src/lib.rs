//! Routers: what a node does that forwards packets for others.
//!
//! So far this is the multicast routing daemon, [`mroute`]. The forwarding itself is the kernel's; this
//! crate tells it what to forward. Decisions are made by machines of `treecast-proto`; here are their
//! sockets, clock and kernel interfaces. `unsafe` code is in
//! `mroute::sys` alone; elsewhere the kernel's structures are declared to be plain bytes.

pub mod mroute;
