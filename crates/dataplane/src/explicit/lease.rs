//! Limits how long the program acts without its daemon.
//!
//! The program stays at its interfaces when its daemon is killed, so that the next daemon can take it over and
//! no packet is lost meanwhile. But it acts only for [`LEASE`] after a daemon has last told it that the daemon
//! is running. The lease is a number in a table of the program. So it works the same when the program is
//! attached before all filters (tcx) and as a filter of `tc`, and it needs neither a file system for pinned
//! links nor a second process that could be killed as well.
//!
//! A lease of 10 s is twice the time after which senders look for routers again by default. So they have found
//! other ways when the program of a killed daemon stops acting, and lose nothing then either.

use std::time::Duration;

use treecast_host::clock::coarse_ns;

/// The time for which the program acts after its daemon last said that it is running.
pub const LEASE: Duration = Duration::from_secs(10);

/// Time between two signs of the daemon that it is running.
pub const BEAT: Duration = Duration::from_secs(1);

/// Returns when a lease that begins now ends, in nanoseconds of [`coarse_ns`]'s clock. The program compares the
/// lease with that clock; with another one it would still act for a moment after somebody was told that it no
/// longer does.
pub fn end_ns() -> u64 {
    coarse_ns() + LEASE.as_nanos() as u64
}

/// Returns for how long a daemon has been silent whose last lease ends at `end_ns`. While this is less than
/// [`LEASE`], the lease still holds.
pub fn silence(end_ns: u64) -> Duration {
    let began_ns = end_ns.saturating_sub(LEASE.as_nanos() as u64);
    Duration::from_nanos(coarse_ns().saturating_sub(began_ns))
}
