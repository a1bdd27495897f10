//! The objects that are being received, as files and before they are files.

mod decoding;
mod full;
mod hashing;
mod naming;
mod seeding;
mod serving;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    ops::Range,
    slice,
    sync::mpsc::{Sender, SyncSender},
};

use treecast_host::{file_limit, wake::Waker};
use treecast_proto::object::ReceiverInput;
use treecast_wire::{
    header::FileId,
    message::{BeginOfFile, ObjectKind},
};

pub use self::full::{Lack, Shortage};
use self::{decoding::Decoding, full::FullDisk, seeding::Seeding, serving::Served};
use super::{
    super::{
        Ending, Hashes, Journal, Kept, PartFile, TargetError, TargetFolder, held_log::SharedLog,
        names::Names, stored::Stored, symbols::Symbols,
    },
    Report,
};

/// All objects of a session, and what is told of them. [`Parts::tell`] hands out the reports of what was done before.
pub(super) struct Parts {
    pub(super) folder: TargetFolder,
    names: Names,
    /// The log that takes room on the disk until files need it.
    held: SharedLog,
    /// The journal. `None` when the session has ended.
    journal: Option<Journal>,
    reports: Reports,
    /// The objects by number. `None` for one that has failed and is not to be stored again.
    objects: BTreeMap<FileId, Option<Object>>,
    /// Objects that have failed for want of room. What is there of them stays until the session is over, for a receiver that
    /// is started again when there is room.
    cramped: BTreeSet<FileId>,
    pub(super) full: FullDisk,
    pub(super) decoding: Decoding,
    /// The repair symbols that are kept of announced objects.
    symbols: Symbols,
    pub(super) seeding: Seeding,
    open_parts: OpenParts,
    /// The files that have their names and may be read back ([`Task::Serve`](super::Task::Serve)).
    served: Option<Served>,
}

/// The way of reports to the receiver.
#[derive(Debug)]
struct Reports {
    queue: Sender<Report>,
    waker: Waker,
    /// The reports that are due when the journal has been written.
    untold: Vec<Report>,
}

impl Reports {
    fn add(&mut self, report: Report) {
        self.untold.push(report);
    }

    /// Hands out all reports at once.
    fn tell(&mut self) {
        if self.untold.is_empty() {
            return;
        }
        for report in self.untold.drain(..) {
            let _ = self.queue.send(report);
        }
        self.waker.wake();
    }
}

/// The objects whose files are open, the one that was opened first in front.
#[derive(Debug)]
struct OpenParts {
    files: VecDeque<FileId>,
    most: usize,
}

enum Object {
    /// The bytes that have come of an object that is not announced, with their positions.
    Early(Vec<(u64, Vec<u8>)>),
    Announced {
        stored: Box<Stored>,
        begin: BeginOfFile,
    },
    /// The object has its name from an earlier receiver. Unless it is trusted, it is to be seen whether it still has
    /// these hashes.
    Whole {
        begin: BeginOfFile,
        hashes: Hashes,
        is_trusted: bool,
    },
}

impl Object {
    fn is_behind(&self) -> bool {
        matches!(self, Self::Announced { stored, .. } if stored.is_behind())
    }
}

impl Parts {
    /// Begins without objects. `call` tells the store that something is decoded.
    pub fn new(
        folder: TargetFolder,
        mut journal: Journal,
        call: SyncSender<()>,
        queue: Sender<Report>,
        waker: Waker,
    ) -> Self {
        Self {
            decoding: Decoding::new(call),
            full: FullDisk::new(folder.rules().wait_for_space),
            names: Names::resuming(folder.clone(), journal.take_made()),
            folder,
            held: journal.held_log(),
            journal: Some(journal),
            reports: Reports { queue, waker, untold: Vec::new() },
            objects: BTreeMap::new(),
            cramped: BTreeSet::new(),
            symbols: Symbols::default(),
            seeding: Seeding::default(),
            open_parts: OpenParts { files: VecDeque::new(), most: file_limit::for_objects() },
            served: None,
        }
    }

    /// Whether a later receiver may go on with what is there.
    pub fn resumes(&self) -> bool {
        self.journal.as_ref().is_some_and(Journal::resumes)
    }

    /// Whether there is something to do besides jobs: to hash what is stored, or to look for room.
    pub fn has_more(&self) -> bool {
        self.full.is_waiting()
            || self.seeding.is_under_way()
            || self.objects.values().flatten().any(Object::is_behind)
    }

    /// Makes room for objects that wait, and tells what was done with a batch.
    pub fn finish_batch(&mut self) {
        self.look_for_room();
        self.names.forget_folder();
        self.tell();
    }

    /// Removes a part that an earlier receiver has left.
    pub fn drop_part(&mut self, file: FileId) {
        self.journal.iter_mut().for_each(|journal| journal.drop_part(file));
    }

    pub fn announce(&mut self, file: FileId, begin: BeginOfFile, kept: &Kept) {
        // What it left is not of this announcement, or is told of as kept.
        if self.cramped.remove(&file)
            && *kept == Kept::Nothing
            && let Some(journal) = &mut self.journal
        {
            journal.gone(file);
        }
        let object = match self.objects.remove(&file) {
            Some(None) => return drop(self.objects.insert(file, None)),
            other => other.flatten(),
        };
        let early: Vec<_> = match &object {
            Some(Object::Early(pieces)) => {
                pieces.iter().map(|(position, bytes)| *position..*position + bytes.len() as u64).collect()
            }
            _ => Vec::new(),
        };
        match self.announced(file, &begin, kept, object) {
            Ok(object) => {
                self.objects.insert(file, Some(object));
                self.note_stored(file, false);
            }
            Err(error) if self.waits_for_room(file, &begin, kept, &early, &error) => {}
            Err(error) => {
                self.objects.insert(file, None);
                let (reason, is_full) = (error.to_string(), error.is_full());
                self.reports.add(Report::Refused { file, begin, reason, is_full });
            }
        }
    }

    /// The object under its announcement, with a temporary file for what has come of it before.
    fn announced(
        &mut self,
        file: FileId,
        begin: &BeginOfFile,
        kept: &Kept,
        object: Option<Object>,
    ) -> Result<Object, TargetError> {
        Names::check(begin)?;
        let (mut stored, pieces) = match (object, kept) {
            (Some(Object::Announced { stored, .. }), _) => (stored, Vec::new()),
            (None, Kept::Whole { hashes, is_trusted }) => {
                let (hashes, is_trusted) = (*hashes, *is_trusted);
                return Ok(Object::Whole { begin: begin.clone(), hashes, is_trusted });
            }
            (Some(Object::Early(pieces)), kept) => (Box::new(self.stored(file, begin, kept)?), pieces),
            (None | Some(Object::Whole { .. }), kept) => {
                (Box::new(self.stored(file, begin, kept)?), Vec::new())
            }
        };
        let (folder, name) = (&self.folder, begin.file_name());
        let mut result = self.held.with_room(|| stored.announce(folder, name, begin.file_size));
        for (position, bytes) in pieces {
            let write = || write(&mut stored, folder, name, position, &bytes);
            result = result.and_then(|()| self.held.with_room(write));
        }
        if let Err(error) = result {
            if error.is_full() && matches!(kept, Kept::Ranges(_)) {
                stored.keep();
                self.cramped.insert(file);
            }
            return Err(error);
        }
        Ok(Object::Announced { stored, begin: begin.clone() })
    }

    fn stored(&mut self, file: FileId, begin: &BeginOfFile, kept: &Kept) -> Result<Stored, TargetError> {
        if let Some(device) = self.folder.device().filter(|_| begin.kind() != ObjectKind::Index) {
            let (taken, path) = (device.take(file, begin)?, device.path().to_owned());
            let part = PartFile::of_device(self.folder.clone(), taken, path);
            let doing = || format!("look at the status of {}", begin.file_name());
            return Ok(Stored::new(part.map_err(|source| self.folder.content_error(doing(), source))?));
        }
        self.note_open(file);
        let Some(journal) = &self.journal else {
            let ended = io::Error::other("the session has ended");
            return Err(self.folder.error(format!("store {:?}", begin.file_name()), ended));
        };
        let stored = match kept {
            Kept::Ranges(ranges) => Stored::resumed(journal.part(file, true)?, ranges),
            Kept::Nothing | Kept::Whole { .. } => Stored::new(journal.part(file, false)?),
        };
        Ok(stored.compressed(begin.is_compressed()))
    }

    pub fn keep(&mut self, file: FileId, position: u64, bytes: &[u8]) {
        match self.objects.entry(file).or_insert_with(|| Some(Object::Early(Vec::new()))) {
            Some(Object::Early(pieces)) => return pieces.push((position, bytes.to_vec())),
            // It has changed since it was whole: it comes again.
            Some(Object::Whole { begin, .. }) => {
                let begin = begin.clone();
                self.discard(file);
                self.announce(file, begin, &Kept::Nothing);
            }
            _ => {}
        }
        let range = position..position + bytes.len() as u64;
        self.attempt(file, slice::from_ref(&range), |stored, begin, folder| {
            write(stored, folder, begin.file_name(), position, bytes)
        });
        self.note_stored(file, false);
    }

    pub fn keep_zeros(&mut self, file: FileId, range: Range<u64>) {
        if let Some(Some(Object::Whole { .. })) = self.objects.get(&file) {
            // It comes again, as in `keep`.
            self.keep(file, range.start, &[]);
        }
        self.attempt(file, slice::from_ref(&range), |stored, begin, folder| {
            let doing = || format!("write {} (zeros from {} on)", begin.file_name(), range.start);
            stored.write_zeros(range.clone()).map_err(|source| folder.content_error(doing(), source))
        });
        self.note_stored(file, false);
    }

    /// Tells the journal of what is stored, when it is enough, or `all`.
    fn note_stored(&mut self, file: FileId, all: bool) {
        if let Some(Some(Object::Announced { stored, begin })) = self.objects.get_mut(&file)
            && let Some(journal) = &mut self.journal
            && let Some(ranges) = stored.take_unnoted(begin.file_size, all)
        {
            journal.have(file, begin, &ranges);
        }
    }

    pub fn discard(&mut self, file: FileId) {
        self.forget_symbols(file);
        self.seeding.forget(file);
        self.open_parts.files.retain(|open| *open != file);
        if let Some(device) = self.folder.device() {
            device.release(file);
        }
        if let Some(object) = self.objects.remove(&file)
            && !matches!(object, Some(Object::Early(_)))
            && !self.cramped.contains(&file)
            && let Some(journal) = &mut self.journal
        {
            journal.gone(file);
        }
    }

    pub fn keep_symbols(&mut self, file: FileId, of: (u32, u32), symbol_len: u16, bytes: &[u8]) {
        if let Err(error) = self.symbols.keep(&self.folder, file, symbol_len, of, bytes) {
            self.fail(file, &[], &error);
        }
    }

    pub fn forget_symbols(&mut self, file: FileId) {
        self.symbols.forget(file);
        self.decoding.forget(file);
    }

    /// Notes that one more file is about to be open. The first of too many is closed.
    fn note_open(&mut self, file: FileId) {
        let OpenParts { files, most } = &mut self.open_parts;
        files.retain(|open| *open != file);
        while files.len() >= *most
            && let Some(oldest) = files.pop_front()
        {
            if let Some(Some(Object::Announced { stored, .. })) = self.objects.get_mut(&oldest) {
                stored.part_mut().close();
            }
        }
        files.push_back(file);
    }

    /// Opens an announced object's file if it has been closed.
    fn reopen(&mut self, file: FileId) -> Result<(), TargetError> {
        let is_closed = |object: &Option<Object>| matches!(object, Some(Object::Announced { stored, .. }) if !stored.is_open());
        if !self.objects.get(&file).is_some_and(is_closed) {
            return Ok(());
        }
        self.note_open(file);
        let Some(Some(Object::Announced { stored, begin })) = self.objects.get_mut(&file) else {
            return Ok(());
        };
        let reopened = stored.part_mut().reopen();
        reopened.map_err(|source| self.folder.error(format!("open {:?} again", begin.file_name()), source))
    }

    /// Does something with an announced object. A failure is reported and is the object's end, unless it waits for room:
    /// then the bytes `at_stake` are lost.
    pub fn attempt(
        &mut self,
        file: FileId,
        at_stake: &[Range<u64>],
        mut act: impl FnMut(&mut Stored, &BeginOfFile, &TargetFolder) -> Result<(), TargetError>,
    ) {
        let reopened = self.reopen(file);
        let Some(Some(Object::Announced { stored, begin })) = self.objects.get_mut(&file) else { return };
        match reopened.and_then(|()| self.held.with_room(|| act(stored, begin, &self.folder))) {
            Ok(()) => self.full.note_stored(file, || stored.stored_bytes()),
            Err(error) => self.fail(file, at_stake, &error),
        }
    }

    /// An announced object has failed, or has to wait.
    fn fail(&mut self, file: FileId, at_stake: &[Range<u64>], error: &TargetError) {
        let Some(Some(Object::Announced { begin, .. })) = self.objects.get(&file) else { return };
        let begin = begin.clone();
        if self.waits_for_room(file, &begin, &Kept::Nothing, at_stake, error) {
            return;
        }
        let reason = error.to_string();
        if error.is_full() {
            return self.fail_for_room(file, reason);
        }
        self.give_up(file, reason);
    }

    /// Fails an announced object that there is no room for. What is there of it stays.
    fn fail_for_room(&mut self, file: FileId, reason: String) {
        if let Some(Some(Object::Announced { stored, .. })) = self.objects.get_mut(&file) {
            stored.keep();
        }
        self.note_stored(file, true);
        self.cramped.insert(file);
        let reason = reason + &self.kept_in_words(file);
        self.give_up(file, reason);
    }

    fn give_up(&mut self, file: FileId, reason: String) {
        self.discard(file);
        self.objects.insert(file, None);
        self.reports.add(Report::Input(ReceiverInput::StoreFailed { file, reason }));
    }

    pub fn end(&mut self, ending: Ending) -> Option<String> {
        let warning = self.names.finish();
        self.cramped.extend(self.objects.keys().filter(|file| self.full.has(**file)));
        // A receiver that gets room and comes again, while the session lasts, need not fetch anew what is there.
        let ending = match ending {
            Ending::Over if !self.cramped.is_empty() => Ending::CutShort,
            ending => ending,
        };
        if ending == Ending::CutShort {
            for file in self.objects.keys().copied().collect::<Vec<_>>() {
                self.note_stored(file, true);
                if let Some(Some(Object::Announced { stored, .. })) = self.objects.get_mut(&file) {
                    stored.keep();
                }
            }
        }
        self.objects.clear();
        if let Some(journal) = self.journal.take() {
            journal.end(ending);
        }
        warning
    }

    /// Hands out the reports of what has just been done, all at once. What they say is in the journal then.
    pub fn tell(&mut self) {
        if let Some(journal) = &mut self.journal {
            self.names.take_made().into_iter().for_each(|inode| journal.note_made(inode));
            journal.write();
        }
        self.reports.tell();
    }
}

fn write(
    stored: &mut Stored,
    folder: &TargetFolder,
    name: &str,
    position: u64,
    bytes: &[u8],
) -> Result<(), TargetError> {
    let doing = || format!("write {name} (bytes from {position} on)");
    stored.write(position, bytes).map_err(|source| folder.content_error(doing(), source))
}

fn read_back(folder: &TargetFolder, source: io::Error) -> TargetError {
    folder.content_error("read back what was written".into(), source)
}
