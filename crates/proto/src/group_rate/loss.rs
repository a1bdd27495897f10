//! Which losses are congestion.
//!
//! BBR bears losses of 2 % in one round trip (draft-ietf-ccwg-bbr, `BBR.LossThresh`). Random losses of 2 % are more than that in every
//! second round trip. So two averages are kept: of all losses, and of those that came without a queue, which are chance.

use std::time::Duration;

/// The share of packets, on average, above which losses are congestion, with or without a queue.
const BEARABLE: f64 = 0.03;

/// The number of packets that the average of all losses looks back on, and that of chance.
const PACKETS: f64 = 2_000.0;
const PACKETS_OF_CHANCE: f64 = 20_000.0;

/// A round trip of few packets tells little: so many count, as long as a queue stands.
const PACKETS_OF_QUEUE: f64 = 400.0;

/// The highest weight of a new share, in parts of the whole: even a round trip of many packets may have lost one burst.
const MOST_WEIGHT: f64 = 0.1;
const MOST_WEIGHT_OF_CHANCE: f64 = 0.02;

/// A queue has lost some if so many standard deviations more got lost than by chance, and so many packets. Losses come in pairs, at least.
const DEVIATIONS: f64 = 4.0;
const BURST: f64 = 2.0;
const MORE_PACKETS: f64 = 2.0;

/// The highest share that is taken for chance.
const MOST_CHANCE: f64 = BEARABLE * 2.0;

/// Where fewer than this share get lost by chance, no loss with a queue is chance.
const NO_SHARE: f64 = 0.0005;

/// A queue that overflows is longer than this share of the longest one, of which so much is left with each report.
const NEAR_FULL: f64 = 0.5;
const LONGEST_DECAY: f64 = 0.99;

/// The average shares of packets that get lost on a path, 0 to 1.
#[derive(Debug, Default)]
pub struct Losses {
    all: f64,
    /// The average without a queue, and the number of shares in it.
    chance: f64,
    shares: f64,
    /// Packets that were lost and sent with a queue, lately.
    queued: (f64, f64),
    /// The longest queue lately.
    longest_queue: Duration,
}

impl Losses {
    /// Takes the share of packets that were lost of so many.
    pub fn add(&mut self, share: f64, packets: f64, is_queued: bool) {
        self.all += (share - self.all) * (packets / PACKETS).min(MOST_WEIGHT);
        if is_queued {
            let rest = 1.0 - (packets / PACKETS_OF_QUEUE).min(1.0);
            self.queued = (self.queued.0 * rest + share * packets, self.queued.1 * rest + packets);
        } else {
            self.queued = (0.0, 0.0);
            self.shares += 1.0;
            let weight = (packets / PACKETS_OF_CHANCE).min(MOST_WEIGHT_OF_CHANCE).max(1.0 / self.shares);
            // What is not borne is no chance, whatever a receiver says.
            self.chance = (self.chance + (share - self.chance) * weight).min(MOST_CHANCE);
        }
    }

    pub fn saw_queue(&mut self, queue: Duration) {
        self.longest_queue = queue.max(self.longest_queue.mul_f64(LONGEST_DECAY));
    }

    /// Whether so many are lost that the path is congested, even if no queue shows.
    pub fn is_excessive(&self) -> bool {
        self.all > BEARABLE
    }

    /// The losses until now are answered.
    pub fn forget(&mut self) {
        self.all = self.all.min(self.chance).min(BEARABLE / 2.0);
        self.queued = (0.0, 0.0);
    }

    /// Whether this queue has lost some of so many packets.
    pub fn are_of_queue(&self, share: f64, packets: f64, queue: Duration) -> bool {
        if queue < self.longest_queue.mul_f64(NEAR_FULL) {
            return false;
        }
        if self.chance < NO_SHARE {
            return share > 0.0;
        }
        let is_more = |lost: f64, packets: f64| {
            let expected = self.chance * packets;
            lost > expected + DEVIATIONS * (expected * BURST).sqrt() + MORE_PACKETS
        };
        is_more(share * packets, packets) || is_more(self.queued.0, self.queued.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: Duration = Duration::from_millis(10);

    #[test]
    fn losses_without_a_queue_are_borne_up_to_three_percent() {
        let mut losses = Losses::default();
        (0..1_000).for_each(|round| losses.add(if round % 2 == 0 { 0.04 } else { 0.0 }, 100.0, false));
        assert!(!losses.is_excessive(), "two percent on average: {losses:?}");
        (0..200).for_each(|_| losses.add(0.05, 100.0, false));
        assert!(losses.is_excessive());
        losses.forget();
        assert!(!losses.is_excessive());
    }

    #[test]
    fn what_is_lost_without_a_queue_is_expected_with_one() {
        let mut losses = Losses::default();
        assert!(losses.are_of_queue(0.001, 100.0, QUEUE) && !losses.are_of_queue(0.0, 100.0, QUEUE));
        (0..500).for_each(|_| losses.add(0.01, 100.0, false));
        assert!(
            !losses.are_of_queue(0.03, 100.0, QUEUE) && losses.are_of_queue(0.1, 100.0, QUEUE),
            "{losses:?}"
        );
        assert!(
            !losses.are_of_queue(0.01, 10_000.0, QUEUE) && losses.are_of_queue(0.017, 10_000.0, QUEUE),
            "{losses:?}"
        );
    }

    #[test]
    fn a_queue_that_is_far_from_full_loses_nothing() {
        let mut losses = Losses::default();
        losses.saw_queue(QUEUE * 4);
        assert!(!losses.are_of_queue(0.1, 100.0, QUEUE) && losses.are_of_queue(0.1, 100.0, QUEUE * 3));
        (0..200).for_each(|_| losses.saw_queue(QUEUE));
        assert!(losses.are_of_queue(0.1, 100.0, QUEUE), "the long one was long ago");
    }
}
