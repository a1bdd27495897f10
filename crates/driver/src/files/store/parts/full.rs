//! A full disk. Objects for which there is no space wait for a while, and everything else goes on. Their bytes
//! that come meanwhile are thrown away, and asked for again when there is space.
//!
//! Only writing shows whether there is space, because a file system does not tell what a quota leaves. So an
//! object that seems to have space is tried. Its earlier waiting time counts until it has stored more than
//! before.

use std::{
    collections::BTreeMap,
    ops::Range,
    path::PathBuf,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use treecast_proto::object::ReceiverInput;
use treecast_wire::{header::FileId, message::BeginOfFile};

use super::{
    super::{Report, Task},
    Object, Parts,
};
use crate::{
    events::{as_path_text, as_seconds},
    files::{Kept, TargetError},
    words::bytes,
};

/// The time between two looks for room. It doubles with each object that is tried in vain: all that it lacks is sent again.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// A shortage is over for an object that has stored this many bytes more, or is whole. Less may still fit into
/// blocks that the file has already.
const PROGRESS_BYTES: u64 = 1 << 20;

/// The report of a receiver whose disk is full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortage {
    /// The first object without space.
    pub name: String,
    #[serde(with = "as_path_text")]
    pub folder: PathBuf,
    /// The file with the bytes of the object that have come. `None` if there are none.
    pub part: Option<PathBuf>,
    /// Size of that file, in bytes.
    pub part_bytes: u64,
    /// The number of bytes that the object needs in addition.
    #[serde(rename = "needed_bytes")]
    pub needed: u64,
    /// The number of free bytes in the folder.
    #[serde(rename = "free_bytes")]
    pub free: u64,
    pub lacks: Lack,
    /// The remaining time for which the object waits.
    #[serde(rename = "seconds_left", with = "as_seconds")]
    pub left: Duration,
}

/// The resource that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    /// Free bytes of the file system.
    Bytes,
    /// Free inodes. The file system has no space for another file, whatever its size.
    Inodes,
    /// A limit that the file system does not tell beforehand, such as this user's quota.
    Quota,
}

/// The objects that wait for room.
#[derive(Debug)]
pub(in super::super) struct FullDisk {
    waiting: BTreeMap<FileId, Waiting>,
    patience: Duration,
    /// The time at which the disk became full. `next` is the time of the next look at it.
    since: Option<Instant>,
    next_look: Instant,
    look_interval: Duration,
    /// The time for which objects have waited in this shortage before `since`.
    waited: Duration,
    /// Objects that have waited and are being tried, with the number of bytes at which they have made progress.
    tried: BTreeMap<FileId, u64>,
    /// Nobody has made room in all that time: nothing waits any more.
    is_in_vain: bool,
}

#[derive(Debug)]
struct Waiting {
    begin: BeginOfFile,
    kept: Kept,
    /// The ranges that have come and are not stored.
    lost: Vec<Range<u64>>,
    /// The reason why it fails if nobody makes room.
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
            look_interval: LOOK_INTERVAL,
            waited: Duration::ZERO,
            tried: BTreeMap::new(),
            is_in_vain: patience.is_zero(),
        }
    }

    /// Whether an object waits.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub fn has(&self, file: FileId) -> bool {
        self.waiting.contains_key(&file)
    }

    /// The time for which this shortage has been borne.
    fn borne(&self) -> Duration {
        self.waited + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Notes how many bytes of an object are stored, after more of it was stored.
    pub fn note_stored(&mut self, file: FileId, stored_bytes: impl FnOnce() -> u64) {
        if self.tried.get(&file).is_some_and(|goal| stored_bytes() >= *goal) {
            self.note_progress(file);
        }
    }

    /// Notes that there was space for an object. The next object that waits begins another shortage.
    pub fn note_progress(&mut self, file: FileId) {
        if self.tried.remove(&file).is_some() {
            self.waited = Duration::ZERO;
            self.look_interval = LOOK_INTERVAL;
            self.since = self.since.map(|_| Instant::now());
        }
    }

    /// Removes an object that no longer waits. Returns the bytes that it has lost.
    pub fn forget(&mut self, file: FileId) -> Vec<Range<u64>> {
        self.tried.remove(&file);
        self.waiting.remove(&file).map(|waiting| waiting.lost).unwrap_or_default()
    }

    /// The time until [`Parts::look_for_room`] has something to do. `None` while nothing waits.
    pub fn until_next_look(&self) -> Option<Duration> {
        self.is_waiting().then(|| self.next_look.saturating_duration_since(Instant::now()))
    }

    /// Keeps a task of an object that waits. Returns any other task.
    pub fn take(&mut self, task: Task) -> Option<Task> {
        if !self.is_waiting() {
            return Some(task);
        }
        let (file, lost) = match &task {
            Task::Keep { file, range, .. }
            | Task::Overwrite { file, range, .. }
            | Task::KeepZeros { file, range } => (file, Some(range.clone())),
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
            // What cannot be read now, somebody else may have.
            Task::Announce { .. }
            | Task::Seed { .. }
            | Task::NoIndex { .. }
            | Task::ForgetSymbols { .. }
            | Task::Serve
            | Task::Read { .. }
            | Task::Release { .. }
            | Task::DropPart { .. } => return Some(task),
        };
        let Some(waiting) = self.waiting.get_mut(file) else { return Some(task) };
        lost.into_iter().for_each(|range| waiting.lose(range));
        None
    }
}

impl Parts {
    /// Lets an object wait that there was no room for. Returns false when it is to fail: something else is wrong, or
    /// nobody makes room.
    pub fn waits_for_room(
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
        let is_again = self.full.tried.remove(&file).is_some();
        if !is_again && self.full.tried.is_empty() && !self.full.is_waiting() {
            // Nothing is left of an earlier shortage.
            (self.full.waited, self.full.look_interval) = (Duration::ZERO, LOOK_INTERVAL);
        }
        let left = self.full.patience.saturating_sub(self.full.borne());
        if left.is_zero() {
            self.full.is_in_vain |= is_again;
            return false;
        }
        let now = Instant::now();
        let is_first = self.full.since.is_none();
        self.full.since.get_or_insert(now);
        if is_again {
            self.full.look_interval *= 2;
            self.full.next_look = now + self.full.look_interval;
        }
        let entry = self.full.waiting.entry(file).or_insert_with(|| Waiting {
            begin: begin.clone(),
            kept: kept.clone(),
            lost: Vec::new(),
            reason: String::new(),
        });
        entry.reason = error.to_string();
        lost.iter().for_each(|range| entry.lose(range.clone()));
        if is_first {
            self.full.next_look = now + self.full.look_interval;
            let shortage = self.shortage(file, begin, left, error);
            self.reports.add(Report::Full { shortage: Box::new(shortage) });
        }
        self.decoding.forget(file);
        // The journal has what is there, should nobody make room before this receiver ends.
        self.note_stored(file, true);
        true
    }

    /// Sees, now and then, whether there is room for what waits. When that has taken too long, all of it fails.
    /// False when it is not yet time to look.
    pub fn look_for_room(&mut self) -> bool {
        if !self.full.is_waiting() || Instant::now() < self.full.next_look {
            return false;
        }
        self.full.next_look = Instant::now() + self.full.look_interval;
        let is_over = self.full.borne() >= self.full.patience;
        for file in self.full.waiting.keys().copied().collect::<Vec<_>>() {
            if self.has_room_for(file) {
                self.go_on(file);
            } else if is_over {
                self.give_up_waiting(file);
            }
        }
        self.full.is_in_vain |= is_over && self.full.since.is_some();
        if !self.full.is_waiting()
            && let Some(since) = self.full.since.take()
        {
            self.full.waited += since.elapsed();
            self.reports.add(Report::Room);
        }
        true
    }

    fn has_room_for(&self, file: FileId) -> bool {
        let Some(Waiting { begin, .. }) = self.full.waiting.get(&file) else { return false };
        let has_file = matches!(self.objects.get(&file), Some(Some(Object::Announced { .. })));
        (has_file || self.folder.has_free_inode())
            && self.folder.check_room(begin.file_name(), self.needed(file, begin)).is_ok()
    }

    /// The number of bytes that an object needs besides those that it has.
    fn needed(&self, file: FileId, begin: &BeginOfFile) -> u64 {
        begin.file_size.saturating_sub(self.stored_bytes(file)).max(1)
    }

    fn stored_bytes(&self, file: FileId) -> u64 {
        match self.objects.get(&file) {
            Some(Some(Object::Announced { stored, .. })) => stored.stored_bytes(),
            _ => 0,
        }
    }

    /// Asks again for what has been lost, because there seems to be room.
    fn go_on(&mut self, file: FileId) {
        let Some(Waiting { begin, kept, lost, .. }) = self.full.waiting.remove(&file) else { return };
        let goal = (self.stored_bytes(file) + PROGRESS_BYTES).min(begin.file_size);
        self.full.tried.insert(file, goal);
        if !matches!(self.objects.get(&file), Some(Some(Object::Announced { .. }))) {
            self.announce(file, begin, &kept);
        }
        self.tell_lost(file, lost);
    }

    /// Tells what has been lost of an object, when it waits no more.
    pub fn tell_lost(&mut self, file: FileId, lost: Vec<Range<u64>>) {
        match self.full.waiting.get_mut(&file) {
            Some(waiting) => waiting.lost.extend(lost),
            None => self.reports.add(Report::Input(ReceiverInput::Lost { file, ranges: lost })),
        }
    }

    fn give_up_waiting(&mut self, file: FileId) {
        let Some(Waiting { begin, reason, .. }) = self.full.waiting.remove(&file) else { return };
        if matches!(self.objects.get(&file), Some(Some(Object::Announced { .. }))) {
            return self.fail_for_room(file, reason);
        }
        self.objects.insert(file, None);
        self.cramped.insert(file);
        self.reports.add(Report::Refused { file, begin, reason, is_full: true });
    }

    /// The place and the size of what is there of an object, in words, for a person who reads why it has failed.
    pub fn kept_in_words(&self, file: FileId) -> String {
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

    fn shortage(&self, file: FileId, begin: &BeginOfFile, left: Duration, error: &TargetError) -> Shortage {
        let (part_bytes, part) = match self.objects.get(&file) {
            Some(Some(Object::Announced { stored, .. })) => (stored.stored_bytes(), Some(stored.path())),
            _ => (0, None),
        };
        let (needed, free) = (self.needed(file, begin), self.folder.free_bytes());
        Shortage {
            name: begin.file_name().to_owned(),
            folder: self.folder.path().to_owned(),
            part: part.filter(|_| part_bytes > 0),
            part_bytes,
            needed,
            free: free.unwrap_or(0),
            lacks: match error {
                TargetError::NoInode { .. } => Lack::Inodes,
                TargetError::Quota { .. } => Lack::Quota,
                // Some file systems say of a quota that the disk is full.
                _ if free.is_some_and(|free| free >= needed) => Lack::Quota,
                _ => Lack::Bytes,
            },
            left,
        }
    }
}
