//! The rate that the path delivers: the highest one of the last round trips.
//!
//! Rate samples follow draft-ietf-ccwg-bbr ("Estimating Delivery Rate"): what arrived between two messages of the sender, divided by the
//! longer one of the times that they took to leave and to arrive. So packets that a queue releases at once do not count as a high rate, and
//! neither does a super-packet. A sample while the sender had less to send counts only if it is higher.

use std::collections::VecDeque;

/// Number of round trips for which the highest rate is kept. It must be longer than the time between two
/// phases Up, which is eight to thirteen round trips where others do not yield. With ten, each rate that Up
/// had found was forgotten before the next one. Doubled, a receiver behind a path that has become a little
/// narrower tells the former rate for 20 round trips more.
const ROUNDS: u64 = 20;

/// The highest of the rates of the last [`ROUNDS`] rounds, each with its round. Rounds ascend, and rates fall.
#[derive(Debug, Default)]
pub struct Delivery {
    round: u64,
    best: VecDeque<(u64, f64)>,
}

impl Delivery {
    /// Takes the rate of the last round trip, in bits a second.
    pub fn add(&mut self, bps: f64, is_unused: bool) {
        if is_unused && bps <= self.highest() {
            return;
        }
        while self.best.back().is_some_and(|(_, other)| *other <= bps) {
            self.best.pop_back();
        }
        self.best.push_back((self.round, bps));
    }

    /// A round trip is over in which the sender used its rate.
    pub fn end_round(&mut self) {
        self.round += 1;
        while self.best.len() > 1 && self.best[0].0 + ROUNDS < self.round {
            self.best.pop_front();
        }
    }

    /// Returns the highest rate, in bits a second; 0 before the first sample.
    pub fn highest(&self) -> f64 {
        self.best.front().map_or(0.0, |(_, bps)| *bps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_rate_lasts_for_its_rounds() {
        let mut delivery = Delivery::default();
        delivery.add(9.0, false);
        for _ in 0..=ROUNDS {
            delivery.end_round();
            delivery.add(5.0, false);
        }
        assert_eq!(delivery.highest(), 5.0);
        delivery.add(7.0, true);
        delivery.add(1.0, true);
        assert_eq!(delivery.highest(), 7.0, "a sender with nothing to send proves no low rate");
    }
}
