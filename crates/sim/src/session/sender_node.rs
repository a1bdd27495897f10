//! Simulates the sender's host, which reads objects, keeps to its rate, and writes to connections.

use std::{collections::BTreeMap, net::SocketAddr, ops::Range, rc::Rc, time::Duration};

use rand::Rng as _;
use treecast_proto::{
    Instant, Step, carousel,
    fec::Layout,
    local,
    object::{
        Address, Destination, Lane, Outcome, ReceiverId, SenderEvent, SenderInput, SenderTransmit, SenderWait,
    },
    policy::{self, RepairShare},
    repair::Sender,
    vcmtp::{self, SenderConfig},
};
use treecast_wire::{
    header::{FileId, HEADER_LEN, SessionId},
    message::{BeginOfFile, BlockHashes, Message, TransferType},
};

use super::{
    Scenario,
    carousel_plan::{Carousel, hash_at},
    local::{Local, member},
    placed::{Fanout, Placed},
    storage,
};
use crate::{
    network::{Connection, Room, generator, transmission_time},
    trace::{Entry, Node, Trace},
};

/// The silence after which a receiver that owes an answer is put out.
pub(super) const STALL_LIMIT: Duration = Duration::from_secs(3);

/// The time that the host's loop takes for each connection.
const ROUND_PER_RECEIVER: Duration = Duration::from_micros(1);

/// The time of data that a connection's socket takes ahead of the wire.
const SOCKET_BUFFER: Duration = Duration::from_millis(5);

/// The bytes of IP and UDP around each packet.
pub(super) const LOWER_HEADERS: usize = 48;

/// The lengths of packets to a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) block_len: u16,
    /// The bytes of all headers around a block or a message.
    pub(super) headers: usize,
}

impl Sizes {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let seal = scenario.network.as_ref().map_or(0, |placed| placed.seal_bytes);
        Self { block_len: scenario.block_len, headers: HEADER_LEN + LOWER_HEADERS + seal }
    }
}

/// The content of a packet on a link or connection.
#[derive(Debug, Clone)]
pub(super) enum Packet {
    /// A control message in its form on the wire.
    Message(Rc<[u8]>),
    /// Blocks of an object, with the whole object's bytes.
    Blocks { file: FileId, range: Range<u64>, content: Rc<[u8]> },
    /// Repair symbols by their sequence numbers, with the whole object's bytes, which they are computed from.
    Symbols { file: FileId, positions: Range<u64>, content: Rc<[u8]> },
    /// The hashes of the next blocks or symbols, signed by the sender.
    Page(FileId, Rc<BlockHashes>),
}

impl Packet {
    /// The length of the packet on the wire, in bytes.
    pub(super) fn len(&self, sizes: Sizes) -> usize {
        match self {
            Self::Message(bytes) => bytes.len() + sizes.headers - HEADER_LEN,
            // A signature, packet type and sequence number, and a hash of 8 bytes for each block.
            Self::Page(_, page) => sizes.headers + 76 + 8 * page.count(),
            Self::Blocks { range, .. } | Self::Symbols { positions: range, .. } => {
                (range.end - range.start) as usize + self.count(sizes.block_len) * sizes.headers
            }
        }
    }

    /// The number of packets that this stands for.
    pub(super) fn count(&self, block_len: u16) -> usize {
        match self {
            Self::Message(_) | Self::Page(..) => 1,
            Self::Blocks { range, .. } | Self::Symbols { positions: range, .. } => {
                (range.end - range.start).div_ceil(u64::from(block_len)) as usize
            }
        }
    }
}

/// An effect of the sender's host on the simulated world.
#[derive(Debug)]
pub(super) enum Output {
    /// A packet to the group with this number; 0 is the first.
    ToGroup(u8, Packet),
    /// A packet to a receiver, with its time of arrival.
    ToReceiver(usize, Instant, Packet),
    /// A datagram to a local group or to a member.
    Tell(Address, Packet),
    /// The closing of a connection, with the time at which the receiver notices.
    Close(usize, Instant),
    /// The hash of an object is ready for the machine.
    Hash(u32),
    Wake(Instant),
}

#[derive(Debug)]
pub(super) struct SenderNode {
    pub(super) machine: Sender,
    sizes: Sizes,
    /// The bytes of each object. Empty if only their number counts.
    contents: Vec<Rc<[u8]>>,
    object_lens: Vec<u64>,
    pub(super) pacing: Pacing,
    pub(super) sent: Sent,
    /// The number of times that the hashes of a run are sent before it. 0 if nothing is signed.
    page_copies: usize,
    connections: BTreeMap<ReceiverId, Connection>,
    /// Receivers whose lanes are polled before the next round.
    touched: Vec<ReceiverId>,
    is_placed: bool,
    /// Whether objects are sent by difference.
    by_difference: bool,
    /// The reports that receivers are done (API_File_Done), by object.
    pub(super) done: BTreeMap<u32, Vec<(ReceiverId, Outcome)>>,
    /// Each receiver's end with each object, as it was told.
    pub(super) told: BTreeMap<(u32, ReceiverId), Outcome>,
    pub(super) closed: bool,
    /// Receivers that want copies from now on, at this address, or none any more.
    pub(super) listening: Vec<(ReceiverId, Option<SocketAddr>)>,
    pub(super) complaints: Vec<String>,
}

/// When the sender may send more.
#[derive(Debug)]
pub(super) struct Pacing {
    rate_bps: u64,
    /// The number of copies of a packet to the group, and whether the rate holds for each of them.
    pub(super) copies: usize,
    pub(super) paces_each: bool,
    group_free_at: Instant,
    share: Option<RepairShare>,
    /// The rate of each slower group, and the time at which it may be sent more.
    slower: Vec<(u64, Instant)>,
    /// The time at which all lanes may be polled again. A host's loop takes time for each connection, too.
    next_round: Instant,
}

/// The counts of what the sender has sent.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// The bytes that left for groups, with all headers.
    pub(super) group_bytes: u64,
    /// The bytes of blocks and symbols that left for the first group.
    pub(super) bytes: u64,
    /// The number of data packets to the session's group.
    session_packets: u64,
}

impl SenderNode {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let placed = scenario.network.as_deref();
        let object_lens: Vec<u64> = scenario.objects.iter().map(|object| object.size as u64).collect();
        let mut complaints = Vec::new();
        let signs = scenario.carousel.is_some_and(|carousel| carousel.signs);
        // A machine with local groups keeps to its rate by itself. Copies of a run do not leave all at once.
        let is_multicast = placed.is_none_or(|placed| placed.fanout == Fanout::Multicast);
        let has_groups = placed.is_some_and(|placed| placed.local.is_some());
        let rate_bps = match (has_groups, is_multicast) {
            (true, true) => u64::MAX,
            (true, false) => policy::spread_bps(scenario.rate_bps),
            (false, _) => scenario.rate_bps,
        };
        Self {
            machine: machine(scenario, &mut complaints),
            sizes: Sizes::of(scenario),
            contents: contents(scenario),
            object_lens,
            pacing: Pacing {
                rate_bps,
                copies: 1,
                paces_each: false,
                group_free_at: Instant::ZERO,
                share: scenario.shares_rate.then(|| {
                    RepairShare::new(scenario.feed.map(|feed| feed.priority).unwrap_or_default(), false)
                }),
                slower: scenario.slower_rates_bps.iter().map(|rate| (*rate, Instant::ZERO)).collect(),
                next_round: Instant::ZERO,
            },
            sent: Sent::default(),
            page_copies: if signs { carousel::copies(scenario.fec.is_some()) } else { 0 },
            connections: BTreeMap::new(),
            touched: Vec::new(),
            is_placed: placed.is_some(),
            by_difference: scenario.by_difference,
            done: BTreeMap::new(),
            told: BTreeMap::new(),
            closed: false,
            listening: Vec::new(),
            complaints,
        }
    }

    /// Hands the machine the objects in order (API_Send). Their numbers are their positions in the scenario.
    pub(super) fn send(&mut self, now: Instant, position: usize) {
        let begin = announcement(position, self.object_lens[position]);
        let begin = begin.map(|begin| if self.by_difference { begin.with_index() } else { begin });
        match (begin, self.machine.vcmtp_mut()) {
            (Ok(begin), Some(machine)) => _ = machine.send(now, begin),
            // A carousel has known its objects from the start on.
            (Ok(_), None) => {}
            (Err(error), _) => self.complaints.push(error),
        }
    }

    /// Tells a carousel whether anybody listens, as its network does.
    pub(super) fn listeners(&mut self, now: Instant, present: bool) {
        for group in 0..=self.pacing.slower.len() as u8 {
            self.machine.handle(now, SenderInput::Listeners { group, present });
        }
    }

    /// Sets the number of segments to a receiver that wait for the network. Returns whether there is room again.
    pub(super) fn set_backlog(&mut self, receiver: usize, segments: usize) -> bool {
        let Some(connection) = self.connections.get_mut(&ReceiverId(receiver as u32)) else { return false };
        let had_room = connection.room(Instant::ZERO, Duration::ZERO) == Room::Now;
        connection.set_backlog(segments);
        !had_room && connection.room(Instant::ZERO, Duration::ZERO) == Room::Now
    }

    /// The number of packets of data that were sent to the session's group, first and again.
    pub(super) fn session_packets(&self) -> u64 {
        self.sent.session_packets
    }

    pub(super) fn content(&self, position: usize) -> &[u8] {
        &self.contents[position]
    }

    pub(super) fn hash(&self, index: u32) -> [u8; 32] {
        storage::hash_of(index, &self.contents[index as usize])
    }

    /// `round_trip` is the shortest one, if it is known.
    pub(super) fn join(
        &mut self,
        now: Instant,
        receiver: usize,
        connection: Connection,
        receive_buffer_bytes: u32,
        round_trip: Option<Duration>,
    ) {
        let id = ReceiverId(receiver as u32);
        self.connections.insert(id, connection);
        self.machine.handle(now, SenderInput::Joined { receiver: id, receive_buffer_bytes, round_trip });
    }

    pub(super) fn left(&mut self, now: Instant, receiver: usize) {
        let id = ReceiverId(receiver as u32);
        if self.connections.remove(&id).is_some() {
            self.machine.handle(now, SenderInput::Left { receiver: id, reason: "gone".to_owned() });
        }
    }

    /// Polls every lane that is not blocked.
    pub(super) fn pump(&mut self, now: Instant, trace: &mut Trace) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.pump_group(now, trace, &mut outputs);
        for number in 1..=self.pacing.slower.len() {
            self.pump_slower(now, number, trace, &mut outputs);
        }
        let touched = std::mem::take(&mut self.touched);
        let is_round = now >= self.pacing.next_round;
        let due = if is_round { self.connections.keys().copied().collect() } else { touched };
        due.into_iter().for_each(|id| self.pump_receiver(now, id, trace, &mut outputs));
        match (self.is_placed, is_round) {
            (false, _) => {}
            (true, true) => self.pacing.next_round = now + ROUND_PER_RECEIVER * self.connections.len() as u32,
            (true, false) => outputs.push(Output::Wake(self.pacing.next_round)),
        }
        outputs
    }

    /// Polls a receiver's lane soon: something has come from it, or its connection has room again.
    pub(super) fn touch(&mut self, receiver: usize) {
        self.touched.push(ReceiverId(receiver as u32));
    }

    fn pump_group(&mut self, now: Instant, trace: &mut Trace, outputs: &mut Vec<Output>) {
        loop {
            if self.pacing.group_free_at > now {
                return outputs.push(Output::Wake(self.pacing.group_free_at));
            }
            match self.machine.poll(now, Lane::Group) {
                Step::Transmit(transmit) => self.transmit(now, transmit, trace, outputs),
                Step::Event(event) => self.event(now, event, trace),
                Step::Wait(deadline, why) => {
                    if let Some(share) = &mut self.pacing.share {
                        share.multicast_waits();
                    }
                    return self.wait(now, deadline, why, outputs);
                }
            }
        }
    }

    fn pump_slower(&mut self, now: Instant, number: usize, trace: &mut Trace, outputs: &mut Vec<Output>) {
        loop {
            let (_, free_at) = self.pacing.slower[number - 1];
            if free_at > now {
                return outputs.push(Output::Wake(free_at));
            }
            match self.machine.poll(now, Lane::Slower(number as u8)) {
                Step::Transmit(transmit) => self.transmit(now, transmit, trace, outputs),
                Step::Event(event) => self.complaints.push(format!("{event:?} on a slower group's lane")),
                Step::Wait(deadline, why) => return self.wait(now, deadline, why, outputs),
            }
        }
    }

    fn pump_receiver(&mut self, now: Instant, id: ReceiverId, trace: &mut Trace, outputs: &mut Vec<Output>) {
        loop {
            let Some(connection) = self.connections.get(&id) else { return };
            match connection.room(now, SOCKET_BUFFER) {
                Room::Now => {}
                Room::At(time) => return outputs.push(Output::Wake(time)),
                Room::Later => return,
            }
            let Some(machine) = self.machine.vcmtp() else { return };
            let has_rate = self.pacing.group_free_at <= now;
            let holds_back =
                |share: &RepairShare| !share.may_leave(|| machine.is_urgent(now, id), || has_rate);
            if self.pacing.share.as_ref().is_some_and(holds_back) && !machine.has_message(id) {
                if machine.is_ready(id) {
                    outputs
                        .push(Output::Wake(self.pacing.group_free_at.max(now + Duration::from_micros(100))));
                }
                return;
            }
            let ready = machine.is_ready(id);
            match self.machine.poll(now, Lane::Receiver(id)) {
                Step::Transmit(transmit) => self.transmit(now, transmit, trace, outputs),
                Step::Event(event) => self.complaints.push(format!("{event:?} on a receiver's lane")),
                Step::Wait(deadline, why) => return self.wait(now, deadline, why, outputs),
            }
            if !ready {
                self.complaints.push("a lane that was not ready had something to send".to_owned());
            }
        }
    }

    fn wait(&mut self, now: Instant, deadline: Option<Instant>, why: SenderWait, outputs: &mut Vec<Output>) {
        match deadline {
            Some(deadline) if deadline > now => outputs.push(Output::Wake(deadline)),
            // The slower groups of a carousel say Goodbye.
            Some(deadline) if deadline == now && !self.pacing.slower.is_empty() => {
                outputs.push(Output::Wake(now + Duration::from_millis(1)));
            }
            Some(deadline) => {
                self.complaints.push(format!("the sender waits for the past {deadline}: {why:?}"))
            }
            None => {}
        }
    }

    fn transmit(
        &mut self,
        now: Instant,
        transmit: SenderTransmit,
        trace: &mut Trace,
        outputs: &mut Vec<Output>,
    ) {
        match transmit {
            SenderTransmit::Message { to, file, message } => {
                trace.add(entry(now, message_verb(&message), file, 0..0));
                self.put(now, to, Packet::Message(message.to_packet(file).into()), outputs);
                if matches!(message, Message::BeginOfFile(_)) {
                    self.note_read(to, file, 0, outputs);
                }
            }
            SenderTransmit::Blocks { to, file, range, .. } => {
                let verb = match to {
                    Destination::Group => "sends data",
                    Destination::Slower(_) => "sends data slowly",
                    Destination::Receiver(_) | Destination::Local(_) => "sends data again",
                };
                trace.add(entry(now, verb, file, range.clone()));
                let content = Rc::clone(&self.contents[file.index() as usize]);
                self.note_read(to, file, range.end, outputs);
                self.sign(now, (to, file), false, &range, outputs);
                self.put(now, to, Packet::Blocks { file, range, content }, outputs);
            }
            SenderTransmit::Symbols { to, file, source_block, symbols } => {
                let verb = if to == Destination::Group { "sends symbols" } else { "sends symbols to one" };
                trace.add(entry(now, verb, file, symbols.start.into()..symbols.end.into()));
                let content = Rc::clone(&self.contents[file.index() as usize]);
                let object_len = self.object_lens[file.index() as usize];
                let Some(layout) = Layout::new(object_len, self.sizes.block_len) else { return };
                let positions = layout.positions(source_block, &symbols);
                self.sign(now, (to, file), true, &positions, outputs);
                self.put(now, to, Packet::Symbols { file, positions, content }, outputs);
            }
            SenderTransmit::ChunkHashes { to, file, pages } => {
                trace.add(entry(now, "sends chunk hashes", file, pages.start.into()..pages.end.into()));
                let content = Rc::clone(&self.contents[file.index() as usize]);
                for page in pages {
                    let page = storage::chunk_hashes(&content, page);
                    let packet = Packet::Message(Message::ChunkHashes(page).to_packet(file).into());
                    self.put(now, to, packet, outputs);
                }
            }
            SenderTransmit::CloseConnection(id) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    outputs.push(Output::Close(id.0 as usize, connection.send(now, 1)));
                }
            }
        }
    }

    /// Sends the hashes of the blocks or symbols that are sent next.
    fn sign(
        &mut self,
        now: Instant,
        (to, file): (Destination, FileId),
        are_symbols: bool,
        run: &Range<u64>,
        outputs: &mut Vec<Output>,
    ) {
        if self.page_copies == 0 {
            return;
        }
        let sequences = run.clone().step_by(self.sizes.block_len.into());
        let hashes = sequences.map(|sequence| hash_at(sequence, false)).collect();
        match BlockHashes::new(are_symbols, run.start, hashes) {
            Ok(page) => {
                let packet = Packet::Page(file, page.into());
                (0..self.page_copies).for_each(|_| self.put(now, to, packet.clone(), outputs));
            }
            Err(error) => self.complaints.push(error.to_string()),
        }
    }

    fn put(&mut self, now: Instant, to: Destination, packet: Packet, outputs: &mut Vec<Output>) {
        let mut len = packet.len(self.sizes);
        match to {
            Destination::Group => {
                if let Packet::Blocks { range, .. } | Packet::Symbols { positions: range, .. } = &packet {
                    self.sent.bytes += range.end - range.start;
                }
                if matches!(packet, Packet::Blocks { .. }) {
                    self.sent.session_packets += packet.count(self.sizes.block_len) as u64;
                }
                len *= self.pacing.copies;
                self.sent.group_bytes += len as u64;
                if let Some(share) =
                    self.pacing.share.as_mut().filter(|_| !matches!(packet, Packet::Message(_)))
                {
                    share.multicast_sent(len as u64);
                }
                self.pacing.group_free_at =
                    self.pacing.group_free_at.max(now) + transmission_time(len, self.rate_of_all());
                outputs.push(Output::ToGroup(0, packet));
            }
            Destination::Slower(number) => {
                self.sent.group_bytes += len as u64;
                let (rate_bps, free_at) = &mut self.pacing.slower[usize::from(number) - 1];
                *free_at = (*free_at).max(now) + transmission_time(len, *rate_bps);
                outputs.push(Output::ToGroup(number, packet));
            }
            Destination::Local(address) => outputs.push(Output::Tell(address, packet)),
            Destination::Receiver(id) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    let arrival = match &packet {
                        Packet::Message(_) => connection.send_message(now, len),
                        _ => connection.send(now, len),
                    };
                    if !matches!(packet, Packet::Message(_))
                        && let Some(share) = &mut self.pacing.share
                        && share.repaired(len as u64)
                    {
                        self.pacing.group_free_at =
                            self.pacing.group_free_at.max(now) + transmission_time(len, self.pacing.rate_bps);
                    }
                    outputs.push(Output::ToReceiver(id.0 as usize, arrival, packet));
                }
            }
        }
    }

    /// Keeps packets to the group back until this time, because the host's own queue is full.
    pub(super) fn wait_until(&mut self, time: Instant) {
        self.pacing.group_free_at = self.pacing.group_free_at.max(time);
    }

    /// The rate of all copies together.
    fn rate_of_all(&self) -> u64 {
        if self.pacing.paces_each {
            self.pacing.rate_bps.saturating_mul(self.pacing.copies.max(1) as u64)
        } else {
            self.pacing.rate_bps
        }
    }

    /// Notes how far an object was read for the group. It is hashed on the way, so its hash is known at its end.
    fn note_read(&self, to: Destination, file: FileId, end: u64, outputs: &mut Vec<Output>) {
        // A carousel has hashed its objects before it sends them. What is sent by difference is hashed by itself.
        let is_first_pass = !matches!(self.machine, Sender::Carousel(_)) && !self.by_difference;
        if is_first_pass && to == Destination::Group && end == self.object_lens[file.index() as usize] {
            outputs.push(Output::Hash(file.index()));
        }
    }

    fn event(&mut self, now: Instant, event: SenderEvent, trace: &mut Trace) {
        match event {
            SenderEvent::ReceiverDone { file, receiver, outcome } => {
                trace.add(entry(now, "receiver is done", file, u64::from(receiver.0)..0));
                if self.told.insert((file.index(), receiver), outcome).is_some() {
                    self.complaints.push(format!("receiver {} is done twice with {file}", receiver.0));
                }
            }
            SenderEvent::FileClosed { file } => {
                if !self.done.contains_key(&file.index()) {
                    self.complaints.push(format!("{file} is closed again, and was not done"));
                }
            }
            SenderEvent::FileDone { file, outcomes } => {
                trace.add(entry(now, "object is done", file, 0..outcomes.len() as u64));
                // Once more when it goes on for somebody who came when all others had left.
                let done = self.done.entry(file.index()).or_default();
                let twice =
                    outcomes.iter().any(|(receiver, _)| done.iter().any(|(other, _)| other == receiver));
                done.extend(outcomes);
                if twice {
                    self.complaints.push(format!("{file} is done twice at a receiver"));
                }
            }
            SenderEvent::Moved { receiver, group } => {
                let file = FileId::new(SessionId(0), 0);
                trace.add(entry(now, "has seen a move", file, u64::from(receiver.0)..u64::from(group)));
            }
            SenderEvent::PutOut { receiver, .. } => _ = self.connections.remove(&receiver),
            SenderEvent::Started | SenderEvent::Paused | SenderEvent::Looped { .. }
                if self.machine.vcmtp().is_some() =>
            {
                self.complaints.push("a session with receivers tells of listeners".into());
            }
            SenderEvent::Started | SenderEvent::Paused | SenderEvent::Looped { .. } => {}
            SenderEvent::WantsCopies { receiver, at } => self.listening.push((receiver, Some(at))),
            SenderEvent::WantsNoCopies { receiver } => self.listening.push((receiver, None)),
            SenderEvent::Closed => self.closed = true,
        }
    }
}

pub(super) fn session(scenario: &Scenario) -> SessionId {
    SessionId(scenario.seed as u32 ^ 0x7c57_0000)
}

/// Returns the machine that sends: of a session with local groups, of a carousel, or of one with connections.
fn machine(scenario: &Scenario, complaints: &mut Vec<String>) -> Sender {
    let placed = scenario.network.as_deref();
    let carousel = scenario.carousel.map(|settings| carousel(scenario, settings));
    let carousel = carousel.transpose().unwrap_or_else(|error| {
        complaints.push(error);
        None
    });
    let local = placed.and_then(|placed| Some((placed, placed.local.as_ref()?)));
    let local = local.map(|(placed, local)| local_sender(scenario, placed, local));
    let local = local.transpose().unwrap_or_else(|error| {
        complaints.push(error);
        None
    });
    local.or(carousel).unwrap_or_else(|| Sender::Vcmtp(Box::new(vcmtp::Sender::new(vcmtp_config(scenario)))))
}

fn vcmtp_config(scenario: &Scenario) -> SenderConfig {
    let (placed, feed) = (scenario.network.as_deref(), scenario.feed);
    SenderConfig {
        session: session(scenario),
        repair: scenario.repair,
        fec: scenario.fec,
        digest_to_group: true,
        block_len: scenario.block_len,
        max_run_len: scenario.max_run_len,
        slower_run_lens: vec![scenario.max_run_len; scenario.slower_rates_bps.len()],
        slower_groups_mend: false,
        retransmission_timeout_factor: scenario.retransmission_timeout_factor,
        minimum_retransmission_time: feed
            .map_or(Duration::from_millis(20), |feed| feed.minimum_retransmission_time),
        follow_progress: scenario.follow_progress,
        patience: policy::PATIENCE,
        floor_bytes_a_second: None,
        stall_limit: placed.map_or(STALL_LIMIT, |_| policy::SENDER_STALL_LIMIT),
        at_once: feed.map_or(policy::AT_ONCE, |feed| feed.at_once),
        is_feed: feed.is_some(),
        kept_objects: 0,
        keepalive: placed.map_or(STALL_LIMIT / 4, |_| policy::KEEPALIVE),
    }
}

fn entry(now: Instant, verb: &'static str, file: FileId, range: Range<u64>) -> Entry {
    Entry { now, node: Node::Sender, verb, object: file.index(), start: range.start, end: range.end }
}

fn local_sender(scenario: &Scenario, placed: &Placed, settings: &Local) -> Result<Sender, String> {
    let sizes = Sizes::of(scenario);
    // The machine's rates are those of the bytes of objects.
    let share = f64::from(sizes.block_len) / (f64::from(sizes.block_len) + sizes.headers as f64);
    let of_objects = |rate_bps: u64| (rate_bps as f64 * share) as u64;
    let config = local::SenderConfig {
        session: session(scenario),
        block_len: scenario.block_len,
        me: member(placed.sender),
        mode: settings.mode,
        max_run_len: scenario.max_run_len,
        rate_bps: of_objects(scenario.rate_bps),
        shares_link: false,
        minimum_rate_bps: of_objects(settings.minimum_rate_bps),
        window_bytes: policy::local_window_bytes(of_objects(scenario.rate_bps)),
        settling: settings.settling,
        wait_for: settings.wait_for,
        named: settings.named(),
        copies: (placed.fanout != Fanout::Multicast).then(|| local::CopiesSent {
            key: [scenario.seed as u8; 32],
            share_rate: placed.fanout == Fanout::Unicast,
        }),
        tuning: settings.tuning.clone(),
    };
    Ok(Sender::Local(Box::new(local::Sender::new(config, announcements(scenario)?))))
}

fn announcements(scenario: &Scenario) -> Result<Vec<BeginOfFile>, String> {
    let announced =
        |(position, object): (usize, &super::ObjectPlan)| announcement(position, object.size as u64);
    scenario.objects.iter().enumerate().map(announced).collect()
}

fn carousel(scenario: &Scenario, settings: Carousel) -> Result<Sender, String> {
    let Carousel { idle, start, first_row, is_iotup, .. } = settings;
    let config = carousel::SenderConfig {
        session: session(scenario),
        max_run_lens: vec![scenario.max_run_len; scenario.slower_rates_bps.len() + 1],
        block_len: scenario.block_len,
        fec: scenario.fec.is_some(),
        announce: !is_iotup,
        start,
        first_row,
        has_reports: false,
        idle,
        loops: None,
    };
    let machine =
        carousel::Sender::new(config, &announcements(scenario)?).map_err(|error| error.to_string())?;
    Ok(Sender::Carousel(Box::new(machine)))
}

fn announcement(position: usize, len: u64) -> Result<BeginOfFile, String> {
    BeginOfFile::new(TransferType::DiskToDisk, len, &format!("object-{position}"))
        .map_err(|error| error.to_string())
}

fn contents(scenario: &Scenario) -> Vec<Rc<[u8]>> {
    if scenario.network.is_some() {
        return vec![Rc::from([]); scenario.objects.len()];
    }
    let mut random = generator(scenario.seed, 1);
    let objects = scenario.objects.iter();
    objects
        .map(|object| {
            let mut bytes = vec![0; object.size];
            random.fill_bytes(&mut bytes);
            bytes.into()
        })
        .collect()
}

/// The verb for the sending of a message, in a trace.
pub(super) fn message_verb(message: &Message) -> &'static str {
    match message {
        Message::BeginOfFile(_) => "sends BOF",
        Message::EndOfFile => "sends EOF",
        Message::BeginOfFileRequest => "sends BOF-Request",
        Message::RetransmissionRequest(_) => "sends Retx-Request",
        Message::EndOfRetransmissionRequests => "sends End-Of-Retx-Reqs",
        Message::RetransmissionReject => "sends Retx-Reject",
        Message::Welcome(_) => "sends Welcome",
        Message::Digest(_) => "sends Digest",
        Message::Progress(_) => "sends Progress",
        Message::ChunkHashesRequest(_) => "sends Chunk-Hashes-Request",
        Message::SymbolRequest(_) => "sends Symbol-Request",
        Message::SymbolsSent(_) => "sends Symbols-Sent",
        Message::Lacking(_) => "sends Lacking",
        Message::Move(_) => "sends Move",
        Message::Withdraw(_) => "sends Withdraw",
        Message::NotWanted => "sends Not-Wanted",
        Message::Failed(_) => "sends Failed",
        Message::Goodbye => "sends Goodbye",
        _ => "sends another message",
    }
}
