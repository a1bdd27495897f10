//! Makes random Xcast packets.

use std::{collections::BTreeSet, net::Ipv6Addr};

use treecast_proto::explicit::list_proof::{Kind, Listed};
use treecast_wire::{
    ipv6::next_header,
    mead::Map,
    xcast::{ALL_XCAST_ROUTERS, Header, Options},
};

use super::{
    super::{
        network::{OWN, far},
        node,
    },
    GROUPS, RECEIVERS, Random, UNHEARD,
};

/// Positions in the routing header, in bytes.
const AT_FLAGS: usize = 4;
const AT_CHECKSUM: usize = 6;

/// The position of the routing header in the packet, in bytes.
const AT_HEADER: usize = 40;

impl Random {
    pub fn xcast(&mut self) -> Vec<u8> {
        let count = if self.one_in(4) { 32 } else { 1 + self.below(32) };
        let mut taken = BTreeSet::new();
        let destinations = (0..count).map(|_| self.untaken(&mut taken, Self::destination)).collect();
        let mut header =
            Header::new(next_header::UDP, self.channel(), destinations).expect("at most 32 good addresses");
        if self.one_in(2) {
            let valid = header.valid.and(Map::from_bits(self.numbers.draw() as u32));
            header.valid = if valid.is_empty() && !self.one_in(16) { header.valid } else { valid };
        }
        header.stays_xcast = self.one_in(4);
        header.is_anonymous = self.one_in(3);
        if self.one_in(20) {
            let place = self.below(count);
            header.destinations[place] = self.strange();
        }
        if self.one_in(20) {
            self.repeat_address(&mut header.destinations);
        }
        let first = header.valid_destinations().next().unwrap_or(node(RECEIVERS));
        let destination = match self.below(6) {
            0 => ALL_XCAST_ROUTERS,
            1 => Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, 0x114),
            2 => self.of(&OWN),
            _ => first,
        };
        let (next, rest) = self.behind_xcast(&header, destination);
        header.next_header = next;
        let mut packet = self.wrap(&header.to_bytes(), destination, &rest);
        if self.one_in(4) {
            // Reserved bits.
            packet[AT_HEADER + AT_FLAGS] |= self.below(2) as u8;
            packet[AT_HEADER + AT_FLAGS + 1] |= (self.below(2) as u8) << 7;
        }
        if self.one_in(4) {
            self.change_fixed(&mut packet);
        }
        if !self.one_in(20) {
            close(&mut packet, header.emitted_len(), self.one_in(2));
        }
        packet
    }

    fn destination(&mut self) -> Ipv6Addr {
        match self.below(8) {
            0 => self.of(&OWN),
            1 => node(RECEIVERS + self.below(400) as u16),
            _ => self.far(),
        }
    }

    /// Returns a random address, in one of the networks or in none.
    pub fn far(&mut self) -> Ipv6Addr {
        far(1 + self.below(7) as u16, self.below(20) as u16)
    }

    fn channel(&mut self) -> Ipv6Addr {
        match self.below(5) {
            0 => UNHEARD,
            1 | 2 => self.of(&GROUPS),
            3 => Ipv6Addr::from(u128::from(self.numbers.draw())),
            _ => Ipv6Addr::UNSPECIFIED,
        }
    }

    fn behind_xcast(&mut self, header: &Header, destination: Ipv6Addr) -> (u8, Vec<u8>) {
        let (next, rest) = self.unlisted(destination);
        let count = if self.one_in(16) { self.below(33) } else { header.destinations.len() };
        let ports = self.one_in(2).then(|| {
            (0..count).map(|_| if self.one_in(4) { 0 } else { self.numbers.draw() as u16 }).collect()
        });
        let (source, group, routers) = (self.source, header.channel, Map::EMPTY);
        let listed = Listed { kind: Kind::Xcast, source, group, routers, addresses: &header.destinations };
        let options = Options { ports, list_proof: self.list_proof(&listed) }.to_bytes(next);
        let next = if options.is_empty() { next } else { next_header::DESTINATION_OPTIONS };
        (next, [options, rest].concat())
    }

    /// An octet of the part before the addresses.
    fn change_fixed(&mut self, packet: &mut [u8]) {
        let at = AT_HEADER + self.of(&[1, 3, 4, 4, 5, 5, 6, 24, 25, 28, 31]);
        match self.below(3) {
            0 => packet[at] ^= 1 << self.below(8),
            1 => packet[at] = packet[at].wrapping_add(1),
            _ => packet[at] = self.numbers.draw() as u8,
        }
    }
}

/// Makes the checksum right; of its two zeros the other one, if it is one.
fn close(packet: &mut [u8], len: usize, other_zero: bool) {
    let header = &mut packet[AT_HEADER..][..len];
    header[AT_CHECKSUM..AT_CHECKSUM + 2].fill(0);
    let words = header.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    let checksum = if checksum == 0 && other_zero { 0xffff } else { checksum };
    header[AT_CHECKSUM..AT_CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
}
