//! Adds up what links carried in a run, from the counters of all interfaces.

use std::time::Duration;

use treecast_lab::Topology;
use treecast_measure::{
    Db, DbError,
    rates::Rate,
    series::{self, Counter},
};
use treecast_sim::session::Sample;

use crate::{
    filing::{Filing, Series},
    record::{Record, name_of_link},
};

/// The series of every run, with their units: what all links carry, what leaves the senders, and what comes to them.
pub const SERIES: &[(&str, &str)] =
    &[("network_rate", "B/s"), ("sender_rate", "B/s"), ("to_sender_rate", "B/s")];

/// The name of the series of what a watched link carries. Its unit is `B/s`.
pub fn series_of_link(link: &str) -> String {
    format!("link_rate {link}")
}

/// A rate over time: seconds since the run's start, and bytes a second.
type Points = Vec<(f64, f64)>;

/// The bytes that links carried. Each frame is counted once, where it is sent.
#[derive(Debug, Default)]
pub struct Carried {
    /// The number of bytes on all links together.
    pub network: u64,
    /// The number of bytes that left the senders.
    pub sender: u64,
    network_over_time: Points,
    sender_over_time: Points,
    to_sender_over_time: Points,
    /// Each link's bytes, and its rate over time, in the topology's order.
    links: Vec<(String, u64, Points)>,
}

impl Carried {
    /// Adds up what all interfaces of a run have counted.
    pub fn of(db: &Db, record: &Record, topology: &Topology, senders: &[&str]) -> Result<Self, DbError> {
        let mut carried = Self::default();
        for network in &topology.networks {
            let (mut bytes_of_link, mut of_link) = (0, Points::new());
            for member in &network.members {
                let name = topology.nodes[member.node].name.as_str();
                let sent = series::interface(&member.interface, Counter::TxBytes);
                let sent = db.counted(record.node(name), &sent)?;
                let (bytes, rates) = (sent.growth().max(0) as u64, sent.rates());
                carried.network += bytes;
                bytes_of_link += bytes;
                add(&mut carried.network_over_time, &rates);
                if senders.contains(&name) {
                    carried.sender += bytes;
                    add(&mut carried.sender_over_time, &rates);
                    let came = series::interface(&member.interface, Counter::RxBytes);
                    add(&mut carried.to_sender_over_time, &db.counted(record.node(name), &came)?.rates());
                }
                add(&mut of_link, &rates);
            }
            carried.links.push((network.name.clone(), bytes_of_link, of_link));
        }
        Ok(carried)
    }

    /// The bytes that a simulated run carried, by samples that began `before` its first one. What comes to the sender
    /// is not counted there.
    pub fn of_samples(samples: &[Sample], before: Duration) -> Self {
        let points = |bytes: fn(&Sample) -> u64| {
            let pairs = samples.windows(2).filter(|pair| pair[1].at > pair[0].at);
            let points = pairs.map(|pair| {
                let seconds = (pair[1].at - pair[0].at).as_secs_f64();
                let from = (before + pair[0].at).as_secs_f64();
                (from, (bytes(&pair[1]) - bytes(&pair[0])) as f64 / seconds)
            });
            points.collect()
        };
        let end = samples.last().copied().unwrap_or_default();
        Self {
            network: end.network_bytes,
            sender: end.sender_bytes,
            network_over_time: points(|sample| sample.network_bytes),
            sender_over_time: points(|sample| sample.sender_bytes),
            ..Self::default()
        }
    }

    /// Returns the rows and series that every run files. `watched` are links whose load is kept over time.
    pub fn filing(&self, watched: &[String]) -> Filing {
        let mut filing = Filing::default();
        filing.run("network_bytes", self.network as f64, "B");
        filing.run("sender_bytes", self.sender as f64, "B");
        let watched: Vec<_> = self.links.iter().filter(|(name, ..)| watched.contains(name)).collect();
        watched
            .iter()
            .for_each(|(name, bytes, _)| filing.node(&name_of_link(name), "link_bytes", *bytes as f64, "B"));
        let points = [&self.network_over_time, &self.sender_over_time, &self.to_sender_over_time];
        filing.series = Series::of(SERIES, points.map(Clone::clone));
        filing.series.retain(|series| !series.points.is_empty());
        let of_link = |(name, _, points): &(String, u64, Points)| Series {
            measure: series_of_link(name),
            unit: "B/s",
            points: points.clone(),
        };
        filing.series.extend(watched.into_iter().map(of_link));
        filing
    }

    /// Returns how much left the senders in the middle of second `second` after `began`, in bytes a second.
    pub fn sender_in_second(&self, began: Duration, second: usize) -> f64 {
        let middle = began.as_secs_f64() + second as f64 + 0.5;
        self.sender_over_time.iter().rfind(|(from, _)| *from <= middle).map_or(0.0, |(_, rate)| *rate)
    }
}

/// Adds the rates of an interface to those of others, which were sampled at the same times.
fn add(sum: &mut Points, rates: &[Rate]) {
    sum.extend(rates.iter().skip(sum.len()).map(|rate| (rate.from.as_secs_f64(), 0.0)));
    sum.iter_mut().zip(rates).for_each(|(sum, rate)| sum.1 += rate.per_second);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watched_link_has_its_bytes_and_its_rate_and_another_has_neither() {
        let links = [("up", 700), ("lan0", 300)];
        let links = links.map(|(name, bytes)| (name.to_owned(), bytes, vec![(0.0, 1.0)]));
        let filing = Carried { links: links.into(), ..Carried::default() }.filing(&["up".to_owned()]);
        let of_links: Vec<_> = filing.rows.iter().filter(|(_, row)| row.measure == "link_bytes").collect();
        assert_eq!(of_links.len(), 1);
        assert_eq!((of_links[0].0.as_deref(), of_links[0].1.value), (Some("link up"), Some(700.0)));
        assert!(filing.series.iter().any(|series| series.measure == "link_rate up"));
        assert!(!filing.series.iter().any(|series| series.measure == "link_rate lan0"));
    }
}
