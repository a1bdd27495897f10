//! A rate that congestion cuts and time raises ("multiplicative decrease and additive increase", lgmp-mbone-1999, 2).

use std::time::Duration;

use crate::Instant;

/// The factor by which the rate is multiplied on congestion.
const LEFT: f64 = 0.5;

/// The step by which the rate is raised, as a share of the highest rate.
const STEP: f64 = 1.0 / 32.0;

/// The shortest time between two cuts, and between two steps up. The next report must show the effect of a change
/// first.
const PATIENCE: Duration = Duration::from_secs(1);
const STEP_TIME: Duration = Duration::from_millis(500);

/// The fewest packets of the session between two cuts: receivers measure loss over 32 packets, and some are under way. A slow session
/// would otherwise be cut several times for one loss.
const PATIENCE_PACKETS: f64 = 48.0;

/// The fewest packets of the session between two steps up: two steps for each cut, as in a fast session.
const STEP_PACKETS: f64 = 24.0;

/// The longest time between two cuts, however slow the session is.
const LONGEST: Duration = Duration::from_secs(10);

/// The time by which packets may leave ahead of the rate, so that several leave together.
const AHEAD: Duration = Duration::from_millis(2);

/// The sender's rate, and the time at which the next packet may leave.
#[derive(Debug)]
pub(super) struct Pace {
    highest_bps: f64,
    /// The lowest rate, as a share of the highest.
    lowest: f64,
    bps: f64,
    changed: Instant,
    cut: Option<Instant>,
    free_at: Instant,
}

impl Pace {
    /// `lowest` is a share of the highest rate, between 0 and 1.
    pub fn new(highest_bps: u64, lowest: f64) -> Self {
        let highest_bps = highest_bps.max(1) as f64;
        let start = Instant::ZERO;
        let lowest = lowest.clamp(0.0, 1.0);
        Self { highest_bps, lowest, bps: highest_bps, changed: start, cut: None, free_at: start }
    }

    fn lowest_bps(&self) -> f64 {
        (self.highest_bps * self.lowest).max(1.0)
    }

    /// Cuts the rate because a receiver is congested. The session sends `packets_a_second`; 0 when that is not known.
    pub fn cut(&mut self, now: Instant, packets_a_second: f64) {
        let patience = time_of(PATIENCE_PACKETS, packets_a_second).max(PATIENCE);
        if self.cut.is_some_and(|cut| now < cut + patience) {
            return;
        }
        self.bps = (self.bps * LEFT).max(self.lowest_bps());
        self.cut = Some(now);
        self.changed = now;
    }

    /// Limits the rate from now on.
    pub fn limit(&mut self, highest_bps: u64) {
        self.highest_bps = highest_bps.max(1) as f64;
        self.bps = self.bps.clamp(self.lowest_bps(), self.highest_bps);
    }

    /// Raises the rate by a step when it is time for one.
    pub fn raise(&mut self, now: Instant, packets_a_second: f64) {
        if now >= self.changed + time_of(STEP_PACKETS, packets_a_second).max(STEP_TIME) {
            self.bps = (self.bps + self.highest_bps * STEP).min(self.highest_bps);
            self.changed = now;
        }
    }

    /// The time at which the next packet may leave.
    pub fn next(&self) -> Instant {
        self.free_at
    }

    /// Counts bytes that leave now.
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

    /// Whether another cut would reach the lowest rate.
    pub fn is_lowest(&self) -> bool {
        self.bps * LEFT <= self.lowest_bps()
    }
}

/// The time in which so many packets leave, bounded. Zero where the rate is not known.
fn time_of(packets: f64, packets_a_second: f64) -> Duration {
    let time = Duration::try_from_secs_f64(packets / packets_a_second);
    if packets_a_second > 0.0 { time.unwrap_or(LONGEST).min(LONGEST) } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn congestion_halves_the_rate_once_a_second_and_time_raises_it() {
        let mut pace = Pace::new(3_200, 0.3125);
        pace.cut(at(1_000), 0.0);
        pace.cut(at(1_500), 0.0);
        assert_eq!(pace.bps(), 1_600);
        pace.raise(at(1_400), 1_000.0);
        pace.raise(at(1_500), 1_000.0);
        assert_eq!(pace.bps(), 1_700);
        pace.cut(at(2_000), 0.0);
        assert!(pace.is_lowest() && pace.bps() == 1_000);
        pace.raise(at(2_500), 0.0);
        assert!(pace.is_lowest(), "the next cut leads there again");
        (3..100).for_each(|second| pace.raise(at(second * 1_000), 0.0));
        assert_eq!(pace.bps(), 3_200);
        pace.limit(1_600);
        pace.cut(at(100_000), 0.0);
        pace.cut(at(101_000), 0.0);
        assert_eq!(pace.bps(), 500, "the same share of another highest rate");
    }

    #[test]
    fn a_slow_session_is_cut_once_for_what_its_receivers_measure_once() {
        let mut pace = Pace::new(160_000, 0.0);
        pace.cut(at(1_000), 8.0);
        // Six seconds are 48 packets at this rate, and 24 at half of it.
        (2..7).for_each(|second| pace.cut(at(second * 1_000), 8.0));
        assert_eq!(pace.bps(), 80_000);
        pace.raise(at(6_999), 4.0);
        assert_eq!(pace.bps(), 80_000);
        pace.raise(at(7_000), 4.0);
        assert_eq!(pace.bps(), 85_000);
        pace.cut(at(7_000), 8.0);
        assert_eq!(pace.bps(), 42_500);
        pace.cut(at(17_000), 0.001);
        assert_eq!(pace.bps(), 21_250, "nobody waits for longer than ten seconds");
    }

    #[test]
    fn packets_leave_at_the_rate() {
        let mut pace = Pace::new(8_000, 0.0);
        pace.spend(at(1_000), 100);
        assert_eq!(pace.next(), at(1_098), "two milliseconds ahead");
        pace.spend(at(1_098), 100);
        assert_eq!(pace.next(), at(1_198));
    }
}
