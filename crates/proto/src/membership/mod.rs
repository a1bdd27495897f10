//! Who listens to what, and what to forward where: multicast routers without I/O.
//!
//! Three layers, each usable alone:
//!
//! - [`group`]: one group on one link, by the tables of RFC 9777, 7 (MLDv2) and RFC 9776, 6 (IGMPv3),
//!   which are the same table in two words for each thing;
//! - [`Link`]: one interface: who is the querier there, which groups are listened to;
//! - [`Router`]: all interfaces of one address family: what to forward from where to where, and what to
//!   listen to oneself, towards the sources (RFC 4605, for more than one upstream).
//!
//! IPv4 and IPv6 share all of it; addresses are [`std::net::IpAddr`], and whoever feeds a machine gives
//! it those of one family only.

mod entries;
mod filter;
pub mod group;
mod host;
mod leave;
mod link;
mod message;
mod room;
mod router;
mod scope;
mod shares;
mod snapshot;

use std::time::Duration;

pub use entries::Forwarding;
pub use filter::{Filter, Mode};
pub use link::{Link, Output as LinkOutput};
pub use message::{Message, Query, Record};
pub use room::RoomSnapshot;
pub use router::{Event, Input, Route, Router, RouterConfig, Transmit, Wait};
pub use scope::is_routable_group;
pub use snapshot::{EntrySnapshot, GroupSnapshot, LinkSnapshot, MembershipSnapshot, RouterSnapshot};

/// The protocol's times (RFC 9777, 9; RFC 9776, 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timers {
    /// How many messages in a row may get lost; at least 1.
    pub robustness: u8,
    /// Time between general queries.
    pub query_interval: Duration,
    /// Listeners spread their answers to a general query over this time.
    pub query_response_interval: Duration,
    /// Listeners spread their answers to a specific query over this time, which is also the time
    /// between two of them.
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

    /// After this time without a report nobody listens any more (Multicast Address Listening
    /// Interval, Group Membership Interval).
    pub fn listening_interval(&self) -> Duration {
        self.query_interval * u32::from(self.robustness) + self.query_response_interval
    }

    /// After this time without a query the other querier is gone.
    pub fn other_querier_present_interval(&self) -> Duration {
        self.query_interval * u32::from(self.robustness) + self.query_response_interval / 2
    }

    /// How long a last listener has to object when another has left.
    pub fn last_listener_query_time(&self) -> Duration {
        self.last_listener_query_interval * u32::from(self.robustness)
    }

    /// Time between the first queries of a router that has just started.
    pub fn startup_query_interval(&self) -> Duration {
        self.query_interval / 4
    }

    /// Listeners spread their answers to a startup query over this time. The RFCs have the query
    /// response interval here; a shorter one lets a restarted router forward again within a second.
    pub fn startup_response_interval(&self) -> Duration {
        self.query_response_interval.min(Duration::from_secs(1))
    }
}

/// How much state others can make a router hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Groups that the hosts of a link may want. Hosts have equal shares of these and of sources.
    pub groups_per_link: usize,
    pub sources_per_group: usize,
    pub sources_per_link: usize,
    /// Forwarding entries, those that forward nowhere included.
    pub entries: usize,
    /// Sources whose routes are watched.
    pub routes: usize,
}

impl Limits {
    /// Limits for so many groups on each link, and sources and entries in proportion.
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
