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
    /// The object's size and name are known, or others than before.
    Announce { file: FileId, begin: BeginOfFile },
    /// Take the room for all of an announced object, whose size is known for sure: anybody can announce to a group.
    Reserve { file: FileId, size: u64 },
    /// Write `range` of an object, which lies at `at` in the batch handed over with it. It stays in memory
    /// until the object is announced: whoever hands it in sees to it that this is not much.
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
    /// The object cannot be stored as it was announced. Nothing of it is kept before [`Task::Discard`].
    Refused {
        file: FileId,
        begin: BeginOfFile,
        reason: String,
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

enum Object {
    /// What has come of one that is not announced, with its positions.
    Early(Vec<(u64, Vec<u8>)>),
    Announced {
        stored: Box<Stored>,
        name: String,
    },
}

impl Object {
    fn is_behind(&self) -> bool {
        matches!(self, Self::Announced { stored, .. } if stored.is_behind())
    }
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
            Task::Announce { file, begin } => self.announce(file, begin),
            Task::Reserve { file, size } => {
                self.attempt(file, |stored, name, folder| stored.reserve(folder, name, size));
            }
            Task::Keep { file, range, at } => {
                let bytes = &batch.bytes()[at..at + (range.end - range.start) as usize];
                self.keep(file, range.start, bytes);
            }
            Task::Overwrite { file, range, at } => self.attempt(file, |stored, _, folder| {
                let bytes = &batch.bytes()[at..at + (range.end - range.start) as usize];
                let result = stored.overwrite(range.start, bytes, buffer);
                result.map_err(|source| folder.error("compare with a file".into(), source))
            }),
            Task::Hash { file } => self.hash(file, buffer),
            Task::Discard { file } => drop(self.objects.remove(&file)),
        }
    }

    fn announce(&mut self, file: FileId, begin: BeginOfFile) {
        let object = match self.objects.remove(&file) {
            Some(None) => return drop(self.objects.insert(file, None)),
            other => other.flatten(),
        };
        match announced(&self.folder, file, &begin, object) {
            Ok(object) => _ = self.objects.insert(file, Some(object)),
            Err(error) => {
                self.objects.insert(file, None);
                self.report(Report::Refused { file, begin, reason: error.to_string() });
            }
        }
    }

    fn keep(&mut self, file: FileId, position: u64, bytes: &[u8]) {
        match self.objects.entry(file).or_insert_with(|| Some(Object::Early(Vec::new()))) {
            Some(Object::Early(pieces)) => pieces.push((position, bytes.to_vec())),
            _ => self.attempt(file, |stored, name, folder| write(stored, folder, name, position, bytes)),
        }
    }

    /// Hashes one piece of what was stored out of order; false when no object has one.
    fn catch_up(&mut self, buffer: &mut [u8]) -> bool {
        let mut done = false;
        let behind: Vec<FileId> = self
            .objects
            .iter()
            .filter(|(_, object)| object.as_ref().is_some_and(Object::is_behind))
            .map(|(file, _)| *file)
            .collect();
        for file in behind {
            done = true;
            self.attempt(file, |stored, _, folder| {
                stored.catch_up(buffer).map(drop).map_err(|source| read_back(folder, source))
            });
        }
        done
    }

    fn hash(&mut self, file: FileId, buffer: &mut [u8]) {
        let mut hash = None;
        self.attempt(file, |stored, _, folder| {
            hash = Some(stored.hash(buffer).map_err(|source| read_back(folder, source))?);
            Ok(())
        });
        if let Some(hash) = hash {
            self.report(Report::Hashed { file, hash });
        }
    }

    fn commit(&mut self, file: FileId) -> Result<(), String> {
        match self.objects.remove(&file).flatten() {
            Some(Object::Announced { stored, name }) => {
                stored.commit(&name).map_err(|error| error.to_string())
            }
            _ => Err("nothing is stored of it".into()),
        }
    }

    /// Does something with an announced object. A failure is reported and is the object's end.
    fn attempt(
        &mut self,
        file: FileId,
        act: impl FnOnce(&mut Stored, &str, &TargetFolder) -> Result<(), TargetError>,
    ) {
        let Some(Some(Object::Announced { stored, name })) = self.objects.get_mut(&file) else { return };
        if let Err(error) = act(stored, name, &self.folder) {
            self.objects.insert(file, None);
            self.report(Report::Failed { file, reason: error.to_string() });
        }
    }

    fn report(&self, report: Report) {
        let _ = self.reports.send(report);
        self.waker.wake();
    }
}

/// The object under its announcement, with a temporary file for what has come of it before.
fn announced(
    folder: &TargetFolder,
    file: FileId,
    begin: &BeginOfFile,
    object: Option<Object>,
) -> Result<Object, TargetError> {
    let name = begin.file_name();
    check_name(name).map_err(|why| TargetError::Name { name: name.to_owned(), why })?;
    let (mut stored, pieces) = match object {
        Some(Object::Announced { stored, .. }) => (stored, Vec::new()),
        Some(Object::Early(pieces)) => (Box::new(Stored::new(folder.create(file)?)), pieces),
        None => (Box::new(Stored::new(folder.create(file)?)), Vec::new()),
    };
    stored.announce(folder, name, begin.file_size)?;
    for (position, bytes) in pieces {
        write(&mut stored, folder, name, position, &bytes)?;
    }
    Ok(Object::Announced { stored, name: name.to_owned() })
}

fn write(
    stored: &mut Stored,
    folder: &TargetFolder,
    name: &str,
    position: u64,
    bytes: &[u8],
) -> Result<(), TargetError> {
    let doing = || format!("write {name} (bytes from {position} on)");
    stored.write(position, bytes).map_err(|source| folder.error(doing(), source))
}

fn read_back(folder: &TargetFolder, source: io::Error) -> TargetError {
    folder.error("read back a file".into(), source)
}

#[cfg(test)]
mod tests {
    use treecast_wire::message::TransferType;

    use super::*;
    use crate::files::walk::tests::scratch;

    fn begin(size: u64, name: &str) -> BeginOfFile {
        BeginOfFile::new(TransferType::DiskToDisk, size, name).unwrap()
    }

    /// Has tasks done, and waits until they are.
    fn done(store: &mut Store, bytes: &[u8], tasks: Vec<Task>) {
        let mut batch = store.batch();
        batch.push_block(FileId(0), 0, bytes);
        store.submit(batch, tasks);
        // Carried out in order: nothing is stored of this one.
        store.commit(FileId(u64::MAX)).unwrap_err();
    }

    #[test]
    fn nothing_is_on_the_disk_before_it_is_announced() {
        let path = scratch("early");
        let mut store = Store::start(TargetFolder::open(&path).unwrap(), Waker::new().unwrap()).unwrap();
        let file = FileId(3);
        done(&mut store, b"abc", vec![Task::Keep { file, range: 2..5, at: 0 }]);
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
        let announce = Task::Announce { file, begin: begin(5, "name") };
        done(&mut store, b"xy", vec![announce, Task::Keep { file, range: 0..2, at: 0 }]);
        store.commit(file).unwrap();
        assert_eq!(std::fs::read(path.join("name")).unwrap(), b"xyabc");
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn room_is_taken_only_for_what_is_sure() {
        const SIZE: u64 = 8 << 20;
        // Not in memory, where nothing is reserved.
        let path = std::env::current_dir().unwrap().join(format!(".reserve-{}", std::process::id()));
        let mut store = Store::start(TargetFolder::open(&path).unwrap(), Waker::new().unwrap()).unwrap();
        let (sure, hearsay) = (FileId(1), FileId(2));
        let tasks = vec![
            Task::Announce { file: sure, begin: begin(SIZE, "sure") },
            Task::Announce { file: hearsay, begin: begin(SIZE, "hearsay") },
            Task::Reserve { file: sure, size: SIZE },
        ];
        done(&mut store, b"", tasks);
        store.commit(sure).unwrap();
        store.commit(hearsay).unwrap();
        let blocks =
            |name: &str| std::os::unix::fs::MetadataExt::blocks(&path.join(name).metadata().unwrap());
        assert_eq!(blocks("hearsay"), 0);
        assert!(blocks("sure") * 512 >= SIZE, "{} blocks", blocks("sure"));
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_refused_announcement_gives_way_to_another() {
        let path = scratch("refused");
        let mut store = Store::start(TargetFolder::open(&path).unwrap(), Waker::new().unwrap()).unwrap();
        let file = FileId(3);
        let refused = begin(5, "../name");
        done(&mut store, b"abc", vec![Task::Announce { file, begin: refused.clone() }]);
        assert!(matches!(store.report(), Some(Report::Refused { begin, .. }) if begin == refused));
        let tasks = vec![
            Task::Discard { file },
            Task::Announce { file, begin: begin(9, "wrong") },
            Task::Announce { file, begin: begin(3, "right") },
            Task::Keep { file, range: 0..3, at: 0 },
        ];
        done(&mut store, b"abc", tasks);
        store.commit(file).unwrap();
        assert_eq!(std::fs::read(path.join("right")).unwrap(), b"abc");
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
        std::fs::remove_dir_all(path).unwrap();
    }
}
