//! The objects that are open at the receiver, and those that have ended. Both are bounded, whatever indices
//! come.

use std::collections::{BTreeMap, BTreeSet};

use treecast_wire::header::{FileId, SessionId};

use super::object::Object;
use crate::object::ranges::BlockSet;

/// The most objects that are open at the same time.
const MAX_OPEN: usize = 8192;

/// The most objects of which only the group has spoken: each may cost a file, and anybody can write to a group.
/// The connection tells of any beyond them.
const MAX_UNCONFIRMED: usize = 1024;

/// The most of these that no announcement has come for, which is as many as a sender has in flight.
const MAX_UNANNOUNCED: usize = 64;

/// The number of indices behind the highest one that are told apart. Older ones count as ended.
const SPAN: u32 = 65_536;

/// The word by which an object is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// Anything on the control connection.
    Sender,
    /// An announcement to the group.
    Announcement,
    /// Anything else to the group.
    Hearsay,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Boxed: many small ones come and go at the map's ends, and make their neighbours move.
    open: BTreeMap<u32, Box<Object>>,
    ended: BlockSet,
    /// Open objects of which the connection has not spoken.
    unconfirmed: BTreeSet<u32>,
    /// Open objects of which only the group has spoken, and that are not announced.
    unannounced: BTreeSet<u32>,
    /// One above the highest index that the connection has spoken of: the group's word must not make
    /// what is to come count as old.
    highest: u32,
}

impl Ledger {
    pub(super) fn get(&self, index: u32) -> Option<&Object> {
        self.open.get(&index).map(Box::as_ref)
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Object> {
        self.open.get_mut(&index).map(Box::as_mut)
    }

    /// The object of a file, if it is open and the file is of this session.
    pub(super) fn of_session(&mut self, file: FileId, session: SessionId) -> Option<&mut Object> {
        self.get_mut(file.index()).filter(|_| file.session() == session)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Object)> {
        self.open.iter().map(|(index, object)| (*index, &**object))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether an object is open of which the connection has spoken.
    pub(super) fn has_confirmed(&self) -> bool {
        self.open.len() > self.unconfirmed.len()
    }

    /// Whether the object has ended here, or is too old to be told apart.
    pub(super) fn has_ended(&self, index: u32) -> bool {
        self.ended.has(index.into())
            || (!self.open.contains_key(&index) && index < self.highest.saturating_sub(SPAN))
    }

    /// Whether the connection has spoken of the object.
    pub(super) fn is_confirmed(&self, index: u32) -> bool {
        !self.unconfirmed.contains(&index)
    }

    /// The object, opened if it is new. None when it has ended, when too many are open, or when a
    /// packet that is not the sender's for sure names an index far beyond all others.
    pub(super) fn open(
        &mut self,
        index: u32,
        word: Word,
        new: impl FnOnce() -> Object,
    ) -> Option<&mut Object> {
        let is_new = !self.open.contains_key(&index);
        if is_new && (self.has_ended(index) || !self.has_room(index, word)) {
            return None;
        }
        match word {
            Word::Sender => {
                self.unconfirmed.remove(&index);
                self.highest = self.highest.max(index.saturating_add(1));
            }
            Word::Announcement | Word::Hearsay if is_new => _ = self.unconfirmed.insert(index),
            Word::Announcement | Word::Hearsay => {}
        }
        match word {
            Word::Hearsay if is_new => _ = self.unannounced.insert(index),
            Word::Hearsay => {}
            Word::Sender | Word::Announcement => _ = self.unannounced.remove(&index),
        }
        Some(self.open.entry(index).or_insert_with(|| Box::new(new())))
    }

    /// The sender says which object it begins next.
    pub(super) fn note_next(&mut self, index: u32) {
        self.highest = self.highest.max(index);
    }

    fn has_room(&self, index: u32, word: Word) -> bool {
        let is_near = index < self.highest.saturating_add(SPAN);
        let confirmed = is_near && self.unconfirmed.len() < MAX_UNCONFIRMED;
        self.open.len() < MAX_OPEN
            && match word {
                Word::Sender => true,
                Word::Announcement => confirmed,
                Word::Hearsay => confirmed && self.unannounced.len() < MAX_UNANNOUNCED,
            }
    }

    /// The object has ended: received, failed or ignored.
    pub(super) fn end(&mut self, index: u32) -> Option<Object> {
        let object = self.open.remove(&index);
        self.unannounced.remove(&index);
        if !self.unconfirmed.remove(&index) {
            self.highest = self.highest.max(index.saturating_add(1));
        }
        self.ended.insert(index.into()..u64::from(index) + 1);
        let oldest = self.highest.saturating_sub(SPAN).into();
        while let Some(old) = self.ended.first_run(0..oldest) {
            self.ended.remove(old);
        }
        object.map(|object| *object)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::object::Decision, *};

    fn open(ledger: &mut Ledger, index: u32, word: Word) -> bool {
        ledger.open(index, word, || Object::new(100, Decision::Accepted)).is_some()
    }

    #[test]
    fn the_group_opens_few_objects_and_fewer_that_are_not_announced() {
        let mut ledger = Ledger::default();
        let mut count = |from: u32, word| {
            (from..from + 2 * MAX_UNCONFIRMED as u32).filter(|index| open(&mut ledger, *index, word)).count()
        };
        assert_eq!(count(0, Word::Hearsay), MAX_UNANNOUNCED);
        assert_eq!(count(10_000, Word::Announcement), MAX_UNCONFIRMED - MAX_UNANNOUNCED);
        assert_eq!(count(20_000, Word::Sender), 2 * MAX_UNCONFIRMED, "what it says itself has room");
        assert!(!ledger.is_confirmed(0) && ledger.is_confirmed(20_000));
        assert!(open(&mut ledger, 0, Word::Sender) && ledger.is_confirmed(0));
        assert!(open(&mut ledger, 30_000, Word::Hearsay), "one that is confirmed leaves room");
        assert!(!open(&mut ledger, 30_001, Word::Hearsay));
        ledger.end(30_000);
        assert!(open(&mut ledger, 30_001, Word::Hearsay), "and so does one that has ended");
    }

    #[test]
    fn an_ended_object_is_not_opened_again() {
        let mut ledger = Ledger::default();
        assert!(open(&mut ledger, 7, Word::Hearsay));
        assert!(ledger.end(7).is_some());
        assert!(!open(&mut ledger, 7, Word::Sender));
        assert!(open(&mut ledger, 6, Word::Hearsay), "others may still come");
    }

    #[test]
    fn the_group_cannot_make_what_is_to_come_count_as_old() {
        let mut ledger = Ledger::default();
        for index in [SPAN - 1, 2 * SPAN - 2, 3 * SPAN - 3] {
            let opened = open(&mut ledger, index, Word::Announcement);
            assert_eq!(opened, index < SPAN, "no step by step out of reach");
        }
        ledger.end(SPAN - 1);
        assert!(open(&mut ledger, 0, Word::Sender) && open(&mut ledger, 1, Word::Hearsay));
    }

    /// A feed that was started again numbers its files from 65,536 on. Receivers had each first file over their connections.
    #[test]
    fn who_comes_late_is_told_how_far_the_sender_is() {
        let mut ledger = Ledger::default();
        assert!(!open(&mut ledger, SPAN, Word::Announcement));
        ledger.note_next(SPAN);
        assert!(
            open(&mut ledger, SPAN, Word::Announcement) && open(&mut ledger, SPAN + 9, Word::Announcement)
        );
    }

    #[test]
    fn memory_is_bounded_whatever_indices_come() {
        let mut ledger = Ledger::default();
        assert!(
            !open(&mut ledger, 1_000_000, Word::Announcement),
            "the group's socket is not trusted with such a jump"
        );
        assert!(open(&mut ledger, 1_000_000, Word::Sender));
        assert!(!open(&mut ledger, 1, Word::Sender), "too old to be told apart");
        for index in 0..2 * SPAN {
            ledger.end(1_000_001 + index);
        }
        assert!(ledger.ended.len() <= SPAN.into());
        assert!(ledger.has_ended(1_000_001), "older ones count as ended");
        let opened =
            (2_000_000..2_000_000 + 2 * SPAN).filter(|index| open(&mut ledger, *index, Word::Sender)).count();
        assert_eq!(opened, MAX_OPEN - 1);
    }
}
