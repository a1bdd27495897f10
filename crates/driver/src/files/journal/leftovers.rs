//! The files and parts that an earlier receiver has left, as its journal says.

use std::{collections::BTreeMap, ops::Range};

use data_encoding::HEXLOWER;
use treecast_wire::{
    header::{FileId, HEADER_LEN},
    message::{BeginOfFile, Message, ObjectKind},
};

use super::super::{
    TargetFolder, check_name,
    hashes::Hashes,
    held_log::Announced,
    sys::{FileTime, Status},
};

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
    pub(super) objects: BTreeMap<u32, Noted>,
}

#[derive(Debug)]
pub(super) struct Noted {
    pub(super) announcement: String,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Stored(Vec<Range<u64>>),
    Done(Done),
}

#[derive(Debug)]
pub(super) struct Done {
    pub(super) hashes: Hashes,
    pub(super) inode: u64,
    pub(super) modified: FileTime,
    pub(super) changed: FileTime,
    pub(super) kind: ObjectKind,
    pub(super) size: u64,
    pub(super) name: String,
    /// The machine has not been down since.
    pub(super) is_recent: bool,
}

impl Done {
    /// The status of the entry under its name, if it seems to be the one that was noted.
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
    pub(super) fn has(&self, index: u32) -> bool {
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
    pub(super) fn note(&mut self, verb: &str, rest: &str, is_recent: bool) -> Option<()> {
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

    /// Whether an object is noted that has its name, apart from folders.
    pub(super) fn has_done(&self) -> bool {
        let is_done =
            |noted: &Noted| matches!(&noted.what, What::Done(done) if done.kind != ObjectKind::Folder);
        self.objects.values().any(is_done)
    }

    /// Forgets the bytes that lie behind the end of an object's part file. `part_len` returns its length.
    pub(super) fn check_parts(&mut self, part_len: impl Fn(u32) -> u64) {
        self.objects.retain(|index, noted| {
            let What::Stored(ranges) = &mut noted.what else { return true };
            let len = part_len(*index);
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

/// The text that stands for an announcement: half a hash of all that it says.
pub(super) fn announcement(begin: &BeginOfFile) -> String {
    HEXLOWER.encode(&announced(begin))
}

/// The value of [`announcement`], in bytes.
pub(in super::super) fn announced(begin: &BeginOfFile) -> Announced {
    let packet = Message::BeginOfFile(begin.clone()).to_packet(FileId(0));
    let mut half = Announced::default();
    half.copy_from_slice(&blake3::hash(&packet[HEADER_LEN..]).as_bytes()[..16]);
    half
}
