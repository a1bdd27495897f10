//! Describes a feed (interdomain-2013, 4.7.2): objects that come one by one while a session runs, and receivers
//! of which some lose packets. Objects come as a Poisson process, and their sizes follow Pareto's distribution.

use std::time::Duration;

use serde::Deserialize;

use treecast_proto::random::SplitMix64;

use crate::cargo::products::Arrival;

/// An object is at most so many times as large as the smallest: the distribution has no end, and a disk has one.
const LARGEST: f64 = 100.0;

/// The workload of a feed, and the configurations in which it is sent. What a file leaves out is the paper's.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Feed {
    /// The number of objects that come.
    pub objects: u32,
    /// The mean number of objects that come in a second.
    pub per_second: f64,
    /// The shape of the Pareto distribution of the objects' sizes. It must be above 1, so that the sizes have a
    /// mean.
    pub shape: f64,
    /// The mean rates of bytes that are tried, as fractions of the slowest link's rate.
    pub loads: Vec<f64>,
    /// The factors for the retransmission timeout that are tried.
    pub factors: Vec<f64>,
    pub priorities: Vec<Priority>,
}

/// One configuration in which a feed is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Configuration {
    pub load: f64,
    pub factor: f64,
    pub priority: Priority,
}

/// Which packets go first at the sender (`treecast send --priority`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    Multicast,
    Fair,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            objects: 500,
            per_second: 25.0,
            shape: 2.0,
            loads: vec![0.4, 0.8],
            factors: vec![10.0, 50.0],
            priorities: vec![Priority::Fair, Priority::Multicast],
        }
    }
}

impl Feed {
    /// Returns the objects for a load on a link of this rate. The same seed gives the same objects.
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

    /// Returns all configurations, those of one load next to each other, because they share their objects.
    pub fn configurations(&self) -> Vec<Configuration> {
        let with_load = |&load: &f64| {
            self.factors.iter().flat_map(move |&factor| {
                self.priorities.iter().map(move |&priority| Configuration { load, factor, priority })
            })
        };
        self.loads.iter().flat_map(with_load).collect()
    }

    /// Refuses values that no feed can have.
    pub fn check(&self) -> Result<(), String> {
        let within = |name: &str, values: &[f64], low: f64, high: f64| {
            let wrong = values.iter().find(|value| !(low..=high).contains(*value));
            match wrong {
                Some(value) => Err(format!("workload: {name} {value}: expected {low} to {high}")),
                None if values.is_empty() => Err(format!("workload: {name} is empty")),
                None => Ok(()),
            }
        };
        within("objects", &[f64::from(self.objects)], 1.0, 10_000.0)?;
        within("per_second", &[self.per_second], 0.1, 10_000.0)?;
        within("shape", &[self.shape], 1.05, 100.0)?;
        within("loads", &self.loads, 0.001, 10.0)?;
        within("factors", &self.factors, 0.0, 1e6)?;
        if self.priorities.is_empty() { Err("workload: priorities is empty".into()) } else { Ok(()) }
    }
}

impl Priority {
    pub fn name(self) -> &'static str {
        match self {
            Self::Multicast => "multicast",
            Self::Fair => "fair",
        }
    }
}

impl std::fmt::Display for Configuration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "load {} factor {} {}", self.load, self.factor, self.priority.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_have_the_papers_rate_and_sizes() {
        let feed = Feed { objects: 10_000, ..Feed::default() };
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

    #[test]
    fn what_is_left_out_is_the_papers_and_what_cannot_be_is_refused() {
        let feed: Feed = toml::from_str("").unwrap();
        assert_eq!((feed.objects, feed.per_second, feed.configurations().len()), (500, 25.0, 8));
        feed.check().unwrap();
        assert_eq!(feed.configurations()[1].to_string(), "load 0.4 factor 10 multicast");
        let refused = |text: &str| toml::from_str::<Feed>(text).unwrap().check().unwrap_err();
        assert_eq!(refused("shape = 1"), "workload: shape 1: expected 1.05 to 100");
        assert_eq!(refused("loads = []"), "workload: loads is empty");
    }
}
