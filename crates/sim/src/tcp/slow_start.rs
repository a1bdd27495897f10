//! Ends slow start without a loss: HyStart (Ha and Rhee, 2011) as in Linux, without pacing.

use std::time::Duration;

use treecast_proto::Instant;

/// The smallest window in packets for which HyStart draws conclusions.
const LEAST_WINDOW: f64 = 16.0;

/// The longest gap between two acknowledgements of one train.
const TRAIN_GAP: Duration = Duration::from_millis(2);

/// The number of samples after which the shortest round trip of a round is known.
const SAMPLES: u32 = 8;

/// The bounds of the extra delay that shows a queue. Within them it is an eighth of the shortest round trip.
const LEAST_QUEUE: Duration = Duration::from_millis(4);
const MOST_QUEUE: Duration = Duration::from_millis(16);

#[derive(Debug)]
pub struct SlowStart {
    /// The present round: its begin, the packet that ends it, and the last acknowledgement of its train.
    began: Instant,
    ends_behind: u64,
    train: Instant,
    shortest: Duration,
    samples: u32,
}

impl SlowStart {
    pub fn new(now: Instant) -> Self {
        Self { began: now, ends_behind: 0, train: now, shortest: Duration::MAX, samples: 0 }
    }

    pub fn measured(&mut self, round_trip: Duration) {
        self.samples += 1;
        self.shortest = self.shortest.min(round_trip);
    }

    /// Whether slow start is over. `last` is the packet just acknowledged, `next` the next one to be sent, and
    /// `shortest` the shortest round trip so far.
    pub fn is_over(&mut self, now: Instant, last: u64, next: u64, window: f64, shortest: Duration) -> bool {
        if last >= self.ends_behind {
            *self = Self { ends_behind: next, ..Self::new(now) };
        }
        if window < LEAST_WINDOW {
            return false;
        }
        if now.saturating_duration_since(self.train) <= TRAIN_GAP {
            self.train = now;
            if now.saturating_duration_since(self.began) > shortest / 2 {
                return true;
            }
        }
        self.samples >= SAMPLES
            && self.shortest > shortest.saturating_add((shortest / 8).clamp(LEAST_QUEUE, MOST_QUEUE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(40);

    /// Packets acknowledged one by one with this gap, until slow start is over.
    fn packets_until_over(gap: Duration, round_trip: Duration) -> Option<u64> {
        let mut slow_start = SlowStart::new(Instant::ZERO);
        (1..1_000).find(|number| {
            let now = Instant::ZERO + gap * *number as u32;
            slow_start.measured(round_trip);
            slow_start.is_over(now, *number, 2_000, 20.0, ROUND_TRIP)
        })
    }

    #[test]
    fn a_train_of_half_a_round_trip_ends_it() {
        assert_eq!(packets_until_over(Duration::from_millis(1), ROUND_TRIP), Some(22));
        assert_eq!(packets_until_over(Duration::from_millis(3), ROUND_TRIP), None);
    }

    #[test]
    fn a_queue_ends_it() {
        let apart = Duration::from_millis(3);
        assert_eq!(packets_until_over(apart, Duration::from_millis(44)), None);
        assert!(packets_until_over(apart, Duration::from_millis(46)).is_some());
    }
}
