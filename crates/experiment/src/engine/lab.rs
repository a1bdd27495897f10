//! The lab as a place of experiments: networks of namespaces on this machine.

use std::process::Command;

use treecast_host::congestion;
use treecast_lab::Routing;
use treecast_measure::frame::LAB;

use super::real::{Ground, Real};
use crate::{
    Error,
    document::{Experiment, delivery::Program, sharing::RivalKind},
    plan::Plan,
    programs::UFTP,
    site::{LabSite, Site},
};

/// Networks of this machine, each node a namespace. Needs root.
pub struct Lab;

impl Real for Lab {
    fn word(&self) -> &'static str {
        LAB
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        if !treecast_host::user::is_root() {
            return Err(Error::NotRoot);
        }
        check_kernel(experiment)
    }

    fn adapt(&self, plan: &mut Plan) -> Result<(), Error> {
        leave_out_uftp(plan, is_installed(UFTP));
        Ok(())
    }

    fn build(&self, ground: Ground) -> Result<Box<dyn Site>, String> {
        let Ground { network, understood, treecast, store } = ground;
        let site = LabSite::build(
            &network.name,
            understood.topology.clone(),
            network.routing.unwrap_or(Routing::Computed),
            treecast,
            store,
            understood.path.as_ref().map(|path| path.ends[0].0),
        )?;
        Ok(Box::new(site))
    }
}

/// Leaves out the runs of uftp where it is not installed.
fn leave_out_uftp(plan: &mut Plan, is_installed: bool) {
    let before = plan.runs.len();
    plan.runs.retain(|run| is_installed || run.delivery.program != Program::Uftp);
    if plan.runs.len() < before {
        plan.left_out.push("uftp is not installed (apt-get install uftp), and its runs are left out".into());
    }
}

/// Whether a program is there, and can be started.
fn is_installed(program: &str) -> bool {
    // Without arguments, uftp only prints how it is used.
    Command::new(program).output().is_ok()
}

/// Refuses a congestion control that the kernel does not have, when TCP flows are to use it.
fn check_kernel(experiment: &Experiment) -> Result<(), Error> {
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
