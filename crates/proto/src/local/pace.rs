//! A rate that congestion cuts and time raises ("multiplicative decrease and additive increase", lgmp-mbone-1999, 2).

use std::time::Duration;

use crate::Instant;

/// What congestion leaves of the rate.
const LEFT: f64 = 0.5;

/// A limit leaves a lowest rate of at most this share of it.
const LOWEST_LIMITED: f64 = 1.0 / 32.0;

/// The share of the highest rate by which it is raised.
const STEP: f64 = 1.0 / 32.0;

/// The shortest time between two cuts, and between two steps up: what has changed must be seen in the next report.
const PATIENCE: Duration = Duration::from_secs(1);
const STEP_TIME: Duration = Duration::from_millis(500);

/// Packets are let out so far ahead of the rate, so that they can leave together.
const AHEAD: Duration = Duration::from_millis(2);

/// A rate, and when the next packet may leave.
#[derive(Debug)]
pub(super) struct Pace {
    highest_bps: f64,
    lowest_bps: f64,
    bps: f64,
    changed: Instant,
    cut: Option<Instant>,
    free_at: Instant,
}

impl Pace {
    pub fn new(highest_bps: u64, lowest_bps: u64) -> Self {
        let highest_bps = highest_bps.max(1) as f64;
        let lowest_bps = (lowest_bps as f64).clamp(1.0, highest_bps);
        let start = Instant::ZERO;
        Self { highest_bps, lowest_bps, bps: highest_bps, changed: start, cut: None, free_at: start }
    }

    /// Somebody is congested.
    pub fn cut(&mut self, now: Instant) {
        if self.cut.is_some_and(|cut| now < cut + PATIENCE) {
            return;
        }
        self.bps = (self.bps * LEFT).max(self.lowest_bps);
        self.cut = Some(now);
        self.changed = now;
    }

    /// No rate is higher from now on.
    pub fn limit(&mut self, highest_bps: u64) {
        self.highest_bps = highest_bps.max(1) as f64;
        self.lowest_bps = self.lowest_bps.min(self.highest_bps * LOWEST_LIMITED);
        self.bps = self.bps.min(self.highest_bps);
    }

    /// Time has passed.
    pub fn raise(&mut self, now: Instant) {
        if now >= self.changed + STEP_TIME {
            self.bps = (self.bps + self.highest_bps * STEP).min(self.highest_bps);
            self.changed = now;
        }
    }

    /// When the next packet may leave.
    pub fn next(&self) -> Instant {
        self.free_at
    }

    /// Takes note that bytes leave.
    pub fn spend(&mut self, now: Instant, bytes: u64) {
        let earliest = Instant::from_nanos(now.as_nanos().saturating_sub(AHEAD.as_nanos() as u64));
        self.free_at = self.free_at.max(earliest) + Duration::from_secs_f64(bytes as f64 * 8.0 / self.bps);
    }

    pub fn highest_bps(&self) -> u64 {
        self.highest_bps as u64
    }

    pub fn bps(&self) -> u64 {
        self.bps as u64
    }

    /// Whether another cut would come to the lowest rate.
    pub fn is_lowest(&self) -> bool {
        self.bps * LEFT <= self.lowest_bps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn congestion_halves_the_rate_once_a_second_and_time_raises_it() {
        let mut pace = Pace::new(3_200, 1_000);
        pace.cut(at(1_000));
        pace.cut(at(1_500));
        assert_eq!(pace.bps(), 1_600);
        pace.raise(at(1_400));
        pace.raise(at(1_500));
        assert_eq!(pace.bps(), 1_700);
        pace.cut(at(2_000));
        assert!(pace.is_lowest() && pace.bps() == 1_000);
        pace.raise(at(2_500));
        assert!(pace.is_lowest(), "the next cut leads there again");
        (3..100).for_each(|second| pace.raise(at(second * 1_000)));
        assert_eq!(pace.bps(), 3_200);
    }

    #[test]
    fn packets_leave_at_the_rate() {
        let mut pace = Pace::new(8_000, 1);
        pace.spend(at(1_000), 100);
        assert_eq!(pace.next(), at(1_098), "two milliseconds ahead");
        pace.spend(at(1_098), 100);
        assert_eq!(pace.next(), at(1_198));
    }
}
