//! The share of the session's packets that a receiver loses, smoothed.

use crate::{Instant, time};

/// Loss is measured over so long at least, ...
const INTERVAL: std::time::Duration = std::time::Duration::from_millis(500);

/// ... and over so many packets.
const LEAST_PACKETS: u64 = 32;

/// The weight of the latest interval.
const WEIGHT: f64 = 0.4;

#[derive(Debug, Default)]
pub(super) struct LossMeter {
    since: time::Instant,
    arrived: u64,
    lost: u64,
    loss: Option<f64>,
}

impl LossMeter {
    /// Blocks that were sent once have arrived, and these before them have not.
    pub fn note(&mut self, now: Instant, arrived: u64, lost: u64) {
        self.arrived += arrived;
        self.lost += lost;
        let packets = self.arrived + self.lost;
        if packets < LEAST_PACKETS || now < self.since + INTERVAL {
            return;
        }
        let latest = self.lost as f64 / packets as f64;
        self.loss = Some(self.loss.map_or(latest, |loss| loss + WEIGHT * (latest - loss)));
        (self.since, self.arrived, self.lost) = (now, 0, 0);
    }

    /// The share that is lost; 0 before it was measured.
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
        meter.note(Instant::ZERO + Duration::from_millis(600), 10, 10);
        assert_eq!(meter.share(), 0.0, "too few packets");
        meter.note(Instant::ZERO + Duration::from_millis(700), 40, 40);
        assert_eq!(meter.share(), 0.5);
        meter.note(Instant::ZERO + Duration::from_millis(1_300), 100, 0);
        assert!((meter.share() - 0.3).abs() < 1e-9);
    }
}
