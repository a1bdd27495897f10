//! Makes runs in which flows share a link for a while, and measures how they share it.

mod connection;
mod contest;
mod measures;
mod uftp;

pub use connection::Connection;
pub use contest::{Contest, Flow, Outcome};
pub use measures::{MEASURES, SERIES, Shared, filing, sentence};
pub use uftp::{SENDER, Uftp};

use treecast_host::congestion;

use crate::{
    Error,
    document::{Experiment, delivery::Program, sharing::RivalKind},
};

/// Refuses a congestion control that the kernel does not have, when TCP flows are to use it.
pub fn check_kernel(experiment: &Experiment) -> Result<(), Error> {
    let tcp = experiment.deliveries.iter().filter(|delivery| delivery.program == Program::Tcp);
    let mut names: Vec<&str> = tcp.filter_map(|delivery| experiment.congestion_of(delivery)).collect();
    if let Some(sharing) = experiment.workload.sharing() {
        let rivals = experiment.networks.iter().flat_map(|network| &network.rivals);
        let tcp = rivals.filter(|rival| rival.kind == RivalKind::Tcp);
        names.extend(tcp.map(|rival| rival.congestion_in(sharing)));
    }
    for name in names {
        if !congestion::is_available(name).map_err(Error::Machine)? {
            return Err(Error::Congestion { name: name.into(), available: congestion::available() });
        }
    }
    Ok(())
}
