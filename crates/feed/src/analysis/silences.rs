//! Silence periods: the times between two consecutive products (2.2.1 and 2.2.2).

use serde::Serialize;
use treecast_measure::date;

/// The silences of a feed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Silences {
    /// The number of times between two consecutive products.
    pub intervals: u64,
    pub over_1_s: u64,
    pub over_60_s: u64,
    pub over_300_s: u64,
    /// The share of intervals that are longer than a second, 0 to 1.
    pub share_over_1_s: f64,
    /// The means for a day with products.
    pub intervals_a_day: f64,
    pub over_60_s_a_day: f64,
    pub over_300_s_a_day: f64,
    /// The longest interval, in seconds, and the time at which it began. Zero and empty if there is none.
    pub longest_seconds: f64,
    pub longest_began: String,
}

#[derive(Debug, Default)]
pub(super) struct Counter {
    latest_us: Option<i64>,
    intervals: u64,
    /// Intervals longer than each of [`LIMITS_US`].
    over: [u64; 3],
    longest_us: i64,
    longest_began_us: i64,
}

const LIMITS_US: [i64; 3] = [1_000_000, 60_000_000, 300_000_000];

impl Counter {
    /// Adds a product. Returns the beginning and the end of the silence before it, if it was longer than a minute. A
    /// product that is older than one before it ends no silence.
    pub fn add(&mut self, at_us: i64) -> Option<(i64, i64)> {
        let latest = self.latest_us.replace(self.latest_us.map_or(at_us, |latest| latest.max(at_us)))?;
        let interval = at_us.saturating_sub(latest).max(0);
        self.intervals += 1;
        for (count, limit) in self.over.iter_mut().zip(LIMITS_US) {
            *count += u64::from(interval > limit);
        }
        if interval > self.longest_us {
            (self.longest_us, self.longest_began_us) = (interval, latest);
        }
        (interval > LIMITS_US[1]).then_some((latest, at_us))
    }

    pub fn finish(&self, days: usize) -> Silences {
        let [over_1_s, over_60_s, over_300_s] = self.over;
        let a_day = |count: u64| count as f64 / days.max(1) as f64;
        let began = date::time(self.longest_began_us.div_euclid(1_000_000));
        Silences {
            intervals: self.intervals,
            over_1_s,
            over_60_s,
            over_300_s,
            share_over_1_s: over_1_s as f64 / (self.intervals as f64).max(1.0),
            intervals_a_day: a_day(self.intervals),
            over_60_s_a_day: a_day(over_60_s),
            over_300_s_a_day: a_day(over_300_s),
            longest_seconds: self.longest_us as f64 / 1e6,
            longest_began: if self.longest_us > 0 { began } else { String::new() },
        }
    }
}
