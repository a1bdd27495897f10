//! The data under way: sent, and not yet behind the message that the last report answers.

use std::{collections::VecDeque, time::Duration};

use crate::Instant;

/// Time within which sent packets are remembered as one moment. Doubled, the amount under way is half as
/// precise, and twice the time is remembered.
const GRAIN: Duration = Duration::from_micros(250);

/// Number of moments that are remembered: a quarter of a second, at least. Beyond that, what a report answers
/// is not known. Doubled, that takes twice the memory and holds for twice the time.
const MOST_MARKS: usize = 1024;

/// Time within which sent packets are one moment where round trips of up to 5 s are remembered. When only a
/// second was remembered, honest receivers behind a queue of 3 s were taken for liars. Doubled, round trips
/// of 10 s are remembered, half as precisely.
const COARSE_GRAIN: Duration = Duration::from_millis(5);

/// Bytes that have left, and bytes that a report has answered.
#[derive(Debug)]
pub struct UnderWay {
    grain: Duration,
    sent: u64,
    answered: u64,
    /// Moments, and what had been sent by then.
    marks: VecDeque<(Instant, u64)>,
}

impl Default for UnderWay {
    fn default() -> Self {
        Self { grain: GRAIN, sent: 0, answered: 0, marks: VecDeque::new() }
    }
}

impl UnderWay {
    /// Remembers round trips of seconds, with less precision.
    pub fn of_long_round_trips() -> Self {
        Self { grain: COARSE_GRAIN, ..Self::default() }
    }

    pub fn sent(&mut self, now: Instant, bytes: u64) {
        self.sent = self.sent.saturating_add(bytes);
        match self.marks.back_mut() {
            Some((at, sent)) if now - *at < self.grain => *sent = self.sent,
            _ => self.marks.push_back((now, self.sent)),
        }
        if self.marks.len() > MOST_MARKS {
            self.marks.pop_front();
        }
    }

    /// A report has come of what was sent a round trip ago, and before.
    pub fn answered(&mut self, now: Instant, round_trip: Duration) {
        while let Some((at, sent)) = self.marks.front()
            && *at + round_trip <= now
        {
            self.answered = *sent;
            self.marks.pop_front();
        }
    }

    /// Returns how much has left, in bytes.
    pub fn sent_bytes(&self) -> u64 {
        self.sent
    }

    /// Returns how much a report has answered, in bytes.
    pub fn answered_bytes(&self) -> u64 {
        self.answered
    }

    /// Returns how much is under way, in bits.
    pub fn bits(&self) -> f64 {
        (self.sent - self.answered) as f64 * 8.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    #[test]
    fn what_was_sent_since_the_answered_message_is_under_way() {
        let mut under_way = UnderWay::default();
        for millis in 0..10 {
            under_way.sent(at(millis), 1_000);
        }
        assert_eq!(under_way.bits(), 80_000.0);
        under_way.answered(at(10), Duration::from_millis(4));
        assert_eq!(under_way.bits(), 24_000.0, "of 7, 8 and 9 ms");
        under_way.answered(at(10), Duration::from_millis(8));
        assert_eq!(under_way.bits(), 24_000.0, "an older report tells nothing new");
    }

    #[test]
    fn moments_are_bounded() {
        let mut under_way = UnderWay::default();
        (0..10_000).for_each(|millis| under_way.sent(at(millis), 1));
        assert_eq!(under_way.marks.len(), MOST_MARKS);
    }
}
