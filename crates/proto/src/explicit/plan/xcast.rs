//! Computes what Xcast costs on a network, where each router that knows Xcast divides a packet by the next hops
//! of its destinations.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv6Addr,
};

use treecast_wire::xcast;

use super::{super::lists::List, Loads, Stage, single_bytes, speaks};

/// The length of a packet, and the treatment of it on the way.
#[derive(Clone, Copy)]
struct Packet {
    /// The length of a packet with its list, in bytes. The list keeps its length.
    listed_bytes: u64,
    single_bytes: u64,
    /// Whether it is for routers, which multicast it on their links (Xcast+), and no unicast before.
    is_plus: bool,
}

impl Stage<'_> {
    pub(super) fn xcast_loads(&self, max: usize, payload_bytes: usize) -> Loads {
        self.lists_loads(&self.receivers, max, payload_bytes, false)
    }

    pub(super) fn xcast_plus_loads(&self, max: usize, payload_bytes: usize) -> Loads {
        let routers: Vec<usize> = self.last_routers().into_iter().collect();
        self.lists_loads(&routers, max, payload_bytes, true)
    }

    /// The routers from which receivers get their packets.
    pub(super) fn last_routers(&self) -> BTreeSet<usize> {
        let before = |receiver: &usize| {
            let way = self.network.way(self.sender, *receiver)?;
            let (_, before) = way.split_last()?;
            before.last().copied().filter(|node| self.network.is_router(*node))
        };
        self.receivers.iter().filter_map(before).collect()
    }

    /// The loads of lists as the sender makes them ([`super::super::xcast::sender`]).
    fn lists_loads(&self, destinations: &[usize], max: usize, payload_bytes: usize, is_plus: bool) -> Loads {
        let mut addresses: Vec<Ipv6Addr> =
            destinations.iter().filter_map(|node| self.network.address(*node)).collect();
        addresses.sort_unstable();
        let mut loads = Loads::default();
        for list in List::of_neighbours(&addresses, max) {
            let destinations: Vec<usize> = list.receivers().map(|address| self.node_of[&address]).collect();
            let single_bytes = single_bytes(payload_bytes);
            let listed_bytes = single_bytes + xcast::len(destinations.len()) as u64;
            self.part(&mut loads, self.sender, &destinations, Packet { listed_bytes, single_bytes, is_plus });
        }
        loads
    }

    /// Adds what a packet becomes that is at a node. The sender itself parts nothing.
    fn part(&self, loads: &mut Loads, at: usize, destinations: &[usize], packet: Packet) {
        if let ([only], false) = (destinations, packet.is_plus) {
            return self.carry(loads, at, *only, packet.single_bytes);
        }
        if !speaks(self.network, at, self.support.as_ref()) {
            // It is on its way to the first. Destinations behind that one in the list hear nothing.
            let next = destinations.first().and_then(|first| self.next(at, *first));
            return next.into_iter().for_each(|next| self.forward(loads, at, next, destinations, packet));
        }
        let mut behind: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for destination in destinations {
            match self.next(at, *destination) {
                Some(next) => behind.entry(next).or_default().push(*destination),
                None => self.multicast(loads, at, packet.single_bytes),
            }
        }
        for (next, destinations) in behind {
            match &destinations[..] {
                [only] if !packet.is_plus => self.carry(loads, at, *only, packet.single_bytes),
                _ => self.forward(loads, at, next, &destinations, packet),
            }
        }
    }

    fn forward(&self, loads: &mut Loads, at: usize, next: usize, destinations: &[usize], packet: Packet) {
        loads.add(self.link(at, next), packet.listed_bytes);
        self.part(loads, next, destinations, packet);
    }

    /// One packet on each link of a router on which there are receivers.
    fn multicast(&self, loads: &mut Loads, router: usize, bytes: u64) {
        let here = self.receivers.iter().filter(|receiver| self.next(router, **receiver) == Some(**receiver));
        let lans: BTreeSet<_> = here.map(|receiver| self.link(router, *receiver)).collect();
        lans.into_iter().for_each(|lan| loads.add(lan, bytes));
    }

    /// The node after this one on the way to another; none where that is this one.
    fn next(&self, at: usize, to: usize) -> Option<usize> {
        self.network.way(at, to)?.get(1).copied()
    }
}
