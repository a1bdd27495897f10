//! What many receivers cost, beside the model of interdomain-2013, 4.7.1: equation 4.1, and the processor time of the
//! sender.

use super::{Results, RunData};
use crate::{
    db::{Result, Role},
    series,
    statistics::Summary,
};

/// One number of clients and one delivery on a LAN, all clients at once.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRow {
    pub size_bytes: u64,
    pub delivery: String,
    pub clients: u32,
    /// Until the slowest client had its checked copy; over the runs.
    pub slowest_seconds: Summary,
    /// Equation 4.1, for links as fast as those were; without what the hosts are capable of.
    pub model_seconds: f64,
    /// The processor that the server's program kept busy, in per cent of one; none when it was not sampled.
    pub server_cpu_percent: Option<f64>,
}

/// Equation 4.1: a copy for each client shares the server's link, one for all does not.
pub fn model_seconds(size_bytes: u64, copies: u32, server_bps: u64, slowest_bps: u64) -> f64 {
    let bits = size_bytes as f64 * 8.0;
    (bits * f64::from(copies) / server_bps.max(1) as f64).max(bits / slowest_bps.max(1) as f64)
}

impl Results<'_> {
    /// A row for each size, delivery and number of clients on a LAN whose links have known rates.
    pub fn model_rows(&self) -> Result<Vec<ModelRow>> {
        let key = |data: &RunData| {
            let info = &data.run.info;
            (info.size_bytes, info.delivery.clone(), info.clients)
        };
        let fits = |data: &&RunData| {
            let info = &data.run.info;
            info.router_levels == 0
                && info.schedule == "immediate"
                && info.server_bps.is_some()
                && info.link_bps.is_some()
        };
        let mut keys = super::distinct(self.complete().filter(fits).map(key));
        keys.sort();
        let mut rows = Vec::new();
        for wanted in keys {
            let runs: Vec<&RunData> =
                self.complete().filter(fits).filter(|data| key(data) == wanted).collect();
            rows.extend(self.model_row(&runs)?);
        }
        Ok(rows)
    }

    fn model_row(&self, runs: &[&RunData]) -> Result<Option<ModelRow>> {
        let Some(info) = runs.first().map(|data| &data.run.info) else { return Ok(None) };
        let (Some(server_bps), Some(link_bps)) = (info.server_bps, info.link_bps) else { return Ok(None) };
        let slowest: Vec<f64> = runs.iter().filter_map(|data| slowest_seconds(data)).collect();
        let Some(slowest_seconds) = Summary::of(&slowest) else { return Ok(None) };
        let mut cpu = Vec::new();
        for data in runs {
            cpu.extend(self.server_cpu_percent(data)?);
        }
        let is_unicast = matches!(info.delivery.as_str(), "tcp" | "udp" | "scp");
        let copies = if is_unicast { info.clients } else { 1 };
        Ok(Some(ModelRow {
            size_bytes: info.size_bytes,
            delivery: info.delivery.clone(),
            clients: info.clients,
            slowest_seconds,
            model_seconds: model_seconds(info.size_bytes, copies, server_bps, link_bps),
            server_cpu_percent: Summary::of(&cpu).map(|summary| summary.mean),
        }))
    }

    /// While clients were getting the object.
    fn server_cpu_percent(&self, data: &RunData) -> Result<Option<f64>> {
        let Some((server, _)) = data.nodes_with(Role::Server).next() else { return Ok(None) };
        let rates = self.series(server, series::PROCESS_CPU_NS)?.rates();
        let busy = rates.iter().filter(|rate| data.active_clients(rate.from, rate.to) > 0);
        let per_second: Vec<f64> = busy.map(|rate| rate.per_second / 1e7).collect();
        Ok(Summary::of(&per_second).map(|summary| summary.mean))
    }
}

/// None when a client has no copy.
fn slowest_seconds(data: &RunData) -> Option<f64> {
    let times: Option<Vec<_>> = data.transfers.iter().map(|(_, transfer)| transfer.run_time()).collect();
    times?.into_iter().max().map(|time| time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equation_4_1() {
        let gigabyte = 1_000_000_000;
        let seconds = |copies, server, receiver: u64| {
            (model_seconds(gigabyte, copies, server, receiver.min(server)) * 10.0).round() / 10.0
        };
        assert_eq!(seconds(1, 600_000_000, 800_000_000), 13.3, "figure 4.8: about 15 s measured");
        assert_eq!(seconds(6, 600_000_000, 150_000_000), 80.0, "figure 4.9, TCP to 6 receivers");
        assert_eq!(seconds(1, 600_000_000, 150_000_000), 53.3, "figure 4.9, multicast");
        assert_eq!(seconds(4, 600_000_000, 150_000_000), 53.3, "up to 4 receivers TCP is as fast");
    }
}
