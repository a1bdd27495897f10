//! The event loop of one run.

use std::{ops::Range, rc::Rc, time::Duration};

use treecast_proto::{
    Instant,
    object::{Channel, ReceiverId, ReceiverInput, SenderInput},
};
use treecast_wire::header::FileId;

use super::{
    Leaving, Scenario, forger, judge,
    receiver_node::{self, Heard, ReceiverNode, parse},
    sender_node::{self, Packet, SenderNode, session},
};
use crate::{
    network::{Connection, Link, generator},
    schedule::Schedule,
    trace::Trace,
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

/// How a run ended.
#[derive(Debug)]
pub struct Run {
    pub trace: Trace,
    /// What is wrong with it, one line each; none is as it should be.
    pub faults: Vec<String>,
    /// How many receivers have every object.
    pub complete_receivers: usize,
    pub figures: Figures,
    /// What it was for each receiver that has joined, in their order.
    pub receivers: Vec<ReceiverFigures>,
}

/// What a run was for one receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiverFigures {
    /// When it had the last object.
    pub time: Duration,
    /// Bytes of objects that it had, and got again.
    pub duplicate_bytes: u64,
    /// The group that it was in at the end.
    pub group: u8,
}

/// What a run cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Bytes of objects that the sender multicast.
    pub multicast_bytes: u64,
    /// Bytes of objects that it sent again.
    pub retransmitted_bytes: u64,
    /// Bytes of packets to the group, with their headers.
    pub group_bytes: u64,
    /// Repair symbols sent, and blocks computed from them at receivers.
    pub repair_symbols: u64,
    pub decoded_blocks: u64,
    /// Chunks that were wrong and were sent again.
    pub wrong_chunks: u64,
    /// Blocks that receivers had already.
    pub duplicate_blocks: u64,
    /// Packets dropped by receivers' sockets.
    pub dropped_packets: u64,
    /// Packets on the control connections, both ways, that carry no blocks.
    pub control_messages: u64,
    /// Until the last object was received by the last receiver.
    pub time: Duration,
}

#[derive(Debug)]
enum Event {
    Send(usize),
    Withdraw(u32),
    CloseSender,
    Join(usize),
    Leave(usize, Leaving),
    /// A packet arrives.
    ToSender(usize, Packet),
    ToReceiver(usize, Packet),
    ToSocket(usize, Heard),
    /// A receiver reads a packet from its socket.
    Read(usize, Heard),
    /// A receiver listens to another group.
    Move(usize, u8),
    /// A connection is closed at that end.
    ClosedAtSender(usize),
    ClosedAtReceiver(usize),
    SenderHashed(u32),
    ReceiverHashed(usize, FileId, [u8; 32]),
    ReceiverDecoded(usize, FileId, u32, bool),
    ReceiverChecked(usize, FileId, u32, Option<Vec<Range<u64>>>),
    Respond(usize, FileId),
    WakeSender,
    WakeReceiver(usize),
}

#[derive(Debug)]
pub(super) struct World<'a> {
    scenario: &'a Scenario,
    schedule: Schedule<Event>,
    trace: Trace,
    sender: SenderNode,
    /// None before they join.
    receivers: Vec<Option<ReceiverNode>>,
    links: Vec<Link>,
    /// How many packets have gone to each group.
    numbers: Vec<u32>,
    /// The wake-up that counts; later ones that were asked for before are passed over.
    wake_sender_at: Option<Instant>,
    wake_receivers_at: Vec<Option<Instant>>,
    figures: Figures,
    faults: Vec<String>,
}

impl<'a> World<'a> {
    pub(super) fn new(scenario: &'a Scenario, verbose: bool) -> Self {
        let links = scenario.receivers.iter().enumerate();
        let links = links.map(|(number, plan)| {
            let random = generator(scenario.seed, 100 + number as u64);
            Link::new(plan.path, random).with_narrow(plan.narrow)
        });
        let count = scenario.receivers.len();
        let mut world = Self {
            scenario,
            schedule: Schedule::default(),
            trace: Trace::new(verbose),
            sender: SenderNode::new(scenario),
            receivers: (0..count).map(|_| None).collect(),
            links: links.collect(),
            numbers: vec![0; scenario.slower_rates_bps.len() + 1],
            wake_sender_at: None,
            wake_receivers_at: vec![None; count],
            figures: Figures::default(),
            faults: Vec::new(),
        };
        world.plan();
        world
    }

    fn plan(&mut self) {
        let at = |time| Instant::ZERO + time;
        for (number, plan) in self.scenario.receivers.iter().enumerate() {
            self.schedule.at(at(plan.join_at + plan.control_delay), Event::Join(number));
            for (time, group) in plan.moves.iter().flatten() {
                self.schedule.at(at(*time + plan.control_delay), Event::Move(number, *group));
            }
            if let Some((time, how)) = plan.leave {
                self.schedule.at(at(time + plan.control_delay), Event::Leave(number, how));
            }
        }
        for (position, plan) in self.scenario.objects.iter().enumerate() {
            self.schedule.at(at(plan.send_at), Event::Send(position));
            if let Some(time) = plan.withdraw_at {
                self.schedule.at(at(time), Event::Withdraw(position as u32));
            }
        }
        self.schedule.at(at(self.scenario.close_at), Event::CloseSender);
        if self.scenario.is_forged {
            for (time, receiver, packet) in forger::packets(self.scenario) {
                let heard = Heard { group: None, number: 0, packet };
                self.schedule.at(at(time), Event::ToSocket(receiver, heard));
            }
        }
    }

    pub(super) fn run(mut self) -> Run {
        let deadline = Instant::ZERO + self.scenario.deadline();
        let mut events = 0;
        while let Some(event) = self.schedule.take() {
            events += 1;
            if (self.schedule.now() > deadline && !self.is_over()) || events > MAX_EVENTS {
                self.faults.push(format!("not over at {} after {events} events", self.schedule.now()));
                break;
            }
            self.event(event);
        }
        self.figures();
        let Self { scenario, sender, receivers, trace, mut faults, figures, .. } = self;
        faults.extend(judge::faults(scenario, &sender, &receivers));
        let count = scenario.objects.len();
        let is_complete = |receiver: &&ReceiverNode| receiver.storage.committed().len() == count;
        let complete_receivers = receivers.iter().flatten().filter(is_complete).count();
        let block_len = u64::from(scenario.block_len);
        let of_one = |receiver: &ReceiverNode| ReceiverFigures {
            time: receiver.last_received_at - Instant::ZERO,
            duplicate_bytes: receiver.machine.counters().duplicate_blocks * block_len,
            group: receiver.group,
        };
        let receivers = receivers.iter().flatten().map(of_one).collect();
        Run { trace, faults, complete_receivers, figures, receivers }
    }

    fn is_over(&self) -> bool {
        self.sender.closed && self.receivers.iter().flatten().all(|receiver| receiver.closed || receiver.dead)
    }

    fn event(&mut self, event: Event) {
        let now = self.schedule.now();
        match event {
            Event::Send(position) => self.sender.send(now, position),
            Event::Withdraw(index) => {
                let (file, reason) = (self.file(index), "it has shrunk".to_owned());
                self.sender.machine.handle(now, SenderInput::Withdraw { file, reason });
            }
            Event::CloseSender => self.sender.machine.handle(now, SenderInput::Close),
            Event::Join(number) => self.join(now, number),
            Event::Leave(number, how) => self.leave(now, number, how),
            Event::ToSender(number, packet) => self.arrive_at_sender(now, number, &packet),
            Event::ClosedAtSender(number) => self.sender.left(now, number),
            Event::SenderHashed(index) => {
                let (file, hash) = (self.file(index), self.sender.hash(index));
                self.sender.machine.handle(now, SenderInput::Hashed { file, hash });
            }
            Event::WakeSender if self.wake_sender_at != Some(now) => return,
            Event::WakeSender => self.wake_sender_at = None,
            Event::ToSocket(number, heard) => return self.arrive_at_socket(now, number, heard),
            other => return self.receiver_event(now, other),
        }
        self.pump_sender();
    }

    fn receiver_event(&mut self, now: Instant, event: Event) {
        let number = match &event {
            Event::ToReceiver(number, _) | Event::Read(number, _) | Event::ReceiverHashed(number, ..) => {
                *number
            }
            Event::ReceiverDecoded(number, ..) | Event::ReceiverChecked(number, ..) => *number,
            Event::Move(number, _) => *number,
            Event::ClosedAtReceiver(number) | Event::Respond(number, _) => *number,
            Event::WakeReceiver(number) if self.wake_receivers_at[*number] != Some(now) => return,
            Event::WakeReceiver(number) => {
                self.wake_receivers_at[*number] = None;
                *number
            }
            _ => return,
        };
        let Some(receiver) = self.receivers[number].as_mut().filter(|receiver| !receiver.dead) else {
            return;
        };
        match event {
            Event::ToReceiver(_, packet) if receiver.connected => {
                receiver.packet(now, Channel::Control, packet)
            }
            Event::Read(_, heard) => receiver.hear(now, heard),
            Event::Move(_, group) => receiver.move_to(now, group),
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
            Event::ClosedAtReceiver(_) => {
                receiver.disconnect(now, "closed by the sender");
                let delay = self.scenario.receivers[number].control_delay;
                self.schedule.at(now + delay, Event::ClosedAtSender(number));
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
        let random = generator(self.scenario.seed, CONTROL_STREAM + number as u64);
        let connection = Connection::new(plan.control_delay, plan.control_rate_bps)
            .with_loss(plan.path.control_loss, random);
        self.sender.join(now, number, connection, plan.receive_buffer_bytes);
        let mut receiver = ReceiverNode::new(self.scenario, number, plan);
        receiver.connect(now);
        self.receivers[number] = Some(receiver);
        self.pump_receiver(number);
    }

    fn leave(&mut self, now: Instant, number: usize, how: Leaving) {
        let Some(receiver) = self.receivers[number].as_mut() else { return };
        match how {
            Leaving::Closes => {
                receiver.machine.handle(now, ReceiverInput::Close { reason: "it was told to stop".into() });
            }
            Leaving::Dies | Leaving::Freezes => receiver.dead = true,
            Leaving::Disconnects => receiver.disconnect(now, "no route to host"),
        }
        if matches!(how, Leaving::Dies | Leaving::Disconnects) {
            let delay = self.scenario.receivers[number].control_delay;
            self.schedule.at(now + delay, Event::ClosedAtSender(number));
        }
        if !matches!(how, Leaving::Dies | Leaving::Freezes) {
            self.pump_receiver(number);
        }
    }

    fn file(&self, index: u32) -> FileId {
        FileId::new(session(self.scenario), index)
    }

    fn arrive_at_sender(&mut self, now: Instant, number: usize, packet: &Packet) {
        let Packet::Message(bytes) = packet else { return };
        match parse(bytes) {
            Ok((file, message)) => {
                let from = ReceiverId(number as u32);
                self.sender.machine.handle(now, SenderInput::Message { from, file, message });
            }
            Err(error) => self.faults.push(error),
        }
    }

    fn arrive_at_socket(&mut self, now: Instant, number: usize, heard: Heard) {
        if let Some(receiver) = self.receivers[number].as_mut()
            && let Some(read_at) = receiver.arrive(now, &heard.packet)
        {
            self.schedule.at(read_at, Event::Read(number, heard));
        }
    }

    fn pump_sender(&mut self) {
        let now = self.schedule.now();
        for output in self.sender.pump(now, &mut self.trace) {
            match output {
                sender_node::Output::ToGroup(group, packet) => self.multicast(now, group, &packet),
                sender_node::Output::ToReceiver(number, arrival, packet) => {
                    self.figures.control_messages += u64::from(matches!(packet, Packet::Message(_)));
                    self.schedule.at(arrival, Event::ToReceiver(number, packet));
                }
                sender_node::Output::Close(number, arrival) => {
                    self.schedule.at(arrival, Event::ClosedAtReceiver(number));
                }
                sender_node::Output::Hash(index) => {
                    self.schedule.at(now + self.scenario.hashing, Event::SenderHashed(index))
                }
                sender_node::Output::Wake(time) => {
                    if self.wake_sender_at.is_none_or(|other| time < other) {
                        self.wake_sender_at = Some(time);
                        self.schedule.at(time, Event::WakeSender);
                    }
                }
            }
        }
    }

    fn pump_receiver(&mut self, number: usize) {
        let now = self.schedule.now();
        let Some(receiver) = self.receivers[number].as_mut() else { return };
        let outputs = receiver.pump(now, &mut self.trace);
        if let Some(group) = receiver.wanted_group.take() {
            self.schedule.at(now + JOINING, Event::Move(number, group));
        }
        for output in outputs {
            match output {
                receiver_node::Output::ToSender(arrival, packet) => {
                    self.figures.control_messages += 1;
                    self.schedule.at(arrival, Event::ToSender(number, packet));
                }
                receiver_node::Output::Close(arrival) => {
                    self.schedule.at(arrival, Event::ClosedAtSender(number));
                }
                receiver_node::Output::Hash(file, hash) => {
                    self.schedule.at(now + HASHING, Event::ReceiverHashed(number, file, hash));
                }
                receiver_node::Output::Decoded(file, block, is_right) => {
                    self.schedule.at(now + HASHING, Event::ReceiverDecoded(number, file, block, is_right));
                }
                receiver_node::Output::Checked(file, page, wrong) => {
                    self.schedule.at(now + HASHING, Event::ReceiverChecked(number, file, page, wrong));
                }
                receiver_node::Output::Ask(file) => {
                    self.schedule.at(now + THINKING, Event::Respond(number, file));
                }
                receiver_node::Output::Wake(time) => {
                    if self.wake_receivers_at[number].is_none_or(|other| time < other) {
                        self.wake_receivers_at[number] = Some(time);
                        self.schedule.at(time, Event::WakeReceiver(number));
                    }
                }
            }
        }
    }

    fn multicast(&mut self, now: Instant, group: u8, packet: &Packet) {
        let number = self.numbers[usize::from(group)];
        self.numbers[usize::from(group)] = number.wrapping_add(packet.count(self.scenario.block_len) as u32);
        for receiver in 0..self.receivers.len() {
            let hears = |receiver: &ReceiverNode| !receiver.dead && receiver.group == group;
            if !self.receivers[receiver].as_ref().is_some_and(hears) {
                continue;
            }
            for (arrival, number, packet) in self.carry(now, receiver, number, packet) {
                let heard = Heard { group: Some(group), number, packet };
                self.schedule.at(arrival, Event::ToSocket(receiver, heard));
            }
        }
    }

    /// What becomes of a packet on the way to a receiver.
    fn carry(
        &mut self,
        now: Instant,
        receiver: usize,
        number: u32,
        packet: &Packet,
    ) -> Vec<(Instant, u32, Packet)> {
        match packet {
            Packet::Message(_) => {
                let link = &mut self.links[receiver];
                let through = link.squeeze(now, packet.len(self.scenario.block_len));
                let arrivals = through.map(|through| link.carry(through)).into_iter().flatten();
                arrivals.map(|arrival| (arrival, number, packet.clone())).collect()
            }
            Packet::Blocks { file, range, content } => {
                let runs = self.carry_blocks(now, receiver, number, range.clone());
                let blocks = |range| Packet::Blocks { file: *file, range, content: Rc::clone(content) };
                runs.into_iter().map(|(arrival, number, range)| (arrival, number, blocks(range))).collect()
            }
            Packet::Symbols { file, positions, content } => {
                let runs = self.carry_blocks(now, receiver, number, positions.clone());
                let symbols =
                    |positions| Packet::Symbols { file: *file, positions, content: Rc::clone(content) };
                runs.into_iter().map(|(arrival, number, range)| (arrival, number, symbols(range))).collect()
            }
        }
    }

    /// Each block of a run has its own fate; neighbours that arrive together arrive as one super-packet.
    fn carry_blocks(
        &mut self,
        now: Instant,
        receiver: usize,
        number: u32,
        run: Range<u64>,
    ) -> Vec<(Instant, u32, Range<u64>)> {
        let block_len = u64::from(self.scenario.block_len);
        let mut arrivals: Vec<(Instant, u32, Range<u64>)> = Vec::new();
        for (start, number) in run.clone().step_by(block_len as usize).zip(number..) {
            let end = run.end.min(start + block_len);
            let len = (end - start) as usize + sender_node::HEADERS;
            let link = &mut self.links[receiver];
            let through = link.squeeze(now, len);
            for arrival in through.map(|through| link.carry(through)).into_iter().flatten() {
                match arrivals.last_mut() {
                    Some((time, _, run)) if *time == arrival && run.end == start => run.end = end,
                    _ => arrivals.push((arrival, number, start..end)),
                }
            }
        }
        arrivals
    }

    fn figures(&mut self) {
        self.figures.multicast_bytes = self.sender.machine.multicast_bytes();
        self.figures.retransmitted_bytes = self.sender.machine.retransmitted_bytes();
        self.figures.group_bytes = self.sender.group_bytes;
        self.figures.repair_symbols = self.sender.machine.repair_symbols();
        for receiver in self.receivers.iter().flatten() {
            self.figures.decoded_blocks += receiver.machine.counters().decoded_blocks;
            self.figures.wrong_chunks += receiver.machine.counters().wrong_chunks;
            self.figures.duplicate_blocks += receiver.machine.counters().duplicate_blocks;
            self.figures.dropped_packets += receiver.socket.dropped();
            self.figures.time = self.figures.time.max(receiver.last_received_at - Instant::ZERO);
        }
    }
}
