//! An experiment as a list of runs in a fixed order, each with its cell, and how long they will take.

mod estimate;
pub mod load;
pub mod multihoming;
pub mod path;
pub mod stream;

use std::{collections::BTreeSet, time::Duration};

use treecast_driver::send::{OptionsError, parse_fec};
pub use treecast_lab::mead_plan::Group;
use treecast_lab::{
    Role, Topology, events,
    quantity::{Rate, Size},
};
use treecast_measure::db::Parameters;
use treecast_proto::fec::Share;

use self::{load::PlannedLoad, multihoming::PlannedMultihoming, path::SharedPath, stream::PlannedStream};
use crate::{
    Error,
    document::{
        Experiment, Oversize,
        delivery::Delivery,
        feed::{Configuration, Feed},
        network::{self, Facts, Network},
        sharing::RIVAL,
        workload::{Load, Objects, SendRate, Workload},
    },
    schedule::{Schedule, seed_for},
};

/// A run that is to be made.
#[derive(Debug, Clone)]
pub struct Planned<'a> {
    /// The index of its network in the experiment.
    pub network: usize,
    pub delivery: &'a Delivery,
    pub schedule: Schedule,
    /// The number of the repeat, counted from 1.
    pub repeat: u32,
    /// The groups of the run, each with its sender and receivers. The first flow's is followed by those of its rivals.
    pub groups: Vec<Group>,
    pub work: Work,
    /// The words that tell this run from all others.
    pub name: String,
    /// The parameters by which results are compared (the run's cell).
    pub parameters: Parameters,
}

/// The work of a run: what it delivers.
#[derive(Debug, Clone)]
pub enum Work<S = PlannedStream> {
    File(Size),
    Feed(PlannedFeed),
    /// A file that takes longer than this time on the shared link.
    Shared(Size, Duration),
    Stream(S),
    /// Packets from many hosts to a group.
    Load(Box<PlannedLoad>),
    /// A transfer of a stub, and the tables of routers.
    Multihoming(Box<PlannedMultihoming>),
}

/// The work before it is known how it is delivered.
type Wanted = Work<Load>;

/// The plan of a feed in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedFeed {
    pub configuration: Configuration,
    /// The seed that objects and arrivals come from. It is the same for all configurations of one load.
    pub seed: u64,
    /// The size of all objects together.
    pub size: Size,
    /// The time at which the last object comes.
    pub lasts: Duration,
}

impl<S> Work<S> {
    /// Returns the size of one copy; `None` for a stream or a load, of which nobody keeps a copy.
    pub fn size(&self) -> Option<Size> {
        match self {
            Self::File(size) | Self::Shared(size, _) => Some(*size),
            Self::Feed(feed) => Some(feed.size),
            Self::Stream(_) | Self::Load(_) | Self::Multihoming(_) => None,
        }
    }
}

impl Planned<'_> {
    /// Returns how many receivers there are in all groups together.
    pub fn clients(&self) -> usize {
        self.groups.iter().map(|group| group.receivers.len()).sum()
    }
}

/// A network whose description has been read and checked, before it is built.
#[derive(Debug, Clone)]
pub struct Understood {
    pub topology: Topology,
    pub facts: Facts,
    /// The path through the link that flows share.
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
        Ok(plan)
    }
}

fn understood(experiment: &Experiment) -> Result<Vec<Understood>, Error> {
    let understand = |network: &Network| {
        let refused = |what| Error::Network { name: network.name.clone(), what };
        let mut topology = network.build()?;
        let path = path::find(experiment, network, &mut topology)?;
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
    /// The number of hosts of each network of the cast that receive.
    receivers: Option<usize>,
}

impl<'a> Planner<'a, '_> {
    fn runs(&self, capacity_bytes: u64) -> Result<(Vec<Planned<'a>>, Vec<String>), Error> {
        let experiment = self.experiment;
        let network = &experiment.networks[self.index];
        let groups = match experiment.workload {
            // Each run has its own hosts.
            Workload::Load(_) | Workload::Multihoming(_) => Vec::new(),
            _ => self.groups()?,
        };
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

    /// The senders, each with its receivers.
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
        let has_rival = !network.rivals.is_empty();
        let receivers: Vec<String> =
            named(Role::Client).filter(|name| !has_rival || !name.starts_with(RIVAL)).collect();
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
        let lans = path::rivals(topology).map(|(_, members)| members);
        for (number, receivers) in (1..=network.rivals.len()).zip(lans) {
            groups.push(Group { sender: server(number)?, receivers });
        }
        Ok(groups)
    }

    /// The work that is wanted, with the number of the repeat from 1 on.
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
                path::check_sizes(sharing, name, &sizes, self.at.path.as_ref())?;
                each(sizes.into_iter().map(|size| Wanted::Shared(size, sharing.lasts.0)).collect())
            }
            Workload::Stream(stream) => each(stream.loads.iter().copied().map(Wanted::Stream).collect()),
            Workload::Load(loading) => {
                let refused =
                    |what| Error::Network { name: experiment.networks[self.index].name.clone(), what };
                let all = PlannedLoad::all(loading, &self.at.topology).map_err(refused)?;
                each(all.into_iter().map(|load| Wanted::Load(Box::new(load))).collect())
            }
            Workload::Multihoming(multihoming) => {
                let refused =
                    |what| Error::Network { name: experiment.networks[self.index].name.clone(), what };
                let planned = PlannedMultihoming::of(multihoming, &self.at.topology).map_err(refused)?;
                each(vec![Wanted::Multihoming(Box::new(planned))])
            }
            // All configurations of one load and repeat have the same objects, at the same times.
            Workload::Feed(feed) => repeats.flat_map(|repeat| self.feeds(feed, repeat)).collect(),
        })
    }

    fn feeds(&self, feed: &Feed, repeat: u32) -> Vec<(Wanted, u32)> {
        let planned = |configuration: Configuration| {
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
        let in_delivery = |what: String| format!("delivery `{}`: {what}", delivery.name);
        events::check(&delivery.events, topology).map_err(|what| in_delivery(what.to_string()))?;
        let is_led = |event: &events::Event| {
            event.noticed.is_some() || matches!(event.fault, events::Fault::Avoid { .. })
        };
        if !topology.bgp.is_empty() && delivery.events.iter().any(is_led) {
            let what = "BGP avoids a link that is down or fails: leave out `noticed` and `avoid`";
            return Err(in_delivery(what.into()));
        }
        delivery.support.routers(topology).map_err(in_delivery)?;
        check_share(delivery).map_err(in_delivery)?;
        let of_load = match &wanted {
            Wanted::Load(load) => load.groups(),
            Wanted::Multihoming(planned) => planned.groups(),
            _ => Vec::new(),
        };
        let groups = if of_load.is_empty() { groups } else { &of_load };
        groups.iter().try_for_each(|group| check_connected(topology, group))?;
        if self.experiment.networks[self.index].crowd.is_none() {
            delivery.local.check_receivers(&groups[0].receivers).map_err(in_delivery)?;
        }
        let stream = |load| stream::plan(self.experiment, topology, delivery, load, groups);
        let work = match wanted {
            Wanted::File(size) => Work::File(size),
            Wanted::Feed(feed) => Work::Feed(feed),
            Wanted::Shared(size, lasts) => Work::Shared(size, lasts),
            Wanted::Stream(load) => Work::Stream(stream(load).map_err(in_delivery)?),
            Wanted::Load(load) => Work::Load(load),
            Wanted::Multihoming(planned) => Work::Multihoming(planned),
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
            Work::Load(load) => format!("{network} {}, {delivery} #{repeat}", load.words()),
            Work::Multihoming(planned) => format!("{network} {}, {delivery} #{repeat}", planned.words()),
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
        set(treecast_measure::frame::SITE, self.experiment.habits.site.into());
        set("seed", self.experiment.habits.seed.to_string());
        set("delivery", delivery.name.clone());
        set("program", delivery.program.word().into());
        set("fanout", delivery.fanout.word().into());
        set("repair", delivery.repair_words());
        set("fec", delivery.fec.clone().unwrap_or_else(|| "default".into()));
        set("schedule", schedule.name().into());
        set("repeat", repeat.to_string());
        let receivers: BTreeSet<&String> = match self.experiment.workload {
            Workload::Shared(..) => groups[0].receivers.iter().collect(),
            _ => groups.iter().flat_map(|group| &group.receivers).collect(),
        };
        let receivers = network.crowd.map_or(receivers.len(), |crowd| crowd as usize);
        set("receivers", receivers.to_string());
        set("senders", groups.len().to_string());
        set("levels", network::router_levels(topology).to_string());
        let of_link = self.at.path.as_ref().map_or(0.0, |path| path.loss.mean());
        set("loss", self.at.facts.most_lost().max(of_link).to_string());
        if let Some(path) = &self.at.path {
            set("round_trip", path.round_trip.as_secs_f64().to_string());
        }
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
        if let Some(size) = work.size() {
            set("size", size.0.to_string());
        }
        match work {
            Work::File(_) => {}
            Work::Shared(_, lasts) => _ = set("lasts", lasts.as_secs_f64().to_string()),
            Work::Feed(feed) => {
                set("load", feed.configuration.load.to_string());
                set("factor", feed.configuration.factor.to_string());
                set("priority", feed.configuration.priority.name().into());
            }
            Work::Stream(stream) => {
                set("load", stream.load.to_string());
                set("payload", stream.payload_bytes.to_string());
                set("size", (u64::from(stream.packets) * stream.payload_bytes as u64).to_string());
                return parameters;
            }
            Work::Multihoming(planned) => {
                planned.parameters(&mut set);
                return parameters;
            }
            Work::Load(load) => {
                load.parameters(&mut set);
                set("snooping", if network.snooping == Some(false) { "off" } else { "on" }.into());
                set("mld", network.mld.map_or_else(|| "2".into(), |version| version.to_string()));
                return parameters;
            }
        }
        set("rate", rate(self.experiment, network, delivery, topology).words()[1].clone());
        parameters
    }
}

/// Returns the rate that a delivery is told: the one in the file or, without one, what the slowest link
/// carries.
pub fn rate(
    experiment: &Experiment,
    network: &Network,
    delivery: &Delivery,
    topology: &Topology,
) -> SendRate {
    let told = delivery.rate.as_ref().or(network.rate.as_ref()).or(experiment.habits.rate.as_ref());
    told.cloned().unwrap_or_else(|| {
        let link = network::link_rate_bps(topology);
        link.map_or(SendRate::Max, |link| SendRate::Bps(Rate(sending_rate_bps(link))))
    })
}

/// The rate of IP packets that fills a link whose rate counts Ethernet frames: 1,500 of 1,514 bytes, less a
/// thousandth for everything else that crosses the link.
fn sending_rate_bps(link_rate_bps: u64) -> u64 {
    (link_rate_bps as f64 * 1500.0 / 1514.0 * 0.999) as u64
}

/// Refuses a network in which the sender does not reach every receiver.
fn check_connected(topology: &Topology, group: &Group) -> Result<(), String> {
    let node = |name: &String| {
        let found = topology.nodes.iter().position(|node| node.name == *name);
        found.ok_or_else(|| format!("there is no node {name}: name one of the topology"))
    };
    let sender = node(&group.sender)?;
    let (mut reached, mut due) = (BTreeSet::from([sender]), vec![sender]);
    while let Some(from) = due.pop() {
        if from != sender && topology.nodes[from].role != Role::Router {
            continue;
        }
        let is_there =
            |network: &&treecast_lab::Network| network.members.iter().any(|member| member.node == from);
        let members = topology.networks.iter().filter(is_there).flat_map(|network| &network.members);
        due.extend(members.map(|member| member.node).filter(|node| reached.insert(*node)));
    }
    for name in &group.receivers {
        if !reached.contains(&node(name)?) {
            return Err(format!("no link leads from {name} to {}: add one to the topology", group.sender));
        }
    }
    Ok(())
}

/// Refuses a share of repair symbols that `treecast send` would refuse in each run.
fn check_share(delivery: &Delivery) -> Result<(), String> {
    let Some(fec) = delivery.fec.as_deref().filter(|_| delivery.is_ours()) else { return Ok(()) };
    let checked = match parse_fec(fec) {
        Ok(Some(Share::Percent(percent))) => {
            OptionsError::check_share(percent, delivery.is_carousel()).map_err(|error| error.to_string())
        }
        Ok(_) => Ok(()),
        Err(expected) => Err(expected),
    };
    checked.map_err(|error| format!("fec = \"{fec}\": {error}"))
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

/// The reason why source and copies do not fit.
fn oversize(network: &str, clients: usize, wanted: &Wanted, capacity_bytes: u64) -> Option<String> {
    let size = wanted.size()?;
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
pub mod tests {
    use std::path::Path;

    use super::*;

    pub fn experiment(settings: &[&str]) -> Experiment {
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
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn a_delivery_that_the_sender_would_refuse_is_named_before_any_run() {
        let refused = |fec: &str| {
            let text = format!(
                "title = \"one\"\nnetwork = [{{ name = \"A\", topology = \"lan:clients=3\" }}]\n\
                 delivery = [{{ name = \"x\", fanout = \"auto\", repair = \"carousel\", fec = \"{fec}\" }}]\n\
                 [workload]\nkind = \"files\"\nsizes = [\"1M\"]\n"
            );
            let experiment = Experiment::parse(&text, "x", Path::new("."), &[]).unwrap();
            Plan::new(&experiment, 1 << 40).map(|plan| plan.runs.len()).map_err(|error| error.to_string())
        };
        let line = "network A: delivery `x`: fec = \"20%\": from its second loop on, a carousel";
        assert!(refused("20%").is_err_and(|error| error.starts_with(line)));
        assert_eq!(refused("auto"), Ok(1));
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
}
