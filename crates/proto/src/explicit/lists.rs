//! The packets by which receivers are served: address lists, and the transmission group that they make up
//! (meadcast-thesis-2024, 4.3.1).

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv6Addr,
};

use treecast_wire::mead::Dialect;

use super::list_proof::ListKey;

/// The least MTU of IPv6, in bytes. Every link carries packets of this size (RFC 8200, 5), and no smaller size is
/// believed (RFC 8201, 4).
pub const LEAST_MTU: usize = 1280;

/// The settings by which a sender makes its packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// The sender's address.
    pub source: Ipv6Addr,
    /// The UDP port that packets come from. None: the port that the program itself uses.
    pub source_port: Option<u16>,
    /// The dialect of MEADcast's headers.
    pub dialect: Dialect,
    /// Whether to name in the header how many routers shall pass a packet on whole (5.2.4).
    pub dont_replicate: bool,
    /// Whether a packet is addressed to the first router in its list instead of its first receiver (5.2.4).
    pub to_router: bool,
    /// Whether the packet names a UDP port for each receiver (2.1.4), because receivers use different ports.
    pub has_ports: bool,
    /// The multicast group to which designated routers send.
    pub group: Option<Ipv6Addr>,
    /// The settings of Xcast, when packets for several receivers are Xcast's. None: they are MEADcast's.
    pub xcast: Option<Xcast>,
    /// The key with which the sender proves that its lists come from the routers' domain.
    pub key: Option<ListKey>,
    /// The length of the longest packet that the sender may send, in bytes with its IPv6 header.
    pub mtu: usize,
}

/// The settings by which a sender makes Xcast packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xcast {
    /// Whether routers overwrite the addresses of destinations that a copy is not for (the A bit).
    pub is_anonymous: bool,
    /// The group and its port that routers serve on their own links, with Xcast+.
    pub group: Option<(Ipv6Addr, u16)>,
}

/// The address list of one packet. A program's packet leaves as several such packets, each with its list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// Each router of the list, with the receivers behind it.
    pub entries: Vec<(Ipv6Addr, Vec<Ipv6Addr>)>,
    /// Routers that serve their receivers by the group, with these receivers. The packet names only the
    /// routers, after those in `entries`. With Xcast, this holds the destinations ([`List::of_destinations`]).
    pub designated: Vec<(Ipv6Addr, Vec<Ipv6Addr>)>,
    /// The number of routers that shall pass the packet on whole before one replicates it.
    pub dont_replicate: u8,
}

impl List {
    pub(super) fn receiver_count(&self) -> usize {
        self.receivers().count()
    }

    /// Iterates over all receivers that this list serves.
    pub fn receivers(&self) -> impl Iterator<Item = Ipv6Addr> {
        let all = self.entries.iter().chain(&self.designated);
        all.flat_map(|(_, receivers)| receivers.iter().copied())
    }

    /// The number of addresses in the packet.
    pub(super) fn len(&self) -> usize {
        let listed = self.entries.iter().map(|(_, receivers)| 1 + receivers.len());
        listed.sum::<usize>() + self.designated.len()
    }

    /// The first router, and the first receiver that it serves.
    pub(super) fn first(&self) -> (Ipv6Addr, Ipv6Addr) {
        let (router, receivers) =
            self.entries.iter().chain(&self.designated).next().expect("it serves somebody");
        (*router, receivers[0])
    }

    /// Returns the list with those of its receivers that are wanted.
    pub fn only(&self, is_wanted: impl Fn(Ipv6Addr) -> bool) -> Self {
        let wanted =
            |receivers: &Vec<Ipv6Addr>| receivers.iter().copied().filter(|one| is_wanted(*one)).collect();
        let [entries, designated] = [&self.entries, &self.designated].map(|entries| {
            let entries = entries.iter().map(|(router, receivers)| (*router, wanted(receivers)));
            entries.filter(|(_, receivers): &(_, Vec<_>)| !receivers.is_empty()).collect()
        });
        Self { entries, designated, dont_replicate: self.dont_replicate }
    }

    /// The list, or what it is cut into when it may have fewer addresses; where it may not even have two, whole.
    pub(super) fn parts(&self, max: usize) -> Vec<Self> {
        if self.len() <= max || max < 2 {
            return vec![self.clone()];
        }
        let mut parts: Vec<Self> = Vec::new();
        let mut room = 0;
        let empty =
            || Self { entries: Vec::new(), designated: Vec::new(), dont_replicate: self.dont_replicate };
        for (router, receivers) in &self.entries {
            let mut left = &receivers[..];
            while !left.is_empty() {
                if room < 2 {
                    parts.push(empty());
                    room = max;
                }
                let (taken, rest) = left.split_at(left.len().min(room - 1));
                let part = parts.last_mut().expect("one has been begun");
                part.entries.push((*router, taken.to_vec()));
                (left, room) = (rest, room - 1 - taken.len());
            }
        }
        for designated in &self.designated {
            if room < 1 {
                parts.push(empty());
                room = max;
            }
            parts.last_mut().expect("one has been begun").designated.push(designated.clone());
            room -= 1;
        }
        parts
    }
}

/// Returns the lists of a plan, each with those of its receivers that the plan names in the same place, and without empty
/// ones. `number` is the number of the receiver with an address.
pub fn planned(
    lists: &[List],
    members: &[BTreeSet<u32>],
    number: impl Fn(Ipv6Addr) -> Option<u32>,
) -> Vec<List> {
    let chosen = lists.iter().zip(members).filter(|(_, members)| !members.is_empty());
    let of_members = |(list, members): (&List, &BTreeSet<u32>)| {
        list.only(|ip| number(ip).is_some_and(|it| members.contains(&it)))
    };
    chosen.map(of_members).collect()
}

/// Returns the length in bytes of an IPv6 packet to one receiver where the longest list leaves `room`. A length that is hardly
/// more than every IPv6 link takes (RFC 8200, 5) is cut to that, so that no link on the way is too narrow.
pub fn len_beside_list(room: usize) -> usize {
    const ADDRESS_LEN: usize = 16;
    if (LEAST_MTU..LEAST_MTU + ADDRESS_LEN).contains(&room) { LEAST_MTU } else { room }
}

/// The assignment of receivers to packets. A new one is made as a whole, and replaces the old one in one step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransmissionGroup {
    /// The number of this transmission group; they are counted from 1 on.
    pub number: u64,
    /// The address lists. Each becomes one packet.
    pub lists: Vec<List>,
    /// The receivers that get a unicast packet each.
    pub unicast: Vec<Ipv6Addr>,
    /// The routers that serve listeners of the group on their links, with Xcast+. Such routers get packets of
    /// their own.
    pub routers: Vec<Ipv6Addr>,
    /// The UDP port of each receiver.
    pub ports: BTreeMap<Ipv6Addr, u16>,
    /// The longest packet, in bytes, that fits on the path to a receiver, where that is less than the sender
    /// may send.
    pub path_mtus: BTreeMap<Ipv6Addr, usize>,
}

impl TransmissionGroup {
    /// Whether it differs from another by its number at most.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        let Self { number: _, lists, unicast, routers, ports, path_mtus } = self;
        (lists, unicast, routers, ports, path_mtus)
            == (&other.lists, &other.unicast, &other.routers, &other.ports, &other.path_mtus)
    }

    pub(super) fn add(&mut self, receiver: Ipv6Addr, port: u16) {
        if self.ports.insert(receiver, port).is_none() {
            self.unicast.push(receiver);
        }
    }

    pub(super) fn remove(&mut self, receiver: Ipv6Addr) {
        self.ports.remove(&receiver);
        self.unicast.retain(|other| *other != receiver);
        for list in &mut self.lists {
            for entries in [&mut list.entries, &mut list.designated] {
                entries.iter_mut().for_each(|(_, receivers)| receivers.retain(|other| *other != receiver));
                entries.retain(|(_, receivers)| !receivers.is_empty());
            }
        }
        self.lists.retain(|list| list.len() > 0);
    }

    /// Takes a receiver out of the lists, if it is in one.
    pub(super) fn use_unicast(&mut self, receiver: Ipv6Addr) {
        if let Some(port) = self.ports.get(&receiver).copied() {
            self.remove(receiver);
            self.add(receiver, port);
        }
    }

    /// The receivers that these routers serve by the group.
    pub(super) fn designated(&self, routers: &[Ipv6Addr]) -> Vec<Ipv6Addr> {
        let designated = self.lists.iter().flat_map(|list| &list.designated);
        let named = designated.filter(|(router, _)| routers.contains(router));
        named.flat_map(|(_, receivers)| receivers.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_s_lists_have_its_receivers_alone_and_none_is_empty() {
        let address = |number: u16| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number);
        let list = |receivers: &[u16]| List {
            entries: vec![(address(100), receivers.iter().map(|number| address(*number)).collect())],
            designated: Vec::new(),
            dont_replicate: 0,
        };
        let number = |of: Ipv6Addr| Some(u32::from(of.segments()[7]));
        let lists = [list(&[1, 2]), list(&[3]), list(&[4, 5])];
        let members = [BTreeSet::from([2]), BTreeSet::new(), BTreeSet::from([4, 5])];
        assert_eq!(planned(&lists, &members, number), [list(&[2]), list(&[4, 5])]);
    }

    #[test]
    fn a_length_that_is_hardly_more_than_the_least_mtu_is_cut_to_it() {
        let lens = [1279, 1280, 1295, 1296].map(len_beside_list);
        assert_eq!(lens, [1279, 1280, 1280, 1296]);
    }
}
