//! A client's copy of the file, and the part of its loop that both transports share.

use std::{io, path::Path};

use treecast_host::{
    poller::{Interest, Poller},
    stop::Stop,
    wake::Waker,
};
use treecast_proto::{
    Instant,
    object::ReceiverInput,
    unicast::{StorageReport, StorageTask},
};
use treecast_wire::{
    ParseError,
    header::{FileId, SessionId},
    message::{BeginOfFile, TransferType},
};

use super::{ClientProgress, TELL_INTERVAL, UnicastError};
use crate::{
    clock::Clock,
    files::{Buffers, Intake, Journal, Kept, Report, TargetFolder, Task},
    udp::{AtHand, Batch},
};

/// The file, its clock, and what its client has told.
pub(super) struct Copy<'a> {
    path: &'a Path,
    name: String,
    intake: Intake,
    waker: Waker,
    stop: &'a Stop,
    pub poller: Poller,
    clock: Clock,
    next_tell: Instant,
    pub progress: ClientProgress,
}

/// The only object of a client.
pub(super) fn object() -> FileId {
    FileId::new(SessionId(0), 0)
}

impl<'a> Copy<'a> {
    /// Opens the folder for the copy.
    pub fn new(path: &'a Path, stop: &'a Stop) -> Result<Self, UnicastError> {
        let (folder, name) = target(path)?;
        let (journal, _) = Journal::open(&folder, SessionId(0), false)?;
        let waker = Waker::new()?;
        let poller = Poller::new()?;
        poller.add(&waker, 0, Interest::Read)?;
        poller.add(stop, 1, Interest::Read)?;
        Ok(Self {
            path,
            name,
            intake: Intake::start(folder, journal, waker.clone(), Buffers::default())?,
            waker,
            stop,
            poller,
            clock: Clock::start(),
            next_tell: Instant::ZERO,
            progress: ClientProgress::default(),
        })
    }

    /// The present time. Fails if the client must stop.
    pub fn now(&self) -> Result<Instant, UnicastError> {
        if self.stop.is_requested() { Err(UnicastError::Interrupted) } else { Ok(self.time()) }
    }

    /// The time, also when the client is to stop.
    pub fn time(&self) -> Instant {
        self.clock.now()
    }

    /// The batch for received bytes.
    pub fn batch(&mut self) -> &mut Batch {
        self.intake.batch()
    }

    /// Takes the reports of the store.
    pub fn reports(&self) -> Vec<StorageReport> {
        self.waker.take();
        std::iter::from_fn(|| self.intake.report())
            .filter_map(|report| match report {
                Report::Input(ReceiverInput::Hashed { hash, .. }) => Some(StorageReport::Hashed { hash }),
                Report::Input(ReceiverInput::Committed { .. }) => Some(StorageReport::Committed),
                Report::Refused { reason, .. } | Report::Input(ReceiverInput::StoreFailed { reason, .. }) => {
                    Some(StorageReport::Failed { reason })
                }
                // A copy has no repair symbols, nobody tells of its chunks or reads it back, nothing waits for room, and no older
                // version is looked at.
                Report::Input(_)
                | Report::Seeded { .. }
                | Report::Helps { .. }
                | Report::Full { .. }
                | Report::Room
                | Report::Read { .. } => None,
            })
            .collect()
    }

    /// Carries out a task. Only what has just come can be stored.
    pub fn carry_out(
        &mut self,
        now: Instant,
        task: StorageTask,
        at_hand: Option<AtHand>,
    ) -> Result<(), UnicastError> {
        let file = object();
        let task = match task {
            StorageTask::Announce { size } => {
                self.intake.add(now, Task::Announce { file, begin: self.begin(size)?, kept: Kept::Nothing });
                Task::Reserve { file, size }
            }
            StorageTask::Store { range } => {
                let Some(at) = at_hand.and_then(|bytes| bytes.place(&range)) else { return Ok(()) };
                Task::Keep { file, range, at }
            }
            StorageTask::Hash => Task::Hash { file },
            StorageTask::Discard => Task::Discard { file },
            StorageTask::Commit => Task::Commit { file },
        };
        self.intake.add(now, task);
        Ok(())
    }

    /// Hands tasks to the store, and calls `progress` from time to time, and always at the `end`.
    pub fn settle(
        &mut self,
        now: Instant,
        room: usize,
        end: bool,
        (total_bytes, received_bytes): (Option<u64>, u64),
        tell: &mut impl FnMut(ClientProgress),
    ) {
        let is_full = self.intake.batch().room() < room;
        self.intake.hand_over(now, is_full);
        if now >= self.next_tell || end {
            self.next_tell = now + TELL_INTERVAL;
            let seconds = (now - Instant::ZERO).as_secs_f64();
            self.progress = ClientProgress { total_bytes, received_bytes, seconds, ..self.progress };
            tell(self.progress);
        }
    }

    /// Waits until something comes, or for the deadline.
    pub fn wait(&mut self, now: Instant, deadline: Option<Instant>) -> io::Result<()> {
        let deadlines = [deadline, self.intake.deadline()];
        let until = deadlines.into_iter().flatten().fold(self.next_tell, Instant::min);
        self.poller.wait(Some(until - now), &mut Vec::new())
    }

    fn begin(&self, size: u64) -> Result<BeginOfFile, UnicastError> {
        BeginOfFile::new(TransferType::DiskToDisk, size, &self.name).map_err(|error: ParseError| {
            UnicastError::Name { path: self.path.to_owned(), why: error.to_string() }
        })
    }
}

/// The folder that a copy goes to, and its name there.
fn target(path: &Path) -> Result<(TargetFolder, String), UnicastError> {
    let refuse = |why: &str| UnicastError::Name { path: path.to_owned(), why: why.into() };
    let name = path.file_name().ok_or_else(|| refuse("name a file in a folder"))?;
    let name = name.to_str().ok_or_else(|| refuse("it is not UTF-8"))?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    Ok((TargetFolder::open(folder)?, name.to_owned()))
}
