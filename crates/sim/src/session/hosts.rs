//! The hosts of a session, the network between them, and what happens to them.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use treecast_proto::{
    Instant,
    object::{Address, Channel, ReceiverId, ReceiverInput, SenderInput},
};
use treecast_wire::{
    header::FileId,
    message::{Member, Message},
};

use super::{
    Deaths, Leaving, LocalFigures, ReceiverPlan, Scenario,
    carousel::{self, Forging},
    expected, forger,
    placed::{Fanout, Multicast, Placed, Sample},
    receiver_node::{self, Heard, ObjectFigures, ReceiverNode, parse},
    sender_node::{self, Packet, SenderNode, Sizes, session},
    transport::{Arrival, Due, End, Said, Transport},
};
use crate::{
    graph::{CablePlan, GraphPlan},
    judge::Judge,
    network::{Connection, generator},
    trace::{Node, Trace},
    world::{self, Agenda, Scene},
};

/// More events than this are a run that goes round in circles.
const MAX_EVENTS: u64 = 6_000_000;

/// How long a receiver takes for a hash, and how long the application thinks.
const HASHING: Duration = Duration::from_millis(2);
const THINKING: Duration = Duration::from_millis(15);

/// The first stream of random numbers for connections to receivers, one each.
const CONTROL_STREAM: u64 = 1 << 32;

/// How long it takes to join another group.
const JOINING: Duration = Duration::from_millis(40);

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    pub trace: Trace,
    /// The faults of the run, one line each. Empty when all went well.
    pub faults: Vec<String>,
    /// How many receivers have every object.
    pub complete_receivers: usize,
    pub figures: Figures,
    /// The result for each receiver that has joined, in the order of joining.
    pub receivers: Vec<ReceiverFigures>,
    /// What cables carried over time, where the session is placed in a network.
    pub samples: Vec<Sample>,
}

/// The result of a run for one receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiverFigures {
    /// When the receiver had the last object, or when its session ended without it.
    pub time: Duration,
    /// The bytes of objects that the receiver got although it had them already.
    pub duplicate_bytes: u64,
    /// The group that the receiver listened to at the end.
    pub group: u8,
    /// The receiver's place in the scenario.
    pub number: usize,
    /// Whether the receiver has every object.
    pub is_whole: bool,
    /// The bytes of objects that the receiver has. Bytes that came twice count once.
    pub received_bytes: u64,
    /// The bytes of objects that came over the receiver's own connection.
    pub retransmitted_bytes: u64,
    /// The number of packets that the receiver's socket had no room for.
    pub dropped_packets: u64,
    /// Whether the receiver's session has ended.
    pub has_ended: bool,
    /// The bytes of blocks and symbols that left for the group between the receiver's coming and its end.
    pub sent_bytes: u64,
    /// Whether the receiver died.
    pub has_died: bool,
    /// What it did in a session with local groups.
    pub local: Option<LocalFigures>,
    /// The objects that it has, in the order of their completion.
    pub objects: Vec<ObjectFigures>,
}

/// The cost of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// The bytes of objects that the sender multicast, and in a carousel also of repair symbols.
    pub multicast_bytes: u64,
    /// The bytes of objects that the sender sent again.
    pub retransmitted_bytes: u64,
    /// The bytes of packets to the group, with their headers.
    pub group_bytes: u64,
    /// The number of controllers of local groups that were to die.
    pub wanted_deaths: usize,
    /// The number of repair symbols sent, and of blocks that receivers computed from them.
    pub repair_symbols: u64,
    pub decoded_blocks: u64,
    /// The number of chunks that were wrong and were sent again.
    pub wrong_chunks: u64,
    /// The number of blocks that receivers got although they had them already.
    pub duplicate_blocks: u64,
    /// The number of packets that receivers' sockets dropped.
    pub dropped_packets: u64,
    /// The number of packets on the control connections, in both directions, that carry no blocks.
    pub control_messages: u64,
    /// The number of messages that have come to the sender.
    pub feedback_messages: u64,
    /// The time until the last receiver had the last object.
    pub time: Duration,
}

#[derive(Debug)]
pub(super) enum Event {
    Send(usize),
    Withdraw(u32),
    /// A carousel's sender checks who listens.
    Listeners,
    /// A member of a carousel's group sends a packet that is not the sender's.
    Forge,
    CloseSender,
    Join(usize),
    Leave(usize, Leaving),
    /// What was said on the connection to a receiver is at the other end.
    Said {
        at: End,
        of: usize,
        said: Said,
    },
    ToSocket(usize, Heard),
    /// A receiver reads a packet from its socket.
    Read(usize, Heard),
    /// A receiver listens to another group.
    Move(usize, u8),
    SenderHashed(u32),
    ReceiverHashed(usize, FileId, [u8; 32]),
    ReceiverDecoded(usize, FileId, u32, bool),
    ReceiverChecked(usize, FileId, u32, Option<Vec<Range<u64>>>),
    /// A receiver has read an older version.
    Seeded(usize, FileId, Vec<Range<u64>>),
    Respond(usize, FileId),
    /// Something on the way through the network.
    Transport(Due),
    /// Something happens to a cable: its place in the list.
    Change(usize),
    /// Controllers of local groups may die.
    Deaths,
    Sample,
}

#[derive(Debug)]
pub(super) struct Hosts<'a> {
    scenario: &'a Scenario,
    agenda: Agenda<Node, Event>,
    trace: Trace,
    sender: SenderNode,
    /// The receivers. `None` before one joins.
    receivers: Vec<Option<ReceiverNode>>,
    transport: Transport,
    samples: Vec<Sample>,
    forging: Forging,
    /// The receivers that have asked for copies, by the numbers that the sender gave them.
    listens: BTreeMap<ReceiverId, usize>,
    /// The number of packets that have gone to each group.
    numbers: Vec<u32>,
    figures: Figures,
    faults: Vec<String>,
    local: LocalRun,
}

/// The state of a session with local groups.
#[derive(Debug, Default)]
struct LocalRun {
    /// Whether a placed session's objects are being sent.
    has_begun: bool,
    /// The packets that each receiver was sent in local groups, and the most who have reported to it.
    loads: Vec<(u64, usize)>,
    /// The controllers of local groups that are to die, and when the session began.
    deaths: (Deaths, Instant),
}

impl Scene for Hosts<'_> {
    type Node = Node;
    type Event = Event;

    fn agenda(&mut self) -> &mut Agenda<Node, Event> {
        &mut self.agenda
    }

    fn happen(&mut self, now: Instant, event: Event) {
        self.event(now, event);
    }

    fn wake(&mut self, _: Instant, node: Node) {
        match node {
            Node::Sender => self.pump_sender(),
            Node::Receiver(number) => {
                if self.receivers[number].as_ref().is_some_and(|receiver| !receiver.dead) {
                    self.pump_receiver(number);
                }
            }
        }
    }

    /// A session in a star goes on until nothing more happens, so that nothing is done after its end.
    fn is_over(&self) -> bool {
        self.scenario.network.is_some() && self.has_ended()
    }
}

impl<'a> Hosts<'a> {
    pub(super) fn new(scenario: &'a Scenario, verbose: bool) -> Self {
        let made;
        let placed = match scenario.network.as_deref() {
            Some(placed) => placed,
            None => {
                made = star(scenario);
                &made
            }
        };
        let is_carousel = scenario.carousel.is_some();
        let count = scenario.receivers.len();
        let mut hosts = Self {
            scenario,
            agenda: Agenda::default(),
            trace: Trace::new(verbose),
            sender: SenderNode::new(scenario),
            receivers: (0..count).map(|_| None).collect(),
            transport: Transport::new(placed, Sizes::of(scenario), is_carousel, scenario.seed),
            samples: Vec::new(),
            forging: Forging::new(scenario),
            local: LocalRun { loads: vec![(0, 0); count], ..LocalRun::default() },
            listens: BTreeMap::new(),
            numbers: vec![0; scenario.slower_rates_bps.len() + 1],
            figures: Figures::default(),
            faults: Vec::new(),
        };
        hosts.plan();
        hosts
    }

    fn plan(&mut self) {
        let at = |time| Instant::ZERO + time;
        if let Some(placed) = self.scenario.network.as_deref() {
            return self.plan_placed(placed);
        }
        for (number, plan) in self.scenario.receivers.iter().enumerate() {
            self.agenda.at(at(plan.join_at + plan.control_delay), Event::Join(number));
            for (time, group) in plan.moves.iter().flatten() {
                self.agenda.at(at(*time + plan.control_delay), Event::Move(number, *group));
            }
            if let Some((time, how)) = plan.leave {
                self.agenda.at(at(time + plan.control_delay), Event::Leave(number, how));
            }
        }
        for (position, plan) in self.scenario.objects.iter().enumerate() {
            match self.scenario.carousel {
                Some(_) => {
                    let hashed_at = at(HASHING * (position as u32 + 1));
                    self.agenda.at(hashed_at, Event::SenderHashed(position as u32));
                }
                None => self.agenda.at(at(plan.send_at), Event::Send(position)),
            }
            if let Some(time) = plan.withdraw_at {
                self.agenda.at(at(time), Event::Withdraw(position as u32));
            }
        }
        match self.scenario.carousel {
            Some(carousel) => {
                if carousel.forger.is_some() {
                    self.agenda.at(Instant::ZERO, Event::Forge);
                }
            }
            None => self.agenda.at(at(self.scenario.close_at), Event::CloseSender),
        }
        if self.scenario.is_forged {
            for (time, receiver, packet) in forger::packets(self.scenario) {
                let heard = Heard { group: None, number: 0, packet, is_own: false, from: None };
                self.agenda.at(at(time), Event::ToSocket(receiver, heard));
            }
        }
    }

    /// Plans when receivers come and objects are sent: when all receivers are there, or at once for a carousel.
    fn plan_placed(&mut self, placed: &Placed) {
        for (number, plan) in self.scenario.receivers.iter().enumerate() {
            let shakes_hands = self.round_trip(number) * 3;
            let join_at = plan.join_at + placed.starting + shakes_hands;
            self.agenda.at(Instant::ZERO + join_at, Event::Join(number));
        }
        if placed.local.is_some() {
            self.agenda.wake(Node::Sender, Instant::ZERO);
        }
        if self.scenario.carousel.is_some() {
            for index in 0..self.scenario.objects.len() as u32 {
                self.agenda.at(Instant::ZERO, Event::SenderHashed(index));
            }
            self.begin_changes(placed);
        }
        self.agenda.at(Instant::ZERO, Event::Sample);
        self.arrivals(Instant::ZERO);
    }

    fn begin_changes(&mut self, placed: &Placed) {
        for (position, (time, ..)) in placed.changes.iter().enumerate() {
            self.agenda.at(self.agenda.now() + *time, Event::Change(position));
        }
    }

    /// The round trip between the sender and a receiver of a placed session, when nothing waits anywhere.
    fn round_trip(&mut self, number: usize) -> Duration {
        let (sender, receiver) = (self.sender_at(), self.node_of(number));
        let graph = &mut self.transport.graph;
        graph.delay(sender, receiver) + graph.delay(receiver, sender)
    }

    pub(super) fn run(mut self) -> Run {
        let deadline = Instant::ZERO + self.scenario.deadline();
        let is_placed = self.scenario.network.is_some();
        let most_events = if is_placed { u64::MAX } else { MAX_EVENTS };
        let end = world::run(&mut self, deadline, most_events);
        let mut judge = Judge::default();
        judge.ended(end, self.agenda.now(), is_placed || self.has_ended());
        self.figures();
        self.sample();
        let Self { scenario, sender, receivers, trace, faults, figures, samples, local, .. } = self;
        let session_packets = sender.session_packets();
        judge.hear(faults);
        expected::judge(&mut judge, scenario, &sender, &receivers);
        let count = scenario.objects.len();
        let is_complete = |receiver: &&ReceiverNode| receiver.storage.committed().len() == count;
        let complete_receivers = receivers.iter().flatten().filter(is_complete).count();
        let block_len = u64::from(scenario.block_len);
        let of_one = |(number, receiver): (usize, &ReceiverNode)| ReceiverFigures {
            time: match is_complete(&receiver) || !is_placed {
                true => receiver.outcome.last_received_at - Instant::ZERO,
                false => receiver.outcome.closed_at - Instant::ZERO,
            },
            duplicate_bytes: receiver.machine.counters().duplicate_blocks * block_len,
            group: receiver.hearing.group,
            number,
            is_whole: is_complete(&receiver),
            received_bytes: receiver.counts.stored_bytes,
            retransmitted_bytes: receiver.counts.retransmitted_bytes,
            dropped_packets: receiver.socket.dropped(),
            has_ended: receiver.outcome.closed,
            sent_bytes: receiver.counts.sent_bytes,
            has_died: receiver.dead,
            objects: receiver.outcome.objects.clone(),
            local: receiver.machine.local().map(|machine| LocalFigures {
                machine: machine.figures(),
                session_packets,
                group_packets: local.loads[number].0,
                is_controller: machine.is_controller(),
                most_clients: local.loads[number].1,
            }),
        };
        let present = receivers.iter().enumerate().filter_map(|(number, one)| Some((number, one.as_ref()?)));
        let receivers = present.map(of_one).collect();
        Run { trace, faults: judge.into_faults(), complete_receivers, figures, receivers, samples }
    }

    /// Whether the session has ended at everybody who is still there.
    fn has_ended(&self) -> bool {
        if self.scenario.network.is_some() {
            let has_ended = |receiver: &Option<ReceiverNode>| {
                receiver.as_ref().is_some_and(|one| one.outcome.closed || one.dead)
            };
            return (self.scenario.carousel.is_some() || self.sender.closed)
                && self.receivers.iter().all(has_ended);
        }
        self.sender.closed
            && self.receivers.iter().flatten().all(|receiver| receiver.outcome.closed || receiver.dead)
    }

    fn event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Send(position) => {
                self.sender.send(now, position);
                if self.scenario.by_difference {
                    let hashed = Event::SenderHashed(position as u32);
                    self.agenda.at(now + self.scenario.hashing, hashed);
                }
            }
            Event::Withdraw(index) => {
                let (file, reason) = (self.file(index), "it has shrunk".to_owned());
                self.sender.machine.handle(now, SenderInput::Withdraw { file, reason });
            }
            Event::Listeners => {
                let present = self.receivers.iter().flatten().any(|one| carousel::is_reported(one, now));
                self.sender.listeners(now, present);
            }
            Event::Forge => return self.forge(now),
            Event::CloseSender => self.sender.machine.handle(now, SenderInput::Close),
            Event::Join(number) => self.join(now, number),
            Event::Leave(number, how) => self.leave(now, number, how),
            Event::Said { at: End::Sender, of, said: Said::Packet(packet) } => {
                self.arrive_at_sender(now, of, &packet);
            }
            Event::Said { at: End::Sender, of, said: Said::Close } => self.sender.left(now, of),
            Event::SenderHashed(index) => {
                let (file, hash) = (self.file(index), self.sender.hash(index));
                self.sender.machine.handle(now, SenderInput::Hashed { file, hash });
            }
            Event::ToSocket(number, heard) => return self.arrive_at_socket(now, number, heard),
            Event::Transport(due) => {
                self.transport.handle(now, due);
                return self.arrivals(now);
            }
            Event::Change(position) => return self.change(now, position),
            Event::Deaths => return self.let_controllers_die(now),
            Event::Sample => return self.sample(),
            other => return self.receiver_event(now, other),
        }
        self.pump_sender();
    }

    fn receiver_event(&mut self, now: Instant, event: Event) {
        let number = match &event {
            Event::Said { of, .. } => *of,
            Event::Read(number, _) | Event::ReceiverHashed(number, ..) => *number,
            Event::ReceiverDecoded(number, ..) | Event::ReceiverChecked(number, ..) => *number,
            Event::Move(number, _) | Event::Seeded(number, ..) => *number,
            Event::Respond(number, _) => *number,
            _ => return,
        };
        let Some(receiver) = self.receivers[number].as_mut().filter(|receiver| !receiver.dead) else {
            return;
        };
        match event {
            Event::Said { said: Said::Packet(packet), .. } if receiver.connected => {
                receiver.packet(now, Channel::Control, packet)
            }
            Event::Read(_, heard) => receiver.hear(now, heard),
            Event::Move(_, group) => {
                receiver.move_to(now, group);
                self.listen(now, number);
            }
            Event::ReceiverHashed(_, file, hash) => {
                receiver.machine.handle(now, ReceiverInput::Hashed { file, hash });
            }
            Event::ReceiverDecoded(_, file, source_block, is_right) => {
                receiver.machine.handle(now, ReceiverInput::Decoded { file, source_block, is_right });
            }
            Event::ReceiverChecked(_, file, page, wrong) => {
                receiver.machine.handle(now, ReceiverInput::Checked { file, page, wrong });
            }
            Event::Respond(_, file) => receiver.respond(now, file),
            Event::Seeded(_, file, ranges) => {
                receiver.seeded(now, file, ranges, self.sender.content(file.index() as usize));
            }
            Event::Said { said: Said::Close, .. } => {
                receiver.disconnect(now, "closed by the sender");
                let arrival = now + self.scenario.receivers[number].control_delay;
                self.say(now, (number, End::Receiver), Said::Close, arrival);
            }
            _ => {}
        }
        self.pump_receiver(number);
    }

    fn join(&mut self, now: Instant, number: usize) {
        if self.sender.closed {
            return;
        }
        let plan = &self.scenario.receivers[number];
        let mut receiver = ReceiverNode::new(self.scenario, number, plan);
        receiver.connect(now);
        receiver.counts.sent_bytes = self.sender.sent.bytes;
        self.receivers[number] = Some(receiver);
        if let Some(placed) = self.scenario.network.as_deref() {
            self.join_placed(now, number, placed);
        } else if self.scenario.carousel.is_some() {
            self.listen(now, number);
            self.agenda.at(now + carousel::REPORT, Event::Listeners);
        } else {
            self.listen(now, number);
            let random = generator(self.scenario.seed, CONTROL_STREAM + number as u64);
            let connection = Connection::new(plan.control_delay, plan.control_rate_bps)
                .with_loss(plan.path.control_loss, random);
            let round_trip = plan.path.delay + plan.control_delay;
            self.sender.join(now, number, connection, plan.receive_buffer_bytes, Some(round_trip));
        }
        self.pump_receiver(number);
    }

    /// Has a receiver's host listen to the groups of the sender that it hears, and to no others.
    fn listen(&mut self, now: Instant, number: usize) {
        let Some(receiver) = &self.receivers[number] else { return };
        for group in 0..self.numbers.len() as u8 {
            self.transport.listen_if(now, number, group, receiver.hearing.hears(group));
        }
    }

    /// Has an end of the connection to a receiver say something. In a star it is at the other end on `arrival`.
    fn say(&mut self, now: Instant, (of, from): (usize, End), said: Said, arrival: Instant) {
        match self.scenario.network {
            Some(_) => self.transport.write(now, of, from, said),
            None => self.agenda.at(arrival, Event::Said { at: from.other(), of, said }),
        }
    }

    fn join_placed(&mut self, now: Instant, number: usize, placed: &Placed) {
        let transport = &mut self.transport;
        if self.scenario.has_connections() {
            transport.connect(now, number);
            let buffer_bytes = self.scenario.receivers[number].receive_buffer_bytes;
            self.sender.join(now, number, Connection::through_network(), buffer_bytes, None);
        }
        if placed.local.is_none() || placed.fanout == Fanout::Multicast {
            transport.join(now, number);
        }
        if self.scenario.carousel.is_some() && placed.fanout != Fanout::Multicast {
            // Nobody tells who listens: all who are named get copies.
            (0..self.receivers.len()).for_each(|of| transport.join(now, of));
        }
        self.sender.pacing.copies = transport.copies();
        self.sender.pacing.paces_each = transport.paces_each();
        if self.scenario.carousel.is_some() && self.local.has_begun {
            // The carousel may have stopped when the last receiver before this one had everything.
            self.sender.listeners(now, true);
            self.agenda.wake(Node::Sender, now);
        }
        self.begin_if_ready(now);
    }

    /// Sends the objects of a placed session when all receivers are there, or one of a carousel's, and routers are known.
    fn begin_if_ready(&mut self, now: Instant) {
        let Some(placed) = self.scenario.network.as_deref() else { return };
        let is_carousel = self.scenario.carousel.is_some();
        let are_there = |mut receivers: std::slice::Iter<'_, Option<ReceiverNode>>| match is_carousel {
            true => receivers.any(Option::is_some),
            false => receivers.all(Option::is_some),
        };
        // With local groups, the machine knows when it begins.
        if self.local.has_begun
            || placed.local.is_some()
            || self.transport.awaits_routers()
            || !are_there(self.receivers.iter())
        {
            return;
        }
        self.local.has_begun = true;
        if is_carousel {
            self.sender.listeners(now, true);
            return self.agenda.wake(Node::Sender, now);
        }
        self.begin_changes(placed);
        for (position, object) in self.scenario.objects.iter().enumerate() {
            self.agenda.at(now + object.send_at, Event::Send(position));
        }
        self.agenda.at(now + self.scenario.close_at, Event::CloseSender);
    }

    fn change(&mut self, now: Instant, position: usize) {
        let Some(placed) = self.scenario.network.as_deref() else { return };
        let (_, cable, change) = placed.changes[position];
        self.transport.change(now, cable, change);
    }

    /// Plans what happens to the network and to controllers when a session with local groups sends its first block.
    fn begin_local(&mut self, now: Instant) {
        let placed = self.scenario.network.as_deref();
        let Some((placed, local)) = placed.and_then(|placed| Some((placed, placed.local.as_ref()?))) else {
            return;
        };
        if !std::mem::replace(&mut self.local.has_begun, true) {
            self.begin_changes(placed);
            self.local.deaths = (local.deaths.clone(), now);
            self.let_controllers_die(now);
        }
    }

    /// Kills the controllers whose time has come, of those to which somebody reports.
    fn let_controllers_die(&mut self, now: Instant) {
        let (deaths, begun) = &mut self.local.deaths;
        let serving = |(number, receiver): (usize, &Option<ReceiverNode>)| {
            let machine = receiver.as_ref().filter(|receiver| !receiver.dead)?.machine.local()?;
            let place = machine.place().filter(|_| machine.is_controller() && machine.clients() > 0)?;
            Some((number, place.group.0))
        };
        let serving = self.receivers.iter().enumerate().filter_map(serving).collect();
        let dead = deaths.due(now - *begun, serving);
        if !deaths.are_over(now - *begun) {
            self.agenda.at(now + Deaths::INTERVAL, Event::Deaths);
        }
        for number in dead {
            self.receivers[number].iter_mut().for_each(|receiver| receiver.dead = true);
        }
    }

    /// Sends a datagram of a session with local groups, and counts what its receivers are sent.
    fn tell(&mut self, now: Instant, source: usize, to: Address, packet: Packet) {
        let transport = &mut self.transport;
        if matches!(packet, Packet::Blocks { .. }) {
            let count = packet.count(self.scenario.block_len) as u64;
            let hear: Vec<usize> = match to {
                Address::Group(group) => transport.listeners(group).collect(),
                Address::Member(member) => transport.number_at(member).into_iter().collect(),
                Address::Session => Vec::new(),
            };
            hear.into_iter().for_each(|number| self.local.loads[number].0 += count);
        }
        transport.tell(now, source, to, packet);
    }

    fn sample(&mut self) {
        let Some(placed) = self.scenario.network.as_deref() else { return };
        let (network, sender) = self.transport.graph.totals(placed.sender);
        let at = self.agenda.now() - Instant::ZERO;
        self.samples.push(Sample { at, network_bytes: network.bytes, sender_bytes: sender.bytes });
        self.agenda.at(self.agenda.now() + placed.sample, Event::Sample);
    }

    /// Handles everything that the network has delivered, and plans its next event.
    fn arrivals(&mut self, now: Instant) {
        let due = self.transport.due.drain(..);
        due.for_each(|(time, due)| self.agenda.at(time, Event::Transport(due)));
        let arrivals = std::mem::take(&mut self.transport.arrivals);
        for arrival in arrivals {
            match arrival {
                Arrival::Heard(number, heard) => self.arrive_at_socket(now, number, heard),
                Arrival::Said { at, of, said } => self.event(now, Event::Said { at, of, said }),
                Arrival::Told(from, Packet::Message(bytes)) => match parse(&bytes) {
                    Ok((file, message)) => {
                        self.figures.feedback_messages += 1;
                        self.told(now, from, file, message);
                        self.pump_sender();
                    }
                    Err(error) => self.faults.push(error),
                },
                // A member's repairs for the session's group.
                Arrival::Told(..) => {}
                Arrival::Room(of) => self.tell_backlog(now, of),
                Arrival::Unheard(of) => {
                    let receiver = ReceiverId(of as u32);
                    self.sender.machine.handle(now, SenderInput::Unheard { receiver });
                }
            }
        }
        if self.transport.paces_each() {
            self.sender.pacing.copies = self.transport.copies();
            self.begin_if_ready(now);
        }
    }

    /// A member's message has come to the sender.
    fn told(&mut self, now: Instant, from: Member, file: FileId, message: Message) {
        match (message, self.transport.number_at(from)) {
            (Message::Heard(heard), Some(of)) => self.transport.heard(now, of, heard),
            (message, _) => self.sender.machine.handle(now, SenderInput::Local { from, file, message }),
        }
    }

    /// Has those receivers get copies that have asked for them.
    fn follow_listeners(&mut self, now: Instant) {
        let listening = std::mem::take(&mut self.sender.listening);
        if listening.is_empty() {
            return;
        }
        let transport = &mut self.transport;
        for (receiver, at) in listening {
            if let Some(of) = at.and_then(|at| transport.number_at(Member(at))) {
                self.listens.insert(receiver, of);
                transport.join(now, of);
            } else if let Some(of) = self.listens.remove(&receiver) {
                transport.leave(now, of, 0);
            }
        }
        self.sender.pacing.copies = transport.copies();
    }

    /// Tells the sender how much waits on a connection, and wakes it when there is room again.
    fn tell_backlog(&mut self, now: Instant, number: usize) {
        if self.sender.set_backlog(number, self.transport.backlog(number)) {
            self.sender.touch(number);
            self.agenda.wake(Node::Sender, now);
        }
    }

    fn leave(&mut self, now: Instant, number: usize, how: Leaving) {
        let is_carousel = self.scenario.carousel.is_some();
        let Some(receiver) =
            self.receivers[number].as_mut().filter(|one| !(is_carousel && one.outcome.closed))
        else {
            return;
        };
        match how {
            Leaving::Closes => {
                receiver.machine.handle(now, ReceiverInput::Close { reason: "it was told to stop".into() });
            }
            Leaving::Dies | Leaving::Freezes => (receiver.dead, receiver.outcome.closed_at) = (true, now),
            Leaving::Disconnects => receiver.disconnect(now, "no route to host"),
        }
        if is_carousel {
            self.agenda.at(now + carousel::LISTENING_INTERVAL, Event::Listeners);
        }
        if matches!(how, Leaving::Dies | Leaving::Disconnects) {
            let delay = self.scenario.receivers[number].control_delay;
            self.agenda.at(now + delay, Event::Said { at: End::Sender, of: number, said: Said::Close });
        }
        if !matches!(how, Leaving::Dies | Leaving::Freezes) {
            self.pump_receiver(number);
        }
    }

    /// Sends a packet that is not the sender's, until the sender has closed.
    fn forge(&mut self, now: Instant) {
        let forger = self.scenario.carousel.and_then(|carousel| carousel.forger);
        let Some(forger) = forger.filter(|_| !self.sender.closed) else { return };
        self.agenda.at(now + forger.interval, Event::Forge);
        let packet = self.forging.packet(self.scenario, forger);
        self.transport.forge(now, packet);
        self.arrivals(now);
    }

    /// The nodes of the sender and of a receiver. In a star, the sender is node 0.
    fn sender_at(&self) -> usize {
        self.scenario.network.as_ref().map_or(0, |placed| placed.sender)
    }

    fn node_of(&self, number: usize) -> usize {
        self.scenario.network.as_ref().map_or(number + 1, |placed| placed.receivers[number])
    }

    fn file(&self, index: u32) -> FileId {
        FileId::new(session(self.scenario), index)
    }

    fn arrive_at_sender(&mut self, now: Instant, number: usize, packet: &Packet) {
        let Packet::Message(bytes) = packet else { return };
        self.figures.feedback_messages += 1;
        match parse(bytes) {
            Ok((_, Message::Heard(heard))) => self.transport.heard(now, number, heard),
            Ok((file, message)) => {
                self.sender.touch(number);
                let from = ReceiverId(number as u32);
                self.sender.machine.handle(now, SenderInput::Message { from, file, message });
            }
            Err(error) => self.faults.push(error),
        }
    }

    fn arrive_at_socket(&mut self, now: Instant, number: usize, heard: Heard) {
        if let Some(receiver) = self.receivers[number].as_mut().filter(|receiver| !receiver.dead)
            && let Some(read_at) = receiver.arrive(now, &heard.packet)
        {
            self.agenda.at(read_at, Event::Read(number, heard));
        }
    }

    fn pump_sender(&mut self) {
        let now = self.agenda.now();
        let outputs = self.sender.pump(now, &mut self.trace);
        self.follow_listeners(now);
        for output in outputs {
            match output {
                sender_node::Output::ToGroup(group, packet) => {
                    if matches!(packet, Packet::Blocks { .. }) {
                        self.begin_local(now);
                    }
                    self.multicast(now, group, &packet);
                }
                sender_node::Output::ToReceiver(number, arrival, packet) => {
                    self.figures.control_messages += u64::from(matches!(packet, Packet::Message(_)));
                    self.say(now, (number, End::Sender), Said::Packet(packet), arrival);
                }
                sender_node::Output::Tell(to, packet) => self.tell(now, self.sender_at(), to, packet),
                sender_node::Output::Close(number, arrival) => {
                    self.say(now, (number, End::Sender), Said::Close, arrival);
                }
                sender_node::Output::Hash(index) => {
                    self.agenda.at(now + self.scenario.hashing, Event::SenderHashed(index))
                }
                sender_node::Output::Wake(time) => self.agenda.wake(Node::Sender, time),
            }
        }
        self.arrivals(now);
    }

    fn pump_receiver(&mut self, number: usize) {
        let now = self.agenda.now();
        let Some(receiver) = self.receivers[number].as_mut() else { return };
        let was_closed = receiver.outcome.closed;
        let outputs = receiver.pump(now, &mut self.trace);
        let (closes, group) = (receiver.outcome.closed && !was_closed, receiver.hearing.group);
        if let Some(group) = receiver.hearing.wanted_group.take() {
            self.agenda.at(now + JOINING, Event::Move(number, group));
        }
        if closes {
            receiver.counts.sent_bytes = self.sender.sent.bytes - receiver.counts.sent_bytes;
        }
        let clients = receiver.machine.local().map_or(0, |machine| machine.clients());
        self.local.loads[number].1 = self.local.loads[number].1.max(clients);
        outputs.into_iter().for_each(|output| self.carry_out(now, number, output));
        if closes {
            self.tell_left(now, number, group);
        }
        self.arrivals(now);
    }

    /// Carries out an effect of a receiver's host.
    fn carry_out(&mut self, now: Instant, number: usize, output: receiver_node::Output) {
        match output {
            receiver_node::Output::ToSender(arrival, packet) => {
                self.figures.control_messages += 1;
                self.say(now, (number, End::Receiver), Said::Packet(packet), arrival);
            }
            receiver_node::Output::Tell(to, packet) => {
                self.figures.control_messages += u64::from(matches!(packet, Packet::Message(_)));
                self.tell(now, self.node_of(number), to, packet);
            }
            receiver_node::Output::Listen(group, is_in) => {
                self.transport.listen(now, self.node_of(number), group.0, is_in);
            }
            receiver_node::Output::Close(arrival) => {
                self.say(now, (number, End::Receiver), Said::Close, arrival);
            }
            receiver_node::Output::Hash(file, hash) => {
                self.agenda.at(now + HASHING, Event::ReceiverHashed(number, file, hash));
            }
            receiver_node::Output::Decoded(file, block, is_right) => {
                self.agenda.at(now + HASHING, Event::ReceiverDecoded(number, file, block, is_right));
            }
            receiver_node::Output::Checked(file, page, wrong) => {
                self.agenda.at(now + HASHING, Event::ReceiverChecked(number, file, page, wrong));
            }
            receiver_node::Output::Seeded(file, time, ranges) => {
                self.agenda.at(now + time, Event::Seeded(number, file, ranges));
            }
            receiver_node::Output::Ask(file) => {
                self.agenda.at(now + THINKING, Event::Respond(number, file));
            }
            receiver_node::Output::Wake(time) => self.agenda.wake(Node::Receiver(number), time),
        }
    }

    /// Tells the network or the sender that a receiver has ended.
    fn tell_left(&mut self, now: Instant, number: usize, group: u8) {
        let is_carousel = self.scenario.carousel.is_some();
        let Some(placed) = self.scenario.network.as_deref() else {
            if is_carousel {
                self.agenda.at(now + carousel::REPORT, Event::Listeners);
            }
            return;
        };
        if !is_carousel || placed.fanout == Fanout::Multicast {
            self.transport.leave(now, number, group);
            self.sender.pacing.copies = self.transport.copies();
        }
        let listens = self.receivers.iter().flatten().any(|receiver| !receiver.outcome.closed);
        if is_carousel && !listens {
            self.sender.listeners(now, false);
        }
    }

    fn multicast(&mut self, now: Instant, group: u8, packet: &Packet) {
        let number = self.numbers[usize::from(group)];
        self.numbers[usize::from(group)] = number.wrapping_add(packet.count(self.scenario.block_len) as u32);
        self.transport.send(now, group, number, packet);
        if self.scenario.network.is_some() {
            self.sender.wait_until(self.transport.has_room_at());
        } else if self.scenario.carousel.is_some()
            && matches!(packet, Packet::Blocks { .. } | Packet::Symbols { .. })
        {
            self.forging.last = Some(packet.clone());
        }
    }

    fn figures(&mut self) {
        let figures = self.sender.machine.figures();
        // The machine of a carousel does not count.
        self.figures.multicast_bytes = figures.multicast_bytes.max(if self.scenario.carousel.is_some() {
            self.sender.sent.bytes
        } else {
            0
        });
        self.figures.retransmitted_bytes = figures.retransmitted_bytes;
        self.figures.group_bytes = self.sender.sent.group_bytes;
        self.figures.wanted_deaths = self.local.deaths.0.wanted();
        self.figures.repair_symbols = figures.repair_symbols;
        for receiver in self.receivers.iter().flatten() {
            self.figures.decoded_blocks += receiver.machine.counters().decoded_blocks;
            self.figures.wrong_chunks += receiver.machine.counters().wrong_chunks;
            self.figures.duplicate_blocks += receiver.machine.counters().duplicate_blocks;
            self.figures.dropped_packets += receiver.socket.dropped();
            self.figures.time = self.figures.time.max(receiver.outcome.last_received_at - Instant::ZERO);
        }
    }
}

/// The star in which each receiver of a scenario has a path of its own from the sender. Nothing goes back by it: connections
/// have their own delays and rates.
fn star(scenario: &Scenario) -> Placed {
    let count = scenario.receivers.len();
    let cable = |(number, plan): (usize, &ReceiverPlan)| CablePlan {
        from: 0,
        to: number + 1,
        path: plan.path,
        narrow: plan.narrow,
        is_counted: false,
    };
    Placed {
        graph: GraphPlan {
            forwards: vec![false; count + 1],
            cables: scenario.receivers.iter().enumerate().map(cable).collect(),
        },
        sender: 0,
        receivers: (1..=count).collect(),
        fanout: Fanout::Multicast,
        multicast: Multicast::Tree,
        explicit: None,
        local: None,
        changes: Vec::new(),
        starting: Duration::ZERO,
        seal_bytes: 0,
        timeout: Duration::MAX,
        sample: Duration::MAX,
    }
}
