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
    header::{FileId, HEADER_LEN, SessionId},
    message::{BeginOfFile, Message, ObjectKind},
};

use super::{
    PartFile, TargetError, TargetFolder, check_name,
    hashes::Hashes,
    held_log::{Announced, HeldLog, Left, SharedLog},
    sys::{self, FileTime, Lock, Status, c_string, open_at},
    target::HIDDEN,
};

/// The most receivers of one session in one folder that can go on later.
const MAX_SLOTS: u32 = 64;

/// A longer journal is not added to: what it would have told is fetched again.
const MAX_LEN: u64 = 64 << 20;

/// Upper bound, in bytes, of records that are not yet written to the journal.
const MAX_UNWRITTEN: usize = 64 * 1024;

/// Bits of modes.
const READ_BY_OTHERS: u16 = 0o055;
const WRITTEN_BY_OTHERS: u16 = 0o022;

/// What nobody has gone on with for so long is removed.
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
    /// Who the receiver says it is.
    myself: Option<String>,
    /// The last line may be cut short: the disk was full.
    is_torn: bool,
    /// What is held in memory.
    held: SharedLog,
    /// The inodes of folders that an earlier receiver has made.
    made: BTreeSet<u64>,
}

/// The parts of an object that an earlier receiver has left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Kept {
    #[default]
    Nothing,
    /// The part file of the object holds these bytes.
    Ranges(Vec<Range<u64>>),
    /// The object has its name, and had these hashes. They are not trusted if the machine was restarted since.
    Whole { hashes: Hashes, is_trusted: bool },
}

/// Everything that an earlier receiver has left.
#[derive(Debug, Default)]
pub struct Leftovers {
    objects: BTreeMap<u32, Noted>,
}

#[derive(Debug)]
struct Noted {
    announcement: String,
    what: What,
}

#[derive(Debug)]
enum What {
    Stored(Vec<Range<u64>>),
    Done(Done),
}

#[derive(Debug)]
struct Done {
    hashes: Hashes,
    inode: u64,
    modified: FileTime,
    changed: FileTime,
    kind: ObjectKind,
    size: u64,
    name: String,
    /// The machine has not been down since.
    is_recent: bool,
}

impl Done {
    /// What is there under its name, if it seems to be what was noted.
    fn find(&self, folder: &TargetFolder) -> Option<Status> {
        folder.status_of(&self.name).ok().filter(|status| {
            let is_same =
                (status.inode.1, status.modified, status.size) == (self.inode, self.modified, self.size);
            match self.kind {
                ObjectKind::File => status.is_file() && is_same,
                ObjectKind::Link => status.is_link() && is_same,
                // Its time changes with what is in it.
                ObjectKind::Folder => status.inode.1 == self.inode,
                ObjectKind::Index => false,
            }
        })
    }

    /// Whether what has been found cannot have been written to since it was noted.
    fn is_trusted(&self, found: Status) -> bool {
        self.is_recent && found.changed == self.changed
    }

    /// Whether what has been found is what was noted.
    fn is_right(&self, folder: &TargetFolder, found: Status) -> bool {
        self.is_trusted(found) || self.kind == ObjectKind::File && self.hashes.are_of(folder, &self.name)
    }
}

/// How a session has ended for its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The session is over. Only files that have their names stay.
    Over,
    /// The user has ended the receiver. Incomplete files are removed, and complete ones are noted.
    Interrupted,
    /// The session may go on later. Everything stays.
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
        for (_, slot) in
            hidden_files(folder).iter().filter_map(|name| journal_of(name)).filter(|of| of.0 == session)
        {
            if let Some(mut journal) = Self::take(folder, session, slot, false) {
                if resumes {
                    let leftovers = journal.read();
                    journal.begin();
                    return Ok((journal, leftovers));
                }
                journal.remove();
            }
        }
        let journal = (0..MAX_SLOTS).find_map(|slot| Self::take(folder, session, slot, true));
        let mut journal = journal.ok_or_else(|| {
            let source = std::io::Error::last_os_error();
            folder.error(format!("make {HIDDEN}{:08x}.0.journal", session.0), source)
        })?;
        journal.begin();
        journal.resumes = resumes;
        Ok((journal, Leftovers::default()))
    }

    /// Locks the journal of a slot; none when somebody else has it, or when it is not this user's alone. What others could
    /// have had their hands in goes.
    fn take(folder: &TargetFolder, session: SessionId, slot: u32, makes: bool) -> Option<Self> {
        let name = c_string(format!("{HIDDEN}{:08x}.{slot}.journal", session.0)).ok()?;
        let flags = libc::O_RDWR | libc::O_APPEND | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let flags = if makes { flags | libc::O_CREAT | libc::O_EXCL } else { flags };
        let file = open_at(folder.root(), &name, flags, 0o600).ok()?;
        // Where a file system knows no locks, a new journal is nobody else's, and an old one may be.
        let is_free = match sys::lock(&file) {
            Lock::Ours => true,
            Lock::Taken => false,
            Lock::Unknown => makes,
        };
        // Whoever had it before may have removed it meanwhile.
        let status = sys::status_at(&file, c"").ok()?;
        let is_there = sys::status_at(folder.root(), &name).is_ok_and(|named| named.inode == status.inode);
        // It tells where to go on, and as whom. A new one is right where a file system knows no owners, too.
        let is_right = makes || status.is_own_file(WRITTEN_BY_OTHERS);
        if is_free && is_there && !is_right && status.is_ours() {
            _ = sys::remove_at(folder.root(), &name);
        }
        (is_free && is_there && is_right).then(|| {
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
        })
    }

    /// Opens the part file of an object: anew, or, with `is_kept`, the one that is there.
    ///
    /// # Errors
    /// What the kernel says.
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

    /// Who the killed receiver, with whose journal this one goes on, said it was.
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

    /// As [`Journal::done`], with what stands for the announcement.
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
                for (_, slot) in hidden_files(&self.folder)
                    .iter()
                    .filter_map(|name| journal_of(name))
                    .filter(|of| of.0 == self.session)
                {
                    if slot != self.slot
                        && let Some(other) = Self::take(&self.folder, self.session, slot, false)
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
        if len > MAX_LEN {
            return self.unwritten.truncate(before);
        }
        self.len = len;
        if self.unwritten.len() >= MAX_UNWRITTEN {
            self.write();
        }
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

    /// What the journal says.
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
        let is_done =
            |noted: &Noted| matches!(&noted.what, What::Done(done) if done.kind != ObjectKind::Folder);
        self.has_done = leftovers.objects.values().any(is_done);
        leftovers.check_parts(self);
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

impl Kept {
    /// The ranges of an object of this size that are there.
    pub fn ranges(&self, size: u64) -> Vec<Range<u64>> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Ranges(ranges) => ranges.clone(),
            Self::Whole { .. } => Vec::from_iter((size > 0).then_some(0..size)),
        }
    }
}

impl Leftovers {
    /// Whether an earlier receiver has left nothing.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Whether something is noted of an object.
    fn has(&self, index: u32) -> bool {
        self.objects.contains_key(&index)
    }

    /// The parts that are there of an object with this announcement.
    pub fn kept(&self, folder: &TargetFolder, file: FileId, begin: &BeginOfFile) -> Kept {
        let noted = self.objects.get(&file.index()).filter(|noted| noted.announcement == announcement(begin));
        match noted.map(|noted| &noted.what) {
            None => Kept::Nothing,
            Some(What::Stored(ranges)) if ranges.iter().all(|range| range.end <= begin.file_size) => {
                Kept::Ranges(ranges.clone())
            }
            Some(What::Stored(_)) => Kept::Nothing,
            // A folder is made again, which costs nothing.
            Some(What::Done(done)) if done.kind != ObjectKind::Folder => match done.find(folder) {
                Some(found) => Kept::Whole { hashes: done.hashes, is_trusted: done.is_trusted(found) },
                None => Kept::Nothing,
            },
            Some(What::Done(_)) => Kept::Nothing,
        }
    }

    /// The name, kind and size of an object that is complete from before, whatever its sender says of it now.
    pub fn whole(&self, folder: &TargetFolder, file: FileId) -> Option<(String, ObjectKind, u64)> {
        let Some(Noted { what: What::Done(done), .. }) = self.objects.get(&file.index()) else { return None };
        let is_right = done.find(folder).is_some_and(|found| done.is_right(folder, found));
        is_right.then(|| (done.name.clone(), done.kind, done.size))
    }

    /// Discards the parts of an object.
    pub fn forget(&mut self, file: FileId) {
        self.objects.remove(&file.index());
    }

    /// Forgets the parts of objects with indexes below `before`. Returns these indexes, and how many bytes there are of each.
    pub fn take_parts(&mut self, before: u32) -> Vec<(u32, u64)> {
        let parts = self.objects.range(..before).filter_map(|(index, noted)| match &noted.what {
            What::Stored(ranges) => Some((*index, ranges.iter().map(|range| range.end - range.start).sum())),
            What::Done(_) => None,
        });
        let parts: Vec<(u32, u64)> = parts.collect();
        parts.iter().for_each(|(index, _)| _ = self.objects.remove(index));
        parts
    }

    /// Takes an entry in; none when it is none.
    fn note(&mut self, verb: &str, rest: &str, is_recent: bool) -> Option<()> {
        let mut words = rest.splitn(9, ' ');
        let index: u32 = words.next()?.parse().ok()?;
        if verb == "gone" {
            self.objects.remove(&index);
            return Some(());
        }
        let announcement = words.next()?.to_owned();
        let what = match verb {
            "have" => {
                let ranges = words.next()?.split_terminator(',');
                let mut new = ranges.map(parse_range).collect::<Option<Vec<_>>>()?;
                if let Some(Noted { announcement: before, what: What::Stored(ranges) }) =
                    self.objects.get_mut(&index)
                    && *before == announcement
                {
                    ranges.append(&mut new);
                    return Some(());
                }
                What::Stored(new)
            }
            "done" => {
                let hashes = Hashes::parse(words.next()?)?;
                let inode = words.next()?.parse().ok()?;
                let (modified, changed) = (parse_time(words.next()?)?, parse_time(words.next()?)?);
                let kind = match words.next()? {
                    "1" => ObjectKind::File,
                    "2" => ObjectKind::Folder,
                    "3" => ObjectKind::Link,
                    _ => return None,
                };
                let (size, name) = (words.next()?.parse().ok()?, words.next()?.to_owned());
                check_name(&name).ok()?;
                What::Done(Done { hashes, inode, modified, changed, kind, size, name, is_recent })
            }
            _ => return None,
        };
        self.objects.insert(index, Noted { announcement, what });
        Some(())
    }

    /// Forgets the bytes of part files that are not there, not ours or shorter than noted.
    fn check_parts(&mut self, journal: &Journal) {
        self.objects.retain(|index, noted| {
            let What::Stored(ranges) = &mut noted.what else { return true };
            let name = c_string(journal.part_name(*index)).and_then(|name| {
                let status = sys::status_at(journal.folder.root(), &name)?;
                Ok(if status.is_own_file(0) { status.size } else { 0 })
            });
            let len = name.unwrap_or(0);
            ranges.retain(|range| range.end <= len);
            !ranges.is_empty()
        });
    }
}

fn parse_time(text: &str) -> Option<FileTime> {
    let (seconds, nanoseconds) = text.split_once('.')?;
    Some(FileTime { seconds: seconds.parse().ok()?, nanoseconds: nanoseconds.parse().ok()? })
}

fn parse_range(text: &str) -> Option<Range<u64>> {
    let (start, end) = text.split_once('-')?;
    let range = start.parse().ok()?..end.parse().ok()?;
    (range.start < range.end).then_some(range)
}

/// What stands for an announcement: half a hash of all that it says.
fn announcement(begin: &BeginOfFile) -> String {
    HEXLOWER.encode(&announced(begin))
}

/// As [`announcement`], in bytes.
pub(super) fn announced(begin: &BeginOfFile) -> Announced {
    let packet = Message::BeginOfFile(begin.clone()).to_packet(FileId(0));
    let mut half = Announced::default();
    half.copy_from_slice(&blake3::hash(&packet[HEADER_LEN..]).as_bytes()[..16]);
    half
}

/// What the kernel calls the time since the machine was started.
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

/// As [`slot_of`], for journals alone.
fn journal_of(name: &str) -> Option<(SessionId, u32)> {
    slot_of(name).filter(|(session, slot)| name == format!("{HIDDEN}{:08x}.{slot}.journal", session.0))
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
            && let Some(journal) = Journal::take(folder, *session, *slot, false)
        {
            journal.remove();
        }
    }
    let orphans = names.iter().filter_map(|name| slot_of(name)).filter(|of| !journals.contains(of));
    for (session, slot) in orphans {
        // Whoever makes the journal has the slot.
        if let Some(journal) = Journal::take(folder, session, slot, true) {
            journal.remove();
        }
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
mod tests {
    use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

    use super::*;
    use crate::files::{begin, held_log::Piece, names::Names};
    use crate::scratch::scratch;

    const SESSION: SessionId = SessionId(0xa);
    const HASHES: Hashes = Hashes { sent: [7; 32], own: [8; 32] };
    const FILE: FileId = FileId(0xa << 32 | 3);

    fn open(path: &std::path::Path) -> (TargetFolder, Journal, Leftovers) {
        let folder = TargetFolder::open(path).unwrap();
        let (journal, leftovers) = Journal::open(&folder, SESSION, true).unwrap();
        (folder, journal, leftovers)
    }

    /// A journal whose receiver is killed after it has noted `ranges` of an object.
    fn killed(path: &std::path::Path, ranges: &[Range<u64>]) {
        let (_, mut journal, _) = open(path);
        let mut part = journal.part(FILE, false).unwrap();
        part.file().unwrap().set_len(100).unwrap();
        part.keep();
        journal.have(FILE, &begin(100, "name"), ranges);
    }

    #[test]
    fn the_next_receiver_has_what_the_killed_one_noted() {
        let path = scratch("journal");
        killed(&path, &[0..10, 20..30]);
        let (folder, mut journal, leftovers) = open(&path);
        assert_eq!(leftovers.kept(&folder, FILE, &begin(100, "name")), Kept::Ranges(vec![0..10, 20..30]));
        assert_eq!(leftovers.kept(&folder, FILE, &begin(100, "other")), Kept::Nothing);
        journal.have(FILE, &begin(100, "name"), &[50..60]);
        journal.write();
        journal.file.write_all(b"have 3 1234 90-10").unwrap();
        drop(journal);
        let (folder, mut journal, leftovers) = open(&path);
        let expected = Kept::Ranges(vec![0..10, 20..30, 50..60]);
        assert_eq!(
            leftovers.kept(&folder, FILE, &begin(100, "name")),
            expected,
            "a torn line is passed over"
        );
        journal.gone(FILE);
        drop(journal);
        let (_, journal, leftovers) = open(&path);
        assert!(leftovers.is_empty());
        journal.end(Ending::Over);
        assert_eq!(hidden_files(&folder), [""; 0]);
    }

    #[test]
    fn a_folder_that_has_been_moved_keeps_nothing() {
        let path = scratch("journal-moved");
        let (before, after) = (path.join("before"), path.join("after"));
        let (_, mut journal, leftovers) = open(&before);
        journal.open_held_log(&leftovers).unwrap();
        journal.have(FILE, &begin(100, "name"), &[0..10]);
        journal.write();
        std::fs::rename(&before, &after).unwrap();
        assert_eq!(std::fs::read_dir(&after).unwrap().count(), 3);
        journal.end(Ending::Over);
        assert_eq!(std::fs::read_dir(&after).unwrap().count(), 0);
    }

    #[test]
    fn a_part_file_that_is_gone_or_short_counts_as_far_as_it_goes() {
        let path = scratch("journal-short");
        killed(&path, &[0..10, 20..30]);
        let part = path.join(".treecast-0000000a.0.3.part");
        File::options().write(true).open(&part).unwrap().set_len(15).unwrap();
        let (folder, journal, leftovers) = open(&path);
        assert_eq!(leftovers.kept(&folder, FILE, &begin(100, "name")), Kept::Ranges(vec![0..10]));
        drop(journal);
        std::fs::remove_file(part).unwrap();
        assert!(open(&path).2.is_empty());
    }

    #[test]
    fn a_whole_file_counts_while_it_is_the_one_that_was_noted() {
        let path = scratch("journal-done");
        let (folder, mut journal, _) = open(&path);
        let part = journal.part(FILE, false).unwrap();
        part.file().unwrap().write_all_at(b"abc", 0).unwrap();
        let status = Names::new(folder).commit(part, &begin(3, "name")).unwrap();
        journal.done(FILE, &begin(3, "name"), HASHES, status);
        journal.end(Ending::Interrupted);
        let (folder, mut journal, leftovers) = open(&path);
        let trusted = Kept::Whole { hashes: HASHES, is_trusted: true };
        assert_eq!(leftovers.kept(&folder, FILE, &begin(3, "name")), trusted);
        assert_eq!(leftovers.whole(&folder, FILE), Some(("name".to_owned(), ObjectKind::File, 3)));
        journal.add(format_args!("boot before"));
        journal.done(FILE, &begin(3, "name"), HASHES, status);
        drop(journal);
        let (folder, _journal, mut leftovers) = open(&path);
        let doubted = Kept::Whole { hashes: HASHES, is_trusted: false };
        assert_eq!(leftovers.kept(&folder, FILE, &begin(3, "name")), doubted, "the machine was down since");
        assert_eq!(leftovers.whole(&folder, FILE), None, "nor is the hash");
        let compressed = Hashes { own: *blake3::hash(b"abc").as_bytes(), ..HASHES };
        let mut right = Leftovers::default();
        let (modified, changed) = (status.modified, status.changed);
        let done = Done {
            hashes: compressed,
            inode: status.inode.1,
            modified,
            changed,
            kind: ObjectKind::File,
            size: 3,
            name: "name".into(),
            is_recent: false,
        };
        let noted = Noted { announcement: announcement(&begin(3, "name")), what: What::Done(done) };
        right.objects.insert(3, noted);
        assert!(right.whole(&folder, FILE).is_some(), "it is the file that came compressed");
        let Some(Noted { what: What::Done(done), .. }) = leftovers.objects.remove(&3) else { panic!() };
        let done = Done { is_recent: true, ..done };
        // Whoever has written to it can set its time back, and not the time of change.
        std::thread::sleep(Duration::from_millis(20));
        std::fs::write(path.join("name"), "abd").unwrap();
        let there = File::options().write(true).open(path.join("name")).unwrap();
        let time = SystemTime::UNIX_EPOCH
            + Duration::new(status.modified.seconds as u64, status.modified.nanoseconds);
        there.set_modified(time).unwrap();
        let noted = Noted { announcement: announcement(&begin(3, "name")), what: What::Done(done) };
        let altered = Leftovers { objects: BTreeMap::from([(3, noted)]) };
        assert_eq!(altered.kept(&folder, FILE, &begin(3, "name")), doubted);
        assert_eq!(altered.whole(&folder, FILE), None, "its hash is another");
        File::options()
            .write(true)
            .open(path.join("name"))
            .unwrap()
            .set_modified(SystemTime::UNIX_EPOCH)
            .unwrap();
        assert_eq!(altered.kept(&folder, FILE, &begin(3, "name")), Kept::Nothing);
    }

    #[test]
    fn receivers_that_live_keep_their_slots_and_what_is_old_goes() {
        let path = scratch("journal-slots");
        let (_, living, _) = open(&path);
        let (folder, mut other, _) = open(&path);
        assert_eq!((living.slot, other.slot), (0, 1));
        other.have(FILE, &begin(100, "name"), &[0..10]);
        drop(other);
        let old = File::options().write(true).open(path.join(".treecast-0000000a.1.journal")).unwrap();
        old.set_modified(SystemTime::now() - MAX_AGE * 2).unwrap();
        for name in [".treecast-0000000a.1.5.part", ".treecast-0000000b.0.5.part", ".treecast-notes"] {
            std::fs::write(path.join(name), "x").unwrap();
        }
        remove_old(&folder);
        assert_eq!(hidden_files(&folder), [".treecast-0000000a.0.journal", ".treecast-notes"]);
    }

    /// Notes two bytes in both files of the log.
    fn note_held(journal: &Journal) {
        for _ in 0..2 {
            let piece = Piece { index: 1, announced: [7; 16], position: 0, bytes: b"ab" };
            journal.held_log().write(|log| log.turn().and_then(|()| log.write(&[piece])));
        }
    }

    #[test]
    fn one_that_is_interrupted_leaves_nothing_of_what_it_held() {
        let path = scratch("journal-held-interrupted");
        for (ending, count) in [(Ending::CutShort, 3), (Ending::Interrupted, 1)] {
            let (folder, mut journal, leftovers) = open(&path);
            journal.open_held_log(&leftovers).unwrap();
            note_held(&journal);
            let status = sys::status_at(folder.root(), c"").unwrap();
            journal.done(FILE, &begin(3, "name"), HASHES, status);
            journal.end(ending);
            let names = hidden_files(&folder);
            assert_eq!(names.len(), count, "{names:?}");
            assert!(names.contains(&".treecast-0000000a.0.journal".to_owned()));
        }
    }

    #[test]
    fn one_that_is_stopped_before_it_is_admitted_leaves_all_to_the_next() {
        let path = scratch("journal-not-admitted");
        killed(&path, &[0..10]);
        let (_, journal, leftovers) = open(&path);
        journal.open_held_log(&leftovers).unwrap();
        note_held(&journal);
        drop(journal);
        for _ in 0..2 {
            drop(open(&path));
        }
        let (folder, journal, leftovers) = open(&path);
        assert_eq!(leftovers.kept(&folder, FILE, &begin(100, "name")), Kept::Ranges(vec![0..10]));
        assert_eq!(journal.open_held_log(&leftovers).unwrap().len(), 1);
        journal.end(Ending::Over);
        assert_eq!(hidden_files(&folder), [""; 0]);
    }

    #[test]
    fn a_journal_or_part_file_that_somebody_else_may_have_put_there_is_not_gone_on_with() {
        let path = scratch("journal-not-ours");
        let [journal, part] =
            ["journal", "3.part"].map(|end| path.join(format!(".treecast-0000000a.0.{end}")));
        let set_mode = |mode| std::fs::set_permissions(&journal, std::fs::Permissions::from_mode(mode));
        let other_name = path.join("other");
        let deeds: [(&dyn Fn(), usize); 5] = [
            (&|| {}, 1),
            (&|| std::fs::hard_link(&journal, &other_name).unwrap(), 0),
            (&|| set_mode(0o620).unwrap(), 0),
            (&|| std::os::unix::fs::chown(&journal, Some(12_345), None).unwrap(), 0),
            (&|| std::fs::hard_link(&part, &other_name).unwrap(), 0),
        ];
        for (deed, kept) in deeds {
            killed(&path, &[0..10]);
            deed();
            let (folder, journal, leftovers) = open(&path);
            assert_eq!(leftovers.objects.len(), kept);
            // Another user's is left to him.
            let is_his =
                sys::status_at(folder.root(), c".treecast-0000000a.0.journal").is_ok_and(|it| !it.is_ours());
            assert_eq!(journal.slot, u32::from(is_his));
            journal.end(Ending::Over);
            std::fs::remove_dir_all(&path).unwrap();
        }
    }

    #[test]
    fn what_somebody_else_put_where_the_held_log_belongs_gives_way() {
        let path = scratch("journal-held");
        let (outside, held) = (path.join("outside"), path.join(".treecast-0000000a.0.1.held"));
        let set_mode = |path: &std::path::Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        std::fs::create_dir_all(&path).unwrap();
        let make_fifo = || {
            sys::make_pipe(&held).unwrap();
        };
        let make_hard_link = || {
            std::fs::write(&outside, "precious").unwrap();
            set_mode(&outside, 0o600);
            std::fs::hard_link(&outside, &held).unwrap();
        };
        let make_readable = || {
            std::fs::write(&held, "").unwrap();
            set_mode(&held, 0o644);
        };
        let make_link = || std::os::unix::fs::symlink(&outside, &held).unwrap();
        for make in [&make_fifo as &dyn Fn(), &make_hard_link, &make_readable, &make_link] {
            let (_, journal, leftovers) = open(&path);
            make();
            assert!(journal.open_held_log(&leftovers).unwrap().is_empty());
            note_held(&journal);
            let metadata = held.symlink_metadata().unwrap();
            assert!(metadata.is_file() && metadata.len() > 0);
            assert_eq!((metadata.mode() & 0o777, metadata.nlink()), (0o600, 1));
            assert_eq!(journal.open_held_log(&leftovers).unwrap().len(), 1, "what is ours alone stays");
            journal.end(Ending::Over);
        }
        assert_eq!(std::fs::read_to_string(outside).unwrap(), "precious");
    }
}
