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
    TargetError, TargetFolder, check_name,
    stored::{CATCH_UP_LEN, Stored},
};
use crate::{udp::Batch, wake::Waker};

/// The most batches there are at a time: 12 MiB.
const MAX_BATCHES: usize = 48;

/// Something to do, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// The object's size and name are known.
    Announce { file: FileId, begin: BeginOfFile },
    /// Write `range` of an object, which lies at `at` in the batch handed over with it.
    Keep { file: FileId, range: Range<u64>, at: usize },
    /// As `Keep` where something is stored already: only what differs is written.
    Overwrite { file: FileId, range: Range<u64>, at: usize },
    /// Compute the hash of what is stored; it comes as a [`Report`].
    Hash { file: FileId },
    /// Throw away what is stored, and forget that it has failed.
    Discard { file: FileId },
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
    Tasks { batch: Batch, tasks: Vec<Task> },
    Commit { file: FileId, done: SyncSender<Result<(), String>> },
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

    /// Has these tasks carried out; the batch comes back to [`Store::batch`].
    pub fn submit(&self, batch: Batch, tasks: Vec<Task>) {
        self.queue(Job::Tasks { batch, tasks });
    }

    /// Gives an announced object its final name, and waits until it has it.
    ///
    /// # Errors
    /// One line when it cannot have it; nothing of the object is kept then.
    pub fn commit(&self, file: FileId) -> Result<(), String> {
        let (done, result) = mpsc::sync_channel(1);
        self.queue(Job::Commit { file, done });
        result.recv().unwrap_or_else(|_| Err("the thread that writes files has ended".into()))
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
    /// None for an object that has failed and is not to be stored again.
    objects: BTreeMap<FileId, Option<Object>>,
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
            Job::Tasks { mut batch, tasks } => {
                for task in tasks {
                    self.task(task, &batch, buffer);
                }
                batch.clear();
                let _ = self.free.send(batch);
            }
            Job::Commit { file, done } => {
                let _ = done.send(self.commit(file));
            }
        }
    }

    fn task(&mut self, task: Task, batch: &Batch, buffer: &mut [u8]) {
        match task {
            Task::Announce { file, begin } => self.attempt(file, |object, folder| {
                let name = begin.file_name();
                check_name(name).map_err(|why| TargetError::Name { name: name.to_owned(), why })?;
                object.name = Some(name.to_owned());
                object.stored.announce(folder, name, begin.file_size)
            }),
            Task::Keep { file, range, at } => self.attempt(file, |object, folder| {
                let bytes = &batch.bytes()[at..at + (range.end - range.start) as usize];
                object.stored.write(range.start, bytes).map_err(|source| {
                    let name = object.name.as_deref().unwrap_or("an object");
                    folder.error(format!("write {name} (bytes from {} on)", range.start), source)
                })
            }),
            Task::Overwrite { file, range, at } => self.attempt(file, |object, folder| {
                let bytes = &batch.bytes()[at..at + (range.end - range.start) as usize];
                let result = object.stored.overwrite(range.start, bytes, buffer);
                result.map_err(|source| folder.error("compare with a file".into(), source))
            }),
            Task::Hash { file } => self.hash(file, buffer),
            Task::Discard { file } => drop(self.objects.remove(&file)),
        }
    }

    /// Hashes one piece of what was stored out of order; false when no object has one.
    fn catch_up(&mut self, buffer: &mut [u8]) -> bool {
        let mut done = false;
        let behind: Vec<FileId> = self
            .objects
            .iter()
            .filter(|(_, object)| object.as_ref().is_some_and(|object| object.stored.is_behind()))
            .map(|(file, _)| *file)
            .collect();
        for file in behind {
            done = true;
            self.attempt(file, |object, folder| {
                object.stored.catch_up(buffer).map(drop).map_err(|source| read_back(folder, source))
            });
        }
        done
    }

    fn hash(&mut self, file: FileId, buffer: &mut [u8]) {
        let mut hash = None;
        self.attempt(file, |object, folder| {
            hash = Some(object.stored.hash(buffer).map_err(|source| read_back(folder, source))?);
            Ok(())
        });
        if let Some(hash) = hash {
            self.report(Report::Hashed { file, hash });
        }
    }

    fn commit(&mut self, file: FileId) -> Result<(), String> {
        let object = self.objects.remove(&file).flatten().ok_or("nothing is stored of it")?;
        let name = object.name.ok_or("its name is not known")?;
        object.stored.commit(&name).map_err(|error| error.to_string())
    }

    /// Does something with an object, which gets its temporary file when it is first needed. A failure is
    /// reported and is the object's end.
    fn attempt(
        &mut self,
        file: FileId,
        act: impl FnOnce(&mut Object, &TargetFolder) -> Result<(), TargetError>,
    ) {
        let result = match self.objects.get_mut(&file) {
            Some(None) => return,
            Some(Some(object)) => act(object, &self.folder),
            None => self.folder.create(file).and_then(|part| {
                let object = Object { stored: Stored::new(part), name: None };
                let object = self.objects.entry(file).or_insert(Some(object));
                object.as_mut().map_or(Ok(()), |object| act(object, &self.folder))
            }),
        };
        if let Err(error) = result {
            self.objects.insert(file, None);
            self.report(Report::Failed { file, reason: error.to_string() });
        }
    }

    fn report(&self, report: Report) {
        let _ = self.reports.send(report);
        self.waker.wake();
    }
}

fn read_back(folder: &TargetFolder, source: io::Error) -> TargetError {
    folder.error("read back a file".into(), source)
}
