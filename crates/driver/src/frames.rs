//! Putting whole frames on a link, many in one call and super-packets whole: for who makes packets that no socket makes.

use std::{io, mem, os::fd::AsRawFd};

use socket2::{Domain, Socket, Type};

use crate::udp::option;

/// Frames that go to the kernel in one call.
pub const BATCH_LEN: usize = 32;

/// `PACKET_QDISC_BYPASS` of Linux's `if_packet.h`.
const QDISC_BYPASS: i32 = 20;
/// `PACKET_VNET_HDR` of the same.
const OFFLOAD_HEADERS: i32 = 15;

/// A packet socket that only sends: it hears nothing, and so costs other traffic nothing.
#[derive(Debug)]
pub struct FrameSocket(Socket);

impl FrameSocket {
    /// Opens one that sends out of the interface with this index, past its queue.
    ///
    /// # Errors
    /// When this user may not, or the interface is gone.
    pub fn open(interface: u32) -> io::Result<Self> {
        let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
        option::set(&socket, libc::SOL_PACKET, OFFLOAD_HEADERS, 1_i32)?;
        option::set(&socket, libc::SOL_PACKET, QDISC_BYPASS, 1_i32)?;
        bind(&socket, interface, 0)?;
        Ok(Self(socket))
    }

    /// Sends frames, each with its [`Offload`](crate::offload::Offload) before it. Returns how many the kernel has taken, at most
    /// [`BATCH_LEN`] of them.
    ///
    /// # Errors
    /// What the kernel says to the first one.
    pub fn send(&self, frames: &[&[u8]]) -> io::Result<usize> {
        // SAFETY: both are plain data for which zeroes are a value.
        let (mut slices, mut messages) =
            unsafe { mem::zeroed::<([libc::iovec; BATCH_LEN], [libc::mmsghdr; BATCH_LEN])>() };
        let count = frames.len().min(BATCH_LEN);
        for ((frame, slice), message) in frames.iter().zip(&mut slices).zip(&mut messages) {
            *slice = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
            (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (slice, 1);
        }
        // SAFETY: each of so many messages points at a slice that outlives the call; the kernel only reads the frames.
        let sent = unsafe { libc::sendmmsg(self.0.as_raw_fd(), messages.as_mut_ptr(), count as u32, 0) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// Binds a packet socket to the interface with this index, where it hears packets of this Ethernet type, and none where it is 0.
pub(crate) fn bind(socket: &Socket, interface: u32, ethertype: u16) -> io::Result<()> {
    // SAFETY: all zeros are a value of it, and it lives until the call returns.
    let bound = unsafe {
        let mut address = mem::zeroed::<libc::sockaddr_ll>();
        address.sll_family = libc::AF_PACKET as _;
        address.sll_protocol = ethertype.to_be();
        address.sll_ifindex = interface as i32;
        let len = mem::size_of_val(&address) as libc::socklen_t;
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len)
    };
    if bound == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
