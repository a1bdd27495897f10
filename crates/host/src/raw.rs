//! Raw sockets: for MLD and IGMP as routers send them, and for finished IPv6 packets.

use std::{
    io::{self, IoSlice},
    net::{IpAddr, SocketAddr},
    os::fd::AsFd,
};

use socket2::{Domain, Protocol, Socket, Type};

use crate::{control::Control, messages, option};

/// Padding, the router alert of MLD (RFC 2711), and padding. The kernel fills in the next header.
const HOP_BY_HOP_ROUTER_ALERT: [u8; 8] = [0, 0, 5, 2, 0, 0, 1, 0];

/// The IP option that has routers look at a packet (RFC 2113).
pub const IP_ROUTER_ALERT: [u8; 4] = [0x94, 4, 0, 0];

/// Opens a raw ICMPv6 socket for MLD.
pub fn open_mld() -> io::Result<Socket> {
    Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))
}

/// Opens a raw socket for IGMP.
pub fn open_igmp() -> io::Result<Socket> {
    Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(libc::IPPROTO_IGMP)))
}

/// Opens a socket for IPv6 packets with their headers. The kernel finds their route, and changes nothing in them.
pub fn open_ipv6_packets() -> io::Result<Socket> {
    Socket::new(Domain::IPV6, Type::RAW.nonblocking(), Some(Protocol::from(libc::IPPROTO_RAW)))
}

/// Sets a socket for MLD up. Packets leave with a hop limit of 1 and the router alert, and only messages of these ICMPv6
/// types arrive. Nothing waits.
pub fn set_up_mld(socket: &Socket, types: &[u8]) -> io::Result<()> {
    socket.set_multicast_hops_v6(1)?;
    option::set_bytes(socket, libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS, &HOP_BY_HOP_ROUTER_ALERT)?;
    option::hear_icmpv6(socket, types)?;
    socket.set_nonblocking(true)
}

/// Sets a socket for IGMP up. Packets leave with a TTL of 1 and the router alert. Nothing waits.
pub fn set_up_igmp(socket: &Socket) -> io::Result<()> {
    socket.set_multicast_ttl_v4(1)?;
    option::set_bytes(socket, libc::IPPROTO_IP, libc::IP_OPTIONS, &IP_ROUTER_ALERT)?;
    socket.set_nonblocking(true)
}

/// Sends one packet from the address `source` out of the interface with the index `interface`. `packet` begins behind
/// the IP header.
pub fn send_from(
    socket: &impl AsFd,
    interface: u32,
    source: IpAddr,
    destination: IpAddr,
    packet: &[u8],
) -> io::Result<()> {
    let to = SocketAddr::new(destination, 0).into();
    let control = Control::NONE.with_source(source, interface);
    messages::send(socket, Some(&to), &[IoSlice::new(packet)], &control).map(drop)
}
