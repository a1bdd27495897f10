//! The way of data through a receiver: the machine, the trust, the storage, and the messages to the sender. It
//! touches no socket: what it wants of them are effects.

mod handing;
mod objects;
mod pages;
mod serving;
mod trust;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    ops::Range,
    time::Duration,
};

use treecast_host::wake::Waker;
use treecast_proto::{Instant, object::ReceiverInput, repair::Receiver};
use treecast_wire::{
    header::{FileId, SessionId},
    message::{BeginOfFile, GroupId},
    seal::KeyId,
};

pub(super) use self::{handing::Handing, trust::Trust};
use super::{
    super::{Chooser, ReceiveEvent, ReceiveProgress, ReceiveSummary, outbox::Outbox},
    backlog::Backlog,
    members::Members,
};
use crate::{
    clock::Clock,
    files::{Admission, Intake, Leftovers, Rules, SmallObjects, TargetFolder},
    hindrance::Meter,
    remedies::{Advised, Remedy},
    udp::AtHand,
};

/// The machine of a session and all that it decides about. [`Delivery::handle`] tells it what has happened and carries out what it wants at
/// once, but for the [`Effect`]s, which are for the session.
pub(super) struct Delivery<'a> {
    pub on_event: &'a mut dyn FnMut(ReceiveEvent),
    pub clock: Clock,
    /// The time at which the current step began. Asking the clock at each of a small object's steps would cost as
    /// much as one of them.
    pub now: Instant,
    pub session: SessionId,
    pub block_len: u16,
    pub machine: Receiver,
    pub line: Line,
    pub trust: Trust,
    /// The state that only a member of local groups has. `None` in every other session.
    pub members: Option<Members>,
    pub store: Storing,
    pub figures: Figures,
    /// The state that earlier connections have left. Its objects are added to.
    pub carried: Carried,
    pub backlog: Backlog,
    /// The effects on sockets, in order.
    pub effects: Vec<Effect>,
}

/// An effect on sockets that the machine wants.
#[derive(Debug)]
pub(super) enum Effect {
    /// Hear a local group.
    Hear(GroupId),
    /// Hear a local group no more.
    Leave(GroupId),
    /// Move to this group of the session: the sender wants that.
    Move(u8),
}

/// The sealing of what came last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sealing {
    /// Whether packets of the session are sealed.
    pub is_sealed: bool,
    /// The key that it was sealed with.
    pub key: Option<KeyId>,
}

/// The state that a receiver takes along from one connection to the next.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Carried {
    pub has_come_back: bool,
    /// The progress over earlier connections.
    pub progress: ReceiveProgress,
    pub summary: ReceiveSummary,
    /// The objects that have ended, by number, and whether each is there.
    pub ended: BTreeMap<u32, bool>,
    /// The objects that are sent by difference, by number, and how many bytes of each an older version held.
    pub older: BTreeMap<u32, u64>,
    /// Numbers of the objects that the user was told of.
    pub announced: BTreeSet<u32>,
    pub admission: Admission,
}

impl Carried {
    /// The state of a receiver that joins for the first time.
    pub fn new(rules: Rules) -> Self {
        Self { admission: Admission::new(rules), ..Self::default() }
    }
}

/// The messages to the sender, and the way in which the session ends.
pub(super) struct Line {
    pub sender: SocketAddr,
    /// Messages for the sender that the connection has not been given yet.
    pub outbox: Outbox,
    /// Whether a carousel's sender is told what is lacking.
    pub reports: bool,
    /// Whether the connection is to be closed when all output is written.
    pub closes: bool,
    /// Whether the sender has said Goodbye, and listens no more.
    pub is_over: bool,
    /// Whether the sender has admitted this receiver. Nobody has to admit a carousel's.
    pub is_welcome: bool,
    /// The number of the first object that the sender began after that.
    pub first: u32,
    /// Whether the receiver comes back when the connection breaks.
    pub comes_back: bool,
    /// Whether the session has ended because the receiver's time is up.
    pub is_time_up: bool,
    /// Whether a receiver that is told to stop removes what is not complete.
    pub discards: bool,
    /// Whether the receiver was told to stop, and leaves what is not complete to a later one.
    pub leaves_rest: bool,
    /// Whether the connection is to be read, whatever waits elsewhere.
    pub listens: bool,
    pub closed: bool,
    /// What helps against the reason for which this side closes.
    pub remedy: Option<Remedy>,
}

/// The storage of objects.
pub(super) struct Storing {
    pub folder: TargetFolder,
    pub is_feed: bool,
    /// Whether a file is compared with what comes again of it, because its frames have no hashes of chunks.
    pub compares: bool,
    /// The files and parts that an earlier receiver has left.
    pub leftovers: Leftovers,
    pub intake: Intake,
    pub small: SmallObjects,
    pub store_waker: Waker,
    /// The function that decides which objects are wanted. `None` wants all.
    pub chooser: Option<Chooser>,
    /// Complete files that are handed on.
    pub handing: Handing,
    /// The announcements of the objects that have not ended.
    pub begins: BTreeMap<FileId, BeginOfFile>,
    /// Objects of which the machine has not been told yet what is there, because an older version is being read: what an earlier
    /// receiver has left of each.
    pub seeded_next: BTreeMap<FileId, Vec<Range<u64>>>,
    /// Objects for which there was no room. What an earlier receiver has left of them stays.
    pub cramped: BTreeSet<FileId>,
    /// The remedies of the failures of these objects.
    pub remedies: BTreeMap<FileId, Remedy>,
    /// The time since which something waits for room on the disk. `None` when nothing does.
    pub full_since: Option<Instant>,
    /// The time for which something waited for room before that.
    pub full_time: Duration,
}

/// The figures of the receiver's progress.
#[derive(Default)]
pub(super) struct Figures {
    pub announced_bytes: u64,
    /// Bytes that came over the connection.
    pub retransmitted_bytes: u64,
    /// The part of the retransmitted bytes that belongs to objects which the sender began after this receiver came.
    pub missed_bytes: u64,
    /// Whether the user knows that nothing comes from the group.
    pub has_told_unheard: bool,
    /// The number of the received bytes that were there from before.
    pub kept_bytes: u64,
    /// Packets that were of no use.
    pub malformed: u64,
    pub disk_wait_ms: u64,
    /// Requests for retransmissions.
    pub requests: u64,
    /// Bytes of objects that failed.
    pub failed_bytes: u64,
    /// Bytes of objects that were incomplete when this receiver was told to stop.
    pub unfinished_bytes: u64,
    /// Objects whose names are not wanted.
    pub not_wanted: BTreeSet<FileId>,
    /// The time at which the first packet came that was no answer over the connection.
    pub heard_at: Option<Instant>,
    /// The time at which the last object ended. A member of local groups serves others after that.
    pub ended_at: Option<Instant>,
    pub next_progress: Instant,
    pub meter: Meter<4>,
    pub summary: ReceiveSummary,
    /// Objects that fail unless the receiver comes back: number, name and reason.
    pub failing: Vec<(FileId, String, Advised)>,
}

impl Delivery<'_> {
    /// Tells the machine what has happened, and carries out what it wants. `at_hand` is where the bytes are that it may want stored.
    pub fn handle(&mut self, input: ReceiverInput, at_hand: Option<AtHand>) {
        self.now = self.clock.now();
        self.machine.handle(self.now, input);
        self.settle(at_hand);
        self.release_digests();
        self.fail_doomed();
    }

    /// Tells the machine that it knows all that its sockets held when it asked.
    pub fn note_drained(&mut self, is_drained: bool) {
        if is_drained {
            self.handle(ReceiverInput::Drained, None);
        }
    }

    /// Tells the machine for how long the disk has kept this receiver waiting.
    pub fn note_disk_wait(&mut self) {
        let now = self.clock.now();
        let full = self.store.full_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let waited = self.store.intake.disk_wait() + self.store.full_time + full;
        let total_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        if total_ms != self.figures.disk_wait_ms {
            self.figures.disk_wait_ms = total_ms;
            self.handle(ReceiverInput::DiskWaited { total_ms }, None);
        }
    }
}
