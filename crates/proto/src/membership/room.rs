//! How much the hosts of one link may have the router look after: groups, and sources of groups.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::RangeInclusive,
};

use super::{
    Limits,
    shares::{Claim, Shares},
};

/// The groups and sources that have room on one link. Each counts for a host that wants it.
#[derive(Debug)]
pub struct Room {
    groups: Shares<IpAddr>,
    /// Group and source.
    sources: Shares<(IpAddr, IpAddr)>,
    limits: Limits,
    refused: u64,
    replaced: u64,
    /// There was no room for something, and there has not been plenty since; the first time is news.
    is_short: bool,
    is_news: bool,
}

/// How much room there is, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomSnapshot {
    pub max_groups: usize,
    /// Sources held, of all groups, and the most that may be.
    pub sources: usize,
    pub max_sources: usize,
    /// No further group or source has room, unless another gives way.
    pub is_full: bool,
    /// Groups and sources that found no room, ever.
    pub refused: u64,
    /// Groups and sources that had to give way to those of hosts that hold less, ever.
    pub replaced: u64,
    /// The host for which most groups are held, and how many.
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

    /// `host` wants something of a group.
    pub fn claim_group(&mut self, host: IpAddr, group: IpAddr) -> Claim<IpAddr> {
        let claim = self.groups.claim(host, group);
        self.count(&claim);
        claim
    }

    /// `host` names a source of a group, which gets room for it. Returns group and source if it is instead of others.
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

    /// None of a group's sources is held any more, but those that `is_kept`.
    pub fn keep_sources(&mut self, group: IpAddr, is_kept: impl Fn(IpAddr) -> bool) {
        let of_group = self.sources.range(sources_of(group)).map(|((_, source), ..)| source);
        let gone: Vec<_> = of_group.filter(|source| !is_kept(*source)).collect();
        gone.into_iter().for_each(|source| self.sources.release((group, source)));
    }

    /// A group is forgotten, with its sources.
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

    /// Where a group has as many sources as it may: the source to give way to one more of `host`, if any is to.
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

/// All that can be held of a group's sources.
fn sources_of(group: IpAddr) -> RangeInclusive<(IpAddr, IpAddr)> {
    let (lowest, highest): (IpAddr, IpAddr) = match group {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::BROADCAST.into()),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::from([0xff; 16]).into()),
    };
    (group, lowest)..=(group, highest)
}
