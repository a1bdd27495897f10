//! Room that all hosts of a link share. When it is used up, the host that holds most must give way.
//!
//! Hosts are known by their addresses, and an attacker may invent those. With k addresses it gets k shares, but
//! a host that asks for no more than its own share is still served. A host that holds a single thing never
//! loses it. So a flood from as many addresses as there are places keeps newcomers out, but not hosts that were
//! there before. In IPv4, the addresses of the link's network limit such a flood. In IPv6, only the time for
//! which state is kept limits it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    ops::RangeBounds,
};

/// The things that have room, and the host that each counts for.
#[derive(Debug)]
pub struct Shares<K> {
    limit: usize,
    held: BTreeMap<K, Holding>,
    /// The things that each host holds, in the order in which they came.
    hosts: BTreeMap<IpAddr, BTreeMap<u64, K>>,
    by_count: BTreeSet<(usize, IpAddr)>,
    next_number: u64,
}

#[derive(Debug, Clone, Copy)]
struct Holding {
    host: IpAddr,
    number: u64,
}

/// The result of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim<K> {
    Held,
    /// The thing has room now. In exchange, this newest thing of the host that held most has lost its room.
    Instead(K),
    /// The thing has no room, because no other host holds enough more to give way.
    Refused,
}

impl<K: Copy + Ord> Shares<K> {
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            held: BTreeMap::new(),
            hosts: BTreeMap::new(),
            by_count: BTreeSet::new(),
            next_number: 0,
        }
    }

    /// Claims room for `thing`, which `host` wants. A thing that several hosts want counts for the one that
    /// holds least, so that nobody can make others lose it.
    pub fn claim(&mut self, host: IpAddr, thing: K) -> Claim<K> {
        let count = self.count(host);
        if let Some(holding) = self.held.get(&thing).copied() {
            if self.count(holding.host) > count + 1 {
                self.release(thing);
                self.hold(host, thing);
            }
            return Claim::Held;
        }
        if self.held.len() < self.limit {
            self.hold(host, thing);
            return Claim::Held;
        }
        let newest = self
            .largest()
            .filter(|(_, most)| *most > count + 1)
            .and_then(|(largest, _)| self.hosts.get(&largest)?.last_key_value().map(|(_, newest)| *newest));
        let Some(newest) = newest else { return Claim::Refused };
        self.release(newest);
        self.hold(host, thing);
        Claim::Instead(newest)
    }

    /// Releases `thing`, which nobody wants any more.
    pub fn release(&mut self, thing: K) {
        let Some(Holding { host, number }) = self.held.remove(&thing) else { return };
        let count = self.count(host);
        self.by_count.remove(&(count, host));
        if count > 1 {
            self.by_count.insert((count - 1, host));
            self.hosts.entry(host).or_default().remove(&number);
        } else {
            self.hosts.remove(&host);
        }
    }

    /// The things within `range`, each with its host and a number that is higher the later it came.
    pub fn range(&self, range: impl RangeBounds<K>) -> impl Iterator<Item = (K, IpAddr, u64)> {
        self.held.range(range).map(|(thing, holding)| (*thing, holding.host, holding.number))
    }

    pub fn is_held(&self, thing: K) -> bool {
        self.held.contains_key(&thing)
    }

    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// The host that holds most, and the number of its things.
    pub fn largest(&self) -> Option<(IpAddr, usize)> {
        self.by_count.last().map(|(count, host)| (*host, *count))
    }

    pub fn is_full(&self) -> bool {
        self.held.len() >= self.limit
    }

    fn hold(&mut self, host: IpAddr, thing: K) {
        let count = self.count(host);
        self.by_count.remove(&(count, host));
        self.by_count.insert((count + 1, host));
        self.hosts.entry(host).or_default().insert(self.next_number, thing);
        self.held.insert(thing, Holding { host, number: self.next_number });
        self.next_number += 1;
    }

    fn count(&self, host: IpAddr) -> usize {
        self.hosts.get(&host).map_or(0, BTreeMap::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn who_holds_most_gives_way_with_what_came_last() {
        let mut shares = Shares::new(4);
        for thing in 0..4 {
            assert_eq!(shares.claim(host(1), thing), Claim::Held);
        }
        assert_eq!(shares.claim(host(1), 9), Claim::Refused, "its own share is all there is");
        assert_eq!(shares.claim(host(2), 10), Claim::Instead(3));
        assert_eq!(shares.claim(host(2), 11), Claim::Instead(2));
        assert_eq!(shares.claim(host(2), 12), Claim::Refused, "both hold two");
        assert_eq!(shares.claim(host(3), 13), Claim::Instead(11));
        assert_eq!(shares.largest(), Some((host(1), 2)));
        shares.release(0);
        assert_eq!(shares.claim(host(3), 14), Claim::Held, "there is room again");
    }

    #[test]
    fn what_several_want_counts_as_the_smallest_ones() {
        let mut shares = Shares::new(3);
        for thing in 0..3 {
            shares.claim(host(1), thing);
        }
        assert_eq!(shares.claim(host(2), 2), Claim::Held);
        assert_eq!(shares.claim(host(3), 10), Claim::Instead(1), "not what host 2 wants, too");
        assert!(shares.is_held(2));
    }

    /// An address that asks for no more than a share of its own gets it, and one that holds one thing keeps
    /// it.
    #[test]
    fn many_addresses_take_as_many_shares_and_no_more() {
        let mut shares = Shares::new(60);
        shares.claim(host(1), 0);
        for thing in 1..1000 {
            let flooder = host(100 + (thing % 19) as u8);
            let Claim::Instead(lost) = shares.claim(flooder, thing) else { continue };
            assert_ne!(lost, 0);
        }
        let got = (1000..1010).filter(|thing| shares.claim(host(2), *thing) != Claim::Refused).count();
        assert_eq!(got, 60 / 21, "60 things for 21 holders");
        assert_eq!(shares.len(), 60);
    }
}
