//! The daemon's state as it is shown: JSON on the control socket, and text made of that.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use serde::{Deserialize, Serialize};
use treecast_proto::membership::{
    Filter, GroupSnapshot, LinkId, LinkSnapshot, Mode, RoomSnapshot, RouterSnapshot,
};

use super::kernel::Counters;

/// All that a daemon knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub ipv6: Option<Family>,
    pub ipv4: Option<Family>,
}

/// What a daemon knows of one address family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Family {
    pub interfaces: Vec<Interface>,
    pub entries: Vec<Entry>,
    pub listening: Vec<Listening>,
    /// Groups, sources and entries that found no room, ever.
    pub refused: u64,
    /// Messages that were dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    pub name: String,
    pub address: IpAddr,
    /// None on the upstream, where the router is only a host.
    pub querier: Option<IpAddr>,
    pub is_querier: bool,
    /// Time until the other querier counts as gone.
    pub querier_expires_s: Option<u64>,
    pub groups: Vec<Group>,
    /// None on the upstream.
    pub room: Option<Room>,
}

/// How much the hosts of an interface have the router look after. When it is full, those that ask for most give way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// No further group or source has room, unless another gives way.
    pub is_full: bool,
    pub max_groups: usize,
    /// Sources held, of all groups.
    pub sources: usize,
    pub max_sources: usize,
    /// Groups and sources that found no room, ever.
    pub refused: u64,
    /// Groups and sources that had to give way, ever.
    pub replaced: u64,
    /// The host for which most groups are held, and how many.
    pub largest_host: Option<IpAddr>,
    pub largest_host_groups: usize,
}

/// What the listeners of an interface want of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub group: IpAddr,
    pub filter: SourceFilter,
    /// Time until it is forgotten if nobody reports it again.
    pub expires_s: u64,
    /// Sources asked for by name.
    pub requested: Vec<Source>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    pub source: IpAddr,
    pub expires_s: u64,
}

/// Which sources are wanted: these only, or all but these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceFilter {
    Include(Vec<IpAddr>),
    Exclude(Vec<IpAddr>),
}

/// Packets of one source to one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub source: IpAddr,
    pub group: IpAddr,
    pub from: String,
    /// Empty: its packets end here.
    pub to: Vec<String>,
    /// What the kernel has seen of it; a super-packet is one packet.
    pub packets: u64,
    pub bytes: u64,
    /// Packets among them that came in elsewhere, and were dropped.
    pub wrong_interface: u64,
}

/// What the router itself listens to, as a host.
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
            groups: link.groups.into_iter().map(Group::from).collect(),
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

impl From<GroupSnapshot> for Group {
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
