//! Tells which blocks and repair symbols of a secure carousel really come from its sender.
//!
//! Every member of a group can seal packets. So the sender announces the hash of each block before the block
//! itself, in pages that it has signed ([`BlockHashes`]). A receiver drops each block whose hash no page has
//! announced, so a block that somebody else has made up costs the receiver nothing but one packet. Each page is
//! sent several times in a row ([`copies`]), because the blocks of a lost page count as lost.

use std::{collections::VecDeque, ops::Range};

use treecast_wire::{
    header::FileId,
    message::{BlockHash, BlockHashes},
};

/// The number of times that the sender sends each page of hashes. Two copies take 1.3 % of the rate when
/// blocks have 1,420 bytes. A sender that sends repair symbols sends more copies, since it expects losses of
/// a tenth and more.
pub fn copies(fec: bool) -> usize {
    if fec { 3 } else { 2 }
}

/// The number of pages that are remembered. Each is used at once. There are several where networks change the
/// order of packets, and where several senders are one carousel.
const MAX_PAGES: usize = 256;

/// The hash that stands for a block, or for a repair symbol, in a page.
pub fn block_hash(block: &[u8]) -> BlockHash {
    *blake3::hash(block).as_bytes().first_chunk().expect("a hash is longer")
}

/// The pages of hashes that arrived last. The caller hands in only pages whose signature it has checked.
#[derive(Debug)]
pub struct Proofs {
    block_len: u16,
    most: usize,
    /// The newest is the last.
    pages: VecDeque<(FileId, BlockHashes)>,
}

impl Proofs {
    /// Returns none where blocks are so short that senders sign no pages for them.
    pub fn new(block_len: u16) -> Option<Self> {
        Self::remembering(MAX_PAGES, block_len)
    }

    /// Does as [`Proofs::new`], for sessions in which blocks come again long after they were sent. `most` is
    /// the number of pages that are remembered.
    pub fn remembering(most: usize, block_len: u16) -> Option<Self> {
        BlockHashes::per_page(block_len).map(|_| Self { block_len, most, pages: VecDeque::new() })
    }

    /// Whether this page is known already, so that its signature need not be checked again.
    pub fn knows(&self, file: FileId, page: &BlockHashes) -> bool {
        self.pages.iter().rev().any(|(of, known)| *of == file && known == page)
    }

    /// Adds a page of hashes whose signature the caller has checked.
    pub fn take(&mut self, file: FileId, page: BlockHashes) {
        if self.pages.len() >= self.most {
            self.pages.pop_front();
        }
        self.pages.push_back((file, page));
    }

    /// Returns those parts of a run of blocks, or of repair symbols, that come from the sender. `hash` gives
    /// the hash of the packet at a position.
    pub fn right(
        &self,
        file: FileId,
        are_symbols: bool,
        run: &Range<u64>,
        mut hash: impl FnMut(Range<u64>) -> BlockHash,
    ) -> Vec<Range<u64>> {
        let mut right: Vec<Range<u64>> = Vec::new();
        let mut at = run.start;
        while at < run.end {
            let block = at..run.end.min(at.saturating_add(self.block_len.into()));
            at = block.end;
            let Some(expected) = self.expected(file, are_symbols, block.start) else { continue };
            if hash(block.clone()) != *expected {
                continue;
            }
            match right.last_mut() {
                Some(last) if last.end == block.start => last.end = block.end,
                _ => right.push(block),
            }
        }
        right
    }

    fn expected(&self, file: FileId, are_symbols: bool, sequence: u64) -> Option<&BlockHash> {
        let of_kind = |(of, page): &&(FileId, BlockHashes)| *of == file && page.are_symbols() == are_symbols;
        let pages = self.pages.iter().rev().filter(of_kind);
        pages.filter_map(|(_, page)| page.hash_of(sequence, self.block_len)).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(7);

    fn page(are_symbols: bool, sequence: u64, hashes: &[u8]) -> BlockHashes {
        let hashes = hashes.iter().map(|byte| [*byte; 8]).collect();
        BlockHashes::new(are_symbols, sequence, hashes).expect("few")
    }

    /// Returns the parts of a run that are right, if all its blocks have this hash.
    fn right(proofs: &Proofs, are_symbols: bool, run: Range<u64>, hash: u8) -> Vec<Range<u64>> {
        proofs.right(FILE, are_symbols, &run, |_| [hash; 8])
    }

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
    fn only_what_a_page_vouches_for_is_right() {
        let mut proofs = Proofs::new(1_000).expect("long enough");
        assert_eq!(right(&proofs, false, 0..3_000, 1), []);
        proofs.take(FILE, page(false, 1_000, &[1, 2, 1, 1]));
        assert_eq!(right(&proofs, false, 0..9_999, 1), [1_000..2_000, 3_000..5_000]);
        assert_eq!(right(&proofs, false, 2_000..2_500, 2), [2_000..2_500], "the last block may be short");
        assert_eq!(right(&proofs, false, 1_500..2_500, 1), [], "no block begins there");
        assert_eq!(right(&proofs, true, 0..9_999, 1), [], "these are symbols");
        assert_eq!(proofs.right(FileId(8), false, &(1_000..2_000), |_| [1; 8]), []);
    }

    #[test]
    fn pages_are_remembered_for_a_while() {
        let mut proofs = Proofs::new(1_000).expect("long enough");
        let first = page(true, 0, &[1]);
        proofs.take(FILE, first.clone());
        assert!(proofs.knows(FILE, &first) && !proofs.knows(FileId(8), &first));
        for sequence in 1..=MAX_PAGES as u64 {
            assert!(proofs.knows(FILE, &first));
            proofs.take(FILE, page(true, sequence * 1_000, &[1]));
        }
        assert!(!proofs.knows(FILE, &first));
        assert!(Proofs::new(100).is_none());
    }
}
