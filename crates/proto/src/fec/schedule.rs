//! The sender's side of forward error correction for one object: which repair symbols have been sent, and how
//! many are still to be sent.

use std::ops::Range;

use super::{Layout, MAX_SYMBOLS};

/// The number of repair symbols of each source block that are out, and the number that is to go out. Reports
/// of what is lacking move the goal. Symbols that are on their way count for all receivers, so the largest
/// want is what leaves.
#[derive(Debug)]
pub(crate) struct Schedule {
    layout: Layout,
    source_blocks: Vec<Progress>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// The number of the next symbol to the group.
    next: u32,
    goal: u32,
    /// Symbols that have gone to single receivers. They are counted down from [`MAX_SYMBOLS`], so that `next` alone
    /// tells what the group has been sent.
    apart: u32,
}

impl Schedule {
    pub(crate) fn new(layout: Layout) -> Self {
        let progress = |index| {
            let symbols = layout.source_symbols(index);
            Progress { next: symbols, goal: symbols, apart: 0 }
        };
        Self { layout, source_blocks: (0..layout.count()).map(progress).collect() }
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// The number of the next symbol to the group; none of a source block that there is not.
    pub(crate) fn next(&self, source_block: u32) -> Option<u32> {
        Some(self.source_blocks.get(source_block as usize)?.next)
    }

    /// The number of symbols that are still to go to the group.
    pub(crate) fn to_go(&self, source_block: u32) -> u32 {
        let progress = self.source_blocks.get(source_block as usize);
        progress.map_or(0, |progress| progress.goal - progress.next)
    }

    /// Whether there are no new symbols of a source block any more, neither for the group nor for a receiver alone.
    pub(crate) fn is_used_up(&self, source_block: u32) -> bool {
        let progress = self.source_blocks.get(source_block as usize);
        progress.is_some_and(|progress| progress.next + progress.apart >= MAX_SYMBOLS)
    }

    /// Has symbols sent up to number `goal`. Returns whether any are to go now.
    pub(crate) fn aim(&mut self, source_block: u32, goal: u32) -> bool {
        let Some(progress) = self.source_blocks.get_mut(source_block as usize) else { return false };
        progress.goal = progress.goal.max(goal.min(MAX_SYMBOLS - progress.apart));
        progress.next < progress.goal
    }

    /// The next symbols of a source block to the group, at most `most`.
    pub(crate) fn take(&mut self, source_block: u32, most: u32) -> Option<Range<u32>> {
        let progress = self.source_blocks.get_mut(source_block as usize)?;
        let symbols = progress.next..progress.goal.min(progress.next.saturating_add(most));
        progress.next = symbols.end;
        (!symbols.is_empty()).then_some(symbols)
    }

    /// Symbols for one receiver alone, at most `most`. When there are no new ones left, none.
    pub(crate) fn take_apart(&mut self, source_block: u32, most: u32) -> Option<Range<u32>> {
        let progress = self.source_blocks.get_mut(source_block as usize)?;
        let end = MAX_SYMBOLS - progress.apart;
        let count = most.min(end - progress.goal.min(end));
        progress.apart += count;
        (count > 0).then(|| end - count..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three source blocks of 2,000 blocks.
    fn schedule() -> Schedule {
        Schedule::new(Layout::new(12_000_000, 2_000).unwrap())
    }

    #[test]
    fn the_largest_want_is_what_leaves_and_every_symbol_is_new() {
        let mut schedule = schedule();
        assert!(schedule.take(1, 9).is_none());
        assert!(schedule.aim(1, 2_030) && schedule.aim(1, 2_010));
        assert_eq!((schedule.to_go(1), schedule.to_go(3)), (30, 0));
        assert_eq!(schedule.take(1, 20), Some(2_000..2_020));
        assert_eq!(schedule.take(1, 20), Some(2_020..2_030));
        assert!(!schedule.aim(1, 2_025));
        assert_eq!(schedule.next(1), Some(2_030));
    }

    #[test]
    fn symbols_for_one_receiver_are_none_of_the_group_s() {
        let mut schedule = schedule();
        assert_eq!(schedule.take_apart(0, 10), Some(MAX_SYMBOLS - 10..MAX_SYMBOLS));
        assert_eq!(schedule.take_apart(0, 5), Some(MAX_SYMBOLS - 15..MAX_SYMBOLS - 10));
        schedule.aim(0, u32::MAX);
        assert!(!schedule.is_used_up(0), "the last ones are still to go");
        while schedule.take(0, 10_000).is_some() {}
        assert_eq!((schedule.next(0), schedule.is_used_up(0)), (Some(MAX_SYMBOLS - 15), true));
        assert_eq!(schedule.take_apart(0, 5), None, "all numbers are used up");
    }

    #[test]
    fn what_does_not_exist_is_passed_over() {
        let mut schedule = schedule();
        assert!(!schedule.aim(3, 9_999) && schedule.next(3).is_none());
        assert!(schedule.take(3, 1).is_none() && schedule.take_apart(3, 1).is_none());
    }
}
