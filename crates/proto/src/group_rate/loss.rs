//! The rule that tells which losses are congestion.
//!
//! BBR bears losses of 2 % in one round trip (draft-ietf-ccwg-bbr, `BBR.LossThresh`). Random losses of 2 % are more than that in every
//! second round trip. So two averages are kept: of all losses, and of those that came without a queue, which are chance.

use std::time::Duration;

/// Average share of lost packets, 0 to 1, above which losses are congestion, with or without a queue. It
/// bears random losses of 2 %, which exceed BBR's 2 % in every second round trip (`BBR.LossThresh`). Doubled,
/// 6 % of the packets may be lost for long where a full buffer is too short to show as a queue.
const BEARABLE: f64 = 0.03;

/// Number of packets that the average of all losses looks back on. Fewer make a burst look like congestion.
/// Doubled, congestion without a queue is answered half as fast: the last 2,000 packets take 5 s at 5 Mbit/s.
const PACKETS: f64 = 2_000.0;
/// Number of packets that the average without a queue looks back on. It is ten times as long, so that a few
/// round trips hardly move it. Doubled, a sender whose path begins to lose packets at random yields to them
/// for longer.
const PACKETS_OF_CHANCE: f64 = 20_000.0;

/// Number of packets over which losses with a queue are added up, because a round trip of few packets tells
/// little. Doubled, former losses count for twice as many packets while a queue stands.
const PACKETS_OF_QUEUE: f64 = 400.0;

/// Highest weight of a round trip in the average of all losses, 0 to 1. Even a round trip of many packets may
/// have lost one burst. Doubled, such a burst moves the average twice as far.
const MOST_WEIGHT: f64 = 0.1;
/// Highest weight of a round trip in the average without a queue, 0 to 1, once it has 50 of them. Doubled,
/// one burst moves that average twice as far.
const MOST_WEIGHT_OF_CHANCE: f64 = 0.02;

/// Number of standard deviations above chance from which losses are a queue's. Fewer make a lone sender yield
/// to random losses. Doubled, the sender yields to others later on paths that lose packets by chance.
const DEVIATIONS: f64 = 4.0;
/// Mean number of packets that are lost together by chance. Losses come in pairs, at least. Doubled, the
/// bound above chance is 1.4 times as wide.
const BURST: f64 = 2.0;
/// Number of packets above that bound, besides. It counts where few packets are expected to be lost. Doubled,
/// two losses more in a round trip are taken for chance.
const MORE_PACKETS: f64 = 2.0;

/// Highest average share of lost packets, 0 to 1, that is taken for chance. Without it, a receiver that lies
/// could name any loss as chance. Doubled, such a lie could hide losses of 12 %.
const MOST_CHANCE: f64 = BEARABLE * 2.0;

/// Share of packets lost by chance, 0 to 1, below which every loss with a queue counts. Doubled, a sender
/// whose path loses almost one packet in a thousand at random yields to each of these that comes with a
/// queue.
const NO_SHARE: f64 = 0.0005;

/// Share of the longest queue, 0 to 1, that a queue must have reached to overflow. Higher values overlook
/// losses once a queue was longer. Doubled, only a queue as long as the longest one loses packets.
const NEAR_FULL: f64 = 0.5;
/// Share of the longest queue that is left with each report. Half of it is gone after 69 reports; with twice
/// the decay, after 34. A slower decay overlooks losses for longer when the buffer has become shorter.
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
