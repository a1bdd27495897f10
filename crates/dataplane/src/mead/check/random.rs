//! Random routers and packets: mostly such as are forwarded, each part of them now and then as it must not be.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv6Addr,
};

use treecast_proto::mead::router::Router;
use treecast_wire::{
    ipv6::{self, checksum_offset, next_header, upper_layer_checksum},
    mead::{Dialect, Header, Kind, Map, Options, Proof},
};

use super::{network::OWN, node};

mod xcast;

/// Addresses that routers have; receivers are numbered from [`RECEIVERS`].
const ROUTERS: u16 = 6;
const RECEIVERS: u16 = 0x100;

/// Groups that a router may have listeners of, and one that it has none of.
const GROUPS: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 9), Ipv6Addr::new(0xff15, 1, 2, 3, 4, 5, 6, 7)];
const UNHEARD: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 10);

/// SplitMix64 (Steele and others, 2014).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// A router with some of the addresses.
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
        let (is_enabled, is_leaving) = (!self.one_in(20), self.one_in(8));
        Router { is_enabled, is_leaving, min_dsts: self.below(5) as u8, dialect, own, groups }
    }

    /// A packet from its IPv6 header on, now and then with padding behind it.
    pub fn packet(&mut self, router: &Router) -> Vec<u8> {
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
        }
        if self.one_in(16) {
            packet.resize(packet.len() + self.below(20), 0xee);
        }
        packet
    }

    /// Another octet, of the headers rather than the addresses and the payload.
    fn change(&mut self, packet: &mut Vec<u8>) {
        let end = if self.one_in(2) { packet.len() } else { packet.len().min(ipv6::HEADER_LEN + 16) };
        let at = self.below(end);
        match self.below(8) {
            0 => packet[at] ^= 1 << self.below(8),
            1 if packet.len() > 60 => packet.truncate(60 + self.below(packet.len() - 60)),
            2 => packet[7] = self.below(3) as u8,
            _ => packet[at] = self.next() as u8,
        }
    }

    fn data(&mut self, dialect: Dialect) -> Vec<u8> {
        let mut groups = Vec::new();
        let mut room = if self.one_in(4) { 32 } else { 1 + self.below(32) };
        while room > 0 {
            let receivers = self.below(room.min(9));
            let receivers = (0..receivers).map(|_| match self.below(8) {
                0 => self.far(),
                _ => node(RECEIVERS + self.below(400) as u16),
            });
            let receivers: Vec<_> = receivers.collect();
            room -= receivers.len() + 1;
            groups.push((node(self.below(ROUTERS.into()) as u16), receivers));
        }
        let mut header = Header::data(next_header::UDP, &groups).expect("at most 32 good addresses");
        if self.one_in(4) {
            header.delivery = header.routers.and(Map::from_bits(self.next() as u32));
        }
        if self.one_in(4) {
            header.dont_replicate = self.below(3) as u8;
        }
        header.hops = if self.one_in(8) { 63 } else { self.below(10) as u8 };
        if self.one_in(20) {
            let place = self.below(header.addresses.len());
            header.addresses[place] = self.strange();
        }
        let destination = match self.below(6) {
            0 => node(self.below(ROUTERS.into()) as u16),
            1 => header.addresses[0],
            _ => header.addresses[usize::from(header.addresses.len() > 1)],
        };
        let count = header.addresses.len();
        let (next, rest) = self.rest(count, destination);
        header.next_header = next;
        self.wrap(&header.to_bytes(dialect), destination, &rest)
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
        let rest = if self.one_in(2) {
            header.next_header = next_header::DESTINATION_OPTIONS;
            let next = if self.one_in(16) { next_header::ROUTING } else { next_header::NONE };
            self.options(1).to_bytes(next)
        } else {
            Vec::new()
        };
        self.wrap(&header.to_bytes(dialect), receiver, &rest)
    }

    /// The packet with this routing header.
    fn wrap(&mut self, header: &[u8], destination: Ipv6Addr, rest: &[u8]) -> Vec<u8> {
        let ip = ipv6::Header {
            class_and_label: self.next() as u32 & 0x0fff_ffff,
            payload_len: (header.len() + rest.len()) as u16,
            next_header: next_header::ROUTING,
            hop_limit: 1 + self.below(255) as u8,
            source: node(0x1000),
            destination,
        };
        [&ip.to_bytes()[..], header, rest].concat()
    }

    /// What follows the routing header, and the number of its first header.
    fn rest(&mut self, count: usize, destination: Ipv6Addr) -> (u8, Vec<u8>) {
        let (next, rest) = self.unlisted(destination);
        if self.one_in(3) {
            let options = self.options(count).to_bytes(next);
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
                _ => upper_layer_checksum(node(0x1000), destination, kind, &segment),
            };
            segment[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        }
        (kind, segment)
    }

    fn options(&mut self, count: usize) -> Options {
        let ports = self.one_in(2).then(|| {
            let listed = if self.one_in(4) { self.below(33) } else { count };
            (0..listed).map(|_| if self.one_in(4) { 0 } else { self.next() as u16 }).collect()
        });
        let proof = Proof { nonce: [3; 16], code: [4; 16] };
        Options {
            ports,
            nonce: self.one_in(2).then_some([2; 16]),
            proof: self.one_in(4).then_some(proof),
            group: self.one_in(3).then(|| if self.one_in(8) { UNHEARD } else { self.of(&GROUPS) }),
        }
    }
}
