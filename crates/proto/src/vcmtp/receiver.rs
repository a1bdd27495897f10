//! The receiver: data receiver and retransmission requester
//! (interdomain-2013, 4.4, tables 4.3, 4.7 and 4.8, procedures A to D).

mod actions;
mod answers;
mod chunks;
mod connection;
mod data_receiver;
mod lacking;
mod ledger;
mod moving;
mod object;
mod reporter;
mod requester;
mod symbols;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use treecast_wire::{
    header::{FileId, SessionId},
    message::Message,
};

use self::{ledger::Ledger, object::Stage, reporter::Reporter, requester::Requester};
use super::Repair;
use crate::{
    Instant, Step,
    object::{
        Channel, CutShort, ReceiverCounters, ReceiverEvent, ReceiverInput, ReceiverTransmit, ReceiverWait,
        Response,
    },
};

/// The way in which the application learns of objects (4.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Notification {
    /// The application is asked about each object, and answers with a [`Response`].
    #[default]
    PerFile,
    /// Every object is stored in the folder, and the application is told of each one that is complete.
    Batched,
}

#[derive(Debug, Clone, Default)]
pub struct ReceiverConfig {
    pub session: SessionId,
    pub repair: Repair,
    /// Whether the sender may mend losses with repair symbols. The receiver names lost blocks to it until it
    /// does.
    pub fec: bool,
    /// Whether the caller checks that a digest from the group comes from the sender before it hands the digest
    /// in.
    pub digest_from_group: bool,
    pub block_len: u16,
    pub notification: Notification,
    /// The number of multicast bytes after which a Progress report leaves.
    pub progress_bytes: u64,
    /// The time after which a Progress report leaves when there is something new to report.
    pub progress_interval: Duration,
    /// The most time between two messages to the sender while an object is under way: a fraction of the
    /// sender's [`super::SenderConfig::stall_limit`].
    pub keepalive: Duration,
    /// The time for which the connection may be silent before the receiver gives it up: several times the
    /// sender's [`super::SenderConfig::keepalive`].
    pub stall_limit: Duration,
    /// Whether parts of objects may be stored from before. Then each [`ReceiverTransmit::Announce`] is answered
    /// with [`ReceiverInput::Have`], and the receiver asks for nothing of the object before that.
    pub resumes: bool,
}

/// One session's receiver. Call order: see the crate's documentation; poll to the end after every
/// [`ReceiverInput::Blocks`], while the packet's bytes are still at hand.
#[derive(Debug, Default)]
pub struct Receiver {
    config: ReceiverConfig,
    state: State,
    ledger: Ledger,
    requester: Requester,
    reporter: Reporter,
    counters: ReceiverCounters,
    /// The group that it listens to.
    group: u8,
    /// Moves that the sender has not answered.
    unconfirmed_moves: u32,
    /// The objects whose end the connection has announced, by the time when it is believed.
    quiet: BTreeSet<(Instant, u32)>,
    /// The time when it has last been asked for what the group's socket holds, until that has been handed in.
    draining: Option<Instant>,
    /// The objects that lack symbols, by the time when the sender is to hear of it.
    lacks: BTreeSet<(Instant, u32)>,
    /// Chunks of memory that all objects' sets of blocks take.
    chunks: usize,
    /// Returns when anything last came over the connection.
    heard: Instant,
    /// Whether the caller has been asked to [`ReceiverTransmit::Listen`] and has not answered.
    is_listening: bool,
    /// The reason why the connection was lost.
    close_reason: Option<String>,
    out: VecDeque<Step<ReceiverTransmit, ReceiverEvent, ReceiverWait>>,
}

/// The data receiver's state in table 4.7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// No connection yet.
    #[default]
    Idle,
    ReceivingData,
    /// The sender has said Goodbye; what is whole is still checked and committed.
    Leaving,
    /// NULL again.
    Closed,
}

/// # What happens
impl Receiver {
    pub fn new(config: ReceiverConfig) -> Self {
        let none = FileId::new(config.session, 0);
        Self {
            requester: Requester { repair: config.repair, ..Requester::default() },
            reporter: Reporter::new(config.progress_bytes, config.progress_interval, config.keepalive, none),
            config,
            ..Self::default()
        }
    }

    pub fn handle(&mut self, now: Instant, input: ReceiverInput) {
        if self.state == State::Closed {
            return;
        }
        match input {
            ReceiverInput::Connected { round_trip } => self.connected(now, round_trip),
            ReceiverInput::Disconnected { reason } => self.disconnected(&reason),
            ReceiverInput::Message { from, file, message } => self.message(now, from, file, message),
            ReceiverInput::Blocks { from, file, range } => self.blocks(now, from, file, range),
            ReceiverInput::Symbols { from, file, positions } => self.symbols(now, from, file, positions),
            ReceiverInput::Decoded { file, source_block, is_right } => {
                self.decoded(now, file, source_block, is_right);
            }
            ReceiverInput::Moved { group } => self.moved(now, group),
            ReceiverInput::Listened { heard } => self.listened(now, heard),
            ReceiverInput::Drained => self.drained(now),
            ReceiverInput::Dropped { total } => self.dropped(now, total),
            ReceiverInput::DiskWaited { total_ms } => self.disk_waited(now, total_ms),
            ReceiverInput::Respond { file, response } => self.respond(now, file, response),
            ReceiverInput::Have { file, ranges } => self.have(now, file, &ranges),
            ReceiverInput::Hashed { file, hash } => self.hashed(now, file, hash),
            ReceiverInput::Checked { file, page, wrong } => self.checked(now, file, page, wrong.as_deref()),
            ReceiverInput::Committed { file } => self.committed(file),
            ReceiverInput::AnnouncementRefused { file, begin, reason } => {
                self.announcement_refused(now, file, &begin, &reason);
            }
            ReceiverInput::Lost { file, ranges } => self.lost(now, file, &ranges),
            ReceiverInput::StoreFailed { file, reason } => self.store_failed(file, &reason),
            ReceiverInput::Close { reason } => self.close(&reason),
            // The connection tells what is the sender's.
            ReceiverInput::Disown { .. } | ReceiverInput::Refused { .. } => {}
        }
    }

    fn message(&mut self, now: Instant, from: Channel, file: FileId, message: Message) {
        if self.is_foreign(file) {
            return;
        }
        self.note_heard(now, from);
        let index = file.index();
        match (message, from) {
            (Message::Welcome(_), Channel::Control) => self.ledger.note_next(index),
            (Message::Goodbye, Channel::Control) => self.state = State::Leaving,
            (Message::Move(to), Channel::Control) => self.placed(to),
            (Message::PutOut(word), Channel::Control) => self.put_out(&word),
            _ if self.is_late(index) => {}
            (_, Channel::Control) if self.is_doomed(index) => self.fail_doomed(index),
            (Message::BeginOfFile(begin), _) => self.begin_of_file(now, from, index, begin),
            (Message::EndOfFile, _) => self.end_of_file(now, from, index),
            (Message::Digest(digest), Channel::Control) => {
                self.end_of_file(now, from, index);
                if let Some(object) = self.ledger.get_mut(index) {
                    object.digest = Some(digest.hash);
                    self.settle(now, index);
                }
            }
            (Message::Digest(digest), Channel::Group) if self.config.digest_from_group => {
                self.digest_from_group(now, index, digest.hash);
            }
            (Message::ChunkHashes(page), Channel::Control) => self.chunk_hashes(now, index, page),
            (Message::SymbolsSent(sent), _) => self.symbols_sent(now, from, index, sent),
            // What is whole needs no retransmissions.
            (Message::RetransmissionReject, Channel::Control) if self.is_checked(index) => {}
            (Message::RetransmissionReject, Channel::Control) => {
                self.refused(index, "the sender's time for retransmissions is up");
            }
            (Message::Withdraw(reason), Channel::Control) => self.refused(index, reason.as_str()),
            _ => self.counters.malformed += 1,
        }
    }
}

/// # What is to be done
impl Receiver {
    pub fn poll(&mut self, now: Instant) -> Step<ReceiverTransmit, ReceiverEvent, ReceiverWait> {
        if let Some(step) = self.out.pop_front() {
            return step;
        }
        self.drain_before_quiet_ends(now);
        self.listen_if_silent(now);
        self.say_lacks(now);
        if self.out.is_empty() {
            self.report(now);
            self.leave();
        }
        if self.out.is_empty() { self.wait() } else { self.poll(now) }
    }

    fn report(&mut self, now: Instant) {
        if !self.requester.ready_to_send {
            return;
        }
        if let Some((file, progress)) = self.reporter.due(now, self.ledger.has_confirmed()) {
            let message = Message::Progress(progress);
            self.out.push_back(Step::Transmit(ReceiverTransmit::Message { file, message }));
        }
    }

    fn wait(&self) -> Step<ReceiverTransmit, ReceiverEvent, ReceiverWait> {
        let reports = self
            .requester
            .ready_to_send
            .then(|| self.reporter.deadline(self.ledger.has_confirmed()))
            .flatten();
        let [quiet, lacks] = [&self.quiet, &self.lacks].map(|times| times.first().map(|(time, _)| *time));
        let quiet = quiet.filter(|_| self.draining.is_none()).into_iter().chain(lacks).min();
        let hashing = || self.ledger.iter().any(|(_, object)| object.stage == Stage::Hashing);
        let (deadline, why) = match (reports, quiet) {
            _ if self.state == State::Idle => return Step::Wait(None, ReceiverWait::Connection),
            _ if self.state == State::Closed => return Step::Wait(None, ReceiverWait::Closed),
            (Some(report), None) => (Some(report), ReceiverWait::Report),
            (Some(report), Some(quiet)) if report <= quiet => (Some(report), ReceiverWait::Report),
            (_, Some(quiet)) => (Some(quiet), ReceiverWait::Sender),
            (None, None) if hashing() => (None, ReceiverWait::Storage),
            (None, None) => (None, ReceiverWait::Sender),
        };
        Step::Wait([deadline, self.listens_at()].into_iter().flatten().min(), why)
    }
}

/// # What is to be seen
impl Receiver {
    /// Returns how many bytes of all objects have been received so far; bytes that came twice count once.
    pub fn received_bytes(&self) -> u64 {
        self.reporter.progress.received_bytes
    }

    /// Returns when anything last came over the connection.
    pub fn last_heard(&self) -> Instant {
        self.heard
    }

    /// Whether the session has ended for this receiver before its sender said Goodbye.
    pub fn is_cut_short(&self) -> bool {
        self.close_reason.is_some()
    }

    pub fn counters(&self) -> ReceiverCounters {
        self.counters
    }
}
