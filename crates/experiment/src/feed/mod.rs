//! Objects that come one by one while a session runs, and receivers of which some lose packets
//! (interdomain-2013, 4.7.2).

mod products;
mod workload;

use std::str::FromStr;

use serde::Deserialize;

pub use products::Products;

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
    /// Lets each key that `over` has take the place of this one's.
    pub fn take(&mut self, over: FeedKeys) {
        self.objects = over.objects.or(self.objects);
        self.per_second = over.per_second.or(self.per_second);
        self.shape = over.shape.or(self.shape);
        self.loads = over.loads.or(self.loads.take());
        self.factors = over.factors.or(self.factors.take());
        self.priorities = over.priorities.or(self.priorities.take());
    }

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
                Some(value) => Err(format!("feed: {name} {value}: expected {low} to {high}")),
                None if values.is_empty() => Err(format!("feed: {name} is empty")),
                None => Ok(()),
            }
        };
        within("objects", &[f64::from(self.objects)], 1.0, 10_000.0)?;
        within("per_second", &[self.per_second], 0.1, 10_000.0)?;
        within("shape", &[self.shape], 1.05, 100.0)?;
        within("loads", &self.loads, 0.001, 10.0)?;
        within("factors", &self.factors, 0.0, 1e6)?;
        if self.priorities.is_empty() { Err("feed: priorities is empty".into()) } else { Ok(()) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_the_papers_and_what_cannot_be_is_refused() {
        let feed = FeedKeys::default().complete().unwrap();
        assert_eq!((feed.objects, feed.per_second, feed.configurations().len()), (500, 25.0, 8));
        assert_eq!(feed.configurations()[1].to_string(), "load 0.4 factor 10 multicast");
        let wrong = FeedKeys { shape: Some(1.0), ..FeedKeys::default() };
        assert_eq!(wrong.complete().unwrap_err(), "feed: shape 1: expected 1.05 to 100");
        let mut keys = FeedKeys { loads: Some(vec![0.4]), ..FeedKeys::default() };
        keys.take(FeedKeys { loads: Some(Vec::new()), ..FeedKeys::default() });
        assert_eq!(keys.complete().unwrap_err(), "feed: loads is empty");
    }
}
