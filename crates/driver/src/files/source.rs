//! A file, folder or symbolic link to send. It is checked when it is opened, and watched for changes while it
//! is read.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fmt,
    fs::{File, Metadata},
    io,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{FileExt, FileTypeExt, MetadataExt},
    },
    path::Path,
    sync::Arc,
    time::SystemTime,
};

use treecast_host::{
    device::{self, Extent},
    folder::{self, Status},
};
use treecast_wire::message::{Attributes, MODE_BITS, ModificationTime, ObjectKind};

use super::{Change, Place, SourceError};
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

/// The properties that must stay the same while a file is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    /// The time of modification: seconds and nanoseconds. `None` for a block device, of which nobody knows it.
    modified: Option<(i64, i64)>,
}

/// Something that is sent as one object. A file may be read at several positions in turn, and is open only
/// while it is read.
#[derive(Debug)]
pub struct Source {
    place: Place,
    identity: Identity,
    mode: u32,
    content: Content,
    /// Whether the file has holes, which are not read.
    is_sparse: bool,
    /// The stretch of the file that was read from last.
    extent: Extent,
    /// The way in which it is compressed. `None` if it is sent as it is.
    coding: Option<Box<Coding>>,
    difference: Difference,
}

/// The part that an object has in an update by difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    None,
    /// The object before it is its index.
    Indexed,
    /// The source is the index of the object behind it.
    Index,
}

/// The compression of a source, and the segments that were read last.
#[derive(Debug)]
struct Coding {
    level: i32,
    /// The compressor. `None` while nothing is read.
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

/// The origin of an object's bytes.
#[derive(Debug)]
enum Content {
    /// A regular file's, or a block device's.
    File(Option<File>),
    /// A folder has none.
    Folder,
    /// The target of a symbolic link.
    Link(Vec<u8>),
    /// The caller's bytes, which never change.
    Memory(Memory),
    /// A file that grows while this process prints. It is listed, and cannot be sent.
    OwnOutput,
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
    /// Opens the file that a user has named once, to check that it can be read, and notes its size and time.
    ///
    /// # Errors
    /// If it is missing, unreadable or no regular file.
    pub fn new(path: &Path) -> Result<Self, SourceError> {
        let place = Place::named(path);
        let file = place.open()?;
        Self::of_file(place, &file)
    }

    /// The file at a place, which is open.
    ///
    /// # Errors
    /// If its status cannot be read.
    pub(crate) fn of_file(place: Place, file: &File) -> Result<Self, SourceError> {
        let failed = |source| place.unreadable(source);
        let metadata = file.metadata().map_err(failed)?;
        let identity = identity(file, &metadata).map_err(failed)?;
        let is_sparse = metadata.is_file() && metadata.blocks() * 512 < identity.size;
        let content = if is_own_output(&metadata) { Content::OwnOutput } else { Content::File(None) };
        Ok(Self { is_sparse, ..Self::with(place, identity, metadata.mode(), content) })
    }

    /// The folder at a place, which is open, without its content.
    ///
    /// # Errors
    /// If its status cannot be read.
    pub(super) fn of_folder(place: Place, folder: &File) -> Result<Self, SourceError> {
        let metadata = folder.metadata().map_err(|source| place.unreadable(source))?;
        let identity = Identity { size: 0, ..Identity::of(&metadata) };
        Ok(Self::with(place, identity, metadata.mode(), Content::Folder))
    }

    /// The symbolic link at a place, with its target.
    pub(super) fn of_link(place: Place, target: OsString, status: &Status) -> Self {
        let target = target.into_vec();
        let modified = Some((status.modified.seconds, status.modified.nanoseconds.into()));
        let (device, inode) = status.inode;
        let identity = Identity { device, inode, size: target.len() as u64, modified };
        Self::with(place, identity, 0, Content::Link(target))
    }

    /// Bytes in memory, as a file that was changed just now. Errors call it `name`. The bytes are dropped when nobody can ask
    /// for them any more.
    pub fn memory(name: &str, bytes: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let modified = Some((now.as_secs().cast_signed(), now.subsec_nanos().into()));
        let identity = Identity { device: 0, inode: 0, size: (*bytes).as_ref().len() as u64, modified };
        Self::with(Place::named(Path::new(name)), identity, MEMORY_MODE, Content::Memory(Memory(bytes)))
    }

    fn with(place: Place, identity: Identity, mode: u32, content: Content) -> Self {
        Self {
            place,
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
                Content::File(_) | Content::Memory(_) | Content::OwnOutput => ObjectKind::File,
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
            Content::OwnOutput => Content::OwnOutput,
        };
        let is_sparse = self.is_sparse;
        let coding = self.coding.as_ref().map(|coding| Coding::new(coding.level));
        let difference = self.difference;
        Self {
            is_sparse,
            coding,
            difference,
            ..Self::with(self.place.clone(), self.identity, self.mode, content)
        }
    }

    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// Returns the size of the source in bytes.
    pub fn size(&self) -> u64 {
        self.identity.size
    }

    /// Compresses the source by zstd at this level from now on, if a sample of it becomes smaller. Returns whether it
    /// is compressed.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn compress(&mut self, level: i32) -> Result<bool, SourceError> {
        let size = self.size();
        if size <= LEAST_COMPRESSED || !matches!(self.content, Content::File(_) | Content::Memory(_)) {
            return Ok(false);
        }
        let segments = size.div_ceil(SEGMENT_LEN);
        let place = self.place.clone();
        let failed = |source| place.unreadable(source);
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
        Ok(Some(Self {
            difference: Difference::Index,
            ..Self::with(self.place.clone(), identity, 0, content)
        }))
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
                return Err(self.place.changed(Change::Shorter));
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
            let place = &self.place;
            let encoded = self.coding.as_mut().map(|coding| coding.encode(number, segment));
            encoded.transpose().map_err(|source| place.unreadable(source))?;
        }
        let segments = self.coding.iter().flat_map(|coding| &coding.segments);
        Ok(segments.into_iter().find(|one| is_it(one)).map_or(&[], |(_, segment)| segment))
    }

    /// Reads bytes of the file.
    fn read_file(&mut self, position: u64, into: &mut [u8]) -> Result<(), SourceError> {
        let file = match &mut self.content {
            Content::File(Some(file)) => file,
            Content::File(file) => file.insert(reopen(&self.place, self.identity)?),
            Content::Folder => return Ok(()),
            Content::Link(target) => return copy(&self.place, target, position, into),
            Content::Memory(Memory(bytes)) => return copy(&self.place, (**bytes).as_ref(), position, into),
            Content::OwnOutput => return Err(self.place.changed(Change::OwnOutput)),
        };
        let read = match self.is_sparse {
            true => read_sparse(file, &mut self.extent, position, into),
            false => file.read_exact_at(into, position),
        };
        read.map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => self.place.changed(Change::Shorter),
            _ => self.place.unreadable(source),
        })
    }

    /// Reads everything in order, a run at a time, and closes the file. Returns false when `goes_on` says that it is not
    /// wanted any more.
    ///
    /// # Errors
    /// If it cannot be read, or has changed.
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

    /// Checks that the file has not changed since it was opened, and that it ends where its size says.
    ///
    /// # Errors
    /// If its size, its time of change, or the file behind its name has changed, or there is more to read.
    pub fn check_unchanged(&self) -> Result<(), SourceError> {
        match &self.content {
            Content::File(Some(file)) => self.check_file(file),
            Content::File(None) => {
                if self.identity.modified.is_none() {
                    self.place.check_unused()?;
                }
                self.check_file(&self.place.open_again()?)
            }
            Content::Folder => self.check_folder(),
            Content::Memory(_) => Ok(()),
            Content::Link(target) => match self.place.root().map(|(root, below)| root.link(below)) {
                Some(Ok((now, _))) if now.as_bytes() == target => Ok(()),
                Some(Err(error)) => Err(self.place.lost(error)),
                _ => Err(self.place.changed(Change::Replaced)),
            },
            Content::OwnOutput => Err(self.place.changed(Change::OwnOutput)),
        }
    }

    fn check_file(&self, file: &File) -> Result<(), SourceError> {
        let metadata = file.metadata().map_err(|source| self.place.unreadable(source))?;
        let now = identity(file, &metadata).map_err(|source| self.place.unreadable(source))?;
        compare(&self.place, self.identity, now)?;
        // Files of the kernel and of some file systems have a size of 0 and content.
        let is_longer = file.read_at(&mut [0], self.size()).is_ok_and(|read| read > 0);
        if is_longer { Err(self.place.changed(Change::Unbounded)) } else { Ok(()) }
    }

    /// Checks that the folder is still there. What comes into it meanwhile is not in the set.
    fn check_folder(&self) -> Result<(), SourceError> {
        let Some((root, below)) = self.place.root() else { return Ok(()) };
        let folder = File::from(root.folder(below).map_err(|error| self.place.lost(error))?);
        let metadata = folder.metadata().map_err(|source| self.place.unreadable(source))?;
        // The folder that was named is open, and outlives its name.
        if metadata.nlink() == 0 { Err(self.place.changed(Change::Removed)) } else { Ok(()) }
    }

    /// Opens the file once more, to be read by somebody else.
    ///
    /// # Errors
    /// If it has changed, or cannot be read.
    pub(crate) fn open(&self) -> Result<File, SourceError> {
        reopen(&self.place, self.identity)
    }

    /// Whether it is a folder, without its content.
    pub(crate) fn is_folder(&self) -> bool {
        matches!(self.content, Content::Folder)
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

/// Copies a part of `bytes`, the content of what is at `place`.
fn copy(place: &Place, bytes: &[u8], position: u64, into: &mut [u8]) -> Result<(), SourceError> {
    let from = usize::try_from(position).ok().and_then(|start| bytes.get(start..start + into.len()));
    into.copy_from_slice(from.ok_or_else(|| place.changed(Change::Shorter))?);
    Ok(())
}

fn reopen(place: &Place, expected: Identity) -> Result<File, SourceError> {
    let failed = |source| place.unreadable(source);
    let file = place.open_again()?;
    let now = identity(&file, &file.metadata().map_err(failed)?).map_err(failed)?;
    compare(place, expected, now)?;
    if now.size > SHORT_LEN {
        folder::read_ahead(&file);
    }
    Ok(file)
}

fn compare(place: &Place, expected: Identity, now: Identity) -> Result<(), SourceError> {
    let how = match now {
        _ if now == expected => return Ok(()),
        _ if (now.device, now.inode) != (expected.device, expected.inode) => Change::Replaced,
        _ if now.size < expected.size => Change::Shorter,
        _ if now.size > expected.size => Change::Longer,
        _ => Change::Modified,
    };
    Err(place.changed(how))
}

/// The identity of an open file or block device.
fn identity(file: &File, metadata: &Metadata) -> io::Result<Identity> {
    Ok(match metadata.file_type().is_block_device() {
        true => Identity { device: metadata.rdev(), inode: 0, size: device::size(file)?, modified: None },
        false => Identity::of(metadata),
    })
}

/// Whether what this process prints goes into a file.
fn is_own_output(metadata: &Metadata) -> bool {
    let its = (metadata.dev(), metadata.ino());
    let is_its =
        |output: io::Result<Status>| output.is_ok_and(|output| output.is_file() && output.inode == its);
    metadata.is_file()
        && (is_its(folder::status_at(io::stdout(), c"")) || is_its(folder::status_at(io::stderr(), c"")))
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
        assert!(error.to_string().contains("became shorter"), "{error}");
        let change = |source: &Source| match source.check_unchanged() {
            Err(SourceError::Changed { how, .. }) => Some(how),
            _ => None,
        };
        assert_eq!(change(&source), Some(Change::Shorter));
        std::fs::write(&path, [2; 2000]).unwrap();
        assert_eq!(change(&source), Some(Change::Longer));
        std::fs::write(&path, [2; 1000]).unwrap();
        assert_eq!(change(&source), Some(Change::Modified));
        source.close();
        std::fs::write(folder.join("other"), [1; 1000]).unwrap();
        std::fs::rename(folder.join("other"), &path).unwrap();
        assert_eq!(change(&source), Some(Change::Replaced));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(change(&source), Some(Change::Removed));
        std::fs::create_dir(&path).unwrap();
        assert_eq!(change(&source), Some(Change::Replaced));
    }

    /// It was sent as an empty one.
    #[test]
    fn a_folder_that_is_removed_is_noticed_at_the_top_and_below() {
        let folder = scratch("source-folder");
        std::fs::create_dir_all(folder.join("tree/below")).unwrap();
        let found = crate::files::find_sources(&[folder.join("tree")]).unwrap().sources;
        let changes = || {
            let checked = found.iter().map(|named| named.source.check_unchanged());
            checked.map(|result| result.err().map(|error| error.to_string())).collect::<Vec<_>>()
        };
        std::fs::write(folder.join("tree/new"), "x").unwrap();
        assert_eq!(changes(), [None, None], "what comes into it changes nothing");
        std::fs::remove_dir(folder.join("tree/below")).unwrap();
        let [None, Some(below)] = &changes()[..] else { panic!("{:?}", changes()) };
        assert!(below.contains("below was removed"), "{below}");
        std::fs::remove_dir_all(folder.join("tree")).unwrap();
        assert!(changes().iter().all(Option::is_some), "{:?}", changes());
    }

    #[test]
    fn a_file_that_holds_more_than_its_size_says_is_noticed() {
        let source = Source::new(Path::new("/proc/self/status")).unwrap();
        assert_eq!(source.size(), 0);
        let error = source.check_unchanged().unwrap_err();
        assert!(error.to_string().contains("holds more than its size says"), "{error}");
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
        assert!(error.to_string().contains("became shorter"), "{error}");
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
