//! The sender's loop.

mod admission;
mod again;
mod announce;
mod chunk_hashes;
mod config;
mod congestion;
mod connections;
mod fanout;
mod feed;
mod gathered;
mod group_keys;
mod listen;
mod local;
mod manifests;
mod named;
mod open;
mod placing;
mod progress;
mod refusals;
mod reports;
mod ring;
mod slower;
mod start;
mod symbols;
mod unheard;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, TcpListener},
    ops::Range,
    time::Duration,
};

use treecast_host::{
    poller::{Interest, Poller, Ready},
    stop::Stop,
    temporary::TemporaryFolder,
    wake::Waker,
};
use treecast_proto::{
    Instant, Step,
    object::{Destination, Lane, Outcome, ReceiverId, SenderEvent, SenderInput, SenderTransmit},
    repair::Sender,
};
use treecast_wire::{
    header::{self, FileId, HEADER_LEN, Header, PacketNumbers},
    message::{MAX_OBJECTS, Message, Zeros},
};

use group_keys::GroupKeys;
use manifests::Unsigned;
use refusals::Refusals;
use slower::SlowerLane;

pub use self::named::{NamedReceiver, Presence};
use self::{
    congestion::Congestion, fanout::Ways, local::Local, placing::Placing, reports::Reports, ring::Ring,
};
use super::{
    Plan, Rate, Repair, SendError, SendEvent, SendSummary, Standing,
    feed::{End, Feed},
    gather::Gather,
    hashing::Hashing,
    lane::GroupLane,
    lobby::Lobby,
    numbered::Numbered,
    peer::{Peer, shown},
    repair_share::RepairShare,
    session_file::Marks,
    source_table::SourceTable,
};
use crate::{
    clock::Clock,
    discovery::Announcing,
    fec::Encoders,
    files::{NamedSource, SourceError},
    pacer::{self, Pacer},
    security::manifest::Signer,
    zeros::{Stretch, first_stretch, is_zero},
};

/// What the poller's tokens mean: below `FIRST_CONNECTION` one of these, else a connection's number.
const LISTENER: u64 = 0;
const STOP: u64 = 1;
const FEED: u64 = 2;
const HASHES: u64 = 3;
const ROUTERS: u64 = 4;
const AUDIENCE: u64 = 5;
const MEMBERS: u64 = 6;
const FIRST_CONNECTION: u64 = 7;

/// Runs of blocks that leave before connections are looked at again.
const RUNS_A_TURN: usize = 4;

/// The most of the machine's steps between looks at the connections; a run of small objects takes several.
const STEPS_A_TURN: usize = 128;

/// The most objects that could not be sent to their end and are told by name in the end.
const MAX_WITHDRAWN: usize = 1000;
/// Steps of handshakes between runs: each may take 200 us, and strangers may ask for any number.
const ADMISSIONS_A_TURN: usize = 4;

/// The longest time between looks at the host's clock while the start waits for it.
const LOOK_AT_CLOCK: Duration = Duration::from_secs(10);

const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// One session of a sender. Its parts each have one job; this type runs them in turns.
pub(super) struct Session<'a> {
    plan: Plan,
    on_event: &'a mut dyn FnMut(SendEvent),
    clock: Clock,
    poller: Poller,
    machine: Sender,
    /// Who may come in. A carousel's door stays shut.
    door: Option<Door>,
    /// What only a carousel has. `None` in a session with connections.
    ring: Option<Ring>,
    /// What only a session with local groups has. `None` in every other one.
    local: Option<Local>,
    lanes: Lanes,
    objects: Objects,
    peers: BTreeMap<ReceiverId, Peer>,
    /// The receiver whose connection was served last.
    last_served: ReceiverId,
    figures: Figures,
    /// Whether the group's lane may have something new to do.
    has_news: bool,
    closed: bool,
}

/// Who may come in: the control port, and the connections that are no receivers' yet.
struct Door {
    listener: TcpListener,
    lobby: Lobby,
    /// How many of the lobby's connections have been looked at in this turn.
    admissions: usize,
    refusals: Refusals,
    /// The poller's token for the next connection.
    next_token: u64,
}

/// How packets leave: sockets, keys, numbers and rates.
struct Lanes {
    group: GroupLane,
    gather: Gather,
    /// The number of runs of blocks that have left.
    runs: usize,
    /// The keys that connections tell. `None` in a plain session, and in a carousel, whose ticket holds a secret.
    keys: Option<GroupKeys>,
    /// The numbers of the first group's packets. Unicast copies of one packet have one number.
    numbers: PacketNumbers,
    pacer: Pacer,
    /// One lane for each slower group of a session with several rates, fastest first. Empty otherwise.
    slower: Vec<SlowerLane>,
    /// The first group's congestion control. `None` at a rate that was given.
    congestion: Option<Congestion>,
    /// Who belongs into which group. `None` where receivers decide that, or there is one group.
    placing: Option<Placing>,
    repairs: RepairShare,
    /// Bytes of IP packets that leave at once.
    run_bytes: u64,
    /// Who is served by which way. `None` where all are by one.
    ways: Option<Ways>,
    /// Receivers of which the user knows that less fits on the way to them than was to be sent.
    told_narrow: BTreeSet<IpAddr>,
    /// What announces the session on the network. `None` if nobody asks for that.
    announcing: Option<Announcing>,
}

/// What is sent: files, what is known of them, and where more come from.
struct Objects {
    sources: SourceTable,
    encoders: Encoders,
    /// Signs manifests. `None` in a plain session.
    signer: Option<Signer>,
    unsigned: Unsigned,
    /// Where more objects come from. `None` when all are known.
    feed: Option<Feed>,
    /// The folder with the pieces of a stream that are kept for receivers which come late.
    _spool: Option<TemporaryFolder>,
    feed_waker: Waker,
    /// Objects of the feed that are on their way.
    numbered: Numbered,
    /// What goes into the session's file as it goes on. `None` without such a file.
    marks: Option<Marks>,
    /// The thread that hashes objects that are not read in order. `None` where there are none.
    hashing: Option<Hashing>,
}

/// How far the session is.
struct Figures {
    /// When the session began to wait for receivers: with its opening, or when its set time came.
    waits_since: Instant,
    /// When the first packet could leave.
    started: Option<Instant>,
    /// When a feed's session ends at the latest that was told to stop. `None` before that.
    stops_at: Option<Instant>,
    /// When the last object was done.
    ended: Option<Instant>,
    total_bytes: u64,
    /// What an earlier sender of this session has sent to the group.
    before_bytes: u64,
    objects_done: u64,
    /// Total size, in bytes, of the feed's objects that are done.
    done_bytes: u64,
    next_progress: Instant,
    watch: progress::Watch,
    /// How often receivers have gone from one group to another.
    moves: u64,
    /// How many failures of receivers are kept to be told one by one.
    told_failures: usize,
    /// Whether the user knows that nobody heard the group.
    has_told_unheard: bool,
    /// The numbers of the listed receivers that have everything.
    have: BTreeSet<usize>,
    summary: SendSummary,
}

/// Whether a lane wants to be polled again at once, or when.
enum Turn {
    Again,
    Until(Option<Instant>),
}

impl Turn {
    /// What two lanes want together.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Until(one), Self::Until(other)) => Self::Until([one, other].into_iter().flatten().min()),
            _ => Self::Again,
        }
    }
}

impl<'a> Session<'a> {
    pub fn open(plan: Plan, on_event: &'a mut dyn FnMut(SendEvent)) -> Result<Self, SendError> {
        let poller = Poller::new()?;
        let (door, mut control) = Door::open(&plan, &poller)?;
        let clock = Clock::start();
        let local = Local::open(&plan, &poller)?;
        control.extend(local.as_ref().map(|local| local.me().0));
        let reports = Reports::open(&plan, &poller)?;
        control.extend(reports.as_ref().map(Reports::at));
        let keys = plan.identity.as_ref().filter(|_| plan.options.repair.has_connections());
        let keys = keys.map(|_| GroupKeys::draw(clock.now())).transpose()?;
        let objects = Objects::open(&plan, &poller)?;
        let mut session = Self {
            machine: config::machine(&plan, local.as_ref().map(Local::me))?,
            lanes: Lanes::open(&plan, keys, clock.now())?,
            ring: None,
            local,
            figures: Figures {
                waits_since: Instant::ZERO,
                started: None,
                stops_at: None,
                ended: None,
                total_bytes: plan.total_bytes(),
                before_bytes: 0,
                objects_done: 0,
                done_bytes: 0,
                next_progress: clock.now(),
                watch: progress::Watch::default(),
                moves: 0,
                told_failures: 0,
                has_told_unheard: false,
                have: BTreeSet::new(),
                summary: SendSummary { objects: plan.object_count(), ..SendSummary::default() },
            },
            peers: BTreeMap::new(),
            last_served: ReceiverId(0),
            has_news: false,
            closed: false,
            door,
            objects,
            clock,
            poller,
            plan,
            on_event,
        };
        session.open_ways()?;
        session.plan.keep_session(&control)?;
        match session.plan.options.repair {
            Repair::Carousel(_) => session.open_ring(reports)?,
            Repair::Local(_) => session.open_local()?,
            Repair::None | Repair::After | Repair::Nack => session.open_marks()?,
        }
        let ticket = session.plan.ticket(control);
        session.lanes.announcing = announce::start(
            &session.plan,
            &ticket,
            session.figures.summary.objects,
            session.figures.total_bytes,
        )?;
        (session.on_event)(SendEvent::Ready { ticket });
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
        // At `Max` the processors are the limit, and each turn costs some of them.
        if self.plan.options.rate != Rate::Max {
            treecast_host::turns::take_short();
        }
        self.poller.add(stop, STOP, Interest::Read)?;
        self.hash_for_frames(stop)?;
        let (mut ready, mut is_stopping) = (Vec::new(), false);
        loop {
            let now = self.clock.now();
            self.start_if_due(now)?;
            self.look_for_listeners(now)?;
            self.give_up_members(now)?;
            self.look_at_feed(now);
            self.sign_if_due(now);
            // The first packet goes where receivers are by now.
            let turn = self.turn_ways(now);
            let turn = turn.or(self.turn_group(now)?);
            let turn = turn.or(self.turn_slower(now)?);
            let lanes = self.serve_connections(now);
            self.report_progress(now);
            if self.closed {
                // That receivers close their connections is no part of what they waited for.
                return Ok(self.figures.ended.unwrap_or(now));
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
            self.door.iter_mut().for_each(|door| door.admissions = 0);
            for event in ready.drain(..) {
                self.handle_ready(event)?;
            }
            if stop.is_requested() {
                if let Some(ended) = self.interrupt()? {
                    return Ok(ended);
                }
                // It would wake the session all the time until the end.
                if !std::mem::replace(&mut is_stopping, true) {
                    self.poller.remove(stop)?;
                }
            }
        }
    }

    /// API_Send.
    fn send(&mut self, now: Instant, named: NamedSource) -> Result<FileId, SendError> {
        let size = named.source.size();
        let begin = named.begin()?;
        let file = self.machine.send(now, begin).ok_or(SendError::Contents(MAX_OBJECTS as usize + 1))?;
        self.has_news = true;
        self.objects.marks.iter_mut().for_each(|marks| marks.numbered(file.index()));
        self.objects.sources.add(file, named);
        if size == 0 {
            self.hash_if_read(now, file);
        }
        Ok(file)
    }

    fn handle(&mut self, now: Instant, input: SenderInput) {
        self.has_news = true;
        self.machine.handle(now, input);
    }

    /// Carries out what the machine has for the group, as far as the pacer lets it.
    fn turn_group(&mut self, now: Instant) -> Result<Turn, SendError> {
        self.has_news = false;
        let runs = self.lanes.runs + RUNS_A_TURN;
        for _ in 0..STEPS_A_TURN {
            if self.lanes.runs >= runs {
                break;
            }
            self.lanes.group.set_drops(false);
            let (pace, due) = self.tell_and_copy(now, 0)?;
            if let Some(until) = due.or_else(|| self.group_waits(now)) {
                if !self.is_unheard() {
                    return Ok(Turn::Until(pace.into_iter().chain([until]).min()));
                }
                self.lanes.group.set_drops(true);
            }
            if self.send_pending(now, 0)? {
                continue;
            }
            self.take_late_run(now);
            self.take_feed(now);
            match self.machine.poll(now, Lane::Group) {
                Step::Transmit(transmit) => {
                    self.figures.watch.note(now, None);
                    self.transmit(now, transmit)?;
                }
                Step::Event(event) => self.note(now, event),
                Step::Wait(deadline, why) => {
                    self.flush_gathered(now)?;
                    self.sign_before_waiting(now, why);
                    self.figures.watch.note(now, Some(why));
                    self.lanes.repairs.multicast_waits();
                    return Ok(Turn::Until(pace.into_iter().chain(deadline).min()));
                }
            }
        }
        if self.is_unheard() {
            self.lanes.repairs.multicast_waits();
        }
        Ok(Turn::Again)
    }

    /// Until when the group's lane has to wait for the rate, or its socket to rest.
    fn group_waits(&mut self, now: Instant) -> Option<Instant> {
        if let Some(lane) = self.lanes.group.multicast() {
            let (warning, rests_until) = (lane.take_warning(), lane.rests_until(now));
            if let Some(line) = warning {
                (self.on_event)(SendEvent::Warning(line));
            }
            if rests_until.is_some() {
                return rests_until;
            }
        }
        Some(self.lanes.pacer.delay(now, self.lanes.run_bytes))
            .filter(|delay| !delay.is_zero())
            .map(|delay| now + delay)
    }

    /// Tells a group what it should know, and sends the copies of its packets that are due. Returns when there will be more to tell, and
    /// until when copies have to wait for the group's rate.
    fn tell_and_copy(
        &mut self,
        now: Instant,
        group: u8,
    ) -> Result<(Option<Instant>, Option<Instant>), SendError> {
        // Blocks that leave bring the next message nearer, and a message may be copies itself.
        loop {
            let pace = self.tell_pace(now, group)?;
            if !self.lanes.group.has_copies(group) {
                return Ok((pace, None));
            }
            if let Some(until) = self.send_copies_due(now, group) {
                return Ok((pace, Some(until)));
            }
        }
    }

    /// Sends the copies of a group's packets that are due. Returns until when the others have to wait for the group's rate.
    fn send_copies_due(&mut self, now: Instant, group: u8) -> Option<Instant> {
        while let Some(copies) = self.lanes.group.copies(group).filter(|copies| copies.is_busy()) {
            let are_blocks = copies.are_blocks();
            let pacer = match usize::from(group).checked_sub(1) {
                Some(at) => &mut self.lanes.slower.get_mut(at)?.pacer,
                None => &mut self.lanes.pacer,
            };
            let (sent, delay) = copies.send_due(pacer, now);
            // As without copies: who counted messages for the congestion control, too, would have it take its own messages
            // for all that arrives while nothing but retransmissions leaves.
            if are_blocks {
                if group == 0 {
                    self.lanes.repairs.multicast_sent(sent);
                }
                self.note_sent(now, group, sent, 0);
            }
            if let Some(delay) = delay {
                return Some(now + delay);
            }
        }
        None
    }

    fn transmit(&mut self, now: Instant, transmit: SenderTransmit) -> Result<(), SendError> {
        match transmit {
            SenderTransmit::Message { to, file, message } => self.send_message(now, to, file, &message)?,
            SenderTransmit::Blocks { to, kind, file, range } => {
                let first = Header { file_id: file, sequence: range.start, payload_len: 0, kind, number: 0 };
                let len = (range.end - range.start) as usize;
                match to {
                    Destination::Group if self.ring.is_some() => self.turn_over(now, 0, first, len),
                    Destination::Group if self.local.is_some() => self.send_proved(now, first, len)?,
                    Destination::Slower(group) if self.ring.is_some() => {
                        self.turn_over(now, group, first, len);
                    }
                    Destination::Group => self.multicast(now, first, len)?,
                    Destination::Slower(group) => self.multicast_slowly(now, group, first, len)?,
                    Destination::Receiver(receiver) => self.retransmit(now, receiver, first, len),
                    Destination::Local(to) => self.mend_group(now, to, first, len),
                }
            }
            SenderTransmit::Symbols { to, file, source_block, symbols } => {
                self.send_symbols(now, to, file, source_block, symbols)?;
            }
            SenderTransmit::ChunkHashes { to: Destination::Receiver(to), file, pages } => {
                self.send_chunk_hashes(now, to, file, pages);
            }
            SenderTransmit::ChunkHashes { to, file, pages } => {
                for page in pages.filter_map(|page| self.page_to_all(file, page)).collect::<Vec<_>>() {
                    self.send_message(now, to, file, &Message::ChunkHashes(page))?;
                }
            }
            SenderTransmit::CloseConnection(receiver) => {
                if let Some(peer) = self.peers.get_mut(&receiver) {
                    peer.link.closes = true;
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
        let signed = self.signed(to, file, message);
        let mut packet = signed.as_ref().unwrap_or(message).to_packet(file);
        match to {
            Destination::Group if self.gather_message(now, &packet)? => {}
            Destination::Group => {
                header::set_number(&mut packet, self.number_packets(now, 0, 1)?);
                let sent = self.lanes.group.send_message(now, 0, &packet)?;
                self.lanes.pacer.sent(now, sent);
            }
            Destination::Slower(group) => {
                header::set_number(&mut packet, self.number_packets(now, group, 1)?);
                let sent = self.lanes.group.send_message(now, group, &packet)?;
                self.note_sent_slowly(now, group, sent);
            }
            Destination::Receiver(receiver) => {
                let connection = self.peers.get_mut(&receiver).and_then(|peer| peer.link.connection.as_mut());
                if let Some(connection) = connection {
                    connection.queue(&packet);
                }
            }
            Destination::Local(to) => self.local.iter_mut().for_each(|local| local.post.tell(to, &packet)),
        }
        Ok(())
    }

    /// Sends `len` bytes of an object to the group, from where `first` begins.
    pub(super) fn multicast(&mut self, now: Instant, first: Header, len: usize) -> Result<(), SendError> {
        let (file, range) = (first.file_id, first.sequence..first.sequence + len as u64);
        if self.is_unheard() {
            return self.pass_over(now, first, range);
        }
        if self.gather_blocks(now, first, range.clone())? {
            return Ok(());
        }
        self.lanes.runs += 1;
        let mut at = 0;
        while at < len {
            let stretch = match self.objects.sources.read_in_order(file, range.clone()) {
                Ok(run) => first_stretch(run, at, self.plan.block_len.into()),
                Err(error) => {
                    self.withdraw(now, file, &error);
                    return Ok(());
                }
            };
            self.multicast_stretch(now, first, &range, &stretch)?;
            at = stretch.bytes.end;
        }
        if let Err(error) = self.prepare_symbols(file, range.end) {
            self.withdraw(now, file, &error);
            return Ok(());
        }
        self.note_read(now, file, range.end);
        Ok(())
    }

    /// Sends a part of the blocks `range` to the group, which have been read.
    fn multicast_stretch(
        &mut self,
        now: Instant,
        first: Header,
        range: &Range<u64>,
        Stretch { bytes, is_zero }: &Stretch,
    ) -> Result<(), SendError> {
        let (file, sequence) = (first.file_id, range.start + bytes.start as u64);
        if *is_zero {
            return self.send_zeros(now, Destination::Group, file, sequence, bytes.len());
        }
        let blocks = bytes.len().div_ceil(self.plan.block_len.into()) as u64;
        let number = self.number_packets(now, 0, blocks)?;
        // It has just been read, and is still there.
        if let Ok(run) = self.objects.sources.read_in_order(file, range.clone()) {
            let first = Header { sequence, number, ..first };
            let sent = self.lanes.group.send_blocks(now, 0, first, &run[bytes.clone()])?;
            self.note_multicast(now, sent);
        }
        Ok(())
    }

    /// Says that blocks are all zero, in place of sending them.
    pub(super) fn send_zeros(
        &mut self,
        now: Instant,
        to: Destination,
        file: FileId,
        start: u64,
        len: usize,
    ) -> Result<(), SendError> {
        // A run is a super-packet at most, and so never too long.
        let Ok(zeros) = Zeros::new(start..start + len as u64) else { return Ok(()) };
        self.send_message(now, to, file, &Message::Zeros(zeros))
    }

    /// Bytes of IP packets have left for the group, but not those of copies, which leave later.
    fn note_multicast(&mut self, now: Instant, bytes: u64) {
        self.lanes.pacer.sent(now, bytes);
        self.lanes.repairs.multicast_sent(bytes);
        if bytes > 0 {
            self.note_sent(now, 0, bytes, 0);
        }
    }

    fn retransmit(&mut self, now: Instant, to: ReceiverId, first: Header, len: usize) {
        let Some(peer) = self.peers.get_mut(&to) else { return };
        let Some(connection) = &mut peer.link.connection else { return };
        let header = Header { payload_len: len as u32, ..first };
        let result = connection.queue_with(HEADER_LEN + len, |packet| {
            let (head, blocks) = packet.split_at_mut(HEADER_LEN);
            head.copy_from_slice(&header.to_bytes());
            self.objects.sources.read_any(first.file_id, first.sequence, blocks).map_err(Some)?;
            if is_zero(blocks) { Err(None::<SourceError>) } else { Ok(()) }
        });
        let packet_len = match result {
            Ok(()) => HEADER_LEN + len,
            Err(None) => {
                let Ok(zeros) = Zeros::new(first.sequence..first.sequence + len as u64) else { return };
                let packet = Message::Zeros(zeros).to_packet(first.file_id);
                connection.queue(&packet);
                packet.len()
            }
            Err(Some(error)) => return self.withdraw(now, first.file_id, &error),
        };
        peer.tally.retransmitted_bytes += len as u64;
        self.note_repaired(now, to, pacer::tcp_bytes(packet_len as u64));
    }

    /// In a secure session, a digest carries the sender's signature. Without connections, so do words that end something: all
    /// members can seal packets, and no connection would tell. An answer to one receiver repeats a time that the receiver has chosen, and is
    /// not signed: it could be said again to all.
    fn signed(&mut self, to: Destination, file: FileId, message: &Message) -> Option<Message> {
        let signer = self.objects.signer.as_mut()?;
        let Message::Digest(digest) = message else {
            let is_believed = self.plan.options.repair.has_connections();
            let is_answer = matches!((to, message), (Destination::Local(_), Message::Local(_)));
            return if is_believed || is_answer { None } else { signer.sign_word(file, message) };
        };
        Some(Message::Digest(signer.sign(file, self.machine.announced(file)?, digest.clone())))
    }

    /// Tells the machine the hash of an object that has been read to its end.
    fn hash_if_read(&mut self, now: Instant, file: FileId) {
        match self.objects.sources.hash(file) {
            Some(Ok(hash)) => self.read_to_end(now, file, hash),
            Some(Err(error)) => self.withdraw(now, file, &error),
            None => {}
        }
    }

    fn withdraw(&mut self, now: Instant, file: FileId, error: &dyn std::fmt::Display) {
        let (name, reason) = (self.objects.sources.name(file).to_owned(), error.to_string());
        self.settled(self.objects.numbered.number(file), End::Refused);
        self.handle(now, SenderInput::Withdraw { file, reason: reason.clone() });
        if self.figures.summary.withdrawn.iter().all(|(other, _)| *other != name) {
            let number = self.objects.numbered.number(file);
            (self.on_event)(SendEvent::Withdrawn { name: name.clone(), reason: reason.clone(), number });
            if self.figures.summary.withdrawn.len() < MAX_WITHDRAWN {
                self.figures.summary.withdrawn.push((name, reason));
            }
        }
    }

    fn note(&mut self, now: Instant, event: SenderEvent) {
        match event {
            SenderEvent::ReceiverDone { file, receiver, outcome } => self.note_done(file, receiver, outcome),
            SenderEvent::FileDone { file, .. } if self.objects.sources.is_index(file) => {
                _ = self.let_go(file)
            }
            SenderEvent::FileDone { file, outcomes } => {
                let (name, bytes, is_first) = self.let_go(file);
                let number = self.end_of_feed_object(now, file, bytes);
                self.figures.objects_done += u64::from(is_first);
                self.figures.done_bytes =
                    self.figures.done_bytes.saturating_add(if is_first { bytes } else { 0 });
                self.figures.ended = Some(now);
                let count = |which: Outcome| outcomes.iter().filter(|(_, outcome)| *outcome == which).count();
                let members = self.machine.local().map_or(0, |machine| machine.receivers() as usize);
                let (complete, not_wanted) = (count(Outcome::Complete) + members, count(Outcome::NotWanted));
                (self.on_event)(SendEvent::ObjectDone {
                    name,
                    bytes,
                    complete: complete as u32,
                    not_wanted: not_wanted as u32,
                    failed: (outcomes.len() + members - complete - not_wanted) as u32,
                    number,
                });
            }
            SenderEvent::Moved { receiver, group } => self.note_move(now, receiver, group),
            SenderEvent::FileClosed { file } => {
                self.let_go(file);
                self.forget_kept(now);
                self.figures.ended = Some(now);
            }
            SenderEvent::PutOut { receiver, reason } => self.put_out(receiver, &reason),
            SenderEvent::Started if self.local.is_some() => self.note_members(),
            SenderEvent::WantsCopies { receiver, at } => self.send_copies(now, receiver, Some(at)),
            SenderEvent::WantsNoCopies { receiver } => self.send_copies(now, receiver, None),
            SenderEvent::Started | SenderEvent::Paused | SenderEvent::Looped { .. } => {
                self.note_ring(now, &event)
            }
            SenderEvent::Closed => self.closed = true,
        }
    }

    /// A receiver has ended with an object.
    fn note_done(&mut self, file: FileId, receiver: ReceiverId, outcome: Outcome) {
        // A receiver can do without an index.
        if self.objects.sources.is_index(file) {
            return;
        }
        let (name, size) = (self.objects.sources.name(file).to_owned(), self.objects.sources.size(file));
        let Some(peer) = self.peers.get_mut(&receiver) else { return };
        match outcome {
            Outcome::Complete => {
                peer.tally.objects_complete += 1;
                peer.tally.complete_bytes += size;
            }
            Outcome::NotWanted => {
                peer.tally.objects_not_wanted += 1;
                peer.tally.forgone_bytes = peer.tally.forgone_bytes.saturating_add(size);
            }
            // Why is told of the object, once for all.
            Outcome::Failed(_) if self.figures.summary.withdrawn.iter().any(|(other, _)| *other == name) => {
                let reason = "the sender could not send it to its end".into();
                peer.fail(&mut self.figures.told_failures, name, size, reason);
            }
            Outcome::Failed(reason) => {
                peer.fail(&mut self.figures.told_failures, name, size, shown(&reason));
            }
        }
        if peer.standing(self.figures.summary.objects) == Standing::Done {
            self.note_has(receiver);
            self.note_ended(receiver);
        }
    }

    /// Nothing more is sent of an object, unless somebody comes late, to whom a feed's are of no interest.
    fn let_go(&mut self, file: FileId) -> (String, u64, bool) {
        self.objects.encoders.forget(file);
        if let Some(signer) = &mut self.objects.signer {
            signer.forget(file);
        }
        match self.plan.options.feed {
            None => self.objects.sources.finish(file),
            Some(_) if self.machine.announced(file).is_some() => self.objects.sources.finish(file),
            Some(_) => {
                let (name, bytes) = self.objects.sources.remove(file);
                (name, bytes, true)
            }
        }
    }

    fn handle_ready(&mut self, ready: Ready) -> Result<(), SendError> {
        match ready.token {
            LISTENER => self.accept()?,
            FEED => _ = self.objects.feed_waker.take(),
            HASHES => self.take_hashes(),
            ROUTERS => self.hear_routers()?,
            MEMBERS => {
                self.hear_members()?;
                self.hear_reports()?;
            }
            STOP => {}
            // Handshakes cost; the next turn's are as good.
            AUDIENCE => self.ring.iter_mut().for_each(|ring| ring.look_now()),
            token if self.has_in_lobby(token) => self.admit_in_turn(token),
            token => self.read(ReceiverId((token - FIRST_CONNECTION) as u32)),
        }
        Ok(())
    }

    fn timeout(&mut self, machine: Option<Instant>) -> Option<Duration> {
        let now = self.clock.now();
        // The host's clock may be set meanwhile.
        let held_back = self.held_back().map(|left| now + left.min(LOOK_AT_CLOCK));
        let give_up = held_back.unwrap_or(self.figures.waits_since + self.plan.options.wait_timeout);
        let start = self.figures.started.is_none().then_some(give_up);
        let goes_on = self.returned_at();
        let start = start.map(|start| if now < goes_on { start.min(goes_on) } else { start });
        let progress = self.figures.started.is_some().then_some(self.figures.next_progress);
        let lobby = self.door.as_mut().and_then(|door| door.lobby.deadline());
        let audience = self.ring.as_ref().and_then(|ring| ring.deadline(self.figures.started.is_none()));
        let start = start.filter(|_| self.ring.is_none());
        let expiry = self.objects.numbered.deadline();
        let (unsigned, stop) = (self.objects.unsigned.deadline(), self.figures.stops_at);
        let deadlines = [machine, start, progress, lobby, audience, expiry, unsigned, stop];
        deadlines.into_iter().flatten().min().map(|deadline| deadline.saturating_duration_since(now))
    }

    fn finish(mut self, now: Instant) -> SendSummary {
        // The next sender of the session sends what receivers lack that are away.
        let away_since = self.away_since(now);
        self.objects
            .numbered
            .kept_numbers(away_since)
            .for_each(|number| self.settled(Some(number), End::Done));
        self.figures.summary.dropped = self.objects.feed.as_ref().map_or(0, Feed::dropped);
        self.count_deserters();
        self.look_for_named(now);
        if let Some(ring) = &mut self.ring {
            self.figures.summary.named = ring.named(now, self.figures.started);
            ring.leave();
        }
        // What waits of a feed was not sent.
        self.figures.summary.interrupted |= self.figures.stops_at.is_some();
        let (objects, interrupted) = (self.figures.summary.objects, self.figures.summary.interrupted);
        self.peers.values_mut().for_each(|peer| peer.settle(objects, interrupted));
        let mut progress = self.progress(now);
        for (receiver, peer) in progress.receivers.iter_mut().zip(self.peers.values_mut()) {
            receiver.failures = std::mem::take(&mut peer.tally.failures);
        }
        self.figures.summary.progress = progress;
        (self.on_event)(SendEvent::Progress(self.figures.summary.progress.clone()));
        self.figures.summary
    }

    /// Ends the session before its time. Returns when it was over; a carousel still has to say Goodbye.
    fn interrupt(&mut self) -> Result<Option<Instant>, SendError> {
        let now = self.clock.now();
        if self.ring.is_some() {
            self.stop_ring(now);
            return Ok(None);
        }
        if self.figures.started.is_none() && !self.is_of_folder() {
            return Err(SendError::Interrupted);
        }
        if self.is_live() && self.finishes(now) {
            return Ok(None);
        }
        if self.local.is_some() {
            self.say_goodbye(now)?;
        }
        // Once connections are closed, nothing is left that could be interrupted.
        let all_done =
            self.objects.feed.is_none() && self.figures.objects_done == self.figures.summary.objects;
        if all_done && self.peers.values().any(|peer| peer.link.closes) {
            return Ok(Some(self.figures.ended.unwrap_or(now)));
        }
        self.figures.summary.interrupted = true;
        self.say_ended("it was stopped");
        Ok(Some(now))
    }
}
