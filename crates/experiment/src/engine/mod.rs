//! Makes a whole experiment: network after network, and run after run.

pub mod book;
mod files;
mod load;
mod multihoming;
mod needs;
mod run;
mod shared;
mod stream;

use std::{
    io,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use serde::Serialize;
use treecast_driver::events::as_seconds;
use treecast_lab::Routing;
use treecast_measure::claim::Finding;

use self::{
    book::Book,
    run::{Begun, run_failed},
};
use crate::{
    Error, Event,
    cargo::Cargo,
    document::{
        Experiment,
        delivery::Program,
        workload::{Objects, Workload},
    },
    feed::Products,
    plan::{Plan, Planned, Understood, Work},
    settle::Baseline,
    sharing,
    site::{LabSite, Site},
    source::Source,
    ssh::Ssh,
    store::{self, Store},
    vocabulary,
};

/// The order for an experiment: its file, and all else that it needs to know.
pub struct Order {
    pub experiment: Experiment,
    /// The name under which the results are filed.
    pub name: String,
    /// The results database; runs are added to it.
    pub database: PathBuf,
    /// The treecast program.
    pub treecast: PathBuf,
    pub version: String,
    /// The command that repeats the experiment.
    pub command: String,
}

/// The results of an experiment.
#[derive(Debug, Default, Serialize)]
pub struct Results {
    /// The number of runs in which every client got what it was to get.
    pub whole_runs: usize,
    pub runs: usize,
    /// The clients that did not get it: run, node and reason.
    pub failures: Vec<Failure>,
    /// The runs that the program itself refused to make.
    pub refused: Vec<Refusal>,
    pub findings: Vec<Finding>,
    /// The results of searches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<Bound>,
    /// A line for each kind of run that was left out.
    #[serde(skip)]
    pub left_out: Vec<String>,
    pub interrupted: bool,
}

/// The bound that a search has found for the network: a rate in packets a second of each sender, or a number of
/// hosts.
#[derive(Debug, Clone, Serialize)]
pub struct Bound {
    pub run: String,
    /// The highest value that was borne. `None`: not even the lowest one was.
    pub threshold: Option<f64>,
    /// The lowest value that was not borne. `None`: even the highest one was.
    pub broke: Option<f64>,
    /// The bound that the links allow. `None`: no link has a rate.
    pub predicted: Option<f64>,
    /// The parts that gave in at `broke`.
    pub limits: Vec<String>,
    /// Whether the machine gave in, and not the network.
    pub machine_limited: bool,
}

/// A client without a verified copy.
#[derive(Debug, Clone, Serialize)]
pub struct Failure {
    pub run: String,
    pub node: String,
    pub reason: String,
}

/// A run that the program refused, in its own words.
#[derive(Debug, Clone, Serialize)]
pub struct Refusal {
    pub run: String,
    pub reason: String,
}

/// A preview of an experiment, made without doing it.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename = "planned")]
pub struct Preview {
    /// The name of each run, in order.
    pub runs: Vec<String>,
    #[serde(rename = "estimate_seconds", with = "as_seconds")]
    pub estimate: Duration,
    /// A line for each kind of run that is left out.
    pub left_out: Vec<String>,
}

impl Preview {
    /// Plans an experiment; builds and sends nothing, and needs no root.
    pub fn of(experiment: &Experiment) -> Result<Self, Error> {
        let plan = planned(experiment)?;
        Ok(Self {
            runs: plan.runs.iter().map(|run| run.name.clone()).collect(),
            estimate: plan.estimate(experiment.habits.settle),
            left_out: plan.left_out,
        })
    }
}

/// Whether an experiment can be run here, as far as can be told without beginning.
pub fn check(experiment: &Experiment) -> Result<(), Error> {
    require_root()?;
    sharing::check_kernel(experiment)?;
    planned(experiment).map(drop)
}

fn planned(experiment: &Experiment) -> Result<Plan<'_>, Error> {
    let capacity_bytes = store::capacity_bytes(experiment.habits.store.as_deref());
    let capacity_bytes = capacity_bytes.map_err(store_failed(experiment))?;
    let mut plan = vocabulary::checked_plan(experiment, capacity_bytes)?;
    check_simulated(&plan, experiment)?;
    leave_out_uftp(&mut plan, is_installed(sharing::SENDER));
    Ok(plan)
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

fn require_root() -> Result<(), Error> {
    if treecast_host::user::is_root() { Ok(()) } else { Err(Error::NotRoot) }
}

/// Runs an experiment in networks of this machine. `observe` hears of what happens; `stop` ends it early, and the run that it
/// ends is marked as cut short. However it ends, what was built is taken down.
pub fn run(
    order: &Order,
    observe: &dyn Fn(&Event),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Results, Error> {
    let experiment = &order.experiment;
    require_root()?;
    sharing::check_kernel(experiment)?;
    let plan = planned(experiment)?;
    let mut engine = Engine {
        book: Book::open(order, observe, &plan, Some(experiment.habits.settle))?,
        stop,
        store: Arc::new(open_store(experiment, &plan)?),
        baseline: Baseline::measure().map_err(Error::Machine)?,
    };
    for index in 0..plan.networks.len() {
        let runs: Vec<&Planned> = plan.runs.iter().filter(|run| run.network == index).collect();
        if !runs.is_empty() && !engine.book.results.interrupted {
            engine.play_network(index, &runs)?;
        }
    }
    engine.book.close()
}

struct Engine<'a> {
    book: Book<'a>,
    stop: &'a (dyn Fn() -> bool + Sync),
    store: Arc<Store>,
    baseline: Baseline,
}

impl Engine<'_> {
    fn play_network(&mut self, index: usize, runs: &[&Planned]) -> Result<(), Error> {
        let network = &self.book.order.experiment.networks[index];
        let Understood { topology, path, .. } = &self.book.plan.networks[index];
        (self.book.observe)(&Event::Building { network: &network.name, nodes: topology.nodes.len() });
        let refused = |what| Error::Network { name: network.name.clone(), what };
        let ssh = match runs.iter().any(|run| run.delivery.program == Program::Scp) {
            true => Some(self.ssh()?),
            false => None,
        };
        let mut site = LabSite::build(
            &network.name,
            topology.clone(),
            network.routing.unwrap_or(Routing::Computed),
            &self.book.order.treecast,
            Arc::clone(&self.store),
            path.as_ref().map(|path| path.ends[0].0),
        )
        .map_err(refused)?;
        let mut cargo: Option<Cargo> = None;
        for &planned in runs {
            if self.book.results.interrupted {
                break;
            }
            needs::check(&site, planned)?;
            let (routers, support) = needs::routers(self.experiment(), planned, topology).map_err(refused)?;
            site.prepare(routers, support).map_err(refused)?;
            self.book.number += 1;
            if let Work::Stream(stream) = &planned.work {
                let key = planned.delivery.options.key.then(|| site.key());
                self.play_stream(&site, planned, stream, key.as_deref())?;
                continue;
            }
            if let Work::Load(load) = &planned.work {
                self.play_load(&site, planned, load)?;
                continue;
            }
            if let Work::Multihoming(of_run) = &planned.work {
                self.play_multihoming(&site, planned, of_run)?;
                continue;
            }
            let ready = cargo.take().filter(|cargo| cargo.fits(planned));
            let current = ready.map_or_else(|| self.cargo(planned), Ok)?;
            self.play_files(&site, planned, &current, ssh.as_ref())?;
            cargo = Some(current);
        }
        Ok(())
    }

    fn ssh(&self) -> Result<Ssh, Error> {
        let folder = self.store.fresh_folder("ssh").map_err(store_failed(self.experiment()))?;
        Ssh::prepare(&folder).map_err(|error| Error::Scp { error })
    }

    fn cargo(&self, planned: &Planned) -> Result<Cargo, Error> {
        let experiment = self.experiment();
        let failed = store_failed(experiment);
        match (&experiment.workload, &planned.work) {
            (Workload::Feed(feed), Work::Feed(of_run)) => {
                let link_rate_bps = self.book.plan.networks[planned.network].facts.link_rate_bps;
                let arrivals = feed.arrivals(of_run.configuration.load, link_rate_bps, of_run.seed);
                Products::make(&self.store, &arrivals, of_run.seed).map(Cargo::Feed).map_err(failed)
            }
            (workload, Work::File(size) | Work::Shared(size, _)) => match workload.objects() {
                Some(Objects::File(path)) => Source::copy_of(&self.store, path)
                    .map(Cargo::One)
                    .map_err(|error| Error::Object { path: path.clone(), error }),
                _ => Cargo::random(&self.store, *size, experiment.habits.seed).map_err(failed),
            },
            _ => Err(failed(io::Error::other("a stream has no files"))),
        }
    }

    fn play_files(
        &mut self,
        site: &dyn Site,
        planned: &Planned,
        cargo: &Cargo,
        ssh: Option<&Ssh>,
    ) -> Result<(), Error> {
        let Some(unsettled) = self.settle(planned)? else { return Ok(()) };
        let run = self.begin(site, planned, unsettled)?;
        // Told once the database has the run: whoever ends the program on hearing it finds a run that was cut short.
        self.tell_started(planned);
        let outcome = match &planned.work {
            Work::Shared(..) => self.play_shared(run, cargo)?,
            _ => self.play_alone(run, cargo, ssh)?,
        };
        self.book.conclude(planned, outcome)
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

fn store_failed(experiment: &Experiment) -> impl FnOnce(io::Error) -> Error {
    let place = experiment.habits.store.as_deref().unwrap_or(Path::new("memory")).display();
    let what = format!("source and copies in {place}");
    move |error| Error::Store { what, error }
}
