//! The thread that writes and hashes, so that a slow disk does not keep packets waiting in the kernel. A thread
//! that would have to wait for it does the work itself, if the store's thread has not begun it: two threads
//! that wait for each other cost more.

mod hands;
mod parts;

use std::{
    io,
    ops::Range,
    slice,
    sync::{
        Arc, Mutex, TryLockError,
        mpsc::{self, Receiver, Sender, SyncSender},
    },
    thread::JoinHandle,
};

use treecast_host::wake::Waker;
use treecast_proto::object::{Address, ReceiverInput};
use treecast_wire::{header::FileId, message::BeginOfFile};

use hands::Hands;
use parts::Parts;
pub use parts::{Lack, Shortage};

use super::{Buffers, Ending, Journal, TargetFolder, Task, stored::CATCH_UP_LEN};
use crate::{
    remedies::{Advised, Remedy},
    udp::Batch,
};

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
        /// The reason why the older version could not be read, or not to its end.
        why_not: Option<Advised>,
    },
    /// What helps against the failure of this object, which the next report tells.
    Helps { file: FileId, remedy: Remedy },
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
    /// The bytes that have been handed over and are not yet stored and noted, and the number of their batches.
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

/// The report that all tasks of a batch are done and noted.
#[derive(Debug)]
struct Done {
    batch: Batch,
    bytes: Bytes,
}

/// The number of bytes of objects that tasks bring to their files.
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
    pub fn start(folder: TargetFolder, journal: Journal, waker: Waker, buffers: Buffers) -> io::Result<Self> {
        let (jobs, job_queue) = mpsc::sync_channel(MAX_BATCHES);
        let (free_queue, free) = mpsc::channel();
        let (report_queue, reports) = mpsc::channel();
        let (call, calls) = mpsc::sync_channel(1);
        let parts = Parts::new(folder, journal, call.clone(), report_queue, waker);
        let worker = Worker { parts, buffers, free: free_queue };
        let hands = Hands { worker, jobs: job_queue, buffer: vec![0; CATCH_UP_LEN] };
        let hands = Arc::new(Mutex::new(hands));
        let theirs = Arc::clone(&hands);
        let thread = treecast_host::thread::spawn("store", move || hands::run(&theirs, &calls))?;
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
        let has_more = || self.hands.try_lock().is_ok_and(|hands| hands.worker.parts.has_more());
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

/// The thread's state, which carries out jobs.
struct Worker {
    parts: Parts,
    buffers: Buffers,
    free: Sender<Done>,
}

impl Worker {
    /// Ends the parts. Nobody may have said how the session ended: it failed then, and may go on later.
    fn finish(&mut self) {
        let resumes = self.parts.resumes();
        self.parts.end(if resumes { Ending::CutShort } else { Ending::Interrupted });
    }

    fn carry_out(&mut self, job: Job, buffer: &mut [u8]) {
        match job {
            Job::Tasks { mut batch, tasks, bytes } => {
                for task in tasks {
                    if let Some(task) = self.parts.full.take(task) {
                        self.task(task, &batch, buffer);
                    }
                }
                batch.clear();
                self.parts.finish_batch();
                let _ = self.free.send(Done { batch, bytes });
            }
            Job::End { ending, done } => {
                let _ = done.send(self.parts.end(ending));
            }
        }
    }

    fn task(&mut self, task: Task, batch: &Batch, buffer: &mut [u8]) {
        match task {
            Task::Announce { file, begin, kept } => {
                let lost = self.parts.full.forget(file);
                self.parts.announce(file, begin, &kept);
                if !lost.is_empty() {
                    self.parts.tell_lost(file, lost);
                }
            }
            Task::Reserve { file, size } => {
                self.parts.attempt(file, &[], |stored, begin, folder| {
                    stored.reserve(folder, begin.file_name(), size)
                });
            }
            Task::Keep { file, range, at } => {
                let bytes = &batch.bytes()[at..at + (range.end - range.start) as usize];
                self.parts.keep(file, range.start, bytes);
            }
            Task::KeepZeros { file, range } => self.parts.keep_zeros(file, range),
            Task::KeepHeld { file, position, bytes } => self.parts.keep(file, position, &bytes),
            Task::Overwrite { file, range, at } => {
                self.parts.attempt(file, slice::from_ref(&range), |stored, _, folder| {
                    let bytes = &batch.bytes()[at..at + (range.end - range.start) as usize];
                    let result = stored.overwrite(range.start, bytes, buffer);
                    result.map_err(|source| folder.error("compare with a file".into(), source))
                })
            }
            Task::Seed { file, block_len } => self.parts.seed(file, block_len),
            Task::NoIndex { file } => self.parts.take_index(file, None),
            Task::KeepSymbols { file, source_block, first, symbol_len, at, len } => {
                let bytes = &batch.bytes()[at..at + len];
                self.parts.keep_symbols(file, (source_block, first), symbol_len, bytes);
            }
            Task::Decode { file, source_block } => self.parts.decode(file, source_block),
            Task::ForgetSymbols { file } => self.parts.forget_symbols(file),
            Task::Hash { file } => {
                self.parts.hash(file, buffer);
                // Before anything else becomes visible: a folder's hash comes before the files in it.
                self.parts.tell();
            }
            Task::HashAsBlake2b { file } => {
                self.parts.attempt_hash(file, |stored| stored.hash_as_blake2b(buffer))
            }
            Task::CheckChunks { file, hash, page } => self.parts.check_chunks(file, &hash, &page, buffer),
            Task::Commit { file } => self.parts.commit(file),
            Task::Make { file, whole } => {
                self.parts.make(file, &whole);
                self.buffers.give(whole.content);
            }
            Task::Discard { file } => self.parts.discard(file),
            Task::DropPart { file } => self.parts.drop_part(file),
            Task::Serve => self.parts.serve(),
            Task::Read { file, range, to } => self.parts.read(file, range, to),
            Task::Release { file } => self.parts.release(file),
        }
    }
}

#[cfg(test)]
mod tests;
