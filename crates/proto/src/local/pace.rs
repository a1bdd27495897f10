//! A rate that congestion cuts and time raises ("multiplicative decrease and additive increase", lgmp-mbone-1999, 2).

use std::time::Duration;

use crate::Instant;

/// The factor by which the rate is multiplied on congestion.
const LEFT: f64 = 0.5;

/// The factor of the first cut of a rate that was doubled until then. The loss that causes the cut is about a second old.
const FIRST_LEFT: f64 = 0.35;

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

/// The factor by which rare steps are larger at most. A session of 3 packets a second would otherwise need minutes to make
/// good one cut.
const MOST_STEPS: f64 = 4.0;

/// The longest time between two cuts, however slow the session is.
const LONGEST: Duration = Duration::from_secs(10);

/// The time by which packets may leave ahead of the rate, so that several leave together.
const AHEAD: Duration = Duration::from_millis(2);

/// The first rate of a sender that shares links, in bits a second, and the factor of its steps before the first cut.
const START_BPS: f64 = 1_000_000.0;
const DOUBLING: f64 = std::f64::consts::SQRT_2;

/// The growth of a sender that shares links after a cut: so many bits a second in each second at a rate of 1 Mbit/s, and with the fourth
/// root of the rate more at higher ones, but at most half of the rate. It is nearly the same for all, so that two sessions come to equal
/// shares: with the square root, one of two kept a fifth of the other's rate for a minute.
const GROWTH_BPS: f64 = 1_250_000.0;
const GROWTH_ROOT: f64 = 0.25;
const MOST_GROWTH: f64 = 0.5;

/// The time in which the loss that a receiver measures halves after a cut has ended it, in patiences.
const HALVED: f64 = 0.7;

/// The sender's rate, and the time at which the next packet may leave.
#[derive(Debug)]
pub(super) struct Pace {
    highest_bps: f64,
    /// The lowest rate, as a share of the highest.
    lowest: f64,
    bps: f64,
    changed: Instant,
    cut: Option<Cut>,
    /// Whether the rate is to be that of a TCP connection, roughly. It begins low then.
    is_shared: bool,
    free_at: Instant,
}

/// The last cut of a rate.
#[derive(Debug, Clone, Copy)]
struct Cut {
    at: Instant,
    /// The rate before it, in bits a second.
    from_bps: f64,
    /// The share of packets that was lost, from 0 to 1.
    loss: f64,
}

impl Pace {
    /// `lowest` is a share of the highest rate, between 0 and 1.
    pub fn new(highest_bps: u64, lowest: f64) -> Self {
        let highest_bps = highest_bps.max(1) as f64;
        let start = Instant::ZERO;
        let lowest = lowest.clamp(0.0, 1.0);
        let is_shared = false;
        Self { highest_bps, lowest, bps: highest_bps, changed: start, cut: None, is_shared, free_at: start }
    }

    /// Creates the pace of a sender that shares links with others: the rate begins low, and doubles each second until
    /// somebody is congested.
    pub fn sharing(highest_bps: u64, lowest: f64) -> Self {
        let pace = Self::new(highest_bps, lowest);
        let bps = START_BPS.clamp(pace.lowest_bps(), pace.highest_bps);
        Self { bps, is_shared: true, ..pace }
    }

    fn lowest_bps(&self) -> f64 {
        (self.highest_bps * self.lowest).max(1.0)
    }

    /// Cuts the rate because a receiver is congested, which loses this share of packets; 1 when that is not known. The session
    /// sends `packets_a_second`; 0 when that is not known. The rate is not cut below `least_bps`.
    pub fn cut(&mut self, now: Instant, packets_a_second: f64, loss: f64, least_bps: f64) {
        let patience = time_of(PATIENCE_PACKETS, packets_a_second).max(PATIENCE);
        if self.cut.is_some_and(|cut| loss < cut.left_over(now, patience)) {
            return;
        }
        let left = if self.is_shared && self.cut.is_none() { FIRST_LEFT } else { LEFT };
        let bps = (self.bps * left).max(self.lowest_bps()).max(least_bps);
        if bps < self.bps {
            self.cut = Some(Cut { at: now, from_bps: self.bps, loss });
            self.changed = now;
            self.bps = bps;
        }
    }

    /// Limits the rate from now on.
    pub fn limit(&mut self, highest_bps: u64) {
        self.highest_bps = highest_bps.max(1) as f64;
        self.bps = self.bps.clamp(self.lowest_bps(), self.highest_bps);
    }

    /// Raises the rate by a step when it is time for one.
    pub fn raise(&mut self, now: Instant, packets_a_second: f64) {
        let wait = time_of(STEP_PACKETS, packets_a_second).max(STEP_TIME);
        if now >= self.changed + wait {
            let steps = wait.div_duration_f64(STEP_TIME).min(MOST_STEPS);
            self.bps = (self.bps + self.step_bps() * steps).min(self.highest_bps);
            self.changed = now;
        }
    }

    /// The size of a step up, in bits a second.
    fn step_bps(&self) -> f64 {
        match self.cut {
            _ if !self.is_shared => self.highest_bps * STEP,
            None => self.bps * (DOUBLING - 1.0),
            Some(Cut { from_bps, .. }) => {
                let growth_bps = GROWTH_BPS * (from_bps / 1e6).powf(GROWTH_ROOT);
                growth_bps.min(from_bps * MOST_GROWTH) * STEP_TIME.as_secs_f64()
            }
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

    /// The rate that the session is meant to have, in bits a second: the highest, or where links are shared, the present one.
    pub fn meant_bps(&self) -> u64 {
        if self.is_shared { self.bps() } else { self.highest_bps() }
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

impl Cut {
    /// The share of packets that receivers report as lost although nothing was lost since the cut: they tell an average over
    /// time. More than everything until `patience` is over.
    fn left_over(self, now: Instant, patience: Duration) -> f64 {
        let patiences = (now - self.at).div_duration_f64(patience);
        if patiences < 1.0 { f64::INFINITY } else { self.loss * 0.5_f64.powf((patiences - 1.0) / HALVED) }
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

    fn cut(pace: &mut Pace, now: Instant, packets_a_second: f64) {
        pace.cut(now, packets_a_second, 1.0, 0.0);
    }

    #[test]
    fn congestion_halves_the_rate_once_a_second_and_time_raises_it() {
        let mut pace = Pace::new(3_200, 0.3125);
        cut(&mut pace, at(1_000), 0.0);
        cut(&mut pace, at(1_500), 0.0);
        assert_eq!(pace.bps(), 1_600);
        pace.raise(at(1_400), 1_000.0);
        pace.raise(at(1_500), 1_000.0);
        assert_eq!(pace.bps(), 1_700);
        cut(&mut pace, at(2_000), 0.0);
        assert!(pace.is_lowest() && pace.bps() == 1_000);
        pace.raise(at(2_500), 0.0);
        assert!(pace.is_lowest(), "the next cut leads there again");
        (3..100).for_each(|second| pace.raise(at(second * 1_000), 0.0));
        assert_eq!(pace.bps(), 3_200);
        pace.limit(1_600);
        cut(&mut pace, at(100_000), 0.0);
        cut(&mut pace, at(101_000), 0.0);
        assert_eq!(pace.bps(), 500, "the same share of another highest rate");
    }

    #[test]
    fn a_slow_session_is_cut_once_for_what_its_receivers_measure_once() {
        let mut pace = Pace::new(160_000, 0.0);
        cut(&mut pace, at(1_000), 8.0);
        // Six seconds are 48 packets at this rate, and 24 at half of it.
        (2..7).for_each(|second| cut(&mut pace, at(second * 1_000), 8.0));
        assert_eq!(pace.bps(), 80_000);
        pace.raise(at(6_999), 4.0);
        assert_eq!(pace.bps(), 80_000);
        pace.raise(at(7_000), 4.0);
        assert_eq!(pace.bps(), 100_000, "four steps at once");
        cut(&mut pace, at(7_000), 8.0);
        assert_eq!(pace.bps(), 50_000);
        cut(&mut pace, at(17_000), 0.001);
        assert_eq!(pace.bps(), 25_000, "nobody waits for longer than ten seconds");
    }

    #[test]
    fn what_is_left_of_an_old_loss_cuts_nothing() {
        let mut pace = Pace::new(3_200_000, 0.0);
        pace.cut(at(0), 1_000.0, 0.4, 0.0);
        pace.cut(at(1_700), 1_000.0, 0.15, 0.0);
        pace.cut(at(2_400), 1_000.0, 0.08, 0.0);
        assert_eq!(pace.bps(), 1_600_000);
        pace.cut(at(2_400), 1_000.0, 0.11, 2_000_000.0);
        assert_eq!(pace.bps(), 1_600_000, "the least is higher");
        pace.cut(at(2_400), 1_000.0, 0.11, 1_000_000.0);
        assert_eq!(pace.bps(), 1_000_000);
    }

    #[test]
    fn who_shares_a_link_begins_low_and_grows_nearly_as_others_do() {
        let mut pace = Pace::sharing(100_000_000, 0.0);
        (1..=8).for_each(|half| pace.raise(at(half * 500), 1_000.0));
        assert_eq!((pace.bps() + 1) / 10, 1_600_000, "sixteen times as much in four seconds");
        pace.cut(at(4_100), 1_000.0, 0.5, 0.0);
        assert_eq!((pace.bps() + 1) / 10, 560_000);
        for (from_bps, grown_bps) in [(16e6, 2.5e6), (1e6, 0.5e6)] {
            let mut pace = Pace { bps: from_bps, ..Pace::sharing(100_000_000, 0.0) };
            pace.cut = Some(Cut { at: at(0), from_bps: 1e6, loss: 0.0 });
            pace.cut(at(2_000), 1_000.0, 0.5, 0.0);
            (5..=6).for_each(|half| pace.raise(at(half * 500), 1_000.0));
            assert!((pace.bps - from_bps / 2.0 - grown_bps).abs() < 10.0, "{}", pace.bps);
        }
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
