//! A set of block numbers of an object: those that are there, or are asked for. It stays small when it is
//! nearly empty, nearly full, or neither.
//!
//! The set is cut into chunks of 4,096 blocks. A chunk without blocks costs nothing, a full one a map entry,
//! any other 512 bytes at most, and 8 when they are all among its first 64: an object of 8 GiB in blocks of
//! 1,420 bytes with random losses takes 0.8 MB, and a run of blocks that arrives in order touches one or two
//! words.

use std::{collections::BTreeMap, ops::Range};

const WORD_BITS: u64 = u64::BITS as u64;
const CHUNK_WORDS: usize = 64;
const CHUNK_BITS: u64 = CHUNK_WORDS as u64 * WORD_BITS;

/// A set of block numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct BlockSet {
    chunks: BTreeMap<u64, Chunk>,
    len: u64,
}

#[derive(Debug, Clone)]
enum Chunk {
    Full,
    /// Neither empty nor full; `count` blocks are in it.
    Partial {
        /// The words up to the last that has been written to, 64 at most.
        words: Vec<u64>,
        count: u64,
    },
}

impl BlockSet {
    /// The number of blocks in the set.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of chunks that hold memory, at most about 600 bytes each.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Whether a block is in the set.
    pub(crate) fn has(&self, block: u64) -> bool {
        let bit = block % CHUNK_BITS;
        match self.chunks.get(&(block / CHUNK_BITS)) {
            None => false,
            Some(Chunk::Full) => true,
            Some(Chunk::Partial { words, .. }) => {
                word_at(words, (bit / WORD_BITS) as usize) >> (bit % WORD_BITS) & 1 == 1
            }
        }
    }

    /// Adds `blocks`; returns how many of them are new.
    pub(crate) fn insert(&mut self, blocks: Range<u64>) -> u64 {
        let before = self.len;
        for (number, bits) in by_chunk(blocks) {
            self.insert_in_chunk(number, bits);
        }
        self.len - before
    }

    /// Takes `blocks` out; returns how many of them were there.
    pub(crate) fn remove(&mut self, blocks: Range<u64>) -> u64 {
        let before = self.len;
        for (number, bits) in by_chunk(blocks) {
            self.remove_in_chunk(number, bits);
        }
        before - self.len
    }

    /// The number of `blocks` that are in the set.
    pub(crate) fn count(&self, blocks: Range<u64>) -> u64 {
        let in_chunk = |(number, bits): (u64, Range<u64>)| match self.chunks.get(&number) {
            None => 0,
            Some(Chunk::Full) => bits.end - bits.start,
            Some(Chunk::Partial { words, .. }) => {
                by_word(bits).map(|(word, mask)| u64::from((word_at(words, word) & mask).count_ones())).sum()
            }
        };
        by_chunk(blocks).map(in_chunk).sum()
    }

    /// The first run of blocks within `blocks` that are in the set.
    pub(crate) fn first_run(&self, blocks: Range<u64>) -> Option<Range<u64>> {
        self.first(blocks, true)
    }

    /// The first run of blocks within `blocks` that are not in the set.
    pub(crate) fn first_gap(&self, blocks: Range<u64>) -> Option<Range<u64>> {
        self.first(blocks, false)
    }

    fn first(&self, blocks: Range<u64>, present: bool) -> Option<Range<u64>> {
        let start = self.find(blocks.clone(), present);
        (start < blocks.end).then(|| start..self.find(start..blocks.end, !present))
    }

    /// The first block within `blocks` that is in the set (`present`) or is not; else their end.
    fn find(&self, blocks: Range<u64>, present: bool) -> u64 {
        let mut from = blocks.start;
        while from < blocks.end {
            let number = from / CHUNK_BITS;
            let chunk_end = (number + 1).saturating_mul(CHUNK_BITS).min(blocks.end);
            match self.chunks.get(&number) {
                None if !present => return from,
                None => match self.chunks.range(number..).next() {
                    Some((next, _)) => from = (next * CHUNK_BITS).min(blocks.end),
                    None => return blocks.end,
                },
                Some(Chunk::Full) if present => return from,
                Some(Chunk::Full) => from = chunk_end,
                Some(Chunk::Partial { words, .. }) => {
                    from = find_in_words(words, number * CHUNK_BITS, from..chunk_end, present);
                    if from < chunk_end {
                        return from;
                    }
                }
            }
        }
        blocks.end
    }

    fn insert_in_chunk(&mut self, number: u64, bits: Range<u64>) {
        if bits.end - bits.start == CHUNK_BITS {
            let before = self.chunks.insert(number, Chunk::Full).map_or(0, |chunk| chunk.count());
            self.len += CHUNK_BITS - before;
            return;
        }
        let chunk =
            self.chunks.entry(number).or_insert_with(|| Chunk::Partial { words: Vec::new(), count: 0 });
        let Chunk::Partial { words, count } = chunk else { return };
        let needed = bits.end.div_ceil(WORD_BITS) as usize;
        words.resize(words.len().max(needed), 0);
        let mut new = 0;
        for (word, mask) in by_word(bits) {
            new += u64::from((mask & !words[word]).count_ones());
            words[word] |= mask;
        }
        *count += new;
        self.len += new;
        if *count == CHUNK_BITS {
            *chunk = Chunk::Full;
        }
    }

    fn remove_in_chunk(&mut self, number: u64, bits: Range<u64>) {
        let Some(chunk) = self.chunks.get_mut(&number) else { return };
        if let Chunk::Full = chunk {
            *chunk = Chunk::Partial { words: vec![u64::MAX; CHUNK_WORDS], count: CHUNK_BITS };
        }
        let Chunk::Partial { words, count } = chunk else { return };
        let mut gone = 0;
        for (word, mask) in by_word(bits) {
            let Some(word) = words.get_mut(word) else { break };
            gone += u64::from((mask & *word).count_ones());
            *word &= !mask;
        }
        *count -= gone;
        self.len -= gone;
        if *count == 0 {
            self.chunks.remove(&number);
        }
    }
}

impl Chunk {
    fn count(&self) -> u64 {
        match self {
            Self::Full => CHUNK_BITS,
            Self::Partial { count, .. } => *count,
        }
    }
}

/// `blocks` as chunk numbers, each with the range of bits in that chunk.
fn by_chunk(blocks: Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> {
    let mut from = blocks.start;
    std::iter::from_fn(move || {
        if from >= blocks.end {
            return None;
        }
        let number = from / CHUNK_BITS;
        let first = number * CHUNK_BITS;
        let bits = from - first..(blocks.end - first).min(CHUNK_BITS);
        from = first.saturating_add(CHUNK_BITS);
        Some((number, bits))
    })
}

/// A range of bits in a chunk as words, each with the mask of the bits in that word.
fn by_word(bits: Range<u64>) -> impl Iterator<Item = (usize, u64)> {
    let mut from = bits.start;
    std::iter::from_fn(move || {
        if from >= bits.end {
            return None;
        }
        let word = from / WORD_BITS;
        let end = bits.end.min((word + 1) * WORD_BITS);
        let mask = (u64::MAX >> (WORD_BITS - (end - from))) << (from % WORD_BITS);
        from = end;
        Some((word as usize, mask))
    })
}

/// A word of a chunk's; those that have not been written to are empty.
fn word_at(words: &[u64], word: usize) -> u64 {
    words.get(word).copied().unwrap_or_default()
}

/// Does as [`BlockSet::find`], within the chunk whose first block is `base`.
fn find_in_words(words: &[u64], base: u64, blocks: Range<u64>, present: bool) -> u64 {
    for (word, mask) in by_word(blocks.start - base..blocks.end - base) {
        let bits = word_at(words, word);
        let wanted = if present { bits } else { !bits } & mask;
        if wanted != 0 {
            return base + word as u64 * WORD_BITS + u64::from(wanted.trailing_zeros());
        }
    }
    blocks.end
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn agrees_with_a_set_of_single_blocks() {
        let (mut set, mut model) = (BlockSet::default(), BTreeSet::new());
        let mut random = 1_u64;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for _ in 0..400 {
            let start = draw(20_000);
            let blocks = start..start + draw(6_000);
            if draw(2) == 0 {
                let new = blocks.clone().filter(|block| model.insert(*block)).count();
                assert_eq!(set.insert(blocks), new as u64);
            } else {
                let gone = blocks.clone().filter(|block| model.remove(block)).count();
                assert_eq!(set.remove(blocks), gone as u64);
            }
            assert_eq!(set.len(), model.len() as u64);
            let from = draw(26_000);
            assert_eq!(set.count(from..28_000), model.range(from..28_000).count() as u64);
            assert_eq!(set.has(from), model.contains(&from));
            let first = model.range(from..30_000).next().copied();
            assert_eq!(set.first_run(from..30_000).map(|run| run.start), first);
            let gap = (from..30_000).find(|block| !model.contains(block));
            assert_eq!(set.first_gap(from..30_000).map(|run| run.start), gap);
        }
    }

    #[test]
    fn runs_cross_words_and_chunks() {
        let mut set = BlockSet::default();
        set.insert(60..CHUNK_BITS * 3 + 5);
        assert_eq!(set.first_run(0..u64::MAX), Some(60..CHUNK_BITS * 3 + 5));
        assert_eq!(set.first_gap(70..u64::MAX), Some(CHUNK_BITS * 3 + 5..u64::MAX));
        set.remove(CHUNK_BITS + 1..CHUNK_BITS + 2);
        assert_eq!(set.first_gap(60..CHUNK_BITS * 3), Some(CHUNK_BITS + 1..CHUNK_BITS + 2));
    }

    #[test]
    fn eight_gibibytes_with_losses_take_about_a_megabyte() {
        let blocks = (8_u64 << 30).div_ceil(1_420);
        let mut set = BlockSet::default();
        for block in (0..blocks).filter(|block| block % 5 != 0) {
            set.insert(block..block + 1);
        }
        assert!(set.chunks() * 600 < 1_000_000, "{} chunks", set.chunks());
        set.insert(0..blocks);
        assert_eq!(set.len(), blocks);
        set.remove(0..blocks);
        assert_eq!((set.chunks(), set.is_empty()), (0, true));
    }
}
