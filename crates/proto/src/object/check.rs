//! The comparison of an object's chunks with their hashes, after the object was complete and had the wrong hash
//! as a whole.

use std::{collections::BTreeSet, ops::Range};

use super::{chunks::Chunks, ranges::BlockSet};

/// The most pages that the caller compares at the same time.
const MAX_BUSY: usize = 64;

/// The pages that are left to be compared.
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
    /// Begins a comparison to which the sender sends pages of chunk hashes without being asked.
    pub fn new(chunks: Chunks) -> Self {
        let mut open = BlockSet::default();
        open.insert(0..chunks.pages().into());
        Self { chunks, expected: 0..chunks.pages(), open, busy: BTreeSet::new() }
    }

    /// Begins a comparison in which the receiver asks for pages of chunk hashes by [`Self::ask`].
    pub fn by_request(chunks: Chunks) -> Self {
        Self { expected: 0..0, ..Self::new(chunks) }
    }

    /// Returns the next pages to ask for, at most `most` of them, once all pages asked for before are compared.
    /// Returns an empty range when none are left.
    pub fn ask(&mut self, most: u32) -> Range<u32> {
        let start = self.expected.end;
        self.expected = start..start.saturating_add(most).min(self.chunks.pages());
        self.expected.clone()
    }

    /// Takes note that a page of hashes has arrived. Returns whether the comparison needs it.
    pub fn take(&mut self, page: u32) -> bool {
        let is_open = self.expected.contains(&page) && self.open.has(page.into());
        is_open && self.busy.len() < MAX_BUSY && self.busy.insert(page)
    }

    /// Takes note that a page was compared, or was forged. Returns whether the comparison was waiting for it.
    pub fn compared(&mut self, page: u32, is_right: bool) -> bool {
        if is_right && self.busy.contains(&page) {
            self.open.remove(u64::from(page)..u64::from(page) + 1);
        }
        self.busy.remove(&page)
    }

    /// The first page that is not compared yet, nor being compared.
    pub fn first_open(&self) -> Option<u32> {
        let is_open = |page: &u32| self.open.has(u64::from(*page)) && !self.busy.contains(page);
        (0..self.chunks.pages()).find(is_open)
    }

    /// Whether all pages that were asked for are compared.
    pub fn is_answered(&self) -> bool {
        self.open.count(self.expected.start.into()..self.expected.end.into()) == 0
    }

    /// Whether all pages are compared.
    pub fn is_over(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns how many chunks these bytes make up.
    pub fn count(&self, bytes: &Range<u64>) -> u64 {
        (bytes.end - bytes.start).div_ceil(self.chunks.chunk_len())
    }
}
