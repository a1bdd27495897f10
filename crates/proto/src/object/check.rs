//! An object that was whole and had the wrong hash: which of its chunks have been compared with what they should be.

use std::{collections::BTreeSet, ops::Range};

use super::{chunks::Chunks, ranges::BlockSet};

/// The most pages that the caller compares at the same time.
const MAX_BUSY: usize = 64;

/// What is left to be compared.
#[derive(Debug)]
pub(crate) struct Check {
    chunks: Chunks,
    /// Pages that may come: all that have been asked for, or all pages where nobody is asked.
    expected: Range<u32>,
    /// Pages that are not compared yet.
    open: BlockSet,
    /// Pages that the caller is comparing.
    busy: BTreeSet<u32>,
}

impl Check {
    /// Nothing is compared. The pages come unasked.
    pub fn new(chunks: Chunks) -> Self {
        let mut open = BlockSet::default();
        open.insert(0..chunks.pages().into());
        Self { chunks, expected: 0..chunks.pages(), open, busy: BTreeSet::new() }
    }

    /// Nothing is compared. Pages come when [`Self::ask`] has named them.
    pub fn by_request(chunks: Chunks) -> Self {
        Self { expected: 0..0, ..Self::new(chunks) }
    }

    /// The next `most` pages to ask for, once all that were asked for before are compared. Empty when none are left.
    pub fn ask(&mut self, most: u32) -> Range<u32> {
        let start = self.expected.end;
        self.expected = start..start.saturating_add(most).min(self.chunks.pages());
        self.expected.clone()
    }

    /// A page of hashes has come. Returns whether it is of use.
    pub fn take(&mut self, page: u32) -> bool {
        let is_open = self.expected.contains(&page) && self.open.has(page.into());
        is_open && self.busy.len() < MAX_BUSY && self.busy.insert(page)
    }

    /// A page is compared, or was forged. Returns whether it was awaited.
    pub fn compared(&mut self, page: u32, is_right: bool) -> bool {
        if is_right && self.busy.contains(&page) {
            self.open.remove(u64::from(page)..u64::from(page) + 1);
        }
        self.busy.remove(&page)
    }

    /// Whether all pages that were asked for are compared.
    pub fn is_answered(&self) -> bool {
        self.open.count(self.expected.start.into()..self.expected.end.into()) == 0
    }

    /// Whether all pages are compared.
    pub fn is_over(&self) -> bool {
        self.open.is_empty()
    }

    /// How many chunks these bytes are.
    pub fn count(&self, bytes: &Range<u64>) -> u64 {
        (bytes.end - bytes.start).div_ceil(self.chunks.chunk_len())
    }
}
