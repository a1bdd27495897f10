//! For how long the program acts without its daemon.
//!
//! The program stays at its interfaces when its daemon is killed, so that the next daemon can take it over and no packet is lost
//! meanwhile. It acts on nothing, though, once no daemon has said for [`LEASE`] that it lives. The lease is a number in a table of the
//! program, so it works alike before all filters (tcx) and as a filter of `tc`, needs no file system for pinned links and no second
//! process that could be killed as well.
//!
//! A lease of 10 s is twice the time after which senders look for routers again by default. So they have found other ways when
//! the program of a killed daemon ends to act, and lose nothing then either.

use std::time::Duration;

use treecast_host::clock::coarse_ns;

/// How long the program acts after its daemon has last said that it lives.
pub const LEASE: Duration = Duration::from_secs(10);

/// How often the daemon says that it lives.
pub const BEAT: Duration = Duration::from_secs(1);

/// When a lease that begins now ends, in nanoseconds of [`coarse_ns`]'s clock: the one that the program compares it with, or else it
/// would still act for a moment after somebody was told that it acts no more.
pub fn end_ns() -> u64 {
    coarse_ns() + LEASE.as_nanos() as u64
}

/// For how long a daemon has been silent whose last lease ends then. The lease is still there while that is less than [`LEASE`].
pub fn silence(end_ns: u64) -> Duration {
    let began_ns = end_ns.saturating_sub(LEASE.as_nanos() as u64);
    Duration::from_nanos(coarse_ns().saturating_sub(began_ns))
}
