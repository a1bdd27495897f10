//! The book of an experiment's runs, wherever they are made: their entries in the database, and the results.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use treecast_lab::Topology;
use treecast_measure::{
    Db, DbError,
    claim::{self, Claim},
    db::{Machine, NewRun, Run, RunId},
    frame::{Frame, SIMULATED, SITE},
};

use super::{Failure, Order, Refusal, Results};
use crate::{
    Error, Event, Finished,
    carried::Carried,
    client::Fared,
    filing::Filing,
    plan::{Group, Plan, Planned},
    record::Record,
    schedule::{Schedule, seed_for},
};

/// Keeps what is known of the runs that have been made.
pub struct Book<'a> {
    pub order: &'a Order,
    pub observe: &'a dyn Fn(&Event),
    pub plan: &'a Plan<'a>,
    pub db: Db,
    pub results: Results,
    /// The number of the current run, from 1.
    pub number: usize,
    /// The runs that are in the database.
    made: Vec<RunId>,
    /// The time that the last whole immediate run took, by network, delivery and size.
    immediate: HashMap<(usize, String, u64), Duration>,
}

/// The outcome of a run.
#[derive(Default)]
pub struct Outcome {
    /// The bytes that links carried. `None` where that is not known.
    pub carried: Option<Carried>,
    pub filing: Filing,
    pub sentence: String,
    pub duration: Duration,
    /// The clients that lack something: node and reason.
    pub failures: Vec<(String, String)>,
    pub refused: Option<String>,
    pub interrupted: bool,
}

impl<'a> Book<'a> {
    /// Opens the order's database.
    pub fn open(order: &'a Order, observe: &'a dyn Fn(&Event), plan: &'a Plan<'a>) -> Result<Self, Error> {
        Ok(Self {
            order,
            observe,
            plan,
            db: Db::open(&order.database)?,
            results: Results { left_out: plan.left_out.clone(), ..Results::default() },
            number: 0,
            made: Vec::new(),
            immediate: HashMap::new(),
        })
    }

    pub fn topology(&self, planned: &Planned) -> &'a Topology {
        &self.plan.networks[planned.network].topology
    }

    /// Returns the seed of a run.
    pub fn seed(&self, planned: &Planned) -> u64 {
        seed_for(self.order.experiment.habits.seed, &planned.name)
    }

    /// Enters a run into the database; its clock starts now.
    pub fn begin(&mut self, planned: &Planned, unsettled: Option<Duration>) -> Result<Record, Error> {
        let run = NewRun {
            experiment: self.order.name.clone(),
            parameters: planned.parameters.clone(),
            seed: self.seed(planned),
            repeat: planned.repeat - 1,
            command: self.order.command.clone(),
            machine: Machine::here(&self.order.version),
        };
        let topology = self.topology(planned);
        let watched = &self.order.experiment.networks[planned.network].watch;
        Ok(Record::begin(&mut self.db, &run, topology, watched, unsettled)?)
    }

    pub fn tell_started(&self, planned: &Planned, expected: Duration) {
        (self.observe)(&Event::Started {
            number: self.number,
            of: self.plan.runs.len(),
            run: &planned.name,
            clients: planned.groups[0].receivers.len(),
            expected,
        });
    }

    pub fn tell_client(&self, planned: &Planned, node: &str, fared: &Fared) {
        (self.observe)(&Event::Client { run: &planned.name, node, fared });
    }

    /// Returns how long each receiver of a run waits before it starts. A schedule that depends on how long the corresponding
    /// immediate run took assumes the planned time where there was no such run that went well.
    pub fn waits(&self, planned: &Planned) -> Vec<Duration> {
        let estimate = || planned.transfer(&self.plan.networks[planned.network].facts);
        let immediate = self.immediate.get(&key(planned)).copied().unwrap_or_else(estimate);
        planned.schedule.waits(planned.groups[0].receivers.len(), immediate, self.seed(planned))
    }

    /// Files what a run came to, and tells it. What is known of the machine is filed unless the run was simulated.
    pub fn conclude(&mut self, planned: &Planned, record: &Record, outcome: Outcome) -> Result<(), Error> {
        let is_simulated = self.plan.site == SIMULATED;
        let of_run = outcome.filing.rows.iter().filter(|(node, _)| node.is_none());
        let mut measures: BTreeMap<_, _> = of_run.map(|(_, row)| (row.measure.clone(), row.value)).collect();
        measures.insert("duration".into(), Some(outcome.duration.as_secs_f64()));
        let mut filing = Filing::default();
        if let Some(carried) = &outcome.carried {
            measures.insert("network_bytes".into(), Some(carried.network as f64));
            measures.insert("sender_bytes".into(), Some(carried.sender as f64));
            if outcome.refused.is_none() {
                let network = &self.order.experiment.networks[planned.network];
                filing.extend(carried.filing(&network.watch));
            }
        }
        if !is_simulated && outcome.refused.is_none() {
            filing.extend(record.machine(&self.db)?);
        }
        let died = outcome.filing.rows.iter().filter(|(_, row)| row.measure == "died").count();
        let clients = planned.groups[0].receivers.len() - died;
        filing.extend(outcome.filing);
        filing.run("duration", outcome.duration.as_secs_f64(), "s");
        record.file(&mut self.db, filing)?;
        let saturated = match is_simulated {
            false => record.close(&mut self.db, outcome.interrupted)?,
            true => record.close_simulated(&mut self.db, outcome.duration).map(|()| None)?,
        };
        self.made.push(record.run());
        let results = &mut self.results;
        results.interrupted |= outcome.interrupted;
        results.runs += 1;
        let is_whole = outcome.failures.is_empty() && outcome.refused.is_none() && !outcome.interrupted;
        results.whole_runs += usize::from(is_whole);
        // A run that failed took the time of the failure, which is no measure for those that follow.
        if is_whole && planned.schedule == Schedule::Immediate {
            self.immediate.insert(key(planned), outcome.duration);
        }
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
        results.refused.extend(outcome.refused.map(|reason| Refusal { run: run(), reason }));
        let failures = outcome.failures.into_iter();
        results.failures.extend(failures.map(|(node, reason)| Failure { run: run(), node, reason }));
        Ok(())
    }

    /// Judges the claims by all runs that were made. Claims that compare sites are judged by those of earlier commands, too.
    /// Returns what the experiment came to.
    pub fn close(self) -> Result<Results, Error> {
        let Self { order, db, made, mut results, .. } = self;
        // Without a run, the frame would be of all that the database has.
        if !made.is_empty() {
            let shows = &order.experiment.shows;
            let (both, made_here): (Vec<Claim>, Vec<Claim>) =
                shows.claims.iter().cloned().partition(Claim::names_sites);
            results.findings = claim::judge(&made_here, &Frame::load(&db, &made)?, &shows.papers);
            if !both.is_empty() {
                let comparable = comparable(&db, &order.name, &made)?;
                results.findings.extend(claim::judge(&both, &Frame::load(&db, &comparable)?, &shows.papers));
            }
        }
        Ok(results)
    }
}

/// Returns the clients that lack something, and why.
pub fn failures(group: &Group, fares: &[Fared]) -> Vec<(String, String)> {
    let failed = |(node, fared): (&String, &Fared)| Some((node.clone(), fared.failure.clone()?));
    group.receivers.iter().zip(fares).filter_map(failed).collect()
}

/// Returns the runs of the experiment, by any command, that differ from one of these at most in their site and seed.
fn comparable(db: &Db, experiment: &str, made: &[RunId]) -> Result<Vec<RunId>, DbError> {
    let cell = |run: &Run| {
        let mut cell = run.parameters.clone();
        cell.retain(|name, _| name != SITE && name != "seed");
        cell
    };
    let runs: Vec<Run> = db.runs()?.into_iter().filter(|run| run.experiment == experiment).collect();
    let cells: BTreeSet<_> = runs.iter().filter(|run| made.contains(&run.id)).map(cell).collect();
    Ok(runs.iter().filter(|run| cells.contains(&cell(run))).map(|run| run.id).collect())
}

/// Returns how many clients have everything, and how many have not died.
pub fn whole(fares: &[Fared], failures: &[(String, String)]) -> (usize, usize) {
    let alive = fares.iter().filter(|fared| !fared.has_died).count();
    (alive.saturating_sub(failures.len()), alive)
}

fn key(planned: &Planned) -> (usize, String, u64) {
    (planned.network, planned.delivery.name.clone(), planned.work.size().map_or(0, |size| size.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_compared_in_the_same_experiment_and_cell() {
        let file = std::env::temp_dir().join(format!("treecast-book-{}.sqlite", std::process::id()));
        let mut db = Db::open(&file).unwrap();
        let mut begin = |experiment: &str, site: &str, repair: &str| {
            let cell = [(SITE, site), ("repair", repair), ("seed", site)];
            let run = NewRun {
                experiment: experiment.into(),
                parameters: cell.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
                seed: 1,
                repeat: 0,
                command: String::new(),
                machine: Machine::here(""),
            };
            db.begin(&run).unwrap()
        };
        let there = begin("sites", "lab", "nack");
        let here = begin("sites", "sim", "nack");
        begin("sites", "lab", "after");
        begin("matrix", "lab", "nack");
        let found = comparable(&db, "sites", &[here]).unwrap();
        // SQLite removes its other two files.
        drop(db);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(found, [there, here]);
    }
}
