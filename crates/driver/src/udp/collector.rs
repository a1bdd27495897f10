//! Receives packets: headers into one array, blocks side by side into one buffer.

use std::{
    io, iter, mem,
    net::{SocketAddr, UdpSocket},
};

use treecast_host::{control::Ancillary, messages::Scatter};
use treecast_wire::{
    header::{self, HEADER_LEN, LaneNumbers},
    seal::{PREFIX_LEN, SEALED_HEADER_LEN, TAG_LEN},
};

use super::{Batch, Offload, arrivals::Stamp};
use crate::seal::{Opener, Refused};
use treecast_host::option;

/// The longest UDP payload, and so the longest super-packet.
const MAX_DATAGRAM_LEN: usize = 65_535;

/// The most datagrams taken in one `recvmmsg`.
const BATCH_MESSAGES: usize = 32;

/// The kernel's own count of what a socket holds is never less for a datagram, in bytes.
const LEAST_COUNTED: usize = 512;

/// The most pieces that the kernel scatters one message into (`UIO_MAXIOV`).
const MAX_IOVECS: usize = 1024;

/// A receiver of the packets of one session from one socket. Its blocks are `block_len` bytes long.
#[derive(Debug)]
pub struct Collector {
    socket: UdpSocket,
    offload: Offload,
    block_len: usize,
    /// Opens sealed packets; none when they are plain.
    opener: Option<Opener>,
    /// The lane whose packets are taken. `None` where all are.
    lane: Option<LaneNumbers>,
    /// The slots, as many as there are datagrams in the largest super-packet.
    slots: Vec<Slot>,
    scatter: Scatter,
    dropped: DropCounter,
    taken: u64,
}

/// A second socket that is not received from now.
#[derive(Debug)]
pub struct Spare {
    socket: UdpSocket,
    /// The last that its drop counter said.
    dropped: u32,
}

impl Spare {
    pub(super) fn new(socket: UdpSocket) -> Self {
        Self { socket, dropped: 0 }
    }

    /// Takes the place of a socket and of the last that its drop counter said.
    pub(super) fn swap(&mut self, socket: &mut UdpSocket, dropped: &mut DropCounter) {
        mem::swap(socket, &mut self.socket);
        mem::swap(&mut dropped.last, &mut self.dropped);
    }

    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }
}

/// The place for what stands before and behind a block.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// The seal's prefix, if there is one, and the header.
    head: [u8; SEALED_HEADER_LEN],
    /// Tag of a sealed packet whose block is whole. The tag of a shorter block follows that block at once.
    tag: [u8; TAG_LEN],
}

impl Slot {
    const EMPTY: Self = Self { head: [0; SEALED_HEADER_LEN], tag: [0; TAG_LEN] };

    fn header(&self) -> &[u8; HEADER_LEN] {
        self.head.last_chunk().expect("the header is the last part of it")
    }
}

impl Collector {
    /// Creates a collector for a socket. The socket becomes nonblocking, and super-packets are enabled, unless
    /// the kernel refuses. Without an `opener`, packets are plain.
    ///
    /// # Errors
    /// If the socket cannot be made nonblocking.
    pub fn new(
        socket: UdpSocket,
        offload: Offload,
        block_len: u16,
        opener: Option<Opener>,
    ) -> io::Result<Self> {
        let offload = prepare(&socket, offload)?;
        let block_len = usize::from(block_len);
        let lens = Lens::new(block_len, opener.is_some());
        let count = match offload {
            Offload::SuperPackets => MAX_DATAGRAM_LEN.div_ceil(lens.datagram()).min(MAX_IOVECS / 3),
            Offload::Batches => BATCH_MESSAGES,
            Offload::Single => 1,
        };
        Ok(Self {
            socket,
            offload,
            block_len,
            opener,
            lane: None,
            slots: vec![Slot::EMPTY; count],
            scatter: Scatter::default(),
            dropped: DropCounter::default(),
            taken: 0,
        })
    }

    /// Prepares another socket for [`Collector::swap`].
    ///
    /// # Errors
    /// The errors of [`Collector::new`].
    pub fn prepare(&self, socket: UdpSocket) -> io::Result<Spare> {
        prepare(&socket, self.offload)?;
        Ok(Spare::new(socket))
    }

    /// Switches to the other socket, and keeps the present one in `spare`. No packet is lost.
    pub fn swap(&mut self, spare: &mut Spare) {
        spare.swap(&mut self.socket, &mut self.dropped);
    }

    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// The kind of offload in use: the wanted one, or a simpler one if the kernel refused that.
    pub fn offload(&self) -> Offload {
        self.offload
    }

    /// The number of packets that the kernel has dropped at this socket because its buffer was full, as
    /// reported by a packet received since.
    pub fn dropped(&self) -> u64 {
        self.dropped.total
    }

    /// The number of bytes taken from the socket so far, invalid packets included. The kernel's overhead for
    /// small datagrams is counted, too.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The opener, to which keys are given.
    pub fn opener(&mut self) -> Option<&mut Opener> {
        self.opener.as_mut()
    }

    /// Takes only packets of this lane from now on. Packets of other lanes are dropped.
    pub fn take_lane(&mut self, lane: u8) {
        self.lane = Some(LaneNumbers::new(lane));
    }

    /// Returns the number on the wire of a packet that was counted with this number.
    pub fn number_on_wire(&self, counted: u32) -> u32 {
        self.lane.as_ref().map_or(counted, |lane| lane.on_wire(counted))
    }

    /// Whether packets that come now can be decrypted. If not, they should stay in the socket's buffer.
    pub fn can_read(&self) -> bool {
        self.opener.as_ref().is_none_or(Opener::has_keys)
    }

    /// The counts of packets with a wrong seal, and of packets that came twice.
    pub fn refused(&self) -> Refused {
        self.opener.as_ref().map(Opener::refused).unwrap_or_default()
    }

    /// Whether the largest message still fits into `batch`.
    pub fn fits(&self, batch: &Batch) -> bool {
        let slots = match self.offload {
            Offload::Batches => 1,
            _ => self.slots.len(),
        };
        batch.room() >= slots * self.block_len
    }

    /// Receives what one call to the kernel yields, and appends it to `batch`, which must have room
    /// ([`Collector::fits`]). Returns false if there is nothing.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn receive(&mut self, batch: &mut Batch) -> io::Result<bool> {
        loop {
            let result = match self.offload {
                Offload::Batches => self.receive_many(batch),
                _ => self.receive_one(batch).map(drop),
            };
            match result {
                Ok(()) => return Ok(true),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(false),
                    Some(libc::EINTR) => {}
                    Some(libc::ENOSYS) if self.offload == Offload::Batches => self.offload = Offload::Single,
                    _ => return Err(error),
                },
            }
        }
    }

    /// Like [`Collector::receive`], for one super-packet or datagram, and says who has sent it. `None` if there is nothing.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn receive_from(&mut self, batch: &mut Batch) -> io::Result<Option<SocketAddr>> {
        loop {
            match self.receive_one(batch) {
                Ok(Some(from)) => return Ok(Some(from)),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Receives one super-packet or datagram, scattered over the header slots and the batch's buffer. Returns its
    /// sender.
    fn receive_one(&mut self, batch: &mut Batch) -> io::Result<Option<SocketAddr>> {
        let (start, lens) = (batch.used(), self.lens());
        let pieces = pieces(&mut self.slots, batch.free(), lens);
        let received = self.scatter.receive(&self.socket, pieces)?;
        self.taken += received.len.max(LEAST_COUNTED) as u64;
        self.dropped.note(received.ancillary);
        batch.begin(Stamp::from(&received.ancillary));
        if received.is_truncated {
            batch.add_malformed();
            return Ok(received.from);
        }
        let segment_len = received.ancillary.segment_len.unwrap_or(received.len);
        self.opener.iter_mut().for_each(Opener::begin);
        self.sort(batch, start, received.len, segment_len);
        Ok(received.from)
    }

    /// Tells the segments of one received message apart.
    fn sort(&mut self, batch: &mut Batch, start: usize, received: usize, segment_len: usize) {
        let datagram_len = self.lens().datagram();
        if segment_len != datagram_len && received > segment_len.min(datagram_len) {
            return self.sort_misfits(batch, start, received, segment_len);
        }
        let mut left = received;
        for slot in 0..self.slots.len() {
            let len = left.min(datagram_len);
            self.add(batch, slot, start + slot * self.block_len, len);
            left -= len;
            if left == 0 {
                return;
            }
        }
    }

    /// Adds the datagram of `len` bytes that lies in a slot and at `at` in the batch, opened if it is sealed.
    fn add(&mut self, batch: &mut Batch, slot: usize, at: usize, len: usize) {
        let Lens { head, tag, .. } = self.lens();
        let Some(payload_len) = len.checked_sub(head + tag) else { return batch.add_malformed() };
        let slot = &self.slots[slot];
        if let Some(opener) = &mut self.opener {
            // A short block leaves room, in which its tag begins.
            let before = (self.block_len - payload_len).min(TAG_LEN);
            let mut tag = [0; TAG_LEN];
            tag[..before].copy_from_slice(batch.received_mut(at + payload_len, before));
            tag[before..].copy_from_slice(&slot.tag[..TAG_LEN - before]);
            if !opener.open(&slot.head, batch.received_mut(at, payload_len), tag) {
                return;
            }
        }
        let mut header = *slot.header();
        if is_taken(&mut self.lane, &mut header) {
            batch.add_received(&header, at, payload_len);
        }
    }

    /// Segments of another length than a whole block's, joined by the kernel (equal messages, or the
    /// short last blocks of several objects): gathers them and takes them one by one.
    fn sort_misfits(&mut self, batch: &mut Batch, start: usize, received: usize, segment_len: usize) {
        let Lens { head, tag, .. } = self.lens();
        let mut flat = Vec::with_capacity(self.slots.len() * self.lens().datagram());
        for (index, slot) in self.slots.iter().enumerate() {
            let at = start + index * self.block_len;
            flat.extend_from_slice(&slot.head[SEALED_HEADER_LEN - head..]);
            flat.extend_from_slice(&batch.bytes()[at..at + self.block_len]);
            flat.extend_from_slice(&slot.tag[..tag]);
        }
        flat.truncate(received);
        for datagram in flat.chunks_mut(segment_len.max(1)) {
            let packet = match &mut self.opener {
                None => Some(datagram),
                Some(opener) => opener.open_datagram(datagram),
            };
            if let Some(packet) = packet
                && is_taken(&mut self.lane, packet)
            {
                batch.add_datagram(packet);
            }
        }
    }

    /// Receives as many datagrams as are there, have a slot and fit.
    fn receive_many(&mut self, batch: &mut Batch) -> io::Result<()> {
        let (start, lens) = (batch.used(), self.lens());
        let count = self.slots.len().min(batch.room() / self.block_len);
        let pieces = pieces(&mut self.slots[..count], batch.free(), lens);
        // What each message was, before the slots are read.
        let mut messages = [(None, Stamp::default()); BATCH_MESSAGES];
        let dropped = &mut self.dropped;
        let received =
            self.scatter.receive_many(&self.socket, pieces, lens.pieces(), |index, received| {
                dropped.note(received.ancillary);
                let len = (!received.is_truncated).then_some(received.len);
                messages[index] = (len, Stamp::from(&received.ancillary));
            })?;
        for (slot, (len, stamp)) in messages.into_iter().enumerate().take(received) {
            self.taken += len.unwrap_or_default().max(LEAST_COUNTED) as u64;
            batch.begin(stamp);
            match len {
                Some(len) => self.add(batch, slot, start + slot * self.block_len, len),
                None => batch.add_malformed(),
            }
        }
        Ok(())
    }

    fn lens(&self) -> Lens {
        Lens::new(self.block_len, self.opener.is_some())
    }
}

/// Whether a packet is of the lane that is taken. Its number counts modulo 2^32 then.
fn is_taken(lane: &mut Option<LaneNumbers>, packet: &mut [u8]) -> bool {
    let (Some(lane), Some(number)) = (lane, header::number(packet)) else { return true };
    let counted = lane.count_on(number);
    counted.into_iter().for_each(|number| header::set_number(packet, number));
    counted.is_some()
}

/// Makes a socket nonblocking, and has the kernel tell what it can of each packet. Returns the way that it offers.
fn prepare(socket: &UdpSocket, wanted: Offload) -> io::Result<Offload> {
    socket.set_nonblocking(true)?;
    let refuses = || option::set(socket, libc::SOL_UDP, libc::UDP_GRO, 1).is_err();
    let offload = if wanted == Offload::SuperPackets && refuses() { Offload::Batches } else { wanted };
    // Kernels without the counter are older than any that this crate runs on; it only informs.
    let _ = option::set(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
    // A socket of one family refuses the other's. Without marks, losses tell.
    let _ = option::set(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1);
    let _ = option::set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1);
    // Without it, packets arrive when the program reads them.
    let _ = option::set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1);
    Ok(offload)
}

/// The lengths of a datagram's parts, in bytes.
#[derive(Debug, Clone, Copy)]
struct Lens {
    head: usize,
    block: usize,
    tag: usize,
}

impl Lens {
    fn new(block: usize, is_sealed: bool) -> Self {
        match is_sealed {
            true => Self { head: PREFIX_LEN + HEADER_LEN, block, tag: TAG_LEN },
            false => Self { head: HEADER_LEN, block, tag: 0 },
        }
    }

    fn datagram(self) -> usize {
        self.head + self.block + self.tag
    }

    /// Into how many pieces the kernel scatters one.
    fn pieces(self) -> usize {
        if self.tag > 0 { 3 } else { 2 }
    }
}

/// Follows the kernel's 32-bit drop counter beyond its wrap.
#[derive(Debug, Default)]
pub(super) struct DropCounter {
    last: u32,
    pub total: u64,
}

impl DropCounter {
    pub fn note(&mut self, ancillary: Ancillary) {
        if let Some(now) = ancillary.dropped {
            self.total += u64::from(now.wrapping_sub(self.last));
            self.last = now;
        }
    }
}

/// The pieces that the kernel scatters datagrams into: room for a header, for a block, and where packets are sealed for a
/// tag; and so on.
fn pieces<'a>(slots: &'a mut [Slot], blocks: &'a mut [u8], lens: Lens) -> impl Iterator<Item = &'a mut [u8]> {
    slots.iter_mut().zip(blocks.chunks_exact_mut(lens.block)).flat_map(move |(slot, block)| {
        let tag = (lens.tag > 0).then_some(&mut slot.tag[..lens.tag]);
        iter::once(&mut slot.head[SEALED_HEADER_LEN - lens.head..]).chain([block]).chain(tag)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drop_counter_survives_its_wrap() {
        let mut counter = DropCounter::default();
        for dropped in [None, Some(5), Some(u32::MAX), None, Some(3)] {
            let mut ancillary = Ancillary::default();
            ancillary.dropped = dropped;
            counter.note(ancillary);
        }
        assert_eq!(counter.total, (1 << 32) + 3);
    }

    #[test]
    fn empty_datagrams_and_garbage_are_counted_as_taken() {
        for offload in [Offload::SuperPackets, Offload::Batches, Offload::Single] {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            sender.connect(socket.local_addr().unwrap()).unwrap();
            let mut collector = Collector::new(socket, offload, 1_000, None).unwrap();
            let mut batch = Batch::default();
            for len in [0, 3, 900] {
                sender.send(&[255; 900][..len]).unwrap();
            }
            while collector.receive(&mut batch).unwrap() {}
            assert_eq!((collector.taken(), batch.used()), (2 * LEAST_COUNTED as u64 + 900, 0), "{offload:?}");
        }
    }
}
