//! Runs an experiment in virtual time. Its runs, rows and claims are those that a lab would make, computed from
//! a seed.
//!
//! The plan is the same as for a lab. Each run becomes a session in a simulated network ([`treecast_sim`]), in
//! which the protocol machines of real sessions run. The result of a run depends on the file and the seed
//! alone, so runs are made on all processors at once.

mod check;
mod network;
mod scenario;

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZero,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use treecast_lab::Role;
use treecast_measure::{
    Db, claim,
    db::{self, Machine, NewRun, NodeId, NodeInfo, Row, RunEnd, RunId, Status},
    frame::Frame,
};

use self::scenario::{Simulated, play};
use crate::{
    Error, Event, Failure, Finished, Order, Preview, Results,
    client::Fared,
    document::Experiment,
    filing::{Filing, Series},
    plan::{Plan, Planned, Work},
    schedule::{Schedule, seed_for},
    vocabulary,
};

pub use treecast_measure::frame::SIMULATED as SITE;

/// Refuses an experiment that needs something that the simulator does not have.
///
/// # Errors
/// The first thing that is missing, by name, and what to do.
pub fn check(experiment: &Experiment) -> Result<(), Error> {
    planned(experiment).map(drop)
}

/// Returns what an experiment would do, without doing it.
///
/// # Errors
/// The same as for [`check`].
pub fn preview(experiment: &Experiment) -> Result<Preview, Error> {
    let plan = planned(experiment)?;
    let runs = plan.runs.iter().map(|run| run.name.clone()).collect();
    Ok(Preview { runs, estimate: Duration::ZERO, left_out: plan.left_out })
}

fn planned(experiment: &Experiment) -> Result<Plan<'_>, Error> {
    check::check(experiment)?;
    // Nothing is stored: objects are as large as their numbers say.
    let plan = Plan::new(experiment, u64::MAX)?;
    check::check_runs(experiment, &plan)?;
    vocabulary::check(experiment, &plan)?;
    Ok(plan)
}

/// Runs an experiment in virtual time. `observe` is told of each run in the order of the plan; `stop` ends the
/// experiment before the next run.
///
/// # Errors
/// When the experiment needs something that the simulator does not have, or the results cannot be stored.
pub fn simulate(
    order: &Order,
    observe: &dyn Fn(&Event),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Results, Error> {
    let plan = planned(&order.experiment)?;
    observe(&Event::Planned { runs: plan.runs.len(), estimate: Duration::ZERO, left_out: &plan.left_out });
    let mut book = Book {
        order,
        observe,
        plan: &plan,
        db: Db::open(&order.database)?,
        made: Vec::new(),
        results: Results { left_out: plan.left_out.clone(), ..Results::default() },
        immediate: HashMap::new(),
    };
    // The waits of the other schedules are measured by the immediate runs.
    let (first, then): (Vec<&Planned>, Vec<&Planned>) =
        plan.runs.iter().partition(|run| run.schedule == Schedule::Immediate);
    for runs in [first, then] {
        book.make(&runs, stop)?;
    }
    let Book { db, made, mut results, .. } = book;
    if !made.is_empty() {
        let frame = Frame::load(&db, &made)?;
        let shows = &order.experiment.shows;
        results.findings = claim::judge(&shows.claims, &frame, &shows.papers);
    }
    Ok(results)
}

/// What is kept of the runs.
struct Book<'a> {
    order: &'a Order,
    observe: &'a dyn Fn(&Event<'_>),
    plan: &'a Plan<'a>,
    db: Db,
    /// The runs that are in the database.
    made: Vec<RunId>,
    results: Results,
    /// How long each immediate run took, by what it shares with the others of its kind.
    immediate: HashMap<(usize, String, u64), Duration>,
}

impl Book<'_> {
    /// Makes runs on all processors, and keeps what they come to in their order.
    fn make(&mut self, runs: &[&Planned], stop: &(dyn Fn() -> bool + Sync)) -> Result<(), Error> {
        let experiment = &self.order.experiment;
        let plan = self.plan;
        let waits: Vec<Vec<Duration>> = runs.iter().map(|run| self.waits(run)).collect();
        let (next, waits) = (AtomicUsize::new(0), &waits);
        let (tell, told) = mpsc::channel();
        let processors = thread::available_parallelism().map_or(1, NonZero::get).min(runs.len());
        thread::scope(|scope| {
            for _ in 0..processors {
                let (next, tell) = (&next, tell.clone());
                scope.spawn(move || {
                    while let index = next.fetch_add(1, Ordering::Relaxed)
                        && let Some(run) = runs.get(index)
                        && !stop()
                    {
                        // Whoever keeps what comes may have failed.
                        if tell.send((index, play(experiment, plan, run, &waits[index]))).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(tell);
            let mut early: BTreeMap<usize, Result<Simulated, String>> = BTreeMap::new();
            let mut due = 0;
            for (index, simulated) in told {
                early.insert(index, simulated);
                while let Some(simulated) = early.remove(&due) {
                    self.keep(runs[due], simulated)?;
                    due += 1;
                }
            }
            self.results.interrupted |= due < runs.len();
            Ok(())
        })
    }

    /// How long each receiver waits before it starts.
    fn waits(&self, run: &Planned) -> Vec<Duration> {
        let estimate = || run.transfer(&self.plan.networks[run.network].facts);
        let immediate = self.immediate.get(&key(run)).copied().unwrap_or_else(estimate);
        let seed = seed_for(self.order.experiment.habits.seed, &run.name);
        run.schedule.waits(run.groups[0].receivers.len(), immediate, seed)
    }

    fn keep(&mut self, planned: &Planned, simulated: Result<Simulated, String>) -> Result<(), Error> {
        let failed =
            |what: String| Error::Run { run: planned.name.clone(), error: std::io::Error::other(what) };
        let simulated = simulated.map_err(failed)?;
        let receivers = &planned.groups[0].receivers;
        let number = self.results.runs + 1;
        let run = &planned.name;
        let of = self.plan.runs.len();
        let expected = Duration::ZERO;
        (self.observe)(&Event::Started { number, of, run, clients: receivers.len(), expected });
        let filing = filing(planned, &simulated);
        let of_run = filing.rows.iter().filter(|(node, _)| node.is_none());
        let measures: BTreeMap<_, _> = of_run.map(|(_, row)| (row.measure.clone(), row.value)).collect();
        self.file(planned, filing, simulated.duration)?;
        for (node, fared) in receivers.iter().zip(&simulated.clients) {
            (self.observe)(&Event::Client { run, node, fared });
        }
        let failure = |(node, fared): (&String, &Fared)| {
            let reason = fared.failure.clone()?;
            Some(Failure { run: run.clone(), node: node.clone(), reason })
        };
        let failures: Vec<Failure> = receivers.iter().zip(&simulated.clients).filter_map(failure).collect();
        let whole = receivers.len() - failures.len();
        self.results.runs += 1;
        self.results.whole_runs += usize::from(failures.is_empty());
        if planned.schedule == Schedule::Immediate && failures.is_empty() {
            self.immediate.insert(key(planned), simulated.duration);
        }
        self.results.failures.extend(failures);
        let seconds = simulated.duration.as_secs_f64();
        let sentence = format!("{whole} of {} copies, last after {seconds:.3} s", receivers.len());
        (self.observe)(&Event::Finished(&Finished {
            number,
            run,
            duration: simulated.duration,
            whole,
            clients: receivers.len(),
            sentence: &sentence,
            measures: &measures,
            saturated: None,
            cut_short: false,
            refused: None,
        }));
        Ok(())
    }

    /// Files a run with all its nodes, rows and series.
    fn file(&mut self, planned: &Planned, filing: Filing, duration: Duration) -> Result<(), Error> {
        let order = self.order;
        let run = self.db.begin(&NewRun {
            experiment: order.name.clone(),
            parameters: planned.parameters.clone(),
            seed: seed_for(order.experiment.habits.seed, &planned.name),
            repeat: planned.repeat - 1,
            command: order.command.clone(),
            machine: Machine::here(&order.version),
        })?;
        let machine = self.db.add_node(run, &NodeInfo { name: "machine".into(), role: db::Role::Machine })?;
        let mut nodes: HashMap<&str, NodeId> = HashMap::new();
        for node in &self.plan.networks[planned.network].topology.nodes {
            let role = match node.role {
                Role::Server => db::Role::Server,
                Role::Client => db::Role::Client,
                Role::Router => db::Role::Router,
            };
            let id = self.db.add_node(run, &NodeInfo { name: node.name.clone(), role })?;
            nodes.insert(&node.name, id);
        }
        let rows = filing.rows.into_iter().map(|(node, row)| Row {
            node: node.map(|name| nodes.get(name.as_str()).copied().unwrap_or(machine)),
            ..row
        });
        self.db.add_rows(run, &rows.collect::<Vec<_>>())?;
        for Series { measure, unit, points } in filing.series {
            self.db.add_series(machine, &measure, unit, &points)?;
        }
        self.db.finish_run(run, &RunEnd { status: Status::Complete, duration, saturated: None })?;
        self.made.push(run);
        Ok(())
    }
}

fn key(planned: &Planned) -> (usize, String, u64) {
    let size = match &planned.work {
        Work::File(size) => size.0,
        _ => 0,
    };
    (planned.network, planned.delivery.name.clone(), size)
}

/// What is filed of a run: the measures that a lab files, but for those of processors and memory.
fn filing(planned: &Planned, simulated: &Simulated) -> Filing {
    let mut filing = Filing::default();
    let size_bytes = simulated.size_bytes;
    for (name, fared) in planned.groups[0].receivers.iter().zip(&simulated.clients) {
        match (fared.run_seconds(), &fared.failure) {
            (Some(seconds), None) => filing.node(name, "time", seconds, "s"),
            (_, why) => {
                let why = why.as_deref().unwrap_or("it never finished");
                filing.lacking(Some(name), "time", "s", &format!("{name}: {why}"));
            }
        }
        let is_whole = fared.failure.is_none() && !fared.is_cut_short;
        let received = if is_whole { size_bytes } else { fared.told.received_bytes };
        let missing = 1.0 - (received as f64 / size_bytes.max(1) as f64).min(1.0);
        filing.node(name, "missing", missing, "");
        filing.node(name, "received", received as f64, "B");
        filing.node(name, "retransmitted", fared.told.retransmitted_bytes as f64, "B");
        filing.node(name, "duplicate", fared.told.duplicate_bytes as f64, "B");
        filing.node(name, "dropped", fared.told.dropped_packets as f64, "packets");
        filing.node(name, "attempts", f64::from(fared.attempts), "");
    }
    filing.run("duration", simulated.duration.as_secs_f64(), "s");
    filing.run("network_bytes", simulated.network_bytes() as f64, "B");
    filing.run("sender_bytes", simulated.sender_bytes() as f64, "B");
    filing.series = simulated.series();
    filing
}
