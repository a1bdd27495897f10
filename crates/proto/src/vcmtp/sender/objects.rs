//! The state of objects that the sender's three machines share (interdomain-2013, table 4.2).

use std::{collections::BTreeMap, ops::Range, time::Duration};

use treecast_wire::{
    header::{FileId, SessionId},
    message::BeginOfFile,
};

use super::{super::Repair, lacks::Lacks};
use crate::object::{Outcome, ReceiverId, ranges::BlockSet};
use crate::{
    Instant,
    fec::{Layout, Schedule},
};

/// One object: the paper's metadata(i), and its row of file_receive_status.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) begin: BeginOfFile,
    /// The time when its BOF was multicast.
    pub(super) started: Option<Instant>,
    /// End of what has been multicast, in bytes.
    pub(super) sent: u64,
    /// The number of multicast bytes after which its BOF goes out again ([`super::multicast_sender`]).
    pub(super) announce_at: u64,
    /// The time when its EOF was multicast.
    pub(super) out: Option<Instant>,
    pub(super) hash: Option<[u8; 32]>,
    /// The time since which its EOF is out and its hash is known, and receivers are told.
    pub(super) told: Option<Instant>,
    /// The object's own factor for its time for retransmissions. `None` if it has the session's.
    pub(super) time_factor: Option<f64>,
    /// Its time for retransmissions, while that runs.
    pub(super) time: Option<RetransmissionTime>,
    /// file_receive_status(i): none while the receiver is still at it.
    pub(super) status: BTreeMap<ReceiverId, Option<Outcome>>,
    /// The number of receivers that are still at it.
    pub(super) unfinished: usize,
    /// The block at which the object was last read for a retransmission (VCMTP 1: all receivers'
    /// retransmissions go through the object together).
    pub(super) repair_front: u64,
    /// Whether it was over and is open again.
    pub(super) is_again: bool,
    /// The time that its multicast took, where that was earlier.
    pub(super) multicast_time: Option<Duration>,
    /// The reason why it is not sent any more, if it is not.
    pub(super) withdrawn: Option<String>,
    /// The schedule of repair symbols, with forward error correction.
    pub(super) schedule: Option<Schedule>,
    /// The blocks that receivers lack of an object that is sent by difference. `None` for one that is sent
    /// whole.
    pub(super) lacks: Option<Box<Lacks>>,
}

/// The time for retransmissions of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetransmissionTime {
    /// The time when half of it is over. Retransmissions are urgent from then on.
    pub(super) urgent_at: Instant,
    /// The time when its timer expires: retx_timeout(i).
    pub(super) expires: Instant,
}

impl Object {
    /// Adds a receiver that is to have the object.
    pub(super) fn add_receiver(&mut self, receiver: ReceiverId) {
        let before = self.status.insert(receiver, None);
        if !matches!(before, Some(None)) {
            self.unfinished += 1;
        }
        if let Some(lacks) = &mut self.lacks {
            lacks.awaited.insert(receiver);
        }
    }

    /// Whether `receiver` is still at the object.
    pub(super) fn is_pending_at(&self, receiver: ReceiverId) -> bool {
        matches!(self.status.get(&receiver), Some(None))
    }

    /// A receiver that has never taken part is to have the object no more. Returns whether it was the last that
    /// was still at it.
    pub(super) fn forget_receiver(&mut self, receiver: ReceiverId) -> bool {
        let was_pending = matches!(self.status.remove(&receiver), Some(None));
        self.unfinished -= usize::from(was_pending);
        self.await_no_report(receiver);
        was_pending && self.unfinished == 0
    }

    /// A receiver has ended with the object, or is gone: nobody waits for what it lacks.
    pub(super) fn await_no_report(&mut self, receiver: ReceiverId) {
        if let Some(lacks) = &mut self.lacks {
            lacks.awaited.remove(&receiver);
        }
    }

    /// Passes over blocks that nobody lacks, where the object is sent by difference.
    fn skip(&mut self, block_len: u64) {
        if let Some(lacks) = self.lacks.as_ref().filter(|_| self.sent < self.begin.file_size) {
            let next = lacks.next(self.sent / block_len);
            self.sent = next.map_or(self.begin.file_size, |run| self.sent.max(run.start * block_len));
        }
    }

    pub(super) fn pending_receivers(&self) -> Vec<ReceiverId> {
        let pending = self.status.iter().filter(|(_, outcome)| outcome.is_none());
        pending.map(|(receiver, _)| *receiver).collect()
    }
}

/// The part of an object's state that is kept when it is over.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) begin: BeginOfFile,
    pub(super) sent: u64,
    /// The time that its multicast took, once it is out.
    pub(super) multicast_time: Option<Duration>,
    pub(super) hash: Option<[u8; 32]>,
    /// The reason why it is not sent any more, if it is not.
    pub(super) withdrawn: Option<String>,
}

impl Over {
    pub fn of(object: &Object) -> Self {
        let time = object.out.zip(object.started).map(|(out, started)| out - started);
        Self {
            begin: object.begin.clone(),
            sent: object.sent,
            multicast_time: time,
            hash: object.hash,
            withdrawn: object.withdrawn.clone(),
        }
    }

    pub fn begin(&self) -> &BeginOfFile {
        &self.begin
    }

    pub fn set_hash(&mut self, hash: [u8; 32]) {
        self.hash = Some(hash);
    }

    /// Creates the state of an object that an earlier sender of the session has multicast to its end.
    pub fn before(begin: BeginOfFile, hash: [u8; 32]) -> Self {
        let sent = begin.file_size;
        Self { begin, sent, multicast_time: Some(Duration::ZERO), hash: Some(hash), withdrawn: None }
    }
}

/// All objects that are queued, on their way or waiting for receivers. One whose API_File_Done has
/// gone out is over.
#[derive(Debug)]
pub(super) struct Objects {
    session: SessionId,
    block_len: u64,
    has_fec: bool,
    next_index: u32,
    open: BTreeMap<u32, Object>,
    /// Objects that are over and may be opened again.
    over: BTreeMap<u32, Over>,
    /// The largest number of those. The oldest are forgotten first.
    most_over: usize,
    /// Indexes of all that are over, or were once; a few words for thousands.
    done: BlockSet,
}

impl Objects {
    pub(super) fn new(session: SessionId, block_len: u16, has_fec: bool, most_over: usize) -> Self {
        Self {
            session,
            block_len: u64::from(block_len.max(1)),
            has_fec,
            next_index: 0,
            open: BTreeMap::new(),
            over: BTreeMap::new(),
            most_over,
            done: BlockSet::default(),
        }
    }

    pub(super) fn number_from(&mut self, index: u32) {
        self.next_index = self.next_index.max(index);
    }

    pub(super) fn add(&mut self, begin: BeginOfFile) -> u32 {
        let object = self.make(begin);
        let index = self.next_index;
        self.next_index += 1;
        self.open.insert(index, object);
        index
    }

    /// Adds an object that is over already.
    pub(super) fn add_over(&mut self, over: Over) -> u32 {
        let index = self.next_index;
        self.next_index += 1;
        self.over.insert(index, over);
        self.done.insert(index.into()..u64::from(index) + 1);
        index
    }

    /// An object of which nothing has happened yet.
    pub(super) fn make(&self, begin: BeginOfFile) -> Object {
        let layout = Layout::new(begin.file_size, self.block_len as u16).filter(|_| self.has_fec);
        Object {
            schedule: layout.map(Schedule::new),
            lacks: begin.has_index().then(Box::default),
            begin,
            is_again: false,
            multicast_time: None,
            withdrawn: None,
            started: None,
            sent: 0,
            announce_at: 0,
            out: None,
            hash: None,
            told: None,
            time_factor: None,
            time: None,
            status: BTreeMap::new(),
            unfinished: 0,
            repair_front: 0,
        }
    }

    /// Puts an object back that was over.
    pub(super) fn put(&mut self, index: u32, object: Object) {
        self.open.insert(index, object);
    }

    /// Returns the state that is kept of an object that is over.
    pub(super) fn over(&self, index: u32) -> Option<&Over> {
        self.over.get(&index)
    }

    pub(super) fn over_mut(&mut self, index: u32) -> Option<&mut Over> {
        self.over.get_mut(&index)
    }

    pub(super) fn take_over(&mut self, index: u32) -> Option<Over> {
        self.over.remove(&index)
    }

    pub(super) fn file_id(&self, index: u32) -> FileId {
        FileId::new(self.session, index)
    }

    /// The index of an object that this session has announced or will, whether it is open or done.
    pub(super) fn index(&self, file: FileId) -> Option<u32> {
        (file.session() == self.session && file.index() < self.next_index).then(|| file.index())
    }

    /// The index of an object that has been announced, whether it is open or done.
    pub(super) fn begun(&self, file: FileId) -> Option<u32> {
        let has_begun = |object: &Object| object.started.is_some();
        self.index(file).filter(|index| self.open.get(index).is_none_or(has_begun))
    }

    /// The first object that has not begun.
    pub(super) fn next_to_begin(&self) -> u32 {
        let mut waiting = self.open.iter().filter(|(_, object)| object.started.is_none());
        waiting.next().map_or(self.next_index, |(index, _)| *index)
    }

    /// The number of objects so far.
    pub(super) fn count(&self) -> u32 {
        self.next_index
    }

    pub(super) fn get(&self, index: u32) -> Option<&Object> {
        self.open.get(&index)
    }

    /// An object behind blocks that need not be sent.
    pub(super) fn skipped(&mut self, index: u32) -> Option<&mut Object> {
        let object = self.open.get_mut(&index)?;
        object.skip(self.block_len);
        Some(object)
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Object> {
        self.open.get_mut(&index)
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<Object> {
        let object = self.open.remove(&index)?;
        self.done.insert(index.into()..u64::from(index) + 1);
        // Of a feed, nobody needs to know what was given up.
        if self.most_over == usize::MAX || object.withdrawn.is_none() {
            self.over.insert(index, Over::of(&object));
        }
        if self.over.len() > self.most_over {
            self.over.pop_first();
        }
        Some(object)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Object)> {
        self.open.iter().map(|(index, object)| (*index, object))
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Objects whose BOF has been multicast. Objects start in order.
    pub(super) fn started(&mut self) -> impl Iterator<Item = (u32, &mut Object)> {
        let open = self.open.iter_mut().map(|(index, object)| (*index, object));
        open.take_while(|(_, object)| object.started.is_some())
    }

    /// The indexes of those that are over and not open again.
    pub(super) fn done(&self) -> BlockSet {
        let mut done = self.done.clone();
        for (index, _) in self.open.iter().take_while(|(_, object)| object.started.is_some()) {
            done.remove(u64::from(*index)..u64::from(*index) + 1);
        }
        done
    }

    /// The indexes of objects that are over and may be opened again.
    pub(super) fn kept(&self) -> BlockSet {
        let mut kept = BlockSet::default();
        self.over.keys().for_each(|index| _ = kept.insert(u64::from(*index)..u64::from(*index) + 1));
        kept
    }

    /// The blocks that hold `bytes`.
    pub(super) fn blocks(&self, bytes: Range<u64>) -> Range<u64> {
        bytes.start / self.block_len..bytes.end.div_ceil(self.block_len)
    }

    /// The bytes of `object` that `blocks` hold.
    pub(super) fn bytes(&self, object: &Object, blocks: Range<u64>) -> Range<u64> {
        let size = object.begin.file_size;
        blocks.start.saturating_mul(self.block_len)..blocks.end.saturating_mul(self.block_len).min(size)
    }

    /// Whether the object is open, and its losses are mended now: at once (VCMTP 2), or because it is out (VCMTP 1, 3.3.1).
    pub(super) fn may_be_mended(&self, index: u32, repair: Repair) -> bool {
        self.get(index).is_some_and(|object| repair == Repair::Nack || object.out.is_some())
    }

    /// The number of bytes of repair symbols. Each is as long as a block.
    pub(super) fn symbol_bytes(&self, symbols: &Range<u32>) -> u64 {
        u64::from(symbols.end - symbols.start) * self.block_len
    }

    /// The number of blocks that fit into `run_len` bytes, at least one.
    pub(super) fn blocks_per_run(&self, run_len: u32) -> u64 {
        (u64::from(run_len) / self.block_len).max(1)
    }
}
