//! Older versions: chunks of an object that one holds are copied from it in place of being fetched.
//!
//! An older version is read from its beginning to its end, a little at a time, while nothing else is to be done. Each chunk is
//! hashed as it is read, and only what the object's index names is stored. So a file that is not an older version, or that
//! changes meanwhile, costs nothing but the reading.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::{File, OpenOptions},
    io,
    ops::Range,
    os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt},
    path::Path,
    sync::Arc,
};

use treecast_host::device;
use treecast_wire::header::FileId;

use super::{Object, Report, Worker, write};
use crate::{
    chunk_index::{ChunkIndex, Cutter},
    files::{TargetError, TargetFolder, stored::Stored},
};

/// Bytes that are read at once.
const READ_LEN: u64 = 256 * 1024;

/// The most memory, in bytes, that the indexes of a session take. An object whose index has no room is fetched whole.
const MAX_MEMORY: usize = 96 << 20;

/// What is known of older versions.
#[derive(Debug, Default)]
pub(super) struct Seeding {
    /// Indexes that have come, by the number of their objects. `None` for one that will not come.
    indexes: BTreeMap<FileId, Option<Arc<ChunkIndex>>>,
    /// Objects that wait for their indexes, with the length of their blocks.
    waiting: BTreeMap<FileId, u16>,
    /// Objects whose older versions are being read. The first one's turn is next.
    seeds: VecDeque<Seed>,
}

/// An object whose older version is being read.
#[derive(Debug)]
struct Seed {
    file: FileId,
    index: Arc<ChunkIndex>,
    old: File,
    /// How far the older version has been read, and its size, in bytes.
    at: u64,
    size: u64,
    /// Whether the object is written to where its older version is.
    is_in_place: bool,
    cutter: Cutter,
    /// The chunks of the object that have been found.
    found: Vec<bool>,
    missing: usize,
    run: Run,
    copied: Copied,
}

/// Stretches of an object that have been stored, each next to or behind the last where they came in order.
#[derive(Debug, Default)]
struct Copied(Vec<Range<u64>>);

impl Copied {
    fn add(&mut self, range: Range<u64>) {
        match self.0.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.0.push(range),
        }
    }
}

/// Chunks of an object without a gap between them, of which only whole blocks are stored: a block comes whole, and must not be
/// written over.
#[derive(Debug)]
struct Run {
    block_len: u64,
    /// Where the next chunk continues the run.
    next: u64,
    /// Bytes that are no whole block yet. They begin at a block's start.
    bytes: Vec<u8>,
    /// Whether all of the run was read from where it belongs.
    is_in_place: bool,
}

impl Run {
    fn new(block_len: u16) -> Self {
        Self { block_len: block_len.max(1).into(), next: 0, bytes: Vec::new(), is_in_place: true }
    }

    /// Adds a chunk at `start` of an object of `size` bytes. Returns where the whole blocks begin that it completes, and their
    /// length in `bytes`.
    fn push(&mut self, start: u64, chunk: &[u8], size: u64, is_in_place: bool) -> (u64, usize) {
        if start != self.next {
            self.bytes.clear();
        }
        let is_first = self.bytes.is_empty();
        self.is_in_place = is_in_place && (is_first || self.is_in_place);
        self.next = start + chunk.len() as u64;
        let skipped = if is_first { start.next_multiple_of(self.block_len) - start } else { 0 };
        let begin = start + skipped - self.bytes.len() as u64;
        self.bytes.extend_from_slice(chunk.get(skipped as usize..).unwrap_or_default());
        let len = self.bytes.len() as u64;
        let whole = if begin + len == size { len } else { len / self.block_len * self.block_len };
        (begin, whole as usize)
    }
}

impl Seeding {
    /// Whether an older version is being read.
    pub fn is_under_way(&self) -> bool {
        !self.seeds.is_empty()
    }

    /// Nothing more of the object is copied.
    pub fn forget(&mut self, file: FileId) {
        self.waiting.remove(&file);
        self.seeds.retain(|seed| seed.file != file);
    }

    /// The object has its name, and needs its index no more.
    pub fn done(&mut self, file: FileId) {
        self.forget(file);
        self.indexes.remove(&file);
    }

    fn memory(&self) -> usize {
        self.indexes.values().flatten().map(|index| index.memory()).sum()
    }
}

impl Worker {
    /// Copies what an older version holds of an announced object, as soon as its index is there.
    pub(super) fn seed(&mut self, file: FileId, block_len: u16) {
        self.seeding.waiting.insert(file, block_len);
        self.begin_seed(file);
    }

    /// The index of an object has come, or will not. It has come as bytes that have been verified.
    pub(super) fn take_index(&mut self, file: FileId, index: Option<&[u8]>) {
        let index = index.and_then(ChunkIndex::parse);
        let has_room = |index: &ChunkIndex| self.seeding.memory() + index.memory() <= MAX_MEMORY;
        let index = index.filter(has_room).map(Arc::new);
        self.seeding.indexes.insert(file, index);
        self.begin_seed(file);
    }

    fn begin_seed(&mut self, file: FileId) {
        let Some(index) = self.seeding.indexes.get(&file).cloned() else { return };
        let Some(block_len) = self.seeding.waiting.remove(&file) else { return };
        let begun = match self.objects.get(&file) {
            Some(Some(Object::Announced { begin, .. })) => index
                .filter(|index| index.size() == begin.file_size)
                .map(|index| (self.folder.older_version(begin.file_name()), index)),
            _ => None,
        };
        match begun {
            Some((Ok(Some((old, size))), index)) => self.seeding.seeds.push_back(Seed {
                file,
                at: 0,
                size,
                is_in_place: self.folder.has_older_version_in_place(),
                cutter: index.cutter(),
                found: vec![false; index.len()],
                missing: index.len(),
                run: Run::new(block_len),
                copied: Copied::default(),
                old,
                index,
            }),
            Some((Err(why), _)) => self.seeded(file, Vec::new(), Some(why)),
            Some((Ok(None), _)) | None => self.seeded(file, Vec::new(), None),
        }
    }

    fn seeded(&mut self, file: FileId, ranges: Vec<Range<u64>>, why_not: Option<String>) {
        self.report(Report::Seeded { file, ranges, why_not });
    }

    /// Reads a little of an older version. Returns false if none is being read.
    pub(super) fn seed_some(&mut self) -> bool {
        let Some(mut seed) = self.seeding.seeds.pop_front() else { return false };
        let file = seed.file;
        let mut read = Ok(false);
        self.attempt(file, &[], |stored, begin, folder| {
            read = seed.read_some(stored, begin.file_name(), folder)?;
            Ok(())
        });
        self.note_stored(file, false);
        if !matches!(self.objects.get(&file), Some(Some(Object::Announced { .. }))) {
            return true;
        }
        match read {
            Ok(true) => self.seeding.seeds.push_back(seed),
            Ok(false) => self.seeded(file, seed.copied.0, None),
            Err(why) => self.seeded(file, seed.copied.0, Some(why)),
        }
        true
    }
}

impl Seed {
    /// Reads on, and stores the chunks of the object that come. Returns whether there is more, or why the older version cannot
    /// be read.
    fn read_some(
        &mut self,
        stored: &mut Stored,
        name: &str,
        folder: &TargetFolder,
    ) -> Result<Result<bool, String>, TargetError> {
        let mut position = self.at - self.cutter.rest_len() as u64;
        let (old, at, wanted) = (&self.old, self.at, (self.size - self.at).min(READ_LEN));
        let len = match self.cutter.fill(wanted as usize, |into| old.read_at(into, at)) {
            Ok(len) => len,
            Err(error) => return Ok(Err(error.to_string())),
        };
        self.at += len as u64;
        let is_end = len == 0 || self.at == self.size;
        let Self { index, cutter, found, missing, run, copied, is_in_place, .. } = self;
        let mut result = Ok(());
        cutter.cut(&[], is_end, |chunk| {
            for (number, start) in index.places(chunk) {
                if result.is_err() || std::mem::replace(&mut found[number], true) {
                    continue;
                }
                *missing -= 1;
                let (begin, whole) = run.push(start, chunk, index.size(), *is_in_place && start == position);
                let range = begin..begin + whole as u64;
                for gap in stored.missing(range.clone()) {
                    let part = &run.bytes[(gap.start - begin) as usize..(gap.end - begin) as usize];
                    if run.is_in_place {
                        stored.adopt(gap.start, part);
                    } else {
                        result = write(stored, folder, name, gap.start, part);
                    }
                }
                run.bytes.drain(..whole);
                if result.is_ok() && !range.is_empty() {
                    copied.add(range);
                }
            }
            position += chunk.len() as u64;
        });
        result.map(|()| Ok(!is_end && *missing > 0))
    }
}

impl TargetFolder {
    /// Whether objects are written to where their older versions are.
    fn has_older_version_in_place(&self) -> bool {
        self.device().is_some() && self.old().is_none()
    }

    /// Opens the older version of an object, and finds out its size. `None` if there is none.
    ///
    /// # Errors
    /// Why what is there cannot be one.
    fn older_version(&self, name: &str) -> Result<Option<(File, u64)>, String> {
        let opened = match (self.old(), self.device()) {
            (Some(path), _) => open_named(path, name),
            (None, Some(device)) => File::open(device.path()),
            (None, None) => self.open_file(name),
        };
        let is_named = self.old().is_some();
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_named => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let status = file.metadata().map_err(|error| error.to_string())?;
        let kind = status.file_type();
        let size = match kind {
            _ if kind.is_file() => status.len(),
            _ if kind.is_block_device() => device::size(&file).map_err(|error| error.to_string())?,
            _ if kind.is_dir() => return Err("it is a folder".into()),
            _ => return Err("it is neither a file nor a block device".into()),
        };
        Ok(Some((file, size)))
    }
}

/// Opens the older version that a user has named: a file or device, or the file of this name in a folder. Nobody is waited for
/// at the other end of a pipe.
fn open_named(path: &Path, name: &str) -> io::Result<File> {
    let path = if path.is_dir() { path.join(name) } else { path.to_owned() };
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_gives_whole_blocks_and_the_short_one_at_the_end() {
        let mut run = Run::new(100);
        let mut push = |start, len: usize| {
            let (begin, whole) = run.push(start, &vec![1; len], 1_030, true);
            run.bytes.drain(..whole);
            (begin, whole)
        };
        assert_eq!(push(0, 250), (0, 200));
        assert_eq!(push(250, 30), (200, 0));
        assert_eq!(push(280, 120), (200, 200));
        assert_eq!(push(450, 30).1, 0, "within a block");
        assert_eq!(push(480, 170), (500, 100), "the block before is not whole");
        assert_eq!(push(650, 380), (600, 430), "the last block is shorter");
        assert_eq!(push(100, 100), (100, 100));
    }
}
