//! The data receiver: what it does with each input (interdomain-2013, 4.4, table 4.7 and procedures A
//! to D).
//!
//! Procedures B, C and D keep blocks of an object that is not announced, or not accepted, yet in a
//! temporary buffer. Here the caller stores them where it likes until [`ReceiverTransmit::Announce`],
//! and only the first [`KEPT_BYTES`] of an object are kept that way.

use std::{ops::Range, time::Duration};

use treecast_wire::{
    header::FileId,
    message::{BeginOfFile, Message},
};

use super::{
    super::Repair,
    Channel, Notification, Receiver, ReceiverEvent, ReceiverTransmit, State,
    object::{Decision, End, Object, Refusal, Stage},
    requester::Request,
};
use crate::{Instant, Step};

/// How much of an object is kept while its write condition is "temporary", in bytes from its start.
/// Blocks further on are dropped and show up as a gap later.
const KEPT_BYTES: u64 = 64 << 20;

/// How long the group must have been quiet before an end that the connection announced is believed:
/// the connection may be ahead of blocks that still wait in the group's socket.
const QUIET: Duration = Duration::from_millis(30);

/// The most memory for all objects' sets of blocks, in chunks of about 600 bytes.
const MAX_CHUNKS: usize = 131_072;

/// What comes in.
impl Receiver {
    pub(super) fn message(&mut self, now: Instant, from: Channel, file: FileId, message: Message) {
        if self.is_foreign(file) {
            return;
        }
        let index = file.index();
        match (message, from) {
            (Message::Welcome(_), Channel::Control) => {}
            (Message::Goodbye, Channel::Control) => self.state = State::Leaving,
            _ if self.is_late(index) => {}
            (Message::BeginOfFile(begin), _) => self.begin_of_file(from, index, begin),
            (Message::EndOfFile, _) => self.end_of_file(now, from, index),
            (Message::Digest(digest), Channel::Control) => {
                self.end_of_file(now, from, index);
                if let Some(object) = self.ledger.get_mut(index) {
                    object.digest = Some(digest.0);
                    self.settle(index);
                }
            }
            (Message::RetransmissionReject, Channel::Control) => {
                self.fail(index, "the sender's time for retransmissions is up", false);
            }
            (Message::Withdraw(reason), Channel::Control) => self.fail(index, reason.as_str(), false),
            _ => self.counters.malformed += 1,
        }
    }

    /// BOF(i): metadata(i) is there.
    fn begin_of_file(&mut self, from: Channel, index: u32, begin: BeginOfFile) {
        let Some(object) = self.open(from, index) else { return };
        if object.begin.is_some() {
            return;
        }
        let (chunks, bytes) = (object.chunks(), object.received_bytes);
        if object.announce(begin.clone()) {
            self.chunks -= chunks;
            self.reporter.progress.received_bytes -= bytes;
            self.counters.malformed += 1;
        }
        let file = self.file_id(index);
        match self.ledger.get(index).map(|object| object.decision) {
            Some(Decision::Pending) => {
                self.out.push_back(Step::Event(ReceiverEvent::Announced { file, begin }))
            }
            Some(Decision::Accepted) => self.transmit(ReceiverTransmit::Announce { file, begin }),
            Some(Decision::Ignored) | None => {}
        }
        self.settle(index);
    }

    /// EOF(i), from the group or over the connection. The latter is believed a little later, and so is
    /// the former where nothing is mended: blocks that were overtaken may still come.
    fn end_of_file(&mut self, now: Instant, from: Channel, index: u32) {
        let believe = from == Channel::Group && self.config.repair != Repair::None;
        let Some(object) = self.open(from, index) else { return };
        if believe {
            self.reach_end(index);
        } else if object.end == End::NotYet {
            object.end = End::Announced;
            self.be_quiet_at(index, Some(now + QUIET));
            self.settle(index);
        }
    }

    /// Nothing more of the object will come from the group.
    fn reach_end(&mut self, index: u32) {
        self.be_quiet_at(index, None);
        let Some(object) = self.ledger.get_mut(index) else { return };
        object.end = End::Reached;
        let nothing_heard = object.begin.is_none() && !object.bof_requested;
        if nothing_heard && object.decision == Decision::Pending {
            if !std::mem::replace(&mut object.asked, true) {
                let file = self.file_id(index);
                self.out.push_back(Step::Event(ReceiverEvent::EndOfFileOnly { file }));
            }
        } else {
            self.request_begin_of_file(index);
        }
        self.settle(index);
    }

    /// DATA_Block(i, b), for a run of blocks.
    pub(super) fn blocks(&mut self, now: Instant, from: Channel, file: FileId, bytes: Range<u64>) {
        if self.is_foreign(file) {
            return;
        }
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
        if self.open(from, index).is_none() {
            return;
        }
        self.request_begin_of_file(index);
        self.take_blocks(now, from, index, bytes);
    }

    /// Procedures A, B, C and D, which differ only in where the blocks are stored.
    fn take_blocks(&mut self, now: Instant, from: Channel, index: u32, bytes: Range<u64>) {
        let file = self.file_id(index);
        let Some(object) = self.ledger.get_mut(index) else { return };
        if object.decision == Decision::Ignored {
            return;
        }
        match object.check(&bytes, KEPT_BYTES) {
            Err(Refusal::Malformed) => return self.counters.malformed += 1,
            Err(Refusal::TooEarly) => return self.counters.refused += 1,
            Ok(()) if self.chunks >= MAX_CHUNKS => return self.counters.refused += 1,
            Ok(()) => {}
        }
        let (chunks, mut duplicates, mut rest) = (object.chunks(), object.count(&bytes), bytes.clone());
        while let Some(new) = object.first_new(&rest) {
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
            if let Some(gap) = object.gap_before(&bytes) {
                self.request(index, Request::Retransmission(gap));
            }
            if self.ledger.get(index).is_some_and(|object| object.quiet_at.is_some()) {
                self.be_quiet_at(index, Some(now + QUIET));
            }
        }
        self.settle(index);
    }

    /// Ends that the connection announced, once the group is quiet.
    pub(super) fn reach_quiet_ends(&mut self, now: Instant) {
        while self.quiet.first().is_some_and(|(quiet_at, _)| *quiet_at <= now)
            && let Some((_, index)) = self.quiet.pop_first()
        {
            self.reach_end(index);
        }
    }

    fn be_quiet_at(&mut self, index: u32, time: Option<Instant>) {
        let Some(object) = self.ledger.get_mut(index) else { return };
        if let Some(before) = std::mem::replace(&mut object.quiet_at, time) {
            self.quiet.remove(&(before, index));
        }
        self.quiet.extend(time.map(|time| (time, index)));
    }

    pub(super) fn dropped(&mut self, now: Instant, total: u64) {
        if self.reporter.progress.dropped_packets != total {
            self.reporter.progress.dropped_packets = total;
            self.reporter.note(now);
        }
    }
}

/// What several inputs lead to.
impl Receiver {
    /// Looks at what an object now needs: its last blocks, its hash, or to be done with.
    pub(super) fn settle(&mut self, index: u32) {
        let file = self.file_id(index);
        let Some(object) = self.ledger.get_mut(index) else { return };
        if object.decision == Decision::Ignored && object.end != End::NotYet {
            self.end(index);
            return self.request(index, Request::End);
        }
        if object.stage != Stage::Receiving {
            return;
        }
        if object.is_final() && object.is_whole() {
            if object.digest.is_some() {
                object.stage = Stage::Hashing;
                self.be_quiet_at(index, None);
                self.transmit(ReceiverTransmit::Hash { file });
            }
        } else if object.end == End::Reached {
            self.mend_end(index);
        }
    }

    /// EOF(i) and blocks are missing: the last ones are asked for, those before have been.
    fn mend_end(&mut self, index: u32) {
        let Some(object) = self.ledger.get_mut(index) else { return };
        let undecided = object.begin.is_some() && !object.is_final();
        if self.config.repair == Repair::None && !undecided {
            let reason = match object.missing_bytes() {
                Some(missing) => format!("{missing} bytes were lost and are not sent again"),
                None => "its announcement was lost and is not sent again".to_owned(),
            };
            return self.fail(index, &reason, true);
        }
        if object.is_final()
            && let Some(gap) = object.gap_at_end()
        {
            self.request(index, Request::Retransmission(gap));
        }
    }

    /// INL_BOF_Req(i), once, for an object of which more is known than its end, or that is wanted.
    pub(super) fn request_begin_of_file(&mut self, index: u32) {
        let Some(object) = self.ledger.get_mut(index) else { return };
        if object.begin.is_none() && object.decision != Decision::Ignored && !object.bof_requested {
            object.bof_requested = true;
            self.request(index, Request::BeginOfFile);
        }
    }

    /// API_File(i)_Receive_Failed. `tell`: whether the sender does not know.
    pub(super) fn fail(&mut self, index: u32, reason: &str, tell: bool) {
        let file = self.file_id(index);
        self.end(index);
        self.out.retain(|step| !is_storage_of(step, file));
        self.transmit(ReceiverTransmit::Discard { file });
        self.out.push_back(Step::Event(ReceiverEvent::Failed { file, reason: reason.to_owned() }));
        if tell {
            self.request(index, Request::Failed(reason.to_owned()));
        }
    }

    pub(super) fn end(&mut self, index: u32) -> Option<Object> {
        self.be_quiet_at(index, None);
        self.committing = self.committing.filter(|other| *other != index);
        let object = self.ledger.end(index)?;
        self.chunks -= object.chunks();
        Some(object)
    }

    fn open(&mut self, from: Channel, index: u32) -> Option<&mut Object> {
        let decision = match self.config.notification {
            Notification::PerFile => Decision::Pending,
            Notification::Batched => Decision::Accepted,
        };
        let (block_len, trusted) = (self.config.block_len, from == Channel::Control);
        let object = self.ledger.open(index, trusted, || Object::new(block_len, decision));
        if object.is_none() {
            self.counters.refused += 1;
        }
        object
    }

    fn is_foreign(&mut self, file: FileId) -> bool {
        let foreign = file.session() != self.config.session;
        self.counters.foreign += u64::from(foreign);
        foreign
    }

    fn is_late(&mut self, index: u32) -> bool {
        let late = self.ledger.has_ended(index);
        self.counters.late += u64::from(late);
        late
    }

    pub(super) fn request(&mut self, index: u32, request: Request) {
        let file = self.file_id(index);
        if let Some(message) = self.requester.message(request) {
            self.transmit(ReceiverTransmit::Message { file, message });
        }
    }

    pub(super) fn transmit(&mut self, transmit: ReceiverTransmit) {
        self.out.push_back(Step::Transmit(transmit));
    }

    pub(super) fn file_id(&self, index: u32) -> FileId {
        FileId::new(self.config.session, index)
    }
}

/// Whether a step that has not been taken would touch what is stored of a failed object.
fn is_storage_of<W>(step: &Step<ReceiverTransmit, ReceiverEvent, W>, failed: FileId) -> bool {
    use ReceiverTransmit::{Announce, Commit, Hash, Store};
    match step {
        Step::Transmit(Announce { file, .. } | Store { file, .. } | Hash { file } | Commit { file }) => {
            *file == failed
        }
        _ => false,
    }
}
