//! Multicast routing without I/O: which hosts listen to which groups, and where to forward packets.
//!
//! There are three layers, and each can be used alone:
//!
//! - [`group`]: one group on one link, by the tables of RFC 9777, section 7 (MLDv2) and RFC 9776, section 6
//!   (IGMPv3), which are the same table in different words.
//! - [`Link`]: one interface. It knows the querier there, and the groups with listeners.
//! - [`Router`]: all interfaces of one address family. It decides from where to where packets are forwarded,
//!   and what the router itself listens to, towards the sources (RFC 4605, for more than one upstream).
//!
//! IPv4 and IPv6 share all of this. Addresses are [`std::net::IpAddr`]; one machine must only get addresses of
//! one family.

mod entries;
mod filter;
pub mod group;
mod host;
mod leave;
mod link;
mod message;
mod neighbours;
mod room;
mod router;
mod scope;
mod shares;
mod snapshot;
pub mod trace;

use std::time::Duration;

pub use entries::Forwarding;
pub use filter::{Filter, Mode};
pub use host::Host;
pub use link::{Link, Output as LinkOutput};
pub use message::{Message, Query, Record};
pub use room::RoomSnapshot;
pub use router::{Event, Input, Passing, Route, Router, RouterConfig, Transmit, Wait};
pub use scope::{is_routable_group, is_source_specific};
pub use snapshot::{EntrySnapshot, GroupSnapshot, LinkSnapshot, MembershipSnapshot, RouterSnapshot};

/// The protocol's times (RFC 9777, 9; RFC 9776, 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timers {
    /// The number of messages in a row that may get lost, at least 1.
    pub robustness: u8,
    /// Time between general queries.
    pub query_interval: Duration,
    /// The time over which listeners spread their answers to a general query.
    pub query_response_interval: Duration,
    /// The time over which listeners spread their answers to a specific query, and also the time between two
    /// such queries.
    pub last_listener_query_interval: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Self::with_query_interval(Duration::from_secs(125))
    }
}

impl Timers {
    /// The RFCs' defaults, shortened in proportion where `query_interval` is short.
    pub fn with_query_interval(query_interval: Duration) -> Self {
        Self {
            robustness: 2,
            query_interval,
            query_response_interval: Duration::from_secs(10).min(query_interval / 4),
            last_listener_query_interval: Duration::from_secs(1).min(query_interval / 4),
        }
    }

    /// The time without a report after which nobody listens any more (Multicast Address Listening Interval,
    /// Group Membership Interval).
    pub fn listening_interval(&self) -> Duration {
        self.query_interval * u32::from(self.robustness) + self.query_response_interval
    }

    /// The time without a query after which the other querier is gone.
    pub fn other_querier_present_interval(&self) -> Duration {
        self.query_interval * u32::from(self.robustness) + self.query_response_interval / 2
    }

    /// The time that remaining listeners have to answer when one has left.
    pub fn last_listener_query_time(&self) -> Duration {
        self.last_listener_query_interval * u32::from(self.robustness)
    }

    /// Time between the first queries of a router that has just started.
    pub fn startup_query_interval(&self) -> Duration {
        self.query_interval / 4
    }

    /// The time over which listeners spread their answers to a startup query. The RFCs use the query response
    /// interval; a shorter one lets a restarted router forward again within a second.
    pub fn startup_response_interval(&self) -> Duration {
        self.query_response_interval.min(Duration::from_secs(1))
    }
}

/// The limits on the state that others can make a router hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The number of groups that the hosts of a link may want. Hosts have equal shares of groups and of
    /// sources.
    pub groups_per_link: usize,
    pub sources_per_group: usize,
    pub sources_per_link: usize,
    /// The number of forwarding entries, including those without outgoing links.
    pub entries: usize,
    /// The number of sources whose routes are watched.
    pub routes: usize,
}

impl Limits {
    /// Limits for this many groups on each link, with sources and entries in proportion.
    pub fn with_groups_per_link(groups_per_link: usize) -> Self {
        Self {
            groups_per_link,
            sources_per_group: 64,
            sources_per_link: groups_per_link * 8,
            entries: groups_per_link * 8,
            routes: groups_per_link * 32,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::with_groups_per_link(1024)
    }
}

/// An interface, by the number that the caller's system gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);
