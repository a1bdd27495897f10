//! Turns a planned run into a session of the simulator, and reads what the session resulted in.

use std::time::Duration;

use treecast_driver::send::parse_fec;
use treecast_lab::{Role, Topology, quantity::Rate};
use treecast_proto::{
    Instant,
    fec::Share,
    local::Tuning,
    policy,
    vcmtp::{self, Notification},
};
use treecast_sim::{
    network::Path,
    session::{
        self, Carousel, Explicit, Fanout, Feed, Lists, Local, LocalFigures, ObjectPlan, Placed, PlacedRouter,
        PlacedSeat, ReceiverFigures, ReceiverPlan, Sample, Scenario,
    },
};
use treecast_wire::{header::HEADER_LEN, seal::SEAL_LEN};

use super::{Simulation, network};
use crate::{
    cargo::products::ObjectTime,
    client::Fared,
    document::{
        delivery::{self, Delivery, Repair},
        network::{Multicast, server_rate_bps},
        rate::SendRate,
    },
    plan,
    schedule::Schedule,
    session::{Local as LocalPart, Played},
    told::{SentPackets, Told},
};

/// The objects that a run delivers.
pub struct Goods {
    /// The objects, with the times at which they come.
    pub objects: Vec<ObjectPlan>,
    /// The factor for the retransmission timeout; `None` for the usual one.
    pub retransmission_factor: Option<f64>,
    /// How objects of a feed share the sender; `None` for one file.
    pub feed: Option<Feed>,
}

impl Goods {
    /// Returns one file of a size.
    pub fn one(size_bytes: u64) -> Self {
        let object = ObjectPlan { size: size_bytes as usize, send_at: Duration::ZERO, withdraw_at: None };
        Self { objects: vec![object], retransmission_factor: None, feed: None }
    }

    /// Returns the bytes of all objects together.
    pub fn size_bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.size as u64).sum()
    }
}

/// The time that a program takes until it asks for a connection: about what `treecast receive` takes on an idle machine.
const STARTING: Duration = Duration::from_millis(10);

/// The MTU of every link, and what IPv6 and UDP take of it, in bytes.
pub const MTU: usize = 1500;
pub const LOWER_HEADERS: usize = 48;

/// The rate of links without one in the topology, in bits a second.
const UNLIMITED_BPS: u64 = 10_000_000_000;

/// The most blocks that leave at once: a super-packet has 64 KiB at most.
const MOST_BLOCKS_A_RUN: usize = 43;

/// The rate at which a receiver reads its receive buffer, in bits a second.
const READ_RATE_BPS: u64 = 10_000_000_000;

/// Makes a run of a network without a crowd. Returns what its session came to, and what links carried over time.
///
/// # Errors
/// The fault of the run: one of the simulator, or of a machine.
pub fn play(simulation: &Simulation, goods: &Goods) -> Result<(Played, Vec<Sample>), String> {
    let planned = simulation.planned;
    let receivers = planned.groups[0].receivers.len();
    let waits = |index: usize| simulation.waits.get(index).copied().unwrap_or_default();
    let mut sessions = Sessions {
        played: Played {
            clients: vec![Fared::default(); receivers],
            locals: vec![None; receivers],
            sent: SentPackets { feedback: Some(0), ..SentPackets::default() },
            ..Played::default()
        },
        samples: Vec::new(),
    };
    // A session serves those who are there when it begins. Those who come later take part in the next one.
    let follows = planned.delivery.has_sessions() && planned.schedule != Schedule::Immediate;
    let mut due: Vec<usize> = (0..receivers).collect();
    due.sort_by_key(|index| waits(*index));
    let mut begins = Duration::ZERO;
    while let Some(first) = due.first() {
        begins = if follows { begins.max(waits(*first)) } else { Duration::ZERO };
        let take =
            if follows { due.iter().take_while(|index| waits(**index) <= begins).count() } else { due.len() };
        let members: Vec<usize> = due.drain(..take).collect();
        let joins = |index: usize| waits(index).saturating_sub(begins);
        let scenario = scenario(simulation, goods, &members, &joins)?;
        let run = session::run(&scenario, false);
        if let [fault, ..] = run.faults.as_slice() {
            return Err(format!("the simulator is wrong: {fault}"));
        }
        sessions.take_clients(simulation, goods, &members, begins, &run);
        sessions.take_sender(&run, u64::from(scenario.block_len));
        begins = sessions.played.duration;
    }
    Ok((sessions.played, sessions.samples))
}

/// What the sessions of a run have come to, one after the other. Times are since the run's start.
struct Sessions {
    played: Played,
    samples: Vec<Sample>,
}

impl Sessions {
    /// Adds the clients of a session, which began at `begins`, and what links carried meanwhile.
    fn take_clients(
        &mut self,
        simulation: &Simulation,
        goods: &Goods,
        members: &[usize],
        begins: Duration,
        run: &session::Run,
    ) {
        let Played { clients, locals, duration, .. } = &mut self.played;
        for figures in &run.receivers {
            let index = members[figures.number];
            let wait = simulation.waits.get(index).copied().unwrap_or_default();
            clients[index] = fared(simulation.planned.delivery, goods, figures, begins, wait);
            locals[index] = figures.local.as_ref().map(local_part);
        }
        for &index in members {
            let client = &mut clients[index];
            if client.attempts == 0 {
                client.failure = Some("it was not started before the run's time was up".into());
            }
        }
        let last = members.iter().filter_map(|index| clients[*index].finished).max();
        *duration = (*duration).max(last.unwrap_or(begins));
        let before = self.samples.last().copied().unwrap_or_default();
        self.samples.extend(run.samples.iter().map(|sample| Sample {
            at: begins + sample.at,
            network_bytes: before.network_bytes + sample.network_bytes,
            sender_bytes: before.sender_bytes + sample.sender_bytes,
        }));
    }

    /// Adds what the sender of a session has sent, in packets with `block_len` bytes of objects, and heard.
    fn take_sender(&mut self, run: &session::Run, block_len: u64) {
        let figures = &run.figures;
        let repairs = figures.retransmitted_bytes.div_ceil(block_len);
        let sent = &mut self.played.sent;
        sent.repairs += repairs;
        sent.to_all += figures.multicast_bytes.div_ceil(block_len) + figures.repair_symbols + repairs;
        sent.feedback = sent.feedback.map(|heard| heard + figures.feedback_messages);
        self.played.wanted_deaths += figures.wanted_deaths;
    }
}

/// The part of a receiver in local groups.
fn local_part(local: &LocalFigures) -> LocalPart {
    let machine = &local.machine;
    LocalPart {
        load_packets: local.session_packets + local.group_packets,
        lost: LocalPart::lost(machine.data_blocks, local.session_packets),
        repairs: machine.sent_blocks,
        requests: machine.requests_sent + machine.requests_above,
        served: local.most_clients as u64,
    }
}

/// The objects that a receiver of a feed has, and the time that each took.
fn object_times(objects: &[ObjectPlan], figures: &ReceiverFigures) -> Vec<ObjectTime> {
    let time = |one: &session::ObjectFigures| ObjectTime {
        size_bytes: objects[one.index as usize].size as u64,
        taken: one.complete - one.announced,
    };
    figures.objects.iter().map(time).collect()
}

fn fared(
    delivery: &Delivery,
    goods: &Goods,
    figures: &ReceiverFigures,
    begins: Duration,
    wait: Duration,
) -> Fared {
    let is_feed = goods.feed.is_some();
    let may_lack = delivery.may_lack() || is_feed;
    let is_there = figures.is_whole || may_lack && figures.has_ended;
    let last = figures.objects.last().filter(|_| is_feed).map(|object| object.complete - Instant::ZERO);
    Fared {
        started: Some(wait),
        finished: is_there.then(|| begins + last.unwrap_or(figures.time)),
        failure: (!is_there && !figures.has_died)
            .then(|| "it had not everything when the run's time was up".into()),
        attempts: 1,
        is_cut_short: !(figures.is_whole || is_feed && is_there),
        has_died: figures.has_died,
        told: Told {
            received_bytes: figures.received_bytes,
            retransmitted_bytes: figures.retransmitted_bytes,
            duplicate_bytes: figures.duplicate_bytes,
            dropped_packets: figures.dropped_packets,
            ..Told::default()
        },
        objects: is_feed.then(|| object_times(&goods.objects, figures)),
        ..Fared::default()
    }
}

fn scenario(
    simulation: &Simulation,
    goods: &Goods,
    members: &[usize],
    joins: &dyn Fn(usize) -> Duration,
) -> Result<Scenario, String> {
    let Simulation { experiment, planned, .. } = *simulation;
    let delivery = planned.delivery;
    let topology = simulation.topology();
    let habits = &experiment.habits;
    let told = plan::rate(experiment, &experiment.networks[planned.network], delivery, topology);
    let rate_bps = match &told {
        SendRate::Bps(rate) => rate.0,
        _ => server_rate_bps(topology).unwrap_or(UNLIMITED_BPS),
    };
    let is_plain = delivery.plain.unwrap_or(habits.plain);
    let seal_bytes = if is_plain { 0 } else { SEAL_LEN };
    let room = if delivery.is_explicit() { session::room_beside_lists(fanout(delivery), MTU) } else { MTU };
    let block_len = (room - LOWER_HEADERS - HEADER_LEN - seal_bytes) as u16;
    // The machines of local groups count bits of objects, and not of packets.
    let of_objects =
        |rate: Option<Rate>| rate.map_or(rate_bps, |rate| rate.0) * u64::from(block_len) / MTU as u64;
    let seed = simulation.seed();
    let local = delivery.is_local().then(|| local(simulation, members, &of_objects)).transpose()?;
    let group = &planned.groups[0];
    let receivers: Vec<&String> = members.iter().map(|index| &group.receivers[*index]).collect();
    let placed = placed(simulation, (&group.sender, &receivers), local, seal_bytes)?;
    let run_blocks =
        policy::packets_per_run(fixed_bps(&told).map(|_| rate_bps), MTU as u64, MOST_BLOCKS_A_RUN);
    Ok(Scenario {
        seed,
        repair: match delivery.repair {
            Some(Repair::After) => vcmtp::Repair::After,
            Some(Repair::None) => vcmtp::Repair::None,
            _ => vcmtp::Repair::Nack,
        },
        fec: fec(delivery, &told)?,
        block_len,
        max_run_len: u32::from(block_len) * run_blocks as u32,
        retransmission_timeout_factor: goods.retransmission_factor,
        feed: goods.feed,
        follow_progress: told == SendRate::Max,
        rate_bps,
        slower_rates_bps: Vec::new(),
        shares_rate: true,
        close_at: goods.objects.last().map_or(Duration::ZERO, |last| last.send_at),
        objects: goods.objects.clone(),
        receivers: members.iter().map(|index| receiver(joins(*index))).collect(),
        hashing: Duration::from_millis(2),
        is_forged: false,
        by_difference: false,
        carousel: delivery.is_carousel().then(|| Carousel::of_seed(seed)),
        network: Some(Box::new(placed)),
    })
}

/// The fanout of a delivery, as the simulator has it.
pub fn fanout(delivery: &Delivery) -> Fanout {
    match delivery.fanout {
        delivery::Fanout::Unicast => Fanout::Unicast,
        delivery::Fanout::Mead => Fanout::Mead,
        delivery::Fanout::Xcast | delivery::Fanout::XcastPlus => Fanout::Xcast,
        delivery::Fanout::Auto => Fanout::Auto,
        delivery::Fanout::Multicast => Fanout::Multicast,
    }
}

/// The means by which the network knows where packets to groups go. Routers have the settings that they have in a
/// lab.
fn multicast(simulation: &Simulation) -> session::Multicast {
    let Simulation { experiment, planned, .. } = *simulation;
    match experiment.networks[planned.network].multicast {
        Multicast::Tree => session::Multicast::Tree,
        Multicast::Mld => session::Multicast::Mld(session::Routing {
            first_switch: simulation.topology().nodes.len(),
            source_trees: experiment.deliveries.iter().any(Delivery::is_local),
        }),
    }
}

/// The places of a sender and its receivers in the network. `seal_bytes` is what encryption adds to a packet.
pub fn placed(
    simulation: &Simulation,
    (sender, receivers): (&String, &[&String]),
    local: Option<Local>,
    seal_bytes: usize,
) -> Result<Placed, String> {
    let delivery = simulation.planned.delivery;
    let (topology, habits) = (simulation.topology(), &simulation.experiment.habits);
    let cables = network::cables(topology);
    let node = |name: &str| network::node(topology, name).ok_or_else(|| format!("there is no node {name}"));
    let changes = cables.changes(&delivery.events);
    Ok(Placed {
        graph: cables.plan,
        sender: node(sender)?,
        receivers: receivers.iter().map(|name| node(name)).collect::<Result<_, _>>()?,
        fanout: fanout(delivery),
        multicast: multicast(simulation),
        explicit: match delivery.is_explicit() {
            true => Some(explicit(delivery, topology, (sender, receivers))?),
            false => None,
        },
        local,
        changes,
        starting: STARTING,
        seal_bytes,
        timeout: habits.timeout,
        sample: habits.sample,
    })
}

/// The settings of local groups. The times at which controllers die are drawn from the seed.
fn local(
    simulation: &Simulation,
    members: &[usize],
    of_objects: &dyn Fn(Option<Rate>) -> u64,
) -> Result<Local, String> {
    let keys = &simulation.planned.delivery.local;
    let receivers = &simulation.planned.groups[0].receivers;
    let number = |name: &String| {
        let found = members.iter().position(|index| receivers[*index] == *name);
        found.ok_or_else(|| format!("there is no receiver {name}"))
    };
    let mut seats = vec![None; members.len()];
    for (group, names) in (1..).zip(&keys.groups) {
        for name in names {
            seats[number(name)?] = Some(PlacedSeat { group, controller: number(&names[0])?, parent: None });
        }
    }
    let usual = Tuning::default();
    Ok(Local {
        mode: keys.mode.into(),
        seats: seats.into_iter().flatten().collect(),
        tuning: Tuning {
            congestion_loss: keys.congestion_loss.map_or(usual.congestion_loss, |share| share.0),
            repair_rate_bps: of_objects(keys.repair_rate),
            deadline: keys.deadline.map(|deadline| deadline.0),
            ..usual
        },
        minimum_rate_bps: keys.minimum_rate.map_or(0, |rate| rate.0),
        // As `treecast send --wait N` does.
        settling: simulation.experiment.habits.timeout,
        wait_for: Some(members.len() as u32),
        deaths: keys.deaths(simulation.seed()),
    })
}

/// Returns the addresses that a sender of packet lists needs: its own, those of receivers and those of all routers.
fn explicit(
    delivery: &Delivery,
    topology: &Topology,
    (sender, receivers): (&String, &[&String]),
) -> Result<Explicit, String> {
    let address = |name: &str| {
        let at = network::node(topology, name)
            .and_then(|node| network::addresses(topology, node).first().copied());
        at.ok_or_else(|| format!("{name} is on no network"))
    };
    let networks = |name: &str| -> Vec<&str> {
        let node = network::node(topology, name);
        let is_there =
            |network: &&treecast_lab::Network| network.members.iter().any(|one| Some(one.node) == node);
        topology.networks.iter().filter(is_there).map(|network| network.name.as_str()).collect()
    };
    let of_sender = networks(sender);
    let support = delivery.support.routers(topology)?;
    let routers = topology.nodes.iter().enumerate().filter(|(_, node)| node.role == Role::Router);
    Ok(Explicit {
        sender: address(sender)?,
        receivers: receivers.iter().map(|name| address(name)).collect::<Result<_, _>>()?,
        on_link: receivers
            .iter()
            .map(|name| networks(name).iter().any(|one| of_sender.contains(one)))
            .collect(),
        routers: routers
            .map(|(node, of)| PlacedRouter {
                node,
                addresses: network::addresses(topology, node),
                speaks: support.as_ref().is_none_or(|named| named.contains(&of.name)),
            })
            .collect(),
        mtu: MTU,
        lists: Lists::default(),
    })
}

/// The rate of a session, in bits a second. `None`: nothing limits it.
fn fixed_bps(told: &SendRate) -> Option<u64> {
    if let SendRate::Bps(rate) = told { Some(rate.0) } else { None }
}

/// The forward error correction that `treecast send` would use.
fn fec(delivery: &Delivery, told: &SendRate) -> Result<Option<Share>, String> {
    match delivery.fec.as_deref() {
        Some(share) => parse_fec(share).map_err(|error| format!("fec `{share}`: {error}")),
        None => {
            let has_requests = matches!(delivery.repair, None | Some(Repair::Nack))
                && delivery.fanout == delivery::Fanout::Multicast;
            Ok(policy::default_fec(has_requests, fixed_bps(told)))
        }
    }
}

fn receiver(join_at: Duration) -> ReceiverPlan {
    ReceiverPlan {
        join_at,
        leave: None,
        notification: Notification::Batched,
        path: Path::clean(Duration::ZERO),
        narrow: None,
        moves: Some(Vec::new()),
        control_delay: Duration::ZERO,
        control_rate_bps: u64::MAX,
        receive_buffer_bytes: policy::RECEIVE_BUFFER_BYTES as u32,
        read_rate_bps: READ_RATE_BPS,
        ignores: vec![false],
        faults: vec![None],
    }
}
