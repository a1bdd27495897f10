//! The simulator as a place of experiments. Its runs, rows and claims are those that a lab would make, computed from
//! a seed.
//!
//! The plan is the same as for a lab. Each run becomes a session in a simulated network ([`treecast_sim`]), in
//! which the protocol machines of real sessions run. The result of a run depends on the file and the seed
//! alone, so runs are made on all processors at once.

mod check;
mod crowd;
pub mod network;
pub mod scenario;

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

use treecast_lab::Topology;
use treecast_measure::frame::SIMULATED;

pub use self::{check::Lacking, scenario::Goods};
use crate::{
    Error, Event,
    carried::Carried,
    client::Fared,
    document::Experiment,
    engine::{
        Place, Stop,
        book::{Book, Outcome, failures, whole},
    },
    plan::{Plan, Planned},
    schedule::{Schedule, seed_for},
    session, vocabulary,
};

/// Virtual time and simulated networks. Needs no root.
pub struct Simulator;

/// A run that is to be simulated.
#[derive(Clone, Copy)]
pub struct Simulation<'s> {
    pub experiment: &'s Experiment,
    pub plan: &'s Plan<'s>,
    pub planned: &'s Planned<'s>,
    /// The time that each receiver waits before it starts.
    pub waits: &'s [Duration],
}

/// What a simulated run came to.
pub struct Made {
    /// The result of each client of the first group. Empty for a stream and on a shared link, where nobody keeps a copy.
    pub clients: Vec<Fared>,
    /// The reasons why the run was made again, one line for each earlier attempt.
    pub again: Vec<String>,
    pub outcome: Outcome,
}

impl Place for Simulator {
    fn word(&self) -> &'static str {
        SIMULATED
    }

    fn plan<'e>(&self, experiment: &'e Experiment) -> Result<Plan<'e>, Error> {
        check::check(experiment)?;
        // Nothing is stored: objects are as large as their numbers say.
        let plan = vocabulary::checked_plan(experiment, self.word(), u64::MAX)?;
        check::check_runs(experiment, &plan)?;
        Ok(plan)
    }

    fn check(&self, _: &Experiment) -> Result<(), Error> {
        Ok(())
    }

    fn settle(&self, _: &Experiment) -> Option<Duration> {
        None
    }

    fn make(&self, book: &mut Book, stop: Stop) -> Result<(), Error> {
        // The waits of the other schedules are measured by the immediate runs.
        let (first, then): (Vec<&Planned>, Vec<&Planned>) =
            book.plan.runs.iter().partition(|run| run.schedule == Schedule::Immediate);
        [first, then].iter().try_for_each(|runs| make(book, runs, stop))
    }
}

/// Makes runs on all processors, and keeps what they come to in their order.
fn make(book: &mut Book, runs: &[&Planned], stop: Stop) -> Result<(), Error> {
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
                    && let Some(planned) = runs.get(index)
                    && !stop()
                {
                    let simulation = Simulation { experiment, plan, planned, waits: &waits[index] };
                    // Whoever keeps what comes may have failed.
                    if tell.send((index, planned.work.simulate(&simulation))).is_err() {
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

impl Simulation<'_> {
    pub fn topology(&self) -> &Topology {
        &self.plan.networks[self.planned.network].topology
    }

    /// Returns the seed of the run.
    pub fn seed(&self) -> u64 {
        seed_for(self.experiment.habits.seed, &self.planned.name)
    }
}

/// Makes a run of a session of a crowd, or of clients that each have a node. `further` is what the workload measures of its
/// clients beside what each session does.
pub fn deliver(simulation: &Simulation, goods: &Goods, further: &session::Further) -> Result<Made, String> {
    let planned = simulation.planned;
    let (played, samples) = match simulation.experiment.networks[planned.network].crowd {
        Some(receivers) => crowd::play(simulation, goods, receivers as usize)?,
        None => scenario::play(simulation, goods)?,
    };
    let group = &planned.groups[0];
    let mut filing = session::of_run(group, &played, goods.size_bytes(), None);
    let clients: Vec<_> = group.receivers.iter().zip(&played.clients).collect();
    filing.extend(further(simulation.topology(), &clients));
    let failures = failures(group, &played.clients);
    let (whole, of) = whole(&played.clients, &failures);
    let outcome = Outcome {
        carried: Some(Carried::of_samples(&samples, Duration::ZERO)),
        filing,
        sentence: format!("{whole} of {of} copies, last after {:.3} s", played.duration.as_secs_f64()),
        duration: played.duration,
        failures,
        ..Outcome::default()
    };
    Ok(Made { clients: played.clients, again: Vec::new(), outcome })
}

/// Keeps what a run came to.
fn keep(book: &mut Book, planned: &Planned, made: Result<Made, String>) -> Result<(), Error> {
    let failed = |what: String| Error::Run { run: planned.name.clone(), error: std::io::Error::other(what) };
    let Made { clients, again, outcome } = made.map_err(failed)?;
    book.number += 1;
    book.tell_started(planned, Duration::ZERO);
    for why in &again {
        (book.observe)(&Event::Again { run: &planned.name, why });
    }
    let record = book.begin(planned, None)?;
    for (node, fared) in planned.groups[0].receivers.iter().zip(&clients) {
        book.tell_client(planned, node, fared);
    }
    book.conclude(planned, &record, outcome)
}
