//! The frames that the sender sends: the same payload as multicast, as MEADcast, as Xcast and as plain unicast.

use std::net::Ipv6Addr;

use treecast_host::offload::Offload;
use treecast_proto::explicit::list_proof::{self, ListKey, Listed};
use treecast_wire::{
    ipv6::{self, next_header, upper_layer_checksum},
    mead::{Dialect, Header, Options},
    xcast,
};

use super::Result;

/// The bytes of a datagram in a super-packet. With a list of ten receivers, it fits an MTU of 1,500.
const SEGMENT_LEN: usize = 1200;
const SEGMENTS: usize = 50;

/// The bytes of payload in an IPv6 packet of 1,000 bytes.
const SINGLE_LEN: usize = 1000 - ipv6::HEADER_LEN - UDP_LEN;

const ETHERNET_LEN: usize = 14;
const ETHERTYPE: [u8; 2] = [0x86, 0xdd];
const UDP_LEN: usize = 8;
const SOURCE_PORT: u16 = 4000;

/// An Ethernet address that nobody has. The router's network layer discards frames to it.
const STRANGER: [u8; 6] = [2, 0xff, 0xff, 0xff, 0xff, 0xff];

/// The content of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// A super-packet of 50 datagrams with 1,200 bytes each.
    Super,
    /// A single datagram, with 1,000 bytes including its IPv6 header.
    Single,
}

impl Size {
    fn payload(self) -> Vec<u8> {
        match self {
            Self::Super => (0..SEGMENTS * SEGMENT_LEN).map(|at| (at / SEGMENT_LEN) as u8).collect(),
            Self::Single => vec![0; SINGLE_LEN],
        }
    }

    fn segment_len(self) -> usize {
        match self {
            Self::Super => SEGMENT_LEN,
            Self::Single => SINGLE_LEN,
        }
    }

    /// The number of datagrams that a receiver gets from one packet.
    pub fn datagrams(self) -> usize {
        match self {
            Self::Super => SEGMENTS,
            Self::Single => 1,
        }
    }

    /// Whether `datagram` is the packet's datagram with this number.
    fn is_datagram(self, number: usize, datagram: &[u8]) -> bool {
        datagram.len() == self.segment_len() && datagram.iter().all(|byte| *byte == number as u8)
    }
}

/// The progress of a receiver with a packet. It may come in several looks at the socket, and datagrams of it may be
/// dropped: then the next packet counts.
#[derive(Debug, Default)]
pub struct Progress {
    /// The number of the datagram that continues the packet.
    next: usize,
}

impl Progress {
    /// Takes a datagram. Returns whether it completes a packet; `None` if no packet of this size has such a datagram.
    pub fn take(&mut self, size: Size, datagram: &[u8]) -> Option<bool> {
        let number = (0..size.datagrams()).find(|number| size.is_datagram(*number, datagram))?;
        self.next = match number {
            number if number == self.next => number + 1,
            0 => 1,
            _ => 0,
        };
        let is_complete = self.next == size.datagrams();
        self.next %= size.datagrams();
        Some(is_complete)
    }
}

/// Frames that are sent in turn, and the packets that are expected from each.
#[derive(Debug, Clone)]
pub struct Flow {
    pub frames: Vec<Vec<u8>>,
    /// The number of copies that arrive of each frame.
    pub copies: usize,
    pub size: Size,
    /// The UDP port at which the copies arrive.
    pub port: u16,
}

/// The addresses of all nodes.
#[derive(Debug, Clone)]
pub struct Addresses {
    pub sender: Ipv6Addr,
    pub sender_mac: [u8; 6],
    pub router: Ipv6Addr,
    pub router_mac: [u8; 6],
    pub receivers: Vec<Ipv6Addr>,
    pub group: Ipv6Addr,
    pub group_port: u16,
    pub port: u16,
}

impl Addresses {
    /// A flow of one packet to the group.
    pub fn multicast(&self, size: Size) -> Flow {
        let [.., a, b, c, d] = self.group.octets();
        // RFC 2464, section 7, maps a group to an Ethernet address.
        let mac = [0x33, 0x33, a, b, c, d];
        let frame = self.frame(mac, self.group, (self.group_port, None), size);
        Flow { frames: vec![frame], copies: self.receivers.len(), size, port: self.group_port }
    }

    /// A flow of one MEADcast packet, which the router turns into one packet for each receiver.
    pub fn mead(&self, size: Size) -> Result<Flow> {
        let header = Header::data(next_header::UDP, &[(self.router, self.receivers.clone())])?;
        Ok(self.flow(header.to_bytes(Dialect::Rfc), size))
    }

    /// A flow like [`Addresses::mead`], with a proof that a sender with the key has written the list.
    pub fn proved(&self, size: Size, key: ListKey, epoch: u64) -> Result<Flow> {
        let options = next_header::DESTINATION_OPTIONS;
        let header = Header::data(options, &[(self.router, self.receivers.clone())])?;
        let (kind, group) = (list_proof::Kind::Mead, Ipv6Addr::UNSPECIFIED);
        let (source, routers) = (self.sender, header.routers);
        let listed = Listed { kind, source, group, routers, addresses: &header.addresses };
        let list_proof = Some(key.prove(epoch, &listed));
        let options = Options { list_proof, ..Options::default() }.to_bytes(next_header::UDP);
        Ok(self.flow([header.to_bytes(Dialect::Rfc), options].concat(), size))
    }

    /// A flow of packets with this routing header, of which each receiver gets a copy.
    fn flow(&self, header: Vec<u8>, size: Size) -> Flow {
        let frame = self.frame(self.router_mac, self.receivers[0], (self.port, Some(&header)), size);
        Flow { frames: vec![frame], copies: self.receivers.len(), size, port: self.port }
    }

    /// A flow of one Xcast packet, with a list of destinations that the router has routes to.
    pub fn xcast(&self, size: Size) -> Result<Flow> {
        let header = xcast::Header::new(next_header::UDP, Ipv6Addr::UNSPECIFIED, self.receivers.clone())?;
        Ok(self.flow(header.to_bytes(), size))
    }

    /// A flow with a packet to each receiver.
    pub fn unicast(&self, size: Size) -> Flow {
        let frame = |to: &Ipv6Addr| self.frame(self.router_mac, *to, (self.port, None), size);
        Flow { frames: self.receivers.iter().map(frame).collect(), copies: 1, size, port: self.port }
    }

    /// A flow of packets that the router ignores. Their cost is the cost of the sender.
    pub fn stray(&self, size: Size) -> Flow {
        let frame = self.frame(STRANGER, self.receivers[0], (self.port, None), size);
        Flow { frames: vec![frame], copies: 0, size, port: self.port }
    }

    /// Makes a frame in the form that a kernel gives to a device, which completes checksums and divides
    /// super-packets.
    fn frame(
        &self,
        mac: [u8; 6],
        to: Ipv6Addr,
        (port, routing): (u16, Option<&[u8]>),
        size: Size,
    ) -> Vec<u8> {
        let (payload, routing) = (size.payload(), routing.unwrap_or_default());
        let len = (UDP_LEN + payload.len()) as u16;
        let next = if routing.is_empty() { next_header::UDP } else { next_header::ROUTING };
        // The device adds up the segment itself. It expects the sum of the other covered bytes, which is the
        // inverted checksum of as many zeros.
        let pseudo = !upper_layer_checksum(self.sender, to, next_header::UDP, &vec![0; len.into()]);
        let udp = [SOURCE_PORT, port, len, pseudo].map(u16::to_be_bytes).concat();
        let start = ETHERNET_LEN + ipv6::HEADER_LEN + routing.len();
        let offload = Offload::of_udp(start, (size == Size::Super).then_some(SEGMENT_LEN)).to_bytes();
        let ethernet = [&mac[..], &self.sender_mac, &ETHERTYPE].concat();
        let packet = ipv6::Header::new(self.sender, to, next).packet(&[routing, &udp, &payload]);
        [&offload[..], &ethernet, &packet].concat()
    }
}

#[cfg(test)]
mod tests {
    use treecast_host::offload::OFFLOAD_LEN;

    use super::*;

    fn addresses() -> Addresses {
        let host = |number| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number);
        Addresses {
            sender: host(1),
            sender_mac: [2, 0, 0, 0, 0, 1],
            router: host(2),
            router_mac: [2, 0, 0, 0, 0, 2],
            receivers: vec![host(3), host(4)],
            group: Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0x1234, 0x5678),
            group_port: 5000,
            port: 5001,
        }
    }

    #[test]
    fn a_packet_is_complete_when_its_datagrams_have_come_in_order_without_a_gap() {
        let mut progress = Progress::default();
        let mut take = |number: usize| progress.take(Size::Super, &[number as u8; SEGMENT_LEN]);
        // The end of a packet whose beginning was dropped, and one with a gap.
        for number in (40..SEGMENTS).chain((0..30).chain(31..SEGMENTS)) {
            assert_eq!(take(number), Some(false), "{number}");
        }
        let all: Vec<_> = (0..2 * SEGMENTS).map(|number| take(number % SEGMENTS)).collect();
        assert_eq!(all.iter().filter(|is_complete| **is_complete == Some(true)).count(), 2);
        assert_eq!((all[SEGMENTS - 1], all[2 * SEGMENTS - 1]), (Some(true), Some(true)));
        assert_eq!(take(SEGMENTS), None, "no packet has so many");
        let mut altered = [1; SEGMENT_LEN];
        altered[7] = 2;
        assert_eq!(progress.take(Size::Super, &altered), None);
        assert_eq!(progress.take(Size::Super, &[1; SEGMENT_LEN - 1]), None);
        assert_eq!(progress.take(Size::Single, &[0; SINGLE_LEN]), Some(true));
    }

    #[test]
    fn a_single_packet_has_1000_bytes_and_the_checksum_that_a_device_begins_with() {
        let frame = &addresses().unicast(Size::Single).frames[1];
        let packet = &frame[OFFLOAD_LEN + ETHERNET_LEN..];
        assert_eq!(packet.len(), 1000);
        let (ip, segment) = ipv6::Header::parse(packet).expect("a header");
        assert_eq!(ip.destination, addresses().receivers[1]);
        // Finished by the device's sum over the segment, it is right.
        let mut finished = segment.to_vec();
        finished[6..8].fill(0);
        let right = upper_layer_checksum(ip.source, ip.destination, next_header::UDP, &finished);
        let sum: u32 = segment.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        assert_eq!(!(((folded & 0xffff) + (folded >> 16)) as u16), right);
    }

    #[test]
    fn frames_go_to_whom_they_are_for() {
        let addresses = addresses();
        let multicast = &addresses.multicast(Size::Super).frames[0];
        assert_eq!(multicast[OFFLOAD_LEN..][..6], [0x33, 0x33, 0x12, 0x34, 0x56, 0x78]);
        let mead = &addresses.mead(Size::Super).expect("good addresses").frames[0];
        let (ip, rest) = ipv6::Header::parse(&mead[OFFLOAD_LEN + ETHERNET_LEN..]).expect("a header");
        assert_eq!((ip.next_header, ip.destination), (next_header::ROUTING, addresses.receivers[0]));
        let (header, rest) = Header::parse(rest, Dialect::Rfc).expect("a routing header");
        assert_eq!(header.addresses, [addresses.router, addresses.receivers[0], addresses.receivers[1]]);
        assert_eq!(rest.len(), UDP_LEN + SEGMENTS * SEGMENT_LEN);
        assert_eq!(mead.len() - multicast.len(), header.emitted_len());
    }
}
