//! The round trip as a receiver knows it (RFC 4654, 4.3.2 and 4.3.3): measured where the sender has echoed one of its
//! reports, and between such measurements followed by how the way from the sender alone gets longer and shorter.

use std::time::Duration;

/// The weight of a new measurement, 0 to 1.
const MEASURED_WEIGHT: f64 = 0.25;

/// The weight of each message from the sender between measurements, 0 to 1. Several come in a round trip.
const ADJUSTED_WEIGHT: f64 = 0.1;

/// The longest round trip that is believed.
pub const LONGEST: Duration = Duration::from_secs(5);

/// The round trip as a receiver estimates it. Times are in microseconds of two clocks, the receiver's and the
/// sender's, which may differ by any amount.
#[derive(Debug, Default)]
pub struct RoundTrip {
    /// The estimate, in microseconds.
    estimate: Option<f64>,
    /// The last measurement without the way from the sender, in microseconds: the way back, and the difference of the
    /// clocks.
    back: f64,
    /// The last sample, in microseconds.
    latest: f64,
}

impl RoundTrip {
    /// Takes note of a message that arrived at `now_us` by this receiver's clock and was sent at `sent_us` by
    /// the sender's.
    pub fn adjust(&mut self, now_us: u64, sent_us: u64) {
        let Some(estimate) = &mut self.estimate else { return };
        let sample = bounded(one_way(now_us, sent_us) + self.back);
        self.latest = sample;
        *estimate += (sample - *estimate) * ADJUSTED_WEIGHT;
    }

    /// Does the same as [`RoundTrip::adjust`] for a message that echoes a report, which this receiver sent at
    /// `echo_us`.
    pub fn measure(&mut self, now_us: u64, sent_us: u64, echo_us: u64) {
        let Some(sample) = now_us.checked_sub(echo_us) else { return };
        if sample > LONGEST.as_micros() as u64 {
            return;
        }
        let sample = bounded(sample as f64);
        self.back = sample - one_way(now_us, sent_us);
        self.latest = sample;
        let estimate = self.estimate.get_or_insert(sample);
        *estimate += (sample - *estimate) * MEASURED_WEIGHT;
    }

    /// Returns the last sample, or none before the first measurement.
    pub fn latest(&self) -> Option<Duration> {
        self.estimate.map(|_| Duration::from_micros(self.latest as u64))
    }

    /// Returns the longer one of the estimate and the last sample. Packets that are lost within this time count
    /// as lost for one reason.
    pub fn longest(&self) -> Option<Duration> {
        self.estimate.map(|micros| Duration::from_micros(micros.max(self.latest) as u64))
    }

    /// Returns the round trip by which the window is divided: the last sample or, where that is shorter than
    /// the estimate, the geometric mean of both. So the rate falls at once when a queue grows, and rises more
    /// slowly when it shrinks; otherwise it would swing around what the link carries (RFC 5348, 4.5).
    pub fn damped(&self) -> Option<Duration> {
        self.estimate
            .map(|micros| Duration::from_micros((micros * self.latest).sqrt().max(self.latest) as u64))
    }

    /// Returns the estimate, or none before the first measurement.
    pub fn estimate(&self) -> Option<Duration> {
        self.estimate.map(|micros| Duration::from_micros(micros as u64))
    }
}

fn one_way(now_us: u64, sent_us: u64) -> f64 {
    now_us.wrapping_sub(sent_us).cast_signed() as f64
}

fn bounded(micros: f64) -> f64 {
    micros.clamp(1.0, LONGEST.as_micros() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sender's clock is so far ahead.
    const AHEAD: u64 = 1 << 40;

    #[test]
    fn the_first_measurement_counts_whole_and_later_ones_little() {
        let mut round_trip = RoundTrip::default();
        round_trip.adjust(5_000, AHEAD);
        assert_eq!(round_trip.estimate(), None);
        round_trip.measure(60_000, AHEAD + 40_000, 20_000);
        assert_eq!(round_trip.estimate(), Some(Duration::from_millis(40)));
        round_trip.measure(160_000, AHEAD + 140_000, 80_000);
        assert_eq!(round_trip.estimate(), Some(Duration::from_millis(50)));
    }

    #[test]
    fn a_queue_that_grows_between_measurements_is_seen() {
        let mut round_trip = RoundTrip::default();
        round_trip.measure(60_000, AHEAD + 40_000, 20_000);
        for step in 1..=50 {
            round_trip.adjust(60_000 + 100_000 + step * 10_000, AHEAD + 40_000 + step * 10_000);
        }
        let estimate = round_trip.estimate().unwrap();
        assert!((135..=140).contains(&estimate.as_millis()), "{estimate:?}");
        assert_eq!(round_trip.damped(), Some(Duration::from_millis(140)), "all of a queue that grows");
        round_trip.adjust(60_000 + 1_000_000, AHEAD + 40_000 + 1_000_000);
        let (damped, estimate) = (round_trip.damped().unwrap(), round_trip.estimate().unwrap());
        assert!(
            (70..=75).contains(&damped.as_millis()) && estimate.as_millis() > 125,
            "{damped:?} {estimate:?}"
        );
    }

    #[test]
    fn nonsense_is_bounded() {
        let mut round_trip = RoundTrip::default();
        round_trip.measure(5, 0, 10);
        round_trip.measure(u64::MAX, 0, 0);
        assert_eq!(round_trip.estimate(), None);
        round_trip.measure(10, u64::MAX, 5);
        for sent in [0, u64::MAX, 1 << 63] {
            round_trip.adjust(u64::MAX / 2, sent);
            assert!(round_trip.estimate().unwrap() <= LONGEST);
        }
    }
}
