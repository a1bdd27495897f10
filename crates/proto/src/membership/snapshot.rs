//! The state of a router as plain values, for people and programs.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use super::{Filter, Link, LinkId, RoomSnapshot, entries::Entry, group::Group, host::Host, link::Querier};
use crate::Instant;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterSnapshot {
    pub links: Vec<LinkSnapshot>,
    pub entries: Vec<EntrySnapshot>,
    pub listening: Vec<MembershipSnapshot>,
    /// The number of groups, sources and entries that found no room since the start.
    pub refused: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSnapshot {
    pub link: LinkId,
    pub address: IpAddr,
    /// The querier of the link. `None` on the upstream, where the router is only a host.
    pub querier: Option<IpAddr>,
    /// Time until the other querier counts as gone. `None` if this router is the querier.
    pub querier_expires: Option<Duration>,
    pub groups: Vec<GroupSnapshot>,
    /// The room for hosts. `None` on the upstream.
    pub room: Option<RoomSnapshot>,
}

/// The state of a group on a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSnapshot {
    pub group: IpAddr,
    pub filter: Filter,
    /// Time until the group is forgotten if nobody reports it again.
    pub expires: Duration,
    /// The sources that were asked for by name, each with the time until it is forgotten.
    pub requested: Vec<(IpAddr, Duration)>,
}

/// A forwarding entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntrySnapshot {
    pub source: IpAddr,
    pub group: IpAddr,
    pub from: LinkId,
    /// The outgoing links. If empty, the kernel drops the packets.
    pub to: Vec<LinkId>,
}

/// A group that the router itself listens to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MembershipSnapshot {
    pub link: LinkId,
    pub group: IpAddr,
    pub filter: Filter,
}

impl RouterSnapshot {
    pub(super) fn new<'a>(
        now: Instant,
        links: &BTreeMap<LinkId, Link>,
        upstream: Option<(LinkId, IpAddr)>,
        entries: impl Iterator<Item = (IpAddr, IpAddr, &'a Entry)>,
        hosts: &BTreeMap<LinkId, Host>,
        refused: u64,
    ) -> Self {
        let memberships = hosts
            .iter()
            .flat_map(|(link, host)| host.wanted().map(move |(group, filter)| (link, group, filter)));
        let routed = links.iter().map(|(id, link)| LinkSnapshot::new(now, *id, link));
        Self {
            links: routed.chain(upstream.map(LinkSnapshot::of_upstream)).collect(),
            entries: entries
                .filter_map(|(group, source, entry)| snapshot_entry(group, source, entry))
                .collect(),
            listening: memberships
                .map(|(link, group, filter)| MembershipSnapshot {
                    link: *link,
                    group,
                    filter: filter.clone(),
                })
                .collect(),
            refused,
        }
    }
}

impl LinkSnapshot {
    fn new(now: Instant, id: LinkId, link: &Link) -> Self {
        let (querier, querier_expires) = match link.querier() {
            Querier::Own { .. } => (link.address(), None),
            Querier::Other { address, until } => (address, Some(until - now)),
        };
        let groups = link.groups().map(|(address, group)| GroupSnapshot::new(now, address, group));
        let (address, querier) = (link.address(), Some(querier));
        let room = Some(link.room());
        Self { link: id, address, querier, querier_expires, groups: groups.collect(), room }
    }

    fn of_upstream((link, address): (LinkId, IpAddr)) -> Self {
        Self { link, address, querier: None, querier_expires: None, groups: Vec::new(), room: None }
    }
}

impl GroupSnapshot {
    fn new(now: Instant, address: IpAddr, group: &Group) -> Self {
        let last_source = group.requested().map(|(_, until)| until).max();
        let expires = last_source.max(group.exclude_until()).unwrap_or(now) - now;
        let requested = group.requested().map(|(source, until)| (source, until - now)).collect();
        Self { group: address, filter: group.filter(), expires, requested }
    }
}

fn snapshot_entry(group: IpAddr, source: IpAddr, entry: &Entry) -> Option<EntrySnapshot> {
    let forwarding = entry.installed.as_ref()?;
    let to = forwarding.to.iter().copied().collect();
    Some(EntrySnapshot { source, group, from: forwarding.from, to })
}
