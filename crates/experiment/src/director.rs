//! A whole experiment: network after network, run after run (librecast-updates-2022, 2.1; what the paper
//! calls the director).

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::Duration,
};

use treecast_measure::{
    Db, analysis,
    db::{FeedInfo, Machine, ObjectTime, RunInfo},
    sample::Recorder,
    statistics::percentile,
};

use super::{
    Error,
    cargo::Cargo,
    claims::{self, Finding, RunTime},
    client::Fared,
    delivery::Delivery,
    feed::Products,
    file::{Experiment, Network, Objects, SendRate, Which},
    network,
    observer::Event,
    plan::{Facts, Plan, Planned},
    programs::Programs,
    record::Record,
    run::{Cast, Played},
    schedule::{Schedule, seed_for},
    settle::Baseline,
    sharing::{self, Scene, SharedPath, Sharing},
    source::Source,
    ssh::Ssh,
    stage::Stage,
    store::{self, Store},
};
use treecast_lab::Topology;
use treecast_lab::quantity::Size;

/// What an experiment needs beside its file.
pub struct Order {
    pub experiment: Experiment,
    /// What the results are filed under.
    pub name: String,
    /// The results database; runs are added to it.
    pub database: PathBuf,
    /// The treecast program.
    pub treecast: PathBuf,
    pub version: String,
    /// The command that repeats the experiment.
    pub command: String,
}

/// How an experiment ended.
#[derive(Debug, Default)]
pub struct Results {
    /// Runs of which every client has a verified copy.
    pub whole_runs: usize,
    pub runs: usize,
    /// Each client that has none: run, node, reason.
    pub failures: Vec<Failure>,
    pub findings: Vec<Finding>,
    /// A line for each kind of run that was left out.
    pub left_out: Vec<String>,
    /// Whether runs end by time, and nobody has a whole copy.
    pub by_time: bool,
    pub interrupted: bool,
}

/// A client without a verified copy.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Failure {
    pub run: String,
    pub node: String,
    pub reason: String,
}

/// Runs an experiment. `observe` hears of what happens; `stop` ends it early, and the run that it ends is
/// marked as cut short. However it ends, what was built is taken down.
pub fn run(order: &Order, observe: &dyn Fn(&Event), stop: &dyn Fn() -> bool) -> Result<Results, Error> {
    let experiment = &order.experiment;
    require_root()?;
    sharing::check_kernel(experiment)?;
    let Prepared { topologies, paths, facts, plan } = Prepared::of(experiment)?;
    observe(&Event::Planned {
        runs: plan.runs.len(),
        estimate: plan.estimate(&facts, experiment.settle.0),
        left_out: &plan.left_out,
    });
    let mut director = Director {
        order,
        observe,
        stop,
        db: Db::open(&order.database)?,
        store: open_store(experiment, &plan, &facts)?,
        facts,
        baseline: Baseline::measure().map_err(Error::Machine)?,
        immediate: HashMap::new(),
        times: Vec::new(),
        results: Results::default(),
        number: 0,
        of: plan.runs.len(),
    };
    for (index, (topology, path)) in topologies.into_iter().zip(paths).enumerate() {
        let runs: Vec<&Planned> = plan.runs.iter().filter(|run| run.network == index).collect();
        if !runs.is_empty() && !director.results.interrupted {
            director.play_network(index, topology, path, &runs)?;
        }
    }
    director.results.left_out = plan.left_out;
    director.results.by_time = experiment.sharing.is_some();
    director.results.findings = claims::findings(&experiment.claims, &director.times);
    Ok(director.results)
}

/// Whether an experiment can be run here, as far as can be told without beginning.
pub fn check(experiment: &Experiment) -> Result<(), Error> {
    require_root()?;
    sharing::check_kernel(experiment)?;
    Prepared::of(experiment).map(drop)
}

pub(super) fn require_root() -> Result<(), Error> {
    if treecast_host::user::is_root() { Ok(()) } else { Err(Error::NotRoot) }
}

/// A run that has begun.
struct Begun<'a> {
    stage: &'a Stage,
    planned: &'a Planned,
    name: &'a str,
    seed: u64,
    cargo: &'a Cargo,
    record: &'a Record,
    recorder: Recorder,
}

/// What an experiment will do, without doing it.
#[derive(Debug, Clone)]
pub struct Preview {
    /// The name of each run, in order.
    pub runs: Vec<String>,
    pub estimate: Duration,
    /// A line for each kind of run that is left out.
    pub left_out: Vec<String>,
}

/// Plans an experiment; builds and sends nothing, and needs no root.
pub fn preview(experiment: &Experiment) -> Result<Preview, Error> {
    let Prepared { facts, plan, .. } = Prepared::of(experiment)?;
    let name = |run: &Planned| run.name(&experiment.networks[run.network].name);
    Ok(Preview {
        runs: plan.runs.iter().map(name).collect(),
        estimate: plan.estimate(&facts, experiment.settle.0),
        left_out: plan.left_out,
    })
}

/// An experiment whose networks and objects are understood.
struct Prepared {
    topologies: Vec<Topology>,
    /// The link that flows share in each.
    paths: Vec<Option<SharedPath>>,
    facts: Vec<Facts>,
    plan: Plan,
}

impl Prepared {
    fn of(experiment: &Experiment) -> Result<Self, Error> {
        let mut topologies: Vec<Topology> =
            experiment.networks.iter().map(Network::build).collect::<Result<_, _>>()?;
        let paths = sharing::paths(experiment, &mut topologies)?;
        let described = experiment.networks.iter().zip(&topologies);
        let facts = described.map(|(description, topology)| {
            let rate = description.rate.as_ref().or(experiment.rate.as_ref());
            network::facts(topology, rate.and_then(SendRate::named_bps))
        });
        let facts: Vec<Facts> = facts.collect();
        let sizes = sizes(&experiment.objects)?;
        sharing::check_sizes(experiment, &sizes, &paths)?;
        let capacity_bytes =
            store::capacity_bytes(experiment.store.as_deref()).map_err(store_failed(experiment))?;
        let plan = Plan::new(experiment, &sizes, &facts, capacity_bytes)?;
        Ok(Self { topologies, paths, facts, plan })
    }
}

struct Director<'a> {
    order: &'a Order,
    /// What is known of each network, in the order of the experiment's networks.
    facts: Vec<Facts>,
    observe: &'a dyn Fn(&Event),
    stop: &'a dyn Fn() -> bool,
    db: Db,
    store: Store,
    baseline: Baseline,
    /// How long the last immediate run that went well took, by network, delivery and size.
    immediate: HashMap<(usize, Delivery, Size), Duration>,
    times: Vec<RunTime>,
    results: Results,
    /// The current run, from 1, and how many there are.
    number: usize,
    of: usize,
}

impl Director<'_> {
    fn play_network(
        &mut self,
        index: usize,
        topology: Topology,
        path: Option<SharedPath>,
        runs: &[&Planned],
    ) -> Result<(), Error> {
        let description = &self.order.experiment.networks[index];
        (self.observe)(&Event::Building { network: &description.name, nodes: topology.nodes.len() });
        let multicast = runs.iter().any(|run| run.delivery.is_multicast());
        let mut ssh = match runs.iter().any(|run| run.delivery == Delivery::Scp) {
            true => Some(self.ssh()?),
            false => None,
        };
        let rate = self.rate(description, &topology);
        let treecast = self.order.treecast.clone();
        let stage = Stage::build(description, topology, multicast, path, |server| Programs {
            treecast: treecast.clone(),
            // A rival needs none.
            ssh: ssh.take(),
            server,
            rate: rate.clone(),
            plain: self.order.experiment.plain,
        })?;
        let mut cargo: Option<Cargo> = None;
        for &planned in runs {
            if self.results.interrupted {
                break;
            }
            let ready = cargo.take().filter(|cargo| cargo.fits(planned));
            let current = ready.map_or_else(|| self.cargo(planned), Ok)?;
            self.play(&stage, planned, &current)?;
            cargo = Some(current);
        }
        Ok(())
    }

    fn ssh(&self) -> Result<Ssh, Error> {
        Ssh::prepare(&self.folder("ssh")?).map_err(|error| Error::Scp { error })
    }

    fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        self.store.fresh_folder(name).map_err(store_failed(&self.order.experiment))
    }

    fn cargo(&self, planned: &Planned) -> Result<Cargo, Error> {
        let facts = &self.facts[planned.network];
        let experiment = &self.order.experiment;
        let failed = store_failed(experiment);
        match (&experiment.objects, &planned.feed) {
            (Objects::Feed(feed), Some(planned)) => {
                let arrivals = feed.arrivals(planned.configuration.load, facts.link_rate_bps, planned.seed);
                Products::make(&self.store, &arrivals, planned.seed).map(Cargo::Feed).map_err(failed)
            }
            (Objects::File(path), _) => Source::copy_of(&self.store, path)
                .map(Cargo::One)
                .map_err(|error| Error::Object { path: path.clone(), error }),
            _ => Source::random(&self.store, planned.size, experiment.seed).map(Cargo::One).map_err(failed),
        }
    }

    fn play(&mut self, stage: &Stage, planned: &Planned, cargo: &Cargo) -> Result<(), Error> {
        let experiment = &self.order.experiment;
        let name = planned.name(&experiment.networks[planned.network].name);
        (self.observe)(&Event::Settling { run: &name });
        let longest = experiment.settle.0;
        let is_quiet = self.baseline.settle(longest, self.stop).map_err(Error::Machine)?;
        // Who waits for nothing does not ask.
        let unsettled = (!is_quiet && !longest.is_zero()).then_some(longest);
        if (self.stop)() {
            self.results.interrupted = true;
            return Ok(());
        }
        let seed = seed_for(experiment.seed, &name);
        self.number += 1;
        let info = self.info(stage, planned, seed);
        let record = Record::begin(&mut self.db, &info, &stage.topology, unsettled, |name| {
            stage.main.clients.iter().any(|client| client.name == name)
        })?;
        if let Some(feed) = self.feed_info(stage, planned) {
            record.feed(&mut self.db, &feed)?;
        }
        (self.observe)(&Event::Started {
            number: self.number,
            of: self.of,
            run: &name,
            clients: stage.main.clients.len(),
            expected: planned.estimate(&self.facts[planned.network], longest),
        });
        let recorder = record.recorder(&self.db, experiment.sample.0, stage.node_sources())?;
        let run = Begun { stage, planned, name: &name, seed, cargo, record: &record, recorder };
        let played = match experiment.sharing.as_ref().zip(stage.shared.as_ref()) {
            Some((sharing, path)) => self.play_shared(run, sharing, path)?,
            None => self.play_alone(run)?,
        };
        self.conclude(stage, planned, &name, &record, cargo, &played)
    }

    /// A run on a link that others use, too.
    fn play_shared(&mut self, run: Begun<'_>, sharing: &Sharing, path: &SharedPath) -> Result<Played, Error> {
        let experiment = &self.order.experiment;
        let scene = Scene {
            stage: run.stage,
            planned: run.planned,
            sharing,
            path,
            description: &experiment.networks[run.planned.network],
            cargo: run.cargo,
            store: &self.store,
            record: run.record,
            timeout: experiment.timeout.0,
        };
        run.record.sharing(&mut self.db, &scene.info(None))?;
        let failed = |error| Error::Sharing { run: run.name.to_owned(), error };
        let outcome = scene.play(&run.recorder, self.stop).map_err(failed)?;
        run.recorder.stop()?;
        run.record.sharing(&mut self.db, &scene.info(Some(&outcome)))?;
        for (index, fared) in outcome.played.clients.iter().enumerate() {
            run.record.client_done(&mut self.db, index, fared)?;
        }
        let failure = |reason| Failure { run: run.name.to_owned(), node: "rival".into(), reason };
        self.results.failures.extend(outcome.rival_failure.map(failure));
        Ok(outcome.played)
    }

    /// A run that has the network for itself.
    fn play_alone(&mut self, run: Begun<'_>) -> Result<Played, Error> {
        let (experiment, stage) = (&self.order.experiment, run.stage);
        let immediate = self.immediate_duration(run.planned);
        let cast = Cast {
            stage,
            party: &stage.main,
            planned: run.planned,
            cargo: run.cargo,
            store: &self.store,
            waits: run.planned.schedule.waits(stage.main.clients.len(), immediate, run.seed),
            origin: run.record.origin,
            timeout: experiment.timeout.0,
            recorder: &run.recorder,
            server_node: run.record.server,
            client_nodes: run.record.clients.clone(),
            stopped: experiment.networks[run.planned.network].stopped.as_ref(),
            begun: None,
        };
        let mut filed = Ok(());
        let mut each = |index: usize, fared: &Fared| {
            let node = &stage.main.clients[index].name;
            (self.observe)(&Event::Client { run: run.name, node, fared });
            if filed.is_ok() {
                filed = run.record.client_done(&mut self.db, index, fared);
            }
        };
        let played = cast.play(&mut each, self.stop).map_err(store_failed(experiment))?;
        filed?;
        run.recorder.stop()?;
        Ok(played)
    }

    /// Files how a run went.
    fn conclude(
        &mut self,
        stage: &Stage,
        planned: &Planned,
        name: &str,
        record: &Record,
        cargo: &Cargo,
        played: &Played,
    ) -> Result<(), Error> {
        let saturated = record.finish(&mut self.db, played, cargo.size().0)?;
        let failures = played.clients.iter().zip(&stage.main.clients).filter_map(|(fared, client)| {
            let reason = fared.failure.clone()?;
            Some(Failure { run: name.into(), node: client.name.clone(), reason })
        });
        let failures: Vec<Failure> = failures.collect();
        // One that failed took the time of the failure, which is no measure for those that follow.
        if planned.schedule == Schedule::Immediate && failures.is_empty() && !played.interrupted {
            let key = (planned.network, planned.delivery, planned.size);
            self.immediate.insert(key, played.duration);
        }
        self.results.interrupted |= played.interrupted;
        let link = record.shared_link(&self.db)?;
        if !played.interrupted {
            let sent_bytes = record.server_sent_bytes(&self.db)?;
            self.times.push(RunTime {
                sent_bytes,
                link: link.clone(),
                ..self.run_time(stage, planned, played)
            });
        }
        self.results.runs += 1;
        self.results.whole_runs += usize::from(failures.is_empty());
        (self.observe)(&Event::Finished {
            number: self.number,
            run: name,
            duration: played.duration,
            whole: played.clients.len() - failures.len(),
            clients: played.clients.len(),
            saturated: saturated.as_deref(),
            cut_short: played.interrupted,
            link: link.as_ref(),
        });
        self.results.failures.extend(failures);
        Ok(())
    }

    fn info(&self, stage: &Stage, planned: &Planned, seed: u64) -> RunInfo {
        RunInfo {
            experiment: self.order.name.clone(),
            topology: self.order.experiment.networks[planned.network].name.clone(),
            clients: stage.main.clients.len() as u32,
            router_levels: network::router_levels(&stage.topology),
            link_bps: network::link_rate_bps(&stage.topology),
            server_bps: network::server_rate_bps(&stage.topology),
            delivery: planned.delivery.name().into(),
            schedule: planned.schedule.name().into(),
            size_bytes: planned.size.0,
            repeat: planned.repeat - 1,
            seed,
            command: self.order.command.clone(),
            machine: Machine::here(&self.order.version),
        }
    }

    fn feed_info(&self, stage: &Stage, planned: &Planned) -> Option<FeedInfo> {
        let Objects::Feed(feed) = &self.order.experiment.objects else { return None };
        let configuration = &planned.feed.as_ref()?.configuration;
        let (slow, loss) = network::slow_clients(&stage.topology);
        Some(FeedInfo {
            objects: feed.objects,
            load: configuration.load,
            factor: configuration.factor,
            priority: configuration.priority.name().into(),
            loss,
            slow,
        })
    }

    fn run_time(&self, stage: &Stage, planned: &Planned, played: &Played) -> RunTime {
        let (robustness, throughput_bps) = match self.feed_info(stage, planned) {
            Some(feed) => equation_4_2(&feed, stage, played),
            None => (None, None),
        };
        let stopped = self.order.experiment.networks[planned.network].stopped.as_ref().map(|one| one.client);
        let counted = played.clients.iter().enumerate().filter(|(index, _)| Some(*index) != stopped);
        let seconds: Option<Vec<f64>> = counted.map(|(_, fared)| fared.run_seconds()).collect();
        RunTime {
            of: Which {
                network: self.order.experiment.networks[planned.network].name.clone(),
                delivery: planned.delivery,
                schedule: planned.schedule,
                load: planned.feed.as_ref().map(|feed| feed.configuration.load),
                factor: planned.feed.as_ref().map(|feed| feed.configuration.factor),
                priority: planned.feed.as_ref().map(|feed| feed.configuration.priority),
            },
            size: planned.size,
            link_rate_bps: self.facts[planned.network].link_rate_bps,
            median_seconds: seconds.as_ref().and_then(|seconds| percentile(seconds, 50.0)),
            slowest_seconds: seconds.and_then(|seconds| seconds.into_iter().reduce(f64::max)),
            robustness,
            throughput_mbps: throughput_bps.map(|bps| bps / 1e6),
            sent_bytes: None,
            processor_ms: processor_ms(&played.clients),
            link: None,
        }
    }

    /// How long the corresponding immediate run took; where there was none that went well, how long it should
    /// have taken.
    fn immediate_duration(&self, planned: &Planned) -> Duration {
        let key = (planned.network, planned.delivery, planned.size);
        let estimate = || planned.transfer(&self.facts[planned.network]);
        self.immediate.get(&key).copied().unwrap_or_else(estimate)
    }

    /// What `--rate` or `--rates` is told: what the experiment says, otherwise what the slowest link carries.
    fn rate(&self, network: &Network, topology: &Topology) -> String {
        match network.rate.as_ref().or(self.order.experiment.rate.as_ref()) {
            Some(SendRate::Auto) => "auto".into(),
            Some(SendRate::Max) => "max".into(),
            Some(SendRate::Bps(rate)) => rate.0.to_string(),
            Some(SendRate::Several(rates)) => {
                rates.iter().map(|rate| rate.0.to_string()).collect::<Vec<_>>().join(",")
            }
            None => network::link_rate_bps(topology)
                .map_or("max".into(), |link| sending_rate_bps(link).to_string()),
        }
    }
}

/// The rate of IP packets that fills a link whose rate counts Ethernet frames: 1,500 of 1,514 bytes, less a
/// thousandth for everything else that crosses the link.
fn sending_rate_bps(link_rate_bps: u64) -> u64 {
    (link_rate_bps as f64 * 1500.0 / 1514.0 * 0.999) as u64
}

/// Processor time of a client's program on average; none when there are no clients.
fn processor_ms(clients: &[Fared]) -> Option<f64> {
    let spent = clients.iter().map(|fared| fared.ended.cpu_user + fared.ended.cpu_system);
    (!clients.is_empty()).then(|| spent.sum::<Duration>().as_secs_f64() * 1e3 / clients.len() as f64)
}

/// Robustness of the slow receivers and throughput of the fast ones.
fn equation_4_2(feed: &FeedInfo, stage: &Stage, played: &Played) -> (Option<f64>, Option<f64>) {
    let receivers: Vec<(bool, &[ObjectTime])> = stage
        .main
        .clients
        .iter()
        .zip(&played.clients)
        .map(|(client, fared)| (feed.slow.contains(&client.name), fared.objects.as_slice()))
        .collect();
    analysis::of_receivers(feed.objects, &receivers)
}

fn sizes(objects: &Objects) -> Result<Vec<Size>, Error> {
    match objects {
        Objects::Random(sizes) => Ok(sizes.clone()),
        Objects::Feed(_) => Ok(Vec::new()),
        Objects::File(path) => {
            let failed = |error| Error::Object { path: path.clone(), error };
            let found = std::fs::metadata(path).map_err(failed)?;
            if found.is_file() && found.len() > 0 {
                Ok(vec![Size(found.len())])
            } else {
                Err(failed(std::io::Error::other("it is not a file with something in it")))
            }
        }
    }
}

fn open_store(experiment: &Experiment, plan: &Plan, facts: &[Facts]) -> Result<Store, Error> {
    let needed = plan.runs.iter().map(|run| run.size.0 * (facts[run.network].clients as u64 + 1));
    match &experiment.store {
        Some(folder) => Store::in_folder(folder),
        None => Store::in_memory(needed.max().unwrap_or(0)),
    }
}

fn store_failed(experiment: &Experiment) -> impl FnOnce(std::io::Error) -> Error {
    let place = experiment.store.as_deref().unwrap_or(Path::new("memory")).display();
    let what = format!("source and copies in {place}");
    move |error| Error::Store { what, error }
}
