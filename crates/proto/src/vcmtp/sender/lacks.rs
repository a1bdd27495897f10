//! The blocks that receivers lack of an object that is sent by difference ([`super::difference`]).

use std::{collections::BTreeSet, ops::Range};

use super::ReceiverId;
use crate::object::ranges::BlockSet;

/// The blocks that receivers lack of one object.
#[derive(Debug, Default)]
pub(super) struct Lacks {
    /// The blocks that at least one receiver lacks.
    blocks: BlockSet,
    /// Receivers whose reports are waited for.
    pub(super) awaited: BTreeSet<ReceiverId>,
    /// Number of receivers that have reported.
    pub(super) reported: usize,
}

impl Lacks {
    /// Some receiver lacks these blocks.
    pub(super) fn add(&mut self, blocks: Range<u64>) {
        self.blocks.insert(blocks);
    }

    /// The first run of lacked blocks at or behind `block`.
    pub(super) fn next(&self, block: u64) -> Option<Range<u64>> {
        self.blocks.first_run(block..u64::MAX)
    }
}
