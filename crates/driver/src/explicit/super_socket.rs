//! Super-packets out, whole: the kernel or the network interface divides them behind the last queue.
//!
//! A raw socket takes none that it does not divide itself, and no UDP socket one with a routing header of ours; a packet
//! socket takes frames with an offload header in front (`struct virtio_net_hdr`, packet(7)).

use std::{
    io::{self, IoSlice},
    mem,
    os::fd::AsRawFd,
    time::Instant,
};

use socket2::{Domain, Socket, Type};
use treecast_proto::explicit::transmission::Part;

use super::{
    neighbours::{ETHERNET_LEN, Hop, Neighbours},
    raw::BUFFER_BYTES,
};
use crate::offload::{OFFLOAD_LEN, Offload};

#[derive(Debug)]
pub(crate) struct SuperSocket {
    socket: Socket,
    neighbours: Neighbours,
}

impl SuperSocket {
    /// Sends where routes lead, or by that interface.
    pub fn open(interface: Option<u32>) -> io::Result<Self> {
        // Of no protocol: it gets nothing.
        let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
        _ = socket.set_send_buffer_size(BUFFER_BYTES);
        let (on, len) = (1 as libc::c_int, mem::size_of::<libc::c_int>() as libc::socklen_t);
        let (fd, value) = (socket.as_raw_fd(), std::ptr::from_ref(&on).cast());
        // SAFETY: the option takes an int, which the kernel copies.
        if unsafe { libc::setsockopt(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, value, len) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { socket, neighbours: Neighbours::open(interface)? })
    }

    /// As [`super::raw::PacketSocket::hold_at_most`].
    pub fn hold_at_most(&self, bytes: usize) -> io::Result<()> {
        self.socket.set_send_buffer_size(bytes)
    }

    /// Sends it. Returns whether it could: where not, the kernel must find the way, or it is taken in parts.
    pub fn send(&mut self, now: Instant, part: &Part<'_>) -> bool {
        let Some(hop) = self.neighbours.towards(now, part.destination) else { return false };
        let start = ETHERNET_LEN + part.udp_at;
        let is_one = part.data.len() <= part.segment_bytes;
        let offload = Offload::of_udp(start, (!is_one).then_some(part.segment_bytes)).to_bytes();
        let slices = [&offload[..], &hop.ethernet, &part.head, part.data].map(IoSlice::new);
        self.send_frame(&hop, &slices).is_ok_and(|sent| sent > OFFLOAD_LEN)
    }

    fn send_frame(&self, hop: &Hop, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        // SAFETY: both structures are plain data for which zeroes are good.
        let (mut to, mut message): (libc::sockaddr_ll, libc::msghdr) = unsafe { mem::zeroed() };
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_protocol = (libc::ETH_P_IPV6 as u16).to_be();
        to.sll_ifindex = hop.interface as libc::c_int;
        to.sll_halen = 6;
        message.msg_name = std::ptr::from_mut(&mut to).cast();
        message.msg_namelen = mem::size_of_val(&to) as libc::socklen_t;
        message.msg_iov = slices.as_ptr().cast_mut().cast();
        message.msg_iovlen = slices.len() as _;
        // SAFETY: address and slices outlive the call, and the kernel only reads them; IoSlice is as iovec.
        match unsafe { libc::sendmsg(self.socket.as_raw_fd(), &message, 0) } {
            sent if sent >= 0 => Ok(sent as usize),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
