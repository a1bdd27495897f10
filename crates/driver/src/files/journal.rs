//! The journal of a receiver: a hidden file in the target folder. If the receiver is killed, its successor
//! continues from it.
//!
//! The journal is called `.treecast-SESSION.SLOT.journal`, and an incomplete file
//! `.treecast-SESSION.SLOT.INDEX.part`. A receiver keeps the journal of its slot locked while it lives, so that
//! several receivers in one folder do not disturb each other. Bytes that it holds in memory are in
//! `.treecast-SESSION.SLOT.0.held` and `.1.held`. A journal is text, with an entry in each line. A reader skips
//! lines that are no entries, such as a last line that was cut:
//!
//! ```text
//! self TEXT                                     who the receiver says it is
//! boot ID                                       what follows was noted since the machine was started last
//! have INDEX ANNOUNCEMENT START-END,START-END   these bytes are in the part file
//! done INDEX ANNOUNCEMENT HASH INODE TIME CHANGED KIND SIZE NAME
//!                                               it has its name; its file's number, and when it was modified and changed
//! made INODE                                    this folder was not there before the session
//! gone INDEX                                    what was noted of it counts no more
//! ```
//!
//! HASH is what the sender signs, with `:` and the file's own hash behind it if the object came compressed.
//! ANNOUNCEMENT is a hash of the object's announcement. An entry is written after the bytes that it describes.
//! It is not forced to the disk, because a killed process loses nothing that it has written. A file that was
//! done is hashed before it counts, if the machine was restarted since or anything of the file has changed.
//! (The time of change shows that, because no program can set it.) Errors in a part file show in its hash.

mod leftovers;
#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::CString,
    fmt::{self, Write as _},
    fs::File,
    io::{self, Read, Write},
    ops::Range,
    os::fd::AsRawFd,
    time::{Duration, SystemTime},
};

use data_encoding::HEXLOWER;
use treecast_wire::{
    header::{FileId, SessionId},
    message::{BeginOfFile, ObjectKind},
};

pub(super) use leftovers::announced;
pub use leftovers::{Kept, Leftovers};

use super::{
    PartFile, TargetError, TargetFolder,
    hashes::Hashes,
    held_log::{Announced, HeldLog, Left, SharedLog},
    sys::{self, Lock, Status, c_string, open_at},
    target::HIDDEN,
};
use leftovers::announcement;

/// The most receivers of one session in one folder that can go on later.
const MAX_SLOTS: u32 = 64;

/// A longer journal is not added to: what it would have told is fetched again.
const MAX_LEN: u64 = 64 << 20;

/// Length, in bytes, that a journal may have however few bytes a receiver takes.
const LEAST_MAX_LEN: u64 = 1 << 20;

/// The share of the bytes that a receiver takes which its journal may have beyond [`LEAST_MAX_LEN`] is one in this number.
const JOURNAL_SHARE: u64 = 16;

/// Upper bound, in bytes, of records that are not yet written to the journal.
const MAX_UNWRITTEN: usize = 64 * 1024;

/// Bits of modes.
const READ_BY_OTHERS: u16 = 0o055;
const WRITTEN_BY_OTHERS: u16 = 0o022;

/// The age from which on leftovers are removed that no receiver has continued.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The journal of one receiver, and its slot. Dropping it keeps the file if it has entries from which a later
/// receiver can continue.
#[derive(Debug)]
pub struct Journal {
    folder: TargetFolder,
    session: SessionId,
    slot: u32,
    file: File,
    len: u64,
    /// Entries that are not written yet.
    unwritten: String,
    /// Whether a later receiver may go on with what this one leaves.
    resumes: bool,
    /// Whether files are noted that have their names.
    has_done: bool,
    /// Whether the file is left when this is dropped.
    stays: bool,
    /// The identity that the receiver states.
    myself: Option<String>,
    /// The last line may be cut short: the disk was full.
    is_torn: bool,
    /// The log of objects that are held in memory.
    held: SharedLog,
    /// The inodes of folders that an earlier receiver has made.
    made: BTreeSet<u64>,
}

/// The way in which a session has ended for its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The session is over. Only files that have their names stay.
    Over,
    /// Nobody wants what is incomplete. It is removed, and complete files are noted.
    Interrupted,
    /// The session may go on later, or the user has ended the receiver. Everything stays.
    CutShort,
}

impl Journal {
    /// Takes a slot for a receiver of `session`. If it `resumes`, it takes the slot of a killed receiver with
    /// its leftovers, if there is one. Removes files that are too old.
    ///
    /// # Errors
    /// If no file can be created in the folder.
    pub fn open(
        folder: &TargetFolder,
        session: SessionId,
        resumes: bool,
    ) -> Result<(Self, Leftovers), TargetError> {
        remove_old(folder);
        for slot in slots(folder, session) {
            if let Ok(mut journal) = Self::take(folder, session, slot, false) {
                if resumes {
                    let leftovers = journal.read();
                    journal.begin();
                    return Ok((journal, leftovers));
                }
                journal.remove();
            }
        }
        let mut failed = None;
        let mut make =
            |slot| Self::take(folder, session, slot, true).map_err(|error| failed = Some(error)).ok();
        let journal = (0..MAX_SLOTS).find_map(&mut make);
        let mut journal = journal.ok_or_else(|| {
            let why = failed.map_or_else(String::new, |error| format!(": {error}"));
            let source = io::Error::other(format!("no file can be made in it{why}"));
            TargetError::Folder { folder: folder.path().to_owned(), source }
        })?;
        journal.begin();
        journal.resumes = resumes;
        Ok((journal, Leftovers::default()))
    }

    /// Removes the incomplete files of a session's receivers that run no more. Complete ones stay noted.
    pub fn discard_unfinished(folder: &TargetFolder, session: SessionId) {
        for slot in slots(folder, session) {
            if let Ok(mut journal) = Self::take(folder, session, slot, false) {
                journal.read();
                journal.end(Ending::Interrupted);
            }
        }
    }

    /// Locks the journal of a slot. What others could have had their hands in goes.
    ///
    /// # Errors
    /// If it cannot be opened or made, somebody else has it, or it is not this user's alone.
    fn take(folder: &TargetFolder, session: SessionId, slot: u32, makes: bool) -> io::Result<Self> {
        let name = c_string(format!("{HIDDEN}{:08x}.{slot}.journal", session.0))?;
        let flags = libc::O_RDWR | libc::O_APPEND | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let flags = if makes { flags | libc::O_CREAT | libc::O_EXCL } else { flags };
        let file = open_at(folder.root(), &name, flags, 0o600)?;
        // Where a file system knows no locks, a new journal is nobody else's, and an old one may be.
        let is_free = match sys::lock(&file) {
            Lock::Ours => true,
            Lock::Taken => false,
            Lock::Unknown => makes,
        };
        // Whoever had it before may have removed it meanwhile.
        let status = sys::status_at(&file, c"")?;
        let is_there = sys::status_at(folder.root(), &name).is_ok_and(|named| named.inode == status.inode);
        // It tells where to go on, and as whom. A new one is right where a file system knows no owners, too.
        let is_right = makes || status.is_own_file(WRITTEN_BY_OTHERS);
        if is_free && is_there && !is_right && status.is_ours() {
            _ = sys::remove_at(folder.root(), &name);
        }
        let journal = (is_free && is_there && is_right).then(|| {
            let file = File::from(file);
            let len = file.metadata().map_or(0, |metadata| metadata.len());
            Self {
                folder: folder.clone(),
                session,
                slot,
                file,
                len,
                unwritten: String::new(),
                resumes: true,
                has_done: false,
                stays: false,
                myself: None,
                is_torn: false,
                held: SharedLog::default(),
                made: BTreeSet::new(),
            }
        });
        journal.ok_or_else(|| io::Error::other("somebody else has it"))
    }

    /// Opens the part file of an object: anew, or, with `is_kept`, the one that is there.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn part(&self, file: FileId, is_kept: bool) -> Result<PartFile, TargetError> {
        let name = self.part_name(file.index());
        let failed = |source| self.folder.error(format!("make {name}"), source);
        let name = c_string(&name).map_err(failed)?;
        let flags = libc::O_RDWR | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let opened = if is_kept {
            open_at(self.folder.root(), &name, flags, 0)
        } else {
            _ = sys::remove_at(self.folder.root(), &name);
            // It is nobody else's to read or write before it is verified and has its mode.
            open_at(self.folder.root(), &name, flags | libc::O_CREAT | libc::O_EXCL, 0o600)
        };
        let opened = opened.map_err(failed)?;
        let status = sys::status_at(&opened, c"").map_err(failed)?;
        if is_kept && !status.is_own_file(0) {
            return Err(failed(io::Error::other("somebody else has put something there: remove it")));
        }
        Ok(PartFile::new(self.folder.clone(), name, opened, status))
    }

    /// Whether a later receiver may go on with what this one leaves.
    pub(super) fn resumes(&self) -> bool {
        self.resumes
    }

    /// The identity that was stated by the killed receiver whose journal this one continues.
    pub(crate) fn myself(&self) -> Option<&str> {
        self.myself.as_deref()
    }

    /// Notes who this receiver says it is, at once: its sender may know it before anything is stored.
    pub(crate) fn note_myself(&mut self, text: &str) {
        if self.myself() != Some(text) {
            self.add(format_args!("self {text}"));
            self.write();
            self.myself = Some(text.to_owned());
        }
    }

    /// Notes that bytes of an object are stored.
    pub(super) fn have(&mut self, file: FileId, begin: &BeginOfFile, ranges: &[Range<u64>]) {
        self.stays = self.resumes;
        let mut there = String::new();
        for range in ranges {
            // Writing to a string cannot fail.
            _ = write!(there, "{}-{},", range.start, range.end);
        }
        self.add(format_args!("have {} {} {there}", file.index(), announcement(begin)));
    }

    /// Notes that an object has its name.
    pub(super) fn done(&mut self, file: FileId, begin: &BeginOfFile, hashes: Hashes, status: Status) {
        self.done_as(file, begin, announced(begin), hashes, status);
    }

    /// Does what [`Journal::done`] does, with the text that stands for the announcement.
    pub(super) fn done_as(
        &mut self,
        file: FileId,
        begin: &BeginOfFile,
        announced: Announced,
        hashes: Hashes,
        status: Status,
    ) {
        self.stays = self.resumes;
        self.has_done |= self.resumes && begin.kind() != ObjectKind::Folder;
        let (modified, changed) = (status.modified, status.changed);
        self.add(format_args!(
            "done {} {} {} {} {}.{} {}.{} {} {} {}",
            file.index(),
            HEXLOWER.encode(&announced),
            hashes,
            status.inode.1,
            modified.seconds,
            modified.nanoseconds,
            changed.seconds,
            changed.nanoseconds,
            begin.kind() as u8,
            begin.file_size,
            begin.file_name(),
        ));
    }

    /// Notes that a folder was not there before.
    pub(super) fn note_made(&mut self, inode: u64) {
        self.add(format_args!("made {inode}"));
    }

    /// The inodes of folders that an earlier receiver of the session has made.
    pub(super) fn take_made(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.made)
    }

    /// Notes that what was noted of an object counts no more.
    pub(super) fn gone(&mut self, file: FileId) {
        self.add(format_args!("gone {}", file.index()));
    }

    /// Removes the part file of an object that an earlier receiver has left, and that will not come again.
    pub(super) fn drop_part(&mut self, file: FileId) {
        self.gone(file);
        self.remove_part(file.index());
    }

    fn remove_part(&self, index: u32) {
        if let Ok(name) = c_string(self.part_name(index)) {
            _ = sys::remove_at(self.folder.root(), &name);
        }
    }

    /// Lets go of the slot, and removes what nobody needs any more.
    pub(crate) fn end(mut self, ending: Ending) {
        match ending {
            Ending::CutShort => {}
            Ending::Interrupted => {
                self.stays = self.has_done;
                self.remove_held();
                self.remove_parts();
            }
            Ending::Over => {
                // Those of receivers that were killed have nothing to go on with either.
                for slot in slots(&self.folder, self.session) {
                    if slot != self.slot
                        && let Ok(other) = Self::take(&self.folder, self.session, slot, false)
                    {
                        other.remove();
                    }
                }
                self.remove();
            }
        }
    }

    fn remove(mut self) {
        self.stays = false;
    }

    /// Removes the part files, those of objects that were not announced again as well.
    fn remove_parts(&self) {
        let of_slot = format!("{HIDDEN}{:08x}.{}.", self.session.0, self.slot);
        for name in hidden_files(&self.folder) {
            let index = name.strip_prefix(&of_slot).and_then(|rest| rest.strip_suffix(".part"));
            index.and_then(|index| index.parse().ok()).into_iter().for_each(|index| self.remove_part(index));
        }
    }

    fn add(&mut self, line: fmt::Arguments<'_>) {
        if !self.resumes {
            return;
        }
        let before = self.unwritten.len();
        // As above.
        _ = writeln!(self.unwritten, "{line}");
        let len = self.len + (self.unwritten.len() - before) as u64;
        if len > self.max_len() {
            return self.unwritten.truncate(before);
        }
        self.len = len;
        if self.unwritten.len() >= MAX_UNWRITTEN {
            self.write();
        }
    }

    /// The most bytes that the journal may have. It counts beside the limit for what is received, so it has a share of that.
    fn max_len(&self) -> u64 {
        let share = |most: u64| (LEAST_MAX_LEN + most / JOURNAL_SHARE).min(MAX_LEN);
        self.folder.rules().max_bytes.map_or(MAX_LEN, share)
    }

    /// Writes what has been noted since the last time.
    pub(super) fn write(&mut self) {
        if self.unwritten.is_empty() {
            return;
        }
        // What is not noted is fetched again, and that is all.
        let end_of_torn = if self.is_torn { "\n" } else { "" };
        self.is_torn = self.file.write_all(format!("{end_of_torn}{}", self.unwritten).as_bytes()).is_err();
        self.unwritten.clear();
    }

    /// Ends a line that was cut short, and says when the machine was started.
    fn begin(&mut self) {
        self.add(format_args!("\nboot {}", boot()));
        self.write();
    }

    /// Reads the journal.
    fn read(&mut self) -> Leftovers {
        let mut text = Vec::new();
        // One that cannot be read says nothing.
        _ = Read::by_ref(&mut self.file).take(MAX_LEN).read_to_end(&mut text);
        let (boot, mut leftovers, mut is_recent) = (boot(), Leftovers::default(), false);
        // The last line has an end only if it is whole.
        for line in String::from_utf8_lossy(&text).split_inclusive('\n') {
            match line.strip_suffix('\n').and_then(|line| line.split_once(' ')) {
                Some(("self", text)) => self.myself = Some(text.to_owned()),
                Some(("made", inode)) => self.made.extend(inode.parse::<u64>()),
                Some(("boot", at)) => is_recent = !at.is_empty() && at == boot,
                Some((verb, rest)) => _ = leftovers.note(verb, rest, is_recent),
                None => {}
            }
        }
        self.has_done = leftovers.has_done();
        leftovers.check_parts(|index| self.part_len(index).unwrap_or(0));
        self.stays = !leftovers.is_empty() || self.has_held();
        leftovers
    }

    /// The log of what the receiver holds in memory; none before [`Journal::open_held_log`].
    pub(super) fn held_log(&self) -> SharedLog {
        self.held.clone()
    }

    /// Opens the log of what the receiver holds in memory. Returns what is in it from an earlier one, of objects of
    /// which nothing is noted here. There is none where it cannot be written, or nobody may go on with it.
    pub(super) fn open_held_log(&self, leftovers: &Leftovers) -> Option<BTreeMap<u32, Left>> {
        let files = self.resumes.then(|| Ok::<_, io::Error>([self.open_held(0)?, self.open_held(1)?]))?;
        let (log, left) = HeldLog::open(files.ok()?, |index| !leftovers.has(index)).ok()?;
        self.held.set(log);
        Some(left)
    }

    fn remove_held(&self) {
        self.held.give_up();
        for name in (0..2).filter_map(|turn| self.held_name(turn).ok()) {
            _ = sys::remove_at(self.folder.root(), &name);
        }
    }

    /// Opens a file of the log. What somebody else could have put there, or can read, gives way to a new one.
    fn open_held(&self, turn: u32) -> io::Result<File> {
        let (folder, name) = (self.folder.root(), self.held_name(turn)?);
        // A FIFO keeps nobody waiting.
        let flags = libc::O_RDWR | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
        if let Ok(there) = open_at(folder, &name, flags, 0).map(File::from)
            && sys::status_at(&there, c"")?.is_own_file(READ_BY_OTHERS | WRITTEN_BY_OTHERS)
        {
            return Ok(there);
        }
        _ = sys::remove_at(folder, &name);
        open_at(folder, &name, flags | libc::O_CREAT | libc::O_EXCL, 0o600).map(File::from)
    }

    fn held_name(&self, turn: u32) -> io::Result<CString> {
        c_string(format!("{HIDDEN}{:08x}.{}.{turn}.held", self.session.0, self.slot))
    }

    /// Whether an earlier receiver has left what it held in memory.
    fn has_held(&self) -> bool {
        let len = |turn| Ok::<_, io::Error>(sys::status_at(self.folder.root(), &self.held_name(turn)?)?.size);
        (0..2).any(|turn| len(turn).is_ok_and(|len| len > 0))
    }

    /// Length of a part file, in bytes. 0: it is not ours.
    fn part_len(&self, index: u32) -> io::Result<u64> {
        let status = sys::status_at(self.folder.root(), &c_string(self.part_name(index))?)?;
        Ok(if status.is_own_file(0) { status.size } else { 0 })
    }

    fn part_name(&self, index: u32) -> String {
        format!("{HIDDEN}{:08x}.{}.{index}.part", self.session.0, self.slot)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if self.stays {
            self.write();
        } else {
            remove_slot(&self.folder, self.session, self.slot);
        }
    }
}

/// The kernel's identifier of the time since the machine was started.
fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// The names of hidden files of ours in the folder, in order.
fn hidden_files(folder: &TargetFolder) -> Vec<String> {
    // Of the folder that is open, whatever it is called by now.
    let opened = format!("/proc/self/fd/{}", folder.root().as_raw_fd());
    let entries = std::fs::read_dir(opened).or_else(|_| std::fs::read_dir(folder.path()));
    let Ok(entries) = entries else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(HIDDEN)).collect();
    names.sort();
    names
}

/// The session and slot that a hidden file is of.
fn slot_of(name: &str) -> Option<(SessionId, u32)> {
    let mut parts = name.strip_prefix(HIDDEN)?.split('.');
    let session = parts.next().filter(|session| session.len() == 8)?;
    Some((SessionId(u32::from_str_radix(session, 16).ok()?), parts.next()?.parse().ok()?))
}

/// The session and slot, as of [`slot_of`], for journals alone.
fn journal_of(name: &str) -> Option<(SessionId, u32)> {
    slot_of(name).filter(|(session, slot)| name == format!("{HIDDEN}{:08x}.{slot}.journal", session.0))
}

/// The slots of a session's receivers that have a journal in the folder.
fn slots(folder: &TargetFolder, session: SessionId) -> Vec<u32> {
    let journals = hidden_files(folder);
    journals.iter().filter_map(|name| journal_of(name)).filter(|of| of.0 == session).map(|of| of.1).collect()
}

/// Removes the part files of a slot that is locked, and then its journal.
fn remove_slot(folder: &TargetFolder, session: SessionId, slot: u32) {
    let mut names: Vec<_> =
        hidden_files(folder).into_iter().filter(|name| slot_of(name) == Some((session, slot))).collect();
    names.sort_by_key(|name| journal_of(name).is_some());
    for name in names.iter().filter_map(|name| c_string(name).ok()) {
        _ = sys::remove_at(folder.root(), &name);
    }
}

/// Removes what has been left too long ago, and part files without a journal.
fn remove_old(folder: &TargetFolder) {
    let names = hidden_files(folder);
    let journals: Vec<_> = names.iter().filter_map(|name| journal_of(name)).collect();
    for (session, slot) in &journals {
        let name = format!("{HIDDEN}{:08x}.{slot}.journal", session.0);
        let modified = folder.open_file(&name).and_then(|file| file.metadata()?.modified());
        let age = modified.ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
        if age.is_some_and(|age| age > MAX_AGE)
            && let Ok(journal) = Journal::take(folder, *session, *slot, false)
        {
            journal.remove();
        }
    }
    let orphans = names.iter().filter_map(|name| slot_of(name)).filter(|of| !journals.contains(of));
    for (session, slot) in orphans {
        // Whoever makes the journal has the slot.
        if let Ok(journal) = Journal::take(folder, session, slot, true) {
            journal.remove();
        }
    }
}
