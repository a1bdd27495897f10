//! A session with `--rate auto` over multicast, whose sender opens slower groups by itself. Each receiver has a link of its own behind
//! the sender's.
//!
//! The parts are those of a host's session: a [`Sender`] for each group, a [`Receiver`] at each host, and [`SlowerGroups`], which is told
//! what a session tells it. Receivers can take anything that arrives, so nothing is sent again.

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use treecast_proto::{
    Instant, Step,
    group_rate::{MOST_SLOWER, Order, SlowerGroups},
    tfmcc::{Arrived, Control, Pace, PaceReport, Receiver, ReceiverInput, Sender, SenderConfig, SenderInput},
};

use super::{
    Forgery, Lie, PACKET_BYTES, SPAN,
    auto::{PACE_BYTES, PROBE_KEY, pieces, run_len},
    lie::Teller,
    queue,
};
use crate::{
    network::{Link, Loss, Losses, generator},
    world::{self, Agenda, Scene},
};

/// The time between two looks at the groups.
const LOOK: Duration = Duration::from_millis(100);

/// The time that a host takes to join a group, and for which its router still brings it the one that it has left.
const JOINING: Duration = Duration::from_millis(50);
const LEAVING: Duration = Duration::from_secs(1);

/// The sender's own link.
const SENDER_BPS: u64 = 1_000_000_000;

/// The longest random time by which packets leave early or late.
const JITTER: Duration = Duration::from_micros(250);

/// A receiver and its path.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    pub rate_bps: u64,
    /// The share of packets that its path loses at random.
    pub loss: f64,
    pub lie: Lie,
    /// Whether it moves when it is called to another group.
    pub follows_calls: bool,
    /// The longest time by which its program is late with its answers.
    pub lateness: Duration,
}

/// A session: hosts with queues of one bandwidth-delay product.
#[derive(Debug, Clone)]
pub struct Session {
    pub seed: u64,
    pub hosts: Vec<Host>,
    pub round_trip: Duration,
    pub length: Duration,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Bytes that each host has got of the group that it listened to, in spans of [`SPAN`].
    pub received_bytes: Vec<Vec<u64>>,
    /// Who moved to which group, and when.
    pub moves: Vec<(Duration, usize, u8)>,
    /// How far the sender has doubted each host at most: 0 not at all, 1 not believed.
    pub doubts: Vec<f64>,
}

impl Outcome {
    /// What a host got until a time, on average, in bits a second.
    pub fn goodput_bps(&self, host: usize, until: Duration) -> f64 {
        let spans = (until.as_nanos() / SPAN.as_nanos()) as usize;
        let bytes: u64 = self.received_bytes[host].iter().take(spans).sum();
        bytes as f64 * 8.0 / until.as_secs_f64()
    }
}

#[derive(Debug)]
enum Event {
    Send(u8),
    Arrive(usize, u8, Arrived),
    Paced(usize, u8, Pace, u32),
    Report(usize, u8, PaceReport),
    /// A call has reached a host, and later its answer the sender.
    Called(usize, u8),
    Moved(usize, u8),
}

/// A host while it runs.
struct Member {
    host: Host,
    teller: Teller,
    machine: Receiver,
    link: Link,
    losses: Losses,
    group: u8,
    /// The group that it has left, which still comes until then.
    left: Option<(u8, Instant)>,
    /// The rate that its group's sender has told last.
    told_bps: u64,
}

/// A group at the sender.
struct Group {
    machine: Sender,
    next_number: u32,
    has_members: bool,
}

/// A machine that asks to be woken: a group's at the sender, or a host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Group(u8),
    Host(usize),
}

/// The sender with its groups, and its hosts.
struct Hosts<'a> {
    session: &'a Session,
    agenda: Agenda<Node, Event>,
    trunk: Link,
    groups: Vec<Group>,
    /// The groups of the hosts as the sender knows them.
    known: Vec<u8>,
    members: Vec<Member>,
    placing: SlowerGroups,
    next_look: Instant,
    outcome: Outcome,
    random: ChaCha8Rng,
}

/// Runs a session to its end.
pub fn run(session: &Session) -> Outcome {
    let mut hosts = Hosts::new(session);
    world::run(&mut hosts, super::end_after(session.length), u64::MAX);
    hosts.outcome
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

    fn wake(&mut self, now: Instant, node: Node) {
        match node {
            Node::Group(group) => self.poll_sender(now, group),
            Node::Host(host) => self.poll_receiver(now, host),
        }
    }
}

impl<'a> Hosts<'a> {
    fn new(session: &'a Session) -> Self {
        let mut random = generator(session.seed, 0);
        let config = SenderConfig {
            control: Control::Model,
            packet_bytes: PACKET_BYTES,
            floor_bps: None,
            probe_key: PROBE_KEY,
        };
        let group = |_| Group { machine: Sender::new(config), next_number: 0, has_members: false };
        let link = |rate_bps: u64| {
            let product = (rate_bps as f64 / 8.0 * session.round_trip.as_secs_f64()) as u64;
            let mut link = queue(product.max(8 * u64::from(PACKET_BYTES)));
            link.set_rate(rate_bps);
            link
        };
        let members = session.hosts.iter().map(|host| Member {
            host: *host,
            teller: Teller::new(host.lie, Forgery::None),
            machine: Receiver::new(random.random_range(0..u64::MAX)),
            link: link(host.rate_bps),
            losses: Losses::new(Loss::Uniform(host.loss)),
            group: 0,
            left: None,
            told_bps: 0,
        });
        let members: Vec<_> = members.collect();
        let spans = (session.length.as_nanos() / SPAN.as_nanos()) as usize + 1;
        let outcome = Outcome {
            received_bytes: vec![vec![0; spans]; members.len()],
            moves: Vec::new(),
            doubts: vec![0.0; members.len()],
        };
        let mut hosts = Self {
            session,
            agenda: Agenda::default(),
            trunk: link(SENDER_BPS),
            groups: (0..=MOST_SLOWER).map(group).collect(),
            known: vec![0; members.len()],
            members,
            placing: SlowerGroups::default(),
            next_look: Instant::ZERO,
            outcome,
            random,
        };
        for host in 0..hosts.members.len() {
            let number = host as u32 + 1;
            hosts.members[host].machine.handle(Instant::ZERO, ReceiverInput::Named(number));
            hosts.placing.joined(Instant::ZERO, number, number.into());
            hosts.join(Instant::ZERO, host, 0);
        }
        hosts
    }

    fn event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Send(group) => self.send_run(now, group),
            Event::Arrive(host, group, packets) => {
                if self.members[host].group == group {
                    self.members[host].machine.handle(now, ReceiverInput::Packets(packets));
                    let span = (now.as_nanos() / SPAN.as_nanos() as u64) as usize;
                    self.outcome.received_bytes[host][span] += u64::from(packets.count * PACKET_BYTES);
                    self.attend(now, host);
                }
            }
            Event::Paced(host, group, pace, number) => {
                if self.members[host].group == group {
                    self.paced(now, host, pace, number);
                    self.attend(now, host);
                }
            }
            Event::Report(host, group, report) => self.report(now, host, group, report),
            Event::Called(host, group) => {
                let member = &mut self.members[host];
                member.left = Some((member.group, now + LEAVING));
                member.group = group;
                member.machine.handle(now, ReceiverInput::Moved);
                self.agenda.at(now + self.session.round_trip / 2, Event::Moved(host, group));
            }
            Event::Moved(host, group) => {
                let (number, before) = (host as u32 + 1, self.known[host]);
                let gone = if group > before {
                    SenderInput::Slowed { receiver: number }
                } else {
                    SenderInput::Left { receiver: number }
                };
                self.groups[usize::from(before)].machine.handle(now, gone);
                self.join(now, host, group);
                self.placing.moved(now, number, group);
                let at = now.saturating_duration_since(Instant::ZERO);
                self.outcome.moves.push((at, host, group));
            }
        }
    }

    /// The sender knows that a host is in a group.
    fn join(&mut self, now: Instant, host: usize, group: u8) {
        self.known[host] = group;
        let (receiver, round_trip) = (host as u32 + 1, Some(self.session.round_trip));
        let joined = SenderInput::Joined { receiver, who: receiver.into(), round_trip };
        let there = &mut self.groups[usize::from(group)];
        there.machine.handle(now, joined);
        if !std::mem::replace(&mut there.has_members, true) {
            self.agenda.at(now, Event::Send(group));
        }
    }

    /// A message of the sender has come to a host. A probe is as long as other packets.
    fn paced(&mut self, now: Instant, host: usize, pace: Pace, number: u32) {
        let member = &mut self.members[host];
        member.told_bps = pace.rate_bps;
        let packets = Arrived { first: number, count: 1, marked: false };
        member.machine.handle(now, ReceiverInput::Packets(packets));
        member.machine.handle(now, ReceiverInput::Pace { pace, number, at: now });
        if pace.probe.is_some() {
            let span = (now.as_nanos() / SPAN.as_nanos() as u64) as usize;
            self.outcome.received_bytes[host][span] += u64::from(PACKET_BYTES);
        }
    }

    fn send_run(&mut self, now: Instant, group: u8) {
        let there = &mut self.groups[usize::from(group)];
        there.has_members = self.known.contains(&group);
        if !there.has_members {
            return;
        }
        let (count, next) = run_len(there.machine.rate_bps());
        let before = there.machine.packets_before_probe(now).filter(|before| *before < count.into());
        let before = before.map_or(count, |before| before as u32);
        self.send_packets(now, group, before, before);
        if before < count {
            let pace = self.groups[usize::from(group)].machine.take_probe(now);
            self.send_pace(now, group, pace);
            self.send_packets(now, group, count - before - 1, count - before);
        }
        self.poll_sender(now, group);
        let jitter = Duration::from_nanos(self.random.random_range(0..JITTER.as_nanos() as u64));
        self.agenda.at(now + (next + jitter).saturating_sub(JITTER / 2), Event::Send(group));
    }

    /// Sends packets of a run at once. The sender is told of `noted` packets.
    fn send_packets(&mut self, now: Instant, group: u8, count: u32, noted: u32) {
        let there = &mut self.groups[usize::from(group)];
        let group_bytes = u64::from(noted * PACKET_BYTES);
        there.machine.handle(now, SenderInput::Sent { group_bytes, repair_bytes: 0 });
        if count == 0 {
            return;
        }
        let packets = Arrived { first: there.next_number, count, marked: false };
        there.next_number = there.next_number.wrapping_add(count);
        let left_at = (0..count).filter_map(|_| self.trunk.squeeze(now, PACKET_BYTES as usize)).last();
        if let Some(left_at) = left_at {
            (0..self.members.len()).for_each(|host| self.carry(left_at, host, group, packets));
        }
    }

    fn send_pace(&mut self, now: Instant, group: u8, pace: Pace) {
        let there = &mut self.groups[usize::from(group)];
        let number = there.next_number;
        there.next_number = number.wrapping_add(1);
        let bytes = if pace.probe.is_some() { PACKET_BYTES.into() } else { PACE_BYTES };
        let Some(left_at) = self.trunk.squeeze(now, bytes as usize) else { return };
        for host in 0..self.members.len() {
            if let Some(at) = self.pass(left_at, host, group, bytes) {
                let at = at + self.session.round_trip / 2;
                self.agenda.at(at, Event::Paced(host, group, pace, number));
            }
        }
    }

    /// Has packets go over a host's link, in the pieces that losses leave.
    fn carry(&mut self, now: Instant, host: usize, group: u8, packets: Arrived) {
        let way = self.session.round_trip / 2;
        let fate = || self.pass(now, host, group, PACKET_BYTES.into()).map(|at| (at, false));
        for (run, at) in pieces(packets.first, packets.count, fate) {
            self.agenda.at(at + way, Event::Arrive(host, group, run));
        }
    }

    /// The time when a packet of a group has passed a host's link. `None` if it is lost or does not go there.
    fn pass(&mut self, now: Instant, host: usize, group: u8, bytes: u64) -> Option<Instant> {
        let member = &mut self.members[host];
        let is_left = member.left.is_some_and(|(left, until)| left == group && now < until);
        if member.group != group && !is_left {
            return None;
        }
        member.link.squeeze(now, bytes as usize).filter(|_| !member.losses.loses(&mut self.random))
    }

    fn poll_sender(&mut self, now: Instant, group: u8) {
        loop {
            match self.groups[usize::from(group)].machine.poll(now) {
                Step::Transmit(pace) => self.send_pace(now, group, pace),
                Step::Wait(deadline, _) => {
                    return deadline.into_iter().for_each(|at| self.agenda.wake(Node::Group(group), at));
                }
            }
        }
    }

    /// Something has come to a host. A program that is late answers it later.
    fn attend(&mut self, now: Instant, host: usize) {
        let member = &mut self.members[host];
        if member.host.lateness.is_zero() {
            return self.poll_receiver(now, host);
        }
        let at = now + member.host.lateness.mul_f64(self.random.random_range(0.0..1.0));
        if self.agenda.wakes_at(Node::Host(host)).is_none_or(|wake| wake <= now) {
            self.agenda.wake(Node::Host(host), at);
        }
    }

    fn poll_receiver(&mut self, now: Instant, host: usize) {
        let member = &mut self.members[host];
        loop {
            match member.machine.poll(now) {
                Step::Transmit(report) => {
                    let lie = member.host.lie;
                    let report = member.teller.told(now, member.told_bps, report, &mut self.random);
                    let event = Event::Report(host, member.group, report);
                    self.agenda.at(now + self.session.round_trip / 2 + lie.delay(), event);
                }
                Step::Wait(deadline, _) => {
                    return deadline.into_iter().for_each(|at| self.agenda.wake(Node::Host(host), at));
                }
            }
        }
    }
}

/// # What the sender does with reports
impl Hosts<'_> {
    fn report(&mut self, now: Instant, host: usize, group: u8, report: PaceReport) {
        if group != self.known[host] {
            return;
        }
        let number = host as u32 + 1;
        let machine = &mut self.groups[usize::from(group)].machine;
        machine.handle(now, SenderInput::Report { from: number, report });
        self.outcome.doubts[host] = self.outcome.doubts[host].max(machine.doubt(now, number));
        if let Some(bears_bps) = machine.borne_bps(number, &report) {
            self.placing.reported(now, number, bears_bps.map(|bps| bps as f64));
            if now >= self.next_look {
                self.next_look = now + LOOK;
                self.place(now);
            }
        }
        self.poll_sender(now, group);
    }

    fn place(&mut self, now: Instant) {
        let rest = self.session.length;
        let views: Vec<_> = self.groups.iter().map(|group| group.machine.view(rest)).collect();
        let orders = self.placing.look(now, &views);
        for (group, there) in (0..).zip(&mut self.groups) {
            there.machine.ask(self.placing.asks(group));
        }
        for order in orders {
            match order {
                Order::Call { receiver, group } => {
                    let host = receiver as usize - 1;
                    if self.members[host].host.follows_calls {
                        let at = now + self.session.round_trip / 2 + JOINING;
                        self.agenda.at(at, Event::Called(host, group));
                    }
                }
                Order::LeaveOut { receiver } => {
                    let group = usize::from(self.known[receiver as usize - 1]);
                    self.groups[group].machine.handle(now, SenderInput::Slowed { receiver });
                }
            }
        }
    }
}
