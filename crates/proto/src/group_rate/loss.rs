//! When losses show congestion by their number alone.
//!
//! draft-ietf-ccwg-bbr (5.5.10.2, `BBR.LossThresh`) bears 2 % in one round trip. Random losses of 2 % are more than that in every second
//! round trip. So what counts is the share in several round trips, and how far it could be above 2 % by chance.

/// The share of packets that may be lost for other reasons than congestion.
pub const BEARABLE: f64 = 0.02;

/// The packets that one cause loses together, on average. Radio links lose several at once.
const BURST: f64 = 8.0;

/// How many standard deviations a share is above the bearable one before it counts.
const DEVIATIONS: f64 = 3.0;

/// Whether so many lost packets of so many are more than what chance makes of [`BEARABLE`].
pub fn is_excessive(share: f64, packets: f64) -> bool {
    let variance = BEARABLE * (1.0 - BEARABLE) * BURST / packets.max(1.0);
    share > BEARABLE + DEVIATIONS * variance.sqrt()
}

/// The weight of a new share in the average.
const WEIGHT: f64 = 0.05;

/// A share that is so many times the average is no chance, ...
const FACTOR: f64 = 3.0;

/// ... if it is so many packets more. Below the second share, no loss is chance.
const PACKETS: f64 = 2.0;
const NO_SHARE: f64 = 0.0005;

/// The share of packets that get lost without a queue, on average.
#[derive(Debug, Default)]
pub struct RandomLoss(f64);

impl RandomLoss {
    /// Takes the share of a round trip in which there was no queue.
    pub fn add(&mut self, share: f64) {
        self.0 += (share - self.0) * WEIGHT;
    }

    /// Whether a queue has lost some of so many packets.
    pub fn is_exceeded(&self, share: f64, packets: f64) -> bool {
        let chance = if self.0 < NO_SHARE { 0.0 } else { self.0 * FACTOR + PACKETS / packets.max(1.0) };
        share > chance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_packets_prove_little() {
        assert!(!is_excessive(0.05, 100.0) && !is_excessive(0.03, 1_000.0) && is_excessive(0.035, 10_000.0));
        assert!(is_excessive(0.5, 20.0) && !is_excessive(1.0, 1.0));
    }

    #[test]
    fn what_is_lost_without_a_queue_is_expected_with_one() {
        let mut random = RandomLoss::default();
        assert!(random.is_exceeded(0.001, 100.0) && !random.is_exceeded(0.0, 100.0));
        (0..200).for_each(|_| random.add(0.01));
        assert!(!random.is_exceeded(0.03, 100.0) && random.is_exceeded(0.06, 100.0));
    }
}
