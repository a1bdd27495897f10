//! Socket options that socket2 lacks.

use std::{
    io, mem,
    net::{IpAddr, SocketAddr, UdpSocket},
    os::fd::AsRawFd,
};

use socket2::{SockAddr, SockAddrStorage};

/// `setsockopt` with a plain value.
pub(crate) fn set<T: Copy>(socket: &impl AsRawFd, level: i32, name: i32, value: T) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            mem::size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What the kernel knows to fit on the way from one address to another, in bytes of IP packets. Sends nothing.
pub(crate) fn path_mtu(from: SocketAddr, to: SocketAddr) -> io::Result<u32> {
    let socket = UdpSocket::bind(from)?;
    socket.connect(to)?;
    let (level, name) = match to {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let (mut mtu, mut len): (libc::c_int, _) = (0, mem::size_of::<libc::c_int>() as libc::socklen_t);
    let value = (&raw mut mtu).cast();
    // SAFETY: the option fills in an int, for which there is room.
    match unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, value, &mut len) } {
        0 => Ok(mtu as u32),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Joins `group` on the interface with this index, from one source only when `source` names it
/// (RFC 3678, 5.1.1 and 5.1.2: the same options for both families).
pub(super) fn join(
    socket: &impl AsRawFd,
    group: IpAddr,
    source: Option<IpAddr>,
    interface: u32,
) -> io::Result<()> {
    let level = if group.is_ipv4() { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 };
    match source {
        None => set(socket, level, MCAST_JOIN_GROUP, GroupRequest { interface, group: storage(group) }),
        Some(source) => {
            let request = GroupSourceRequest { interface, group: storage(group), source: storage(source) };
            set(socket, level, MCAST_JOIN_SOURCE_GROUP, request)
        }
    }
}

const MCAST_JOIN_GROUP: i32 = 42;
const MCAST_JOIN_SOURCE_GROUP: i32 = 46;
/// Only packets of groups that this very socket has joined; `IP_MULTICAST_ALL` in Linux's `in.h`.
pub(super) const IP_MULTICAST_ALL: i32 = 49;
/// The same for IPv6; `IPV6_MULTICAST_ALL` in Linux's `in6.h`.
pub(super) const IPV6_MULTICAST_ALL: i32 = 29;

/// `struct group_req` (RFC 3678, 5.1.1).
#[repr(C)]
#[derive(Clone, Copy)]
struct GroupRequest {
    interface: u32,
    group: libc::sockaddr_storage,
}

/// `struct group_source_req` (RFC 3678, 5.1.2).
#[repr(C)]
#[derive(Clone, Copy)]
struct GroupSourceRequest {
    interface: u32,
    group: libc::sockaddr_storage,
    source: libc::sockaddr_storage,
}

fn storage(address: IpAddr) -> libc::sockaddr_storage {
    let address = SockAddr::from(SocketAddr::new(address, 0));
    // SAFETY: sockaddr_storage is plain bytes, for which zeroes are a value; the source is as long as
    // `len` says, and never longer than a sockaddr_storage.
    unsafe {
        let mut storage: libc::sockaddr_storage = mem::zeroed();
        std::ptr::copy_nonoverlapping(
            address.as_ptr().cast::<u8>(),
            (&raw mut storage).cast::<u8>(),
            (address.len() as usize).min(mem::size_of::<SockAddrStorage>()),
        );
        storage
    }
}
