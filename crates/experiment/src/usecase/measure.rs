//! From the counters of all interfaces to what a run has cost.

use std::time::Duration;

use treecast_measure::{
    Db, DbError,
    analysis::{Counted, Rate},
    db::{Bytes, LinkBytes, LinkSeconds, NodeId, SecondOfRun},
    series::{self, Counter},
};

use super::{super::record::Record, traffic::Tally};
use treecast_lab::Topology;

/// What links carried.
#[derive(Debug, Default)]
pub struct Traffic {
    pub bytes: Bytes,
    pub links: Vec<LinkBytes>,
    /// Of the time between two samples each.
    intervals: Vec<Interval>,
    /// The same of each link, in the topology's order.
    of_links: Vec<Vec<(Duration, f64)>>,
}

/// What was carried from a time since the run's start on, in bytes a second.
#[derive(Debug, Clone, Copy, Default)]
struct Interval {
    from: Duration,
    network: f64,
    sender: f64,
    to_sender: f64,
}

impl Traffic {
    /// Adds up what all interfaces have counted. Each frame is counted once, by who sends it.
    pub fn of(db: &Db, record: &Record, topology: &Topology, senders: &[usize]) -> Result<Self, DbError> {
        let mut traffic = Self::default();
        for network in &topology.networks {
            let mut of_link: Vec<(Duration, f64)> = Vec::new();
            let mut link = LinkBytes { name: network.name.clone(), ..LinkBytes::default() };
            for member in &network.members {
                let node = record.node(topology, &topology.nodes[member.node].name);
                let counted = |counter| counted(db, node, &series::interface(&member.interface, counter));
                let sent = counted(Counter::TxBytes)?;
                let is_sender = senders.contains(&member.node);
                link.sent += sent.growth().max(0) as u64;
                let received = counted(Counter::RxBytes)?;
                link.received += received.growth().max(0) as u64;
                traffic.bytes.sender += if is_sender { sent.growth().max(0) as u64 } else { 0 };
                let rates = sent.rates();
                traffic.add(&rates, |interval, rate| interval.network += rate);
                if is_sender {
                    traffic.add(&rates, |interval, rate| interval.sender += rate);
                    traffic.add(&received.rates(), |interval, rate| interval.to_sender += rate);
                }
                of_link.extend(rates.iter().skip(of_link.len()).map(|rate| (rate.from, 0.0)));
                of_link.iter_mut().zip(&rates).for_each(|(sum, rate)| sum.1 += rate.per_second);
            }
            traffic.of_links.push(of_link);
            traffic.bytes.network += link.sent;
            traffic.links.push(link);
        }
        Ok(traffic)
    }

    fn add(&mut self, rates: &[Rate], to: impl Fn(&mut Interval, f64)) {
        for (index, rate) in rates.iter().enumerate() {
            if self.intervals.len() <= index {
                self.intervals.push(Interval { from: rate.from, ..Interval::default() });
            }
            to(&mut self.intervals[index], rate.per_second);
        }
    }

    /// What some links carried, both ways together, in each of so many seconds from `began` on.
    pub fn watched(&self, began: Duration, seconds: usize, links: &[String]) -> Vec<LinkSeconds> {
        let watched = self.links.iter().zip(&self.of_links).filter(|(link, _)| links.contains(&link.name));
        let of = |(link, rates): (&LinkBytes, &Vec<(Duration, f64)>)| LinkSeconds {
            name: link.name.clone(),
            bytes: (0..seconds)
                .map(|second| {
                    let found = rates.iter().rfind(|(from, _)| *from <= middle(began, second));
                    found.map_or(0.0, |(_, bytes)| *bytes)
                })
                .collect(),
        };
        watched.map(of).collect()
    }

    /// Second by second from `began` on, with what the receivers have got in each, and what part of each second's datagrams
    /// did not come.
    pub fn seconds(&self, began: Duration, tally: &Tally, loss: impl Fn(usize) -> f64) -> Vec<SecondOfRun> {
        let at = |second: usize| self.intervals.iter().rfind(|found| found.from <= middle(began, second));
        let second = |(index, of): (usize, &super::traffic::Second)| {
            let carried = at(index).copied().unwrap_or_default();
            SecondOfRun {
                network_bytes: carried.network,
                sender_bytes: carried.sender,
                to_sender_bytes: carried.to_sender,
                came: of.packets,
                loss: loss(index),
                latency_mean_ms: milliseconds(of.latency_sum) / of.packets.max(1) as f64,
                latency_max_ms: milliseconds(of.latency_max),
            }
        };
        tally.seconds.iter().enumerate().map(second).collect()
    }
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

fn counted(db: &Db, node: NodeId, name: &str) -> Result<Counted, DbError> {
    let mut counted = Counted::default();
    counted.add(&db.samples(node, name)?);
    Ok(counted)
}

pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
