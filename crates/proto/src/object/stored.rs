//! The set of blocks of one object that a receiver has stored.

use std::ops::Range;

use super::ranges::BlockSet;

/// The most chunks of 4,096 blocks that are noted of an object before its size is known.
const MAX_CHUNKS_WITHOUT_SIZE: usize = 64;

/// The blocks of one object that are there. Positions and lengths are in bytes.
#[derive(Debug)]
pub(crate) struct Stored {
    block_len: u64,
    size: Option<u64>,
    blocks: BlockSet,
}

impl Default for Stored {
    fn default() -> Self {
        Self::new(1)
    }
}

impl Stored {
    /// Creates an empty set for an object whose blocks are `block_len` bytes long; 0 counts as 1.
    pub fn new(block_len: u16) -> Self {
        Self { block_len: u64::from(block_len.max(1)), size: None, blocks: BlockSet::default() }
    }

    /// Notes the object's size, and forgets blocks beyond its end.
    pub fn set_size(&mut self, size: u64) {
        while let Some(beyond) = self.blocks.first_run(size.div_ceil(self.block_len)..u64::MAX) {
            self.blocks.remove(beyond);
        }
        self.size = Some(size);
    }

    /// Forgets the object's size.
    pub fn forget_size(&mut self) {
        self.size = None;
    }

    /// Notes the blocks in `range`; returns the parts that are new, and how many blocks are not.
    /// What is no whole block of the object is passed over.
    pub fn add(&mut self, range: Range<u64>) -> (Vec<Range<u64>>, u64) {
        let blocks = self.whole_blocks(&range);
        let mut new = Vec::new();
        let mut from = blocks.start;
        while let Some(gap) = self.blocks.first_gap(from..blocks.end) {
            from = gap.end;
            new.push(self.bytes_of(gap));
        }
        let had = blocks.end - blocks.start - self.blocks.insert(blocks);
        (new, had)
    }

    /// Returns the first missing bytes from `position` on. None: nothing is missing there, or the object's size
    /// is unknown.
    pub fn first_gap(&self, position: u64) -> Option<Range<u64>> {
        let blocks = self.size?.div_ceil(self.block_len);
        self.blocks.first_gap(position.div_ceil(self.block_len)..blocks).map(|gap| self.bytes_of(gap))
    }

    /// Whether every block is stored.
    pub fn is_complete(&self) -> bool {
        self.size.is_some_and(|size| self.blocks.len() == size.div_ceil(self.block_len))
    }

    /// Returns how many bytes are stored. A short last block counts in full until all blocks are stored.
    pub fn bytes(&self) -> u64 {
        self.blocks.len().saturating_mul(self.block_len).min(self.size.unwrap_or(u64::MAX))
    }

    /// Returns how much memory the set takes, in chunks of about 600 bytes.
    pub fn chunks(&self) -> usize {
        self.blocks.chunks()
    }

    /// Returns how many of these blocks are stored.
    pub fn count(&self, blocks: Range<u64>) -> u64 {
        self.blocks.count(blocks)
    }

    /// Returns the bytes of these blocks that are missing.
    pub fn gaps(&self, blocks: Range<u64>) -> Vec<Range<u64>> {
        self.few_gaps(blocks, usize::MAX)
    }

    /// Returns the bytes of these blocks that are missing, as at most `most` ranges. The last range may then
    /// hold blocks that are stored.
    pub fn few_gaps(&self, blocks: Range<u64>, most: usize) -> Vec<Range<u64>> {
        let (mut gaps, mut from) = (Vec::new(), blocks.start);
        while let Some(gap) = self.blocks.first_gap(from..blocks.end) {
            from = if gaps.len() + 1 < most { gap.end } else { blocks.end };
            gaps.push(self.bytes_of(gap.start..from));
        }
        gaps
    }

    /// Returns the first missing part of `bytes`, which are whole blocks.
    pub fn first_new(&self, bytes: &Range<u64>) -> Option<Range<u64>> {
        let gap = self.blocks.first_gap(self.blocks_of(bytes))?;
        Some(gap.start * self.block_len..gap.end.saturating_mul(self.block_len).min(bytes.end))
    }

    /// Notes all blocks that `bytes` lie in.
    pub fn insert(&mut self, bytes: &Range<u64>) {
        self.blocks.insert(self.blocks_of(bytes));
    }

    /// Removes the blocks that these bytes lie in. Returns how many bytes those were.
    pub fn forget(&mut self, bytes: &Range<u64>) -> u64 {
        let (blocks, mut forgotten) = (self.blocks_of(bytes), 0);
        while let Some(run) = self.blocks.first_run(blocks.clone()) {
            let gone = self.bytes_of(run.clone());
            forgotten += gone.end - gone.start;
            self.blocks.remove(run);
        }
        forgotten
    }

    /// Returns the numbers of the blocks that `bytes` lie in.
    pub fn blocks_of(&self, bytes: &Range<u64>) -> Range<u64> {
        bytes.start / self.block_len..bytes.end.div_ceil(self.block_len)
    }

    /// Returns the length of a block in bytes, at least 1.
    pub fn block_len(&self) -> u64 {
        self.block_len
    }

    /// Forgets all blocks.
    pub fn clear(&mut self) {
        self.blocks = BlockSet::default();
    }

    fn bytes_of(&self, blocks: Range<u64>) -> Range<u64> {
        let end = blocks.end.saturating_mul(self.block_len);
        blocks.start * self.block_len..end.min(self.size.unwrap_or(u64::MAX))
    }

    /// The numbers of the blocks that `range` holds whole. The object's last one may be short; while
    /// the size is unknown, none is.
    fn whole_blocks(&self, range: &Range<u64>) -> Range<u64> {
        let first = range.start.div_ceil(self.block_len);
        let end = match self.size {
            Some(size) if range.end >= size => size.div_ceil(self.block_len),
            None if self.blocks.chunks() >= MAX_CHUNKS_WITHOUT_SIZE => first,
            _ => range.end / self.block_len,
        };
        first.min(end)..end
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
mod tests {
    use super::*;

    fn of_size(size: u64) -> Stored {
        let mut stored = Stored::new(10);
        stored.set_size(size);
        stored
    }

    #[test]
    fn tells_new_blocks_from_known_ones() {
        let mut stored = of_size(95);
        assert_eq!(stored.add(10..30), (vec![10..30], 0));
        assert_eq!(stored.add(0..50), (vec![0..10, 30..50], 2));
        assert_eq!(stored.add(50..95), (vec![50..95], 0));
        assert!(stored.is_complete());
        assert_eq!(stored.bytes(), 95);
    }

    #[test]
    fn passes_over_what_is_no_whole_block() {
        let mut stored = of_size(95);
        assert_eq!(stored.add(3..25), (vec![10..20], 0));
        assert_eq!(stored.add(80..92), (vec![80..90], 0));
        assert_eq!(stored.add(90..200), (vec![90..95], 0));
        assert_eq!(stored.add(100..200), (vec![], 0));
        assert_eq!(stored.add(4..8), (vec![], 0));
    }

    #[test]
    fn forgets_each_block_that_a_range_touches() {
        let mut stored = of_size(95);
        stored.add(0..95);
        stored.forget(&(15..21));
        assert_eq!(stored.first_gap(0), Some(10..30));
        stored.forget(&(94..95));
        assert_eq!(stored.first_gap(30), Some(90..95));
    }

    #[test]
    fn finds_gaps_in_order() {
        let mut stored = of_size(95);
        stored.add(20..40);
        assert_eq!(stored.first_gap(0), Some(0..20));
        assert_eq!(stored.first_gap(20), Some(40..95));
        stored.add(40..95);
        assert_eq!(stored.first_gap(20), None);
    }

    #[test]
    fn blocks_before_the_size_count_and_those_beyond_the_end_do_not() {
        let mut stored = Stored::new(10);
        assert_eq!(stored.add(80..130), (vec![80..130], 0));
        assert!(!stored.is_complete());
        stored.set_size(95);
        assert_eq!(stored.bytes(), 20);
        assert_eq!(stored.add(0..80), (vec![0..80], 0));
        assert!(stored.is_complete());
    }

    #[test]
    fn an_empty_object_is_complete_when_its_size_is_known() {
        assert!(of_size(0).is_complete());
    }

    #[test]
    fn what_is_noted_before_the_size_is_bounded() {
        let mut stored = Stored::new(10);
        for chunk in 0..1000 {
            stored.add(chunk * 40_960..chunk * 40_960 + 10);
        }
        assert_eq!(stored.blocks.chunks(), MAX_CHUNKS_WITHOUT_SIZE);
    }

    #[test]
    fn the_end_of_all_positions_is_no_overflow() {
        let mut stored = Stored::new(10);
        stored.add(u64::MAX - 1000..u64::MAX);
        stored.set_size(u64::MAX);
        stored.add(u64::MAX - 1000..u64::MAX);
        assert!(stored.first_gap(0).is_some());
    }
}
