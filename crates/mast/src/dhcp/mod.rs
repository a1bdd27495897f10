//! mDHCPv6 (paper interdomain-2013, 6.3.2): DHCPv6 (RFC 8415) with a Broadcast Prefix Push, by which a server tells all
//! clients of a link which prefixes it has, and which of them are discouraged.
//!
//! [`server::Server`] and [`client::Client`] have no sockets and no clock.

pub mod client;
mod leases;
pub mod server;
pub mod wire;

pub use leases::KeptLease;

#[cfg(test)]
mod tests;

use std::net::Ipv6Addr;

/// The port of clients (RFC 8415, 7.2).
pub const CLIENT_PORT: u16 = 546;
/// The port of servers.
pub(crate) const SERVER_PORT: u16 = 547;

/// The group of all servers of a link (RFC 8415, 7.1).
pub(crate) const ALL_SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
/// The group of all hosts of a link, to which a push goes.
pub(crate) const ALL_HOSTS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
