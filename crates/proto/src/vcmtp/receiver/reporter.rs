//! Progress reports: how far the receiver has come, now and then.

use std::time::Duration;

use treecast_wire::{header::FileId, message::Progress};

use crate::Instant;

/// The most reports in a round trip of up to 200 ms. Longer ones have more, by [`LONGEST_GAP`].
const REPORTS_A_ROUND_TRIP: u32 = 8;
/// The longest time for which reports wait for that. A round trip that is measured on a busy host may be much too long.
const LONGEST_GAP: Duration = Duration::from_millis(25);

#[derive(Debug, Default)]
pub(super) struct Reporter {
    every_bytes: u64,
    interval: Duration,
    /// The least time between two reports. On a long path, more of them would tell little more, and TCP loses some and delays others.
    gap: Duration,
    /// The most time between two reports of a receiver that owes the sender something.
    keepalive: Duration,
    /// The time when the last report went out.
    reported: Instant,
    /// The content of the next report.
    pub(super) progress: Progress,
    /// The object of the last block from the group, which [`Progress::position`] is about.
    file: FileId,
    /// Bytes from the group since the last report.
    unreported_bytes: u64,
    /// The time when the oldest news is to be reported.
    deadline: Option<Instant>,
}

impl Reporter {
    pub(super) fn new(every_bytes: u64, interval: Duration, keepalive: Duration, file: FileId) -> Self {
        let progress = Progress::default();
        let reported = Instant::ZERO;
        Self {
            every_bytes,
            interval,
            gap: Duration::ZERO,
            keepalive,
            reported,
            progress,
            file,
            unreported_bytes: 0,
            deadline: None,
        }
    }

    /// There is something new to report.
    pub(super) fn note(&mut self, now: Instant) {
        self.deadline.get_or_insert(now + self.interval);
    }

    /// Blocks came from the group, up to `position` of an object.
    pub(super) fn note_group(&mut self, now: Instant, file: FileId, position: u64, len: u64) {
        self.progress.position =
            if self.file == file { self.progress.position.max(position) } else { position };
        self.file = file;
        self.unreported_bytes = self.unreported_bytes.saturating_add(len);
        self.note(now);
    }

    /// The connection is there. It has this round trip.
    pub(super) fn start(&mut self, now: Instant, round_trip: Duration) {
        (self.reported, self.gap) = (now, (round_trip / REPORTS_A_ROUND_TRIP).min(LONGEST_GAP));
    }

    /// The report that is due now.
    pub(super) fn due(&mut self, now: Instant, owes: bool) -> Option<(FileId, Progress)> {
        if self.deadline(owes).is_none_or(|deadline| deadline > now) {
            return None;
        }
        self.deadline = None;
        self.unreported_bytes = 0;
        self.reported = now;
        self.progress.at_us = now.as_nanos() / 1000;
        Some((self.file, self.progress))
    }

    /// The time when the next report is due, for a receiver that owes something or not.
    pub(super) fn deadline(&self, owes: bool) -> Option<Instant> {
        let keepalive = owes.then(|| self.reported + self.keepalive);
        let is_much = self.deadline.is_some() && self.unreported_bytes >= self.every_bytes;
        let much = is_much.then(|| self.reported + self.gap);
        [self.deadline, much, keepalive].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    const FILE: FileId = FileId(5);
    const KEEPALIVE: Duration = Duration::from_secs(1);

    #[test]
    fn a_report_goes_out_after_so_many_bytes_or_so_much_time() {
        let mut reporter = Reporter::new(1_000, Duration::from_millis(50), KEEPALIVE, FILE);
        assert_eq!(reporter.due(at(0), false), None, "nothing new");
        reporter.note_group(at(10), FILE, 600, 600);
        assert_eq!((reporter.due(at(11), false), reporter.deadline(false)), (None, Some(at(60))));
        reporter.note_group(at(12), FILE, 1_200, 600);
        let report = reporter.due(at(12), false).map(|(_, progress)| (progress.position, progress.at_us));
        assert_eq!(report, Some((1_200, 12_000)));
        reporter.note_group(at(13), FILE, 1_300, 100);
        assert_eq!(reporter.due(at(62), false), None);
        assert!(reporter.due(at(63), false).is_some());
        assert_eq!(reporter.deadline(false), None);
    }

    #[test]
    fn on_a_long_path_reports_are_an_eighth_of_a_round_trip_apart() {
        let mut reporter = Reporter::new(1_000, Duration::from_millis(200), KEEPALIVE, FILE);
        reporter.start(at(0), Duration::from_millis(80));
        let mut reports = |millis| {
            reporter.note_group(at(millis), FILE, millis * 1_000, 1_000);
            reporter.due(at(millis), false).is_some()
        };
        assert_eq!((1..=40).filter(|millis| reports(*millis)).collect::<Vec<_>>(), [10, 20, 30, 40]);
        assert!(!reports(41));
        assert_eq!(reporter.deadline(false), Some(at(50)));
        reporter.start(at(100), Duration::MAX);
        reporter.note_group(at(101), FILE, 50_000, 1_000);
        assert_eq!(reporter.deadline(false), Some(at(125)));
    }

    #[test]
    fn a_late_block_does_not_take_the_position_back_but_another_object_does() {
        let mut reporter = Reporter::new(1, Duration::ZERO, KEEPALIVE, FILE);
        reporter.note_group(at(0), FILE, 900, 100);
        reporter.note_group(at(0), FILE, 300, 100);
        assert_eq!(reporter.due(at(0), false).map(|(_, progress)| progress.position), Some(900));
        reporter.note_group(at(0), FileId(6), 100, 100);
        let report = reporter.due(at(0), false).map(|(file, progress)| (file, progress.position));
        assert_eq!(report, Some((FileId(6), 100)));
    }

    #[test]
    fn who_owes_something_reports_although_there_is_no_news() {
        let mut reporter = Reporter::new(1_000, Duration::from_millis(50), KEEPALIVE, FILE);
        reporter.start(at(100), Duration::ZERO);
        assert_eq!(reporter.deadline(true), Some(at(1_100)));
        assert_eq!(reporter.due(at(1_099), true), None);
        assert_eq!(reporter.due(at(1_100), false), None);
        assert!(reporter.due(at(1_100), true).is_some());
        assert_eq!(reporter.due(at(1_101), true), None);
    }
}
