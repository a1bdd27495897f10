//! The blocks that a receiver waits for from a slower group, and how it has moved between groups.

use std::{collections::BTreeMap, ops::Range};

use crate::{Instant, object::ranges::BlockSet};

/// The number of times that a receiver may move back to a faster group. An honest one tries after 20 s and
/// then ever less often ([`crate::rates`]); whatever it moves to, it awaits anew from there, and each pass
/// has its own time.
pub(super) const MAX_WAYS_BACK: u32 = 8;

/// The blocks that a receiver awaits from its slower group, object by object.
#[derive(Debug, Default)]
pub(super) struct Awaited(BTreeMap<u32, BlockSet>);

impl Awaited {
    pub(super) fn insert(&mut self, index: u32, blocks: Range<u64>) {
        if !blocks.is_empty() {
            self.0.entry(index).or_default().insert(blocks);
        }
    }

    pub(super) fn contains(&self, index: u32) -> bool {
        self.0.contains_key(&index)
    }

    pub(super) fn forget(&mut self, index: u32) {
        self.0.remove(&index);
    }

    pub(super) fn add(&mut self, other: Self) {
        for (index, blocks) in other.0 {
            let mut from = 0;
            while let Some(run) = blocks.first_run(from..u64::MAX) {
                from = run.end;
                self.insert(index, run);
            }
        }
    }

    /// These blocks are out. Returns whether nothing more of the object is awaited, which was before.
    pub(super) fn remove(&mut self, index: u32, blocks: &Range<u64>) -> bool {
        let Some(set) = self.0.get_mut(&index) else { return false };
        set.remove(blocks.clone());
        let is_all = set.is_empty();
        if is_all {
            self.0.remove(&index);
        }
        is_all
    }

    /// The first run at or behind a block.
    pub(super) fn next(&self, (from, block): (u32, u64)) -> Option<(u32, Range<u64>)> {
        let mut objects = self.0.range(from..);
        objects.find_map(|(index, set)| {
            let first = if *index == from { block } else { 0 };
            Some((*index, set.first_run(first..u64::MAX)?))
        })
    }
}

/// A receiver's moves so far: what they cost the session is bounded.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// The blocks that the receiver has said it lacks of the next object, which it has not heard.
    pub(super) lacks: Awaited,
    /// The number of calls to another group that the receiver has not answered.
    pub(super) unanswered: u32,
    /// The group that the receiver is to be called to.
    pub(super) called: Option<u8>,
    pub(super) count: u32,
    ways_back: u32,
    /// The time when the receiver has moved to a slower group, but for the first time.
    pub(super) again: Option<Instant>,
    is_slowed: bool,
}

impl Moves {
    pub(super) fn forget(&mut self, index: u32) {
        self.lacks.forget(index);
    }

    /// Whether it may move from a group to another, which is noted.
    pub(super) fn allow(&mut self, now: Instant, from: u8, to: u8) -> bool {
        if to < from {
            self.ways_back += 1;
            return self.ways_back <= MAX_WAYS_BACK;
        }
        if std::mem::replace(&mut self.is_slowed, true) {
            self.again = Some(now);
        }
        true
    }
}
