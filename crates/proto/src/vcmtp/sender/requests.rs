//! The blocks that one receiver has asked for and not been sent again yet (VCMTP 1's retransmission store,
//! interdomain-2013, 3.3.1), and whose turn it is among its objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use super::{
    super::Repair,
    awaited::Awaited,
    objects::{Object, Objects},
};
use crate::{Instant, object::ranges::BlockSet};

/// Number of requested objects, oldest first, among which the one whose time is up first is looked for.
const MAX_TIMED: usize = 64;

/// The most bytes by which a retransmission may lie behind the most recent one of the same object and still
/// find its blocks in the page cache (VCMTP 1).
const CACHED_BYTES: u64 = 32 << 20;

/// Requests of one receiver, object by object. No object is both in `objects` and in `through`.
#[derive(Debug, Default)]
pub(super) struct Requests {
    objects: BTreeMap<u32, Requested>,
    /// Objects of which all that has passed was sent, or symbols take its place. Nothing but their end is left to tell.
    through: BTreeSet<u32>,
    /// The object after the one that was served last.
    next: u32,
}

#[derive(Debug, Default)]
struct Requested {
    blocks: BlockSet,
    /// The block after the one that was sent last.
    at: u64,
    /// Whether blocks of it have passed ([`super::unheard`]). The receiver is told its end when all are sent.
    has_passed: bool,
}

impl Requests {
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    pub(super) fn contains(&self, index: u32) -> bool {
        self.objects.contains_key(&index)
    }

    pub(super) fn insert(&mut self, index: u32, blocks: Range<u64>) {
        let requested = self.objects.entry(index).or_default();
        requested.blocks.insert(blocks);
        requested.has_passed |= self.through.remove(&index);
    }

    /// Inserts blocks that pass: the receiver gets them as if it had asked for them.
    pub(super) fn pass(&mut self, index: u32, blocks: Range<u64>) {
        self.insert(index, blocks);
        self.objects.entry(index).or_default().has_passed = true;
    }

    /// Whether blocks of the object have passed and its end has not been told since.
    pub(super) fn has_passed(&self, index: u32) -> bool {
        self.objects
            .get(&index)
            .map_or_else(|| self.through.contains(&index), |requested| requested.has_passed)
    }

    /// Takes the first object of which nothing but its end is left to tell.
    pub(super) fn take_through(&mut self) -> Option<u32> {
        self.through.pop_first()
    }

    /// Takes blocks out that the receiver need not be sent.
    pub(super) fn remove(&mut self, index: u32, blocks: Range<u64>) {
        let Some(requested) = self.objects.get_mut(&index) else { return };
        requested.blocks.remove(blocks);
        self.end_if_empty(index);
    }

    pub(super) fn forget(&mut self, index: u32) {
        self.objects.remove(&index);
        self.through.remove(&index);
    }

    /// Moves all blocks to those that are awaited from the receiver's group.
    pub(super) fn move_to(&mut self, awaited: &mut Awaited) {
        for (index, requested) in std::mem::take(&mut self.objects) {
            let mut from = 0;
            while let Some(run) = requested.blocks.first_run(from..u64::MAX) {
                from = run.end;
                awaited.insert(index, run);
            }
            if requested.has_passed {
                self.through.insert(index);
            }
        }
    }

    /// Whether half of the time of an object is over.
    pub(super) fn is_urgent(&self, now: Instant, objects: &Objects) -> bool {
        let mut oldest = self.objects.keys().take(MAX_TIMED).filter_map(|index| objects.get(*index));
        oldest.any(|object| object.time.is_some_and(|time| time.urgent_at <= now))
    }

    /// The object whose turn it is: the one whose time is up first, when time runs. Otherwise objects take turns, so that
    /// a small one need not wait for a large one.
    pub(super) fn next_object(&self, objects: &Objects, repair: Repair) -> Option<u32> {
        let may_go = |index: &u32| objects.may_be_mended(*index, repair);
        let expires = |index: &u32| Some((objects.get(*index)?.time?.expires, *index));
        let timed =
            self.objects.keys().take(MAX_TIMED).filter(|index| may_go(index)).filter_map(expires).min();
        if let Some((_, index)) = timed {
            return Some(index);
        }
        let after = self.objects.range(self.next..).map(|(index, _)| *index).find(may_go);
        after.or_else(|| self.objects.keys().copied().find(may_go))
    }

    /// Takes the next bytes of an object.
    pub(super) fn take_bytes(
        &mut self,
        objects: &mut Objects,
        index: u32,
        repair: Repair,
        max_run_len: u32,
    ) -> Option<Range<u64>> {
        let run_blocks = objects.blocks_per_run(max_run_len);
        let cached_blocks = objects.blocks_per_run(CACHED_BYTES as u32);
        let object = objects.get_mut(index)?;
        let requested = self.objects.get_mut(&index)?;
        let run = match repair {
            Repair::After => requested.run_near(object, run_blocks, cached_blocks)?,
            Repair::Nack | Repair::None => requested.run_from(requested.at, run_blocks)?,
        };
        requested.blocks.remove(run.clone());
        requested.at = run.end;
        self.end_if_empty(index);
        self.next = index + 1;
        Some(objects.bytes(objects.get(index)?, run))
    }

    /// Ends with an object of which nothing is requested any more.
    fn end_if_empty(&mut self, index: u32) {
        if self.objects.get(&index).is_some_and(|requested| requested.blocks.is_empty())
            && self.objects.remove(&index).is_some_and(|requested| requested.has_passed)
        {
            self.through.insert(index);
        }
    }
}

impl Requested {
    /// The next run at or behind block `from`, else the first.
    fn run_from(&self, from: u64, most: u64) -> Option<Range<u64>> {
        let run = self.blocks.first_run(from..u64::MAX).or_else(|| self.blocks.first_run(0..from))?;
        Some(run.start..run.end.min(run.start + most))
    }

    /// The next run near the others' place. VCMTP 1 sends a block to all receivers that miss it while it is
    /// cached (3.3.1). A receiver that has fallen far behind the others goes on where they are and comes back
    /// for the rest, so nobody waits for it.
    fn run_near(&self, object: &mut Object, most: u64, cached: u64) -> Option<Range<u64>> {
        let from = if self.at + cached < object.repair_front { object.repair_front } else { self.at };
        let run = self.run_from(from, most)?;
        object.repair_front = run.start;
        Some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_through_once_when_all_that_passed_is_sent_or_needless() {
        let mut requests = Requests::default();
        requests.insert(1, 0..4);
        requests.pass(2, 0..4);
        requests.pass(3, 0..4);
        assert!(!requests.has_passed(1) && requests.has_passed(2));
        (1..4).for_each(|index| requests.remove(index, 0..3));
        assert_eq!(requests.take_through(), None);
        (1..4).for_each(|index| requests.remove(index, 3..4));
        assert!(requests.is_empty() && requests.has_passed(3));
        // It asks again before it is told the end of 3.
        requests.insert(3, 2..3);
        assert_eq!((requests.take_through(), requests.take_through()), (Some(2), None));
        requests.move_to(&mut Awaited::default());
        assert_eq!((requests.take_through(), requests.has_passed(3)), (Some(3), false));
    }

    #[test]
    fn what_is_forgotten_is_not_through() {
        let mut requests = Requests::default();
        (1..3).for_each(|index| requests.pass(index, 0..1));
        requests.remove(1, 0..1);
        (1..3).for_each(|index| requests.forget(index));
        assert_eq!((requests.take_through(), requests.has_passed(2)), (None, false));
    }
}
