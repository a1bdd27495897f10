//! The packets that a receiver hears at its own address and at the group's, and the times when it says so.

use std::time::Duration;

use super::Heard;
use crate::{Instant, replay_window::ReplayWindow, tfmcc::Arrived};

/// A report goes to the sender at least so often while packets come.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// The time for which reports go on after the last packet. A receiver that says that it hears nothing is
/// deaf. A receiver that says nothing is held up.
const STILL_REPORTS: Duration = Duration::from_secs(1);

/// The counts of a receiver, and which packets have come before by another way.
#[derive(Debug, Default)]
pub struct Ears {
    /// All packets that came, also those that came twice.
    heard: Heard,
    told: Heard,
    told_at: Instant,
    /// The time when something was heard last, as far as reports know.
    heard_at: Option<Instant>,
    window: ReplayWindow,
    /// The place behind the highest number.
    next: u64,
}

impl Ears {
    /// The time when there is something to report, if only that nothing was heard.
    pub fn deadline(&self) -> Option<Instant> {
        let reports_on = self.heard_at.is_some_and(|heard_at| self.told_at < heard_at + STILL_REPORTS);
        (self.has_news() || reports_on).then(|| self.told_at + REPORT_INTERVAL)
    }

    /// Whether something has come since the last report.
    pub fn has_news(&self) -> bool {
        self.heard != self.told
    }

    /// The counts so far.
    pub fn heard(&self) -> Heard {
        self.heard
    }

    /// A report.
    pub fn tell(&mut self, now: Instant) -> Heard {
        if self.has_news() {
            self.heard_at = Some(now);
        }
        (self.told, self.told_at) = (self.heard, now);
        self.heard
    }

    /// Counts packets at the group's address, or at the receiver's own.
    pub fn count(&mut self, at_group: bool, packets: u64) {
        let counter = if at_group { &mut self.heard.group } else { &mut self.heard.unicast };
        *counter = counter.saturating_add(packets);
    }

    /// Packets with these numbers have come. Returns those from the first one on that had not come before.
    pub fn note(&mut self, at_group: bool, packets: Arrived) -> Option<Arrived> {
        let Arrived { first, count, .. } = packets;
        self.count(at_group, count.into());
        let start = self.position(first);
        let end = start + u64::from(count);
        let old = (start..end).take_while(|position| !self.window.is_new(*position)).count() as u32;
        for position in start + u64::from(old)..end {
            if self.window.is_new(position) {
                self.window.take(position);
            }
        }
        if end > self.next {
            self.next = end;
            self.heard.last = first.wrapping_add(count).wrapping_sub(1);
        }
        (old < count).then(|| Arrived { first: first.wrapping_add(old), count: count - old, ..packets })
    }

    /// Packets come with other numbers from now on. None of them has come yet.
    pub fn begin_anew(&mut self) {
        (self.window, self.next, self.heard.last) = (ReplayWindow::default(), 0, 0);
    }

    /// A number's place among all, that nearest to the highest one.
    fn position(&self, number: u32) -> u64 {
        if self.next == 0 {
            return number.into();
        }
        let ahead = number.wrapping_sub(self.next as u32).cast_signed();
        self.next.saturating_add_signed(ahead.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u32, count: u32) -> Arrived {
        Arrived { first, count, marked: false }
    }

    #[test]
    fn what_comes_by_both_ways_counts_at_both_and_is_new_once() {
        let mut ears = Ears::default();
        assert_eq!(
            [run(0, 10), run(10, 5)].map(|run| ears.note(false, run)),
            [Some(run(0, 10)), Some(run(10, 5))]
        );
        assert_eq!([run(0, 10), run(10, 6)].map(|run| ears.note(true, run)), [None, Some(run(15, 1))]);
        assert_eq!(ears.heard, Heard { unicast: 15, group: 16, last: 15 });
        assert_eq!(ears.deadline(), Some(Instant::ZERO + REPORT_INTERVAL));
    }

    #[test]
    fn reports_go_on_for_a_while_when_nothing_comes_any_more() {
        let mut ears = Ears::default();
        assert_eq!(ears.deadline(), None);
        ears.note(false, run(0, 10));
        let (mut now, mut told) = (Instant::ZERO, Vec::new());
        while let Some(deadline) = ears.deadline() {
            now = deadline;
            told.push(ears.tell(now).last);
            assert!(told.len() < 100, "they end");
        }
        assert_eq!((told, now), (vec![9; 11], Instant::ZERO + REPORT_INTERVAL + STILL_REPORTS));
        ears.note(false, run(10, 1));
        assert_eq!(ears.deadline(), Some(now + REPORT_INTERVAL));
    }

    #[test]
    fn numbers_wrap() {
        let mut ears = Ears::default();
        for first in [0, 1 << 30, 1 << 31, 3 << 30, u32::MAX - 1] {
            assert_eq!(ears.note(false, run(first, 1)), Some(run(first, 1)));
        }
        assert_eq!(ears.note(false, run(u32::MAX, 3)), Some(run(u32::MAX, 3)));
        assert_eq!((ears.note(false, run(0, 1)), ears.note(false, run(2, 1))), (None, Some(run(2, 1))));
        assert_eq!((ears.heard.last, ears.next), (2, (1 << 32) + 3));
        ears.begin_anew();
        assert_eq!([1 << 31, 1].map(|first| ears.note(false, run(first, 1))), [Some(run(1 << 31, 1)), None]);
    }
}
