//! A file, folder or symbolic link to send. It is checked when it is opened, and watched for changes while it
//! is read.

use std::{
    collections::VecDeque,
    fmt,
    fs::{File, Metadata},
    io,
    os::unix::{
        ffi::OsStringExt,
        fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use treecast_host::{
    device::{self, Extent, Use},
    folder,
};
use treecast_wire::message::{Attributes, MODE_BITS, ModificationTime, ObjectKind};

use super::SourceError;
use crate::{
    chunk_index::IndexWriter,
    coding::{Encoder, SEGMENT_LEN},
    zeros::is_zero,
};

/// Bytes that are read at once where a file is read from its beginning to its end.
const RUN_LEN: u64 = 256 * 1024;

/// Files up to this size are read at once.
const SHORT_LEN: u64 = 256 * 1024;

/// The permission bits of bytes in memory: the owner may write, everybody may read.
const MEMORY_MODE: u32 = 0o644;

/// What must stay the same while a file is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    /// When it was modified: seconds and nanoseconds. `None` for a block device, of which nobody knows that.
    modified: Option<(i64, i64)>,
}

/// Something that is sent as one object. A file may be read at several positions in turn, and is open only
/// while it is read.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    identity: Identity,
    mode: u32,
    content: Content,
    /// Whether the file has holes, which are not read.
    is_sparse: bool,
    /// The stretch of the file that was read from last.
    extent: Extent,
    /// How it is compressed. `None` if it is sent as it is.
    coding: Option<Box<Coding>>,
    difference: Difference,
}

/// The part that an object has in an update by difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    None,
    /// The object before it is its index.
    Indexed,
    /// It is the index of the object behind it.
    Index,
}

/// How a source is compressed, and the segments that were read last.
#[derive(Debug)]
struct Coding {
    level: i32,
    /// `None` while nothing is read.
    encoder: Option<Encoder>,
    segments: VecDeque<(u64, Vec<u8>)>,
}

impl Coding {
    fn new(level: i32) -> Box<Self> {
        Box::new(Self { level, encoder: None, segments: VecDeque::new() })
    }

    /// The segment with this number as it is sent.
    fn encode(&mut self, number: u64, segment: Vec<u8>) -> io::Result<()> {
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            none => none.insert(Encoder::new(self.level)?),
        };
        let sent = encoder.encode(&segment)?.unwrap_or(segment);
        self.segments.truncate(MOST_SEGMENTS - 1);
        self.segments.push_front((number, sent));
        Ok(())
    }
}

/// The most segments that a source keeps as they are sent: reads go on in the middle of one.
const MOST_SEGMENTS: usize = 4;

/// The most segments that are compressed to see whether it pays.
const SAMPLES: u64 = 8;

/// The share of the samples, as a divisor, that compression must save.
const LEAST_SAVED: usize = 20;

/// Sources up to this size, in bytes, are not compressed: several of them share a packet.
const LEAST_COMPRESSED: u64 = 64 * 1024;

/// What an object's bytes are.
#[derive(Debug)]
enum Content {
    /// A regular file's, or a block device's.
    File(Option<File>),
    /// A folder has none.
    Folder,
    /// What a symbolic link points to.
    Link(Vec<u8>),
    /// The caller's bytes, which never change.
    Memory(Memory),
}

/// Bytes that the sender's caller has in memory.
#[derive(Clone)]
struct Memory(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", (*self.0).as_ref().len())
    }
}

impl Source {
    /// Opens the file once, to check that it can be read, and notes its size and time.
    ///
    /// # Errors
    /// If it is missing, unreadable or no regular file.
    pub fn new(path: &Path) -> Result<Self, SourceError> {
        let (file, identity) = open(path)?;
        let metadata = file.metadata().map_err(|source| unreadable(path, source))?;
        let mode = metadata.mode();
        let is_sparse = metadata.is_file() && metadata.blocks() * 512 < identity.size;
        Ok(Self { is_sparse, ..Self::with(path, identity, mode, Content::File(None)) })
    }

    /// The folder at `path`, without its content.
    ///
    /// # Errors
    /// If its status cannot be read.
    pub fn folder(path: &Path) -> Result<Self, SourceError> {
        let metadata = path.metadata().map_err(|source| unreadable(path, source))?;
        let identity = Identity { size: 0, ..Identity::of(&metadata) };
        Ok(Self::with(path, identity, metadata.mode(), Content::Folder))
    }

    /// The symbolic link at `path`, with its target.
    ///
    /// # Errors
    /// If its status cannot be read.
    pub fn link(path: &Path, target: PathBuf) -> Result<Self, SourceError> {
        let metadata = path.symlink_metadata().map_err(|source| unreadable(path, source))?;
        let target = target.into_os_string().into_vec();
        let identity = Identity { size: target.len() as u64, ..Identity::of(&metadata) };
        Ok(Self::with(path, identity, 0, Content::Link(target)))
    }

    /// Bytes in memory, as a file that was changed just now. Errors call it `name`. The bytes are dropped when nobody can ask
    /// for them any more.
    pub fn memory(name: &str, bytes: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let modified = Some((now.as_secs().cast_signed(), now.subsec_nanos().into()));
        let identity = Identity { device: 0, inode: 0, size: (*bytes).as_ref().len() as u64, modified };
        Self::with(Path::new(name), identity, MEMORY_MODE, Content::Memory(Memory(bytes)))
    }

    fn with(path: &Path, identity: Identity, mode: u32, content: Content) -> Self {
        let path = path.to_owned();
        Self {
            path,
            identity,
            mode,
            content,
            is_sparse: false,
            extent: Extent::default(),
            coding: None,
            difference: Difference::None,
        }
    }

    /// The attributes that receivers are told. `None` for a block device: its mode and time are not those of its content.
    pub fn attributes(&self) -> Option<Attributes> {
        let (seconds, nanoseconds) = self.identity.modified.or(self.is_index().then_some((0, 0)))?;
        Some(Attributes {
            kind: match self.content {
                _ if self.is_index() => ObjectKind::Index,
                Content::File(_) | Content::Memory(_) => ObjectKind::File,
                Content::Folder => ObjectKind::Folder,
                Content::Link(_) => ObjectKind::Link,
            },
            mode: self.mode as u16 & MODE_BITS,
            modified: ModificationTime { seconds, nanoseconds: nanoseconds as u32 },
        })
    }

    /// The same once more, to be read by somebody else.
    pub(crate) fn twin(&self) -> Self {
        let content = match &self.content {
            Content::File(_) => Content::File(None),
            Content::Folder => Content::Folder,
            Content::Link(target) => Content::Link(target.clone()),
            Content::Memory(memory) => Content::Memory(memory.clone()),
        };
        let is_sparse = self.is_sparse;
        let coding = self.coding.as_ref().map(|coding| Coding::new(coding.level));
        let difference = self.difference;
        Self { is_sparse, coding, difference, ..Self::with(&self.path, self.identity, self.mode, content) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the size of the source in bytes.
    pub fn size(&self) -> u64 {
        self.identity.size
    }

    /// Has the source compressed by zstd at this level from now on, if a sample of it becomes smaller. Returns whether it is.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn compress(&mut self, level: i32) -> Result<bool, SourceError> {
        let size = self.size();
        if size <= LEAST_COMPRESSED || !matches!(self.content, Content::File(_) | Content::Memory(_)) {
            return Ok(false);
        }
        let segments = size.div_ceil(SEGMENT_LEN);
        let path = self.path.clone();
        let failed = |source| unreadable(&path, source);
        let mut encoder = Encoder::new(level).map_err(failed)?;
        let (mut all, mut saved) = (0, 0);
        for sample in 0..segments.min(SAMPLES) {
            let segment = self.segment(sample * segments / segments.min(SAMPLES))?;
            let coded = encoder.encode(&segment).map_err(failed)?;
            // Zeros are saved in any case.
            all += if is_zero(&segment) { 0 } else { segment.len() };
            saved += coded.map_or(0, |coded| coded.iter().rev().take_while(|byte| **byte == 0).count());
        }
        self.close();
        if saved > all / LEAST_SAVED {
            self.coding = Some(Coding::new(level));
        }
        Ok(self.coding.is_some())
    }

    /// Reads the source, and returns its index, which is sent before it from now on. `None` if it has none. `goes_on` is asked
    /// now and then.
    ///
    /// # Errors
    /// If it cannot be read, or `goes_on` says no.
    pub(crate) fn index(&mut self, goes_on: impl Fn() -> bool) -> Result<Option<Self>, SourceError> {
        if !matches!(self.content, Content::File(_) | Content::Memory(_)) || self.is_compressed() {
            return Ok(None);
        }
        let Some(mut writer) = IndexWriter::new(self.size()) else { return Ok(None) };
        if !self.read_all(goes_on, |run| writer.update(run))? {
            return Err(SourceError::Interrupted);
        }
        self.close();
        self.difference = Difference::Indexed;
        let index = writer.finish();
        let identity = Identity { size: index.len() as u64, ..self.identity };
        let content = Content::Memory(Memory(Arc::new(index)));
        Ok(Some(Self { difference: Difference::Index, ..Self::with(&self.path, identity, 0, content) }))
    }

    /// Whether the source is the index of the one behind it.
    pub fn is_index(&self) -> bool {
        self.difference == Difference::Index
    }

    /// Whether the source before this one is its index.
    pub fn has_index(&self) -> bool {
        self.difference == Difference::Indexed
    }

    /// Whether the source is compressed.
    pub fn is_compressed(&self) -> bool {
        self.coding.is_some()
    }

    /// The segment with this number, as it is in the file.
    fn segment(&mut self, number: u64) -> Result<Vec<u8>, SourceError> {
        let start = number * SEGMENT_LEN;
        let mut segment = vec![0; self.size().saturating_sub(start).min(SEGMENT_LEN) as usize];
        self.read_file(start, &mut segment)?;
        Ok(segment)
    }

    /// The bytes of an object in memory, as they are sent. `None` for other objects, and where they are compressed.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Memory(Memory(bytes)) if self.coding.is_none() => Some((**bytes).as_ref()),
            _ => None,
        }
    }

    /// Reads bytes from `position` on into `into`, as they are sent.
    ///
    /// # Errors
    /// If the file was replaced, ends too early, or cannot be read.
    pub fn read(&mut self, position: u64, into: &mut [u8]) -> Result<(), SourceError> {
        if self.coding.is_none() {
            return self.read_file(position, into);
        }
        let (mut at, mut rest) = (position, into);
        while !rest.is_empty() {
            let (number, start) = (at / SEGMENT_LEN, (at % SEGMENT_LEN) as usize);
            let segment = self.sent_segment(number)?;
            let Some(piece) = segment.get(start..).filter(|piece| !piece.is_empty()) else {
                return Err(SourceError::Shrunk { path: self.path.clone() });
            };
            let len = rest.len().min(piece.len());
            let (into, others) = rest.split_at_mut(len);
            into.copy_from_slice(&piece[..len]);
            (at, rest) = (at + len as u64, others);
        }
        Ok(())
    }

    /// The segment with this number, as it is sent.
    fn sent_segment(&mut self, number: u64) -> Result<&[u8], SourceError> {
        let is_it = |(its, _): &(u64, Vec<u8>)| *its == number;
        if !self.coding.as_ref().is_some_and(|coding| coding.segments.iter().any(is_it)) {
            let segment = self.segment(number)?;
            let path = &self.path;
            let encoded = self.coding.as_mut().map(|coding| coding.encode(number, segment));
            encoded.transpose().map_err(|source| unreadable(path, source))?;
        }
        let segments = self.coding.iter().flat_map(|coding| &coding.segments);
        Ok(segments.into_iter().find(|one| is_it(one)).map_or(&[], |(_, segment)| segment))
    }

    /// Reads bytes of the file.
    fn read_file(&mut self, position: u64, into: &mut [u8]) -> Result<(), SourceError> {
        let file = match &mut self.content {
            Content::File(Some(file)) => file,
            Content::File(file) => file.insert(reopen(&self.path, self.identity)?),
            Content::Folder => return Ok(()),
            Content::Link(target) => return copy(&self.path, target, position, into),
            Content::Memory(Memory(bytes)) => return copy(&self.path, (**bytes).as_ref(), position, into),
        };
        let read = match self.is_sparse {
            true => read_sparse(file, &mut self.extent, position, into),
            false => file.read_exact_at(into, position),
        };
        read.map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => SourceError::Shrunk { path: self.path.clone() },
            _ => SourceError::Unreadable { path: self.path.clone(), source },
        })
    }

    /// Reads everything in order, a run at a time, and closes the file. Returns false when `goes_on` says that it is not
    /// wanted any more.
    ///
    /// # Errors
    /// When it cannot be read, or has changed.
    pub(crate) fn read_all(
        &mut self,
        goes_on: impl Fn() -> bool,
        mut take: impl FnMut(&[u8]),
    ) -> Result<bool, SourceError> {
        let (size, mut position) = (self.size(), 0);
        let mut run = vec![0; size.min(RUN_LEN) as usize];
        while position < size {
            if !goes_on() {
                return Ok(false);
            }
            let run = &mut run[..(size - position).min(RUN_LEN) as usize];
            self.read(position, run)?;
            take(run);
            position += run.len() as u64;
        }
        self.check_unchanged()?;
        self.close();
        Ok(true)
    }

    /// Checks that the file has not changed since it was opened.
    ///
    /// # Errors
    /// If its size, its time of change, or the file behind its name has changed.
    pub fn check_unchanged(&self) -> Result<(), SourceError> {
        let failed = |source| unreadable(&self.path, source);
        let now = match &self.content {
            Content::File(Some(file)) => identity(file)
                .map_err(failed)?
                .ok_or_else(|| SourceError::Changed { path: self.path.clone() })?,
            Content::File(None) => open(&self.path)?.1,
            // What comes into a folder meanwhile is not in the set.
            Content::Folder | Content::Memory(_) => return Ok(()),
            Content::Link(target) => {
                let now = std::fs::read_link(&self.path).map_err(failed)?.into_os_string().into_vec();
                return match now == *target {
                    true => Ok(()),
                    false => Err(SourceError::Changed { path: self.path.clone() }),
                };
            }
        };
        compare(&self.path, self.identity, now)
    }

    /// Whether reading it opens no file.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.content, Content::File(None))
    }

    /// Closes the file until it is read again.
    pub fn close(&mut self) {
        if let Content::File(file) = &mut self.content {
            *file = None;
        }
        if let Some(coding) = &mut self.coding {
            (coding.encoder, coding.segments) = (None, VecDeque::new());
        }
    }
}

/// Reads what is stored, and leaves out holes. `extent` is the stretch that was read from last.
fn read_sparse(file: &File, extent: &mut Extent, position: u64, into: &mut [u8]) -> io::Result<()> {
    let (mut at, mut rest) = (position, into);
    while !rest.is_empty() {
        if !extent.range.contains(&at) {
            *extent = device::extent_at(file, at)?;
        }
        let len = rest.len().min(usize::try_from(extent.range.end - at).unwrap_or(usize::MAX));
        let (piece, others) = rest.split_at_mut(len);
        match extent.is_hole {
            true => piece.fill(0),
            false => file.read_exact_at(piece, at)?,
        }
        (at, rest) = (at + len as u64, others);
    }
    Ok(())
}

/// Copies a part of `bytes`, the content of what errors call `path`.
fn copy(path: &Path, bytes: &[u8], position: u64, into: &mut [u8]) -> Result<(), SourceError> {
    let from = usize::try_from(position).ok().and_then(|start| bytes.get(start..start + into.len()));
    into.copy_from_slice(from.ok_or_else(|| SourceError::Shrunk { path: path.to_owned() })?);
    Ok(())
}

fn unreadable(path: &Path, source: io::Error) -> SourceError {
    SourceError::Unreadable { path: path.to_owned(), source }
}

fn open(path: &Path) -> Result<(File, Identity), SourceError> {
    let metadata = path.metadata().map_err(|source| unreadable(path, source))?;
    if !is_sendable(&metadata) {
        return Err(SourceError::NotRegular { path: path.to_owned() });
    }
    if metadata.file_type().is_block_device() {
        check_unused(path)?;
    }
    open_again(path)
}

fn is_sendable(metadata: &Metadata) -> bool {
    metadata.is_file() || metadata.file_type().is_block_device()
}

/// Refuses a device that changes while it is sent: receivers would get an image that never was.
fn check_unused(path: &Path) -> Result<(), SourceError> {
    let changes = |its: &Use| !matches!(its, Use::Mounted { is_writable: false, .. } | Use::Held { .. });
    match device::uses(path).into_iter().find(changes) {
        Some(its) => Err(SourceError::InUse { path: path.to_owned(), its }),
        None => Ok(()),
    }
}

/// Opens what has been a file.
fn open_again(path: &Path) -> Result<(File, Identity), SourceError> {
    let unreadable = |source| unreadable(path, source);
    // Opening a pipe would wait for its other end otherwise.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(unreadable)?;
    let identity = identity(&file).map_err(unreadable)?;
    identity.map(|identity| (file, identity)).ok_or_else(|| SourceError::NotRegular { path: path.to_owned() })
}

fn reopen(path: &Path, expected: Identity) -> Result<File, SourceError> {
    let (file, now) = open_again(path)?;
    compare(path, expected, now)?;
    if now.size <= SHORT_LEN {
        return Ok(file);
    }
    folder::read_ahead(&file);
    Ok(file)
}

fn compare(path: &Path, expected: Identity, now: Identity) -> Result<(), SourceError> {
    let path = path.to_owned();
    if now.size < expected.size {
        return Err(SourceError::Shrunk { path });
    }
    if now != expected { Err(SourceError::Changed { path }) } else { Ok(()) }
}

/// `None` for what is neither a file nor a block device.
fn identity(file: &File) -> io::Result<Option<Identity>> {
    let metadata = file.metadata()?;
    let identity = Identity::of(&metadata);
    Ok(match metadata.file_type().is_block_device() {
        true => {
            Some(Identity { device: metadata.rdev(), inode: 0, size: device::size(file)?, modified: None })
        }
        false => metadata.is_file().then_some(identity),
    })
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: Some((metadata.mtime(), metadata.mtime_nsec())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::scratch;

    #[test]
    fn shrinking_and_changing_are_noticed() {
        let folder = scratch("source");
        let path = folder.join("file");
        std::fs::write(&path, [1; 1000]).unwrap();
        let mut source = Source::new(&path).unwrap();
        let mut bytes = [0; 600];
        source.read(400, &mut bytes).unwrap();
        source.check_unchanged().unwrap();

        File::options().write(true).open(&path).unwrap().set_len(900).unwrap();
        let error = source.read(400, &mut bytes).unwrap_err();
        assert!(matches!(error, SourceError::Shrunk { .. }), "{error}");
        assert!(matches!(source.check_unchanged(), Err(SourceError::Shrunk { .. })));

        std::fs::write(&path, [2; 2000]).unwrap();
        assert!(matches!(source.check_unchanged(), Err(SourceError::Changed { .. })));
    }

    #[test]
    fn holes_are_zeros() {
        let folder = scratch("source-holes");
        let path = folder.join("sparse");
        let file = File::create(&path).unwrap();
        file.set_len(4 << 20).unwrap();
        for at in [0, 1_000_000, 3_000_000] {
            file.write_all_at(&[7; 5000], at).unwrap();
        }
        let mut source = Source::new(&path).unwrap();
        assert!(source.is_sparse);
        let mut bytes = Vec::new();
        assert!(source.read_all(|| true, |run| bytes.extend_from_slice(run)).unwrap());
        assert!(bytes == std::fs::read(&path).unwrap());
        file.set_len(2 << 20).unwrap();
        let error = source.read(0, &mut bytes[..10]).unwrap_err();
        assert!(matches!(error, SourceError::Shrunk { .. }), "{error}");
    }

    #[test]
    fn a_compressed_source_is_read_anywhere_and_as_often_as_one_likes() {
        let folder = scratch("source-coded");
        let path = folder.join("text");
        let text: Vec<u8> = (0..900_000_u32).flat_map(|at| (at / 100).to_le_bytes()).collect();
        std::fs::write(&path, &text).unwrap();
        let mut source = Source::new(&path).unwrap();
        assert!(source.compress(3).unwrap() && source.is_compressed());
        let mut sent = Vec::new();
        assert!(source.read_all(|| true, |run| sent.extend_from_slice(run)).unwrap());
        assert_eq!(sent.len(), text.len());
        assert!(sent.iter().filter(|byte| **byte == 0).count() > text.len() / 2 && sent != text);
        for (start, len) in [(3_000_000, 600_000), (0, 10), (262_100, 100), (3_599_999, 1)] {
            let mut piece = vec![1; len];
            source.twin().read(start as u64, &mut piece).unwrap();
            assert!(piece == sent[start..start + len]);
            source.read(start as u64, &mut piece).unwrap();
            assert!(piece == sent[start..start + len]);
        }
        let mut back = Vec::new();
        for segment in sent.chunks(SEGMENT_LEN as usize) {
            back.extend(crate::coding::decoded(segment).unwrap().unwrap_or_else(|| segment.to_vec()));
        }
        assert!(back == text);
    }

    #[test]
    fn what_does_not_become_smaller_or_is_short_is_not_compressed() {
        let mut noise = vec![0; 500_000];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        for content in [noise, vec![7; 60_000]] {
            assert!(!Source::memory("bytes", Arc::new(content)).compress(3).unwrap());
        }
        let mut source = Source::memory("bytes", Arc::new(vec![7; 70_000]));
        assert!(source.compress(3).unwrap());
    }

    #[test]
    fn what_is_no_file_is_refused_in_one_line() {
        let missing = Source::new(Path::new("/no/such/file")).unwrap_err().to_string();
        assert!(missing.contains("/no/such/file") && !missing.contains('\n'), "{missing}");
        assert!(matches!(Source::new(Path::new("/dev/null")), Err(SourceError::NotRegular { .. })));
    }
}
