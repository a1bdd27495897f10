//! One object on its way to the disk: its stored ranges, and its hash as far as it is known.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::PathBuf,
};

use blake3::Hasher;

use treecast_host::device;

use super::{
    PartFile, TargetError, TargetFolder,
    sys::{self, Status},
    tree_hash::{GROUP_LEN, TreeHash},
};
use crate::{
    carousel::FrameHash,
    coding::{Decoder, HEAD_LEN, Head, SEGMENT_LEN},
    zeros::{Stretch, first_stretch},
};

/// The shortest run of zeros, in bytes, that becomes a hole of a file.
const LEAST_HOLE: usize = 16 * 1024;

/// The bytes that are hashed for a hole. BLAKE3 hashes at most 16 KiB at once, and the program contains them.
static ZEROS: [u8; 16 * 1024] = [0; 16 * 1024];

/// The number of bytes that are read back at once where the hash has to catch up.
pub(super) const CATCH_UP_LEN: usize = GROUP_LEN as usize;

/// The file and the state of its hash. Bytes of a group that arrive in order are hashed from the receive
/// buffer, while they are in the cache; other groups are read back once they are whole.
#[derive(Debug)]
pub(super) struct Stored {
    part: PartFile,
    /// Whether segments are stored that are longer when they are decompressed: the room behind them stays.
    is_compressed: bool,
    tree: TreeHash,
    /// The stored ranges, start to end. No two of them touch.
    stored: BTreeMap<u64, u64>,
    /// Groups that are stored whole and not in the tree.
    behind: BTreeSet<u64>,
    /// The next hash is of what is read back, all of it: some may have been written over since it was hashed, or has lain
    /// on the disk while this process did not have it in its hands.
    is_read_back: bool,
    /// The last hash that was reported.
    last_hash: Option<[u8; 32]>,
    /// The ranges that are stored and not in the journal, in the order in which they came.
    unnoted: Vec<Range<u64>>,
    unnoted_bytes: u64,
}

/// A journal is told of what is stored in steps of an object's size divided by this: what a receiver that is killed has
/// stored and not noted is fetched again.
const STEPS: u64 = 1024;

/// A step is not shorter, ...
const SHORTEST_STEP: u64 = 8 * 1024;

/// ... nor longer than this.
const LONGEST_STEP: u64 = 4 << 20;

/// Number of ranges that are told of together, whatever their length.
const MAX_UNNOTED: usize = 512;

impl Stored {
    pub fn new(part: PartFile) -> Self {
        Self {
            part,
            is_compressed: false,
            tree: TreeHash::default(),
            stored: BTreeMap::new(),
            behind: BTreeSet::new(),
            is_read_back: false,
            last_hash: None,
            unnoted: Vec::new(),
            unnoted_bytes: 0,
        }
    }

    /// Opens a file in which these ranges are stored already. All of it is read again when it is complete,
    /// because somebody else may change it until then.
    pub fn resumed(part: PartFile, kept: &[Range<u64>]) -> Self {
        let mut stored = Self::new(part);
        kept.iter().for_each(|range| stored.note(range.clone()));
        stored.is_read_back = !kept.is_empty();
        stored
    }

    /// Says whether the object is compressed.
    pub fn compressed(self, is_compressed: bool) -> Self {
        Self { is_compressed, ..self }
    }

    /// Takes the ranges for the journal. Returns nothing until a step of an object of `size` bytes is full,
    /// unless `all` is set.
    pub fn take_unnoted(&mut self, size: u64, all: bool) -> Option<Vec<Range<u64>>> {
        let step = (size / STEPS).clamp(SHORTEST_STEP, LONGEST_STEP);
        let is_due = self.unnoted_bytes >= step || self.unnoted.len() >= MAX_UNNOTED || all;
        if !is_due || self.unnoted.is_empty() {
            return None;
        }
        self.unnoted_bytes = 0;
        Some(std::mem::take(&mut self.unnoted))
    }

    /// The last hash that was reported.
    pub fn last_hash(&self) -> Option<[u8; 32]> {
        self.last_hash
    }

    /// Writes bytes at a position, long stretches of zeros as holes.
    pub fn write(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        put(self.part.file()?, position, bytes, |range| self.make_zero(range))?;
        self.note_written(position, bytes);
        Ok(())
    }

    /// Writes zeros. A file gets a hole.
    pub fn write_zeros(&mut self, range: Range<u64>) -> io::Result<()> {
        self.make_zero(range.clone())?;
        for start in range.clone().step_by(ZEROS.len()) {
            let len = (range.end - start).min(ZEROS.len() as u64) as usize;
            self.note_written(start, &ZEROS[..len]);
        }
        Ok(())
    }

    /// Makes a hole where that takes away no room which a compressed segment needs later: only whole segments are zero for good.
    fn make_zero(&self, range: Range<u64>) -> io::Result<()> {
        let file = self.part.file()?;
        if !self.is_compressed || self.part.is_device() {
            return device::make_zero(file, range);
        }
        let whole = range.start.next_multiple_of(SEGMENT_LEN)..range.end / SEGMENT_LEN * SEGMENT_LEN;
        if whole.is_empty() {
            return device::make_zero_in_place(file, range);
        }
        device::make_zero_in_place(file, range.start..whole.start)?;
        device::make_zero(file, whole.clone())?;
        device::make_zero_in_place(file, whole.end..range.end)
    }

    /// Takes note of bytes that have been written.
    fn note_written(&mut self, position: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = position + bytes.len() as u64;
        if self.missing(position..end).first() != Some(&(position..end)) {
            // The tree may hold the hash of what this has written over.
            self.is_read_back = true;
            self.behind.clear();
        }
        self.note(position..end);
        self.unnoted_bytes += bytes.len() as u64;
        match self.unnoted.last_mut() {
            Some(last) if last.end == position => last.end = end,
            _ => self.unnoted.push(position..end),
        }
        if self.is_read_back {
            return;
        }
        self.tree.feed(position, bytes);
        for group in position / GROUP_LEN..=(end - 1) / GROUP_LEN {
            if self.is_whole(group) && !self.tree.has(group) {
                self.behind.insert(group);
            }
        }
    }

    /// Reads stored bytes. Bytes that are not stored are zeros.
    pub fn read(&self, position: u64, into: &mut [u8]) -> io::Result<()> {
        self.part.file()?.read_exact_at(into, position)
    }

    /// Feeds a range of what is stored to a hasher.
    pub fn read_into(&self, range: Range<u64>, buffer: &mut [u8], hasher: &mut Hasher) -> io::Result<()> {
        read_into(&self.part, range, buffer, hasher)
    }

    /// Whether [`Stored::catch_up`] has something to do.
    pub fn is_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Writes bytes, a buffer's length at a time, where others are in their place.
    pub fn overwrite(&mut self, position: u64, bytes: &[u8], buffer: &mut [u8]) -> io::Result<()> {
        let file = self.part.file()?;
        for (at, piece) in (position..).step_by(buffer.len()).zip(bytes.chunks(buffer.len())) {
            let there = &mut buffer[..piece.len()];
            // What cannot be read may be written.
            if file.read_exact_at(there, at).is_err() || there != piece {
                put(file, at, piece, |range| self.make_zero(range))?;
            }
        }
        self.note_written(position, bytes);
        Ok(())
    }

    /// Hashes a group of bytes that is stored and not hashed yet. Returns false if there is none.
    pub fn catch_up(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let Some(group) = self.behind.pop_first() else { return Ok(false) };
        let Self { part, tree, .. } = self;
        let start = group * GROUP_LEN;
        tree.add_group(group, |hasher| read_into(part, start..start + GROUP_LEN, buffer, hasher))?;
        Ok(true)
    }

    /// The hash of the bytes from the file's start to its first gap. A second call reads all of them again,
    /// because they may have been overwritten.
    pub fn hash(&mut self, buffer: &mut [u8]) -> io::Result<[u8; 32]> {
        let hash = self.compute_hash(buffer)?;
        self.last_hash = Some(hash);
        Ok(hash)
    }

    /// The BLAKE2b-256 hash of the same bytes.
    pub fn hash_as_blake2b(&self, buffer: &mut [u8]) -> io::Result<[u8; 32]> {
        let len = self.stored.get(&0).copied().unwrap_or(0);
        let mut hasher = FrameHash::Blake2b.hasher();
        read_pieces(&self.part, 0..len, buffer, |_, piece| hasher.update(piece))?;
        Ok(hasher.finish())
    }

    fn compute_hash(&mut self, buffer: &mut [u8]) -> io::Result<[u8; 32]> {
        let len = self.stored.get(&0).copied().unwrap_or(0);
        if std::mem::replace(&mut self.is_read_back, true) || len <= GROUP_LEN {
            return self.hash_by_reading(len, buffer);
        }
        while self.catch_up(buffer)? {}
        let tail_start = len / GROUP_LEN * GROUP_LEN;
        let tail = match self.tree.open_tail(len) {
            None if tail_start < len => {
                let mut tail = TreeHash::default();
                read_pieces(&self.part, tail_start..len, buffer, |at, piece| tail.feed(at, piece))?;
                tail.open_tail(len)
            }
            tail => tail,
        };
        if let Some(hash) = self.tree.root(len, tail) { Ok(hash) } else { self.hash_by_reading(len, buffer) }
    }

    fn hash_by_reading(&self, len: u64, buffer: &mut [u8]) -> io::Result<[u8; 32]> {
        let mut hasher = Hasher::new();
        read_into(&self.part, 0..len, buffer, &mut hasher)?;
        Ok(*hasher.finalize().as_bytes())
    }

    fn is_whole(&self, group: u64) -> bool {
        let start = group * GROUP_LEN;
        let before = self.stored.range(..=start).next_back();
        before.is_some_and(|(_, end)| *end >= start + GROUP_LEN)
    }

    /// Sets the size of the file, after checking that there is space. The file takes no space yet.
    pub fn announce(&self, folder: &TargetFolder, name: &str, size: u64) -> Result<(), TargetError> {
        if self.part.is_device() {
            return Ok(());
        }
        folder.check_room(name, size.saturating_sub(self.stored_bytes()))?;
        let sized = self.part.file().and_then(|file| file.set_len(size));
        sized.map_err(|source| folder.error(format!("size {name:?}"), source))
    }

    /// Reserves the space for what is not stored. What is may be a hole, and stays one.
    pub fn reserve(&self, folder: &TargetFolder, name: &str, size: u64) -> Result<(), TargetError> {
        if self.part.is_device() {
            return Ok(());
        }
        let file = self.part.file();
        let file = file.map_err(|source| folder.error(format!("take room for {name:?}"), source))?;
        self.missing(0..size).into_iter().try_for_each(|gap| folder.reserve(file, name, gap))
    }

    /// The number of stored bytes.
    pub fn stored_bytes(&self) -> u64 {
        self.stored.iter().map(|(start, end)| end - start).sum()
    }

    /// Marks a range as not stored, because its bytes are wrong. The object is read again for its hash.
    pub fn forget(&mut self, range: Range<u64>) {
        self.is_read_back = true;
        self.behind.clear();
        let before = self.stored.range(..=range.start).next_back();
        let first = before.map_or(range.start, |(start, _)| *start);
        let touched = self.stored.range(first..range.end).map(|(start, end)| (*start, *end));
        for (start, end) in touched.filter(|(_, end)| *end > range.start).collect::<Vec<_>>() {
            self.stored.remove(&start);
            if start < range.start {
                self.stored.insert(start, range.start);
            }
            if end > range.end {
                self.stored.insert(range.end, end);
            }
        }
    }

    /// The parts of a range that are not stored.
    pub fn missing(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let before = self.stored.range(..=range.start).next_back();
        let first = before.map_or(range.start, |(start, _)| *start);
        let (mut gaps, mut at) = (Vec::new(), range.start);
        for (start, end) in self.stored.range(first..range.end) {
            if *start > at {
                gaps.push(at..*start);
            }
            at = at.max(*end);
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        gaps
    }

    /// The path of the file.
    pub fn path(&self) -> PathBuf {
        self.part.path()
    }

    pub fn is_open(&self) -> bool {
        self.part.is_open()
    }

    /// The part file, to close and open it.
    pub fn part_mut(&mut self) -> &mut PartFile {
        &mut self.part
    }

    /// Returns the part file, which gets its name next.
    pub fn into_part(self) -> PartFile {
        self.part
    }

    /// Decompresses all segments of an object of `size` bytes. Returns the hash of what they then are, if that is asked for.
    ///
    /// # Errors
    /// The error of the kernel, or that a segment is not what it says.
    pub fn expand(&self, size: u64, hashes: bool) -> io::Result<Option<[u8; 32]>> {
        let (file, mut decoder) = (self.part.file()?, Decoder::new()?);
        let (mut content, mut was) = (Vec::new(), Vec::new());
        let mut hasher = hashes.then(Hasher::new);
        // The zeros behind each content are not read. On a device they would be read from the disk.
        device::reads_leap(file, true);
        for start in (0..size).step_by(SEGMENT_LEN as usize) {
            let len = (size - start).min(SEGMENT_LEN) as usize;
            was.resize(len, 0);
            let mut head = [0; HEAD_LEN];
            let head = &mut head[..len.min(HEAD_LEN)];
            file.read_exact_at(head, start)?;
            if let Some(head) = Head::of(head, len) {
                let Range { start: at, end } = head.content();
                content.resize(end - at, 0);
                file.read_exact_at(&mut content, start + at as u64)?;
                decoder.decode(head, &content, &mut was).map_err(|error| {
                    let line = format!("its part at {start} is not what it says ({error})");
                    io::Error::new(io::ErrorKind::InvalidData, line)
                })?;
                put(file, start, &was, |range| device::make_zero(file, range))?;
            } else if hashes {
                file.read_exact_at(&mut was, start)?;
            }
            if let Some(hasher) = &mut hasher {
                hasher.update(&was);
            }
        }
        device::reads_leap(file, false);
        Ok(hasher.map(|hasher| *hasher.finalize().as_bytes()))
    }

    /// Forces all bytes to the disk. With a hash, reads them from there, and compares theirs. Returns the file's status.
    ///
    /// # Errors
    /// The error of the kernel, or that the bytes are others.
    pub fn force_to_disk(&self, hash: Option<&[u8; 32]>) -> io::Result<Status> {
        let file = self.part.file()?;
        device::sync_and_forget(file)?;
        if let Some(hash) = hash {
            let len = self.stored.get(&0).copied().unwrap_or(0);
            if self.hash_by_reading(len, &mut vec![0; CATCH_UP_LEN])? != *hash {
                return Err(io::Error::other("it does not hold what was written to it"));
            }
        }
        sys::status_at(file, c"")
    }

    /// Leaves the file for a later receiver of the session.
    pub fn keep(&mut self) {
        self.part.keep();
    }

    /// Adds a range to `stored`, joining those that it touches.
    fn note(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if let Some((&before, &before_end)) = self.stored.range(..=start).next_back()
            && before_end >= start
        {
            start = before;
            end = end.max(before_end);
        }
        while let Some((&next, &next_end)) = self.stored.range(start..).next()
            && next <= end
        {
            end = end.max(next_end);
            self.stored.remove(&next);
        }
        self.stored.insert(start, end);
    }
}

/// Writes bytes. Long stretches of zeros are made by `make_zero`.
fn put(
    file: &File,
    position: u64,
    bytes: &[u8],
    make_zero: impl Fn(Range<u64>) -> io::Result<()>,
) -> io::Result<()> {
    const PAGE: usize = 4096;
    let mut at = 0;
    while at < bytes.len() {
        let Stretch { bytes: part, is_zero } = first_stretch(bytes, at, PAGE);
        let start = position + part.start as u64;
        match is_zero && part.len() >= LEAST_HOLE {
            true => make_zero(start..start + part.len() as u64)?,
            false => file.write_all_at(&bytes[part.clone()], start)?,
        }
        at = part.end;
    }
    Ok(())
}

/// Feeds a range of a file to a hasher.
fn read_into(part: &PartFile, range: Range<u64>, buffer: &mut [u8], hasher: &mut Hasher) -> io::Result<()> {
    read_pieces(part, range, buffer, |_, piece| {
        hasher.update(piece);
    })
}

/// Reads a range of a file, a buffer's length at a time.
fn read_pieces(
    part: &PartFile,
    range: Range<u64>,
    buffer: &mut [u8],
    mut take: impl FnMut(u64, &[u8]),
) -> io::Result<()> {
    let mut at = range.start;
    while at < range.end {
        let len = (range.end - at).min(buffer.len() as u64) as usize;
        let piece = &mut buffer[..len];
        part.file()?.read_exact_at(piece, at)?;
        take(at, piece);
        at += piece.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use treecast_wire::header::{FileId, SessionId};

    use super::*;
    use crate::files::Journal;
    use crate::scratch::scratch;

    fn part(journal: &Journal, index: u32) -> PartFile {
        journal.part(FileId::new(SessionId(0), index), false).unwrap()
    }

    #[test]
    fn the_hash_is_right_in_whatever_order_the_bytes_arrive() {
        let path = scratch("stored");
        let (journal, _) = Journal::open(&TargetFolder::open(&path).unwrap(), SessionId(0), false).unwrap();
        let data: Vec<u8> = (0..2_000_000_u32).map(|at| (at % 249) as u8).collect();
        let orders: [&[Range<usize>]; 6] = [
            &[0..40_000, 40_000..100_000],
            &[0..1000, 5000..9000, 1000..5000, 9000..100_000],
            &[50_000..100_000, 20_000..60_000, 0..10, 10..20_000],
            &[0..60_000, 30_000..60_000, 60_000..2_000_000],
            &[700_000..2_000_000, 0..700_000],
            &[500_000..1_900_001, 1_900_001..2_000_000, 100_000..500_000, 0..100_001],
        ];
        for (index, order) in orders.into_iter().enumerate() {
            let mut stored = Stored::new(part(&journal, index as u32));
            let mut buffer = vec![0; 7000];
            for range in order {
                stored.write(range.start as u64, &data[range.clone()]).unwrap();
                if index % 2 == 0 {
                    stored.catch_up(&mut buffer).unwrap();
                }
            }
            let data = &data[..order.iter().map(|range| range.end).max().unwrap()];
            for time in 0..2 {
                let hash = stored.hash(&mut buffer).unwrap();
                assert_eq!(hash, *blake3::hash(data).as_bytes(), "{order:?}, time {time}");
            }
            assert!(!stored.is_behind());
        }
    }

    #[test]
    fn the_hash_is_of_the_bytes_that_came_last() {
        let path = scratch("stored-twice");
        let (journal, _) = Journal::open(&TargetFolder::open(&path).unwrap(), SessionId(0), false).unwrap();
        let mut stored = Stored::new(part(&journal, 0));
        let mut data = vec![1; 600_000];
        stored.write(0, &data).unwrap();
        data[1000..3000].fill(2);
        stored.write(1000, &[2; 2000]).unwrap();
        assert_eq!(stored.hash(&mut [0; 7000]).unwrap(), *blake3::hash(&data).as_bytes());
    }

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
    fn what_is_missing_lies_between_what_is_stored() {
        let path = scratch("stored-gaps");
        let (journal, _) = Journal::open(&TargetFolder::open(&path).unwrap(), SessionId(0), false).unwrap();
        let mut stored = Stored::new(part(&journal, 0));
        assert_eq!(stored.missing(5..9), [5..9]);
        stored.write(10, &[1; 10]).unwrap();
        stored.write(30, &[1; 10]).unwrap();
        assert_eq!(stored.missing(0..50), [0..10, 20..30, 40..50]);
        assert_eq!(stored.missing(15..35), [20..30]);
        assert_eq!(stored.missing(20..30), [20..30]);
        assert!(stored.missing(12..20).is_empty() && stored.missing(30..40).is_empty());
        stored.forget(15..32);
        assert_eq!(stored.missing(0..50), [0..10, 15..32, 40..50]);
        stored.forget(0..50);
        assert_eq!(stored.missing(0..50), [0..50]);
    }

    #[test]
    fn what_has_lain_on_the_disk_is_read_once_it_is_whole_and_not_before() {
        let path = scratch("stored-altered");
        let (journal, _) = Journal::open(&TargetFolder::open(&path).unwrap(), SessionId(0), false).unwrap();
        let data: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 249) as u8).collect();
        let part = part(&journal, 0);
        part.file().unwrap().write_all_at(&data[..700_000], 0).unwrap();
        let other = part.file().unwrap().try_clone().unwrap();
        let kept = 0..700_000;
        let mut stored = Stored::resumed(part, std::slice::from_ref(&kept));
        let mut buffer = vec![0; 7000];
        while stored.catch_up(&mut buffer).unwrap() {}
        stored.write(700_000, &data[700_000..]).unwrap();
        // By somebody else, while the rest was fetched.
        other.write_all_at(b"altered", 100).unwrap();
        let there = std::fs::read(path.join(".treecast-00000000.0.0.part")).unwrap();
        assert!(there != data);
        assert_eq!(stored.hash(&mut buffer).unwrap(), *blake3::hash(&there).as_bytes());
    }

    #[test]
    fn what_is_overwritten_is_hashed_again() {
        let path = scratch("overwritten");
        let (journal, _) = Journal::open(&TargetFolder::open(&path).unwrap(), SessionId(0), false).unwrap();
        let right: Vec<u8> = (0..50_000_u32).map(|at| (at % 249) as u8).collect();
        let mut wrong = right.clone();
        wrong[33_333] ^= 1;
        let mut stored = Stored::new(part(&journal, 0));
        let mut buffer = vec![0; 7000];
        stored.write(0, &wrong).unwrap();
        assert_eq!(stored.hash(&mut buffer).unwrap(), *blake3::hash(&wrong).as_bytes());
        stored.overwrite(20_000, &right[20_000..40_000], &mut buffer).unwrap();
        assert_eq!(stored.hash(&mut buffer).unwrap(), *blake3::hash(&right).as_bytes());
    }
}
