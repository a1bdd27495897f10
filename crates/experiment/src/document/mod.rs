//! Reads the experiment file (TOML): networks, deliveries, a workload and a schedule, and what they are to
//! show.
//!
//! `labs/README.md` describes every key for people.

pub mod cast;
pub mod delivery;
pub mod local;
pub mod network;
mod old;
pub mod other;
pub mod rate;
mod settings;
pub mod several;
pub mod sharing;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Deserializer, de::Error as _};
use toml::{Table, Value};
use treecast_host::text;
use treecast_lab::{Routing, quantity::Time};
use treecast_measure::{
    claim::Claim,
    paper::{PaperKeys, Papers},
    plot::generic::PlotSpec,
};

use self::{
    cast::{Cast, CastKeys},
    delivery::{Delivery, DeliveryKeys},
    network::Network,
    rate::SendRate,
};
use crate::{Completion, Error, KINDS, Workload, schedule::Schedule};

/// What a file may say at its top level. The same keys may be set on the command line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    title: String,
    workload: WorkloadKeys,
    cast: Option<CastKeys>,
    network: Vec<Network>,
    deliveries: Option<Vec<String>>,
    #[serde(default)]
    delivery: Vec<DeliveryKeys>,
    schedules: Option<Vec<Schedule>>,
    rate: Option<SendRate>,
    plain: Option<bool>,
    repeats: Option<u32>,
    settle: Option<Time>,
    timeout: Option<Time>,
    sample: Option<Time>,
    seed: Option<u64>,
    store: Option<String>,
    oversize: Option<Oversize>,
    #[serde(default)]
    claim: Vec<Claim>,
    #[serde(default)]
    plot: Vec<PlotSpec>,
    #[serde(default)]
    papers: Vec<PaperKeys>,
}

/// The `[workload]` of a file, in which each kind of workload has its own keys.
struct WorkloadKeys(Completion);

impl<'de> Deserialize<'de> for WorkloadKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut keys = Table::deserialize(deserializer)?;
        let word = match keys.remove("kind") {
            Some(Value::String(word)) => word,
            Some(other) => return Err(D::Error::custom(format!("kind is {other}: expected a text"))),
            None => return Err(D::Error::missing_field("kind")),
        };
        let Some(kind) = KINDS.iter().find(|kind| kind.word == word) else {
            let words = KINDS.map(|kind| format!("`{}`", kind.word)).join(", ");
            return Err(D::Error::custom(format!("unknown variant `{word}`, expected one of {words}")));
        };
        (kind.read)(keys).map(Self).map_err(|error| D::Error::custom(error.message()))
    }
}

/// An experiment whose values are complete and fit together.
#[derive(Debug, Clone)]
pub struct Experiment {
    pub title: String,
    pub networks: Vec<Network>,
    pub deliveries: Vec<Delivery>,
    pub(crate) workload: Arc<dyn Workload>,
    /// The senders and receivers; `None` for the network's server and all of its clients.
    pub cast: Option<Cast>,
    pub schedules: Vec<Schedule>,
    pub habits: Habits,
    pub shows: Shows,
    /// Whether the command line has changed what the file says.
    pub is_changed: bool,
}

/// The settings that all runs share.
#[derive(Debug, Clone)]
pub struct Habits {
    /// The rate of what `treecast send` sends. `None` for what the slowest link carries.
    pub rate: Option<SendRate>,
    /// Whether treecast's sessions do without security.
    pub plain: bool,
    pub repeats: u32,
    /// The longest wait before a run until the machine is quiet.
    pub settle: Duration,
    /// The longest time of one run.
    pub timeout: Duration,
    /// The time between two samples of all nodes.
    pub sample: Duration,
    pub seed: u64,
    /// The folder for source and copies; `None` for memory.
    pub store: Option<PathBuf>,
    pub oversize: Oversize,
}

/// What the experiment is to show: claims, plots and tables.
#[derive(Debug, Clone)]
pub struct Shows {
    pub claims: Vec<Claim>,
    pub plots: Vec<PlotSpec>,
    pub papers: Papers,
}

/// What happens to runs whose files do not fit into the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Oversize {
    /// The experiment does not start.
    #[default]
    Refuse,
    /// Such runs are left out, and the user is told so.
    Skip,
}

/// More than any experiment, or data file of one, needs.
const MAX_BYTES: u64 = 1 << 20;
/// The value of `file` that stands for the treecast program itself.
pub const THIS_PROGRAM: &str = "treecast";
/// The value of `store` that means memory.
const MEMORY: &str = "memory";
/// librecast-updates-2022 waits a minute for the load to settle (2.1).
const DEFAULT_SETTLE: Duration = Duration::from_secs(60);
/// librecast-updates-2022 samples every second (A.2).
const DEFAULT_SAMPLE: Duration = Duration::from_secs(1);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

impl Experiment {
    /// Reads an experiment file. Each of `settings` is a `key=value` that takes the place of the file's key.
    pub fn load(path: &Path, settings: &[String]) -> Result<Self, Error> {
        let text = text::read(path, MAX_BYTES)
            .map_err(|error| Error::Unreadable { path: path.to_path_buf(), error })?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse(&text, &path.display().to_string(), folder, settings)
    }

    /// Reads an experiment from `text`. `name` is what errors call it; its paths start at `folder`.
    pub fn parse(text: &str, name: &str, folder: &Path, settings: &[String]) -> Result<Self, Error> {
        let invalid = |what: String| Error::Invalid { name: name.into(), what };
        let syntax = |error: toml::de::Error| Error::Syntax {
            name: name.into(),
            line: text::line_of(text, error.span().map_or(0, |span| span.start)),
            what: one_line(error.message()),
        };
        let mut table: Table = toml::from_str(text).map_err(syntax)?;
        if let Some(advice) = old::advice(&table) {
            return Err(invalid(advice));
        }
        let mut document: Document = toml::from_str(text).map_err(syntax)?;
        for setting in settings {
            let read =
                |table: &Table| Document::deserialize(table.clone()).map_err(|e| one_line(e.message()));
            settings::set(&mut table, setting, |table| read(table).map(drop))
                .and_then(|()| read(&table).map(|changed| document = changed))
                .map_err(|what| Error::Setting { setting: setting.into(), what })?;
        }
        let mut experiment = document.complete(name, folder).map_err(invalid)?;
        experiment.is_changed = !settings.is_empty();
        experiment.check().map_err(invalid)?;
        Ok(experiment)
    }

    /// Returns the congestion control of a TCP delivery; `None` for the kernel's own choice.
    pub fn congestion_of<'a>(&'a self, delivery: &'a Delivery) -> Option<&'a str> {
        let of_link = || self.workload.sharing().map(|sharing| &sharing.congestion);
        delivery.congestion.as_ref().or_else(of_link).map(|congestion| congestion.0.as_str())
    }

    /// Whether the experiment searches a threshold.
    pub fn searches(&self) -> bool {
        self.workload.searches()
    }

    /// Refuses what no single key can show to be wrong.
    fn check(&self) -> Result<(), String> {
        check_distinct("network", self.networks.iter().map(|network| network.name.as_str()))?;
        check_distinct("delivery", self.deliveries.iter().map(|delivery| delivery.name.as_str()))?;
        check_distinct("schedule", self.schedules.iter().map(|schedule| schedule.name()))?;
        for network in &self.networks {
            network.check()?;
            let unknown = |name: &&String| self.deliveries.iter().all(|delivery| delivery.name != **name);
            if let Some(other) = network.deliveries.iter().flatten().find(unknown) {
                return Err(format!(
                    "network `{}` is to run {other}, which is none of the experiment's deliveries",
                    network.name
                ));
            }
        }
        for network in &self.networks {
            let runs = self.deliveries.iter().filter(|delivery| network.runs(&delivery.name));
            for delivery in runs {
                let rate = delivery.rate.as_ref().or(network.rate.as_ref()).or(self.habits.rate.as_ref());
                self.workload
                    .check(delivery, rate)
                    .map_err(|why| format!("{} in {} cannot be: {why}", delivery.name, network.name))?;
            }
        }
        self.networks.iter().try_for_each(|network| network.check_sharing(self.workload.sharing()))?;
        if !self.schedules.contains(&Schedule::Immediate) {
            return Err("schedules need `immediate`: the waits of the others are measured by it".into());
        }
        if !self.workload.has_schedules() && self.schedules != [Schedule::Immediate] {
            return Err(format!(
                "the receivers of a {} are there from the beginning: schedules must be `immediate`",
                self.workload.word()
            ));
        }
        for (key, time) in [("timeout", self.habits.timeout), ("sample", self.habits.sample)] {
            if time.is_zero() {
                return Err(format!("{key} is 0s: expected more, such as 1s"));
            }
        }
        match self.habits.repeats {
            0 | 1001.. => Err(format!("repeats is {}: expected 1 to 1000", self.habits.repeats)),
            _ => Ok(()),
        }
    }
}

impl Document {
    fn complete(self, name: &str, folder: &Path) -> Result<Experiment, String> {
        let workload = (self.workload.0)(folder)?;
        let (deliveries, networks) =
            chosen(self.delivery, self.deliveries, self.network, &*workload, folder)?;
        let is_conference = workload.all_send();
        let cast = self.cast.map(|cast| cast.complete(folder)).transpose()?;
        if let Some(cast) = cast.as_ref().filter(|cast| cast.use_case.all_send != is_conference) {
            let kind = if is_conference { "stream" } else { "conference" };
            return Err(format!(
                "use case {} is a {kind}: take it as the workload's kind",
                cast.use_case.name
            ));
        }
        Ok(Experiment {
            title: self.title,
            networks,
            deliveries,
            workload,
            cast,
            schedules: self.schedules.unwrap_or_else(|| vec![Schedule::Immediate]),
            habits: Habits {
                rate: self.rate,
                plain: self.plain.unwrap_or(false),
                repeats: self.repeats.unwrap_or(1),
                settle: self.settle.map_or(DEFAULT_SETTLE, |time| time.0),
                timeout: self.timeout.map_or(DEFAULT_TIMEOUT, |time| time.0),
                sample: self.sample.map_or(DEFAULT_SAMPLE, |time| time.0),
                seed: self.seed.unwrap_or(1),
                store: self.store.filter(|store| store != MEMORY).map(|store| folder.join(store)),
                oversize: self.oversize.unwrap_or_default(),
            },
            shows: Shows {
                claims: self.claim,
                plots: self.plot,
                papers: Papers::read(folder, name, &self.papers, |path| text::read(path, MAX_BYTES))?,
            },
            is_changed: false,
        })
    }
}

/// The deliveries that run, and the networks in which one of them does. `names` chooses among the deliveries that `keys` describe,
/// and those that treecast knows.
fn chosen(
    keys: Vec<DeliveryKeys>,
    names: Option<Vec<String>>,
    networks: Vec<Network>,
    workload: &dyn Workload,
    folder: &Path,
) -> Result<(Vec<Delivery>, Vec<Network>), String> {
    let mut described: Vec<Delivery> = Vec::new();
    for keys in keys {
        described.extend(keys.expand()?);
    }
    let mut deliveries = match names {
        None => described.clone(),
        Some(names) => named(&described, &names)?,
    };
    let is_left_out = |name: &String| {
        let is_described = described.iter().any(|delivery| delivery.name == *name);
        let is_chosen = deliveries.iter().any(|delivery| delivery.name == *name);
        (is_described || Delivery::known(name).is_some()) && !is_chosen
    };
    let mut networks: Vec<Network> = networks.into_iter().map(|network| located(network, folder)).collect();
    for only in networks.iter_mut().filter_map(|network| network.deliveries.as_mut()) {
        only.retain(|name| !is_left_out(name));
    }
    for delivery in &mut deliveries {
        delivery.other = std::mem::take(&mut delivery.other).located(folder);
    }
    for event in deliveries.iter_mut().flat_map(|delivery| &mut delivery.events) {
        event.read_trace(folder).map_err(|error| error.to_string())?;
    }
    if deliveries.is_empty() {
        deliveries.extend(workload.usual_delivery());
    }
    if deliveries.is_empty() {
        return Err("no [[delivery]] to run, and no `deliveries`".into());
    }
    if networks.is_empty() {
        return Err("no [[network]] to run in".into());
    }
    networks.retain(|network| network.deliveries.as_ref().is_none_or(|only| !only.is_empty()));
    if networks.is_empty() {
        return Err("no [[network]] runs one of these deliveries".into());
    }
    if networks.iter().any(|network| network.routing == Some(Routing::Ospf)) {
        deliveries.iter_mut().try_for_each(Delivery::leave_routes)?;
    }
    Ok((deliveries, networks))
}

/// The network, its topology's file found from the experiment's folder.
fn located(mut network: Network, folder: &Path) -> Network {
    if let Some(file) = network.topology.strip_prefix("testbed:") {
        network.topology = format!("testbed:{}", folder.join(file).display());
    } else if network.topology.ends_with(".toml") && !network.topology.contains(':') {
        network.topology = folder.join(&network.topology).display().to_string();
    }
    network
}

/// The deliveries of these names, some of which may have been cut at the commas in them.
fn named(described: &[Delivery], mut names: &[String]) -> Result<Vec<Delivery>, String> {
    let mut chosen = Vec::new();
    while let [first, ..] = names {
        let known = |pieces: usize| {
            let name = names[..pieces].join(", ");
            let found = described.iter().find(|delivery| delivery.name == name).cloned();
            found.or_else(|| Delivery::known(&name)).map(|delivery| (delivery, pieces))
        };
        let Some((delivery, pieces)) = (1..=names.len()).rev().find_map(known) else {
            let described: String =
                described.iter().map(|delivery| format!("`{}`, ", delivery.name)).collect();
            return Err(format!("unknown delivery `{first}`: expected {described}{}", Delivery::KNOWN));
        };
        chosen.push(delivery);
        names = &names[pieces..];
    }
    Ok(chosen)
}

fn check_distinct<'a>(kind: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = Vec::new();
    for name in names {
        if seen.contains(&name) {
            return Err(format!("{kind} `{name}` is there twice"));
        }
        seen.push(name);
    }
    Ok(())
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
