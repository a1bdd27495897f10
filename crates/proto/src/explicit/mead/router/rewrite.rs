//! The parts of a MEADcast packet, and the packets that a router makes from it.

use std::net::Ipv6Addr;

use treecast_wire::{
    ipv6,
    mead::{Dialect, Header, MAX_HOPS, Map, Options},
};

use crate::payload::Payload;

/// A packet that has been read.
pub struct Packet<'a> {
    pub ip: ipv6::Header,
    pub header: Header,
    pub options: Options,
    pub dialect: Dialect,
    payload: Payload<'a>,
}

impl<'a> Packet<'a> {
    /// Reads a packet. `options` is the Destination Options header after the routing header, if there is one.
    /// One that carries no options known here counts as payload.
    pub fn new(
        ip: ipv6::Header,
        header: Header,
        rest: &'a [u8],
        options: Option<(Options, u8, usize)>,
        dialect: Dialect,
    ) -> Self {
        let (options, ours) = match options {
            Some((options, next, len)) if !options.is_empty() => (options, Some((next, len))),
            _ => (Options::default(), None),
        };
        let payload = Payload::new(header.next_header, rest, ours);
        Self { ip, header, options, dialect, payload }
    }

    /// Returns the length of the packet in bytes.
    pub fn len(&self) -> usize {
        ipv6::HEADER_LEN + self.header.emitted_len() + self.payload.bytes().len()
    }

    /// Returns the packet with one more hop counted, and nothing else changed.
    pub fn counted(&self) -> Vec<u8> {
        let header = Header { hops: self.header.hops + 1, ..self.header.clone() };
        [&self.ip.to_bytes()[..], &header.to_bytes(self.dialect), self.payload.bytes()].concat()
    }

    /// Returns the packet for the routers in `delivery`. Its checksum is right for its destination, so a
    /// receiver that gets it without another router on its path can use it.
    pub fn replica(&self, delivery: Map, dont_replicate: u8, destination: Ipv6Addr) -> Vec<u8> {
        let hops = (self.header.hops + 1).min(MAX_HOPS);
        let header = Header { hops, dont_replicate, delivery, ..self.header.clone() };
        self.payload.behind(&header.to_bytes(self.dialect), &self.ip, destination)
    }

    /// Returns the packet for the receiver at this place of the list, as if its sender had sent it by unicast.
    pub fn unicast(&self, receiver: usize) -> Vec<u8> {
        self.addressed(self.header.addresses[receiver], receiver)
    }

    /// Returns the packet without MEADcast's header, for a destination, with the UDP port at this place of the
    /// list.
    pub fn addressed(&self, destination: Ipv6Addr, place: usize) -> Vec<u8> {
        let port = self.options.ports.as_ref().and_then(|ports| ports.get(place)).copied();
        self.payload.unwrapped(&self.ip, destination, port)
    }
}
