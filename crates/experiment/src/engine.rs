//! A whole experiment: network after network, run after run.

use std::{
    collections::{BTreeSet, HashMap},
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use treecast_lab::{Routing, Topology};
use treecast_measure::{
    Db,
    claim::{self, Finding},
    db::{Machine, NewRun, RunId},
    frame::Frame,
    sample::Recorder,
};

use crate::{
    Error, Event, Finished,
    cargo::Cargo,
    carried::Carried,
    client::Fared,
    document::{
        Experiment,
        delivery::{Delivery, Fanout, Program},
        network,
        workload::{Objects, Workload},
    },
    feed::{self, Products},
    filing::Filing,
    plan::{self, Group, Plan, Planned, Understood, Work},
    programs::Programs,
    record::{self, Record},
    schedule::{Schedule, seed_for},
    session::{Played, Session, attachment},
    settle::Baseline,
    sharing::{self, Connection, Contest, Flow, RivalKind, Shared, SharedPath},
    site::{LabSite, Need, Routers, Site},
    source::Source,
    ssh::Ssh,
    store::{self, Store},
    stream::{self, PlannedStream, Scene},
};

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
    /// Runs of which every client has what it was to get.
    pub whole_runs: usize,
    pub runs: usize,
    /// Each client that has not: run, node, reason.
    pub failures: Vec<Failure>,
    /// Each run that the program itself refused to make.
    pub refused: Vec<Refusal>,
    pub findings: Vec<Finding>,
    /// A line for each kind of run that was left out.
    pub left_out: Vec<String>,
    pub interrupted: bool,
}

/// A client without a verified copy.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Failure {
    pub run: String,
    pub node: String,
    pub reason: String,
}

/// A run that the program refused, in its own words.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Refusal {
    pub run: String,
    pub reason: String,
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
    Plan::new(experiment, capacity_bytes.map_err(store_failed(experiment))?)
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
    observe(&Event::Planned {
        runs: plan.runs.len(),
        estimate: plan.estimate(experiment.habits.settle),
        left_out: &plan.left_out,
    });
    let mut engine = Engine {
        order,
        observe,
        stop,
        plan: &plan,
        db: Db::open(&order.database)?,
        store: Arc::new(open_store(experiment, &plan)?),
        baseline: Baseline::measure().map_err(Error::Machine)?,
        immediate: HashMap::new(),
        made: Vec::new(),
        results: Results::default(),
        number: 0,
    };
    for index in 0..plan.networks.len() {
        let runs: Vec<&Planned> = plan.runs.iter().filter(|run| run.network == index).collect();
        if !runs.is_empty() && !engine.results.interrupted {
            engine.play_network(index, &runs)?;
        }
    }
    let Engine { db, made, mut results, .. } = engine;
    let frame = Frame::load(&db, &made)?;
    // Without a run, the frame would be of all that the database has.
    if !made.is_empty() {
        results.findings = claim::judge(&experiment.shows.claims, &frame, &experiment.shows.papers);
    }
    results.left_out = plan.left_out.clone();
    Ok(results)
}

/// What the MEADcast thesis let be lost of a file that is sent as a stream (4.4.3).
const MAX_LOSS: f64 = 0.015;

/// How often such a file is sent slower than before.
const MAX_SLOWER: u32 = 4;

struct Engine<'a> {
    order: &'a Order,
    observe: &'a dyn Fn(&Event),
    stop: &'a (dyn Fn() -> bool + Sync),
    plan: &'a Plan<'a>,
    db: Db,
    store: Arc<Store>,
    baseline: Baseline,
    /// How long the last immediate run that went well took, by network, delivery and size.
    immediate: HashMap<(usize, String, u64), Duration>,
    /// The runs that are in the database.
    made: Vec<RunId>,
    results: Results,
    /// The number of the current run, from 1.
    number: usize,
}

/// A run that has begun.
struct Begun<'b> {
    site: &'b LabSite,
    planned: &'b Planned<'b>,
    record: Record,
    recorder: Recorder,
}

/// What a run came to, the bytes on links aside.
#[derive(Default)]
struct Outcome {
    filing: Filing,
    sentence: String,
    duration: Duration,
    /// The clients that lack something: node and reason.
    failures: Vec<(String, String)>,
    refused: Option<String>,
    interrupted: bool,
}

impl Engine<'_> {
    fn experiment(&self) -> &Experiment {
        &self.order.experiment
    }

    fn play_network(&mut self, index: usize, runs: &[&Planned]) -> Result<(), Error> {
        let network = &self.order.experiment.networks[index];
        let Understood { topology, path, .. } = &self.plan.networks[index];
        (self.observe)(&Event::Building { network: &network.name, nodes: topology.nodes.len() });
        let refused = |what| Error::Network { name: network.name.clone(), what };
        let ssh = match runs.iter().any(|run| run.delivery.program == Program::Scp) {
            true => Some(self.ssh()?),
            false => None,
        };
        let mut site = LabSite::build(
            &network.name,
            topology.clone(),
            network.routing.unwrap_or(Routing::Computed),
            &self.order.treecast,
            Arc::clone(&self.store),
            path.as_ref().map(|path| path.ends[0].0),
        )
        .map_err(refused)?;
        let mut cargo: Option<Cargo> = None;
        for &planned in runs {
            if self.results.interrupted {
                break;
            }
            check_needs(&site, planned)?;
            let (routers, support) = routers(self.experiment(), planned, topology).map_err(refused)?;
            site.prepare(routers, support).map_err(refused)?;
            self.number += 1;
            if let Work::Stream(stream) = &planned.work {
                self.play_stream(&site, planned, stream)?;
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
                let link_rate_bps = self.plan.networks[planned.network].facts.link_rate_bps;
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

    /// Waits until the machine is quiet. Returns how long was waited in vain; `None` in the place of all when the user wants to
    /// stop.
    fn settle(&mut self, planned: &Planned) -> Result<Option<Option<Duration>>, Error> {
        (self.observe)(&Event::Settling { run: &planned.name });
        let longest = self.experiment().habits.settle;
        let stop = self.stop;
        let is_quiet = self.baseline.settle(longest, &|| stop()).map_err(Error::Machine)?;
        if (self.stop)() {
            self.results.interrupted = true;
            return Ok(None);
        }
        // Who waits for nothing does not ask.
        Ok(Some((!is_quiet && !longest.is_zero()).then_some(longest)))
    }

    fn begin<'b>(
        &mut self,
        site: &'b LabSite,
        planned: &'b Planned<'b>,
        unsettled: Option<Duration>,
    ) -> Result<Begun<'b>, Error> {
        let experiment = &self.order.experiment;
        let run = NewRun {
            experiment: self.order.name.clone(),
            parameters: planned.parameters.clone(),
            seed: seed_for(experiment.habits.seed, &planned.name),
            repeat: planned.repeat - 1,
            command: self.order.command.clone(),
            machine: Machine::here(&self.order.version),
        };
        let record = Record::begin(&mut self.db, &run, site.topology(), unsettled)?;
        let recorder = site.watch(&self.db, &record, experiment.habits.sample)?;
        Ok(Begun { site, planned, record, recorder })
    }

    fn tell_started(&self, planned: &Planned) {
        let facts = &self.plan.networks[planned.network].facts;
        (self.observe)(&Event::Started {
            number: self.number,
            of: self.plan.runs.len(),
            run: &planned.name,
            clients: planned.groups[0].receivers.len(),
            expected: planned.estimate(facts, self.experiment().habits.settle),
        });
    }

    fn play_files(
        &mut self,
        site: &LabSite,
        planned: &Planned,
        cargo: &Cargo,
        ssh: Option<&Ssh>,
    ) -> Result<(), Error> {
        let Some(unsettled) = self.settle(planned)? else { return Ok(()) };
        let run = self.begin(site, planned, unsettled)?;
        // Told once the database has the run: whoever ends the program on hearing it finds a run that was cut short.
        self.tell_started(planned);
        let (outcome, carried) = match &planned.work {
            Work::Shared(..) => self.play_shared(run, cargo)?,
            _ => self.play_alone(run, cargo, ssh)?,
        };
        self.conclude(planned, outcome, &carried)
    }

    /// A run that has the network for itself.
    fn play_alone(
        &mut self,
        run: Begun<'_>,
        cargo: &Cargo,
        ssh: Option<&Ssh>,
    ) -> Result<(Outcome, Closing), Error> {
        let Begun { site, planned, record, recorder } = run;
        let group = &planned.groups[0];
        let seed = seed_for(self.experiment().habits.seed, &planned.name);
        let immediate = self.immediate_duration(planned);
        let stopped = self.order.experiment.networks[planned.network].stopped.as_ref();
        let session = Session {
            site,
            planned,
            group,
            programs: Self::programs(self.order, site, planned, group, ssh)?,
            cargo,
            waits: planned.schedule.waits(group.receivers.len(), immediate, seed),
            origin: record.origin,
            timeout: self.experiment().habits.timeout,
            watch: &|node, pid| recorder.watch_process(record.node(node), pid),
            stopped,
            begun: None,
        };
        let mut filed = Ok(());
        let (observe, db) = (self.observe, &mut self.db);
        let mut each = |index: usize, fared: &Fared| {
            let node = &group.receivers[index];
            observe(&Event::Client { run: &planned.name, node, fared });
            if filed.is_ok() {
                filed = record.client_done(db, node, fared);
            }
        };
        let stop = self.stop;
        let played = session.play(&mut each, &|| stop()).map_err(run_failed(planned))?;
        drop(session);
        filed?;
        recorder.stop()?;
        self.note_server(&record, group, &played)?;
        let outcome = self.outcome(planned, cargo, group, &played, stopped.map(|stopped| stopped.client));
        let closing = Closing { record, senders: vec![group.sender.clone()] };
        Ok((outcome, closing))
    }

    fn programs<'p>(
        order: &'p Order,
        site: &LabSite,
        planned: &'p Planned<'p>,
        group: &Group,
        ssh: Option<&'p Ssh>,
    ) -> Result<Programs<'p>, Error> {
        let at = |node: &str| attachment(site, node).map_err(run_failed(planned));
        let receivers = group.receivers.iter().map(|node| at(node).map(|at| at.address));
        let habits = &order.experiment.habits;
        let network = &order.experiment.networks[planned.network];
        Ok(Programs {
            treecast: &order.treecast,
            ssh,
            delivery: planned.delivery,
            server: at(&group.sender)?,
            receivers: receivers.collect::<Result<_, _>>()?,
            rate: plan::rate(&order.experiment, network, planned.delivery, site.topology()),
            plain: planned.delivery.plain.unwrap_or(habits.plain),
        })
    }

    /// Files when the server was ready, what it said last, and what happened to the network.
    fn note_server(&mut self, record: &Record, group: &Group, played: &Played) -> Result<(), Error> {
        let db = &mut self.db;
        let server = Some(group.sender.as_str());
        let end = played.clients_start + played.duration;
        record.event(db, played.clients_start, server, "ready", "")?;
        if let Some(reason) = &played.server_failure {
            record.event(db, end, server, "failed", reason)?;
        }
        if let Some(said) = &played.server_said {
            record.event(db, end, server, "done", said)?;
        }
        for happening in &played.happened {
            record.event(db, played.clients_start + happening.at, None, "event", &happening.what)?;
        }
        Ok(())
    }

    /// What a run came to in which every client was to get something.
    fn outcome(
        &mut self,
        planned: &Planned,
        cargo: &Cargo,
        group: &Group,
        played: &Played,
        stopped: Option<usize>,
    ) -> Outcome {
        let receivers = &group.receivers;
        let mut filing = match &played.refused {
            Some(reason) => record::of_refused(receivers, reason),
            None => record::of_clients(receivers, played, cargo.size().0, stopped),
        };
        filing.rows.extend(record::of_server(&group.sender, played).rows);
        filing.run("duration", played.duration.as_secs_f64(), "s");
        if let (Work::Feed(_), Workload::Feed(feed)) = (&planned.work, &self.experiment().workload) {
            let (slow, _) = network::slow_clients(&self.plan.networks[planned.network].topology);
            let have = receivers.iter().cloned().zip(played.clients.iter().map(|fared| &*fared.objects));
            filing.rows.extend(feed::filing(feed, &slow, &have.collect::<Vec<_>>()).rows);
        }
        let failed = |(node, fared): (&String, &Fared)| Some((node.clone(), fared.failure.clone()?));
        let failures: Vec<_> = match played.refused {
            Some(_) => Vec::new(),
            None => receivers.iter().zip(&played.clients).filter_map(failed).collect(),
        };
        // A run that failed took the time of the failure, which is no measure for those that follow.
        if planned.schedule == Schedule::Immediate && failures.is_empty() && !played.interrupted {
            self.immediate.insert(key(planned), played.duration);
        }
        let (whole, of) = (receivers.len() - failures.len(), receivers.len());
        let verified = if planned.delivery.may_lack() { "receivers at the end" } else { "copies verified" };
        Outcome {
            filing,
            sentence: format!(
                "{whole} of {of} {verified}, last after {:.3} s",
                played.duration.as_secs_f64()
            ),
            duration: played.duration,
            failures,
            refused: played.refused.clone(),
            interrupted: played.interrupted,
        }
    }

    /// A run on a link that others use, too.
    fn play_shared(&mut self, run: Begun<'_>, cargo: &Cargo) -> Result<(Outcome, Closing), Error> {
        let Begun { site, planned, record, recorder } = run;
        let description = &self.order.experiment.networks[planned.network];
        let path = self.plan.networks[planned.network].path.as_ref();
        let shared = self.order.experiment.workload.sharing().zip(path);
        let Some((sharing, path)) = shared else {
            return Err(run_failed(planned)(io::Error::other("nothing is shared")));
        };
        let begun = [OnceLock::new(), OnceLock::new()];
        let watch = |node: &str, pid| recorder.watch_process(record.node(node), pid);
        let connection = |group: &'_ Group, index: usize| -> Result<Flow<'_>, Error> {
            let to = group.receivers.first();
            let to = to.ok_or_else(|| run_failed(planned)(io::Error::other("nobody is there to send to")))?;
            let address = attachment(site, to).map_err(run_failed(planned))?.address;
            Ok(Flow::Tcp(Connection {
                site,
                from: group.sender.clone(),
                to: to.clone(),
                address,
                congestion: &sharing.congestion,
                origin: record.origin,
                begun: &begun[index],
            }))
        };
        let session = |group, index: usize| -> Result<Flow<'_>, Error> {
            Ok(Flow::Session(Box::new(Session {
                site,
                planned,
                group,
                programs: Self::programs(self.order, site, planned, group, None)?,
                cargo,
                waits: Vec::new(),
                origin: record.origin,
                timeout: self.experiment().habits.timeout,
                watch: &watch,
                stopped: None,
                begun: Some(&begun[index]),
            })))
        };
        let first = match planned.delivery.program {
            Program::Tcp => connection(&planned.groups[0], 0)?,
            _ => session(&planned.groups[0], 0)?,
        };
        let rival = description.rival.as_ref().zip(planned.groups.get(1));
        let rival = rival.map(|(rival, group)| {
            let flow = match rival.kind {
                RivalKind::Tcp => connection(group, 1)?,
                RivalKind::Session => session(group, 1)?,
            };
            Ok::<_, Error>((flow, rival.after.map_or(Duration::ZERO, |after| after.0)))
        });
        let contest = Contest {
            site,
            sharing,
            path,
            changes: &description.changes,
            origin: record.origin,
            first,
            rival: rival.transpose()?,
            begun: &begun,
        };
        let stop = self.stop;
        let outcome = contest.play(&|| stop()).map_err(run_failed(planned))?;
        drop(contest);
        recorder.stop()?;
        let closing =
            Closing { record, senders: planned.groups.iter().map(|group| group.sender.clone()).collect() };
        let outcome = self.shared_outcome(planned, path, site, &closing.record, outcome)?;
        Ok((outcome, closing))
    }

    fn shared_outcome(
        &mut self,
        planned: &Planned,
        path: &SharedPath,
        site: &LabSite,
        record: &Record,
        outcome: sharing::Outcome,
    ) -> Result<Outcome, Error> {
        let group = &planned.groups[0];
        let is_tcp = planned.delivery.program == Program::Tcp;
        let receivers = planned.groups.iter().map(|group| {
            // A connection goes to one of them.
            let count = if is_tcp { 1 } else { group.receivers.len() };
            let at = |node: &String| Ok((node.clone(), attachment(site, node)?.interface));
            group.receivers.iter().take(count).map(at).collect::<io::Result<Vec<_>>>()
        });
        let receivers: Vec<_> = receivers.collect::<io::Result<_>>().map_err(run_failed(planned))?;
        let shared = Shared::load(&self.db, record, path, &outcome, &receivers)?;
        let mut filing = sharing::filing(&shared, path, outcome.together);
        let sentence = sharing::sentence(&filing);
        let played = &outcome.played;
        filing.run("duration", played.duration.as_secs_f64(), "s");
        for (node, fared) in group.receivers.iter().zip(&played.clients) {
            record.client_done(&mut self.db, node, fared)?;
        }
        for (at, bps) in outcome.rates.iter().skip(1) {
            record.event(&mut self.db, *at, None, "event", &format!("the link has {bps} bit/s"))?;
        }
        let failed = |(node, fared): (&String, &Fared)| Some((node.clone(), fared.failure.clone()?));
        let mut failures: Vec<_> = group.receivers.iter().zip(&played.clients).filter_map(failed).collect();
        failures.extend(outcome.rival_failure.map(|reason| ("rival".to_owned(), reason)));
        Ok(Outcome {
            filing,
            sentence,
            duration: played.duration,
            failures,
            refused: played.refused.clone(),
            interrupted: played.interrupted,
        })
    }

    /// A stream. A file that is sent as one, of which too much is lost, is sent again, slower: the thesis raised the rate until
    /// so much was lost.
    fn play_stream(
        &mut self,
        site: &LabSite,
        planned: &Planned,
        stream: &PlannedStream,
    ) -> Result<(), Error> {
        let mut stream = stream.clone();
        for slower in 0..=MAX_SLOWER {
            let most_lost = if slower == MAX_SLOWER { 1.0 } else { MAX_LOSS };
            if !self.attempt(site, planned, &stream, most_lost)? {
                break;
            }
            stream = stream.slower();
        }
        Ok(())
    }

    /// Makes a stream's run. Returns whether it was a file of which more than `most_lost` was lost: then nothing of it counts.
    fn attempt(
        &mut self,
        site: &LabSite,
        planned: &Planned,
        stream: &PlannedStream,
        most_lost: f64,
    ) -> Result<bool, Error> {
        if self.settle(planned)?.is_none() {
            return Ok(false);
        }
        self.tell_started(planned);
        let failed = run_failed(planned);
        let key = planned.delivery.options.key.then(|| site.key());
        let number = self.number as u32;
        let scene = Scene::set(site, planned, stream, &self.order.treecast, key, number).map_err(&failed)?;
        // Senders that look for routers are not what is measured.
        let Some(unsettled) = self.settle(planned)? else { return Ok(false) };
        let receivers = scene.receivers.clone();
        let Begun { record, recorder, .. } = self.begin(site, planned, unsettled)?;
        // The first interval is without traffic, and the second begins with it.
        std::thread::sleep(self.experiment().habits.sample);
        let began = record.origin.elapsed();
        let played = scene.play(self.stop);
        recorder.stop()?;
        let played = played.map_err(&failed)?;
        let senders: Vec<String> = planned.groups.iter().map(|group| group.sender.clone()).collect();
        let of: Vec<&str> = senders.iter().map(String::as_str).collect();
        let carried = Carried::of(&self.db, &record, site.topology(), &of)?;
        let mut filing = stream::rows(planned, stream, &receivers, &played, &carried, began);
        filing.run("duration", played.sent.lasted.as_secs_f64(), "s");
        let lost = stream::lost(&filing);
        for happening in &played.happened {
            record.event(&mut self.db, began + happening.at, None, "event", &happening.what)?;
        }
        let interrupted = (self.stop)() && played.sent.packets < stream.packets;
        let is_file = matches!(stream.load, crate::document::workload::Load::Bytes(_));
        if !interrupted && is_file && lost > most_lost {
            record.close(&mut self.db, true)?;
            let why = format!("{:.2} % lost: once more, slower", lost * 100.0);
            (self.observe)(&Event::Again { run: &planned.name, why: &why });
            return Ok(true);
        }
        let outcome = Outcome {
            sentence: stream::sentence(&filing, &carried, &played),
            filing,
            duration: played.sent.lasted,
            interrupted,
            ..Outcome::default()
        };
        self.conclude(planned, outcome, &Closing { record, senders })?;
        Ok(false)
    }

    /// Files what a run came to, and tells it.
    fn conclude(&mut self, planned: &Planned, outcome: Outcome, closing: &Closing) -> Result<(), Error> {
        let Closing { record, senders } = closing;
        let of: Vec<&str> = senders.iter().map(String::as_str).collect();
        let topology = &self.plan.networks[planned.network].topology;
        let carried = Carried::of(&self.db, record, topology, &of)?;
        if outcome.refused.is_none() {
            let watched = &self.order.experiment.networks[planned.network].watch;
            record.file_carried(&mut self.db, &carried, watched)?;
        }
        let of_run = outcome.filing.rows.iter().filter(|(node, _)| node.is_none());
        let mut measures: Vec<_> = of_run.map(|(_, row)| (row.measure.clone(), row.value)).collect();
        measures.push(("network_bytes".into(), Some(carried.network as f64)));
        measures.push(("sender_bytes".into(), Some(carried.sender as f64)));
        record.file(&mut self.db, outcome.filing)?;
        let saturated = record.close(&mut self.db, outcome.interrupted)?;
        self.made.push(record.run());
        self.results.interrupted |= outcome.interrupted;
        self.results.runs += 1;
        let is_whole = outcome.failures.is_empty() && outcome.refused.is_none() && !outcome.interrupted;
        self.results.whole_runs += usize::from(is_whole);
        let clients = planned.groups[0].receivers.len();
        (self.observe)(&Event::Finished(&Finished {
            number: self.number,
            run: &planned.name,
            duration: outcome.duration,
            whole: clients.saturating_sub(outcome.failures.len()),
            clients,
            sentence: &outcome.sentence,
            measures: &measures,
            saturated: saturated.as_deref(),
            cut_short: outcome.interrupted,
            refused: outcome.refused.as_deref(),
        }));
        let run = || planned.name.clone();
        let refusal = outcome.refused.map(|reason| Refusal { run: run(), reason });
        self.results.refused.extend(refusal);
        let failures = outcome.failures.into_iter();
        self.results.failures.extend(failures.map(|(node, reason)| Failure { run: run(), node, reason }));
        Ok(())
    }

    /// How long the corresponding immediate run took; where there was none that went well, how long it should
    /// have taken.
    fn immediate_duration(&self, planned: &Planned) -> Duration {
        let estimate = || planned.transfer(&self.plan.networks[planned.network].facts);
        self.immediate.get(&key(planned)).copied().unwrap_or_else(estimate)
    }
}

/// What is needed to close a run.
struct Closing {
    record: Record,
    senders: Vec<String>,
}

fn key(planned: &Planned) -> (usize, String, u64) {
    let size = match &planned.work {
        Work::File(size) | Work::Shared(size, _) => size.0,
        Work::Feed(feed) => feed.size.0,
        Work::Stream(_) => 0,
    };
    (planned.network, planned.delivery.name.clone(), size)
}

/// What the routers of a network run in a run, and which of them speak MEADcast and Xcast.
fn routers(
    experiment: &Experiment,
    planned: &Planned,
    topology: &Topology,
) -> Result<(Routers, Option<BTreeSet<String>>), String> {
    let network = &experiment.networks[planned.network];
    let any = |wanted: fn(&Delivery) -> bool| {
        experiment.deliveries.iter().filter(|delivery| network.runs(&delivery.name)).any(wanted)
    };
    let delivery = planned.delivery;
    let xcast_plus = any(|delivery| delivery.fanout == Fanout::XcastPlus);
    let routers = Routers {
        // Each passes the other's joins on, as if its own routers were listeners.
        multicast: if xcast_plus { delivery.is_multicast() } else { any(Delivery::is_multicast) },
        source_specific: matches!(experiment.workload, Workload::Stream(_)),
        explicit: any(Delivery::is_explicit),
        designated: any(|delivery| delivery.options.designated),
        xcast_plus,
        key: delivery.options.key,
    };
    // Routers of Xcast+ would make Xcast of what a source multicasts.
    let support = match delivery.fanout == Fanout::Multicast && xcast_plus {
        true => Some(BTreeSet::new()),
        false => delivery.support.routers(topology)?,
    };
    Ok((routers, support))
}

/// Refuses a run that needs what its site lacks.
fn check_needs(site: &dyn Site, planned: &Planned) -> Result<(), Error> {
    let needs = needs(planned);
    match needs.into_iter().find(|need| !site.can(*need)) {
        None => Ok(()),
        Some(need) => {
            Err(Error::Lacking { run: planned.name.clone(), place: "here".into(), needs: need.to_string() })
        }
    }
}

fn needs(planned: &Planned) -> Vec<Need> {
    let delivery = planned.delivery;
    let events = !delivery.events.is_empty();
    let is_stream = matches!(planned.work, Work::Stream(_));
    let is_shared = matches!(planned.work, Work::Shared(..));
    let needs = [
        (Need::Routers, delivery.is_explicit() || delivery.is_multicast()),
        (Need::Sockets, is_stream || is_shared || events),
        (Need::Events, events),
        (Need::Rates, is_shared),
        (Need::Files, matches!(planned.work, Work::Feed(_))),
    ];
    needs.into_iter().filter(|(_, is_needed)| *is_needed).map(|(need, _)| need).collect()
}

fn run_failed(planned: &Planned) -> impl Fn(io::Error) -> Error {
    let run = planned.name.clone();
    move |error| Error::Run { run: run.clone(), error }
}

fn open_store(experiment: &Experiment, plan: &Plan) -> Result<Store, Error> {
    let needed = plan.runs.iter().map(|run| match &run.work {
        Work::File(size) | Work::Shared(size, _) => size.0 * (run.clients() as u64 + 1),
        Work::Feed(feed) => feed.size.0 * (run.clients() as u64 + 1),
        Work::Stream(_) => 0,
    });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::tests::Bare;

    #[test]
    fn a_run_is_refused_where_its_site_lacks_what_it_needs() {
        let text = r#"
            title = "a stream"
            network = [{ name = "A", topology = "lan:clients=3" }]
            delivery = [{ fanout = "unicast" }, { fanout = "multicast" }]
            workload = { kind = "stream", rates = ["1M"], seconds = 1, payload = 1000 }
        "#;
        let experiment = Experiment::parse(text, "x", Path::new("."), &[]).unwrap();
        let plan = Plan::new(&experiment, 1 << 30).unwrap();
        let site = Bare(plan.networks[0].topology.clone());
        let refused = |index: usize| check_needs(&site, &plan.runs[index]).unwrap_err().to_string();
        let expected = "A 1M, unicast #1 cannot be made here: it needs sockets of this process at its nodes, which are not there";
        assert_eq!(refused(0), expected);
        assert!(refused(1).contains("routers that run treecast"), "{}", refused(1));
    }
}
