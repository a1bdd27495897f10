//! The objects of a session and the reading of them: ahead in large pieces, hashed on the way.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

use treecast_wire::{header::FileId, message::ChunkHashes};

use crate::{
    chunk_tree::{ChunkHasher, ChunkTree},
    files::{Change, NamedSource, Source, SourceError},
};
use treecast_host::file_limit;

/// The number of bytes that are read, and hashed, at once: enough for BLAKE3 to be at its best, and little enough to
/// be in a core's second-level cache still when it is sent.
const READ_AHEAD_LEN: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct SourceTable {
    objects: BTreeMap<FileId, Object>,
    /// Objects whose files are open, the one that was opened first in front.
    open: VecDeque<FileId>,
    /// Upper bound of files that are open at a time.
    most_open: usize,
}

impl Default for SourceTable {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), open: VecDeque::new(), most_open: file_limit::for_objects() }
    }
}

#[derive(Debug)]
struct Object {
    named: NamedSource,
    /// The hasher. `None` before the first byte, and once it has given the hash.
    hasher: Option<Box<ChunkHasher>>,
    /// The tree of chunks, from the hash on until the object is over. `None` if it is a single chunk.
    tree: Option<ChunkTree>,
    /// The position up to which everything is in `hasher`.
    hashed: u64,
    /// The bytes that are read ahead, from `ahead_at` on in the object. Empty unless the object is being sent.
    ahead: Vec<u8>,
    ahead_at: u64,
    /// Whether it has been over.
    was_over: bool,
}

impl SourceTable {
    pub fn add(&mut self, file: FileId, named: NamedSource) {
        let object = Object {
            named,
            hasher: None,
            tree: None,
            hashed: 0,
            ahead: Vec::new(),
            ahead_at: 0,
            was_over: false,
        };
        self.objects.insert(file, object);
    }

    pub fn name(&self, file: FileId) -> &str {
        self.objects.get(&file).map_or("a file", |object| &object.named.name)
    }

    pub fn size(&self, file: FileId) -> u64 {
        self.objects.get(&file).map_or(0, |object| object.named.source.size())
    }

    /// Whether the object is the index of another.
    pub fn is_index(&self, file: FileId) -> bool {
        self.objects.get(&file).is_some_and(|object| object.named.source.is_index())
    }

    /// Whether the object is sent by difference, and so not read from its beginning to its end.
    pub fn has_index(&self, file: FileId) -> bool {
        self.objects.get(&file).is_some_and(|object| object.named.source.has_index())
    }

    /// The file of an object.
    pub fn source(&mut self, file: FileId) -> Option<&mut Source> {
        self.objects.get_mut(&file).map(|object| &mut object.named.source)
    }

    /// The bytes `range` of an object, which are asked for in order, each once.
    pub fn read_in_order(&mut self, file: FileId, range: Range<u64>) -> Result<&[u8], SourceError> {
        self.note_open(file);
        if let Some(object) = self.objects.get_mut(&file) { object.read_in_order(range) } else { Ok(&[]) }
    }

    /// Reads any bytes of an object.
    pub fn read_any(&mut self, file: FileId, position: u64, into: &mut [u8]) -> Result<(), SourceError> {
        self.note_open(file);
        let Some(object) = self.objects.get_mut(&file) else { return Ok(()) };
        object.named.source.read(position, into)
    }

    /// Fails when an object's file is not the one that it was.
    pub fn check_unchanged(&self, file: FileId) -> Result<(), SourceError> {
        self.objects.get(&file).map_or(Ok(()), |object| object.named.source.check_unchanged())
    }

    /// Reads any bytes of an object that is sent again and again. At its end, sees that the file is still the same, and
    /// closes it.
    pub fn read_again(&mut self, file: FileId, position: u64, into: &mut [u8]) -> Result<(), SourceError> {
        self.read_any(file, position, into)?;
        let Some(object) = self.objects.get_mut(&file) else { return Ok(()) };
        let source = &mut object.named.source;
        if position + into.len() as u64 == source.size() {
            source.check_unchanged()?;
            source.close();
        }
        Ok(())
    }

    /// An object's file is about to be open: the first of too many is closed.
    fn note_open(&mut self, file: FileId) {
        if self.objects.get(&file).is_none_or(|object| object.named.source.is_open()) {
            return;
        }
        self.open.retain(|open| *open != file);
        while self.open.len() >= self.most_open
            && let Some(oldest) = self.open.pop_front()
        {
            if let Some(object) = self.objects.get_mut(&oldest) {
                object.named.source.close();
            }
        }
        self.open.push_back(file);
    }

    /// The object's hash, once it has been read to its end and has not changed meanwhile. It is not to be
    /// read in order any more.
    pub fn hash(&mut self, file: FileId) -> Option<Result<[u8; 32], SourceError>> {
        let object = self.objects.get_mut(&file)?;
        if object.hashed != object.named.source.size() {
            return None;
        }
        object.ahead = Vec::new();
        let size = object.named.source.size();
        let hasher = object.hasher.take().unwrap_or_else(|| Box::new(ChunkHasher::new(size)));
        if let Err(error) = object.named.source.check_unchanged() {
            return Some(Err(error));
        }
        let (hash, tree) = hasher.finish();
        object.tree = tree;
        Some(Ok(hash))
    }

    /// A page of the hashes of an object's chunks, once the object's is known.
    pub fn chunk_hashes(&self, file: FileId, page: u32) -> Option<ChunkHashes> {
        self.objects.get(&file)?.tree.as_ref()?.page(page)
    }

    /// Takes note that nothing of an object is read for now. Returns the object's name and size, and whether
    /// this happens for the first time.
    pub fn finish(&mut self, file: FileId) -> (String, u64, bool) {
        self.open.retain(|open| *open != file);
        let Some(object) = self.objects.get_mut(&file) else { return ("a file".into(), 0, false) };
        object.named.source.close();
        object.ahead = Vec::new();
        object.tree = None;
        let is_first = !std::mem::replace(&mut object.was_over, true);
        (object.named.name.clone(), object.named.source.size(), is_first)
    }

    /// Forgets an object: nothing more of it is sent. Returns its name and size.
    pub fn remove(&mut self, file: FileId) -> (String, u64) {
        let object = self.objects.remove(&file);
        object.map_or_else(|| ("a file".into(), 0), |object| (object.named.name, object.named.source.size()))
    }
}

impl Object {
    fn read_in_order(&mut self, range: Range<u64>) -> Result<&[u8], SourceError> {
        if self.named.source.bytes().is_some() {
            return self.bytes_in_order(range);
        }
        let len = (range.end - range.start) as usize;
        if range.start < self.ahead_at || range.end > self.ahead_at + self.ahead.len() as u64 {
            self.fill(range.start, len)?;
        }
        let at = (range.start - self.ahead_at) as usize;
        Ok(&self.ahead[at..at + len])
    }

    /// The bytes `range` of an object in memory, where they are. What is new is hashed, in large pieces.
    fn bytes_in_order(&mut self, range: Range<u64>) -> Result<&[u8], SourceError> {
        let source = &self.named.source;
        let (size, path) = (source.size(), source.path());
        let bytes = source.bytes().filter(|bytes| bytes.len() as u64 == size);
        let bytes =
            bytes.ok_or_else(|| SourceError::Changed { path: path.to_owned(), how: Change::Shorter })?;
        if range.contains(&self.hashed) {
            let end = (self.hashed + READ_AHEAD_LEN as u64).min(size).max(range.end);
            let hasher = self.hasher.get_or_insert_with(|| Box::new(ChunkHasher::new(size)));
            hasher.update(&bytes[self.hashed as usize..end as usize]);
            self.hashed = end;
        }
        Ok(&bytes[range.start as usize..range.end as usize])
    }

    /// Reads from `start` on as many pieces of `len` bytes as fit, and hashes what is new.
    fn fill(&mut self, start: u64, len: usize) -> Result<(), SourceError> {
        let pieces = (READ_AHEAD_LEN / len.max(1)).max(1);
        let left = self.named.source.size().saturating_sub(start);
        let want = ((pieces * len) as u64).min(left).max(len as u64) as usize;
        self.ahead.resize(want, 0);
        self.ahead_at = start;
        if let Err(error) = self.named.source.read(start, &mut self.ahead) {
            self.ahead.clear();
            return Err(error);
        }
        let end = start + want as u64;
        if (start..end).contains(&self.hashed) {
            let size = self.named.source.size();
            let hasher = self.hasher.get_or_insert_with(|| Box::new(ChunkHasher::new(size)));
            hasher.update(&self.ahead[(self.hashed - start) as usize..]);
            self.hashed = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::files::find_sources;

    #[test]
    fn objects_that_take_turns_are_read_and_hashed_right() {
        let folder = crate::scratch::scratch("source-table");
        let contents =
            |seed: usize, len: usize| (0..len).map(|at| (at * seed % 253) as u8).collect::<Vec<_>>();
        let data = [contents(3, 700_000), contents(5, 300_001), contents(7, 600_000)];
        let mut table = SourceTable::default();
        for (index, data) in data.iter().enumerate().take(2) {
            let path = folder.join(index.to_string());
            std::fs::write(&path, data).unwrap();
            table.add(FileId(index as u64), find_sources(&[path]).unwrap().sources.remove(0));
        }
        let in_memory = Arc::new(data[2].clone());
        let source = Source::memory("2", in_memory.clone());
        table.add(FileId(2), NamedSource { name: "2".to_owned(), source });
        for start in (0..700_000).step_by(63_900) {
            for (index, data) in data.iter().enumerate().filter(|(_, data)| start < data.len()) {
                let end = (start + 63_900).min(data.len());
                let range = start as u64..end as u64;
                let read = table.read_in_order(FileId(index as u64), range).unwrap();
                assert!(read == &data[start..end]);
                let is_in_place = in_memory.as_ptr_range().contains(&read.as_ptr());
                assert_eq!(is_in_place, index == 2, "bytes in memory are not copied");
            }
        }
        for (index, data) in data.iter().enumerate() {
            let hash = table.hash(FileId(index as u64)).unwrap().unwrap();
            assert_eq!(hash, *blake3::hash(data).as_bytes());
        }
    }
}
