//! The history of a standing receiver: a file with one JSON object a line, which survives the loss of power.
//!
//! A line that was cut is skipped. When the file is large, it is renamed, and the one that was renamed before is removed. So the
//! history is as long as two files, and has at least the last [`MAX_LEN`] bytes. The new file begins with the sessions that were
//! received before, so that they are not received again.
//!
//! Entries that cannot be written, for example because the disk is full, are kept and written later.

use std::{
    collections::{BTreeSet, VecDeque},
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use treecast_host::{
    clock::since_1970,
    folder::{Lock, lock, unlock},
};
use treecast_proto::{announced::SessionKey, standing::MAX_FINISHED};
use treecast_wire::{announcement::Announcement, header::SessionId};

use super::command_end::CommandEnd;
use crate::security::PublicKey;

/// The length at which the file is renamed, in bytes.
pub const MAX_LEN: u64 = 8 << 20;

const FILE: &str = "history.jsonl";
const BEFORE: &str = "history.1.jsonl";

/// The next [`FILE`], until it has what it begins with.
const NEXT: &str = "history.next.jsonl";

/// The largest number of lines that are kept until they can be written. The oldest are forgotten first.
const MAX_UNWRITTEN: usize = 1000;

/// The longest reason that is kept, in characters.
const MAX_TEXT: usize = 300;

/// An event in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Happened {
    /// The service has started.
    Started,
    /// The service was told to end.
    Stopped,
    /// A session is not taken, and why.
    Ignored,
    /// A session is being received, for the first time or again.
    Began,
    /// Everything that was wanted of a session is there.
    Received,
    /// A session was not received to its end. It is tried again.
    Interrupted,
    /// A session was not received to its end, and is not tried again.
    GivenUp,
    /// The program of a rule has run, and was successful.
    CommandRun,
    /// The program of a rule has failed.
    CommandFailed,
    /// A session of a trusted sender is for others.
    NotMeant,
    /// Something keeps the service from its work.
    Warning,
    /// A session was received, by an entry that is in the history no more. Only this module sees it.
    Finished,
}

impl Happened {
    /// The event, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Stopped => "stopped",
            Self::Ignored => "ignored",
            Self::Began => "began",
            Self::Received => "received",
            Self::Interrupted => "interrupted",
            Self::GivenUp => "given up",
            Self::CommandRun => "command run",
            Self::CommandFailed => "command failed",
            Self::NotMeant => "not meant",
            Self::Warning => "warning",
            Self::Finished => "finished",
        }
    }

    /// Whether an operator should look at it.
    pub fn is_bad(self) -> bool {
        let is_bad_end = matches!(self, Self::Interrupted | Self::GivenUp | Self::CommandFailed);
        is_bad_end || matches!(self, Self::Ignored | Self::Warning)
    }
}

/// One entry of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Seconds since 1970.
    pub at: u64,
    pub event: Happened,
    /// The session's number in hexadecimal digits, its name, and the sender's key. `None` where it is about no session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub into: Option<PathBuf>,
    /// Files that came, and their bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The time at which the session began by its sender's clock, in milliseconds since 1970. `None` if that is not
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<u64>,
    /// The mark of the rule that took the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The exit code of a program, and how many seconds it ran. `None` for the code if it was killed or could not be run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The first line that a program has printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// Whether a program is to run now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owes_command: bool,
    /// The reason or the result, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Entry {
    /// An entry about the service, now.
    pub fn new(event: Happened) -> Self {
        let at = since_1970().as_secs();
        Self {
            at,
            event,
            session: None,
            name: None,
            sender: None,
            into: None,
            files: None,
            bytes: None,
            begun: None,
            rule: None,
            code: None,
            seconds: None,
            line: None,
            owes_command: false,
            text: None,
        }
    }

    /// An entry about a session, now.
    pub fn of(event: Happened, announcement: &Announcement) -> Self {
        Self {
            session: Some(format!("{:08x}", announcement.ticket().session.0)),
            name: Some(announcement.name().to_owned()),
            sender: PublicKey::from_bytes(announcement.key()).ok().map(|key| key.to_string()),
            begun: Some(announcement.begun).filter(|begun| *begun > 0),
            ..Self::new(event)
        }
    }

    /// The entry with a reason or a result.
    pub fn because(mut self, text: impl ToString) -> Self {
        self.text = Some(text.to_string().chars().take(MAX_TEXT).collect());
        self
    }

    /// Whether a session is complete by this entry.
    pub(super) fn is_received(&self) -> bool {
        matches!(self.event, Happened::Received | Happened::Finished)
    }

    /// The end of the program that this entry is about.
    pub(super) fn command_end(&self) -> CommandEnd {
        CommandEnd {
            // An older version kept no code.
            code: self.code.or((self.event == Happened::CommandRun).then_some(0)),
            time: Duration::try_from_secs_f64(self.seconds.unwrap_or(0.0)).unwrap_or_default(),
            line: self.line.clone().unwrap_or_default(),
            why: self.text.clone().filter(|_| self.event == Happened::CommandFailed),
        }
    }

    pub(super) fn key(&self) -> Option<SessionKey> {
        let key: PublicKey = self.sender.as_ref()?.parse().ok()?;
        let session = u32::from_str_radix(self.session.as_ref()?, 16).ok()?;
        Some((key.to_bytes(), SessionId(session)))
    }
}

/// The reason why the history cannot be kept or read.
#[derive(Debug, Error)]
pub enum HistoryError {
    #[error("cannot keep the history in {}: {source}; name a folder that this user may write to with `state`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("another standing receiver keeps its history in {}: name another folder with `state`", .0.display())]
    Taken(PathBuf),
    #[error("cannot read the history in {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
}

/// A history that entries are added to.
#[derive(Debug)]
pub struct History {
    folder: PathBuf,
    file: File,
    /// The length of the file in bytes, without what was written in part.
    len: u64,
    /// Lines that could not be written yet, the oldest first.
    unwritten: VecDeque<String>,
    /// Whether the file may end in the middle of a line.
    is_torn: bool,
    /// Locked while this receiver runs.
    lock: File,
}

impl Drop for History {
    fn drop(&mut self) {
        // A program that another thread is about to start holds a copy of the descriptor for a moment, and would keep the lock.
        unlock(&self.lock);
    }
}

impl History {
    /// Opens the history in a folder, which is made if it is missing. Also returns its entries.
    ///
    /// # Errors
    /// If it cannot be written, or another receiver does.
    pub fn open(folder: &Path) -> Result<(Self, Vec<Entry>), HistoryError> {
        let failed = |source| HistoryError::Write { path: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        let open =
            |name: &str| OpenOptions::new().append(true).create(true).mode(0o640).open(folder.join(name));
        let lock_file = open("lock").map_err(failed)?;
        if lock(&lock_file) == Lock::Taken {
            return Err(HistoryError::Taken(folder.to_owned()));
        }
        let entries = Self::read_all(folder)?;
        let (file, len) = Self::open_file(folder).map_err(failed)?;
        let (folder, unwritten) = (folder.to_owned(), VecDeque::new());
        Ok((Self { folder, file, len, unwritten, is_torn: false, lock: lock_file }, entries))
    }

    fn open_file(folder: &Path) -> io::Result<(File, u64)> {
        let (path, next) = (folder.join(FILE), folder.join(NEXT));
        if !path.exists() && next.exists() {
            fs::rename(next, &path)?;
        }
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o640).open(path)?;
        let mut len = file.metadata()?.len();
        if len > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                // The power failed in the middle of a line.
                file.write_all(b"\n")?;
                len += 1;
            }
        }
        Ok((file, len))
    }

    /// Reads the entries of a folder, the oldest first. A folder without a history has none.
    ///
    /// # Errors
    /// If a file is there and cannot be read.
    pub fn read(folder: &Path) -> Result<Vec<Entry>, HistoryError> {
        let mut entries = Self::read_all(folder)?;
        entries.retain(|entry| entry.event != Happened::Finished);
        Ok(entries)
    }

    fn read_all(folder: &Path) -> Result<Vec<Entry>, HistoryError> {
        let mut entries = Vec::new();
        // The power may have failed between the two renamings.
        let current = if folder.join(FILE).exists() { FILE } else { NEXT };
        for name in [BEFORE, current] {
            let path = folder.join(name);
            match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(HistoryError::Read { path, source }),
                Ok(file) => {
                    let mut bytes = Vec::new();
                    // Twice as long as it gets.
                    let read = file.take(2 * MAX_LEN).read_to_end(&mut bytes);
                    read.map_err(|source| HistoryError::Read { path, source })?;
                    let lines = bytes.split(|byte| *byte == b'\n');
                    entries.extend(lines.filter_map(|line| serde_json::from_slice(line).ok()));
                }
            }
        }
        Ok(entries)
    }

    /// Adds an entry. It is on the disk when this returns. If it cannot be written, it is kept, and written with the next ones or by
    /// [`Self::flush`].
    ///
    /// # Errors
    /// If something is not written yet.
    pub fn add(&mut self, entry: &Entry) -> Result<(), HistoryError> {
        let line = serde_json::to_string(entry).map_err(|error| self.failed(io::Error::other(error)))?;
        self.unwritten.push_back(line);
        if self.unwritten.len() > MAX_UNWRITTEN {
            self.unwritten.pop_front();
        }
        self.flush()
    }

    /// Writes what could not be written before.
    ///
    /// # Errors
    /// If something is not written yet.
    pub fn flush(&mut self) -> Result<(), HistoryError> {
        while let Some(line) = self.unwritten.pop_front() {
            if let Err(source) = self.write(&line) {
                self.unwritten.push_front(line);
                return Err(self.failed(source));
            }
        }
        Ok(())
    }

    fn failed(&self, source: io::Error) -> HistoryError {
        HistoryError::Write { path: self.folder.clone(), source }
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        if self.len > MAX_LEN {
            self.rotate()?;
        }
        let newline = if self.is_torn { "\n" } else { "" };
        let line = format!("{newline}{line}\n");
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        self.is_torn = written.is_err();
        match written {
            Ok(()) => self.len += line.len() as u64,
            // Tries in vain do not make the file grow.
            Err(_) => _ = self.file.set_len(self.len),
        }
        written
    }

    /// Begins a new file with the sessions that were received.
    fn rotate(&mut self) -> io::Result<()> {
        let [current, before, next] = [FILE, BEFORE, NEXT].map(|name| self.folder.join(name));
        let entries = Self::read_all(&self.folder).map_err(io::Error::other)?;
        let mut text = String::new();
        for entry in carried(&entries) {
            text += &serde_json::to_string(&entry)?;
            text.push('\n');
        }
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o640).open(&next)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        if current.exists() {
            fs::rename(&current, before)?;
        }
        fs::rename(next, current)?;
        (self.file, self.len) = Self::open_file(&self.folder)?;
        Ok(())
    }
}

/// An entry for each of the last sessions that were received, the oldest first.
fn carried(entries: &[Entry]) -> Vec<Entry> {
    let mut known = BTreeSet::new();
    let received = entries.iter().rev().filter(|entry| entry.is_received());
    let last = received.filter(|entry| entry.key().is_some_and(|key| known.insert(key))).take(MAX_FINISHED);
    let mut carried: Vec<Entry> = last
        .map(|entry| Entry {
            at: entry.at,
            session: entry.session.clone(),
            sender: entry.sender.clone(),
            name: entry.name.clone(),
            into: entry.into.clone(),
            begun: entry.begun,
            ..Entry::new(Happened::Finished)
        })
        .collect();
    carried.reverse();
    carried
}

/// The sessions that were received, by a history. One that was given up is tried again by the next run: somebody may have mended what
/// was wrong.
pub(super) fn received(entries: &[Entry]) -> impl Iterator<Item = (SessionKey, &Entry)> {
    let received = entries.iter().filter(|entry| entry.is_received());
    received.filter_map(|entry| Some((entry.key()?, entry)))
}

/// The sessions that were received, and whose program had not run before the power failed.
pub(super) fn owing_command(entries: &[Entry]) -> Vec<Entry> {
    let mut owing: Vec<Entry> = Vec::new();
    for entry in entries {
        match entry.event {
            Happened::Received if entry.owes_command => owing.push(entry.clone()),
            Happened::CommandRun | Happened::CommandFailed => {
                owing.retain(|owing| owing.key() != entry.key())
            }
            _ => {}
        }
    }
    owing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::Identity;

    fn entry(event: Happened, session: u32, sender: &Identity) -> Entry {
        Entry {
            session: Some(format!("{session:08x}")),
            sender: Some(sender.public_key().to_string()),
            ..Entry::new(event)
        }
    }

    #[test]
    fn what_was_cut_when_the_power_failed_is_skipped_and_the_rest_is_there() {
        let folder = crate::scratch::scratch("history");
        let sender = Identity::generate().unwrap();
        let (mut history, entries) = History::open(&folder).unwrap();
        assert!(entries.is_empty());
        assert!(matches!(History::open(&folder), Err(HistoryError::Taken(_))));
        history.add(&entry(Happened::Began, 1, &sender)).unwrap();
        history.add(&entry(Happened::Received, 1, &sender)).unwrap();
        history.file.write_all(b"{\"at\":17,\"event\":\"recei").unwrap();
        drop(history);
        let (mut history, entries) = History::open(&folder).unwrap();
        assert_eq!(entries.len(), 2);
        history.add(&entry(Happened::GivenUp, 2, &sender).because("x".repeat(1000))).unwrap();
        history.add(&entry(Happened::Interrupted, 3, &sender)).unwrap();
        let entries = History::read(&folder).unwrap();
        let sessions: Vec<_> = received(&entries).map(|(session, _)| session.1.0).collect();
        assert_eq!(sessions, [1], "the other one is tried again");
        assert_eq!(entries[2].text.as_ref().map(String::len), Some(MAX_TEXT));
    }

    #[test]
    fn a_command_that_has_not_run_is_owed() {
        let sender = Identity::generate().unwrap();
        let entries = [
            (Happened::Received, 1),
            (Happened::Received, 2),
            (Happened::CommandRun, 1),
            (Happened::Began, 3),
        ];
        let mut entries = entries.map(|(event, session)| entry(event, session, &sender));
        assert_eq!(owing_command(&entries), []);
        entries.iter_mut().for_each(|entry| entry.owes_command = entry.event == Happened::Received);
        let owing = owing_command(&entries);
        assert_eq!(
            owing.iter().map(|entry| entry.session.as_deref()).collect::<Vec<_>>(),
            [Some("00000002")]
        );
    }

    #[test]
    fn a_history_never_gets_longer_than_two_files() {
        let folder = crate::scratch::scratch("long-history");
        let (mut history, _) = History::open(&folder).unwrap();
        for _ in 0..3 {
            history.len = MAX_LEN + 1;
            history.add(&Entry::new(Happened::Started)).unwrap();
            history.add(&Entry::new(Happened::Stopped)).unwrap();
        }
        assert_eq!(History::read(&folder).unwrap().len(), 4);
        let names = fs::read_dir(&folder).unwrap().count();
        assert_eq!(names, 3, "two files and the lock");
    }

    #[test]
    fn what_was_received_is_known_however_much_is_noted_after_it() {
        let folder = crate::scratch::scratch("carried-history");
        let sender = Identity::generate().unwrap();
        let (mut history, _) = History::open(&folder).unwrap();
        for session in 1..=3 {
            history.add(&entry(Happened::Received, session, &sender)).unwrap();
            history.len = MAX_LEN + 1;
            history.add(&entry(Happened::Began, 7, &sender)).unwrap();
        }
        assert!(History::read(&folder).unwrap().iter().all(|entry| entry.event != Happened::Finished));
        drop(history);
        // The power has failed while a new file was begun.
        fs::rename(folder.join(FILE), folder.join(NEXT)).unwrap();
        let (_, entries) = History::open(&folder).unwrap();
        let sessions: BTreeSet<u32> = received(&entries).map(|(session, _)| session.1.0).collect();
        assert_eq!(sessions, [1, 2, 3].into());
    }

    #[test]
    fn what_cannot_be_written_is_kept_and_written_later() {
        let folder = crate::scratch::scratch("full-history");
        let sender = Identity::generate().unwrap();
        let (mut history, _) = History::open(&folder).unwrap();
        history.add(&entry(Happened::Began, 1, &sender)).unwrap();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let file = std::mem::replace(&mut history.file, full);
        assert!(matches!(
            history.add(&entry(Happened::Received, 1, &sender)),
            Err(HistoryError::Write { .. })
        ));
        for _ in 0..2 * MAX_UNWRITTEN {
            assert!(history.add(&Entry::new(Happened::Warning)).is_err());
        }
        assert_eq!(history.unwritten.len(), MAX_UNWRITTEN);
        // Part of a line got to the disk.
        history.file = file;
        history.file.write_all(b"{\"at\":17,\"ev").unwrap();
        history.add(&entry(Happened::Received, 2, &sender)).unwrap();
        let entries = History::read(&folder).unwrap();
        assert_eq!((entries.len(), entries[0].event), (1 + MAX_UNWRITTEN, Happened::Began));
        assert_eq!(received(&entries).map(|(session, _)| session.1.0).collect::<Vec<_>>(), [2]);
    }
}
