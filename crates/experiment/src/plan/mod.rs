//! An experiment as a list of runs in a fixed order, each with its cell, and how long they will take.

pub mod estimate;
pub mod path;

use std::{collections::BTreeSet, sync::Arc};

pub use crate::mead_plan::Group;
use treecast_driver::send::{OptionsError, parse_fec};
use treecast_lab::{
    Role, Topology, events,
    quantity::{Rate, Size},
};
use treecast_measure::db::Parameters;
use treecast_proto::fec::Share;

use self::path::SharedPath;
use crate::{
    Error, Work,
    document::{
        Experiment, Oversize,
        delivery::Delivery,
        network::{self, Facts, Network},
        rate::SendRate,
        sharing::RIVAL,
    },
    receivers,
    schedule::Schedule,
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
    pub(crate) work: Arc<dyn Work>,
    /// The words that tell this run from all others.
    pub name: String,
    /// The parameters by which results are compared (the run's cell).
    pub parameters: Parameters,
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
    /// The value of the parameter `site` of each run: where it is made.
    pub site: &'static str,
    pub networks: Vec<Understood>,
    pub runs: Vec<Planned<'a>>,
    pub left_out: Vec<String>,
}

impl<'a> Plan<'a> {
    /// Expands an experiment: network by network, cast by cast, load by load, repeat by repeat. In each, deliveries follow
    /// each other, so that what is compared is close together. A delivery's immediate run comes before its random ones,
    /// whose waits are measured by it. `capacity_bytes` is what the store holds.
    pub fn new(experiment: &'a Experiment, site: &'static str, capacity_bytes: u64) -> Result<Self, Error> {
        let networks = understood(experiment)?;
        let mut plan = Self { site, networks, runs: Vec::new(), left_out: Vec::new() };
        for index in 0..plan.networks.len() {
            let casts = match &experiment.cast {
                None => vec![None],
                Some(cast) => cast.receivers.iter().copied().map(Some).collect(),
            };
            for receivers in casts {
                let scope = Scope { experiment, index, at: &plan.networks[index] };
                let planner = Planner { scope, site, receivers };
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
        let path = experiment.workload.prepare(network, &mut topology).map_err(refused)?;
        if let Some(link) =
            network.watch.iter().find(|link| topology.networks.iter().all(|of| of.name != **link))
        {
            return Err(refused(format!("watch: there is no link {link}")));
        }
        Ok(Understood { facts: Facts::of(&topology), topology, path })
    };
    experiment.networks.iter().map(understand).collect()
}

/// An experiment in one of its networks.
pub struct Scope<'a, 'p> {
    pub experiment: &'a Experiment,
    /// The index of the network in the experiment.
    pub index: usize,
    pub at: &'p Understood,
}

impl<'a> Scope<'a, '_> {
    pub fn network(&self) -> &'a Network {
        &self.experiment.networks[self.index]
    }

    /// Returns the error of a network in which something cannot be.
    pub fn refused(&self, what: impl Into<String>) -> Error {
        Error::Network { name: self.network().name.clone(), what: what.into() }
    }
}

/// Work that is wanted in a network, before it is known which delivery does it.
pub struct Wanted<'w> {
    /// The number of the repeat, counted from 1.
    pub repeat: u32,
    /// The size of one copy; `None` where nobody keeps a copy.
    pub size: Option<Size>,
    /// The groups, where the workload chooses the hosts. `None`: the server and the clients of the network, or the cast.
    pub groups: Option<Vec<Group>>,
    /// Returns the work as a delivery does it for these groups.
    pub work: Box<WorkOf<'w>>,
}

type WorkOf<'w> = dyn Fn(&Delivery, &[Group]) -> Result<Arc<dyn Work>, String> + 'w;

impl<'w> Wanted<'w> {
    /// Returns work that all deliveries do in the same way.
    pub fn of_all(work: Arc<dyn Work>, repeat: u32) -> Self {
        let (size, groups) = (work.size(), work.groups());
        Self { repeat, size, groups, work: Box::new(move |_, _| Ok(Arc::clone(&work))) }
    }

    /// Returns works that all deliveries do in the same way, once in each repeat of an experiment.
    pub fn repeated(works: impl IntoIterator<Item = Arc<dyn Work>>, experiment: &Experiment) -> Vec<Self> {
        let repeats = 1..=experiment.habits.repeats;
        let of_work =
            |work: Arc<dyn Work>| repeats.clone().map(move |repeat| Self::of_all(Arc::clone(&work), repeat));
        works.into_iter().flat_map(of_work).collect()
    }
}

/// Makes the runs of one network and one number of receivers.
struct Planner<'a, 'p> {
    scope: Scope<'a, 'p>,
    site: &'static str,
    /// The number of hosts of each network of the cast that receive.
    receivers: Option<usize>,
}

impl<'a> Planner<'a, '_> {
    fn runs(&self, capacity_bytes: u64) -> Result<(Vec<Planned<'a>>, Vec<String>), Error> {
        let experiment = self.scope.experiment;
        let network = self.scope.network();
        let mut of_network = None;
        let (mut runs, mut left_out) = (Vec::new(), Vec::new());
        for wanted in experiment.workload.works(&self.scope)? {
            if wanted.groups.is_none() && of_network.is_none() {
                of_network = Some(self.groups()?);
            }
            let groups = wanted.groups.as_deref().or(of_network.as_deref()).unwrap_or_default();
            let copies = groups.iter().map(|group| group.receivers.len()).sum();
            if let Some(what) = oversize(&network.name, copies, wanted.size, capacity_bytes) {
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
                    let planned = self.planned(delivery, schedule, groups, &wanted);
                    runs.push(planned.map_err(|what| self.scope.refused(what))?);
                }
            }
        }
        Ok((runs, left_out))
    }

    /// The senders, each with its receivers.
    fn groups(&self) -> Result<Vec<Group>, Error> {
        let Scope { experiment, at, .. } = self.scope;
        let (topology, network) = (&at.topology, self.scope.network());
        let refused = |what: &str| self.scope.refused(what);
        if let (Some(cast), Some(receivers)) = (&experiment.cast, self.receivers) {
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
        if experiment.workload.all_send() {
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

    fn planned(
        &self,
        delivery: &'a Delivery,
        schedule: Schedule,
        groups: &[Group],
        wanted: &Wanted,
    ) -> Result<Planned<'a>, String> {
        let topology = &self.scope.at.topology;
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
        groups.iter().try_for_each(|group| check_connected(topology, group))?;
        if self.scope.network().crowd.is_none() {
            delivery.local.check_receivers(&groups[0].receivers).map_err(in_delivery)?;
        }
        let work = (wanted.work)(delivery, groups).map_err(in_delivery)?;
        let mut planned = Planned {
            network: self.scope.index,
            delivery,
            schedule,
            repeat: wanted.repeat,
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
        let network = &self.scope.network().name;
        let cast = self.receivers.map(|receivers| format!(" {receivers} a network")).unwrap_or_default();
        let words = planned.work.words(&planned.delivery.name, planned.schedule);
        format!("{network}{cast} {words} #{}", planned.repeat)
    }

    /// The cell of a run.
    fn parameters(&self, planned: &Planned) -> Parameters {
        let Planned { delivery, schedule, repeat, work, groups, .. } = planned;
        let Scope { experiment, at, .. } = self.scope;
        let (network, topology) = (self.scope.network(), &at.topology);
        let mut parameters = Parameters::new();
        let mut set = |name: &str, value: String| _ = parameters.insert(name.to_owned(), value);
        set("network", network.name.clone());
        set(treecast_measure::frame::SITE, self.site.into());
        set("seed", experiment.habits.seed.to_string());
        set("delivery", delivery.name.clone());
        set("program", delivery.program.word().into());
        set("fanout", delivery.fanout.word().into());
        set("repair", delivery.repair_words());
        set("fec", delivery.fec.clone().unwrap_or_else(|| "default".into()));
        set("schedule", schedule.name().into());
        set("repeat", repeat.to_string());
        // Receivers of rivals on a shared link do not count.
        let counted = if at.path.is_some() { &groups[..1] } else { &groups[..] };
        let receivers = network.crowd.map_or_else(|| receivers(counted).len(), |crowd| crowd as usize);
        set("receivers", receivers.to_string());
        set("senders", groups.len().to_string());
        set("levels", network::router_levels(topology).to_string());
        let of_link = at.path.as_ref().map_or(0.0, |path| path.loss.mean());
        set("loss", at.facts.most_lost().max(of_link).to_string());
        if let Some(path) = &at.path {
            set("round_trip", path.round_trip.as_secs_f64().to_string());
        }
        if let Some(rate) = network::link_rate_bps(topology) {
            set("link_rate", rate.to_string());
        }
        if let Some(rate) = network::server_rate_bps(topology) {
            set("server_rate", rate.to_string());
        }
        if let (Some(receivers), Some(cast)) = (self.receivers, &experiment.cast) {
            set("receivers_a_network", receivers.to_string());
            set("use_case", cast.use_case.name.clone());
        }
        if let Some(size) = work.size() {
            set("size", size.0.to_string());
        }
        if work.is_told_a_rate() {
            set("rate", rate(experiment, network, delivery, topology).words()[1].clone());
        }
        work.parameters(network, &mut set);
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

/// The reason why source and copies do not fit.
fn oversize(network: &str, clients: usize, size: Option<Size>, capacity_bytes: u64) -> Option<String> {
    let size = size?;
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
        let plan = Plan::new(&experiment, "lab", 1 << 40).unwrap();
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
            Plan::new(&experiment, "lab", 1 << 40)
                .map(|plan| plan.runs.len())
                .map_err(|error| error.to_string())
        };
        let line = "network A: delivery `x`: fec = \"20%\": from its second loop on, a carousel";
        assert!(refused("20%").is_err_and(|error| error.starts_with(line)));
        assert_eq!(refused("auto"), Ok(1));
    }

    #[test]
    fn a_runs_cell_is_its_parameters() {
        let experiment = experiment(&[]);
        let plan = Plan::new(&experiment, "lab", 1 << 40).unwrap();
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
        let refused = Plan::new(&experiment(&[]), "lab", 500 << 20).unwrap_err().to_string();
        let line = "B: 20 copies of 32M do not fit; at most 23M each: send less (--set sizes=..., file=...) or keep \
                    them on disk (--set store=FOLDER)";
        assert_eq!(refused, line);
        let experiment = experiment(&["oversize=skip"]);
        let skipped = Plan::new(&experiment, "lab", 500 << 20).unwrap();
        assert_eq!(skipped.left_out, [line]);
        assert_eq!(skipped.runs.len(), 3 * 8);
    }
}
