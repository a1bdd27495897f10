//! The objects of a group that are not done. An object is done when its receivers are, and nobody holds its bytes any more.

use std::{collections::BTreeMap, sync::Arc};

use super::{Delivery, Transfer};
use crate::{Error, ErrorKind, ObjectId, place::Place, wait::Watched};

/// The objects that are not done.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    next: u64,
    waiting: BTreeMap<ObjectId, Waiting>,
    is_over: bool,
}

/// An object that is not done.
#[derive(Debug)]
pub(super) struct Waiting {
    delivery: Delivery,
    /// Whether its receivers are done with it.
    is_done: bool,
    /// Whether the session still holds its bytes in memory.
    is_held: bool,
    slot: Arc<Watched<Option<Delivery>>>,
}

impl Waiting {
    pub fn new(id: ObjectId, name: String, bytes: u64, is_held: bool, place: Place) -> (Self, Transfer) {
        let delivery = Delivery { id, name, bytes, complete: 0, not_wanted: 0, failed: 0, problem: None };
        let slot = Arc::default();
        let transfer = Transfer { id, delivery: Arc::clone(&slot), place };
        (Self { delivery, is_done: false, is_held, slot }, transfer)
    }

    /// Tells the object's [`Transfer`]. Whoever waits for it runs now, so no lock may be held.
    pub fn settle(self) -> Delivery {
        self.slot.change(|slot| *slot = Some(self.delivery.clone()));
        self.delivery
    }
}

impl Outstanding {
    pub fn next_id(&mut self) -> ObjectId {
        self.next += 1;
        ObjectId(self.next - 1)
    }

    /// Adds an object, unless `most` are there.
    pub fn add(&mut self, waiting: Waiting, most: usize) -> Result<(), Error> {
        if self.is_over {
            return Err(Error::new(ErrorKind::Closed, "the group is closed: its session is over"));
        }
        if self.waiting.len() >= most {
            let line = format!("{most} objects are not done yet: wait for room, or allow more");
            return Err(Error::new(ErrorKind::Full, line));
        }
        self.waiting.insert(waiting.delivery.id, waiting);
        Ok(())
    }

    /// An object was not sent at all.
    pub fn remove(&mut self, id: ObjectId) {
        self.waiting.remove(&id);
    }

    /// Whether another object can be added, or nothing can any more.
    pub fn has_room(&self, most: usize) -> Option<()> {
        (self.is_over || self.waiting.len() < most).then_some(())
    }

    /// Notes why an object is not sent to its end.
    pub fn note_problem(&mut self, id: ObjectId, problem: String) {
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.delivery.problem.get_or_insert(problem);
        }
    }

    /// The object's receivers are done with it: so many have it, did not want it, or failed.
    pub fn done(&mut self, id: ObjectId, [complete, not_wanted, failed]: [u32; 3]) -> Option<Waiting> {
        let waiting = self.waiting.get_mut(&id)?;
        let delivery = &mut waiting.delivery;
        (delivery.complete, delivery.not_wanted, delivery.failed) = (complete, not_wanted, failed);
        waiting.is_done = true;
        self.take_settled(id)
    }

    /// Nobody holds the object's bytes any more.
    pub fn released(&mut self, id: ObjectId) -> Option<Waiting> {
        self.waiting.get_mut(&id)?.is_held = false;
        self.take_settled(id)
    }

    fn take_settled(&mut self, id: ObjectId) -> Option<Waiting> {
        self.waiting.get(&id).filter(|waiting| waiting.is_done && !waiting.is_held)?;
        self.waiting.remove(&id)
    }

    /// The session is over. Returns what is left; objects whose bytes somebody still holds follow when they are released.
    pub fn end(&mut self, why: &str) -> Vec<Waiting> {
        self.is_over = true;
        for waiting in self.waiting.values_mut().filter(|waiting| !waiting.is_done) {
            waiting.delivery.problem.get_or_insert_with(|| why.to_owned());
            waiting.is_done = true;
        }
        let ids: Vec<_> = self.waiting.keys().copied().collect();
        ids.into_iter().filter_map(|id| self.take_settled(id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> (Outstanding, [Transfer; 2]) {
        let mut outstanding = Outstanding::default();
        let transfers = [false, true].map(|is_held| {
            let id = outstanding.next_id();
            let (waiting, transfer) = Waiting::new(id, "x".to_owned(), 1, is_held, Place::new());
            outstanding.add(waiting, 2).unwrap();
            transfer
        });
        (outstanding, transfers)
    }

    #[test]
    fn bytes_in_memory_are_done_when_nobody_holds_them() {
        let (mut outstanding, [file, memory]) = two();
        let full = Waiting::new(ObjectId(9), "y".to_owned(), 1, false, Place::new()).0;
        assert_eq!(outstanding.add(full, 2).unwrap_err().kind(), ErrorKind::Full);
        assert_eq!(outstanding.has_room(2), None);
        assert!(outstanding.done(file.id(), [1, 2, 0]).unwrap().settle().is_complete());
        assert_eq!(file.wait().not_wanted, 2);
        assert!(outstanding.done(memory.id(), [1, 0, 3]).is_none());
        assert!(memory.wait_timeout(std::time::Duration::ZERO).is_none());
        assert_eq!(outstanding.released(memory.id()).unwrap().settle().failed, 3);
        assert_eq!((memory.wait().failed, outstanding.has_room(2)), (3, Some(())));
        assert!(outstanding.released(memory.id()).is_none(), "it is gone");
    }

    #[test]
    fn the_end_of_the_session_is_the_end_of_all() {
        let (mut outstanding, [file, memory]) = two();
        outstanding.note_problem(file.id(), "it shrank".to_owned());
        outstanding.done(memory.id(), [1, 0, 0]);
        let mut problems = outstanding.end("over").into_iter().map(|left| left.settle().problem);
        assert_eq!(problems.next(), Some(Some("it shrank".to_owned())));
        assert!(problems.next().is_none(), "the other one's bytes are still held");
        assert_eq!(outstanding.released(memory.id()).unwrap().settle().problem, None);
        assert!(!file.wait().is_complete() && memory.wait().is_complete());
        let late = Waiting::new(ObjectId(9), "y".to_owned(), 1, false, Place::new()).0;
        assert_eq!(outstanding.add(late, 2).unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(outstanding.has_room(0), Some(()));
    }
}
