//! Streams in a network: numbered datagrams at an even pace, from one sender or from several, which nothing mends. What chooses
//! packets with lists of receivers, and what routers do with them, is as in sessions.

use std::time::Duration;

use treecast_proto::Instant;
use treecast_wire::header::{FileId, SessionId};

use super::{
    placed::{Fanout, Placed, Sample},
    sender_node::{LOWER_HEADERS, Packet, Sizes},
    transport::{Arrival, Due, Transport},
    ways::Search,
};
use crate::{
    graph::{Graph, GraphPlan},
    world::{self, Agenda, Scene},
};

/// How long multicast routers may take to have heard of all receivers, and a sender to use the routers that it has found.
const JOINING: Duration = Duration::from_secs(2);
const REPLACING: Duration = Duration::from_millis(100);

/// The time after the last datagram that came until nothing is believed to be on its way any more.
const DRAIN: Duration = Duration::from_millis(700);

/// A stream to simulate.
#[derive(Debug, Clone)]
pub struct StreamPlan {
    pub seed: u64,
    /// The flows, each with its sender and receivers. All are in the network of the first one, whose changes count from the
    /// beginning of the traffic.
    pub flows: Vec<Placed>,
    /// The number of bytes of data in a datagram.
    pub payload_bytes: u16,
    /// The number of datagrams of each flow.
    pub packets: u32,
    /// The time from one datagram of a flow to its next one.
    pub interval: Duration,
    /// Whether the traffic begins with the first discovery of routers, and not after it.
    pub begins_unprepared: bool,
}

/// A datagram that has come to a receiver. Times count from the beginning of the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Came {
    pub flow: usize,
    /// The place of the receiver in its flow.
    pub receiver: usize,
    pub number: u32,
    pub sent: Duration,
    pub at: Duration,
}

/// What a stream has cost. Times count from the beginning of the traffic.
#[derive(Debug, Clone, Default)]
pub struct StreamRun {
    pub lasted: Duration,
    /// What cables carried since then. The senders are counted together.
    pub samples: Vec<Sample>,
    /// What looking for routers has cost all senders together. `None` where none looks for routers.
    pub search: Option<Search>,
}

#[derive(Debug)]
enum Event {
    Begin,
    /// A flow's next datagram.
    Send(usize, u32),
    Transport(usize, Due),
    Change(usize),
    Sample,
    /// The run ends if nothing has come for a while.
    Drain,
}

/// The flows, and the network that they share.
struct Flows<'a> {
    plan: &'a StreamPlan,
    agenda: Agenda<(), Event>,
    /// The network that all flows share. A flow has it while it acts.
    graph: Graph,
    flows: Vec<Transport>,
    /// The time at which the traffic begins. `None` before routers are known.
    began: Option<Instant>,
    /// What cables had carried by then.
    before: Sample,
    last_came: Instant,
    run: StreamRun,
    /// Takes each datagram that comes to a receiver.
    came: &'a mut dyn FnMut(Came),
    is_over: bool,
}

/// Runs a stream to its end, and hands over each datagram that comes to a receiver.
pub fn run_stream(plan: &StreamPlan, came: &mut dyn FnMut(Came)) -> StreamRun {
    let mut flows = Flows::new(plan, came);
    world::run(&mut flows, Instant::from_nanos(u64::MAX), u64::MAX);
    flows.end()
}

impl Scene for Flows<'_> {
    type Node = ();
    type Event = Event;

    fn agenda(&mut self) -> &mut Agenda<(), Event> {
        &mut self.agenda
    }

    fn wake(&mut self, _: Instant, (): ()) {}

    fn happen(&mut self, now: Instant, event: Event) {
        self.event(now, event);
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

impl<'a> Flows<'a> {
    fn new(plan: &'a StreamPlan, came: &'a mut dyn FnMut(Came)) -> Self {
        let sizes = Sizes { block_len: plan.payload_bytes, headers: LOWER_HEADERS };
        let mut flows = Vec::new();
        for (number, placed) in plan.flows.iter().enumerate() {
            let seed = plan.seed.wrapping_add(number as u64);
            if number == 0 {
                flows.push(Transport::new(placed, sizes, true, seed));
            } else {
                let forwards = plan.flows[0].graph.forwards.clone();
                let graph = GraphPlan { forwards, cables: Vec::new() };
                flows.push(Transport::new(&Placed { graph, ..placed.clone() }, sizes, true, seed));
            }
        }
        let mut world = Self {
            plan,
            agenda: Agenda::default(),
            graph: Graph::new(&GraphPlan::default(), 0),
            flows,
            began: None,
            before: Sample::default(),
            last_came: Instant::ZERO,
            run: StreamRun::default(),
            came,
            is_over: false,
        };
        if let Some(first) = world.flows.first_mut() {
            std::mem::swap(&mut first.graph, &mut world.graph);
        }
        for (flow, placed) in plan.flows.iter().enumerate() {
            for of in 0..placed.receivers.len() {
                world.with(flow, |transport| transport.join(Instant::ZERO, of));
            }
        }
        world.begin_if_ready(Instant::ZERO);
        world
    }

    /// Lets a flow act in the network, and plans what follows from it. Returns the datagrams that came: receiver and number.
    fn with(&mut self, flow: usize, act: impl FnOnce(&mut Transport)) -> Vec<(usize, u32)> {
        let transport = &mut self.flows[flow];
        std::mem::swap(&mut transport.graph, &mut self.graph);
        act(transport);
        std::mem::swap(&mut transport.graph, &mut self.graph);
        for (at, due) in transport.due.drain(..) {
            self.agenda.at(at, Event::Transport(flow, due));
        }
        let heard = |arrival| match arrival {
            Arrival::Heard(of, heard) => Some((of, heard)),
            _ => None,
        };
        let block_len = self.plan.payload_bytes;
        let heard = transport.arrivals.drain(..).filter_map(heard).flat_map(|(of, heard)| {
            let count = heard.packet.count(block_len) as u32;
            (heard.number..heard.number + count).map(move |number| (of, number))
        });
        heard.collect()
    }

    /// Begins the traffic when all senders know their routers.
    fn begin_if_ready(&mut self, now: Instant) {
        let awaits = |transport: &Transport| transport.awaits_routers();
        if self.began.is_some() || !self.plan.begins_unprepared && self.flows.iter().any(awaits) {
            return;
        }
        let has_group = self.plan.flows.iter().any(|placed| placed.fanout == Fanout::Multicast);
        let began = now + if has_group { JOINING } else { REPLACING };
        self.began = Some(began);
        self.agenda.at(began, Event::Begin);
    }

    fn event(&mut self, now: Instant, event: Event) {
        let (flow, datagrams) = match event {
            Event::Begin => return self.begin(now),
            Event::Change(position) => {
                let (_, cable, change) = self.plan.flows[0].changes[position];
                self.with(0, |transport| transport.change(now, cable, change));
                return;
            }
            Event::Sample => {
                self.sample(now);
                return self.agenda.at(now + self.plan.flows[0].sample, Event::Sample);
            }
            Event::Drain => {
                let end = self.last_came + DRAIN;
                self.is_over = end <= now;
                return self.agenda.at(end, Event::Drain);
            }
            Event::Send(flow, number) => (flow, self.send(now, flow, number)),
            Event::Transport(flow, due) => (flow, self.with(flow, |transport| transport.handle(now, due))),
        };
        for (receiver, number) in datagrams {
            self.last_came = now;
            let (sent, at) = (self.sent_at(flow, number), now - self.began.unwrap_or(now));
            (self.came)(Came { flow, receiver, number, sent, at });
        }
        self.begin_if_ready(now);
    }

    fn begin(&mut self, now: Instant) {
        self.before = self.totals(now);
        self.agenda.at(now, Event::Sample);
        for flow in 0..self.flows.len() {
            self.agenda.at(now + self.sent_at(flow, 0), Event::Send(flow, 0));
        }
        for (position, (time, ..)) in self.plan.flows[0].changes.iter().enumerate() {
            self.agenda.at(now + *time, Event::Change(position));
        }
    }

    /// The time of a datagram. The flows send one after the other within each interval, evenly spaced.
    fn sent_at(&self, flow: usize, number: u32) -> Duration {
        let offset = self.plan.interval * flow as u32 / self.plan.flows.len() as u32;
        self.plan.interval.mul_f64(f64::from(number)) + offset
    }

    fn send(&mut self, now: Instant, flow: usize, number: u32) -> Vec<(usize, u32)> {
        let payload = u64::from(self.plan.payload_bytes);
        let start = u64::from(number) * payload;
        let file = FileId::new(SessionId(0), flow as u32);
        let packet = Packet::Blocks { file, range: start..start + payload, content: [].into() };
        let arrived = self.with(flow, |transport| {
            transport.traffic(now);
            transport.send(now, 0, number, &packet);
        });
        let is_last_flow = flow + 1 == self.flows.len();
        match number + 1 < self.plan.packets {
            true => {
                let began = self.began.unwrap_or(now);
                self.agenda.at(began + self.sent_at(flow, number + 1), Event::Send(flow, number + 1));
            }
            false if is_last_flow => {
                self.run.lasted = now - self.began.unwrap_or(now);
                self.last_came = now;
                self.agenda.at(now + DRAIN, Event::Drain);
            }
            false => {}
        }
        arrived
    }

    /// What cables have carried since the network was there, and the part of it that left the senders.
    fn totals(&self, now: Instant) -> Sample {
        let mut sample = Sample { at: now - self.began.unwrap_or(now), ..Sample::default() };
        let mut senders: Vec<usize> = self.plan.flows.iter().map(|placed| placed.sender).collect();
        senders.sort_unstable();
        senders.dedup();
        for sender in senders {
            let (network, of_sender) = self.graph.totals(sender);
            sample.network_bytes = network.bytes;
            sample.sender_bytes += of_sender.bytes;
        }
        sample
    }

    fn sample(&mut self, now: Instant) {
        let sample = self.totals(now);
        self.run.samples.push(Sample {
            at: sample.at,
            network_bytes: sample.network_bytes - self.before.network_bytes,
            sender_bytes: sample.sender_bytes - self.before.sender_bytes,
        });
    }

    fn end(mut self) -> StreamRun {
        self.sample(self.agenda.now());
        for searched in self.flows.iter().filter_map(Transport::search) {
            let sum = self.run.search.get_or_insert_default();
            sum.groups += searched.groups;
            sum.discoveries += searched.discoveries;
            sum.bytes += searched.bytes;
            sum.first_over = sum.first_over.max(searched.first_over);
        }
        if let (Some(search), Some(began)) = (&mut self.run.search, self.began) {
            // Counted from the beginning of the traffic.
            search.first_over =
                search.first_over.map(|at| Instant::ZERO + at.saturating_duration_since(began));
        }
        self.run
    }
}
