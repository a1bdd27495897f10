//! A carousel's object that was whole and had the wrong hash: which of its chunks have been compared with what they should
//! be. The sender says that again in every loop, in front of the blocks.

use std::{collections::BTreeSet, ops::Range};

use crate::object::{chunks::Chunks, ranges::BlockSet};

/// What is left to be compared.
#[derive(Debug)]
pub(super) struct Check {
    chunks: Chunks,
    /// Pages that are not compared yet.
    open: BlockSet,
    /// Those of them that the caller is at.
    busy: BTreeSet<u32>,
}

/// The most pages that the caller is at.
const MAX_BUSY: usize = 64;

impl Check {
    /// Nothing is compared.
    pub fn new(chunks: Chunks) -> Self {
        let mut open = BlockSet::default();
        open.insert(0..u64::from(chunks.pages()));
        Self { chunks, open, busy: BTreeSet::new() }
    }

    /// A page of hashes has come. Returns whether it is of use.
    pub fn take(&mut self, page: u32) -> bool {
        let is_open = self.open.has(page.into());
        is_open && self.busy.len() < MAX_BUSY && self.busy.insert(page)
    }

    /// A page is compared, or was forged. Returns whether it was awaited.
    pub fn compared(&mut self, page: u32, is_right: bool) -> bool {
        if is_right && self.busy.contains(&page) {
            self.open.remove(u64::from(page)..u64::from(page) + 1);
        }
        self.busy.remove(&page)
    }

    pub fn is_over(&self) -> bool {
        self.open.is_empty()
    }

    /// How many chunks these bytes are.
    pub fn count(&self, bytes: &Range<u64>) -> u64 {
        (bytes.end - bytes.start).div_ceil(self.chunks.chunk_len())
    }
}
