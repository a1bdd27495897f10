//! Measures how much of the rate was used, and for what.

use std::time::Duration;

use crate::Instant;

/// The share of what the rate allows, 0 to 1, below which a sender is held back by something else.
const USED_SHARE: f64 = 0.8;

/// Retransmissions are at most the half of what is sent while there is something for the group.
const MOST_SHARE: f64 = 2.0;

#[derive(Debug, Default)]
pub struct Usage {
    /// The time until which `allowed_bits` is added up, and the time since which it is.
    until: Option<Instant>,
    since: Instant,
    allowed_bits: f64,
    group_bits: f64,
    repair_bits: f64,
    /// Whether the rate was not used up in the last whole round trip.
    is_unused: bool,
    share: Option<f64>,
}

impl Usage {
    /// Takes note of bytes that have left while this was the rate.
    pub fn sent(&mut self, now: Instant, rate_bps: f64, group_bytes: u64, repair_bytes: u64) {
        self.advance(now, rate_bps);
        self.group_bits += group_bytes as f64 * 8.0;
        self.repair_bits += repair_bytes as f64 * 8.0;
    }

    /// Computes the use of the rate anew when a round trip is over.
    pub fn look(&mut self, now: Instant, rate_bps: f64, round_trip: Duration) {
        self.advance(now, rate_bps);
        if now.saturating_duration_since(self.since) < round_trip {
            return;
        }
        let all = self.group_bits + self.repair_bits;
        // More retransmissions leave only where there was not more for the group: its packets were then too few to tell what
        // the path bears (RFC 5348, 4.3 and 8.2.1: an interval that was limited by data).
        self.is_unused = all.min(self.group_bits * MOST_SHARE) < self.allowed_bits * USED_SHARE;
        if self.group_bits > 0.0 {
            self.share = Some((all / self.group_bits).min(MOST_SHARE));
        }
        (self.allowed_bits, self.group_bits, self.repair_bits) = (0.0, 0.0, 0.0);
        self.since = now;
    }

    pub fn is_unused(&self) -> bool {
        self.is_unused
    }

    /// Returns all that is sent as a multiple of what is sent to the group.
    pub fn share(&self) -> f64 {
        self.share.unwrap_or(1.0)
    }

    fn advance(&mut self, now: Instant, rate_bps: f64) {
        let until = *self.until.get_or_insert_with(|| {
            self.since = now;
            now
        });
        self.allowed_bits += rate_bps * now.saturating_duration_since(until).as_secs_f64();
        self.until = Some(now.max(until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(10);

    fn after(group_bytes: u64, repair_bytes: u64) -> Usage {
        let mut usage = Usage::default();
        for millis in 0..=20 {
            let now = Instant::ZERO + Duration::from_millis(millis);
            usage.sent(now, 8e6, group_bytes, repair_bytes);
            usage.look(now, 8e6, ROUND_TRIP);
        }
        usage
    }

    #[test]
    fn what_is_used_and_for_what_is_known_after_a_round_trip() {
        assert!(!after(1000, 0).is_unused() && !after(500, 500).is_unused() && after(300, 300).is_unused());
        assert_eq!((after(1000, 0).share(), after(500, 250).share(), after(1, 999).share()), (1.0, 1.5, 2.0));
        assert!(after(0, 1000).is_unused() && after(300, 700).is_unused() && !after(450, 550).is_unused());
        assert_eq!(after(0, 1000).share(), 1.0);
    }
}
