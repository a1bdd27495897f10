//! An experiment as a list of runs in a fixed order, each with its cell, and how long they will take.

use std::time::Duration;

pub use treecast_lab::mead_plan::Group;
use treecast_lab::{Role, Topology, events, quantity::Size};
use treecast_measure::{db::Parameters, frame::Vocabulary};

use crate::{
    Error,
    cargo::PlannedFeed,
    document::{
        Experiment, Oversize,
        delivery::{Delivery, Fanout, Program},
        network::{self, Facts, Network},
        workload::{Load, Objects, SendRate, Workload},
    },
    feed::{self, Feed},
    record,
    schedule::{Schedule, seed_for},
    sharing::{self, RIVAL, SharedPath},
    stream::{self, PlannedStream},
};

/// One run to be made.
#[derive(Debug, Clone)]
pub struct Planned<'a> {
    /// Index into the experiment's networks.
    pub network: usize,
    pub delivery: &'a Delivery,
    pub schedule: Schedule,
    /// From 1.
    pub repeat: u32,
    /// Who sends to whom. A rival's group is the second.
    pub groups: Vec<Group>,
    pub work: Work,
    /// What tells this run from all others, in words.
    pub name: String,
    /// The run's cell.
    pub parameters: Parameters,
}

/// What a run delivers.
#[derive(Debug, Clone)]
pub enum Work {
    File(Size),
    Feed(PlannedFeed),
    /// A file that is longer than so much time on the shared link.
    Shared(Size, Duration),
    Stream(PlannedStream),
}

/// A network that is understood, before it is built.
#[derive(Debug, Clone)]
pub struct Understood {
    pub topology: Topology,
    pub facts: Facts,
    /// The link that flows share.
    pub path: Option<SharedPath>,
}

/// The runs, in order, and a line for each kind of run that was left out.
#[derive(Debug, Clone)]
pub struct Plan<'a> {
    pub networks: Vec<Understood>,
    pub runs: Vec<Planned<'a>>,
    pub left_out: Vec<String>,
}

impl<'a> Plan<'a> {
    /// Expands an experiment: network by network, cast by cast, load by load, repeat by repeat. In each, deliveries follow
    /// each other, so that what is compared is close together. A delivery's immediate run comes before its random ones,
    /// whose waits are measured by it. `capacity_bytes` is what the store holds.
    pub fn new(experiment: &'a Experiment, capacity_bytes: u64) -> Result<Self, Error> {
        let networks = understood(experiment)?;
        let mut plan = Self { networks, runs: Vec::new(), left_out: Vec::new() };
        for index in 0..plan.networks.len() {
            let casts = match &experiment.cast {
                None => vec![None],
                Some(cast) => cast.receivers.iter().copied().map(Some).collect(),
            };
            for receivers in casts {
                let planner = Planner { experiment, index, at: &plan.networks[index], receivers };
                let (runs, left_out) = planner.runs(capacity_bytes)?;
                plan.runs.extend(runs);
                plan.left_out.extend(left_out);
            }
        }
        let mut left_out: Vec<String> = Vec::new();
        for line in plan.left_out.drain(..) {
            if !left_out.contains(&line) {
                left_out.push(line);
            }
        }
        plan.left_out = left_out;
        let vocabulary = plan.vocabulary(experiment);
        let refused = |what| Error::Claim { what };
        experiment.shows.claims.iter().try_for_each(|claim| claim.check(&vocabulary)).map_err(refused)?;
        experiment
            .shows
            .plots
            .iter()
            .try_for_each(|plot| plot.check(&vocabulary, &experiment.shows.papers))
            .map_err(refused)?;
        experiment.shows.papers.check(&vocabulary).map_err(refused)?;
        Ok(plan)
    }

    /// What the experiment is going to measure.
    fn vocabulary(&self, experiment: &Experiment) -> Vocabulary {
        let of_workload: &[(&str, &str)] = match &experiment.workload {
            Workload::Files(_) => record::MEASURES_OF_FILES,
            Workload::Feed(_) => feed::MEASURES,
            Workload::Stream(_) => stream::MEASURES,
            Workload::Shared(..) => sharing::MEASURES,
        };
        let owned = |(name, unit): &(&str, &str)| ((*name).to_owned(), (*unit).to_owned());
        Vocabulary {
            measures: record::MEASURES.iter().chain(of_workload).map(owned).collect(),
            cells: self.runs.iter().map(|run| run.parameters.clone()).collect(),
            is_changed: experiment.is_changed,
        }
    }

    /// About how long all runs will take, with the networks in which they are made.
    pub fn estimate(&self, settle: Duration) -> Duration {
        let is_used = |(index, _): &(usize, &Understood)| self.runs.iter().any(|run| run.network == *index);
        let networks = self.networks.iter().enumerate().filter(is_used).map(|(_, at)| at.building());
        let runs = self.runs.iter().map(|run| run.estimate(&self.networks[run.network].facts, settle));
        BASELINE + networks.sum::<Duration>() + runs.sum::<Duration>()
    }
}

fn understood(experiment: &Experiment) -> Result<Vec<Understood>, Error> {
    let understand = |network: &Network| {
        let refused = |what| Error::Network { name: network.name.clone(), what };
        let mut topology = network.build()?;
        let path = sharing::path(experiment, network, &mut topology)?;
        if let Some(link) =
            network.watch.iter().find(|link| topology.networks.iter().all(|of| of.name != **link))
        {
            return Err(refused(format!("watch: there is no link {link}")));
        }
        Ok(Understood { facts: Facts::of(&topology), topology, path })
    };
    experiment.networks.iter().map(understand).collect()
}

/// Makes the runs of one network and one number of receivers.
struct Planner<'a, 'p> {
    experiment: &'a Experiment,
    index: usize,
    at: &'p Understood,
    /// How many hosts of each network of the cast receive.
    receivers: Option<usize>,
}

/// What is delivered, before it is known how.
#[derive(Clone)]
enum Wanted {
    File(Size),
    Feed(PlannedFeed),
    Shared(Size, Duration),
    Stream(Load),
}

impl<'a> Planner<'a, '_> {
    fn runs(&self, capacity_bytes: u64) -> Result<(Vec<Planned<'a>>, Vec<String>), Error> {
        let experiment = self.experiment;
        let network = &experiment.networks[self.index];
        let groups = self.groups()?;
        let copies = groups.iter().map(|group| group.receivers.len()).sum();
        let (mut runs, mut left_out) = (Vec::new(), Vec::new());
        for (wanted, repeat) in self.wanted()? {
            if let Some(what) = oversize(&network.name, copies, &wanted, capacity_bytes) {
                match experiment.habits.oversize {
                    Oversize::Skip => left_out.push(what),
                    Oversize::Refuse => return Err(Error::Oversize { what }),
                }
                continue;
            }
            for delivery in experiment.deliveries.iter().filter(|delivery| network.runs(&delivery.name)) {
                let mut schedules = experiment.schedules.clone();
                schedules.sort();
                for schedule in schedules {
                    let planned = self.planned(delivery, schedule, repeat, &groups, wanted.clone());
                    let name = network.name.clone();
                    runs.push(planned.map_err(|what| Error::Network { name, what })?);
                }
            }
        }
        Ok((runs, left_out))
    }

    /// Who sends to whom.
    fn groups(&self) -> Result<Vec<Group>, Error> {
        let topology = &self.at.topology;
        let network = &self.experiment.networks[self.index];
        let refused = |what: &str| Error::Network { name: network.name.clone(), what: what.into() };
        if let (Some(cast), Some(receivers)) = (&self.experiment.cast, self.receivers) {
            let groups = cast.groups(receivers);
            let members = groups.iter().flat_map(|group| group.receivers.iter().chain([&group.sender]));
            let unknown =
                members.into_iter().find(|name| topology.nodes.iter().all(|node| node.name != **name));
            return match unknown {
                None => Ok(groups),
                Some(name) => {
                    Err(refused(&format!("it has no {name}, which takes part in {}", cast.use_case.name)))
                }
            };
        }
        let named = |role| network::with_role(topology, role).map(|node| topology.nodes[node].name.clone());
        let servers: Vec<String> = named(Role::Server).collect();
        let has_rival = network.rival.is_some();
        let (rivals, receivers): (Vec<String>, Vec<String>) =
            named(Role::Client).partition(|name| has_rival && name.starts_with(RIVAL));
        if receivers.is_empty() {
            return Err(refused(&format!("{} has no client", network.topology)));
        }
        let is_conference = matches!(&self.experiment.workload, Workload::Stream(stream) if stream.all_send);
        if is_conference {
            let all: Vec<String> = servers.iter().chain(&receivers).cloned().collect();
            let others = |sender: &String| all.iter().filter(|member| *member != sender).cloned().collect();
            return Ok(all
                .iter()
                .map(|sender| Group { sender: sender.clone(), receivers: others(sender) })
                .collect());
        }
        let server = |number: usize| {
            let missing = || refused(&format!("{} has no server", network.topology));
            servers.get(number).cloned().ok_or_else(missing)
        };
        let mut groups = vec![Group { sender: server(0)?, receivers }];
        if has_rival {
            groups.push(Group { sender: server(1)?, receivers: rivals });
        }
        Ok(groups)
    }

    /// What is delivered, with the number of the repeat from 1 on.
    fn wanted(&self) -> Result<Vec<(Wanted, u32)>, Error> {
        let experiment = self.experiment;
        let repeats = 1..=experiment.habits.repeats;
        let each = |wanted: Vec<Wanted>| {
            wanted
                .into_iter()
                .flat_map(|one| repeats.clone().map(move |repeat| (one.clone(), repeat)))
                .collect()
        };
        Ok(match &experiment.workload {
            Workload::Files(objects) => each(sizes(objects)?.into_iter().map(Wanted::File).collect()),
            Workload::Shared(sharing, objects) => {
                let sizes = sizes(objects)?;
                let name = &experiment.networks[self.index].name;
                sharing::check_sizes(sharing, name, &sizes, self.at.path.as_ref())?;
                each(sizes.into_iter().map(|size| Wanted::Shared(size, sharing.lasts.0)).collect())
            }
            Workload::Stream(stream) => each(stream.loads.iter().copied().map(Wanted::Stream).collect()),
            // All configurations of one load and repeat have the same objects, at the same times.
            Workload::Feed(feed) => repeats.flat_map(|repeat| self.feeds(feed, repeat)).collect(),
        })
    }

    fn feeds(&self, feed: &Feed, repeat: u32) -> Vec<(Wanted, u32)> {
        let planned = |configuration: feed::Configuration| {
            let seed =
                seed_for(self.experiment.habits.seed, &format!("feed {} #{repeat}", configuration.load));
            let arrivals = feed.arrivals(configuration.load, self.at.facts.link_rate_bps, seed);
            let size = Size(arrivals.iter().map(|arrival| arrival.size_bytes).sum());
            let lasts = arrivals.last().map_or(Duration::ZERO, |last| last.at);
            (Wanted::Feed(PlannedFeed { configuration, seed, size, lasts }), repeat)
        };
        feed.configurations().into_iter().map(planned).collect()
    }

    fn planned(
        &self,
        delivery: &'a Delivery,
        schedule: Schedule,
        repeat: u32,
        groups: &[Group],
        wanted: Wanted,
    ) -> Result<Planned<'a>, String> {
        let topology = &self.at.topology;
        let in_delivery = |what| format!("delivery `{}`: {what}", delivery.name);
        events::check(&delivery.events, topology).map_err(in_delivery)?;
        delivery.support.routers(topology).map_err(in_delivery)?;
        let work = match wanted {
            Wanted::File(size) => Work::File(size),
            Wanted::Feed(feed) => Work::Feed(feed),
            Wanted::Shared(size, lasts) => Work::Shared(size, lasts),
            Wanted::Stream(load) => Work::Stream(
                stream::plan(self.experiment, topology, delivery, load, groups).map_err(in_delivery)?,
            ),
        };
        let mut planned = Planned {
            network: self.index,
            delivery,
            schedule,
            repeat,
            groups: groups.to_vec(),
            work,
            name: String::new(),
            parameters: Parameters::new(),
        };
        planned.name = self.name(&planned);
        planned.parameters = self.parameters(&planned);
        Ok(planned)
    }

    fn name(&self, planned: &Planned) -> String {
        let Planned { delivery, schedule, repeat, work, .. } = planned;
        let network = &self.experiment.networks[self.index].name;
        let cast = self.receivers.map(|receivers| format!(" {receivers} a network")).unwrap_or_default();
        let delivery = &delivery.name;
        match work {
            Work::File(size) | Work::Shared(size, _) => {
                format!("{network}{cast} {delivery} {} {size} #{repeat}", schedule.name())
            }
            Work::Feed(feed) => format!("{network}{cast} {delivery} {} #{repeat}", feed.configuration),
            Work::Stream(stream) => format!("{network}{cast} {}, {delivery} #{repeat}", stream.load),
        }
    }

    /// The cell of a run.
    fn parameters(&self, planned: &Planned) -> Parameters {
        let Planned { delivery, schedule, repeat, work, groups, .. } = planned;
        let network = &self.experiment.networks[self.index];
        let topology = &self.at.topology;
        let mut parameters = Parameters::new();
        let mut set = |name: &str, value: String| parameters.insert(name.to_owned(), value);
        set("network", network.name.clone());
        set("delivery", delivery.name.clone());
        set("program", delivery.program.word().into());
        set("fanout", delivery.fanout.word().into());
        set("repair", delivery.repair_words());
        set("fec", delivery.fec.clone().unwrap_or_else(|| "default".into()));
        set("schedule", schedule.name().into());
        set("repeat", repeat.to_string());
        let receivers: std::collections::BTreeSet<&String> = match self.experiment.workload {
            Workload::Shared(..) => groups[0].receivers.iter().collect(),
            _ => groups.iter().flat_map(|group| &group.receivers).collect(),
        };
        set("receivers", receivers.len().to_string());
        set("senders", groups.len().to_string());
        set("levels", network::router_levels(topology).to_string());
        set("loss", self.at.facts.most_lost().to_string());
        if let Some(rate) = network::link_rate_bps(topology) {
            set("link_rate", rate.to_string());
        }
        if let Some(rate) = network::server_rate_bps(topology) {
            set("server_rate", rate.to_string());
        }
        if let (Some(receivers), Some(cast)) = (self.receivers, &self.experiment.cast) {
            set("receivers_a_network", receivers.to_string());
            set("use_case", cast.use_case.name.clone());
        }
        match work {
            Work::File(size) => set("size", size.0.to_string()),
            Work::Shared(size, lasts) => {
                set("lasts", lasts.as_secs_f64().to_string());
                set("size", size.0.to_string())
            }
            Work::Feed(feed) => {
                set("load", feed.configuration.load.to_string());
                set("factor", feed.configuration.factor.to_string());
                set("priority", feed.configuration.priority.name().into());
                set("size", feed.size.0.to_string())
            }
            Work::Stream(stream) => {
                set("load", stream.load.to_string());
                set("payload", stream.payload_bytes.to_string());
                set("size", (u64::from(stream.packets) * stream.payload_bytes as u64).to_string())
            }
        };
        if !matches!(work, Work::Stream(_)) {
            parameters
                .insert("rate".into(), rate(self.experiment, network, delivery, topology).words()[1].clone());
        }
        parameters
    }
}

/// The rate that a delivery is told: what the file says, otherwise what the slowest link carries.
pub fn rate(
    experiment: &Experiment,
    network: &Network,
    delivery: &Delivery,
    topology: &Topology,
) -> SendRate {
    let told = delivery.rate.as_ref().or(network.rate.as_ref()).or(experiment.habits.rate.as_ref());
    told.cloned().unwrap_or_else(|| {
        let link = network::link_rate_bps(topology);
        link.map_or(SendRate::Max, |link| SendRate::Bps(treecast_lab::quantity::Rate(sending_rate_bps(link))))
    })
}

/// The rate of IP packets that fills a link whose rate counts Ethernet frames: 1,500 of 1,514 bytes, less a
/// thousandth for everything else that crosses the link.
fn sending_rate_bps(link_rate_bps: u64) -> u64 {
    (link_rate_bps as f64 * 1500.0 / 1514.0 * 0.999) as u64
}

fn sizes(objects: &Objects) -> Result<Vec<Size>, Error> {
    match objects {
        Objects::Random(sizes) => Ok(sizes.clone()),
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

/// How long the quiet machine is measured before the first run.
const BASELINE: Duration = Duration::from_secs(1);
/// How long the machine usually takes to calm down.
const SETTLES: Duration = Duration::from_secs(1);
/// What a run takes beside the transfer itself, and for each client: starting programs, checking copies.
const START_AND_STOP: Duration = Duration::from_millis(400);
const CLIENT_START_AND_STOP: Duration = Duration::from_millis(20);
/// What building a network takes: for each node, and for the programs of each router.
const BUILDING: Duration = Duration::from_millis(200);
const NODE_BUILDING: Duration = Duration::from_millis(5);
const ROUTER_STARTING: Duration = Duration::from_millis(100);
/// Packet headers, on top of the object's bytes.
const OVERHEAD: f64 = 1.06;
/// What is sent beyond the least that mends losses, by forward error correction.
const CODED_OVERHEAD: f64 = 1.1;
/// The processors' time for a byte that one client gets, in seconds (15 us for 10 KB), of two processors.
const MACHINE_SECONDS: f64 = 0.75e-9;
/// More than this is never taken to be lost, so that estimates are finite.
const MOST_LOST: f64 = 0.95;
/// The data in most packets, in bytes.
const BLOCK_BYTES: f64 = 1432.0;
/// Receivers that a packet with a list of addresses serves.
const LIST: f64 = 8.0;

impl Understood {
    fn building(&self) -> Duration {
        let routers = self.topology.count(Role::Router) as u32;
        BUILDING + NODE_BUILDING * self.topology.nodes.len() as u32 + ROUTER_STARTING * routers
    }
}

/// How many times a delivery sends an object of `bytes` through the slowest link.
fn passes(facts: &Facts, delivery: &Delivery, bytes: u64) -> f64 {
    let again = |loss: &f64| 1.0 / (1.0 - loss.min(MOST_LOST)) - 1.0;
    let each_mended = facts.losses.iter().map(again).sum::<f64>();
    let most_lost = facts.most_lost().min(MOST_LOST);
    let clients = facts.clients as f64;
    let copies = match delivery.fanout {
        _ if !delivery.is_ours() => return clients + each_mended,
        Fanout::Multicast => 1.0,
        Fanout::Unicast => clients,
        Fanout::Auto | Fanout::Mead | Fanout::Xcast | Fanout::XcastPlus => (clients / LIST).max(1.0),
    };
    let coded = CODED_OVERHEAD / (1.0 - most_lost);
    copies
        * match (delivery.is_carousel(), delivery.fec.as_deref()) {
            _ if most_lost <= 0.0 || delivery.may_lack() => 1.0,
            (_, Some(fec)) if fec != "none" => coded,
            // After so many passes, the last of all blocks has come.
            (true, _) => 1.0 + (bytes as f64 / BLOCK_BYTES).max(1.0).ln() / (1.0 / most_lost).ln(),
            (false, None) if delivery.repair.is_none() => (1.0 + each_mended).min(coded),
            (false, _) => 1.0 + each_mended / copies,
        }
}

impl Planned<'_> {
    pub fn clients(&self) -> usize {
        self.groups.iter().map(|group| group.receivers.len()).sum()
    }

    /// About how long the run takes: until the machine is quiet, and for the programs' start and the check of the copies,
    /// too.
    pub fn estimate(&self, facts: &Facts, settle: Duration) -> Duration {
        if let Work::Stream(stream) = &self.work {
            let asks_routers = matches!(self.delivery.fanout, Fanout::Mead | Fanout::XcastPlus);
            let programs = Duration::from_millis(if asks_routers { 5500 } else { 3500 });
            return stream.duration() + programs + 2 * settle.min(SETTLES);
        }
        let around = START_AND_STOP + CLIENT_START_AND_STOP * self.clients() as u32;
        settle.min(SETTLES) + around + self.with_waits(self.transfer(facts))
    }

    /// The time of the transfer when the network is the limit, or the machine, and all clients start at once.
    pub fn transfer(&self, facts: &Facts) -> Duration {
        let size = match &self.work {
            Work::Shared(_, lasts) => return *lasts,
            Work::Feed(feed) => return feed.lasts,
            Work::Stream(stream) => return stream.duration(),
            Work::File(size) => size.0,
        };
        let told = self.parameters.get("rate").and_then(|rate| rate.parse::<u64>().ok());
        let told = told.filter(|_| !matches!(self.delivery.program, Program::Tcp | Program::Scp));
        let rate_bps = told.map_or(facts.link_rate_bps, |rate| rate.min(facts.link_rate_bps));
        let bytes = size as f64;
        let by_network = bytes * 8.0 * OVERHEAD * passes(facts, self.delivery, size) / rate_bps as f64;
        let by_machine = bytes * self.clients() as f64 * MACHINE_SECONDS;
        Duration::from_secs_f64(by_network.max(by_machine))
    }

    /// With clients that wait before they start. Those of unicast share the link with fewer others meanwhile; who comes late
    /// to multicast is sent everything again.
    fn with_waits(&self, immediate: Duration) -> Duration {
        match self.schedule.longest_wait_factor() {
            0 => immediate,
            factor if self.delivery.is_ours() => immediate * (factor + 1),
            factor => immediate.mul_f64(f64::from(factor) + 0.2),
        }
    }
}

/// Why source and copies do not fit.
fn oversize(network: &str, clients: usize, wanted: &Wanted, capacity_bytes: u64) -> Option<String> {
    let size = match wanted {
        Wanted::File(size) | Wanted::Shared(size, _) => *size,
        Wanted::Feed(feed) => feed.size,
        Wanted::Stream(_) => return None,
    };
    let needed = size.0.checked_mul(clients as u64 + 1);
    if needed.is_some_and(|needed| needed <= capacity_bytes) {
        return None;
    }
    let share_bytes = capacity_bytes / (clients as u64 + 1);
    let fits = Size(share_bytes - share_bytes % (1 << 20));
    Some(format!(
        "{network}: {clients} copies of {size} do not fit; at most {fits} each: send less (--set sizes=..., file=...) \
         or keep them on disk (--set store=FOLDER)"
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn experiment(settings: &[&str]) -> Experiment {
        let text = r#"
            title = "two networks"
            deliveries = ["tcp", "nack"]
            schedules = ["random", "immediate"]
            repeats = 2
            network = [{ name = "A", topology = "lan:clients=3" }, { name = "B", topology = "lan:clients=20" }]
            [workload]
            kind = "files"
            sizes = ["1M", "32M"]
        "#;
        let settings: Vec<String> = settings.iter().map(|setting| setting.to_string()).collect();
        Experiment::parse(text, "x", Path::new("."), &settings).unwrap()
    }

    #[test]
    fn every_combination_is_there_once_and_immediate_comes_first() {
        let experiment = experiment(&[]);
        let plan = Plan::new(&experiment, 1 << 40).unwrap();
        let names: Vec<&str> = plan.runs.iter().map(|run| run.name.as_str()).collect();
        assert_eq!(names.len(), 2 * 2 * 2 * 2 * 2);
        let expected = [
            "A tcp immediate 1M #1",
            "A tcp random 1M #1",
            "A nack immediate 1M #1",
            "A nack random 1M #1",
            "A tcp immediate 1M #2",
        ];
        assert_eq!(names[..5], expected);
        let distinct: std::collections::BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn a_runs_cell_is_its_parameters() {
        let experiment = experiment(&[]);
        let plan = Plan::new(&experiment, 1 << 40).unwrap();
        let cell = &plan.runs[3].parameters;
        let expected = [
            ("network", "A"),
            ("delivery", "nack"),
            ("fanout", "multicast"),
            ("repair", "nack"),
            ("fec", "none"),
            ("schedule", "random"),
            ("size", "1048576"),
            ("receivers", "3"),
            ("loss", "0"),
            ("rate", "max"),
        ];
        for (name, value) in expected {
            assert_eq!(cell.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_or_left_out() {
        let refused = Plan::new(&experiment(&[]), 500 << 20).unwrap_err().to_string();
        let line = "B: 20 copies of 32M do not fit; at most 23M each: send less (--set sizes=..., file=...) or keep \
                    them on disk (--set store=FOLDER)";
        assert_eq!(refused, line);
        let experiment = experiment(&["oversize=skip"]);
        let skipped = Plan::new(&experiment, 500 << 20).unwrap();
        assert_eq!(skipped.left_out, [line]);
        assert_eq!(skipped.runs.len(), 3 * 8);
    }

    #[test]
    fn unicast_takes_a_copy_a_client_and_multicast_one() {
        let experiment = experiment(&["network=[{name=\"B\",topology=\"lan:clients=20,rate=10M\"}]"]);
        let plan = Plan::new(&experiment, 1 << 40).unwrap();
        let of = |delivery: &str| {
            let is_it = |run: &&Planned| {
                run.delivery.name == delivery && matches!(run.work, Work::File(Size(33_554_432)))
            };
            plan.runs.iter().find(is_it).unwrap().transfer(&plan.networks[0].facts)
        };
        assert!(of("tcp") > 19 * of("nack") && of("tcp") < 21 * of("nack"));
    }

    /// Runs of labs/ and how long each took from its start on, with a release build on 2 processors.
    #[test]
    fn estimates_are_what_runs_have_taken() {
        let cases = [
            ("rate=40M", "loss=[{rate=\"30%\"}]", "nack", "20M", 44.8),
            ("rate=40M", "loss=[{rate=\"30%\"}]", "nack-fec", "20M", 9.0),
            ("repeats=1", "loss=[]", "nack", "64M", 6.5),
            ("repeats=1", "loss=[{rate=\"5%\"}]", "nack", "64M", 13.7),
            ("repeats=1", "loss=[{rate=\"5%\"},{rate=\"20%\",every=3}]", "after", "64M", 21.5),
        ];
        for (setting, loss, delivery, size, measured) in cases {
            let network = format!("network=[{{name=\"B\",topology=\"lan:clients=20,rate=100M\",{loss}}}]");
            let settings = [
                setting,
                &network,
                &format!("deliveries={delivery}"),
                &format!("sizes={size}"),
                "schedules=immediate",
            ];
            let experiment = experiment(&settings);
            let plan = Plan::new(&experiment, 1 << 40).unwrap();
            let estimate = plan.runs[0].estimate(&plan.networks[0].facts, Duration::ZERO).as_secs_f64();
            let ratio = estimate / measured;
            assert!((1.0 / 1.5..1.5).contains(&ratio), "{loss}, {delivery}: {estimate} s for {measured} s");
        }
    }
}
