//! The carousel's receiver.

mod checking;
mod leaving;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Range,
    time::Duration,
};

use treecast_wire::{
    header::{FileId, SessionId},
    message::{BeginOfFile, ChunkHashes, MAX_OBJECTS, Message},
};

use self::leaving::LEAVING;
use super::object::{Object, Phase};
use crate::{
    Instant, Step,
    fec::{Gatherer, Layout},
};

/// The most objects that are noted and not announced: anybody can write to a group.
const MAX_UNANNOUNCED: usize = 64;

/// How much is kept of them in all, in bytes; a carousel says again what an object is long before that.
const EARLY_BYTES: u64 = 16 << 20;

/// The most objects that are announced and not there, each of which is a file. Others have to wait for a later
/// loop.
const MAX_UNFINISHED: usize = 1024;

/// How many times the hash of an object may be wrong whose wrong chunks alone are taken again: a disk that keeps nothing
/// right must not be tried for ever.
const MAX_CHECKS: u32 = 20;

/// The most memory for all objects' sets of blocks, in chunks of about 600 bytes.
const MAX_CHUNKS: usize = 131_072;

#[derive(Debug, Clone)]
pub struct ReceiverConfig {
    pub session: SessionId,
    /// Bytes of an object in each packet but the last.
    pub block_len: u16,
    /// Whether the sender sends repair symbols.
    pub fec: bool,
    /// Whether the sender sends chunk hashes.
    pub has_chunk_hashes: bool,
    /// How many times an object's hash may be wrong before it is given up, where nothing tells which part of it is.
    pub hash_attempts: u32,
    /// How long the sender may be silent; none waits for ever.
    pub patience: Option<Duration>,
}

/// Something that has happened at the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiverInput {
    Message {
        file: FileId,
        message: Message,
    },
    /// Blocks of one object came in, without a gap between them (a super-packet is one input).
    Blocks {
        file: FileId,
        range: Range<u64>,
    },
    /// Repair symbols of one source block came in, without a gap between them, by their sequence numbers.
    Symbols {
        file: FileId,
        positions: Range<u64>,
    },
    /// These bytes of an announced object are stored already, from before this receiver was started.
    Have {
        file: FileId,
        ranges: Vec<Range<u64>>,
    },
    /// A source block has been decoded and its missing blocks are stored, or it could not be decoded.
    Decoded {
        file: FileId,
        source_block: u32,
        is_right: bool,
    },
    /// Everything of the object is stored, and this is its BLAKE3 hash.
    Hashed {
        file: FileId,
        hash: [u8; 32],
    },
    /// The answer to [`ReceiverTransmit::CheckChunks`], as [`crate::vcmtp::ReceiverInput::Checked`].
    Checked {
        file: FileId,
        page: u32,
        wrong: Option<Vec<Range<u64>>>,
    },
    /// The file has its final name.
    Committed {
        file: FileId,
    },
    /// Storing or committing failed for good (disk full, name refused).
    StoreFailed {
        file: FileId,
        reason: String,
    },
    /// The application does not want the object.
    Ignore {
        file: FileId,
    },
    /// All that is known of the object was said by somebody else than the sender: it is as if never heard of.
    Disown {
        file: FileId,
    },
    /// Enough.
    Close,
}

/// Something for the caller to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiverTransmit {
    /// The object's size and name are known: its file may be sized and will be called so.
    Announce { file: FileId, begin: BeginOfFile },
    /// Keep these bytes of the [`ReceiverInput::Blocks`] just handled. With `compare`, there are
    /// bytes already, some of them wrong: only those that differ need be written (A.3).
    Store { file: FileId, range: Range<u64>, compare: bool },
    /// Keep these of the [`ReceiverInput::Symbols`] just handled. Of one object, no more are kept than it has blocks.
    KeepSymbols { file: FileId, source_block: u32, positions: Range<u64> },
    /// As [`crate::vcmtp::ReceiverTransmit::Decode`].
    Decode { file: FileId, source_block: u32, blocks: Range<u64>, missing: Vec<Range<u64>> },
    /// Forget all symbols that are kept of the object.
    ForgetSymbols { file: FileId },
    /// All bytes are stored: compute the hash, meanwhile go on, and hand it back.
    Hash { file: FileId },
    /// As [`crate::vcmtp::ReceiverTransmit::CheckChunks`].
    CheckChunks { file: FileId, hash: [u8; 32], page: ChunkHashes },
    /// The hash is right: give the file its final name, and say so ([`ReceiverInput::Committed`]).
    Commit { file: FileId },
    /// Throw away all that is stored of the object.
    Discard { file: FileId },
}

/// Something to tell the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// Complete, right and committed.
    Received {
        file: FileId,
        begin: BeginOfFile,
    },
    Failed {
        file: FileId,
        reason: String,
    },
    /// The session is over for this receiver: it may leave the group. With a reason, it did not get
    /// all objects.
    Closed {
        reason: Option<String>,
    },
}

/// What the receiver waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverWait {
    /// Anything from the sender.
    Sender,
    /// The hash of an object, or its commit.
    Storage,
    Closed,
}

/// How far a receiver has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// How many objects there are, once that is known.
    pub objects: Option<u32>,
    /// How many of them are received or given up.
    pub ended_objects: u32,
    /// Size of all objects that are announced, in bytes.
    pub announced_bytes: u64,
    /// What is there of all objects, in bytes.
    pub received_bytes: u64,
    /// Blocks that came again.
    pub duplicate_blocks: u64,
    /// Repair symbols kept, and blocks computed from them.
    pub repair_symbols: u64,
    pub decoded_blocks: u64,
    /// Chunks that were there, wrong, and are taken again.
    pub wrong_chunks: u64,
}

/// One receiver of a carousel. Call order: see the crate's documentation; poll to the end after every
/// [`ReceiverInput::Blocks`], while the packet's bytes are still at hand.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    objects: BTreeMap<u32, Object>,
    /// How many objects there are.
    expected: Option<u32>,
    ended: u32,
    duplicate_blocks: u64,
    repair_symbols: u64,
    decoded_blocks: u64,
    wrong_chunks: u64,
    /// Chunks of memory that all objects' sets of blocks take, at most.
    chunks: usize,
    last_heard: Option<Instant>,
    /// Objects that the caller is hashing or committing.
    busy: BTreeSet<u32>,
    /// When a sender has said Goodbye, unless something has come since.
    goodbye: Option<Instant>,
    /// Why the sender will send nothing more.
    over: Option<String>,
    closed: bool,
    steps: VecDeque<Step<ReceiverTransmit, ReceiverEvent, ReceiverWait>>,
}

impl Receiver {
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            config,
            objects: BTreeMap::new(),
            expected: None,
            ended: 0,
            duplicate_blocks: 0,
            repair_symbols: 0,
            decoded_blocks: 0,
            wrong_chunks: 0,
            chunks: 0,
            last_heard: None,
            busy: BTreeSet::new(),
            goodbye: None,
            over: None,
            closed: false,
            steps: VecDeque::new(),
        }
    }

    pub fn handle(&mut self, now: Instant, input: ReceiverInput) {
        if self.closed {
            return;
        }
        match input {
            ReceiverInput::Message { file, message } if file.session() == self.config.session => {
                self.hear(now, message == Message::Goodbye);
                self.on_message(file, message);
            }
            ReceiverInput::Blocks { file, range } if file.session() == self.config.session => {
                self.hear(now, false);
                self.on_blocks(file, range);
            }
            ReceiverInput::Symbols { file, positions } if file.session() == self.config.session => {
                self.hear(now, false);
                self.on_symbols(file, &positions);
            }
            ReceiverInput::Decoded { file, source_block, is_right } => {
                self.on_decoded(file, source_block, is_right);
            }
            // Another session on the same group and port.
            ReceiverInput::Message { .. } | ReceiverInput::Blocks { .. } | ReceiverInput::Symbols { .. } => {}
            ReceiverInput::Have { file, ranges } => self.on_have(file, ranges),
            ReceiverInput::Hashed { file, hash } => self.on_hashed(file, hash),
            ReceiverInput::Checked { file, page, wrong } => self.on_checked(file, page, wrong.as_deref()),
            ReceiverInput::StoreFailed { file, reason } => self.fail(file, reason),
            ReceiverInput::Committed { file } => self.on_committed(file),
            ReceiverInput::Ignore { file } => drop(self.give_up(file)),
            ReceiverInput::Disown { file } => self.disown(file),
            ReceiverInput::Close => self.over = Some("it was told to stop".into()),
        }
        self.close_when_done();
    }

    pub fn poll(&mut self, now: Instant) -> Step<ReceiverTransmit, ReceiverEvent, ReceiverWait> {
        let deadline = self.deadline(now);
        if deadline.is_some_and(|deadline| now >= deadline) {
            let patience = self.config.patience.unwrap_or_default();
            self.over = Some(match self.goodbye {
                Some(_) => "the sender has stopped".to_owned(),
                None => format!("nothing has come from the sender for {} s", patience.as_secs_f64()),
            });
            self.close_when_done();
        }
        if let Some(step) = self.steps.pop_front() {
            return step;
        }
        match (self.closed, self.busy.is_empty()) {
            (true, _) => Step::Wait(None, ReceiverWait::Closed),
            (false, false) => Step::Wait(deadline, ReceiverWait::Storage),
            (false, true) => Step::Wait(deadline, ReceiverWait::Sender),
        }
    }

    /// What an object that is not complete was announced as.
    pub fn announced(&self, file: FileId) -> Option<&BeginOfFile> {
        let object = self.objects.get(&file.index()).filter(|_| file.session() == self.config.session)?;
        object.begin.as_ref().filter(|_| object.phase != Phase::Ended)
    }

    /// The hash that an object should have.
    pub fn digest(&self, file: FileId) -> Option<[u8; 32]> {
        self.objects.get(&file.index())?.digest
    }

    pub fn progress(&self) -> Progress {
        let announced = self.objects.values().filter_map(|object| object.begin.as_ref());
        Progress {
            objects: self.expected,
            ended_objects: self.ended,
            announced_bytes: announced.map(|begin| begin.file_size).fold(0, u64::saturating_add),
            received_bytes: self.objects.values().map(|o| o.stored.bytes()).fold(0, u64::saturating_add),
            duplicate_blocks: self.duplicate_blocks,
            repair_symbols: self.repair_symbols,
            decoded_blocks: self.decoded_blocks,
            wrong_chunks: self.wrong_chunks,
        }
    }

    /// When patience ends; not while the caller is hashing or committing.
    fn deadline(&mut self, now: Instant) -> Option<Instant> {
        let last_heard = *self.last_heard.get_or_insert(now);
        let silent = !self.closed && self.over.is_none() && self.busy.is_empty();
        let patience = self.config.patience.map(|patience| last_heard + patience);
        let goodbye = self.goodbye.map(|goodbye| goodbye + LEAVING);
        patience.into_iter().chain(goodbye).min().filter(|_| silent)
    }

    fn on_message(&mut self, file: FileId, message: Message) {
        match message {
            // A carousel does not shrink: of two that contradict each other, one is somebody else's, and the
            // receiver must not take a part for all.
            Message::Contents(contents) => self.expected = self.expected.max(Some(contents.objects())),
            Message::BeginOfFile(begin) => self.on_begin(file, begin),
            Message::Digest(digest) => {
                if let Some(object) = self.object(file) {
                    object.digest = Some(digest.hash);
                    self.check(file);
                }
            }
            Message::ChunkHashes(page) => self.on_chunk_hashes(file, page),
            Message::Withdraw(reason) => self.on_withdraw(file, &reason),
            // An end of file says nothing that the announcement does not; the others belong to VCMTP.
            _ => {}
        }
    }

    /// Notes what an object is. The first word counts: a carousel does not change its objects.
    fn on_begin(&mut self, file: FileId, begin: BeginOfFile) {
        if self.objects.get(&file.index()).is_some_and(|object| object.begin.is_some()) {
            return;
        }
        let layout = Layout::new(begin.file_size, self.config.block_len).filter(|_| self.config.fec);
        let is_unfinished = |object: &&Object| object.begin.is_some() && object.phase != Phase::Ended;
        let is_full = self.objects.values().filter(is_unfinished).count() >= MAX_UNFINISHED;
        let Some(object) = self.note(file, MAX_UNFINISHED).filter(|_| !is_full) else { return };
        if object.phase == Phase::Ended {
            return;
        }
        object.announce(begin.clone());
        object.gatherer = layout.map(Gatherer::new);
        self.transmit(ReceiverTransmit::Announce { file, begin });
        self.hash_when_complete(file);
    }

    /// What is there of an announced object from before.
    fn on_have(&mut self, file: FileId, ranges: Vec<Range<u64>>) {
        let takes = |object: &Object| object.begin.is_some() && object.phase == Phase::Receiving;
        let Some(object) = self.object(file).filter(|object| takes(object)) else { return };
        let chunks = object.chunks();
        for range in ranges {
            object.stored.add(range);
        }
        let more = object.chunks().saturating_sub(chunks);
        self.chunks += more;
        self.hash_when_complete(file);
    }

    fn on_blocks(&mut self, file: FileId, range: Range<u64>) {
        let (block_len, len) = (self.config.block_len, range.end.saturating_sub(range.start));
        let Some(object) = self.note(file, MAX_UNANNOUNCED) else { return };
        object.withdrawn = None;
        if object.phase != Phase::Receiving {
            self.duplicate_blocks += len.div_ceil(u64::from(block_len));
            return;
        }
        if object.begin.is_none() && self.early_bytes().saturating_add(len) > EARLY_BYTES {
            return;
        }
        if self.chunks >= MAX_CHUNKS {
            self.chunks = self.objects.values().map(Object::chunks).sum();
            if self.chunks >= MAX_CHUNKS {
                return;
            }
        }
        let Some(object) = self.objects.get_mut(&file.index()) else { return };
        let (compare, chunks) = (object.mismatches > 0, object.stored.chunks());
        let (new, had) = object.stored.add(range.clone());
        self.chunks += object.stored.chunks().saturating_sub(chunks);
        self.duplicate_blocks += had;
        for range in new {
            self.transmit(ReceiverTransmit::Store { file, range, compare });
        }
        self.decode_if_possible(file, &range);
        self.hash_when_complete(file);
    }

    fn on_symbols(&mut self, file: FileId, positions: &Range<u64>) {
        if self.chunks >= MAX_CHUNKS {
            self.chunks = self.objects.values().map(Object::chunks).sum();
        }
        let is_full = self.chunks >= MAX_CHUNKS;
        let takes_symbols =
            |object: &Object| object.phase == Phase::Receiving && object.check.is_none() && !is_full;
        let receiving = self.object(file).filter(|object| takes_symbols(object));
        let Some(object) = receiving else { return };
        object.withdrawn = None;
        let chunks = object.chunks();
        let Some(gatherer) = &mut object.gatherer else { return };
        let layout = gatherer.layout();
        let Some((source_block, symbols)) = layout.repair_symbols(positions) else { return };
        let there = object.stored.count(layout.blocks(source_block));
        let count = u64::from(symbols.end - symbols.start);
        let kept = gatherer.take(source_block, symbols, there);
        let kept_count: u64 = kept.iter().map(|kept| u64::from(kept.end - kept.start)).sum();
        self.chunks += self.objects.get(&file.index()).map_or(0, Object::chunks).saturating_sub(chunks);
        self.repair_symbols += kept_count;
        self.duplicate_blocks += count - kept_count;
        for symbols in kept {
            let positions = layout.positions(source_block, &symbols);
            self.transmit(ReceiverTransmit::KeepSymbols { file, source_block, positions });
        }
        self.decode(file, source_block);
    }

    fn on_decoded(&mut self, file: FileId, source_block: u32, is_right: bool) {
        let receiving = self.object(file).filter(|object| object.phase == Phase::Receiving);
        let Some(object) = receiving else { return };
        let Some(gatherer) = &mut object.gatherer else { return };
        if !gatherer.decoded(source_block, is_right) || !is_right {
            return;
        }
        let blocks = gatherer.layout().blocks(source_block);
        let count = blocks.end - blocks.start - object.stored.count(blocks.clone());
        gatherer.forget(source_block);
        for gap in object.stored.gaps(blocks) {
            object.stored.add(gap);
        }
        self.decoded_blocks += count;
        self.hash_when_complete(file);
    }

    /// Blocks came in: their source blocks may now have enough symbols.
    fn decode_if_possible(&mut self, file: FileId, range: &Range<u64>) {
        let Some(gatherer) = self.objects.get(&file.index()).and_then(|object| object.gatherer.as_ref())
        else {
            return;
        };
        let layout = gatherer.layout();
        let last = layout.source_block(range.end.saturating_sub(1) / layout.block_len());
        let source_blocks = layout.source_block(range.start / layout.block_len())..=last;
        let ready: Vec<u32> = source_blocks.filter(|block| gatherer.has_symbols(*block)).collect();
        for source_block in ready {
            self.decode(file, source_block);
        }
    }

    /// Has a source block decoded if there is enough of it.
    fn decode(&mut self, file: FileId, source_block: u32) {
        let Some(object) = self.objects.get_mut(&file.index()) else { return };
        let Some(gatherer) = &mut object.gatherer else { return };
        let blocks = gatherer.layout().blocks(source_block);
        if gatherer.decode(source_block, object.stored.count(blocks.clone())) {
            let missing = object.stored.gaps(blocks.clone());
            self.transmit(ReceiverTransmit::Decode { file, source_block, blocks, missing });
        }
    }

    fn hash_when_complete(&mut self, file: FileId) {
        let Some(object) = self.object(file) else { return };
        let is_checked = object.check.is_none();
        if object.phase == Phase::Receiving && is_checked && object.stored.is_complete() {
            object.phase = Phase::Hashing;
            self.busy.insert(file.index());
            self.transmit(ReceiverTransmit::Hash { file });
        }
    }

    fn on_hashed(&mut self, file: FileId, hash: [u8; 32]) {
        let object = self.object(file);
        let Some(object) = object.filter(|object| object.phase == Phase::Hashing) else { return };
        object.hashed = Some(hash);
        self.busy.remove(&file.index());
        self.check(file);
    }

    /// Compares the two hashes of an object once both are known.
    fn check(&mut self, file: FileId) {
        let (attempts, has_chunk_hashes) = (self.config.hash_attempts, self.has_chunk_hashes());
        let Some(object) = self.object(file) else { return };
        let (Phase::Hashing, Some(hashed), Some(digest)) = (object.phase, object.hashed, object.digest)
        else {
            return;
        };
        if hashed == digest {
            object.phase = Phase::Committing;
            self.busy.insert(file.index());
            return self.transmit(ReceiverTransmit::Commit { file });
        }
        object.mismatches += 1;
        let has_chunk_hashes = has_chunk_hashes && object.mismatches < MAX_CHECKS && object.doubt();
        if has_chunk_hashes || object.mismatches < attempts {
            if !has_chunk_hashes {
                object.start_again();
            }
            if object.gatherer.is_some() {
                self.transmit(ReceiverTransmit::ForgetSymbols { file });
            }
        } else {
            let times = object.mismatches;
            self.fail(file, format!("its hash has been wrong {times} times"));
        }
    }

    fn on_committed(&mut self, file: FileId) {
        let Some(object) = self.object(file).filter(|object| object.phase == Phase::Committing) else {
            return;
        };
        object.phase = Phase::Ended;
        let begin = object.begin.clone();
        self.busy.remove(&file.index());
        self.ended += 1;
        self.steps.extend(begin.map(|begin| Step::Event(ReceiverEvent::Received { file, begin })));
    }

    fn fail(&mut self, file: FileId, reason: String) {
        if self.give_up(file) {
            self.steps.push_back(Step::Event(ReceiverEvent::Failed { file, reason }));
        }
    }

    fn disown(&mut self, file: FileId) {
        let is_open = |object: &Object| matches!(object.phase, Phase::Receiving | Phase::Hashing);
        if !self.object(file).is_some_and(|object| is_open(object)) {
            return;
        }
        let object = self.objects.remove(&file.index());
        self.chunks = self.chunks.saturating_sub(object.map_or(0, |object| object.stored.chunks()));
        self.busy.remove(&file.index());
        self.transmit(ReceiverTransmit::Discard { file });
    }

    /// Ends an object without success; false when it has ended already.
    fn give_up(&mut self, file: FileId) -> bool {
        let object = self.object(file).filter(|object| object.phase != Phase::Ended);
        let Some(object) = object else { return false };
        object.phase = Phase::Ended;
        self.ended += 1;
        self.busy.remove(&file.index());
        self.transmit(ReceiverTransmit::Discard { file });
        true
    }

    /// Closes when every object has ended, or nothing more will come and no hash is awaited.
    fn close_when_done(&mut self) {
        if self.closed {
            return;
        }
        if self.expected.is_some_and(|expected| self.ended >= expected) {
            self.closed = true;
            self.steps.push_back(Step::Event(ReceiverEvent::Closed { reason: None }));
        } else if let Some(reason) = self.over.clone() {
            self.give_up_unfinished(&reason);
            if self.busy.is_empty() {
                self.closed = true;
                self.steps.push_back(Step::Event(ReceiverEvent::Closed { reason: Some(reason) }));
            }
        }
    }

    /// What needs more from the sender has failed; what is only being hashed has not.
    fn give_up_unfinished(&mut self, reason: &str) {
        let needs_more = |object: &Object| match object.phase {
            Phase::Receiving => true,
            Phase::Hashing => object.digest.is_none(),
            Phase::Committing | Phase::Ended => false,
        };
        let unfinished: Vec<u32> =
            self.objects.iter().filter(|(_, object)| needs_more(object)).map(|(index, _)| *index).collect();
        for index in unfinished {
            let withdrawn = self.objects.get(&index).and_then(|object| object.withdrawn.as_ref());
            let reason = withdrawn.map_or(reason, |(_, reason)| reason).to_owned();
            self.fail(FileId::new(self.config.session, index), reason);
        }
    }

    /// The object, noted when it is new; none when the carousel has no such object.
    fn object(&mut self, file: FileId) -> Option<&mut Object> {
        self.note(file, MAX_UNANNOUNCED)
    }

    /// As [`Self::object`]; a new one is noted only while fewer than `most` are not announced.
    fn note(&mut self, file: FileId, most: usize) -> Option<&mut Object> {
        let index = file.index();
        let is_new = !self.objects.contains_key(&index);
        if is_new {
            let is_unannounced = |object: &&Object| object.begin.is_none() && object.phase != Phase::Ended;
            let unannounced = self.objects.values().filter(is_unannounced).count();
            if index >= self.expected.unwrap_or(MAX_OBJECTS) || unannounced >= most {
                return None;
            }
        }
        (file.session() == self.config.session)
            .then(|| self.objects.entry(index).or_insert_with(|| Object::new(self.config.block_len)))
    }

    /// What is kept of objects that are not announced.
    fn early_bytes(&self) -> u64 {
        let early = self.objects.values().filter(|object| object.begin.is_none());
        early.map(|object| object.stored.bytes()).fold(0, u64::saturating_add)
    }

    fn transmit(&mut self, transmit: ReceiverTransmit) {
        self.steps.push_back(Step::Transmit(transmit));
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::message::{Contents, Digest, Reason, TransferType};

    use super::{
        leaving::{ECHO, WITHDRAWALS},
        *,
    };
    use crate::chunks::CHUNK_LEN;

    const NOW: Instant = Instant::ZERO;
    const FILE: FileId = FileId(9 << 32);
    const OTHER: FileId = FileId(9 << 32 | 1);

    type Taken = Vec<Step<ReceiverTransmit, ReceiverEvent, ReceiverWait>>;

    fn receiver() -> Receiver {
        receiver_of(10)
    }

    fn receiver_of(block_len: u16) -> Receiver {
        Receiver::new(ReceiverConfig {
            session: SessionId(9),
            block_len,
            fec: false,
            has_chunk_hashes: true,
            hash_attempts: 2,
            patience: Some(Duration::from_secs(30)),
        })
    }

    fn begin() -> BeginOfFile {
        BeginOfFile::new(TransferType::DiskToDisk, 95, "a").expect("a good name")
    }

    fn message(file: FileId, message: Message) -> ReceiverInput {
        ReceiverInput::Message { file, message }
    }

    fn contents(objects: u32) -> ReceiverInput {
        message(FILE, Message::Contents(Contents::new(objects).expect("few")))
    }

    fn digest(byte: u8) -> ReceiverInput {
        message(FILE, Message::Digest(Digest::unsigned([byte; 32])))
    }

    fn blocks(range: Range<u64>) -> ReceiverInput {
        ReceiverInput::Blocks { file: FILE, range }
    }

    fn hashed(byte: u8) -> ReceiverInput {
        ReceiverInput::Hashed { file: FILE, hash: [byte; 32] }
    }

    const COMMITTED: ReceiverInput = ReceiverInput::Committed { file: FILE };

    fn store(range: Range<u64>, compare: bool) -> Step<ReceiverTransmit, ReceiverEvent, ReceiverWait> {
        Step::Transmit(ReceiverTransmit::Store { file: FILE, range, compare })
    }

    fn failed(reason: &str) -> Step<ReceiverTransmit, ReceiverEvent, ReceiverWait> {
        Step::Event(ReceiverEvent::Failed { file: FILE, reason: reason.into() })
    }

    fn closed(reason: Option<&str>) -> Step<ReceiverTransmit, ReceiverEvent, ReceiverWait> {
        Step::Event(ReceiverEvent::Closed { reason: reason.map(str::to_owned) })
    }

    /// Hands in the inputs; returns all steps up to the next wait.
    fn take(receiver: &mut Receiver, now: Instant, inputs: impl IntoIterator<Item = ReceiverInput>) -> Taken {
        let mut taken = Vec::new();
        for input in inputs {
            receiver.handle(now, input);
            loop {
                match receiver.poll(now) {
                    Step::Wait(..) => break,
                    step => taken.push(step),
                }
            }
        }
        taken
    }

    #[test]
    fn joins_in_the_middle_and_stays_until_it_has_all() {
        let mut receiver = receiver();
        let early = take(&mut receiver, NOW, [blocks(50..80)]);
        assert_eq!(early, [store(50..80, false)]);
        let late = take(
            &mut receiver,
            NOW,
            [
                contents(1),
                message(FILE, Message::BeginOfFile(begin())),
                blocks(0..60),
                blocks(60..95),
                digest(7),
                hashed(7),
                COMMITTED,
            ],
        );
        let expected = [
            Step::Transmit(ReceiverTransmit::Announce { file: FILE, begin: begin() }),
            store(0..50, false),
            store(80..95, false),
            Step::Transmit(ReceiverTransmit::Hash { file: FILE }),
            Step::Transmit(ReceiverTransmit::Commit { file: FILE }),
            Step::Event(ReceiverEvent::Received { file: FILE, begin: begin() }),
            closed(None),
        ];
        assert_eq!(late, expected);
        assert_eq!(receiver.progress().duplicate_blocks, 3);
        assert_eq!(receiver.poll(NOW), Step::Wait(None, ReceiverWait::Closed));
    }

    #[test]
    fn a_part_is_not_taken_for_all_whoever_says_so() {
        let mut receiver = receiver();
        let whole =
            [message(FILE, Message::BeginOfFile(begin())), blocks(0..95), digest(7), hashed(7), COMMITTED];
        let steps = take(&mut receiver, NOW, [contents(3), contents(1)].into_iter().chain(whole));
        assert!(!steps.contains(&closed(None)), "{steps:?}");
        assert_eq!(receiver.progress().objects, Some(3));
        let reason = "the sender has stopped";
        assert_eq!(take(&mut receiver, NOW, [message(FILE, Message::Goodbye)]), []);
        assert_eq!(take(&mut receiver, NOW + LEAVING, []), []);
        assert_eq!(receiver.poll(NOW + LEAVING), closed(Some(reason)));
    }

    #[test]
    fn one_of_several_senders_that_goes_ends_nothing() {
        let mut receiver = receiver();
        let start = [contents(1), message(FILE, Message::BeginOfFile(begin())), digest(7), blocks(0..50)];
        take(&mut receiver, NOW, start);
        let goodbye = || message(FILE, Message::Goodbye);
        let gone = message(FILE, Message::Withdraw(Reason::new("gone")));
        take(&mut receiver, NOW, [goodbye(), gone.clone(), gone.clone(), goodbye(), blocks(50..60)]);
        assert_eq!(receiver.poll(NOW), Step::Wait(Some(NOW + LEAVING), ReceiverWait::Sender), "an echo");
        let later = NOW + ECHO;
        assert_eq!(take(&mut receiver, later, [gone.clone(), blocks(60..70)])[..1], [store(60..70, false)]);
        let patience = later + Duration::from_secs(30);
        assert_eq!(receiver.poll(later), Step::Wait(Some(patience), ReceiverWait::Sender), "another sends");
        let rest = take(&mut receiver, later, [gone, goodbye(), blocks(70..95), hashed(7), COMMITTED]);
        assert_eq!(rest.last(), Some(&closed(None)));
    }

    #[test]
    fn a_wrong_hash_lets_it_compare_all_that_comes_again() {
        let mut receiver = receiver();
        let first =
            [contents(1), message(FILE, Message::BeginOfFile(begin())), digest(7), blocks(0..95), hashed(8)];
        take(&mut receiver, NOW, first);
        assert_eq!(take(&mut receiver, NOW, [blocks(30..50)]), [store(30..50, true)]);
        let rest = take(&mut receiver, NOW, [blocks(0..95), hashed(7), COMMITTED]);
        assert_eq!(rest[..2], [store(0..30, true), store(50..95, true)]);
        assert_eq!(rest.last(), Some(&closed(None)));
    }

    #[test]
    fn a_hash_that_stays_wrong_fails_the_object() {
        let mut receiver = receiver();
        let begin = message(FILE, Message::BeginOfFile(begin()));
        let steps = [contents(1), begin, digest(7), blocks(0..95), hashed(8), blocks(0..95), hashed(8)];
        let steps = take(&mut receiver, NOW, steps);
        let last = [
            Step::Transmit(ReceiverTransmit::Discard { file: FILE }),
            failed("its hash has been wrong 2 times"),
            closed(None),
        ];
        assert_eq!(steps[steps.len() - 3..], last);
    }

    #[test]
    fn of_a_wrong_object_the_wrong_chunks_alone_are_taken_again() {
        const SIZE: u64 = 20 * CHUNK_LEN + 5;
        let mut receiver = receiver_of(1_000);
        let page = |page, count| {
            let page = ChunkHashes::new(page, vec![[1; 32]; count], vec![[2; 32]]).expect("few");
            (page.clone(), message(FILE, Message::ChunkHashes(page)))
        };
        let checked = |page, wrong| ReceiverInput::Checked { file: FILE, page, wrong };
        let check = |page: &ChunkHashes| {
            let page = page.clone();
            Step::Transmit(ReceiverTransmit::CheckChunks { file: FILE, hash: [7; 32], page })
        };
        let begin = BeginOfFile::new(TransferType::DiskToDisk, SIZE, "a").expect("a good name");
        let begin = message(FILE, Message::BeginOfFile(begin));
        let ((first, say_first), (last, say_last)) = (page(0, 16), page(1, 5));
        let start = [contents(1), begin, digest(7), say_first.clone(), blocks(0..SIZE)];
        assert!(!take(&mut receiver, NOW, start).contains(&check(&first)), "not while it may be right");
        take(&mut receiver, NOW, [hashed(8)]);
        assert_eq!(
            take(&mut receiver, NOW, [blocks(0..1_000)]),
            [],
            "it is there, and not known to be wrong"
        );
        assert_eq!(take(&mut receiver, NOW, [say_first.clone(), say_first.clone()]), [check(&first)]);
        take(&mut receiver, NOW, [checked(0, None)]);
        assert_eq!(take(&mut receiver, NOW, [say_first]), [check(&first)], "the other was forged");
        let wrong = CHUNK_LEN..2 * CHUNK_LEN;
        take(&mut receiver, NOW, [checked(0, Some(vec![wrong.clone()]))]);
        let again = CHUNK_LEN / 1_000 * 1_000..(2 * CHUNK_LEN).next_multiple_of(1_000);
        assert_eq!(take(&mut receiver, NOW, [blocks(0..SIZE / 1_000 * 1_000)]), [store(again, true)]);
        assert_eq!(take(&mut receiver, NOW, [say_last]), [check(&last)], "the rest is compared first");
        let hash = Step::Transmit(ReceiverTransmit::Hash { file: FILE });
        assert_eq!(take(&mut receiver, NOW, [checked(1, Some(vec![]))]), [hash]);
        assert_eq!(take(&mut receiver, NOW, [hashed(7), COMMITTED]).last(), Some(&closed(None)));
        assert_eq!(receiver.progress().wrong_chunks, 1);
    }

    #[test]
    fn what_is_there_from_before_is_not_stored_again() {
        let mut receiver = receiver();
        let have = |ranges| ReceiverInput::Have { file: FILE, ranges };
        take(&mut receiver, NOW, [have(vec![0..10, 20..30]), contents(1), digest(7)]);
        take(&mut receiver, NOW, [message(FILE, Message::BeginOfFile(begin())), have(vec![0..25, 40..95])]);
        assert_eq!(receiver.progress().received_bytes, 80, "whole blocks");
        let steps = take(&mut receiver, NOW, [blocks(0..95)]);
        assert_eq!(steps, [store(20..40, false), Step::Transmit(ReceiverTransmit::Hash { file: FILE })]);
        assert_eq!(take(&mut receiver, NOW, [hashed(7), COMMITTED]).last(), Some(&closed(None)));
    }

    #[test]
    fn a_digest_that_comes_after_the_hash_settles_it() {
        let mut receiver = receiver();
        let begin = message(FILE, Message::BeginOfFile(begin()));
        take(&mut receiver, NOW, [contents(1), begin, blocks(0..95), hashed(7)]);
        assert!(matches!(receiver.poll(NOW), Step::Wait(Some(_), ReceiverWait::Sender)));
        assert_eq!(take(&mut receiver, NOW, [digest(7), COMMITTED]).last(), Some(&closed(None)));
    }

    #[test]
    fn is_not_done_before_it_knows_how_many_objects_there_are() {
        let mut receiver = receiver();
        let begin = message(FILE, Message::BeginOfFile(begin()));
        let steps = take(&mut receiver, NOW, [begin, digest(7), blocks(0..95), hashed(7), COMMITTED]);
        assert!(matches!(steps.last(), Some(Step::Event(ReceiverEvent::Received { .. }))));
        assert_eq!(take(&mut receiver, NOW, [contents(2)]), []);
        let withdraw = || message(OTHER, Message::Withdraw(Reason::new("gone")));
        let end = take(&mut receiver, NOW, (0..WITHDRAWALS).map(|_| withdraw()));
        assert_eq!(end.last(), Some(&closed(None)));
    }

    #[test]
    fn a_silent_sender_is_given_up() {
        let mut receiver = receiver();
        take(&mut receiver, NOW, [contents(1), message(FILE, Message::BeginOfFile(begin()))]);
        let late = NOW + Duration::from_secs(30);
        assert_eq!(receiver.poll(NOW), Step::Wait(Some(late), ReceiverWait::Sender));
        let reason = "nothing has come from the sender for 30 s";
        assert_eq!(receiver.poll(late), Step::Transmit(ReceiverTransmit::Discard { file: FILE }));
        assert_eq!(receiver.poll(late), failed(reason));
        assert_eq!(receiver.poll(late), closed(Some(reason)));
    }

    #[test]
    fn a_goodbye_waits_for_the_hash_that_is_under_way() {
        let mut receiver = receiver();
        let begin = message(FILE, Message::BeginOfFile(begin()));
        take(&mut receiver, NOW, [contents(1), begin, digest(7), blocks(0..95)]);
        assert_eq!(take(&mut receiver, NOW, [message(FILE, Message::Goodbye)]), []);
        assert_eq!(take(&mut receiver, NOW, [hashed(7), COMMITTED]).last(), Some(&closed(None)));
    }

    #[test]
    fn a_goodbye_ends_what_is_unfinished() {
        let mut receiver = receiver();
        take(&mut receiver, NOW, [contents(1), message(FILE, Message::BeginOfFile(begin())), blocks(0..50)]);
        let reason = "the sender has stopped";
        assert_eq!(take(&mut receiver, NOW, [message(FILE, Message::Goodbye)]), []);
        assert_eq!(receiver.poll(NOW + LEAVING), Step::Transmit(ReceiverTransmit::Discard { file: FILE }));
        assert_eq!(receiver.poll(NOW + LEAVING), failed(reason));
        assert_eq!(receiver.poll(NOW + LEAVING), closed(Some(reason)));
    }

    #[test]
    fn what_a_sender_has_withdrawn_is_told_at_its_end() {
        let mut receiver = receiver();
        let gone = message(FILE, Message::Withdraw(Reason::new("it has shrunk")));
        take(&mut receiver, NOW, [contents(1), message(FILE, Message::BeginOfFile(begin())), gone]);
        take(&mut receiver, NOW, [message(FILE, Message::Goodbye)]);
        receiver.poll(NOW + LEAVING);
        let reason = "the sender has withdrawn it: it has shrunk";
        assert_eq!(receiver.poll(NOW + LEAVING), failed(reason));
    }

    #[test]
    fn a_commit_that_fails_is_a_failure() {
        let mut receiver = receiver();
        let begin = message(FILE, Message::BeginOfFile(begin()));
        let steps = take(&mut receiver, NOW, [contents(1), begin, digest(7), blocks(0..95), hashed(7)]);
        assert_eq!(steps.last(), Some(&Step::Transmit(ReceiverTransmit::Commit { file: FILE })));
        let reason = "the folder is gone".to_owned();
        let steps = take(&mut receiver, NOW, [ReceiverInput::StoreFailed { file: FILE, reason }]);
        assert_eq!(steps[1..], [failed("the folder is gone"), closed(None)]);
    }

    #[test]
    fn an_object_that_is_not_wanted_needs_nothing_more() {
        let mut receiver = receiver();
        let begin = message(FILE, Message::BeginOfFile(begin()));
        let steps = take(&mut receiver, NOW, [contents(1), begin, ReceiverInput::Ignore { file: FILE }]);
        assert_eq!(steps[1..], [Step::Transmit(ReceiverTransmit::Discard { file: FILE }), closed(None)]);
    }

    #[test]
    fn packets_of_another_session_or_beyond_the_contents_are_ignored() {
        let mut receiver = receiver();
        let stranger = FileId::new(SessionId(8), 0);
        let inputs = [
            contents(1),
            message(stranger, Message::BeginOfFile(begin())),
            ReceiverInput::Blocks { file: stranger, range: 0..10 },
            message(OTHER, Message::BeginOfFile(begin())),
            ReceiverInput::Blocks { file: OTHER, range: 0..10 },
        ];
        assert_eq!(take(&mut receiver, NOW, inputs), []);
    }

    #[test]
    fn objects_are_bounded_while_their_number_is_unknown() {
        let mut receiver = receiver();
        for index in 0..1000 {
            let file = FileId::new(SessionId(9), index);
            take(&mut receiver, NOW, [ReceiverInput::Blocks { file, range: 0..10 }]);
        }
        assert_eq!(receiver.objects.len(), MAX_UNANNOUNCED);
    }

    #[test]
    fn what_anybody_may_have_invented_is_bounded() {
        let mut receiver = receiver();
        take(&mut receiver, NOW, [contents(MAX_OBJECTS)]);
        let of = |index: u32| FileId::new(SessionId(9), index);
        for index in 0..2_000 {
            let range = 0..1 << 20;
            take(&mut receiver, NOW, [ReceiverInput::Blocks { file: of(index), range }]);
        }
        assert_eq!(receiver.objects.len(), MAX_UNANNOUNCED, "before they are announced");
        assert!(receiver.progress().received_bytes <= EARLY_BYTES);
        for index in 0..2_000 {
            let begin = BeginOfFile::new(TransferType::DiskToDisk, u64::MAX, "a").expect("a good name");
            take(&mut receiver, NOW, [message(of(index), Message::BeginOfFile(begin))]);
        }
        let announced = receiver.objects.values().filter(|object| object.begin.is_some()).count();
        assert_eq!(announced, MAX_UNFINISHED, "files at a time");
        for block in 0..200_000 {
            let start = block * 40_960;
            take(&mut receiver, NOW, [ReceiverInput::Blocks { file: of(0), range: start..start + 10 }]);
        }
        assert!(receiver.objects[&0].stored.chunks() <= MAX_CHUNKS);
    }
}
