//! Sends and receives the IoT updater's frames on a socket.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    os::fd::{AsRawFd, RawFd},
};

use treecast_proto::{carousel::iotup_inputs, object::ReceiverInput, tfmcc::Arrived};
use treecast_wire::{
    header::{FileId, SessionId},
    iotup::{Frame, HEADER_LEN},
};

use crate::udp::{Batch, DatagramReceiver, Item, Spare, Transmitter};

/// Numbers frames and sends them.
#[derive(Debug, Clone)]
pub(crate) struct FrameSender {
    pub file_size: u64,
    pub hash: [u8; 32],
    pub sequence: u16,
}

impl FrameSender {
    /// Sends the bytes of the file that begin at `offset`.
    pub fn send(
        &mut self,
        transmitter: &mut Transmitter,
        to: SocketAddr,
        mut offset: u64,
        block_len: u16,
        run: &[u8],
    ) -> io::Result<()> {
        transmitter.send_frames(to, usize::from(block_len), run, |block| {
            let frame = Frame::new(self.sequence, self.file_size, offset, block.len() as u16, self.hash);
            self.sequence = self.sequence.wrapping_add(1);
            offset += block.len() as u64;
            // The machine hands out runs within the file, of blocks that fit.
            frame.map_or([0; HEADER_LEN], |frame| frame.to_bytes())
        })
    }
}

/// Takes frames of one file, that of the first frame.
#[derive(Debug)]
pub(crate) struct FrameCollector {
    receiver: DatagramReceiver,
    file: FileId,
    name: String,
    /// Size and hash of the file.
    expected: Option<(u64, [u8; 32])>,
    /// The last hash of what has come was wrong, and another kind of hash is computed.
    is_hashed_otherwise: bool,
    items: Vec<Item>,
    /// Bytes taken from the socket so far.
    taken: u64,
    /// The number behind the last frame's, for each socket by its descriptor. Each group numbers for itself, with 16 bits.
    next: BTreeMap<RawFd, u32>,
    arrivals: Vec<Arrived>,
}

impl FrameCollector {
    /// Creates a collector whose file gets the name `name`. Frames do not name their session.
    pub fn new(receiver: DatagramReceiver, session: SessionId, name: String) -> Self {
        let file = FileId::new(session, 0);
        Self {
            receiver,
            file,
            name,
            expected: None,
            is_hashed_otherwise: false,
            items: Vec::new(),
            taken: 0,
            next: BTreeMap::new(),
            arrivals: Vec::new(),
        }
    }

    /// The number of bytes taken from the socket so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Exchanges buffers with `spare`, as [`DatagramReceiver::swap`] does.
    pub fn swap(&mut self, spare: &mut Spare) {
        self.receiver.swap(spare);
    }

    /// Notes that the computed hash differs from the frames' hash. Returns whether another kind of hash can be
    /// tried, because frames do not say which kind they have.
    pub fn hashes_otherwise(&mut self) -> bool {
        self.is_hashed_otherwise = !self.is_hashed_otherwise;
        self.is_hashed_otherwise
    }

    pub fn receiver(&self) -> &DatagramReceiver {
        &self.receiver
    }

    /// Receives what one call to the kernel yields: blocks into the batch, and, with the first frame, the
    /// file's size and hash. Returns false if there is nothing.
    pub fn receive(&mut self, batch: &mut Batch) -> io::Result<bool> {
        let Self { receiver, file, name, expected, items, taken, next, arrivals, .. } = self;
        let next = next.entry(receiver.socket().as_raw_fd()).or_default();
        receiver.receive(|_, datagram| {
            *taken += datagram.len() as u64;
            let Ok((frame, data)) = Frame::parse(datagram) else { return };
            let described = (frame.file_size, frame.hash);
            if expected.is_none()
                && let Ok(inputs) = iotup_inputs(*file, name, &frame)
            {
                *expected = Some(described);
                items.extend(inputs.into_iter().filter_map(message));
            }
            if *expected == Some(described) {
                let first = continued(*next, frame.sequence);
                *next = first.wrapping_add(1);
                note_arrival(arrivals, first);
            }
            if *expected != Some(described) || data.len() > batch.room() {
                return;
            }
            batch.push_block(*file, frame.range().start, data);
        })
    }

    /// Takes the numbers of the frames that have come.
    pub fn take_arrivals(&mut self) -> Vec<(SessionId, Arrived)> {
        let session = self.file.session();
        self.arrivals.drain(..).map(|arrived| (session, arrived)).collect()
    }

    /// Takes the announcement that the first frame contains. It is returned once.
    pub fn take_items(&mut self) -> Vec<Item> {
        std::mem::take(&mut self.items)
    }
}

/// The 32-bit number nearest to `next` that ends with these 16 bits.
fn continued(next: u32, sequence: u16) -> u32 {
    let ahead = sequence.wrapping_sub(next as u16).cast_signed();
    next.wrapping_add_signed(ahead.into())
}

/// Lengthens the last run when the frame continues it.
fn note_arrival(arrivals: &mut Vec<Arrived>, first: u32) {
    match arrivals.last_mut() {
        Some(run) if run.first.wrapping_add(run.count) == first => run.count += 1,
        _ => arrivals.push(Arrived { first, count: 1, marked: false }),
    }
}

fn message(input: ReceiverInput) -> Option<Item> {
    match input {
        ReceiverInput::Message { file, message, .. } => Some(Item::Message { file, message }),
        _ => None,
    }
}
