//! The IP packets in which the doctor finds probes, queries and senders.

use std::net::{IpAddr, Ipv4Addr};

use treecast_wire::ipv6::{self, next_header};

/// The length of an Ethernet header in bytes.
const ETHERNET_LEN: usize = 14;
/// The shortest header of IPv4 in bytes.
const IPV4_LEN: usize = 20;
/// The largest number of extension headers that are skipped.
const MAX_EXTENSIONS: usize = 4;

/// An IP packet that is whole, or the first fragment of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub hop_limit: u8,
    /// The number of the protocol behind all IPv6 extension headers.
    pub protocol: u8,
    /// The bytes that follow the headers, as far as they are there. They may be cut, and padding of the frame is left
    /// out.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses a frame of an Ethernet interface, or of one whose frames are bare IP packets.
    pub fn in_frame(frame: &'a [u8], is_ethernet: bool) -> Option<Self> {
        if !is_ethernet {
            return Self::parse(frame);
        }
        let packet = Self::parse(frame.get(ETHERNET_LEN..)?)?;
        // Frames of other protocols may begin like an IP packet.
        let ethertype: [u8; 2] = if packet.source.is_ipv4() { [0x08, 0x00] } else { [0x86, 0xdd] };
        (frame[ETHERNET_LEN - 2..ETHERNET_LEN] == ethertype).then_some(packet)
    }

    /// Parses a packet. `None` if it is not one of IPv4 or IPv6, or a later fragment.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        match bytes.first()? >> 4 {
            4 => Self::parse_v4(bytes),
            6 => Self::parse_v6(bytes),
            _ => None,
        }
    }

    fn parse_v4(bytes: &'a [u8]) -> Option<Self> {
        let header: &[u8; IPV4_LEN] = bytes.first_chunk()?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let address =
            |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]).into();
        let is_later_fragment = word(6) & 0x1fff != 0;
        let packet = &bytes[..bytes.len().min(word(2).into())];
        let header_len = usize::from(header[0] & 0xf) * 4;
        let payload = packet.get(header_len..).filter(|_| header_len >= IPV4_LEN)?;
        let (hop_limit, protocol) = (header[8], header[9]);
        let packet = Self { source: address(12), destination: address(16), hop_limit, protocol, payload };
        (!is_later_fragment).then_some(packet)
    }

    fn parse_v6(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = ipv6::Header::parse_start(bytes).ok()?;
        let rest = &rest[..rest.len().min(header.payload_len.into())];
        let (protocol, payload) = behind_extensions(header.next_header, rest)?;
        let (source, destination) = (header.source.into(), header.destination.into());
        Some(Self { source, destination, hop_limit: header.hop_limit, protocol, payload })
    }

    /// The payload of UDP, and its destination port.
    pub fn udp(&self) -> Option<(u16, &'a [u8])> {
        let port = u16::from_be_bytes(*self.payload.get(2..)?.first_chunk()?);
        (self.protocol == next_header::UDP).then_some((port, self.payload.get(8..)?))
    }
}

/// Skips extension headers of hosts and routers, and the fragment header of a first fragment.
fn behind_extensions(mut next: u8, mut rest: &[u8]) -> Option<(u8, &[u8])> {
    const HOP_BY_HOP: u8 = 0;
    for _ in 0..MAX_EXTENSIONS {
        let len = match next {
            HOP_BY_HOP | next_header::ROUTING | next_header::DESTINATION_OPTIONS => {
                (usize::from(*rest.get(1)?) + 1) * 8
            }
            next_header::FRAGMENT if u16::from_be_bytes(*rest.get(2..)?.first_chunk()?) >> 3 == 0 => 8,
            next_header::FRAGMENT => return None,
            _ => return Some((next, rest)),
        };
        (next, rest) = (*rest.first()?, rest.get(len..)?);
    }
    None
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    const UDP: [u8; 10] = [0, 9, 0x10, 0x95, 0, 10, 0, 0, 7, 7];

    fn v4(flags: u16, protocol: u8) -> Vec<u8> {
        let mut packet = [&[0x46, 0, 0, 34][..], &[0; 20], &UDP].concat();
        packet[6..8].copy_from_slice(&flags.to_be_bytes());
        (packet[8], packet[9]) = (31, protocol);
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 239, 1, 2, 3]);
        packet
    }

    #[test]
    fn the_first_fragment_of_ipv4_is_read_behind_its_options_and_without_padding() {
        const MORE_FRAGMENTS: u16 = 0x2000;
        for flags in [0, MORE_FRAGMENTS] {
            let bytes = [&v4(flags, next_header::UDP)[..], &[9; 20]].concat();
            let frame = [&[0; 12][..], &[0x08, 0x00], &bytes].concat();
            let packet = Packet::in_frame(&frame, true).unwrap();
            assert_eq!((packet.source, packet.hop_limit), ([10, 0, 0, 1].into(), 31));
            assert_eq!(packet.destination, IpAddr::from([239, 1, 2, 3]));
            assert_eq!(packet.udp(), Some((4245, &[7, 7][..])));
        }
        assert_eq!(Packet::parse(&v4(1, next_header::UDP)), None);
        let igmp = v4(0, 2);
        assert_eq!(Packet::in_frame(&igmp, false).map(|packet| packet.udp()), Some(None));
    }

    #[test]
    fn frames_of_other_protocols_are_no_packets() {
        let with_type = |ethertype: [u8; 2], bytes: &[u8]| [&[0; 12][..], &ethertype, bytes].concat();
        let packet = v4(0, next_header::UDP);
        assert_eq!(Packet::in_frame(&with_type([0x88, 0x47], &packet), true), None, "MPLS");
        assert_eq!(Packet::in_frame(&with_type([0x86, 0xdd], &packet), true), None);
        // A BPDU of the spanning tree: its LLC header begins with 0x42, and its EtherType is a length.
        let bpdu = [&[0x42, 0x42, 3][..], &[0; 43]].concat();
        assert_eq!(Packet::in_frame(&with_type([0, 38], &bpdu), true), None);
        assert_eq!(Packet::parse(&bpdu), None, "a header of 8 bytes");
    }

    #[test]
    fn extension_headers_are_skipped() {
        let address = Ipv6Addr::LOCALHOST;
        for headers in [
            vec![],
            vec![(43, [17, 0, 253, 0, 0, 0, 0, 0])],
            vec![(60, [44, 0, 1, 4, 0, 0, 0, 0]), (44, [17, 0, 0, 0, 0, 0, 0, 0])],
        ] {
            let next = headers.first().map_or(17, |(kind, _)| *kind);
            let extensions: Vec<u8> = headers.iter().flat_map(|(_, bytes)| *bytes).collect();
            let bytes = ipv6::Header::new(address, address, next).packet(&[&extensions, &UDP]);
            assert_eq!(Packet::parse(&bytes).and_then(|packet| packet.udp()), Some((4245, &[7, 7][..])));
            let header_len = bytes.len() - UDP.len() + 8;
            assert!(
                (0..header_len)
                    .all(|len| { Packet::parse(&bytes[..len]).and_then(|packet| packet.udp()).is_none() })
            );
        }
        let later = ipv6::Header::new(address, address, 44).packet(&[&[17, 0, 0, 8, 0, 0, 0, 0], &UDP]);
        assert_eq!(Packet::parse(&later), None);
        let endless = [60, 0, 1, 4, 0, 0, 0, 0].repeat(9);
        assert_eq!(Packet::parse(&ipv6::Header::new(address, address, 60).packet(&[&endless])), None);
    }
}
