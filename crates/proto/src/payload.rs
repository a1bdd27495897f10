//! The payload after a routing header (MEADcast's or Xcast's), and the packets that a router makes with it.
//!
//! A checksum that covers the addresses is corrected by what changes (RFC 1624). So it stays right when it was
//! right, and stays wrong when it was wrong.

use std::net::Ipv6Addr;

use treecast_wire::ipv6::{self, behind_extensions, checksum_offset, next_header, updated_checksum};

/// The bytes that follow the routing header of a packet.
pub(crate) struct Payload<'a> {
    bytes: &'a [u8],
    /// The bytes that are left without the router's options: the number of their next header, and how much is
    /// taken off.
    inner: (u8, usize),
    /// The upper layer whose checksum covers the addresses, and where it begins.
    upper: Option<(u8, usize)>,
}

impl<'a> Payload<'a> {
    /// Reads a payload. `options` are given when options for routers come first: the number of the header after
    /// them, and their length.
    pub fn new(next_header: u8, bytes: &'a [u8], options: Option<(u8, usize)>) -> Self {
        let inner = options.unwrap_or((next_header, 0));
        Self { bytes, inner, upper: upper_layer(next_header, bytes) }
    }

    /// Returns all bytes of the payload.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the packet `ip` with another routing header and to another destination, and a hop limit that is
    /// one less. The new routing header is as long as the one that the packet came with.
    pub fn behind(&self, routing_header: &[u8], ip: &ipv6::Header, destination: Ipv6Addr) -> Vec<u8> {
        let new = ipv6::Header { destination, hop_limit: ip.hop_limit - 1, ..*ip };
        self.joined(&new, routing_header, ip.destination)
    }

    /// Returns the packet `ip`, which has no routing header, with one and to another destination.
    pub fn wrapped(&self, routing_header: &[u8], ip: &ipv6::Header, destination: Ipv6Addr) -> Vec<u8> {
        let new = ipv6::Header {
            payload_len: (routing_header.len() + self.bytes.len()) as u16,
            next_header: next_header::ROUTING,
            destination,
            ..*ip
        };
        self.joined(&new, routing_header, ip.destination)
    }

    fn joined(&self, new: &ipv6::Header, routing_header: &[u8], old_destination: Ipv6Addr) -> Vec<u8> {
        let mut packet = [&new.to_bytes()[..], routing_header].concat();
        let at_payload = packet.len();
        packet.extend_from_slice(self.bytes);
        if let Some((kind, at)) = self.upper {
            readdress(kind, &mut packet[at_payload + at..], old_destination, new.destination);
        }
        packet
    }

    /// Returns the packet `ip` as if its sender had sent it to a destination by unicast, with a hop limit that
    /// is one less. UDP goes to the given port, if there is one.
    pub fn unwrapped(&self, ip: &ipv6::Header, destination: Ipv6Addr, port: Option<u16>) -> Vec<u8> {
        let (next_header, taken_off) = self.inner;
        let inner = &self.bytes[taken_off..];
        let new = ipv6::Header {
            payload_len: inner.len() as u16,
            next_header,
            hop_limit: ip.hop_limit - 1,
            destination,
            ..*ip
        };
        let mut packet = [&new.to_bytes()[..], inner].concat();
        if let Some((kind, at)) = self.upper {
            let segment = &mut packet[ipv6::HEADER_LEN + at - taken_off..];
            readdress(kind, segment, ip.destination, destination);
            if let Some(port) = port.filter(|port| *port != 0 && kind == next_header::UDP) {
                let old = [segment[2], segment[3]];
                segment[2..4].copy_from_slice(&port.to_be_bytes());
                correct(kind, segment, &old, &port.to_be_bytes());
            }
        }
        packet
    }
}

fn readdress(kind: u8, segment: &mut [u8], old: Ipv6Addr, new: Ipv6Addr) {
    correct(kind, segment, &old.octets(), &new.octets());
}

/// None when the upper layer has no checksum over the addresses, or it is not there.
fn upper_layer(next: u8, bytes: &[u8]) -> Option<(u8, usize)> {
    let (kind, at) = behind_extensions(next, bytes)?;
    let checksum = checksum_offset(kind)?;
    (bytes.len() >= at + checksum + 2).then_some((kind, at))
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
