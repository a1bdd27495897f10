//! The runs of an experiment in their order, who sends to whom in each, and what the tree says that it costs.

use std::{collections::BTreeSet, time::Duration};

use treecast_measure::db::Bytes;

use super::{
    super::Error,
    delivery::{Delivery, Kind},
    figures::Cell,
    file::UseCases,
    traffic::Load,
};
use treecast_lab::{
    Role, Topology, events,
    mead_plan::{self, Cost, Group, Way},
};

/// One run to be made.
#[derive(Debug, Clone)]
pub struct Planned<'a> {
    pub delivery: &'a Delivery,
    pub load: Load,
    pub receivers_per_network: usize,
    pub groups: Vec<Group>,
    /// From 1.
    pub repeat: u32,
    pub max: usize,
    pub packets: u32,
    pub interval: Duration,
    /// Of the whole run.
    pub computed: Bytes,
    pub floor: Bytes,
}

impl Planned<'_> {
    pub fn name(&self, experiment: &UseCases) -> String {
        let Self { delivery, load, receivers_per_network, repeat, .. } = self;
        let use_case = &experiment.use_case.name;
        format!("{use_case} {load} {receivers_per_network} a network, {} #{repeat}", delivery.name)
    }

    pub fn cell<'c>(&self, experiment: &'c UseCases, load: &'c str) -> Cell<'c> {
        Cell { use_case: &experiment.use_case.name, load, receivers_per_network: self.receivers_per_network }
    }

    /// The routers that speak MEADcast and Xcast in it; none: all. Those of Xcast+ would make Xcast of what a source multicasts,
    /// and IP multicast is to be by `treecast mroute` alone.
    pub fn routers(
        &self,
        experiment: &UseCases,
        topology: &Topology,
    ) -> Result<Option<BTreeSet<String>>, String> {
        match self.delivery.kind == Kind::Multicast && experiment.has(Kind::XcastPlus) {
            true => Ok(Some(BTreeSet::new())),
            false => self.delivery.support.routers(topology),
        }
    }

    /// The same traffic at a lower rate.
    pub fn slower(&self) -> Self {
        Self { interval: self.interval.mul_f64(SLOWER), ..self.clone() }
    }

    /// How long its traffic takes.
    pub fn duration(&self) -> Duration {
        self.interval * self.packets
    }

    /// What comes before and behind it: waiting twice until the machine is quiet, at most `settle` each time, starting
    /// programs, and intervals without traffic.
    pub fn overhead(&self, settle: Duration) -> Duration {
        let asks_routers = matches!(self.delivery.kind, Kind::Mead | Kind::XcastPlus);
        let programs = Duration::from_millis(if asks_routers { 5500 } else { 3500 });
        programs + 2 * settle.min(Duration::from_secs(1))
    }
}

/// About how long the runs will take, with the network in which they are made.
pub fn estimate(runs: &[Planned], topology: &Topology, settle: Duration) -> Duration {
    const BASELINE: Duration = Duration::from_secs(1);
    const NODE: Duration = Duration::from_millis(30);
    /// The daemons of a router.
    const ROUTER: Duration = Duration::from_millis(100);
    let building = NODE * topology.nodes.len() as u32 + ROUTER * topology.count(Role::Router) as u32;
    let runs = runs.iter().map(|run| run.duration() + run.overhead(settle));
    BASELINE + building + runs.sum::<Duration>()
}

/// An Ethernet frame's header, which links count and the tree does not.
const ETHERNET_LEN: u64 = 14;

/// How much longer a file takes when too much of it was lost.
const SLOWER: f64 = 1.4;

/// How much of the fullest link is used.
const OF_LINK: f64 = 0.95;

/// All runs: cell by cell, and in each the deliveries one after the other, so that what is compared is close together.
pub fn runs<'a>(experiment: &'a UseCases, topology: &Topology) -> Result<Vec<Planned<'a>>, Error> {
    let mut runs = Vec::new();
    for receivers_per_network in &experiment.receivers {
        for load in &experiment.loads {
            for repeat in 1..=experiment.repeats {
                for delivery in &experiment.deliveries {
                    let planned = plan(experiment, topology, delivery, *load, *receivers_per_network, repeat);
                    let name = experiment.use_case.name.clone();
                    runs.push(planned.map_err(|what| Error::Network { name, what })?);
                }
            }
        }
    }
    Ok(runs)
}

fn plan<'a>(
    experiment: &UseCases,
    topology: &Topology,
    delivery: &'a Delivery,
    load: Load,
    receivers_per_network: usize,
    repeat: u32,
) -> Result<Planned<'a>, String> {
    let in_delivery = |what| format!("delivery `{}`: {what}", delivery.name);
    events::check(&delivery.events, topology).map_err(in_delivery)?;
    if let Some(link) =
        experiment.links.iter().find(|link| topology.networks.iter().all(|of| of.name != **link))
    {
        return Err(format!("links: there is no link {link}"));
    }
    let groups = experiment.use_case.groups(receivers_per_network);
    let max = delivery.max(experiment.use_case.max);
    let payload_bytes = experiment.payload_bytes;
    let support = delivery.support.routers(topology)?;
    let cost = |way: &Way| -> Result<Cost, String> {
        let mut sum = Cost::default();
        for group in &groups {
            let one = mead_plan::cost(topology, group, support.as_ref(), (max, payload_bytes), way)?;
            sum.network_bytes += one.network_bytes;
            sum.sender_bytes += one.sender_bytes;
            // Too much where senders do not share their fullest links.
            sum.heaviest_bytes += one.heaviest_bytes;
        }
        Ok(sum)
    };
    let (computed, floor) = (cost(&delivery.way(max))?, cost(&Way::Multicast)?);
    let file = delivery.size.map(|size| Load::File { bytes: size.0 });
    let packets = file.unwrap_or(load).packets(payload_bytes);
    let whole = |cost: Cost| Bytes {
        network: cost.network_bytes * u64::from(packets),
        sender: cost.sender_bytes * u64::from(packets),
    };
    let (computed_bytes, floor_bytes) = (whole(computed), whole(floor));
    let interval = match (delivery.rate, load) {
        // Each copy has the rate. Headers, which take their part of it, are left out.
        (Some(rate), _) => Duration::from_secs_f64(payload_bytes as f64 * 8.0 / rate.0 as f64),
        (None, Load::Stream { seconds, .. }) => Duration::from_secs(seconds.into()) / packets.max(1),
        (None, Load::File { .. }) => {
            let Some(rate) = experiment.link_rate else {
                return Err("a file goes as fast as its links bear it: name their `link_rate`".into());
            };
            let copies = computed.heaviest_bytes.div_ceil(payload_bytes as u64 + 48);
            let bits = (computed.heaviest_bytes + copies * ETHERNET_LEN) * 8;
            Duration::from_secs_f64(bits as f64 / (rate.0 as f64 * OF_LINK))
        }
    };
    Ok(Planned {
        delivery,
        load,
        receivers_per_network,
        groups,
        repeat,
        max,
        packets,
        interval,
        computed: computed_bytes,
        floor: floor_bytes,
    })
}
