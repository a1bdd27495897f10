//! One object at the receiver: metadata(i), received_bytes(i) and write_condition(i) of table 4.3, and
//! which blocks are there (procedures A to D; interdomain-2013, 4.4).

use std::ops::Range;

use treecast_wire::message::BeginOfFile;

use super::lacking::Lacking;
use crate::{
    Instant,
    object::{check::Check, stored::Stored},
};

/// The longest run of blocks that is taken at once; a host hands in what one batch of packets held.
const MAX_RUN_BYTES: u64 = 16 << 20;

/// The most gaps that are asked for one by one where all of an object's are asked for.
const MAX_GAPS: usize = 4096;

/// The decision on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Decision {
    /// The application has not answered (per-file notification).
    #[default]
    Pending,
    Accepted,
    Ignored,
}

/// Whether all of the object has been multicast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum End {
    #[default]
    NotYet,
    /// The connection has said so, which may be ahead of blocks still in the group's socket.
    Announced,
    /// The group will bring nothing more.
    Reached,
}

/// The stage of an object, most of which come once every byte is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    #[default]
    Receiving,
    Hashing,
    /// Its hash was wrong: its chunks are compared with what they should be.
    Checking,
    Committing,
}

#[derive(Debug, Default)]
pub(super) struct Object {
    pub(super) begin: Option<BeginOfFile>,
    /// Whether `begin` came over the connection; anybody can have said it to the group.
    pub(super) begin_is_sure: bool,
    /// Whether the group has said something wrong of the object. Its announcements and ends count no more
    /// then.
    pub(super) doubts_group: bool,
    pub(super) decision: Decision,
    pub(super) bof_requested: bool,
    /// Whether the application has been asked about an object of which only the end was heard.
    pub(super) asked: bool,
    pub(super) end: End,
    /// Whether the connection has said that all is out.
    pub(super) end_is_sure: bool,
    /// Whether the connection has said so of the group before, when a move was not answered.
    pub(super) end_is_old: bool,
    /// The position before which blocks may have been asked for when they were not there, because of what
    /// others had said. Those that are missing are asked for again at a sure end.
    pub(super) asked_in_vain: u64,
    /// The time when an announced end is believed, unless more comes from the group before.
    pub(super) quiet_at: Option<Instant>,
    pub(super) digest: Option<[u8; 32]>,
    pub(super) stage: Stage,
    /// While chunks are compared.
    pub(super) check: Option<Check>,
    /// Whether the object was whole once and had the wrong hash.
    pub(super) mismatched: bool,
    /// The number of hashes under way that are of no use any more.
    pub(super) stale_hashes: u32,
    /// The reason why it has failed here, while nobody but the group has spoken of it.
    pub(super) doom: Option<String>,
    /// The caller has yet to say what of it is there from before.
    pub(super) awaits_kept: bool,
    pub(super) received_bytes: u64,
    /// The symbols that are lacking, with forward error correction and once the size is known. `None` after a
    /// wrong hash: then blocks are asked for.
    pub(super) lacking: Option<Lacking>,
    /// The position at which the first block from the group began.
    pub(super) first_heard: Option<u64>,
    /// The blocks that are there.
    pub(super) stored: Stored,
    /// End of the last block from the group: everything before it is there or has been asked for.
    expected: u64,
    /// End of all blocks that are there.
    highest: u64,
    /// End of a block shorter than the others, which only an object's last one is.
    short_end: Option<u64>,
}

/// The reason why blocks are not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The blocks do not start at a multiple of the block length, cross the object's end or are no run.
    Malformed,
    /// There is no more room for blocks of objects that are not announced and accepted.
    TooEarly,
}

impl Object {
    pub(super) fn new(block_len: u16, decision: Decision) -> Self {
        Self { decision, stored: Stored::new(block_len), ..Self::default() }
    }

    /// write_condition(i) is "final": blocks go to where the object is wanted.
    pub(super) fn is_final(&self) -> bool {
        self.begin.is_some() && self.decision == Decision::Accepted
    }

    /// Whether all bytes are there.
    pub(super) fn is_whole(&self) -> bool {
        self.begin.as_ref().is_some_and(|begin| begin.file_size == self.received_bytes)
    }

    /// The number of bytes that are still to come. `None` while the size is unknown.
    pub(super) fn missing_bytes(&self) -> Option<u64> {
        Some(self.begin.as_ref()?.file_size - self.received_bytes)
    }

    /// The memory that the set of blocks takes, in chunks.
    pub(super) fn chunks(&self) -> usize {
        self.stored.chunks() + self.lacking.as_ref().map_or(0, Lacking::chunks)
    }

    /// End of the last block from the group, in bytes.
    pub(super) fn heard(&self) -> u64 {
        self.expected
    }

    /// Checks blocks against the block length and the size, as far as it is known, and against `room`, how
    /// many more bytes are kept while the write condition is "temporary".
    pub(super) fn check(&self, bytes: &Range<u64>, room: impl FnOnce() -> u64) -> Result<(), Refusal> {
        let whole_blocks = bytes.end.is_multiple_of(self.stored.block_len());
        let fits = match (&self.begin, self.short_end) {
            (Some(begin), _) => bytes.end == begin.file_size || whole_blocks && bytes.end < begin.file_size,
            (None, Some(short_end)) => bytes.end == short_end || whole_blocks && bytes.end < short_end,
            (None, None) => whole_blocks || bytes.end > self.highest,
        };
        let len = bytes.end.saturating_sub(bytes.start);
        if len == 0 || len > MAX_RUN_BYTES || !bytes.start.is_multiple_of(self.stored.block_len()) || !fits {
            return Err(Refusal::Malformed);
        }
        if !self.is_final() && len > room() {
            return Err(Refusal::TooEarly);
        }
        Ok(())
    }

    /// Counts `bytes`, a run of checked blocks that are new, as there.
    pub(super) fn take(&mut self, bytes: &Range<u64>) {
        self.stored.insert(bytes);
        self.received_bytes += bytes.end - bytes.start;
        self.highest = self.highest.max(bytes.end);
        if !bytes.end.is_multiple_of(self.stored.block_len()) {
            self.short_end = Some(bytes.end);
        }
    }

    /// The number of blocks in `bytes`.
    pub(super) fn count(&self, bytes: &Range<u64>) -> u64 {
        let blocks = self.stored.blocks_of(bytes);
        blocks.end - blocks.start
    }

    /// The missing block handling procedure: blocks came from the group; what is not there between them and
    /// the last ones before is missing.
    pub(super) fn gaps_before(&mut self, bytes: &Range<u64>) -> Vec<Range<u64>> {
        self.first_heard.get_or_insert(bytes.start);
        if self.awaits_kept {
            return Vec::new();
        }
        let gap = self.expected..bytes.start;
        self.expected = self.expected.max(bytes.end);
        self.gaps(gap)
    }

    /// The blocks missing at the end of an object that is out, not asked for yet.
    pub(super) fn gaps_at_end(&mut self) -> Vec<Range<u64>> {
        let Some(size) = self.begin.as_ref().map(|begin| begin.file_size) else { return Vec::new() };
        let gap = self.expected..size;
        self.expected = size;
        self.gaps(gap)
    }

    /// The object comes from another group from now on. Returns what is missing of what this one has not brought yet, up to
    /// its end, wherever that is while the size is unknown. `is_named`: whether what this one has lost has been asked for.
    pub(super) fn start_over(&mut self, is_named: bool) -> Vec<Range<u64>> {
        let size = self.begin.as_ref().map_or(u64::MAX, |begin| begin.file_size);
        let heard = std::mem::take(&mut self.expected);
        let unheard = if is_named { heard } else { 0 }..size;
        self.first_heard = None;
        self.end_is_old |= self.end == End::Announced;
        self.end = End::NotYet;
        self.end_is_sure = false;
        self.asked_in_vain = 0;
        self.gaps(unheard)
    }

    /// The blocks that are missing behind all that the group has brought.
    pub(super) fn unheard_gaps(&self) -> Vec<Range<u64>> {
        self.begin.as_ref().map_or_else(Vec::new, |begin| self.gaps(self.expected..begin.file_size))
    }

    /// All blocks that are missing of an object that is out, whether or not they have been asked for.
    pub(super) fn all_gaps(&mut self) -> Vec<Range<u64>> {
        let Some(size) = self.begin.as_ref().map(|begin| begin.file_size) else { return Vec::new() };
        self.expected = size;
        self.gaps(0..size)
    }

    /// The sender has said what the object is, maybe because it was asked for what is not there.
    pub(super) fn doubt_requests(&mut self) {
        self.asked_in_vain = self.asked_in_vain.max(self.expected);
    }

    /// The blocks that are missing of an object that is out for sure: those not asked for yet, and those that may have
    /// been asked for in vain. Whatever else has been asked for is on its way, and would come twice.
    pub(super) fn gaps_at_sure_end(&mut self) -> Vec<Range<u64>> {
        let again = 0..std::mem::take(&mut self.asked_in_vain).min(self.expected);
        let mut gaps = self.gaps(again);
        gaps.extend(self.gaps_at_end());
        gaps
    }

    /// The blocks of `bytes` that are missing; some that are there among them when there are too many gaps.
    fn gaps(&self, bytes: Range<u64>) -> Vec<Range<u64>> {
        if bytes.is_empty() {
            return Vec::new();
        }
        let mut gaps = self.stored.few_gaps(self.stored.blocks_of(&bytes), MAX_GAPS);
        gaps.iter_mut().for_each(|gap| gap.end = gap.end.min(bytes.end));
        gaps
    }

    /// The size becomes known, or another one than before. Returns whether what has been received
    /// contradicts it; it is then forgotten.
    pub(super) fn announce(&mut self, begin: BeginOfFile) -> bool {
        let size = begin.file_size;
        let contradicted = self.short_end.is_some_and(|end| end != size) || self.highest > size;
        self.begin = Some(begin);
        if contradicted {
            self.forget();
            self.expected = 0;
        }
        self.stored.set_size(size);
        self.expected = self.expected.min(size);
        contradicted
    }

    /// The sender has set right what the group said: its word alone counts from now on.
    pub(super) fn doubt_group(&mut self) {
        self.doubts_group = true;
        if self.end == End::Reached && !self.end_is_sure {
            self.end = End::NotYet;
        }
    }

    /// The whole blocks among `bytes`, which are there from before.
    pub(super) fn whole_blocks(&self, bytes: &Range<u64>) -> Range<u64> {
        let size = self.begin.as_ref().map_or(0, |begin| begin.file_size);
        let start = bytes.start.div_ceil(self.stored.block_len()).saturating_mul(self.stored.block_len());
        let end = if bytes.end >= size {
            size
        } else {
            bytes.end / self.stored.block_len() * self.stored.block_len()
        };
        start..end
    }

    /// Drops all that has been received.
    pub(super) fn forget(&mut self) {
        self.stored.clear();
        self.lacking = None;
        self.received_bytes = 0;
        self.highest = 0;
        self.short_end = None;
    }

    /// Drops the blocks that these bytes lie in. Returns how many bytes those were.
    pub(super) fn forget_bytes(&mut self, bytes: &Range<u64>) -> u64 {
        let forgotten = self.stored.forget(bytes);
        self.received_bytes -= forgotten;
        forgotten
    }

    /// Forgets the announcement, which was wrong. Nothing of the object is there.
    pub(super) fn forget_announcement(&mut self) {
        self.begin = None;
        self.stored.forget_size();
    }

    /// Drops all that has been received; all of it is to be asked for.
    pub(super) fn start_again(&mut self) -> Vec<Range<u64>> {
        self.forget();
        self.mismatched = true;
        self.check = None;
        self.stage = Stage::Receiving;
        self.expected = 0;
        self.gaps_at_end()
    }
}
