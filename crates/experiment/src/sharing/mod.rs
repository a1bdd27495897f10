//! Makes runs in which flows share a link for a while, and measures how they share it.

mod connection;
mod contest;
mod measures;

pub use connection::Connection;
pub use contest::{Contest, Flow, Outcome};
pub use measures::{MEASURES, SERIES, Shared, filing, sentence};

use crate::{
    Error,
    document::{
        Experiment,
        delivery::Program,
        network::Network,
        sharing::{RivalKind, Sharing},
    },
};

/// Refuses a congestion control that the kernel does not have, when TCP flows are to use it.
pub fn check_kernel(experiment: &Experiment) -> Result<(), Error> {
    let Some(Sharing { congestion, .. }) = experiment.workload.sharing() else { return Ok(()) };
    let is_tcp = |network: &Network| network.rivals.iter().any(|rival| rival.kind == RivalKind::Tcp);
    let has_tcp = experiment.deliveries.iter().any(|delivery| delivery.program == Program::Tcp);
    if !has_tcp && !experiment.networks.iter().any(is_tcp) {
        return Ok(());
    }
    match contest::is_available(congestion).map_err(Error::Machine)? {
        true => Ok(()),
        false => {
            let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
            let available = known.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(", ");
            Err(Error::Congestion { name: congestion.clone(), available })
        }
    }
}
