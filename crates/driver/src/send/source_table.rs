//! The objects of a session and the reading of them: ahead in large pieces, hashed on the way.

use std::{collections::BTreeMap, ops::Range};

use treecast_wire::header::FileId;

use crate::files::{NamedSource, SourceError};

/// How much is read, and hashed, at once: enough for BLAKE3 to be at its best, and little enough to be in a
/// core's second-level cache still when it is sent.
const READ_AHEAD_LEN: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct SourceTable {
    objects: BTreeMap<FileId, Object>,
    ahead: ReadAhead,
}

#[derive(Debug)]
struct Object {
    named: NamedSource,
    hasher: blake3::Hasher,
    /// Everything before this position is in `hasher`.
    hashed: u64,
}

#[derive(Debug)]
struct ReadAhead {
    file: FileId,
    range: Range<u64>,
    buffer: Vec<u8>,
}

impl Default for SourceTable {
    fn default() -> Self {
        let ahead = ReadAhead { file: FileId(0), range: 0..0, buffer: vec![0; READ_AHEAD_LEN] };
        Self { objects: BTreeMap::new(), ahead }
    }
}

impl SourceTable {
    pub fn add(&mut self, file: FileId, named: NamedSource) {
        self.objects.insert(file, Object { named, hasher: blake3::Hasher::new(), hashed: 0 });
    }

    pub fn name(&self, file: FileId) -> &str {
        self.objects.get(&file).map_or("an object", |object| &object.named.name)
    }

    pub fn size(&self, file: FileId) -> u64 {
        self.objects.get(&file).map_or(0, |object| object.named.source.size())
    }

    /// The bytes `range` of an object, which are asked for in order, each once. `range` is not longer than
    /// the table reads ahead.
    pub fn read_in_order(&mut self, file: FileId, range: Range<u64>) -> Result<&[u8], SourceError> {
        let ahead = &mut self.ahead;
        let is_there = ahead.file == file && ahead.range.start <= range.start && range.end <= ahead.range.end;
        if !is_there && let Some(object) = self.objects.get_mut(&file) {
            let step = range.end - range.start;
            let steps = (READ_AHEAD_LEN as u64 / step.max(1)).max(1);
            let end = (range.start + step * steps).min(object.named.source.size()).max(range.end);
            let len = (end - range.start) as usize;
            ahead.buffer.resize(len.max(ahead.buffer.len()), 0);
            ahead.range = 0..0;
            object.named.source.read(range.start, &mut ahead.buffer[..len])?;
            (ahead.file, ahead.range) = (file, range.start..end);
            if object.hashed == range.start {
                object.hasher.update(&ahead.buffer[..len]);
                object.hashed = end;
            }
        }
        let at = (range.start - ahead.range.start) as usize;
        Ok(&ahead.buffer[at..at + (range.end - range.start) as usize])
    }

    /// Reads any bytes of an object.
    pub fn read_any(&mut self, file: FileId, position: u64, into: &mut [u8]) -> Result<(), SourceError> {
        match self.objects.get_mut(&file) {
            Some(object) => object.named.source.read(position, into),
            None => Ok(()),
        }
    }

    /// The object's hash, once it has been read to its end and has not changed meanwhile.
    pub fn hash(&mut self, file: FileId) -> Option<Result<[u8; 32], SourceError>> {
        let object = self.objects.get(&file).filter(|object| object.hashed == object.named.source.size())?;
        let unchanged = object.named.source.check_unchanged();
        Some(unchanged.map(|()| *object.hasher.finalize().as_bytes()))
    }

    /// Closes an object's file.
    pub fn close(&mut self, file: FileId) {
        if let Some(object) = self.objects.get_mut(&file) {
            object.named.source.close();
        }
    }
}
