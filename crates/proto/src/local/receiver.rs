//! The receiver: member of a local group, and its controller when it is chosen.

mod asking;
mod listening;
mod mending;

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use treecast_wire::{
    header::{FileId, SessionId},
    message::{GroupId, Local, LocalFlags, MAX_OBJECTS, Member, Message},
};

use self::listening::Listening;
use super::{
    Copies, Mode, Seat, Tuning,
    accounts::Accounts,
    clients::LONGEST_SILENCE,
    control::{Control, From, Order, Place, View},
    loss::LossMeter,
    pace::Pace,
    repairs::Repairs,
    shelf::{End, Shelf},
    wants::Wants,
};
use crate::{
    Instant, Step, carousel,
    object::{
        Address, Channel, CutShort, ReceiverCounters, ReceiverEvent, ReceiverInput, ReceiverTransmit,
        ReceiverWait, Response,
    },
    random::SplitMix64,
};

/// The time after the sender's Goodbye for which a receiver that has everything serves others.
const AFTER_GOODBYE: Duration = Duration::from_secs(1);

/// The time after the sender's last sign of life for which a receiver that has everything serves others.
const AFTER_SENDER: Duration = Duration::from_secs(6);

/// The time after the sender's Goodbye for which members still mend what they lack. What is missing then never comes.
const AFTER_STOP: Duration = Duration::from_secs(10);

/// The time between two empty packets, in networks in which a member must be a sender.
const EMPTY: Duration = Duration::from_secs(20);

/// The time for which a receiver may be congested at the sender's lowest rate before it leaves. It then belongs to a
/// slower session.
const TOO_SLOW: Duration = Duration::from_secs(5);

/// The least share of the session's rate at which one member is sent repairs at once.
const ASKING_SHARE: f64 = 0.25;

/// The silence of the sender after which repairs that can wait are sent.
const IDLE: Duration = Duration::from_millis(100);

/// Time for which a measured loss counts after the sender has last sent something new.
const STALE: Duration = Duration::from_secs(5);

/// Bounds of the lowest repair rate, as shares of the highest. Between them, it is the share that members may lose without congestion.
const LOWEST_SHARE: (f64, f64) = (1.0 / 32.0, 1.0 / 8.0);

#[derive(Debug, Clone)]
pub struct ReceiverConfig {
    pub session: SessionId,
    /// Bytes of an object in each packet but the last.
    pub block_len: u16,
    /// This receiver's own address.
    pub me: Member,
    pub mode: Mode,
    /// The receiver's place in groups that were made by hand. `None`: it finds a group itself.
    pub seat: Option<Seat>,
    /// The seed of the receiver's random numbers, which must differ from receiver to receiver.
    pub seed: u64,
    pub tuning: Tuning,
    /// The longest time to wait for the sender's first sign of life. `None`: no limit.
    pub patience: Option<Duration>,
    /// The longest silence of the sender after that. `None`: no limit.
    pub stall_limit: Option<Duration>,
    /// The number of wrong hashes after which an object is given up, if nothing tells which part of it is wrong.
    pub hash_attempts: u32,
    /// The way the sender's copies come on a fanout without multicast. `None` on one with multicast.
    pub copies: Option<Copies>,
}

/// The counts of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Requests sent to the group, and to the controller above.
    pub requests_sent: u64,
    pub requests_above: u64,
    /// Other messages of LGMP and LGCP sent.
    pub control_sent: u64,
    /// Blocks that came from the sender to the session's group, first and again.
    pub data_blocks: u64,
    /// Blocks that members, or the sender to the local group, have sent again.
    pub repair_blocks: u64,
    /// Blocks that came again although the receiver had them.
    pub duplicate_blocks: u64,
    /// Blocks sent again by this receiver.
    pub sent_blocks: u64,
    /// Blocks that were missing when they were noticed.
    pub lost_blocks: u64,
    /// Objects given up because they were late.
    pub late_objects: u64,
    /// Blocks that differ from what the sender has signed.
    pub refused_blocks: u64,
    /// Requests beyond a member's share, which are served last.
    pub requests_beyond: u64,
}

/// One receiver of a session with local groups. Call order: see the crate's documentation; poll to the end after every
/// [`ReceiverInput::Blocks`], while the packet's bytes are still at hand.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    /// The machine that takes objects, the same as a carousel's.
    objects: carousel::Receiver,
    shelf: Shelf,
    wants: Wants,
    repairs: Repairs,
    accounts: Accounts,
    control: Control,
    loss: LossMeter,
    pace: Pace,
    random: SplitMix64,
    figures: Figures,
    /// Members that have sent what the sender has not signed.
    put_out: BTreeSet<Member>,
    times: Times,
    /// The state of asking the sender for copies, on a fanout without multicast.
    listening: Option<Listening>,
    out: VecDeque<Step<ReceiverTransmit, ReceiverEvent, ReceiverWait>>,
}

/// The times of past and coming events.
#[derive(Debug, Default)]
struct Times {
    /// The deadline of the machine that takes objects.
    objects: Option<Instant>,
    /// The time of the sender's last sign of life.
    sender: Option<Instant>,
    /// The time of the last block that the sender sent to all.
    data: Instant,
    /// The last time at which the sender was known to have sent something new.
    advanced: Instant,
    /// The time of the sender's Goodbye. `None` before it.
    goodbye: Option<Instant>,
    /// The time of the last block that was new here, the last time after it at which that was too long ago,
    /// and the last at which the sender was asked for that reason.
    progress: Instant,
    /// The time from a request to its answer in the group, on average over the last ones.
    answer: Duration,
    starved: Instant,
    asked_sender: Instant,
    next_empty: Instant,
    /// The time since which the sender's lowest rate has been too fast here. `None` if it is not.
    too_slow: Option<Instant>,
    /// Whether every object has ended, and whether the receiver has.
    is_done: bool,
    is_closed: bool,
}

/// # What happens
impl Receiver {
    pub fn new(config: ReceiverConfig) -> Self {
        let objects = carousel::Receiver::new(carousel::ReceiverConfig {
            session: config.session,
            block_len: config.block_len,
            fec: false,
            has_chunk_hashes: true,
            hash_attempts: config.hash_attempts,
            reports: None,
            patience: config.patience,
        });
        let rate_bps = config.tuning.repair_rate_bps;
        Self {
            objects,
            shelf: Shelf::new(config.block_len),
            wants: Wants::default(),
            repairs: Repairs::default(),
            accounts: Accounts::new(config.block_len),
            control: Control::new(config.me, config.mode, config.seat, config.seed)
                .naming_members(config.copies.is_some()),
            loss: LossMeter::default(),
            // A group that sends again less than its members may lose never has all.
            pace: Pace::new(rate_bps, config.tuning.congestion_loss.clamp(LOWEST_SHARE.0, LOWEST_SHARE.1)),
            random: SplitMix64(!config.seed),
            figures: Figures::default(),
            put_out: BTreeSet::new(),
            times: Times::default(),
            listening: config.copies.map(Listening::from),
            out: VecDeque::new(),
            config,
        }
    }

    pub fn handle(&mut self, now: Instant, input: ReceiverInput) {
        if self.times.is_closed {
            return;
        }
        match input {
            ReceiverInput::Message { from, file, message } if file.session() == self.config.session => {
                self.message(now, from, file, message);
            }
            ReceiverInput::Blocks { from, file, range } if file.session() == self.config.session => {
                self.blocks(now, from, file, range);
            }
            // Another session on the same group and port.
            ReceiverInput::Message { .. } | ReceiverInput::Blocks { .. } => {}
            ReceiverInput::Refused { from, range, .. } => {
                if let Some(from) = from {
                    self.put_out.insert(from);
                    self.control.ban(now, from);
                    self.carry_out_orders(now);
                }
                self.figures.refused_blocks += (range.end - range.start).div_ceil(self.shelf.block_len);
            }
            ReceiverInput::Hashed { file, .. }
            | ReceiverInput::Checked { file, .. }
            | ReceiverInput::Lost { file, .. } => {
                self.objects.handle(now, input);
                if let Some(known) = self.shelf.get_mut(file.index()) {
                    // Some of it may be missing again.
                    known.noticed = 0;
                }
            }
            ReceiverInput::Respond { file, response: Response::Ignore } => {
                self.objects.handle(now, input);
                self.ended(now, file, End::GivenUp);
            }
            other => self.objects.handle(now, other),
        }
        self.take_steps(now);
        self.notice(now);
    }

    fn message(&mut self, now: Instant, from: Channel, file: FileId, message: Message) {
        if matches!(from, Channel::Member(member) if self.put_out.contains(&member)) {
            return;
        }
        let is_sender = from == Channel::Group;
        if is_sender {
            self.sender_speaks(now);
        }
        match message {
            Message::Local(local) => return self.local(now, from, file, local),
            Message::BeginOfFile(ref begin) => self.note_begin(now, file, begin),
            Message::Digest(ref digest) => {
                if let Some(known) = self.shelf.note(now, file.index()) {
                    known.digest.get_or_insert_with(|| digest.clone());
                }
                self.shelf.is_said(file.index());
            }
            Message::EndOfFile if is_sender && self.is_near_end(file.index()) => {
                self.note_end(now, file.index())
            }
            Message::Goodbye if is_sender => {
                self.times.goodbye.get_or_insert(now);
                return self.ask_sender();
            }
            Message::ChunkHashes(_) => {}
            // These count as the sender's alone.
            Message::Contents(_) | Message::Withdraw(_) if is_sender => {}
            _ => return,
        }
        self.objects.handle(now, ReceiverInput::Message { from, file, message });
    }

    /// Notes a sign of life of the sender.
    pub(super) fn sender_speaks(&mut self, now: Instant) {
        if self.times.sender.is_none() {
            self.objects.set_patience(self.config.stall_limit);
        }
        self.times.sender = Some(now);
        self.objects.heard(now);
    }

    fn local(&mut self, now: Instant, from: Channel, file: FileId, local: Local) {
        let from = match from {
            Channel::Group => From::Session,
            Channel::Member(member) => From::Member(member),
            Channel::Control => return,
        };
        match (from, local) {
            (From::Member(member), Local::Request(request)) => self.requested(now, member, file, &request),
            (From::Member(member), Local::Listen { token, .. }) => self.token_is(now, member, token),
            // The sender alone speaks to the whole session, and of nothing but the session.
            (From::Session, Local::State(state)) if state.group != GroupId::SESSION => {}
            (_, local) => {
                if let (From::Session, Local::State(state)) = (from, &local) {
                    let (object, position) = state.frontier;
                    self.enter(object, position);
                    self.advance(now, object, position);
                    self.reach(now, object, position);
                    self.leave_when_too_slow(now, state.flags.has(LocalFlags::LOWEST));
                }
                self.with_control(now, |control, view| control.heard(now, from, local, view));
                self.carry_out_orders(now);
            }
        }
    }

    /// Leaves out what a feed sent before this receiver came, when the sender's state is heard for the first time.
    fn enter(&mut self, object: u32, position: u64) {
        if self.config.tuning.is_feed && self.control.sender().is_none() {
            let first = self.shelf.skip(object.min(MAX_OBJECTS).saturating_add(u32::from(position > 0)));
            self.objects.skip(first);
        }
    }

    /// The highest rate at which objects have left the sender, in bits a second; 0 before it is known.
    fn session_bps(&self) -> u64 {
        (self.loss.packets_a_second() * self.shelf.block_len as f64 * 8.0) as u64
    }

    /// Whether this receiver loses so much that it sets CONGESTION. The loss of the session's last packets says nothing a while
    /// after them: repairs would be slowed until the end. A sender that stands still before its last packet waits for somebody.
    fn is_congested(&self, now: Instant) -> bool {
        let is_all_sent = self.objects.expected().is_some_and(|objects| self.shelf.frontier.0 >= objects);
        let is_recent = !is_all_sent || now < self.times.advanced + STALE;
        !self.times.is_done && is_recent && self.loss.share() > self.config.tuning.congestion_loss
    }

    /// Whether this receiver lacks nothing any more, or will not get what it lacks.
    fn is_over(&self) -> bool {
        self.times.is_done || self.times.goodbye.is_some()
    }

    /// Receivers that fall below the lowest rate leave, and can be served by a slower session (lgmp-mbone-1999, 4.3.1). A receiver
    /// that lacks nothing stays.
    fn leave_when_too_slow(&mut self, now: Instant, is_lowest: bool) {
        let lacks_some = self.wants.deadline().is_some();
        let too_slow =
            (is_lowest && self.is_congested(now) && lacks_some).then(|| self.times.too_slow.unwrap_or(now));
        self.times.too_slow = too_slow;
        if too_slow.is_some_and(|since| now >= since + TOO_SLOW) {
            let percent = self.loss.share() * 100.0;
            let reason = format!("it loses {percent:.0} % at the sender's lowest rate");
            self.objects.handle(now, ReceiverInput::Close { reason });
            self.take_steps(now);
        }
    }

    /// Carries out what the machine that takes objects wants, and notices which objects have ended.
    fn take_steps(&mut self, now: Instant) {
        loop {
            match self.objects.poll(now) {
                Step::Event(ReceiverEvent::Closed { reason: None }) => self.times.is_done = true,
                Step::Event(ReceiverEvent::Closed { reason }) => {
                    self.close(ReceiverEvent::Closed { reason });
                }
                Step::Event(event) => {
                    match &event {
                        ReceiverEvent::Received { file, .. } => self.ended(now, *file, End::Whole),
                        ReceiverEvent::Failed { file, .. } => self.ended(now, *file, End::GivenUp),
                        _ => {}
                    }
                    self.out.push_back(Step::Event(event));
                }
                Step::Transmit(transmit) => self.out.push_back(Step::Transmit(transmit)),
                Step::Wait(deadline, _) => {
                    self.times.objects = deadline;
                    return;
                }
            }
        }
    }

    fn ended(&mut self, now: Instant, file: FileId, end: End) {
        self.shelf.end(now, file.index(), end);
        self.wants.forget(file.index());
        if end == End::GivenUp {
            self.repairs.forget(file.index());
        }
    }

    fn close(&mut self, event: ReceiverEvent) {
        if !self.times.is_closed {
            self.times.is_closed = true;
            self.tell_listening(0);
            if let Some(place) = self.control.place().cloned() {
                self.control.depart(&place);
                self.carry_out_orders(Instant::ZERO);
            }
            self.out.push_back(Step::Event(event));
        }
    }

    fn carry_out_orders(&mut self, now: Instant) {
        while let Some(order) = self.control.next_order() {
            let transmit = match order {
                Order::Tell(to, local) => {
                    self.figures.control_sent += 1;
                    let file = FileId::new(self.config.session, 0);
                    ReceiverTransmit::Tell { to, file, message: Message::Local(local) }
                }
                // Its groups have no addresses.
                Order::Join(_) | Order::Leave(_) if self.listening.is_some() => continue,
                Order::Join(group) => ReceiverTransmit::JoinGroup { group },
                Order::Leave(group) => {
                    self.repairs.forget_address(Address::Group(group));
                    ReceiverTransmit::LeaveGroup { group }
                }
                Order::Hurry => {
                    let (timing, distance) = (self.control.timing(), self.control.round_trip() / 2);
                    let random = &mut self.random;
                    self.wants.hurry(|| now + timing.ask_wait(distance, random));
                    continue;
                }
            };
            self.out.push_back(Step::Transmit(transmit));
        }
    }
}

/// # What is to be done
impl Receiver {
    pub fn poll(&mut self, now: Instant) -> Step<ReceiverTransmit, ReceiverEvent, ReceiverWait> {
        if let Some(step) = self.out.pop_front() {
            return step;
        }
        if self.times.is_closed {
            return Step::Wait(None, ReceiverWait::Closed);
        }
        self.take_steps(now);
        self.listen(now);
        self.tick_control(now);
        self.give_up_late(now);
        self.ask(now);
        self.mend(now);
        self.end_when_done(now);
        match self.out.pop_front() {
            Some(step) => step,
            None => {
                // Between packets the queue takes no memory: a simulation has many receivers.
                self.out.shrink_to_fit();
                Step::Wait(self.deadline(), ReceiverWait::Sender)
            }
        }
    }

    /// Has LGCP act with a view of this receiver as it is now.
    fn with_control(&mut self, now: Instant, act: impl FnOnce(&mut Control, &View<'_>)) {
        let view = View {
            shelf: &self.shelf,
            objects: &self.objects,
            loss: self.loss.share(),
            is_congested: self.is_congested(now),
            given_up: self.figures.late_objects as u32,
            is_over: self.is_over(),
        };
        act(&mut self.control, &view);
    }

    fn tick_control(&mut self, now: Instant) {
        self.with_control(now, |control, view| control.tick(now, view));
        if self.session_bps() > 0 {
            self.pace.limit(self.session_bps().min(self.config.tuning.repair_rate_bps));
        }
        let packets_a_second = self.loss.latest_packets_a_second();
        match self.control.is_congested() {
            true => self.pace.cut(now, packets_a_second, 1.0, 0.0),
            false => self.pace.raise(now, packets_a_second),
        }
        self.carry_out_orders(now);
        self.release();
        if self.config.tuning.member_must_send && now >= self.times.next_empty {
            self.times.next_empty = now + EMPTY;
            let file = FileId::new(self.config.session, 0);
            let message = Message::Local(Local::Empty);
            let tell = ReceiverTransmit::Tell { to: Address::Session, file, message };
            self.out.push_back(Step::Transmit(tell));
        }
    }

    /// Frees objects that everybody below has finished. Streams alone do this: of a set of files, a late receiver may
    /// ask for everything.
    fn release(&mut self) {
        if self.config.tuning.deadline.is_none() && !self.config.tuning.is_feed {
            return;
        }
        let done = match self.control.is_controller() {
            true => self.control.done(self.shelf.done),
            false => self.control.place().map_or(0, |place| place.said.done),
        };
        for object in self.shelf.release(done) {
            let file = FileId::new(self.config.session, object);
            self.repairs.forget(object);
            self.out.push_back(Step::Transmit(ReceiverTransmit::Release { file }));
        }
    }

    /// Semi-reliable transfer: a unit that is late is given up, and counted (lgmp-mbone-1999, 2).
    fn give_up_late(&mut self, now: Instant) {
        let Some(deadline) = self.config.tuning.deadline else { return };
        let late = self.shelf.open().filter(|(_, known)| now >= known.since + deadline);
        let late: Vec<u32> = late.map(|(object, _)| object).collect();
        for object in late {
            let file = FileId::new(self.config.session, object);
            self.figures.late_objects += 1;
            let reason = format!("it was late: not whole {} ms after its beginning", deadline.as_millis());
            // Blocks or not, nothing more is wanted of it.
            self.ended(now, file, End::GivenUp);
            self.objects.give_up_for(file, reason);
            self.take_steps(now);
        }
    }

    fn end_when_done(&mut self, now: Instant) {
        if self.ends_at().is_some_and(|end| now >= end) {
            self.close(ReceiverEvent::Closed { reason: None });
        } else if self.stops_at().is_some_and(|stop| now >= stop) {
            let reason = CutShort::SenderStopped.to_string();
            self.objects.handle(now, ReceiverInput::Close { reason });
            self.take_steps(now);
        }
    }

    /// The time at which this receiver stops serving others. `None` while that is not known.
    fn ends_at(&self) -> Option<Instant> {
        // A member that lacks something waits for its controller, even if that does not hear the sender any more.
        let (after_goodbye, after_sender) = match self.control.is_needed(self.shelf.done) {
            true => (AFTER_STOP, LONGEST_SILENCE),
            false => (AFTER_GOODBYE, AFTER_SENDER),
        };
        let goodbye = self.times.goodbye.map(|goodbye| goodbye + after_goodbye);
        let silent = self.times.sender.map(|heard| heard + after_sender);
        goodbye.into_iter().chain(silent).min().filter(|_| self.times.is_done)
    }

    /// The time at which this receiver gives up what it lacks, because the sender has stopped.
    fn stops_at(&self) -> Option<Instant> {
        self.times.goodbye.map(|goodbye| goodbye + AFTER_STOP).filter(|_| !self.times.is_done)
    }

    fn deadline(&self) -> Option<Instant> {
        let idle = self.times.data + IDLE;
        let last = self.repairs.deadline(true).map(|at| at.max(idle));
        let repairs = self.repairs.deadline(false).or(last).map(|at| at.max(self.pace.next()));
        let wants = self.wants.deadline().filter(|_| self.control.place().is_some());
        let late = self.config.tuning.deadline;
        let late = late.and_then(|late| self.shelf.open().map(|(_, known)| known.since + late).min());
        let empty = self.config.tuning.member_must_send.then_some(self.times.next_empty);
        let listening = self.listening.as_ref().and_then(Listening::deadline);
        let announcements = self.shelf.deadline().filter(|_| self.control.place().is_some());
        [
            self.times.objects,
            wants,
            repairs,
            self.control.deadline(),
            self.ends_at(),
            self.stops_at(),
            late,
            empty,
            announcements,
            listening,
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

/// # What is to be seen
impl Receiver {
    /// The bytes of all objects that are stored. Bytes that came twice count once.
    pub fn received_bytes(&self) -> u64 {
        self.objects.progress().received_bytes
    }

    /// The machine that takes the objects.
    pub fn objects(&self) -> &carousel::Receiver {
        &self.objects
    }

    pub fn counters(&self) -> ReceiverCounters {
        self.objects.counters()
    }

    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// The progress of the machine that takes the objects.
    pub fn progress(&self) -> carousel::Progress {
        self.objects.progress()
    }

    /// The receiver's place. `None` while it looks for a group.
    pub fn place(&self) -> Option<&Place> {
        self.control.place()
    }

    pub fn is_controller(&self) -> bool {
        self.control.is_controller()
    }

    /// The number of clients that report to this receiver.
    pub fn clients(&self) -> usize {
        self.control.clients.len()
    }

    /// The share of the session's packets that this receiver loses, from 0 to 1.
    pub fn loss(&self) -> f64 {
        self.loss.share()
    }

    fn group(&self) -> Option<GroupId> {
        self.control.place().map(|place| place.group)
    }
}
