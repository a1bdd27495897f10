//! The limit on the state of one link's hosts: groups, and sources of groups.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::RangeInclusive,
};

use super::{
    Limits,
    shares::{Claim, Shares},
};

/// The groups and sources of one link that have room. Each counts for a host that wants it.
#[derive(Debug)]
pub struct Room {
    groups: Shares<IpAddr>,
    /// The sources, as pairs of group and source.
    sources: Shares<(IpAddr, IpAddr)>,
    limits: Limits,
    refused: u64,
    replaced: u64,
    /// Whether something found no room, and there has not been plenty since. Only the first time is reported.
    is_short: bool,
    is_news: bool,
}

/// The room of a link, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomSnapshot {
    pub max_groups: usize,
    /// The number of sources of all groups, and its limit.
    pub sources: usize,
    pub max_sources: usize,
    /// Whether no further group or source has room, unless another gives way.
    pub is_full: bool,
    /// The number of groups and sources that found no room since the start.
    pub refused: u64,
    /// The number of groups and sources that had to give way to those of hosts with fewer, since the start.
    pub replaced: u64,
    /// The host with the most groups, and their number.
    pub largest: Option<(IpAddr, usize)>,
}

impl Room {
    pub fn new(limits: Limits) -> Self {
        Self {
            groups: Shares::new(limits.groups_per_link),
            sources: Shares::new(limits.sources_per_link),
            limits,
            refused: 0,
            replaced: 0,
            is_short: false,
            is_news: false,
        }
    }

    /// Claims room for a group that `host` wants.
    pub fn claim_group(&mut self, host: IpAddr, group: IpAddr) -> Claim<IpAddr> {
        let claim = self.groups.claim(host, group);
        self.count(&claim);
        claim
    }

    /// Claims room for a source that `host` names. Returns the group and source that gave way, if any did.
    pub fn claim_source(&mut self, host: IpAddr, group: IpAddr, source: IpAddr) -> Claim<(IpAddr, IpAddr)> {
        let claim = match self.newest_of_largest(host, group, source) {
            None => self.sources.claim(host, (group, source)),
            Some(None) => Claim::Refused,
            Some(Some(newest)) => {
                self.sources.release((group, newest));
                self.sources.claim(host, (group, source));
                Claim::Instead((group, newest))
            }
        };
        self.count(&claim);
        claim
    }

    pub fn holds_source(&self, group: IpAddr, source: IpAddr) -> bool {
        self.sources.is_held((group, source))
    }

    /// Releases the group's sources, except those that `is_kept`.
    pub fn keep_sources(&mut self, group: IpAddr, is_kept: impl Fn(IpAddr) -> bool) {
        let of_group = self.sources.range(sources_of(group)).map(|((_, source), ..)| source);
        let gone: Vec<_> = of_group.filter(|source| !is_kept(*source)).collect();
        gone.into_iter().for_each(|source| self.sources.release((group, source)));
    }

    /// Releases a group and its sources.
    pub fn release_group(&mut self, group: IpAddr) {
        self.keep_sources(group, |_| false);
        self.groups.release(group);
        if self.groups.len() < self.limits.groups_per_link / 8 * 7
            && self.sources.len() < self.limits.sources_per_link / 8 * 7
        {
            self.is_short = false;
        }
    }

    pub fn snapshot(&self) -> RoomSnapshot {
        RoomSnapshot {
            max_groups: self.limits.groups_per_link,
            sources: self.sources.len(),
            max_sources: self.limits.sources_per_link,
            is_full: self.groups.is_full() || self.sources.is_full(),
            refused: self.refused,
            replaced: self.replaced,
            largest: self.groups.largest(),
        }
    }

    /// Whether something has found no room or given way, for the first time since there was plenty.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.is_news)
    }

    /// Returns the source that gives way to another one of `host`, if any does, in a group that has as many
    /// sources as it may.
    fn newest_of_largest(&self, host: IpAddr, group: IpAddr, source: IpAddr) -> Option<Option<IpAddr>> {
        let held: Vec<_> = self.sources.range(sources_of(group)).collect();
        if held.len() < self.limits.sources_per_group || self.sources.is_held((group, source)) {
            return None;
        }
        let mut counts = BTreeMap::from([(host, 0)]);
        held.iter().for_each(|(_, host, _)| *counts.entry(*host).or_insert(0) += 1);
        let own = counts[&host];
        let largest = counts.into_iter().max_by_key(|(_, count)| *count);
        let (largest, _) = largest.filter(|(_, count)| *count > own + 1).unzip();
        let of_largest = held.into_iter().filter(|(_, host, _)| Some(*host) == largest);
        Some(of_largest.max_by_key(|(.., number)| *number).map(|((_, source), ..)| source))
    }

    fn count<K>(&mut self, claim: &Claim<K>) {
        match claim {
            Claim::Held => return,
            Claim::Instead(_) => self.replaced += 1,
            Claim::Refused => self.refused += 1,
        }
        self.is_news |= !self.is_short;
        self.is_short = true;
    }
}

/// The range of all sources of a group.
fn sources_of(group: IpAddr) -> RangeInclusive<(IpAddr, IpAddr)> {
    let (lowest, highest): (IpAddr, IpAddr) = match group {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::BROADCAST.into()),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::from([0xff; 16]).into()),
    };
    (group, lowest)..=(group, highest)
}
