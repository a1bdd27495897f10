//! Whether the machine, and not the network that it emulates, was the limit of a run.

use super::{Results, RunData};
use crate::{
    db::{Result, Role},
    series,
};

/// Processors that are busier than this have nothing left to give.
const BUSY: f64 = 0.95;
/// A machine that was that busy for this share of a run was its limit.
const SHARE_OF_RUN: f64 = 0.2;

impl Results<'_> {
    /// Why the machine was the limit of a run, in words for a person; `None` when it was not, or was
    /// not sampled.
    pub fn saturation(&self, data: &RunData) -> Result<Option<String>> {
        for (machine, _) in data.nodes_with(Role::Machine) {
            let dropped = self.series(machine, series::SOFTNET_DROPPED_PACKETS)?.growth();
            if dropped > 0 {
                return Ok(Some(format!("the kernel's backlog was full: {dropped} packets dropped")));
            }
            let idle = self.series(machine, series::CPU_IDLE_NS)?.rates();
            let cpus = f64::from(data.run.info.machine.cpus.max(1));
            let while_clients_wait: Vec<f64> = idle
                .iter()
                .filter(|rate| data.active_clients(rate.from, rate.to) > 0)
                .map(|rate| 1.0 - rate.per_second / 1e9 / cpus)
                .collect();
            let busy = while_clients_wait.iter().filter(|&&share| share > BUSY).count();
            if busy as f64 > SHARE_OF_RUN * while_clients_wait.len() as f64 {
                return Ok(Some(format!(
                    "processors over {:.0} % busy in {busy} of {} samples",
                    BUSY * 100.0,
                    while_clients_wait.len()
                )));
            }
        }
        Ok(None)
    }
}
