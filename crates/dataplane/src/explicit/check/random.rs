//! Makes random routers and packets. Most packets can be forwarded, but now and then each part of them is
//! wrong.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv6Addr,
};

use treecast_proto::{
    explicit::{
        authentication::DomainKey,
        list_proof::{self, ListKey, Listed},
        mead::router::{Guard, Prefix, ReversePath, Router},
    },
    random::SplitMix64,
};
use treecast_wire::{
    ipv6::{self, checksum_offset, next_header, upper_layer_checksum},
    list_proof::ListProof,
    mead::{Dialect, Header, Kind, Map, Options, Proof},
};

use super::{
    network::{OWN, far},
    node,
};

mod xcast;

/// Addresses that routers have; receivers are numbered from [`RECEIVERS`].
const ROUTERS: u16 = 32;
const RECEIVERS: u16 = 0x100;

/// Groups that a router may have listeners of, and one that it has none of.
const GROUPS: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 9), Ipv6Addr::new(0xff15, 1, 2, 3, 4, 5, 6, 7)];
const UNHEARD: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 10);

/// Makes routers and packets at random.
pub struct Random {
    numbers: SplitMix64,
    /// Source of the packet that is being made.
    source: Ipv6Addr,
    /// The key and the epoch by which the router at hand checks proofs. `None` if it checks none.
    lists: Option<(ListKey, u64)>,
    /// Sources that are new to a router that counts their copies.
    fresh: u32,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { numbers: SplitMix64(seed), source: node(0x1000), lists: None, fresh: 0 }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.numbers.below(bound as u64) as usize
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.numbers.draw() as u8).collect()
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Returns a random router that has some of the addresses.
    pub fn router(&mut self) -> Router {
        let own = (0..ROUTERS).filter(|_| self.one_in(3)).map(node);
        let mut own: BTreeSet<_> = own.collect();
        own.extend(OWN.into_iter().filter(|_| self.one_in(2)));
        let dialect = self.of(&[Dialect::Rfc, Dialect::Linux65]);
        let mut groups = BTreeMap::new();
        for group in GROUPS {
            let interfaces: BTreeSet<u32> = [10, 11, 12].into_iter().filter(|_| self.one_in(2)).collect();
            if !interfaces.is_empty() {
                groups.insert(group, interfaces);
            }
        }
        let guard = self.guard();
        let (is_enabled, is_leaving) = (!self.one_in(20), self.one_in(8));
        Router { is_enabled, is_leaving, min_dsts: self.below(5) as u8, dialect, own, groups, guard }
    }

    /// A random guard. It has each of its parts now and then, and often none.
    fn guard(&mut self) -> Guard {
        let prefixes =
            [Prefix::new(far(5, 0), 32), Prefix::new(node(0x1000), 128), Prefix::new(node(0), 111)];
        Guard {
            reverse_path: self.of(&[ReversePath::Off, ReversePath::Loose, ReversePath::Strict]),
            allowed: if self.one_in(3) { vec![self.of(&prefixes), self.of(&prefixes)] } else { Vec::new() },
            lists: self.one_in(3).then(|| (list_key(1), self.of(&[1000, 0xffff, 0x1_0000, 3_000_000]))),
            copies_per_second: if self.one_in(4) { 1 + self.below(20) as u32 } else { 0 },
        }
    }

    /// A random source from which packets come here, or not.
    fn any_source(&mut self, guard: &Guard) -> Ipv6Addr {
        if guard.copies_per_second > 0 {
            self.fresh += 1;
            return Ipv6Addr::new(0xfd15, 5, (self.fresh >> 16) as u16, self.fresh as u16, 0, 1, 0, 1);
        }
        // Packets from an own address that are let pass cannot be told from the kernel's own.
        let is_checked = guard.reverse_path != ReversePath::Off;
        let own = if is_checked { OWN[0] } else { far(7, 2) };
        match self.below(if is_checked { 10 } else { 2 }) {
            0 => self.of(&[node(0x1000), far(1, 1), far(4, 3), far(6, 1), far(7, 1), own]),
            1 => node(0x1000),
            _ => far(5, self.below(4) as u16),
        }
    }

    /// The proof of a list, right or wrong, or none.
    fn list_proof(&mut self, listed: &Listed<'_>) -> Option<ListProof> {
        let unasked = self.one_in(8).then(|| (list_key(2), 7));
        let (key, now) = self.lists.or(unasked)?;
        let near = self.of(&[-1, 0, 0, 1]);
        Some(match self.below(12) {
            0 => return None,
            1 => list_key(2).prove(now, listed),
            2 => key.prove(now.wrapping_add_signed(self.of(&[-2, 2, 0x1_0000, 0x8000])), listed),
            3 => key.prove(now, &Listed { source: node(RECEIVERS), ..*listed }),
            _ => key.prove(now.wrapping_add_signed(near), listed),
        })
    }

    /// A random address that has not been taken yet.
    fn untaken(&mut self, taken: &mut BTreeSet<Ipv6Addr>, one: impl Fn(&mut Self) -> Ipv6Addr) -> Ipv6Addr {
        loop {
            let address = one(self);
            if taken.insert(address) {
                return address;
            }
        }
    }

    /// Returns a random packet that begins with its IPv6 header. Now and then padding comes after it.
    pub fn packet(&mut self, router: &Router) -> Vec<u8> {
        (self.source, self.lists) = (self.any_source(&router.guard), router.guard.lists);
        // Xcast is no more than malformed MEADcast to a router of the other dialect.
        let is_xcast = match router.dialect {
            Dialect::Rfc => self.one_in(2),
            Dialect::Linux65 => self.one_in(16),
        };
        let mut packet = match self.below(8) {
            _ if is_xcast => self.xcast(),
            0 => self.discovery(router.dialect),
            _ => self.data(router.dialect),
        };
        if self.one_in(3) {
            for _ in 0..=self.below(3) {
                self.change(&mut packet);
            }
            if router.guard.copies_per_second > 0 {
                // It must not become another packet's source.
                packet[8..16].copy_from_slice(&self.source.octets()[..8]);
            }
        }
        if self.one_in(16) {
            packet.resize(packet.len() + self.below(20), 0xee);
        }
        packet
    }

    /// Changes another octet, of the headers rather than the addresses and the payload.
    fn change(&mut self, packet: &mut Vec<u8>) {
        let end = if self.one_in(2) { packet.len() } else { packet.len().min(ipv6::HEADER_LEN + 16) };
        let at = self.below(end);
        match self.below(8) {
            0 => packet[at] ^= 1 << self.below(8),
            1 if packet.len() > 60 => packet.truncate(60 + self.below(packet.len() - 60)),
            2 => packet[7] = self.below(3) as u8,
            _ => packet[at] = self.numbers.draw() as u8,
        }
    }

    fn data(&mut self, dialect: Dialect) -> Vec<u8> {
        let mut groups = Vec::new();
        let mut room = if self.one_in(4) { 32 } else { 1 + self.below(32) };
        let mut taken = BTreeSet::new();
        while room > 0 {
            let receivers = self.below(room.min(9));
            let receiver = |random: &mut Self| match random.below(8) {
                0 => random.far(),
                _ => node(RECEIVERS + random.below(400) as u16),
            };
            let receivers: Vec<_> = (0..receivers).map(|_| self.untaken(&mut taken, receiver)).collect();
            room -= receivers.len() + 1;
            let router = self.untaken(&mut taken, |random| node(random.below(ROUTERS.into()) as u16));
            groups.push((router, receivers));
        }
        let mut header = Header::data(next_header::UDP, &groups).expect("at most 32 good addresses");
        if self.one_in(4) {
            header.delivery = header.routers.and(Map::from_bits(self.numbers.draw() as u32));
        }
        if self.one_in(4) {
            header.dont_replicate = self.below(3) as u8;
        }
        header.hops = if self.one_in(8) { 63 } else { self.below(10) as u8 };
        if self.one_in(20) {
            let place = self.below(header.addresses.len());
            header.addresses[place] = self.strange();
        }
        if self.one_in(20) {
            self.repeat_address(&mut header.addresses);
        }
        let destination = match self.below(6) {
            0 => node(self.below(ROUTERS.into()) as u16),
            1 => header.addresses[0],
            _ => header.addresses[usize::from(header.addresses.len() > 1)],
        };
        let count = header.addresses.len();
        let source = self.source;
        let listed = |group| Listed {
            kind: list_proof::Kind::Mead,
            source,
            group,
            routers: header.routers,
            addresses: &header.addresses,
        };
        let (next, rest) = self.rest(count, destination, &listed);
        header.next_header = next;
        self.wrap(&header.to_bytes(dialect), destination, &rest)
    }

    /// Puts one address in the place of another, too.
    fn repeat_address(&mut self, addresses: &mut [Ipv6Addr]) {
        let (from, to) = (self.below(addresses.len()), self.below(addresses.len()));
        addresses[to] = addresses[from];
    }

    /// An address of whatever kind.
    fn strange(&mut self) -> Ipv6Addr {
        let strange = [0, 1, 0xff02 << 112 | 1, 0xfe80 << 112 | 1, 0xffff_0a00_0001, 0x0a00_0001];
        Ipv6Addr::from(self.of(&strange))
    }

    fn discovery(&mut self, dialect: Dialect) -> Vec<u8> {
        let receiver = if self.one_in(8) { node(0) } else { node(RECEIVERS + self.below(400) as u16) };
        let mut header = Header::request(receiver);
        header.hops = if self.one_in(8) { 63 } else { self.below(63) as u8 };
        if self.one_in(4) {
            header.kind = Kind::Response;
        }
        let rest = if self.lists.is_some() || self.one_in(2) {
            header.next_header = next_header::DESTINATION_OPTIONS;
            let next = if self.one_in(16) { next_header::ROUTING } else { next_header::NONE };
            let addresses = [receiver];
            let source = self.source;
            let listed = |group| Listed {
                kind: list_proof::Kind::Request,
                source,
                group,
                routers: Map::EMPTY,
                addresses: &addresses,
            };
            self.options(1, &listed).to_bytes(next)
        } else {
            Vec::new()
        };
        self.wrap(&header.to_bytes(dialect), receiver, &rest)
    }

    /// The packet with this routing header.
    fn wrap(&mut self, header: &[u8], destination: Ipv6Addr, rest: &[u8]) -> Vec<u8> {
        let ip = ipv6::Header {
            class_and_label: self.numbers.draw() as u32 & 0x0fff_ffff,
            payload_len: (header.len() + rest.len()) as u16,
            next_header: next_header::ROUTING,
            hop_limit: 1 + self.below(255) as u8,
            source: self.source,
            destination,
        };
        [&ip.to_bytes()[..], header, rest].concat()
    }

    /// The bytes that follow the routing header, and the number of the first header in them.
    fn rest<'a>(
        &mut self,
        count: usize,
        destination: Ipv6Addr,
        listed: &dyn Fn(Ipv6Addr) -> Listed<'a>,
    ) -> (u8, Vec<u8>) {
        let (next, rest) = self.unlisted(destination);
        if self.lists.is_some() || self.one_in(3) {
            let options = self.options(count, listed).to_bytes(next);
            if !options.is_empty() {
                return (next_header::DESTINATION_OPTIONS, [options, rest].concat());
            }
        }
        (next, rest)
    }

    /// The same without a list of ports or another option of ours.
    fn unlisted(&mut self, destination: Ipv6Addr) -> (u8, Vec<u8>) {
        let (mut next, mut rest) = self.segment(destination);
        if self.one_in(8) {
            let offset = (self.below(2) << 3) as u8;
            let of = if self.one_in(16) { next_header::FRAGMENT } else { next };
            let fragment = [of, 0, 0, offset | self.below(8) as u8, 0, 0, 0, 1];
            (next, rest) = (next_header::FRAGMENT, [&fragment[..], &rest].concat());
        }
        if self.one_in(8) {
            let others = [next, 0, 1, 4, 0, 0, 0, 0];
            (next, rest) = (next_header::DESTINATION_OPTIONS, [&others[..], &rest].concat());
        }
        (next, rest)
    }

    fn segment(&mut self, destination: Ipv6Addr) -> (u8, Vec<u8>) {
        if self.one_in(16) {
            let header = Header::request(destination).to_bytes(Dialect::Rfc);
            return (next_header::ROUTING, header);
        }
        let kind = self.of(&[
            next_header::UDP,
            next_header::UDP,
            next_header::UDP,
            next_header::TCP,
            next_header::ICMPV6,
            next_header::NONE,
            200,
        ]);
        let len = if self.one_in(8) { self.below(20) } else { 20 + self.below(200) };
        let mut segment = self.bytes(len);
        if let Some(at) = checksum_offset(kind).filter(|at| at + 2 <= len) {
            segment[at..at + 2].fill(0);
            // Random octets would never have a checksum of 0, or one that becomes 0.
            let checksum = match self.below(8) {
                0 => self.of(&[0, 1, 0xffff, 0xfffe]),
                _ => upper_layer_checksum(self.source, destination, kind, &segment),
            };
            segment[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        }
        (kind, segment)
    }

    /// Random options, with a proof of what is listed for a group.
    fn options<'a>(&mut self, count: usize, listed: &dyn Fn(Ipv6Addr) -> Listed<'a>) -> Options {
        let ports = self.one_in(2).then(|| {
            let listed = if self.one_in(4) { self.below(33) } else { count };
            (0..listed).map(|_| if self.one_in(4) { 0 } else { self.numbers.draw() as u16 }).collect()
        });
        let proof = Proof { nonce: [3; 16], code: [4; 16] };
        let group = self.one_in(3).then(|| if self.one_in(8) { UNHEARD } else { self.of(&GROUPS) });
        Options {
            ports,
            nonce: self.one_in(2).then_some([2; 16]),
            proof: self.one_in(4).then_some(proof),
            group,
            list_proof: self.list_proof(&listed(group.unwrap_or(Ipv6Addr::UNSPECIFIED))),
        }
    }
}

fn list_key(number: u8) -> ListKey {
    DomainKey::new(&[number; 32]).of_lists()
}
