//! The number of symbols that an object's source blocks lack, and the part of it that the receiver has told
//! the sender.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use crate::{
    Instant,
    fec::{Gatherer, Layout},
    object::ranges::BlockSet,
};

/// The time for which a lack waits to be told. Packets that were overtaken may still come, and several source
/// blocks go into one message.
pub(super) const GATHER: Duration = Duration::from_millis(20);

/// The same as [`GATHER`], when all of the object has been out. Nothing else goes on meanwhile.
pub(super) const GATHER_AT_END: Duration = Duration::from_millis(5);

/// The time after which symbols that were asked for and have not come are asked for again. The message that
/// said that they were out may have been lost.
pub(super) const RETRY: Duration = Duration::from_millis(40);

/// The wait doubles each time that nothing comes, up to this.
pub(super) const LONGEST_RETRY: Duration = Duration::from_millis(320);

/// The symbols that an object lacks, source block by source block.
#[derive(Debug)]
pub(super) struct Lacking {
    pub(super) gatherer: Gatherer,
    /// The first source block that was not out before the receiver heard anything of the object.
    pub(super) first: u32,
    /// Source blocks before this have been out.
    pub(super) passed: u32,
    /// Source blocks that have been out and are not whole. What went by before the receiver was there is not among them.
    pub(super) open: BlockSet,
    /// Source blocks whose losses the sender has been told, without having sent symbols yet.
    pub(super) named: BlockSet,
    /// Open source blocks that the sender is to be told of, unless nothing has changed.
    pub(super) due: BlockSet,
    /// Source blocks of which blocks have been asked for one by one, and no count has been said since. The sender has those
    /// blocks to send, also when symbols to the group have made them unnecessary.
    pub(super) asked: BlockSet,
    /// The last words to the sender on each source block.
    pub(super) said: BTreeMap<u32, (u32, u32)>,
    /// The source block whose symbols came last. When others follow, they are out.
    pub(super) last: Option<u32>,
    /// The time when the sender is to be told.
    pub(super) at: Option<Instant>,
    /// The time for which an answer is waited for next.
    pub(super) retry: Duration,
}

impl Lacking {
    pub(super) fn new(layout: Layout) -> Self {
        Self {
            gatherer: Gatherer::new(layout),
            first: 0,
            passed: 0,
            open: BlockSet::default(),
            named: BlockSet::default(),
            due: BlockSet::default(),
            asked: BlockSet::default(),
            said: BTreeMap::new(),
            last: None,
            at: None,
            retry: RETRY,
        }
    }

    /// The memory that it takes, in chunks of about 600 bytes.
    pub(super) fn chunks(&self) -> usize {
        let sets = [&self.open, &self.named, &self.due, &self.asked];
        self.gatherer.chunks() + sets.into_iter().map(BlockSet::chunks).sum::<usize>()
    }

    pub(super) fn is_decoding(&self) -> bool {
        self.gatherer.is_decoding()
    }

    /// The source blocks before `end` have been out. Returns whether that is news.
    pub(super) fn pass(&mut self, end: u32) -> bool {
        let passed = u64::from(self.passed)..u64::from(end.max(self.passed));
        self.passed = self.passed.max(end);
        self.open.insert(passed.clone());
        self.due.insert(passed) > 0
    }

    /// All blocks of a source block have been out, and symbols are still coming. Those before it are lacked, too.
    pub(super) fn pass_blocks(&mut self, source_block: u32) -> bool {
        let is_news = self.pass(source_block);
        let one = u64::from(source_block)..u64::from(source_block) + 1;
        if self.passed <= source_block || self.named.remove(one.clone()) > 0 {
            self.passed = self.passed.max(source_block + 1);
            self.open.insert(one);
        }
        is_news
    }

    /// Notes that the missing blocks of the source blocks before `end` have been named to the sender.
    pub(super) fn name(&mut self, end: u32) {
        if end > self.passed {
            self.named.insert(self.passed.into()..end.into());
            self.passed = end;
        }
    }

    /// Notes that the sender has been asked for these blocks one by one.
    pub(super) fn ask(&mut self, blocks: Range<u64>) {
        let layout = self.gatherer.layout();
        if let Some(last) = blocks.end.checked_sub(1).filter(|last| *last >= blocks.start) {
            let first = layout.source_block(blocks.start);
            self.asked.insert(first.into()..u64::from(layout.source_block(last)) + 1);
        }
    }

    /// The time for which a lack waits to be told.
    pub(super) fn gather(&self) -> Duration {
        if self.passed < self.gatherer.layout().count() { GATHER } else { GATHER_AT_END }
    }

    /// The symbols of a source block are out for now. Returns whether it lacks some.
    pub(super) fn is_out(&mut self, source_block: u32) -> bool {
        let one = u64::from(source_block)..u64::from(source_block) + 1;
        self.is_open(source_block) && self.due.insert(one) > 0
    }

    /// Whether a source block has been out and is not whole.
    pub(super) fn is_open(&self, source_block: u32) -> bool {
        self.open.has(source_block.into())
    }

    /// All that is not whole is to be told again.
    pub(super) fn repeat(&mut self) {
        self.said.clear();
        self.due = self.open.clone();
    }

    /// Notes that a source block is whole.
    pub(super) fn close(&mut self, source_block: u32) {
        let one = u64::from(source_block)..u64::from(source_block) + 1;
        self.open.remove(one.clone());
        self.named.remove(one.clone());
        self.due.remove(one);
        self.said.remove(&source_block);
        self.gatherer.forget(source_block);
    }
}
