//! The lab as a place of experiments: networks of namespaces on this machine, with real programs in them.

use std::{process::Command, sync::Arc, time::Duration};

use treecast_host::congestion;
use treecast_lab::Routing;
use treecast_measure::frame::LAB;

use super::{
    Place, Stop,
    book::Book,
    needs,
    runner::{Runner, Stage, store_failed},
};
use crate::{
    Error, Event,
    document::{Experiment, delivery::Program, sharing::RivalKind},
    plan::{Plan, Planned, Understood},
    programs::UFTP,
    settle::Baseline,
    site::LabSite,
    store::{self, Store},
    vocabulary,
};

/// Networks of this machine, each node a namespace. Needs root.
pub struct Lab;

impl Place for Lab {
    fn word(&self) -> &'static str {
        LAB
    }

    fn plan<'e>(&self, experiment: &'e Experiment) -> Result<Plan<'e>, Error> {
        let capacity_bytes = store::capacity_bytes(experiment.habits.store.as_deref());
        let capacity_bytes = capacity_bytes.map_err(store_failed(experiment))?;
        let mut plan = vocabulary::checked_plan(experiment, self.word(), capacity_bytes)?;
        check_simulated(&plan, experiment)?;
        leave_out_uftp(&mut plan, is_installed(UFTP));
        Ok(plan)
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        if !treecast_host::user::is_root() {
            return Err(Error::NotRoot);
        }
        check_kernel(experiment)
    }

    fn settle(&self, experiment: &Experiment) -> Option<Duration> {
        Some(experiment.habits.settle)
    }

    fn make(&self, book: &mut Book, stop: Stop) -> Result<(), Error> {
        let (plan, experiment) = (book.plan, &book.order.experiment);
        let store = Arc::new(open_store(experiment, plan)?);
        let baseline = Baseline::measure().map_err(Error::Machine)?;
        let mut runner = Runner::new(book, stop, store, baseline);
        for index in 0..plan.networks.len() {
            let runs: Vec<&Planned> = plan.runs.iter().filter(|run| run.network == index).collect();
            if !runs.is_empty() && !runner.book.results.interrupted {
                play_network(&mut runner, index, &runs)?;
            }
        }
        Ok(())
    }
}

/// Makes the runs of one network.
fn play_network(runner: &mut Runner, index: usize, runs: &[&Planned]) -> Result<(), Error> {
    let order = runner.book.order;
    let network = &order.experiment.networks[index];
    let Understood { topology, path, .. } = &runner.book.plan.networks[index];
    (runner.book.observe)(&Event::Building { network: &network.name, nodes: topology.nodes.len() });
    let refused = |what| Error::Network { name: network.name.clone(), what };
    if runs.iter().any(|run| run.delivery.program == Program::Scp) {
        // Without its server, the experiment ends now, and not in the middle.
        runner.ssh()?;
    }
    let mut site = LabSite::build(
        &network.name,
        topology.clone(),
        network.routing.unwrap_or(Routing::Computed),
        &order.treecast,
        Arc::clone(&runner.store),
        path.as_ref().map(|path| path.ends[0].0),
    )
    .map_err(refused)?;
    for &planned in runs {
        if runner.book.results.interrupted {
            break;
        }
        needs::check(&site, planned)?;
        let (routers, support) = needs::routers(&order.experiment, planned, topology).map_err(refused)?;
        site.prepare(routers, support).map_err(refused)?;
        runner.book.number += 1;
        let key = planned.delivery.options.key.then(|| site.key());
        planned.work.play(runner, &Stage { site: &site, planned, key })?;
    }
    Ok(())
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

/// Refuses what the simulator alone has.
fn check_simulated(plan: &Plan, experiment: &Experiment) -> Result<(), Error> {
    match plan.runs.iter().find(|run| experiment.networks[run.network].crowd.is_some()) {
        None => Ok(()),
        Some(run) => Err(Error::Invalid {
            name: "treecast lab run".into(),
            what: format!("{}: a crowd is simulated: take `treecast sim run`", run.name),
        }),
    }
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

fn open_store(experiment: &Experiment, plan: &Plan) -> Result<Store, Error> {
    let copies = |run: &Planned| run.work.size().map_or(0, |size| size.0) * (run.clients() as u64 + 1);
    let needed = plan.runs.iter().map(copies);
    match &experiment.habits.store {
        Some(folder) => Store::in_folder(folder),
        None => Store::in_memory(needed.max().unwrap_or(0)),
    }
}
