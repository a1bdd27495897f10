//! The fixed header of IPv6 (RFC 8200, 3), and checksums that depend on its addresses.
//!
//! ```text
//!  0                 4             6             7           8        24            40
//!  +-----------------+-------------+-------------+-----------+--------+-------------+
//!  | 6, class, label | payload len | next header | hop limit | source | destination |
//!  +-----------------+-------------+-------------+-----------+--------+-------------+
//! ```

use std::{fmt, net::Ipv6Addr};

use crate::{
    ParseError,
    field::Reader,
    membership::{fold, ones_complement_sum},
};

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = 40;

/// Numbers of next headers (IANA, "Assigned Internet Protocol Numbers").
pub mod next_header {
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const ROUTING: u8 = 43;
    pub const FRAGMENT: u8 = 44;
    pub const ICMPV6: u8 = 58;
    /// No header follows.
    pub const NONE: u8 = 59;
    pub const DESTINATION_OPTIONS: u8 = 60;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Traffic class and flow label, the lower 28 bits of the first word.
    pub class_and_label: u32,
    /// The number of bytes behind this header.
    pub payload_len: u16,
    pub next_header: u8,
    pub hop_limit: u8,
    pub source: Ipv6Addr,
    pub destination: Ipv6Addr,
}

/// The hop limit of packets that we make, as hosts' own packets have it.
const HOP_LIMIT: u8 = 64;

impl Header {
    /// Creates the header of a packet without payload: of no traffic class and flow, and with a hop limit of 64.
    pub fn new(source: Ipv6Addr, destination: Ipv6Addr, next_header: u8) -> Self {
        Self { class_and_label: 0, payload_len: 0, next_header, hop_limit: HOP_LIMIT, source, destination }
    }

    /// Returns the packet that has this header and, behind it, these parts of a payload, whose length the header gets. A
    /// payload has at most 65,535 bytes.
    pub fn packet(self, payload: &[&[u8]]) -> Vec<u8> {
        let payload = payload.concat();
        [&Self { payload_len: payload.len() as u16, ..self }.to_bytes()[..], &payload].concat()
    }

    /// Parses the header, and the payload whose length it has. Bytes behind that are padding of the frame.
    ///
    /// # Errors
    /// If bytes are missing, or the version is not 6. Jumbograms (RFC 2675) are not supported.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let (header, rest) = Self::parse_start(bytes)?;
        let payload = Reader::new(rest).take("payload", header.payload_len.into())?;
        Ok((header, payload))
    }

    /// Parses the header of a packet whose end may be missing. Returns it with the bytes that follow.
    ///
    /// # Errors
    /// If bytes of the header are missing, or the version is not 6.
    pub fn parse_start(bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let mut reader = Reader::new(bytes);
        let first = reader.u32("version, traffic class and flow label")?;
        if first >> 28 != 6 {
            return Err(ParseError::invalid("version", first >> 28, "6"));
        }
        let payload_len = reader.u16("payload length")?;
        let next_header = reader.u8("next header")?;
        let hop_limit = reader.u8("hop limit")?;
        let source = Ipv6Addr::from(reader.array::<16>("source address")?);
        let destination = Ipv6Addr::from(reader.array::<16>("destination address")?);
        let class_and_label = first & 0x0fff_ffff;
        let header = Self { class_and_label, payload_len, next_header, hop_limit, source, destination };
        Ok((header, &bytes[HEADER_LEN..]))
    }

    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..4].copy_from_slice(&(6 << 28 | self.class_and_label & 0x0fff_ffff).to_be_bytes());
        bytes[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        (bytes[6], bytes[7]) = (self.next_header, self.hop_limit);
        bytes[8..24].copy_from_slice(&self.source.octets());
        bytes[24..].copy_from_slice(&self.destination.octets());
        bytes
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, destination, payload_len, next_header, hop_limit, .. } = self;
        write!(f, "IPv6 {source} > {destination} payload={payload_len}")?;
        write!(f, " next-header={next_header} hop-limit={hop_limit}")
    }
}

/// Whether an address is unicast and of a scope that routers forward.
pub fn is_forwardable(address: Ipv6Addr) -> bool {
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || address.is_unicast_link_local()
        || address.to_ipv4_mapped().is_some())
}

/// Skips up to two Destination Options headers, and the Fragment header of a first fragment, behind a router's
/// routing header. Returns the number of the header after them, and its position. `None` if there is none.
pub fn behind_extensions(mut next: u8, bytes: &[u8]) -> Option<(u8, usize)> {
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
    Some((next, at))
}

/// Whether a header is a routing header, or may hide one. A packet that gets copies may not have a second
/// routing header (RFC 8200, section 4.1, allows one). Otherwise the copies would be copied again, and a few
/// headers would turn one packet into thousands. Fragments count as well, because a firewall on the way may
/// reassemble them and send their content on.
pub fn has_routing_header(next: u8, bytes: &[u8]) -> bool {
    let hides = [next_header::ROUTING, next_header::FRAGMENT];
    behind_extensions(next, bytes).is_some_and(|(next, _)| hides.contains(&next))
}

/// The position of an upper layer's checksum, if it covers the addresses (RFC 8200, section 8.1).
pub fn checksum_offset(next_header: u8) -> Option<usize> {
    match next_header {
        next_header::UDP => Some(6),
        next_header::TCP => Some(16),
        next_header::ICMPV6 => Some(2),
        _ => None,
    }
}

/// Computes the checksum of `segment` (RFC 8200, section 8.1). To write it into the segment, its checksum field
/// must be 0 first. Over a segment with a right checksum, the result is 0.
pub fn upper_layer_checksum(source: Ipv6Addr, destination: Ipv6Addr, next_header: u8, segment: &[u8]) -> u16 {
    let pseudo_header = pseudo_header_sum(source, destination, next_header, segment.len());
    !fold(u64::from(pseudo_header) + ones_complement_sum(segment))
}

/// The sum of the pseudo header: the addresses, the segment's length and its type (RFC 8200, section 8.1). It
/// is not inverted.
pub fn pseudo_header_sum(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    next_header: u8,
    segment_len: usize,
) -> u16 {
    let addresses = ones_complement_sum(&source.octets()) + ones_complement_sum(&destination.octets());
    fold(addresses + segment_len as u64 + u64::from(next_header))
}

/// Updates a checksum after the bytes `old` have become `new` (RFC 1624, equation 3). Both begin at an even
/// position.
pub fn updated_checksum(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    let without = u64::from(!fold(ones_complement_sum(old)));
    !fold(u64::from(!checksum) + without + ones_complement_sum(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: Ipv6Addr = Ipv6Addr::new(0xfd14, 0, 0, 0, 0, 1, 0x10, 1);
    const OLD: Ipv6Addr = Ipv6Addr::new(0xfd14, 0, 0, 0, 0, 3, 0x30, 1);
    const NEW: Ipv6Addr = Ipv6Addr::new(0xfd14, 0, 0, 0, 0, 3, 0xffff, 0xfffe);

    #[test]
    fn an_updated_checksum_is_that_of_the_new_addresses() {
        for segment in [&b"odd len"[..], &[0; 8], &[0xff; 1000]] {
            let before = upper_layer_checksum(SOURCE, OLD, next_header::UDP, segment);
            let after = upper_layer_checksum(SOURCE, NEW, next_header::UDP, segment);
            let updated = updated_checksum(before, &OLD.octets(), &NEW.octets());
            // 0x0000 and 0xffff are the same number in ones' complement.
            assert!(updated == after || updated ^ after == 0xffff && [0, 0xffff].contains(&updated));
        }
    }

    #[test]
    fn a_header_names_what_is_wrong() {
        let header = Header {
            class_and_label: 0x0fff_ffff,
            payload_len: 3,
            next_header: next_header::UDP,
            hop_limit: 64,
            source: SOURCE,
            destination: OLD,
        };
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend_from_slice(b"abcdef");
        assert_eq!(Header::parse(&bytes), Ok((header, &b"abc"[..])), "the rest is padding");
        let error = |bytes: &[u8]| Header::parse(bytes).expect_err("it is wrong").to_string();
        assert_eq!(error(&bytes[..42]), "payload: 2 bytes are there, 3 are needed");
        bytes[0] = 0x45;
        assert_eq!(error(&bytes), "version: 4 found, expected 6");
    }

    #[test]
    fn a_routing_header_is_found_behind_options_and_first_fragments() {
        let options = |next: u8| vec![next, 0, 1, 4, 0, 0, 0, 0];
        let fragment = |next: u8, offset: u8| vec![next, 0, 0, offset << 3 | 1, 0, 0, 0, 9];
        let (first, second) = (next_header::DESTINATION_OPTIONS, next_header::FRAGMENT);
        let found = |next, headers: &[Vec<u8>]| has_routing_header(next, &headers.concat());
        assert!(found(next_header::ROUTING, &[]));
        assert!(found(first, &[options(43)]));
        assert!(found(first, &[options(first), options(43)]));
        assert!(found(second, &[fragment(43, 0)]));
        assert!(found(second, &[fragment(second, 0), fragment(43, 0)]));
        assert!(found(first, &[options(second), fragment(43, 0)]));
        assert!(!found(second, &[fragment(43, 1)]), "of a later fragment that says nothing");
        assert!(!found(first, &[options(17), vec![43; 8]]));
        assert!(!found(next_header::UDP, &[vec![43; 8]]) && !found(first, &[]) && !found(second, &[]));
    }
}
