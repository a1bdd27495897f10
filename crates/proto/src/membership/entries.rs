//! The forwarding entries that a router has told its kernel, or is about to tell it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    ops::Bound,
    time::Duration,
};

use super::LinkId;
use crate::Instant;

/// An entry for packets from one source to one group: where they come in and where they go out.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The link where the first packet came in.
    pub arrived: LinkId,
    /// The forwarding that the kernel was told last. `None` before the first time.
    pub installed: Option<Forwarding>,
    /// Whether a packet has come in by another link, so that the route is being looked up again.
    pub is_suspect: bool,
    /// Links to which an earlier daemon forwarded, and whose listeners have not had time to report again.
    pub presumed: BTreeSet<LinkId>,
    /// The kernel's packet count when it was last read, and the time since which it has had this value.
    packets: u64,
    since: Instant,
}

/// The forwarding of one source's packets: one incoming link, and any number of outgoing ones. Without outgoing
/// links, the kernel drops the packets and does not ask again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarding {
    pub from: LinkId,
    pub to: BTreeSet<LinkId>,
}

/// All entries, by group and source.
#[derive(Debug, Default)]
pub struct Entries {
    map: BTreeMap<(IpAddr, IpAddr), Entry>,
}

impl Entries {
    pub fn len(&self) -> usize {
        self.map.len()
    }

    pub fn get(&self, group: IpAddr, source: IpAddr) -> Option<&Entry> {
        self.map.get(&(group, source))
    }

    pub fn get_mut(&mut self, group: IpAddr, source: IpAddr) -> Option<&mut Entry> {
        self.map.get_mut(&(group, source))
    }

    pub fn insert(&mut self, now: Instant, group: IpAddr, source: IpAddr, arrived: LinkId) {
        let (presumed, is_suspect) = (BTreeSet::new(), false);
        let entry = Entry { arrived, installed: None, is_suspect, presumed, packets: 0, since: now };
        self.map.insert((group, source), entry);
    }

    pub fn remove(&mut self, group: IpAddr, source: IpAddr) -> Option<Entry> {
        self.map.remove(&(group, source))
    }

    /// The sources of `group` that have entries.
    pub fn sources(&self, group: IpAddr) -> Vec<IpAddr> {
        self.of(group).map(|(source, _)| source).collect()
    }

    /// The links by which the packets of a group's sources come in.
    pub fn ways(&self, group: IpAddr) -> BTreeSet<LinkId> {
        self.of(group).filter_map(|(_, entry)| Some(entry.installed.as_ref()?.from)).collect()
    }

    /// The sources of `group` whose packets come in by another link than `link`.
    pub fn sources_elsewhere(&self, group: IpAddr, link: LinkId) -> impl Iterator<Item = IpAddr> {
        let elsewhere = move |entry: &Entry| entry.installed.as_ref().is_some_and(|to| to.from != link);
        self.of(group).filter(move |(_, entry)| elsewhere(entry)).map(|(source, _)| source)
    }

    /// The groups that have a suspect entry of `source`. These entries are no longer suspect afterwards.
    pub fn take_suspicions(&mut self, source: IpAddr) -> Vec<IpAddr> {
        let suspects = self.map.iter_mut().filter(|((_, of), entry)| *of == source && entry.is_suspect);
        suspects
            .map(|((group, _), entry)| {
                entry.is_suspect = false;
                *group
            })
            .collect()
    }

    /// Notes that the listeners of `link` have reported that they want those sources of `group` for which
    /// `passes` is true. They need not be presumed any more.
    pub fn confirm(&mut self, group: IpAddr, link: LinkId, passes: impl Fn(IpAddr) -> bool) {
        for source in self.sources(group).into_iter().filter(|source| passes(*source)) {
            self.map.entry((group, source)).and_modify(|entry| entry.presumed.retain(|of| *of != link));
        }
    }

    /// Ends all presumptions. Returns group and source of the entries that had any.
    pub fn forget_presumptions(&mut self) -> Vec<(IpAddr, IpAddr)> {
        let presumed = self.map.iter_mut().filter(|(_, entry)| !entry.presumed.is_empty());
        presumed
            .map(|(key, entry)| {
                entry.presumed.clear();
                *key
            })
            .collect()
    }

    /// All entries, each with its group and source.
    pub fn iter(&self) -> impl Iterator<Item = (IpAddr, IpAddr, &Entry)> {
        self.map.iter().map(|((group, source), entry)| (*group, *source, entry))
    }

    fn of(&self, group: IpAddr) -> impl Iterator<Item = (IpAddr, &Entry)> {
        let lowest: IpAddr = match group {
            IpAddr::V4(_) => IpAddr::from([0; 4]),
            IpAddr::V6(_) => IpAddr::from([0; 16]),
        };
        let from_here = self.map.range((Bound::Included((group, lowest)), Bound::Unbounded));
        let of_group = from_here.take_while(move |((of, _), _)| *of == group);
        of_group.map(|((_, source), entry)| (*source, entry))
    }
}

impl Entry {
    /// Notes the kernel's count of packets for this entry. Returns whether no packet came for `idle`.
    pub fn counted(&mut self, now: Instant, packets: u64, idle: Duration) -> bool {
        if packets != self.packets {
            self.packets = packets;
            self.since = now;
        }
        now - self.since >= idle
    }
}
