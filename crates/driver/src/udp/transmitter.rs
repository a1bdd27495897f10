//! Sends runs of blocks as super-packets, batches or single datagrams.

use std::{
    io::{self, IoSlice},
    net::{SocketAddr, UdpSocket},
};

use socket2::SockAddr;
use treecast_host::{control::Control, messages};
use treecast_wire::header::{HEADER_LEN, Header};

use super::{
    Offload,
    narrow::{NarrowWay, NarrowWays},
};

/// The most datagrams in a super-packet: `UDP_MAX_SEGMENTS` of kernels before 6.9; later ones take 128.
const MAX_SEGMENTS: usize = 64;

/// The most bytes in a super-packet: the longest UDP payload over IPv4.
const MAX_SUPER_PACKET_LEN: usize = 65_507;

/// The number of blocks of `block_len` bytes, each behind its header, in one super-packet; at least 1.
pub fn blocks_in_super_packet(block_len: usize) -> usize {
    frames_in_super_packet(HEADER_LEN + block_len)
}

/// The number of packets of `frame_len` bytes, with headers of their own format, in one super-packet; at least
/// 1.
pub fn frames_in_super_packet(frame_len: usize) -> usize {
    (MAX_SUPER_PACKET_LEN / frame_len.max(1)).clamp(1, MAX_SEGMENTS)
}

/// Makes the headers of a run's blocks, one after the other. `first` is as for [`Transmitter::send_blocks`].
pub(crate) fn headers(mut first: Header) -> impl FnMut(&[u8]) -> [u8; HEADER_LEN] {
    move |block| {
        first.payload_len = block.len() as u32;
        let bytes = first.to_bytes();
        first.sequence += block.len() as u64;
        first.number = first.number.wrapping_add(1);
        bytes
    }
}

/// A sender of blocks and messages over one socket. It waits while the socket's send buffer is full, so a slow
/// link slows its sender down.
#[derive(Debug)]
pub struct Transmitter {
    socket: UdpSocket,
    offload: Offload,
    /// Headers of one super-packet, one behind the other.
    headers: Vec<u8>,
    header_len: usize,
    /// Seldom any.
    narrow: Box<NarrowWays>,
}

impl Transmitter {
    pub fn new(socket: UdpSocket, offload: Offload) -> Self {
        let narrow = Box::default();
        Self { socket, offload, headers: Vec::new(), header_len: HEADER_LEN, narrow }
    }

    /// The kind of offload in use: the wanted one, or a simpler one if the kernel refused that.
    pub fn offload(&self) -> Offload {
        self.offload
    }

    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// The hosts, lately found, on the way to which less fits than was to be sent.
    pub(crate) fn take_narrow(&mut self) -> Vec<NarrowWay> {
        self.narrow.take_untold()
    }

    /// Sends one whole datagram.
    pub fn send_datagram(&self, to: SocketAddr, datagram: &[u8]) -> io::Result<()> {
        self.socket.send_to(datagram, to).map(drop)
    }

    /// Sends `run` as packets of `block_len` bytes (the last one shorter, where the run ends so), each
    /// behind a header. `first` gives file and type, the sequence number of the run's first byte and the
    /// number of its first packet, from which on they count. Longer runs than a super-packet are cut.
    ///
    /// # Errors
    /// The kernel's error when even single datagrams are refused.
    pub fn send_blocks(
        &mut self,
        to: SocketAddr,
        first: Header,
        block_len: usize,
        run: &[u8],
    ) -> io::Result<()> {
        self.send_frames(to, block_len, run, headers(first))
    }

    /// Like [`Transmitter::send_blocks`], with headers of another format. `header_of` returns the header of
    /// each block, in order.
    ///
    /// # Errors
    /// The error of the kernel, if even single datagrams are refused.
    pub fn send_frames<const LEN: usize>(
        &mut self,
        to: SocketAddr,
        block_len: usize,
        run: &[u8],
        mut header_of: impl FnMut(&[u8]) -> [u8; LEN],
    ) -> io::Result<()> {
        let to = SockAddr::from(to);
        self.header_len = LEN;
        for piece in run.chunks(frames_in_super_packet(LEN + block_len) * block_len) {
            self.headers.clear();
            for block in piece.chunks(block_len) {
                self.headers.extend_from_slice(&header_of(block));
            }
            self.send_piece(&to, block_len, piece)?;
        }
        Ok(())
    }

    /// Sends packets of `segment_len` bytes (the last one may be shorter), which are stored one after the
    /// other.
    ///
    /// # Errors
    /// The error of the kernel, if even single datagrams are refused.
    pub fn send_segments(&mut self, to: SocketAddr, segment_len: usize, segments: &[u8]) -> io::Result<()> {
        self.send_frames(to, segment_len, segments, |_| [])
    }

    /// Sends one piece, stepping down to simpler ways until one is taken.
    fn send_piece(&mut self, to: &SockAddr, block_len: usize, piece: &[u8]) -> io::Result<()> {
        let segment_len = self.header_len + block_len;
        loop {
            if self.offload == Offload::SuperPackets && self.narrow.contains(to, segment_len) {
                return self.send_batch(to, block_len, piece);
            }
            let result = match self.offload {
                Offload::SuperPackets => self.send_super_packet(to, block_len, piece),
                Offload::Batches => self.send_batch(to, block_len, piece),
                Offload::Single => self.send_singly(to, block_len, piece),
            };
            match (result, self.offload.step_down()) {
                // The loop's first line goes round the super-packets then.
                (Err(error), _)
                    if self.offload == Offload::SuperPackets
                        && is_too_long(&error)
                        && self.narrow.note(to, segment_len) => {}
                (Err(error), Some(next)) if is_unsupported(&error) => self.offload = next,
                (result, _) => return result,
            }
        }
    }

    fn send_super_packet(&self, to: &SockAddr, block_len: usize, piece: &[u8]) -> io::Result<()> {
        let parts = match self.header_len {
            0 => vec![IoSlice::new(piece)],
            _ => self.parts(block_len, piece),
        };
        let mut control = Control::NONE;
        if piece.len() > block_len {
            control = control.with_segment_len((self.header_len + block_len) as u16);
        }
        messages::send(&self.socket, Some(to), &parts, &control).map(drop)
    }

    fn send_batch(&self, to: &SockAddr, block_len: usize, piece: &[u8]) -> io::Result<()> {
        let parts = self.parts(block_len, piece);
        let packets: Vec<_> = parts.chunks(2).map(|packet| (Some(to), packet)).collect();
        let mut left = &packets[..];
        while !left.is_empty() {
            match messages::send_many(&self.socket, left.iter().copied()) {
                Ok(sent) => left = &left[sent..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn send_singly(&self, to: &SockAddr, block_len: usize, piece: &[u8]) -> io::Result<()> {
        let parts = self.parts(block_len, piece);
        let send = |packet| messages::send(&self.socket, Some(to), packet, &Control::NONE).map(drop);
        parts.chunks(2).try_for_each(send)
    }

    /// Header, block, header, block, ... as the kernel is to gather them.
    fn parts<'a>(&'a self, block_len: usize, piece: &'a [u8]) -> Vec<IoSlice<'a>> {
        let len = self.header_len;
        let headers = (0..).map(|slot| &self.headers[slot * len..(slot + 1) * len]);
        let packets = piece.chunks(block_len).zip(headers);
        packets.flat_map(|(block, header)| [IoSlice::new(header), IoSlice::new(block)]).collect()
    }
}

/// Whether this is the kernel's error when segments do not fit on the way to a host: EINVAL, and EMSGSIZE in newer
/// ones. The kernel takes single datagrams, of which it makes fragments, and super-packets to others.
fn is_too_long(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EMSGSIZE))
}

/// Whether the kernel refuses the way and not the packet: no such call or option, or a device that
/// cannot fill in checksums (EIO), or segments longer than the MTU (EINVAL: single ones may be fragmented).
fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::EINVAL | libc::ENOPROTOOPT | libc::EOPNOTSUPP | libc::ENOSYS)
    )
}
