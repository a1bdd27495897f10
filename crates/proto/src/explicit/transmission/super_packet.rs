//! Super-packets: several datagrams of one length behind one header, as a program hands them to the kernel with
//! UDP_SEGMENT. The kernel or a network interface divides them into packets when they leave.
//!
//! Until then the checksum field of the UDP header holds the sum of the pseudo header alone (RFC 8200, 8.1).
//! The kernel or the interface adds the rest when it divides the super-packet.

use std::net::Ipv6Addr;

use treecast_wire::ipv6::{self, checksum_offset, next_header, pseudo_header_sum, upper_layer_checksum};

use super::{Copy, Packets, Sent};
use crate::explicit::lists::Form;

const UDP_HEADER_LEN: usize = 8;

/// The most bytes that the IPv6 header can say follow it.
const MAX_PAYLOAD_LEN: usize = u16::MAX as usize;

/// A super-packet as a program hands it over.
#[derive(Debug, Clone, Copy)]
pub struct SuperPacket<'a> {
    ip: ipv6::Header,
    ports: [u8; 4],
    data: &'a [u8],
    /// The number of data bytes in each datagram but the last.
    segment_bytes: usize,
}

/// A super-packet as it leaves for one destination.
#[derive(Debug)]
pub struct Part<'a> {
    /// The destination address.
    pub destination: Ipv6Addr,
    /// The bytes of all headers.
    pub head: Vec<u8>,
    /// The offset in `head` at which the UDP header begins.
    pub udp_at: usize,
    /// The data after the headers.
    pub data: &'a [u8],
    /// The number of data bytes in each datagram but the last.
    pub segment_bytes: usize,
}

impl<'a> SuperPacket<'a> {
    /// Reads a super-packet whose datagrams have `segment_bytes` bytes of data each. None: it is not UDP right
    /// behind an IPv6 header.
    pub fn parse(packet: &'a [u8], segment_bytes: usize) -> Option<Self> {
        let (ip, payload) = ipv6::Header::parse(packet).ok()?;
        let (udp, data) = payload.split_at_checked(UDP_HEADER_LEN)?;
        let ports = *udp.first_chunk()?;
        let is_good = ip.next_header == next_header::UDP && segment_bytes > 0 && !data.is_empty();
        is_good.then_some(Self { ip, ports, data, segment_bytes })
    }

    /// Makes a super-packet from `source_port` to each receiver's own port. `segment_bytes` and the length of
    /// the data are greater than 0. `ip` gives all that the headers hold besides addresses, lengths and kinds.
    pub fn new(ip: ipv6::Header, source_port: u16, data: &'a [u8], segment_bytes: usize) -> Self {
        let [high, low] = source_port.to_be_bytes();
        let ip = ipv6::Header { next_header: next_header::UDP, ..ip };
        Self { ip, ports: [high, low, 0, 0], data, segment_bytes }
    }

    /// Returns the number of datagrams in the super-packet.
    pub fn count(&self) -> usize {
        self.data.len().div_ceil(self.segment_bytes)
    }
}

impl Packets {
    /// Hands to `send` the super-packets that a program's super-packet becomes, and returns the counts of the
    /// packets that they are divided into.
    pub fn make_super<'a>(&mut self, packet: &SuperPacket<'a>, mut send: impl FnMut(Part<'a>)) -> Sent {
        let segment_bytes = packet.segment_bytes.min(packet.data.len());
        let (form, copies) = self.copies_of(UDP_HEADER_LEN + segment_bytes, next_header::UDP);
        let mut sent = Sent::default();
        for copy in copies {
            let room = MAX_PAYLOAD_LEN - UDP_HEADER_LEN - copy.header.len();
            let whole_segments = (room / segment_bytes).max(1) * segment_bytes;
            for data in packet.data.chunks(whole_segments) {
                let part = copy.part(form, packet, data);
                let packets = part.count();
                sent.count(copy, packets, packets * part.head.len() + data.len());
                send(part);
            }
        }
        sent
    }
}

impl Copy {
    fn part<'a>(&self, form: &Form, packet: &SuperPacket<'a>, data: &'a [u8]) -> Part<'a> {
        let udp_len = UDP_HEADER_LEN + data.len();
        let ip = self.ip_header(form, &packet.ip, udp_len);
        let mut head = Vec::with_capacity(ipv6::HEADER_LEN + self.header.len() + UDP_HEADER_LEN);
        head.extend_from_slice(&ip.to_bytes());
        head.extend_from_slice(&self.header);
        let udp_at = head.len();
        let port = |port: Option<u16>, at: usize| {
            port.map_or([packet.ports[at], packet.ports[at + 1]], u16::to_be_bytes)
        };
        head.extend_from_slice(&port(form.source_port, 0));
        head.extend_from_slice(&port(self.port, 2));
        head.extend_from_slice(&(udp_len as u16).to_be_bytes());
        let sum = pseudo_header_sum(ip.source, ip.destination, next_header::UDP, udp_len);
        head.extend_from_slice(&sum.to_be_bytes());
        Part { destination: self.destination, head, udp_at, data, segment_bytes: packet.segment_bytes }
    }
}

impl Part<'_> {
    /// Returns how many packets the super-packet is divided into.
    pub fn count(&self) -> usize {
        self.data.len().div_ceil(self.segment_bytes)
    }

    /// Divides the super-packet into whole packets with complete checksums.
    pub fn packets(&self) -> impl Iterator<Item = Vec<u8>> {
        self.data.chunks(self.segment_bytes).map(|data| {
            let mut packet = [&self.head[..], data].concat();
            let payload_len = (packet.len() - ipv6::HEADER_LEN) as u16;
            packet[4..6].copy_from_slice(&payload_len.to_be_bytes());
            let udp_len = (UDP_HEADER_LEN + data.len()) as u16;
            packet[self.udp_at + 4..self.udp_at + 6].copy_from_slice(&udp_len.to_be_bytes());
            write_checksum(&mut packet, next_header::UDP, self.udp_at);
            packet
        })
    }
}

/// Completes the checksum of the header right behind the IPv6 header, which a program's kernel leaves to be
/// computed when the packet leaves.
pub fn complete_checksum(packet: &mut [u8]) {
    if let Ok((ip, _)) = ipv6::Header::parse(packet) {
        write_checksum(packet, ip.next_header, ipv6::HEADER_LEN);
    }
}

/// The upper layer begins at `start`; the checksum is that for the addresses in the IPv6 header.
fn write_checksum(packet: &mut [u8], upper_layer: u8, start: usize) {
    let Ok((ip, _)) = ipv6::Header::parse(packet) else { return };
    let Some(at) = checksum_offset(upper_layer).map(|at| start + at).filter(|at| at + 2 <= packet.len())
    else {
        return;
    };
    packet[at..at + 2].fill(0);
    let checksum = match upper_layer_checksum(ip.source, ip.destination, upper_layer, &packet[start..]) {
        // In UDP 0 says that there is none (RFC 8200, 8.1).
        0 if upper_layer == next_header::UDP => 0xffff,
        checksum => checksum,
    };
    packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{datagram, form, group},
        *,
    };

    /// The data of datagrams behind one header.
    fn super_packet(data: &[u8]) -> Vec<u8> {
        let mut packet = datagram(data.len());
        let at = packet.len() - data.len();
        packet[at..].copy_from_slice(data);
        packet
    }

    #[test]
    fn what_a_super_packet_becomes_is_what_its_datagrams_become_one_by_one() {
        let data: Vec<u8> = (0..4000).map(|number| (number % 251) as u8).collect();
        for (segment_bytes, form) in
            [(1000, form()), (1100, Form { source_port: Some(7), has_ports: true, ..form() }), (1430, form())]
        {
            let packet = super_packet(&data);
            let whole = SuperPacket::parse(&packet, segment_bytes).expect("it is one");
            let mut made = Packets::new(form.clone(), group());
            let (mut divided, mut bytes) = (Vec::new(), 0);
            let sent = made.make_super(&whole, |part| {
                divided.extend(part.packets().map(|packet| (part.destination, packet)));
                bytes += part.data.len();
            });
            let mut expected = Vec::new();
            let mut one_by_one = Sent::default();
            // The last one is shorter, but there is no more room beside it than beside the others.
            for chunk in data.chunks(segment_bytes).filter(|chunk| chunk.len() == segment_bytes) {
                let mut packet = super_packet(chunk);
                complete_checksum(&mut packet);
                let made = made.make(&packet, |to, packet| expected.push((to, packet)));
                one_by_one = one_by_one.plus(made.expect("IPv6"));
            }
            let last = data.len() % segment_bytes;
            divided.retain(|(_, packet)| last == 0 || !is_shortened(packet, &data[data.len() - last..]));
            divided.sort_unstable();
            expected.sort_unstable();
            assert_eq!(divided.len(), expected.len());
            assert!(divided == expected, "{segment_bytes}");
            let more = u64::from(last > 0);
            let copies = one_by_one.mead_packets + one_by_one.unicast_packets;
            let each = data.len() / segment_bytes;
            assert_eq!(sent.mead_packets + sent.unicast_packets, copies + more * copies / each as u64);
            assert_eq!(bytes, data.len() * (copies as usize / each));
        }
    }

    fn is_shortened(packet: &[u8], last: &[u8]) -> bool {
        let ports_and_more = packet.len() - last.len();
        let udp_len = u16::from_be_bytes([packet[ports_and_more - 4], packet[ports_and_more - 3]]);
        usize::from(udp_len) == UDP_HEADER_LEN + last.len() && packet[ports_and_more..] == *last
    }

    #[test]
    fn a_super_packet_for_which_the_length_field_is_too_small_with_its_header_leaves_in_two() {
        let packet = super_packet(&vec![9; 65_000]);
        let whole = SuperPacket::parse(&packet, 1000).expect("it is one");
        let mut parts = Vec::new();
        let sent = Packets::new(Form { mtu: 9000, ..form() }, group()).make_super(&whole, |part| {
            let (ip, _) = ipv6::Header::parse_start(&part.head).expect("an IPv6 header");
            assert_eq!(usize::from(ip.payload_len) + 40, part.head.len() + part.data.len());
            assert_eq!(part.packets().count(), part.data.len().div_ceil(1000));
            parts.push(part.data.len());
        });
        assert_eq!(parts, [65_000, 65_000]);
        let packet = super_packet(&vec![9; 65_500]);
        let whole = SuperPacket::parse(&packet, 500).expect("it is one");
        parts.clear();
        Packets::new(form(), group()).make_super(&whole, |part| parts.push(part.data.len()));
        assert_eq!(parts, [65_500, 65_000, 500]);
        assert_eq!((sent.unicast_packets, sent.mead_packets), (65, 65));
    }

    #[test]
    fn what_is_no_udp_is_none() {
        let mut packet = super_packet(&[1; 100]);
        assert!(SuperPacket::parse(&packet, 0).is_none() && SuperPacket::parse(&packet[..90], 10).is_none());
        packet[6] = next_header::TCP;
        assert!(SuperPacket::parse(&packet, 10).is_none());
    }
}
