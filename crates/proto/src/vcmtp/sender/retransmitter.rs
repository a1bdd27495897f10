//! One receiver's retransmitter: answers its requests over its own connection
//! (interdomain-2013, 4.4, table 4.5), at once (VCMTP 2) or when the object is out (VCMTP 1, 3.3.1).

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use treecast_wire::header::FileId;

use super::{
    super::Repair,
    ReceiverId,
    awaited::{Awaited, Moves},
    objects::Objects,
    offers::Offers,
    requests::Requests,
};
use crate::{Instant, object::ranges::BlockSet};

/// How many objects that are over are open again for one receiver at a time.
pub(super) const MOST_AT_ONCE: usize = 32;

/// The most control messages that wait for one receiver; a receiver that asks for more without
/// reading the answers gets none.
const MAX_DUE: usize = 16_384;

/// How many times a receiver is told of an object again because it asked for what is not there. One that has a
/// wrong idea of it needs two: one for its size, one for its end.
const MAX_CORRECTIONS: u8 = 8;

/// The most objects that a receiver may speak of before they begin.
const MAX_MISLED: usize = 1024;

/// A control message that is to go to the receiver, in the order in which those about one object go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    BeginOfFile,
    EndOfFile,
    /// With the hash, for the object may be done before this can go out.
    Digest([u8; 32]),
    Reject,
}

/// How the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Closing {
    #[default]
    No,
    GoodbyeDue,
    CloseDue,
    Done,
}

/// What goes to the receiver next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Welcome,
    /// An object that has not begun.
    Offer(u32),
    /// The receiver is counted in this group, or is called to it.
    Place(u8),
    Message(u32, Due),
    Withdraw(u32, String),
    Blocks(u32, Range<u64>),
    /// Repair symbols: object, source block, numbers of the symbols.
    Symbols(u32, u32, Range<u32>),
    /// Object and source block whose symbols are out, which the receiver does not know.
    SymbolsSent(u32, u32),
    /// Pages of an object's chunk hashes.
    ChunkHashes(u32, Range<u32>),
    Goodbye,
    Close,
}

#[derive(Debug, Default)]
pub(super) struct Retransmitter {
    /// Welcome is to be said: at first, and again when nothing else has been said for a while, so that the receiver
    /// knows that its sender lives.
    welcome_due: bool,
    /// Nothing has gone out since the last [`Self::keep_alive`].
    is_silent: bool,
    /// When it last said anything.
    pub(super) heard: Instant,
    /// Whether it was there when an object began, or has said anything. Somebody who only came and went has not.
    pub(super) takes_part: bool,
    pub(super) offers: Offers,
    /// Objects that were over before it came and that it is not told of yet ...
    missed: BlockSet,
    /// ... and those that it is told of and still at.
    reopened: BTreeSet<u32>,
    due: BTreeSet<(u32, Due)>,
    withdrawn: BTreeMap<u32, String>,
    pub(super) requests: Requests,
    /// When its connection last took something that has passed, or something passed while it had everything before.
    pub(super) moved: Instant,
    /// How many repair symbols it is to have, by object and source block.
    symbols: BTreeMap<(u32, u32), u32>,
    /// Repair symbols that have gone to it, and how many had when the last ones of a source block had: until these have
    /// arrived, what it says that it lacks is on its way.
    sent_symbols: u64,
    on_the_way: BTreeMap<(u32, u32), u64>,
    /// Object and source block of symbols that it did not know to be out, though the group has been told ...
    unheard: BTreeSet<(u32, u32)>,
    /// ... and still did not know when it asked again: it is told so itself.
    sent_due: BTreeSet<(u32, u32)>,
    /// Pages of chunk hashes that it has asked for last, by object.
    chunk_hashes: BTreeMap<u32, Range<u32>>,
    /// The group that it is in.
    pub(super) group: u8,
    /// How many of its moves have not been answered.
    pub(super) unanswered_moves: u32,
    /// The group that it is to be called to.
    pub(super) called: Option<u8>,
    /// What its group is going to bring, where that is a slower one.
    pub(super) awaited: Awaited,
    pub(super) moves: Moves,
    /// Objects of which it has lacked symbols.
    lacking: BTreeSet<u32>,
    /// Objects that it has spoken of before they began.
    misled: BTreeSet<FileId>,
    /// How many times the receiver has been told that it was wrong about an object.
    corrections: BTreeMap<u32, u8>,
    /// Objects about which it has been wrong more often: it is told with their end.
    owed: BTreeSet<u32>,
    closing: Closing,
    pub(super) retransmitted_bytes: u64,
}

impl Retransmitter {
    /// INL_Init_Retransmitter(j).
    pub(super) fn new(now: Instant, receiver: ReceiverId, missed: BlockSet) -> Self {
        Self { welcome_due: true, heard: now, offers: Offers::new(receiver), missed, ..Self::default() }
    }

    pub(super) fn tell(&mut self, index: u32, due: Due) {
        if self.due.len() < MAX_DUE {
            if matches!(due, Due::EndOfFile | Due::Digest(_)) && self.owed.remove(&index) {
                self.due.insert((index, Due::BeginOfFile));
            }
            self.due.insert((index, due));
        }
    }

    /// An object that it is to be told of now, because it was over before it came.
    pub(super) fn next_missed(&mut self) -> Option<u32> {
        if !self.may_be_told() {
            return None;
        }
        let index = self.missed.first_run(0..u64::MAX)?.start;
        self.missed.remove(index..index + 1);
        self.reopened.insert(index as u32);
        Some(index as u32)
    }

    /// An object that was open again is over.
    pub(super) fn closed(&mut self, index: u32) {
        self.reopened.remove(&index);
    }

    /// Whether it has missed an object that it is not told of yet.
    pub(super) fn is_to_be_told(&self, index: u32) -> bool {
        self.missed.has(index.into())
    }

    /// An object is over from before; it is told of it.
    pub(super) fn miss(&mut self, index: u32) {
        self.missed.insert(index.into()..u64::from(index) + 1);
    }

    /// Whether it has been told of all objects that it has missed.
    pub(super) fn knows_all(&self) -> bool {
        self.missed.is_empty()
    }

    fn may_be_told(&self) -> bool {
        !self.missed.is_empty() && self.reopened.len() + self.withdrawn.len() < MOST_AT_ONCE
    }

    pub(super) fn withdraw(&mut self, index: u32, reason: String) {
        self.forget(index);
        self.withdrawn.insert(index, reason);
    }

    /// The receiver is to have these pages of the object's chunk hashes. It asks for the next when it has them.
    pub(super) fn request_chunk_hashes(&mut self, index: u32, pages: Range<u32>) {
        self.chunk_hashes.insert(index, pages);
    }

    /// The receiver lacks symbols of an object, which may go to the group.
    pub(super) fn lack(&mut self, index: u32) {
        self.lacking.insert(index);
    }

    /// The receiver is to have so many symbols of an object's source block for itself. So it said when so many of all
    /// that had been sent to it had arrived.
    pub(super) fn request_symbols(&mut self, of: (u32, u32), count: u32, arrived: u64) {
        let is_on_the_way = self.on_the_way.get(&of).is_some_and(|sent| arrived < *sent);
        if count > 0 && !is_on_the_way {
            self.symbols.insert(of, count);
        }
    }

    /// The receiver did not know that symbols of a source block are out. The group is told; who asks again without having heard
    /// that does not hear it.
    pub(super) fn say_sent(&mut self, of: (u32, u32)) {
        if !self.unheard.insert(of) {
            self.unheard.remove(&of);
            self.sent_due.insert(of);
        }
    }

    /// No symbols go to the receiver any more: it listens to a slower group.
    pub(super) fn forget_symbols(&mut self) {
        (self.symbols, self.unheard, self.sent_due) = Default::default();
        self.on_the_way.clear();
    }

    /// It is to be told over its connection that symbols of a source block are out.
    pub(super) fn owe_sent(&mut self, of: (u32, u32)) {
        self.sent_due.insert(of);
    }

    /// Its connection takes this.
    pub(super) fn note_moved(&mut self, now: Instant, action: &Action) {
        if let Action::Blocks(index, _) | Action::Symbols(index, ..) = action
            && self.requests.has_passed(*index)
        {
            self.moved = now;
        }
    }

    /// The receiver speaks of an object that has not begun: somebody else has told it of one. Should there be such
    /// an object, the receiver is told when it begins.
    pub(super) fn mislead(&mut self, file: FileId) {
        if self.misled.len() < MAX_MISLED {
            self.misled.insert(file);
        }
    }

    /// The object begins.
    pub(super) fn begin(&mut self, file: FileId) {
        self.takes_part = true;
        if self.misled.remove(&file) {
            self.correct(file.index());
        }
    }

    /// The receiver has a wrong idea of the object: it is sent the BOF, a few times at most, and then once more when
    /// all is out. It asks again then for what it had asked for too early.
    pub(super) fn correct(&mut self, index: u32) {
        let corrections = self.corrections.entry(index).or_default();
        if *corrections < MAX_CORRECTIONS {
            *corrections += 1;
            self.tell(index, Due::BeginOfFile);
        } else {
            self.owed.insert(index);
        }
    }

    /// The receiver has ended with the object: nothing more of it goes out.
    pub(super) fn forget(&mut self, index: u32) {
        self.requests.forget(index);
        self.awaited.forget(index);
        self.moves.forget(index);
        self.reopened.remove(&index);
        self.corrections.remove(&index);
        self.owed.remove(&index);
        self.symbols.retain(|(other, _), _| *other != index);
        self.on_the_way.retain(|(other, _), _| *other != index);
        self.unheard.retain(|(other, _)| *other != index);
        self.sent_due.retain(|(other, _)| *other != index);
        self.chunk_hashes.remove(&index);
        self.lacking.remove(&index);
        while let Some(due) = self.due.range((index, Due::BeginOfFile)..(index, Due::Reject)).next().copied()
        {
            self.due.remove(&due);
        }
    }

    /// The object's time is up: instead of what the receiver has asked for it gets Retx-Reject. One that
    /// has asked for nothing may have everything, and still gets the hash.
    pub(super) fn time_out(&mut self, index: u32) {
        let waits = self.requests.contains(index)
            || self.lacking.contains(&index)
            || self.chunk_hashes.contains_key(&index)
            || self.due.contains(&(index, Due::BeginOfFile));
        if waits {
            self.forget(index);
            self.tell(index, Due::Reject);
        }
    }

    /// Has something said if nothing has been since the last call.
    pub(super) fn keep_alive(&mut self) {
        self.welcome_due |= self.is_silent;
        self.is_silent = true;
    }

    /// Whether nothing is left of what it has asked for.
    pub(super) fn is_answered(&self) -> bool {
        self.requests.is_empty() && self.symbols.is_empty() && self.chunk_hashes.is_empty()
    }

    /// INL_Close_Retransmitter(j).
    pub(super) fn close(&mut self) {
        if self.closing == Closing::No {
            self.closing = Closing::GoodbyeDue;
        }
    }

    /// Whether [`Self::next`] has something other than blocks before them.
    pub(super) fn has_message(&self) -> bool {
        self.welcome_due
            || self.unanswered_moves > 0
            || self.called.is_some()
            || !self.due.is_empty()
            || !self.withdrawn.is_empty()
            || !self.sent_due.is_empty()
            || self.offers.are_due()
            || self.may_be_told()
    }

    /// Whether [`Self::next`] has something.
    pub(super) fn is_ready(&self, objects: &Objects, repair: Repair) -> bool {
        self.has_message()
            || !self.chunk_hashes.is_empty()
            || self.next_lacking(objects, repair).is_some()
            || self.requests.next_object(objects, repair).is_some()
            || matches!(self.closing, Closing::GoodbyeDue | Closing::CloseDue)
    }

    pub(super) fn next(&mut self, objects: &mut Objects, repair: Repair, max_run_len: u32) -> Option<Action> {
        let action = self.next_action(objects, repair, max_run_len);
        self.is_silent &= action.is_none();
        action
    }

    fn next_action(&mut self, objects: &mut Objects, repair: Repair, max_run_len: u32) -> Option<Action> {
        if std::mem::take(&mut self.welcome_due) {
            return Some(Action::Welcome);
        }
        // Before any word that is about the group where it is now.
        if self.unanswered_moves > 0 {
            self.unanswered_moves -= 1;
            return Some(Action::Place(self.group));
        }
        if let Some(group) = self.called.take() {
            return Some(Action::Place(group));
        }
        if let Some((index, due)) = self.due.pop_first() {
            return Some(Action::Message(index, due));
        }
        if let Some((index, reason)) = self.withdrawn.pop_first() {
            return Some(Action::Withdraw(index, reason));
        }
        if let Some((index, source_block)) = self.sent_due.pop_first() {
            return Some(Action::SymbolsSent(index, source_block));
        }
        if let Some(index) = self.offers.next(objects) {
            return Some(Action::Offer(index));
        }
        if let Some((index, pages)) = self.chunk_hashes.pop_first() {
            return Some(Action::ChunkHashes(index, pages));
        }
        if let Some(action) = self.next_symbols(objects, repair, max_run_len) {
            return Some(action);
        }
        if let Some(index) = self.requests.next_object(objects, repair) {
            let range = self.requests.take_bytes(objects, index, repair, max_run_len)?;
            self.retransmitted_bytes += range.end - range.start;
            return Some(Action::Blocks(index, range));
        }
        self.next_closing()
    }

    /// The first source block of which symbols may go now.
    fn next_lacking(&self, objects: &Objects, repair: Repair) -> Option<(u32, u32)> {
        self.symbols.keys().copied().find(|(index, _)| objects.may_be_mended(*index, repair))
    }

    /// The next symbols that it is to have. When a source block has no new ones any more, all of its blocks.
    fn next_symbols(&mut self, objects: &mut Objects, repair: Repair, max_run_len: u32) -> Option<Action> {
        while let Some((index, source_block)) = self.next_lacking(objects, repair) {
            let of = (index, source_block);
            let count = self.symbols.remove(&of).unwrap_or_default();
            let most = objects.blocks_per_run(max_run_len).min(u64::from(count)) as u32;
            let Some(schedule) = objects.get_mut(index).and_then(|object| object.schedule.as_mut()) else {
                continue;
            };
            let Some(symbols) = schedule.take_apart(source_block, most) else {
                let blocks = schedule.layout().blocks(source_block);
                self.requests.insert(index, blocks);
                continue;
            };
            let taken = symbols.end - symbols.start;
            self.retransmitted_bytes += u64::from(taken) * schedule.layout().block_len();
            self.sent_symbols += u64::from(taken);
            self.on_the_way.insert(of, self.sent_symbols);
            if taken < count {
                self.symbols.insert(of, count - taken);
            }
            return Some(Action::Symbols(index, source_block, symbols));
        }
        None
    }

    fn next_closing(&mut self) -> Option<Action> {
        match self.closing {
            Closing::GoodbyeDue => {
                self.closing = Closing::CloseDue;
                Some(Action::Goodbye)
            }
            Closing::CloseDue => {
                self.closing = Closing::Done;
                Some(Action::Close)
            }
            Closing::No | Closing::Done => None,
        }
    }
}
