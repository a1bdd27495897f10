//! What links carried in a run, by the counters of all interfaces.

use std::time::Duration;

use treecast_lab::Topology;
use treecast_measure::{
    Db, DbError,
    analysis::{Counted, Rate},
    db::{NodeId, Row},
    series::{self, Counter},
};

use crate::record::Record;

/// What links carried, each frame counted once, by who sends it.
#[derive(Debug, Default)]
pub struct Carried {
    /// On all links together, in bytes.
    pub network: u64,
    /// Of it what left the senders.
    pub sender: u64,
    /// By the time between two samples each.
    intervals: Vec<Interval>,
    /// The same of each link, in the topology's order.
    links: Vec<(String, Vec<(Duration, f64)>)>,
}

/// What was carried from a time since the run's start on, in bytes a second.
#[derive(Debug, Clone, Copy, Default)]
pub struct Interval {
    pub from: Duration,
    pub network: f64,
    pub sender: f64,
    pub to_sender: f64,
}

impl Carried {
    /// Adds up what all interfaces of a run have counted.
    pub fn of(db: &Db, record: &Record, topology: &Topology, senders: &[&str]) -> Result<Self, DbError> {
        let mut carried = Self::default();
        for network in &topology.networks {
            let mut of_link: Vec<(Duration, f64)> = Vec::new();
            for member in &network.members {
                let name = topology.nodes[member.node].name.as_str();
                let node = record.node(name);
                let counted = |counter| counted(db, node, &series::interface(&member.interface, counter));
                let sent = counted(Counter::TxBytes)?;
                let is_sender = senders.contains(&name);
                let bytes = sent.growth().max(0) as u64;
                carried.network += bytes;
                carried.sender += if is_sender { bytes } else { 0 };
                let rates = sent.rates();
                carried.add(&rates, |interval, rate| interval.network += rate);
                if is_sender {
                    carried.add(&rates, |interval, rate| interval.sender += rate);
                    let received = counted(Counter::RxBytes)?;
                    carried.add(&received.rates(), |interval, rate| interval.to_sender += rate);
                }
                of_link.extend(rates.iter().skip(of_link.len()).map(|rate| (rate.from, 0.0)));
                of_link.iter_mut().zip(&rates).for_each(|(sum, rate)| sum.1 += rate.per_second);
            }
            carried.links.push((network.name.clone(), of_link));
        }
        Ok(carried)
    }

    fn add(&mut self, rates: &[Rate], to: impl Fn(&mut Interval, f64)) {
        for (index, rate) in rates.iter().enumerate() {
            if self.intervals.len() <= index {
                self.intervals.push(Interval { from: rate.from, ..Interval::default() });
            }
            to(&mut self.intervals[index], rate.per_second);
        }
    }

    /// The rows that every run has.
    pub fn rows(&self) -> Vec<Row> {
        vec![
            Row::of_run("network_bytes", self.network as f64, "B"),
            Row::of_run("sender_bytes", self.sender as f64, "B"),
        ]
    }

    /// What was carried in the middle of a second from `began` on.
    pub fn in_second(&self, began: Duration, second: usize) -> Interval {
        let middle = middle(began, second);
        self.intervals.iter().rfind(|found| found.from <= middle).copied().unwrap_or_default()
    }

    /// What a link carried over time, both ways together: seconds since the run's start, and bytes a second.
    pub fn link(&self, name: &str) -> Vec<(f64, f64)> {
        let found = self.links.iter().find(|(link, _)| link == name);
        found.map_or_else(Vec::new, |(_, rates)| points(rates.iter().copied()))
    }

    /// What all links carried over time.
    pub fn network_over_time(&self) -> Vec<(f64, f64)> {
        points(self.intervals.iter().map(|interval| (interval.from, interval.network)))
    }

    /// What left the senders over time.
    pub fn sender_over_time(&self) -> Vec<(f64, f64)> {
        points(self.intervals.iter().map(|interval| (interval.from, interval.sender)))
    }
}

fn points(of: impl Iterator<Item = (Duration, f64)>) -> Vec<(f64, f64)> {
    of.map(|(at, value)| (at.as_secs_f64(), value)).collect()
}

fn middle(began: Duration, second: usize) -> Duration {
    began + Duration::from_secs(second as u64) + Duration::from_millis(500)
}

/// The shares of all processors' time that were not idle, and that went into soft interrupts.
pub fn machine(db: &Db, machine: NodeId, cpus: u32) -> Result<(f64, f64), DbError> {
    let idle = counted(db, machine, series::CPU_IDLE_NS)?;
    let rates = idle.rates();
    let (Some(first), Some(last)) = (rates.first(), rates.last()) else { return Ok((0.0, 0.0)) };
    let all = (last.to - first.from).as_nanos() as f64 * f64::from(cpus.max(1));
    let forwarding = counted(db, machine, series::CPU_SOFTIRQ_NS)?.growth() as f64;
    Ok((1.0 - idle.growth() as f64 / all, forwarding / all))
}

/// A counter of a node over the run.
pub fn counted(db: &Db, node: NodeId, name: &str) -> Result<Counted, DbError> {
    let mut counted = Counted::default();
    counted.add(&db.samples(node, name)?);
    Ok(counted)
}
