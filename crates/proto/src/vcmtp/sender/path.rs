//! The number of multicast bytes that are still on their way to a receiver.
//!
//! Bytes that have not arrived yet do not lie in the receiver's socket buffer. On a path of 1 Gbit/s with a
//! round trip of 200 ms, 25 MB are on their way, and buffers hold some hundred kB to some MB.

use std::{collections::VecDeque, time::Duration};

use crate::Instant;

/// A longer round trip counts as this one.
const LONGEST_ROUND_TRIP: Duration = Duration::from_secs(2);
/// The shortest time over which a rate is measured.
const SHORTEST_SPAN: Duration = Duration::from_millis(20);
/// The number of measurements in each span.
const STEPS: u32 = 4;
/// TCP sends a lost report again when a later one has been acknowledged and a quarter of a round trip has passed (RFC 8985, 6.2). So
/// it comes so many round trips and two spaces between reports after the one before it. It delays all that follow. A receiver that has
/// reported nothing for longer, and for one more space, may stand still.
const PATIENT_ROUNDS: f64 = 1.25;
const PATIENT_SPACES: u32 = 3;

/// The path to a receiver. Its round trip is one that a kernel has measured. The time from the multicast of a byte to the report that
/// it was taken would be longer where the byte waits in the socket buffer.
///
/// TCP delays reports, and delivers many at once then. So rates are measured on the receiver's clock, and a report counts from the
/// time at which it would have come without that delay.
#[derive(Debug, Default)]
pub(super) struct Path {
    round_trip: Duration,
    /// The measurements of the last two spans.
    points: VecDeque<Point>,
    /// The highest rate of these. The sender asks for it before each run, and reports come much less often.
    rate: f64,
    /// The time when the last report was made, on the receiver's clock.
    made: Option<Duration>,
    /// The mean time between two reports lately.
    space: Duration,
    lag: Lag,
    /// The time when it last reported that it has taken more, or when it can at the earliest.
    reported: Instant,
    /// The delay of that report beyond the fastest one lately. TCP has caused it.
    delay: Duration,
}

/// The place that the receiver had reached at a time.
#[derive(Debug, Clone, Copy)]
struct Point {
    /// The time of the report, on the receiver's clock.
    made: Duration,
    taken: u64,
    /// The rate at which it took bytes in the span before, in bytes a second.
    rate: f64,
}

/// The least lag of reports lately. A lag is the time from the making of a report, on the receiver's clock, to its arrival, on this
/// one. It contains the difference of the clocks.
#[derive(Debug, Default)]
struct Lag {
    /// The least lag of the present period and of the one before, in seconds.
    least: [Option<f64>; 2],
    /// The time when the present period began.
    began: Instant,
}

impl Lag {
    /// The length of a period. TCP delays no report for as long, and a clock that stood still with its machine counts anew after two.
    const PERIOD: Duration = Duration::from_secs(4);

    /// Adds a report. Returns how much later it came than the fastest one lately.
    fn delay(&mut self, now: Instant, made: Duration) -> Duration {
        let lag = (now - Instant::ZERO).as_secs_f64() - made.as_secs_f64();
        if now - self.began >= Self::PERIOD {
            (self.least, self.began) = ([None, self.least[0]], now);
        }
        self.least[0] = Some(self.least[0].map_or(lag, |least| least.min(lag)));
        let least = self.least.into_iter().flatten().fold(lag, f64::min);
        Duration::try_from_secs_f64(lag - least).unwrap_or(Duration::MAX)
    }
}

impl Path {
    pub(super) fn new(round_trip: Duration) -> Self {
        Self { round_trip: round_trip.min(LONGEST_ROUND_TRIP), ..Self::default() }
    }

    /// The receiver reports that it had taken `taken` bytes at `made` on its clock.
    pub(super) fn report(&mut self, now: Instant, made: Duration, taken: u64) {
        (self.reported, self.delay) = (now, self.lag.delay(now, made));
        let space = self.made.replace(made).map_or(Duration::ZERO, |last| made.saturating_sub(last));
        self.space = (self.space * 7 + space.min(self.round_trip / 2)) / 8;
        self.measure(made, taken);
    }

    fn measure(&mut self, made: Duration, taken: u64) {
        if self.points.back().is_some_and(|last| last.made > made) {
            // A clock that goes back is another clock.
            self.points.clear();
        }
        let span = self.round_trip.max(SHORTEST_SPAN);
        let since = |point: &Point| made.saturating_sub(point.made);
        if self.points.back().is_some_and(|last| since(last) < span / STEPS) {
            return;
        }
        let before = self.points.iter().rev().find(|point| since(point) >= span);
        let rate =
            before.map_or(0.0, |point| taken.saturating_sub(point.taken) as f64 / since(point).as_secs_f64());
        while self.points.front().is_some_and(|first| since(first) >= span * 2) {
            self.points.pop_front();
        }
        self.points.push_back(Point { made, taken, rate });
        self.rate = self.points.iter().map(|point| point.rate).fold(0.0, f64::max);
    }

    /// Takes note that nothing is under way. Bytes that leave now can be reported a round trip later.
    pub(super) fn rest(&mut self, now: Instant) {
        (self.reported, self.delay) = (now + self.round_trip, Duration::ZERO);
    }

    /// The number of bytes that are on their way to the receiver, or taken and not reported yet. These are
    /// the bytes that it takes in a round trip and since its last report was made. A receiver that reports
    /// nothing for long may stand still. Then all of it may lie in its buffer.
    pub(super) fn bytes(&self, now: Instant) -> u64 {
        let patience = self.round_trip.mul_f64(PATIENT_ROUNDS) + self.space * PATIENT_SPACES;
        let silent = now - self.reported;
        if silent > patience {
            return 0;
        }
        let silent = silent.saturating_add(self.delay).min(patience);
        (self.rate * (self.round_trip + silent).as_secs_f64()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    /// A report that comes when it is made.
    fn report(path: &mut Path, millis: u64, taken: u64) {
        path.report(at(millis), Duration::from_millis(millis), taken);
    }

    /// The bytes on the way to a receiver that takes `rate` bytes a millisecond, with a round trip of 200 ms
    /// and reports every 10 ms.
    fn after(rate: u64, millis: u64) -> u64 {
        let mut path = Path::new(Duration::from_millis(200));
        (0..=millis / 10).for_each(|step| report(&mut path, step * 10, step * 10 * rate));
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
            .for_each(|(millis, taken)| report(&mut path, millis, taken));
        assert!(path.bytes(at(600)) <= 1, "{}", path.bytes(at(600)));
    }

    #[test]
    fn a_round_trip_is_at_most_two_seconds() {
        let mut path = Path::new(Duration::MAX);
        [(0, 0), (2_000, 1_000)].into_iter().for_each(|(millis, taken)| report(&mut path, millis, taken));
        assert_eq!(path.bytes(at(2_000)), 1_000);
    }

    #[test]
    fn a_receiver_that_reports_nothing_for_long_has_nothing_on_its_way() {
        let mut path = Path::new(Duration::from_millis(200));
        [(0, 0), (200, 20_000)].into_iter().for_each(|(millis, taken)| report(&mut path, millis, taken));
        let bytes = [200, 300, 487, 488, 900].map(|millis| path.bytes(at(millis)));
        assert_eq!(bytes, [20_000, 30_000, 48_700, 0, 0]);
        path.rest(at(1_000));
        assert_eq!([1_000, 1_200, 1_300].map(|millis| path.bytes(at(millis))), [20_000, 20_000, 30_000]);
    }

    /// A receiver whose clock is an hour ahead takes 100 bytes each millisecond. TCP holds up what it reports for 250 ms.
    #[test]
    fn reports_that_were_held_up_tell_the_same_rate() {
        const AHEAD: Duration = Duration::from_secs(3600);
        let mut path = Path::new(Duration::from_millis(200));
        let report = |path: &mut Path, made: u64, arrives: u64| {
            path.report(at(arrives), AHEAD + Duration::from_millis(made), made * 100);
        };
        (0..=100).for_each(|step| report(&mut path, step * 10, step * 10 + 100));
        assert_eq!(path.bytes(at(1_100)), 20_000);
        assert_eq!(path.bytes(at(1_350)), 45_000, "and while nothing comes");
        report(&mut path, 1_010, 1_360);
        assert_eq!(path.bytes(at(1_360)), 45_000, "the first one is old");
        (102..=125).for_each(|step| report(&mut path, step * 10, 1_360));
        assert_eq!(path.bytes(at(1_360)), 20_000 + 1_000, "the last one is new");
        (126..=200).for_each(|step| report(&mut path, step * 10, step * 10 + 100));
        assert_eq!(path.bytes(at(2_100)), 20_000);
    }

    /// A receiver reports every 84 ms at a slow rate. A lost report is there again when the next but one
    /// would be.
    #[test]
    fn a_receiver_that_reports_seldom_may_be_silent_for_longer() {
        let mut path = Path::new(Duration::from_millis(200));
        (0..=40).for_each(|step| report(&mut path, step * 84, step * 8_400));
        assert_eq!(path.bytes(at(40 * 84 + 420)), 62_000);
        assert_eq!(path.bytes(at(40 * 84 + 510)), 0);
    }

    #[test]
    fn a_clock_that_jumps_or_lies_adds_no_more_than_silence_does() {
        let mut path = Path::new(Duration::from_millis(200));
        (0..=40).for_each(|step| report(&mut path, step * 10, step * 1_000));
        for made in [Duration::ZERO, Duration::MAX] {
            path.report(at(410), made, 41_000);
            assert!(path.bytes(at(410)) <= 50_000, "{}", path.bytes(at(410)));
        }
        // An honest clock counts again after one span, and reports are late until the lies are forgotten.
        (42..=65).for_each(|step| report(&mut path, step * 10, step * 1_000));
        assert!((47_000..50_000).contains(&path.bytes(at(650))), "{}", path.bytes(at(650)));
        (66..=900).for_each(|step| report(&mut path, step * 10, step * 1_000));
        assert_eq!(path.bytes(at(9_000)), 20_000);
    }

    /// A receiver whose machine was suspended for ten seconds, in which its clock stood still.
    #[test]
    fn a_clock_that_stood_still_counts_anew() {
        let mut path = Path::new(Duration::from_millis(200));
        (0..=100).for_each(|step| report(&mut path, step * 10, step * 1_000));
        for step in 101..=1_000 {
            path.report(at(10_000 + step * 10), Duration::from_millis(step * 10), step * 1_000);
            if step == 200 {
                assert!((47_000..49_000).contains(&path.bytes(at(12_000))));
            }
        }
        assert_eq!(path.bytes(at(20_000)), 20_000);
    }
}
