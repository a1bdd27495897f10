//! Blocks that a carousel's sender has said it will bring, because somebody has reported them. Anybody may
//! have said so, and the memory is bounded. Blocks that do not fit are reported once more than they need be.

use std::{collections::BTreeMap, ops::Range};

/// The most separate ranges of all objects that are remembered.
const MOST: usize = 16_384;

/// Ranges of bytes that neither overlap nor touch: the end of each by its object and its start.
///
/// A [`BlockSet`](crate::object::ranges::BlockSet) would not do. It takes an entry for each 4,096 blocks, and a forged message can
/// name an object, and a range of it, of nearly 2^64 bytes. Here, any range is one entry.
#[derive(Debug, Default)]
pub(super) struct Said(BTreeMap<(u32, u64), u64>);

impl Said {
    pub fn add(&mut self, index: u32, bytes: Range<u64>) {
        let Range { mut start, mut end } = bytes;
        while let Some((at, its_end)) = self.last_from(index, end).filter(|(_, its_end)| *its_end >= start) {
            self.0.remove(&(index, at));
            (start, end) = (start.min(at), end.max(its_end));
        }
        if start < end && self.0.len() < MOST {
            self.0.insert((index, start), end);
        }
    }

    /// Whether all of these bytes were said.
    pub fn has(&self, index: u32, bytes: &Range<u64>) -> bool {
        self.last_from(index, bytes.start).is_some_and(|(_, end)| bytes.end <= end)
    }

    /// Forgets what was said of an object.
    pub fn forget(&mut self, index: u32) {
        while let Some((start, _)) = self.last_from(index, u64::MAX) {
            self.0.remove(&(index, start));
        }
    }

    /// The last range of an object that begins at `position` or before.
    fn last_from(&self, index: u32, position: u64) -> Option<(u64, u64)> {
        let (at, end) = self.0.range((index, 0)..=(index, position)).next_back()?;
        Some((at.1, *end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_overlap_or_touch_are_one() {
        let mut said = Said::default();
        for bytes in [10..20, 40..50, 5..10, 19..30, 60..70, 33..33] {
            said.add(1, bytes);
        }
        assert_eq!(said.0, BTreeMap::from([((1, 5), 30), ((1, 40), 50), ((1, 60), 70)]));
        assert!(said.has(1, &(5..30)) && !said.has(1, &(29..41)) && !said.has(2, &(5..30)));
        said.add(1, 30..61);
        said.add(2, 7..9);
        assert_eq!(said.0, BTreeMap::from([((1, 5), 70), ((2, 7), 9)]));
        said.forget(1);
        assert_eq!(said.0, BTreeMap::from([((2, 7), 9)]));
    }

    #[test]
    fn forged_words_take_bounded_memory() {
        let mut said = Said::default();
        for number in 0..100_000 {
            said.add(number % 7, u64::from(number) * 10..u64::from(number) * 10 + 1);
        }
        assert_eq!(said.0.len(), MOST);
        said.add(3, 0..u64::MAX);
        assert!(said.has(3, &(5..1 << 60)), "there is room for the sum of what is there");
    }
}
