//! The receiver's loop.

mod backlog;
mod ears;
mod farewell;
mod groups;
mod lifeline;
mod progress;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    ops::Range,
    time::Duration,
};

use treecast_proto::{
    Instant, Step,
    fec::symbol_number,
    object::{Channel, ReceiverEvent, ReceiverInput, ReceiverTransmit, Response},
    tfmcc,
    vcmtp::{Notification, Receiver, ReceiverConfig, Repair},
};
use treecast_wire::{
    header::{FileId, SessionId},
    message::{BeginOfFile, Digest, GroupKey, Message, ObjectKind, PROTOCOL_VERSION, PutOutCode, Welcome},
    ticket,
};

use backlog::Backlog;
use ears::Ears;
use groups::Groups;
use lifeline::Lifeline;

use super::{
    KEEPALIVE, NameFilter, RECEIVE_BUFFER_BYTES, ReceiveError, ReceiveEvent, ReceiveOptions, ReceiveSummary,
    comeback::{Carried, Ended},
    join::Joined,
    outbox::Outbox,
    refusal::Refusal,
};
use crate::{
    clock::{self, Clock},
    connection::{Connection, ConnectionError},
    files::{Ending, Intake, Journal, Leftovers, Report, SmallObjects, SourceBlock, TargetFolder, Task},
    poller::{Interest, Poller, Ready},
    seal::Opener,
    security::manifest::{Judgement, Manifests},
    status::Meter,
    stop::Stop,
    udp::{BATCH_LEN, Collector, Item},
    wake::Waker,
};

const GROUP: u64 = 0;
const CONTROL: u64 = 1;
const STORE: u64 = 2;
const STOP: u64 = 3;

const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// A report goes to the sender at least so often while something is new ...
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// ... or when this share of the receive buffer has come: a quarter of what the sender may run ahead. More
/// reports cost the sender's link: their acknowledgements for 40 receivers were 0.4 % of 100 Mbit/s.
const REPORT_SHARE: usize = 8;

/// The time for the sender's Welcome, which may be lost several times.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct Session<'a> {
    on_event: &'a mut dyn FnMut(ReceiveEvent),
    clock: Clock,
    /// When what is being dealt with began: asking the clock at each of a small object's steps would cost as much as one of them.
    now: Instant,
    poller: Poller,
    collector: Collector,
    /// What has come where; none where there is one way only.
    ears: Option<Ears>,
    /// None once it is closed.
    connection: Option<Connection>,
    lifeline: Lifeline,
    sender: SocketAddr,
    /// Messages for the sender that the connection has not been given yet.
    outbox: Outbox,
    waits_for_room: bool,
    /// To be closed when all output is written.
    closes: bool,
    /// The sender has said Goodbye, and listens no more.
    is_over: bool,
    backlog: Backlog,
    refusal: Refusal,
    block_len: u16,
    session: SessionId,
    is_welcome: bool,
    machine: Receiver,
    folder: TargetFolder,
    /// What an earlier receiver has left.
    leftovers: Leftovers,
    /// Objects for which there was no room.
    cramped: BTreeSet<FileId>,
    congestion: tfmcc::Receiver,
    groups: Groups,
    intake: Intake,
    small: SmallObjects,
    store_waker: Waker,
    only: Option<NameFilter>,
    /// Objects that it does not accept.
    not_wanted: BTreeSet<FileId>,
    begins: BTreeMap<FileId, BeginOfFile>,
    /// None in a plain session.
    manifests: Option<Manifests>,
    /// Objects announced anew, whose digests may wait for that.
    announced: Vec<FileId>,
    announced_bytes: u64,
    retransmitted_bytes: u64,
    kept_bytes: u64,
    malformed: u64,
    dropped: u64,
    disk_wait_ms: u64,
    next_progress: Instant,
    meter: Meter<4>,
    /// Requests for retransmissions, and bytes of objects that failed.
    requests: u64,
    failed_bytes: u64,
    summary: ReceiveSummary,
    /// From earlier connections; its objects are added to.
    carried: Carried,
    /// Whether it comes back when the connection breaks ...
    comes_back: bool,
    /// ... and what fails unless it does.
    failing: Vec<(FileId, String, String)>,
    /// Since when something waits for room on the disk; none when nothing does.
    full_since: Option<Instant>,
    /// It has ended because its time is up.
    is_time_up: bool,
    closed: bool,
}

impl<'a> Session<'a> {
    pub fn open(
        options: &ReceiveOptions,
        folder: TargetFolder,
        (journal, leftovers): (Journal, Leftovers),
        joined: Joined,
        mut carried: Carried,
        on_event: &'a mut dyn FnMut(ReceiveEvent),
    ) -> Result<Self, ReceiveError> {
        let ticket = &options.ticket;
        let poller = Poller::new()?;
        let opener = ticket.security.as_ref().map(|_| Opener::for_group());
        let collector = Collector::new(joined.socket, options.offload, ticket.block_len, opener)?;
        let store_waker = Waker::new()?;
        let spare = joined.group_socket.map(|socket| collector.prepare(socket)).transpose()?;
        let ears = ticket.fanout.chooses().then(|| Ears::new(spare));
        if collector.can_read() {
            poller.add(collector.socket(), GROUP, Interest::Read)?;
            ears.iter().try_for_each(|ears| ears.add_to(&poller))?;
        }
        poller.add(&joined.connection, CONTROL, Interest::Read)?;
        poller.add(&store_waker, STORE, Interest::Read)?;
        let clock = Clock::start();
        let small = SmallObjects::resuming(&journal, &leftovers);
        let intake = Intake::start(folder.clone(), journal, store_waker.clone(), small.buffers())?;
        let mut session = Self {
            on_event,
            poller,
            collector,
            ears,
            lifeline: Lifeline::new(joined.connection.local()),
            sender: joined.connection.peer(),
            connection: Some(joined.connection),
            outbox: Outbox::default(),
            waits_for_room: false,
            closes: false,
            is_over: false,
            backlog: Backlog::default(),
            refusal: Refusal::new(options),
            block_len: ticket.block_len,
            session: ticket.session,
            is_welcome: false,
            machine: Receiver::new(ReceiverConfig {
                resumes: !leftovers.is_empty() || small.has_left(),
                ..machine_config(options, joined.buffer_bytes)
            }),
            folder,
            leftovers,
            cramped: BTreeSet::new(),
            congestion: tfmcc::Receiver::new(clock::seed()),
            groups: Groups::new(ticket, joined.interface, joined.membership_time),
            intake,
            small,
            store_waker,
            only: options.only.clone(),
            not_wanted: BTreeSet::new(),
            begins: BTreeMap::new(),
            manifests: joined.sender_key.map(Manifests::new),
            announced: Vec::new(),
            announced_bytes: 0,
            retransmitted_bytes: 0,
            kept_bytes: 0,
            malformed: 0,
            dropped: 0,
            disk_wait_ms: 0,
            next_progress: clock.now(),
            meter: Meter::default(),
            requests: 0,
            failed_bytes: 0,
            summary: std::mem::take(&mut carried.summary),
            carried,
            comes_back: !options.reconnect.is_zero(),
            failing: Vec::new(),
            full_since: None,
            is_time_up: false,
            closed: false,
            now: clock.now(),
            clock,
        };
        session.machine.handle(clock.now(), ReceiverInput::Connected);
        Ok(session)
    }

    pub fn run(mut self, stop: &Stop) -> Result<Ended, ReceiveError> {
        match self.take_part(stop) {
            Ok(()) => Ok(self.finish()),
            Err(error) => {
                // Who has come again tries once more.
                if !self.carried.has_come_back {
                    self.say_farewell(&error.to_string());
                }
                Err(error)
            }
        }
    }

    /// Returns when the session is over for this receiver.
    fn take_part(&mut self, stop: &Stop) -> Result<(), ReceiveError> {
        self.poller.add(stop, STOP, Interest::Read)?;
        let mut ready = Vec::new();
        // What the connection holds already wakes nobody.
        self.receive_control()?;
        let mut deadline = self.settle_all();
        loop {
            self.intake.hand_over(self.clock.now(), false);
            self.flush()?;
            if self.closed {
                return Ok(());
            }
            (self.on_event)(ReceiveEvent::Idle);
            self.poller.wait(self.timeout(deadline), &mut ready)?;
            // The group first: what is announced on the connection may lie in the group's socket still.
            ready.sort_unstable_by_key(|event| event.token);
            if ready.iter().all(|event| event.token != GROUP) {
                // The last batch was full, and nothing has come since.
                let has_all = self.backlog.note(self.backlog.is_asked(), None);
                self.note_drained(has_all);
            }
            for event in ready.drain(..) {
                self.handle_ready(event)?;
            }
            self.move_if_due()?;
            self.listen_if_asked()?;
            deadline = self.settle_all();
            self.report_progress();
            if stop.is_requested() || self.summary.limit.is_some() {
                match stop.is_time_up() {
                    true => self.run_out_of_time(),
                    false => {
                        self.stop();
                        return Ok(());
                    }
                }
            }
            if !self.is_welcome && self.clock.now() > Instant::ZERO + WELCOME_TIMEOUT {
                return Err(ReceiveError::Dropped("no answer".into()));
            }
        }
    }

    /// Ends the session before the sender does.
    fn stop(&mut self) {
        self.summary.interrupted = true;
        // What is right has its name in the end, and a folder that files are in its mode.
        self.take_reports();
        let reason = self.summary.why_stopped();
        self.say_farewell(&reason);
        self.handle(ReceiverInput::Close { reason }, None);
        self.intake.hand_over(self.clock.now(), true);
    }

    /// Ends the session as if its connection had broken for good: what is whole is checked, and the rest stays.
    fn run_out_of_time(&mut self) {
        if !std::mem::replace(&mut self.is_time_up, true) {
            let reason = "the receiver's time is up".to_owned();
            self.comes_back = false;
            self.say_farewell(&reason);
            self.handle(ReceiverInput::Disconnected { reason }, None);
        }
    }

    fn handle_ready(&mut self, ready: Ready) -> Result<(), ReceiveError> {
        match ready.token {
            GROUP => _ = self.receive_group()?,
            // What is announced there may lie in the group's socket still.
            CONTROL if ready.readable && (self.backlog.gives_way() || self.small.are_many()) => {
                self.receive_control()?;
            }
            STORE => self.take_reports(),
            _ => {}
        }
        Ok(())
    }

    /// Takes a batch from the group's socket, or sockets; what is left makes the poller return at once. Returns how much
    /// was taken where something is left.
    fn receive_group(&mut self) -> Result<Option<u64>, ReceiveError> {
        let was_asked = self.backlog.is_asked();
        let mut left = self.receive_batch()?;
        if self.ears.is_some() {
            left = [left, self.receive_spare()?].into_iter().flatten().min();
        }
        let has_all = self.backlog.note(was_asked, left);
        self.note_drained(has_all);
        self.note_disk_wait();
        Ok(left)
    }

    /// Takes a batch from one socket. Returns how many bytes that were, or none when nothing is left there.
    fn receive_batch(&mut self) -> Result<Option<u64>, ReceiveError> {
        let before = self.collector.taken();
        let (mut is_empty, mut taken) = (false, 0);
        // Garbage fills no batch.
        while !is_empty
            && taken < BATCH_LEN as u64
            && !self.intake.is_filled()
            && self.collector.fits(self.intake.batch())
        {
            is_empty = !self.collector.receive(self.intake.batch())?;
            taken = self.collector.taken() - before;
        }
        let dropped = self.collector.dropped();
        if dropped != self.dropped {
            self.dropped = dropped;
            self.handle(ReceiverInput::Dropped { total: dropped }, None);
        }
        self.process(Channel::Group);
        Ok((!is_empty).then_some(taken))
    }

    fn note_drained(&mut self, is_drained: bool) {
        if is_drained {
            self.handle(ReceiverInput::Drained, None);
        }
    }

    fn note_disk_wait(&mut self) {
        let total_ms = u64::try_from(self.intake.disk_wait().as_millis()).unwrap_or(u64::MAX);
        if total_ms != self.disk_wait_ms {
            self.disk_wait_ms = total_ms;
            self.handle(ReceiverInput::DiskWaited { total_ms }, None);
        }
    }

    fn receive_control(&mut self) -> Result<(), ReceiveError> {
        let Some(mut connection) = self.connection.take() else { return Ok(()) };
        match self.take_packets(&mut connection) {
            Ok(Ok(())) => self.connection = Some(connection),
            Ok(Err(ConnectionError::Protocol(error))) if !self.is_welcome => {
                return Err(ReceiveError::OtherVersion(error));
            }
            Ok(Err(error)) if !self.is_welcome => return Err(ReceiveError::Dropped(error.to_string())),
            // Without its Goodbye, nobody knows whether the sender had more.
            Ok(Err(error)) => self.handle(ReceiverInput::Disconnected { reason: error.to_string() }, None),
            Err(error) => {
                // The sender is told.
                self.connection = Some(connection);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes what has come over the connection, and returns how that is. What makes this receiver end is the outer error.
    fn take_packets(
        &mut self,
        connection: &mut Connection,
    ) -> Result<Result<(), ConnectionError>, ReceiveError> {
        // What came before its end counts.
        let read = connection.read();
        self.note_read(matches!(read, Ok(true)));
        let end = read.err();
        let mut result = Ok(());
        while result.is_ok() {
            match connection.next_packet() {
                Ok(Some((header, payload))) if header.kind.is_block() => {
                    if self.intake.is_filled() || self.intake.batch().room() < payload.len() {
                        self.process(Channel::Control);
                        self.intake.hand_over(self.clock.now(), true);
                    }
                    self.retransmitted_bytes += payload.len() as u64;
                    self.intake.batch().push_payload(&header, payload);
                }
                Ok(Some((header, payload))) => match Message::parse(&header, payload) {
                    Ok(message) => {
                        // What came before it counts first. Messages alone are dealt with together in the end: each
                        // of a row of digests makes a file.
                        if !self.intake.batch().is_empty() {
                            self.process(Channel::Control);
                        }
                        self.control_message(header.file_id, message)?;
                    }
                    Err(error) => result = Err(error.into()),
                },
                Ok(None) => break,
                Err(error) => result = Err(error),
            }
        }
        self.process(Channel::Control);
        Ok(result.and(end.map_or(Ok(()), Err)))
    }

    fn control_message(&mut self, file: FileId, message: Message) -> Result<(), ReceiveError> {
        if let Message::Welcome(welcome) = message {
            self.admitted(file, welcome)?;
        }
        if let Message::GroupKey(key) = message {
            return self.take_key(&key);
        }
        if let Message::Offer(begin) = &message {
            if !self.wants(file, begin.file_name()) {
                self.outbox.push(file, Message::NotWanted);
            }
            return Ok(());
        }
        if let Message::PutOut(word) = &message {
            if !self.is_welcome {
                return Err(ReceiveError::NotAdmitted(self.refusal.line(word)));
            }
            self.comes_back &= word.code == PutOutCode::Stalled;
            self.summary.has_ended = word.code == PutOutCode::Ended;
        }
        // What it has now is the end: the sender waits for this side to close.
        let is_over = matches!(message, Message::Goodbye | Message::PutOut(_));
        self.is_over |= is_over;
        self.closes |= is_over;
        let Some(message) = self.judged(file, message) else { return Ok(()) };
        let confirmed = match &message {
            Message::BeginOfFile(begin) => Some(begin.clone()),
            _ => None,
        };
        self.handle(ReceiverInput::Message { from: Channel::Control, file, message }, None);
        if confirmed.is_some() && self.manifests.as_mut().is_some_and(|manifests| manifests.forget(file)) {
            // What the sender has announced does not go with what it has signed.
            self.malformed += 1;
        }
        if let Some(begin) = confirmed
            && self.begins.get(&file) == Some(&begin)
            && !self.small.has(file)
        {
            self.add(Task::Reserve { file, size: begin.file_size });
        }
        Ok(())
    }

    /// The sender has admitted this receiver, to a session that should be the ticket's.
    fn admitted(&mut self, file: FileId, welcome: Welcome) -> Result<(), ReceiveError> {
        if welcome.version != PROTOCOL_VERSION || welcome.block_len != self.block_len {
            let line = format!(
                "it speaks version {} with blocks of {} bytes, and the ticket says {PROTOCOL_VERSION} and {}: \
                 install the same version of treecast on both hosts, and ask for the ticket anew",
                welcome.version, welcome.block_len, self.block_len
            );
            return Err(ReceiveError::NotAdmitted(line));
        }
        if file.session() != self.session {
            let line = "another session is held there now: ask for its ticket".to_owned();
            return Err(ReceiveError::NotAdmitted(line));
        }
        if !self.is_welcome {
            let interface = self.groups.interface_name().to_owned();
            (self.on_event)(ReceiveEvent::Joined { sender: self.sender, interface });
            if self.only.is_some() {
                self.outbox.push(FileId::new(self.session, 0), Message::NamesRequest);
            }
        }
        self.is_welcome = true;
        self.congestion.handle(self.clock.now(), tfmcc::ReceiverInput::Named(welcome.receiver));
        Ok(())
    }

    /// In a secure session a digest counts only with the sender's signature of what has been announced. One that is early
    /// waits, and says for now that the object is out.
    fn judged(&mut self, file: FileId, message: Message) -> Option<Message> {
        let (Message::Digest(digest), Some(manifests)) = (&message, &mut self.manifests) else {
            return Some(message);
        };
        match manifests.judge(file, self.begins.get(&file), digest) {
            Judgement::Right => Some(message),
            Judgement::Early => Some(Message::EndOfFile),
            Judgement::Doubtful => {
                self.outbox.push(file, Message::BeginOfFileRequest);
                Some(Message::EndOfFile)
            }
            Judgement::Unsigned => {
                self.malformed += 1;
                None
            }
        }
    }

    /// Whether a digest from the group is the sender's, of what has been announced. That is told over the connection, too.
    fn is_right(&mut self, file: FileId, digest: &Digest) -> bool {
        let begin = self.begins.get(&file);
        self.manifests
            .as_mut()
            .zip(begin)
            .is_some_and(|(manifests, begin)| manifests.is_right(file, begin, digest))
    }

    /// Hands the machine the digests that have waited for an announcement.
    fn release_digests(&mut self) {
        while let Some(file) = self.announced.pop() {
            let (Some(manifests), Some(begin)) = (&mut self.manifests, self.begins.get(&file)) else {
                continue;
            };
            if let Some(digest) = manifests.release(file, begin) {
                let message = Message::Digest(digest);
                let input = ReceiverInput::Message { from: Channel::Control, file, message };
                self.machine.handle(self.now, input);
                self.settle(None);
            }
        }
    }

    /// From the first key on, the group's packets can be read; until then they wait in the socket's buffer.
    fn take_key(&mut self, key: &GroupKey) -> Result<(), ReceiveError> {
        let could_read = self.collector.can_read();
        if let Some(opener) = self.collector.opener() {
            opener.add(key);
        }
        if !could_read && self.collector.can_read() {
            self.poller.add(self.collector.socket(), GROUP, Interest::Read)?;
            self.ears.iter().try_for_each(|ears| ears.add_to(&self.poller))?;
        }
        Ok(())
    }

    fn take_reports(&mut self) {
        self.store_waker.take();
        while let Some(report) = self.intake.report() {
            let input = match report {
                Report::Hashed { file, hash } => ReceiverInput::Hashed { file, hash },
                Report::Checked { file, page, wrong } => ReceiverInput::Checked { file, page, wrong },
                Report::Committed { file } => ReceiverInput::Committed { file },
                Report::Decoded { file, source_block, is_right } => {
                    ReceiverInput::Decoded { file, source_block, is_right }
                }
                Report::Refused { file, begin, reason, is_full } => {
                    if is_full {
                        self.cramped.insert(file);
                    }
                    ReceiverInput::AnnouncementRefused { file, begin, reason }
                }
                Report::Failed { file, reason } => ReceiverInput::StoreFailed { file, reason },
                Report::Lost { file, ranges } => {
                    self.small.leave_to_store(file);
                    ReceiverInput::Lost { file, ranges }
                }
                Report::Full { shortage } => {
                    self.full_since = Some(self.clock.now());
                    (self.on_event)(ReceiveEvent::Full(shortage));
                    continue;
                }
                Report::Room => {
                    self.full_since = None;
                    (self.on_event)(ReceiveEvent::Room);
                    continue;
                }
            };
            self.handle(input, None);
        }
    }

    /// Hands everything new in the batch to the machine, and what the machine keeps of it to the intake.
    fn process(&mut self, from: Channel) {
        let batch = self.intake.batch();
        self.malformed += batch.take_malformed();
        let (arrivals, mut items) = (batch.take_arrivals(), batch.take_items());
        let now = self.clock.now();
        let session = self.session;
        for (_, packets) in arrivals.into_iter().filter(|(of, _)| *of == session) {
            let Some(packets) = self.new_of(from, packets) else { continue };
            self.congestion.handle(now, tfmcc::ReceiverInput::Packets(packets));
            self.note_arrived(now, packets);
        }
        for item in items.drain(..) {
            match item {
                Item::Message { file, message: Message::Pace(pace) } => {
                    if from == Channel::Group && file.session() == self.session {
                        self.congestion.handle(now, tfmcc::ReceiverInput::Pace(pace));
                    }
                }
                Item::Message { file, message: Message::Digest(digest) } if !self.is_right(file, &digest) => {
                }
                Item::Message { file, message } => {
                    self.handle(ReceiverInput::Message { from, file, message }, None);
                }
                Item::Symbols { file, positions, at } => {
                    let input = ReceiverInput::Symbols { from, file, positions: positions.clone() };
                    self.handle(input, Some((positions, at)));
                }
                Item::Blocks { file, range, at } => {
                    let input = ReceiverInput::Blocks { from, file, range: range.clone() };
                    self.handle(input, Some((range, at)));
                }
            }
        }
        self.intake.batch().take_back(items);
        self.small.note();
        let is_full = !self.collector.fits(self.intake.batch());
        self.intake.hand_over(self.clock.now(), is_full);
    }

    fn handle(&mut self, input: ReceiverInput, blocks: Option<(Range<u64>, usize)>) {
        self.now = self.clock.now();
        self.machine.handle(self.now, input);
        self.settle(blocks);
        self.release_digests();
    }

    /// As [`Session::settle`], for both machines.
    fn settle_all(&mut self) -> Option<Instant> {
        let now = self.clock.now();
        self.now = now;
        let deadline = self.settle(None);
        self.tell_heard(now);
        loop {
            match self.congestion.poll(now) {
                Step::Transmit(_) if self.is_over => {}
                Step::Transmit(report) => {
                    self.outbox.push(FileId::new(self.session, 0), Message::PaceReport(report));
                }
                Step::Wait(reports, _) => return deadline.into_iter().chain(reports).min(),
            }
        }
    }

    /// Carries out all that the machine wants. `blocks` are those just handled: their positions, and where in
    /// the batch they lie. Returns when it wants to be asked again.
    fn settle(&mut self, blocks: Option<(Range<u64>, usize)>) -> Option<Instant> {
        loop {
            match self.machine.poll(self.now) {
                Step::Transmit(transmit) => self.carry_out(transmit, blocks.as_ref()),
                Step::Event(event) => self.note(event),
                Step::Wait(deadline, _) => return deadline,
            }
        }
    }

    fn carry_out(&mut self, transmit: ReceiverTransmit, blocks: Option<&(Range<u64>, usize)>) {
        match transmit {
            ReceiverTransmit::Message { .. } if self.is_over => {}
            ReceiverTransmit::Message { file, message } => {
                self.requests += u64::from(matches!(message, Message::RetransmissionRequest(_)));
                self.outbox.push(file, message);
            }
            ReceiverTransmit::Announce { file, begin } => {
                let (name, bytes) = (begin.file_name().to_owned(), begin.file_size);
                let before = self.begins.insert(file, begin.clone()).map_or(0, |before| before.file_size);
                self.announced_bytes = self.announced_bytes.saturating_sub(before).saturating_add(bytes);
                if let Err(reason) = self.carried.admission.admit(file.index(), &begin) {
                    let refused = ReceiverInput::AnnouncementRefused { file, begin, reason };
                    return self.machine.handle(self.now, refused);
                }
                if self.carried.announced.insert(file.index()) {
                    (self.on_event)(ReceiveEvent::Announced { name, bytes });
                }
                self.announce(file, begin);
                if self.manifests.is_some() {
                    self.announced.push(file);
                }
            }
            ReceiverTransmit::Store { file, range } | ReceiverTransmit::Overwrite { file, range } => {
                if let Some((all, at)) = blocks {
                    let at = at + (range.start - all.start) as usize;
                    self.keep(file, range, at);
                }
            }
            ReceiverTransmit::KeepSymbols { file, source_block, positions } => {
                if let Some((all, at)) = blocks {
                    let at = at + (positions.start - all.start) as usize;
                    let len = (positions.end - positions.start) as usize;
                    let (first, symbol_len) =
                        (symbol_number(positions.start, self.block_len), self.block_len);
                    self.small.hand_over(file).into_iter().for_each(|task| self.add(task));
                    self.add(Task::KeepSymbols { file, source_block, first, symbol_len, at, len });
                }
            }
            ReceiverTransmit::Decode { file, source_block: number, blocks, missing } => {
                let source_block = SourceBlock { number, blocks, symbol_len: self.block_len, missing };
                self.add(Task::Decode { file, source_block });
            }
            ReceiverTransmit::ForgetSymbols { file } => self.add(Task::ForgetSymbols { file }),
            ReceiverTransmit::Hash { file } => match self.small.hash(file) {
                Some(hash) => self.machine.handle(self.now, ReceiverInput::Hashed { file, hash }),
                None => self.add(Task::Hash { file }),
            },
            ReceiverTransmit::CheckChunks { file, hash, page } => {
                self.add(Task::CheckChunks { file, hash, page });
            }
            ReceiverTransmit::Commit { file } => {
                let whole = self.small.take(file).map(Box::new);
                self.add(whole.map_or(Task::Commit { file }, |whole| Task::Make { file, whole }));
            }
            // It may be gone on with later.
            ReceiverTransmit::Discard { .. } if self.machine.is_cut_short() => {}
            ReceiverTransmit::Discard { file } => {
                // Of one that is not announced, nothing has been taken from there.
                if self.begins.contains_key(&file) && !self.cramped.contains(&file) {
                    self.leftovers.forget(file);
                }
                self.carried.admission.give_back(file.index());
                if !self.small.discard(file) {
                    self.add(Task::Discard { file });
                }
            }
            ReceiverTransmit::DrainGroup => self.backlog.ask(),
            ReceiverTransmit::Listen => self.lifeline.listen(),
            ReceiverTransmit::CloseConnection => self.closes = true,
        }
    }

    /// Has an object stored, on top of what is there of it from before.
    fn announce(&mut self, file: FileId, begin: BeginOfFile) {
        let kept = self.leftovers.kept(&self.folder, file, &begin);
        let mut ranges = kept.ranges(begin.file_size);
        for task in self.small.announce(file, begin, kept) {
            self.add(task);
        }
        ranges.extend(self.small.restore(file));
        let before = self.machine.received_bytes();
        self.machine.handle(self.now, ReceiverInput::Have { file, ranges });
        self.kept_bytes += self.machine.received_bytes().saturating_sub(before);
    }

    /// Keeps bytes that lie at `at` in the batch.
    fn keep(&mut self, file: FileId, range: Range<u64>, at: usize) {
        let bytes = &self.intake.batch().bytes()[at..at + (range.end - range.start) as usize];
        if !self.small.keep(file, range.start, bytes) {
            self.add(Task::Keep { file, range, at });
        }
    }

    fn add(&mut self, task: Task) {
        self.intake.add(self.now, task);
    }

    fn note(&mut self, event: ReceiverEvent) {
        match event {
            ReceiverEvent::Announced { file, begin } => {
                let response = self.response(file, &begin);
                self.machine.handle(self.now, ReceiverInput::Respond { file, response });
            }
            // Its name is not known yet; once it is, the machine asks again.
            ReceiverEvent::EndOfFileOnly { file } => {
                let input = ReceiverInput::Respond { file, response: Response::Accept };
                self.machine.handle(self.now, input);
            }
            ReceiverEvent::Received { file, begin } => {
                self.forget(file);
                let (name, kind, bytes) = (begin.file_name().to_owned(), begin.kind(), begin.file_size);
                self.note_received(file, name, kind, bytes);
            }
            ReceiverEvent::Failed { file, reason } => self.note_failed(file, reason),
            ReceiverEvent::CalledBack { group } => self.called_back(group),
            ReceiverEvent::Closed { reason } => {
                self.summary.cut_short = reason.map(|reason| reason.to_string());
                self.closed = true;
            }
        }
    }

    /// Whether an object has a name that is wanted. One that has not is counted and told once.
    fn wants(&mut self, file: FileId, name: &str) -> bool {
        let wanted = self.only.as_ref().is_none_or(|only| only.accepts(name));
        if !wanted && self.not_wanted.insert(file) {
            (self.on_event)(ReceiveEvent::Ignored { name: name.to_owned(), exists: false });
        }
        wanted
    }

    /// Whether an object is wanted.
    fn response(&mut self, file: FileId, begin: &BeginOfFile) -> Response {
        let name = begin.file_name();
        let wanted = self.wants(file, name);
        let kept = self.leftovers.kept(&self.folder, file, begin);
        let exists = wanted && self.carried.admission.is_kept_out(&self.folder, file.index(), begin, &kept);
        if wanted && !exists {
            return Response::Accept;
        }
        self.small.forget_left(file);
        if exists {
            (self.on_event)(ReceiveEvent::Ignored { name: name.to_owned(), exists });
        }
        Response::Ignore
    }

    fn note_failed(&mut self, file: FileId, reason: String) {
        self.summary.limit = self.summary.limit.or(self.carried.admission.limit(file.index()));
        let begin = self.forget(file);
        if begin.is_none()
            && let Some((name, kind, bytes)) = self.leftovers.whole(&self.folder, file)
        {
            // It was done before this receiver came again, which has it.
            return self.note_received(file, name, kind, bytes);
        }
        if self.carried.ended.get(&file.index()) == Some(&true) {
            return;
        }
        self.failed_bytes += begin.as_ref().map_or(0, |begin| begin.file_size);
        let name = begin.map(|begin| begin.file_name().to_owned());
        let name = name.unwrap_or_else(|| format!("file {}", file.index()));
        if self.machine.is_cut_short() && self.comes_back {
            return self.failing.push((file, name, reason));
        }
        if self.carried.ended.insert(file.index(), false).is_none() {
            self.summary.failed += 1;
        }
        (self.on_event)(ReceiveEvent::Failed { name, reason });
    }

    /// The object is there: it is told and counted once, over however many connections.
    fn note_received(&mut self, file: FileId, name: String, kind: ObjectKind, bytes: u64) {
        let before = self.carried.ended.insert(file.index(), true);
        if before == Some(false) {
            self.summary.failed -= 1;
        }
        if before != Some(true) {
            let event = self.summary.note_received(name, kind, bytes);
            (self.on_event)(event);
        }
    }

    /// The object has ended here. Returns what it was announced as.
    fn forget(&mut self, file: FileId) -> Option<BeginOfFile> {
        if let Some(manifests) = &mut self.manifests {
            manifests.forget(file);
        }
        self.small.discard(file);
        self.begins.remove(&file)
    }

    /// Writes what is queued for the sender.
    fn flush(&mut self) -> Result<(), ReceiveError> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let mut all_written = true;
        while all_written {
            while connection.has_room()
                && let Some((file, message)) = self.outbox.pop()
            {
                connection.queue(&message.to_packet(file));
            }
            if !connection.has_output() {
                break;
            }
            all_written = connection.flush().unwrap_or_else(|_| {
                // Reading tells the same, and what came before the end counts.
                connection.discard_output();
                true
            });
        }
        if self.outbox.is_stuck() {
            self.connection = None;
            let reason = "it reads nothing of what it is told".to_owned();
            self.handle(ReceiverInput::Disconnected { reason }, None);
            return Ok(());
        }
        if all_written && self.closes {
            connection.finish();
            self.connection = None;
        } else if self.waits_for_room == all_written {
            self.waits_for_room = !all_written;
            let interest = if all_written { Interest::Read } else { Interest::ReadWrite };
            self.poller.modify(connection, CONTROL, interest)?;
        }
        Ok(())
    }

    fn timeout(&self, machine: Option<Instant>) -> Option<Duration> {
        if self.backlog.is_asked() || self.lifeline.is_listening() {
            return Some(Duration::ZERO);
        }
        let now = self.clock.now();
        let welcome = (!self.is_welcome).then_some(Instant::ZERO + WELCOME_TIMEOUT);
        let heard = self.ears.as_ref().and_then(Ears::deadline);
        let deadlines = [
            machine,
            Some(self.next_progress),
            welcome,
            self.intake.deadline(),
            self.groups.moves_at(),
            heard,
        ];
        deadlines.into_iter().flatten().min().map(|deadline| deadline.saturating_duration_since(now))
    }

    fn finish(mut self) -> Ended {
        let ending = match &self.summary {
            // One that was never admitted leaves to the next what an earlier one has left.
            ReceiveSummary { interrupted: true, .. } if !self.is_welcome => Ending::CutShort,
            ReceiveSummary { interrupted: true, .. } => Ending::Interrupted,
            ReceiveSummary { cut_short: Some(_), has_ended: false, .. } => Ending::CutShort,
            _ => Ending::Over,
        };
        if ending == Ending::CutShort {
            self.small.spill().into_iter().for_each(|task| self.add(task));
            self.intake.hand_over(self.clock.now(), true);
        }
        if let Some(warning) = self.intake.end(ending) {
            (self.on_event)(ReceiveEvent::Warning(warning));
        }
        self.summary.progress = self.progress(self.clock.now());
        // Over another connection, most were told of before.
        self.summary.not_wanted = self.summary.not_wanted.max(self.not_wanted.len() as u64);
        self.summary.existing = self.carried.admission.existing();
        if let Some(reason) = self.summary.cut_short.take_if(|_| self.comes_back) {
            let reason = format!("the sender at {}: {reason}", self.sender);
            let Self { mut carried, summary, failing, .. } = self;
            carried.has_come_back = true;
            carried.progress = summary.progress;
            carried.summary = summary;
            return Ended::Broken { carried: Box::new(carried), reason, failing };
        }
        (self.on_event)(ReceiveEvent::Progress(self.summary.progress));
        if let Some(reason) = &self.summary.cut_short {
            self.summary.cut_short = Some(format!("the sender at {}: {reason}", self.sender));
        }
        Ended::Over(Box::new(self.summary))
    }
}

fn machine_config(options: &ReceiveOptions, buffer_bytes: usize) -> ReceiverConfig {
    ReceiverConfig {
        session: options.ticket.session,
        repair: match options.ticket.repair {
            ticket::Repair::None | ticket::Repair::Carousel => Repair::None,
            ticket::Repair::After => Repair::After,
            ticket::Repair::Nack => Repair::Nack,
        },
        fec: options.ticket.fec,
        digest_from_group: options.ticket.security.is_some(),
        block_len: options.ticket.block_len,
        notification: match options.only.is_some() || options.rules.keep_existing {
            true => Notification::PerFile,
            false => Notification::Batched,
        },
        progress_bytes: (buffer_bytes / REPORT_SHARE).max(1) as u64,
        progress_interval: REPORT_INTERVAL,
        keepalive: KEEPALIVE,
        stall_limit: options.stall_limit,
        resumes: false,
    }
}
