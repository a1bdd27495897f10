//! Reports of a carousel's receivers on what they lack, where they can report. A loop then brings only that.
//!
//! Nobody connects to a carousel, so its sender does not know its receivers, and reports come by datagram and
//! may be lost. It sends the union of what has been reported, and forgets it with that; receivers report
//! again what they still lack. No receiver must go without because of that. So a whole loop goes out when
//! nobody has reported for a long time and somebody listens, when parts have taken several times the bytes of
//! a whole loop, and when the last whole loop is several times as long ago as it took. So a receiver that
//! cannot report gets everything, if later, whatever others report.

use std::{ops::Range, time::Duration};

use treecast_wire::message::BeginOfFile;

use crate::{Instant, object::ranges::BlockSet};

/// The time for reports, besides the time to read older versions.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);

/// Number of bytes of older versions that a receiver should read and copy in a second, at least.
const READ_BYTES_A_SECOND: u64 = 10_000_000;

/// The time between the first report on an object with an index and the pass that brings what it lacks, besides the time in which
/// receivers whose disks are much alike have read their older versions.
const LEAST_GATHER: Duration = Duration::from_millis(600);
const GATHER_BYTES_A_SECOND: u64 = 400_000_000;

/// The number of times the bytes of a whole loop that loops of parts take before one is due. A receiver that
/// cannot report gets a fifth of the rate.
const PARTS: u64 = 4;

/// The reports on one object, and the part of it that the loop brings.
#[derive(Debug)]
pub(super) struct Lacks {
    block_len: u64,
    size: u64,
    has_index: bool,
    /// The blocks that the next pass brings.
    reported: BlockSet,
    /// The time when the first of these was reported.
    since: Option<Instant>,
    /// The blocks that were reported since receivers were last told.
    unsaid: BlockSet,
    /// Whether the next pass brings all of it, because those who have come have nothing of it.
    is_new: bool,
    /// The blocks that this pass brings. `None`: all of them.
    pass: Option<BlockSet>,
}

impl Lacks {
    pub fn new(begin: &BeginOfFile, block_len: u16) -> Self {
        Self {
            block_len: u64::from(block_len.max(1)),
            size: begin.file_size,
            has_index: begin.has_index(),
            reported: BlockSet::default(),
            since: None,
            unsaid: BlockSet::default(),
            is_new: !begin.has_index(),
            pass: Some(BlockSet::default()),
        }
    }

    /// Takes note of what a receiver lacks. `passed`: where this object's pass is, while it goes on. Returns whether the object has
    /// any of these bytes.
    pub fn report(&mut self, now: Instant, bytes: &Range<u64>, passed: Option<u64>) -> bool {
        if bytes.start >= self.size {
            return false;
        }
        let all = self.size.div_ceil(self.block_len);
        let blocks = bytes.start / self.block_len..bytes.end.div_ceil(self.block_len).min(all);
        // Many receivers may lack all of it.
        if self.unsaid.len() < all {
            self.unsaid.insert(blocks.clone());
        }
        let passed = passed.map_or(u64::MAX, |position| position.div_ceil(self.block_len));
        let ahead = blocks.start.max(passed)..blocks.end;
        let behind = blocks.start..blocks.end.min(passed);
        if let Some(pass) = self.pass.as_mut().filter(|_| !ahead.is_empty()) {
            pass.insert(ahead);
        }
        if !behind.is_empty() && self.reported.len() < all {
            self.reported.insert(behind);
            self.since.get_or_insert(now);
        }
        true
    }

    /// Returns the next bytes of which receivers are to be told that they were reported.
    pub fn take_unsaid(&mut self) -> Option<Range<u64>> {
        let blocks = self.unsaid.first_run(0..u64::MAX)?;
        self.unsaid.remove(blocks.clone());
        Some(self.bytes_of(&blocks))
    }

    fn bytes_of(&self, blocks: &Range<u64>) -> Range<u64> {
        blocks.start * self.block_len..blocks.end.saturating_mul(self.block_len).min(self.size)
    }

    /// Whether anything was reported that no pass has brought.
    pub fn has_reports(&self) -> bool {
        self.since.is_some()
    }

    /// Begins a pass. Returns whether it brings anything.
    pub fn begin_pass(&mut self, now: Instant, is_whole: bool) -> bool {
        let reading = Duration::from_millis(self.size / (GATHER_BYTES_A_SECOND / 1000));
        let gather = if self.has_index { LEAST_GATHER + reading } else { Duration::ZERO };
        if std::mem::take(&mut self.is_new) || is_whole {
            (self.reported, self.since, self.pass) = (BlockSet::default(), None, None);
        } else if self.since.take_if(|since| *since + gather <= now).is_some() {
            self.pass = Some(std::mem::take(&mut self.reported));
        } else {
            self.pass = Some(BlockSet::default());
        }
        self.pass.as_ref().is_none_or(|pass| !pass.is_empty())
    }

    /// The next bytes of this pass from `position` on. `None`: it brings no more.
    pub fn next(&self, position: u64) -> Option<Range<u64>> {
        let bytes = match &self.pass {
            None => position..self.size,
            Some(pass) => self.bytes_of(&pass.first_run(position.div_ceil(self.block_len)..u64::MAX)?),
        };
        (!bytes.is_empty()).then_some(bytes)
    }
}

/// The part of the objects that a loop has sent.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sent {
    #[default]
    Nothing,
    /// Blocks, but none of an object with an index: receivers have not said yet what they lack of those.
    Some,
    /// A loop that counts.
    Loop,
}

/// The times when everything goes out although no receiver has asked for all of it.
#[derive(Debug)]
pub(super) struct WholeLoops {
    total_bytes: u64,
    /// The time when nobody has reported for so long that a whole loop is due, and those after it.
    at: Instant,
    /// The time when a whole loop is due whatever is reported.
    latest: Instant,
    /// The time when this loop began.
    began: Instant,
    /// The time when all receivers have had the time to report since a loop last counted. Loops of parts that
    /// began before do not count.
    counts_from: Instant,
    counted: u64,
    /// Bytes that loops of parts have taken since the last whole one.
    parts_bytes: u64,
    /// Whether this loop is whole.
    is_whole: bool,
    /// The part of the objects that this loop has sent.
    sent: Sent,
}

impl WholeLoops {
    pub fn new(total_bytes: u64) -> Self {
        Self {
            total_bytes,
            at: Instant::ZERO,
            latest: Instant::ZERO,
            began: Instant::ZERO,
            counts_from: Instant::ZERO,
            counted: 0,
            parts_bytes: 0,
            is_whole: false,
            sent: Sent::default(),
        }
    }

    /// Somebody has begun to listen.
    pub fn listen(&mut self, now: Instant) {
        self.put_off(now);
        self.latest = now + self.patience() * PARTS as u32;
        self.counts_from = now + self.patience();
    }

    /// Somebody has reported.
    pub fn put_off(&mut self, now: Instant) {
        self.at = now + self.patience();
    }

    fn patience(&self) -> Duration {
        LEAST_PATIENCE + Duration::from_secs(self.total_bytes / READ_BYTES_A_SECOND)
    }

    /// Begins a loop. `has_reports`: something was reported that no loop has brought. If not, a receiver that
    /// cannot report is alone, and gets everything when its time has come. Reports of few bytes, which
    /// anybody may repeat, do not put that off for ever.
    pub fn begin(&mut self, now: Instant, has_reports: bool) {
        if self.is_whole {
            self.latest = now + self.patience().max(now - self.began) * PARTS as u32;
        }
        self.began = now;
        let have_taken = has_reports && self.parts_bytes / PARTS >= self.total_bytes.max(1);
        self.is_whole = self.at <= now || self.latest <= now || have_taken;
        if self.is_whole {
            self.parts_bytes = 0;
        }
    }

    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// This loop sends something.
    pub fn note(&mut self, sent: Sent) {
        self.sent = self.sent.max(sent);
    }

    /// The loop has ended. Returns what it has sent.
    pub fn end(&mut self) -> Sent {
        std::mem::take(&mut self.sent)
    }

    /// Counts this loop where their number is limited. The many short loops for a receiver that reports early and often count as one.
    pub fn count(&mut self) {
        if self.is_whole || self.counts_from <= self.began {
            self.counted += 1;
            self.counts_from = self.began + self.patience();
        }
    }

    /// Number of loops in each of which all receivers had the time to report.
    pub fn counted(&self) -> u64 {
        self.counted
    }

    /// Bytes of an object have left.
    pub fn sent(&mut self, bytes: u64) {
        if !self.is_whole {
            self.parts_bytes = self.parts_bytes.saturating_add(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::message::TransferType;

    use super::*;
    use crate::time::at;

    fn lacks(size: u64) -> Lacks {
        let begin = BeginOfFile::new(TransferType::DiskToDisk, size, "a").unwrap();
        Lacks::new(&begin.with_index(), 100)
    }

    #[test]
    fn a_pass_brings_the_union_of_what_has_been_reported_before_it_and_ahead_of_it() {
        let mut lacks = lacks(950);
        assert!(!lacks.begin_pass(at(0), false), "nobody lacks anything");
        lacks.report(at(0), &(0..100), None);
        lacks.report(at(500), &(50..150), None);
        assert!(!lacks.begin_pass(at(500), false), "others may report, too");
        assert!(lacks.begin_pass(at(1_100), false));
        assert_eq!(lacks.next(0), Some(0..200));
        lacks.report(at(1_200), &(100..950), Some(200));
        assert_eq!(lacks.next(200), Some(200..950));
        assert_eq!(lacks.next(950), None);
        assert!(lacks.begin_pass(at(2_300), false));
        assert_eq!((lacks.next(0), lacks.next(200)), (Some(100..200), None), "what it had gone by");
    }

    #[test]
    fn what_is_not_in_the_object_is_passed_over() {
        let mut lacks = lacks(950);
        lacks.report(at(0), &(950..u64::MAX), None);
        lacks.report(at(0), &(u64::MAX..u64::MAX), None);
        assert!(!lacks.begin_pass(at(9_000), false));
        lacks.report(at(0), &(900..u64::MAX), None);
        assert!(lacks.begin_pass(at(9_000), false));
        assert_eq!(lacks.next(0), Some(900..950));
    }

    #[test]
    fn everything_goes_out_when_nobody_reports_or_parts_have_taken_as_much() {
        let mut whole = WholeLoops::new(1_000);
        whole.listen(at(0));
        let mut begin = |millis, sent| {
            whole.begin(at(millis), sent > 0);
            whole.sent(sent);
            whole.is_whole()
        };
        let are_whole = [begin(0, 2_400), begin(1, 2_400), begin(2, 0), begin(3, 1_000), begin(4, 0)];
        assert_eq!(are_whole, [false, false, false, true, false]);
        assert_eq!([begin(10_000, 1_000), begin(10_001, 1_000)], [true, true], "and on");
        whole.put_off(at(10_002));
        whole.begin(at(10_003), true);
        assert!(!whole.is_whole());
    }

    #[test]
    fn loops_for_one_that_reports_over_and_over_count_once_in_the_time_that_all_have_to_report() {
        let mut whole = WholeLoops::new(1_000);
        whole.listen(at(0));
        let mut counts = |millis| {
            whole.put_off(at(millis));
            whole.begin(at(millis), true);
            let before = whole.counted();
            whole.count();
            whole.counted() > before
        };
        let counted: Vec<_> = (1..35).map(|second| second * 1_000).filter(|millis| counts(*millis)).collect();
        assert_eq!(counted, [10_000, 20_000, 30_000]);
    }

    /// A recorded report of one block that was sent again and again kept everything from receivers that cannot report.
    #[test]
    fn reports_of_a_few_bytes_do_not_put_off_a_whole_loop_for_ever() {
        let mut whole = WholeLoops::new(1_000_000);
        whole.listen(at(0));
        let mut are_whole = (1..200).map(|second| {
            whole.put_off(at(second * 1_000));
            whole.begin(at(second * 1_000), true);
            whole.sent(100);
            whole.is_whole()
        });
        assert_eq!(are_whole.position(|is_whole| is_whole), Some(39));
        assert_eq!(are_whole.position(|is_whole| is_whole), Some(40), "and again after that");
    }
}
