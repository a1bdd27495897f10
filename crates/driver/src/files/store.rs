//! The thread that writes and hashes, so that a slow disk does not keep packets waiting in the kernel.

use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    sync::mpsc::{self, Receiver, Sender, SyncSender, TryRecvError},
    thread::JoinHandle,
};

use treecast_wire::{header::FileId, message::BeginOfFile};

use super::{
    TargetError, TargetFolder,
    stored::{CATCH_UP_LEN, Stored},
};
use crate::{udp::Batch, wake::Waker};

/// The most batches there are at a time: 12 MiB.
const MAX_BATCHES: usize = 48;

/// Bytes to keep: `range` of an object, lying at `at` in the batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub file: FileId,
    pub range: Range<u64>,
    pub at: usize,
}

/// What the thread has to tell.
#[derive(Debug, PartialEq, Eq)]
pub enum Report {
    Hashed {
        file: FileId,
        hash: [u8; 32],
    },
    /// Nothing of this object is kept any longer.
    Failed {
        file: FileId,
        reason: String,
    },
}

/// The thread's front: hands work over and takes reports. Dropping it removes all that is not committed.
#[derive(Debug)]
pub struct Store {
    jobs: Option<SyncSender<Job>>,
    free: Receiver<Batch>,
    made: usize,
    reports: Receiver<Report>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Job {
    Announce { file: FileId, begin: BeginOfFile },
    Write { batch: Batch, parts: Vec<Part> },
    Hash { file: FileId },
    Commit { file: FileId, done: SyncSender<Result<(), String>> },
    Discard { file: FileId },
}

impl Store {
    /// Starts the thread; `waker` is woken for each [`Report`].
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(folder: TargetFolder, waker: Waker) -> io::Result<Self> {
        let (jobs, job_queue) = mpsc::sync_channel(MAX_BATCHES);
        let (free_queue, free) = mpsc::channel();
        let (report_queue, reports) = mpsc::channel();
        let worker =
            Worker { folder, waker, free: free_queue, reports: report_queue, objects: BTreeMap::new() };
        let thread =
            std::thread::Builder::new().name("store".into()).spawn(move || worker.run(&job_queue))?;
        Ok(Self { jobs: Some(jobs), free, made: 0, reports, thread: Some(thread) })
    }

    /// An empty batch. Waits for the thread to give one back when all are under way.
    pub fn batch(&mut self) -> Batch {
        if let Ok(batch) = self.free.try_recv() {
            return batch;
        }
        if self.made < MAX_BATCHES {
            self.made += 1;
            return Batch::default();
        }
        // The thread is gone only when it panicked; what it would have stored then fails its hash.
        self.free.recv().unwrap_or_default()
    }

    /// The object's size and name are known.
    pub fn announce(&self, file: FileId, begin: BeginOfFile) {
        self.submit(Job::Announce { file, begin });
    }

    /// Keeps these parts of the batch, and gives it back to [`Store::batch`].
    pub fn write(&self, batch: Batch, parts: Vec<Part>) {
        self.submit(Job::Write { batch, parts });
    }

    /// Asks for the hash of what is stored; it comes as a [`Report`].
    pub fn hash(&self, file: FileId) {
        self.submit(Job::Hash { file });
    }

    /// Gives an announced object its final name, and waits until it has it.
    ///
    /// # Errors
    /// One line when it cannot have it; nothing of the object is kept then.
    pub fn commit(&self, file: FileId) -> Result<(), String> {
        let (done, result) = mpsc::sync_channel(1);
        self.submit(Job::Commit { file, done });
        result.recv().unwrap_or_else(|_| Err("the thread that writes files has ended".into()))
    }

    /// Throws away what is stored of an object.
    pub fn discard(&self, file: FileId) {
        self.submit(Job::Discard { file });
    }

    /// The next report, if there is one.
    pub fn report(&self) -> Option<Report> {
        self.reports.try_recv().ok()
    }

    fn submit(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // As in `batch`: a thread that is gone shows in the hashes that never come.
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread owns.
struct Worker {
    folder: TargetFolder,
    waker: Waker,
    free: Sender<Batch>,
    reports: Sender<Report>,
    objects: BTreeMap<FileId, Object>,
}

/// One object; its name is known once it is announced.
struct Object {
    stored: Stored,
    name: Option<String>,
}

impl Worker {
    fn run(mut self, jobs: &Receiver<Job>) {
        let mut buffer = vec![0; CATCH_UP_LEN];
        loop {
            let job = match jobs.try_recv() {
                Ok(job) => job,
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) if self.catch_up(&mut buffer) => continue,
                Err(TryRecvError::Empty) => match jobs.recv() {
                    Ok(job) => job,
                    Err(_) => return,
                },
            };
            self.carry_out(job, &mut buffer);
        }
    }

    fn carry_out(&mut self, job: Job, buffer: &mut [u8]) {
        match job {
            Job::Announce { file, begin } => self.announce(file, &begin),
            Job::Write { mut batch, parts } => {
                for part in parts {
                    self.write(&batch, part);
                }
                batch.clear();
                let _ = self.free.send(batch);
            }
            Job::Hash { file } => self.hash(file, buffer),
            Job::Commit { file, done } => {
                let _ = done.send(self.commit(file));
            }
            Job::Discard { file } => drop(self.objects.remove(&file)),
        }
    }

    /// Hashes one piece of what was stored out of order; false when no object has one.
    fn catch_up(&mut self, buffer: &mut [u8]) -> bool {
        let mut failed = None;
        for (file, object) in &mut self.objects {
            match object.stored.catch_up(buffer) {
                Ok(true) => return true,
                Ok(false) => {}
                Err(error) => {
                    failed = Some((*file, error));
                    break;
                }
            }
        }
        if let Some((file, error)) = failed {
            self.fail(file, self.folder.error("read back a file".into(), error));
            return true;
        }
        false
    }

    fn announce(&mut self, file: FileId, begin: &BeginOfFile) {
        let name = begin.file_name();
        let folder = self.folder.clone();
        let result = super::check_name(name)
            .map_err(|why| TargetError::Name { name: name.to_owned(), why })
            .and_then(|()| self.object(file))
            .and_then(|object| {
                object.name = Some(name.to_owned());
                object.stored.announce(&folder, name, begin.file_size)
            });
        if let Err(error) = result {
            self.fail(file, error);
        }
    }

    fn write(&mut self, batch: &Batch, part: Part) {
        let len = (part.range.end - part.range.start) as usize;
        let bytes = &batch.bytes()[part.at..part.at + len];
        let folder = self.folder.clone();
        let result = self.object(part.file).and_then(|object| {
            object.stored.write(part.range.start, bytes).map_err(|source| {
                let name = object.name.as_deref().unwrap_or("an object");
                folder.error(format!("write {name} (bytes from {} on)", part.range.start), source)
            })
        });
        if let Err(error) = result {
            self.fail(part.file, error);
        }
    }

    fn hash(&mut self, file: FileId, buffer: &mut [u8]) {
        let result = self.object(file).map(|object| object.stored.hash(buffer));
        match result {
            Ok(Ok(hash)) => self.report(Report::Hashed { file, hash }),
            Ok(Err(source)) => self.fail(file, self.folder.error("read back a file".into(), source)),
            Err(error) => self.fail(file, error),
        }
    }

    fn commit(&mut self, file: FileId) -> Result<(), String> {
        let object = self.objects.remove(&file).ok_or("nothing is stored of it")?;
        let name = object.name.ok_or("its name is not known")?;
        object.stored.commit(&name).map_err(|error| error.to_string())
    }

    /// The object, which gets its temporary file when it is first needed.
    fn object(&mut self, file: FileId) -> Result<&mut Object, TargetError> {
        use std::collections::btree_map::Entry;
        match self.objects.entry(file) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let stored = Stored::new(self.folder.create(file)?);
                Ok(entry.insert(Object { stored, name: None }))
            }
        }
    }

    fn fail(&mut self, file: FileId, error: TargetError) {
        self.objects.remove(&file);
        self.report(Report::Failed { file, reason: error.to_string() });
    }

    fn report(&self, report: Report) {
        let _ = self.reports.send(report);
        self.waker.wake();
    }
}
