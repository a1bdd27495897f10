//! The share of the session's packets that a receiver loses, smoothed, and the rate at which they leave the sender.

use crate::{Instant, time};

/// The least time over which loss is measured.
const INTERVAL: std::time::Duration = std::time::Duration::from_millis(500);

/// The least number of packets over which loss is measured.
const LEAST_PACKETS: u64 = 32;

/// The number of packets after which a first rate is known. It counts until there is a better one.
const FEWEST_PACKETS: u64 = 8;

/// The weight of the latest interval in the average, from 0 to 1.
const WEIGHT: f64 = 0.4;

#[derive(Debug, Default)]
pub(super) struct LossMeter {
    since: time::Instant,
    arrived: u64,
    lost: u64,
    loss: Option<f64>,
    /// The highest rate of an interval, and that of the latest, in packets a second.
    packets_a_second: f64,
    latest: f64,
}

impl LossMeter {
    /// Takes in blocks that the sender has sent for the first time: `arrived` of them have come, and `lost` before
    /// them have not.
    pub fn note(&mut self, now: Instant, arrived: u64, lost: u64) {
        if self.arrived + self.lost == 0 {
            self.since = now;
        }
        self.arrived += arrived;
        self.lost += lost;
        let packets = self.arrived + self.lost;
        let rate = packets as f64 / (now - self.since).as_secs_f64();
        // The first rate that is known is better than none.
        if self.loss.is_none() && packets >= FEWEST_PACKETS && rate.is_finite() {
            self.packets_a_second = rate;
        }
        if packets < LEAST_PACKETS || now < self.since + INTERVAL {
            return;
        }
        self.packets_a_second = self.packets_a_second.max(rate);
        self.latest = rate;
        let latest = self.lost as f64 / packets as f64;
        self.loss = Some(self.loss.map_or(latest, |loss| loss + WEIGHT * (latest - loss)));
        (self.arrived, self.lost) = (0, 0);
    }

    /// The highest rate at which packets have left the sender, in packets a second; 0 before it was measured.
    pub fn packets_a_second(&self) -> f64 {
        self.packets_a_second
    }

    /// The rate at which packets left the sender when it was measured last, in packets a second; 0 before that.
    pub fn latest_packets_a_second(&self) -> f64 {
        self.latest
    }

    /// The share of packets that is lost, from 0 to 1. 0 before it was measured.
    pub fn share(&self) -> f64 {
        self.loss.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_latest_interval_weighs_most() {
        let mut meter = LossMeter::default();
        let mut note = |millis: u64, arrived: u64, lost: u64| {
            meter.note(Instant::ZERO + Duration::from_millis(millis), arrived, lost);
            (meter.share(), meter.packets_a_second())
        };
        assert_eq!(note(600, 10, 10), (0.0, 0.0), "no time has passed");
        assert_eq!(note(1_000, 20, 20), (0.0, 150.0), "too short a time");
        assert_eq!(note(1_100, 20, 20), (0.5, 200.0));
        note(1_200, 50, 0);
        let (loss, rate) = note(1_700, 100, 0);
        assert!((loss - 0.3).abs() < 1e-9 && rate > 299.0, "{loss} {rate}");
        meter.note(Instant::ZERO + Duration::from_millis(2_000), 1, 0);
        meter.note(Instant::ZERO + Duration::from_millis(4_000), 39, 0);
        assert_eq!((meter.packets_a_second(), meter.latest_packets_a_second()), (rate, 20.0));
    }
}
