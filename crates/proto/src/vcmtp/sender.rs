//! The sender: multicast sender, coordinator and one retransmitter a receiver
//! (interdomain-2013, 4.4, tables 4.2 and 4.4 to 4.6).

mod asked;
mod awaited;
mod coordinator;
mod corrections;
mod credit;
mod difference;
mod input;
mod lacks;
mod multicast_sender;
mod objects;
mod offers;
mod outcomes;
mod over;
mod owed_symbols;
mod path;
mod requests;
mod retransmitter;
mod slower;
mod stall;
mod symbols;
#[cfg(test)]
mod tests;
mod unheard;

use std::{collections::BTreeMap, ops::Range, time::Duration};

use treecast_wire::{
    header::{FileId, PacketType, SessionId},
    message::{BeginOfFile, Digest, Message, Move, PROTOCOL_VERSION, Reason, SymbolsSent, Welcome},
};

use self::{
    coordinator::{Coordinator, State},
    credit::{Bounds, Credit},
    multicast_sender::MulticastSender,
    objects::{Objects, Over},
    retransmitter::{Action, Due, Retransmitter},
    slower::SlowerGroup,
    stall::Stall,
    symbols::Symbols,
};

use super::Repair;
use crate::{
    Instant, Step,
    fec::Share,
    object::{Destination, Lane, Outcome, ReceiverId, SenderEvent, SenderInput, SenderTransmit, SenderWait},
};

#[derive(Debug, Clone)]
pub struct SenderConfig {
    pub session: SessionId,
    pub repair: Repair,
    /// The share of repair symbols that is sent before anybody asks, when the session uses forward error
    /// correction.
    pub fec: Option<Share>,
    /// Whether receivers can tell that a digest comes from the sender. If so, and losses are mended with
    /// symbols, the digest goes to the group, too.
    pub digest_to_group: bool,
    /// The number of bytes of an object that each packet carries, except its last one.
    pub block_len: u16,
    /// The most bytes of an object that one [`SenderTransmit::Blocks`] covers (a super-packet's worth).
    pub max_run_len: u32,
    /// The same as [`Self::max_run_len`] for each slower group, the fastest first; empty for a session with one
    /// group. Repair symbols go to the first group alone.
    pub slower_run_lens: Vec<u32>,
    /// Whether the sender has opened the slower groups to mend what slow receivers lack. Their time for retransmissions then counts
    /// from the first group's multicast. Where the user has named the groups' rates, each group's own multicast counts.
    pub slower_groups_mend: bool,
    /// The time that retransmissions may take after an object's last block, as a multiple of the time that
    /// its multicast took (4.1). `None`: there is no limit.
    pub retransmission_timeout_factor: Option<f64>,
    /// The shortest time for retransmissions, whatever the factor gives.
    pub minimum_retransmission_time: Duration,
    /// Whether the sender keeps within what the receivers' buffers hold, as their Progress reports tell.
    /// Without it the caller limits the multicast by its rate alone.
    pub follow_progress: bool,
    /// The time for which a receiver may report nothing while the multicast waits for it. After that the
    /// multicast no longer waits for it.
    pub patience: Duration,
    /// The number of bytes of objects that a receiver must take from its buffer in a second while the
    /// multicast waits for it. `None`: it is enough that the receiver takes a run of [`Self::max_run_len`]
    /// within `patience`.
    pub floor_bytes_a_second: Option<u64>,
    /// The time for which a receiver that owes an answer may say nothing before it counts as failed.
    pub stall_limit: Duration,
    /// The most objects that are multicast at the same time; each costs a receiver an open file. With 1 they go one
    /// behind the other, as those of the paper's prototype (4.6.2).
    pub at_once: usize,
    /// Whether objects keep coming for as long as the session lasts (a feed). Then a receiver that joins late
    /// is not told of objects that it has missed.
    pub is_feed: bool,
    /// The number of a feed's objects that are over and that a receiver which joins late is told of: the newest. 0: none.
    pub kept_objects: u32,
    /// The most time between two messages to a receiver: a fraction of its
    /// [`super::ReceiverConfig::stall_limit`].
    pub keepalive: Duration,
}

/// One session's sender. Call order: see the crate's documentation; poll each [`Lane`] on its own.
///
/// Any input can give any lane something to do. [`Sender::is_ready`] tells cheaply whether a
/// receiver's lane has.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    objects: Objects,
    multicast: MulticastSender,
    coordinator: Coordinator,
    retransmitters: BTreeMap<ReceiverId, Retransmitter>,
    symbols: Symbols,
    /// One slower group for each additional rate of a session with several rates, fastest first.
    slower: Vec<SlowerGroup>,
    credit: Credit,
    stall: Stall,
    linger: Linger,
    /// The time since which connections are being closed.
    closing_since: Option<Instant>,
    /// Whether somebody may have ended with everything since the last look.
    may_release: bool,
    /// Whether somebody was let go who had all that it wanted before all objects had begun.
    has_released_early: bool,
    /// Bytes sent again to receivers that have left.
    retransmitted_before_bytes: u64,
    /// Moves of receivers that were refused or not even answered.
    refused_moves: u64,
    /// Whether no receiver hears the group.
    is_unheard: bool,
}

/// Waiting for receivers that have left and may come again.
#[derive(Debug, Default)]
struct Linger {
    /// The time for which they are waited for when nothing else is left to do. `None` waits for nobody.
    time: Option<Duration>,
    /// The time until which they are waited for in any case.
    at_least_until: Instant,
    /// The time since which nothing else is left to do.
    idle_since: Option<Instant>,
}

impl Linger {
    fn deadline(&self) -> Option<Instant> {
        let (since, time) = self.idle_since.zip(self.time)?;
        Some(self.at_least_until.max(since + time))
    }
}

/// # What happens
impl Sender {
    pub fn new(config: SenderConfig) -> Self {
        let kept = if config.is_feed { config.kept_objects as usize } else { usize::MAX };
        let objects = Objects::new(config.session, config.block_len, config.fec.is_some(), kept);
        let symbols = Symbols::new(config.fec, config.repair);
        let slower = config.slower_run_lens.iter().map(|len| SlowerGroup::new(*len)).collect();
        Self {
            slower,
            symbols,
            objects,
            multicast: MulticastSender::default(),
            coordinator: Coordinator::new(&config),
            config,
            retransmitters: BTreeMap::new(),
            credit: Credit::default(),
            stall: Stall::default(),
            linger: Linger::default(),
            closing_since: None,
            may_release: false,
            has_released_early: false,
            retransmitted_before_bytes: 0,
            refused_moves: 0,
            is_unheard: false,
        }
    }

    /// API_Send: queues an object and returns its number.
    pub fn send(&mut self, _now: Instant, begin: BeginOfFile) -> FileId {
        let index = self.objects.add(begin);
        self.multicast.queue(index);
        self.retransmitters.values_mut().for_each(|one| one.offers.extend(index));
        self.objects.file_id(index)
    }

    /// Gives an object that is not out yet a factor of its own for its time for retransmissions, in place of the session's
    /// (retx_timeout_factor of interdomain-2013, 4.6.2).
    pub fn set_retransmission_timeout_factor(&mut self, file: FileId, factor: f64) {
        if let Some(object) = self.objects.get_mut(file.index()) {
            object.time_factor = Some(factor);
        }
    }

    /// Gives the next object this number, and not a smaller one: an earlier sender of the session had the smaller ones. This
    /// comes before all objects.
    pub fn number_from(&mut self, index: u32) {
        self.objects.number_from(index);
    }

    /// Queues an object that an earlier sender of this session has multicast up to `sent`, and goes on from there.
    pub fn send_from(&mut self, now: Instant, begin: BeginOfFile, sent: u64) -> FileId {
        let file = self.send(now, begin);
        let whole_blocks = sent - sent % u64::from(self.config.block_len.max(1));
        let size = self.announced(file).map_or(0, |begin| begin.file_size);
        let sent = if sent >= size { size } else { whole_blocks };
        self.multicast.skip(sent);
        if let Some(object) = self.objects.get_mut(file.index()) {
            object.sent = sent;
        }
        file
    }

    /// Takes in an object that an earlier sender of this session has multicast to its end. All receivers are told of it.
    pub fn send_over(&mut self, begin: BeginOfFile, hash: [u8; 32]) -> FileId {
        self.multicast.skip(begin.file_size);
        let index = self.objects.add_over(Over::before(begin, hash));
        self.retransmitters.values_mut().for_each(|retransmitter| retransmitter.miss(index));
        self.objects.file_id(index)
    }

    /// Lets the session wait for receivers that have left and may come again: for the time `linger` when all
    /// others are done, and until the moment `until` at least.
    pub fn linger(&mut self, linger: Option<Duration>, until: Instant) {
        (self.linger.time, self.linger.at_least_until) = (linger, until);
    }

    /// Sets a new length of a group's runs, because its rate has changed. Group 0 is the first.
    pub fn set_max_run_len(&mut self, group: u8, max_run_len: u32) {
        let max_run_len = max_run_len.max(u32::from(self.config.block_len));
        match group.checked_sub(1).and_then(|at| self.slower.get_mut(usize::from(at))) {
            Some(slower) => slower.set_max_run_len(max_run_len),
            None => self.config.max_run_len = max_run_len,
        }
    }

    pub fn handle(&mut self, now: Instant, input: SenderInput) {
        match input {
            SenderInput::Joined { receiver, receive_buffer_bytes, round_trip } => {
                self.join(now, receiver, receive_buffer_bytes, round_trip);
            }
            SenderInput::Left { receiver, reason } => self.leave(now, receiver, &reason),
            SenderInput::Unheard { receiver } => self.credit.unheard(receiver),
            SenderInput::Message { from, file, message } => self.message(now, from, file, message),
            SenderInput::Hashed { file, hash } => self.hashed(now, file, hash),
            SenderInput::Withdraw { file, reason } => self.withdraw(file, &reason),
            // A receiver that listens has a connection, and says everything there.
            SenderInput::Listeners { .. } | SenderInput::Local { .. } => {}
            SenderInput::Close => {
                if self.coordinator.state == State::Active {
                    self.coordinator.state = State::Closing;
                    self.may_release = true;
                }
            }
        }
        self.expire(now);
    }
}

/// # What is to be done
impl Sender {
    pub fn poll(&mut self, now: Instant, lane: Lane) -> Step<SenderTransmit, SenderEvent, SenderWait> {
        match lane {
            Lane::Group => {
                self.expire(now);
                self.poll_group(now)
            }
            Lane::Slower(number) => self.poll_slower(now, number),
            Lane::Receiver(receiver) => {
                self.reopen(now, receiver);
                self.poll_receiver(now, receiver)
            }
        }
    }

    /// Whether the lane of this receiver has something to send now.
    pub fn is_ready(&self, receiver: ReceiverId) -> bool {
        let repair = self.config.repair;
        self.retransmitters
            .get(&receiver)
            .is_some_and(|retransmitter| retransmitter.is_ready(&self.objects, repair))
    }

    /// Whether the next thing that this receiver's lane sends is a message and no blocks.
    pub fn has_message(&self, receiver: ReceiverId) -> bool {
        self.retransmitters.get(&receiver).is_some_and(Retransmitter::has_message)
    }

    /// Whether half of an object's time for retransmissions is over, so that what the receiver still lacks of
    /// it will soon be too late.
    pub fn is_urgent(&self, now: Instant, receiver: ReceiverId) -> bool {
        let is_urgent = |one: &Retransmitter| one.requests.is_urgent(now, &self.objects);
        self.coordinator.has_timers() && self.retransmitters.get(&receiver).is_some_and(is_urgent)
    }

    fn poll_group(&mut self, now: Instant) -> Step<SenderTransmit, SenderEvent, SenderWait> {
        self.keep_alive(now);
        self.note_idle(now);
        self.end_gathering(now);
        let only_at_slower = self.only_at_slower();
        self.put_out_crowding(now, only_at_slower);
        if !self.is_paused()
            && let Some(index) =
                self.multicast.begin(now, &mut self.objects, self.config.at_once, only_at_slower)
            && let Some(begin) = self.begin(index)
        {
            return Step::Transmit(to_group(self.objects.file_id(index), Message::BeginOfFile(begin)));
        }
        if let Some(transmit) = self.next_symbols(now) {
            return Step::Transmit(transmit);
        }
        if let Some(index) = self.multicast.end(now, &mut self.objects) {
            self.symbols.out(index);
            self.handle_completion(now, index);
            return Step::Transmit(to_group(self.objects.file_id(index), Message::EndOfFile));
        }
        self.advance_closing(now);
        if let Some(event) = self.coordinator.events.pop_front() {
            return Step::Event(event);
        }
        if self.is_paused() || self.is_unheard && !self.may_pass() {
            return self.wait();
        }
        if let Err(deadline) = self.may_multicast(now) {
            let deadline = self.deadline().map_or(deadline, |other| other.min(deadline));
            return Step::Wait(Some(deadline), SenderWait::Credit);
        }
        let is_coding = self.symbols.is_coding();
        if let Some(index) = self.multicast.announce_again(&mut self.objects, is_coding)
            && let Some(object) = self.objects.get(index)
        {
            let begin = Message::BeginOfFile(object.begin.clone());
            return Step::Transmit(to_group(self.objects.file_id(index), begin));
        }
        let max_run_len = self.run_len();
        match self.multicast.blocks(&mut self.objects, max_run_len) {
            Some((index, range)) => {
                self.note_passed(index, range.end);
                Step::Transmit(self.blocks(now, index, range))
            }
            None => self.wait(),
        }
    }

    fn poll_receiver(
        &mut self,
        now: Instant,
        receiver: ReceiverId,
    ) -> Step<SenderTransmit, SenderEvent, SenderWait> {
        while let Some(index) =
            self.retransmitters.get_mut(&receiver).and_then(|one| one.requests.take_through())
        {
            self.through(now, receiver, index);
        }
        let (repair, max_run_len) = (self.config.repair, self.run_len());
        let Some(retransmitter) = self.retransmitters.get_mut(&receiver) else {
            return Step::Wait(None, SenderWait::Closed);
        };
        while let Some(action) = retransmitter.next(&mut self.objects, repair, max_run_len) {
            if let Action::Symbols(.., symbols) = &action {
                self.symbols.note_apart(symbols);
            }
            retransmitter.note_moved(now, &action);
            if let Some(transmit) = retransmission(&self.config, &self.objects, receiver, action) {
                return Step::Transmit(transmit);
            }
        }
        Step::Wait(None, SenderWait::Receivers)
    }

    /// The BOF of an object that starts; every receiver that is there is to have it.
    fn begin(&mut self, index: u32) -> Option<BeginOfFile> {
        let file = self.objects.file_id(index);
        let object = self.objects.get_mut(index)?;
        if object.is_again {
            // The receivers that are to have it have been told. The others have ended with it.
            return Some(object.begin.clone());
        }
        for (receiver, retransmitter) in &mut self.retransmitters {
            if retransmitter.offers.take_unwanted(index) {
                object.status.insert(*receiver, Some(Outcome::NotWanted));
                continue;
            }
            object.add_receiver(*receiver);
            self.coordinator.begins_at(*receiver);
            retransmitter.begin(file);
        }
        self.multicast.gathering.excuse(object);
        if self.is_wanted_by_nobody(index) {
            self.file_done(index);
            return None;
        }
        if let Some(reason) = self.objects.get(index)?.withdrawn.clone() {
            self.withdraw_begun(index, &reason);
            return None;
        }
        let object = self.objects.get(index)?;
        let slower = self.retransmitters.iter_mut().filter(|(_, one)| one.group > 0);
        for (_, retransmitter) in slower.filter(|(receiver, _)| object.is_pending_at(**receiver)) {
            slower::begin_at(retransmitter, &self.objects, index);
        }
        let begin = object.begin.clone();
        if self.is_unheard {
            self.begin_unheard(index);
        }
        Some(begin)
    }

    /// INL_Handle_Completion(i), and the hash to everyone once it is known.
    fn handle_completion(&mut self, now: Instant, index: u32) {
        let Some(object) = self.objects.get_mut(index) else { return };
        self.coordinator.handle_completion(now, index, object);
        self.may_release = true;
        let (hash, mut pending) = (object.hash, object.pending_receivers());
        if hash.is_some() {
            object.told.get_or_insert(now);
            self.watch(now);
        }
        if pending.is_empty() {
            self.file_done(index);
        } else if let Some(hash) = hash {
            pending.retain(|to| !self.awaits(*to, index) && !self.is_passed_to(*to, index));
            self.tell(index, &pending, Due::Digest(hash));
            self.say_digest(now, index);
        }
    }

    fn may_multicast(&mut self, now: Instant) -> Result<(), Instant> {
        if !self.config.follow_progress || !self.multicast.is_sending() || self.is_unheard {
            return Ok(());
        }
        self.credit.check(now, self.bounds())
    }

    fn blocks(&mut self, now: Instant, index: u32, range: Range<u64>) -> SenderTransmit {
        if self.is_unheard {
            self.pass(now, index, range.clone());
        } else {
            self.credit.sent(index, range.clone());
        }
        let file = self.objects.file_id(index);
        SenderTransmit::Blocks { to: Destination::Group, kind: PacketType::Data, file, range }
    }

    fn hashed(&mut self, now: Instant, file: FileId, hash: [u8; 32]) {
        let Some(index) = self.objects.index(file) else { return };
        if let Some(over) = self.objects.over_mut(index) {
            over.set_hash(hash);
        }
        let Some(object) = self.objects.get_mut(index) else { return };
        object.hash = Some(hash);
        if object.out.is_some() {
            self.handle_completion(now, index);
        } else if object.started.is_some() && object.sent >= object.begin.file_size {
            self.say_digest(now, index);
        }
    }

    /// CLOSING-RETXMITTERS begins when the last object has ended, and ends with the last connection.
    fn advance_closing(&mut self, now: Instant) {
        self.release();
        self.note_idle(now);
        let all_know = || self.retransmitters.values().all(Retransmitter::knows_all);
        if self.coordinator.state == State::Closing
            && self.objects.is_empty()
            && !self.is_held()
            // A caller that hears that a receiver was put out may want to wait for it.
            && self.coordinator.events.is_empty()
            && all_know()
        {
            self.coordinator.state = State::ClosingRetransmitters;
            self.closing_since = Some(now);
            self.watch(now);
            self.retransmitters.values_mut().for_each(Retransmitter::close);
        }
        if self.coordinator.state == State::ClosingRetransmitters && self.retransmitters.is_empty() {
            self.coordinator.state = State::Closed;
            self.coordinator.events.push_back(SenderEvent::Closed);
        }
    }

    /// Counts the time in which nobody is there, or all receivers that are there have ended with everything or said nothing yet.
    fn note_idle(&mut self, now: Instant) {
        let has_work = || self.retransmitters.values().any(|one| one.takes_part);
        if !self.objects.is_empty() && has_work() {
            self.linger.idle_since = None;
            return;
        }
        self.linger.idle_since.get_or_insert(now);
        if self.linger.deadline().is_some_and(|deadline| deadline <= now) {
            self.linger.time = None;
        }
    }

    /// No more objects will come: a receiver that has ended with all that have begun, and wants none of the others, need
    /// not wait for the slower ones.
    fn release(&mut self) {
        if self.coordinator.state != State::Closing || !std::mem::take(&mut self.may_release) {
            return;
        }
        let queued = self.multicast.queued() as u64;
        for (receiver, retransmitter) in &mut self.retransmitters {
            let wants_none = retransmitter.offers.unwanted() == queued;
            if wants_none && !self.coordinator.is_at_work(*receiver) && retransmitter.knows_all() {
                retransmitter.close();
                self.has_released_early |= queued > 0;
            }
        }
    }

    fn wait(&self) -> Step<SenderTransmit, SenderEvent, SenderWait> {
        let reason = match self.coordinator.state {
            State::Closed => SenderWait::Closed,
            State::ClosingRetransmitters => SenderWait::Receivers,
            State::Active | State::Closing if self.objects.is_empty() => SenderWait::Objects,
            State::Active | State::Closing if self.coordinator.waits_for_hash() => SenderWait::Hash,
            State::Active | State::Closing => SenderWait::Receivers,
        };
        Step::Wait(self.deadline(), reason)
    }

    /// The time when an object's time is up, or a receiver's patience.
    fn deadline(&self) -> Option<Instant> {
        let others = [self.linger.deadline(), self.symbols.deadline(), self.multicast.gathering.deadline()];
        let checks = self.stall.deadlines().into_iter().chain(others).flatten();
        let checks = checks.filter(|_| self.coordinator.state != State::Closed);
        checks.chain(self.coordinator.deadline()).min()
    }
}

/// # What is to be seen
impl Sender {
    /// Returns whether the next object that is added is multicast without waiting for another one.
    pub fn has_room(&self) -> bool {
        self.multicast.has_room(self.config.at_once)
    }

    /// Returns the announcement of an object, or none when the machine no longer knows the object.
    pub fn announced(&self, file: FileId) -> Option<&BeginOfFile> {
        let index = self.objects.index(file)?;
        let open = self.objects.get(index).map(|object| &object.begin);
        open.or_else(|| self.objects.over(index).map(Over::begin))
    }

    /// Returns how many bytes of objects have been multicast so far.
    pub fn multicast_bytes(&self) -> u64 {
        self.multicast.sent_bytes()
    }

    /// Returns how often receivers have asked to move to a group and were refused, or not even answered.
    pub fn refused_moves(&self) -> u64 {
        self.refused_moves
    }

    /// Returns how many repair symbols have been sent so far, to the group and to single receivers.
    pub fn repair_symbols(&self) -> u64 {
        self.symbols.sent_symbols()
    }

    /// Returns how many bytes have been sent again so far, to all receivers together.
    pub fn retransmitted_bytes(&self) -> u64 {
        let retransmitters = self.retransmitters.values();
        self.retransmitted_before_bytes + retransmitters.map(|one| one.retransmitted_bytes).sum::<u64>()
    }

    /// Returns the receiver whose full buffer makes the multicast wait ([`SenderWait::Credit`]), if there is
    /// one.
    pub fn held_up_by(&self) -> Option<ReceiverId> {
        self.credit.held_up_by()
    }

    /// Returns when a connected receiver last said anything.
    pub fn last_heard(&self, receiver: ReceiverId) -> Option<Instant> {
        self.retransmitters.get(&receiver).map(|retransmitter| retransmitter.heard)
    }

    /// Takes how many bytes a receiver has asked for again since this was called last, of what the first group was sent while it was
    /// there.
    pub fn take_asked(&mut self, receiver: ReceiverId) -> u64 {
        self.retransmitters.get_mut(&receiver).map_or(0, |retransmitter| retransmitter.asked.take())
    }

    /// Whether the first group has been sent all objects that are known.
    pub fn is_all_out(&self) -> bool {
        self.objects.count() > 0 && self.multicast.is_idle()
    }

    /// Whether a connected receiver has been sent all that it has asked for.
    pub fn is_answered(&self, receiver: ReceiverId) -> bool {
        self.retransmitters.get(&receiver).is_none_or(Retransmitter::is_answered)
    }

    /// Iterates over the connected receivers.
    pub fn receivers(&self) -> impl Iterator<Item = ReceiverId> {
        self.retransmitters.keys().copied()
    }
}

fn to_group(file: FileId, message: Message) -> SenderTransmit {
    SenderTransmit::Message { to: Destination::Group, file, message }
}

/// The action of a retransmitter as it is on the wire. `None` when its object is done meanwhile.
fn retransmission(
    config: &SenderConfig,
    objects: &Objects,
    receiver: ReceiverId,
    action: Action,
) -> Option<SenderTransmit> {
    let to = Destination::Receiver(receiver);
    let session = FileId::new(config.session, 0);
    let welcome =
        Welcome { version: PROTOCOL_VERSION, block_len: config.block_len, receiver: receiver.number() };
    let (file, message) = match action {
        // It tells how far the sender is: the group's word on an object far beyond that is not believed.
        Action::Welcome(first) => {
            (objects.file_id(first.unwrap_or_else(|| objects.next_to_begin())), Message::Welcome(welcome))
        }
        Action::Place(group) => (session, Message::Move(Move::new(group).ok()?)),
        Action::Offer(index) => (objects.file_id(index), Message::Offer(objects.get(index)?.begin.clone())),
        Action::Message(index, Due::Reject) => (objects.file_id(index), Message::RetransmissionReject),
        Action::Message(index, Due::BeginOfFile) => {
            (objects.file_id(index), Message::BeginOfFile(objects.get(index)?.begin.clone()))
        }
        Action::Message(index, Due::EndOfFile) => {
            objects.get(index)?;
            (objects.file_id(index), Message::EndOfFile)
        }
        Action::Message(index, Due::Digest(hash)) => {
            (objects.file_id(index), Message::Digest(Digest::unsigned(hash)))
        }
        Action::Name(index, begin) => (objects.file_id(index), Message::BeginOfFile(*begin)),
        Action::Withdraw(index, reason) => (objects.file_id(index), Message::Withdraw(Reason::new(&reason))),
        Action::Goodbye => (session, Message::Goodbye),
        Action::Close => return Some(SenderTransmit::CloseConnection(receiver)),
        Action::Blocks(index, range) => {
            let (file, kind) = (objects.file_id(index), PacketType::RetransmittedData);
            return Some(SenderTransmit::Blocks { to, kind, file, range });
        }
        Action::ChunkHashes(index, pages) => {
            let file = objects.file_id(index);
            return Some(SenderTransmit::ChunkHashes { to: Destination::Receiver(receiver), file, pages });
        }
        Action::SymbolsSent(index, source_block) => {
            let next = objects.get(index)?.schedule.as_ref()?.next(source_block)?;
            (objects.file_id(index), Message::SymbolsSent(SymbolsSent { source_block, next }))
        }
        Action::Symbols(index, source_block, symbols) => {
            let file = objects.file_id(index);
            return Some(SenderTransmit::Symbols { to, file, source_block, symbols });
        }
    };
    Some(SenderTransmit::Message { to, file, message })
}
