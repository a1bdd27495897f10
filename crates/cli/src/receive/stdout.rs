//! `receive --stdout`: hands what has come on to standard output, in order.
//!
//! Only what is complete and verified is handed on, so a pipe never gets a wrong byte. What comes stands in a temporary
//! folder until a thread has written it.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        mpsc::{SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

use tempfile::TempDir;
use treecast_driver::{
    pipe::{MOST_PIECES, piece_number},
    receive::ReceiveEvent,
};
use treecast_wire::message::ObjectKind;

/// The largest number of files that wait until standard output takes them. After that, the session waits, too.
const MOST_WAITING: usize = 256;

/// What comes of a session on its way to standard output.
pub(super) struct Outlet {
    folder: TempDir,
    writer: Option<Writer>,
    /// The number of the piece that is to be written next.
    next: u64,
    /// Pieces that came before an earlier one.
    early: BTreeMap<u64, PathBuf>,
    /// Files that are no pieces of a stream.
    files: Vec<PathBuf>,
}

impl Outlet {
    /// Makes a temporary folder in `folder`, or where the system has its temporary files.
    ///
    /// # Errors
    /// If that is impossible, in words.
    pub fn new(folder: Option<&Path>) -> Result<Self, String> {
        let parent = folder.map_or_else(std::env::temp_dir, Path::to_owned);
        let folder =
            tempfile::Builder::new().prefix("treecast-stdout-").tempdir_in(&parent).map_err(|error| {
                format!(
                    "cannot make a folder for what comes in {}: {error}; name another one with --into",
                    parent.display()
                )
            })?;
        let writer = Writer::start().map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Self { folder, writer: Some(writer), next: 0, early: BTreeMap::new(), files: Vec::new() })
    }

    /// The folder into which the session's files are to go.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Takes note of a session's event.
    ///
    /// # Errors
    /// Why nothing more can be handed on, in words.
    pub fn note(&mut self, event: &ReceiveEvent) -> Result<(), String> {
        match event {
            ReceiveEvent::Received { name, kind: ObjectKind::File, .. } => self.take(name)?,
            ReceiveEvent::Failed { name, reason, .. } => return Err(format!("{name} failed: {reason}")),
            _ => {}
        }
        self.writer.as_ref().and_then(Writer::error).map_or(Ok(()), Err)
    }

    fn take(&mut self, name: &str) -> Result<(), String> {
        let path = self.folder.path().join(name);
        let Some(number) = piece_number(name) else {
            self.files.push(path);
            return Ok(());
        };
        if number >= self.next {
            self.early.insert(number, path);
        }
        // The sender keeps so many pieces, so it has let go of the one that lacks.
        if number.saturating_sub(self.next) > MOST_PIECES as u64 {
            return Err(self.lacks());
        }
        while let Some(path) = self.early.remove(&self.next) {
            self.next += 1;
            self.write(path);
        }
        Ok(())
    }

    fn write(&self, path: PathBuf) {
        if let Some(writer) = &self.writer {
            writer.write(path);
        }
    }

    fn lacks(&self) -> String {
        match self.next {
            0 => "the stream had begun when this receiver came, and its beginning does not come again: start receivers first, \
                  and the sender with --wait N"
                .to_owned(),
            next => format!("piece {next} of the stream has not come"),
        }
    }

    /// Hands on what is left of a complete session, and waits until all is written.
    ///
    /// # Errors
    /// Why standard output has not got all of it, in words.
    pub fn finish(mut self) -> Result<(), String> {
        if !self.early.is_empty() {
            return Err(self.lacks());
        }
        match (self.next, self.files.as_slice()) {
            (0, [file]) => self.write(file.clone()),
            (_, []) => {}
            (0, files) => {
                return Err(format!(
                    "the session has {} files, and --stdout takes one: choose it with --only",
                    files.len()
                ));
            }
            (..) => return Err("the session has files beside a stream: choose with --only".to_owned()),
        }
        self.writer.take().map_or(Ok(()), Writer::finish)
    }
}

/// The thread that writes files to standard output and removes them.
struct Writer {
    files: SyncSender<PathBuf>,
    error: Arc<OnceLock<String>>,
    thread: JoinHandle<()>,
}

impl Writer {
    fn start() -> io::Result<Self> {
        let (files, waiting) = sync_channel::<PathBuf>(MOST_WAITING);
        let error = Arc::new(OnceLock::new());
        let failed = error.clone();
        let write = move || {
            if let Err(error) = waiting.iter().try_for_each(|path| copy(&path)) {
                _ = failed.set(format!("cannot write to standard output: {error}"));
            }
        };
        let thread = thread::Builder::new().name("stdout".into()).spawn(write)?;
        Ok(Self { files, error, thread })
    }

    /// Hands over a file. Waits if too many are waiting.
    fn write(&self, path: PathBuf) {
        // The thread has ended only after an error, which is told.
        _ = self.files.send(path);
    }

    fn error(&self) -> Option<String> {
        self.error.get().cloned()
    }

    fn finish(self) -> Result<(), String> {
        drop(self.files);
        _ = self.thread.join();
        self.error.get().cloned().map_or(Ok(()), Err)
    }
}

fn copy(path: &Path) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    io::copy(&mut File::open(path)?, &mut stdout)?;
    stdout.flush()?;
    fs::remove_file(path)
}
