//! The data receiver: what it does with each input (interdomain-2013, 4.4, table 4.7 and procedures A
//! to D).
//!
//! Procedures B, C and D keep blocks of an object that is not announced, or not accepted, yet in a
//! temporary buffer. Here the caller keeps them in memory until [`ReceiverTransmit::Announce`], and only
//! [`EARLY_BYTES`] of all objects are kept that way.
//!
//! Anybody can write to a group. So what comes over the connection overrules what the group has said: an
//! announcement that contradicts another is asked for again there, and the sender answers requests for what
//! cannot be had with its announcement, after which the group's word on that object's end counts no more.

use std::{ops::Range, time::Duration};

use treecast_wire::{header::FileId, message::BeginOfFile};

use super::{
    super::Repair,
    Channel, Receiver, ReceiverEvent, ReceiverTransmit, State,
    actions::undecided,
    lacking::Lacking,
    ledger::Word,
    object::{Decision, End, Refusal, Stage},
    requester::Request,
};
use crate::{Instant, Step};

/// The most bytes that are kept of all objects whose write condition is "temporary". Blocks beyond that are
/// dropped and show up as a gap later.
const EARLY_BYTES: u64 = 16 << 20;

/// The time for which the group must have been quiet before an end that the connection announced is believed.
/// The connection may be ahead of blocks that still wait in the group's socket.
pub(super) const QUIET: Duration = Duration::from_millis(30);

/// The most memory for all objects' sets of blocks, in chunks of about 600 bytes.
pub(super) const MAX_CHUNKS: usize = 131_072;

/// The treatment of what comes in.
impl Receiver {
    /// The object is out, and the connection may be late to say so.
    pub(super) fn digest_from_group(&mut self, now: Instant, index: u32, hash: [u8; 32]) {
        if let Some(object) =
            self.ledger.get_mut(index).filter(|object| object.is_final() && object.doom.is_none())
        {
            object.digest.get_or_insert(hash);
            self.settle(now, index);
        }
    }

    /// The sender sends no more of it. That is of no importance for what is there whole and right.
    pub(super) fn refused(&mut self, index: u32, reason: &str) {
        if self.ledger.get(index).is_none_or(|object| object.stage != Stage::Committing) {
            self.fail(index, reason, false);
        }
    }

    /// BOF(i): metadata(i) is there.
    pub(super) fn begin_of_file(&mut self, now: Instant, from: Channel, index: u32, begin: BeginOfFile) {
        let word = if from == Channel::Control { Word::Sender } else { Word::Announcement };
        let Some(object) = self.open(word, index) else { return };
        let (is_known, is_same) = (object.begin.is_some(), object.begin.as_ref() == Some(&begin));
        match word {
            _ if object.stage == Stage::Committing => {}
            Word::Sender if object.begin_is_sure && !is_same => self.counters.malformed += 1,
            Word::Sender => {
                object.begin_is_sure = true;
                object.doubt_requests();
                if is_known {
                    object.doubt_group();
                }
                // It may have been whole by another size, and then its end was of no interest.
                if object.end == End::Announced {
                    self.be_quiet_at(index, Some(now + QUIET));
                }
                if is_same { self.settle(now, index) } else { self.announce(now, index, begin) }
            }
            _ if is_same || object.doubts_group => {}
            _ if is_known => {
                self.counters.malformed += 1;
                self.doubt_announcement(index);
            }
            _ => self.announce(now, index, begin),
        }
    }

    /// Notes a BOF, in place of another one that the group said.
    fn announce(&mut self, now: Instant, index: u32, begin: BeginOfFile) {
        let (file, notification) = (self.file_id(index), self.config.notification);
        let Some(object) = self.ledger.get_mut(index) else { return };
        let (chunks, bytes) = (object.chunks(), object.received_bytes);
        if let Some(before) = &object.begin {
            object.decision = undecided(notification);
            if object.stage == Stage::Hashing && before.file_size != begin.file_size {
                object.stale_hashes += 1;
                object.stage = Stage::Receiving;
            }
            if object.check.is_some() && before.file_size != begin.file_size {
                object.check = None;
                object.stage = Stage::Receiving;
            }
            object.mismatched &= before.file_size == begin.file_size;
        }
        if object.announce(begin.clone()) {
            self.chunks -= chunks;
            self.reporter.progress.received_bytes -= bytes;
            self.counters.malformed += 1;
            self.transmit(ReceiverTransmit::Discard { file });
        }
        if let Some(object) = self.ledger.get_mut(index) {
            object.awaits_kept = self.config.resumes || begin.has_index();
        }
        self.plan_symbols(now, index);
        match self.ledger.get(index).map(|object| object.decision) {
            Some(Decision::Pending) => {
                self.out.push_back(Step::Event(ReceiverEvent::Announced { file, begin }))
            }
            Some(Decision::Accepted) => self.transmit(ReceiverTransmit::Announce { file, begin }),
            Some(Decision::Ignored) | None => {}
        }
        self.settle(now, index);
    }

    /// EOF(i), from the group or over the connection. The latter is believed a little later, and so is
    /// the former where nothing is mended: blocks that were overtaken may still come.
    pub(super) fn end_of_file(&mut self, now: Instant, from: Channel, index: u32) {
        let believe = from == Channel::Group && self.config.repair != Repair::None;
        // The group speaks of the first one, and the connection of the group that this receiver is in once it has confirmed a move.
        let counts = if believe { self.group == 0 } else { self.unconfirmed_moves == 0 };
        if !counts {
            if from == Channel::Control
                && let Some(object) = self.open(Word::Sender, index)
            {
                object.end_is_old = true;
            }
            return;
        }
        let word = if from == Channel::Control { Word::Sender } else { Word::Hearsay };
        let Some(object) = self.open(word, index) else { return };
        if word == Word::Hearsay && object.doubts_group {
            return;
        }
        let is_news = word == Word::Sender && !object.end_is_sure;
        object.end_is_sure |= is_news;
        if believe {
            self.reach_end(now, index);
        } else if object.end == End::NotYet
            || object.end == End::Reached && is_news && object.asked_in_vain > 0
        {
            object.end = End::Announced;
            self.be_quiet_at(index, Some(now + QUIET));
            self.settle(now, index);
        } else if is_news {
            self.settle(now, index);
        }
    }

    /// Ends the multicast of an object, of which nothing more will come from the group.
    fn reach_end(&mut self, now: Instant, index: u32) {
        self.be_quiet_at(index, None);
        let Some(object) = self.ledger.get_mut(index) else { return };
        object.end = End::Reached;
        // Asked before the sender had begun the object, it has not answered.
        object.bof_requested &= !object.end_is_sure;
        let nothing_heard = object.begin.is_none() && !object.bof_requested;
        if nothing_heard && object.decision == Decision::Pending {
            if !std::mem::replace(&mut object.asked, true) {
                let file = self.file_id(index);
                self.out.push_back(Step::Event(ReceiverEvent::EndOfFileOnly { file }));
            }
        } else {
            self.request_begin_of_file(index);
        }
        self.settle(now, index);
    }

    /// DATA_Block(i, b), for a run of blocks.
    pub(super) fn blocks(&mut self, now: Instant, from: Channel, file: FileId, bytes: Range<u64>) {
        if self.is_foreign(file) {
            return;
        }
        self.note_heard(now, from);
        if self.state != State::ReceivingData {
            self.counters.refused += 1;
            return;
        }
        if from == Channel::Group {
            self.reporter.note_group(now, file, bytes.end, bytes.end - bytes.start.min(bytes.end));
        }
        let index = file.index();
        if self.is_late(index) {
            return;
        }
        let word = if from == Channel::Control { Word::Sender } else { Word::Hearsay };
        if self.open(word, index).is_none() {
            return;
        }
        self.request_begin_of_file(index);
        self.take_blocks(now, from, index, bytes);
    }

    /// Procedures A, B, C and D, which differ only in where the blocks are stored.
    fn take_blocks(&mut self, now: Instant, from: Channel, index: u32, bytes: Range<u64>) {
        let file = self.file_id(index);
        let Some(object) = self.ledger.get(index) else { return };
        if object.decision == Decision::Ignored || object.doom.is_some() {
            return;
        }
        // The group may be what made its hash wrong.
        if object.mismatched && from == Channel::Group {
            return self.counters.refused += 1;
        }
        match object.check(&bytes, || EARLY_BYTES.saturating_sub(self.early_bytes())) {
            Err(Refusal::Malformed) => {
                self.counters.malformed += 1;
                let is_announced =
                    object.begin.is_some() && bytes.start.is_multiple_of(object.stored.block_len());
                // Either they are wrong, or the announcement is.
                return if is_announced {
                    self.doubt_announcement(index)
                };
            }
            Err(Refusal::TooEarly) => return self.counters.refused += 1,
            Ok(()) if self.chunks >= MAX_CHUNKS => return self.counters.refused += 1,
            Ok(()) => {}
        }
        let Some(object) = self.ledger.get_mut(index) else { return };
        let (chunks, mut duplicates, mut rest) = (object.chunks(), object.count(&bytes), bytes.clone());
        while let Some(new) = object.stored.first_new(&rest) {
            object.take(&new);
            duplicates -= object.count(&new);
            rest.start = new.end;
            self.reporter.progress.received_bytes += new.end - new.start;
            self.out.push_back(Step::Transmit(ReceiverTransmit::Store { file, range: new }));
        }
        self.chunks = self.chunks + object.chunks() - chunks;
        self.counters.duplicate_blocks += duplicates;
        self.reporter.progress.duplicate_blocks += duplicates;
        self.reporter.note(now);
        if from == Channel::Group {
            let is_slower = self.group > 0;
            let gaps = if is_slower { Vec::new() } else { object.gaps_before(&bytes) };
            if self.counts_lacks(index) {
                self.pass_before(now, index, bytes.start);
            } else {
                self.name_gaps(index, gaps, bytes.start);
            }
            if self.ledger.get(index).is_some_and(|object| object.quiet_at.is_some()) {
                self.be_quiet_at(index, Some(now + QUIET));
            }
        }
        if from == Channel::Control && duplicates > 0 {
            self.say_whole(index, &bytes);
        }
        self.decode_if_possible(index, &bytes);
        self.settle(now, index);
    }

    /// The number of bytes that are kept of objects whose write condition is "temporary".
    fn early_bytes(&self) -> u64 {
        let early = self.ledger.iter().filter(|(_, object)| !object.is_final());
        early.map(|(_, object)| object.received_bytes).sum()
    }

    /// The group seems to be quiet to a receiver that gets no time to read it, too.
    pub(super) fn drain_before_quiet_ends(&mut self, now: Instant) {
        if self.draining.is_none() && self.quiet.first().is_some_and(|(quiet_at, _)| *quiet_at <= now) {
            self.draining = Some(now);
            self.transmit(ReceiverTransmit::DrainGroup);
        }
    }

    /// Ends that the connection announced, of which nothing more lay in the group's socket.
    pub(super) fn drained(&mut self, now: Instant) {
        let Some(asked_at) = self.draining.take() else { return };
        while self.quiet.first().is_some_and(|(quiet_at, _)| *quiet_at <= asked_at)
            && let Some((_, index)) = self.quiet.pop_first()
        {
            self.reach_end(now, index);
        }
    }

    pub(super) fn dropped(&mut self, now: Instant, total: u64) {
        if self.reporter.progress.dropped_packets != total {
            self.reporter.progress.dropped_packets = total;
            self.reporter.note(now);
        }
    }

    pub(super) fn disk_waited(&mut self, now: Instant, total_ms: u64) {
        if self.reporter.progress.disk_wait_ms != total_ms {
            self.reporter.progress.disk_wait_ms = total_ms;
            self.reporter.note(now);
        }
    }
}

/// The actions that several inputs lead to.
impl Receiver {
    /// Looks at what an object now needs: its last blocks, its hash, or to be done with.
    pub(super) fn settle(&mut self, now: Instant, index: u32) {
        let file = self.file_id(index);
        let Some(object) = self.ledger.get_mut(index) else { return };
        // The group's word alone may be forged, or about an object that the sender has not begun.
        let is_sure = object.end_is_sure || object.begin_is_sure;
        if object.decision == Decision::Ignored && is_sure {
            self.end(index);
            return self.request(index, Request::NotWanted);
        }
        if object.awaits_kept && object.is_final() {
            return;
        }
        if object.stage != Stage::Receiving {
            return;
        }
        let asks = self.config.repair != Repair::None;
        if object.is_final() && object.is_whole() {
            // After a wrong hash, the sender is to confirm what it is that has been hashed.
            if object.digest.is_some() && (object.begin_is_sure || !object.mismatched || !asks) {
                object.stage = Stage::Hashing;
                self.be_quiet_at(index, None);
                self.transmit(ReceiverTransmit::Hash { file });
            }
        } else if object.end == End::Reached {
            self.mend_end(now, index);
        }
    }

    /// EOF(i) and blocks are missing: the last ones are asked for, those before have been.
    fn mend_end(&mut self, now: Instant, index: u32) {
        let Some(object) = self.ledger.get_mut(index) else { return };
        let undecided = object.begin.is_some() && !object.is_final();
        if object.lacking.as_ref().is_some_and(Lacking::is_decoding) {
            return;
        }
        if self.config.repair == Repair::None && !undecided && object.end_is_sure {
            let reason = match object.missing_bytes() {
                Some(missing) => format!("{missing} bytes were lost and are not sent again"),
                None => "its announcement was lost and is not sent again".to_owned(),
            };
            return self.fail(index, &reason, true);
        }
        if !object.is_final() {
            return;
        }
        if self.counts_lacks(index) {
            return self.pass_end(now, index);
        }
        let Some(object) = self.ledger.get_mut(index) else { return };
        let gaps = if object.end_is_sure { object.gaps_at_sure_end() } else { object.gaps_at_end() };
        self.name_gaps(index, gaps, u64::MAX);
    }
}
