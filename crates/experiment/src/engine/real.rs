//! Places where experiments run real programs. They differ in where the nodes of a network come from; all else is alike.

use std::{path::Path, sync::Arc, time::Duration};

use super::{
    Place, Stop,
    book::Book,
    needs,
    runner::{Runner, Stage, store_failed},
};
use crate::{
    Error, Event,
    document::{Experiment, delivery::Program, network::Network},
    plan::{Plan, Planned, Understood},
    settle::Baseline,
    site::Site,
    store::{self, Store},
    vocabulary,
};

/// A place where real programs run.
pub trait Real {
    /// Returns what the parameter `site` of each run says.
    fn word(&self) -> &'static str;

    /// Refuses an experiment that this machine or user cannot run.
    ///
    /// # Errors
    /// The first thing that is missing, by name, and what to do.
    fn check(&self, experiment: &Experiment) -> Result<(), Error>;

    /// Leaves out of a plan what cannot be here, and changes its networks to what is here.
    ///
    /// # Errors
    /// The first thing in the plan that cannot be here.
    fn adapt(&self, plan: &mut Plan) -> Result<(), Error>;

    /// Makes the nodes of a network ready.
    ///
    /// # Errors
    /// One line, when it cannot be done here.
    fn build(&self, ground: Ground) -> Result<Box<dyn Site>, String>;

    /// Whether runs wait until this machine is quiet, because its processors are those of the nodes.
    fn settles(&self) -> bool {
        true
    }
}

/// A network that is to be made ready.
pub struct Ground<'g> {
    pub network: &'g Network,
    pub understood: &'g Understood,
    /// The treecast program.
    pub treecast: &'g Path,
    /// Where the files of the runs are.
    pub store: Arc<Store>,
}

impl<R: Real> Place for R {
    fn word(&self) -> &'static str {
        Real::word(self)
    }

    fn plan<'e>(&self, experiment: &'e Experiment) -> Result<Plan<'e>, Error> {
        let capacity_bytes = store::capacity_bytes(experiment.habits.store.as_deref());
        let capacity_bytes = capacity_bytes.map_err(store_failed(experiment))?;
        let mut plan = vocabulary::checked_plan(experiment, Real::word(self), capacity_bytes)?;
        check_simulated(&plan, experiment)?;
        self.adapt(&mut plan)?;
        Ok(plan)
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        Real::check(self, experiment)
    }

    fn settle(&self, experiment: &Experiment) -> Option<Duration> {
        Some(if self.settles() { experiment.habits.settle } else { Duration::ZERO })
    }

    fn make(&self, book: &mut Book, stop: Stop) -> Result<(), Error> {
        let (plan, experiment) = (book.plan, &book.order.experiment);
        let store = Arc::new(open_store(experiment, plan)?);
        let baseline = Baseline::measure().map_err(Error::Machine)?;
        let settle = self.settle(experiment).unwrap_or_default();
        let mut runner = Runner::new(book, stop, store, (baseline, settle));
        for index in 0..plan.networks.len() {
            let runs: Vec<&Planned> = plan.runs.iter().filter(|run| run.network == index).collect();
            if !runs.is_empty() && !runner.book.results.interrupted {
                play_network(self, &mut runner, index, &runs)?;
            }
        }
        Ok(())
    }
}

/// Makes the runs of one network.
fn play_network(
    place: &impl Real,
    runner: &mut Runner,
    index: usize,
    runs: &[&Planned],
) -> Result<(), Error> {
    let order = runner.book.order;
    let network = &order.experiment.networks[index];
    let understood = &runner.book.plan.networks[index];
    let Understood { topology, .. } = understood;
    (runner.book.observe)(&Event::Building { network: &network.name, nodes: topology.nodes.len() });
    let refused = |what| Error::Network { name: network.name.clone(), what };
    if runs.iter().any(|run| run.delivery.program == Program::Scp) {
        // Without its server, the experiment ends now, and not in the middle.
        runner.ssh()?;
    }
    let ground = Ground { network, understood, treecast: &order.treecast, store: Arc::clone(&runner.store) };
    let mut site = place.build(ground).map_err(refused)?;
    for &planned in runs {
        if runner.book.results.interrupted {
            break;
        }
        needs::check(&*site, network, planned)?;
        let (routers, support) = needs::routers(&order.experiment, planned, topology).map_err(refused)?;
        site.prepare(routers, support).map_err(refused)?;
        runner.book.number += 1;
        let key = planned.delivery.options.key.then(|| site.key());
        planned.work.play(runner, &Stage { site: &*site, planned, key })?;
    }
    Ok(())
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

fn open_store(experiment: &Experiment, plan: &Plan) -> Result<Store, Error> {
    let copies = |run: &Planned| run.work.size().map_or(0, |size| size.0) * (run.clients() as u64 + 1);
    let needed = plan.runs.iter().map(copies);
    match &experiment.habits.store {
        Some(folder) => Store::in_folder(folder),
        None => Store::in_memory(needed.max().unwrap_or(0)),
    }
}
