//! The sender's loop.

mod admission;
mod again;
mod chunk_hashes;
mod config;
mod congestion;
mod connections;
mod fanout;
mod gathered;
mod group_keys;
mod listen;
mod manifests;
mod progress;
mod refusals;
mod slower;
mod start;
mod symbols;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, TcpListener},
    ops::Range,
    sync::{Arc, mpsc::TryRecvError},
    time::Duration,
};

use treecast_proto::{
    Instant, Step,
    object::{Destination, Lane, Outcome, ReceiverId, SenderEvent, SenderInput, SenderTransmit},
    vcmtp::Sender,
};
use treecast_wire::{
    header::{self, FileId, HEADER_LEN, Header, PacketNumbers, PacketType},
    message::Message,
};

use group_keys::GroupKeys;
use manifests::Unsigned;
use refusals::Refusals;
use slower::SlowerLane;
use start::RETURN_TIME;

use self::{again::Hashing, congestion::Congestion, fanout::Ways};
use super::{
    Plan, SendError, SendEvent, SendSummary, Standing,
    feed::{Arrival, Feed},
    gather::Gather,
    lobby::Lobby,
    multicast::{GroupLane, Target},
    peer::{Peer, shown},
    repair_share::RepairShare,
    session_file::Marks,
    source_table::SourceTable,
};
use crate::{
    clock::Clock,
    fec::Encoders,
    files::{NamedSource, SourceError},
    pacer::{self, Pacer},
    poller::{Interest, Poller, Ready},
    security::{manifest::Signer, tls::SenderTls},
    stop::Stop,
    wake::Waker,
};

/// What the poller's tokens mean: below `FIRST_CONNECTION` one of these, else a connection's number.
const LISTENER: u64 = 0;
const STOP: u64 = 1;
const FEED: u64 = 2;
const HASHES: u64 = 3;
const ROUTERS: u64 = 4;
const FIRST_CONNECTION: u64 = 5;

/// Runs of blocks that leave before connections are looked at again.
const RUNS_A_TURN: usize = 4;

/// The most of the machine's steps between looks at the connections; a run of small objects takes several.
const STEPS_A_TURN: usize = 128;

/// How many objects of a feed wait in the machine for their turn.
const FEED_AHEAD: usize = 64;

/// The most objects that could not be sent to their end and are told by name in the end.
const MAX_WITHDRAWN: usize = 1000;
/// Steps of handshakes between runs: each may take 200 us, and strangers may ask for any number.
const ADMISSIONS_A_TURN: usize = 4;

const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

pub(super) struct Session<'a> {
    plan: Plan,
    on_event: &'a mut dyn FnMut(SendEvent),
    clock: Clock,
    poller: Poller,
    listener: TcpListener,
    lobby: Lobby,
    /// How many of the lobby's connections have been looked at in this turn.
    admissions: usize,
    refusals: Refusals,
    /// None in a plain session.
    signer: Option<Signer>,
    unsigned: Unsigned,
    next_token: u64,
    machine: Sender,
    group: GroupLane,
    gather: Gather,
    /// Runs of blocks that have left.
    runs: usize,
    /// None in a plain session.
    keys: Option<GroupKeys>,
    /// Unicast copies of one packet have one number.
    numbers: PacketNumbers,
    pacer: Pacer,
    /// Those of a session with several rates, the fastest first.
    slower: Vec<SlowerLane>,
    /// How often receivers have gone from one to another.
    moves: u64,
    /// None at a rate that was given.
    congestion: Option<Congestion>,
    repairs: RepairShare,
    run_bytes: u64,
    sources: SourceTable,
    encoders: Encoders,
    /// Where more objects come from; none when all are known.
    feed: Option<Feed>,
    feed_waker: Waker,
    /// What goes into the session's file as it goes on; none without one.
    marks: Option<Marks>,
    /// Hashes of objects that an earlier sender has sent in part; none where there are none.
    hashing: Option<Hashing>,
    peers: BTreeMap<ReceiverId, Peer>,
    /// How many of their failures are kept to be told one by one.
    told_failures: usize,
    last_served: ReceiverId,
    /// Where copies go.
    destinations: Arc<[Target]>,
    /// Who is served by which way; none where all are by one.
    ways: Option<Ways>,
    /// To whom less fits than was to be sent, as the user knows.
    told_narrow: BTreeSet<IpAddr>,
    started: Option<Instant>,
    /// When the last object was done.
    ended: Option<Instant>,
    total_bytes: u64,
    /// What an earlier sender of this session has sent to the group.
    before_bytes: u64,
    objects_done: u64,
    /// Of a feed: the size of those that are done.
    done_bytes: u64,
    next_progress: Instant,
    watch: progress::Watch,
    summary: SendSummary,
    /// Whether the group's lane may have something new to do.
    has_news: bool,
    closed: bool,
}

/// Whether a lane wants to be polled again at once, or when.
enum Turn {
    Again,
    Until(Option<Instant>),
}

impl Turn {
    /// That of two lanes.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Until(one), Self::Until(other)) => Self::Until([one, other].into_iter().flatten().min()),
            _ => Self::Again,
        }
    }
}

impl<'a> Session<'a> {
    pub fn open(plan: Plan, on_event: &'a mut dyn FnMut(SendEvent)) -> Result<Self, SendError> {
        let tls = plan.identity.as_ref().map(SenderTls::new).transpose()?;
        let (listener, control) = listen::listen(&plan)?;
        let poller = Poller::new()?;
        poller.add(&listener, LISTENER, Interest::Read)?;
        let clock = Clock::start();
        let feed_waker = Waker::new()?;
        poller.add(&feed_waker, FEED, Interest::Read)?;
        let feed =
            plan.options.feed.clone().map(|source| Feed::start(source, feed_waker.clone())).transpose()?;
        let config = config::machine_config(&plan);
        let run_bytes = u64::from(config.max_run_len) / u64::from(plan.block_len) * plan.packet_bytes();
        let keys = plan.identity.as_ref().map(|_| GroupKeys::draw(clock.now())).transpose()?;
        let mut session = Self {
            group: GroupLane::open(&plan, keys.as_ref().map(GroupKeys::used))?,
            keys,
            gather: Gather::new(plan.block_len),
            runs: 0,
            numbers: PacketNumbers::default(),
            pacer: Pacer::new(plan.options.rate.fixed_bps(), clock.now()),
            slower: SlowerLane::all(&plan, clock.now()),
            moves: 0,
            congestion: Congestion::new(&plan),
            repairs: RepairShare::new(plan.options.priority, plan.options.rate.is_auto()),
            run_bytes,
            total_bytes: plan.total_bytes(),
            before_bytes: 0,
            objects_done: 0,
            done_bytes: 0,
            machine: Sender::new(config),
            clock,
            poller,
            listener,
            lobby: Lobby::new(plan.session, tls)?,
            admissions: 0,
            refusals: Refusals::default(),
            signer: plan.identity.clone().map(Signer::new),
            unsigned: Unsigned::default(),
            next_token: FIRST_CONNECTION,
            sources: SourceTable::default(),
            encoders: Encoders::default(),
            feed,
            feed_waker,
            marks: None,
            hashing: None,
            peers: BTreeMap::new(),
            told_failures: 0,
            last_served: ReceiverId(0),
            destinations: Arc::new([]),
            ways: None,
            told_narrow: BTreeSet::new(),
            started: None,
            ended: None,
            next_progress: clock.now(),
            watch: progress::Watch::default(),
            summary: SendSummary { objects: plan.sources.len() as u64, ..SendSummary::default() },
            has_news: false,
            closed: false,
            plan,
            on_event,
        };
        session.open_ways()?;
        session.plan.keep_session(&control)?;
        session.open_marks()?;
        (session.on_event)(SendEvent::Ready { ticket: session.plan.ticket(control) });
        for warning in std::mem::take(&mut session.plan.warnings) {
            (session.on_event)(SendEvent::Warning(warning));
        }
        Ok(session)
    }

    pub fn run(mut self, stop: &Stop) -> Result<SendSummary, SendError> {
        match self.serve(stop) {
            Ok(ended) => Ok(self.finish(ended)),
            Err(error) => {
                self.say_ended(&error.to_receivers());
                Err(error)
            }
        }
    }

    /// Returns when the session was over.
    fn serve(&mut self, stop: &Stop) -> Result<Instant, SendError> {
        self.poller.add(stop, STOP, Interest::Read)?;
        let mut ready = Vec::new();
        loop {
            let now = self.clock.now();
            self.start_if_due(now)?;
            self.take_feed(now);
            self.sign_if_due(now);
            let turn = self.turn_group(now)?;
            let turn = turn.or(self.turn_slower(now)?);
            let turn = turn.or(self.turn_ways(now));
            let lanes = self.serve_connections(now);
            self.report_progress(now);
            if self.closed {
                // That receivers close their connections is no part of what they waited for.
                return Ok(self.ended.unwrap_or(now));
            }
            let timeout = match turn {
                Turn::Again => Some(Duration::ZERO),
                Turn::Until(_) if self.has_news => Some(Duration::ZERO),
                Turn::Until(deadline) => match lanes {
                    Turn::Again => Some(Duration::ZERO),
                    Turn::Until(lanes) => self.timeout([deadline, lanes].into_iter().flatten().min()),
                },
            };
            (self.on_event)(SendEvent::Idle);
            self.poller.wait(timeout, &mut ready)?;
            self.admissions = 0;
            for event in ready.drain(..) {
                self.handle_ready(event)?;
            }
            if stop.is_requested() {
                return self.interrupt();
            }
        }
    }

    /// API_Send.
    fn send(&mut self, now: Instant, named: NamedSource) -> Result<(), SendError> {
        let size = named.source.size();
        let file = self.machine.send(now, named.begin()?);
        self.has_news = true;
        self.sources.add(file, named);
        if size == 0 {
            self.hash_if_read(now, file);
        }
        Ok(())
    }

    /// Hands the machine what has arrived, as far as it has room; the end of the feed closes the session.
    fn take_feed(&mut self, now: Instant) {
        while self.started.is_some()
            && self.machine.queued_objects() < FEED_AHEAD
            && let Some(feed) = &self.feed
        {
            match feed.next() {
                Ok(Arrival::Object(named)) => self.send_arrival(now, named),
                Ok(Arrival::Refused { path, reason }) => self.refuse_arrival(path, reason),
                Ok(Arrival::Warning(line)) => (self.on_event)(SendEvent::Warning(line)),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.feed = None;
                    self.handle(now, SenderInput::Close);
                }
            }
        }
    }

    fn send_arrival(&mut self, now: Instant, named: NamedSource) {
        let (name, size) = (named.name.clone(), named.source.size());
        match self.send(now, named) {
            Ok(()) => {
                self.summary.objects += 1;
                self.total_bytes = self.total_bytes.saturating_add(size);
            }
            Err(error) => self.refuse_arrival(name, error.to_string()),
        }
    }

    fn refuse_arrival(&mut self, path: String, reason: String) {
        self.summary.not_sent += 1;
        (self.on_event)(SendEvent::NotSent { path, reason });
    }

    fn handle(&mut self, now: Instant, input: SenderInput) {
        self.has_news = true;
        self.machine.handle(now, input);
    }

    /// Carries out what the machine has for the group, as far as the pacer lets it.
    fn turn_group(&mut self, now: Instant) -> Result<Turn, SendError> {
        self.has_news = false;
        let runs = self.runs + RUNS_A_TURN;
        for _ in 0..STEPS_A_TURN {
            if self.runs >= runs {
                break;
            }
            let pace = self.tell_pace(now)?;
            if let Some(until) = self.group_waits(now) {
                return Ok(Turn::Until(pace.into_iter().chain([until]).min()));
            }
            match self.machine.poll(now, Lane::Group) {
                Step::Transmit(transmit) => {
                    self.watch.note(now, None);
                    self.transmit(now, transmit)?;
                }
                Step::Event(event) => self.note(now, event),
                Step::Wait(deadline, why) => {
                    self.flush_gathered(now)?;
                    self.sign_before_waiting(now, why);
                    self.watch.note(now, Some(why));
                    self.repairs.multicast_waits();
                    return Ok(Turn::Until(pace.into_iter().chain(deadline).min()));
                }
            }
        }
        Ok(Turn::Again)
    }

    /// Sends the copies that are due. Until when the group's lane has to wait for the rate, or its socket to rest.
    fn group_waits(&mut self, now: Instant) -> Option<Instant> {
        if let Some(line) = self.group.take_warning() {
            (self.on_event)(SendEvent::Warning(line));
        }
        if let Some(until) = self.group.rests_until(now) {
            return Some(until);
        }
        if self.group.has_copies() {
            let are_blocks = self.group.copies_blocks();
            let (sent, delay) = self.group.send_copies(&mut self.pacer, now);
            // As without copies: who counted messages for the congestion control, too, would have it take its own messages
            // for all that arrives while nothing but retransmissions leaves.
            if are_blocks {
                self.repairs.multicast_sent(sent);
                self.note_sent(now, sent, 0);
            }
            if let Some(delay) = delay {
                return Some(now + delay);
            }
        }
        Some(self.pacer.delay(now, self.run_bytes)).filter(|delay| !delay.is_zero()).map(|delay| now + delay)
    }

    fn transmit(&mut self, now: Instant, transmit: SenderTransmit) -> Result<(), SendError> {
        match transmit {
            SenderTransmit::Message { to, file, message } => self.send_message(now, to, file, &message)?,
            SenderTransmit::Blocks { to: Destination::Group, kind, file, range } => {
                self.multicast(now, kind, file, range)?;
            }
            SenderTransmit::Blocks { to: Destination::Slower(group), kind, file, range } => {
                self.multicast_slowly(now, group, kind, file, range)?;
            }
            SenderTransmit::Blocks { to: Destination::Receiver(receiver), kind, file, range } => {
                self.retransmit(now, receiver, kind, file, range);
            }
            SenderTransmit::Symbols { to, file, source_block, symbols } => {
                self.send_symbols(now, to, file, source_block, symbols)?;
            }
            SenderTransmit::ChunkHashes { to: Destination::Receiver(to), file, pages } => {
                self.send_chunk_hashes(now, to, file, pages);
            }
            SenderTransmit::ChunkHashes { .. } => {}
            SenderTransmit::CloseConnection(receiver) => {
                if let Some(peer) = self.peers.get_mut(&receiver) {
                    peer.closes = true;
                    self.note_ended(receiver);
                }
            }
        }
        Ok(())
    }

    fn send_message(
        &mut self,
        now: Instant,
        to: Destination,
        file: FileId,
        message: &Message,
    ) -> Result<(), SendError> {
        let signed = self.signed(file, message);
        let mut packet = signed.as_ref().unwrap_or(message).to_packet(file);
        match to {
            Destination::Group if self.gather_message(now, &packet)? => {}
            Destination::Group => {
                header::set_number(&mut packet, self.number_packets(now, 0, 1)?);
                let sent = self.group.send_message(now, 0, &self.destinations, &packet)?;
                self.pacer.sent(now, sent);
            }
            Destination::Slower(group) => {
                header::set_number(&mut packet, self.number_packets(now, group, 1)?);
                let sent = self.group.send_message(now, group, &self.destinations, &packet)?;
                self.note_sent_slowly(now, group, sent);
            }
            Destination::Receiver(receiver) => {
                let connection = self.peers.get_mut(&receiver).and_then(|peer| peer.connection.as_mut());
                if let Some(connection) = connection {
                    connection.queue(&packet);
                }
            }
        }
        Ok(())
    }

    fn multicast(
        &mut self,
        now: Instant,
        kind: PacketType,
        file: FileId,
        range: Range<u64>,
    ) -> Result<(), SendError> {
        let first = Header { file_id: file, sequence: range.start, payload_len: 0, kind, number: 0 };
        if self.gather_blocks(now, first, range.clone())? {
            return Ok(());
        }
        let blocks = (range.end - range.start).div_ceil(self.plan.block_len.into());
        let first = Header { number: self.number_packets(now, 0, blocks)?, ..first };
        self.runs += 1;
        match self.sources.read_in_order(file, range.clone()) {
            Ok(run) => {
                let sent =
                    self.group.send_blocks(now, 0, &self.destinations, first, self.plan.block_len, run)?;
                self.pacer.sent(now, sent);
                self.repairs.multicast_sent(sent);
                if sent > 0 {
                    self.note_sent(now, sent, 0);
                }
            }
            Err(error) => {
                self.withdraw(now, file, &error);
                return Ok(());
            }
        }
        self.note_read(now, file, range.end);
        Ok(())
    }

    fn retransmit(
        &mut self,
        now: Instant,
        to: ReceiverId,
        kind: PacketType,
        file: FileId,
        range: Range<u64>,
    ) {
        let Some(peer) = self.peers.get_mut(&to) else { return };
        let Some(connection) = &mut peer.connection else { return };
        let len = (range.end - range.start) as usize;
        let header =
            Header { file_id: file, sequence: range.start, payload_len: len as u32, kind, number: 0 };
        let result = connection.queue_with(HEADER_LEN + len, |packet| {
            packet[..HEADER_LEN].copy_from_slice(&header.to_bytes());
            self.sources.read_any(file, range.start, &mut packet[HEADER_LEN..])
        });
        match result {
            Ok(()) => {
                peer.retransmitted_bytes += len as u64;
                let sent = pacer::tcp_bytes((HEADER_LEN + len) as u64);
                self.note_repaired(now, sent);
            }
            Err(error) => self.withdraw(now, file, &error),
        }
    }

    /// In a secure session, a digest carries the sender's signature.
    fn signed(&mut self, file: FileId, message: &Message) -> Option<Message> {
        let (Message::Digest(digest), Some(signer)) = (message, &mut self.signer) else { return None };
        Some(Message::Digest(signer.sign(file, self.machine.announced(file)?, digest.clone())))
    }

    /// Tells the machine the hash of an object that has been read to its end.
    fn hash_if_read(&mut self, now: Instant, file: FileId) {
        match self.sources.hash(file) {
            Some(Ok(hash)) => self.read_to_end(now, file, hash),
            Some(Err(error)) => self.withdraw(now, file, &error),
            None => {}
        }
    }

    fn withdraw(&mut self, now: Instant, file: FileId, error: &SourceError) {
        let (name, reason) = (self.sources.name(file).to_owned(), error.to_string());
        self.handle(now, SenderInput::Withdraw { file, reason: reason.clone() });
        if self.summary.withdrawn.iter().all(|(other, _)| *other != name) {
            (self.on_event)(SendEvent::Withdrawn { name: name.clone(), reason: reason.clone() });
            if self.summary.withdrawn.len() < MAX_WITHDRAWN {
                self.summary.withdrawn.push((name, reason));
            }
        }
    }

    fn note(&mut self, now: Instant, event: SenderEvent) {
        match event {
            SenderEvent::ReceiverDone { file, receiver, outcome } => {
                let (name, size) = (self.sources.name(file).to_owned(), self.sources.size(file));
                let Some(peer) = self.peers.get_mut(&receiver) else { return };
                match outcome {
                    Outcome::Complete => {
                        peer.objects_complete += 1;
                        peer.complete_bytes += size;
                    }
                    Outcome::NotWanted => {
                        peer.objects_not_wanted += 1;
                        peer.forgone_bytes = peer.forgone_bytes.saturating_add(size);
                    }
                    // Why is told of the object, once for all.
                    Outcome::Failed(_) if self.summary.withdrawn.iter().any(|(other, _)| *other == name) => {
                        let reason = "the sender could not send it to its end".into();
                        peer.fail(&mut self.told_failures, name, size, reason);
                    }
                    Outcome::Failed(reason) => {
                        peer.fail(&mut self.told_failures, name, size, shown(&reason));
                    }
                }
                if peer.standing(self.summary.objects) == Standing::Done {
                    self.note_ended(receiver);
                }
            }
            SenderEvent::FileDone { file, outcomes } => {
                let (name, bytes, is_first) = self.let_go(file);
                self.objects_done += u64::from(is_first);
                self.done_bytes = self.done_bytes.saturating_add(if is_first { bytes } else { 0 });
                self.ended = Some(now);
                let count = |which: Outcome| outcomes.iter().filter(|(_, outcome)| *outcome == which).count();
                let (complete, not_wanted) = (count(Outcome::Complete), count(Outcome::NotWanted));
                (self.on_event)(SendEvent::ObjectDone {
                    name,
                    bytes,
                    complete: complete as u32,
                    not_wanted: not_wanted as u32,
                    failed: (outcomes.len() - complete - not_wanted) as u32,
                });
            }
            SenderEvent::Moved { receiver, group } => self.note_move(receiver, group),
            SenderEvent::FileClosed { file } => {
                self.let_go(file);
                self.ended = Some(now);
            }
            SenderEvent::PutOut { receiver, reason } => self.put_out(receiver, &reason),
            SenderEvent::Started | SenderEvent::Paused | SenderEvent::Looped { .. } => {}
            SenderEvent::Closed => self.closed = true,
        }
    }

    /// Nothing more is sent of an object, unless somebody comes late, to whom a feed's are of no interest.
    fn let_go(&mut self, file: FileId) -> (String, u64, bool) {
        self.encoders.forget(file);
        if let Some(signer) = &mut self.signer {
            signer.forget(file);
        }
        match self.plan.options.feed {
            None => self.sources.finish(file),
            Some(_) => {
                let (name, bytes) = self.sources.remove(file);
                (name, bytes, true)
            }
        }
    }

    fn handle_ready(&mut self, ready: Ready) -> Result<(), SendError> {
        match ready.token {
            LISTENER => self.accept()?,
            FEED => _ = self.feed_waker.take(),
            HASHES => self.take_hashes(),
            ROUTERS => self.hear_routers()?,
            STOP => {}
            // Handshakes cost; the next turn's are as good.
            token if self.lobby.contains(token) && self.admissions >= ADMISSIONS_A_TURN => {}
            token if self.lobby.contains(token) => {
                self.admissions += 1;
                self.admit(token);
            }
            token => self.read(ReceiverId((token - FIRST_CONNECTION) as u32)),
        }
        Ok(())
    }

    fn timeout(&mut self, machine: Option<Instant>) -> Option<Duration> {
        let now = self.clock.now();
        let give_up = Instant::ZERO + self.plan.options.wait_timeout;
        let start = self.started.is_none().then_some(give_up);
        let goes_on = Instant::ZERO + RETURN_TIME;
        let start = start.map(|start| if now < goes_on { start.min(goes_on) } else { start });
        let progress = self.started.is_some().then_some(self.next_progress);
        let deadlines = [machine, start, progress, self.lobby.deadline(), self.unsigned.deadline()];
        deadlines.into_iter().flatten().min().map(|deadline| deadline.saturating_duration_since(now))
    }

    fn finish(mut self, now: Instant) -> SendSummary {
        let (objects, interrupted) = (self.summary.objects, self.summary.interrupted);
        self.peers.values_mut().for_each(|peer| peer.settle(objects, interrupted));
        let mut progress = self.progress(now);
        for (receiver, peer) in progress.receivers.iter_mut().zip(self.peers.values_mut()) {
            receiver.failures = std::mem::take(&mut peer.failures);
        }
        self.summary.progress = progress;
        (self.on_event)(SendEvent::Progress(self.summary.progress.clone()));
        self.summary
    }

    fn interrupt(&mut self) -> Result<Instant, SendError> {
        if self.started.is_none() {
            return Err(SendError::Interrupted);
        }
        let now = self.clock.now();
        // Once connections are closed, nothing is left that could be interrupted.
        let all_done = self.feed.is_none() && self.objects_done == self.summary.objects;
        if all_done && self.peers.values().any(|peer| peer.closes) {
            return Ok(self.ended.unwrap_or(now));
        }
        self.summary.interrupted = true;
        self.say_ended("it was stopped");
        Ok(now)
    }
}
