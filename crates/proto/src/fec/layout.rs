//! The layout of an object: its source blocks, and the places of symbols in sequence numbers.

use std::ops::Range;

/// The most blocks in a source block. Measured (`cargo bench -p treecast-driver --bench fec`), more take longer to
/// decode: 2,048 symbols of 1,420 bytes 0.41 GB/s on one core, 3,072 of them 0.37 GB/s, and 4,096 half of that. Fewer cost
/// more surplus: 20 receivers that lose 30 % have all got 256 symbols when 1.52 times as many have been sent, 2,048 when
/// 1.47 times, 3,021, which are 4 MiB of sealed blocks, when 1.46 times.
pub const MAX_SOURCE_SYMBOLS: u32 = 3072;

/// The most bytes in a source block. A receiver that decodes one holds it in memory three times.
const MAX_SOURCE_BYTES: u32 = 4 << 20;

/// The most source blocks of an object, which is 12 TB in blocks of 1,420 bytes.
const MAX_SOURCE_BLOCKS: u32 = 1 << 22;

/// Symbols of a source block have numbers below this, source symbols included. (RFC 6330 has 24 bits for them; 16
/// bound what a receiver has to remember.)
pub const MAX_SYMBOLS: u32 = 1 << 16;

/// The number of the repair symbol at a sequence number, in its source block.
pub fn symbol_number(position: u64, block_len: u16) -> u32 {
    ((position / u64::from(block_len.max(1))) % u64::from(MAX_SYMBOLS)) as u32
}

/// The source blocks of one object: as few as the bounds allow, of equal length or one block less (RFC 6330, 4.4.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    block_len: u64,
    /// The number of source blocks.
    count: u32,
    /// The first `large` ones have one block more than `small` blocks, the others `small`.
    large: u64,
    small: u64,
}

impl Layout {
    /// Returns the layout of an object, or none when the object has more source blocks than there are numbers
    /// for them.
    pub fn new(file_size: u64, block_len: u16) -> Option<Self> {
        let block_len = u64::from(block_len.max(1));
        let most = (u64::from(MAX_SOURCE_BYTES) / block_len).clamp(1, u64::from(MAX_SOURCE_SYMBOLS));
        let blocks = file_size.div_ceil(block_len);
        let count = u32::try_from(blocks.div_ceil(most)).ok().filter(|count| *count <= MAX_SOURCE_BLOCKS)?;
        let divisor = u64::from(count.max(1));
        Some(Self { block_len, count, large: blocks % divisor, small: blocks / divisor })
    }

    /// Returns the length of a block in bytes.
    pub fn block_len(&self) -> u64 {
        self.block_len
    }

    /// Returns how many source blocks the object has. An empty object has none.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the numbers of the blocks in a source block.
    pub fn blocks(&self, source_block: u32) -> Range<u64> {
        let start = |index: u64| index * self.small + index.min(self.large);
        start(u64::from(source_block))..start(u64::from(source_block) + 1)
    }

    /// Returns how many blocks are in a source block. RFC 6330 calls this number K.
    pub fn source_symbols(&self, source_block: u32) -> u32 {
        (self.small + u64::from(u64::from(source_block) < self.large)) as u32
    }

    /// Returns the source block that a block is in. For a block after the end of the object, returns the number
    /// of source blocks.
    pub fn source_block(&self, block: u64) -> u32 {
        let in_large = self.large * (self.small + 1);
        let source_block = match block.checked_sub(in_large) {
            None => block / (self.small + 1),
            Some(beyond) => self.large + beyond.checked_div(self.small).unwrap_or(0),
        };
        source_block.min(u64::from(self.count)) as u32
    }

    /// Returns the sequence numbers of these repair symbols. Consecutive symbols follow each other as
    /// consecutive blocks do.
    pub fn positions(&self, source_block: u32, symbols: &Range<u32>) -> Range<u64> {
        let position = |symbol: u32| (u64::from(source_block) << 16 | u64::from(symbol)) * self.block_len;
        let len = u64::from(symbols.end - symbols.start) * self.block_len;
        position(symbols.start)..position(symbols.start) + len
    }

    /// Returns the repair symbols that a carousel sends in place of `blocks` in its loop `loops`, counted from
    /// 1. The blocks begin in one source block. Each loop sends new symbols, until all numbers have been used.
    ///    The result ends with the source block or with the numbers.
    pub fn instead(&self, blocks: &Range<u64>, loops: u64) -> (u32, Range<u32>) {
        let source_block = self.source_block(blocks.start);
        let (inside, symbols) = (self.blocks(source_block), u64::from(self.source_symbols(source_block)));
        let numbers = u64::from(MAX_SYMBOLS) - symbols;
        let offset = ((loops.saturating_sub(1) % numbers) * symbols + blocks.start - inside.start) % numbers;
        let count = (blocks.end.min(inside.end) - blocks.start).min(numbers - offset);
        let first = (symbols + offset) as u32;
        (source_block, first..first + count as u32)
    }

    /// Returns the repair symbols at these sequence numbers. None: the numbers are not those of whole symbols
    /// of one source block of this object.
    pub fn repair_symbols(&self, positions: &Range<u64>) -> Option<(u32, Range<u32>)> {
        let is_whole = |position: u64| position.is_multiple_of(self.block_len);
        if positions.is_empty() || !is_whole(positions.start) || !is_whole(positions.end) {
            return None;
        }
        let (first, last) = (positions.start / self.block_len, positions.end / self.block_len - 1);
        let source_block = u32::try_from(first >> 16).ok().filter(|block| *block < self.count)?;
        let symbol = |number: u64| (number % u64::from(MAX_SYMBOLS)) as u32;
        let is_one = first >> 16 == last >> 16 && symbol(first) >= self.source_symbols(source_block);
        is_one.then(|| (source_block, symbol(first)..symbol(last) + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_in_one_source_block_of_bounded_length() {
        for (size, block_len) in
            [(0, 100), (1, 100), (2_048 * 100, 100), (204_801, 100), (9 << 20, 1420), (9 << 20, 60_000)]
        {
            let layout = Layout::new(size, block_len).unwrap();
            let mut next = 0;
            for source_block in 0..layout.count() {
                let blocks = layout.blocks(source_block);
                assert_eq!(blocks.start, next);
                assert_eq!(blocks.end - blocks.start, u64::from(layout.source_symbols(source_block)));
                assert!((1..=u64::from(MAX_SOURCE_SYMBOLS)).contains(&(blocks.end - blocks.start)));
                assert!((blocks.end - blocks.start) * u64::from(block_len) <= u64::from(MAX_SOURCE_BYTES));
                for block in [blocks.start, blocks.end - 1] {
                    assert_eq!(layout.source_block(block), source_block);
                }
                next = blocks.end;
            }
            assert_eq!(next, size.div_ceil(u64::from(block_len)));
            assert_eq!(layout.source_block(next), layout.count());
            assert_eq!(layout.source_block(u64::MAX), layout.count());
        }
    }

    #[test]
    fn positions_name_repair_symbols_and_nothing_else_does() {
        let layout = Layout::new(10_000_000, 1_000).unwrap();
        let symbols = layout.source_symbols(3);
        for expected in [symbols..symbols + 1, symbols + 7..symbols + 50, MAX_SYMBOLS - 2..MAX_SYMBOLS] {
            let positions = layout.positions(3, &expected);
            assert_eq!(symbol_number(positions.start, 1_000), expected.start);
            assert_eq!(layout.repair_symbols(&positions), Some((3, expected)));
        }
        let good = layout.positions(3, &(symbols..symbols + 2));
        let wrong = [
            good.start + 1..good.end,
            good.start..good.end - 1,
            good.start..good.start,
            good.start - 1_000..good.end,
            layout.positions(layout.count(), &(symbols..symbols + 1)),
            layout.positions(3, &(MAX_SYMBOLS - 1..MAX_SYMBOLS + 1)),
            u64::MAX / 1_000 * 1_000 - 1_000..u64::MAX / 1_000 * 1_000,
        ];
        for positions in wrong {
            assert_eq!(layout.repair_symbols(&positions), None, "{positions:?}");
        }
    }

    #[test]
    fn each_loop_of_a_carousel_has_symbols_of_its_own() {
        let layout = Layout::new(4_100_000, 1_000).unwrap();
        let symbols = layout.source_symbols(1);
        let blocks = layout.blocks(1);
        let (mut seen, mut loops) = (std::collections::BTreeSet::new(), 1);
        while seen.len() < (MAX_SYMBOLS - symbols) as usize {
            let mut next = blocks.start;
            while next < blocks.end {
                let (source_block, numbers) = layout.instead(&(next..next + 100), loops);
                assert!(source_block == 1 && numbers.start >= symbols && !numbers.is_empty());
                next += u64::from(numbers.end - numbers.start);
                let is_new = numbers.into_iter().all(|number| seen.insert(number));
                assert!(is_new || seen.len() == (MAX_SYMBOLS - symbols) as usize, "loop {loops}");
            }
            assert_eq!(next, blocks.end);
            loops += 1;
        }
        assert_eq!(loops, 1 + u64::from((MAX_SYMBOLS - symbols).div_ceil(symbols)));
        layout.instead(&blocks, u64::MAX);
    }

    #[test]
    fn no_size_is_too_large_to_look_at() {
        assert!(Layout::new(u64::MAX, 1).is_none());
        for block_len in [1, 512, 1_420, u16::MAX] {
            let most = u64::from(MAX_SOURCE_BLOCKS)
                * (MAX_SOURCE_BYTES as u64 / u64::from(block_len)).min(u64::from(MAX_SOURCE_SYMBOLS));
            let layout = Layout::new(most * u64::from(block_len), block_len).unwrap();
            assert_eq!(layout.count(), MAX_SOURCE_BLOCKS);
            let positions = layout.positions(MAX_SOURCE_BLOCKS - 1, &(MAX_SYMBOLS - 1..MAX_SYMBOLS));
            assert_eq!(
                layout.repair_symbols(&positions).map(|(block, _)| block),
                Some(MAX_SOURCE_BLOCKS - 1)
            );
            assert!(Layout::new(most * u64::from(block_len) + 1, block_len).is_none());
        }
    }
}
