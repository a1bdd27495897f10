//! The thread that writes and hashes, so that a slow disk does not keep packets waiting in the kernel. A thread
//! that would have to wait for it does the work itself, if the store's thread has not begun it: two threads
//! that wait for each other cost more.

mod decoding;
mod full;
mod hands;
mod hashing;
mod naming;
mod seeding;
mod serving;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    ops::Range,
    slice,
    sync::{
        Arc, Mutex, TryLockError,
        mpsc::{self, Receiver, Sender, SyncSender},
    },
    thread::JoinHandle,
};

use treecast_host::{file_limit, wake::Waker};
use treecast_proto::object::{Address, ReceiverInput};
use treecast_wire::{
    header::FileId,
    message::{BeginOfFile, ObjectKind},
};

use decoding::Decoding;
use full::FullDisk;
pub use full::{Lack, Shortage};
use hands::Hands;
use seeding::Seeding;
use serving::Served;

use super::{
    Buffers, Ending, Hashes, Journal, Kept, PartFile, TargetError, TargetFolder, Task,
    held_log::SharedLog,
    names::Names,
    stored::{CATCH_UP_LEN, Stored},
    symbols::Symbols,
};
use crate::udp::Batch;

/// The most batches there are at a time: 12 MiB.
const MAX_BATCHES: usize = 48;

/// The most bytes of [`Task::Make`] that are handed over and not in their files: memory besides the batches. Less than is
/// noted elsewhere before it is written over.
const MAX_MAKING_BYTES: usize = 4 << 20;

/// A report of the thread.
#[derive(Debug, PartialEq, Eq)]
pub enum Report {
    /// The result of a task, as an input for the receiver's machine.
    Input(ReceiverInput),
    /// The object cannot be stored as it was announced. Nothing of it is kept until [`Task::Discard`].
    Refused {
        file: FileId,
        begin: BeginOfFile,
        reason: String,
        /// Whether the disk is full. The parts that an earlier receiver has left then stay.
        is_full: bool,
    },
    /// The result of [`Task::Seed`]: these bytes of the object are stored now.
    Seeded {
        file: FileId,
        ranges: Vec<Range<u64>>,
        /// Why the older version could not be read, or not to its end.
        why_not: Option<String>,
    },
    /// The disk is full. From now on, objects wait for space.
    Full { shortage: Box<Shortage> },
    /// No object waits for space any more.
    Room,
    /// The result of [`Task::Read`]: bytes from this position of the object on.
    Read { file: FileId, position: u64, bytes: Vec<u8>, to: Address },
}

/// The interface to the thread: it hands work over and takes reports. Dropping it removes everything that is
/// not committed, unless [`Store::end`] said otherwise.
#[derive(Debug)]
pub struct Store {
    jobs: Option<SyncSender<Job>>,
    /// Tells the thread that there is something to do.
    call: Option<SyncSender<()>>,
    hands: Arc<Mutex<Hands>>,
    free: Receiver<Done>,
    made: usize,
    /// Empty batches that have come back.
    empty: Vec<Batch>,
    /// What has been handed over and is not done and noted, and how many batches that is.
    waiting: Bytes,
    under_way: usize,
    reports: Receiver<Report>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Job {
    Tasks { batch: Batch, tasks: Vec<Task>, bytes: Bytes },
    End { ending: Ending, done: SyncSender<Option<String>> },
}

/// What was to be done with a batch is done, and noted.
#[derive(Debug)]
struct Done {
    batch: Batch,
    bytes: Bytes,
}

/// How many bytes of objects tasks bring to their files.
#[derive(Debug, Clone, Copy, Default)]
struct Bytes {
    /// Bytes that are nowhere else, should the receiver be killed.
    stored: usize,
    /// Bytes of objects that are made whole ([`Task::Make`]).
    made: usize,
}

impl Bytes {
    fn of(tasks: &[Task]) -> Self {
        let mut bytes = Self::default();
        for task in tasks {
            match task {
                Task::Keep { range, .. } | Task::Overwrite { range, .. } | Task::KeepZeros { range, .. } => {
                    bytes.stored += (range.end - range.start) as usize;
                }
                Task::KeepHeld { bytes: held, .. } => bytes.stored += held.len(),
                Task::Make { whole, .. } => bytes.made += whole.content.len(),
                _ => {}
            }
        }
        bytes
    }

    fn add(&mut self, other: Self) {
        self.stored += other.stored;
        self.made += other.made;
    }

    fn take_away(&mut self, other: Self) {
        self.stored -= other.stored.min(self.stored);
        self.made -= other.made.min(self.made);
    }
}

impl Store {
    /// Starts the thread. It wakes `waker` for each [`Report`], and gives the memory of small objects to
    /// `buffers`.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(
        folder: TargetFolder,
        mut journal: Journal,
        waker: Waker,
        buffers: Buffers,
    ) -> io::Result<Self> {
        let (jobs, job_queue) = mpsc::sync_channel(MAX_BATCHES);
        let (free_queue, free) = mpsc::channel();
        let (report_queue, reports) = mpsc::channel();
        let (call, calls) = mpsc::sync_channel(1);
        let worker = Worker {
            decoding: Decoding::new(call.clone()),
            full: FullDisk::new(folder.rules().wait_for_space),
            names: Names::resuming(folder.clone(), journal.take_made()),
            folder,
            held: journal.held_log(),
            journal: Some(journal),
            waker,
            buffers,
            free: free_queue,
            reports: report_queue,
            untold: Vec::new(),
            objects: BTreeMap::new(),
            cramped: BTreeSet::new(),
            symbols: Symbols::default(),
            seeding: Seeding::default(),
            open_parts: OpenParts { files: VecDeque::new(), most: file_limit::for_objects() },
            served: None,
        };
        let hands = Hands { worker, jobs: job_queue, buffer: vec![0; CATCH_UP_LEN] };
        let hands = Arc::new(Mutex::new(hands));
        let theirs = Arc::clone(&hands);
        let thread =
            std::thread::Builder::new().name("store".into()).spawn(move || hands::run(&theirs, &calls))?;
        Ok(Self {
            jobs: Some(jobs),
            call: Some(call),
            hands,
            free,
            made: 0,
            empty: Vec::new(),
            waiting: Bytes::default(),
            under_way: 0,
            reports,
            thread: Some(thread),
        })
    }

    /// Takes an empty batch. Waits for one if all are in use.
    pub fn batch(&mut self) -> Batch {
        self.take_back_all();
        if self.empty.is_empty() && self.made < MAX_BATCHES {
            self.made += 1;
            return Batch::default();
        }
        if self.empty.is_empty() {
            self.wait_for_one();
        }
        self.empty.pop().unwrap_or_default()
    }

    /// Sees to it that no more than so many bytes are handed over and not yet in their files and in the journal. A receiver
    /// that is killed loses those. The same goes for small objects that take too much memory.
    fn bring_down_to(&mut self, bytes: usize) {
        while self.waiting.stored > bytes || self.waiting.made > MAX_MAKING_BYTES {
            let hands = Arc::clone(&self.hands);
            match hands.try_lock() {
                Ok(mut hands) => _ = hands.step(),
                Err(TryLockError::WouldBlock) => {
                    self.call();
                    self.wait_for_one();
                }
                // The thread is gone only when it panicked; what it would have stored then fails its hash.
                Err(TryLockError::Poisoned(_)) => self.waiting = Bytes::default(),
            }
            self.take_back_all();
        }
    }

    fn call(&self) {
        // It has been called already, or is gone.
        _ = self.call.as_ref().map(|call| call.try_send(()));
    }

    fn take_back_all(&mut self) {
        while let Ok(done) = self.free.try_recv() {
            self.take_back(done);
        }
    }

    fn wait_for_one(&mut self) {
        match self.free.recv() {
            Ok(done) => self.take_back(done),
            // As in `bring_down_to`.
            Err(_) => self.waiting = Bytes::default(),
        }
    }

    fn take_back(&mut self, Done { batch, bytes }: Done) {
        self.waiting.take_away(bytes);
        self.under_way -= 1;
        self.empty.push(batch);
    }

    /// Hands tasks to the thread. The batch comes back to [`Store::batch`]. When this returns, at most
    /// `most_waiting` bytes would be lost if the process were killed.
    pub fn submit(&mut self, batch: Batch, tasks: Vec<Task>, most_waiting: usize) {
        let bytes = Bytes::of(&tasks);
        self.waiting.add(bytes);
        self.under_way += 1;
        self.queue(Job::Tasks { batch, tasks, bytes });
        self.bring_down_to(most_waiting);
        let has_more = || self.hands.try_lock().is_ok_and(|hands| hands.worker.has_more());
        if self.under_way > 0 || has_more() {
            self.call();
        }
    }

    /// Ends the session. Folders get their modes and times. Objects that are not committed are removed, or stay
    /// for a later receiver. Returns a line for the user if something failed.
    pub fn end(&self, ending: Ending) -> Option<String> {
        let (done, result) = mpsc::sync_channel(1);
        self.queue(Job::End { ending, done });
        self.call();
        result.recv().ok().flatten()
    }

    /// The next report, if there is one.
    pub fn report(&self) -> Option<Report> {
        self.reports.try_recv().ok()
    }

    fn queue(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // As in `batch`: a thread that is gone shows in the hashes that never come.
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.jobs = None;
        // The thread finds that there will be no more jobs.
        self.call();
        self.call = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What carries out jobs.
struct Worker {
    folder: TargetFolder,
    names: Names,
    /// What takes room until files need it.
    held: SharedLog,
    /// None when the session has ended.
    journal: Option<Journal>,
    waker: Waker,
    buffers: Buffers,
    free: Sender<Done>,
    reports: Sender<Report>,
    /// What is to be told when the journal has been written.
    untold: Vec<Report>,
    /// None for an object that has failed and is not to be stored again.
    objects: BTreeMap<FileId, Option<Object>>,
    /// Objects that have failed for want of room. What is there of them stays until the session is over, for a receiver that
    /// is started again when there is room.
    cramped: BTreeSet<FileId>,
    full: FullDisk,
    decoding: Decoding,
    /// The repair symbols that are kept of announced objects.
    symbols: Symbols,
    seeding: Seeding,
    open_parts: OpenParts,
    /// What has its name and may be read back ([`Task::Serve`]).
    served: Option<Served>,
}

/// Which objects' files are open, the one that was opened first in front.
#[derive(Debug)]
struct OpenParts {
    files: VecDeque<FileId>,
    most: usize,
}

enum Object {
    /// What has come of one that is not announced, with its positions.
    Early(Vec<(u64, Vec<u8>)>),
    Announced {
        stored: Box<Stored>,
        begin: BeginOfFile,
    },
    /// It has its name from an earlier receiver. Unless it is trusted, it is to be seen whether it still has these hashes.
    Whole {
        begin: BeginOfFile,
        hashes: Hashes,
        is_trusted: bool,
    },
}

impl Object {
    fn is_behind(&self) -> bool {
        matches!(self, Self::Announced { stored, .. } if stored.is_behind())
    }
}

impl Worker {
    /// Nobody may have said how the session ended: it failed then, and may go on later.
    fn finish(&mut self) {
        let resumes = self.journal.as_ref().is_some_and(Journal::resumes);
        self.end(if resumes { Ending::CutShort } else { Ending::Interrupted });
    }

    /// Whether there is something to do besides jobs: to hash what is stored, or to look for room.
    fn has_more(&self) -> bool {
        self.full.is_waiting()
            || self.seeding.is_under_way()
            || self.objects.values().flatten().any(Object::is_behind)
    }

    fn carry_out(&mut self, job: Job, buffer: &mut [u8]) {
        match job {
            Job::Tasks { mut batch, tasks, bytes } => {
                for task in tasks {
                    if let Some(task) = self.full.take(task) {
                        self.task(task, &batch, buffer);
                    }
                }
                self.look_for_room();
                batch.clear();
                self.names.forget_folder();
                self.tell();
                let _ = self.free.send(Done { batch, bytes });
            }
            Job::End { ending, done } => {
                let _ = done.send(self.end(ending));
            }
        }
    }

    fn task(&mut self, task: Task, batch: &Batch, buffer: &mut [u8]) {
        match task {
            Task::Announce { file, begin, kept } => {
                let lost = self.full.forget(file);
                self.announce(file, begin, &kept);
                if !lost.is_empty() {
                    self.tell_lost(file, lost);
                }
            }
            Task::Reserve { file, size } => {
                self.attempt(file, &[], |stored, begin, folder| {
                    stored.reserve(folder, begin.file_name(), size)
                });
            }
            Task::Keep { file, range, at } => {
                let bytes = &batch.bytes()[at..at + (range.end - range.start) as usize];
                self.keep(file, range.start, bytes);
            }
            Task::KeepZeros { file, range } => self.keep_zeros(file, range),
            Task::KeepHeld { file, position, bytes } => self.keep(file, position, &bytes),
            Task::Overwrite { file, range, at } => {
                self.attempt(file, slice::from_ref(&range), |stored, _, folder| {
                    let bytes = &batch.bytes()[at..at + (range.end - range.start) as usize];
                    let result = stored.overwrite(range.start, bytes, buffer);
                    result.map_err(|source| folder.error("compare with a file".into(), source))
                })
            }
            Task::Seed { file, block_len } => self.seed(file, block_len),
            Task::NoIndex { file } => self.take_index(file, None),
            Task::KeepSymbols { file, source_block, first, symbol_len, at, len } => {
                let bytes = &batch.bytes()[at..at + len];
                self.keep_symbols(file, (source_block, first), symbol_len, bytes);
            }
            Task::Decode { file, source_block } => self.decode(file, source_block),
            Task::ForgetSymbols { file } => self.forget_symbols(file),
            Task::Hash { file } => {
                self.hash(file, buffer);
                // Before anything else becomes visible: a folder's hash comes before the files in it.
                self.tell();
            }
            Task::HashAsBlake2b { file } => self.attempt_hash(file, |stored| stored.hash_as_blake2b(buffer)),
            Task::CheckChunks { file, hash, page } => self.check_chunks(file, &hash, &page, buffer),
            Task::Commit { file } => self.commit(file),
            Task::Make { file, whole } => {
                self.make(file, &whole);
                self.buffers.give(whole.content);
            }
            Task::Discard { file } => self.discard(file),
            Task::DropPart { file } => self.journal.iter_mut().for_each(|journal| journal.drop_part(file)),
            Task::Serve => self.served = Some(Served::default()),
            Task::Read { file, range, to } => self.read(file, range, to),
            Task::Release { file } => self.served.iter_mut().for_each(|served| served.forget(file)),
        }
    }

    fn announce(&mut self, file: FileId, begin: BeginOfFile, kept: &Kept) {
        // What it left is not of this announcement, or is told of as kept.
        if self.cramped.remove(&file)
            && *kept == Kept::Nothing
            && let Some(journal) = &mut self.journal
        {
            journal.gone(file);
        }
        let object = match self.objects.remove(&file) {
            Some(None) => return drop(self.objects.insert(file, None)),
            other => other.flatten(),
        };
        let early: Vec<_> = match &object {
            Some(Object::Early(pieces)) => {
                pieces.iter().map(|(position, bytes)| *position..*position + bytes.len() as u64).collect()
            }
            _ => Vec::new(),
        };
        match self.announced(file, &begin, kept, object) {
            Ok(object) => {
                self.objects.insert(file, Some(object));
                self.note_stored(file, false);
            }
            Err(error) if self.waits_for_room(file, &begin, kept, &early, &error) => {}
            Err(error) => {
                self.objects.insert(file, None);
                let (reason, is_full) = (error.to_string(), error.is_full());
                self.report(Report::Refused { file, begin, reason, is_full });
            }
        }
    }

    /// The object under its announcement, with a temporary file for what has come of it before.
    fn announced(
        &mut self,
        file: FileId,
        begin: &BeginOfFile,
        kept: &Kept,
        object: Option<Object>,
    ) -> Result<Object, TargetError> {
        Names::check(begin)?;
        let (mut stored, pieces) = match (object, kept) {
            (Some(Object::Announced { stored, .. }), _) => (stored, Vec::new()),
            (None, Kept::Whole { hashes, is_trusted }) => {
                let (hashes, is_trusted) = (*hashes, *is_trusted);
                return Ok(Object::Whole { begin: begin.clone(), hashes, is_trusted });
            }
            (Some(Object::Early(pieces)), kept) => (Box::new(self.stored(file, begin, kept)?), pieces),
            (None | Some(Object::Whole { .. }), kept) => {
                (Box::new(self.stored(file, begin, kept)?), Vec::new())
            }
        };
        let (folder, name) = (&self.folder, begin.file_name());
        let mut result = self.held.with_room(|| stored.announce(folder, name, begin.file_size));
        for (position, bytes) in pieces {
            let write = || write(&mut stored, folder, name, position, &bytes);
            result = result.and_then(|()| self.held.with_room(write));
        }
        if let Err(error) = result {
            if error.is_full() && matches!(kept, Kept::Ranges(_)) {
                stored.keep();
                self.cramped.insert(file);
            }
            return Err(error);
        }
        Ok(Object::Announced { stored, begin: begin.clone() })
    }

    fn stored(&mut self, file: FileId, begin: &BeginOfFile, kept: &Kept) -> Result<Stored, TargetError> {
        if let Some(device) = self.folder.device().filter(|_| begin.kind() != ObjectKind::Index) {
            let (taken, path) = (device.take(file, begin)?, device.path().to_owned());
            let part = PartFile::of_device(self.folder.clone(), taken, path);
            let doing = || format!("look at the status of {}", begin.file_name());
            return Ok(Stored::new(part.map_err(|source| self.folder.content_error(doing(), source))?));
        }
        self.note_open(file);
        let Some(journal) = &self.journal else {
            let ended = io::Error::other("the session has ended");
            return Err(self.folder.error(format!("store {:?}", begin.file_name()), ended));
        };
        let stored = match kept {
            Kept::Ranges(ranges) => Stored::resumed(journal.part(file, true)?, ranges),
            Kept::Nothing | Kept::Whole { .. } => Stored::new(journal.part(file, false)?),
        };
        Ok(stored.compressed(begin.is_compressed()))
    }

    fn keep(&mut self, file: FileId, position: u64, bytes: &[u8]) {
        match self.objects.entry(file).or_insert_with(|| Some(Object::Early(Vec::new()))) {
            Some(Object::Early(pieces)) => return pieces.push((position, bytes.to_vec())),
            // It has changed since it was whole: it comes again.
            Some(Object::Whole { begin, .. }) => {
                let begin = begin.clone();
                self.discard(file);
                self.announce(file, begin, &Kept::Nothing);
            }
            _ => {}
        }
        let range = position..position + bytes.len() as u64;
        self.attempt(file, slice::from_ref(&range), |stored, begin, folder| {
            write(stored, folder, begin.file_name(), position, bytes)
        });
        self.note_stored(file, false);
    }

    fn keep_zeros(&mut self, file: FileId, range: Range<u64>) {
        if let Some(Some(Object::Whole { .. })) = self.objects.get(&file) {
            // It comes again, as in `keep`.
            self.keep(file, range.start, &[]);
        }
        self.attempt(file, slice::from_ref(&range), |stored, begin, folder| {
            let doing = || format!("write {} (zeros from {} on)", begin.file_name(), range.start);
            stored.write_zeros(range.clone()).map_err(|source| folder.content_error(doing(), source))
        });
        self.note_stored(file, false);
    }

    /// Tells the journal of what is stored, when it is enough, or `all`.
    fn note_stored(&mut self, file: FileId, all: bool) {
        if let Some(Some(Object::Announced { stored, begin })) = self.objects.get_mut(&file)
            && let Some(journal) = &mut self.journal
            && let Some(ranges) = stored.take_unnoted(begin.file_size, all)
        {
            journal.have(file, begin, &ranges);
        }
    }

    fn discard(&mut self, file: FileId) {
        self.forget_symbols(file);
        self.seeding.forget(file);
        self.open_parts.files.retain(|open| *open != file);
        if let Some(device) = self.folder.device() {
            device.release(file);
        }
        if let Some(object) = self.objects.remove(&file)
            && !matches!(object, Some(Object::Early(_)))
            && !self.cramped.contains(&file)
            && let Some(journal) = &mut self.journal
        {
            journal.gone(file);
        }
    }

    fn keep_symbols(&mut self, file: FileId, of: (u32, u32), symbol_len: u16, bytes: &[u8]) {
        if let Err(error) = self.symbols.keep(&self.folder, file, symbol_len, of, bytes) {
            self.fail(file, &[], &error);
        }
    }

    fn forget_symbols(&mut self, file: FileId) {
        self.symbols.forget(file);
        self.decoding.forget(file);
    }

    /// One more file is about to be open: the first of too many is closed.
    fn note_open(&mut self, file: FileId) {
        let OpenParts { files, most } = &mut self.open_parts;
        files.retain(|open| *open != file);
        while files.len() >= *most
            && let Some(oldest) = files.pop_front()
        {
            if let Some(Some(Object::Announced { stored, .. })) = self.objects.get_mut(&oldest) {
                stored.part_mut().close();
            }
        }
        files.push_back(file);
    }

    /// Opens an announced object's file if it has been closed.
    fn reopen(&mut self, file: FileId) -> Result<(), TargetError> {
        let is_closed = |object: &Option<Object>| matches!(object, Some(Object::Announced { stored, .. }) if !stored.is_open());
        if !self.objects.get(&file).is_some_and(is_closed) {
            return Ok(());
        }
        self.note_open(file);
        let Some(Some(Object::Announced { stored, begin })) = self.objects.get_mut(&file) else {
            return Ok(());
        };
        let reopened = stored.part_mut().reopen();
        reopened.map_err(|source| self.folder.error(format!("open {:?} again", begin.file_name()), source))
    }

    /// Does something with an announced object. A failure is reported and is the object's end, unless it waits for room:
    /// then the bytes `at_stake` are lost.
    fn attempt(
        &mut self,
        file: FileId,
        at_stake: &[Range<u64>],
        mut act: impl FnMut(&mut Stored, &BeginOfFile, &TargetFolder) -> Result<(), TargetError>,
    ) {
        let reopened = self.reopen(file);
        let Some(Some(Object::Announced { stored, begin })) = self.objects.get_mut(&file) else { return };
        match reopened.and_then(|()| self.held.with_room(|| act(stored, begin, &self.folder))) {
            Ok(()) => self.full.note_stored(file, || stored.stored_bytes()),
            Err(error) => self.fail(file, at_stake, &error),
        }
    }

    /// An announced object has failed, or has to wait.
    fn fail(&mut self, file: FileId, at_stake: &[Range<u64>], error: &TargetError) {
        let Some(Some(Object::Announced { begin, .. })) = self.objects.get(&file) else { return };
        let begin = begin.clone();
        if self.waits_for_room(file, &begin, &Kept::Nothing, at_stake, error) {
            return;
        }
        let reason = error.to_string();
        if error.is_full() {
            return self.fail_for_room(file, reason);
        }
        self.give_up(file, reason);
    }

    /// There is no room for an announced object: what is there of it stays.
    fn fail_for_room(&mut self, file: FileId, reason: String) {
        if let Some(Some(Object::Announced { stored, .. })) = self.objects.get_mut(&file) {
            stored.keep();
        }
        self.note_stored(file, true);
        self.cramped.insert(file);
        let reason = reason + &self.kept_in_words(file);
        self.give_up(file, reason);
    }

    fn give_up(&mut self, file: FileId, reason: String) {
        self.discard(file);
        self.objects.insert(file, None);
        self.report(Report::Input(ReceiverInput::StoreFailed { file, reason }));
    }

    fn end(&mut self, ending: Ending) -> Option<String> {
        let warning = self.names.finish();
        self.cramped.extend(self.objects.keys().filter(|file| self.full.has(**file)));
        // Who makes room and comes again, while the session lasts, need not fetch anew what is there.
        let ending = match ending {
            Ending::Over if !self.cramped.is_empty() => Ending::CutShort,
            ending => ending,
        };
        if ending == Ending::CutShort {
            for file in self.objects.keys().copied().collect::<Vec<_>>() {
                self.note_stored(file, true);
                if let Some(Some(Object::Announced { stored, .. })) = self.objects.get_mut(&file) {
                    stored.keep();
                }
            }
        }
        self.objects.clear();
        if let Some(journal) = self.journal.take() {
            journal.end(ending);
        }
        warning
    }

    fn report(&mut self, report: Report) {
        self.untold.push(report);
    }

    /// Hands out the reports of what has just been done, all at once. What they say is in the journal then.
    fn tell(&mut self) {
        if let Some(journal) = &mut self.journal {
            self.names.take_made().into_iter().for_each(|inode| journal.note_made(inode));
            journal.write();
        }
        if self.untold.is_empty() {
            return;
        }
        for report in self.untold.drain(..) {
            let _ = self.reports.send(report);
        }
        self.waker.wake();
    }
}

fn write(
    stored: &mut Stored,
    folder: &TargetFolder,
    name: &str,
    position: u64,
    bytes: &[u8],
) -> Result<(), TargetError> {
    let doing = || format!("write {name} (bytes from {position} on)");
    stored.write(position, bytes).map_err(|source| folder.content_error(doing(), source))
}

fn read_back(folder: &TargetFolder, source: io::Error) -> TargetError {
    folder.content_error("read back what was written".into(), source)
}

#[cfg(test)]
mod tests;
