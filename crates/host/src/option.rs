//! Socket options that socket2 lacks, and memberships of groups.

use std::{
    io, mem,
    net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket},
    os::fd::{AsFd, AsRawFd},
    ptr,
};

use socket2::{Domain, SockRef, Socket, Type};

/// `IP_MULTICAST_ALL` in Linux's `in.h`. The crate libc lacks it.
const IP_MULTICAST_ALL: i32 = 49;
/// `IPV6_MULTICAST_ALL` in Linux's `in6.h`. The crate libc lacks it.
const IPV6_MULTICAST_ALL: i32 = 29;

/// The option that selects the ICMPv6 types that a raw socket hears (RFC 3542, section 3.2). The crate libc
/// lacks it.
const ICMP6_FILTER: i32 = 1;
const MCAST_JOIN_GROUP: i32 = 42;
const MCAST_JOIN_SOURCE_GROUP: i32 = 46;

/// Sets an option to a number.
pub fn set(socket: &impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    set_bytes(socket, level, name, &value.to_ne_bytes())
}

/// Sets an option to a structure, given as its bytes.
pub fn set_bytes(socket: &impl AsFd, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    let (fd, len) = (socket.as_fd().as_raw_fd(), value.len() as libc::socklen_t);
    // SAFETY: the pointer and the length are those of a live slice.
    crate::checked(unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), len) }).map(drop)
}

/// Reads an option. Bytes that the kernel does not fill in are zero.
///
/// # Safety
/// Every bit pattern must be a value of `T`.
pub(crate) unsafe fn get<T: Copy>(socket: &impl AsFd, level: i32, name: i32) -> io::Result<T> {
    let mut len = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: all zeros are a T, as the caller vouches; the kernel writes at most `len` bytes to it.
    unsafe {
        let mut value: T = mem::zeroed();
        let (fd, to) = (socket.as_fd().as_raw_fd(), ptr::from_mut(&mut value).cast());
        crate::checked(libc::getsockopt(fd, level, name, to, &mut len))?;
        Ok(value)
    }
}

/// Has a UDP socket queue what routers and hosts say of packets that did not arrive
/// ([`crate::messages::receive_error`]). The next send after such an error fails with it, whatever its destination.
pub fn hear_errors(socket: &impl AsFd, is_ipv4: bool) -> io::Result<()> {
    match is_ipv4 {
        true => set(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1),
        false => set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1),
    }
}

/// Makes a raw ICMPv6 socket hear only these types.
pub fn hear_icmpv6(socket: &impl AsFd, types: &[u8]) -> io::Result<()> {
    let filter = icmpv6_filter(types).map(u32::to_ne_bytes);
    set_bytes(socket, libc::IPPROTO_ICMPV6, ICMP6_FILTER, filter.as_flattened())
}

/// `struct icmp6_filter`, in which a set bit blocks its type.
fn icmpv6_filter(types: &[u8]) -> [u32; 8] {
    let mut blocked = [u32::MAX; 8];
    for kind in types {
        blocked[usize::from(kind >> 5)] &= !(1 << (kind & 31));
    }
    blocked
}

/// How a socket sends to groups.
#[derive(Debug, Clone, Copy)]
pub struct ToGroups {
    /// The index of the interface by which packets leave. With 0 the kernel takes the route's.
    pub interface: u32,
    /// The hop limit of packets, from 0 to 255. Routers forward no packet with 1 or less.
    pub hop_limit: u32,
    /// Whether sockets on this host that have joined a group hear what is sent to it.
    pub loops_back: bool,
}

/// Sets how a socket of either family sends to groups.
pub fn send_to_groups(socket: &impl AsFd, how: ToGroups) -> io::Result<()> {
    let options = SockRef::from(socket);
    if is_ipv4(socket)? {
        options.set_multicast_ttl_v4(how.hop_limit)?;
        options.set_multicast_loop_v4(how.loops_back)?;
        // struct ip_mreqn: group, address, interface.
        let request = [&[0; 8][..], &how.interface.to_ne_bytes()].concat();
        set_bytes(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &request)
    } else {
        options.set_multicast_hops_v6(how.hop_limit)?;
        options.set_multicast_loop_v6(how.loops_back)?;
        options.set_multicast_if_v6(how.interface)
    }
}

/// Makes a socket of either family hear only the groups that it has joined itself. By default it hears every group that any
/// program of the host has joined.
pub fn hear_only_own_groups(socket: &impl AsFd) -> io::Result<()> {
    if !is_ipv4(socket)? {
        set(socket, libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0)?;
    }
    // A socket of both families hears groups of both.
    set(socket, libc::IPPROTO_IP, IP_MULTICAST_ALL, 0)
}

/// Makes the kernel tell the hop limit of each received packet ([`crate::messages::Ancillary::hop_limit`]).
pub fn receive_hop_limit(socket: &impl AsFd) -> io::Result<()> {
    match is_ipv4(socket)? {
        true => set(socket, libc::IPPROTO_IP, libc::IP_RECVTTL, 1),
        false => set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1),
    }
}

/// Sets the hop limit of packets to single hosts.
pub fn set_unicast_hop_limit(socket: &impl AsFd, hop_limit: u32) -> io::Result<()> {
    match is_ipv4(socket)? {
        true => SockRef::from(socket).set_ttl_v4(hop_limit),
        false => SockRef::from(socket).set_unicast_hops_v6(hop_limit),
    }
}

/// Lets routers divide IPv4 packets, and this host those that are larger than the MTU. An IPv6 socket is left as it is. The
/// kernel's multicast router drops every super-packet that must not be divided, because it is larger than the MTU as a whole.
pub fn never_set_dont_fragment(socket: &impl AsFd) -> io::Result<()> {
    match is_ipv4(socket)? {
        true => set(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT),
        false => Ok(()),
    }
}

/// The address with the interface as its scope, if its scope is the interface or the link (RFC 4291, sections 2.5.6 and 2.7) and it
/// does not name its interface itself.
pub fn scoped(address: SocketAddr, interface: u32) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if v6.scope_id() == 0 && is_near(*v6.ip()) => {
            SocketAddrV6::new(*v6.ip(), v6.port(), 0, interface).into()
        }
        other => other,
    }
}

/// Whether an address means something on one link only, so that a socket needs the link's interface with it.
pub fn is_near(address: Ipv6Addr) -> bool {
    address.is_unicast_link_local() || is_of_link(address.octets())
}

/// Whether an IPv6 address is a group with the scope 1 or 2.
fn is_of_link(address: [u8; 16]) -> bool {
    address[0] == 0xff && matches!(address[1] & 0x0f, 1 | 2)
}

fn is_ipv4(socket: &impl AsFd) -> io::Result<bool> {
    Ok(SockRef::from(socket).domain()? == Domain::IPV4)
}

/// Requests a buffer of this many bytes beyond the limit, which needs CAP_NET_ADMIN, or otherwise as much as is
/// allowed. `force` and `polite` are `SO_RCVBUFFORCE` and `SO_RCVBUF`, or the two options for sending.
pub fn set_buffer(socket: &impl AsFd, force: i32, polite: i32, bytes: usize) -> io::Result<()> {
    let value = i32::try_from(bytes).unwrap_or(i32::MAX / 2);
    set(socket, libc::SOL_SOCKET, force, value).or_else(|_| set(socket, libc::SOL_SOCKET, polite, value))
}

/// The capacity of a receiving socket.
#[derive(Debug, Clone)]
pub struct ReceiveBuffer {
    /// The number of bytes of packets that surely fit, with the kernel's overhead for each packet.
    pub bytes: usize,
    /// A warning if that is less than what was asked for.
    pub warning: Option<String>,
}

/// Requests a receive buffer of this many bytes, as [`set_buffer`] does.
pub fn grow_receive_buffer(socket: &impl AsFd, want_bytes: usize) -> io::Result<ReceiveBuffer> {
    set_buffer(socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, want_bytes)?;
    // The kernel doubles what it is asked for and counts its own overhead against it.
    let bytes = SockRef::from(socket).recv_buffer_size()? / 2;
    let warning = (bytes < want_bytes).then(|| {
        format!(
            "the receive buffer holds {bytes} bytes instead of {want_bytes}, so bursts may be lost: \
             run `sysctl -w net.core.rmem_max={want_bytes}` as root"
        )
    });
    Ok(ReceiveBuffer { bytes, warning })
}

/// The number of datagrams that a socket has dropped because its buffer was full, modulo 2^32 (`SO_MEMINFO`). Control messages
/// tell the same number, but only with a later datagram.
///
/// # Errors
/// The error of the kernel.
pub fn dropped(socket: &impl AsFd) -> io::Result<u32> {
    const DROPS: usize = 8;
    // SAFETY: the option fills in numbers (linux/sock_diag.h, SK_MEMINFO_VARS).
    let numbers = unsafe { get::<[u32; DROPS + 1]>(socket, libc::SOL_SOCKET, libc::SO_MEMINFO)? };
    Ok(numbers[DROPS])
}

/// The path MTU that the kernel knows between two addresses, in bytes of IP packets. Sends nothing.
pub fn path_mtu(from: SocketAddr, to: SocketAddr) -> io::Result<u32> {
    let socket = UdpSocket::bind(from)?;
    socket.connect(to)?;
    let (level, name) = match to {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    // SAFETY: the option fills in a number.
    unsafe { get::<u32>(&socket, level, name) }
}

/// Joins `group` on the interface with this index. If `source` is given, only packets from that source are
/// received (RFC 3678, sections 5.1.1 and 5.1.2: the same options for both families).
pub fn join(socket: &impl AsFd, group: IpAddr, source: Option<IpAddr>, interface: u32) -> io::Result<()> {
    let level = if group.is_ipv4() { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 };
    let name = if source.is_some() { MCAST_JOIN_SOURCE_GROUP } else { MCAST_JOIN_GROUP };
    set_bytes(socket, level, name, &group_request(group, source, interface))
}

/// Opens a socket that has joined groups, all of one family, on an interface. It hears nothing.
pub fn join_on_link(interface: u32, groups: &[IpAddr]) -> io::Result<Socket> {
    let is_ipv4 = groups.first().is_some_and(IpAddr::is_ipv4);
    let socket = Socket::new(if is_ipv4 { Domain::IPV4 } else { Domain::IPV6 }, Type::DGRAM, None)?;
    groups.iter().try_for_each(|group| join(&socket, *group, None, interface))?;
    Ok(socket)
}

/// The bytes of `struct group_req` (RFC 3678, section 5.1.1) or `struct group_source_req` (5.1.2): the
/// interface, and the addresses, aligned like a pointer.
fn group_request(group: IpAddr, source: Option<IpAddr>, interface: u32) -> Vec<u8> {
    let mut request = interface.to_ne_bytes().to_vec();
    request.resize(mem::align_of::<libc::sockaddr_storage>(), 0);
    request.extend(storage(group));
    source.into_iter().for_each(|source| request.extend(storage(source)));
    request
}

/// The bytes of a `struct sockaddr_storage` with `address`.
fn storage(address: IpAddr) -> [u8; mem::size_of::<libc::sockaddr_storage>()] {
    let mut bytes = [0; mem::size_of::<libc::sockaddr_storage>()];
    let (family, at, octets) = match address {
        IpAddr::V4(address) => (libc::AF_INET, 4, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6, 8, address.octets().to_vec()),
    };
    bytes[..2].copy_from_slice(&(family as libc::sa_family_t).to_ne_bytes());
    bytes[at..at + octets.len()].copy_from_slice(&octets);
    bytes
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_filter_passes_the_types_named_and_no_others() {
        let filter = icmpv6_filter(&[1, 2, 130, 255]);
        let passes = |kind: &u8| filter[usize::from(kind >> 5)] >> (kind & 31) & 1 == 0;
        assert_eq!((0..=255).filter(passes).collect::<Vec<_>>(), [1, 2, 130, 255]);
    }

    #[test]
    fn groups_of_both_families_are_joined_from_all_sources_and_from_one() {
        let interface = crate::interface::Interface::named("lo").unwrap().index;
        let v4 = [[232, 1, 1, 1], [127, 0, 0, 1]].map(|octets| IpAddr::from(Ipv4Addr::from(octets)));
        let v6 = [Ipv6Addr::new(0xff35, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::LOCALHOST].map(IpAddr::from);
        for [group, source] in [v4, v6] {
            let socket = join_on_link(interface, &[group]).unwrap();
            let again = join(&socket, group, None, interface).unwrap_err();
            assert_eq!(again.kind(), io::ErrorKind::AddrInUse, "the socket has joined the group: {again}");
            let other = join_on_link(interface, &[]).map(drop);
            assert!(other.is_ok());
            let any = if group.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
            join(&UdpSocket::bind(any).unwrap(), group, Some(source), interface).unwrap();
        }
    }

    #[test]
    fn sockets_of_both_families_send_to_groups_as_told() {
        let interface = crate::interface::Interface::named("lo").unwrap().index;
        for domain in [Domain::IPV4, Domain::IPV6] {
            let socket = Socket::new(domain, Type::DGRAM, None).unwrap();
            send_to_groups(&socket, ToGroups { interface, hop_limit: 7, loops_back: false }).unwrap();
            hear_only_own_groups(&socket).unwrap();
            receive_hop_limit(&socket).unwrap();
            set_unicast_hop_limit(&socket, 9).unwrap();
            let (told, hears_all) = match domain == Domain::IPV4 {
                true => {
                    let told = (socket.multicast_ttl_v4(), socket.multicast_loop_v4(), socket.ttl_v4());
                    (told, (libc::IPPROTO_IP, IP_MULTICAST_ALL))
                }
                false => {
                    let hops = socket.unicast_hops_v6();
                    let told = (socket.multicast_hops_v6(), socket.multicast_loop_v6(), hops);
                    (told, (libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL))
                }
            };
            assert_eq!((told.0.unwrap(), told.1.unwrap(), told.2.unwrap()), (7, false, 9));
            // SAFETY: the option fills in a number.
            assert_eq!(unsafe { get::<u32>(&socket, hears_all.0, hears_all.1) }.unwrap(), 0);
        }
    }

    #[test]
    fn only_addresses_of_a_link_get_its_scope() {
        let scope_of = |address: &str| match scoped(SocketAddr::new(address.parse().unwrap(), 9), 5) {
            SocketAddr::V6(v6) => v6.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        let with = ["ff02::8", "ff11::8", "ff32::8", "fe80::1"].map(scope_of);
        let without = ["ff15::8", "ff0e::8", "2001:db8::1", "fd02::1", "::1", "239.1.1.1"].map(scope_of);
        assert_eq!((with, without), ([5; 4], [0; 6]));
    }

    #[test]
    fn a_long_way_has_an_mtu() {
        let from = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        assert!(path_mtu(from, SocketAddr::from((Ipv4Addr::LOCALHOST, 9))).unwrap() >= 1280);
    }
}
