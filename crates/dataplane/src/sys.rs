//! The system calls that the standard library and socket2 have no words for. All `unsafe` of this crate
//! is here, in functions that are safe to call.

use std::{
    fs, io, mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
    ptr,
};

use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};
use treecast_wire::mld;

/// A type that is plain bytes to the kernel: no padding that matters, no pointers.
///
/// # Safety
/// Every bit pattern is a value of the type, and it holds no references.
pub unsafe trait Plain: Copy {}

// SAFETY: integers and arrays of integers.
unsafe impl Plain for libc::c_int {}
unsafe impl Plain for u16 {}
unsafe impl Plain for [u8; 8] {}
unsafe impl Plain for [u8; 4] {}
unsafe impl Plain for [u32; 8] {}

/// Sets a socket option to a structure.
pub fn set_option<T: Plain>(fd: &impl AsRawFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of a live value of plain bytes.
    check(unsafe {
        let len = mem::size_of::<T>() as libc::socklen_t;
        libc::setsockopt(fd.as_raw_fd(), level, name, ptr::from_ref(value).cast(), len)
    })
    .map(drop)
}

/// Sets a socket option to bytes, of whatever structure the kernel takes them for.
pub fn set_option_bytes(fd: &impl AsRawFd, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of a live slice.
    check(unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, value.as_ptr().cast(), value.len() as libc::socklen_t)
    })
    .map(drop)
}

/// An ioctl that reads and writes a structure.
pub fn ioctl<T: Plain>(fd: &impl AsRawFd, request: libc::c_ulong, value: &mut T) -> io::Result<()> {
    // SAFETY: the callers' requests read and write exactly a T, which is live and plain bytes.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, ptr::from_mut(value)) }).map(drop)
}

/// What came with a received packet, as far as the kernel was asked to tell.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    pub len: usize,
    pub from: Option<IpAddr>,
    /// The interface it came in by.
    pub interface: Option<u32>,
    pub hop_limit: Option<u8>,
    /// Whether an IPv6 hop-by-hop header asks routers to look at it for MLD (RFC 2711, value 0).
    pub router_alert: bool,
}

/// Room for control messages, aligned as they must be.
#[repr(C, align(8))]
struct ControlBuffer([u8; 512]);

/// Receives one packet without waiting.
pub fn receive(fd: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<Received> {
    let mut control = ControlBuffer([0; 512]);
    let mut address = SockAddrStorage::zeroed();
    // SAFETY: all zeros are a value of it.
    let mut header = unsafe { mem::zeroed::<libc::msghdr>() };
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    header.msg_name = ptr::from_mut(&mut address).cast();
    header.msg_namelen = address.size_of();
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    // SAFETY: all pointers of the header are to live buffers of the lengths given.
    let len = check_size(unsafe { libc::recvmsg(fd.as_raw_fd(), &mut header, libc::MSG_DONTWAIT) })?;
    // SAFETY: the kernel has written a socket address of this length.
    let address = unsafe { SockAddr::new(address, header.msg_namelen) };
    let from = address.as_socket().map(|address| address.ip());
    let mut received = Received { len, from, ..Received::default() };
    read_control(&header, &mut received);
    Ok(received)
}

fn read_control(header: &libc::msghdr, received: &mut Received) {
    // SAFETY: the kernel has filled the control buffer, and the macros stay within its length; each
    // message is copied out of bytes that its own length covers.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            let len = ((*message).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            let data = std::slice::from_raw_parts(libc::CMSG_DATA(message), len);
            take_control((*message).cmsg_level, (*message).cmsg_type, data, received);
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
}

fn take_control(level: i32, kind: i32, data: &[u8], received: &mut Received) {
    let word =
        |at: usize| data.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
    match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => received.interface = word(0),
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => received.interface = word(16),
        (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
            received.hop_limit = word(0).and_then(|limit| u8::try_from(limit).ok());
        }
        (libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS) => received.router_alert = mld::has_router_alert(data),
        _ => {}
    }
}

/// Sends one packet from `source` out of `interface`.
pub fn send(
    fd: &impl AsRawFd,
    interface: u32,
    source: IpAddr,
    destination: IpAddr,
    packet: &[u8],
) -> io::Result<()> {
    let address = SockAddr::from(std::net::SocketAddr::new(destination, 0));
    let mut control = ControlBuffer([0; 512]);
    // SAFETY: all zeros are a value of it.
    let mut header = unsafe { mem::zeroed::<libc::msghdr>() };
    let mut part = libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
    header.msg_name = address.as_ptr().cast_mut().cast();
    header.msg_namelen = address.len();
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    let (level, kind, info) = packet_info(interface, source);
    // SAFETY: the control buffer has room for one message of at most 20 bytes; the address, the packet
    // and the buffer live until the call returns, and it does not write to them.
    check_size(unsafe {
        let message = libc::CMSG_FIRSTHDR(&header);
        (*message).cmsg_level = level;
        (*message).cmsg_type = kind;
        (*message).cmsg_len = libc::CMSG_LEN(info.len() as u32) as _;
        ptr::copy_nonoverlapping(info.as_ptr(), libc::CMSG_DATA(message), info.len());
        header.msg_controllen = libc::CMSG_SPACE(info.len() as u32) as _;
        libc::sendmsg(fd.as_raw_fd(), &header, libc::MSG_DONTWAIT)
    })
    .map(drop)
}

/// struct in_pktinfo (interface, source, unused) or in6_pktinfo (source, interface).
fn packet_info(interface: u32, source: IpAddr) -> (i32, i32, Vec<u8>) {
    match source {
        IpAddr::V4(source) => {
            let info = [&interface.to_ne_bytes()[..], &source.octets(), &[0; 4]].concat();
            (libc::IPPROTO_IP, libc::IP_PKTINFO, info)
        }
        IpAddr::V6(source) => {
            let info = [&source.octets()[..], &interface.to_ne_bytes()].concat();
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info)
        }
    }
}

/// Subscribes a netlink socket to `groups`, a bit for each.
pub fn bind_netlink(fd: &impl AsRawFd, groups: u32) -> io::Result<()> {
    // SAFETY: all zeros are a value of it, and it lives until the call returns.
    unsafe {
        let mut address = mem::zeroed::<libc::sockaddr_nl>();
        address.nl_family = libc::AF_NETLINK as _;
        address.nl_groups = groups;
        let len = mem::size_of_val(&address) as libc::socklen_t;
        check(libc::bind(fd.as_raw_fd(), ptr::from_ref(&address).cast(), len)).map(drop)
    }
}

/// A socket that sees every frame of an interface, those that leave, too; reading does not wait.
pub fn packet_socket(interface: u32) -> io::Result<Socket> {
    packet_socket_of(interface, libc::ETH_P_ALL)
}

/// A socket that sees the IPv6 packets that arrive at an interface. What leaves is not held up for it.
pub fn arrivals_socket(interface: u32) -> io::Result<Socket> {
    packet_socket_of(interface, libc::ETH_P_IPV6)
}

fn packet_socket_of(interface: u32, ethertype: libc::c_int) -> io::Result<Socket> {
    let ethertype = (ethertype as u16).to_be();
    let protocol = Protocol::from(i32::from(ethertype));
    let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking(), Some(protocol))?;
    // SAFETY: all zeros are a value of it, and it lives until the call returns.
    unsafe {
        let mut address = mem::zeroed::<libc::sockaddr_ll>();
        address.sll_family = libc::AF_PACKET as _;
        address.sll_protocol = ethertype;
        address.sll_ifindex = interface as i32;
        let len = mem::size_of_val(&address) as libc::socklen_t;
        check(libc::bind(socket.as_raw_fd(), ptr::from_ref(&address).cast(), len))?;
    }
    Ok(socket)
}

/// Whether this thread has CAP_NET_ADMIN (capabilities(7)). Some of what needs it is asked of programs of others, which say that it is
/// lacking in words of their own.
///
/// # Errors
/// When there is no procfs.
pub fn may_administer_networks() -> io::Result<bool> {
    const CAP_NET_ADMIN: u32 = 12;
    let status = fs::read_to_string("/proc/thread-self/status")?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    Ok(effective.is_some_and(|capabilities| capabilities & 1 << CAP_NET_ADMIN != 0))
}

/// A socket and the address to send IPv6 packets to that this host is to take as if they had come in by its loopback.
pub fn loopback_socket() -> io::Result<(Socket, SockAddr)> {
    // Of no protocol: it gets nothing.
    let socket = Socket::new(Domain::PACKET, Type::DGRAM.nonblocking(), None)?;
    // SAFETY: no pointer but to a string that ends; an address of zeroes has room for the one that is written, of which the length
    // is told.
    let address = unsafe {
        let mut storage = SockAddrStorage::zeroed();
        let address = storage.view_as::<libc::sockaddr_ll>();
        address.sll_family = libc::AF_PACKET as _;
        address.sll_protocol = (libc::ETH_P_IPV6 as u16).to_be();
        address.sll_ifindex = libc::if_nametoindex(c"lo".as_ptr()) as i32;
        address.sll_halen = 6;
        SockAddr::new(storage, mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t)
    };
    Ok((socket, address))
}

/// A packet socket to forward from. Each frame comes behind a struct virtio_net_hdr, which says what the device would still have
/// to do to it, and there is room for a burst.
pub fn forwarding_socket(interface: u32) -> io::Result<Socket> {
    const PACKET_VNET_HDR: i32 = 15;
    let socket = packet_socket(interface)?;
    set_option(&socket, libc::SOL_PACKET, PACKET_VNET_HDR, &1_i32)?;
    socket.set_recv_buffer_size(4 << 20)?;
    Ok(socket)
}

/// Reads a frame from a packet socket, and says whether its Ethernet address is a group's. None, when it was for another
/// host, or left this one.
pub fn receive_for_this_host(socket: &Socket, buffer: &mut [u8]) -> io::Result<Option<(usize, bool)>> {
    let (len, kind) = receive_frame(socket, buffer)?;
    let is_for_group = kind == libc::PACKET_MULTICAST;
    Ok((is_for_group || kind == libc::PACKET_HOST).then_some((len, is_for_group)))
}

/// Reads a frame from a packet socket. None, when it left this host.
pub fn receive_from_link(socket: &Socket, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let (len, kind) = receive_frame(socket, buffer)?;
    Ok((kind != libc::PACKET_OUTGOING).then_some(len))
}

/// Reads a frame from a packet socket: its length, and for whom it was (`PACKET_HOST` and so on, `packet(7)`).
pub fn receive_frame(socket: &Socket, buffer: &mut [u8]) -> io::Result<(usize, u8)> {
    // SAFETY: the pointers and lengths are those of live values; all zeros are an address.
    unsafe {
        let mut address = mem::zeroed::<libc::sockaddr_ll>();
        let mut len = mem::size_of_val(&address) as libc::socklen_t;
        let from = ptr::from_mut(&mut address).cast();
        let (to, room) = (buffer.as_mut_ptr().cast(), buffer.len());
        let read =
            check_size(libc::recvfrom(socket.as_raw_fd(), to, room, libc::MSG_DONTWAIT, from, &mut len))?;
        Ok((read, address.sll_pkttype))
    }
}

/// A command to the kernel's eBPF that is told no addresses, and answers nothing.
pub fn bpf(command: libc::c_int, attributes: &[u32; 8]) -> io::Result<()> {
    let len = mem::size_of_val(attributes);
    // SAFETY: the pointer and the length are those of live bytes, which the kernel copies.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), len) };
    check(result as libc::c_int).map(drop)
}

/// Has the interface of a packet socket take what is for groups that this host has not joined, as long as the socket is open.
pub fn take_all_groups(socket: &Socket, interface: u32) -> io::Result<()> {
    // struct packet_mreq: interface, type, and an address that this type has none of.
    let mut request = [0; 16];
    request[..4].copy_from_slice(&(interface as i32).to_ne_bytes());
    request[4..6].copy_from_slice(&(libc::PACKET_MR_ALLMULTI as u16).to_ne_bytes());
    set_option_bytes(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Moves the calling thread, and what it opens and starts from now on, to a network of its own.
pub fn enter_new_network() -> io::Result<()> {
    // SAFETY: no pointers; descriptors that are open stay where they are.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// CLOCK_MONOTONIC, in nanoseconds: the clock that eBPF programs see.
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, which is live.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Who holds the other end of a Unix socket; of a listener, who began to listen.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub process: i32,
    pub user: u32,
}

/// The process and user at the other end of a Unix socket.
pub fn peer(stream: &impl AsRawFd) -> io::Result<Peer> {
    // SAFETY: all zeros are a value of it; the kernel writes at most the length given, to a live value.
    unsafe {
        let mut peer = mem::zeroed::<libc::ucred>();
        let mut len = mem::size_of_val(&peer) as libc::socklen_t;
        let to = ptr::from_mut(&mut peer).cast();
        check(libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, to, &mut len))?;
        Ok(Peer { process: peer.pid, user: peer.uid })
    }
}

/// Connects to an abstract Unix socket without waiting for whoever listens there: [`io::ErrorKind::WouldBlock`] when it does
/// not accept connections.
pub fn connect_at_once(abstract_name: &str) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
    socket.connect(&SockAddr::unix(format!("\0{abstract_name}"))?)?;
    socket.set_nonblocking(false)?;
    Ok(OwnedFd::from(socket).into())
}

/// The user that this process acts as.
pub fn own_user() -> u32 {
    // SAFETY: no pointers, no effects.
    unsafe { libc::geteuid() }
}

/// An epoll instance. What is watched is known by the number given with it.
#[derive(Debug)]
pub struct Poll(OwnedFd);

impl Poll {
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; a descriptor that is returned is ours alone.
        unsafe { Ok(Self(OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?))) }
    }

    /// Wakes up when `fd` can be read, or has been closed at the other end.
    pub fn watch(&self, fd: &impl AsRawFd, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd.as_raw_fd(), libc::EPOLLIN, token)
    }

    /// Wakes up when `fd` can be written, too.
    pub fn watch_writing(&self, fd: &impl AsRawFd, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd.as_raw_fd(), libc::EPOLLIN | libc::EPOLLOUT, token)
    }

    fn control(&self, operation: i32, fd: RawFd, events: i32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: the event lives until the call returns.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd, &mut event) }).map(drop)
    }

    /// The numbers of what is ready, at most 16 of them; none when the time is up (-1: never).
    pub fn wait(&self, timeout_millis: i32) -> io::Result<Vec<u64>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 16];
        // SAFETY: the pointer and the length are those of the array.
        let count = check(unsafe {
            libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, timeout_millis)
        });
        match count {
            Ok(count) => Ok(events[..count as usize].iter().map(|event| event.u64).collect()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

impl AsRawFd for Poll {
    /// Readable itself when something that it watches is ready.
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A descriptor that becomes readable when the process is asked to end (SIGINT, SIGTERM), which from now
/// on does not end it by itself.
pub fn termination_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is filled before it is used; a descriptor that is returned is ours alone.
    unsafe {
        let mut set = mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGINT);
        libc::sigaddset(&mut set, libc::SIGTERM);
        check(libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut()))?;
        Ok(OwnedFd::from_raw_fd(check(libc::signalfd(-1, &set, libc::SFD_CLOEXEC))?))
    }
}

/// Takes one signal from the descriptor that [`termination_signals`] has made, so that it is readable again for the next.
/// Returns its number.
pub fn take_signal(signals: &OwnedFd) -> io::Result<i32> {
    // struct signalfd_siginfo, which begins with the number.
    let mut signal = [0_u8; 128];
    // SAFETY: the pointer and the length are those of a live array.
    let read = unsafe { libc::read(signals.as_raw_fd(), signal.as_mut_ptr().cast(), signal.len()) };
    check_size(read)?;
    Ok(i32::from_ne_bytes([signal[0], signal[1], signal[2], signal[3]]))
}

/// Has signals to end do so again, also in a process whose parent had blocked them.
pub fn take_default_signals() {
    // SAFETY: the set is filled before it is used.
    unsafe {
        let mut set = mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&mut set);
        libc::pthread_sigmask(libc::SIG_SETMASK, &set, ptr::null_mut());
    }
}

/// Leaves the terminal and its process group, if there is one.
pub fn own_session() {
    // SAFETY: no pointers; it fails where the process has a session of its own.
    unsafe { libc::setsid() };
}

/// The descriptors that a service manager has passed to this process, by the names that it gives them
/// (sd_listen_fds(3)).
pub fn passed_descriptors() -> Vec<(String, OwnedFd)> {
    const FIRST: RawFd = 3;
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u32>().ok());
    if number("LISTEN_PID") != Some(std::process::id()) {
        return Vec::new();
    }
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let descriptors = (FIRST..).take(number("LISTEN_FDS").unwrap_or(0) as usize);
    let own = descriptors.zip(names.split(':')).map(|(descriptor, name)| {
        // SAFETY: the manager has opened it for this process, and nobody else here uses it: this is called once.
        let descriptor = unsafe {
            libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
            OwnedFd::from_raw_fd(descriptor)
        };
        (name.to_owned(), descriptor)
    });
    own.collect()
}

/// Sends bytes, at least one, and copies of open descriptors over a Unix socket.
pub fn send_descriptors(socket: &impl AsRawFd, bytes: &[u8], descriptors: &[RawFd]) -> io::Result<()> {
    let mut control = ControlBuffer([0; 512]);
    let len = mem::size_of_val(descriptors);
    // SAFETY: all zeros are a value of it.
    let mut header = unsafe { mem::zeroed::<libc::msghdr>() };
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: no pointers.
    header.msg_controllen = unsafe { libc::CMSG_SPACE(len as u32) } as _;
    if header.msg_controllen as usize > control.0.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the control buffer has room for one message of `len` bytes; it and the bytes live until the call returns.
    check_size(unsafe {
        let message = libc::CMSG_FIRSTHDR(&header);
        (*message).cmsg_level = libc::SOL_SOCKET;
        (*message).cmsg_type = libc::SCM_RIGHTS;
        (*message).cmsg_len = libc::CMSG_LEN(len as u32) as _;
        ptr::copy_nonoverlapping(descriptors.as_ptr().cast::<u8>(), libc::CMSG_DATA(message), len);
        libc::sendmsg(socket.as_raw_fd(), &header, libc::MSG_NOSIGNAL)
    })
    .map(drop)
}

/// Receives what [`send_descriptors`] has sent, at most 64 bytes and as many descriptors as fit; waits for it.
pub fn receive_descriptors(socket: &impl AsRawFd) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut control = ControlBuffer([0; 512]);
    let mut bytes = vec![0; 64];
    // SAFETY: all zeros are a value of it.
    let mut header = unsafe { mem::zeroed::<libc::msghdr>() };
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    let mut descriptors = Vec::new();
    // SAFETY: all pointers are to live buffers of the lengths given. The kernel has filled the control buffer, the macros
    // stay within its length, and the descriptors in it are this process' alone.
    let len = unsafe {
        let len = check_size(libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC))?;
        let mut message = libc::CMSG_FIRSTHDR(&header);
        while !message.is_null() {
            if ((*message).cmsg_level, (*message).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let data_len = ((*message).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                let data = libc::CMSG_DATA(message).cast::<RawFd>();
                let of_message = (0..data_len / mem::size_of::<RawFd>())
                    .map(|index| OwnedFd::from_raw_fd(data.add(index).read_unaligned()));
                descriptors.extend(of_message);
            }
            message = libc::CMSG_NXTHDR(&header, message);
        }
        len
    };
    bytes.truncate(len);
    Ok((bytes, descriptors))
}

/// Has the scheduler prefer the process to others, if it lets it.
pub fn raise_priority() {
    // SAFETY: no pointers.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -10) };
}

/// A socket that has joined groups, all of one family, on an interface.
pub fn join_on_link(interface: u32, groups: &[IpAddr]) -> io::Result<Socket> {
    const MCAST_JOIN_GROUP: i32 = 42;
    let is_ipv4 = groups.first().is_some_and(IpAddr::is_ipv4);
    let (domain, level) =
        if is_ipv4 { (Domain::IPV4, libc::IPPROTO_IP) } else { (Domain::IPV6, libc::IPPROTO_IPV6) };
    let socket = Socket::new(domain, Type::DGRAM, None)?;
    for group in groups {
        // struct group_req: interface, 4 bytes of padding, group.
        let request = [&interface.to_ne_bytes()[..], &[0; 4], &storage(*group)].concat();
        set_option_bytes(&socket, level, MCAST_JOIN_GROUP, &request)?;
    }
    Ok(socket)
}

/// `address` as the bytes of a struct sockaddr_storage.
fn storage(address: IpAddr) -> [u8; 128] {
    let mut bytes = [0; 128];
    match address {
        IpAddr::V4(address) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            bytes[4..8].copy_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            bytes[8..24].copy_from_slice(&address.octets());
        }
    }
    bytes
}

/// An address out of the 4 or 16 bytes at the start of `bytes`.
pub fn address(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match i32::from(family) {
        libc::AF_INET => Some(Ipv4Addr::from(*bytes.first_chunk::<4>()?).into()),
        libc::AF_INET6 => Some(Ipv6Addr::from(*bytes.first_chunk::<16>()?).into()),
        _ => None,
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn check_size(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
