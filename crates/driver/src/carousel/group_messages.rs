//! Reads messages of MLD and IGMP that are addressed to the group itself: queries of another querier about it,
//! and reports of the older versions.
//!
//! A kernel passes on only messages for groups that its host has joined. A sender must not join, because it
//! would then be a listener that never leaves. So a packet socket reads them.

use std::{
    io::{self, Read as _},
    net::{IpAddr, Ipv4Addr},
    os::fd::{AsFd, BorrowedFd},
};

use socket2::{Domain, SockFilter, Socket, Type};
use treecast_host::{
    classic_bpf::{JUMP_EQUAL, LOAD_BYTE, LOAD_WORD, RETURN},
    interface::Interface,
    packet,
};
use treecast_proto::membership::Message;
use treecast_wire::{igmp, mld};

/// The longest query that a link of ordinary MTU carries, and more.
const MAX_PACKET_LEN: usize = 2048;

/// The most messages that are read at a time, so that a flood of them cannot keep a sender from sending.
const MAX_MESSAGES: usize = 64;

/// The messages to one group on one link.
#[derive(Debug)]
pub(super) struct GroupMessages(Socket);

impl GroupMessages {
    /// Opens the socket for messages of a group on this interface.
    ///
    /// # Errors
    /// If this process is not allowed to, or the interface is gone.
    pub fn open(interface: &Interface, group: IpAddr) -> io::Result<Self> {
        // Of no protocol: nothing is heard before the filter is there.
        let socket = Socket::new(Domain::PACKET, Type::DGRAM.nonblocking(), None)?;
        socket.attach_filter(&membership_messages_to(group))?;
        let ethertype = if group.is_ipv4() { libc::ETH_P_IP } else { libc::ETH_P_IPV6 };
        packet::bind(&socket, interface.index, ethertype as u16)?;
        match packet::take_group(&socket, interface.index, link_address(group)) {
            // The interface's link-layer addresses are not of six octets. TUN, WireGuard, PPP and tunnels have none, and hand
            // over whatever comes, so that nothing need be asked of them.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            set => set?,
        }
        Ok(Self(socket))
    }

    /// Reads the messages that have come, each with its sender.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn read(&self) -> io::Result<Vec<(IpAddr, Message)>> {
        let mut buffer = [0; MAX_PACKET_LEN];
        let mut heard = Vec::new();
        for _ in 0..MAX_MESSAGES {
            let len = match (&self.0).read(&mut buffer) {
                Ok(len) => len,
                // Said once when the interface goes down; the socket hears again when it comes up.
                Err(error) if error.kind() == io::ErrorKind::NetworkDown => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            heard.extend(message(&buffer[..len]));
        }
        Ok(heard)
    }
}

impl AsFd for GroupMessages {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The message in an IP packet. None where it is something else, is damaged, or comes from beyond the link.
fn message(packet: &[u8]) -> Option<(IpAddr, Message)> {
    if packet.first()? >> 4 == 4 {
        return parse_igmp_packet(packet);
    }
    let (from, message) = mld::parse_packet(packet)?;
    Some((from.into(), Message::from_wire(message)?))
}

/// Every message has a TTL of 1 (RFC 9776, 4). What stands behind the packet's end is padding of the frame.
fn parse_igmp_packet(packet: &[u8]) -> Option<(IpAddr, Message)> {
    let total = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
    let (header, body) = split_ip_header(packet.get(..total)?)?;
    let from = Ipv4Addr::from(*header.get(12..)?.first_chunk::<4>()?);
    if header[8] != 1 || header[9] != libc::IPPROTO_IGMP as u8 {
        return None;
    }
    Some((from.into(), Message::from_wire(igmp::Message::parse(body).ok()?)?))
}

/// A program that passes packets to the group that are IGMP (protocol at 9), or whose IPv6 header (next header at 6) is followed by
/// hop-by-hop options: nothing of what other senders send there.
fn membership_messages_to(group: IpAddr) -> Vec<SockFilter> {
    let (kind_at, kind, group_at, octets) = match group {
        IpAddr::V4(group) => (9, libc::IPPROTO_IGMP as u32, 16, group.octets().to_vec()),
        IpAddr::V6(group) => (6, libc::IPPROTO_HOPOPTS as u32, 24, group.octets().to_vec()),
    };
    let words = octets.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    let mut comparisons = vec![(LOAD_BYTE, kind_at, kind)];
    comparisons.extend(words.zip((group_at..).step_by(4)).map(|(word, at)| (LOAD_WORD, at, word)));
    let mut program = Vec::new();
    let count = comparisons.len();
    for (index, (load, at, value)) in comparisons.into_iter().enumerate() {
        // Over what is left to compare, and over the return that passes.
        let skip = 2 * (count - 1 - index) + 1;
        program.push(SockFilter::new(load, 0, 0, at));
        program.push(SockFilter::new(JUMP_EQUAL, 0, skip as u8, value));
    }
    program.push(SockFilter::new(RETURN, 0, 0, u32::MAX));
    program.push(SockFilter::new(RETURN, 0, 0, 0));
    program
}

/// The Ethernet address of a group (RFC 1112, 6.4, and RFC 2464, 7).
fn link_address(group: IpAddr) -> [u8; 6] {
    match group {
        IpAddr::V4(group) => {
            let [_, second, third, fourth] = group.octets();
            [1, 0, 0x5e, second & 0x7f, third, fourth]
        }
        IpAddr::V6(group) => {
            let [.., first, second, third, fourth] = group.octets();
            [0x33, 0x33, first, second, third, fourth]
        }
    }
}

/// An IPv4 packet's header, which a raw socket hands over, too, and what is behind it.
pub(super) fn split_ip_header(packet: &[u8]) -> Option<(&[u8], &[u8])> {
    let words = packet.first()? & 0x0f;
    packet.split_at_checked(usize::from(words) * 4)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use treecast_proto::membership::Query;

    use super::*;

    fn question() -> Message {
        let general = Query::general(Duration::from_secs(1), Duration::from_secs(20));
        Message::Query(Query { group: Some(IpAddr::from([239, 1, 2, 3])), ..general })
    }

    fn igmp_packet(ttl: u8, message: &Message) -> Vec<u8> {
        let body = message.to_wire::<Ipv4Addr>().expect("IGMP says it").to_bytes();
        let mut packet = vec![0x46, 0xc0, 0, 24 + body.len() as u8, 0, 0, 0, 0, ttl, 2, 0, 0];
        packet.extend([192, 0, 2, 8, 239, 1, 2, 3, 0x94, 4, 0, 0]);
        packet.extend(body);
        packet
    }

    #[test]
    fn only_a_neighbours_message_is_one() {
        let good = igmp_packet(1, &question());
        let from = IpAddr::from([192, 0, 2, 8]);
        assert_eq!(message(&good), Some((from, question())));
        assert_eq!(message(&[&good[..], &[0; 10]].concat()), Some((from, question())), "a padded frame");
        assert_eq!(message(&igmp_packet(2, &question())), None, "from afar");
        let changed = |at: usize| {
            let mut packet = good.clone();
            packet[at] ^= 0x40;
            message(&packet)
        };
        assert!([9, 24, 28].into_iter().all(|at| changed(at).is_none()));
        assert!((0..good.len()).all(|len| message(&good[..len]).is_none()));
    }

    #[test]
    fn an_interface_takes_the_groups_ethernet_address() {
        let address = |group: &str| link_address(group.parse().unwrap());
        assert_eq!(address("239.255.7.1"), [1, 0, 0x5e, 0x7f, 7, 1]);
        assert_eq!(address("ff15::7:1"), [0x33, 0x33, 0, 7, 0, 1]);
    }

    #[test]
    fn the_ip_header_is_as_long_as_it_says() {
        let mut packet = [0; 28];
        packet[0] = 0x46;
        packet[24] = 0x22;
        let body = |packet| split_ip_header(packet).map(|(_, body)| body);
        assert_eq!(body(&packet), Some(&[0x22, 0, 0, 0][..]));
        assert_eq!(body(&packet[..10]), None);
        assert_eq!(body(&[]), None);
    }
}
