//! Experiments: the same workload, delivered in several ways over several networks, again and again, measured and judged.
//!
//! [`Experiment::load`] reads a file, [`run`] runs it at a [`Place`], and `treecast_measure` makes tables, plots and the report
//! out of the database that it fills: file -> [`plan`] -> runs -> rows and series -> claims. What happens meanwhile goes to
//! an observer as [`Event`]s.
//!
//! There are two places: [`Lab`], which builds networks of namespaces and starts real programs in them, and [`Simulator`], which
//! computes runs in virtual time. One engine keeps the book of both, and a run files the same rows at both.
//!
//! [`faults`] plays sessions in which things go wrong, [`mead_plan`] computes what ways of serving receivers cost, and [`svg`] draws a
//! network.
//!
//! A kind of [`Workload`] is a folder below `workload`, with its keys, its plan, its runs and its measures. A new one needs that folder,
//! its name twice in this file, and its keys and measures in `labs/README.md`.
//!
//! The order of a run in a lab: wait until the machine is quiet; start what sends, and what receives when its schedule says so; have
//! events happen by the clock; when all are done, compare every copy with the source by BLAKE3, read the counters of all
//! links, and file rows. Nobody's word is taken for a copy being right.

mod cargo;
mod carried;
mod client;
mod document;
mod ears;
mod engine;
mod error;
pub mod faults;
mod filing;
pub mod forecast;
mod graph;
pub mod mead_plan;
mod observer;
mod plan;
mod programs;
mod record;
mod schedule;
mod server;
mod session;
mod sessions;
mod settle;
mod simulate;
pub mod site;
mod ssh;
mod store;
mod told;
mod verify;
mod vocabulary;
mod workload {
    //! The kinds of workloads, each in a folder of its own: its keys, its plan, its runs in a lab and in the simulator, and its measures.

    pub mod feed;
    pub mod files;
    pub mod load;
    pub mod multihoming;
    pub mod shared;
    pub mod stream;
}

use std::{collections::BTreeSet, fmt, path::Path, sync::Arc, time::Duration};

use serde::de::DeserializeOwned;
use toml::Table;
use treecast_lab::{Topology, Trees, quantity::Size};

pub use document::{Experiment, network::Network};
pub use engine::{
    Bound, Failure, Order, Place, Preview, Refusal, Results, check,
    lab::Lab,
    preview,
    real::{Ground, Real},
    run,
};
pub use error::Error;
pub use graph::svg;
pub use observer::{Event, Finished};
pub use plan::Plan;
pub use simulate::Simulator;

/// Sends or counts the traffic of a stream's run at a host far away.
pub use workload::stream::traffic::program::run as traffic;

use document::{delivery::Delivery, rate::SendRate, sharing::Sharing};
use engine::runner::{Runner, Stage};
use plan::{Group, Planned, Scope, Wanted, path::SharedPath};
use schedule::Schedule;
use simulate::{Lacking, Made, Simulation};
use site::Need;

/// All kinds of workloads.
const KINDS: [Kind; 7] = [
    workload::files::KIND,
    workload::feed::KIND,
    workload::stream::KIND,
    workload::stream::CONFERENCE,
    workload::shared::KIND,
    workload::load::KIND,
    workload::multihoming::KIND,
];

/// Names, each with its unit: of measures, or of series.
type Units = &'static [(&'static str, &'static str)];

/// A kind of workload, as a file names it.
struct Kind {
    /// The value of the key `kind`.
    word: &'static str,
    /// Reads the other keys of `[workload]`.
    read: fn(Table) -> Result<Completion, toml::de::Error>,
}

/// Checks the keys that were read, and makes the workload of them. Paths in them begin at the folder.
type Completion = Box<dyn FnOnce(&Path) -> Result<Arc<dyn Workload>, String>>;

/// Reads the keys of a workload, which `complete` will check.
fn read<K: DeserializeOwned + 'static, W: Workload + 'static>(
    keys: Table,
    complete: fn(K, &Path) -> Result<W, String>,
) -> Result<Completion, toml::de::Error> {
    let keys: K = keys.try_into()?;
    Ok(Box::new(move |folder| Ok(Arc::new(complete(keys, folder)?))))
}

/// What the runs of an experiment do: the `[workload]` of its file.
trait Workload: fmt::Debug + Send + Sync {
    /// Returns the value of the key `kind`.
    fn word(&self) -> &'static str;

    /// Returns what the workload's runs measure, beside what all runs do.
    fn measures(&self) -> Units;

    /// Returns what the workload's runs keep over time, beside what all runs do.
    fn series(&self) -> Units {
        &[]
    }

    /// Returns what the runs of a network are to do, in order.
    fn works<'w>(&'w self, at: &'w Scope) -> Result<Vec<Wanted<'w>>, Error>;

    /// Refuses a delivery that cannot have this workload, and says why. `rate` is the one that the file says for it.
    fn check(&self, delivery: &Delivery, rate: Option<&SendRate>) -> Result<(), String>;

    /// Returns the delivery of a file that describes none.
    fn usual_delivery(&self) -> Option<Delivery> {
        None
    }

    /// Changes the topology of a network as the workload needs it. Returns the way through the link that flows share, if they share one.
    fn prepare(&self, _: &Network, _: &mut Topology) -> Result<Option<SharedPath>, String> {
        Ok(None)
    }

    /// Returns the link that the workload's flows share.
    fn sharing(&self) -> Option<&Sharing> {
        None
    }

    /// Returns the trees that multicast routers make for the workload. `None`: those that the deliveries need.
    fn trees(&self) -> Option<Trees> {
        None
    }

    /// Whether all members of a group send.
    fn all_send(&self) -> bool {
        false
    }

    /// Whether the workload's runs search a threshold.
    fn searches(&self) -> bool {
        false
    }

    /// Whether receivers of the workload may come later than their sender.
    fn has_schedules(&self) -> bool {
        false
    }

    /// Whether the simulator can make the workload's runs.
    fn is_simulated(&self) -> bool {
        true
    }
}

/// What one run does.
trait Work: fmt::Debug + Send + Sync {
    /// Returns the size of one copy; `None` where nobody keeps a copy.
    fn size(&self) -> Option<Size> {
        None
    }

    /// Returns the words that tell a run from others of its network, but for the number of its repeat.
    fn words(&self, delivery: &str, schedule: Schedule) -> String;

    /// Sets those parameters of a run that are the workload's own.
    fn parameters(&self, network: &Network, set: &mut dyn FnMut(&str, String));

    /// Whether the sender is told a rate by the delivery, the network or the experiment.
    fn is_told_a_rate(&self) -> bool {
        false
    }

    /// Returns the groups of a run whose hosts the workload chooses. `None`: the server and the clients of the network, or the cast.
    fn groups(&self) -> Option<Vec<Group>> {
        None
    }

    /// Returns what a run needs of a site, beside what its delivery does.
    fn needs(&self, _: &Network) -> Vec<Need> {
        Vec::new()
    }

    /// Returns about how long the transfer takes when all clients start at once.
    fn transfer(&self, planned: &Planned, facts: &document::network::Facts) -> Duration;

    /// Returns about how long a run takes beside its transfer: the start of its programs, and the check of its copies.
    /// `settling` is the time until the machine is quiet.
    fn around(&self, _: &Planned, settling: Duration) -> Duration {
        settling
    }

    /// Makes the run in a lab.
    fn play(&self, runner: &mut Runner, stage: &Stage) -> Result<(), Error>;

    /// Refuses a run that the simulator cannot make.
    fn check_simulated(&self, _: &Simulation) -> Result<(), Lacking> {
        Ok(())
    }

    /// Makes the run in the simulator. An error says what is wrong with the simulator or a machine.
    fn simulate(&self, _: &Simulation) -> Result<Made, String> {
        Err("the simulator does not have this workload".into())
    }
}

/// Returns the receivers of several groups, each once, in the order of their names.
fn receivers(groups: &[Group]) -> Vec<String> {
    let all: BTreeSet<&String> = groups.iter().flat_map(|group| &group.receivers).collect();
    all.into_iter().cloned().collect()
}
