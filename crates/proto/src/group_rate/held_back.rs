//! Whether the sender itself is what limits it. A host that is late uses its rate now and then, but what arrives then is not what the path
//! delivers.

use std::time::Duration;

use crate::{Instant, usage::Usage};

/// Least time for which a sender that did not use its rate still counts as held back. Reports about the time
/// before still come. Doubled, a sender that is late now and then hardly ever changes its rate.
const SHORTEST: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
pub struct HeldBack {
    pub usage: Usage,
    /// The time when the sender did not use its rate last, if that still counts.
    unused: Option<Instant>,
}

impl HeldBack {
    /// Returns whether the sender does not use its rate, or did not within this time, and no congestion was seen since.
    pub fn look(&mut self, now: Instant, lasts: Duration, is_congested: bool) -> bool {
        if self.usage.is_unused() {
            self.unused = Some(now);
            return true;
        }
        let lasts = lasts.max(SHORTEST);
        self.unused = self.unused.filter(|unused| now - *unused < lasts && !is_congested);
        self.unused.is_some()
    }

    /// The path is what limits the sender after all.
    pub fn end(&mut self) {
        self.unused = None;
    }

    /// Returns what the last look found.
    pub fn is_known(&self) -> bool {
        self.unused.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    const ROUND: Duration = Duration::from_millis(10);

    /// Sends so many bytes in a millisecond at a rate of 1000, and looks.
    fn send(held_back: &mut HeldBack, millis: std::ops::Range<u64>, bytes: u64, is_congested: bool) -> bool {
        for milli in millis.clone() {
            held_back.usage.sent(at(milli), 8e6, bytes, 0);
            held_back.usage.look(at(milli), 8e6, ROUND);
        }
        held_back.look(at(millis.end), ROUND, is_congested)
    }

    #[test]
    fn who_does_not_use_its_rate_is_held_back_for_a_while() {
        let mut held_back = HeldBack::default();
        assert!(!send(&mut held_back, 0..30, 1000, false));
        assert!(send(&mut held_back, 30..60, 100, false));
        assert!(send(&mut held_back, 60..200, 1000, false), "not for long");
        assert!(held_back.is_known());
        assert!(!send(&mut held_back, 200..400, 1000, false));
    }

    #[test]
    fn congestion_ends_it() {
        let mut held_back = HeldBack::default();
        assert!(send(&mut held_back, 0..60, 100, true));
        assert!(!send(&mut held_back, 60..100, 1000, true));
    }
}
