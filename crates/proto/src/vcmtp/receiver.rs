//! The receiver: data receiver and retransmission requester
//! (interdomain-2013, 4.4, tables 4.3, 4.7 and 4.8, procedures A to D).

mod answers;
mod chunks;
mod connection;
mod data_receiver;
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
    ops::Range,
    time::Duration,
};

use treecast_wire::{
    header::{FileId, SessionId},
    message::{BeginOfFile, ChunkHashes, Message},
};

use self::{ledger::Ledger, object::Stage, reporter::Reporter, requester::Requester};
use super::Repair;
use crate::{Instant, Step};

/// How the application learns of objects (4.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notification {
    /// It is asked about each object and answers with a [`Response`].
    PerFile,
    /// Every object goes to the folder; it is told of each that is complete.
    Batched,
}

#[derive(Debug, Clone)]
pub struct ReceiverConfig {
    pub session: SessionId,
    pub repair: Repair,
    /// Whether the sender may mend losses with repair symbols. What is lost is named to it until it does.
    pub fec: bool,
    /// Whether the caller hands in no digest from the group of which it has not seen that it is the sender's.
    pub digest_from_group: bool,
    pub block_len: u16,
    pub notification: Notification,
    /// A Progress report goes out after so many multicast bytes, ...
    pub progress_bytes: u64,
    /// ... or so much time with something new to report.
    pub progress_interval: Duration,
    /// While an object is under way here, something is said to the sender at least so often: a fraction of
    /// its [`super::SenderConfig::stall_limit`].
    pub keepalive: Duration,
    /// When nothing has come over the connection for this long, it is given up: several times the sender's
    /// [`super::SenderConfig::keepalive`].
    pub stall_limit: Duration,
    /// Whether something of objects may be there from before: each [`ReceiverTransmit::Announce`] is then answered
    /// with [`ReceiverInput::Have`], before which nothing of the object is asked for.
    pub resumes: bool,
}

/// What a packet came in on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// The group's socket (or, with unicast fanout, the receiver's own).
    Group,
    /// The control connection.
    Control,
}

/// The application's answer (API_BOF_Response, INL_EOF_Only_Response).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response {
    Accept,
    Ignore,
}

/// Something that has happened at the receiver.
#[derive(Debug, Clone)]
pub enum ReceiverInput {
    /// The control connection is there (INL_Unicast_Connection_Created).
    Connected,
    /// The control connection is gone (INL_Unicast_Connection_Closed).
    Disconnected { reason: String },
    /// A control message came in.
    Message { from: Channel, file: FileId, message: Message },
    /// Blocks of one object came in, without a gap between them (a super-packet is one input).
    Blocks { from: Channel, file: FileId, range: Range<u64> },
    /// Repair symbols of one source block came in, without a gap between them, by their sequence numbers.
    Symbols { from: Channel, file: FileId, positions: Range<u64> },
    /// A source block has been decoded and its missing blocks are stored, or it could not be decoded.
    Decoded { file: FileId, source_block: u32, is_right: bool },
    /// The group's packets are those of another group of the session from now on; 0 is the first.
    Moved { group: u8 },
    /// The connection has been read: whether anything came, be it part of a message. Also the answer to
    /// [`ReceiverTransmit::Listen`].
    Listened { heard: bool },
    /// The answer to [`ReceiverTransmit::DrainGroup`]: what the group's socket held by then has been handed in.
    Drained,
    /// The kernel's count of packets dropped so far at the group's socket.
    Dropped { total: u64 },
    /// How many milliseconds packets have waited for the disk so far.
    DiskWaited { total_ms: u64 },
    /// The application has decided about an object.
    Respond { file: FileId, response: Response },
    /// These bytes of an announced object are stored already, from before this receiver was started.
    Have { file: FileId, ranges: Vec<Range<u64>> },
    /// Everything of the object is stored, and this is its BLAKE3 hash.
    Hashed { file: FileId, hash: [u8; 32] },
    /// The answer to [`ReceiverTransmit::CheckChunks`]: which bytes are wrong, whole chunks. None when the page is
    /// not part of the object's hash.
    Checked { file: FileId, page: u32, wrong: Option<Vec<Range<u64>>> },
    /// The file has its final name (API_File_Received).
    Committed { file: FileId },
    /// The object cannot be stored as it was announced (no room, name refused). Everything kept of it is
    /// gone, and nothing more is kept before [`ReceiverTransmit::Discard`].
    AnnouncementRefused { file: FileId, begin: BeginOfFile, reason: String },
    /// There was no room for these bytes, and there is now: it is as if they had never come. What was asked of the storage
    /// since is not answered.
    Lost { file: FileId, ranges: Vec<Range<u64>> },
    /// Storing failed for good (disk full, name taken).
    StoreFailed { file: FileId, reason: String },
    /// API_Close_Receiver, and why.
    Close { reason: String },
}

/// Something for the caller to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiverTransmit {
    /// Send a message on the control connection.
    Message { file: FileId, message: Message },
    /// The object's size and name are known: its file may be sized and will be called so. Comes again, with
    /// other words, when the group was wrong.
    Announce { file: FileId, begin: BeginOfFile },
    /// Keep these bytes of the [`ReceiverInput::Blocks`] just handled. They are new. Before the object's
    /// announcement they should not cost a file: anybody may have sent them.
    Store { file: FileId, range: Range<u64> },
    /// Keep these of the [`ReceiverInput::Symbols`] just handled. Of one object, no more are kept than it has blocks.
    KeepSymbols { file: FileId, source_block: u32, positions: Range<u64> },
    /// What is stored and kept of a source block, `blocks` of it in all, should do to compute those that are missing,
    /// in bytes: store them, forget its symbols, and say so with [`ReceiverInput::Decoded`]. If it does not do, one
    /// more is kept, and this comes again.
    Decode { file: FileId, source_block: u32, blocks: Range<u64>, missing: Vec<Range<u64>> },
    /// Forget all symbols that are kept of the object.
    ForgetSymbols { file: FileId },
    /// The connection is ahead of the group, or the group is quiet: hand in what the group's socket holds by now, and
    /// then [`ReceiverInput::Drained`]. A host that was busy with other things may have left a lot in there.
    DrainGroup,
    /// Nothing has come from the sender for long: read the connection now, and answer with
    /// [`ReceiverInput::Listened`]. A host that was busy with other things may have left the sender's words unread.
    Listen,
    /// All bytes are stored: compute the hash and hand it back. After a wrong one, what is wrong is stored
    /// anew over what is there, and this comes once more.
    Hash { file: FileId },
    /// See whether a page of chunk hashes leads to the object's `hash`, and which of its chunks are stored otherwise
    /// ([`crate::chunks`]); answer with [`ReceiverInput::Checked`].
    CheckChunks { file: FileId, hash: [u8; 32], page: ChunkHashes },
    /// The hash is right: give the file its final name, and answer with [`ReceiverInput::Committed`] or
    /// [`ReceiverInput::StoreFailed`].
    Commit { file: FileId },
    /// Throw away all that is stored of the object, announcement and failure included.
    Discard { file: FileId },
    /// Close the control connection.
    CloseConnection,
}

/// Something to tell the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// API_BOF_Received: decide with [`ReceiverInput::Respond`] (per-file notification only).
    Announced { file: FileId, begin: BeginOfFile },
    /// INL_EOF_Only: an object went by of which nothing was heard but its end; decide with
    /// [`ReceiverInput::Respond`] (per-file notification only; batched accepts).
    EndOfFileOnly { file: FileId },
    /// API_File_Received: complete, right and committed.
    Received { file: FileId, begin: BeginOfFile },
    /// API_File_Receive_Failed.
    Failed { file: FileId, reason: String },
    /// The sender wants this receiver in another group than that where it has gone last.
    CalledBack { group: u8 },
    /// The session is over (Goodbye or a lost connection).
    Closed { reason: Option<String> },
}

/// What the receiver waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverWait {
    Connection,
    /// Anything from the sender.
    Sender,
    /// The moment to report progress.
    Report,
    /// The hash of an object.
    Hash,
    Closed,
}

/// What came in and was of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiverCounters {
    /// Blocks that were there already.
    pub duplicate_blocks: u64,
    /// Packets of objects that have ended here.
    pub late: u64,
    /// Packets of another session.
    pub foreign: u64,
    /// Blocks that do not start at a multiple of the block length or cross an object's end, and
    /// messages that do not come from a sender.
    pub malformed: u64,
    /// Packets that would need more memory than a session may take, or that came before there was a
    /// connection to ask for what they leave open. What they hold is asked for later.
    pub refused: u64,
    /// Repair symbols kept, and blocks computed from them.
    pub repair_symbols: u64,
    pub decoded_blocks: u64,
    /// Chunks that were there, wrong, and are asked for again.
    pub wrong_chunks: u64,
}

/// One session's receiver. Call order: see the crate's documentation; poll to the end after every
/// [`ReceiverInput::Blocks`], while the packet's bytes are still at hand.
#[derive(Debug)]
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
    /// When it has last been asked for what the group's socket holds, until that has been handed in.
    draining: Option<Instant>,
    /// The objects that lack symbols, by the time when the sender is to hear of it.
    lacks: BTreeSet<(Instant, u32)>,
    /// Chunks of memory that all objects' sets of blocks take.
    chunks: usize,
    /// When anything last came over the connection.
    heard: Instant,
    /// Whether the caller has been asked to [`ReceiverTransmit::Listen`] and has not answered.
    is_listening: bool,
    /// Why the connection was lost.
    close_reason: Option<String>,
    out: VecDeque<Step<ReceiverTransmit, ReceiverEvent, ReceiverWait>>,
}

/// The data receiver's state in table 4.7.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No connection yet.
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
            state: State::Idle,
            ledger: Ledger::default(),
            requester: Requester {
                repair: config.repair,
                ready_to_send: false,
                arrived_symbols: 0,
                counts: false,
            },
            reporter: Reporter::new(config.progress_bytes, config.progress_interval, config.keepalive, none),
            counters: ReceiverCounters::default(),
            group: 0,
            unconfirmed_moves: 0,
            quiet: BTreeSet::new(),
            draining: None,
            lacks: BTreeSet::new(),
            chunks: 0,
            heard: Instant::ZERO,
            is_listening: false,
            close_reason: None,
            out: VecDeque::new(),
            config,
        }
    }

    pub fn handle(&mut self, now: Instant, input: ReceiverInput) {
        if self.state == State::Closed {
            return;
        }
        match input {
            ReceiverInput::Connected => self.connected(now),
            ReceiverInput::Disconnected { reason } => self.disconnected(&reason),
            ReceiverInput::Message { from, file, message } => self.message(now, from, file, message),
            ReceiverInput::Blocks { from, file, range } => self.blocks(now, from, file, range),
            ReceiverInput::Symbols { from, file, positions } => self.symbols(now, from, file, positions),
            ReceiverInput::Decoded { file, source_block, is_right } => {
                self.decoded(now, file, source_block, is_right);
            }
            ReceiverInput::Moved { group } => self.moved(group),
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
        match self.out.is_empty() {
            true => self.wait(),
            false => self.poll(now),
        }
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
            (None, None) if hashing() => (None, ReceiverWait::Hash),
            (None, None) => (None, ReceiverWait::Sender),
        };
        Step::Wait([deadline, self.listens_at()].into_iter().flatten().min(), why)
    }
}

/// # What is to be seen
impl Receiver {
    /// Distinct bytes of all objects received so far.
    pub fn received_bytes(&self) -> u64 {
        self.reporter.progress.received_bytes
    }

    /// When anything last came over the connection.
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
