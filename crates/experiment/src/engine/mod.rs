//! Makes a whole experiment, at any [`Place`], and keeps the book of its runs.

pub mod book;
pub mod lab;
mod needs;
pub mod real;
pub mod runner;

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};
use treecast_driver::events::as_seconds;
use treecast_measure::claim::Finding;
use utoipa::ToSchema;

use self::book::Book;
use crate::{Error, Event, document::Experiment, plan::Plan};

/// A place where runs are made.
pub trait Place {
    /// Returns what the parameter `site` of each run says.
    fn word(&self) -> &'static str;

    /// Plans an experiment. Builds and sends nothing, and needs no root.
    ///
    /// # Errors
    /// The first thing in the experiment that cannot be here.
    fn plan<'e>(&self, experiment: &'e Experiment) -> Result<Plan<'e>, Error>;

    /// Refuses an experiment that this machine or user cannot run.
    fn check(&self, experiment: &Experiment) -> Result<(), Error>;

    /// Returns how long a run waits for a quiet machine. `None` where runs take no time.
    fn settle(&self, experiment: &Experiment) -> Option<Duration>;

    /// Makes all runs of the book's plan, and enters them into the book. `stop` ends this early.
    fn make(&self, book: &mut Book, stop: Stop) -> Result<(), Error>;
}

/// Whether the user wants to stop.
pub type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

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
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Results {
    /// The number of runs in which every client got what it was to get.
    #[schema(required)]
    pub whole_runs: usize,
    #[schema(required)]
    pub runs: usize,
    /// The clients that did not get it: run, node and reason.
    #[schema(required)]
    pub failures: Vec<Failure>,
    /// The runs that the program itself refused to make.
    #[schema(required)]
    pub refused: Vec<Refusal>,
    #[schema(required)]
    pub findings: Vec<Finding>,
    /// The results of searches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<Bound>,
    /// A line for each kind of run that was left out.
    #[serde(skip)]
    pub left_out: Vec<String>,
    #[schema(required)]
    pub interrupted: bool,
}

/// The bound that a search has found for the network: a rate in packets a second of each sender, or a number of
/// hosts.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Bound {
    pub run: String,
    /// The highest value that was borne. `None`: not even the lowest one was.
    #[schema(required)]
    pub threshold: Option<f64>,
    /// The lowest value that was not borne. `None`: even the highest one was.
    #[schema(required)]
    pub broke: Option<f64>,
    /// The bound that the links allow. `None`: no link has a rate.
    #[schema(required)]
    pub predicted: Option<f64>,
    /// The parts that gave in at `broke`.
    pub limits: Vec<String>,
    /// Whether the machine gave in, and not the network.
    pub machine_limited: bool,
}

/// A client without a verified copy.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    pub run: String,
    pub node: String,
    pub reason: String,
}

/// A run that the program refused, in its own words.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Refusal {
    pub run: String,
    pub reason: String,
}

/// A preview of an experiment, made without doing it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "event", rename = "planned")]
#[schema(as = Preview)]
pub struct Preview {
    /// The name of each run, in order.
    pub runs: Vec<String>,
    #[serde(rename = "estimate_seconds", with = "as_seconds")]
    #[schema(value_type = f64)]
    pub estimate: Duration,
    /// A line for each kind of run that is left out.
    pub left_out: Vec<String>,
}

/// Returns what an experiment would do at a place. Builds and sends nothing, and needs no root.
///
/// # Errors
/// The first thing in the experiment that cannot be there.
pub fn preview(place: &dyn Place, experiment: &Experiment) -> Result<Preview, Error> {
    let plan = place.plan(experiment)?;
    Ok(Preview {
        runs: plan.runs.iter().map(|run| run.name.clone()).collect(),
        estimate: estimate(place, experiment, &plan),
        left_out: plan.left_out,
    })
}

/// Whether an experiment can be run at a place, as far as can be told without beginning.
///
/// # Errors
/// The first thing that is missing, by name, and what to do.
pub fn check(place: &dyn Place, experiment: &Experiment) -> Result<(), Error> {
    place.check(experiment)?;
    place.plan(experiment).map(drop)
}

/// Runs an experiment at a place. `observe` hears of what happens; `stop` ends it early, and the run that it
/// ends is marked as cut short. However it ends, what was built is taken down.
///
/// # Errors
/// The errors of [`check`], of a run that could not be made, and of a database that cannot be written.
pub fn run(place: &dyn Place, order: &Order, observe: &dyn Fn(&Event), stop: Stop) -> Result<Results, Error> {
    let experiment = &order.experiment;
    place.check(experiment)?;
    let plan = place.plan(experiment)?;
    let estimate = estimate(place, experiment, &plan);
    observe(&Event::Planned { runs: plan.runs.len(), estimate, left_out: &plan.left_out });
    let mut book = Book::open(order, observe, &plan)?;
    place.make(&mut book, stop)?;
    book.close()
}

fn estimate(place: &dyn Place, experiment: &Experiment, plan: &Plan) -> Duration {
    place.settle(experiment).map_or(Duration::ZERO, |settle| plan.estimate(settle))
}
