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
        self, Carousel, Explicit, Fanout, Feed, Lists, Local, ObjectPlan, Placed, PlacedRouter, PlacedSeat,
        ReceiverFigures, ReceiverPlan, Sample, Scenario,
    },
};
use treecast_wire::{header::HEADER_LEN, seal::SEAL_LEN};

use super::network;
use crate::{
    client::Fared,
    document::{
        Experiment,
        delivery::{self, Delivery, Repair},
        feed::Priority,
        network::{Multicast, server_rate_bps},
        workload::{SendRate, Workload},
    },
    feed::ObjectTime,
    plan::{self, Plan, Planned, Work},
    schedule::{Schedule, seed_for},
    told::Told,
};

/// The result of a run. Times are since its start.
pub struct Simulated {
    /// The result of each client, in the group's order.
    pub clients: Vec<Fared>,
    /// The time until the last client had ended.
    pub duration: Duration,
    /// The number of bytes that were delivered.
    pub size_bytes: u64,
    /// The counts of each client. `None` for a client that was not started, and in a crowd.
    pub figures: Vec<Option<ReceiverFigures>>,
    /// The packets of feedback that came to the sender, and the packets that it sent again.
    pub feedback: u64,
    pub sender_repairs: u64,
    /// The packets of objects that the sender sent. One packet to many counts once.
    pub sender_packets: u64,
    /// The number of controllers of local groups that were to die.
    pub wanted_deaths: usize,
    /// The most clients that have reported to one controller of a crowd.
    pub most_served: Option<usize>,
    pub samples: Vec<Sample>,
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

/// Makes a run of a network without a crowd.
///
/// # Errors
/// The fault of the run: one of the simulator, or of a machine.
pub fn play(
    experiment: &Experiment,
    plan: &Plan,
    planned: &Planned,
    waits: &[Duration],
) -> Result<Simulated, String> {
    let receivers = planned.groups[0].receivers.len();
    let waits = |index: usize| waits.get(index).copied().unwrap_or_default();
    let mut simulated = Simulated {
        clients: vec![Fared::default(); receivers],
        duration: Duration::ZERO,
        size_bytes: size(planned),
        figures: vec![None; receivers],
        feedback: 0,
        sender_repairs: 0,
        sender_packets: 0,
        wanted_deaths: 0,
        most_served: None,
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
        let scenario = scenario(experiment, plan, planned, &members, &joins)?;
        let run = session::run(&scenario, false);
        if let [fault, ..] = run.faults.as_slice() {
            return Err(format!("the simulator is wrong: {fault}"));
        }
        simulated.take(planned, &members, begins, &waits, (&scenario.objects, &run));
        simulated.feedback += run.figures.feedback_messages;
        simulated.wanted_deaths += run.figures.wanted_deaths;
        let block_len = u64::from(scenario.block_len);
        let repairs = run.figures.retransmitted_bytes.div_ceil(block_len);
        simulated.sender_repairs += repairs;
        simulated.sender_packets +=
            run.figures.multicast_bytes.div_ceil(block_len) + run.figures.repair_symbols + repairs;
        begins = simulated.duration;
    }
    Ok(simulated)
}

pub fn size(planned: &Planned) -> u64 {
    match &planned.work {
        Work::File(size) => size.0,
        Work::Feed(feed) => feed.size.0,
        _ => 0,
    }
}

impl Simulated {
    /// Adds the result of one of the run's sessions, which began at `begins`.
    fn take(
        &mut self,
        planned: &Planned,
        members: &[usize],
        begins: Duration,
        waits: &dyn Fn(usize) -> Duration,
        (objects, run): (&[ObjectPlan], &session::Run),
    ) {
        for figures in &run.receivers {
            let index = members[figures.number];
            self.clients[index] = fared(planned, figures, begins, waits(index));
            if matches!(planned.work, Work::Feed(_)) {
                self.clients[index].objects = object_times(objects, figures);
            }
            self.figures[index] = Some(figures.clone());
        }
        for &index in members {
            let client = &mut self.clients[index];
            if client.attempts == 0 {
                client.failure = Some("it was not started before the run's time was up".into());
            }
        }
        let last = members.iter().filter_map(|index| self.clients[*index].finished).max();
        self.duration = self.duration.max(last.unwrap_or(begins));
        let before = self.samples.last().copied().unwrap_or_default();
        self.samples.extend(run.samples.iter().map(|sample| Sample {
            at: begins + sample.at,
            network_bytes: before.network_bytes + sample.network_bytes,
            sender_bytes: before.sender_bytes + sample.sender_bytes,
        }));
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

fn fared(planned: &Planned, figures: &ReceiverFigures, begins: Duration, wait: Duration) -> Fared {
    let is_feed = matches!(planned.work, Work::Feed(_));
    let may_lack = planned.delivery.may_lack() || is_feed;
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
        ..Fared::default()
    }
}

fn scenario(
    experiment: &Experiment,
    plan: &Plan,
    planned: &Planned,
    members: &[usize],
    joins: &dyn Fn(usize) -> Duration,
) -> Result<Scenario, String> {
    let delivery = planned.delivery;
    let topology = &plan.networks[planned.network].topology;
    let habits = &experiment.habits;
    let told = plan::rate(experiment, &experiment.networks[planned.network], delivery, topology);
    let rate_bps = match &told {
        SendRate::Bps(rate) => rate.0,
        _ => server_rate_bps(topology).unwrap_or(UNLIMITED_BPS),
    };
    let is_plain = delivery.plain.unwrap_or(habits.plain);
    let objects = objects(experiment, plan, planned);
    let feed = match &planned.work {
        Work::Feed(feed) => Some(&feed.configuration),
        _ => None,
    };
    let seal_bytes = if is_plain { 0 } else { SEAL_LEN };
    let room = if delivery.is_explicit() { session::room_beside_lists(fanout(delivery), MTU) } else { MTU };
    let block_len = (room - LOWER_HEADERS - HEADER_LEN - seal_bytes) as u16;
    // The machines of local groups count bits of objects, and not of packets.
    let of_objects =
        |rate: Option<Rate>| rate.map_or(rate_bps, |rate| rate.0) * u64::from(block_len) / MTU as u64;
    let seed = seed_for(habits.seed, &planned.name);
    let local = delivery
        .is_local()
        .then(|| local(planned, members, (seed, habits.timeout), &of_objects))
        .transpose()?;
    let group = &planned.groups[0];
    let receivers: Vec<&String> = members.iter().map(|index| &group.receivers[*index]).collect();
    let placed = placed(experiment, planned, topology, (&group.sender, &receivers), local, seal_bytes)?;
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
        retransmission_timeout_factor: feed.map(|feed| feed.factor),
        // As the lab's command line has it.
        feed: feed.map(|feed| Feed {
            at_once: 1,
            minimum_retransmission_time: Duration::ZERO,
            priority: match feed.priority {
                Priority::Fair => policy::Priority::Fair,
                Priority::Multicast => policy::Priority::Multicast,
            },
        }),
        follow_progress: told == SendRate::Max,
        rate_bps,
        slower_rates_bps: Vec::new(),
        shares_rate: true,
        close_at: objects.last().map_or(Duration::ZERO, |last| last.send_at),
        objects,
        receivers: members.iter().map(|index| receiver(joins(*index))).collect(),
        hashing: Duration::from_millis(2),
        is_forged: false,
        by_difference: false,
        carousel: delivery.is_carousel().then(|| Carousel::of_seed(seed)),
        network: Some(Box::new(placed)),
    })
}

/// The objects of a run, with the times at which they come.
fn objects(experiment: &Experiment, plan: &Plan, planned: &Planned) -> Vec<ObjectPlan> {
    let object =
        |size_bytes: u64, send_at| ObjectPlan { size: size_bytes as usize, send_at, withdraw_at: None };
    match (&planned.work, &experiment.workload) {
        (Work::Feed(feed), Workload::Feed(keys)) => {
            let link_rate_bps = plan.networks[planned.network].facts.link_rate_bps;
            let arrivals = keys.arrivals(feed.configuration.load, link_rate_bps, feed.seed);
            arrivals.iter().map(|arrival| object(arrival.size_bytes, arrival.at)).collect()
        }
        _ => vec![object(size(planned), Duration::ZERO)],
    }
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
fn multicast(experiment: &Experiment, planned: &Planned, topology: &Topology) -> session::Multicast {
    match experiment.networks[planned.network].multicast {
        Multicast::Tree => session::Multicast::Tree,
        Multicast::Mld => session::Multicast::Mld(session::Routing {
            first_switch: topology.nodes.len(),
            source_trees: experiment.deliveries.iter().any(Delivery::is_local),
        }),
    }
}

/// The places of a sender and its receivers in the network. `seal_bytes` is what encryption adds to a packet.
pub fn placed(
    experiment: &Experiment,
    planned: &Planned,
    topology: &Topology,
    (sender, receivers): (&String, &[&String]),
    local: Option<Local>,
    seal_bytes: usize,
) -> Result<Placed, String> {
    let delivery = planned.delivery;
    let cables = network::cables(topology);
    let node = |name: &str| network::node(topology, name).ok_or_else(|| format!("there is no node {name}"));
    let changes = cables.changes(&delivery.events);
    Ok(Placed {
        graph: cables.plan,
        sender: node(sender)?,
        receivers: receivers.iter().map(|name| node(name)).collect::<Result<_, _>>()?,
        fanout: fanout(delivery),
        multicast: multicast(experiment, planned, topology),
        explicit: match delivery.is_explicit() {
            true => Some(explicit(delivery, topology, (sender, receivers))?),
            false => None,
        },
        local,
        changes,
        starting: STARTING,
        seal_bytes,
        timeout: experiment.habits.timeout,
        sample: experiment.habits.sample,
    })
}

/// The settings of local groups. The times at which controllers die are drawn from the seed.
fn local(
    planned: &Planned,
    members: &[usize],
    (seed, timeout): (u64, Duration),
    of_objects: &dyn Fn(Option<Rate>) -> u64,
) -> Result<Local, String> {
    let keys = &planned.delivery.local;
    let receivers = &planned.groups[0].receivers;
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
        settling: timeout,
        wait_for: Some(members.len() as u32),
        deaths: keys.deaths(seed),
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
