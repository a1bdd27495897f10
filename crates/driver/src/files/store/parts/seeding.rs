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

use super::{super::Report, Object, Parts};
use crate::{
    chunk_index::{ChunkIndex, Cutter},
    files::{
        TargetError, TargetFolder,
        stored::Stored,
        sys,
        target::{SENDER_LABEL, sender_label},
    },
    remedies::{Advised, Remedy},
};

/// Bytes that are read at once.
const READ_LEN: u64 = 256 * 1024;

/// Bytes that are stored at once, about. Whatever else is to be done waits for no more.
const STORE_LEN: usize = 4 << 20;

/// The least that a chunk counts for, in bytes: many short ones take time, too.
const LEAST_COST: usize = 4096;

/// The most memory, in bytes, that the indexes of a session take. An object whose index has no room is fetched whole.
const MAX_MEMORY: usize = 96 << 20;

/// The knowledge about older versions.
#[derive(Debug, Default)]
pub(in super::super) struct Seeding {
    /// Indexes that have come, by the number of their objects. `None` for one that will not come.
    indexes: BTreeMap<FileId, Option<Arc<ChunkIndex>>>,
    /// Objects that wait for their indexes, with the length of their blocks.
    waiting: BTreeMap<FileId, u16>,
    /// Objects whose older versions are read next, with their indexes and the length of their blocks.
    queue: VecDeque<(FileId, Arc<ChunkIndex>, u16)>,
    /// The one that is being read. No other older version is open.
    seed: Option<Seed>,
}

/// An object whose older version is being read.
#[derive(Debug)]
struct Seed {
    file: FileId,
    index: Arc<ChunkIndex>,
    old: File,
    /// The position up to which the older version has been read, and its size, in bytes.
    at: u64,
    size: u64,
    /// Whether the object, too, has the chunk that was read last.
    is_shared: bool,
    /// Whether the object is written to where its older version is.
    is_in_place: bool,
    cutter: Cutter,
    /// Whether the chunk at each place has been found. It is noted at the first place of a chunk.
    found: Vec<bool>,
    /// Number of places whose chunks have not been found.
    missing: usize,
    /// Chunks that have been found, with those of their places that are to be filled.
    unplaced: VecDeque<(Vec<u8>, Range<usize>)>,
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
    /// The position at which the next chunk continues the run.
    next: u64,
    /// Bytes that are no whole block yet. They begin at a block's start.
    bytes: Vec<u8>,
}

impl Run {
    fn new(block_len: u16) -> Self {
        Self { block_len: block_len.max(1).into(), next: 0, bytes: Vec::new() }
    }

    /// Adds a chunk at `start` of an object of `size` bytes. Returns where the whole blocks begin that it completes, and their
    /// length in `bytes`.
    fn push(&mut self, start: u64, chunk: &[u8], size: u64) -> (u64, usize) {
        if start != self.next {
            self.bytes.clear();
        }
        let is_first = self.bytes.is_empty();
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
    /// Whether an older version is being read, or is to be read.
    pub fn is_under_way(&self) -> bool {
        self.seed.is_some() || !self.queue.is_empty()
    }

    /// Forgets an object. Nothing more of it is copied.
    pub fn forget(&mut self, file: FileId) {
        self.waiting.remove(&file);
        self.queue.retain(|(queued, ..)| *queued != file);
        self.seed.take_if(|seed| seed.file == file);
    }

    /// The memory that indexes take, in bytes.
    pub fn memory(&self) -> usize {
        self.indexes.values().flatten().map(|index| index.memory()).sum()
    }
}

impl Parts {
    /// Copies what an older version holds of an announced object, as soon as its index is there.
    pub fn seed(&mut self, file: FileId, block_len: u16) {
        self.seeding.waiting.insert(file, block_len);
        self.begin_seed(file);
    }

    /// The index of an object has come, or will not or need not come. It has come as bytes that have been verified.
    pub fn take_index(&mut self, file: FileId, index: Option<&[u8]>) {
        let is_in_vain = matches!(self.seeding.indexes.get(&file), Some(None));
        let index = index.filter(|_| !is_in_vain).and_then(ChunkIndex::parse);
        let has_room = |index: &ChunkIndex| self.seeding.memory() + index.memory() <= MAX_MEMORY;
        let index = index.filter(has_room).map(Arc::new);
        self.seeding.indexes.insert(file, index);
        self.begin_seed(file);
    }

    fn begin_seed(&mut self, file: FileId) {
        let Some(index) = self.seeding.indexes.get(&file).cloned() else { return };
        let Some(block_len) = self.seeding.waiting.remove(&file) else { return };
        let size = match self.objects.get(&file) {
            Some(Some(Object::Announced { begin, .. })) => Some(begin.file_size),
            _ => None,
        };
        match index.filter(|index| Some(index.size()) == size) {
            Some(index) => self.seeding.queue.push_back((file, index, block_len)),
            None => self.seeded(file, Vec::new(), None),
        }
    }

    fn seeded(&mut self, file: FileId, ranges: Vec<Range<u64>>, why_not: Option<Advised>) {
        self.reports.add(Report::Seeded { file, ranges, why_not });
    }

    /// Opens the next older version. Returns false if none is to be read.
    fn open_seed(&mut self) -> bool {
        let Some((file, index, block_len)) = self.seeding.queue.pop_front() else { return false };
        let opened = match self.objects.get(&file) {
            Some(Some(Object::Announced { begin, .. })) => self.folder.older_version(begin.file_name()),
            _ => Ok(None),
        };
        match opened {
            Ok(Some((old, size))) => {
                let is_in_place = self.folder.has_older_version_in_place();
                self.seeding.seed = Some(Seed::new(file, index, block_len, (old, size), is_in_place));
            }
            Ok(None) => self.seeded(file, Vec::new(), None),
            Err(why) => self.seeded(file, Vec::new(), Some(why)),
        }
        true
    }

    /// Reads a little of an older version. Returns false if none is being read.
    pub fn seed_some(&mut self, buffer: &mut [u8]) -> bool {
        let Some(mut seed) = self.seeding.seed.take() else { return self.open_seed() };
        let file = seed.file;
        let mut read = Ok(false);
        self.attempt(file, &[], |stored, begin, folder| {
            read = seed.go_on(stored, begin.file_name(), folder, buffer)?;
            Ok(())
        });
        self.note_stored(file, false);
        if !matches!(self.objects.get(&file), Some(Some(Object::Announced { .. }))) {
            return true;
        }
        match read {
            Ok(true) => self.seeding.seed = Some(seed),
            Ok(false) => self.seeded(file, seed.copied.0, None),
            Err(why) => self.seeded(file, seed.copied.0, Some(why.into())),
        }
        true
    }
}

impl Seed {
    fn new(
        file: FileId,
        index: Arc<ChunkIndex>,
        block_len: u16,
        (old, size): (File, u64),
        is_in_place: bool,
    ) -> Self {
        Self {
            file,
            old,
            at: 0,
            size,
            is_shared: false,
            is_in_place,
            cutter: index.cutter(),
            found: vec![false; index.len()],
            missing: index.len(),
            unplaced: VecDeque::new(),
            run: Run::new(block_len),
            copied: Copied::default(),
            index,
        }
    }

    /// Stores chunks that have been found, or reads on first if there are none. Returns whether there is more, or why the older
    /// version cannot be read.
    fn go_on(
        &mut self,
        stored: &mut Stored,
        name: &str,
        folder: &TargetFolder,
        buffer: &mut [u8],
    ) -> Result<Result<bool, String>, TargetError> {
        if self.unplaced.is_empty()
            && let Err(error) = self.read_on()
        {
            return Ok(Err(error.to_string()));
        }
        let mut left = STORE_LEN;
        while left > 0
            && let Some((start, bytes)) = self.next_bytes()
        {
            left = left.saturating_sub(bytes.len().max(LEAST_COST));
            self.store(start, &bytes, stored, name, folder, buffer)?;
        }
        Ok(Ok(!self.unplaced.is_empty() || self.missing > 0 && self.at < self.size))
    }

    /// Reads on, and finds the chunks of the object that come. A short chunk counts only behind one that the object has, too: what
    /// is copied is reported, and a sender that may ask for a few bytes alone could try all of them.
    fn read_on(&mut self) -> io::Result<()> {
        let Self { old, at, size, is_shared, index, cutter, found, missing, unplaced, .. } = self;
        let wanted = (*size - *at).min(READ_LEN);
        let len = cutter.fill(wanted as usize, |into| old.read_at(into, *at))?;
        *at += len as u64;
        if len == 0 {
            *size = *at;
        }
        cutter.cut(&[], *at == *size, |chunk| {
            let may_count = *is_shared || !index.is_short(chunk.len());
            let places = if may_count { index.places(chunk) } else { 0..0 };
            *is_shared = !places.is_empty();
            if !places.is_empty() && !std::mem::replace(&mut found[places.start], true) {
                *missing -= places.len();
                unplaced.push_back((chunk.to_vec(), places));
            }
        });
        Ok(())
    }

    /// The position of the next bytes to store, and the bytes: a chunk, as often as its places lie next to each other. So a long
    /// run of zeros is one hole.
    fn next_bytes(&mut self) -> Option<(u64, Vec<u8>)> {
        let (chunk, places) = self.unplaced.front_mut()?;
        let start = self.index.position(places.start);
        let most = (STORE_LEN / chunk.len()).clamp(1, places.len());
        let is_next =
            |count: &usize| self.index.position(places.start + count) == start + (count * chunk.len()) as u64;
        let count = (1..most).take_while(is_next).count() + 1;
        let bytes = chunk.repeat(count);
        places.start += count;
        if places.start == places.end {
            self.unplaced.pop_front();
        }
        Some((start, bytes))
    }

    /// Stores the whole blocks that these bytes of the object complete.
    fn store(
        &mut self,
        start: u64,
        bytes: &[u8],
        stored: &mut Stored,
        name: &str,
        folder: &TargetFolder,
        buffer: &mut [u8],
    ) -> Result<(), TargetError> {
        let (begin, whole) = self.run.push(start, bytes, self.index.size());
        let range = begin..begin + whole as u64;
        let mut result = Ok(());
        for gap in stored.missing(range.clone()) {
            let part = &self.run.bytes[(gap.start - begin) as usize..(gap.end - begin) as usize];
            result = result.and_then(|()| match self.is_in_place {
                // What belongs there may be there.
                true => stored.overwrite(gap.start, part, buffer),
                false => stored.write(gap.start, part),
            });
        }
        self.run.bytes.drain(..whole);
        result.map_err(|source| {
            folder.content_error(format!("write {name} (bytes from {begin} on)"), source)
        })?;
        if !range.is_empty() {
            self.copied.add(range);
        }
        Ok(())
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
    /// The reason why what is there cannot be an older version.
    fn older_version(&self, name: &str) -> Result<Option<(File, u64)>, Advised> {
        let opened = match (self.old(), self.device()) {
            (Some(path), _) => open_named(path, name),
            (None, Some(device)) => File::open(device.path()),
            (None, None) => self.open_earlier(name),
        };
        let is_named = self.old().is_some();
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_named => return Ok(None),
            Err(error) => return Err(Advised::of(&error)),
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

    /// Opens the file `name` if an earlier delivery of this session's sender has put it there. Any other file may hold what the sender
    /// must not learn.
    fn open_earlier(&self, name: &str) -> io::Result<File> {
        let file = self.open_file(name)?;
        let modified = sys::status_at(&file, c"")?.modified;
        let label = self.sender().map(|key| sender_label(&key, modified));
        if label.is_some_and(|label| sys::is_labelled(&file, SENDER_LABEL, &label)) {
            return Ok(file);
        }
        let path = self.path().join(name);
        let line = format!(
            "{} is not from this sender, so nothing is copied from it (who sends a difference learns which parts of its file are there)",
            path.display()
        );
        Err(io::Error::other(Advised::by(Remedy::NameOldVersion, line)))
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
    use std::os::unix::fs::MetadataExt;

    use treecast_wire::header::SessionId;

    use super::*;
    use crate::{
        chunk_index::IndexWriter,
        files::{Journal, stored::CATCH_UP_LEN},
        scratch::scratch_on_disk,
    };

    #[test]
    fn a_run_gives_whole_blocks_and_the_short_one_at_the_end() {
        let mut run = Run::new(100);
        let mut push = |start, len: usize| {
            let (begin, whole) = run.push(start, &vec![1; len], 1_030);
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
    #[test]
    fn a_chunk_at_many_places_is_stored_a_little_at_a_time_and_not_where_it_is() {
        const SIZE: u64 = 40 << 20;
        let path = scratch_on_disk("many-places");
        let folder = TargetFolder::open(&path).unwrap();
        let (journal, _) = Journal::open(&folder, SessionId(0), false).unwrap();
        let mut writer = IndexWriter::new(SIZE).unwrap();
        (0..40).for_each(|_| writer.update(&[0; 1 << 20]));
        let index = Arc::new(ChunkIndex::parse(&writer.finish()).unwrap());
        for is_in_place in [false, true] {
            let file = FileId(is_in_place.into());
            let part = journal.part(file, false).unwrap();
            part.file().unwrap().set_len(SIZE).unwrap();
            std::fs::write(path.join("old"), vec![0; 1 << 20]).unwrap();
            let older = (File::open(path.join("old")).unwrap(), 1 << 20);
            let mut seed = Seed::new(file, Arc::clone(&index), 1_400, older, is_in_place);
            let (mut stored, mut steps, mut before) = (Stored::new(part), 1, 0);
            let mut buffer = vec![0; CATCH_UP_LEN];
            while seed.go_on(&mut stored, "name", &folder, &mut buffer).unwrap().unwrap() {
                let step = stored.stored_bytes() - before;
                assert!(step <= STORE_LEN as u64 + 1_400, "{step} bytes at once");
                (steps, before) = (steps + 1, stored.stored_bytes());
            }
            assert_eq!((seed.missing, &seed.copied.0[..]), (0, std::slice::from_ref(&(0..SIZE))));
            assert!(steps <= 12, "{steps} steps");
            assert_eq!(stored.path().metadata().unwrap().blocks(), 0, "it is one hole");
        }
    }

    /// A sender that may ask for the last few bytes alone could try all of them: an answer to each tells what a file holds.
    #[test]
    fn a_short_chunk_counts_only_behind_one_that_both_versions_have() {
        let path = scratch_on_disk("short-chunk");
        let folder = TargetFolder::open(&path).unwrap();
        let (journal, _) = Journal::open(&folder, SessionId(0), false).unwrap();
        let mut object = vec![0; 400_000];
        blake3::Hasher::new().finalize_xof().fill(&mut object);
        let end_of_chunk = |len: usize| {
            let mut ends = Vec::new();
            ChunkIndex::parse(&index_of(&object[..len])).unwrap().cutter().cut(
                &object[..len],
                true,
                |chunk| {
                    ends.push(ends.last().unwrap_or(&0) + chunk.len());
                },
            );
            ends[ends.len() - 2]
        };
        // 40 bytes lie behind the last long chunk.
        let long = end_of_chunk(object.len());
        object.truncate(long + 40);
        let index = Arc::new(ChunkIndex::parse(&index_of(&object)).unwrap());
        for (number, (old, copied)) in
            [(&object[long..], 0), (&object[..], object.len() as u64)].into_iter().enumerate()
        {
            let file = FileId(number as u64);
            std::fs::write(path.join("old"), old).unwrap();
            let older = (File::open(path.join("old")).unwrap(), old.len() as u64);
            let mut seed = Seed::new(file, Arc::clone(&index), 1, older, false);
            let mut stored = Stored::new(journal.part(file, false).unwrap());
            while seed.go_on(&mut stored, "name", &folder, &mut []).unwrap().unwrap() {}
            assert_eq!(stored.stored_bytes(), copied, "an older version of {} bytes", old.len());
        }
    }

    fn index_of(bytes: &[u8]) -> Vec<u8> {
        let mut writer = IndexWriter::new(bytes.len() as u64).unwrap();
        writer.update(bytes);
        writer.finish()
    }
}
