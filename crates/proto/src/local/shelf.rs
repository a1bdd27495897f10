//! A receiver's knowledge of a session's objects besides the blocks that are there: what was announced, how
//! far the session is, and which objects are over.

use std::{cmp::Ordering, ops::Range};

use treecast_wire::message::{BeginOfFile, Digest, LocalObject, MAX_OBJECTS};

use super::sorted::SortedMap;
use crate::{Instant, carousel, object::Address};

/// The number of objects behind the first unfinished one that are kept track of. Later ones are ignored for now.
const MAX_KNOWN: u32 = 4_096;

/// The way an object has ended at this receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The object is complete, and can be sent to others.
    Whole,
    /// The object was given up.
    GivenUp,
}

#[derive(Debug)]
pub(super) struct Known {
    pub begin: Option<BeginOfFile>,
    pub digest: Option<Digest>,
    /// The position up to which the sender has sent the object, as far as this receiver knows.
    pub seen: u64,
    /// The position up to which gaps have been noticed. All of them are wanted.
    pub noticed: u64,
    /// The time at which the object was first heard of.
    pub since: Instant,
    pub end: Option<End>,
    /// The time at which the announcement is next asked for, and the number of requests so far.
    pub ask_at: Option<Instant>,
    pub asked: u32,
}

/// The objects of a session at one receiver.
#[derive(Debug)]
pub(super) struct Shelf {
    pub block_len: u64,
    objects: SortedMap<u32, Box<Known>>,
    /// Announcements to repeat to others, unless another member does: the time, and the address.
    saying: SortedMap<u32, (Instant, Address)>,
    /// The number of objects that have ended at this receiver.
    pub done: u32,
    /// The number of objects that have ended at everyone whom this receiver serves.
    pub released: u32,
    /// The object that the sender has sent last, and the position up to which it has sent it.
    pub frontier: (u32, u64),
}

impl Shelf {
    pub fn new(block_len: u16) -> Self {
        Self {
            block_len: block_len.max(1).into(),
            objects: SortedMap::default(),
            saying: SortedMap::default(),
            done: 0,
            released: 0,
            frontier: (0, 0),
        }
    }

    pub fn get(&self, object: u32) -> Option<&Known> {
        self.objects.get(&object).map(AsRef::as_ref)
    }

    pub fn get_mut(&mut self, object: u32) -> Option<&mut Known> {
        self.objects.get_mut(&object).map(AsMut::as_mut)
    }

    /// The object, which is added if it is new. `None` if it has ended everywhere, or if there are too many.
    pub fn note(&mut self, now: Instant, object: u32) -> Option<&mut Known> {
        let is_new = !self.objects.contains_key(&object);
        let is_far = object >= MAX_OBJECTS || object >= self.done.saturating_add(MAX_KNOWN);
        let is_barred = is_far || object < self.released;
        if is_new && is_barred {
            return None;
        }
        let known = self.objects.get_or_insert_with(object, || {
            Known {
                begin: None,
                digest: None,
                seen: 0,
                noticed: 0,
                since: now,
                end: None,
                ask_at: None,
                asked: 0,
            }
            .into()
        });
        Some(known)
    }

    /// Notes that the sender has come at least this far.
    pub fn advance(&mut self, object: u32, position: u64) {
        self.frontier = self.frontier.max((object.min(MAX_OBJECTS - 1), position));
    }

    /// Notes that an object has ended at this receiver.
    pub fn end(&mut self, now: Instant, object: u32, end: End) {
        if let Some(known) = self.note(now, object) {
            known.end = Some(end);
        }
        while self.objects.get(&self.done).is_some_and(|known| known.end.is_some()) {
            self.done += 1;
        }
    }

    /// Notes that this receiver does without the objects before `first`, of which it knows nothing. Returns the first object that it takes.
    pub fn skip(&mut self, first: u32) -> u32 {
        let known = self.objects.first().map_or(u32::MAX, |(object, _)| *object);
        let first = first.min(known).max(self.done);
        (self.done, self.released) = (first, first);
        first
    }

    /// Notes that all objects before `done` have ended at everybody. Returns the objects that are not needed any
    /// more.
    pub fn release(&mut self, done: u32) -> Vec<u32> {
        let done = done.min(self.done).max(self.released);
        self.released = done;
        self.objects.take_before(done).into_iter().map(|(object, _)| object).collect()
    }

    /// Objects that have not ended here, in order.
    pub fn open(&self) -> impl Iterator<Item = (u32, &Known)> {
        let open = self.objects.from(self.done).filter(|(_, known)| known.end.is_none());
        open.map(|(index, known)| (*index, &**known))
    }

    /// The end of what the sender has sent of an object, as the sender itself has said.
    pub fn out(&self, object: u32) -> u64 {
        let known = self.objects.get(&object);
        let size = known.and_then(|known| Some(known.begin.as_ref()?.file_size));
        match object.cmp(&self.frontier.0) {
            Ordering::Less => size.or(known.map(|known| known.seen)).unwrap_or_default(),
            Ordering::Equal => self.frontier.1.min(size.unwrap_or(u64::MAX)),
            Ordering::Greater => 0,
        }
    }

    /// Plans to repeat an object's announcement at this time, if it is known by then.
    pub fn say(&mut self, object: u32, at: Instant, to: Address) {
        if self.objects.get(&object).is_some_and(|known| known.begin.is_some()) {
            self.saying.get_or_insert_with(object, || (at, to));
        }
    }

    /// Notes that another member has repeated an object's announcement.
    pub fn is_said(&mut self, object: u32) {
        self.saying.remove(&object);
    }

    pub fn take_due_announcements(&mut self, now: Instant) -> Vec<(u32, Address)> {
        let due = self.saying.iter().filter(|(_, (at, _))| *at <= now);
        let due: Vec<(u32, Address)> = due.map(|(object, (_, to))| (*object, *to)).collect();
        self.saying.retain(|_, (at, _)| *at > now);
        due
    }

    /// The time at which the next announcement is repeated or asked for.
    pub fn deadline(&self) -> Option<Instant> {
        let say = self.saying.iter().map(|(_, (at, _))| *at);
        let ask = self.open().filter_map(|(_, known)| known.ask_at);
        say.chain(ask).min()
    }

    /// The parts of a range that are stored.
    pub fn held(&self, objects: &carousel::Receiver, object: u32, range: &Range<u64>) -> Vec<Range<u64>> {
        let Some(known) = self.objects.get(&object) else { return Vec::new() };
        let size = known.begin.as_ref().map_or(u64::MAX, |begin| begin.file_size);
        let range = range.start.min(size)..range.end.min(size);
        match known.end {
            Some(End::GivenUp) => Vec::new(),
            Some(End::Whole) => Some(range).filter(|range| !range.is_empty()).into_iter().collect(),
            None => super::states::without(&range, &self.gaps(objects, object, &range)),
        }
    }

    /// The parts of a range that are missing, as whole blocks.
    pub fn gaps(&self, objects: &carousel::Receiver, object: u32, range: &Range<u64>) -> Vec<Range<u64>> {
        let known = self.objects.get(&object);
        if known.is_some_and(|known| known.end.is_some()) {
            return Vec::new();
        }
        let size = known.and_then(|known| known.begin.as_ref()).map_or(u64::MAX, |begin| begin.file_size);
        let range = range.start.min(size)..range.end.min(size);
        let blocks = range.start / self.block_len..range.end.div_ceil(self.block_len);
        match objects.stored(object) {
            Some(stored) => stored.gaps(blocks),
            None if range.is_empty() => Vec::new(),
            None => vec![range],
        }
    }

    /// The states of an object at this receiver: how far it was sent, how far it is stored without a gap, and at most
    /// `most` gaps.
    pub fn states(&self, objects: &carousel::Receiver, object: u32, most: usize) -> LocalObject {
        let mut states = LocalObject { object, ..LocalObject::default() };
        let Some(known) = self.objects.get(&object) else { return states };
        states.seen = known.seen;
        let size = known.begin.as_ref().map(|begin| begin.file_size);
        if known.end.is_some() {
            states.seen = size.unwrap_or(known.seen).max(known.seen);
            states.received = states.seen;
            return states;
        }
        states.missing = self.gaps(objects, object, &(0..known.seen));
        states.received = states.missing.first().map_or(known.seen, |first| first.start);
        if let Some(first) = states.missing.get(most) {
            states.seen = first.start;
            states.missing.truncate(most);
        }
        states
    }
}
