//! Receiving: headers into one array, blocks side by side into one buffer.

use std::{io, mem, net::UdpSocket, os::fd::AsRawFd};

use treecast_wire::header::HEADER_LEN;

use super::{
    Batch, Offload,
    control::{self, Ancillary, ControlBuffer},
    option,
};

/// The longest UDP payload, and so the longest super-packet.
const MAX_DATAGRAM_LEN: usize = 65_535;

/// The most datagrams taken in one `recvmmsg`.
const BATCH_MESSAGES: usize = 32;

/// The most pieces that the kernel scatters one message into (`UIO_MAXIOV`).
const MAX_IOVECS: usize = 1024;

/// Receives the packets of one session, whose blocks are `block_len` bytes long, from one socket.
#[derive(Debug)]
pub struct Collector {
    socket: UdpSocket,
    offload: Offload,
    block_len: usize,
    /// Header slots: as many as there are datagrams in the largest super-packet.
    headers: Vec<[u8; HEADER_LEN]>,
    dropped: DropCounter,
}

impl Collector {
    /// Takes over a socket, which becomes nonblocking, and turns super-packets on unless the kernel
    /// refuses.
    ///
    /// # Errors
    /// When the socket cannot be made nonblocking.
    pub fn new(socket: UdpSocket, mut offload: Offload, block_len: u16) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        if offload == Offload::SuperPackets
            && option::set(&socket, libc::SOL_UDP, libc::UDP_GRO, 1_i32).is_err()
        {
            offload = Offload::Batches;
        }
        // Kernels without the counter are older than any that this crate runs on; it only informs.
        let _ = option::set(&socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1_i32);
        let block_len = usize::from(block_len);
        let slots = match offload {
            Offload::SuperPackets => MAX_DATAGRAM_LEN.div_ceil(HEADER_LEN + block_len).min(MAX_IOVECS / 2),
            Offload::Batches => BATCH_MESSAGES,
            Offload::Single => 1,
        };
        Ok(Self {
            socket,
            offload,
            block_len,
            headers: vec![[0; HEADER_LEN]; slots],
            dropped: DropCounter::default(),
        })
    }

    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// The way in use: what was asked for, or what was left when the kernel had refused that.
    pub fn offload(&self) -> Offload {
        self.offload
    }

    /// Packets that the kernel has dropped at this socket so far because its buffer was full, as far as
    /// a packet received since has told.
    pub fn dropped(&self) -> u64 {
        self.dropped.total
    }

    /// Whether the largest message still fits into `batch`.
    pub fn fits(&self, batch: &Batch) -> bool {
        let slots = match self.offload {
            Offload::Batches => 1,
            _ => self.headers.len(),
        };
        batch.room() >= slots * self.block_len
    }

    /// Takes what one call to the kernel yields and appends it to `batch`, which must have room
    /// ([`Collector::fits`]). Returns false when nothing is there.
    ///
    /// # Errors
    /// What the kernel says, other than that nothing is there.
    pub fn receive(&mut self, batch: &mut Batch) -> io::Result<bool> {
        loop {
            let result = match self.offload {
                Offload::Batches => self.receive_many(batch),
                _ => self.receive_one(batch),
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

    /// One super-packet or datagram, scattered over the header slots and the batch's buffer.
    fn receive_one(&mut self, batch: &mut Batch) -> io::Result<()> {
        let start = batch.used();
        let mut iovecs = self.iovecs(batch);
        let mut control = ControlBuffer::new();
        let mut message = message_into(&mut iovecs);
        message.msg_control = control.as_mut_ptr();
        message.msg_controllen = ControlBuffer::LEN;
        // SAFETY: `message` points at `iovecs` and `control`, and those at the slots and the batch.
        let received = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &mut message, 0) };
        let Ok(received) = usize::try_from(received) else { return Err(io::Error::last_os_error()) };
        // SAFETY: recvmsg has filled `message`, and `control` lives.
        let ancillary = unsafe { control::read(&message) };
        self.dropped.note(ancillary);
        if message.msg_flags & libc::MSG_TRUNC != 0 {
            batch.add_malformed();
            return Ok(());
        }
        self.sort(batch, start, received, ancillary.segment_len.unwrap_or(received));
        Ok(())
    }

    /// Tells the segments of one received message apart.
    fn sort(&self, batch: &mut Batch, start: usize, received: usize, segment_len: usize) {
        let slot_len = HEADER_LEN + self.block_len;
        if segment_len != slot_len && received > segment_len.min(slot_len) {
            return self.sort_misfits(batch, start, received, segment_len);
        }
        let mut at = start;
        let mut left = received;
        for header in &self.headers {
            let len = left.min(slot_len);
            match len.checked_sub(HEADER_LEN) {
                Some(payload_len) => batch.add_received(header, at, payload_len),
                None => batch.add_malformed(),
            }
            left -= len;
            at += self.block_len;
            if left == 0 {
                return;
            }
        }
    }

    /// Segments of another length than a whole block's, joined by the kernel (equal messages, or the
    /// short last blocks of several objects): gathers them and takes them one by one.
    fn sort_misfits(&self, batch: &mut Batch, start: usize, received: usize, segment_len: usize) {
        let mut flat = Vec::with_capacity(received);
        for (slot, header) in self.headers.iter().enumerate() {
            let at = start + slot * self.block_len;
            flat.extend_from_slice(header);
            flat.extend_from_slice(&batch.bytes()[at..at + self.block_len]);
        }
        flat.truncate(received);
        for datagram in flat.chunks(segment_len.max(1)) {
            batch.add_datagram(datagram);
        }
    }

    /// As many datagrams as are there, have a slot and fit.
    fn receive_many(&mut self, batch: &mut Batch) -> io::Result<()> {
        let start = batch.used();
        let count = self.headers.len().min(batch.room() / self.block_len);
        let mut iovecs = self.iovecs(batch);
        let mut controls = [ControlBuffer::new(); BATCH_MESSAGES];
        let mut messages: Vec<_> = iovecs
            .chunks_mut(2)
            .zip(&mut controls)
            .take(count)
            .map(|(pair, control)| {
                let mut message = message_into(pair);
                message.msg_control = control.as_mut_ptr();
                message.msg_controllen = ControlBuffer::LEN;
                libc::mmsghdr { msg_hdr: message, msg_len: 0 }
            })
            .collect();
        // SAFETY: as in `receive_one`, for each message.
        let received = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as u32,
                0,
                std::ptr::null_mut(),
            )
        };
        let Ok(received) = usize::try_from(received) else { return Err(io::Error::last_os_error()) };
        for (slot, message) in messages[..received].iter().enumerate() {
            // SAFETY: recvmmsg has filled this message, and its control buffer lives.
            self.dropped.note(unsafe { control::read(&message.msg_hdr) });
            let truncated = message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            match (message.msg_len as usize).checked_sub(HEADER_LEN) {
                Some(len) if !truncated => {
                    batch.add_received(&self.headers[slot], start + slot * self.block_len, len);
                }
                _ => batch.add_malformed(),
            }
        }
        Ok(())
    }

    /// Header slot, room for a block, header slot, room for a block, ...
    fn iovecs(&mut self, batch: &mut Batch) -> Vec<libc::iovec> {
        self.headers
            .iter_mut()
            .zip(batch.free().chunks_exact_mut(self.block_len))
            .flat_map(|(header, room)| [iovec(header), iovec(room)])
            .collect()
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

fn iovec(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

fn message_into(iovecs: &mut [libc::iovec]) -> libc::msghdr {
    // SAFETY: msghdr is plain data, for which zeroes are a value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = iovecs.as_mut_ptr();
    message.msg_iovlen = iovecs.len();
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drop_counter_survives_its_wrap() {
        let mut counter = DropCounter::default();
        for dropped in [None, Some(5), Some(u32::MAX), None, Some(3)] {
            counter.note(Ancillary { segment_len: None, dropped });
        }
        assert_eq!(counter.total, (1 << 32) + 3);
    }
}
