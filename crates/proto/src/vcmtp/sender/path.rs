//! How many of the multicast bytes are still on their way to a receiver.
//!
//! What has not arrived yet does not lie in the receiver's socket buffer. On a path of 1 Gbit/s with a round trip of 200 ms,
//! 25 MB are on their way, and buffers hold some hundred kB to some MB.

use std::time::Duration;

use crate::Instant;

/// A longer round trip counts as this one.
const LONGEST_ROUND_TRIP: Duration = Duration::from_secs(2);
/// The shortest time over which a rate is measured.
const SHORTEST_SPAN: Duration = Duration::from_millis(20);
/// A receiver that has reported nothing for so many round trips may stand still. A report that TCP has to send again comes after
/// one round trip and a quarter (RFC 8985, 6.2), and holds up all that follow.
const PATIENT_ROUNDS: f64 = 1.5;

/// The path to a receiver. Its round trip is one that a kernel has measured. The time from the multicast of a byte to the report that
/// it was taken would be longer where the byte waits in the socket buffer.
#[derive(Debug, Default)]
pub(super) struct Path {
    round_trip: Duration,
    /// When the present span of measurement began, and what had been taken then.
    since: Option<(Instant, u64)>,
    /// What the receiver took in the last two spans, in bytes a second.
    rates: [f64; 2],
    /// When it last reported that it has taken more, or when it can at the earliest.
    reported: Instant,
}

impl Path {
    pub(super) fn new(round_trip: Duration) -> Self {
        Self { round_trip: round_trip.min(LONGEST_ROUND_TRIP), ..Self::default() }
    }

    /// The receiver reports that it has taken `taken` bytes.
    pub(super) fn report(&mut self, now: Instant, taken: u64) {
        let (since, before) = *self.since.get_or_insert((now, taken));
        self.reported = now;
        let span = now.saturating_duration_since(since);
        if span >= self.round_trip.max(SHORTEST_SPAN) {
            let rate = taken.saturating_sub(before) as f64 / span.as_secs_f64();
            self.rates = [self.rates[1], rate];
            self.since = Some((now, taken));
        }
    }

    /// Nothing is under way. What leaves now can be reported a round trip later.
    pub(super) fn rest(&mut self, now: Instant) {
        self.reported = now + self.round_trip;
    }

    /// What is on its way to the receiver, or taken and not reported yet, in bytes: what it takes in a round trip and since its last
    /// report. A receiver that reports nothing for long may stand still. Then all of it may lie in its buffer.
    pub(super) fn bytes(&self, now: Instant) -> u64 {
        let silent = now.saturating_duration_since(self.reported);
        if silent > self.round_trip.mul_f64(PATIENT_ROUNDS) {
            return 0;
        }
        (self.rates[0].max(self.rates[1]) * (self.round_trip + silent).as_secs_f64()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    /// What a receiver takes in a round trip of 200 ms, if it takes `rate` bytes a millisecond, by reports every 10 ms.
    fn after(rate: u64, millis: u64) -> u64 {
        let mut path = Path::new(Duration::from_millis(200));
        (0..=millis / 10).for_each(|step| path.report(at(step * 10), step * 10 * rate));
        path.bytes(at(millis))
    }

    #[test]
    fn what_is_taken_in_a_round_trip_is_on_its_way() {
        assert_eq!([100, 200, 1_000].map(|millis| after(50, millis)), [0, 10_000, 10_000]);
    }

    #[test]
    fn a_receiver_that_stops_has_nothing_on_its_way_after_two_spans() {
        let mut path = Path::new(Duration::from_millis(200));
        [(0, 0), (200, 20_000), (400, 20_001), (600, 20_001)]
            .into_iter()
            .for_each(|(millis, taken)| path.report(at(millis), taken));
        assert!(path.bytes(at(600)) <= 1, "{}", path.bytes(at(600)));
    }

    #[test]
    fn a_round_trip_is_at_most_two_seconds() {
        let mut path = Path::new(Duration::MAX);
        [(0, 0), (2_000, 1_000)].into_iter().for_each(|(millis, taken)| path.report(at(millis), taken));
        assert_eq!(path.bytes(at(2_000)), 1_000);
    }

    #[test]
    fn a_receiver_that_reports_nothing_for_long_has_nothing_on_its_way() {
        let mut path = Path::new(Duration::from_millis(200));
        [(0, 0), (200, 20_000)].into_iter().for_each(|(millis, taken)| path.report(at(millis), taken));
        let bytes = [200, 300, 500, 501, 900].map(|millis| path.bytes(at(millis)));
        assert_eq!(bytes, [20_000, 30_000, 50_000, 0, 0]);
        path.rest(at(1_000));
        assert_eq!([1_000, 1_200, 1_300].map(|millis| path.bytes(at(millis))), [20_000, 20_000, 30_000]);
    }
}
