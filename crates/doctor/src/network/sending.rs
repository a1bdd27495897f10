//! Sends probes, and traces the way of packets by their hop limit.

use std::{
    io::{self, IoSlice},
    net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use socket2::{Domain, Protocol, Socket, Type};
use treecast_host::{control::Control, interface::Interface, messages, option, poller::Poller, raw};
use treecast_wire::ipv6::{self, next_header, upper_layer_checksum};

use super::{
    groups::Groups,
    message::{Header, Round, Target},
    probe::Probe,
    sockets::Sockets,
};

/// The time that a router gets to say that a packet's hop limit is used up.
const HOP_TIME: Duration = Duration::from_millis(250);
/// Probes for each hop. One may be lost, and routers limit how often they answer.
const TRIES: usize = 2;

/// A host that sends.
pub struct Sending<'a> {
    pub sockets: &'a Sockets,
    pub groups: &'a Groups,
    pub interface: &'a Interface,
    /// The host's own address for packets with extension headers.
    pub source: Option<Ipv6Addr>,
    pub port: u16,
    pub run: u64,
    pub sender: u16,
}

impl Sending<'_> {
    /// Sends one round of packets.
    ///
    /// # Errors
    /// The kernel's error for the first packet that it does not take.
    pub fn round(&self, round: &Round) -> io::Result<()> {
        let to = match round.to {
            Target::Group(place) => {
                self.groups.get(place).ok_or_else(|| io::Error::other("there is no such group"))?.address
            }
            Target::Host(address) => address,
        };
        let raw = (round.header != Header::None).then(raw::open_ipv6_packets).transpose()?;
        let socket = self.sockets.towards(to)?;
        set_hop_limit(socket, to, round.hop_limit)?;
        let start = Instant::now();
        let mut number = 0;
        while number < round.packets {
            let count = round.at_once.clamp(1, round.packets - number);
            let probe = |number| Probe { run: self.run, sender: self.sender, test: round.test, number };
            let bytes = round.bytes as usize;
            let payload: Vec<u8> =
                (number..number + count).flat_map(|number| probe(number).to_bytes(bytes)).collect();
            match (&raw, to, self.source) {
                (Some(raw), IpAddr::V6(to), Some(source)) => {
                    let packet = packet(source, to, round.hop_limit, round.header, self.port, &payload);
                    let to = option::scoped((to, 0).into(), self.interface.index);
                    raw.send_to(&packet, &to.into())?;
                }
                (Some(_), ..) => return Err(io::Error::other("extension headers need IPv6 addresses")),
                (None, ..) => {
                    let segment_len = (count > 1).then(|| payload.len() / count as usize);
                    let to = option::scoped((to, self.port).into(), self.interface.index);
                    send_patiently(socket, &payload, to, segment_len)?;
                }
            }
            number += count;
            let due = Duration::from_micros(u64::from(round.gap_us) * u64::from(number));
            thread::sleep(due.saturating_sub(start.elapsed()));
        }
        Ok(())
    }

    /// The routers on the way of packets with this header, in their order. `None` stands for a hop that said nothing. Ends where
    /// the addressee is reached.
    ///
    /// # Errors
    /// If this user may not open raw sockets.
    pub fn trace(&self, to: IpAddr, header: Header, hops: u8) -> io::Result<Vec<Option<IpAddr>>> {
        let (domain, protocol) =
            if to.is_ipv4() { (Domain::IPV4, Protocol::ICMPV4) } else { (Domain::IPV6, Protocol::ICMPV6) };
        let icmp = Socket::new(domain, Type::RAW.nonblocking(), Some(protocol))?;
        let mut routers = Vec::new();
        for hop in 1..=hops {
            let mut router = None;
            for test in 0..TRIES {
                let round = Round {
                    // No test has this number: listeners take no notice.
                    test: u16::MAX - u16::from(hop) * TRIES as u16 - test as u16,
                    to: Target::Host(to),
                    packets: 1,
                    bytes: 0,
                    at_once: 1,
                    gap_us: 0,
                    hop_limit: hop,
                    header,
                };
                self.round(&round)?;
                router = expired(&icmp, self.run, round.test)?;
                if router.is_some() {
                    break;
                }
            }
            routers.push(router);
        }
        while routers.last() == Some(&None) {
            routers.pop();
        }
        Ok(routers)
    }
}

/// Sends a packet, or a super-packet with packets of `segment_len` bytes. A burst may fill the socket's buffer: then it goes on
/// when there is room.
fn send_patiently(
    socket: &UdpSocket,
    payload: &[u8],
    to: SocketAddr,
    segment_len: Option<usize>,
) -> io::Result<()> {
    const TRIES: usize = 100;
    let control =
        segment_len.map_or(Control::NONE, |segment_len| Control::NONE.with_segment_len(segment_len as u16));
    let send = || messages::send(socket, Some(&to.into()), &[IoSlice::new(payload)], &control).map(|_| ());
    for _ in 0..TRIES {
        match send() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(1))
            }
            // An ICMP error of an earlier packet.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            sent => return sent,
        }
    }
    send()
}

/// Sets the hop limit of packets to an address.
pub fn set_hop_limit(socket: &UdpSocket, to: IpAddr, hop_limit: u8) -> io::Result<()> {
    let value = i32::from(hop_limit);
    match (to.is_ipv4(), to.is_multicast()) {
        (true, true) => option::set(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, value),
        (true, false) => option::set(socket, libc::IPPROTO_IP, libc::IP_TTL, value),
        (false, true) => option::set(socket, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, value),
        (false, false) => option::set(socket, libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, value),
    }
}

/// A whole IPv6 packet with an extension header and UDP.
fn packet(
    source: Ipv6Addr,
    to: Ipv6Addr,
    hop_limit: u8,
    header: Header,
    port: u16,
    payload: &[u8],
) -> Vec<u8> {
    const UDP: u8 = 17;
    let (first, extension) = match header {
        Header::None => (UDP, vec![]),
        // Next header, length, routing type 253, no segments left, and reserved bytes (RFC 8200, section 4.4).
        Header::Routing => (next_header::ROUTING, vec![UDP, 0, 253, 0, 0, 0, 0, 0]),
        // Next header, length, and a PadN option of 6 bytes (RFC 8200, section 4.2).
        Header::DestinationOptions => (next_header::DESTINATION_OPTIONS, vec![UDP, 0, 1, 4, 0, 0, 0, 0]),
        Header::Fragment => (next_header::FRAGMENT, vec![UDP, 0, 0, 0, 0, 0, 0, 7]),
    };
    let mut udp =
        [port.to_be_bytes(), port.to_be_bytes(), ((8 + payload.len()) as u16).to_be_bytes(), [0; 2]].concat();
    udp.extend(payload);
    let checksum = upper_layer_checksum(source, to, UDP, &udp).to_be_bytes();
    udp[6..8].copy_from_slice(&checksum);
    ipv6::Header { hop_limit, ..ipv6::Header::new(source, to, first) }.packet(&[&extension, &udp])
}

/// Waits for the ICMP error "time exceeded" about a probe. Returns the router that sent it.
fn expired(icmp: &Socket, run: u64, test: u16) -> io::Result<Option<IpAddr>> {
    const TIME_EXCEEDED: [u8; 2] = [11, 3];
    let start = Instant::now();
    let mut poller = Poller::new()?;
    poller.watch(icmp, 0)?;
    let mut buffer = [0; 2048];
    while let Some(left) = HOP_TIME.checked_sub(start.elapsed()) {
        poller.tokens(Some(left))?;
        while let Ok((from, received)) = messages::receive_from(icmp, &mut buffer) {
            let Some(from) = from.as_socket() else { continue };
            // An IPv4 raw socket gets the IP header, too.
            let at = if from.is_ipv4() { usize::from(buffer[0] & 0xf) * 4 } else { 0 };
            let message = buffer[..received.len.min(buffer.len())].get(at..).unwrap_or_default();
            let is_expired = message.first().is_some_and(|kind| TIME_EXCEEDED.contains(kind));
            // The error quotes the packet. The probe in it is found by its run and test, whatever headers are before it.
            let quoted = (8..message.len()).find_map(|at| Probe::parse(&message[at..]));
            if is_expired && quoted.is_some_and(|probe| probe.run == run && probe.test == test) {
                return Ok(Some(from.ip()));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_with_headers_have_right_checksums() {
        let (source, to) = (Ipv6Addr::LOCALHOST, Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2));
        for header in [Header::None, Header::Routing, Header::DestinationOptions, Header::Fragment] {
            let packet = packet(source, to, 7, header, 4245, b"hello");
            let (ip, rest) = ipv6::Header::parse(&packet).unwrap();
            assert_eq!(ip.hop_limit, 7);
            let udp = if header == Header::None { rest } else { &rest[8..] };
            assert_eq!(upper_layer_checksum(source, to, 17, udp), 0);
            assert_eq!(udp.len(), 13);
        }
    }
}
