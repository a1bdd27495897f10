//! Receiving from a carousel: joins, keeps what is new, leaves when it has everything.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    ops::Range,
    time::Duration,
};

use treecast_proto::{
    Instant, Step,
    carousel::{Proofs, Receiver, ReceiverConfig, block_hash},
    fec::symbol_number,
    object::{Channel, CutShort, ReceiverEvent, ReceiverInput, ReceiverTransmit, ReceiverWait, Response},
};
use treecast_wire::{
    header::{FileId, SessionId},
    message::{BeginOfFile, Message, Signed, SignedWord},
};

use super::{CarouselError, Dialect, iotup::FrameCollector};
use crate::{
    clock::Clock,
    files::{
        Admission, Buffers, Ending, Intake, Journal, Leftovers, Limit, Report, SourceBlock, TargetFolder,
        Task,
    },
    poller::{Interest, Poller},
    receive::{NameFilter, PLAIN, RECEIVE_BUFFER_BYTES, ReceiveEvent, ReceiveProgress, ReceiveSummary},
    seal::{Opener, Refused, Secret},
    security::{
        PublicKey,
        manifest::{GroupManifests, Verdict},
    },
    status::{Hindrance, Meter, bits, time_for},
    stop::Stop,
    udp::{Batch, Collector, DatagramReceiver, GroupAddress, Item, Offload, open_group_receiver},
    wake::Waker,
};

/// How often progress is told.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// How many times an object's hash may be wrong.
const HASH_ATTEMPTS: u32 = 3;

/// A batch takes a super-packet whole.
const SUPER_PACKET_LEN: usize = 65_536;

/// What to receive from where.
#[derive(Debug)]
pub struct ReceiveOptions {
    pub group: GroupAddress,
    pub session: SessionId,
    pub block_len: u16,
    /// Whether the sender sends repair symbols.
    pub fec: bool,
    pub dialect: Dialect,
    /// What packets are sealed with; none when they are plain.
    pub secret: Option<Secret>,
    /// Whose signature an object's manifest must have; none in a plain session.
    pub sender_key: Option<PublicKey>,
    /// How long the sender may be silent; none waits for ever.
    pub patience: Option<Duration>,
    /// Objects whose names are wanted; none wants all.
    pub only: Option<NameFilter>,
    pub offload: Offload,
}

/// Receives until all objects are there or given up, or `stop` is requested.
///
/// # Errors
/// When the socket or the folder cannot be used.
pub fn receive(
    options: ReceiveOptions,
    folder: TargetFolder,
    stop: &Stop,
    on_event: &mut dyn FnMut(ReceiveEvent),
) -> Result<ReceiveSummary, CarouselError> {
    if options.dialect == Dialect::Session && options.sender_key.is_none() {
        on_event(ReceiveEvent::Warning(PLAIN.to_owned()));
    }
    let (socket, buffer) = open_group_receiver(&options.group, RECEIVE_BUFFER_BYTES)?;
    if let Some(warning) = buffer.warning {
        on_event(ReceiveEvent::Warning(warning));
    }
    let interface = options.group.interface.name.clone();
    on_event(ReceiveEvent::Joined { sender: options.group.group, interface });
    let waker = Waker::new()?;
    let poller = Poller::new()?;
    poller.add(&socket, 0, Interest::Read)?;
    poller.add(&waker, 1, Interest::Read)?;
    poller.add(stop, 2, Interest::Read)?;
    let source = Source::new(socket, &options)?;
    let block_len = source.block_len(&options);
    let machine = Receiver::new(ReceiverConfig {
        session: options.session,
        block_len,
        fec: options.fec,
        has_chunk_hashes: options.dialect == Dialect::Session,
        hash_attempts: HASH_ATTEMPTS,
        patience: options.patience,
    });
    // The IoT updater's frames do not say of which session they are.
    let resumes = options.dialect == Dialect::Session;
    let (journal, leftovers) = Journal::open(&folder, options.session, resumes)?;
    let admission = Admission::new(folder.rules());
    let mut session = Session {
        source,
        machine,
        intake: Intake::start(folder.clone(), journal, waker.clone(), Buffers::default())?,
        folder,
        leftovers,
        kept_bytes: 0,
        waker,
        poller,
        clock: Clock::start(),
        only: options.only,
        admission,
        is_time_up: false,
        is_full: false,
        manifests: options.sender_key.map(GroupManifests::new),
        proofs: options.sender_key.and_then(|_| Proofs::new(block_len)),
        names: BTreeMap::new(),
        doomed: BTreeMap::new(),
        cramped: BTreeSet::new(),
        started: None,
        next_progress: Instant::ZERO,
        meter: Meter::default(),
        block_len,
        malformed: 0,
        summary: ReceiveSummary::default(),
        on_event,
    };
    session.run(stop)?;
    session.intake.hand_over(session.clock.now(), true);
    let ending = match &session.summary {
        ReceiveSummary { interrupted: true, .. } if session.is_time_up => Ending::CutShort,
        ReceiveSummary { interrupted: true, .. } => Ending::Interrupted,
        ReceiveSummary { cut_short: Some(_), .. } => Ending::CutShort,
        _ => Ending::Over,
    };
    if let Some(warning) = session.intake.end(ending) {
        (session.on_event)(ReceiveEvent::Warning(warning));
    }
    Ok(session.summary)
}

/// Who has waited in vain learns which option says for how long.
fn in_words(reason: CutShort) -> String {
    match reason {
        CutShort::Silent(_) => format!("{reason}, the time that --connect-timeout gives"),
        other => other.to_string(),
    }
}

/// Where packets come from, by dialect.
enum Source {
    Session(Collector),
    Iotup(FrameCollector),
}

impl Source {
    fn new(socket: std::net::UdpSocket, options: &ReceiveOptions) -> io::Result<Self> {
        Ok(match &options.dialect {
            Dialect::Session => {
                let opener = options.secret.clone().map(Opener::with_secret);
                Self::Session(Collector::new(socket, options.offload, options.block_len, opener)?)
            }
            Dialect::Iotup { name } => {
                let receiver = DatagramReceiver::new(socket, options.offload);
                let file = FileId::new(options.session, 0);
                Self::Iotup(FrameCollector::new(receiver, file, name.clone()))
            }
        })
    }

    fn block_len(&self, options: &ReceiveOptions) -> u16 {
        match self {
            Self::Session(_) => options.block_len,
            Self::Iotup(_) => treecast_wire::iotup::MAX_DATA_LEN as u16,
        }
    }

    fn dropped(&self) -> u64 {
        match self {
            Self::Session(collector) => collector.dropped(),
            Self::Iotup(collector) => collector.receiver().dropped(),
        }
    }

    fn refused(&self) -> Refused {
        match self {
            Self::Session(collector) => collector.refused(),
            Self::Iotup(_) => Refused::default(),
        }
    }

    /// Whether what one call to the kernel yields fits into the batch.
    fn fits(&self, batch: &Batch) -> bool {
        match self {
            Self::Session(collector) => collector.fits(batch),
            Self::Iotup(_) => batch.room() >= SUPER_PACKET_LEN,
        }
    }

    /// Fills the batch as far as packets are there; returns what came, oldest first, and whether nothing
    /// more is there.
    fn receive(&mut self, batch: &mut Batch) -> io::Result<(Vec<Item>, bool)> {
        let mut is_drained = false;
        while !is_drained && self.fits(batch) {
            is_drained = !match self {
                Self::Session(collector) => collector.receive(batch)?,
                Self::Iotup(collector) => collector.receive(batch)?,
            };
        }
        let mut items = match self {
            Self::Session(_) => Vec::new(),
            Self::Iotup(collector) => collector.take_items(),
        };
        items.extend(batch.take_items());
        Ok((items, is_drained))
    }
}

struct Session<'a> {
    source: Source,
    machine: Receiver,
    intake: Intake,
    folder: TargetFolder,
    /// What an earlier receiver has left.
    leftovers: Leftovers,
    /// How much of what is there it had.
    kept_bytes: u64,
    waker: Waker,
    poller: Poller,
    clock: Clock,
    only: Option<NameFilter>,
    admission: Admission,
    is_time_up: bool,
    is_full: bool,
    /// None in a plain session.
    manifests: Option<GroupManifests>,
    /// What the sender has signed of its blocks; none where it signs none.
    proofs: Option<Proofs>,
    /// Of the objects announced so far.
    names: BTreeMap<FileId, String>,
    /// Objects that cannot be stored as they were announced, and why: they fail once the sender has signed that announcement.
    doomed: BTreeMap<FileId, String>,
    /// Objects for which there is no room; what an earlier receiver has left of them stays.
    cramped: BTreeSet<FileId>,
    started: Option<Instant>,
    next_progress: Instant,
    meter: Meter<1>,
    block_len: u16,
    malformed: u64,
    summary: ReceiveSummary,
    on_event: &'a mut dyn FnMut(ReceiveEvent),
}

impl Session<'_> {
    fn run(&mut self, stop: &Stop) -> Result<(), CarouselError> {
        loop {
            let now = self.clock.now();
            if stop.is_requested() || self.summary.limit.is_some() {
                self.is_time_up = stop.is_time_up();
                self.summary.interrupted = true;
                let reason = stop.time_up().map(|time| Limit::Time(time).to_string());
                let reason = reason.unwrap_or_else(|| self.summary.why_stopped());
                self.machine.handle(now, ReceiverInput::Close { reason });
            }
            self.take_reports(now);
            let is_drained = self.take_packets(now)?;
            let wait = self.carry_out(now, None);
            let is_full = !self.source.fits(self.intake.batch());
            self.intake.hand_over(now, is_full);
            if now >= self.next_progress || wait.1 == ReceiverWait::Closed {
                self.next_progress = now + PROGRESS_INTERVAL;
                self.sum_up(now);
                (self.on_event)(ReceiveEvent::Progress(self.summary.progress));
            }
            match wait {
                (_, ReceiverWait::Closed) => return Ok(()),
                (deadline, _) if is_drained => self.wait(now, deadline)?,
                _ => {}
            }
        }
    }

    fn take_reports(&mut self, now: Instant) {
        self.waker.take();
        while let Some(report) = self.intake.report() {
            let input = match report {
                Report::Hashed { file, hash } if self.hashes_otherwise(file, hash) => {
                    self.intake.add(now, Task::HashAsBlake2b { file });
                    continue;
                }
                Report::Hashed { file, hash } => ReceiverInput::Hashed { file, hash },
                Report::Checked { file, page, wrong } => ReceiverInput::Checked { file, page, wrong },
                Report::Committed { file } => ReceiverInput::Committed { file },
                Report::Decoded { file, source_block, is_right } => {
                    ReceiverInput::Decoded { file, source_block, is_right }
                }
                Report::Refused { file, begin, .. } if self.machine.announced(file) != Some(&begin) => {
                    continue;
                }
                Report::Refused { file, reason, is_full, .. } => {
                    if is_full {
                        self.cramped.insert(file);
                    }
                    self.refuse(now, file, reason);
                    continue;
                }
                Report::Failed { file, reason } => ReceiverInput::StoreFailed { file, reason },
                Report::Lost { file, ranges } => ReceiverInput::Lost { file, ranges },
                Report::Full { shortage } => {
                    self.is_full = true;
                    (self.on_event)(ReceiveEvent::Full(shortage));
                    continue;
                }
                Report::Room => {
                    self.is_full = false;
                    (self.on_event)(ReceiveEvent::Room);
                    continue;
                }
            };
            self.machine.handle(now, input);
            self.carry_out(now, None);
        }
    }

    /// An object cannot be what it was announced as. It fails once the sender is known to have said so.
    fn refuse(&mut self, now: Instant, file: FileId, reason: String) {
        if self.manifests.is_some() && self.machine.digest(file).is_none() {
            self.doomed.insert(file, reason);
        } else {
            self.machine.handle(now, ReceiverInput::StoreFailed { file, reason });
        }
        self.carry_out(now, None);
    }

    /// Whether a file that does not have the hash that its frames say is to be hashed in the other way.
    fn hashes_otherwise(&mut self, file: FileId, hash: [u8; 32]) -> bool {
        let is_wrong = self.machine.digest(file).is_some_and(|digest| digest != hash);
        match &mut self.source {
            Source::Iotup(collector) => is_wrong && collector.hashes_otherwise(),
            Source::Session(_) => false,
        }
    }

    /// Takes what has come; returns whether that was all.
    fn take_packets(&mut self, now: Instant) -> io::Result<bool> {
        let batch = self.intake.batch();
        let malformed = batch.malformed();
        let (items, is_drained) = self.source.receive(batch)?;
        self.malformed += batch.malformed() - malformed;
        if !items.is_empty() {
            self.started.get_or_insert(now);
        }
        for item in items {
            for item in self.prove(item) {
                let at = self.handle(now, item);
                self.carry_out(now, at);
            }
        }
        Ok(is_drained)
    }

    /// Leaves of blocks and symbols what the sender has signed, where it does so.
    fn prove(&mut self, item: Item) -> Vec<Item> {
        let Some(proofs) = &mut self.proofs else { return vec![item] };
        let (file, run, at, are_symbols) = match item {
            Item::Message { file, message: Message::Signed(signed) } => {
                return self.take_page(file, signed).into_iter().collect();
            }
            Item::Message { .. } => return vec![item],
            Item::Blocks { file, range, at } => (file, range, at, false),
            Item::Symbols { file, positions, at } => (file, positions, at, true),
        };
        let bytes = self.intake.batch().bytes();
        let place = |position: u64| at + (position - run.start) as usize;
        let mut compared = 0;
        let right = proofs.right(file, are_symbols, &run, |block| {
            compared += 1;
            block_hash(&bytes[place(block.start)..place(block.end)])
        });
        // Where nothing is known of a block, what says so may have been lost, or was sent before the group was joined.
        let block_len = u64::from(self.block_len);
        self.malformed +=
            compared - right.iter().map(|part| (part.end - part.start).div_ceil(block_len)).sum::<u64>();
        let item = |part: Range<u64>| match (place(part.start), are_symbols) {
            (at, false) => Item::Blocks { file, range: part, at },
            (at, true) => Item::Symbols { file, positions: part, at },
        };
        right.into_iter().map(item).collect()
    }

    /// Takes note of what the next blocks are. Any other signed message is for the machine.
    fn take_page(&mut self, file: FileId, signed: Signed) -> Option<Item> {
        let (Some(proofs), Some(manifests)) = (&mut self.proofs, &self.manifests) else { return None };
        match &signed.word {
            SignedWord::Blocks(page) if proofs.knows(file, page) => {}
            SignedWord::Blocks(page) if manifests.has_signed(file, &signed) => {
                proofs.take(file, page.clone());
            }
            SignedWord::Blocks(_) => self.malformed += 1,
            _ => return Some(Item::Message { file, message: Message::Signed(signed) }),
        }
        None
    }

    /// Hands an item to the machine; returns the first position of blocks, and where they lie in the batch.
    fn handle(&mut self, now: Instant, item: Item) -> Option<(u64, usize)> {
        let item = self.read_signed(item)?;
        let (input, at) = match item {
            Item::Message { file, message } if !self.is_trusted(now, file, &message) => return None,
            Item::Message { file, message } => {
                (ReceiverInput::Message { from: Channel::Group, file, message }, None)
            }
            Item::Symbols { file, positions, at } => {
                let start = positions.start;
                (ReceiverInput::Symbols { from: Channel::Group, file, positions }, Some((start, at)))
            }
            Item::Blocks { file, range, at } => {
                let start = range.start;
                (ReceiverInput::Blocks { from: Channel::Group, file, range }, Some((start, at)))
            }
        };
        self.machine.handle(now, input);
        if !self.doomed.is_empty() {
            self.fail_doomed(now);
        }
        at
    }

    fn fail_doomed(&mut self, now: Instant) {
        let doomed = std::mem::take(&mut self.doomed);
        for (file, reason) in doomed {
            match self.machine.digest(file) {
                Some(_) => self.machine.handle(now, ReceiverInput::StoreFailed { file, reason }),
                None => drop(self.doomed.insert(file, reason)),
            }
        }
    }

    /// What ends something counts in a secure session only if the sender has signed it: all members can seal packets.
    fn read_signed(&mut self, item: Item) -> Option<Item> {
        let Some(manifests) = &self.manifests else { return Some(item) };
        let Item::Message { file, message } = item else { return Some(item) };
        let message = manifests.read(file, message);
        self.malformed += u64::from(message.is_none());
        Some(Item::Message { file, message: message? })
    }

    /// In a secure session, a digest counts only with the sender's signature of what was announced. Where that shows that
    /// somebody else has announced the object, it begins anew.
    fn is_trusted(&mut self, now: Instant, file: FileId, message: &Message) -> bool {
        let Some(manifests) = &mut self.manifests else { return true };
        match message {
            Message::BeginOfFile(begin) => {
                manifests.note(file, self.machine.announced(file), begin);
                true
            }
            Message::Digest(digest) if self.machine.digest(file) == Some(digest.hash) => true,
            Message::Digest(digest) => match manifests.judge(file, self.machine.announced(file), digest) {
                Verdict::Right => true,
                Verdict::RightWith(begin) => {
                    self.machine.handle(now, ReceiverInput::Disown { file });
                    self.doomed.remove(&file);
                    self.cramped.remove(&file);
                    self.admission.give_back(file.index());
                    self.carry_out(now, None);
                    let message = Message::BeginOfFile(begin);
                    self.machine.handle(now, ReceiverInput::Message { from: Channel::Group, file, message });
                    self.carry_out(now, None);
                    true
                }
                Verdict::Wrong => {
                    self.malformed += 1;
                    false
                }
            },
            _ => true,
        }
    }

    /// Does all that the machine wants; returns what it waits for then.
    fn carry_out(&mut self, now: Instant, blocks: Option<(u64, usize)>) -> (Option<Instant>, ReceiverWait) {
        loop {
            match self.machine.poll(now) {
                Step::Transmit(ReceiverTransmit::Announce { file, begin }) => self.announce(now, file, begin),
                Step::Transmit(ReceiverTransmit::Discard { file }) => {
                    // Of one that is not announced, nothing has been taken from there.
                    if self.names.contains_key(&file) && !self.cramped.contains(&file) {
                        self.leftovers.forget(file);
                    }
                    self.intake.add(now, Task::Discard { file });
                }
                Step::Transmit(transmit) => {
                    let compares = matches!(self.source, Source::Iotup(_));
                    let task = task(transmit, blocks, self.block_len, compares);
                    task.into_iter().for_each(|task| self.intake.add(now, task));
                }
                Step::Event(event) => self.event(event),
                Step::Wait(deadline, wait) => return (deadline, wait),
            }
        }
    }

    fn announce(&mut self, now: Instant, file: FileId, begin: BeginOfFile) {
        let name = begin.file_name().to_owned();
        let kept = self.leftovers.kept(&self.folder, file, &begin);
        let wanted = self.only.as_ref().is_none_or(|only| only.accepts(&name));
        let exists = wanted && self.admission.is_kept_out(&self.folder, file.index(), &begin, &kept);
        if !wanted || exists {
            self.machine.handle(now, ReceiverInput::Respond { file, response: Response::Ignore });
            self.summary.not_wanted += u64::from(!wanted);
            self.summary.existing = self.admission.existing();
            return (self.on_event)(ReceiveEvent::Ignored { name, exists });
        }
        if let Err(reason) = self.admission.admit(file.index(), &begin) {
            self.names.insert(file, name);
            return self.refuse(now, file, reason);
        }
        (self.on_event)(ReceiveEvent::Announced { name: name.clone(), bytes: begin.file_size });
        self.names.insert(file, name);
        let ranges = kept.ranges(begin.file_size);
        self.intake.add(now, Task::Announce { file, begin, kept });
        let before = self.machine.progress().received_bytes;
        self.machine.handle(now, ReceiverInput::Have { file, ranges });
        self.kept_bytes += self.machine.progress().received_bytes.saturating_sub(before);
    }

    fn event(&mut self, event: ReceiverEvent) {
        match event {
            ReceiverEvent::Received { begin, .. } => {
                let (name, kind, bytes) = (begin.file_name().to_owned(), begin.kind(), begin.file_size);
                let event = self.summary.note_received(name, kind, bytes);
                (self.on_event)(event);
            }
            ReceiverEvent::Failed { file, reason } => {
                let reason = self.doomed.remove(&file).unwrap_or(reason);
                let name = self.names.get(&file).cloned();
                let name = name.unwrap_or_else(|| format!("file {}", file.index()));
                self.summary.failed += 1;
                self.summary.limit = self.summary.limit.or(self.admission.limit(file.index()));
                self.admission.give_back(file.index());
                (self.on_event)(ReceiveEvent::Failed { name, reason });
            }
            ReceiverEvent::Closed { reason } => self.summary.cut_short = reason.map(in_words),
            _ => {}
        }
    }

    fn sum_up(&mut self, now: Instant) {
        let (progress, refused) = (self.machine.progress(), self.source.refused());
        self.meter.note(now, [progress.received_bytes]);
        let rates = self.meter.rates(now, [progress.received_bytes]);
        let lacking = progress.announced_bytes.saturating_sub(progress.received_bytes);
        let duplicate_bytes = progress.duplicate_blocks.saturating_mul(self.block_len.into());
        self.summary.progress = ReceiveProgress {
            seconds: self.started.map_or(0.0, |started| (now - started).as_secs_f64()),
            received_bytes: progress.received_bytes,
            kept_bytes: self.kept_bytes,
            announced_bytes: progress.announced_bytes,
            retransmitted_bytes: 0,
            duplicate_blocks: progress.duplicate_blocks,
            repair_symbols: progress.repair_symbols,
            decoded_blocks: progress.decoded_blocks,
            wrong_chunks: progress.wrong_chunks,
            dropped_packets: self.source.dropped(),
            ignored_packets: self.malformed,
            forged_packets: refused.forged,
            replayed_packets: refused.replayed,
            objects: self.names.len() as u64,
            objects_done: self.summary.there(),
            objects_failed: self.summary.failed,
            now_bps: rates.map(|[received]| bits(received)),
            duplicate_share: duplicate_bytes as f64
                / (progress.received_bytes + duplicate_bytes).max(1) as f64,
            hindrance: self.is_full.then_some(Hindrance::Full),
            seconds_left: time_for(lacking, rates.map(|[received]| received)),
            ..ReceiveProgress::default()
        };
    }

    fn wait(&mut self, now: Instant, deadline: Option<Instant>) -> io::Result<()> {
        let until =
            [deadline, self.intake.deadline()].into_iter().flatten().fold(self.next_progress, Instant::min);
        (self.on_event)(ReceiveEvent::Idle);
        self.poller.wait(Some(until - now), &mut Vec::new())
    }
}

/// What the store is to do, other than what needs an answer.
fn task(
    transmit: ReceiverTransmit,
    blocks: Option<(u64, usize)>,
    symbol_len: u16,
    compares: bool,
) -> Option<Task> {
    Some(match transmit {
        // Where chunks are known to be wrong, all of it differs.
        ReceiverTransmit::Overwrite { file, range } if compares => {
            let at = position_in_batch(blocks, &range)?;
            Task::Overwrite { file, range, at }
        }
        ReceiverTransmit::Store { file, range } | ReceiverTransmit::Overwrite { file, range } => {
            let at = position_in_batch(blocks, &range)?;
            Task::Keep { file, range, at }
        }
        ReceiverTransmit::KeepSymbols { file, source_block, positions } => {
            let at = position_in_batch(blocks, &positions)?;
            let (first, len) = (symbol_number(positions.start, symbol_len), positions.end - positions.start);
            Task::KeepSymbols { file, source_block, first, symbol_len, at, len: len as usize }
        }
        ReceiverTransmit::Decode { file, source_block: number, blocks, missing } => {
            Task::Decode { file, source_block: SourceBlock { number, blocks, symbol_len, missing } }
        }
        ReceiverTransmit::ForgetSymbols { file } => Task::ForgetSymbols { file },
        ReceiverTransmit::Hash { file } => Task::Hash { file },
        ReceiverTransmit::CheckChunks { file, hash, page } => Task::CheckChunks { file, hash, page },
        ReceiverTransmit::Commit { file } => Task::Commit { file },
        _ => return None,
    })
}

/// Where `range`, a part of the blocks that lie at `at` from position `start` on, lies itself.
fn position_in_batch(blocks: Option<(u64, usize)>, range: &Range<u64>) -> Option<usize> {
    let (start, at) = blocks?;
    Some(at + usize::try_from(range.start.checked_sub(start)?).ok()?)
}
