//! The least of a quantity over a span of time, kept as the least of each of its parts.

use std::{collections::VecDeque, time::Duration};

use crate::Instant;

/// Number of parts of the span. The least is forgotten at most one part too late, which is 1.5 s. Doubled,
/// that is half as much, and twice as many values are kept.
const PARTS: u32 = 20;

/// The least value of the last [`Least::SPAN`], with the time when it was seen.
#[derive(Debug, Default)]
pub struct Least {
    /// The least value of each part and when it was seen, oldest first.
    parts: VecDeque<Seen>,
    /// The time when the last part began.
    began: Instant,
}

/// A value and the time when it was seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    pub value: f64,
    pub at: Instant,
}

impl Least {
    /// Time after which a value is forgotten. A competitor may keep the queue from emptying for this long.
    /// Doubled, a path that has become longer, by another route, counts as queued for 30 s more.
    pub const SPAN: Duration = Duration::from_secs(30);

    pub fn add(&mut self, now: Instant, value: f64) {
        let seen = Seen { value, at: now };
        match self.parts.back_mut() {
            Some(last) if now.saturating_duration_since(self.began) < Self::SPAN / PARTS => {
                if value <= last.value {
                    *last = seen;
                }
            }
            _ => {
                self.began = now;
                self.parts.push_back(seen);
            }
        }
        while self.parts.len() > 1 && now.saturating_duration_since(self.parts[0].at) > Self::SPAN {
            self.parts.pop_front();
        }
    }

    pub fn forget(&mut self) {
        self.parts.clear();
    }

    /// The least value of each part, oldest first.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = Seen> + ExactSizeIterator + '_ {
        self.parts.iter().copied()
    }

    /// Returns the least value, or none before the first one.
    pub fn least(&self) -> Option<f64> {
        self.parts().map(|seen| seen.value).min_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    #[test]
    fn the_least_is_kept_for_the_span_and_then_forgotten() {
        let mut least = Least::default();
        assert_eq!(least.least(), None);
        least.add(at(0), 5.0);
        (1..=29).for_each(|second| least.add(at(second * 1000), 9.0));
        assert_eq!(least.least(), Some(5.0));
        (30..=40).for_each(|second| least.add(at(second * 1000), 8.0));
        assert_eq!(least.least(), Some(8.0));
        assert!(least.parts().len() <= PARTS as usize + 2);
    }
}
