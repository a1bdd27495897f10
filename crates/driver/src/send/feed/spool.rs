//! A folder as a spool: its files are sent when they are complete, once each, also over restarts of the sender. What waits is
//! bounded. A thread looks after it.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsStr,
    io,
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use treecast_host::{
    folder::{Inode, Lock, lock},
    root::Root,
    wake::Waker,
};

use super::{
    Arrival, Bound, End, ObjectQueue, Queued, Rule,
    folder::{Complete, Folder},
    taken::{MOST_TAKEN, Mark, Taken},
    terms_of,
};
use crate::{
    files::{Change, Exclude, NamedSource, Place, SourceError, named_file},
    remedies::{Advised, Remedy},
    words::{self, counted},
};

/// The name of the file in the folder that remembers what has been sent.
const STATE_NAME: &str = ".treecast-feed";

/// The longest time between two looks at what has been dropped, and whether the session is over.
const TURN: Duration = Duration::from_secs(1);

/// The time between two lines about the same trouble.
const PATIENCE: Duration = Duration::from_secs(10);

/// A folder whose files are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FolderOptions {
    /// The folder.
    pub path: PathBuf,
    /// The file that remembers what has been sent. `None`: `.treecast-feed` in the folder.
    pub state: Option<PathBuf>,
    /// Whether files are removed when they are done with. Then nothing needs to be remembered.
    pub removes: bool,
    /// The limits of what may wait to be sent. Files beyond them are dropped.
    pub bound: Bound,
    /// Whether to look at the folder again and again, for file systems whose changes other hosts make.
    pub polls: bool,
}

impl FolderOptions {
    /// A folder of which as many files may wait as come, and all of them stay.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let bound = Bound { objects: usize::MAX, bytes: u64::MAX };
        Self { path: path.into(), state: None, removes: false, bound, polls: false }
    }
}

/// The thread that looks after a folder, as its session knows it.
#[derive(Debug)]
pub(super) struct Spool {
    queue: ObjectQueue,
    settled: Sender<(u64, End)>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Spool {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the folder cannot be read, another sender has it, or what has been sent cannot be remembered.
    pub fn start(
        options: FolderOptions,
        queue: ObjectQueue,
        compression: Option<i32>,
        rules: Vec<Rule>,
        exclude: Exclude,
    ) -> io::Result<Self> {
        let (waker, (settled, are_settled)) = (Waker::new()?, channel());
        let shown = options.path.display();
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("cannot read {shown}: {error}"));
        let root = Arc::new(Root::open(&options.path).map_err(failed)?);
        // Other senders stay away while it is open.
        if lock(&root) == Lock::Taken {
            return Err(io::Error::other(format!(
                "another sender watches {shown}: stop that one, or name another folder"
            )));
        }
        let taken = match &options.state {
            _ if options.removes => Taken::default(),
            Some(state) => Taken::open_named(state)?,
            None => Taken::open(&root, OsStr::new(STATE_NAME), &options.path.join(STATE_NAME))?,
        };
        let opened = Folder::open(root.clone(), options.path.clone(), exclude, options.polls, &waker);
        let (folder, problem) = opened.map_err(failed)?;
        if let Some(problem) = problem {
            queue.tell(format!(
                "{shown} is looked at every 2 s, because changes in it are not told ({problem})"
            ));
        }
        let keeper = Keeper {
            options,
            root,
            compression,
            rules,
            queue: queue.clone(),
            settled: are_settled,
            waker: waker.clone(),
            taken,
            on_the_way: BTreeMap::new(),
            numbers: BTreeMap::new(),
            next_number: 0,
            left: HashSet::new(),
            left_out: Trouble::default(),
            dropped: Trouble::default(),
            problems: Trouble::default(),
        };
        let thread = treecast_host::thread::spawn("feed", move || keeper.run(folder))?;
        Ok(Self { queue, settled, waker, thread: Some(thread) })
    }

    /// The session is done with the object with this number.
    pub fn settled(&self, number: u64, end: End) {
        // The thread ends only after this.
        _ = self.settled.send((number, end));
        self.waker.wake();
    }
}

impl Drop for Spool {
    /// Waits until what has been sent is remembered.
    fn drop(&mut self) {
        self.queue.clear();
        self.waker.wake();
        self.thread.take().into_iter().for_each(|thread| _ = thread.join());
    }
}

/// A file that has been taken and is not done with.
#[derive(Debug)]
struct OnTheWay {
    name: PathBuf,
    mark: Mark,
    inode: Inode,
}

/// Something that is told of now and then.
#[derive(Debug, Default)]
struct Trouble {
    count: usize,
    /// The last of it.
    last: String,
    told_at: Option<Instant>,
}

impl Trouble {
    fn note(&mut self, what: String) {
        self.count += 1;
        self.last = what;
    }

    /// The number of times since the trouble was last told, and the last of it, if it is time to tell.
    fn due(&mut self) -> Option<(usize, String)> {
        let is_due = self.count > 0 && self.told_at.is_none_or(|told_at| told_at.elapsed() >= PATIENCE);
        is_due.then(|| {
            self.told_at = Some(Instant::now());
            (std::mem::take(&mut self.count), std::mem::take(&mut self.last))
        })
    }
}

/// The state of the thread.
struct Keeper {
    options: FolderOptions,
    root: Arc<Root>,
    compression: Option<i32>,
    rules: Vec<Rule>,
    queue: ObjectQueue,
    settled: Receiver<(u64, End)>,
    waker: Waker,
    taken: Taken,
    on_the_way: BTreeMap<u64, OnTheWay>,
    /// The numbers of the files that are on the way, by their names.
    numbers: BTreeMap<PathBuf, u64>,
    next_number: u64,
    /// Files that had no room in the queue before the first receiver came. They are taken when there is room.
    left: HashSet<Mark>,
    left_out: Trouble,
    dropped: Trouble,
    problems: Trouble,
}

impl Keeper {
    fn run(mut self, mut folder: Folder) {
        while !self.queue.is_closed() {
            match folder.wait(TURN) {
                Ok(complete) => complete.into_iter().for_each(|file| self.take(file)),
                Err(error) => self.problems.note(format!("cannot wait for files: {error}")),
            }
            self.waker.take();
            self.settle_all();
            let Bound { objects, bytes } = self.options.bound;
            if !self.left.is_empty() && self.queue.has_room(Bound { objects: objects.div_ceil(2), bytes }, 0)
            {
                folder.look_soon();
            }
            if folder.is_due() {
                self.look(&mut folder);
            }
            self.tell();
        }
        self.settle_all();
    }

    fn look(&mut self, folder: &mut Folder) {
        let queue = &self.queue;
        let look = folder.look(|mark| self.taken.contains(mark), || queue.is_closed());
        look.error.into_iter().for_each(|error| self.problems.note(format!("cannot read {error}")));
        // What is gone makes room.
        let kept = look.seen.map_or(Ok(()), |seen| {
            self.left.retain(|mark| seen.contains(mark));
            self.taken.retain(&seen)
        });
        self.note_unkept(kept);
        look.complete.into_iter().for_each(|file| self.take(file));
    }

    /// Takes a file that is complete.
    fn take(&mut self, file: Complete) {
        let waits = self.left.contains(&file.mark) && !self.queue.has_room(self.options.bound, file.bytes);
        if waits || self.taken.contains(file.mark) {
            return;
        }
        self.left.remove(&file.mark);
        if self.taken.is_full() {
            let line = "files are left out, because the folder has more than";
            return self.problems.note(format!("{line} {MOST_TAKEN}: remove what is sent"));
        }
        let place = Place::below(&self.root, &self.options.path, &file.name);
        let path = place.path().to_owned();
        let object = match named_file(place, &file.name) {
            // It has been removed, or replaced by something that is told of, too.
            Err(SourceError::Changed { how: Change::Removed | Change::Replaced, .. }) => return,
            object => object,
        };
        self.taken.take(file.mark);
        let (number, mark, inode) = (self.next_number, file.mark, file.inode);
        self.next_number += 1;
        let arrival = match object {
            Ok(object) => self.arrival(object, number),
            Err(error) => {
                let path = path.display().to_string();
                Arrival::Refused { path, reason: error.to_string(), number: Some(number) }
            }
        };
        // What it was before is of no use any more.
        if let Some(older) = self.numbers.insert(file.name.clone(), number)
            && self.queue.remove(older).is_some()
            && let Some(older) = self.on_the_way.remove(&older)
        {
            self.taken.forget(older.mark);
        }
        self.on_the_way.insert(number, OnTheWay { name: file.name, mark, inode });
        // Only the end of the session closes the queue.
        _ = self.queue.add(arrival);
        self.keep_to_bound();
    }

    /// Takes out of the queue what is too much. Before the first receiver has come, nobody could have got it: it stays in the folder.
    fn keep_to_bound(&mut self) {
        let bound = self.options.bound;
        if self.queue.has_begun() {
            for dropped in self.queue.shed(bound) {
                self.dropped.note(dropped.object.name);
                dropped.number.into_iter().for_each(|number| self.settle(number, End::Done));
            }
            return;
        }
        for back in self.queue.put_back(bound) {
            if let Some(OnTheWay { name, mark, .. }) =
                back.number.and_then(|number| self.on_the_way.remove(&number))
            {
                self.numbers.remove(&name);
                self.taken.forget(mark);
                self.left.insert(mark);
                self.left_out.note(back.object.name);
            }
        }
    }

    fn arrival(&self, object: NamedSource, number: u64) -> Arrival {
        let terms = terms_of(&self.rules, &object.name);
        Arrival::of(Queued::new(object, Some(number), terms), self.compression)
    }

    fn settle_all(&mut self) {
        while let Ok((number, end)) = self.settled.try_recv() {
            self.settle(number, end);
        }
    }

    /// The session is done with a file.
    fn settle(&mut self, number: u64, end: End) {
        let Some(OnTheWay { name, mark, inode }) = self.on_the_way.remove(&number) else { return };
        if self.numbers.get(&name) == Some(&number) {
            self.numbers.remove(&name);
        }
        if end == End::Refused {
            return self.taken.refuse(mark);
        }
        if !self.options.removes {
            let kept = self.taken.keep(mark);
            return self.note_unkept(kept);
        }
        let removed =
            self.root.remove_if(&name, |status| status.inode == inode && Mark::of(&name, status) == mark);
        match removed {
            Ok(_) => self.taken.forget(mark),
            // It is not sent again.
            Err(error) => {
                let path = self.options.path.join(&name);
                self.problems.note(format!("cannot remove {}: {error}", path.display()));
            }
        }
    }

    fn note_unkept(&mut self, kept: io::Result<()>) {
        if let Err(error) = kept {
            self.problems
                .note(format!("cannot keep what has been sent, which a restart would send again: {error}"));
        }
    }

    /// Tells what went wrong, in a line now and then.
    fn tell(&mut self) {
        let Bound { objects, bytes } = self.options.bound;
        let together =
            if bytes < u64::MAX { format!(" of {} together", words::bytes(bytes)) } else { String::new() };
        let bound = format!("at most {}{together} may wait", counted(objects, "object"));
        if let Some((count, last)) = self.dropped.due() {
            let count = counted(count, "object");
            let line = format!(
                "{count} dropped, the last one {last}: the feed comes faster than it is sent, and {bound}; the oldest of the \
                 lowest priority went"
            );
            self.queue.tell(Advised::by(Remedy::LongerQueue, line));
        }
        if self.left_out.due().is_some() {
            let waiting = counted(self.left.len(), "file");
            self.queue.tell(format!(
                "{waiting} more in {}: no receiver has come yet, and {bound}; what is more stays there until there is room",
                self.options.path.display()
            ));
        }
        if let Some((count, last)) = self.problems.due() {
            let others =
                if count > 1 { format!(" (and {} more like this)", count - 1) } else { String::new() };
            self.queue.tell(format!("{last}{others}"));
        }
    }
}
