//! The order in which a carousel with forward error correction sends its repair symbols: in passes, each of
//! which goes through all source blocks of all objects.
//!
//! A receiver that has lost a share of every source block is complete when it has got as many symbols of each.
//! Were a loop to send all symbols of one source block before those of the next, the receiver would have to
//! wait for the last source block's turn, however little it lacks there. With passes it waits only for what it
//! lacks and for the rest of the current pass. A pass makes the sender encode anew every source block that it
//! no longer holds in memory. So passes become longer, and a receiver that lacks much waits a little longer
//! than it has to.

use std::ops::Range;

use crate::fec::Layout;

/// The ends of passes in each source block, in twelfths of it. The first pass is enough at a loss of 5 %, the
/// second at 10 %.
const ENDS: [u64; 5] = [1, 2, 4, 8, PARTS];
const PARTS: u64 = 12;

/// One pass of a loop; the default is the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Pass(usize);

impl Pass {
    /// Returns the pass that follows in the loop, or none after the last one.
    pub fn next(self) -> Option<Self> {
        Some(Self(self.0 + 1)).filter(|next| next.0 < ENDS.len())
    }

    pub fn is_first(self) -> bool {
        self.0 == 0
    }

    /// Returns the mean distance, in blocks, between two blocks in whose place this pass sends a repair symbol.
    /// 12 means one symbol in place of every twelfth block.
    pub fn stride(self) -> u64 {
        PARTS / (ENDS[self.0] - self.begin())
    }

    /// Returns the next blocks from `block` on in whose place this pass sends repair symbols. They lie in the
    /// first source block that has some.
    pub fn next_from(self, layout: &Layout, block: u64) -> Option<Range<u64>> {
        (layout.source_block(block)..layout.count()).find_map(|source_block| {
            let all = self.share_of(&layout.blocks(source_block));
            let left = all.start.max(block)..all.end;
            (!left.is_empty()).then_some(left)
        })
    }

    fn share_of(self, blocks: &Range<u64>) -> Range<u64> {
        let at = |part: u64| blocks.start + ((blocks.end - blocks.start) * part).div_ceil(PARTS);
        at(self.begin())..at(ENDS[self.0])
    }

    fn begin(self) -> u64 {
        self.0.checked_sub(1).map_or(0, |before| ENDS[before])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_passes_of_a_loop_go_by_every_block_once() {
        for size in [0, 1, 1_000, 11_999, 12_000, 9_000_000] {
            let layout = Layout::new(size, 1_000).expect("few source blocks");
            let mut sent = vec![0; size.div_ceil(1_000) as usize];
            let mut pass = Some(Pass::default());
            while let Some(this) = pass {
                let mut next = 0;
                while let Some(blocks) = this.next_from(&layout, next) {
                    blocks.clone().for_each(|block| sent[block as usize] += 1);
                    next = blocks.end;
                }
                pass = this.next();
            }
            assert!(sent.iter().all(|count| *count == 1), "{size}: {sent:?}");
        }
    }

    #[test]
    fn the_first_pass_sends_a_little_of_every_source_block() {
        let layout = Layout::new(12_000_000, 1_000).expect("few source blocks");
        let first = Pass::default();
        assert_eq!((layout.count(), layout.source_symbols(0)), (4, 3_000));
        let all = [0, 250, 3_000, 9_001].map(|from| first.next_from(&layout, from));
        assert_eq!(all, [Some(0..250), Some(3_000..3_250), Some(3_000..3_250), Some(9_001..9_250)]);
        assert_eq!(first.next_from(&layout, 9_250), None);
        assert_eq!(first.stride(), 12);
    }
}
