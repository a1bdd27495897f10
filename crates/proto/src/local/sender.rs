//! The sender: every object once to the session's group, and the controller of the controllers at the top.

mod children;
mod listeners;
mod window;

use std::{
    collections::{BTreeSet, VecDeque},
    ops::Range,
    time::Duration,
};

use treecast_wire::{
    header::{FileId, PacketType, SessionId},
    message::{BeginOfFile, Contents, Digest, Local, MAX_OBJECTS, Member, Message, Reason},
};

use self::{listeners::Listeners, window::Window};
use super::{
    CopiesSent, Mode, Tuning,
    accounts::Accounts,
    clients::{Client, Clients, LONGEST_SILENCE},
    pace::Pace,
    repairs::Repairs,
    stamp_us,
};
use crate::{
    Instant, Step,
    object::{Address, Destination, Lane, SenderEvent, SenderInput, SenderTransmit, SenderWait},
};

/// The time between two messages in which the sender tells the session's state.
const STATE: Duration = Duration::from_millis(500);

/// The time that the sender waits for other receivers when every known one is done.
const LINGER: Duration = Duration::from_secs(2);

/// The time that the sender waits when all receivers have gone without being done.
const DESERTED: Duration = Duration::from_secs(15);

/// The time between two Goodbyes of the sender, and their number.
const GOODBYE: Duration = Duration::from_millis(100);
const GOODBYES: u32 = 5;

/// The time that a repair waits for requests of others that lack the same.
const GATHERING: Duration = Duration::from_millis(20);

/// The lowest rate where none is set, as a share of the highest; and in bits a second where links are shared.
const LOWEST_SHARE: f64 = 1.0 / 64.0;
const LOWEST_SHARED_BPS: u64 = 64_000;

/// The most blocks of a repair that leave together. Repairs that can wait leave in shorter runs.
const RUN_BLOCKS: u64 = 16;
const LAST_RUN_BLOCKS: u64 = 4;

/// The share of the rate at which one member is sent repairs at once, in addition to the loss that it reports. What
/// it asks for beyond is sent when there is nothing else to send.
const ASKING_SHARE: f64 = 1.0 / 24.0;

/// The largest loss that a member is believed to have, as a share of its packets.
const MOST_LOSS: f64 = 0.25;

#[derive(Debug, Clone)]
pub struct SenderConfig {
    pub session: SessionId,
    /// Bytes of an object in each packet but the last.
    pub block_len: u16,
    /// The sender's own address.
    pub me: Member,
    pub mode: Mode,
    /// The most bytes of an object that one [`SenderTransmit::Blocks`] covers: a multiple of the block length.
    pub max_run_len: u32,
    /// The highest rate, in bits of objects a second.
    pub rate_bps: u64,
    /// Whether the sender takes about as much of a link as a TCP connection would. Otherwise it begins at the highest rate.
    pub shares_link: bool,
    /// The lowest rate, in bits of objects a second. Receivers for which it is too fast have to leave
    /// (lgmp-mbone-1999, 4.3.1). With 0 nobody has to leave, and the rate is not cut below a part in 64.
    pub minimum_rate_bps: u64,
    /// The most bytes of objects by which the sender runs ahead of the slowest group, counted from what that group
    /// has or can obtain.
    pub window_bytes: u64,
    /// The time that the sender waits for more receivers after the first.
    pub settling: Duration,
    /// The number of receivers that ends this wait early. `None` always waits.
    pub wait_for: Option<u32>,
    /// The number of receivers, where a file of groups names them all. Until so many have been there together, the sender waits at its end
    /// for those that lack, but no longer than a minute. `None` where nobody knows the number.
    pub named: Option<u32>,
    /// `None` on a fanout with multicast.
    pub copies: Option<CopiesSent>,
    pub tuning: Tuning,
}

/// The counts of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SenderFigures {
    /// Bytes of objects sent to the session's group for the first time.
    pub data_bytes: u64,
    /// Bytes of objects sent again to the session's group, and to local groups.
    pub session_repair_bytes: u64,
    pub group_repair_bytes: u64,
    /// Messages received: reports, requests, and all others.
    pub reports: u64,
    pub requests: u64,
    pub others: u64,
}

#[derive(Debug)]
struct Object {
    begin: BeginOfFile,
    hash: Option<[u8; 32]>,
    withdrawn: Option<String>,
    /// Addresses that were told its announcement again lately, and when.
    said: Vec<(Address, Instant)>,
}

impl From<BeginOfFile> for Object {
    fn from(begin: BeginOfFile) -> Self {
        Self { begin, hash: None, withdrawn: None, said: Vec::new() }
    }
}

/// The position of the next block to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Begin(u32),
    Blocks(u32, u64),
    /// Everything has been sent.
    End,
}

/// One session's sender. Call order: see the crate's documentation; only [`Lane::Group`] is polled. It paces itself.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    objects: Vec<Object>,
    at: At,
    clients: Clients,
    repairs: Repairs,
    accounts: Accounts,
    pace: Pace,
    times: Times,
    figures: SenderFigures,
    window: Window,
    /// The number of bytes of all objects before each.
    offsets: Vec<u64>,
    /// Objects whose hash is not known, or not announced yet.
    untold: BTreeSet<u32>,
    /// The number of objects that have ended at every receiver, as told to the application.
    told_done: u32,
    /// Receivers that get copies. `None` on a fanout with multicast.
    listeners: Option<Listeners>,
    out: VecDeque<Step<SenderTransmit, SenderEvent, SenderWait>>,
}

#[derive(Debug, Default)]
struct Times {
    next_state: Instant,
    /// The time at which the first block may leave: some time after the first receiver has come. `None` before that.
    start: Option<Instant>,
    /// The time since which there are no receivers. `None` while there are some.
    deserted: Option<Instant>,
    /// The time since which fewer receivers are known than the file of groups names. `None` once all have been there.
    short: Option<Instant>,
    /// The time since which every receiver is done. `None` while one is not.
    done: Option<Instant>,
    next_goodbye: Instant,
    goodbyes: u32,
    /// The number of times that the sender has put off its end after saying Goodbye, because a receiver lacked
    /// something.
    stays: u32,
    is_closing: bool,
    is_closed: bool,
}

fn pace(config: &SenderConfig) -> Pace {
    let share = |bps: u64| bps as f64 / config.rate_bps.max(1) as f64;
    match config.shares_link {
        true => Pace::sharing(config.rate_bps, share(config.minimum_rate_bps.max(LOWEST_SHARED_BPS))),
        false => Pace::new(config.rate_bps, LOWEST_SHARE.max(share(config.minimum_rate_bps))),
    }
}

/// # What happens
impl Sender {
    pub fn new(config: SenderConfig, objects: Vec<BeginOfFile>) -> Self {
        let mut offsets = vec![0];
        offsets.extend(objects.iter().scan(0_u64, |sum, begin| {
            *sum = sum.saturating_add(begin.file_size);
            Some(*sum)
        }));
        Self {
            untold: (0..objects.len() as u32).collect(),
            window: Window::new(config.window_bytes),
            offsets,
            told_done: 0,
            listeners: config.copies.map(Listeners::new),
            objects: objects.into_iter().map(Object::from).collect(),
            at: At::Begin(0),
            clients: Clients::default(),
            repairs: Repairs::default(),
            accounts: Accounts::new(config.block_len),
            pace: pace(&config),
            times: Times::default(),
            figures: SenderFigures::default(),
            out: VecDeque::new(),
            config,
        }
    }

    pub fn handle(&mut self, now: Instant, input: SenderInput) {
        match input {
            SenderInput::Local { from, file, message } if file.session() == self.config.session => {
                match message {
                    Message::Local(local) => self.local(now, from, file, local),
                    Message::ChunkHashesRequest(request) => {
                        let to = Destination::Local(Address::Member(from));
                        let pages = request.pages();
                        self.figures.others += 1;
                        self.transmit(SenderTransmit::ChunkHashes { to, file, pages });
                    }
                    _ => {}
                }
            }
            SenderInput::Hashed { file, hash } => {
                if let Some(object) = self.objects.get_mut(file.index() as usize) {
                    object.hash = Some(hash);
                }
            }
            SenderInput::Withdraw { file, reason } => self.withdraw(file, reason),
            SenderInput::Close => {
                self.times.is_closing = true;
                // All are told how many objects there are.
                self.times.next_state = self.times.next_state.min(now);
            }
            // There are no connections, and clients that listen report.
            SenderInput::Local { .. }
            | SenderInput::Joined { .. }
            | SenderInput::Left { .. }
            | SenderInput::Unheard { .. }
            | SenderInput::Message { .. }
            | SenderInput::Listeners { .. } => {}
        }
    }

    /// Adds an object of a feed. It is sent after all others. `None` if a session has no room for more objects.
    pub fn send(&mut self, begin: BeginOfFile) -> Option<FileId> {
        let index = u32::try_from(self.objects.len()).ok().filter(|index| *index < MAX_OBJECTS)?;
        let end = self.offset(index).saturating_add(begin.file_size);
        self.offsets.push(end);
        self.untold.insert(index);
        self.objects.push(begin.into());
        if self.at == At::End {
            self.at = At::Begin(index);
        }
        Some(self.file(index))
    }

    /// Whether all objects are out, so that the next one need not wait.
    pub fn has_room(&self) -> bool {
        match self.at {
            At::Begin(index) => index as usize >= self.objects.len(),
            At::Blocks(..) => false,
            At::End => true,
        }
    }

    /// Whether more objects may be added.
    fn goes_on(&self) -> bool {
        self.config.tuning.is_feed && !self.times.is_closing
    }

    fn withdraw(&mut self, file: FileId, reason: String) {
        let Some(object) = self.objects.get_mut(file.index() as usize) else { return };
        // Members may never have heard what the object is.
        let begin = Message::BeginOfFile(object.begin.clone());
        let messages = [begin, Message::Withdraw(Reason::new(&reason))];
        object.withdrawn = Some(reason);
        self.untold.remove(&file.index());
        self.repairs.forget(file.index());
        match self.at {
            At::Begin(index) | At::Blocks(index, _) if index == file.index() => self.at = self.behind(index),
            _ => {}
        }
        for message in messages {
            self.transmit(SenderTransmit::Message { to: Destination::Group, file, message });
        }
    }

    fn transmit(&mut self, transmit: SenderTransmit) {
        self.out.push_back(Step::Transmit(transmit));
    }

    fn file(&self, index: u32) -> FileId {
        FileId::new(self.config.session, index)
    }
}

/// # What is to be done
impl Sender {
    pub fn poll(&mut self, now: Instant, lane: Lane) -> Step<SenderTransmit, SenderEvent, SenderWait> {
        if lane != Lane::Group {
            return Step::Wait(None, SenderWait::Closed);
        }
        if let Some(step) = self.out.pop_front() {
            return step;
        }
        if self.times.is_closed {
            return Step::Wait(None, SenderWait::Closed);
        }
        if now >= self.times.next_state {
            self.say_state(now);
        }
        self.end_when_done(now);
        let wait = if self.out.is_empty() { self.send_next(now) } else { None };
        match (self.out.pop_front(), wait) {
            (Some(step), _) => step,
            (None, Some((at, why))) => Step::Wait(Some(at.min(self.deadline())), why),
            (None, None) => Step::Wait(Some(self.deadline()), SenderWait::Receivers),
        }
    }

    /// Sends a repair or the next block. Returns what it waits for, if it can send nothing.
    fn send_next(&mut self, now: Instant) -> Option<(Instant, SenderWait)> {
        if now < self.pace.next() {
            return Some((self.pace.next(), SenderWait::Credit));
        }
        if self.mend(now, false) {
            return None;
        }
        let repair = self.repairs.deadline(true).map(|at| (at, SenderWait::Receivers));
        let Some(start) = self.times.start else {
            return repair.or(Some((self.deadline(), SenderWait::Listener)));
        };
        let are_there = self.config.wait_for.is_some_and(|wanted| self.receivers() >= wanted);
        if now < start && !are_there && self.at == At::Begin(0) {
            return Some((start.min(self.deadline()), SenderWait::Listener));
        }
        if self.tell_hashes() || self.send_data(now) || self.mend(now, true) {
            return None;
        }
        repair
    }

    /// Sends repairs: to the group that lacks the blocks, or to all when many groups do. `with_last` says whether
    /// repairs that can wait are sent, too.
    fn mend(&mut self, now: Instant, with_last: bool) -> bool {
        // What can wait leaves in short runs: it holds up nothing else.
        let run = if self.repairs.deadline(false).is_none() { LAST_RUN_BLOCKS } else { RUN_BLOCKS };
        let most = run * u64::from(self.config.block_len);
        let Some(job) = self.repairs.next(now, most, with_last, |_, range| vec![range.clone()]) else {
            return false;
        };
        let others = if job.is_last { 0 } else { self.repairs.addresses(job.object, &job.range) };
        // A copy for each receiver is dearer than one for each controller.
        let is_wanted_by_many =
            self.listeners.is_none() && others > 0 && (others + 1) * 3 > self.clients.children().count();
        let to = if is_wanted_by_many { Address::Session } else { job.to };
        let len = job.range.end - job.range.start;
        self.repairs.heard(now, to, job.object, &job.range);
        self.pace.spend(now, len);
        let (to, sent) = match to {
            Address::Session => (Destination::Group, &mut self.figures.session_repair_bytes),
            to => (Destination::Local(to), &mut self.figures.group_repair_bytes),
        };
        *sent += len;
        let file = self.file(job.object);
        let kind = PacketType::RetransmittedData;
        self.transmit(SenderTransmit::Blocks { to, kind, file, range: job.range });
        true
    }

    /// Announces hashes that have become known.
    fn tell_hashes(&mut self) -> bool {
        let out = match self.at {
            At::Begin(index) | At::Blocks(index, _) => index as usize,
            At::End => self.objects.len(),
        };
        let is_known = |index: &u32| self.objects[*index as usize].hash.is_some();
        let Some(index) = self.untold.range(..out as u32).copied().find(is_known) else { return false };
        self.untold.remove(&index);
        self.announce(Destination::Group, index, false);
        true
    }

    /// Announces an object, with its hash if that is known.
    fn announce(&mut self, to: Destination, index: u32, with_begin: bool) {
        let file = self.file(index);
        let Some(object) = self.objects.get(index as usize) else { return };
        let begin = with_begin.then(|| Message::BeginOfFile(object.begin.clone()));
        let digest = object.hash.map(|hash| Message::Digest(Digest::unsigned(hash)));
        let withdrawn = object.withdrawn.as_ref().map(|reason| Message::Withdraw(Reason::new(reason)));
        for message in begin.into_iter().chain(digest).chain(withdrawn) {
            self.transmit(SenderTransmit::Message { to, file, message });
        }
    }

    /// Sends the next blocks, if the window allows.
    fn send_data(&mut self, now: Instant) -> bool {
        match self.at {
            At::End => false,
            At::Begin(index) => match self.objects.get(index as usize) {
                None => {
                    self.at = At::End;
                    self.say_state(now);
                    true
                }
                Some(object) if object.withdrawn.is_some() => {
                    self.at = At::Begin(index + 1);
                    self.send_data(now)
                }
                Some(_) => {
                    self.announce(Destination::Group, index, true);
                    self.at = At::Blocks(index, 0);
                    true
                }
            },
            At::Blocks(index, from) => self.send_blocks(now, index, from),
        }
    }

    fn send_blocks(&mut self, now: Instant, index: u32, from: u64) -> bool {
        let size = self.objects[index as usize].begin.file_size;
        let file = self.file(index);
        if from >= size {
            self.at = self.behind(index);
            let message = Message::EndOfFile;
            self.transmit(SenderTransmit::Message { to: Destination::Group, file, message });
            return true;
        }
        let end = size.min(from + u64::from(self.config.max_run_len.max(1)));
        if !self.is_in_window(now, self.offset(index) + end) {
            return false;
        }
        let range: Range<u64> = from..end;
        self.figures.data_bytes += end - from;
        let copies = self.listeners.as_ref().map_or(1, Listeners::share);
        self.pace.spend(now, (end - from) * copies);
        self.at = At::Blocks(index, end);
        let kind = PacketType::Data;
        self.transmit(SenderTransmit::Blocks { to: Destination::Group, kind, file, range });
        true
    }

    fn behind(&self, index: u32) -> At {
        At::Begin(index + 1)
    }

    /// The present rate, in packets a second.
    fn packets_a_second(&self) -> f64 {
        self.pace.bps() as f64 / 8.0 / f64::from(self.config.block_len.max(1))
    }

    /// The number of bytes of all objects before this one.
    fn offset(&self, index: u32) -> u64 {
        self.offsets.get(index as usize).copied().unwrap_or_default()
    }

    fn say_state(&mut self, now: Instant) {
        self.times.next_state = now + STATE;
        self.clients.expire(now, self.objects.len() as u32);
        self.forget_silent_listeners(now);
        self.clients.set_lowest(self.is_lowest());
        // Where a lowest rate is set, that is reached as long as a client is congested. A client that is congested there leaves.
        let goes_down = self.config.minimum_rate_bps > 0 && self.clients.are_congested();
        // A rate that is not used says nothing about the link.
        let is_unproven = self.config.shares_link && !matches!(self.at, At::Blocks(..));
        if !goes_down && !is_unproven {
            self.pace.raise(now, self.packets_a_second());
        }
        self.tell_done(now);
        self.times.deserted = match self.clients.len() {
            0 if self.times.start.is_some() && !self.goes_on() => Some(self.times.deserted.unwrap_or(now)),
            _ => None,
        };
        let file = self.file(0);
        let to = Destination::Group;
        if !self.goes_on()
            && let Ok(contents) = Contents::new(self.objects.len() as u32)
        {
            self.transmit(SenderTransmit::Message { to, file, message: Message::Contents(contents) });
        }
        let message = Message::Local(Local::State(Box::new(self.state(stamp_us(now)))));
        self.transmit(SenderTransmit::Message { to, file, message });
    }

    /// Ends the session when every receiver has everything, or nobody is left.
    fn end_when_done(&mut self, now: Instant) {
        let is_deserted = self.times.deserted.is_some_and(|since| now >= since + DESERTED);
        let is_cut = self.times.is_closing && self.clients.len() == 0;
        let is_over = self.times.done.is_some_and(|since| now >= since + LINGER) || is_deserted || is_cut;
        if (is_over || self.times.goodbyes > 0) && now >= self.times.next_goodbye {
            if self.times.goodbyes >= GOODBYES {
                self.times.is_closed = true;
                self.out.push_back(Step::Event(SenderEvent::Closed));
                return;
            }
            self.times.goodbyes += 1;
            self.times.next_goodbye = now + GOODBYE;
            let (to, file) = (Destination::Group, self.file(0));
            self.transmit(SenderTransmit::Message { to, file, message: Message::Goodbye });
        }
    }

    /// Tells the application which objects have ended at every receiver, and notes whether all have.
    fn tell_done(&mut self, now: Instant) {
        let all = self.objects.len() as u32;
        let done = if self.clients.len() == 0 { 0 } else { self.clients.done(all) };
        // All may have given up an object of a stream that is still being sent.
        let begun = match self.at {
            At::Begin(index) | At::Blocks(index, _) => index,
            At::End => all,
        };
        let told = if self.config.tuning.is_feed { done.min(begun) } else { done };
        for index in self.told_done..told {
            let file = self.file(index);
            if self.config.tuning.is_feed {
                // The application lets go of it.
                self.repairs.forget(index);
            }
            self.out.push_back(Step::Event(SenderEvent::FileDone { file, outcomes: Vec::new() }));
        }
        self.told_done = self.told_done.max(told);
        // A client that has been there and dies later is not waited for longer than any other silent client.
        self.config.named = self.config.named.filter(|named| self.receivers() < *named);
        let is_short = self.times.start.is_some() && self.config.named.is_some();
        self.times.short = if is_short { self.times.short.or(Some(now)) } else { None };
        let is_done = self.at == At::End
            && !self.goes_on()
            && self.untold.is_empty()
            && self.clients.len() > 0
            && self.times.short.is_none_or(|since| now >= since + LONGEST_SILENCE)
            && done >= all;
        self.times.done = if is_done { self.times.done.or(Some(now)) } else { None };
    }

    fn deadline(&self) -> Instant {
        let end = match self.times.goodbyes {
            0 => self.times.done.map(|since| since + LINGER),
            _ => Some(self.times.next_goodbye),
        };
        end.into_iter().fold(self.times.next_state, Instant::min)
    }
}

/// # What is to be seen
impl Sender {
    /// The announcement of an object.
    pub fn announced(&self, file: FileId) -> Option<&BeginOfFile> {
        self.objects.get(file.index() as usize).map(|object| &object.begin)
    }

    pub fn figures(&self) -> SenderFigures {
        self.figures
    }

    /// The present rate, in bits of objects a second.
    pub fn rate_bps(&self) -> u64 {
        self.pace.bps()
    }

    /// The number of clients that report to the sender itself.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// The number of objects that receivers have given up because they were late, summed over receivers, as far as
    /// reported. No receiver counts for more than all objects.
    pub fn given_up(&self) -> u32 {
        let objects = self.objects.len() as u32;
        let most = |client: &Client| client.report.receivers.saturating_mul(objects);
        self.clients
            .iter()
            .fold(0, |sum: u32, (_, client)| sum.saturating_add(client.report.given_up.min(most(client))))
    }

    /// Whether it has said Goodbye. Receivers leave after that.
    pub fn is_leaving(&self) -> bool {
        self.times.goodbyes > 0
    }

    /// Begins as soon as so many receivers are there.
    pub fn begin_with(&mut self, receivers: u32) {
        self.config.wait_for = Some(receivers);
    }

    /// The number of receivers that has been reported.
    pub fn receivers(&self) -> u32 {
        self.clients.iter().fold(0, |sum, (_, client)| sum.saturating_add(client.report.receivers))
    }
}
