//! Sets up a raw ICMPv6 socket for MLD, and sends by it.

use std::{
    io::{self, IoSlice},
    net::{IpAddr, Ipv6Addr, SocketAddr},
    os::fd::AsFd,
};

use socket2::Socket;
use treecast_host::{
    control::Control,
    messages,
    option::{self, hear_icmpv6},
};
use treecast_proto::membership::Message;

/// Padding, router alert for MLD (RFC 2711), padding; the kernel fills in the next header.
const HOP_BY_HOP_ROUTER_ALERT: [u8; 8] = [0, 0, 5, 2, 0, 0, 1, 0];

/// Sets the socket up: packets that leave have a hop limit of 1 and the router alert option, and only messages
/// of these ICMPv6 types arrive.
pub fn configure(socket: &Socket, types: &[u8]) -> io::Result<()> {
    socket.set_multicast_hops_v6(1)?;
    option::set_bytes(socket, libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS, &HOP_BY_HOP_ROUTER_ALERT)?;
    hear_icmpv6(socket, types)?;
    socket.set_nonblocking(true)
}

/// Sends a router's message from its address on a link.
pub fn send(socket: &Socket, interface: u32, source: IpAddr, message: &Message) -> io::Result<()> {
    let Some(message) = message.to_wire::<Ipv6Addr>() else { return Ok(()) };
    send_from(socket, interface, source, message.destination().into(), &message.to_bytes())
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
