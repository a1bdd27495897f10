//! The receiver's loop, whatever the repair.

mod backlog;
mod control;
mod ears;
mod groups;
mod lifeline;
mod members;
mod objects;
mod open;
mod pages;
mod progress;
mod reporter;
mod source;
mod trust;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    ops::Range,
    time::Duration,
};

use treecast_host::{
    clock::since_1970,
    poller::{Interest, Poller, Ready},
    stop::Stop,
    wake::Waker,
};
use treecast_proto::{
    Instant, Step,
    object::{Channel, ReceiverInput},
    repair::Receiver,
    tfmcc,
};
use treecast_wire::{
    header::{FileId, SessionId},
    message::{BeginOfFile, Message},
};

use backlog::Backlog;
use ears::Ears;
use groups::Groups;
use lifeline::Lifeline;
use members::Members;
use reporter::Reporter;
use source::Source;
use trust::Trust;

use super::{
    Chooser, RECEIVE_BUFFER_BYTES, ReceiveError, ReceiveEvent, ReceiveProgress, ReceiveSummary,
    outbox::Outbox, refusal::Refusal,
};
use crate::{
    clock::Clock,
    connection::Connection,
    files::{Admission, Ending, Intake, Leftovers, Limit, Rules, SmallObjects, TargetFolder},
    hindrance::Meter,
    udp::{AtHand, BATCH_LEN, Item, are_zeros},
};

const GROUP: u64 = 0;
const CONTROL: u64 = 1;
const STORE: u64 = 2;
const STOP: u64 = 3;

/// How many times the hash of an object may be wrong where nothing tells which part of it is.
const HASH_ATTEMPTS: u32 = 3;

const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// The time for the sender's Welcome, which may be lost several times.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(30);

/// One session of a receiver. Its parts each have one job; this type runs them in turns.
pub(super) struct Session<'a> {
    on_event: &'a mut dyn FnMut(ReceiveEvent),
    clock: Clock,
    /// When what is being dealt with began: asking the clock at each of a small object's steps would cost as much as one of them.
    now: Instant,
    poller: Poller,
    session: SessionId,
    block_len: u16,
    machine: Receiver,
    hearing: Hearing,
    line: Line,
    trust: Trust,
    /// What only a member of local groups has. `None` in every other session.
    members: Option<Members>,
    store: Storing,
    figures: Figures,
    /// What earlier connections have left. Its objects are added to.
    carried: Carried,
}

/// What a receiver takes along from one connection to the next.
#[derive(Debug, Clone, Default)]
pub(super) struct Carried {
    pub has_come_back: bool,
    /// The progress over earlier connections.
    pub progress: ReceiveProgress,
    pub summary: ReceiveSummary,
    /// The objects that have ended, by number, and whether each is there.
    pub ended: BTreeMap<u32, bool>,
    /// The objects that are sent by difference, by number, and how many bytes of each an older version held.
    pub older: BTreeMap<u32, u64>,
    /// Numbers of the objects that the user was told of.
    pub announced: BTreeSet<u32>,
    pub admission: Admission,
}

impl Carried {
    /// What a receiver has that joins for the first time.
    pub fn new(rules: Rules) -> Self {
        Self { admission: Admission::new(rules), ..Self::default() }
    }
}

/// How a connection ended.
pub(super) enum Ended {
    Over(Box<ReceiveSummary>),
    /// It broke for this reason, and these objects fail unless the receiver comes back.
    Broken {
        carried: Box<Carried>,
        reason: String,
        failing: Vec<(FileId, String, String)>,
    },
}

/// What the group brings, or the receiver's own address.
struct Hearing {
    source: Source,
    /// What has come at which address. `None` where there is one address only.
    ears: Option<Ears>,
    backlog: Backlog,
    groups: Groups,
    congestion: tfmcc::Receiver,
    /// The number of packets that the kernel has dropped, as far as the machine knows.
    dropped: u64,
}

/// The connection to the sender, and how the session ends. A carousel has no connection.
struct Line {
    /// `None` once it is closed.
    connection: Option<Connection>,
    lifeline: Lifeline,
    sender: SocketAddr,
    /// Messages for the sender that the connection has not been given yet.
    outbox: Outbox,
    /// Tells a carousel's sender what is lacking. `None` where it does not listen.
    reporter: Option<Reporter>,
    waits_for_room: bool,
    /// Whether the connection is to be closed when all output is written.
    closes: bool,
    /// Whether the sender has said Goodbye, and listens no more.
    is_over: bool,
    refusal: Refusal,
    /// Whether the sender has admitted this receiver. Nobody has to admit a carousel's.
    is_welcome: bool,
    /// Whether the receiver comes back when the connection breaks.
    comes_back: bool,
    /// Whether the session has ended because the receiver's time is up.
    is_time_up: bool,
    closed: bool,
}

/// Where objects go.
struct Storing {
    folder: TargetFolder,
    is_feed: bool,
    /// What an earlier receiver has left.
    leftovers: Leftovers,
    intake: Intake,
    small: SmallObjects,
    store_waker: Waker,
    /// What decides which objects are wanted. `None` wants all.
    chooser: Option<Chooser>,
    /// What the objects that have not ended were announced as.
    begins: BTreeMap<FileId, BeginOfFile>,
    /// Objects of which the machine has not been told yet what is there, because an older version is being read: what an earlier
    /// receiver has left of each.
    seeded_next: BTreeMap<FileId, Vec<Range<u64>>>,
    /// Objects for which there was no room. What an earlier receiver has left of them stays.
    cramped: BTreeSet<FileId>,
    /// Since when something waits for room on the disk. `None` when nothing does.
    full_since: Option<Instant>,
}

/// How far the receiver is.
#[derive(Default)]
struct Figures {
    announced_bytes: u64,
    /// Bytes that came over the connection.
    retransmitted_bytes: u64,
    /// How many of the received bytes were there from before.
    kept_bytes: u64,
    /// Packets that were of no use.
    malformed: u64,
    disk_wait_ms: u64,
    /// Requests for retransmissions.
    requests: u64,
    /// Bytes of objects that failed.
    failed_bytes: u64,
    /// Objects whose names are not wanted.
    not_wanted: BTreeSet<FileId>,
    /// When the first packet came.
    heard_at: Option<Instant>,
    /// When the last object ended. A member of local groups serves others after that.
    ended_at: Option<Instant>,
    next_progress: Instant,
    meter: Meter<4>,
    summary: ReceiveSummary,
    /// Objects that fail unless the receiver comes back: number, name and reason.
    failing: Vec<(FileId, String, String)>,
}

impl Session<'_> {
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
            self.store.intake.hand_over(self.clock.now(), false);
            self.flush()?;
            if self.line.closed {
                return Ok(());
            }
            (self.on_event)(ReceiveEvent::Idle);
            self.poller.wait(self.timeout(deadline), &mut ready)?;
            // The group first: what is announced on the connection may lie in the group's socket still.
            ready.sort_unstable_by_key(|event| event.token);
            if ready.iter().all(|event| event.token != GROUP) {
                // The last batch was full, and nothing has come since.
                let has_all = self.hearing.backlog.note(self.hearing.backlog.is_asked(), None);
                self.note_drained(has_all);
            }
            for event in ready.drain(..) {
                self.handle_ready(event)?;
            }
            self.move_if_due()?;
            self.listen_if_asked()?;
            deadline = self.settle_all();
            self.report_progress();
            if (stop.is_requested() || self.figures.summary.limit.is_some()) && self.end(stop.time_up()) {
                return Ok(());
            }
            if !self.line.is_welcome && self.clock.now() > Instant::ZERO + WELCOME_TIMEOUT {
                return Err(ReceiveError::Dropped("no answer".into()));
            }
        }
    }

    /// Ends the session before the sender does, because of a limit or a signal, or because its time (`time_up`) is over.
    /// Returns whether it is over at once.
    fn end(&mut self, time_up: Option<Duration>) -> bool {
        let is_time_up = time_up.is_some();
        if self.machine.carousel().is_some() {
            // What is whole is still checked and committed.
            self.line.is_time_up = is_time_up;
            self.figures.summary.interrupted = true;
            let reason = time_up.map(|time| Limit::Time(time).to_string());
            let reason = reason.unwrap_or_else(|| self.figures.summary.why_stopped());
            self.handle(ReceiverInput::Close { reason }, None);
            return false;
        }
        if is_time_up {
            self.run_out_of_time()
        } else {
            self.stop()
        }
        !is_time_up
    }

    /// Leaves at once.
    fn stop(&mut self) {
        self.figures.summary.interrupted = true;
        // What is right has its name in the end, and a folder that files are in its mode.
        self.take_reports();
        let reason = self.figures.summary.why_stopped();
        self.say_farewell(&reason);
        self.handle(ReceiverInput::Close { reason }, None);
        self.store.intake.hand_over(self.clock.now(), true);
    }

    /// Ends the session as if its connection had broken for good: what is whole is checked, and the rest stays.
    fn run_out_of_time(&mut self) {
        if !std::mem::replace(&mut self.line.is_time_up, true) {
            let reason = "the receiver's time is up".to_owned();
            self.line.comes_back = false;
            self.say_farewell(&reason);
            self.handle(ReceiverInput::Disconnected { reason }, None);
        }
    }

    fn handle_ready(&mut self, ready: Ready) -> Result<(), ReceiveError> {
        match ready.token {
            GROUP => _ = self.receive_group()?,
            // What is announced there may lie in the group's socket still.
            CONTROL
                if ready.readable && (self.hearing.backlog.gives_way() || self.store.small.are_many()) =>
            {
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
        let was_asked = self.hearing.backlog.is_asked();
        let mut left = self.receive_batch()?;
        if self.hearing.ears.is_some() {
            left = [left, self.receive_spare()?].into_iter().flatten().min();
            self.leave_group_if_reached();
        }
        left = [left, self.receive_slower()?, self.receive_members()?].into_iter().flatten().min();
        let has_all = self.hearing.backlog.note(was_asked, left);
        self.note_drained(has_all);
        self.note_disk_wait();
        Ok(left)
    }

    /// Takes a batch from one socket. Returns how many bytes that were, or none when nothing is left there.
    fn receive_batch(&mut self) -> Result<Option<u64>, ReceiveError> {
        let before = self.hearing.source.taken();
        let (mut is_empty, mut taken) = (false, 0);
        // Garbage fills no batch.
        while !is_empty
            && taken < BATCH_LEN as u64
            && !self.store.intake.is_filled()
            && self.hearing.source.fits(self.store.intake.batch())
        {
            is_empty = !self.hearing.source.receive(self.store.intake.batch())?;
            taken = self.hearing.source.taken() - before;
        }
        let dropped = self.hearing.source.dropped();
        if dropped != self.hearing.dropped {
            self.hearing.dropped = dropped;
            let input = tfmcc::ReceiverInput::OwnDrops { total: dropped };
            self.hearing.congestion.handle(self.clock.now(), input);
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
        let total_ms = u64::try_from(self.store.intake.disk_wait().as_millis()).unwrap_or(u64::MAX);
        if total_ms != self.figures.disk_wait_ms {
            self.figures.disk_wait_ms = total_ms;
            self.handle(ReceiverInput::DiskWaited { total_ms }, None);
        }
    }

    /// Hands everything new in the batch to the machine, and what the machine keeps of it to the intake.
    pub(super) fn process(&mut self, from: Channel) {
        let batch = self.store.intake.batch();
        self.figures.malformed += batch.take_malformed();
        let (arrivals, mut items) = (batch.take_arrivals(), batch.take_items());
        let now = self.clock.now();
        let session = self.session;
        let arrivals = arrivals.into_iter().chain(self.hearing.source.take_arrivals());
        for (_, packets) in arrivals.filter(|(of, _)| *of == session && from == Channel::Group) {
            let Some(packets) = self.new_of(from, packets) else { continue };
            self.hearing.congestion.handle(now, tfmcc::ReceiverInput::Packets(packets));
            self.note_arrived(now, packets);
        }
        if !items.is_empty() {
            self.figures.heard_at.get_or_insert(now);
        }
        for item in self.hearing.source.take_items() {
            self.take_item(from, item);
        }
        for item in items.drain(..) {
            match &self.trust {
                Trust::Group(_) => {
                    self.proved(from, item).into_iter().for_each(|item| self.take_item(from, item))
                }
                Trust::Anybody | Trust::Connection { .. } => self.take_item(from, item),
            }
        }
        self.store.intake.batch().take_back(items);
        self.store.small.note();
        let is_full = !self.hearing.source.fits(self.store.intake.batch());
        self.store.intake.hand_over(self.clock.now(), is_full);
    }

    /// Hands one thing that has come to the machine.
    fn take_item(&mut self, from: Channel, item: Item) {
        match item {
            Item::Pace { file, pace, number, stamp } => {
                if from == Channel::Group && file.session() == self.session {
                    let now = self.clock.now();
                    let at = stamp.came(now, since_1970());
                    self.follow_sender(now);
                    self.hearing.congestion.handle(now, tfmcc::ReceiverInput::Pace { pace, number, at });
                }
            }
            Item::Message { file, message } => {
                if let Some(message) = self.believed(from, file, message) {
                    self.handle(ReceiverInput::Message { from, file, message }, None);
                }
            }
            Item::Symbols { file, positions, at } => {
                let at_hand = AtHand { start: positions.start, at };
                self.handle(ReceiverInput::Symbols { from, file, positions }, Some(at_hand));
            }
            // A few of them would take much memory until the object is known.
            Item::Blocks { file, at, .. } if are_zeros(at) && !self.store.begins.contains_key(&file) => {}
            Item::Blocks { file, range, at } => {
                let at_hand = AtHand { start: range.start, at };
                self.handle(ReceiverInput::Blocks { from, file, range }, Some(at_hand));
            }
        }
    }

    fn handle(&mut self, input: ReceiverInput, at_hand: Option<AtHand>) {
        self.now = self.clock.now();
        self.machine.handle(self.now, input);
        self.settle(at_hand);
        self.release_digests();
        self.fail_doomed();
    }

    /// As [`Session::settle`], for both machines.
    fn settle_all(&mut self) -> Option<Instant> {
        let now = self.clock.now();
        self.now = now;
        let deadline = self.settle(None);
        self.join_if_due(now);
        self.tell_heard(now);
        loop {
            match self.hearing.congestion.poll(now) {
                Step::Transmit(_) if self.line.is_over => {}
                Step::Transmit(report) => {
                    self.line.outbox.push(FileId::new(self.session, 0), Message::PaceReport(report));
                }
                Step::Wait(reports, _) => return deadline.into_iter().chain(reports).min(),
            }
        }
    }

    fn timeout(&self, machine: Option<Instant>) -> Option<Duration> {
        if self.hearing.backlog.is_asked() || self.line.lifeline.is_listening() {
            return Some(Duration::ZERO);
        }
        let now = self.clock.now();
        let welcome = (!self.line.is_welcome).then_some(Instant::ZERO + WELCOME_TIMEOUT);
        let heard = self.hearing.ears.as_ref().and_then(Ears::deadline);
        let deadlines = [
            machine,
            Some(self.figures.next_progress),
            welcome,
            self.store.intake.deadline(),
            self.hearing.groups.moves_at(),
            heard,
        ];
        deadlines.into_iter().flatten().min().map(|deadline| deadline.saturating_duration_since(now))
    }

    fn finish(mut self) -> Ended {
        let ending = match &self.figures.summary {
            // One that was never admitted leaves to the next what an earlier one has left.
            ReceiveSummary { interrupted: true, .. } if !self.line.is_welcome => Ending::CutShort,
            ReceiveSummary { interrupted: true, .. } if self.line.is_time_up => Ending::CutShort,
            ReceiveSummary { interrupted: true, .. } => Ending::Interrupted,
            ReceiveSummary { cut_short: Some(_), has_ended: false, .. } => Ending::CutShort,
            _ => Ending::Over,
        };
        if ending == Ending::CutShort {
            self.store.small.spill().into_iter().for_each(|task| self.add(task));
            self.store.intake.hand_over(self.clock.now(), true);
        }
        if let Some(warning) = self.store.intake.end(ending) {
            (self.on_event)(ReceiveEvent::Warning(warning));
        }
        self.figures.summary.progress = self.progress(self.clock.now());
        // Over another connection, most were told of before.
        self.figures.summary.not_wanted =
            self.figures.summary.not_wanted.max(self.figures.not_wanted.len() as u64);
        self.figures.summary.existing = self.carried.admission.existing();
        if let Some(reason) = self.figures.summary.cut_short.take_if(|_| self.line.comes_back) {
            let reason = format!("the sender at {} is away: {reason}", self.line.sender);
            let Self { mut carried, figures: Figures { summary, failing, .. }, .. } = self;
            carried.has_come_back = true;
            carried.progress = summary.progress;
            // They are under way for whoever waits.
            carried.progress.objects += failing.len() as u64;
            carried.summary = summary;
            return Ended::Broken { carried: Box::new(carried), reason, failing };
        }
        (self.on_event)(ReceiveEvent::Progress(self.figures.summary.progress));
        if let Some(reason) =
            self.figures.summary.cut_short.as_ref().filter(|_| self.machine.carousel().is_none())
        {
            self.figures.summary.cut_short = Some(format!("the sender at {}: {reason}", self.line.sender));
        }
        Ended::Over(Box::new(self.figures.summary))
    }
}
