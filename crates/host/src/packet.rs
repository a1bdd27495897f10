//! Packet sockets (packet(7)): whole frames from and to an interface.

use std::{
    io::{self, IoSlice},
    mem,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::net::netdevice;
use socket2::{Domain, SockAddr, SockAddrStorage, Socket, Type};

use crate::{messages, option};

/// The number of frames that [`FrameSocket::send_all`] hands to the kernel in one call.
pub const BATCH_LEN: usize = 32;

/// The receive buffer, in bytes, of a socket that frames are forwarded from. It holds a burst.
const FORWARDING_BUFFER_BYTES: usize = 4 << 20;

/// Frames of every Ethernet type.
pub const ALL_TYPES: u16 = libc::ETH_P_ALL as u16;
/// Frames with IPv6 packets.
pub const IPV6: u16 = libc::ETH_P_IPV6 as u16;
/// No frames at all.
pub const NOTHING: u16 = 0;

/// The addressee of a frame that a packet socket has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressee {
    /// This host, by its own address.
    ThisHost,
    /// The frame was addressed to a group.
    Group,
    /// All hosts on the link.
    Everybody,
    /// The frame was addressed to another host. The interface accepts such frames, too.
    AnotherHost,
    /// The frame leaves this host.
    Leaving,
}

/// Opens a socket that receives the frames of an Ethernet type that pass an interface. It receives frames that
/// leave only with [`ALL_TYPES`]. Reading does not wait.
///
/// # Errors
/// If this user may not, or the interface is gone.
pub fn open(interface: u32, ethertype: u16) -> io::Result<Socket> {
    // Without a protocol, no frame arrives before the socket is bound to its interface.
    let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking(), None)?;
    bind(&socket, interface, ethertype)?;
    Ok(socket)
}

/// Opens a socket to forward frames from. Each frame comes behind a `struct virtio_net_hdr`, which describes
/// the work that the device would still have to do.
///
/// # Errors
/// As [`open`].
pub fn open_for_forwarding(interface: u32) -> io::Result<Socket> {
    let socket = open(interface, ALL_TYPES)?;
    option::set(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    socket.set_recv_buffer_size(FORWARDING_BUFFER_BYTES)?;
    Ok(socket)
}

/// Binds a packet socket to an interface. It then receives frames of this Ethernet type; with [`NOTHING`], no
/// frames.
///
/// # Errors
/// If the interface is gone.
pub fn bind(socket: &Socket, interface: u32, ethertype: u16) -> io::Result<()> {
    socket.bind(&address(interface, ethertype, false))
}

/// Opens a socket for IPv6 packets that this host handles as if they had come in by its loopback. Returns it
/// with the address to send them to.
///
/// # Errors
/// If this user may not.
pub fn open_loopback() -> io::Result<(Socket, SockAddr)> {
    // It has no protocol, so it receives nothing.
    let socket = Socket::new(Domain::PACKET, Type::DGRAM.nonblocking(), None)?;
    let loopback = netdevice::name_to_index(&socket, "lo")?;
    Ok((socket, address(loopback, IPV6, true)))
}

/// Makes the interface of a packet socket accept packets to groups that this host has not joined, while the
/// socket is open.
///
/// # Errors
/// The error of the kernel.
pub fn take_all_groups(socket: &Socket, interface: u32) -> io::Result<()> {
    add_membership(socket, interface, libc::PACKET_MR_ALLMULTI, &[])
}

/// Makes the interface of a packet socket accept packets to a link-layer address, while the socket is open.
///
/// # Errors
/// The error of the kernel; EINVAL if the interface has addresses of another length, or none.
pub fn take_group(socket: &Socket, interface: u32, group: [u8; 6]) -> io::Result<()> {
    add_membership(socket, interface, libc::PACKET_MR_MULTICAST, &group)
}

fn add_membership(socket: &Socket, interface: u32, kind: i32, link_address: &[u8]) -> io::Result<()> {
    // struct packet_mreq: interface, type, length of the address, and the address.
    let mut request = [0; 16];
    request[..4].copy_from_slice(&interface.to_ne_bytes());
    request[4..6].copy_from_slice(&(kind as u16).to_ne_bytes());
    request[6..8].copy_from_slice(&(link_address.len() as u16).to_ne_bytes());
    request[8..8 + link_address.len()].copy_from_slice(link_address);
    option::set_bytes(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// The number of frames that have passed a packet socket's filter since the last call, including those for which its buffer had no
/// room.
///
/// # Errors
/// The error of the kernel.
pub fn take_count(socket: &Socket) -> io::Result<u32> {
    // struct tpacket_stats: frames that passed the filter, and those of them that were dropped.
    // SAFETY: the option fills in two numbers.
    let [passed, _] = unsafe { option::get::<[u32; 2]>(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)? };
    Ok(passed)
}

/// Reads a frame without waiting. Returns its length in bytes, and its addressee.
///
/// # Errors
/// The error of the kernel; `WouldBlock` if there is no frame.
pub fn receive(socket: &Socket, buffer: &mut [u8]) -> io::Result<(usize, Addressee)> {
    let (from, received) = messages::receive_from(socket, buffer)?;
    let addressee = match packet_type(&from) {
        libc::PACKET_HOST => Addressee::ThisHost,
        libc::PACKET_MULTICAST => Addressee::Group,
        libc::PACKET_BROADCAST => Addressee::Everybody,
        libc::PACKET_OUTGOING => Addressee::Leaving,
        _ => Addressee::AnotherHost,
    };
    Ok((received.len, addressee))
}

/// A packet socket to send frames with. Each frame has an offload header in front (`struct virtio_net_hdr`).
#[derive(Debug)]
pub struct FrameSocket(Socket);

impl FrameSocket {
    /// Opens a socket that only sends. Each frame names its interface. The socket receives nothing, so it costs
    /// other traffic nothing.
    ///
    /// # Errors
    /// If this user may not.
    pub fn open() -> io::Result<Self> {
        let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
        option::set(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        Ok(Self(socket))
    }

    /// Opens a socket that only sends, by this interface, and skips the interface's queue.
    ///
    /// # Errors
    /// If this user may not, or the interface is gone.
    pub fn open_past_queue(interface: u32) -> io::Result<Self> {
        let this = Self::open()?;
        option::set(&this.0, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
        bind(&this.0, interface, NOTHING)?;
        Ok(this)
    }

    /// Opens a socket that only sends, by this interface. Sending never waits: a frame for which there is no room is
    /// lost.
    ///
    /// # Errors
    /// If this user may not, or the interface is gone.
    pub fn open_to_send(interface: u32) -> io::Result<Self> {
        let this = Self::open()?;
        this.0.set_nonblocking(true)?;
        bind(&this.0, interface, NOTHING)?;
        Ok(this)
    }

    /// Opens a socket that sends by this interface, and receives what arrives there. It does not receive what
    /// others send through it.
    ///
    /// # Errors
    /// If this user may not, or the interface is gone.
    pub fn open_both_ways(interface: u32, buffer_bytes: usize) -> io::Result<Self> {
        let this = Self::open()?;
        option::set(&this.0, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        for (force, polite) in
            [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            option::set_buffer(&this.0, force, polite, buffer_bytes)?;
        }
        this.0.set_nonblocking(true)?;
        bind(&this.0, interface, ALL_TYPES)?;
        Ok(this)
    }

    /// Sends a frame, gathered from its parts, by the interface that the socket is bound to. Returns its length in bytes.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.send_vectored(parts)
    }

    /// Sends a frame with an IPv6 packet by this interface.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn send_ipv6_by(&self, interface: u32, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.send_to_vectored(parts, &address(interface, IPV6, true))
    }

    /// Sends frames by the interface that the socket is bound to. Returns how many the kernel has taken, at most
    /// [`BATCH_LEN`] of them.
    ///
    /// # Errors
    /// What the kernel says to the first one.
    pub fn send_all(&self, frames: &[&[u8]]) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); BATCH_LEN];
        let count = frames.len().min(BATCH_LEN);
        slices.iter_mut().zip(frames).for_each(|(slice, frame)| *slice = IoSlice::new(frame));
        messages::send_many(&self.0, slices[..count].chunks(1).map(|frame| (None, frame)))
    }

    /// Reads a frame into the start of `buffer`, without waiting. Returns the frame, or `None` if there is none. What does not fit into
    /// the buffer is lost.
    pub fn receive<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let len = io::Read::read(&mut &self.0, buffer).ok()?;
        Some(&buffer[..len])
    }
}

impl AsFd for FrameSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The link-layer address structure of an interface. For frames to send (`is_destination`), it only tells the
/// length of the address.
fn address(interface: u32, ethertype: u16, is_destination: bool) -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: the view is of plain numbers within the storage, and the length is that of what has been written.
    unsafe {
        let address = storage.view_as::<libc::sockaddr_ll>();
        address.sll_family = libc::AF_PACKET as _;
        address.sll_protocol = ethertype.to_be();
        address.sll_ifindex = interface as i32;
        address.sll_halen = if is_destination { 6 } else { 0 };
        SockAddr::new(storage, mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t)
    }
}

/// The type of the packet (`PACKET_HOST` and so on) in an address that the kernel has given.
fn packet_type(from: &SockAddr) -> u8 {
    let at = mem::offset_of!(libc::sockaddr_ll, sll_pkttype);
    // SAFETY: an address has room for every kind, and what the kernel has not written is zero.
    unsafe { from.as_ptr().cast::<u8>().add(at).read() }
}
