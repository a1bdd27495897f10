//! Decides when a receiver that the sender does not follow may report (RFC 4654, 4.5): after a random time,
//! which is shorter the worse the receiver's path is. So only a few of many receivers report, and the others
//! hear that somebody has reported what they would.

use std::time::Duration;

/// The number of receivers for which the distribution of the random times is made (RFC 4654, 4.5).
const RECEIVERS: f64 = 10_000.0;

/// The share of a round that depends on how badly off a receiver is; the rest is drawn.
const BIASED_SHARE: f64 = 0.25;

/// A receiver with less than half of the rate is as badly off as can be, and one with more than this not at all.
const BIAS_RANGE: std::ops::RangeInclusive<f64> = 0.5..=0.9;

/// A receiver that wants hardly less than another has asked for need not say so.
const TOLERANCE: f64 = 0.1;

/// The length of a feedback round, in multiples of the longest round trip (RFC 4654, 3.4). The report of one
/// receiver reaches the others before most of them would send theirs.
pub const ROUND_TRIPS_A_ROUND: u32 = 6;

/// Round trips of a round for each power of e of the group's size: in each round trip, e^(1.25 / 0.8) = 5 receivers speak at most on
/// average before they hear of each other, whatever the size.
const ROUND_TRIPS_A_POWER: f64 = 0.8;

/// Returns the length of a feedback round of a group whose size is known. RFC 4654 reckons with 10,000 receivers instead.
pub fn round(round_trip: Duration, receivers: u32) -> Duration {
    round_trip.mul_f64(1.0 + ROUND_TRIPS_A_POWER * f64::from(receivers.max(1)).ln())
}

/// Returns how long a receiver of such a group waits before it reports, as in [`delay`].
pub fn delay_in(round_trip: Duration, receivers: u32, ratio: f64, uniform: f64) -> Duration {
    let bias = (ratio.clamp(*BIAS_RANGE.start(), *BIAS_RANGE.end()) - BIAS_RANGE.start())
        / (BIAS_RANGE.end() - BIAS_RANGE.start());
    let power = f64::from(receivers.max(1)).ln();
    let drawn = (power + uniform.clamp(1e-12, 1.0).ln()).max(0.0);
    round_trip.mul_f64(bias.min(1.0) * 0.5 + ROUND_TRIPS_A_POWER * drawn)
}

/// Returns how long a receiver waits before it reports. `ratio` is the rate that the receiver would ask for,
/// divided by the present rate; `uniform` is a random number between 0 and 1.
pub fn delay(round: Duration, ratio: f64, uniform: f64) -> Duration {
    let (worst, best) = (*BIAS_RANGE.start(), *BIAS_RANGE.end());
    let bias = (ratio.clamp(worst, best) - worst) / (best - worst);
    let drawn = (1.0 + uniform.clamp(1e-12, 1.0).ln() / RECEIVERS.ln()).max(0.0);
    round.mul_f64(BIASED_SHARE * bias + (1.0 - BIASED_SHARE) * drawn)
}

/// Whether a receiver can stay silent because another one, which asked for `suppression_bps`, has already said
/// the same.
pub fn is_suppressed(rate_bps: f64, suppression_bps: f64) -> bool {
    rate_bps >= suppression_bps * (1.0 - TOLERANCE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    const ROUND: Duration = Duration::from_millis(600);

    /// The times at which each of so many receivers with this ratio would speak, in order.
    fn delays(receivers: usize, ratio: f64) -> Vec<Duration> {
        let mut random = SplitMix64(7);
        let mut delays: Vec<_> = (0..receivers).map(|_| delay(ROUND, ratio, random.unit())).collect();
        delays.sort_unstable();
        delays
    }

    #[test]
    fn few_of_many_speak_before_they_can_hear_of_each_other() {
        for (receivers, most) in [(1_000, 10), (10_000, 40)] {
            let delays = delays(receivers, 0.7);
            let heard = delays[0] + ROUND / ROUND_TRIPS_A_ROUND;
            let spoken = delays.iter().filter(|delay| **delay < heard).count();
            assert!(spoken <= most, "{spoken} of {receivers}");
            assert!(delays.iter().all(|delay| *delay <= ROUND));
        }
    }

    #[test]
    fn who_is_worse_off_speaks_earlier() {
        let mean = |ratio| delays(1_000, ratio).iter().sum::<Duration>() / 1_000;
        assert!(mean(0.4) < mean(0.7) && mean(0.7) < mean(0.95));
        assert_eq!(mean(0.4), mean(0.5));
    }

    #[test]
    fn what_was_said_is_not_said_again() {
        assert!(is_suppressed(95.0, 100.0) && !is_suppressed(85.0, 100.0));
        assert!(!is_suppressed(5.0, f64::INFINITY));
    }
}
