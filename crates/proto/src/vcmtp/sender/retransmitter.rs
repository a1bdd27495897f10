//! One receiver's retransmitter: answers its requests over its own connection
//! (interdomain-2013, 4.4, table 4.5), at once (VCMTP 2) or when the object is out (VCMTP 1, 3.3.1).

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use treecast_wire::{header::FileId, message::BeginOfFile};

use super::{
    super::Repair,
    ReceiverId,
    asked::Asked,
    awaited::{Awaited, Moves},
    corrections::Corrections,
    objects::Objects,
    offers::Offers,
    owed_symbols::OwedSymbols,
    requests::Requests,
};
use crate::{Instant, object::ranges::BlockSet};

/// The number of objects that are over and may be open again for one receiver at a time.
pub(super) const MOST_AT_ONCE: usize = 32;

/// The most control messages that wait for one receiver; a receiver that asks for more without
/// reading the answers gets none.
const MAX_DUE: usize = 16_384;

/// A control message that is to go to the receiver, in the order in which those about one object go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    BeginOfFile,
    EndOfFile,
    /// The digest, with the hash, because the object may be done before this can go out.
    Digest([u8; 32]),
    Reject,
}

/// The state of closing the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Closing {
    #[default]
    No,
    GoodbyeDue,
    CloseDue,
    Done,
}

/// The next thing that goes to the receiver.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Welcome, with the first object that had not begun when the receiver came. When it is said again, it
    /// goes without.
    Welcome(Option<u32>),
    /// An object that has not begun.
    Offer(u32),
    /// The receiver is counted in this group, or is called to it.
    Place(u8),
    Message(u32, Due),
    /// The name and size of an object that is withdrawn next.
    Name(u32, Box<BeginOfFile>),
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

/// The news for a receiver that an object is not sent any more.
#[derive(Debug)]
struct Withdrawn {
    /// The object's announcement. `None` once it is told, or if it is forgotten.
    begin: Option<Box<BeginOfFile>>,
    reason: String,
}

#[derive(Debug, Default)]
pub(super) struct Retransmitter {
    /// Welcome is to be said: at first, and again when nothing else has been said for a while, so that the receiver
    /// knows that its sender lives.
    welcome_due: bool,
    /// The first object that had not begun when it came, until Welcome has told it. It can hear all of that one.
    pub(super) first: Option<u32>,
    /// Whether nothing has gone out since the last [`Self::keep_alive`].
    is_silent: bool,
    /// The time when it last said anything.
    pub(super) heard: Instant,
    /// Whether it was there when an object began, or has said anything. A receiver that only came and went has not.
    pub(super) takes_part: bool,
    pub(super) offers: Offers,
    /// Objects that were over before it came and that it is not told of yet.
    missed: BlockSet,
    /// Objects that were over before it came, that it has been told of, and that it is still at.
    reopened: BTreeSet<u32>,
    due: BTreeSet<(u32, Due)>,
    withdrawn: BTreeMap<u32, Withdrawn>,
    pub(super) requests: Requests,
    pub(super) asked: Asked,
    /// The time when its connection last took something that has passed, or when something passed while it
    /// had everything before.
    pub(super) moved: Instant,
    pub(super) symbols: OwedSymbols,
    /// Pages of chunk hashes that it has asked for last, by object.
    chunk_hashes: BTreeMap<u32, Range<u32>>,
    /// The group that it is in.
    pub(super) group: u8,
    /// The blocks that its group is going to bring, where that is a slower one.
    pub(super) awaited: Awaited,
    pub(super) moves: Moves,
    /// Objects of which it has lacked symbols.
    lacking: BTreeSet<u32>,
    corrections: Corrections,
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
            if matches!(due, Due::EndOfFile | Due::Digest(_)) && self.corrections.take_owed(index) {
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

    /// The receiver is to hear that the object is not sent any more, and why. It may never have heard what the object is.
    pub(super) fn withdraw(&mut self, index: u32, begin: Option<&BeginOfFile>, reason: String) {
        self.forget(index);
        let begin = begin.map(|begin| Box::new(begin.clone()));
        self.withdrawn.insert(index, Withdrawn { begin, reason });
    }

    /// The receiver is to have these pages of the object's chunk hashes. It asks for the next when it has them.
    pub(super) fn request_chunk_hashes(&mut self, index: u32, pages: Range<u32>) {
        self.chunk_hashes.insert(index, pages);
    }

    /// The receiver lacks symbols of an object, which may go to the group.
    pub(super) fn lack(&mut self, index: u32) {
        self.lacking.insert(index);
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
        self.corrections.note_early(file);
    }

    /// The object begins.
    pub(super) fn begin(&mut self, file: FileId) {
        self.takes_part = true;
        if self.corrections.take_early(file) {
            self.correct(file.index());
        }
    }

    /// The receiver has a wrong idea of the object: it is sent the BOF, a few times at most, and then once more when
    /// all is out. It asks again then for what it had asked for too early.
    pub(super) fn correct(&mut self, index: u32) {
        if self.corrections.make(index) {
            self.tell(index, Due::BeginOfFile);
        }
    }

    /// The receiver has ended with the object: nothing more of it goes out.
    pub(super) fn forget(&mut self, index: u32) {
        self.requests.forget(index);
        self.awaited.forget(index);
        self.moves.forget(index);
        self.reopened.remove(&index);
        self.corrections.forget(index);
        self.symbols.forget(index);
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
            || self.awaited.contains(index)
            || self.due.contains(&(index, Due::BeginOfFile));
        if waits {
            self.forget(index);
            self.awaited.forget(index);
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
            || self.moves.unanswered > 0
            || self.moves.called.is_some()
            || !self.due.is_empty()
            || !self.withdrawn.is_empty()
            || self.symbols.is_out_due()
            || self.offers.are_due()
            || self.may_be_told()
    }

    /// Whether [`Self::next`] has something.
    pub(super) fn is_ready(&self, objects: &Objects, repair: Repair) -> bool {
        self.has_message()
            || !self.chunk_hashes.is_empty()
            || self.symbols.next(objects, repair).is_some()
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
            return Some(Action::Welcome(self.first.take()));
        }
        // Before any word that is about the group where it is now.
        if self.moves.unanswered > 0 {
            self.moves.unanswered -= 1;
            return Some(Action::Place(self.group));
        }
        if let Some(group) = self.moves.called.take() {
            return Some(Action::Place(group));
        }
        if let Some((index, due)) = self.due.pop_first() {
            return Some(Action::Message(index, due));
        }
        if let Some(mut withdrawn) = self.withdrawn.first_entry() {
            let index = *withdrawn.key();
            return Some(match withdrawn.get_mut().begin.take() {
                Some(begin) => Action::Name(index, begin),
                None => Action::Withdraw(index, withdrawn.remove().reason),
            });
        }
        if let Some((index, source_block)) = self.symbols.take_out() {
            return Some(Action::SymbolsSent(index, source_block));
        }
        if let Some(index) = self.offers.next(objects) {
            return Some(Action::Offer(index));
        }
        if let Some((index, pages)) = self.chunk_hashes.pop_first() {
            return Some(Action::ChunkHashes(index, pages));
        }
        let requests = &mut self.requests;
        if let Some(((index, source_block), symbols)) =
            self.symbols.take(objects, requests, repair, max_run_len)
        {
            self.retransmitted_bytes += objects.symbol_bytes(&symbols);
            return Some(Action::Symbols(index, source_block, symbols));
        }
        if let Some(index) = self.requests.next_object(objects, repair) {
            let range = self.requests.take_bytes(objects, index, repair, max_run_len)?;
            self.retransmitted_bytes += range.end - range.start;
            return Some(Action::Blocks(index, range));
        }
        self.next_closing()
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
