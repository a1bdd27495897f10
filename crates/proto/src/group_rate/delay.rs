//! The time that packets wait in queues: the growth of the one-way delay above its least value.
//!
//! The clocks of sender and receiver differ by any amount, and they drift by up to 200 ppm. So only
//! differences of one-way delays mean something. The least of them is moved on by the drift that the least
//! values of the last half minute show. A queue that grows by less than that, a millisecond in five seconds,
//! is taken for drift.
//!
//! The round trip is measured with one clock only. While it is known, the queue is no longer than the round trip has grown: so a
//! clock that jumps is no queue.

use std::time::Duration;

use super::windowed::{Least, Seen};
use crate::Instant;

/// Fastest drift of two clocks that is corrected, in seconds a second. Slower growth of a queue is taken for
/// drift. Doubled, a queue that grows by two milliseconds in five seconds is overlooked, in place of one.
const MOST_DRIFT: f64 = 200e-6;

/// Number of parts of the span ([`Least::SPAN`]) whose least values must be known before a drift is
/// estimated. A part is 1.5 s. Fewer parts may take a queue for a drift. Doubled, a drift counts as a queue
/// for 4.5 s more.
const PARTS_FOR_DRIFT: usize = 3;

/// Growth of the one-way delay between two messages, in microseconds, above which a clock may have jumped. A
/// smaller jump counts as a queue, unless a recent round trip shows that there is none. Doubled, that is so
/// for jumps of up to 0.4 s.
const JUMP_US: f64 = 200e3;
/// Growth of the one-way delay that shows a jump besides [`JUMP_US`], as a multiple of the time between two
/// messages. A link that becomes twelve times slower is rarer than a jump. Doubled, more jumps count as
/// queues.
const JUMP_FACTOR: f64 = 12.0;

/// Time for which a measured round trip bounds the queue. Doubled, a queue that has grown since shows up to
/// 1 s later.
const ROUND_TRIP_LASTS: Duration = Duration::from_secs(1);

/// Excess of a round trip over the shortest one that no queue explains, in microseconds: hosts answer late.
/// Doubled, a clock that jumps counts as a queue of up to 2 ms.
const SLACK_US: f64 = 1_000.0;

#[derive(Debug, Default)]
pub struct Delay {
    least: Least,
    /// The last one-way delay, and when its message was sent.
    last_us: Option<(f64, u64)>,
    round_trips: Least,
    /// The last measured round trip in microseconds, and when that was.
    round_trip: Option<(f64, Instant)>,
}

impl Delay {
    /// Takes a message that the sender sent at `sent_us` by its clock. Returns how long it waited in queues, in microseconds.
    pub fn arrived(&mut self, at: Instant, sent_us: u64) -> f64 {
        let one_way = (at.as_nanos() / 1_000).wrapping_sub(sent_us).cast_signed() as f64;
        if let Some((last, last_sent_us)) = self.last_us.replace((one_way, sent_us)) {
            let bound = JUMP_US + JUMP_FACTOR * sent_us.saturating_sub(last_sent_us) as f64;
            if one_way - last > bound || last - one_way > JUMP_US {
                self.least.forget();
            }
        }
        self.least.add(at, one_way);
        let grown = one_way - self.base_us(at).unwrap_or(one_way);
        grown.min(self.round_trip_growth_us(at).unwrap_or(f64::INFINITY)).max(0.0)
    }

    /// Takes a round trip that was measured with the receiver's clock alone.
    pub fn measured(&mut self, at: Instant, round_trip: Duration) {
        let micros = round_trip.as_micros() as f64;
        self.round_trips.add(at, micros);
        self.round_trip = Some((micros, at));
    }

    /// Returns the shortest round trip lately, or none before the first.
    pub fn shortest(&self) -> Option<Duration> {
        self.round_trips.least().map(|micros| Duration::from_micros(micros as u64))
    }

    fn round_trip_growth_us(&self, now: Instant) -> Option<f64> {
        let (micros, at) = self.round_trip?;
        let is_recent = now.saturating_duration_since(at) < ROUND_TRIP_LASTS;
        let least = self.round_trips.least().filter(|_| is_recent)?;
        Some(micros - least + SLACK_US)
    }

    /// The one-way delay without queues, as it would be now.
    fn base_us(&self, now: Instant) -> Option<f64> {
        let drift = self.drift();
        let moved =
            |seen: Seen| seen.value + drift * now.saturating_duration_since(seen.at).as_micros() as f64;
        self.least.parts().map(moved).min_by(f64::total_cmp)
    }

    /// The lag of the sender's clock, in seconds a second: the slope between the least value of the older
    /// half of the span and that of the later half.
    fn drift(&self) -> f64 {
        let parts = self.least.parts();
        let count = parts.len();
        if count < PARTS_FOR_DRIFT {
            return 0.0;
        }
        let lower = |one: Seen, other: Seen| if other.value < one.value { other } else { one };
        let old = self.least.parts().take(count / 2).reduce(lower);
        let new = parts.skip(count / 2).reduce(lower);
        let (Some(old), Some(new)) = (old, new) else { return 0.0 };
        let elapsed = new.at.saturating_duration_since(old.at).as_micros() as f64;
        let drift = (new.value - old.value) / elapsed.max(1.0);
        // What grows faster is no clock. Where the delay falls, the last value is the least one anyway.
        if (0.0..=MOST_DRIFT * 1.1).contains(&drift) { drift } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    /// The sender's clock is so far ahead.
    const AHEAD_US: u64 = 1 << 40;

    /// Messages each 10 ms, which wait for `queue_us`. The receiver's clock gains `drift`.
    fn run(delay: &mut Delay, millis: std::ops::Range<u64>, drift: f64, queue_us: f64) -> f64 {
        let mut last = 0.0;
        for now in millis.step_by(10) {
            let late = queue_us + now as f64 * 1000.0 * drift;
            let arrives = Instant::from_nanos((now * 1_000_000) + (late * 1000.0) as u64);
            last = delay.arrived(arrives, AHEAD_US + now * 1000);
        }
        last
    }

    #[test]
    fn a_queue_is_what_the_delay_has_grown() {
        let mut delay = Delay::default();
        assert_eq!(run(&mut delay, 0..1_000, 0.0, 0.0), 0.0);
        let queue = run(&mut delay, 1_000..2_000, 0.0, 7_000.0);
        assert!((6_990.0..7_010.0).contains(&queue), "{queue}");
    }

    #[test]
    fn a_clock_that_drifts_is_no_queue() {
        for drift in [200e-6_f64, -200e-6] {
            let mut delay = Delay::default();
            run(&mut delay, 0..10_000, drift.max(0.0), 20_000.0 * f64::from(u8::from(drift < 0.0)));
            for second in 10..100_u64 {
                let offset = if drift < 0.0 { 20_000.0 } else { 0.0 };
                let queue = run(&mut delay, second * 1000..second * 1000 + 1000, drift, offset);
                assert!(queue < 2_500.0, "{drift}: {queue} us after {second} s");
            }
        }
    }

    #[test]
    fn a_clock_that_jumps_is_no_queue() {
        let mut far = Delay::default();
        run(&mut far, 0..1_000, 0.0, 0.0);
        assert_eq!(run(&mut far, 1_000..1_010, 0.0, 5e6), 0.0, "a jump by 5 s begins anew");
        let mut near = Delay::default();
        run(&mut near, 0..1_000, 0.0, 0.0);
        near.measured(at(1_000), Duration::from_millis(40));
        let queue = run(&mut near, 1_000..1_010, 0.0, 150_000.0);
        assert!(queue <= SLACK_US, "the round trip has not grown: {queue}");
    }
}
