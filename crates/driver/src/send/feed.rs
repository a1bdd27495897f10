//! The objects that come while a session runs: paths, one a line, from standard input or a file (usually a pipe); the
//! bytes of standard input themselves; the files of a folder, as they are completed; or what a program puts into a
//! queue of its own. All of them come through an [`ObjectQueue`].

mod folder;
mod queue;
mod reader;
mod rules;
mod spool;
mod taken;

use std::{io, path::PathBuf, sync::mpsc::TryRecvError};

pub use queue::{Bound, ObjectQueue, QueueClosed, Queued};
pub use rules::{Rule, Terms};
pub use spool::FolderOptions;

use treecast_host::wake::Waker;

use crate::{files::Selection, pipe, remedies::Advised};

use reader::{Input, Reader};
use rules::terms_of;
use spool::Spool;

/// The source that is read while the session runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FeedSource {
    /// Paths on standard input, one a line.
    StandardInput,
    /// Paths in a file or pipe, one a line.
    File(PathBuf),
    /// The bytes of standard input, which are sent in pieces.
    Stream {
        /// The folder where all pieces are kept, so that receivers which come late get them, too. `None`: such receivers lack the
        /// beginning, and pieces are in memory.
        spool: Option<PathBuf>,
    },
    /// The files of a folder, those that are there and those that come.
    Folder(FolderOptions),
    /// The objects that the program puts into this queue.
    Queue(ObjectQueue),
}

/// An object, or a failure, that has come.
#[derive(Debug)]
pub(super) enum Arrival {
    Object(Queued),
    /// Something that could not be sent, and why.
    Refused {
        path: String,
        reason: String,
        number: Option<u64>,
    },
}

impl Arrival {
    /// An object, compressed at this level. Refused if it cannot be read.
    fn of(mut queued: Queued, compression: Option<i32>) -> Self {
        match compression.map(|level| queued.object.source.compress(level)) {
            Some(Err(error)) => {
                let (path, number) = (queued.object.name, queued.number);
                Self::Refused { path, reason: error.to_string(), number }
            }
            _ => Self::Object(queued),
        }
    }

    fn into_object(self) -> Option<Queued> {
        if let Self::Object(queued) = self { Some(queued) } else { None }
    }

    /// The priority among arrivals. A failure is told before anything else.
    fn priority(&self) -> i32 {
        if let Self::Object(queued) = self { queued.terms.priority } else { i32::MAX }
    }

    fn bytes(&self) -> u64 {
        if let Self::Object(queued) = self { queued.object.source.size() } else { 0 }
    }
}

/// The way in which the session is done with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Every receiver has ended with it, or it is of no use any more.
    Done,
    /// The object could not be read or sent. So its file is not removed, and the next sender tries again.
    Refused,
}

/// The objects that come in, as the session takes them.
#[derive(Debug)]
pub(super) struct Feed {
    queue: ObjectQueue,
    /// The folder that objects come from, if they are files of one.
    spool: Option<Spool>,
    /// The folder in which the pieces of a stream are kept, if they are.
    pieces: Option<pipe::Spool>,
}

impl Feed {
    /// Starts what fills the queue, which has objects compressed at this level. It wakes `waker` when something has arrived, and at
    /// the end.
    pub fn start(
        source: FeedSource,
        compression: Option<i32>,
        rules: Vec<Rule>,
        selection: Selection,
        waker: Waker,
    ) -> io::Result<Self> {
        let queue = match &source {
            FeedSource::Queue(queue) => queue.clone(),
            _ => ObjectQueue::default(),
        };
        queue.wake_by(waker);
        let input = match source {
            FeedSource::Queue(_) => return Ok(Self { queue, spool: None, pieces: None }),
            FeedSource::Folder(options) => {
                let spool = Spool::start(options, queue.clone(), compression, rules, selection.exclude)?;
                return Ok(Self { queue, spool: Some(spool), pieces: None });
            }
            FeedSource::StandardInput => Input::Lines,
            FeedSource::File(path) => Input::File(path),
            FeedSource::Stream { spool } => {
                Input::Stream(spool.as_deref().map(pipe::Spool::new).transpose()?)
            }
        };
        let reader = Reader { queue: queue.clone(), compression, rules, selection };
        let pieces = match &input {
            Input::Stream(pieces) => pieces.clone(),
            Input::Lines | Input::File(_) => None,
        };
        treecast_host::thread::spawn("feed", move || reader.run(&input))?;
        Ok(Self { queue, spool: None, pieces })
    }

    /// The folder where the pieces of a stream are kept. It goes with the last of its clones.
    pub fn pieces(&self) -> Option<pipe::Spool> {
        self.pieces.clone()
    }

    /// The next arrival.
    ///
    /// # Errors
    /// If there is none now, or all have been taken.
    pub fn next(&self) -> Result<Arrival, TryRecvError> {
        self.queue.take()
    }

    /// Lines for the user.
    pub fn lines(&self) -> Vec<Advised> {
        self.queue.lines()
    }

    /// The number of objects that wait.
    pub fn waiting(&self) -> u64 {
        self.queue.waiting()
    }

    /// The number of objects that were dropped because too many waited.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }

    /// The session is done with the object with this number. Only the first end of an object counts.
    pub fn settled(&self, number: u64, end: End) {
        self.spool.iter().for_each(|spool| spool.settled(number, end));
    }
}

impl Drop for Feed {
    /// Ends the thread that fills the queue, too.
    fn drop(&mut self) {
        self.queue.clear();
    }
}
