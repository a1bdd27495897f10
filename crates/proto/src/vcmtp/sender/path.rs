//! How many of the multicast bytes are still on their way to a receiver.
//!
//! What has not arrived yet does not lie in the receiver's socket buffer. On a path of 1 Gbit/s with a round trip of 200 ms,
//! 25 MB are on their way, and buffers hold some hundred kB to some MB.

use std::{collections::VecDeque, time::Duration};

use crate::Instant;

/// Reports about bytes that were multicast longer ago than this tell nothing of the path.
const LONGEST_AGE: Duration = Duration::from_secs(2);
/// Times closer to each other than this are one.
const TIME_STEP: Duration = Duration::from_millis(1);
/// The shortest time over which a rate is measured.
const SHORTEST_SPAN: Duration = Duration::from_millis(20);

/// When the bytes of the last [`LONGEST_AGE`] were multicast.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// A time, and how many bytes had been multicast by then, those of that time included.
    log: VecDeque<(Instant, u64)>,
}

impl Times {
    pub(super) fn sent(&mut self, now: Instant, total: u64) {
        match self.log.back_mut() {
            Some((at, end)) if now.saturating_duration_since(*at) < TIME_STEP => *end = total,
            _ => self.log.push_back((now, total)),
        }
        while self.log.front().is_some_and(|(at, _)| *at + LONGEST_AGE < now) {
            self.log.pop_front();
        }
    }

    /// How long ago the byte before `place` was multicast, if that is known; a millisecond more may be said.
    fn age(&self, now: Instant, place: u64) -> Option<Duration> {
        let after = self.log.partition_point(|(_, end)| *end < place);
        // What was multicast before the first time is older than that.
        let is_known = after > 0 || self.log.front().is_some_and(|(_, end)| *end == place);
        let (at, _) = self.log.get(after).filter(|_| is_known)?;
        Some(now.saturating_duration_since(*at))
    }
}

/// The path to a receiver, as its reports show it.
#[derive(Debug, Default)]
pub(super) struct Path {
    /// The shortest time from the multicast of a byte to the report that it was taken. It is never forgotten: a receiver
    /// whose buffer is always full would make the path longer and longer.
    least_age: Option<Duration>,
    /// When the present span of measurement began, and what had been taken then.
    since: Option<(Instant, u64)>,
    /// What the receiver took in the last two spans, in bytes a second.
    rates: [f64; 2],
}

impl Path {
    /// The receiver reports that it has taken `taken` bytes.
    pub(super) fn report(&mut self, now: Instant, times: &Times, taken: u64) {
        let age = times.age(now, taken);
        self.least_age = self.least_age.into_iter().chain(age).min();
        let (since, before) = *self.since.get_or_insert((now, taken));
        let span = now.saturating_duration_since(since);
        if self.least_age.is_some_and(|age| span >= age.max(SHORTEST_SPAN)) {
            let rate = taken.saturating_sub(before) as f64 / span.as_secs_f64();
            self.rates = [self.rates[1], rate];
            self.since = Some((now, taken));
        }
    }

    /// What is on its way to the receiver or reported by none of its messages yet, in bytes: what it takes in a round trip.
    pub(super) fn bytes(&self) -> u64 {
        let seconds = self.least_age.unwrap_or_default().as_secs_f64();
        (self.rates[0].max(self.rates[1]) * seconds) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    #[test]
    fn the_age_of_a_byte_is_known_for_two_seconds() {
        let mut times = Times::default();
        (1..=3).for_each(|step| times.sent(at(step * 1_000), step * 100));
        assert_eq!(times.age(at(3_000), 300), Some(Duration::ZERO));
        assert_eq!(times.age(at(3_000), 101), Some(Duration::from_secs(1)));
        assert_eq!(times.age(at(3_000), 100), Some(Duration::from_secs(2)));
        assert_eq!(times.age(at(3_000), 99), None);
        assert_eq!(times.age(at(3_000), 301), None);
        times.sent(at(3_500), 400);
        assert_eq!(times.age(at(3_500), 100), None);
    }

    #[test]
    fn a_buffer_that_is_always_full_is_no_longer_path() {
        let (mut times, mut path) = (Times::default(), Path::default());
        let mut total = 0;
        // The first report comes after 20 ms, and later ones after 500 ms. The receiver takes 100 bytes a millisecond.
        for millis in 0..5_000 {
            total += 100;
            times.sent(at(millis), total);
            let late = if millis < 100 { 20 } else { 500 };
            if millis >= late {
                path.report(at(millis), &times, total - late * 100);
            }
        }
        assert!((1_900..=2_100).contains(&path.bytes()), "{}", path.bytes());
    }
}
