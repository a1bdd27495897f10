//! What a receiver knows of a session's objects besides the blocks that are there: what was announced, how far the session
//! is, and which objects are over.

use std::{cmp::Ordering, ops::Range};

use treecast_wire::message::{BeginOfFile, Digest, LocalObject, MAX_OBJECTS};

use super::sorted::SortedMap;
use crate::{Instant, carousel, object::Address};

/// Objects so far behind the first that is not over are not known yet.
const MAX_KNOWN: u32 = 4_096;

/// How an object has ended here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It is whole, and can be sent again.
    Whole,
    /// It was given up.
    GivenUp,
}

#[derive(Debug)]
pub(super) struct Known {
    pub begin: Option<BeginOfFile>,
    pub digest: Option<Digest>,
    /// The end of what the sender has sent of it, as far as that is known here.
    pub seen: u64,
    /// All that is missing before this is wanted.
    pub noticed: u64,
    /// When anything was first heard of it.
    pub since: Instant,
    pub end: Option<End>,
    /// When its announcement is asked for, and how many times it was.
    pub ask_at: Option<Instant>,
    pub asked: u32,
}

/// The objects of a session.
#[derive(Debug)]
pub(super) struct Shelf {
    pub block_len: u64,
    objects: SortedMap<u32, Box<Known>>,
    /// Announcements that are to be said to somebody else, unless another member does: when, and to whom.
    saying: SortedMap<u32, (Instant, Address)>,
    /// All objects before this are over here ...
    pub done: u32,
    /// ... and at everyone whom this receiver serves.
    pub released: u32,
    /// How far the session is: the object that was sent last, and the end of what was sent of it.
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

    /// The object, noted when it is new. `None` when it is over everywhere, or there are too many.
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

    /// The session is at least here.
    pub fn advance(&mut self, object: u32, position: u64) {
        self.frontier = self.frontier.max((object.min(MAX_OBJECTS - 1), position));
    }

    /// An object has ended here.
    pub fn end(&mut self, now: Instant, object: u32, end: End) {
        if let Some(known) = self.note(now, object) {
            known.end = Some(end);
        }
        while self.objects.get(&self.done).is_some_and(|known| known.end.is_some()) {
            self.done += 1;
        }
    }

    /// Everybody is done with all objects before `done`: returns those that are not needed any more.
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

    /// The announcement of an object is to be said at this time, if it is known by then.
    pub fn say(&mut self, object: u32, at: Instant, to: Address) {
        if self.objects.get(&object).is_some_and(|known| known.begin.is_some()) {
            self.saying.get_or_insert_with(object, || (at, to));
        }
    }

    /// Somebody else has said the announcement of an object.
    pub fn is_said(&mut self, object: u32) {
        self.saying.remove(&object);
    }

    pub fn take_due_announcements(&mut self, now: Instant) -> Vec<(u32, Address)> {
        let due = self.saying.iter().filter(|(_, (at, _))| *at <= now);
        let due: Vec<(u32, Address)> = due.map(|(object, (_, to))| (*object, *to)).collect();
        self.saying.retain(|_, (at, _)| *at > now);
        due
    }

    /// When the next announcement is to be said, or asked for.
    pub fn deadline(&self) -> Option<Instant> {
        let say = self.saying.iter().map(|(_, (at, _))| *at);
        let ask = self.open().filter_map(|(_, known)| known.ask_at);
        say.chain(ask).min()
    }

    /// The parts of a range that are there.
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

    /// The three states of an object here: what lacks is missing.
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
