//! Counts the bytes that a receiver has fetched, and those for which it had no room.

use std::collections::BTreeMap;

/// A receiver's own report of its progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct Report {
    /// The bytes that the receiver has.
    pub held: u64,
    /// The part of `held` that an earlier run had left.
    pub kept: u64,
    /// The bytes that have come over the network since the receiver was started.
    pub fetched: u64,
}

/// The bytes that one receiver has fetched in each of its runs.
#[derive(Debug, Default)]
pub struct Fetched(BTreeMap<usize, Run>);

#[derive(Debug, Default)]
struct Run {
    last: Report,
    most: u64,
    /// The bytes that have come since the disk was full. `None` while there is room.
    since_full: Option<u64>,
    has_room: bool,
}

impl Fetched {
    pub fn report(&mut self, run: usize, report: Report) {
        let Run { last, most, since_full, has_room } = self.0.entry(run).or_default();
        if let Some(since) = since_full {
            *since += report.fetched.saturating_sub(last.fetched);
            // The receiver itself reports that it does not have these bytes.
            let lost = last.held.saturating_sub(report.held).min(*since);
            *since -= lost;
            *most = most.saturating_sub(lost);
        }
        if std::mem::take(has_room) {
            *since_full = None;
        }
        *most = report.fetched.max(*most);
        *last = report;
    }

    pub fn full(&mut self, run: usize) {
        self.0.entry(run).or_default().since_full.get_or_insert(0);
    }

    /// Notes that there is room again. The next report says how many bytes are there.
    pub fn room(&mut self, run: usize) {
        self.0.entry(run).or_default().has_room = true;
    }

    /// All bytes that have come, except those that came while the disk was full and are not there.
    pub fn bytes(&self) -> u64 {
        let all: u64 = self.0.values().map(|run| run.most).sum();
        let next = self.0.values().skip(1);
        let lost = self.0.values().zip(next).map(|(run, next)| {
            let gone = run.last.held.saturating_sub(next.last.kept);
            gone.min(run.since_full.unwrap_or(0))
        });
        all.saturating_sub(lost.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(held: u64, kept: u64) -> Report {
        Report { held, kept, fetched: held - kept }
    }

    #[test]
    fn what_is_fetched_twice_counts_unless_there_was_no_room_for_it() {
        let mut fetched = Fetched::default();
        [100, 500].iter().for_each(|held| fetched.report(1, report(*held, 0)));
        fetched.report(2, report(1000, 300));
        assert_eq!(fetched.bytes(), 1200, "it was killed, and 200 were not there afterwards");

        let mut fetched = Fetched::default();
        fetched.report(1, report(400, 0));
        fetched.full(1);
        fetched.report(1, report(600, 0));
        fetched.room(1);
        fetched.report(1, report(450, 0));
        fetched.report(1, report(700, 0));
        fetched.report(2, report(1000, 650));
        assert_eq!(fetched.bytes(), 1050, "150 had no room, and 50 were lost when there was room");
    }

    #[test]
    fn whoever_is_killed_while_its_disk_is_full_may_lack_what_came_since() {
        let mut fetched = Fetched::default();
        fetched.report(1, report(400, 0));
        fetched.full(1);
        fetched.report(1, report(600, 0));
        fetched.report(2, report(1000, 300));
        assert_eq!(fetched.bytes(), 1100, "200 came since, and 300 are gone");
    }
}
