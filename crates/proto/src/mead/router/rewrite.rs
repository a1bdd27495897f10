//! A MEADcast packet in its parts, and the packets that are made of it.

use std::net::Ipv6Addr;

use treecast_wire::{
    ipv6::{self, checksum_offset, next_header, updated_checksum},
    mead::{Dialect, Header, MAX_HOPS, Map, Options},
};

/// A packet that has been read.
pub struct Packet<'a> {
    pub ip: ipv6::Header,
    pub header: Header,
    pub options: Options,
    pub dialect: Dialect,
    /// All that follows the routing header.
    rest: &'a [u8],
    /// What is left without MEADcast: its next header's number, and how much of `rest` is taken off.
    inner: (u8, usize),
    /// The upper layer whose checksum covers the addresses, and where in `rest` it begins.
    upper: Option<(u8, usize)>,
}

impl<'a> Packet<'a> {
    /// `options` is the Destination Options header that follows the routing header, if one does. One that says
    /// nothing to us belongs to the payload.
    pub fn new(
        ip: ipv6::Header,
        header: Header,
        rest: &'a [u8],
        options: Option<(Options, u8, usize)>,
        dialect: Dialect,
    ) -> Self {
        let upper = upper_layer(header.next_header, rest);
        let (options, inner) = match options {
            Some((options, next, len)) if !options.is_empty() => (options, (next, len)),
            _ => (Options::default(), (header.next_header, 0)),
        };
        Self { ip, header, options, dialect, rest, inner, upper }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        ipv6::HEADER_LEN + self.header.emitted_len() + self.rest.len()
    }

    /// The packet with one more hop, and nothing else changed.
    pub fn counted(&self) -> Vec<u8> {
        let header = Header { hops: self.header.hops + 1, ..self.header.clone() };
        [&self.ip.to_bytes()[..], &header.to_bytes(self.dialect), self.rest].concat()
    }

    /// The packet for the routers in `delivery`. Its checksum is right for its destination: a receiver that it
    /// comes to without having met another router can make use of it.
    pub fn replica(&self, delivery: Map, dont_replicate: u8, destination: Ipv6Addr) -> Vec<u8> {
        let hops = (self.header.hops + 1).min(MAX_HOPS);
        let header = Header { hops, dont_replicate, delivery, ..self.header.clone() };
        let ip = ipv6::Header { destination, hop_limit: self.ip.hop_limit - 1, ..self.ip };
        let mut packet = [&ip.to_bytes()[..], &header.to_bytes(self.dialect)].concat();
        let at_rest = packet.len();
        packet.extend_from_slice(self.rest);
        if let Some((kind, at)) = self.upper {
            self.readdress(kind, &mut packet[at_rest + at..], destination);
        }
        packet
    }

    /// The packet for the receiver at this place, as if its sender had sent it there by unicast.
    pub fn unicast(&self, receiver: usize) -> Vec<u8> {
        self.addressed(self.header.addresses[receiver], receiver)
    }

    /// The packet without MEADcast, for a destination at the port of this place in the list.
    pub fn addressed(&self, destination: Ipv6Addr, place: usize) -> Vec<u8> {
        let (next_header, taken_off) = self.inner;
        let inner = &self.rest[taken_off..];
        let ip = ipv6::Header {
            payload_len: inner.len() as u16,
            next_header,
            hop_limit: self.ip.hop_limit - 1,
            destination,
            ..self.ip
        };
        let mut packet = [&ip.to_bytes()[..], inner].concat();
        if let Some((kind, at)) = self.upper {
            let port = self.options.ports.as_ref().and_then(|ports| ports.get(place)).copied();
            let segment = &mut packet[ipv6::HEADER_LEN + at - taken_off..];
            self.readdress(kind, segment, destination);
            if let Some(port) = port.filter(|port| *port != 0 && kind == next_header::UDP) {
                let old = [segment[2], segment[3]];
                segment[2..4].copy_from_slice(&port.to_be_bytes());
                correct(kind, segment, &old, &port.to_be_bytes());
            }
        }
        packet
    }

    fn readdress(&self, kind: u8, segment: &mut [u8], destination: Ipv6Addr) {
        correct(kind, segment, &self.ip.destination.octets(), &destination.octets());
    }
}

/// Looks behind up to two Destination Options headers and the Fragment header of a first fragment. None when the
/// upper layer has no checksum over the addresses, or it is not there.
fn upper_layer(mut next: u8, bytes: &[u8]) -> Option<(u8, usize)> {
    let mut at = 0;
    for _ in 0..2 {
        if next == next_header::DESTINATION_OPTIONS {
            next = *bytes.get(at)?;
            at += (usize::from(*bytes.get(at + 1)?) + 1) * 8;
        }
    }
    if next == next_header::FRAGMENT {
        let fragment = bytes.get(at..at + 8)?;
        let offset = u16::from_be_bytes([fragment[2], fragment[3]]) >> 3;
        next = if offset == 0 { fragment[0] } else { return None };
        at += 8;
    }
    let checksum = checksum_offset(next)?;
    (bytes.len() >= at + checksum + 2).then_some((next, at))
}

/// Corrects a segment's checksum (RFC 1624). 0 in UDP is none, which IPv6 does not have (RFC 8200, 8.1), and it stays.
/// Elsewhere 0xffff, which is the same number, leaves as 0: that is what it would be after any change.
fn correct(kind: u8, segment: &mut [u8], old: &[u8], new: &[u8]) {
    let at = checksum_offset(kind).expect("an upper layer has been found");
    let before = u16::from_be_bytes([segment[at], segment[at + 1]]);
    let updated = || if old == new { before } else { updated_checksum(before, old, new) };
    let after = match (kind, before) {
        (next_header::UDP, 0) => 0,
        (next_header::UDP, _) => match updated() {
            0 => 0xffff,
            after => after,
        },
        (_, 0xffff) if old == new => 0,
        _ => updated(),
    };
    segment[at..at + 2].copy_from_slice(&after.to_be_bytes());
}
