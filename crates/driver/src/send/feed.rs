//! Reads what to send while a session runs: paths, one a line, from standard input or a file (usually a pipe); or the bytes of
//! standard input themselves. A program that holds a session has an [`ObjectQueue`] in their place, without a thread.
//!
//! A separate thread reads them, because there is no other way to wait for a file of unknown kind. It runs
//! ahead by at most [`AHEAD`] objects. So the session slows down the program that writes the lines, and its
//! memory does not fill.

mod queue;

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::PathBuf,
    sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    thread,
};

pub use queue::{ObjectQueue, QueueClosed, Queued};

use treecast_host::wake::Waker;

use crate::{
    files::{Found, NamedSource, find_sources},
    pipe::Cutter,
};

/// The most objects that wait between the reader and the session.
const AHEAD: usize = 64;

/// A line longer than this is no path (Linux' PATH_MAX).
const MAX_LINE_BYTES: usize = 4096;

/// What is read while the session runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedSource {
    /// Paths on standard input, one a line.
    StandardInput,
    /// Paths in a file or pipe, one a line.
    File(PathBuf),
    /// The bytes of standard input, which are sent in pieces ([`crate::pipe`]).
    Stream,
    /// The objects that the program puts into this queue.
    Queue(ObjectQueue),
}

/// What a line came to.
#[derive(Debug)]
pub(super) enum Arrival {
    Object(NamedSource),
    /// An object of a program's queue.
    Queued(Queued),
    /// Something that could not be sent, and why.
    Refused {
        path: String,
        reason: String,
    },
    Warning(String),
}

/// What comes in, as the session takes it.
#[derive(Debug)]
pub(super) enum Feed {
    /// From a thread that reads.
    Read(Receiver<Arrival>),
    Queue(ObjectQueue),
}

impl Feed {
    /// Starts the reader, which has objects compressed at this level. It wakes `waker` when a path has arrived, and at the end.
    pub fn start(source: FeedSource, compression: Option<i32>, waker: Waker) -> io::Result<Self> {
        if let FeedSource::Queue(queue) = source {
            queue.wake_by(waker);
            return Ok(Self::Queue(queue));
        }
        let (sender, arrivals) = sync_channel(AHEAD);
        let reader = Reader { arrivals: sender, compression, waker };
        thread::Builder::new().name("feed".into()).spawn(move || reader.run(&source))?;
        Ok(Self::Read(arrivals))
    }

    /// The next arrival.
    ///
    /// # Errors
    /// When there is none now, or all have been taken.
    pub fn next(&self) -> Result<Arrival, TryRecvError> {
        match self {
            Self::Read(arrivals) => arrivals.try_recv(),
            Self::Queue(queue) => queue.take().map(Arrival::Queued),
        }
    }
}

struct Reader {
    arrivals: SyncSender<Arrival>,
    /// The level by which objects are compressed. `None`: not at all.
    compression: Option<i32>,
    waker: Waker,
}

/// The session is over.
struct Over;

impl Drop for Reader {
    /// However the reader ends, the session hears of it: the waker goes last, but the channel is closed by then for
    /// whoever looks after that.
    fn drop(&mut self) {
        let (closed, _) = sync_channel(1);
        self.arrivals = closed;
        self.waker.wake();
    }
}

impl Reader {
    fn run(self, source: &FeedSource) {
        let standard_input = "standard input".to_owned();
        let (name, read) = match source {
            FeedSource::StandardInput => (standard_input, self.read(io::stdin().lock())),
            FeedSource::Stream => (standard_input, self.cut()),
            FeedSource::File(path) => {
                let read = match File::open(path) {
                    Ok(file) => self.read(BufReader::new(file)),
                    Err(error) => Ok(Err(error)),
                };
                (path.display().to_string(), read)
            }
            // Nobody has to wait for it.
            FeedSource::Queue(_) => return,
        };
        if let Ok(Err(error)) = read {
            let reason = format!("the feed cannot be read to its end: {error}");
            _ = self.give(Arrival::Refused { path: name, reason });
        }
    }

    /// Reads to the end of the input, or until the session is over.
    fn read(&self, mut input: impl BufRead) -> Result<io::Result<()>, Over> {
        let mut line = Vec::new();
        loop {
            line.clear();
            // One byte more than a path may have, and its newline.
            match input.by_ref().take(MAX_LINE_BYTES as u64 + 2).read_until(b'\n', &mut line) {
                Ok(0) => return Ok(Ok(())),
                Ok(_) => {}
                Err(error) => return Ok(Err(error)),
            }
            let is_whole = line.last() == Some(&b'\n');
            line.pop_if(|last| *last == b'\n');
            if line.len() > MAX_LINE_BYTES {
                let start = String::from_utf8_lossy(&line[..32]).into_owned();
                let reason = format!("a line of more than {MAX_LINE_BYTES} bytes is no path");
                self.give(Arrival::Refused { path: format!("{start}..."), reason })?;
                if !is_whole && let Err(error) = input.skip_until(b'\n') {
                    return Ok(Err(error));
                }
            } else if !line.is_empty() {
                self.find(PathBuf::from(OsStr::from_bytes(&line)))?;
            }
        }
    }

    /// Cuts standard input into pieces up to its end, or until the session is over.
    fn cut(&self) -> Result<io::Result<()>, Over> {
        // Not through the standard library's buffer, which would hide what has come.
        let mut cutter = match io::stdin().as_fd().try_clone_to_owned() {
            Ok(input) => Cutter::new(File::from(input)),
            Err(error) => return Ok(Err(error)),
        };
        loop {
            match cutter.next() {
                Ok(Some(piece)) => self.give(Arrival::Object(piece))?,
                Ok(None) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    /// Hands over the file, or the files of the folder, that a line names.
    fn find(&self, path: PathBuf) -> Result<(), Over> {
        let shown = path.display().to_string();
        match find_sources(&[path]) {
            Ok(Found { sources, skipped }) => {
                skipped.warning().map_or(Ok(()), |line| self.give(Arrival::Warning(line)))?;
                sources.into_iter().try_for_each(|source| self.give(Arrival::Object(source)))
            }
            Err(error) => self.give(Arrival::Refused { path: shown, reason: error.to_string() }),
        }
    }

    fn give(&self, mut arrival: Arrival) -> Result<(), Over> {
        if let (Some(level), Arrival::Object(named)) = (self.compression, &mut arrival)
            && let Err(error) = named.source.compress(level)
        {
            arrival = Arrival::Refused { path: named.name.clone(), reason: error.to_string() };
        }
        let sent = self.arrivals.send(arrival).map_err(|_| Over);
        self.waker.wake();
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the lines of a feed come to: names of objects, and reasons why not.
    fn read(lines: &[u8]) -> Vec<String> {
        let (sender, arrivals) = sync_channel(AHEAD);
        let reader = Reader { arrivals: sender, compression: None, waker: Waker::new().unwrap() };
        assert!(matches!(reader.read(lines), Ok(Ok(()))));
        drop(reader);
        arrivals
            .iter()
            .map(|arrival| match arrival {
                Arrival::Object(named) => named.name,
                Arrival::Refused { path, reason } => format!("{path}: {reason}"),
                Arrival::Warning(line) => line,
                Arrival::Queued(queued) => panic!("{queued:?}"),
            })
            .collect()
    }

    #[test]
    fn a_line_is_a_path_and_a_bad_one_is_told_of_and_passed_over() {
        let long = "x".repeat(3 * MAX_LINE_BYTES);
        let lines = format!("/proc/self/exe\n\n/no/such/file\n{long}\n/proc/self/exe");
        let found = read(lines.as_bytes());
        assert_eq!((found.len(), found[0].as_str(), found[3].as_str()), (4, "exe", "exe"));
        assert!(found[1].starts_with("/no/such/file: cannot read"), "{}", found[1]);
        assert!(found[2].contains("no path") && found[2].len() < 100, "{}", found[2]);
    }

    #[test]
    fn a_reader_whose_session_is_over_ends() {
        let (sender, arrivals) = sync_channel(AHEAD);
        let reader = Reader { arrivals: sender, compression: None, waker: Waker::new().unwrap() };
        drop(arrivals);
        assert!(matches!(reader.read(&b"/proc/self/exe\n"[..]), Err(Over)));
    }

    #[test]
    fn the_end_is_told_and_so_is_a_feed_that_is_not_there() {
        let waker = Waker::new().unwrap();
        let feed = Feed::start(FeedSource::File("/no/such/feed".into()), None, waker.clone()).unwrap();
        let mut refused = 0;
        loop {
            match feed.next() {
                Ok(Arrival::Refused { path, .. }) => {
                    assert_eq!(path, "/no/such/feed");
                    refused += 1;
                }
                Ok(other) => panic!("{other:?}"),
                Err(TryRecvError::Empty) => thread::yield_now(),
                Err(TryRecvError::Disconnected) => break,
            }
        }
        assert_eq!((refused, waker.take()), (1, true));
    }
}
