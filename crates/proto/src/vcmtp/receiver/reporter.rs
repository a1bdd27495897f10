//! Progress reports: how far the receiver has come, now and then.

use std::time::Duration;

use treecast_wire::{header::FileId, message::Progress};

use crate::Instant;

#[derive(Debug)]
pub(super) struct Reporter {
    every_bytes: u64,
    interval: Duration,
    /// What the next report says.
    pub(super) progress: Progress,
    /// The object of the last block from the group, which [`Progress::position`] is about.
    file: FileId,
    /// Bytes from the group since the last report.
    unreported_bytes: u64,
    /// When the oldest news is to be reported.
    deadline: Option<Instant>,
}

impl Reporter {
    pub(super) fn new(every_bytes: u64, interval: Duration, file: FileId) -> Self {
        let progress = Progress::default();
        Self { every_bytes, interval, progress, file, unreported_bytes: 0, deadline: None }
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

    /// The report that is due now.
    pub(super) fn due(&mut self, now: Instant) -> Option<(FileId, Progress)> {
        let deadline = self.deadline?;
        if deadline > now && self.unreported_bytes < self.every_bytes {
            return None;
        }
        self.deadline = None;
        self.unreported_bytes = 0;
        Some((self.file, self.progress))
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(5);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_report_goes_out_after_so_many_bytes_or_so_much_time() {
        let mut reporter = Reporter::new(1_000, Duration::from_millis(50), FILE);
        assert_eq!(reporter.due(at(0)), None, "nothing new");
        reporter.note_group(at(10), FILE, 600, 600);
        assert_eq!((reporter.due(at(11)), reporter.deadline()), (None, Some(at(60))));
        reporter.note_group(at(12), FILE, 1_200, 600);
        assert_eq!(reporter.due(at(12)).map(|(_, progress)| progress.position), Some(1_200));
        reporter.note_group(at(13), FILE, 1_300, 100);
        assert_eq!(reporter.due(at(62)), None);
        assert!(reporter.due(at(63)).is_some());
        assert_eq!(reporter.deadline(), None);
    }

    #[test]
    fn a_late_block_does_not_take_the_position_back_but_another_object_does() {
        let mut reporter = Reporter::new(1, Duration::ZERO, FILE);
        reporter.note_group(at(0), FILE, 900, 100);
        reporter.note_group(at(0), FILE, 300, 100);
        assert_eq!(reporter.due(at(0)).map(|(_, progress)| progress.position), Some(900));
        reporter.note_group(at(0), FileId(6), 100, 100);
        let report = reporter.due(at(0)).map(|(file, progress)| (file, progress.position));
        assert_eq!(report, Some((FileId(6), 100)));
    }
}
