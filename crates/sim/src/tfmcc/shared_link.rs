//! The hosts of flows that share a link, and what happens to them.

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use treecast_proto::{
    Instant, Step,
    object::Address,
    tfmcc::{Arrived, Control, Pace, PaceReport},
};

use super::{
    Figures, Flow, PACKET_BYTES, SPAN, Scenario,
    auto::{Auto, PACE_BYTES, Plan, pieces, run_len},
    local::{Body, Local, Sent},
    queue,
};
use crate::{
    network::{Link, Losses, generator},
    tcp::{self, Acknowledgement, Bbr, Congestion, Cubic, Segment, Tcp},
    trace::Node,
    world::{self, Agenda, Scene},
};

/// The longest random delay of a packet in a host. Without it, flows would meet the same places of a full queue
/// again and again.
const JITTER: Duration = Duration::from_micros(250);

/// Length of a message of local groups with its headers, in bytes, and the time that it takes between receivers.
const MESSAGE_BYTES: u64 = 200;
const BESIDE: Duration = Duration::from_millis(1);

/// How long what is lacking waits to be told: packets that were overtaken may still come.
const GATHER: Duration = Duration::from_millis(20);

#[derive(Debug)]
enum Event {
    Start(usize),
    Rate(u64),
    /// The pacer lets the next run of a flow go.
    Send(usize),
    /// Packets arrive at all receivers of a flow.
    Arrive(usize, Arrived),
    Paced(usize, Pace, Arrived),
    /// A message that has arrived earlier is handled now.
    Handled(usize, Pace, Arrived, Instant),
    Report(usize, usize, PaceReport),
    /// A receiver's request for what it lacks is at the sender.
    Ask(usize, usize),
    /// A segment of a TCP connection is at its receiver, and an acknowledgement at its sender.
    Segment(usize, Segment<()>),
    Acknowledge(usize, Acknowledgement),
    /// An acknowledgement has waited long enough for a second segment.
    Delayed(usize),
    /// A packet of local groups is at a host: from whom, to whom, and what.
    Heard(usize, usize, (usize, Address), Body),
}

/// The machines of a flow.
enum Machines {
    Local(Box<Local>),
    Auto(Box<Auto>),
    Tcp(Box<Tcp<()>>),
}

struct SharedLink<'a> {
    scenario: &'a Scenario,
    /// A host is the sender or a receiver of a flow.
    agenda: Agenda<(usize, Node), Event>,
    link: Link,
    flows: Vec<Option<Machines>>,
    figures: Vec<Figures>,
    /// The time when the last acknowledgement of each flow arrives.
    acknowledged: Vec<Instant>,
    random: ChaCha8Rng,
    losses: Losses,
}

/// Runs a scenario to its end. Returns the results of each flow.
pub fn run(scenario: &Scenario) -> Vec<Figures> {
    let mut link = SharedLink::new(scenario);
    world::run(&mut link, super::end_after(scenario.length), u64::MAX);
    link.finish()
}

impl Scene for SharedLink<'_> {
    type Node = (usize, Node);
    type Event = Event;

    fn agenda(&mut self) -> &mut Agenda<(usize, Node), Event> {
        &mut self.agenda
    }

    fn happen(&mut self, now: Instant, event: Event) {
        self.event(now, event);
    }

    fn wake(&mut self, now: Instant, (flow, node): (usize, Node)) {
        match (&mut self.flows[flow], node) {
            (Some(Machines::Local(_)), _) => self.poll_host(now, flow, host(node)),
            (Some(Machines::Auto(_)), Node::Sender) => self.poll_sender(now, flow),
            (Some(Machines::Auto(_)), Node::Receiver(receiver)) => self.poll_receiver(now, flow, receiver),
            (Some(Machines::Tcp(tcp)), _) => {
                tcp.handle_timer(now);
                self.send_window(now, flow);
            }
            (None, _) => {}
        }
    }
}

/// The number of a host of local groups: 0 is the sender.
fn host(node: Node) -> usize {
    match node {
        Node::Sender => 0,
        Node::Receiver(receiver) => receiver + 1,
    }
}

impl<'a> SharedLink<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let mut agenda = Agenda::default();
        for (time, rate) in &scenario.rates_bps {
            agenda.at(Instant::ZERO + *time, Event::Rate(*rate));
        }
        for (flow, (_, start)) in scenario.flows.iter().enumerate() {
            agenda.at(Instant::ZERO + *start, Event::Start(flow));
        }
        let flows = scenario.flows.len();
        let spans = (scenario.length.as_nanos() / SPAN.as_nanos()) as usize + 1;
        let figures = Figures { spans: vec![Default::default(); spans], ..Figures::default() };
        Self {
            scenario,
            agenda,
            link: queue(scenario.queue_bytes).with_policer(scenario.faults.policer),
            flows: (0..flows).map(|_| None).collect(),
            figures: vec![figures; flows],
            acknowledged: vec![Instant::ZERO; flows],
            random: generator(scenario.seed, u64::MAX),
            losses: Losses::new(scenario.faults.loss),
        }
    }

    fn finish(mut self) -> Vec<Figures> {
        for (machines, figures) in self.flows.iter().zip(&mut self.figures) {
            if let Some(Machines::Auto(auto)) = machines {
                figures.most_reports_a_round = auto.most_reports_a_round();
                figures.reports = auto.all_reports;
                figures.doubts.clone_from(&auto.doubts);
            }
        }
        self.figures
    }

    fn event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Rate(rate) => self.link.set_rate(rate),
            Event::Start(flow) => self.start(now, flow),
            Event::Send(flow) => self.send_run(now, flow),
            Event::Arrive(flow, packets) => {
                self.auto(flow).arrived(now, packets);
                self.ask(now, flow);
                self.poll_receivers(now, flow);
            }
            Event::Paced(flow, pace, packet) => {
                let handled = self.handled_at(now);
                self.agenda.at(handled, Event::Handled(flow, pace, packet, now));
            }
            Event::Handled(flow, pace, packet, at) => {
                self.auto(flow).paced(now, pace, packet, at);
                self.ask(now, flow);
                self.poll_receivers(now, flow);
            }
            Event::Report(flow, receiver, report) => {
                self.auto(flow).report(now, receiver, report);
                self.poll_sender(now, flow);
            }
            Event::Ask(flow, receiver) => {
                self.auto(flow).ask(now, receiver);
                self.poll_sender(now, flow);
            }
            Event::Segment(flow, segment) => self.read(now, flow, segment),
            Event::Acknowledge(flow, acknowledgement) => {
                self.tcp(flow).acknowledged(now, acknowledgement);
                self.send_window(now, flow);
            }
            Event::Delayed(flow) => {
                let acknowledgement = self.tcp(flow).acknowledge();
                self.acknowledge(now, flow, acknowledgement);
            }
            Event::Heard(flow, host, way, body) => {
                if let Some(Machines::Local(local)) = &mut self.flows[flow] {
                    local.hear(now, host, way, body);
                }
                self.poll_host(now, flow, host);
            }
        }
    }

    /// Receivers that lack something ask for it.
    fn ask(&mut self, now: Instant, flow: usize) {
        let at = now + GATHER + self.scenario.round_trip_of(flow) / 2;
        for receiver in self.auto(flow).take_askers() {
            self.agenda.at(at, Event::Ask(flow, receiver));
        }
    }

    fn poll_host(&mut self, now: Instant, flow: usize, host: usize) {
        let Some(Machines::Local(local)) = &mut self.flows[flow] else { return };
        let (sent, deadline) = local.poll(now, host);
        sent.into_iter().for_each(|sent| self.send_local(now, flow, host, sent));
        let node = host.checked_sub(1).map_or(Node::Sender, Node::Receiver);
        deadline.into_iter().for_each(|at| self.agenda.wake((flow, node), at));
    }

    /// What the sender sends passes the link. Receivers are near each other, and on the way back nothing queues.
    fn send_local(&mut self, now: Instant, flow: usize, from: usize, (to, body): Sent) {
        let pieces = match body {
            Body::Message(..) => vec![(MESSAGE_BYTES, body)],
            Body::Blocks(file, range) => Local::blocks(range)
                .map(|block| (u64::from(PACKET_BYTES), Body::Blocks(file, block)))
                .collect(),
        };
        let Some(Machines::Local(local)) = &self.flows[flow] else { return };
        let hosts = local.hosts(from, to);
        for (bytes, body) in pieces {
            let left_at = if from == 0 { self.carry(now, flow, bytes) } else { Some(now) };
            let Some(left_at) = left_at else { continue };
            for host in &hosts {
                let way =
                    if from == 0 || *host == 0 { self.scenario.round_trip_of(flow) / 2 } else { BESIDE };
                self.agenda.at(left_at + way, Event::Heard(flow, *host, (from, to), body.clone()));
            }
        }
    }

    fn start(&mut self, now: Instant, flow: usize) {
        match self.scenario.flows[flow].0 {
            Flow::Cubic => self.start_tcp(now, flow, Box::new(Cubic::new(now))),
            Flow::Bbr => self.start_tcp(now, flow, Box::new(Bbr::new(now))),
            Flow::Local { receivers } => {
                let local = Local::new(flow, receivers, self.scenario.seed);
                self.flows[flow] = Some(Machines::Local(Box::new(local)));
                (0..=receivers).for_each(|host| self.poll_host(now, flow, host));
            }
            Flow::Auto { receivers } => self.start_auto(now, flow, self.scenario.control, receivers),
            Flow::Model { receivers } => self.start_auto(now, flow, Control::Model, receivers),
        }
    }

    fn start_tcp(&mut self, now: Instant, flow: usize, congestion: Box<dyn Congestion>) {
        let tcp = Tcp::new(congestion, self.scenario.round_trip_of(flow));
        self.flows[flow] = Some(Machines::Tcp(Box::new(tcp)));
        self.send_window(now, flow);
    }

    fn start_auto(&mut self, now: Instant, flow: usize, control: Control, receivers: usize) {
        let random = generator(self.scenario.seed, flow as u64 + 1);
        let (floor_bps, faults) = (self.scenario.floor_bps, &self.scenario.faults);
        let round_trip = self.scenario.round_trip_of(flow);
        let plan = Plan { control, receivers, floor_bps, round_trip, faults };
        self.flows[flow] = Some(Machines::Auto(Box::new(Auto::new(&plan, random))));
        self.send_run(now, flow);
    }

    /// When a busy host handles what arrives now.
    fn handled_at(&self, now: Instant) -> Instant {
        let nanos = self.scenario.faults.lateness.as_nanos() as u64;
        if nanos == 0 { now } else { Instant::from_nanos(now.as_nanos().div_ceil(nanos) * nanos) }
    }

    /// Whether a sender has something to send.
    fn is_busy(&self, now: Instant) -> bool {
        let (busy, idle) =
            (self.scenario.faults.busy.as_nanos() as u64, self.scenario.faults.idle.as_nanos() as u64);
        busy == 0 || now.as_nanos() % (busy + idle) < busy
    }

    fn auto(&mut self, flow: usize) -> &mut Auto {
        match &mut self.flows[flow] {
            Some(Machines::Auto(auto)) => auto,
            _ => unreachable!("only flows of auto have such events"),
        }
    }

    fn tcp(&mut self, flow: usize) -> &mut Tcp<()> {
        match &mut self.flows[flow] {
            Some(Machines::Tcp(tcp)) => tcp,
            _ => unreachable!("only TCP connections have such events"),
        }
    }

    fn send_run(&mut self, now: Instant, flow: usize) {
        let (packets, next) = run_len(self.auto(flow).sender.rate_bps());
        let retransmits = self.scenario.retransmits.as_ref();
        if !self.is_busy(now) {
            return self.agenda.at(now + Duration::from_millis(1), Event::Send(flow));
        }
        if retransmits.is_some_and(|span| span.contains(&now.saturating_duration_since(Instant::ZERO))) {
            self.retransmit(now, flow, packets);
        } else {
            self.send_to_group(now, flow, packets);
        }
        self.poll_sender(now, flow);
        let jitter = Duration::from_nanos(self.random.random_range(0..JITTER.as_nanos() as u64));
        self.agenda.at(now + (next + jitter).saturating_sub(JITTER / 2), Event::Send(flow));
    }

    /// Sends retransmissions over a connection. The group's congestion control does not see them.
    fn retransmit(&mut self, now: Instant, flow: usize, packets: u32) {
        (0..packets).for_each(|_| _ = self.carry(now, flow, u64::from(PACKET_BYTES)));
        self.auto(flow).sent(now, 0, u64::from(packets * PACKET_BYTES));
        let rate = self.auto(flow).sender.rate_bps();
        let lowest = self.figures[flow].alone_bps.unwrap_or(rate);
        self.figures[flow].alone_bps = Some(lowest.min(rate));
    }

    /// Sends a run of packets at once, as a super-packet. A probe may take the place of one.
    fn send_to_group(&mut self, now: Instant, flow: usize, packets: u32) {
        let bytes = |packets: u32| u64::from(packets * PACKET_BYTES);
        let before =
            self.auto(flow).sender.packets_before_probe(now).filter(|before| *before < packets.into());
        let before = before.map_or(packets, |before| before as u32);
        self.send_pieces(now, flow, before);
        self.auto(flow).sent(now, bytes(before), 0);
        if before < packets {
            let pace = self.auto(flow).sender.take_probe(now);
            self.send_pace(now, flow, pace);
            self.send_pieces(now, flow, packets - before - 1);
            self.auto(flow).sent(now, bytes(packets - before), 0);
        }
    }

    /// Sends packets at once. Those that are not lost arrive in the pieces that the losses leave.
    fn send_pieces(&mut self, now: Instant, flow: usize, packets: u32) {
        let first = self.auto(flow).take_numbers(packets);
        let pieces = pieces(first, packets, || {
            let marked = self.marks(now);
            let left_at = self.carry(now, flow, u64::from(PACKET_BYTES))?;
            (!self.losses.loses(&mut self.random)).then_some((left_at, marked))
        });
        for (run, left_at) in pieces {
            let at = self.handled_at(left_at + self.scenario.round_trip_of(flow) / 2);
            self.agenda.at(at, Event::Arrive(flow, run));
        }
    }

    /// Sends a message to the group. A probe is as long as a full packet, and is marked as one.
    fn send_pace(&mut self, now: Instant, flow: usize, pace: Pace) {
        let first = self.auto(flow).take_numbers(1);
        let is_probe = pace.probe.is_some();
        let marked = is_probe && self.marks(now);
        let bytes = if is_probe { PACKET_BYTES.into() } else { PACE_BYTES };
        let left_at = self.carry(now, flow, bytes);
        if let Some(left_at) = left_at.filter(|_| !self.losses.loses(&mut self.random)) {
            let at = left_at + self.scenario.round_trip_of(flow) / 2;
            self.agenda.at(at, Event::Paced(flow, pace, Arrived { first, count: 1, marked }));
        }
    }

    /// Whether the queue marks a packet that comes now.
    fn marks(&self, now: Instant) -> bool {
        let faults = &self.scenario.faults;
        faults.marks_all || faults.marks_above.is_some_and(|above| self.link.fullness(now) > above)
    }

    fn poll_sender(&mut self, now: Instant, flow: usize) {
        loop {
            match self.auto(flow).sender.poll(now) {
                Step::Transmit(pace) => self.send_pace(now, flow, pace),
                Step::Wait(deadline, _) => {
                    deadline.into_iter().for_each(|at| self.agenda.wake((flow, Node::Sender), at));
                    let rate = self.auto(flow).sender.rate_bps();
                    self.figures[flow].highest_bps = self.figures[flow].highest_bps.max(rate);
                    let limit = self.auto(flow).sender.limit();
                    let span = (now.as_nanos() / SPAN.as_nanos() as u64) as usize;
                    if let Some(span) = self.figures[flow].spans.get_mut(span) {
                        (span.rate_bps, span.cause, span.queue) = (rate, Some(limit.cause), limit.queue);
                    }
                    return;
                }
            }
        }
    }

    fn poll_receivers(&mut self, now: Instant, flow: usize) {
        (0..self.auto(flow).receivers.len()).for_each(|receiver| self.poll_receiver(now, flow, receiver));
    }

    fn poll_receiver(&mut self, now: Instant, flow: usize, receiver: usize) {
        loop {
            match self.auto(flow).poll_receiver(now, receiver) {
                Step::Transmit(_) if self.link.is_cut() => {}
                Step::Transmit(report) => {
                    let later = self.auto(flow).delay(receiver);
                    let at = now + self.scenario.round_trip_of(flow) / 2 + later;
                    self.agenda.at(at, Event::Report(flow, receiver, report));
                }
                Step::Event(()) => {}
                Step::Wait(deadline, ()) => {
                    let node = (flow, Node::Receiver(receiver));
                    return deadline.into_iter().for_each(|at| self.agenda.wake(node, at));
                }
            }
        }
    }

    /// Sends what a TCP connection may send. It always has something.
    fn send_window(&mut self, now: Instant, flow: usize) {
        loop {
            let tcp = self.tcp(flow);
            if tcp.backlog() == 0 {
                tcp.write(());
            }
            let Some(segment) = tcp.poll(now) else { break };
            let left_at = self.carry(now, flow, u64::from(PACKET_BYTES));
            if let Some(left_at) = left_at.filter(|_| !self.losses.loses(&mut self.random)) {
                let at = left_at + self.scenario.round_trip_of(flow) / 2;
                self.agenda.at(at, Event::Segment(flow, segment));
            }
        }
        if let Some(at) = self.tcp(flow).set_timer(now) {
            self.agenda.wake((flow, Node::Sender), at);
        }
    }

    fn read(&mut self, now: Instant, flow: usize, segment: Segment<()>) {
        let tcp = self.tcp(flow);
        let had_some = tcp.has_unacknowledged();
        let (_, acknowledgement) = tcp.receive(segment);
        if tcp.has_unacknowledged() && !had_some {
            self.agenda.at(now + tcp::DELAYED, Event::Delayed(flow));
        }
        self.acknowledge(now, flow, acknowledgement);
    }

    /// Acknowledgements keep their order on the way back.
    fn acknowledge(&mut self, now: Instant, flow: usize, acknowledgement: Option<Acknowledgement>) {
        let Some(acknowledgement) = acknowledgement else { return };
        let jitter = Duration::from_nanos(self.random.random_range(0..JITTER.as_nanos() as u64));
        let back_at = now + self.scenario.round_trip_of(flow) / 2 + jitter;
        self.acknowledged[flow] = self.acknowledged[flow].max(back_at);
        self.agenda.at(self.acknowledged[flow], Event::Acknowledge(flow, acknowledgement));
    }

    fn carry(&mut self, now: Instant, flow: usize, bytes: u64) -> Option<Instant> {
        let left_at = self.link.squeeze(now, bytes as usize);
        let span = |at: Instant| (at.as_nanos() / SPAN.as_nanos() as u64) as usize;
        if let Some(span) = left_at.and_then(|at| self.figures[flow].spans.get_mut(span(at))) {
            span.passed_bytes += bytes;
        }
        if let Some(span) = self.figures[flow].spans.get_mut(span(now)) {
            span.sent_bytes += bytes;
            span.delivered_bytes += left_at.map_or(0, |_| bytes);
            span.queued_ns += left_at.map_or(0, |left_at| (left_at - now).as_nanos() as u64);
        }
        self.figures[flow].packets += u64::from(left_at.is_some());
        left_at
    }
}
