//! The content that a [`super::Collector`] receives: runs of blocks, side by side in one buffer, and messages between
//! them, in the order of their arrival.

use std::{io, ops::Range};

use treecast_proto::tfmcc::Arrived;
use treecast_wire::{
    ParseError,
    datagram::next_packet,
    header::{FileId, HEADER_LEN, Header, PacketType, SessionId},
    message::{MAX_ZEROS_LEN, Message, Pace},
};

use super::arrivals::{Arrivals, Stamp};

/// Bytes of blocks that a batch has room for: a few super-packets, so that hashing and writing go in
/// large pieces, and little enough to stay in a core's second-level cache.
pub const BATCH_LEN: usize = 256 * 1024;

/// The place in [`Batch::bytes`] of blocks that came as [`Message::Zeros`]. Nothing is ever received there.
const ZEROS_AT: usize = BATCH_LEN;

/// Whether the blocks at this place of [`Batch::bytes`] came as [`Message::Zeros`].
pub(crate) fn are_zeros(at: usize) -> bool {
    at >= ZEROS_AT
}

/// The longest list of items that is used again: each of many batches may keep one.
const MAX_SPARE_ITEMS: usize = 512;

/// One thing that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// The bytes `range` of an object; they lie at `at` in [`Batch::bytes`].
    Blocks {
        file: FileId,
        range: Range<u64>,
        at: usize,
    },
    /// Repair symbols by their sequence numbers, and where they lie as blocks do.
    Symbols {
        file: FileId,
        positions: Range<u64>,
        at: usize,
    },
    Message {
        file: FileId,
        message: Message,
    },
    /// The sender's word about its rate, with the number of the packet and the kernel's stamp.
    Pace {
        file: FileId,
        pace: Pace,
        number: u32,
        stamp: Stamp,
    },
}

/// The bytes of the packet that has just been handled: blocks without a gap between them, or symbols.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtHand {
    /// Their position in the object, or among its symbols.
    pub start: u64,
    /// Their position in the batch.
    pub at: usize,
}

impl AtHand {
    /// The position of a part of them in the batch.
    pub fn place(self, part: &Range<u64>) -> Option<usize> {
        Some(self.at + usize::try_from(part.start.checked_sub(self.start)?).ok()?)
    }
}

/// A buffer for blocks and the list of what is in it.
#[derive(Debug)]
pub struct Batch {
    buffer: Box<[u8]>,
    used: usize,
    items: Vec<Item>,
    arrivals: Arrivals,
    /// The number of the datagram that is being taken apart.
    number: u32,
    malformed: u64,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            buffer: vec![0; BATCH_LEN + MAX_ZEROS_LEN as usize].into(),
            used: 0,
            items: Vec::new(),
            arrivals: Arrivals::default(),
            number: 0,
            malformed: 0,
        }
    }
}

impl Batch {
    /// Forgets what is in it; the buffer stays.
    pub fn clear(&mut self) {
        self.used = 0;
        self.items.clear();
        self.malformed = 0;
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Takes the list of what came in, oldest first; the blocks' bytes stay until [`Batch::clear`].
    pub fn take_items(&mut self) -> Vec<Item> {
        std::mem::take(&mut self.items)
    }

    /// Takes back a list that is done with, unless it has become long: about as many come the next time.
    pub fn take_back(&mut self, mut items: Vec<Item>) {
        items.clear();
        if self.items.is_empty() && items.capacity() <= MAX_SPARE_ITEMS {
            self.items = items;
        }
    }

    /// Takes the numbers of the packets that were received, by session.
    pub fn take_arrivals(&mut self) -> Vec<(SessionId, Arrived)> {
        self.arrivals.take()
    }

    /// Sets the stamp of the packets that are received next.
    pub(super) fn begin(&mut self, stamp: Stamp) {
        self.arrivals.begin(stamp);
    }

    /// The buffer that [`Item::Blocks`] points into.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Returns how many bytes of blocks are in the batch.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Takes the number of packets that were dropped because they were no packets of treecast.
    pub fn take_malformed(&mut self) -> u64 {
        std::mem::take(&mut self.malformed)
    }

    /// Returns how many bytes of blocks still fit into the batch.
    pub fn room(&self) -> usize {
        BATCH_LEN - self.used
    }

    /// Appends a block that lies elsewhere. The caller has seen to it that [`Batch::room`] suffices.
    pub fn push_block(&mut self, file: FileId, sequence: u64, block: &[u8]) {
        let at = self.used;
        self.buffer[at..at + block.len()].copy_from_slice(block);
        self.add_blocks(file, sequence, at, block.len());
    }

    /// Adds the payload of a packet with this header, as [`Batch::push_block`] adds a block.
    pub fn push_payload(&mut self, header: &Header, payload: &[u8]) {
        let at = self.used;
        self.buffer[at..at + payload.len()].copy_from_slice(payload);
        self.add_payload(header, at, payload.len());
    }

    /// Appends what one read from a stream yields, as far as it fits, as a block that begins at `sequence`. Returns the
    /// number of bytes. 0 is the stream's end.
    ///
    /// # Errors
    /// The error of the stream.
    pub fn read_block(&mut self, file: FileId, sequence: u64, from: &mut impl io::Read) -> io::Result<usize> {
        let at = self.used;
        let len = from.read(&mut self.buffer[at..BATCH_LEN])?;
        self.add_blocks(file, sequence, at, len);
        Ok(len)
    }

    /// The place for the next block, and all the room behind it.
    pub(super) fn free(&mut self) -> &mut [u8] {
        &mut self.buffer[self.used..BATCH_LEN]
    }

    /// The bytes that have been received at `at`, behind all that is used, and that are to be opened before they are
    /// added.
    pub(super) fn received_mut(&mut self, at: usize, len: usize) -> &mut [u8] {
        &mut self.buffer[at..at + len]
    }

    /// Takes note of one datagram whose payload has been received in place, at `at`.
    pub(super) fn add_received(&mut self, header: &[u8; HEADER_LEN], at: usize, payload_len: usize) {
        let Some(header) = self.check(header, payload_len) else { return };
        let (mut rest, end) = (at + header.payload_len as usize, at + payload_len);
        self.add_in_place(&header, at..rest);
        while rest < end {
            match next_packet(&self.buffer[rest..end]) {
                Ok(Some((header, len))) => {
                    self.add_in_place(&header, rest + HEADER_LEN..rest + len);
                    rest += len;
                }
                Ok(None) => return,
                Err(_) => return self.malformed += 1,
            }
        }
    }

    fn add_in_place(&mut self, header: &Header, payload: Range<usize>) {
        if header.kind.is_block() {
            self.add_payload(header, payload.start, payload.len());
            return;
        }
        let parsed = Message::parse(header, &self.buffer[payload]);
        self.add_message(header, parsed);
    }

    fn add_message(&mut self, header: &Header, parsed: Result<Message, ParseError>) {
        let file = header.file_id;
        match parsed {
            Ok(Message::Zeros(zeros)) => self.push_zeros(file, zeros.range()),
            Ok(Message::Pace(pace)) => {
                let (number, stamp) = (self.number, self.arrivals.stamp());
                self.items.push(Item::Pace { file, pace, number, stamp });
            }
            Ok(message) => self.items.push(Item::Message { file, message }),
            Err(_) => self.malformed += 1,
        }
    }

    /// Adds blocks that are all zero, at most [`MAX_ZEROS_LEN`] bytes. They take no room.
    pub fn push_zeros(&mut self, file: FileId, range: Range<u64>) {
        self.items.push(Item::Blocks { file, range, at: ZEROS_AT });
    }

    /// Takes one whole datagram that has been received elsewhere.
    pub(super) fn add_datagram(&mut self, datagram: &[u8]) {
        let Some((header, payload)) = datagram.split_first_chunk::<HEADER_LEN>() else {
            self.malformed += 1;
            return;
        };
        let Some(header) = self.check(header, payload.len()) else { return };
        let (payload, mut rest) = payload.split_at(header.payload_len as usize);
        self.add_elsewhere(&header, payload);
        while !rest.is_empty() {
            match next_packet(rest) {
                Ok(Some((header, len))) => {
                    self.add_elsewhere(&header, &rest[HEADER_LEN..len]);
                    rest = &rest[len..];
                }
                Ok(None) => return,
                Err(_) => return self.malformed += 1,
            }
        }
    }

    fn add_elsewhere(&mut self, header: &Header, payload: &[u8]) {
        if header.kind.is_block() && payload.len() <= self.room() {
            self.push_payload(header, payload);
            return;
        }
        self.add_message(header, Message::parse(header, payload));
    }

    /// Counts a datagram that cannot be used.
    pub(super) fn add_malformed(&mut self) {
        self.malformed += 1;
    }

    /// The header of a datagram's first packet, which `len` bytes follow.
    fn check(&mut self, header: &[u8; HEADER_LEN], len: usize) -> Option<Header> {
        let header = Header::parse(header).ok().filter(|header| header.payload_len as usize <= len);
        if let Some(header) = &header {
            self.number = header.number;
            self.arrivals.add(header);
        } else {
            self.malformed += 1;
        }
        header
    }

    fn add_payload(&mut self, header: &Header, at: usize, len: usize) {
        self.add_run(header.kind == PacketType::RepairSymbol, header.file_id, header.sequence, at, len);
    }

    fn add_blocks(&mut self, file: FileId, sequence: u64, at: usize, len: usize) {
        self.add_run(false, file, sequence, at, len);
    }

    /// Lengthens the last run when the block or symbol continues it, in the object and in the buffer.
    fn add_run(&mut self, are_symbols: bool, file: FileId, sequence: u64, at: usize, len: usize) {
        let end = sequence + len as u64;
        self.used = at + len;
        if let (Some(Item::Blocks { file: last_file, range, at: last_at }), false)
        | (Some(Item::Symbols { file: last_file, positions: range, at: last_at }), true) =
            (self.items.last_mut(), are_symbols)
        {
            let last_end = *last_at + (range.end - range.start) as usize;
            if *last_file == file && range.end == sequence && last_end == at {
                range.end = end;
                return;
            }
        }
        match are_symbols {
            _ if len == 0 => {}
            true => self.items.push(Item::Symbols { file, positions: sequence..end, at }),
            false => self.items.push(Item::Blocks { file, range: sequence..end, at }),
        }
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::message::Zeros;

    use super::*;

    fn header(sequence: u64, payload_len: u32) -> [u8; HEADER_LEN] {
        Header { file_id: FileId(7), sequence, payload_len, kind: PacketType::Data, number: 0 }.to_bytes()
    }

    #[test]
    fn consecutive_blocks_become_one_run() {
        let mut batch = Batch::default();
        batch.add_received(&header(100, 100), 0, 100);
        batch.add_received(&header(200, 100), 100, 100);
        batch.add_received(&header(400, 50), 200, 50);
        let expected = [
            Item::Blocks { file: FileId(7), range: 100..300, at: 0 },
            Item::Blocks { file: FileId(7), range: 400..450, at: 200 },
        ];
        assert_eq!(batch.take_items(), expected);
        assert_eq!((batch.used(), batch.take_malformed()), (250, 0));
    }

    #[test]
    fn a_list_of_items_is_used_again_unless_it_has_become_long() {
        let mut batch = Batch::default();
        for (room, is_kept) in [(MAX_SPARE_ITEMS, true), (MAX_SPARE_ITEMS + 1, false)] {
            batch.take_back(Vec::with_capacity(room));
            assert_eq!(batch.take_items().capacity() >= room, is_kept);
        }
    }

    #[test]
    fn symbols_are_no_blocks() {
        let mut batch = Batch::default();
        let symbol = |sequence| Header::new(PacketType::RepairSymbol, FileId(7), sequence, 100);
        batch.add_received(&header(100, 100), 0, 100);
        batch.add_received(&symbol(200).to_bytes(), 100, 100);
        batch.push_payload(&symbol(300), &[1; 100]);
        let expected = [
            Item::Blocks { file: FileId(7), range: 100..200, at: 0 },
            Item::Symbols { file: FileId(7), positions: 200..400, at: 100 },
        ];
        assert_eq!(batch.take_items(), expected);
    }

    #[test]
    fn what_stands_behind_a_packet_counts_up_to_the_zeros() {
        let end = Message::EndOfFile.to_packet(FileId(7));
        let more = [&end[..], &header(0, 20), &[5; 20]].concat();
        let padded = [&more[..], &[0; 40]].concat();
        let expected = [
            Item::Blocks { file: FileId(7), range: 100..150, at: 0 },
            Item::Message { file: FileId(7), message: Message::EndOfFile },
            Item::Blocks { file: FileId(7), range: 0..20, at: 50 + 64 },
        ];
        let mut batch = Batch::default();
        for behind in [&padded, &more] {
            batch.received_mut(50, behind.len()).copy_from_slice(behind);
            batch.add_received(&header(100, 50), 0, 50 + behind.len());
            assert_eq!(batch.take_items(), expected);
            batch.clear();
        }
        batch.add_datagram(&[&header(100, 50)[..], &[1; 50], &padded].concat());
        assert_eq!(batch.take_items().len(), 3);
        batch.add_datagram(&[&header(100, 50)[..], &[1; 50], &end[..31]].concat());
        assert_eq!((batch.take_items().len(), batch.take_malformed()), (1, 1));
    }

    #[test]
    fn a_run_of_zeros_is_blocks_and_takes_no_room() {
        let mut batch = Batch::default();
        let zeros = |range| Message::Zeros(Zeros::new(range).unwrap()).to_packet(FileId(7));
        batch.add_received(&header(0, 100), 0, 100);
        batch.add_datagram(&zeros(100..100 + MAX_ZEROS_LEN));
        batch.add_datagram(&zeros(100 + MAX_ZEROS_LEN..100 + MAX_ZEROS_LEN + 1));
        let items = batch.take_items();
        assert_eq!((items.len(), batch.used(), batch.take_malformed()), (3, 100, 0));
        let Item::Blocks { range, at, .. } = &items[1] else { panic!("{items:?}") };
        assert_eq!(*range, 100..100 + MAX_ZEROS_LEN);
        assert!(
            batch.bytes()[*at..].len() as u64 == MAX_ZEROS_LEN
                && batch.bytes()[*at..].iter().all(|byte| *byte == 0)
        );
        let mut longer = zeros(0..MAX_ZEROS_LEN);
        longer[HEADER_LEN + 13] += 1;
        batch.add_datagram(&longer);
        assert_eq!((batch.take_items(), batch.take_malformed()), (vec![], 1));
    }

    #[test]
    fn a_wrong_length_is_counted_and_leaves_a_gap() {
        let mut batch = Batch::default();
        batch.add_received(&header(0, 100), 0, 100);
        batch.add_received(&header(100, 101), 100, 100);
        batch.add_received(&header(200, 100), 200, 100);
        assert_eq!(batch.take_items().len(), 2);
        assert_eq!(batch.take_malformed(), 1);
    }
}
