//! A queue that stands, and what the path has delivered behind it.
//!
//! A path with a queue delivers as much as it can. But a host that is late sends at once what was due, which queues for a moment, and
//! before that nothing arrived. So one measurement behind a queue may tell too little, and only the highest one counts.

use std::time::Duration;

use crate::Instant;

/// Shortest time of a turn. The highest measurement is that of two turns. Hosts are mostly late by no more
/// than this: 20 to 50 ms were seen on a busy machine. Doubled, a path that has become narrower is believed
/// up to 100 ms later.
const SHORTEST_TURN: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub struct Standing {
    /// The time when a queue or marks showed last, and the time when there was no queue.
    congested: Instant,
    empty: Instant,
    /// The highest rates in this turn and in the one before, in bits a second, and when this one began.
    present_bps: f64,
    previous_bps: f64,
    turn: Instant,
}

impl Standing {
    /// Takes in a report: whether there is a queue, whether packets were marked, and what was delivered in a round trip.
    pub fn add(&mut self, now: Instant, is_queued: bool, is_marked: bool, bps: f64, round: Duration) {
        if is_queued || is_marked {
            self.congested = now;
        }
        if !is_queued {
            (self.present_bps, self.previous_bps) = (0.0, 0.0);
            (self.empty, self.turn) = (now, now);
            return;
        }
        if now - self.turn > round.max(SHORTEST_TURN) {
            self.previous_bps = std::mem::replace(&mut self.present_bps, 0.0);
            self.turn = now;
        }
        self.present_bps = self.present_bps.max(bps);
    }

    /// Returns what the path delivers behind the queue, in bits a second. `None` if the queue has not stood for a round trip.
    pub fn delivered_bps(&self, round: Duration) -> Option<f64> {
        let has_stood = self.congested.saturating_duration_since(self.empty) > round;
        has_stood.then_some(self.present_bps.max(self.previous_bps))
    }

    /// Returns for how long no queue and no mark has shown.
    pub fn free(&self, now: Instant) -> Duration {
        now - self.congested
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    const ROUND: Duration = Duration::from_millis(10);

    fn add(standing: &mut Standing, millis: std::ops::Range<u64>, is_queued: bool, bps: f64) -> Option<f64> {
        millis.step_by(5).for_each(|milli| standing.add(at(milli), is_queued, false, bps, ROUND));
        standing.delivered_bps(ROUND)
    }

    #[test]
    fn only_a_queue_that_stands_tells_what_the_path_delivers() {
        let mut standing = Standing::default();
        assert_eq!(add(&mut standing, 0..100, false, 9.0), None);
        assert_eq!(add(&mut standing, 100..110, true, 7.0), None);
        assert_eq!(add(&mut standing, 110..130, true, 8.0), Some(8.0));
        assert_eq!(add(&mut standing, 130..135, false, 8.0), None);
    }

    #[test]
    fn a_pause_of_the_sender_behind_a_queue_is_not_what_the_path_delivers() {
        let mut standing = Standing::default();
        add(&mut standing, 0..5, false, 9.0);
        add(&mut standing, 5..100, true, 9.0);
        assert_eq!(add(&mut standing, 100..140, true, 3.0), Some(9.0));
        assert_eq!(add(&mut standing, 140..300, true, 3.0), Some(3.0), "a path that got narrower is");
        assert_eq!(standing.free(at(305)), Duration::from_millis(10));
    }
}
