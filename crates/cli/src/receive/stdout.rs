//! `receive --stdout`: writes verified files to standard output, in order.
//!
//! A pipe never gets a wrong byte. Files stand in a temporary folder until a thread has written them.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use treecast::unstable::{
    Stop,
    stream::{END_NAME, MOST_PIECES, is_spooled, piece_number},
    watch::{Complete, ReceiveEvent, Taken},
};
use treecast_host::temporary::TemporaryFolder;

/// The number of waiting files from which on the session is slowed down: each of its events waits a while for the reader.
const MANY_WAITING: usize = 256;

/// The number of waiting files at which the session is given up: the reader has read nothing for an hour and more.
const MOST_WAITING: usize = 4096;

/// The time for which an event waits for the reader. The session answers its sender meanwhile less often, and soon enough.
const SLOW_DOWN: Duration = Duration::from_secs(1);

/// Verified files on their way to standard output.
pub(super) struct Outlet {
    folder: TemporaryFolder,
    writer: Writer,
    order: Arc<Mutex<Order>>,
}

/// What has come, in the order in which it is to be written.
#[derive(Default)]
struct Order {
    /// The number of the piece that is to be written next.
    next: u64,
    /// The number of pieces of the stream, once it is known.
    pieces: Option<u64>,
    /// Pieces that came before an earlier one.
    early: BTreeMap<u64, PathBuf>,
    /// The one file that is no piece of a stream.
    file: Option<PathBuf>,
    /// The name of the file that waits until everything is written.
    last: Option<String>,
    /// Why a file was not taken, in words.
    refused: Option<String>,
}

impl Outlet {
    /// Makes a temporary folder in `folder`, or where the system has its temporary files.
    ///
    /// # Errors
    /// If that is impossible, in words.
    pub fn new(folder: Option<&Path>) -> Result<Self, String> {
        let parent = folder.map_or_else(std::env::temp_dir, Path::to_owned);
        let make = || {
            fs::create_dir_all(&parent)?;
            TemporaryFolder::new(&parent, "treecast-stdout-")
        };
        let folder = make().map_err(|error| {
            format!(
                "cannot make a folder for what comes in {}: {error}; name another one with --into",
                parent.display()
            )
        })?;
        let writer = Writer::start().map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Self { folder, writer, order: Arc::default() })
    }

    /// The folder into which the session's files are to go.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What takes each complete file. It takes the last one only when all is written, so the sender hears of a reader that has broken off.
    pub fn taker(&self, stop: &Stop) -> impl Fn(Complete<'_>) -> Taken + Send + Sync + 'static {
        let (folder, writer) = (self.folder.path().to_owned(), self.writer.clone());
        let (order, stop) = (self.order.clone(), stop.clone());
        move |file| {
            let mut order = order.lock().unwrap_or_else(PoisonError::into_inner);
            let placed = match order.last.as_deref() == Some(file.name) {
                true => Ok(()),
                false => order.take(&folder, file, &writer),
            };
            match placed.and_then(|()| writer.is_done(&stop)) {
                Ok(false) if order.is_whole() => {
                    order.last = Some(file.name.to_owned());
                    None
                }
                Err(line) => {
                    order.refused = Some(line.clone());
                    Some(Err(line))
                }
                Ok(_) => Some(Ok(())),
            }
        }
    }

    /// Takes note of a session's event.
    ///
    /// # Errors
    /// Why nothing more can be written, in words.
    pub fn note(&mut self, event: &ReceiveEvent) -> Result<(), String> {
        self.writer.keep_up()?;
        match event {
            ReceiveEvent::Failed { name, reason, .. } => {
                let refused = self.order().refused.clone();
                Err(refused.unwrap_or_else(|| format!("{name} failed: {reason}")))
            }
            _ => Ok(()),
        }
    }

    /// Whether all that is to be written is here, and the reader takes it.
    pub fn has_all(&self) -> bool {
        let order = self.order();
        order.is_whole() && order.refused.is_none()
    }

    /// Waits until all of a complete session is written, or until `stop` is requested.
    ///
    /// # Errors
    /// Why standard output has not got all of it, in words.
    pub fn finish(self, stop: &Stop) -> Result<(), String> {
        self.order().check()?;
        self.writer.finish(stop)
    }

    fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Order {
    /// Takes a file that is complete, and has what can be written next written.
    fn take(&mut self, folder: &Path, file: Complete<'_>, writer: &Writer) -> Result<(), String> {
        let path = folder.join(file.name);
        if file.name == END_NAME {
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            self.pieces = Some(text.parse().map_err(|_| "the sender tells no number of pieces".to_owned())?);
            return Ok(());
        }
        match piece_number(file.name) {
            Some(_) if self.file.is_some() => return Err(ONE_FILE.to_owned()),
            Some(number) if number >= self.next => _ = self.early.insert(number, path),
            // It has been written.
            Some(_) => _ = fs::remove_file(path),
            None if self.file.is_some() || self.next > 0 || !self.early.is_empty() || file.others > 0 => {
                return Err(ONE_FILE.to_owned());
            }
            None => {
                self.file = Some(path.clone());
                writer.write(path);
            }
        }
        // The sender does not go so far ahead of a piece that may still come, unless it keeps all of them.
        if !is_spooled(file.name)
            && self.early.last_key_value().is_some_and(|(last, _)| last - self.next >= MOST_PIECES)
        {
            return Err(self.lacks());
        }
        while let Some(path) = self.early.remove(&self.next) {
            self.next += 1;
            writer.write(path);
        }
        Ok(())
    }

    /// Whether all that will come is there.
    fn is_whole(&self) -> bool {
        self.file.is_some() || self.pieces == Some(self.next)
    }

    fn lacks(&self) -> String {
        match self.next {
            0 => "the stream had begun when this receiver came, and its beginning does not come again: start receivers first, \
                  and the sender with --wait N, or with --spool DIR"
                .to_owned(),
            next => format!("the stream is not complete: its piece {next} has not come"),
        }
    }

    /// Sees that a complete session was one file, or one stream to its end.
    ///
    /// # Errors
    /// What it was, in words.
    fn check(&self) -> Result<(), String> {
        match (self.pieces, &self.file) {
            (Some(pieces), None) if self.next == pieces => Ok(()),
            (None, Some(_)) if self.next == 0 => Ok(()),
            (None, None) if self.next == 0 && self.early.is_empty() => {
                Err("the session has no file to write".to_owned())
            }
            (None, None) if self.next > 0 => {
                Err("the stream is not complete: its sender has told of no end".to_owned())
            }
            (_, None) => Err(self.lacks()),
            (_, Some(_)) => Err(ONE_FILE.to_owned()),
        }
    }
}

/// The error for a session that is more than one file or one stream.
const ONE_FILE: &str = "the session has several files, and --stdout writes one: choose it with --only";

/// The error for a receiver that is stopped while it writes.
const STOPPED: &str = "stopped before all of it was written to standard output";

/// The thread that writes files to standard output and removes them.
#[derive(Clone)]
struct Writer(Arc<(Mutex<Waiting>, Condvar)>);

#[derive(Default)]
struct Waiting {
    files: VecDeque<PathBuf>,
    is_writing: bool,
    error: Option<String>,
}

impl Waiting {
    fn is_busy(&self) -> bool {
        self.is_writing || !self.files.is_empty()
    }
}

impl Writer {
    fn start() -> io::Result<Self> {
        let writer = Self(Arc::default());
        let shared = Self(writer.0.clone());
        thread::Builder::new().name("stdout".into()).spawn(move || shared.run())?;
        Ok(writer)
    }

    fn run(&self) {
        loop {
            let nothing = |waiting: &mut Waiting| waiting.files.is_empty();
            let mut waiting =
                self.0.1.wait_while(self.waiting(), nothing).unwrap_or_else(PoisonError::into_inner);
            let file = waiting.files.pop_front();
            waiting.is_writing = true;
            drop(waiting);
            let written = file.map_or(Ok(()), |file| copy(&file));
            let mut waiting = self.waiting();
            waiting.is_writing = false;
            if let Err(error) = written {
                waiting.error = Some(format!("cannot write to standard output: {error}"));
            }
            self.0.1.notify_all();
            if waiting.error.is_some() {
                return;
            }
        }
    }

    fn write(&self, path: PathBuf) {
        self.waiting().files.push_back(path);
        self.0.1.notify_all();
    }

    /// Whether nothing waits to be written.
    ///
    /// # Errors
    /// If files cannot be written, or `stop` was requested before, in words.
    fn is_done(&self, stop: &Stop) -> Result<bool, String> {
        let waiting = self.waiting();
        match &waiting.error {
            Some(error) => Err(error.clone()),
            None if !waiting.is_busy() => Ok(true),
            None if stop.is_requested() => Err(STOPPED.to_owned()),
            None => Ok(false),
        }
    }

    /// Waits for a moment if many files wait.
    ///
    /// # Errors
    /// If files cannot be written, or too many wait and none leaves, in words.
    fn keep_up(&self) -> Result<(), String> {
        let before = self.waiting().files.len();
        let is_behind = |waiting: &mut Waiting| waiting.files.len() > MANY_WAITING && waiting.error.is_none();
        let waited = self.0.1.wait_timeout_while(self.waiting(), SLOW_DOWN, is_behind);
        let waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        match &waiting.error {
            Some(error) => Err(error.clone()),
            None if waiting.files.len() > MOST_WAITING && waiting.files.len() >= before => Err(format!(
                "nobody reads standard output: {MOST_WAITING} files wait in the temporary folder"
            )),
            None => Ok(()),
        }
    }

    /// Waits until all is written, or until `stop` is requested.
    fn finish(&self, stop: &Stop) -> Result<(), String> {
        let is_busy = |waiting: &mut Waiting| waiting.error.is_none() && waiting.is_busy();
        loop {
            let waited = self.0.1.wait_timeout_while(self.waiting(), Duration::from_millis(100), is_busy);
            let mut waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
            if !is_busy(&mut waiting) {
                return waiting.error.take().map_or(Ok(()), Err);
            }
            if stop.is_requested() {
                return Err(STOPPED.to_owned());
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a file, and removes it. A link of its name is not followed.
fn copy(path: &Path) -> io::Result<()> {
    let mut file = File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let mut stdout = io::stdout().lock();
    io::copy(&mut file, &mut stdout)?;
    stdout.flush()?;
    fs::remove_file(path)
}
