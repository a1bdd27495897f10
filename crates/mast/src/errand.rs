//! Something that is tried again and again until it succeeds, and then from time to time.

use std::time::Duration;

const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The time of the next try. Waits double from 500 ms to 30 s.
#[derive(Debug, Clone, Copy)]
pub struct Errand {
    due: Duration,
    wait: Duration,
    /// The number of tries since the last success.
    pub tries: u32,
}

impl Errand {
    /// An errand that is due at once.
    pub fn at(now: Duration) -> Self {
        Self { due: now, wait: FIRST_WAIT, tries: 0 }
    }

    /// The time of the next try.
    pub fn due(&self) -> Duration {
        self.due
    }

    /// Takes note of a try. Returns whether it was due.
    pub fn try_now(&mut self, now: Duration) -> bool {
        let is_due = now >= self.due;
        if is_due {
            self.tries = self.tries.saturating_add(1);
            self.due = now + self.wait;
            self.wait = (self.wait * 2).min(LONGEST_WAIT);
        }
        is_due
    }

    /// Takes note of a success. The next try is due after `rest`.
    pub fn done(&mut self, now: Duration, rest: Duration) {
        *self = Self { due: now + rest, ..Self::at(now) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_until_a_success() {
        let mut errand = Errand::at(Duration::ZERO);
        let mut tried = Vec::new();
        for millis in (0..5_000).step_by(100) {
            if errand.try_now(Duration::from_millis(millis)) {
                tried.push(millis);
            }
        }
        assert_eq!((tried, errand.tries), (vec![0, 500, 1500, 3500], 4));
        errand.done(Duration::from_secs(5), Duration::from_secs(10));
        assert_eq!((errand.due(), errand.tries), (Duration::from_secs(15), 0));
    }
}
