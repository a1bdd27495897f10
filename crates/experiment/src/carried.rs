//! Adds up what links carried in a run, from the counters of all interfaces.

use std::time::Duration;

use treecast_lab::Topology;
use treecast_measure::{
    Db, DbError,
    rates::Rate,
    series::{self, Counter},
};

use crate::{
    filing::{Filing, Series},
    record::Record,
};

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
    /// Each link's rate over time, in the topology's order.
    links: Vec<(String, Points)>,
}

impl Carried {
    /// Adds up what all interfaces of a run have counted.
    pub fn of(db: &Db, record: &Record, topology: &Topology, senders: &[&str]) -> Result<Self, DbError> {
        let mut carried = Self::default();
        for network in &topology.networks {
            let mut of_link = Points::new();
            for member in &network.members {
                let name = topology.nodes[member.node].name.as_str();
                let sent = series::interface(&member.interface, Counter::TxBytes);
                let sent = db.counted(record.node(name), &sent)?;
                let (bytes, rates) = (sent.growth().max(0) as u64, sent.rates());
                carried.network += bytes;
                add(&mut carried.network_over_time, &rates);
                if senders.contains(&name) {
                    carried.sender += bytes;
                    add(&mut carried.sender_over_time, &rates);
                    let came = series::interface(&member.interface, Counter::RxBytes);
                    add(&mut carried.to_sender_over_time, &db.counted(record.node(name), &came)?.rates());
                }
                add(&mut of_link, &rates);
            }
            carried.links.push((network.name.clone(), of_link));
        }
        Ok(carried)
    }

    /// Returns the rows and series that every run files. `watched` are links whose load is kept over time.
    pub fn filing(&self, watched: &[String]) -> Filing {
        let mut filing = Filing::default();
        filing.run("network_bytes", self.network as f64, "B");
        filing.run("sender_bytes", self.sender as f64, "B");
        let mut add = |measure, points| filing.series.push(Series { measure, unit: "B/s", points });
        add("network_rate".into(), self.network_over_time.clone());
        add("sender_rate".into(), self.sender_over_time.clone());
        add("to_sender_rate".into(), self.to_sender_over_time.clone());
        for link in watched {
            let found = self.links.iter().find(|(name, _)| name == link);
            add(format!("link_rate {link}"), found.map_or_else(Points::new, |(_, points)| points.clone()));
        }
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
