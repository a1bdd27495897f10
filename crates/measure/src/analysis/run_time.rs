//! How long the clients took (librecast-updates-2022, 5.1, tables 1 to 5).

use super::{Results, RunData, Setting};
use crate::statistics::Summary;

/// What the times of one row have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunTimeKey {
    pub setting: Setting,
    pub delivery: String,
    pub schedule: String,
}

/// The times of all clients of all complete runs of one key.
#[derive(Debug, Clone, PartialEq)]
pub struct RunTime {
    pub key: RunTimeKey,
    pub clients: u32,
    pub router_levels: u32,
    pub link_bps: Option<u64>,
    /// Seconds from a client's request until its copy was checked.
    pub seconds: Vec<f64>,
    pub summary: Summary,
    /// Clients that did not get the object.
    pub failed: usize,
    /// Whether the machine was the limit in any of the runs.
    pub saturated: bool,
}

impl RunTime {
    /// The time in terms of the time that one copy takes at the rate of the links; `None` when that
    /// is not limited.
    pub fn in_copies(&self) -> Option<f64> {
        let seconds_for_one = self.key.setting.size_bytes as f64 * 8.0 / self.link_bps? as f64;
        (seconds_for_one > 0.0).then(|| self.summary.mean / seconds_for_one)
    }
}

impl Results<'_> {
    /// A row for each network, size, delivery and schedule, sorted by network and then by the
    /// average, as the paper's are. Rows in which no client succeeded are left out.
    pub fn run_times(&self) -> Vec<RunTime> {
        let keys = super::distinct(self.complete().map(key));
        let mut rows: Vec<RunTime> = keys.into_iter().filter_map(|key| self.run_time(key)).collect();
        let topologies = self.topologies();
        let position = |row: &RunTime| topologies.iter().position(|t| *t == row.key.setting.topology);
        rows.sort_by(|a, b| position(a).cmp(&position(b)).then(a.summary.mean.total_cmp(&b.summary.mean)));
        rows
    }

    fn run_time(&self, wanted: RunTimeKey) -> Option<RunTime> {
        let runs: Vec<&RunData> = self.complete().filter(|data| key(data) == wanted).collect();
        let transfers = || runs.iter().flat_map(|data| &data.transfers);
        let seconds: Vec<f64> =
            transfers().filter_map(|(_, t)| t.run_time()).map(|time| time.as_secs_f64()).collect();
        let info = &runs.first()?.run.info;
        Some(RunTime {
            clients: info.clients,
            router_levels: info.router_levels,
            link_bps: info.link_bps,
            summary: Summary::of(&seconds)?,
            failed: transfers().count() - seconds.len(),
            saturated: runs.iter().any(|data| data.run.saturated.is_some()),
            key: wanted,
            seconds,
        })
    }
}

fn key(data: &RunData) -> RunTimeKey {
    RunTimeKey {
        setting: data.setting(),
        delivery: data.run.info.delivery.clone(),
        schedule: data.run.info.schedule.clone(),
    }
}
