//! What serving cost the server (librecast-updates-2022, 5.2, tables 6 to 9).

use std::collections::BTreeMap;

use super::{Results, RunData, Setting};
use crate::{
    db::{Result, Role},
    series::{self, Counter},
    statistics::Summary,
};

/// A row of the paper's tables 6 to 9.
#[derive(Debug, Clone, PartialEq)]
pub struct ActiveClients {
    pub clients: u32,
    /// Megabytes (10^6) that the server sent in a second.
    pub sent_mb_per_second: Option<Summary>,
    /// Processors that the serving program kept busy; 1 is one of them all the time. What the kernel
    /// does for it in interrupts is not in it.
    pub load: Option<Summary>,
}

/// What a server sent in all.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerBytes {
    pub setting: Setting,
    pub delivery: String,
    pub schedule: String,
    /// The mean of the runs.
    pub sent_bytes: f64,
}

impl ServerBytes {
    /// How many copies of the object that is, headers and retransmissions included.
    pub fn copies(&self) -> f64 {
        self.sent_bytes / self.setting.size_bytes.max(1) as f64
    }
}

impl Results<'_> {
    /// Rate and load of the server by the number of clients that were getting the object, over all
    /// complete runs of a delivery in a setting and schedule. See [`RunData::active_clients`].
    pub fn server_by_active_clients(
        &self,
        setting: &Setting,
        delivery: &str,
        schedule: &str,
    ) -> Result<Vec<ActiveClients>> {
        let (mut sent, mut load) = (BTreeMap::new(), BTreeMap::new());
        for data in self.complete().filter(|data| is_of(data, setting, delivery, schedule)) {
            for (server, _) in data.nodes_with(Role::Server) {
                for rate in self.node_counter(server, Counter::TxBytes)?.rates() {
                    let active = data.active_clients(rate.from, rate.to);
                    sent.entry(active).or_insert_with(Vec::new).push(rate.per_second / 1e6);
                }
                for rate in self.series(server, series::PROCESS_CPU_NS)?.rates() {
                    let active = data.active_clients(rate.from, rate.to);
                    load.entry(active).or_insert_with(Vec::new).push(rate.per_second / 1e9);
                }
            }
        }
        let mut numbers: Vec<u32> = sent.keys().chain(load.keys()).copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        let summary = |of: &BTreeMap<u32, Vec<f64>>, n| of.get(&n).and_then(|values| Summary::of(values));
        Ok(numbers
            .into_iter()
            .map(|clients| ActiveClients {
                clients,
                sent_mb_per_second: summary(&sent, clients),
                load: summary(&load, clients),
            })
            .collect())
    }

    /// What the servers sent in all, for each key of the run times, in the order of the runs.
    pub fn server_bytes(&self) -> Result<Vec<ServerBytes>> {
        let keys =
            super::distinct(self.complete().map(|data| {
                (data.setting(), data.run.info.delivery.clone(), data.run.info.schedule.clone())
            }));
        let mut rows = Vec::new();
        for (setting, delivery, schedule) in keys {
            let mut sent = Vec::new();
            for data in self.complete().filter(|data| is_of(data, &setting, &delivery, &schedule)) {
                sent.extend(self.sent_in_run(data)?);
            }
            if let Some(summary) = Summary::of(&sent) {
                rows.push(ServerBytes { setting, delivery, schedule, sent_bytes: summary.mean });
            }
        }
        Ok(rows)
    }

    /// `None` when no server of the run was sampled.
    fn sent_in_run(&self, data: &RunData) -> Result<Option<f64>> {
        let mut sum = None;
        for (server, _) in data.nodes_with(Role::Server) {
            let counted = self.node_counter(server, Counter::TxBytes)?;
            if !counted.is_empty() {
                sum = Some(sum.unwrap_or(0.0) + counted.growth() as f64);
            }
        }
        Ok(sum)
    }
}

fn is_of(data: &RunData, setting: &Setting, delivery: &str, schedule: &str) -> bool {
    let info = &data.run.info;
    data.setting() == *setting && info.delivery == delivery && info.schedule == schedule
}
