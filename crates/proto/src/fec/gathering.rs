//! The receiver's side of forward error correction: which repair symbols of an object it keeps, and how many
//! its source blocks still lack.

use std::{collections::BTreeMap, ops::Range};

use super::Layout;
use crate::object::ranges::BlockSet;

/// The repair symbols that are kept of one object. Of a source block, no more are kept than it takes to decode it.
#[derive(Debug)]
pub(crate) struct Gatherer {
    layout: Layout,
    gathering: BTreeMap<u32, Gathering>,
    /// Chunks of memory that the sets of symbols take.
    chunks: usize,
}

/// One source block on its way.
#[derive(Debug, Default)]
struct Gathering {
    symbols: BlockSet,
    /// The number behind the last symbol that is known to be out.
    next: u32,
    /// The number of symbols that it takes beyond its blocks, because with fewer it could not be decoded.
    surplus: u32,
    is_decoding: bool,
}

impl Gatherer {
    pub(crate) fn new(layout: Layout) -> Self {
        Self { layout, gathering: BTreeMap::new(), chunks: 0 }
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// The memory that it takes, in chunks of about 600 bytes.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks + self.gathering.len() / 4
    }

    /// The number of symbols that a source block still needs if `there` blocks are there.
    pub(crate) fn lacking(&self, source_block: u32, there: u64) -> u32 {
        let symbols = u64::from(self.layout.source_symbols(source_block));
        match self.gathering.get(&source_block) {
            _ if there >= symbols => 0,
            None => (symbols - there) as u32,
            Some(one) if one.is_decoding => 0,
            Some(one) => (symbols + u64::from(one.surplus)).saturating_sub(there + one.symbols.len()) as u32,
        }
    }

    /// Symbols came in of a source block of which `there` blocks are there. Returns those to keep.
    pub(crate) fn take(&mut self, source_block: u32, symbols: Range<u32>, there: u64) -> Vec<Range<u32>> {
        let mut lacking = u64::from(self.lacking(source_block, there));
        let one = self.gathering.entry(source_block).or_default();
        self.chunks -= one.symbols.chunks();
        let (mut keep, mut from) = (Vec::new(), u64::from(symbols.start));
        while lacking > 0
            && let Some(gap) = one.symbols.first_gap(from..u64::from(symbols.end))
        {
            let new = gap.start..gap.end.min(gap.start + lacking);
            one.symbols.insert(new.clone());
            lacking -= new.end - new.start;
            from = new.end;
            keep.push(new.start as u32..new.end as u32);
        }
        self.chunks += one.symbols.chunks();
        keep
    }

    /// All symbols before this one are out.
    pub(crate) fn sent(&mut self, source_block: u32, next: u32) {
        let one = self.gathering.entry(source_block).or_default();
        one.next = one.next.max(next.min(super::MAX_SYMBOLS));
    }

    /// The number behind the last symbol that is known to be out of a source block that has been out.
    pub(crate) fn next(&self, source_block: u32) -> u32 {
        let symbols = self.layout.source_symbols(source_block);
        self.gathering.get(&source_block).map_or(symbols, |one| one.next.max(symbols))
    }

    /// Whether a source block can be decoded now that `there` of its blocks are there; then it is.
    pub(crate) fn decode(&mut self, source_block: u32, there: u64) -> bool {
        let is_whole = there >= u64::from(self.layout.source_symbols(source_block));
        let is_enough = !is_whole && self.lacking(source_block, there) == 0;
        match self.gathering.get_mut(&source_block) {
            Some(one) if is_enough => !std::mem::replace(&mut one.is_decoding, true),
            _ => false,
        }
    }

    /// The caller has tried to decode a source block. When it could not, it takes one symbol more. False when that was
    /// not asked for.
    pub(crate) fn decoded(&mut self, source_block: u32, is_right: bool) -> bool {
        let Some(one) = self.gathering.get_mut(&source_block).filter(|one| one.is_decoding) else {
            return false;
        };
        one.is_decoding = false;
        one.surplus += u32::from(!is_right);
        true
    }

    /// The source blocks in which these bytes lie, and of which symbols are kept.
    pub(crate) fn touched(&self, bytes: &Range<u64>) -> Vec<u32> {
        let source_block = |position: u64| self.layout.source_block(position / self.layout.block_len());
        let touched = source_block(bytes.start)..=source_block(bytes.end.saturating_sub(1));
        let has_symbols = |one: &Gathering| !one.symbols.is_empty();
        touched.filter(|block| self.gathering.get(block).is_some_and(has_symbols)).collect()
    }

    /// Whether any source block is being decoded.
    pub(crate) fn is_decoding(&self) -> bool {
        self.gathering.values().any(|one| one.is_decoding)
    }

    /// A source block is whole: nothing more is to be kept of it.
    pub(crate) fn forget(&mut self, source_block: u32) {
        self.chunks -= self.gathering.remove(&source_block).map_or(0, |one| one.symbols.chunks());
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
mod tests {
    use super::*;

    /// Three source blocks of 2,000 blocks.
    fn gatherer() -> Gatherer {
        Gatherer::new(Layout::new(12_000_000, 2_000).unwrap())
    }

    #[test]
    fn as_many_symbols_are_kept_as_are_lacking_and_each_once() {
        let mut gatherer = gatherer();
        assert_eq!(gatherer.lacking(1, 1_990), 10);
        assert_eq!(gatherer.take(1, 2_000..2_004, 1_990), [2_000..2_004]);
        assert_eq!(gatherer.take(1, 2_002..2_008, 1_990), [2_004..2_008]);
        assert_eq!((gatherer.lacking(1, 1_990), gatherer.decode(1, 1_990)), (2, false));
        assert_eq!(gatherer.take(1, 2_010..2_020, 1_990), [2_010..2_012]);
        assert!(gatherer.decode(1, 1_990) && !gatherer.decode(1, 1_990), "once");
        assert!(gatherer.take(1, 2_020..2_030, 1_990).is_empty());
    }

    #[test]
    fn a_source_block_that_could_not_be_decoded_takes_one_symbol_more() {
        let mut gatherer = gatherer();
        assert_eq!(gatherer.take(0, 2_000..2_001, 1_999).len(), 1);
        assert!(gatherer.decode(0, 1_999) && gatherer.is_decoding());
        assert!(gatherer.decoded(0, false) && !gatherer.decoded(0, false));
        assert_eq!(gatherer.lacking(0, 1_999), 1);
        assert_eq!(gatherer.take(0, 2_000..2_003, 1_999), [2_001..2_002]);
        assert!(gatherer.decode(0, 1_999) && gatherer.decoded(0, true));
    }

    #[test]
    fn a_block_that_comes_after_all_counts_and_all_of_them_need_no_decoding() {
        let mut gatherer = gatherer();
        gatherer.take(2, 2_000..2_001, 1_998);
        assert_eq!((gatherer.lacking(2, 1_998), gatherer.lacking(2, 1_999)), (1, 0));
        assert!(!gatherer.decode(2, 2_000) && gatherer.decode(2, 1_999));
    }

    #[test]
    fn what_is_out_never_goes_back() {
        let mut gatherer = gatherer();
        assert_eq!(gatherer.next(1), 2_000);
        gatherer.sent(1, 2_050);
        gatherer.sent(1, 2_040);
        assert_eq!(gatherer.next(1), 2_050);
    }

    #[test]
    fn memory_is_bounded_whatever_symbols_come() {
        let mut gatherer = gatherer();
        for symbol in (2_000..super::super::MAX_SYMBOLS).step_by(31) {
            gatherer.take(0, symbol..symbol + 1, 0);
        }
        assert!((1..=17).contains(&gatherer.chunks()), "{}", gatherer.chunks());
        gatherer.forget(0);
        assert_eq!(gatherer.chunks(), 0);
    }
}
