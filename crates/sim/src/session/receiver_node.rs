//! Simulates a receiver's host: its socket, its storage, and the application that answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    rc::Rc,
    time::Duration,
};

use rand::RngExt;
use treecast_proto::{
    Instant, Step,
    carousel::{self, Proofs},
    fanout::Ears,
    local::{self, Copies, Seat},
    object::{Address, Channel, ReceiverEvent, ReceiverInput, ReceiverTransmit, ReceiverWait, Response},
    policy,
    rates::Mover,
    repair::Receiver,
    tfmcc::Arrived,
    vcmtp::{self, ReceiverConfig},
};
use treecast_wire::{
    header::{FileId, HEADER_LEN, Header, SessionId},
    iotup::Frame,
    message::{BeginOfFile, GroupId, Member, Message},
};

use super::{
    ReceiverPlan, Scenario,
    carousel_plan::hash_at,
    local::{Local, PORT, member},
    placed::{Fanout, Placed},
    scenario::{millis, pick},
    sender_node::{Packet, STALL_LIMIT, Sizes, message_verb, session},
    storage::{self, CAPACITY, Storage},
};
use crate::{
    network::{Connection, ReceiveBuffer, generator},
    trace::{Entry, Node, Trace},
};

/// A packet that a receiver hears.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    /// The index of the sender's group that the packet came from. `None` for a forger's packet, which goes to all
    /// groups.
    pub(super) group: Option<u8>,
    /// The number of the packet in its group. In a run of packets, that of the first.
    pub(super) number: u32,
    pub(super) packet: Packet,
    /// Whether the packet came to the receiver's own address.
    pub(super) is_own: bool,
    /// The member or sender that sent the packet. `None` if the sender sent it to the session's group.
    pub(super) from: Option<Member>,
}

/// How an object ended at a receiver, as its application was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    Received,
    Failed(String),
}

impl Fate {
    /// Whether the object was unfinished when the sender said Goodbye.
    pub(super) fn is_by_the_session_s_end(&self) -> bool {
        matches!(self, Self::Failed(reason) if reason.starts_with("the sender ended the session"))
    }
}

/// An effect of a receiver's host on the simulated world.
#[derive(Debug)]
pub(super) enum Output {
    /// A message to the sender, with its time of arrival.
    ToSender(Instant, Packet),
    Close(Instant),
    /// A datagram to a member, to the sender or to a group.
    Tell(Address, Packet),
    /// The receiver begins or stops listening to a local group.
    Listen(GroupId, bool),
    /// The hash of an object is ready for the machine.
    Hash(FileId, [u8; 32]),
    /// The wrong chunks of a page are known, for the machine.
    Checked(FileId, u32, Option<Vec<Range<u64>>>),
    /// The outcome of decoding a source block, for the machine.
    Decoded(FileId, u32, bool),
    /// The older version of an object has been read after this time, and holds these bytes.
    Seeded(FileId, Duration, Vec<Range<u64>>),
    /// The application is asked about an object.
    Ask(FileId),
    Wake(Instant),
}

#[derive(Debug)]
pub(super) struct ReceiverNode {
    setup: Setup,
    pub(super) machine: Receiver,
    pub(super) storage: Storage,
    pub(super) socket: ReceiveBuffer,
    /// Objects that have been hashed at least once.
    hashed: BTreeSet<FileId>,
    connection: Connection,
    pub(super) connected: bool,
    /// Whether the receiver's host has died.
    pub(super) dead: bool,
    pub(super) hearing: Hearing,
    /// The blocks that came in last, for [`ReceiverTransmit::Store`].
    at_hand: Option<Packet>,
    /// The hashes that the sender has signed. `None` if the sender signs no blocks.
    proofs: Option<Proofs>,
    pub(super) outcome: Outcome,
    pub(super) counts: Counts,
    pub(super) complaints: Vec<String>,
}

/// The properties of a receiver that do not change during a run.
#[derive(Debug)]
struct Setup {
    number: usize,
    seed: u64,
    /// Whether objects are sent by difference.
    by_difference: bool,
    session: SessionId,
    ignores: Vec<bool>,
    /// The sizes of the objects, in bytes.
    sizes: Vec<usize>,
    /// Whether packets are the IoT updater's frames.
    is_iotup: bool,
    /// Whether a forger writes to the group, too.
    is_misled: bool,
    has_fec: bool,
    lens: Sizes,
    /// Whether the receiver has no control connection, and trusts the sizes of objects.
    is_alone: bool,
    /// The round trip of the control connection.
    round_trip: Duration,
    /// The sender's address, which a member of local groups tells what it hears. `None`: the connection tells it.
    reports_to: Option<Member>,
}

/// What a receiver listens to.
#[derive(Debug)]
pub(super) struct Hearing {
    /// The index of the group that the receiver listens to.
    pub(super) group: u8,
    /// Whether the receiver listens to all slower groups, too.
    hears_slower: bool,
    /// The machine that decides on moves between groups. `None` if moves are planned.
    mover: Option<Mover>,
    /// The index of the group that the receiver is to move to.
    pub(super) wanted_group: Option<u8>,
    /// The counts of packets heard at each address, if they decide how the receiver is served.
    ears: Option<Box<Ears>>,
}

impl Hearing {
    pub(super) fn hears(&self, group: u8) -> bool {
        group == self.group || self.hears_slower && group > self.group
    }
}

/// An object that a receiver has, and the times at which it was announced to it and complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectFigures {
    /// The place of the object in the scenario.
    pub index: u32,
    pub announced: Instant,
    pub complete: Instant,
}

/// How a receiver's objects and its session have ended.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The time at which each object was announced.
    announced: BTreeMap<u32, Instant>,
    pub(super) objects: Vec<ObjectFigures>,
    pub(super) fates: BTreeMap<u32, Fate>,
    /// Whether the receiver's session has ended.
    pub(super) closed: bool,
    /// The time at which the last object was complete.
    pub(super) last_received_at: Instant,
    /// The time at which the receiver's session ended or its host died.
    pub(super) closed_at: Instant,
    /// The reason why the session ended before the receiver had all objects.
    pub(super) cut_short: Option<String>,
}

/// The counts of a receiver.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// The bytes of blocks and symbols that the sender has sent. Until the receiver ends, those before it came; after
    /// that, those since it came.
    pub(super) sent_bytes: u64,
    /// The distinct bytes of objects that were stored, including objects that failed later.
    pub(super) stored_bytes: u64,
    /// The bytes of objects that came over the control connection.
    pub(super) retransmitted_bytes: u64,
    /// The number of packets that the socket has dropped, as the machine knows it.
    dropped: u64,
}

impl ReceiverNode {
    pub(super) fn new(scenario: &Scenario, number: usize, plan: &ReceiverPlan) -> Self {
        let placed = scenario.network.as_deref();
        let is_alone = !scenario.has_connections();
        let signs = scenario.carousel.is_some_and(|carousel| carousel.signs);
        let local = placed.and_then(|placed| Some((placed, placed.local.as_ref()?)));
        let machine = match (local, is_alone) {
            (Some((placed, local)), _) => {
                Receiver::Local(Box::new(local_receiver(scenario, placed, local, number)))
            }
            (None, true) => Receiver::Carousel(Box::new(carousel::Receiver::new(carousel_config(scenario)))),
            (None, false) => Receiver::Vcmtp(Box::new(vcmtp::Receiver::new(vcmtp_config(scenario, plan)))),
        };
        let capacity = plan.receive_buffer_bytes as usize;
        Self {
            setup: Setup {
                number,
                seed: scenario.seed,
                by_difference: scenario.by_difference,
                session: session(scenario),
                ignores: plan.ignores.clone(),
                sizes: scenario.objects.iter().map(|object| object.size).collect(),
                is_iotup: scenario.carousel.is_some_and(|carousel| carousel.is_iotup),
                is_misled: scenario.is_forged || is_alone,
                has_fec: scenario.fec.is_some(),
                lens: Sizes::of(scenario),
                is_alone,
                round_trip: plan.path.delay + plan.control_delay,
                reports_to: local.map(|(placed, _)| member(placed.sender)),
            },
            machine,
            storage: placed.map_or_else(|| Storage::new(plan.faults.clone()), |_| Storage::counting()),
            socket: ReceiveBuffer::new(capacity, plan.read_rate_bps),
            hashed: BTreeSet::new(),
            connection: match placed {
                None => Connection::new(plan.control_delay, plan.control_rate_bps),
                Some(_) => Connection::through_network(),
            },
            connected: false,
            dead: false,
            hearing: Hearing {
                group: 0,
                hears_slower: scenario.carousel.is_some(),
                mover: plan.moves.is_none().then(|| Mover::new(scenario.slower_rates_bps.len() as u8 + 1)),
                wanted_group: None,
                ears: placed.is_some_and(|placed| placed.fanout.chooses()).then(Box::default),
            },
            at_hand: None,
            proofs: Proofs::new(scenario.block_len).filter(|_| signs),
            outcome: Outcome::default(),
            counts: Counts::default(),
            complaints: Vec::new(),
        }
    }

    pub(super) fn connect(&mut self, now: Instant) {
        if self.setup.is_alone {
            return;
        }
        self.connected = true;
        self.machine.handle(now, ReceiverInput::Connected { round_trip: self.setup.round_trip });
    }

    pub(super) fn disconnect(&mut self, now: Instant, reason: &str) {
        if std::mem::take(&mut self.connected) {
            self.machine.handle(now, ReceiverInput::Disconnected { reason: reason.to_owned() });
        }
    }

    /// Handles the arrival of a packet at the socket. Returns when it is read. `None` if the socket drops it.
    pub(super) fn arrive(&mut self, now: Instant, packet: &Packet) -> Option<Instant> {
        self.socket.accept(now, packet.len(self.setup.lens), packet.count(self.setup.lens.block_len))
    }

    /// Handles a packet that is read from the socket. Packets of a group that the receiver has left are ignored.
    pub(super) fn hear(&mut self, now: Instant, mut heard: Heard) {
        if heard.group.is_some_and(|group| !self.hearing.hears(group)) || !self.is_new(&mut heard) {
            return;
        }
        if let Some(mover) = self.hearing.mover.as_mut().filter(|_| heard.group.is_some()) {
            let count = heard.packet.count(self.setup.lens.block_len) as u32;
            let wanted = mover.arrived(now, Arrived { first: heard.number, count, marked: false });
            self.hearing.wanted_group = wanted.or(self.hearing.wanted_group);
        }
        let from = heard.from.map_or(Channel::Group, Channel::Member);
        if let Some(packet) = self.proven(heard) {
            self.packet(now, from, packet);
        }
    }

    /// Returns the part of a packet that is the sender's by what it has signed. Takes note of what it signs.
    fn proven(&mut self, mut heard: Heard) -> Option<Packet> {
        let Some(proofs) = &mut self.proofs else { return Some(heard.packet) };
        let is_forged = heard.group.is_none();
        let (file, are_symbols, run) = match &mut heard.packet {
            Packet::Message(_) => return Some(heard.packet),
            Packet::Page(file, page) => {
                proofs.take(*file, (**page).clone());
                return None;
            }
            Packet::Blocks { file, range, .. } => (*file, false, range),
            Packet::Symbols { file, positions, .. } => (*file, true, positions),
        };
        let right = proofs.right(file, are_symbols, run, |block| hash_at(block.start, is_forged));
        if right.len() > 1 {
            self.complaints.push(format!("a part of a run of {file} is signed and another is not"));
        }
        *run = right.into_iter().next()?;
        Some(heard.packet)
    }

    /// Whether a part of a run is new. Cuts off the part that came before by another fanout.
    fn is_new(&mut self, heard: &mut Heard) -> bool {
        let Some(ears) = self.hearing.ears.as_mut().filter(|_| heard.from.is_none()) else { return true };
        let count = heard.packet.count(self.setup.lens.block_len) as u32;
        let arrived = Arrived { first: heard.number, count, marked: false };
        let Some(new) = ears.note(!heard.is_own, arrived) else { return false };
        let old = u64::from(count - new.count) * u64::from(self.setup.lens.block_len);
        heard.number = new.first;
        if let Packet::Blocks { range, .. } | Packet::Symbols { positions: range, .. } = &mut heard.packet {
            range.start += old;
        }
        true
    }

    /// Sends a report of what was heard, when one is due.
    fn report(&mut self, now: Instant, outputs: &mut Vec<Output>) {
        let (can_tell, reports_to) =
            (self.connected || self.setup.reports_to.is_some(), self.setup.reports_to);
        let Some(ears) = self.hearing.ears.as_mut().filter(|_| can_tell) else { return };
        if ears.deadline().is_some_and(|deadline| deadline <= now) {
            let message = Message::Heard(ears.tell(now));
            let packet = Packet::Message(message.to_packet(FileId::new(self.setup.session, 0)).into());
            outputs.push(match reports_to {
                Some(sender) => Output::Tell(Address::Member(sender), packet),
                None => Output::ToSender(now, packet),
            });
        }
        outputs.extend(ears.deadline().map(Output::Wake));
    }

    /// Makes the receiver listen to another group.
    pub(super) fn move_to(&mut self, now: Instant, group: u8) {
        self.hearing.group = group;
        self.machine.handle(now, ReceiverInput::Moved { group });
    }

    /// Handles the sender's order to return to a group.
    fn called(&mut self, now: Instant, group: u8) {
        let elsewhere = match &mut self.hearing.mover {
            Some(mover) => mover.called(now, group),
            None => Some(group),
        };
        self.hearing.wanted_group = elsewhere.or(self.hearing.wanted_group);
    }

    pub(super) fn packet(&mut self, now: Instant, from: Channel, packet: Packet) {
        if self.counts.dropped != self.socket.dropped() {
            self.counts.dropped = self.socket.dropped();
            self.machine.handle(now, ReceiverInput::Dropped { total: self.counts.dropped });
        }
        match &packet {
            Packet::Message(bytes) => match parse(bytes) {
                Ok((file, message)) => {
                    self.machine.handle(now, ReceiverInput::Message { from, file, message })
                }
                Err(error) => self.complaints.push(error),
            },
            Packet::Page(..) => self.complaints.push("a signed page came where nothing is signed".into()),
            Packet::Blocks { .. } if self.setup.is_iotup => self.frames(now, packet),
            Packet::Blocks { file, range, .. } => {
                let (file, range) = (*file, range.clone());
                if from == Channel::Control {
                    self.counts.retransmitted_bytes += range.end - range.start;
                }
                self.at_hand = Some(packet);
                self.machine.handle(now, ReceiverInput::Blocks { from, file, range });
            }
            Packet::Symbols { file, positions, .. } => {
                let (file, positions) = (*file, positions.clone());
                self.at_hand = Some(packet);
                self.machine.handle(now, ReceiverInput::Symbols { from, file, positions });
            }
        }
    }

    /// Handles a run of the IoT updater's frames.
    fn frames(&mut self, now: Instant, packet: Packet) {
        let Packet::Blocks { file, range, content } = &packet else { return };
        let (file, range, size) = (*file, range.clone(), content.len() as u64);
        let hash = storage::hash_of(file.index(), content);
        self.at_hand = Some(packet);
        for start in range.clone().step_by(self.setup.lens.block_len.into()) {
            let len = (range.end - start).min(self.setup.lens.block_len.into()) as u16;
            let inputs = Frame::new(0, size, start, len, hash)
                .and_then(|frame| carousel::iotup_inputs(file, "object-0", &frame));
            match inputs {
                Ok(inputs) => inputs.into_iter().for_each(|input| self.machine.handle(now, input)),
                Err(error) => self.complaints.push(error.to_string()),
            }
        }
    }

    /// Answers for the application whether an object is wanted.
    pub(super) fn respond(&mut self, now: Instant, file: FileId) {
        let ignores = self.setup.ignores.get(file.index() as usize).copied().unwrap_or_default();
        let response = if ignores { Response::Ignore } else { Response::Accept };
        self.machine.handle(now, ReceiverInput::Respond { file, response });
    }

    /// Hashes an object. Checks that all of it was stored, and after a wrong hash, that something new was.
    fn hash(&mut self, file: FileId, outputs: &mut Vec<Output>) {
        let Some((hash, stored)) = self.storage.hash(file.index()) else {
            return self.complaints.push(format!("a hash of {file} is wanted, and nothing is stored"));
        };
        let size = self.setup.sizes.get(file.index() as usize).copied().unwrap_or_default();
        // A block may come while its source block is being decoded.
        // So may one that an older version turns out to hold.
        let most = if self.setup.has_fec || self.setup.by_difference { usize::MAX } else { size };
        let least = if self.hashed.insert(file) { size } else { size.min(1) };
        if !(least..=most).contains(&stored) && !self.setup.is_misled {
            self.complaints.push(format!("{stored} of {size} bytes of {file} were stored before its hash"));
        }
        outputs.push(Output::Hash(file, hash));
    }

    /// Polls the machine until it waits, and returns its effects.
    pub(super) fn pump(&mut self, now: Instant, trace: &mut Trace) -> Vec<Output> {
        let mut outputs = Vec::new();
        loop {
            match self.machine.poll(now) {
                Step::Transmit(transmit) => self.transmit(now, transmit, trace, &mut outputs),
                Step::Event(event) => self.event(now, event, trace, &mut outputs),
                Step::Wait(deadline, why) => {
                    self.wait(now, deadline, why, &mut outputs);
                    self.report(now, &mut outputs);
                    self.at_hand = None;
                    return outputs;
                }
            }
        }
    }

    fn wait(
        &mut self,
        now: Instant,
        deadline: Option<Instant>,
        why: ReceiverWait,
        outputs: &mut Vec<Output>,
    ) {
        match deadline {
            Some(deadline) if deadline > now => outputs.push(Output::Wake(deadline)),
            Some(deadline) => {
                self.complaints.push(format!("a receiver waits for the past {deadline}: {why:?}"));
            }
            None => {}
        }
    }

    fn transmit(
        &mut self,
        now: Instant,
        transmit: ReceiverTransmit,
        trace: &mut Trace,
        outputs: &mut Vec<Output>,
    ) {
        match transmit {
            ReceiverTransmit::Message { file, message } => {
                let range = match &message {
                    Message::RetransmissionRequest(request) => request.range(),
                    _ => 0..0,
                };
                trace.add(self.entry(now, message_verb(&message), file, range));
                let packet = Packet::Message(message.to_packet(file).into());
                let arrival = self.connection.send(now, packet.len(self.setup.lens));
                outputs.push(Output::ToSender(arrival, packet));
                if !self.connected {
                    self.complaints.push(format!("{message:?} without a connection"));
                }
            }
            ReceiverTransmit::Tell { to, file, message } => {
                trace.add(self.entry(now, message_verb(&message), file, 0..0));
                self.tell(to, &Packet::Message(message.to_packet(file).into()), outputs);
            }
            ReceiverTransmit::Send { to, file, range } => {
                trace.add(self.entry(now, "sends data again", file, range.clone()));
                self.tell(to, &Packet::Blocks { file, range, content: Rc::from([]) }, outputs);
            }
            ReceiverTransmit::JoinGroup { group } => outputs.push(Output::Listen(group, true)),
            ReceiverTransmit::LeaveGroup { group } => outputs.push(Output::Listen(group, false)),
            // What is stored costs nothing here.
            ReceiverTransmit::Release { .. } => {}
            // The earliest answer there is: what a slow reader's socket holds still is asked for, and comes twice.
            ReceiverTransmit::DrainGroup => self.machine.handle(now, ReceiverInput::Drained),
            // What has arrived is read at once.
            ReceiverTransmit::Listen => self.machine.handle(now, ReceiverInput::Listened { heard: false }),
            ReceiverTransmit::CloseConnection => outputs.push(Output::Close(self.connection.send(now, 1))),
            ReceiverTransmit::Announce { file, begin } => self.announce(now, file, begin, outputs),
            other => self.keep(now, other, trace, outputs),
        }
    }

    /// Makes room for an announced object, if its size is known or bearable.
    fn announce(&mut self, now: Instant, file: FileId, begin: BeginOfFile, outputs: &mut Vec<Output>) {
        let is_known = self.setup.sizes.get(file.index() as usize) == Some(&(begin.file_size as usize));
        if begin.file_size > CAPACITY && !is_known {
            let reason = "it does not fit".to_owned();
            return self.machine.handle(now, ReceiverInput::AnnouncementRefused { file, begin, reason });
        }
        self.storage.announce(file.index(), begin.file_size);
        self.outcome.announced.entry(file.index()).or_insert(now);
        if begin.has_index() {
            let size = if is_known { begin.file_size } else { 0 };
            let (time, ranges) = self.older_version(file, size);
            outputs.push(Output::Seeded(file, time, ranges));
        }
        if matches!(self.machine, Receiver::Local(_)) {
            self.machine.handle(now, ReceiverInput::Have { file, ranges: Vec::new() });
        }
    }

    /// Draws the blocks that an older version of an object holds, and how long it takes to read them.
    fn older_version(&self, file: FileId, size: u64) -> (Duration, Vec<Range<u64>>) {
        let stream = 1_000 + 100 * self.setup.number as u64 + u64::from(file.index());
        let (mut random, block_len) = (generator(self.setup.seed, stream), self.setup.lens.block_len.into());
        let blocks = size.div_ceil(block_len);
        let mut ranges = Vec::new();
        let mut at = random.random_range(0..3);
        while at < blocks && ranges.len() < 20 {
            let end = (at + random.random_range(1..=20)).min(blocks);
            ranges.push(at * block_len..(end * block_len).min(size));
            at = end + random.random_range(1..=20);
        }
        let time = *pick(&mut random, &[0, 1, 50, 400, 3_000]);
        (millis(time), if random.random_bool(0.2) { Vec::new() } else { ranges })
    }

    /// An older version of an object has been read.
    pub(super) fn seeded(&mut self, now: Instant, file: FileId, ranges: Vec<Range<u64>>, content: &[u8]) {
        if !self.storage.has_begun(file.index()) {
            return;
        }
        for range in &ranges {
            let bytes = content.get(range.start as usize..range.end as usize).unwrap_or_default();
            if let Err(reason) = self.storage.store(file.index(), range.clone(), bytes) {
                return self.machine.handle(now, ReceiverInput::StoreFailed { file, reason });
            }
        }
        self.machine.handle(now, ReceiverInput::Have { file, ranges });
    }

    /// Carries out effects on stored objects.
    fn keep(
        &mut self,
        now: Instant,
        transmit: ReceiverTransmit,
        trace: &mut Trace,
        outputs: &mut Vec<Output>,
    ) {
        match transmit {
            ReceiverTransmit::Overwrite { file, range } if self.setup.is_alone => {
                trace.add(self.entry(now, "compares", file, range.clone()));
                self.store(now, file, range);
            }
            ReceiverTransmit::Overwrite { file, range } => {
                self.complaints.push(format!("{range:?} of {file} has come before and is to be overwritten"));
            }
            ReceiverTransmit::Store { file, range } => {
                trace.add(self.entry(now, "stores", file, range.clone()));
                self.store(now, file, range);
            }
            ReceiverTransmit::KeepSymbols { file, source_block, positions } => {
                self.keep_symbols(file, source_block, positions);
            }
            ReceiverTransmit::Decode { file, source_block, blocks, missing } => {
                trace.add(self.entry(now, "decodes", file, blocks.clone()));
                self.decode(now, (file, source_block, blocks), &missing, outputs);
            }
            ReceiverTransmit::ForgetSymbols { file } => self.storage.forget_symbols(file.index()),
            ReceiverTransmit::Hash { file } => self.hash(file, outputs),
            ReceiverTransmit::CheckChunks { file, page, .. } => {
                let wrong = self.storage.wrong_chunks(file.index(), &page);
                outputs.push(Output::Checked(file, page.page(), wrong));
            }
            ReceiverTransmit::Commit { file } => {
                trace.add(self.entry(now, "commits", file, 0..0));
                let answer = match self.storage.commit(file.index()) {
                    Ok(()) => ReceiverInput::Committed { file },
                    Err(reason) => ReceiverInput::StoreFailed { file, reason },
                };
                self.machine.handle(now, answer);
            }
            ReceiverTransmit::Discard { file } => self.storage.discard(file.index()),
            _ => {}
        }
    }

    /// Sends a datagram to an address, or to each of its members where it has none of the network's.
    fn tell(&self, to: Address, packet: &Packet, outputs: &mut Vec<Output>) {
        let members = self.machine.local().and_then(|machine| machine.one_by_one(to));
        let to = members.map_or(vec![to], |members| members.into_iter().map(Address::Member).collect());
        outputs.extend(to.into_iter().map(|to| Output::Tell(to, packet.clone())));
    }

    fn store(&mut self, now: Instant, file: FileId, range: Range<u64>) {
        let content = match &self.at_hand {
            Some(Packet::Blocks { file: of, range: there, content })
                if *of == file && there.start <= range.start && range.end <= there.end =>
            {
                content
            }
            _ => return self.complaints.push(format!("{range:?} of {file} is not at hand")),
        };
        self.counts.stored_bytes += range.end - range.start;
        // Where only the number of bytes counts, there are none.
        let bytes = content.get(range.start as usize..range.end as usize).unwrap_or_default();
        if let Err(reason) = self.storage.store(file.index(), range, bytes) {
            self.machine.handle(now, ReceiverInput::StoreFailed { file, reason });
        }
    }

    fn decode(
        &mut self,
        now: Instant,
        (file, source_block, blocks): (FileId, u32, Range<u64>),
        missing: &[Range<u64>],
        outputs: &mut Vec<Output>,
    ) {
        match self.storage.decode(file.index(), source_block, blocks, missing, self.setup.lens.block_len) {
            Ok(Some(is_right)) => {
                let mended = missing.iter().map(|gap| gap.end - gap.start);
                self.counts.stored_bytes += if is_right { mended.sum() } else { 0 };
                outputs.push(Output::Decoded(file, source_block, is_right));
            }
            Ok(None) => self.complaints.push(format!("{file} lacks symbols and is to be decoded")),
            Err(reason) => self.machine.handle(now, ReceiverInput::StoreFailed { file, reason }),
        }
    }

    fn keep_symbols(&mut self, file: FileId, source_block: u32, positions: Range<u64>) {
        match &self.at_hand {
            Some(Packet::Symbols { file: of, positions: there, content })
                if *of == file && there.start <= positions.start && positions.end <= there.end =>
            {
                self.storage.keep_symbols(file.index(), source_block, positions, content);
            }
            _ => self.complaints.push(format!("symbols {positions:?} of {file} are not at hand")),
        }
    }

    fn event(&mut self, now: Instant, event: ReceiverEvent, trace: &mut Trace, outputs: &mut Vec<Output>) {
        match event {
            ReceiverEvent::Announced { .. } | ReceiverEvent::EndOfFileOnly { .. } if self.setup.is_alone => {
                self.complaints.push("a carousel asks its application nothing".into());
            }
            ReceiverEvent::Announced { file, .. } | ReceiverEvent::EndOfFileOnly { file } => {
                outputs.push(Output::Ask(file));
            }
            ReceiverEvent::Received { file, .. } => {
                trace.add(self.entry(now, "has received", file, 0..0));
                self.outcome.last_received_at = now;
                let (index, complete) = (file.index(), now);
                let announced = self.outcome.announced.get(&index).copied().unwrap_or(now);
                self.outcome.objects.push(ObjectFigures { index, announced, complete });
                self.end(file, Fate::Received);
            }
            ReceiverEvent::Failed { file, reason, .. } => {
                trace.add(self.entry(now, "has failed", file, 0..0));
                self.end(file, Fate::Failed(reason));
            }
            ReceiverEvent::Called { group } => self.called(now, group),
            ReceiverEvent::Closed { reason } => {
                (self.outcome.closed, self.outcome.closed_at) = (true, now);
                self.outcome.cut_short = reason.map(|reason| reason.to_string());
            }
        }
    }

    fn end(&mut self, file: FileId, fate: Fate) {
        if let Some(before) = self.outcome.fates.insert(file.index(), fate) {
            self.complaints.push(format!("{file} ends twice, before: {before:?}"));
        }
    }

    fn entry(&self, now: Instant, verb: &'static str, file: FileId, range: Range<u64>) -> Entry {
        let node = Node::Receiver(self.setup.number);
        Entry { now, node, verb, object: file.index(), start: range.start, end: range.end }
    }
}

fn local_receiver(scenario: &Scenario, placed: &Placed, settings: &Local, number: usize) -> local::Receiver {
    let at = |of: usize| member(placed.receivers[of]);
    let seat = settings.seats.get(number).map(|seat| Seat {
        group: GroupId(seat.group),
        controller: at(seat.controller),
        parent: seat.parent.map_or_else(|| member(placed.sender), at),
        members: settings.members_beside(seat.group),
    });
    local::Receiver::new(local::ReceiverConfig {
        session: session(scenario),
        block_len: scenario.block_len,
        me: at(number),
        mode: settings.mode,
        seat,
        seed: scenario.seed.wrapping_mul(1_000_003).wrapping_add(number as u64),
        tuning: settings.tuning.clone(),
        patience: Some(policy::RECEIVER_STALL_LIMIT * 4),
        stall_limit: Some(policy::RECEIVER_STALL_LIMIT * 4),
        hash_attempts: 3,
        copies: (placed.fanout != Fanout::Multicast)
            .then(|| Copies { sender: member(placed.sender), port: PORT }),
    })
}

fn vcmtp_config(scenario: &Scenario, plan: &ReceiverPlan) -> ReceiverConfig {
    let placed = scenario.network.as_deref();
    ReceiverConfig {
        session: session(scenario),
        repair: scenario.repair,
        fec: scenario.fec.is_some(),
        digest_from_group: true,
        block_len: scenario.block_len,
        notification: plan.notification,
        progress_bytes: u64::from(plan.receive_buffer_bytes) / policy::REPORT_SHARE as u64,
        progress_interval: placed.map_or(Duration::from_millis(25), |_| policy::REPORT_INTERVAL),
        keepalive: placed.map_or(STALL_LIMIT / 4, |_| policy::KEEPALIVE),
        stall_limit: placed.map_or(STALL_LIMIT, |_| policy::RECEIVER_STALL_LIMIT),
        resumes: false,
    }
}

fn carousel_config(scenario: &Scenario) -> carousel::ReceiverConfig {
    carousel::ReceiverConfig {
        session: session(scenario),
        block_len: scenario.block_len,
        fec: scenario.fec.is_some(),
        has_chunk_hashes: true,
        hash_attempts: 3,
        reports: None,
        patience: scenario.network.is_none().then_some(Duration::from_secs(20)),
    }
}

/// Parses a control message.
pub(super) fn parse(bytes: &[u8]) -> Result<(FileId, Message), String> {
    let header = Header::parse(bytes).map_err(|error| error.to_string())?;
    let message = Message::parse(&header, &bytes[HEADER_LEN..]).map_err(|error| error.to_string())?;
    Ok((header.file_id, message))
}
