//! A full disk: objects for which there is no room wait for it a while. Everything else goes on, and what comes of them
//! meanwhile is thrown away and asked for again when there is room.

use std::{
    collections::BTreeMap,
    ops::Range,
    path::PathBuf,
    time::{Duration, Instant},
};

use treecast_wire::{header::FileId, message::BeginOfFile};

use super::{Object, Report, Task, Worker};
use crate::{
    files::{Kept, TargetError},
    words::bytes,
};

/// How often it is seen whether there is room.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// What a receiver tells when its disk is full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// The first object for which there is no room.
    pub name: String,
    pub folder: PathBuf,
    /// What of it is on the disk, in bytes, and in which file; none when nothing is.
    pub part: Option<(u64, PathBuf)>,
    /// What it needs more, and what is free, in bytes.
    pub needed: u64,
    pub free: u64,
    /// For how long room is waited for.
    pub left: Duration,
}

/// The objects that wait for room.
#[derive(Debug)]
pub(super) struct FullDisk {
    waiting: BTreeMap<FileId, Waiting>,
    patience: Duration,
    /// When the disk became full, and when it is looked at next.
    since: Option<Instant>,
    next_look: Instant,
    /// Nobody has made room in all that time: nothing waits any more.
    is_in_vain: bool,
}

#[derive(Debug)]
struct Waiting {
    begin: BeginOfFile,
    kept: Kept,
    /// What has come of it and is not stored.
    lost: Vec<Range<u64>>,
    /// Why it fails if nobody makes room.
    reason: String,
}

impl Waiting {
    fn lose(&mut self, range: Range<u64>) {
        let is_many = self.lost.len() >= MAX_LOST;
        match self.lost.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            // What has come anyway in between comes once more.
            Some(last) if is_many => {
                *last = last.start.min(range.start)..last.end.max(range.end);
            }
            _ => self.lost.push(range),
        }
    }
}

/// The most ranges of an object that are told apart.
const MAX_LOST: usize = 4096;

impl FullDisk {
    pub fn new(patience: Duration) -> Self {
        Self {
            waiting: BTreeMap::new(),
            patience,
            since: None,
            next_look: Instant::now(),
            is_in_vain: patience.is_zero(),
        }
    }

    /// Whether something waits.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub fn has(&self, file: FileId) -> bool {
        self.waiting.contains_key(&file)
    }

    /// An object waits no more. Returns what has been lost of it.
    pub fn forget(&mut self, file: FileId) -> Vec<Range<u64>> {
        self.waiting.remove(&file).map(|waiting| waiting.lost).unwrap_or_default()
    }

    /// How long it is until [`Worker::look_for_room`] has something to do; none while nothing waits.
    pub fn until_next_look(&self) -> Option<Duration> {
        self.is_waiting().then(|| self.next_look.saturating_duration_since(Instant::now()))
    }

    /// Takes a task of an object that waits. Returns any other one.
    pub fn take(&mut self, task: Task) -> Option<Task> {
        if !self.is_waiting() {
            return Some(task);
        }
        let (file, lost) = match &task {
            Task::Keep { file, range, .. } | Task::Overwrite { file, range, .. } => {
                (file, Some(range.clone()))
            }
            Task::KeepHeld { file, position, bytes } => {
                (file, Some(*position..*position + bytes.len() as u64))
            }
            Task::Make { file, whole } => (file, Some(0..whole.begin.file_size)),
            // When there is room, all that is there is looked at anew.
            Task::KeepSymbols { file, .. }
            | Task::Decode { file, .. }
            | Task::Hash { file }
            | Task::HashAsBlake2b { file }
            | Task::CheckChunks { file, .. }
            | Task::Reserve { file, .. }
            | Task::Commit { file } => (file, None),
            Task::Discard { file } => {
                self.forget(*file);
                return Some(task);
            }
            Task::Announce { .. } | Task::ForgetSymbols { .. } => return Some(task),
        };
        let Some(waiting) = self.waiting.get_mut(file) else { return Some(task) };
        lost.into_iter().for_each(|range| waiting.lose(range));
        None
    }
}

impl Worker {
    /// Has an object wait that there was no room for. Returns false when it is to fail: something else is wrong, or
    /// nobody makes room.
    pub(super) fn waits_for_room(
        &mut self,
        file: FileId,
        begin: &BeginOfFile,
        kept: &Kept,
        lost: &[Range<u64>],
        error: &TargetError,
    ) -> bool {
        if !error.is_full() || self.full.is_in_vain {
            return false;
        }
        let now = Instant::now();
        let is_first = self.full.since.is_none();
        let since = *self.full.since.get_or_insert(now);
        let entry = self.full.waiting.entry(file).or_insert_with(|| Waiting {
            begin: begin.clone(),
            kept: kept.clone(),
            lost: Vec::new(),
            reason: String::new(),
        });
        entry.reason = error.to_string();
        lost.iter().for_each(|range| entry.lose(range.clone()));
        if is_first {
            self.full.next_look = now + LOOK_INTERVAL;
            let left = self.full.patience.saturating_sub(now - since);
            let shortage = self.shortage(file, begin, left);
            self.report(Report::Full { shortage: Box::new(shortage) });
        }
        // The journal has what is there, should nobody make room before this receiver ends.
        self.note_stored(file, true);
        true
    }

    /// Sees, now and then, whether there is room for what waits. When that has taken too long, all of it fails.
    /// False when it is not yet time to look.
    pub(super) fn look_for_room(&mut self) -> bool {
        if !self.full.is_waiting() || Instant::now() < self.full.next_look {
            return false;
        }
        self.full.next_look = Instant::now() + LOOK_INTERVAL;
        let is_over = self.full.since.is_some_and(|since| since.elapsed() >= self.full.patience);
        for file in self.full.waiting.keys().copied().collect::<Vec<_>>() {
            if self.has_room_for(file) {
                self.go_on(file);
            } else if is_over {
                self.give_up_waiting(file);
            }
        }
        self.full.is_in_vain |= is_over && self.full.since.is_some();
        if !self.full.is_waiting() && self.full.since.take().is_some() {
            self.report(Report::Room);
        }
        true
    }

    fn has_room_for(&self, file: FileId) -> bool {
        let Some(Waiting { begin, .. }) = self.full.waiting.get(&file) else { return false };
        self.folder.check_room(begin.file_name(), self.needed(file, begin)).is_ok()
    }

    /// How many bytes an object needs besides those that it has.
    fn needed(&self, file: FileId, begin: &BeginOfFile) -> u64 {
        let stored = match self.objects.get(&file) {
            Some(Some(Object::Announced { stored, .. })) => stored.stored_bytes(),
            _ => 0,
        };
        begin.file_size.saturating_sub(stored).max(1)
    }

    /// There seems to be room: what has been lost is asked for again.
    fn go_on(&mut self, file: FileId) {
        let Some(Waiting { begin, kept, lost, .. }) = self.full.waiting.remove(&file) else { return };
        if !matches!(self.objects.get(&file), Some(Some(Object::Announced { .. }))) {
            self.announce(file, begin, &kept);
        }
        self.tell_lost(file, lost);
    }

    /// What has been lost of an object is told when it waits no more.
    pub(super) fn tell_lost(&mut self, file: FileId, lost: Vec<Range<u64>>) {
        match self.full.waiting.get_mut(&file) {
            Some(waiting) => waiting.lost.extend(lost),
            None => self.report(Report::Lost { file, ranges: lost }),
        }
    }

    fn give_up_waiting(&mut self, file: FileId) {
        let Some(Waiting { begin, reason, .. }) = self.full.waiting.remove(&file) else { return };
        if matches!(self.objects.get(&file), Some(Some(Object::Announced { .. }))) {
            return self.fail_for_room(file, reason);
        }
        self.objects.insert(file, None);
        self.cramped.insert(file);
        self.report(Report::Refused { file, begin, reason, is_full: true });
    }

    /// Where what is there of an object is, and how much that is, for whoever reads why it has failed.
    pub(super) fn kept_in_words(&self, file: FileId) -> String {
        let Some(Some(Object::Announced { stored, .. })) = self.objects.get(&file) else {
            return String::new();
        };
        match stored.stored_bytes() {
            0 => String::new(),
            stays => format!(
                "; {} of it stay in {}: start again with the same ticket when there is room, or remove it",
                bytes(stays),
                stored.path().display()
            ),
        }
    }

    fn shortage(&self, file: FileId, begin: &BeginOfFile, left: Duration) -> Shortage {
        let part = match self.objects.get(&file) {
            Some(Some(Object::Announced { stored, .. })) => Some((stored.stored_bytes(), stored.path())),
            _ => None,
        };
        Shortage {
            name: begin.file_name().to_owned(),
            folder: self.folder.path().to_owned(),
            part: part.filter(|(bytes, _)| *bytes > 0),
            needed: self.needed(file, begin),
            free: self.folder.free_bytes().unwrap_or(0),
            left,
        }
    }
}
