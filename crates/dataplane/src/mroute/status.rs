//! The daemon's state as it is shown: as JSON on the control socket, and as text.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use serde::{Deserialize, Serialize};
use treecast_proto::membership::{
    Filter, GroupSnapshot, LinkId, LinkSnapshot, Mode, RoomSnapshot, RouterSnapshot,
};

use super::counts::Counters;

/// The state of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub ipv6: Option<Family>,
    pub ipv4: Option<Family>,
}

/// The state of one address family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Family {
    pub interfaces: Vec<Interface>,
    pub entries: Vec<Entry>,
    pub listening: Vec<Listening>,
    /// The number of groups, sources and entries that there was no room for, since the start.
    pub refused: u64,
    /// The number of messages that were dropped, for each reason.
    pub dropped: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    pub name: String,
    pub address: IpAddr,
    /// The address of the querier. None on the upstream interface, where the router is only a host.
    pub querier: Option<IpAddr>,
    pub is_querier: bool,
    /// The seconds until the other querier counts as gone.
    pub querier_expires_s: Option<u64>,
    pub groups: Vec<JoinedGroup>,
    /// The room for groups and sources. None on the upstream interface.
    pub room: Option<Room>,
}

/// The room for the groups and sources that an interface's hosts ask for. When it is full, the hosts that ask
/// for most give way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Whether no further group or source has room unless another gives way.
    pub is_full: bool,
    pub max_groups: usize,
    /// The number of sources held, of all groups together.
    pub sources: usize,
    pub max_sources: usize,
    /// The number of groups and sources that there was no room for, since the start.
    pub refused: u64,
    /// The number of groups and sources that had to give way, since the start.
    pub replaced: u64,
    /// The host that has most groups here, and how many.
    pub largest_host: Option<IpAddr>,
    pub largest_host_groups: usize,
}

/// The wishes of an interface's listeners about a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinedGroup {
    pub group: IpAddr,
    pub filter: SourceFilter,
    /// The seconds until the group is forgotten if nobody reports it again.
    pub expires_s: u64,
    /// The sources that listeners have asked for by name.
    pub requested: Vec<Source>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    pub source: IpAddr,
    pub expires_s: u64,
}

/// Whether listeners want only the sources named, or all except those.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceFilter {
    Include(Vec<IpAddr>),
    Exclude(Vec<IpAddr>),
}

/// The forwarding of one source's packets to one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub source: IpAddr,
    pub group: IpAddr,
    pub from: String,
    /// The interfaces that packets are forwarded to. Empty: the packets are dropped here.
    pub to: Vec<String>,
    /// The number of packets that the kernel has counted; a super-packet counts as one.
    pub packets: u64,
    pub bytes: u64,
    /// The number of these packets that arrived at another interface, and were dropped.
    pub wrong_interface: u64,
}

/// A group that the router itself listens to, as a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    pub interface: String,
    pub group: IpAddr,
    pub filter: SourceFilter,
}

impl Family {
    /// A snapshot with names instead of numbers, and with what the kernel has counted.
    pub(super) fn new(
        snapshot: RouterSnapshot,
        dropped: BTreeMap<String, u64>,
        name: impl Fn(LinkId) -> String,
        count: impl Fn(IpAddr, IpAddr) -> Counters,
    ) -> Self {
        let entries = snapshot.entries.into_iter().map(|entry| {
            let counters = count(entry.source, entry.group);
            Entry {
                source: entry.source,
                group: entry.group,
                from: name(entry.from),
                to: entry.to.into_iter().map(&name).collect(),
                packets: counters.packets,
                bytes: counters.bytes,
                wrong_interface: counters.wrong_interface,
            }
        });
        let listening = snapshot.listening.into_iter().map(|membership| Listening {
            interface: name(membership.link),
            group: membership.group,
            filter: membership.filter.into(),
        });
        Self {
            interfaces: snapshot
                .links
                .into_iter()
                .map(|link| Interface::new(name(link.link), link))
                .collect(),
            entries: entries.collect(),
            listening: listening.collect(),
            refused: snapshot.refused,
            dropped,
        }
    }
}

impl Interface {
    fn new(name: String, link: LinkSnapshot) -> Self {
        Self {
            name,
            address: link.address,
            querier: link.querier,
            is_querier: link.querier.is_some() && link.querier_expires.is_none(),
            querier_expires_s: link.querier_expires.map(|left| left.as_secs()),
            groups: link.groups.into_iter().map(JoinedGroup::from).collect(),
            room: link.room.map(Room::from),
        }
    }
}

impl From<RoomSnapshot> for Room {
    fn from(room: RoomSnapshot) -> Self {
        let RoomSnapshot { max_groups, sources, max_sources, is_full, refused, replaced, largest } = room;
        let (largest_host, largest_host_groups) =
            largest.map_or((None, 0), |(host, count)| (Some(host), count));
        Self {
            is_full,
            max_groups,
            sources,
            max_sources,
            refused,
            replaced,
            largest_host,
            largest_host_groups,
        }
    }
}

impl From<GroupSnapshot> for JoinedGroup {
    fn from(group: GroupSnapshot) -> Self {
        let source = |(source, expires): (IpAddr, Duration)| Source { source, expires_s: expires.as_secs() };
        Self {
            group: group.group,
            filter: group.filter.into(),
            expires_s: group.expires.as_secs(),
            requested: group.requested.into_iter().map(source).collect(),
        }
    }
}

impl From<Filter> for SourceFilter {
    fn from(filter: Filter) -> Self {
        let sources = filter.sources.into_iter().collect();
        match filter.mode {
            Mode::Include => Self::Include(sources),
            Mode::Exclude => Self::Exclude(sources),
        }
    }
}

impl std::fmt::Display for SourceFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Include(sources) => Filter::include(sources.iter().copied()).fmt(f),
            Self::Exclude(sources) => Filter::exclude(sources.iter().copied()).fmt(f),
        }
    }
}
