//! Sends super-packets undivided: the kernel or the network interface divides them behind the last queue.
//!
//! A raw socket accepts only super-packets that it divides itself, and a UDP socket none with a routing header
//! of ours. A packet socket accepts frames with an offload header in front (`struct virtio_net_hdr`,
//! packet(7)).

use std::{
    io::{self, IoSlice},
    time::Instant,
};

use socket2::SockRef;
use treecast_host::{
    offload::{OFFLOAD_LEN, Offload},
    packet::FrameSocket,
};
use treecast_proto::explicit::transmission::Part;

use super::{
    neighbours::{ETHERNET_LEN, Neighbours},
    raw::BUFFER_BYTES,
};

#[derive(Debug)]
pub(crate) struct SuperSocket {
    socket: FrameSocket,
    neighbours: Neighbours,
}

impl SuperSocket {
    /// Opens the socket. Packets leave by `interface`, or where routes lead.
    pub fn open(interface: Option<u32>) -> io::Result<Self> {
        let socket = FrameSocket::open()?;
        _ = SockRef::from(&socket).set_send_buffer_size(BUFFER_BYTES);
        Ok(Self { socket, neighbours: Neighbours::open(interface)? })
    }

    /// Limits the bytes that wait in the socket. A full socket delays its sender before the link's queue
    /// overflows.
    pub fn hold_at_most(&self, bytes: usize) -> io::Result<()> {
        SockRef::from(&self.socket).set_send_buffer_size(bytes)
    }

    /// Sends a part of a super-packet. Returns false if it could not: then the kernel must find the way, or the
    /// part must be divided.
    pub fn send(&mut self, now: Instant, part: &Part<'_>) -> bool {
        let Some(hop) = self.neighbours.towards(now, part.destination) else { return false };
        let start = ETHERNET_LEN + part.udp_at;
        let is_one = part.data.len() <= part.segment_bytes;
        let offload = Offload::of_udp(start, (!is_one).then_some(part.segment_bytes)).to_bytes();
        let slices = [&offload[..], &hop.ethernet, &part.head, part.data].map(IoSlice::new);
        self.socket.send_ipv6_by(hop.interface, &slices).is_ok_and(|sent| sent > OFFLOAD_LEN)
    }
}
