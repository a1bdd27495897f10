//! Objects that come one by one while a session runs, and receivers of which some lose packets
//! (interdomain-2013, 4.7.2).

mod products;
mod workload;

use std::str::FromStr;

use serde::Deserialize;

use crate::filing::Filing;

pub use products::{ObjectTime, Products};

/// A feed as an experiment file describes it; what it leaves out is the paper's.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedKeys {
    objects: Option<u32>,
    per_second: Option<f64>,
    shape: Option<f64>,
    loads: Option<Vec<f64>>,
    factors: Option<Vec<f64>>,
    priorities: Option<Vec<Priority>>,
}

/// The workload of a feed, and the configurations in which it is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Feed {
    /// How many objects come.
    pub objects: u32,
    /// The mean rate of a Poisson process.
    pub per_second: f64,
    /// Of the Pareto distribution of their sizes; above 1, so that they have a mean.
    pub shape: f64,
    /// The mean rate of bytes, as shares of the slowest link's rate.
    pub loads: Vec<f64>,
    /// Retransmission timeout factors.
    pub factors: Vec<f64>,
    pub priorities: Vec<Priority>,
}

/// One configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Configuration {
    pub load: f64,
    pub factor: f64,
    pub priority: Priority,
}

/// Who goes first at the sender (`treecast send --priority`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Priority {
    Multicast,
    Fair,
}

impl FeedKeys {
    /// The feed, its values checked.
    pub fn complete(self) -> Result<Feed, String> {
        let feed = Feed {
            objects: self.objects.unwrap_or(500),
            per_second: self.per_second.unwrap_or(25.0),
            shape: self.shape.unwrap_or(2.0),
            loads: self.loads.unwrap_or_else(|| vec![0.4, 0.8]),
            factors: self.factors.unwrap_or_else(|| vec![10.0, 50.0]),
            priorities: self.priorities.unwrap_or_else(|| vec![Priority::Fair, Priority::Multicast]),
        };
        feed.check()?;
        Ok(feed)
    }
}

impl Feed {
    /// All configurations, those of one load together: they share their objects.
    pub fn configurations(&self) -> Vec<Configuration> {
        let with_load = |&load: &f64| {
            self.factors.iter().flat_map(move |&factor| {
                self.priorities.iter().map(move |&priority| Configuration { load, factor, priority })
            })
        };
        self.loads.iter().flat_map(with_load).collect()
    }

    fn check(&self) -> Result<(), String> {
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

impl FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "multicast" => Ok(Self::Multicast),
            "fair" => Ok(Self::Fair),
            _ => Err(format!("unknown priority `{text}`: expected multicast or fair")),
        }
    }
}

impl TryFrom<String> for Priority {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// The measures of a feed, with their units.
pub const MEASURES: &[(&str, &str)] =
    &[("robustness", ""), ("throughput", "bit/s"), ("objects", ""), ("have", ""), ("object_time", "s")];

/// Only objects larger than this, in bytes, count for the throughput: for smaller ones a timer's error is too large a part.
const MEASURED_FROM_BYTES: u64 = 500_000;

/// Robustness and throughput of equation 4.2: the share of their objects that the slow receivers have, and the mean over fast
/// receivers and large objects of size divided by time, in bits a second. Each receiver says whether it is a slow one.
pub fn equation_4_2(objects: u32, receivers: &[(bool, &[ObjectTime])]) -> (Option<f64>, Option<f64>) {
    let slow: Vec<_> = receivers.iter().filter(|(is_slow, _)| *is_slow).collect();
    let have: usize = slow.iter().map(|(_, have)| have.len()).sum();
    let robustness =
        (!slow.is_empty() && objects > 0).then(|| have as f64 / (slow.len() as f64 * f64::from(objects)));
    let fast = receivers.iter().filter(|(is_slow, _)| !is_slow).flat_map(|(_, have)| *have);
    let large = fast.filter(|object| object.size_bytes > MEASURED_FROM_BYTES && !object.taken.is_zero());
    let rates: Vec<f64> =
        large.map(|object| object.size_bytes as f64 * 8.0 / object.taken.as_secs_f64()).collect();
    let mean = (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64);
    (robustness, mean)
}

/// What is filed of a run. `slow` are the receivers that lose packets.
pub fn filing(feed: &Feed, slow: &[String], receivers: &[(String, &[ObjectTime])]) -> Filing {
    let mut filing = Filing::default();
    filing.run("objects", f64::from(feed.objects), "");
    let all: Vec<(bool, &[ObjectTime])> =
        receivers.iter().map(|(name, have)| (slow.contains(name), *have)).collect();
    let (robustness, throughput_bps) = equation_4_2(feed.objects, &all);
    if let Some(robustness) = robustness {
        filing.run("robustness", robustness, "");
    }
    match throughput_bps {
        Some(bps) => filing.run("throughput", bps, "bit/s"),
        None => filing.lacking(None, "throughput", "bit/s", "no fast receiver has a large object"),
    }
    for (name, have) in receivers {
        filing.node(name, "have", have.len() as f64 / f64::from(feed.objects), "");
        for object in *have {
            filing.node(name, "object_time", object.taken.as_secs_f64(), "s");
        }
    }
    filing
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn robustness_is_of_slow_receivers_and_throughput_of_fast_ones() {
        let object = |size_bytes, millis| ObjectTime { size_bytes, taken: Duration::from_millis(millis) };
        let fast = [object(1_000_000, 100), object(1_000_000, 50), object(500_000, 1)];
        let slow = [object(1_000_000, 900)];
        let (robustness, throughput) = equation_4_2(3, &[(false, &fast), (true, &slow), (true, &fast[..2])]);
        assert_eq!(robustness, Some(0.5), "1 and 2 of 3 each");
        assert_eq!(throughput, Some(120e6), "the mean of 80 and 160; the small object does not count");
        assert_eq!(equation_4_2(3, &[(false, &slow[..0])]), (None, None));
    }

    #[test]
    fn what_is_left_out_is_the_papers_and_what_cannot_be_is_refused() {
        let feed = FeedKeys::default().complete().unwrap();
        assert_eq!((feed.objects, feed.per_second, feed.configurations().len()), (500, 25.0, 8));
        assert_eq!(feed.configurations()[1].to_string(), "load 0.4 factor 10 multicast");
        let wrong = FeedKeys { shape: Some(1.0), ..FeedKeys::default() };
        assert_eq!(wrong.complete().unwrap_err(), "workload: shape 1: expected 1.05 to 100");
        let keys = FeedKeys { loads: Some(Vec::new()), ..FeedKeys::default() };
        assert_eq!(keys.complete().unwrap_err(), "workload: loads is empty");
    }
}
