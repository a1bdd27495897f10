//! Receiving from a carousel: joins, keeps what is new, leaves when it has everything.

use std::{io, ops::Range, time::Duration};

use treecast_proto::{
    Instant, Step,
    carousel::{
        Progress, Receiver, ReceiverConfig, ReceiverEvent, ReceiverInput, ReceiverTransmit, ReceiverWait,
    },
};
use treecast_wire::header::{FileId, SessionId};

use super::{CarouselError, Dialect, iotup::FrameCollector};
use crate::{
    clock::Clock,
    files::{Report, Store, TargetFolder, Task},
    poller::{Interest, Poller},
    stop::Stop,
    udp::{Batch, Collector, DatagramReceiver, GroupAddress, Item, Offload, open_group_receiver},
    wake::Waker,
};

/// How often progress is told.
const TELL_INTERVAL: Duration = Duration::from_millis(100);

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
    pub dialect: Dialect,
    /// How long the sender may be silent; none waits for ever.
    pub patience: Option<Duration>,
    pub receive_buffer_bytes: usize,
    pub offload: Offload,
}

/// Something to tell whoever watches.
#[derive(Debug, Clone, PartialEq)]
pub enum ReceiveEvent {
    /// The socket is open. With a warning: one line about its buffer.
    Joined {
        warning: Option<String>,
    },
    Progress(ReceiveSummary),
    /// An object lies under its final name.
    Received {
        name: String,
        bytes: u64,
    },
    /// An object failed.
    Failed {
        name: String,
        reason: String,
    },
}

/// How far a receiver is, or was at its end.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReceiveSummary {
    pub progress: Progress,
    /// Since the first packet.
    pub seconds: f64,
    pub received_objects: u64,
    pub failed_objects: u64,
    /// Packets that the kernel dropped because the receive buffer was full.
    pub dropped_packets: u64,
    /// Packets that were none of the dialect's.
    pub malformed_packets: u64,
    /// Why not all objects came, if so.
    pub reason: Option<String>,
}

impl ReceiveSummary {
    /// Whether every object is there.
    pub fn is_complete(&self) -> bool {
        self.reason.is_none() && self.failed_objects == 0
    }
}

/// Receives until all objects are there or given up, or `stop` is requested.
///
/// # Errors
/// When the socket or the folder cannot be used.
pub fn receive(
    options: ReceiveOptions,
    folder: TargetFolder,
    stop: &Stop,
    mut tell: impl FnMut(ReceiveEvent),
) -> Result<ReceiveSummary, CarouselError> {
    let (socket, buffer) = open_group_receiver(&options.group, options.receive_buffer_bytes)?;
    tell(ReceiveEvent::Joined { warning: buffer.warning });
    let waker = Waker::new()?;
    let poller = Poller::new()?;
    poller.add(&socket, 0, Interest::Read)?;
    poller.add(&waker, 1, Interest::Read)?;
    poller.add(stop, 2, Interest::Read)?;
    let source = Source::new(socket, &options)?;
    let machine = Receiver::new(ReceiverConfig {
        session: options.session,
        block_len: source.block_len(&options),
        hash_attempts: HASH_ATTEMPTS,
        patience: options.patience,
    });
    let mut session = Session {
        source,
        machine,
        store: Store::start(folder, waker.clone())?,
        waker,
        poller,
        clock: Clock::start(),
        names: Vec::new(),
        started: None,
        next_tell: Instant::ZERO,
        summary: ReceiveSummary::default(),
    };
    session.run(stop, &mut tell)?;
    Ok(session.summary)
}

/// Where packets come from, by dialect.
enum Source {
    Session(Collector),
    Iotup(FrameCollector),
}

impl Source {
    fn new(socket: std::net::UdpSocket, options: &ReceiveOptions) -> io::Result<Self> {
        Ok(match &options.dialect {
            Dialect::Session => Self::Session(Collector::new(socket, options.offload, options.block_len)?),
            Dialect::Iotup { name } => {
                let receiver = DatagramReceiver::new(socket, options.offload)?;
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

    /// Fills the batch as far as packets are there; returns what came, oldest first.
    fn receive(&mut self, batch: &mut Batch) -> io::Result<Vec<Item>> {
        match self {
            Self::Session(collector) => {
                while collector.fits(batch) && collector.receive(batch)? {}
                Ok(batch.take_items())
            }
            Self::Iotup(collector) => {
                while batch.room() >= SUPER_PACKET_LEN && collector.receive(batch)? {}
                let mut items = collector.take_items();
                items.extend(batch.take_items());
                Ok(items)
            }
        }
    }
}

struct Session {
    source: Source,
    machine: Receiver,
    store: Store,
    waker: Waker,
    poller: Poller,
    clock: Clock,
    /// Of the objects announced so far. At most one for each object of the carousel.
    names: Vec<(FileId, String)>,
    started: Option<Instant>,
    next_tell: Instant,
    summary: ReceiveSummary,
}

impl Session {
    fn run(&mut self, stop: &Stop, tell: &mut impl FnMut(ReceiveEvent)) -> Result<(), CarouselError> {
        loop {
            let now = self.clock.now();
            if stop.is_requested() {
                self.machine.handle(now, ReceiverInput::Close);
            }
            let mut batch = self.store.batch();
            let mut tasks = Vec::new();
            self.take_reports(now, &mut tasks, tell);
            let items = self.source.receive(&mut batch)?;
            let is_quiet = items.is_empty();
            if !is_quiet {
                self.started.get_or_insert(now);
            }
            self.summary.malformed_packets += batch.malformed();
            for item in items {
                let at = self.handle(now, item);
                self.carry_out(now, at, &mut tasks, tell);
            }
            let wait = self.carry_out(now, None, &mut tasks, tell);
            self.store.submit(batch, tasks);
            if now >= self.next_tell || wait.1 == ReceiverWait::Closed {
                self.next_tell = now + TELL_INTERVAL;
                self.sum_up(now);
                tell(ReceiveEvent::Progress(self.summary.clone()));
            }
            match wait {
                (_, ReceiverWait::Closed) => return Ok(()),
                (deadline, _) if is_quiet => self.wait(now, deadline)?,
                _ => {}
            }
        }
    }

    fn take_reports(&mut self, now: Instant, tasks: &mut Vec<Task>, tell: &mut impl FnMut(ReceiveEvent)) {
        self.waker.take();
        while let Some(report) = self.store.report() {
            let input = match report {
                Report::Hashed { file, hash } => ReceiverInput::Hashed { file, hash },
                Report::Failed { file, reason } => ReceiverInput::StoreFailed { file, reason },
            };
            self.machine.handle(now, input);
            self.carry_out(now, None, tasks, tell);
        }
    }

    /// Hands an item to the machine; returns where blocks lie in the batch, and their first position.
    fn handle(&mut self, now: Instant, item: Item) -> Option<(u64, usize)> {
        let (input, at) = match item {
            Item::Message { file, message } => (ReceiverInput::Message { file, message }, None),
            Item::Blocks { file, range, at } => {
                let start = range.start;
                (ReceiverInput::Blocks { file, range }, Some((start, at)))
            }
        };
        self.machine.handle(now, input);
        at
    }

    /// Does all that the machine wants; returns what it waits for then.
    fn carry_out(
        &mut self,
        now: Instant,
        blocks: Option<(u64, usize)>,
        tasks: &mut Vec<Task>,
        tell: &mut impl FnMut(ReceiveEvent),
    ) -> (Option<Instant>, ReceiverWait) {
        loop {
            match self.machine.poll(now) {
                Step::Transmit(ReceiverTransmit::Commit { file }) => self.commit(now, file),
                Step::Transmit(transmit) => tasks.extend(self.task(transmit, blocks)),
                Step::Event(event) => self.event(event, tell),
                Step::Wait(deadline, wait) => return (deadline, wait),
            }
        }
    }

    fn task(&mut self, transmit: ReceiverTransmit, blocks: Option<(u64, usize)>) -> Option<Task> {
        Some(match transmit {
            ReceiverTransmit::Announce { file, begin } => {
                self.names.push((file, begin.file_name().to_owned()));
                Task::Announce { file, begin }
            }
            ReceiverTransmit::Store { file, range, compare } => {
                let at = position_in_batch(blocks, &range)?;
                match compare {
                    false => Task::Keep { file, range, at },
                    true => Task::Overwrite { file, range, at },
                }
            }
            ReceiverTransmit::Hash { file } => Task::Hash { file },
            ReceiverTransmit::Discard { file } => Task::Discard { file },
            ReceiverTransmit::Commit { .. } => return None,
        })
    }

    /// An object is committed when its hash has come back, so all of it has been stored before.
    fn commit(&mut self, now: Instant, file: FileId) {
        if let Err(reason) = self.store.commit(file) {
            self.machine.handle(now, ReceiverInput::StoreFailed { file, reason });
        }
    }

    fn event(&mut self, event: ReceiverEvent, tell: &mut impl FnMut(ReceiveEvent)) {
        match event {
            ReceiverEvent::Received { begin, .. } => {
                self.summary.received_objects += 1;
                let name = begin.file_name().to_owned();
                tell(ReceiveEvent::Received { name, bytes: begin.file_size });
            }
            ReceiverEvent::Failed { file, reason } => {
                self.summary.failed_objects += 1;
                let known = self.names.iter().find(|(known, _)| *known == file);
                let name = known.map_or_else(|| format!("object {}", file.index()), |(_, name)| name.clone());
                tell(ReceiveEvent::Failed { name, reason });
            }
            ReceiverEvent::Closed { reason } => self.summary.reason = reason,
        }
    }

    fn sum_up(&mut self, now: Instant) {
        self.summary.progress = self.machine.progress();
        self.summary.dropped_packets = self.source.dropped();
        self.summary.seconds = self.started.map_or(0.0, |started| (now - started).as_secs_f64());
    }

    fn wait(&mut self, now: Instant, deadline: Option<Instant>) -> io::Result<()> {
        let until = deadline.map_or(self.next_tell, |deadline| deadline.min(self.next_tell));
        self.poller.wait(Some(until - now), &mut Vec::new())
    }
}

/// Where `range`, a part of the blocks that lie at `at` from position `start` on, lies itself.
fn position_in_batch(blocks: Option<(u64, usize)>, range: &Range<u64>) -> Option<usize> {
    let (start, at) = blocks?;
    Some(at + usize::try_from(range.start.checked_sub(start)?).ok()?)
}
