//! Robustness and throughput of feeds (interdomain-2013, 4.7.2, equation 4.2).

use super::{Results, RunData};
use crate::{
    db::{FeedInfo, ObjectTime, Role, Status},
    statistics::Summary,
};

/// Only objects larger than this count for the throughput: for smaller ones a timer's error is too large a part.
const MEASURED_FROM_BYTES: u64 = 500_000;

/// A feed's run.
pub struct FeedRun {
    pub data: RunData,
    pub feed: FeedInfo,
    /// The share of their objects that the slow receivers have, from 0 to 1; none without slow receivers.
    pub robustness: Option<f64>,
    /// The mean over fast receivers and large objects of size divided by time; none without any.
    pub throughput_bps: Option<f64>,
}

/// What runs are the same in that are averaged.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedKey {
    pub clients: u32,
    pub load: f64,
    pub loss: f64,
    pub factor: f64,
    pub priority: String,
}

/// The average of the runs of one key: a cell of table 4.9.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedRow {
    pub key: FeedKey,
    pub robustness: Option<Summary>,
    pub throughput_bps: Option<Summary>,
}

/// What receivers have of a feed, as far as [`of_receivers`] needs it.
pub type Receiver<'a> = (bool, &'a [ObjectTime]);

/// R and the throughput Γ of equation 4.2; each receiver says whether it is a slow one.
pub fn of_receivers(objects: u32, receivers: &[Receiver<'_>]) -> (Option<f64>, Option<f64>) {
    let slow: Vec<_> = receivers.iter().filter(|(is_slow, _)| *is_slow).collect();
    let have: usize = slow.iter().map(|(_, have)| have.len()).sum();
    let robustness =
        (!slow.is_empty() && objects > 0).then(|| have as f64 / (slow.len() as f64 * f64::from(objects)));
    let fast = receivers.iter().filter(|(is_slow, _)| !is_slow).flat_map(|(_, have)| *have);
    let large = fast.filter(|object| object.size_bytes > MEASURED_FROM_BYTES && !object.taken.is_zero());
    let rates: Vec<f64> =
        large.map(|object| object.size_bytes as f64 * 8.0 / object.taken.as_secs_f64()).collect();
    (robustness, Summary::of(&rates).map(|summary| summary.mean))
}

impl FeedRun {
    pub(super) fn new(data: RunData, feed: FeedInfo, objects: &[(bool, Vec<ObjectTime>)]) -> Self {
        let receivers: Vec<Receiver<'_>> =
            objects.iter().map(|(is_slow, have)| (*is_slow, have.as_slice())).collect();
        let (robustness, throughput_bps) = of_receivers(feed.objects, &receivers);
        Self { data, feed, robustness, throughput_bps }
    }

    fn key(&self) -> FeedKey {
        FeedKey {
            clients: self.data.nodes_with(Role::Client).count() as u32,
            load: self.feed.load,
            loss: self.feed.loss,
            factor: self.feed.factor,
            priority: self.feed.priority.clone(),
        }
    }
}

impl Results<'_> {
    /// A row for each configuration and number of receivers, in the order of table 4.9.
    pub fn feed_rows(&self) -> Vec<FeedRow> {
        let complete = || self.feeds.iter().filter(|run| run.data.run.status == Status::Complete);
        let mut keys = super::distinct(complete().map(FeedRun::key));
        let order = |key: &FeedKey| (key.load, key.loss, key.factor, f64::from(key.clients));
        keys.sort_by(|a, b| {
            a.priority
                .cmp(&b.priority)
                .then(order(a).partial_cmp(&order(b)).unwrap_or(std::cmp::Ordering::Equal))
        });
        let summary = |key: &FeedKey, of: fn(&FeedRun) -> Option<f64>| {
            Summary::of(&complete().filter(|run| run.key() == *key).filter_map(of).collect::<Vec<_>>())
        };
        keys.into_iter()
            .map(|key| FeedRow {
                robustness: summary(&key, |run| run.robustness),
                throughput_bps: summary(&key, |run| run.throughput_bps),
                key,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn equation_4_2() {
        let object = |size_bytes, millis| ObjectTime {
            name: String::new(),
            size_bytes,
            taken: Duration::from_millis(millis),
        };
        let fast = [object(1_000_000, 100), object(1_000_000, 50), object(500_000, 1)];
        let slow = [object(1_000_000, 900)];
        let (robustness, throughput) = of_receivers(3, &[(false, &fast), (true, &slow), (true, &fast[..2])]);
        assert_eq!(robustness, Some(0.5), "1 and 2 of 3 each");
        assert_eq!(throughput, Some(120e6), "the mean of 80 and 160; the small object does not count");
        assert_eq!(of_receivers(3, &[(false, &slow[..0])]), (None, None));
    }
}
