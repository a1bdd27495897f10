//! A whole receiver of a session, fed a stream of hostile packets over the group and over its connection, with hashes,
//! disks and timers as unkind as they can be: it neither panics nor runs for ever, and what it wants stored is new.
#![no_main]

use std::{collections::BTreeMap, ops::Range, time::Duration};

use libfuzzer_sys::fuzz_target;
use treecast_proto::{object::{Channel, ReceiverEvent, ReceiverInput, ReceiverTransmit, Response}, 
    Instant, Step,
    object::chunks::{CHUNK_LEN, Chunks},
    vcmtp::{Notification, Receiver, ReceiverConfig, Repair},
};
use treecast_wire::{
    header::{FileId, HEADER_LEN, Header, PacketType, SessionId},
    message::Message,
};

const SESSION: SessionId = SessionId(7);

/// More effects than any one input can have without a loop that does not end.
const MAX_STEPS: usize = 100_000;

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, mut rest)) = bytes.split_first() else { return };
    let mut world = World::new(kind);
    while let Some((&operation, after)) = rest.split_first() {
        rest = world.carry_out(operation, after);
    }
    world.handle(ReceiverInput::Close { reason: "it was told to stop".into() });
});

struct World {
    machine: Receiver,
    now: Instant,
    /// What was stored of each object; nothing may be stored twice.
    stored: BTreeMap<FileId, Vec<Range<u64>>>,
    sizes: BTreeMap<FileId, u64>,
}

impl World {
    fn new(kind: u8) -> Self {
        let config = ReceiverConfig {
            session: SESSION,
            repair: [Repair::Nack, Repair::After, Repair::None][usize::from(kind % 3)],
            fec: kind & 8 != 0,
            resumes: false,
            block_len: 512,
            notification: if kind & 4 == 0 { Notification::Batched } else { Notification::PerFile },
            progress_bytes: 1 << 16,
            progress_interval: Duration::from_millis(200),
            keepalive: Duration::from_secs(5),
            stall_limit: Duration::from_secs(300),
            digest_from_group: kind & 16 != 0,
        };
        let (stored, sizes) = (BTreeMap::new(), BTreeMap::new());
        let mut world = Self { machine: Receiver::new(config), now: Instant::ZERO, stored, sizes };
        world.handle(ReceiverInput::Connected);
        world
    }

    /// Carries out one operation, and returns the bytes behind it.
    fn carry_out<'a>(&mut self, operation: u8, bytes: &'a [u8]) -> &'a [u8] {
        let file = FileId::new(SESSION, u32::from(operation >> 4));
        match operation & 15 {
            0..=9 => {
                return self
                    .packet(if operation & 1 == 0 { Channel::Group } else { Channel::Control }, bytes);
            }
            10 => self.now += Duration::from_millis(u64::from(operation >> 4) * 100),
            11 => self.handle(ReceiverInput::Hashed { file, hash: [7; 32] }),
            12 => self.handle(ReceiverInput::StoreFailed { file, reason: "full".into() }),
            13 => self.handle(ReceiverInput::Dropped { total: u64::from(operation) }),
            14 => self.handle(ReceiverInput::Respond { file, response: Response::Ignore }),
            _ => self.handle(ReceiverInput::Disconnected { reason: "gone".into() }),
        }
        self.settle();
        bytes
    }

    /// A packet whose session is right and whose length is what is there, so that most get past the parser.
    fn packet<'a>(&mut self, from: Channel, bytes: &'a [u8]) -> &'a [u8] {
        let Some((head, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else { return &[] };
        let mut head = *head;
        head[..4].copy_from_slice(&SESSION.0.to_be_bytes());
        let Ok(header) = Header::parse(&head) else { return rest };
        if header.kind.is_block() {
            let range = header.sequence..header.sequence + u64::from(header.payload_len);
            if header.kind == PacketType::RepairSymbol {
                let (file, positions) = (header.file_id, range);
                self.handle(ReceiverInput::Symbols { from, file, positions });
                return rest;
            }
            self.handle(ReceiverInput::Blocks { from, file: header.file_id, range });
            return rest;
        }
        let (payload, rest) = rest.split_at(rest.len().min(header.payload_len as usize));
        if let Ok(message) = Message::parse(&header, payload) {
            self.handle(ReceiverInput::Message { from, file: header.file_id, message });
        }
        rest
    }

    fn handle(&mut self, input: ReceiverInput) {
        self.machine.handle(self.now, input);
        self.settle();
    }

    fn settle(&mut self) {
        for _ in 0..MAX_STEPS {
            match self.machine.poll(self.now) {
                Step::Transmit(
                    ReceiverTransmit::Store { file, range } | ReceiverTransmit::Overwrite { file, range },
                ) => self.store(file, range),
                Step::Transmit(ReceiverTransmit::Decode { file, source_block, .. }) => {
                    let is_right = source_block % 3 != 2;
                    self.machine.handle(self.now, ReceiverInput::Decoded { file, source_block, is_right });
                }
                // Of each page, its first chunk is wrong; every third page is no part of the object.
                Step::Transmit(ReceiverTransmit::CheckChunks { file, page, .. }) => {
                    let (page, size) = (page.page(), self.sizes.get(&file).copied().unwrap_or_default());
                    let chunk = Chunks::new(size).map(|chunks| chunks.page_bytes(page).start);
                    let wrong = chunk.map(|start| start..(start + CHUNK_LEN).min(size));
                    let wrong = (page % 3 != 2).then(|| Vec::from_iter(wrong));
                    self.machine.handle(self.now, ReceiverInput::Checked { file, page, wrong });
                }
                Step::Transmit(ReceiverTransmit::Announce { file, begin }) => {
                    self.sizes.insert(file, begin.file_size);
                }
                Step::Transmit(ReceiverTransmit::Commit { file }) => {
                    self.machine.handle(self.now, ReceiverInput::Committed { file });
                }
                // After a wrong hash it is stored anew, over what is there.
                Step::Transmit(ReceiverTransmit::Discard { file } | ReceiverTransmit::Hash { file }) => {
                    self.stored.remove(&file);
                }
                Step::Event(
                    ReceiverEvent::Announced { file, .. } | ReceiverEvent::EndOfFileOnly { file },
                ) => {
                    self.machine
                        .handle(self.now, ReceiverInput::Respond { file, response: Response::Accept });
                }
                Step::Transmit(ReceiverTransmit::DrainGroup) => {
                    self.machine.handle(self.now, ReceiverInput::Drained);
                }
                Step::Transmit(_) | Step::Event(_) => {}
                Step::Wait(..) => return,
            }
        }
        panic!("it does not come to rest");
    }

    fn store(&mut self, file: FileId, range: Range<u64>) {
        assert!(range.start < range.end);
        let stored = self.stored.entry(file).or_default();
        assert!(
            stored.iter().all(|other| other.end <= range.start || range.end <= other.start),
            "{range:?} of {file} is stored twice"
        );
        stored.push(range);
    }
}
