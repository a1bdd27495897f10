//! Simulates carousels: one sender, up to six receivers that come and go, and no way back to the sender except
//! group membership.

mod node;
mod scenario;

use std::{ops::Range, rc::Rc, time::Duration};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use treecast_proto::{
    Instant, Step,
    carousel::{Sender, SenderConfig, copies},
    fec::Layout,
    object::{Lane, SenderEvent, SenderInput, SenderTransmit},
};
use treecast_wire::{
    header::{FileId, HEADER_LEN, SessionId},
    message::{BeginOfFile, BlockHashes, ChunkHashes, Message, TransferType},
};

use crate::{
    Verdict,
    network::{Link, generator, transmission_time},
    schedule::Schedule,
    session::storage::{chunk_hashes, hash_of},
    trace::{Entry, Node, Trace},
};
use node::{Packet, ReceiverNode, hash_at};
pub use scenario::{Forger, ReceiverPlan, Scenario};

/// More events than this are a run that goes round in circles.
const MAX_EVENTS: u64 = 3_000_000;

/// How long hashing takes.
const HASHING: Duration = Duration::from_millis(2);

/// How long the sender goes on when nobody listens.
const IDLE: Duration = Duration::from_secs(2);

/// When the sender learns that a listener has come or gone, and that one has died.
const REPORT: Duration = Duration::from_millis(50);
const LISTENING_INTERVAL: Duration = Duration::from_secs(5);

/// Bytes of IP and UDP before each packet.
const OVERHEAD: usize = 48;

/// Runs the scenario of a seed and judges it; `verbose` keeps the lines of the trace.
pub fn run_seed(seed: u64, verbose: bool) -> Verdict {
    run(&Scenario::from_seed(seed), verbose)
}

/// Runs a scenario to its end and judges it.
pub fn run(scenario: &Scenario, verbose: bool) -> Verdict {
    World::new(scenario, verbose).run().0
}

/// Runs a scenario to its end. Returns how many bytes of blocks and symbols left the sender between the time
/// when each receiver came and the time when it ended.
///
/// # Errors
/// What is wrong with the run, one line each.
pub fn sent_until_done(scenario: &Scenario) -> Result<Vec<u64>, Vec<String>> {
    let (Verdict { faults, .. }, sent) = World::new(scenario, false).run();
    if faults.is_empty() { Ok(sent) } else { Err(faults) }
}

#[derive(Debug)]
enum Event {
    Join(usize),
    Die(usize),
    /// The sender looks at who listens.
    Listeners,
    SenderHashed(u32),
    Withdraw(u32),
    Forge,
    Packet(usize, Packet),
    ReceiverHashed(usize, FileId),
    ReceiverDecoded(usize, FileId, u32, bool),
    ReceiverChecked(usize, FileId, ChunkHashes),
    WakeSender,
    WakeReceiver(usize),
}

struct World<'a> {
    scenario: &'a Scenario,
    schedule: Schedule<Event>,
    trace: Trace,
    sender: Sender,
    contents: Vec<Rc<[u8]>>,
    /// When the sender's link takes the next packet.
    free_at: Instant,
    closed: bool,
    /// Bytes of blocks and symbols, and how many of them left while each receiver was there.
    sent_bytes: u64,
    sent_until_done: Vec<u64>,
    /// None before they join.
    receivers: Vec<Option<ReceiverNode>>,
    links: Vec<Link>,
    forging: Forging,
    /// The wake-up that counts; others that were asked for before are passed over.
    wake_sender_at: Option<Instant>,
    wake_receivers_at: Vec<Option<Instant>>,
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, verbose: bool) -> Self {
        let links = scenario.receivers.iter().enumerate();
        let links =
            links.map(|(number, plan)| Link::new(plan.path, generator(scenario.seed, 100 + number as u64)));
        let mut world = Self {
            scenario,
            schedule: Schedule::default(),
            trace: Trace::new(verbose),
            sender: sender(scenario),
            contents: scenario.contents(),
            free_at: Instant::ZERO,
            closed: false,
            sent_bytes: 0,
            sent_until_done: vec![0; scenario.receivers.len()],
            receivers: scenario.receivers.iter().map(|_| None).collect(),
            links: links.collect(),
            forging: Forging { random: generator(scenario.seed, 6), last: None },
            wake_sender_at: None,
            wake_receivers_at: vec![None; scenario.receivers.len()],
        };
        world.plan();
        world
    }

    fn plan(&mut self) {
        for (number, plan) in self.scenario.receivers.iter().enumerate() {
            self.schedule.at(Instant::ZERO + plan.join_at, Event::Join(number));
            if let Some(time) = plan.die_at {
                self.schedule.at(Instant::ZERO + time, Event::Die(number));
            }
        }
        let mut at = Instant::ZERO;
        for index in 0..self.scenario.sizes.len() as u32 {
            at += HASHING;
            self.schedule.at(at, Event::SenderHashed(index));
        }
        if self.scenario.forger.is_some() {
            self.schedule.at(Instant::ZERO, Event::Forge);
        }
        if let Some((time, index)) = self.scenario.withdraw {
            self.schedule.at(Instant::ZERO + time, Event::Withdraw(index));
        }
    }

    /// Sends a packet that is not the sender's.
    fn forge(&mut self, now: Instant) {
        let Some(forger) = self.scenario.forger.filter(|_| !self.closed) else { return };
        self.schedule.at(now + forger.interval, Event::Forge);
        let packet = match &self.forging.last {
            Some((packet, run_len)) if forger.is_ahead => ahead_of(packet, *run_len),
            _ => self.forging.anything(self.scenario),
        };
        for (number, link) in self.links.iter_mut().enumerate() {
            for arrival in link.carry(now) {
                self.schedule.at(arrival, Event::Packet(number, Packet::Forged(Box::new(packet.clone()))));
            }
        }
    }

    fn run(mut self) -> (Verdict, Vec<u64>) {
        let deadline = Instant::ZERO + self.scenario.deadline();
        let mut faults = Vec::new();
        let mut events = 0;
        while let Some(event) = self.schedule.take() {
            events += 1;
            if self.schedule.now() > deadline || events > MAX_EVENTS {
                faults.push(format!("not over at {} after {events} events", self.schedule.now()));
                break;
            }
            self.event(event);
        }
        if !self.closed {
            faults.push("the sender has not closed".into());
        }
        for (number, receiver) in self.receivers.iter().enumerate() {
            let Some(receiver) = receiver else { continue };
            let found = receiver.faults(self.scenario, number, &self.contents);
            faults.extend(found.into_iter().map(|fault| format!("receiver {number}: {fault}")));
        }
        (Verdict { trace: self.trace, faults }, self.sent_until_done)
    }

    fn event(&mut self, event: Event) {
        let now = self.schedule.now();
        match event {
            Event::Join(number) => {
                self.receivers[number] = Some(ReceiverNode::new(self.scenario, number));
                self.sent_until_done[number] = self.sent_bytes;
                self.note(Node::Receiver(number), "joins", 0, 0..0);
                self.schedule.at(now + REPORT, Event::Listeners);
                return self.receiver_event(now, Event::WakeReceiver(number));
            }
            Event::Die(number) => {
                if let Some(receiver) = self.receivers[number].as_mut().filter(|receiver| !receiver.closed) {
                    receiver.dead_since = Some(now);
                    self.schedule.at(now + LISTENING_INTERVAL, Event::Listeners);
                }
            }
            Event::Listeners => {
                let listens = |receiver: &ReceiverNode| receiver.is_reported(now, LISTENING_INTERVAL);
                let present = self.receivers.iter().flatten().any(listens);
                self.sender.handle(now, SenderInput::Listeners { group: 0, present });
            }
            Event::SenderHashed(index) => {
                let hash = hash_of(index, &self.contents[index as usize]);
                let file = FileId::new(self.scenario.session(), index);
                self.sender.handle(now, SenderInput::Hashed { file, hash });
            }
            Event::Withdraw(index) => {
                let file = FileId::new(self.scenario.session(), index);
                let reason = "it has shrunk".to_owned();
                self.sender.handle(now, SenderInput::Withdraw { file, reason });
            }
            Event::Forge => return self.forge(now),
            Event::WakeSender if self.wake_sender_at != Some(now) => return,
            Event::WakeSender => self.wake_sender_at = None,
            other => return self.receiver_event(now, other),
        }
        self.pump_sender(now);
    }

    fn receiver_event(&mut self, now: Instant, event: Event) {
        let (Event::Packet(number, _)
        | Event::ReceiverHashed(number, _)
        | Event::ReceiverDecoded(number, ..)
        | Event::ReceiverChecked(number, ..)
        | Event::WakeReceiver(number)) = event
        else {
            return;
        };
        let Some(receiver) = self.receivers[number].as_mut().filter(|receiver| receiver.is_alive()) else {
            return;
        };
        let was_closed = receiver.closed;
        match event {
            Event::WakeReceiver(_) => self.wake_receivers_at[number] = None,
            Event::Packet(_, packet) => receiver.packet(now, &packet),
            Event::ReceiverHashed(_, file) => receiver.hashed(now, file),
            Event::ReceiverDecoded(_, file, block, is_right) => receiver.decoded(now, file, block, is_right),
            Event::ReceiverChecked(_, file, page) => receiver.checked(now, file, &page),
            _ => {}
        }
        let effects = receiver.pump(now, &self.contents);
        let (closes, wake) = (receiver.closed && !was_closed, effects.wake);
        for (verb, file, range) in effects.notes {
            self.note(Node::Receiver(number), verb, file.index(), range);
        }
        for (file, block, is_right) in effects.decoded {
            self.schedule.at(now + HASHING, Event::ReceiverDecoded(number, file, block, is_right));
        }
        for (file, page) in effects.checks {
            self.schedule.at(now + HASHING, Event::ReceiverChecked(number, file, page));
        }
        for file in effects.hashes {
            self.schedule.at(now + HASHING, Event::ReceiverHashed(number, file));
        }
        if closes {
            self.sent_until_done[number] = self.sent_bytes - self.sent_until_done[number];
            self.schedule.at(now + REPORT, Event::Listeners);
        }
        if wake != self.wake_receivers_at[number] {
            self.wake_receivers_at[number] = wake;
            wake.inspect(|wake| self.schedule.at(*wake, Event::WakeReceiver(number)));
        }
    }

    /// Sends what the link takes now, and asks to be woken when it takes more.
    fn pump_sender(&mut self, now: Instant) {
        while now >= self.free_at {
            match self.sender.poll(now, Lane::Group) {
                Step::Transmit(SenderTransmit::Message { file, message, .. }) => {
                    self.send(now, Packet::Message(message.to_packet(file)));
                }
                Step::Transmit(SenderTransmit::Blocks { file, range, .. }) => {
                    self.send_blocks(now, file, range)
                }
                Step::Transmit(SenderTransmit::ChunkHashes { file, pages, .. }) => {
                    let page = chunk_hashes(&self.contents[file.index() as usize], pages.start);
                    self.send(now, Packet::Message(Message::ChunkHashes(page).to_packet(file)));
                }
                Step::Transmit(SenderTransmit::Symbols { file, source_block, symbols, .. }) => {
                    self.send_symbols(now, file, source_block, symbols);
                }
                Step::Transmit(SenderTransmit::CloseConnection(_)) => {}
                Step::Event(event) => {
                    self.closed |= event == SenderEvent::Closed;
                    self.note(Node::Sender, "tells", 0, 0..0);
                }
                Step::Wait(deadline, _) => return self.wake_sender(deadline),
            }
        }
        self.wake_sender(Some(self.free_at));
    }

    fn wake_sender(&mut self, at: Option<Instant>) {
        if at != self.wake_sender_at {
            self.wake_sender_at = at;
            at.inspect(|at| self.schedule.at(*at, Event::WakeSender));
        }
    }

    fn send_symbols(&mut self, now: Instant, file: FileId, source_block: u32, symbols: Range<u32>) {
        self.note(Node::Sender, "sends symbols", file.index(), symbols.start.into()..symbols.end.into());
        let size = self.scenario.sizes[file.index() as usize] as u64;
        let Some(layout) = Layout::new(size, self.scenario.block_len) else { return };
        self.sign(now, file, true, &layout.positions(source_block, &symbols));
        for symbol in symbols {
            self.send(now, Packet::Symbol(file, layout.positions(source_block, &(symbol..symbol + 1))));
        }
    }

    fn send_blocks(&mut self, now: Instant, file: FileId, range: Range<u64>) {
        self.note(Node::Sender, "sends data", file.index(), range.clone());
        self.sign(now, file, false, &range);
        let mut start = range.start;
        while start < range.end {
            let end = (start + u64::from(self.scenario.block_len)).min(range.end);
            self.send(now, Packet::Block(file, start..end));
            start = end;
        }
    }

    /// Says what the next blocks or symbols are.
    fn sign(&mut self, now: Instant, file: FileId, are_symbols: bool, run: &Range<u64>) {
        let first = run.start..run.end.min(run.start + u64::from(self.scenario.block_len));
        let kind = if are_symbols { Packet::Symbol } else { Packet::Block };
        self.forging.last = Some((kind(file, first), run.end - run.start));
        if !self.scenario.signs {
            return;
        }
        let hashes = run.clone().step_by(self.scenario.block_len.into()).map(hash_at).collect();
        let page = BlockHashes::new(are_symbols, run.start, hashes).expect("a run is a page at most");
        for _ in 0..copies(self.scenario.fec) {
            self.send(now, Packet::Page(file, page.clone()));
        }
    }

    fn send(&mut self, now: Instant, packet: Packet) {
        let len = match &packet {
            Packet::Message(bytes) => bytes.len(),
            // Header, signature, packet type and sequence number, and a hash of 8 bytes for each block.
            Packet::Page(_, page) => HEADER_LEN + 76 + 8 * page.count(),
            Packet::Forged(_) => 0,
            Packet::Block(_, range) | Packet::Symbol(_, range) => {
                self.sent_bytes += range.end - range.start;
                HEADER_LEN + (range.end - range.start) as usize
            }
        };
        self.free_at = self.free_at.max(now) + transmission_time(OVERHEAD + len, self.scenario.rate_bps);
        for (number, link) in self.links.iter_mut().enumerate() {
            for arrival in link.carry(now) {
                self.schedule.at(arrival, Event::Packet(number, packet.clone()));
            }
        }
    }

    fn note(&mut self, node: Node, verb: &'static str, object: u32, range: Range<u64>) {
        let now = self.schedule.now();
        self.trace.add(Entry { now, node, verb, object, start: range.start, end: range.end });
    }
}

/// What whoever forges draws, and what it hears.
#[derive(Debug)]
struct Forging {
    random: ChaCha8Rng,
    /// The first packet of the run that was sent last, and the run's length in bytes.
    last: Option<(Packet, u64)>,
}

impl Forging {
    /// Any block or symbol of any object.
    fn anything(&mut self, scenario: &Scenario) -> Packet {
        let index = self.random.random_range(0..scenario.sizes.len());
        let file = FileId::new(scenario.session(), index as u32);
        let (size, block_len) = (scenario.sizes[index] as u64, u64::from(scenario.block_len));
        let start = self.random.random_range(0..size.div_ceil(block_len).max(1)) * block_len;
        if let Some(layout) = Layout::new(size, scenario.block_len).filter(|_| scenario.fec)
            && size > 0
            && self.random.random_bool(0.5)
        {
            let source_block = layout.source_block(start / block_len);
            let first = layout.source_symbols(source_block) + self.random.random_range(0..100);
            return Packet::Symbol(file, layout.positions(source_block, &(first..first + 1)));
        }
        Packet::Block(file, start..size.min(start + block_len))
    }
}

/// The first packet of the next run.
fn ahead_of(packet: &Packet, run_len: u64) -> Packet {
    let mut packet = packet.clone();
    if let Packet::Block(_, range) | Packet::Symbol(_, range) = &mut packet {
        *range = range.start + run_len..range.end + run_len;
    }
    packet
}

fn sender(scenario: &Scenario) -> Sender {
    let config = SenderConfig {
        session: scenario.session(),
        max_run_lens: vec![scenario.max_run_len],
        block_len: scenario.block_len,
        fec: scenario.fec,
        announce: true,
        start: scenario.start,
        first_row: scenario.first_row,
        idle: IDLE,
        loops: None,
    };
    let begin = |(index, size): (u32, &usize)| {
        BeginOfFile::new(TransferType::DiskToDisk, *size as u64, &format!("object {index}"))
            .expect("a good name")
    };
    let objects: Vec<_> = (0..).zip(&scenario.sizes).map(begin).collect();
    Sender::new(config, &objects).expect("few objects")
}

/// Packets of this session only are sent, but others could come, too.
const SESSION: SessionId = SessionId(0xca20_05e1);
