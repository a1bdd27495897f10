//! Runs an experiment in virtual time. Its runs, rows and claims are those that a lab would make, computed from
//! a seed.
//!
//! The plan is the same as for a lab. Each run becomes a session in a simulated network ([`treecast_sim`]), in
//! which the protocol machines of real sessions run. The result of a run depends on the file and the seed
//! alone, so runs are made on all processors at once.

mod check;
mod crowd;
mod network;
mod scenario;
mod shared;
mod stream;

use std::{
    collections::BTreeMap,
    num::NonZero,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use treecast_sim::session::LocalFigures;

use self::scenario::Simulated;
use crate::{
    Error, Event, Order, Preview, Results,
    carried::Carried,
    client::Fared,
    document::{Experiment, workload::Workload},
    engine::book::{Book, Outcome, failures, whole},
    feed,
    filing::Filing,
    plan::{Plan, Planned, Work},
    schedule::Schedule,
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
    let plan = vocabulary::checked_plan(experiment, u64::MAX)?;
    check::check_runs(experiment, &plan)?;
    Ok(plan)
}

/// Runs an experiment in virtual time. `observe` is told of each run in the order of the plan; `stop` ends the
/// experiment before the next run.
///
/// # Errors
/// If the experiment needs something that the simulator does not have, or the results cannot be stored.
pub fn simulate(
    order: &Order,
    observe: &dyn Fn(&Event),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Results, Error> {
    let plan = planned(&order.experiment)?;
    let mut book = Book::open(order, observe, &plan, None)?;
    // The waits of the other schedules are measured by the immediate runs.
    let (first, then): (Vec<&Planned>, Vec<&Planned>) =
        plan.runs.iter().partition(|run| run.schedule == Schedule::Immediate);
    for runs in [first, then] {
        make(&mut book, &runs, stop)?;
    }
    book.close()
}

/// Makes runs on all processors, and keeps what they come to in their order.
fn make(book: &mut Book, runs: &[&Planned], stop: &(dyn Fn() -> bool + Sync)) -> Result<(), Error> {
    let (experiment, plan) = (&book.order.experiment, book.plan);
    let waits: Vec<Vec<Duration>> = runs.iter().map(|run| book.waits(run)).collect();
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
        let mut early: BTreeMap<usize, Result<Made, String>> = BTreeMap::new();
        let mut due = 0;
        for (index, made) in told {
            early.insert(index, made);
            while let Some(made) = early.remove(&due) {
                keep(book, runs[due], made)?;
                due += 1;
            }
        }
        book.results.interrupted |= due < runs.len();
        Ok(())
    })
}

/// The outcome of a run.
struct Made {
    /// The result of each client of the first group. Empty for a stream and on a shared link, where nobody keeps a copy.
    clients: Vec<Fared>,
    filing: Filing,
    sentence: String,
    duration: Duration,
    /// The clients that lack something: node and reason.
    failures: Vec<(String, String)>,
    /// The reasons why the run was made again, one line for each earlier attempt.
    again: Vec<String>,
}

/// Makes a run: a stream, flows on a shared link, or a session of a crowd or of clients that each have a node.
fn play(experiment: &Experiment, plan: &Plan, planned: &Planned, waits: &[Duration]) -> Result<Made, String> {
    if let Work::Stream(stream) = &planned.work {
        return stream::play(experiment, plan, planned, stream);
    }
    if let Work::Shared(..) = planned.work {
        return shared::play(experiment, plan, planned);
    }
    let simulated = match experiment.networks[planned.network].crowd {
        Some(receivers) => crowd::play(experiment, plan, planned, receivers as usize)?,
        None => scenario::play(experiment, plan, planned, waits)?,
    };
    let group = &planned.groups[0];
    let mut filing = filing(planned, &simulated);
    if let (Work::Feed(_), Workload::Feed(keys)) = (&planned.work, &experiment.workload) {
        let topology = &plan.networks[planned.network].topology;
        let have = group.receivers.iter().cloned().zip(simulated.clients.iter().map(|fared| &*fared.objects));
        filing.extend(feed::of_run(keys, topology, &have.collect::<Vec<_>>()));
    }
    let failures = failures(group, &simulated.clients);
    let (whole, of) = whole(&simulated.clients, &failures);
    let seconds = simulated.duration.as_secs_f64();
    Ok(Made {
        filing,
        sentence: format!("{whole} of {of} copies, last after {seconds:.3} s"),
        duration: simulated.duration,
        failures,
        clients: simulated.clients,
        again: Vec::new(),
    })
}

/// Keeps what a run came to.
fn keep(book: &mut Book, planned: &Planned, made: Result<Made, String>) -> Result<(), Error> {
    let failed = |what: String| Error::Run { run: planned.name.clone(), error: std::io::Error::other(what) };
    let Made { clients, filing, sentence, duration, failures, again } = made.map_err(failed)?;
    book.number += 1;
    book.tell_started(planned, Duration::ZERO);
    for why in &again {
        (book.observe)(&Event::Again { run: &planned.name, why });
    }
    let record = book.begin(planned, None)?;
    for (node, fared) in planned.groups[0].receivers.iter().zip(&clients) {
        book.tell_client(planned, node, fared);
    }
    let outcome = Outcome {
        record,
        carried: None,
        filing,
        sentence,
        duration,
        failures,
        refused: None,
        interrupted: false,
    };
    book.conclude(planned, outcome)
}

/// The filing of a run: the measures that a lab files, but for those of processors and memory.
fn filing(planned: &Planned, simulated: &Simulated) -> Filing {
    let mut filing = Filing::default();
    let size_bytes = simulated.size_bytes;
    let is_feed = matches!(planned.work, Work::Feed(_));
    let receivers = planned.groups[0].receivers.iter().zip(&simulated.clients);
    for ((name, fared), figures) in receivers.zip(&simulated.figures) {
        if fared.has_died {
            filing.node(name, "died", 1.0, "");
            continue;
        }
        match (fared.run_seconds(), &fared.failure) {
            (Some(seconds), None) => filing.node(name, "time", seconds, "s"),
            (_, why) => {
                let why = why.as_deref().unwrap_or("it never finished");
                filing.lacking(Some(name), "time", "s", &format!("{name}: {why}"));
            }
        }
        let is_whole = fared.failure.is_none() && !fared.is_cut_short;
        let received = match is_whole {
            true if is_feed => fared.objects.iter().map(|object| object.size_bytes).sum(),
            true => size_bytes,
            false => fared.told.received_bytes,
        };
        let missing = 1.0 - (received as f64 / size_bytes.max(1) as f64).min(1.0);
        // As in a lab: what a feed's receivers lack is told by `have` and `robustness`.
        filing.node(name, "missing", if is_whole { 0.0 } else { missing }, "");
        filing.node(name, "received", received as f64, "B");
        filing.node(name, "retransmitted", fared.told.retransmitted_bytes as f64, "B");
        filing.node(name, "duplicate", fared.told.duplicate_bytes as f64, "B");
        filing.node(name, "dropped", fared.told.dropped_packets as f64, "packets");
        filing.node(name, "attempts", f64::from(fared.attempts), "");
        figures
            .as_ref()
            .and_then(|figures| figures.local)
            .iter()
            .for_each(|local| of_local(&mut filing, name, local));
    }
    filing.run("feedback", simulated.feedback as f64, "packets");
    filing.run("sender_repairs", simulated.sender_repairs as f64, "packets");
    filing.run("sender_packets", simulated.sender_packets as f64, "packets");
    if simulated.wanted_deaths > 0 {
        filing.run("wanted_deaths", simulated.wanted_deaths as f64, "");
    }
    if let Some(served) = simulated.most_served {
        filing.run("served", served as f64, "");
    }
    filing.run("duration", simulated.duration.as_secs_f64(), "s");
    filing.extend(Carried::of_samples(&simulated.samples, Duration::ZERO).filing(&[]));
    filing
}

/// Files the measures of a receiver of a session with local groups.
fn of_local(filing: &mut Filing, name: &str, local: &LocalFigures) {
    let lost = 1.0 - local.machine.data_blocks as f64 / local.session_packets.max(1) as f64;
    filing.node(name, "load", (local.session_packets + local.group_packets) as f64, "packets");
    filing.node(name, "lost", lost.clamp(0.0, 1.0), "");
    filing.node(name, "repairs", local.machine.sent_blocks as f64, "packets");
    filing.node(
        name,
        "requests",
        (local.machine.requests_sent + local.machine.requests_above) as f64,
        "packets",
    );
    filing.node(name, "served", local.most_clients as f64, "");
}
