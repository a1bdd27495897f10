//! Runs with a crowd: so many receivers that the simulator has no node and no cable for each.

use std::{
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use treecast_lab::Loss;
use treecast_proto::local::Tuning;
use treecast_sim::{
    crowd::{self, Crowd, CrowdFigures},
    graph::Graph,
    session::{Dying, Sample},
};
use treecast_wire::header::HEADER_LEN;

use super::{
    Simulation, network,
    scenario::{Goods, LOWER_HEADERS, MTU},
};
use crate::{
    client::Fared,
    document::{
        delivery::{Delivery, Fanout},
        network::Network,
        rate::SendRate,
    },
    plan::{self, Planned, Understood},
    schedule::Schedule,
    session::Played,
    told::SentPackets,
};

/// The bytes of an object in a packet that is not encrypted.
const BLOCK_LEN: u16 = (MTU - LOWER_HEADERS - HEADER_LEN) as u16;

/// Packets that leave together, as for a sender of a few Mbit/s.
const RUN_BLOCKS: u32 = 8;

/// A lock that keeps two crowds from being in memory at the same time. A crowd uses all processors by itself.
static ONE: Mutex<()> = Mutex::new(());

/// Refuses a crowd that cannot be simulated.
pub fn check(network: &Network, delivery: &Delivery, understood: &Understood) -> Result<(), String> {
    let clients = understood.facts.clients;
    if clients != 1 {
        return Err(format!(
            "the topology of a crowd has one client, which stands for all, and not {clients}"
        ));
    }
    let is_multicast = delivery.fanout == Fanout::Multicast;
    if !delivery.is_local()
        || !is_multicast
        || !delivery.local.groups.is_empty()
        || delivery.local.deaths != Dying::default()
    {
        return Err(format!(
            "{} cannot be: a crowd has multicast and repair local, without groups or deaths",
            delivery.name
        ));
    }
    if !delivery.events.is_empty() || network.rate.is_some() && delivery.rate.is_some() {
        return Err("a crowd has no events, and one rate".into());
    }
    loss(understood).map(drop)
}

/// The share of packets that each receiver loses.
fn loss(understood: &Understood) -> Result<f64, String> {
    let mut losses = understood.topology.members().map(|member| member.quality.loss);
    match losses.find(|loss| !loss.is_none()) {
        None => Ok(0.0),
        Some(Loss::Uniform(share)) => Ok(share),
        Some(other) => Err(format!("a crowd has uniform loss, and not {other}")),
    }
}

/// Makes a run of a crowd. Returns what its session came to, and what links carried in all.
pub fn play(
    simulation: &Simulation,
    goods: &Goods,
    receivers: usize,
) -> Result<(Played, Vec<Sample>), String> {
    let Simulation { experiment, plan, planned, .. } = *simulation;
    let understood = &plan.networks[planned.network];
    let topology = &understood.topology;
    let told = plan::rate(experiment, &experiment.networks[planned.network], planned.delivery, topology);
    let SendRate::Bps(rate) = told else { return Err("a crowd needs a rate".into()) };
    let group = &planned.groups[0];
    let nodes = (network::node(topology, &group.sender), network::node(topology, &group.receivers[0]));
    let (Some(sender), Some(client)) = nodes else { return Err("the topology lacks a node".into()) };
    let mut graph = Graph::new(&network::cables(topology).plan, 0);
    let usual = Tuning::default();
    let keys = &planned.delivery.local;
    let crowd = Crowd {
        seed: simulation.seed(),
        receivers,
        mode: keys.mode.into(),
        tuning: Tuning {
            repair_rate_bps: keys.repair_rate.map_or(usual.repair_rate_bps, |rate| rate.0),
            congestion_loss: keys.congestion_loss.map_or(usual.congestion_loss, |share| share.0),
            ..usual
        },
        loss: loss(understood)?,
        delay: graph.delay(sender, client).max(Duration::from_millis(2)),
        size_bytes: goods.size_bytes(),
        block_len: BLOCK_LEN,
        max_run_len: u32::from(BLOCK_LEN) * RUN_BLOCKS,
        rate_bps: rate.0 * u64::from(BLOCK_LEN) / MTU as u64,
        threads: thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        timeout: experiment.habits.timeout,
    };
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(played(planned, goods.size_bytes(), receivers, &crowd::run(&crowd)))
}

/// Returns the result of a run, in which the last receiver stands for all of them.
fn played(
    planned: &Planned,
    size_bytes: u64,
    receivers: usize,
    figures: &CrowdFigures,
) -> (Played, Vec<Sample>) {
    let lacking = receivers - figures.whole;
    let client = Fared {
        started: (planned.schedule == Schedule::Immediate).then_some(Duration::ZERO),
        finished: (lacking == 0).then_some(figures.last_time),
        failure: (lacking > 0)
            .then(|| format!("{lacking} receivers had not everything when the time was up")),
        attempts: 1,
        is_cut_short: lacking > 0,
        ..Fared::default()
    };
    let end = Sample {
        at: figures.last_time,
        network_bytes: figures.network_bytes,
        sender_bytes: figures.sender_bytes,
    };
    let played = Played {
        clients: vec![client],
        duration: figures.last_time,
        sent: SentPackets {
            to_all: size_bytes.div_ceil(BLOCK_LEN.into()) + figures.sender_repairs,
            repairs: figures.sender_repairs,
            to_some: 0,
            feedback: Some(figures.sender.reports + figures.sender.requests + figures.sender.others),
        },
        most_served: Some(figures.most_clients),
        ..Played::default()
    };
    (played, vec![Sample::default(), end])
}
