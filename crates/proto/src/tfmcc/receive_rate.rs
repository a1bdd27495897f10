//! Measures how much arrives (RFC 4654, 4.3.4; RFC 5348, 6.2): over the last whole round trip, or over the time
//! since it ended if that is longer.

use std::time::Duration;

use crate::Instant;

/// Short spans would tell of super-packets and not of the rate.
const SHORTEST_SPAN: Duration = Duration::from_millis(2);

#[derive(Debug, Default)]
pub struct ReceiveRate {
    /// The time when the present span began, and the packets that have arrived in it.
    present: Option<(Instant, u64)>,
    /// Packets a second in the span before.
    last: f64,
}

impl ReceiveRate {
    pub fn arrived(&mut self, now: Instant, packets: u32, round_trip: Duration) {
        self.roll(now, round_trip);
        let (_, count) = self.present.get_or_insert((now, 0));
        *count = count.saturating_add(packets.into());
    }

    /// Returns the rate at which packets of this length arrive, in bits a second.
    pub fn rate_bps(&mut self, now: Instant, packet_bytes: u32, round_trip: Duration) -> f64 {
        self.roll(now, round_trip);
        self.last * f64::from(packet_bytes) * 8.0
    }

    /// Returns how many packets arrive in a round trip.
    pub fn packets(&mut self, now: Instant, round_trip: Duration) -> f64 {
        self.roll(now, round_trip);
        self.last * round_trip.as_secs_f64()
    }

    fn roll(&mut self, now: Instant, round_trip: Duration) {
        let Some((began, count)) = self.present else { return };
        let span = now.saturating_duration_since(began);
        if span >= round_trip.max(SHORTEST_SPAN) {
            self.last = count as f64 / span.as_secs_f64();
            self.present = Some((now, 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    #[test]
    fn the_rate_is_of_the_last_round_trip() {
        let mut rate = ReceiveRate::default();
        let round_trip = Duration::from_millis(10);
        (0..100).for_each(|millis| rate.arrived(at(millis), 5, round_trip));
        let steady = rate.rate_bps(at(100), 1000, round_trip);
        assert!((39e6..41e6).contains(&steady), "{steady}");
        assert!((48.0..52.0).contains(&rate.packets(at(100), round_trip)));
        let paused = rate.rate_bps(at(200), 1000, round_trip);
        assert!(paused < steady / 5.0, "{paused}");
        assert_eq!(ReceiveRate::default().rate_bps(at(5), 1000, round_trip), 0.0);
    }

    #[test]
    fn a_round_trip_of_nothing_is_none() {
        let mut rate = ReceiveRate::default();
        rate.arrived(at(0), u32::MAX, Duration::ZERO);
        rate.arrived(at(0), u32::MAX, Duration::ZERO);
        assert!(rate.rate_bps(at(5), u32::MAX, Duration::ZERO).is_finite());
    }
}
