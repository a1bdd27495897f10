//! Opens the sockets of a session.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use thiserror::Error;
pub use treecast_host::option::ReceiveBuffer;
use treecast_host::{
    interface::Interface,
    option::{self, ToGroups, grow_receive_buffer, never_set_dont_fragment},
};

/// The default hop limit of multicast packets. It is enough to cross a site. (The kernel's own default is 1,
/// which no router forwards.)
pub const DEFAULT_MULTICAST_HOPS: u32 = 32;

/// The size of a sender's socket buffer, in bytes. A queue of 50 ms at 100 Mbit/s takes all of it (the kernel doubles
/// what it is asked for). So the socket fills, and holds the sender back, before the link's queue overflows.
const SEND_BUFFER_BYTES: usize = 128 * 1024;

/// Size, in bytes, of the send buffer of a member, and of slower groups. A member's socket does not block, so a packet that finds no
/// room in it is lost.
const MEMBER_BUFFER_BYTES: usize = 1 << 20;

/// A multicast group, with the interface and the source for it.
#[derive(Debug, Clone)]
pub struct GroupAddress {
    /// Group and UDP port.
    pub group: SocketAddr,
    /// The only source to listen to, or to send from. `None` means any.
    pub source: Option<IpAddr>,
    pub interface: Interface,
}

impl GroupAddress {
    /// The group's address. A link-local IPv6 group gets the scope that it needs.
    pub fn scoped(&self) -> SocketAddr {
        option::scoped(self.group, self.interface.index)
    }
}

/// The reason why a socket cannot be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UdpError {
    #[error("{0} is no multicast address: name a group in 224.0.0.0/4 or ff00::/8, or none")]
    NotMulticast(IpAddr),
    #[error("UDP port {port} is in use on this host: choose another port or end the program that has it")]
    PortInUse { port: u16 },
    #[error("cannot {doing} on interface {interface}: {source}")]
    Interface { doing: String, interface: String, source: io::Error },
    #[error("cannot {doing}: {source}")]
    Socket { doing: String, source: io::Error },
}

/// Opens a socket that sends to `address` with this hop limit. Receivers on the same host hear it, too.
///
/// # Errors
/// If the group is not multicast, or the interface does not support it.
pub fn open_group_sender(address: &GroupAddress, hops: u32) -> Result<UdpSocket, UdpError> {
    let group = multicast(address.group.ip())?;
    let socket = open(domain(group))?;
    let from = address.source.unwrap_or(unspecified(group));
    send_to_groups(&socket, address, hops)
        .and_then(|()| socket.bind(&SocketAddr::new(from, 0).into()))
        .map_err(|source| cannot_send(address, source))?;
    Ok(socket.into())
}

/// Opens a sender's socket as [`open_group_sender`] does, with a buffer that takes what a slow link has yet to take.
/// The link is that of others.
///
/// # Errors
/// The errors of [`open_group_sender`].
pub fn open_slower_sender(address: &GroupAddress, hops: u32) -> Result<UdpSocket, UdpError> {
    let socket = open_group_sender(address, hops)?;
    option::set_buffer(&socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, MEMBER_BUFFER_BYTES)
        .map_err(|source| cannot_send(address, source))?;
    Ok(socket)
}

/// Opens a socket that sends to groups and to single hosts from `own`, and hears what is sent to `own`.
///
/// # Errors
/// If the address or the port is not to be had, or the interface does not support multicast.
pub fn open_member(
    address: &GroupAddress,
    own: SocketAddr,
    hops: u32,
    want_bytes: usize,
) -> Result<UdpSocket, UdpError> {
    let socket = open(domain(own.ip()))?;
    send_to_groups(&socket, address, hops)
        .and_then(|()| {
            option::set_buffer(&socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, MEMBER_BUFFER_BYTES)
        })
        .and_then(|()| grow_receive_buffer(&socket, want_bytes))
        .map_err(|source| cannot_send(address, source))?;
    bind(&socket, option::scoped(own, address.interface.index))?;
    Ok(socket.into())
}

fn cannot_send(address: &GroupAddress, source: io::Error) -> UdpError {
    let doing = format!("send to group {}", address.group.ip());
    UdpError::Interface { doing, interface: address.interface.name.clone(), source }
}

/// Makes a socket send to groups by the interface, with this hop limit. Receivers on the same host hear it, too.
fn send_to_groups(socket: &Socket, address: &GroupAddress, hops: u32) -> io::Result<()> {
    option::set_buffer(socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SEND_BUFFER_BYTES)?;
    never_set_dont_fragment(socket)?;
    let interface = address.interface.index;
    option::send_to_groups(socket, ToGroups { interface, hop_limit: hops, loops_back: true })
}

/// Opens a socket that hears only `address`. It is bound to the group's own address and port, which other
/// receivers on this host may share. `want_bytes` is the wanted size of its buffer.
///
/// # Errors
/// If the group is not multicast, the port is taken, or the interface cannot join.
pub fn open_group_receiver(
    address: &GroupAddress,
    want_bytes: usize,
) -> Result<(UdpSocket, ReceiveBuffer), UdpError> {
    let group = multicast(address.group.ip())?;
    let socket = open(domain(group))?;
    let doing = || format!("join group {group}");
    let failed =
        |source| UdpError::Interface { doing: doing(), interface: address.interface.name.clone(), source };
    socket.set_reuse_address(true).map_err(failed)?;
    bind(&socket, address.scoped())?;
    option::hear_only_own_groups(&socket).map_err(failed)?;
    let buffer = grow_receive_buffer(&socket, want_bytes).map_err(failed)?;
    option::join(&socket, group, address.source, address.interface.index).map_err(failed)?;
    Ok((socket.into(), buffer))
}

/// Opens a socket that hears unicast packets of both families at `port`; 0 lets the kernel choose. If there is
/// no IPv6, it hears only IPv4.
///
/// # Errors
/// If the port is taken.
pub fn open_unicast_receiver(port: u16, want_bytes: usize) -> Result<(UdpSocket, ReceiveBuffer), UdpError> {
    let socket = open_dual()?;
    let any = if is_ipv6(&socket) { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { Ipv4Addr::UNSPECIFIED.into() };
    bind(&socket, SocketAddr::new(any, port))?;
    let buffer = grow_receive_buffer(&socket, want_bytes)
        .map_err(|source| UdpError::Socket { doing: "size a receive buffer".into(), source })?;
    Ok((socket.into(), buffer))
}

/// Allows a group's socket to share the port of a socket for unicast packets, which still hears only those.
///
/// # Errors
/// The error of the kernel.
pub fn share_port_with_group(socket: &UdpSocket) -> io::Result<()> {
    option::hear_only_own_groups(socket)?;
    // Only now: the port was nobody else's.
    SockRef::from(socket).set_reuse_address(true)
}

/// Opens a socket that sends unicast packets to hosts of one family.
///
/// # Errors
/// If the kernel does not support that family.
pub fn open_unicast_sender(family_of: IpAddr) -> Result<UdpSocket, UdpError> {
    let socket = open(domain(family_of))?;
    let attempt = || -> io::Result<()> {
        option::set_buffer(&socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SEND_BUFFER_BYTES)?;
        never_set_dont_fragment(&socket)?;
        socket.bind(&SocketAddr::new(unspecified(family_of), 0).into())
    };
    attempt().map_err(|source| UdpError::Socket { doing: "open a UDP socket".into(), source })?;
    Ok(socket.into())
}

/// Opens a sender's socket as [`open_unicast_sender`] does, with a buffer as of [`open_slower_sender`].
///
/// # Errors
/// The errors of [`open_unicast_sender`].
pub fn open_slower_unicast_sender(family_of: IpAddr) -> Result<UdpSocket, UdpError> {
    let socket = open_unicast_sender(family_of)?;
    option::set_buffer(&socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, MEMBER_BUFFER_BYTES)
        .map_err(|source| UdpError::Socket { doing: "open a UDP socket".into(), source })?;
    Ok(socket)
}

/// Opens the socket of a unicast server at `address`, for requests and replies.
///
/// # Errors
/// The error of the kernel: the port is taken, or the address does not belong to this host.
pub fn open_unicast_server(address: SocketAddr, want_bytes: usize) -> io::Result<UdpSocket> {
    let socket = Socket::new(domain(address.ip()), Type::DGRAM, Some(Protocol::UDP))?;
    option::set_buffer(&socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SEND_BUFFER_BYTES)?;
    grow_receive_buffer(&socket, want_bytes)?;
    never_set_dont_fragment(&socket)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Opens a socket that only exchanges packets with `server`.
///
/// # Errors
/// The error of the kernel: no route, or the family is not supported.
pub fn open_unicast_client(server: SocketAddr, want_bytes: usize) -> io::Result<(UdpSocket, ReceiveBuffer)> {
    let socket = Socket::new(domain(server.ip()), Type::DGRAM, Some(Protocol::UDP))?;
    let buffer = grow_receive_buffer(&socket, want_bytes)?;
    socket.connect(&server.into())?;
    Ok((socket.into(), buffer))
}

fn multicast(group: IpAddr) -> Result<IpAddr, UdpError> {
    if group.is_multicast() { Ok(group) } else { Err(UdpError::NotMulticast(group)) }
}

fn domain(address: IpAddr) -> Domain {
    if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 }
}

pub(super) fn unspecified(family_of: IpAddr) -> IpAddr {
    if family_of.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

fn open(domain: Domain) -> Result<Socket, UdpError> {
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))
        .map_err(|source| UdpError::Socket { doing: "open a UDP socket".into(), source })?;
    if domain == Domain::IPV6 {
        // Both families get sockets of their own wherever both are needed.
        let _ = socket.set_only_v6(true);
    }
    Ok(socket)
}

fn open_dual() -> Result<Socket, UdpError> {
    match open(Domain::IPV6) {
        Ok(socket) if socket.set_only_v6(false).is_ok() => Ok(socket),
        _ => open(Domain::IPV4),
    }
}

fn is_ipv6(socket: &Socket) -> bool {
    socket.domain().is_ok_and(|domain| domain == Domain::IPV6)
}

fn bind(socket: &Socket, address: SocketAddr) -> Result<(), UdpError> {
    socket.bind(&address.into()).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => UdpError::PortInUse { port: address.port() },
        _ => UdpError::Socket { doing: format!("bind a UDP socket to {address}"), source },
    })
}
