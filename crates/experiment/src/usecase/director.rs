//! A whole experiment: the testbed is built once, and all runs are made in it.

use std::{io, path::PathBuf, time::Duration};

use treecast_measure::{
    Db,
    db::{Latency, Machine, Measured, ReceiverOfRun, RunInfo, ThesisFigure, Transfer, UseCaseInfo},
};

use super::{
    super::{
        Error, Event,
        director::{Preview, Results, require_root},
        record::Record,
        settle::Baseline,
    },
    claims,
    delivery::{Delivery, Kind},
    file::UseCases,
    measure::{self, Traffic},
    plan::{self, Planned},
    play::{self, Played, Scene},
    session::Session,
    stage::{self, Daemons, Stage},
    traffic::{Load, Sent, Tally},
};
use treecast_lab::Topology;
use treecast_lab::quantity::Size;

/// What an experiment needs beside its file.
pub struct Order {
    pub experiment: UseCases,
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

/// Whether an experiment can be run here, as far as can be told without beginning.
pub fn check(experiment: &UseCases) -> Result<(), Error> {
    require_root()?;
    plan::runs(experiment, &stage::topology(experiment)?).map(drop)
}

/// Plans an experiment; builds and sends nothing, and needs no root.
pub fn preview(experiment: &UseCases) -> Result<Preview, Error> {
    let topology = stage::topology(experiment)?;
    let runs = plan::runs(experiment, &topology)?;
    Ok(Preview {
        runs: runs.iter().map(|run| run.name(experiment)).collect(),
        estimate: plan::estimate(&runs, &topology, experiment.settle),
        left_out: Vec::new(),
    })
}

/// Runs an experiment. `observe` hears of what happens; `stop` ends it early. However it ends, what was built is taken
/// down.
pub fn run(
    order: &Order,
    observe: &dyn Fn(&Event),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Results, Error> {
    let experiment = &order.experiment;
    require_root()?;
    let topology = stage::topology(experiment)?;
    let runs = plan::runs(experiment, &topology)?;
    let estimate = plan::estimate(&runs, &topology, experiment.settle);
    observe(&Event::Planned { runs: runs.len(), estimate, left_out: &[] });
    observe(&Event::Building { network: &topology.name, nodes: topology.nodes.len() });
    let db = Db::open(&order.database)?;
    let baseline = Baseline::measure().map_err(Error::Machine)?;
    let any = |wanted: fn(&Delivery) -> bool| experiment.deliveries.iter().any(wanted);
    let daemons = Daemons {
        mead: any(|delivery| delivery.kind.needs_routers()),
        designated: any(|delivery| delivery.designated),
        multicast: experiment.has(Kind::Multicast),
        xcast_plus: experiment.has(Kind::XcastPlus),
        key: any(|delivery| delivery.key),
    };
    let stage = Stage::build(topology.clone(), experiment, &order.treecast, daemons)?;
    let of = runs.len();
    let mut director = Director {
        order,
        observe,
        stop,
        db,
        baseline,
        stage,
        of,
        infos: Vec::new(),
        results: Results::default(),
    };
    for (planned, number) in runs.iter().zip(1..) {
        if director.results.interrupted {
            break;
        }
        director.play(planned, number)?;
    }
    let Director { infos, mut results, .. } = director;
    let size = |info: &UseCaseInfo| {
        let run = runs.iter().find(|run| {
            (run.receivers_per_network, run.load.to_string())
                == (info.receivers_per_network, info.load.clone())
        });
        Size(run.map_or(0, |run| u64::from(run.packets) * experiment.payload_bytes as u64))
    };
    results.by_time = true;
    results.findings = claims::findings(&experiment.claims, &experiment.figures, &infos, size);
    Ok(results)
}

/// What the thesis let be lost of a file.
const MAX_LOSS: f64 = 0.015;

/// How often a file is sent slower than before.
const MAX_SLOWER: u32 = 4;

struct Director<'a> {
    order: &'a Order,
    observe: &'a dyn Fn(&Event),
    stop: &'a (dyn Fn() -> bool + Sync),
    db: Db,
    baseline: Baseline,
    stage: Stage,
    /// How many runs there are.
    of: usize,
    infos: Vec<UseCaseInfo>,
    results: Results,
}

impl Director<'_> {
    fn play(&mut self, planned: &Planned, number: usize) -> Result<(), Error> {
        let experiment = &self.order.experiment;
        let name = planned.name(experiment);
        (self.observe)(&Event::Settling { run: &name });
        let mut planned = planned.clone();
        for _ in 0..MAX_SLOWER {
            if !self.attempt(&planned, number, &name, MAX_LOSS)? {
                return Ok(());
            }
            planned = planned.slower();
        }
        self.attempt(&planned, number, &name, 1.0).map(drop)
    }

    /// Makes a run. Of a file, of which more than that is lost, nothing is kept but samples, and `true` returned: the rate is
    /// raised until so much is lost in the thesis (4.4.3), and lowered here.
    fn attempt(
        &mut self,
        planned: &Planned,
        number: usize,
        name: &str,
        most_lost: f64,
    ) -> Result<bool, Error> {
        let experiment = &self.order.experiment;
        let settle = || self.baseline.settle(experiment.settle, self.stop).map_err(Error::Machine);
        settle()?;
        if (self.stop)() {
            self.results.interrupted = true;
            return Ok(false);
        }
        (self.observe)(&Event::Started {
            number,
            of: self.of,
            run: name,
            clients: planned.groups.iter().map(|group| group.receivers.len()).sum(),
            expected: planned.duration() + planned.overhead(experiment.settle),
        });
        let failed = |error| Error::Sharing { run: name.to_owned(), error };
        let topology = self.stage.topology.clone();
        prepare_routers(&mut self.stage, experiment, planned).map_err(failed)?;
        let scene =
            Setting::of(&self.stage, planned, number as u32, experiment.payload_bytes).map_err(failed)?;
        // Senders that look for routers are not what is measured.
        let is_quiet = settle()?;
        let unsettled = (!is_quiet && !experiment.settle.is_zero()).then_some(experiment.settle);
        let receivers = scene.receivers().to_vec();
        let run_info = self.run_info(planned, receivers.len());
        let record = Record::begin(&mut self.db, &run_info, &topology, unsettled, |name| {
            receivers.iter().any(|receiver| receiver == name)
        })?;
        let mut info = self.info(planned, receivers.len());
        self.db.set_use_case(record.run().0, &info)?;
        let recorder = record.recorder(&self.db, experiment.sample, self.stage.node_sources())?;
        // The first interval is without traffic, and the second begins with it.
        std::thread::sleep(experiment.sample);
        let began = record.origin.elapsed();
        let played = scene.play(self.stop);
        recorder.stop()?;
        let played = played.map_err(failed)?;
        self.file(&record, planned, &topology, &mut info, (&played, began), &receivers)?;
        let interrupted = (self.stop)() && played.sent.packets < planned.packets;
        let loss = info.measured.as_ref().map_or(1.0, Measured::loss);
        let is_too_fast = !interrupted && info.is_file && loss > most_lost;
        let saturated = record.close(&mut self.db, interrupted || is_too_fast)?;
        self.results.interrupted |= interrupted;
        if is_too_fast {
            let sentence = format!("{:.2} % lost: once more, slower", loss * 100.0);
            (self.observe)(&Event::Measured { number, run: name, sentence: &sentence, saturated: None });
            return Ok(true);
        }
        self.results.runs += 1;
        self.results.whole_runs += usize::from(!interrupted);
        let sentence = sentence(&info);
        (self.observe)(&Event::Measured {
            number,
            run: name,
            sentence: &sentence,
            saturated: saturated.as_deref(),
        });
        if !interrupted {
            self.infos.push(info);
        }
        Ok(false)
    }

    /// Files what a run has shown, and how each receiver fared.
    fn file(
        &mut self,
        record: &Record,
        planned: &Planned,
        topology: &Topology,
        info: &mut UseCaseInfo,
        (played, began): (&Played, Duration),
        receivers: &[String],
    ) -> Result<(), Error> {
        let index = |name: &String| topology.nodes.iter().position(|node| node.name == *name);
        let senders: Vec<usize> = planned.groups.iter().filter_map(|group| index(&group.sender)).collect();
        let traffic = Traffic::of(&self.db, record, topology, &senders)?;
        let cpus = Machine::here("").cpus;
        let (machine_busy, machine_forwarding) = measure::machine(&self.db, record.run().1, cpus)?;
        let all = played.together();
        let copies: usize = planned.groups.iter().map(|group| group.receivers.len()).sum();
        info.measured = Some(Measured {
            bytes: traffic.bytes,
            seconds: all.last.saturating_sub(played.sent.began).as_secs_f64(),
            sent: u64::from(played.sent.packets) * planned.groups.len() as u64,
            expected: u64::from(played.sent.packets) * copies as u64,
            came: all.packets,
            duplicates: all.duplicates,
            latency: play::latency(&all),
            longest_gap_ms: measure::milliseconds(all.longest_gap.0),
            per_second: traffic.seconds(began, &all, |second| played.loss_in(planned, second)),
            sender_cpu_ms: measure::milliseconds(played.sender_cpu),
            machine_busy,
            machine_forwarding,
            discovery: played.discovery,
            watched: traffic.watched(began, all.seconds.len(), &self.order.experiment.links),
            events: played.events.clone(),
            receivers: receivers
                .iter()
                .zip(&played.tallies)
                .map(|(name, tally)| receiver(name, tally, expected_by(planned, name), &played.sent))
                .collect(),
            links: traffic.links,
        });
        self.db.set_use_case(record.run().0, info)?;
        for (receiver, tally) in receivers.iter().zip(&played.tallies) {
            let is_whole = tally.packets == expected_by(planned, receiver);
            let last = tally.last.saturating_sub(played.sent.began);
            let transfer = Transfer {
                started: began,
                finished: (tally.packets > 0).then(|| began + last),
                received_bytes: tally.packets * info.payload_bytes as u64,
                verified: is_whole,
                ..Transfer::default()
            };
            self.db.add_transfer(record.node(topology, receiver), &transfer)?;
        }
        Ok(())
    }

    fn run_info(&self, planned: &Planned, receivers: usize) -> RunInfo {
        let experiment = &self.order.experiment;
        RunInfo {
            experiment: self.order.name.clone(),
            topology: format!("{} {} a network", experiment.use_case.name, planned.receivers_per_network),
            clients: receivers as u32,
            router_levels: 3,
            link_bps: experiment.link_rate.map(|rate| rate.0),
            server_bps: experiment.link_rate.map(|rate| rate.0),
            delivery: planned.delivery.name.clone(),
            schedule: "immediate".into(),
            size_bytes: u64::from(planned.packets) * experiment.payload_bytes as u64,
            repeat: planned.repeat - 1,
            seed: 0,
            command: self.order.command.clone(),
            machine: Machine::here(&self.order.version),
        }
    }

    fn info(&self, planned: &Planned, receivers: usize) -> UseCaseInfo {
        let experiment = &self.order.experiment;
        let load = planned.load.to_string();
        let figures = experiment.figures.of(planned.cell(experiment, &load), &planned.delivery.thesis);
        let seconds = planned.duration().as_secs_f64();
        let bits = f64::from(planned.packets) * experiment.payload_bytes as f64 * 8.0;
        UseCaseInfo {
            use_case: experiment.use_case.name.clone(),
            receivers_per_network: planned.receivers_per_network,
            receivers,
            senders: planned.groups.len(),
            is_file: matches!(planned.load, Load::File { .. }),
            load: load.clone(),
            payload_bytes: experiment.payload_bytes,
            sent_bps: (bits / seconds) as u64,
            delivery: planned.delivery.name.clone(),
            base: planned.delivery.base.clone(),
            computed: planned.computed,
            floor: planned.floor,
            thesis: figures
                .iter()
                .map(|found| ThesisFigure {
                    table: found.figure.table.clone(),
                    measure: found.figure.measure.name().into(),
                    saved: found.saved,
                })
                .collect(),
            thesis_levels: planned.delivery.thesis_levels.clone(),
            measured: None,
        }
    }
}

/// A run that is about to begin.
enum Setting<'a> {
    Traffic(Scene<'a>),
    Session(Box<Session<'a>>),
}

impl<'a> Setting<'a> {
    fn of(stage: &'a Stage, planned: &'a Planned, run: u32, payload_bytes: usize) -> io::Result<Self> {
        Ok(match planned.delivery.kind {
            Kind::Send => Self::Session(Box::new(Session::set(stage, planned, payload_bytes)?)),
            _ => Self::Traffic(Scene::set(stage, planned, run, payload_bytes)?),
        })
    }

    fn receivers(&self) -> &[String] {
        match self {
            Self::Traffic(scene) => &scene.receivers,
            Self::Session(session) => &session.receivers,
        }
    }

    fn play(self, stop: &(dyn Fn() -> bool + Sync)) -> io::Result<Played> {
        match self {
            Self::Traffic(scene) => scene.play(stop),
            Self::Session(session) => session.play(stop),
        }
    }
}

/// Has the routers be what they are in a run.
fn prepare_routers(stage: &mut Stage, experiment: &UseCases, planned: &Planned) -> io::Result<()> {
    if experiment.has(Kind::XcastPlus) {
        // Each passes the other's joins on, as if its own routers were listeners.
        let is_wanted = planned.delivery.kind == Kind::Multicast;
        stage.route_multicast(is_wanted).map_err(io::Error::other)?;
    }
    stage.set_key(planned.delivery.key).map_err(io::Error::other)?;
    let support = planned.routers(experiment, &stage.topology).map_err(io::Error::other)?;
    stage.set_support(support)
}

/// Packets that are for a receiver.
fn expected_by(planned: &Planned, receiver: &String) -> u64 {
    let flows = planned.groups.iter().filter(|group| group.receivers.contains(receiver)).count();
    u64::from(planned.packets) * flows as u64
}

fn receiver(name: &str, tally: &Tally, expected: u64, sent: &Sent) -> ReceiverOfRun {
    let (gap, since) = tally.longest_gap;
    ReceiverOfRun {
        name: name.to_owned(),
        lost: expected.saturating_sub(tally.packets),
        silent_s: gap.as_secs_f64(),
        silent_from_s: since.saturating_sub(sent.began).as_secs_f64(),
    }
}

/// What a run has shown, in a line.
fn sentence(info: &UseCaseInfo) -> String {
    let Some(measured) = &info.measured else { return "nothing was measured".into() };
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let worse = |one: &&ReceiverOfRun, other: &&ReceiverOfRun| {
        one.lost.cmp(&other.lost).then(one.silent_s.total_cmp(&other.silent_s))
    };
    let worst = measured.receivers.iter().max_by(worse);
    let events = worst.filter(|_| !measured.events.is_empty()).map(|worst| {
        let (lost, name) = (worst.lost, &worst.name);
        format!("; {name} lost most, {lost}, and heard nothing for {:.2} s", worst.silent_s)
    });
    let events = events.unwrap_or_default();
    // Of a session it is not known.
    let latency = match measured.latency {
        Latency { max_ms: 0.0, .. } => String::new(),
        Latency { mean_ms, p99_ms, .. } => format!(", latency {mean_ms:.2} ms (99 % {p99_ms:.2})"),
    };
    format!(
        "{:.1} MB on all links, {:.1} MB from the sender, {:.2} s, {:.3} % lost{latency}{events}",
        megabytes(measured.bytes.network),
        megabytes(measured.bytes.sender),
        measured.seconds,
        measured.loss() * 100.0,
    )
}
