//! The carousel's receiver.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Range,
    time::Duration,
};

use treecast_wire::{
    header::{FileId, SessionId},
    message::{BeginOfFile, ChunkHashes, Lacking, MAX_OBJECTS, Message, Reason},
};

use super::{
    object::{Object, Phase, Withdrawn},
    said::Said,
};
use crate::{
    Instant, Step,
    fec::{Gatherer, Layout},
    object::{
        Channel, CutShort, ReceiverCounters, ReceiverEvent, ReceiverInput, ReceiverTransmit, ReceiverWait,
        Response, chunks, stored::Stored,
    },
    random::SplitMix64,
    tfmcc::feedback,
};

/// The most objects that are noted and not announced: anybody can write to a group.
const MAX_UNANNOUNCED: usize = 64;

/// The most bytes that are kept of them in all. A carousel says again what an object is long before that.
const EARLY_BYTES: u64 = 16 << 20;

/// The most objects that are announced and not there, each of which is a file. Others have to wait for a later
/// loop.
const MAX_UNFINISHED: usize = 1024;

/// The number of times that the wrong chunks of an object alone are taken again after a wrong hash. A disk
/// that keeps nothing right must not be tried for ever.
const MAX_CHECKS: u32 = 20;

/// The most memory for all objects' sets of blocks, in chunks of about 600 bytes.
const MAX_CHUNKS: usize = 131_072;

/// The time after a sender's Goodbye in which nothing more comes if no sender is left.
const LEAVING: Duration = Duration::from_secs(3);

/// The time after a sender's Goodbye from which on packets are another sender's.
const ECHO: Duration = Duration::from_millis(100);

/// The number of times that an object must have been withdrawn to be given up, over [`WITHDRAWN_FOR`], if
/// nothing of it has come meanwhile. Another sender may still have it, and one with few objects says it again
/// every few milliseconds.
const WITHDRAWALS: u32 = 3;
const WITHDRAWN_FOR: Duration = Duration::from_secs(10);

/// The time after an object's first announcement before which it is not reported: its blocks may be on their way.
const FIRST_REPORT: Duration = Duration::from_millis(300);

/// The time between two reports on an object. It doubles while nothing of the object comes.
const SHORTEST_REPORT_WAIT: Duration = Duration::from_secs(1);
const LONGEST_REPORT_WAIT: Duration = Duration::from_secs(30);

/// The most ranges of a report. What is behind them is reported later.
const MOST_LACKS: usize = 1_024;

/// The time after which a receiver should have heard what the sender says of a report, and the number of receivers for which the random
/// times before reports are made (RFC 4654, 4.5). Nobody knows how many there are: one alone waits for a third of a second.
const SAID_AFTER: Duration = Duration::from_millis(50);
const MANY_RECEIVERS: u32 = 10_000;

#[derive(Debug, Clone, Default)]
pub struct ReceiverConfig {
    pub session: SessionId,
    /// The number of bytes of an object that each packet carries, except its last one.
    pub block_len: u16,
    /// Whether the sender sends repair symbols.
    pub fec: bool,
    /// Whether the sender sends chunk hashes.
    pub has_chunk_hashes: bool,
    /// The number of wrong hashes of an object after which the receiver gives the object up. This counts only
    /// where no chunk hashes tell which part is wrong.
    pub hash_attempts: u32,
    /// The seed of the random times before reports, where the sender is told what is lacking. It then sends that in place of everything.
    pub reports: Option<u64>,
    /// The time for which the sender may be silent before the receiver gives up. `None`: the receiver waits
    /// for ever.
    pub patience: Option<Duration>,
}

/// The progress of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The number of objects in the carousel, once the receiver knows it.
    pub objects: Option<u32>,
    /// The number of objects that are received or given up.
    pub ended_objects: u32,
    /// The size of all announced objects together, in bytes.
    pub announced_bytes: u64,
    /// The number of bytes of all objects that are stored.
    pub received_bytes: u64,
}

/// An object that has ended.
#[derive(Debug)]
struct Ended {
    /// The hash that the object should have, as far as that is known.
    digest: Option<[u8; 32]>,
    /// Whether what has come of it is kept.
    is_kept: bool,
}

/// One receiver of a carousel. Call order: see the crate's documentation; poll to the end after every
/// [`ReceiverInput::Blocks`], while the packet's bytes are still at hand.
#[derive(Debug, Default)]
pub struct Receiver {
    config: ReceiverConfig,
    /// Objects that have not ended.
    objects: BTreeMap<u32, Box<Object>>,
    /// The number of objects in the carousel, once it is known.
    expected: Option<u32>,
    /// Committed or given up.
    ended: BTreeMap<u32, Ended>,
    /// Sizes of the objects that have ended, as announced and as they are there, in bytes.
    ended_bytes: (u64, u64),
    counters: ReceiverCounters,
    /// Chunks of memory that all objects' sets of blocks take, at most.
    chunks: usize,
    last_heard: Option<Instant>,
    /// The times when the sender is told what is lacking, each with its object.
    reports: BTreeSet<(Instant, u32)>,
    said: Said,
    random: SplitMix64,
    /// Objects that the caller is hashing or committing.
    busy: BTreeSet<u32>,
    /// The time when a sender has said Goodbye, unless something has come since.
    goodbye: Option<Instant>,
    /// The reason why the sender will send nothing more.
    over: Option<CutShort>,
    /// Whether some of what has come waits for a receiver that goes on later.
    keeps_unfinished: bool,
    closed: bool,
    steps: VecDeque<Step<ReceiverTransmit, ReceiverEvent, ReceiverWait>>,
}

impl Receiver {
    pub fn new(config: ReceiverConfig) -> Self {
        Self { random: SplitMix64(config.reports.unwrap_or_default()), config, ..Self::default() }
    }

    pub fn handle(&mut self, now: Instant, input: ReceiverInput) {
        if self.closed {
            return;
        }
        match input {
            ReceiverInput::Message { from, file, message } if file.session() == self.config.session => {
                self.hear_from(now, from, message == Message::Goodbye);
                self.on_message(now, file, message);
            }
            ReceiverInput::Blocks { from, file, range } if file.session() == self.config.session => {
                self.hear_from(now, from, false);
                self.on_blocks(now, file, range);
            }
            ReceiverInput::Symbols { file, positions, .. } if file.session() == self.config.session => {
                self.hear(now, false);
                self.on_symbols(file, &positions);
            }
            ReceiverInput::Decoded { file, source_block, is_right } => {
                self.on_decoded(file, source_block, is_right);
            }
            // Another session on the same group and port.
            ReceiverInput::Message { .. } | ReceiverInput::Blocks { .. } | ReceiverInput::Symbols { .. } => {}
            ReceiverInput::Have { file, ranges } => self.on_have(now, file, ranges),
            ReceiverInput::Hashed { file, hash } => self.on_hashed(file, hash),
            ReceiverInput::Checked { file, page, wrong } => self.on_checked(file, page, wrong.as_deref()),
            ReceiverInput::Lost { file, ranges } => self.on_lost(file, &ranges),
            ReceiverInput::StoreFailed { file, reason } => self.fail(file, reason),
            ReceiverInput::Committed { file } => self.on_committed(file),
            ReceiverInput::AnnouncementRefused { file, begin, reason } => {
                if self.announced(file) == Some(&begin) {
                    self.fail(file, reason);
                }
            }
            ReceiverInput::Respond { file, response: Response::Ignore } => {
                self.give_up(file);
            }
            ReceiverInput::Disown { file } => self.disown(file),
            ReceiverInput::Close { reason } => self.over = Some(CutShort::Stopped(reason)),
            // A carousel has no connection, and asks for nothing again.
            ReceiverInput::Respond { .. }
            | ReceiverInput::Connected { .. }
            | ReceiverInput::Disconnected { .. }
            | ReceiverInput::Moved { .. }
            | ReceiverInput::Listened { .. }
            | ReceiverInput::Drained
            | ReceiverInput::Dropped { .. }
            | ReceiverInput::Refused { .. }
            | ReceiverInput::DiskWaited { .. } => {}
        }
        self.close_when_done();
    }

    pub fn poll(&mut self, now: Instant) -> Step<ReceiverTransmit, ReceiverEvent, ReceiverWait> {
        self.report_due(now);
        let deadline = self.deadline(now);
        if deadline.is_some_and(|deadline| now >= deadline) {
            let patience = self.config.patience.unwrap_or_default();
            self.over = Some(match self.goodbye {
                Some(_) => CutShort::SenderStopped,
                None => CutShort::Silent(patience),
            });
            self.close_when_done();
        }
        if let Some(step) = self.steps.pop_front() {
            return step;
        }
        // Between packets the queue takes no memory: a simulation has many receivers.
        self.steps.shrink_to_fit();
        let report = self.reports.first().map(|(time, _)| *time);
        let deadline = deadline.into_iter().chain(report).min();
        match (self.closed, self.busy.is_empty()) {
            (true, _) => Step::Wait(None, ReceiverWait::Closed),
            (false, false) => Step::Wait(deadline, ReceiverWait::Storage),
            (false, true) => Step::Wait(deadline, ReceiverWait::Sender),
        }
    }

    /// Returns the announcement of an object that is not complete yet.
    pub fn announced(&self, file: FileId) -> Option<&BeginOfFile> {
        let object = self.objects.get(&file.index()).filter(|_| file.session() == self.config.session)?;
        object.begin.as_ref()
    }

    /// Returns the stored part of an object that has not ended.
    pub(crate) fn stored(&self, index: u32) -> Option<&Stored> {
        self.objects.get(&index).map(|object| &object.stored)
    }

    /// Gives up an object for a reason that only the caller knows.
    pub(crate) fn give_up_for(&mut self, file: FileId, reason: String) {
        self.fail(file, reason);
        self.close_when_done();
    }

    /// Does without the objects before `first`, which ended before the receiver came.
    pub(crate) fn skip(&mut self, first: u32) {
        for index in 0..first.min(MAX_OBJECTS) {
            self.ended.entry(index).or_insert(Ended { digest: None, is_kept: false });
        }
    }

    /// Sets the longest silence of the sender from now on. `None`: no limit.
    pub(crate) fn set_patience(&mut self, patience: Option<Duration>) {
        self.config.patience = patience;
    }

    /// Takes note of a sign of life of the sender that was not handed in.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.hear(now, false);
    }

    /// Returns the hash that the sender says an object has.
    pub fn digest(&self, file: FileId) -> Option<[u8; 32]> {
        let index = file.index();
        self.objects.get(&index).map_or_else(|| self.ended.get(&index)?.digest, |object| object.digest)
    }

    /// The number of objects, once the sender has said it.
    pub fn expected(&self) -> Option<u32> {
        self.expected
    }

    pub fn progress(&self) -> Progress {
        let announced = self.objects.values().map(|object| object.announced_bytes());
        let received = self.objects.values().map(|object| object.stored.bytes());
        Progress {
            objects: self.expected,
            ended_objects: self.ended.len() as u32,
            announced_bytes: announced.fold(self.ended_bytes.0, u64::saturating_add),
            received_bytes: received.fold(self.ended_bytes.1, u64::saturating_add),
        }
    }

    pub fn counters(&self) -> ReceiverCounters {
        self.counters
    }

    /// The time when patience ends. `None` while the caller is hashing or committing.
    fn deadline(&mut self, now: Instant) -> Option<Instant> {
        let last_heard = *self.last_heard.get_or_insert(now);
        let silent = !self.closed && self.over.is_none() && self.busy.is_empty();
        let patience = self.config.patience.map(|patience| last_heard + patience);
        let goodbye = self.goodbye.map(|goodbye| goodbye + LEAVING);
        patience.into_iter().chain(goodbye).min().filter(|_| silent)
    }

    fn on_message(&mut self, now: Instant, file: FileId, message: Message) {
        match message {
            // A carousel does not shrink: of two that contradict each other, one is somebody else's, and the
            // receiver must not take a part for all.
            Message::Contents(contents) => self.expected = self.expected.max(Some(contents.objects())),
            Message::BeginOfFile(begin) => {
                self.on_begin(now, file, begin);
                // Of blocks that are on their way, more come behind this.
                let heard_at = self.objects.get(&file.index()).and_then(|object| object.heard_at);
                if heard_at.is_none_or(|at| now >= at + SHORTEST_REPORT_WAIT) {
                    self.report_if_due(now, file);
                }
            }
            Message::EndOfFile => {
                // What the sender was to bring, and has not come, is lost.
                let object = self.objects.get_mut(&file.index());
                if object
                    .and_then(|object| object.said_at.take_if(|at| object.heard_at >= Some(*at)))
                    .is_some()
                {
                    self.said.forget(file.index());
                }
                self.report_if_due(now, file);
            }
            Message::Lacking(said) => said.ranges().for_each(|bytes| self.on_said(now, file, bytes)),
            Message::Digest(digest) => {
                if let Some(object) = self.object(file) {
                    object.digest = Some(digest.hash);
                    self.check(file);
                }
            }
            Message::ChunkHashes(page) => self.on_chunk_hashes(file, page),
            Message::Withdraw(reason) => self.on_withdraw(now, file, &reason),
            // The others belong to VCMTP.
            _ => {}
        }
    }

    /// Notes what an object is. The first word counts: a carousel does not change its objects.
    fn on_begin(&mut self, now: Instant, file: FileId, begin: BeginOfFile) {
        if self.objects.get(&file.index()).is_some_and(|object| object.begin.is_some()) {
            return;
        }
        let layout = Layout::new(begin.file_size, self.config.block_len).filter(|_| self.config.fec);
        let reports = self.config.reports.is_some();
        let unfinished = self.objects.values().filter(|object| object.begin.is_some()).count();
        let is_full = unfinished >= MAX_UNFINISHED;
        let Some(object) = self.note(file, MAX_UNFINISHED).filter(|_| !is_full) else { return };
        object.announce(begin.clone());
        // With an index, it waits until it is known what an older version holds.
        object.report_at = (reports && !begin.has_index()).then(|| now + FIRST_REPORT);
        object.gatherer = layout.map(Gatherer::new);
        self.transmit(ReceiverTransmit::Announce { file, begin });
        self.hash_when_complete(file);
    }

    /// Takes in which parts of an announced object are there from before.
    fn on_have(&mut self, now: Instant, file: FileId, ranges: Vec<Range<u64>>) {
        let takes = |object: &Object| object.begin.is_some() && object.phase == Phase::Receiving;
        let reports = self.config.reports.is_some();
        let Some(object) = self.object(file).filter(|object| takes(object)) else { return };
        let chunks = object.chunks();
        for range in ranges {
            object.stored.add(range);
        }
        let more = object.chunks().saturating_sub(chunks);
        let has_index = object.begin.as_ref().is_some_and(BeginOfFile::has_index);
        object.report_at = object.report_at.or((reports && has_index).then_some(now));
        self.chunks += more;
        self.hash_when_complete(file);
        self.report_if_due(now, file);
    }

    /// Tells the sender soon what is lacking of an object, if it has not been told for a while. A report may be lost, and a loop brings
    /// what has been reported only once. All receivers may find that at the same moment, so each waits for a random time.
    fn report_if_due(&mut self, now: Instant, file: FileId) {
        let Some(object) = self.objects.get_mut(&file.index()) else { return };
        if object.phase != Phase::Receiving || object.report_at.is_none_or(|at| now < at) {
            return;
        }
        let delay = feedback::delay_in(SAID_AFTER, MANY_RECEIVERS, 0.0, self.random.unit());
        let wait = object.report_wait.clamp(SHORTEST_REPORT_WAIT, LONGEST_REPORT_WAIT);
        (object.report_at, object.report_wait) = (Some(now + delay + wait), wait * 2);
        self.reports.insert((now + delay, file.index()));
    }

    /// Makes the reports whose time has come.
    fn report_due(&mut self, now: Instant) {
        while let Some((_, index)) = self.reports.first().copied().filter(|(time, _)| *time <= now) {
            self.reports.pop_first();
            self.report(index);
        }
    }

    /// Tells the sender what is lacking of an object, but not what it has said that it will bring.
    fn report(&mut self, index: u32) {
        let file = FileId::new(self.config.session, index);
        let receiving = self.objects.get_mut(&index).filter(|object| object.phase == Phase::Receiving);
        if let Some(object) = receiving {
            // Anybody may have said it. What has not come for so long is not believed any more.
            let believes = object.report_wait <= LONGEST_REPORT_WAIT;
            object.said_at = None;
            let gaps =
                std::iter::successors(object.stored.first_gap(0), |gap| object.stored.first_gap(gap.end));
            let lacks = gaps.filter(|gap| !(believes && self.said.has(index, gap))).take(MOST_LACKS);
            let lacks = Lacking::of_all(lacks, self.config.block_len);
            let report = |lacks| ReceiverTransmit::Message { file, message: Message::Lacking(lacks) };
            self.steps.extend(lacks.into_iter().map(|lacks| Step::Transmit(report(lacks))));
        }
        self.said.forget(index);
    }

    /// The sender says what it will bring of an object, because somebody has reported it.
    fn on_said(&mut self, now: Instant, file: FileId, range: Range<u64>) {
        let Some(object) = self.objects.get_mut(&file.index()) else { return };
        if object.report_at.is_some() && object.phase == Phase::Receiving {
            object.said_at.get_or_insert(now);
            self.said.add(file.index(), range);
        }
    }

    fn on_blocks(&mut self, now: Instant, file: FileId, range: Range<u64>) {
        let (block_len, len) = (self.config.block_len, range.end.saturating_sub(range.start));
        if let Some(ended) = self.ended.get(&file.index()) {
            // Of what was not wanted or has failed, nothing is there that could come twice.
            let is_there = u64::from(ended.is_kept);
            self.counters.duplicate_blocks += is_there * len.div_ceil(u64::from(block_len));
            return;
        }
        let Some(object) = self.note(file, MAX_UNANNOUNCED) else { return };
        object.withdrawn = None;
        if object.phase != Phase::Receiving {
            self.counters.duplicate_blocks += len.div_ceil(u64::from(block_len));
            return;
        }
        if object.begin.is_none() && self.early_bytes().saturating_add(len) > EARLY_BYTES {
            return;
        }
        if self.chunks >= MAX_CHUNKS {
            self.chunks = self.objects.values().map(|object| object.chunks()).sum();
            if self.chunks >= MAX_CHUNKS {
                return;
            }
        }
        let Some(object) = self.objects.get_mut(&file.index()) else { return };
        let (compare, chunks) = (object.mismatches > 0, object.stored.chunks());
        let (new, had) = object.stored.add(range.clone());
        self.chunks += object.stored.chunks().saturating_sub(chunks);
        self.counters.duplicate_blocks += had;
        if !new.is_empty() {
            let soon = now + SHORTEST_REPORT_WAIT;
            object.report_at = object.report_at.map(|at| at.min(soon));
            (object.report_wait, object.heard_at) = (SHORTEST_REPORT_WAIT, Some(now));
        }
        for range in new {
            self.transmit(match compare {
                true => ReceiverTransmit::Overwrite { file, range },
                false => ReceiverTransmit::Store { file, range },
            });
        }
        self.decode_if_possible(file, &range);
        self.hash_when_complete(file);
    }

    fn on_symbols(&mut self, file: FileId, positions: &Range<u64>) {
        if self.chunks >= MAX_CHUNKS {
            self.chunks = self.objects.values().map(|object| object.chunks()).sum();
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
        self.chunks +=
            self.objects.get(&file.index()).map_or(0, |object| object.chunks()).saturating_sub(chunks);
        self.counters.repair_symbols += kept_count;
        self.counters.duplicate_blocks += count - kept_count;
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
        self.counters.decoded_blocks += count;
        self.hash_when_complete(file);
    }

    /// Blocks came in: their source blocks may now have enough symbols.
    fn decode_if_possible(&mut self, file: FileId, range: &Range<u64>) {
        let gatherer = self.objects.get(&file.index()).and_then(|object| object.gatherer.as_ref());
        for source_block in gatherer.map(|gatherer| gatherer.touched(range)).unwrap_or_default() {
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

    /// Takes in which parts of an object could not be stored. They are taken from a later loop.
    fn on_lost(&mut self, file: FileId, ranges: &[Range<u64>]) {
        let Some(object) = self.object(file).filter(|object| object.begin.is_some()) else { return };
        ranges.iter().for_each(|range| _ = object.stored.forget(range));
        object.lose();
        let had_symbols = object.gatherer.is_some();
        self.busy.remove(&file.index());
        if had_symbols {
            self.transmit(ReceiverTransmit::ForgetSymbols { file });
        }
        self.hash_when_complete(file);
    }

    fn has_chunk_hashes(&self) -> bool {
        self.config.has_chunk_hashes && chunks::fit_in(self.config.block_len)
    }

    /// A page of chunk hashes that is awaited, since an object's hash was wrong.
    pub(crate) fn unchecked_page(&self, index: u32) -> Option<u32> {
        self.objects.get(&index)?.check.as_ref()?.first_open()
    }

    /// Takes in the hashes that some chunks should have. Anybody may have sent the page, which shows when it
    /// is compared.
    fn on_chunk_hashes(&mut self, file: FileId, page: ChunkHashes) {
        let Some(object) = self.object(file) else { return };
        let Some((check, hash)) = object.check.as_mut().zip(object.digest) else { return };
        if check.take(page.page()) {
            self.transmit(ReceiverTransmit::CheckChunks { file, hash, page });
        }
    }

    /// A page of chunks has been compared: the wrong ones are taken again. When all are, what is there is right.
    fn on_checked(&mut self, file: FileId, page: u32, wrong: Option<&[Range<u64>]>) {
        let Some(object) = self.object(file) else { return };
        let Some(check) = &mut object.check else { return };
        let (was_awaited, wrong) = (check.compared(page, wrong.is_some()), wrong.unwrap_or_default());
        if !was_awaited {
            return;
        }
        let count: u64 = wrong.iter().map(|bytes| check.count(bytes)).sum();
        if check.is_over() {
            object.check = None;
        }
        wrong.iter().for_each(|bytes| _ = object.stored.forget(bytes));
        self.counters.wrong_chunks += count;
        self.hash_when_complete(file);
    }

    /// Notes that the sender is alive. Packets that a member sends again are no sign of that.
    fn hear_from(&mut self, now: Instant, from: Channel, is_goodbye: bool) {
        if !matches!(from, Channel::Member(_)) {
            self.hear(now, is_goodbye);
        }
    }

    /// Notes a sign of life of the sender.
    fn hear(&mut self, now: Instant, is_goodbye: bool) {
        self.last_heard = Some(now);
        if is_goodbye {
            self.goodbye.get_or_insert(now);
        } else if self.goodbye.is_some_and(|goodbye| now >= goodbye + ECHO) {
            self.goodbye = None;
        }
    }

    /// A sender cannot read the object any more.
    fn on_withdraw(&mut self, now: Instant, file: FileId, reason: &Reason) {
        let Some(object) = self.object(file) else { return };
        let reason = format!("the sender has withdrawn it: {reason}");
        let new = Withdrawn { since: now, times: 0, reason: reason.clone() };
        let withdrawn = object.withdrawn.get_or_insert(new);
        withdrawn.times = withdrawn.times.saturating_add(1);
        let lasts = now.saturating_duration_since(withdrawn.since);
        if withdrawn.times >= WITHDRAWALS && lasts >= WITHDRAWN_FOR {
            self.fail(file, reason);
        }
    }

    fn on_committed(&mut self, file: FileId) {
        let Some(object) = self.object(file).filter(|object| object.phase == Phase::Committing) else {
            return;
        };
        let begin = object.begin.clone();
        self.end(file.index(), true);
        self.steps.extend(begin.map(|begin| Step::Event(ReceiverEvent::Received { file, begin })));
    }

    fn fail(&mut self, file: FileId, reason: String) {
        if let Some(discarded_bytes) = self.give_up(file) {
            self.steps.push_back(Step::Event(ReceiverEvent::Failed { file, reason, discarded_bytes }));
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

    /// Ends an object without success. Returns the number of bytes that had come of it and are discarded, or `None` if it
    /// has ended already.
    fn give_up(&mut self, file: FileId) -> Option<u64> {
        let discarded_bytes = self.object(file)?.stored.bytes();
        self.end(file.index(), false);
        self.transmit(ReceiverTransmit::Discard { file });
        Some(discarded_bytes)
    }

    /// Notes that an object has ended, and whether what has come of it is kept.
    fn end(&mut self, index: u32, is_kept: bool) {
        let Some(object) = self.objects.remove(&index) else { return };
        self.chunks = self.chunks.saturating_sub(object.chunks());
        self.busy.remove(&index);
        self.ended.insert(index, Ended { digest: object.digest, is_kept });
        let received = if is_kept { object.stored.bytes() } else { 0 };
        let (announced_bytes, received_bytes) = &mut self.ended_bytes;
        *announced_bytes = announced_bytes.saturating_add(object.announced_bytes());
        *received_bytes = received_bytes.saturating_add(received);
    }

    /// Closes when every object has ended, or nothing more will come and no hash is awaited.
    fn close_when_done(&mut self) {
        if self.closed {
            return;
        }
        if let Some(reason) = self.over.clone() {
            self.give_up_unfinished(&reason.to_string());
        }
        let have_all_ended = self.expected.is_some_and(|expected| self.ended.len() >= expected as usize);
        let is_over = self.over.is_some() && self.busy.is_empty();
        if have_all_ended || is_over {
            self.closed = true;
            let reason = self.over.take().filter(|_| self.keeps_unfinished || !have_all_ended);
            self.steps.push_back(Step::Event(ReceiverEvent::Closed { reason }));
        }
    }

    /// Fails the objects that need more from the sender. An object that is only being hashed goes on. The
    /// blocks that have come stay, for a receiver that goes on later, unless the sender has withdrawn the
    /// object.
    fn give_up_unfinished(&mut self, reason: &str) {
        let needs_more = |object: &Object| match object.phase {
            Phase::Receiving => true,
            Phase::Hashing => object.digest.is_none(),
            Phase::Committing => false,
        };
        let unfinished: Vec<u32> =
            self.objects.iter().filter(|(_, object)| needs_more(object)).map(|(index, _)| *index).collect();
        for index in unfinished {
            let file = FileId::new(self.config.session, index);
            let Some(object) = self.objects.get_mut(&index) else { continue };
            if let Some(withdrawn) = object.withdrawn.take() {
                self.fail(file, withdrawn.reason);
                continue;
            }
            self.end(index, true);
            self.keeps_unfinished = true;
            let failed = ReceiverEvent::Failed { file, reason: reason.to_owned(), discarded_bytes: 0 };
            self.steps.push_back(Step::Event(failed));
        }
    }

    /// The object, noted when it is new; none when it has ended, or the carousel has no such object.
    fn object(&mut self, file: FileId) -> Option<&mut Object> {
        self.note(file, MAX_UNANNOUNCED)
    }

    /// Does as [`Self::object`], but notes a new object only while fewer than `most` are not announced.
    fn note(&mut self, file: FileId, most: usize) -> Option<&mut Object> {
        let index = file.index();
        if file.session() != self.config.session || self.ended.contains_key(&index) {
            return None;
        }
        if !self.objects.contains_key(&index) {
            let unannounced = self.objects.values().filter(|object| object.begin.is_none()).count();
            if index >= self.expected.unwrap_or(MAX_OBJECTS) || unannounced >= most {
                return None;
            }
        }
        Some(self.objects.entry(index).or_insert_with(|| Object::new(self.config.block_len).into()))
    }

    /// The number of bytes that are kept of objects that are not announced.
    fn early_bytes(&self) -> u64 {
        let early = self.objects.values().filter(|object| object.begin.is_none());
        early.map(|object| object.stored.bytes()).fold(0, u64::saturating_add)
    }

    fn transmit(&mut self, transmit: ReceiverTransmit) {
        self.steps.push_back(Step::Transmit(transmit));
    }
}
