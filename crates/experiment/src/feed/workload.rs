//! When objects come, and how large they are: a Poisson process, and Pareto's distribution.

use std::time::Duration;

use super::Feed;
use crate::schedule::SplitMix64;

/// An object is at most so many times as large as the smallest: the distribution has no end, and a disk has one.
const LARGEST: f64 = 100.0;

/// An object that is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    pub at: Duration,
    pub size_bytes: u64,
}

impl Feed {
    /// The objects of one load on a link of this rate. The same seed gives the same.
    pub fn arrivals(&self, load: f64, link_rate_bps: u64, seed: u64) -> Vec<Arrival> {
        let mean_bytes = load * link_rate_bps as f64 / 8.0 / self.per_second;
        let smallest = mean_bytes * (self.shape - 1.0) / self.shape;
        let mut draws = SplitMix64(seed);
        let mut at = 0.0;
        (0..self.objects)
            .map(|_| {
                at -= (1.0 - draws.unit()).ln() / self.per_second;
                let times = (1.0 - draws.unit()).powf(-1.0 / self.shape).min(LARGEST);
                let size_bytes = ((smallest * times) as u64).max(1);
                Arrival { at: Duration::from_secs_f64(at), size_bytes }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::FeedKeys;

    #[test]
    fn arrivals_have_the_papers_rate_and_sizes() {
        let mut feed = FeedKeys::default().complete().unwrap();
        feed.objects = 10_000;
        let arrivals = feed.arrivals(0.4, 100_000_000, 7);
        let smallest = arrivals.iter().map(|arrival| arrival.size_bytes).min().unwrap();
        assert!((100_000..101_000).contains(&smallest), "k is 100 kB: {smallest}");
        let mean = arrivals.iter().map(|arrival| arrival.size_bytes).sum::<u64>() / 10_000;
        assert!((180_000..215_000).contains(&mean), "{mean}");
        let last = arrivals.last().unwrap().at.as_secs_f64();
        assert!((380.0..420.0).contains(&last), "25 a second: {last}");
        assert!(arrivals.is_sorted_by_key(|arrival| arrival.at));
        assert_eq!(feed.arrivals(0.4, 100_000_000, 7), arrivals);
        assert_ne!(feed.arrivals(0.4, 100_000_000, 8), arrivals);
    }
}
