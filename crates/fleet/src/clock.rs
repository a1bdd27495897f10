//! Measures how far the clock of an agent is from the manager's, by questions and answers (RFC 5905, section 8).
//!
//! Both clocks are monotonic: neither jumps when somebody sets the time of day. Of several exchanges, the one with the shortest round
//! trip tells the most: half of its round trip bounds the error.

use std::{collections::VecDeque, time::Duration};

/// The number of exchanges that are kept. With one in 10 s, these are of the last minute and a half: two crystals drift apart by less
/// than 10 ms meanwhile, even at 100 ppm.
const KEPT: usize = 8;

/// The times of one question and its answer. The manager's are by its clock, the agent's by the agent's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    pub asked: Duration,
    pub heard: Duration,
    pub answered: Duration,
    pub came: Duration,
}

/// The agent's clock, seen from the manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// The agent's clock minus the manager's, in nanoseconds.
    pub ahead_ns: i64,
    /// The largest error of that, in nanoseconds.
    pub uncertainty_ns: u64,
}

/// What the exchanges with one agent have shown.
#[derive(Debug, Clone, Default)]
pub struct Clock(VecDeque<Offset>);

impl Clock {
    /// Takes in an exchange. One whose times cannot be is passed over.
    pub fn note(&mut self, exchange: &Exchange) {
        let Some(offset) = exchange.offset() else { return };
        self.0.truncate(KEPT - 1);
        self.0.push_front(offset);
    }

    /// Returns the best that is known; `None` before the first exchange.
    pub fn offset(&self) -> Option<Offset> {
        self.0.iter().copied().min_by_key(|offset| offset.uncertainty_ns)
    }
}

impl Exchange {
    fn offset(&self) -> Option<Offset> {
        let [asked, heard, answered, came] =
            [self.asked, self.heard, self.answered, self.came].map(|time| time.as_nanos() as i128);
        let round_trip = (came - asked) - (answered - heard);
        let ahead = ((heard - asked) + (answered - came)) / 2;
        Some(Offset {
            ahead_ns: i64::try_from(ahead).ok()?,
            uncertainty_ns: u64::try_from(round_trip).ok()?.div_ceil(2),
        })
    }
}

impl Offset {
    /// Converts a time of the manager's clock into the agent's.
    pub fn at_agent(&self, manager: Duration) -> Duration {
        shifted(manager, self.ahead_ns)
    }

    /// Converts a time of the agent's clock into the manager's.
    pub fn at_manager(&self, agent: Duration) -> Duration {
        shifted(agent, self.ahead_ns.saturating_neg())
    }
}

fn shifted(time: Duration, by_ns: i64) -> Duration {
    match u64::try_from(by_ns) {
        Ok(later) => time.saturating_add(Duration::from_nanos(later)),
        Err(_) => time.saturating_sub(Duration::from_nanos(by_ns.unsigned_abs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(times: [u64; 4]) -> Exchange {
        let [asked, heard, answered, came] = times.map(Duration::from_millis);
        Exchange { asked, heard, answered, came }
    }

    #[test]
    fn the_shortest_round_trip_tells_the_offset() {
        let mut clock = Clock::default();
        assert_eq!(clock.offset(), None);
        // The agent is 1,000 ms ahead. Of the first exchange, the answer took 30 ms longer than the question.
        clock.note(&exchange([0, 1_010, 1_020, 60]));
        assert_eq!(clock.offset(), Some(Offset { ahead_ns: 985_000_000, uncertainty_ns: 25_000_000 }));
        clock.note(&exchange([100, 1_101, 1_111, 112]));
        let best = clock.offset().unwrap();
        assert_eq!(best, Offset { ahead_ns: 1_000_000_000, uncertainty_ns: 1_000_000 });
        assert_eq!(best.at_agent(Duration::from_secs(3)), Duration::from_secs(4));
        assert_eq!(best.at_manager(Duration::from_secs(4)), Duration::from_secs(3));
        // A better one is forgotten after a while, because clocks drift.
        (0..KEPT).for_each(|_| clock.note(&exchange([0, 1_010, 1_020, 60])));
        assert_eq!(clock.offset().unwrap().uncertainty_ns, 25_000_000);
    }

    #[test]
    fn impossible_times_are_passed_over() {
        let mut clock = Clock::default();
        clock.note(&exchange([0, 10, 1_000_000, 20]));
        clock.note(&Exchange { heard: Duration::MAX, ..exchange([0, 0, 0, 1]) });
        assert_eq!(clock.offset(), None);
    }
}
