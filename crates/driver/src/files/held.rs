//! A small object in a receiver's memory, and the parts of it that are written to the log.

use std::{collections::BTreeMap, io, ops::Range};

use treecast_wire::{header::FileId, message::BeginOfFile};

use super::{
    Task,
    held_log::{Announced, HeldLog, Left, Piece},
    journal::announced,
};

/// The most memory, in bytes, that a held object takes besides its content.
pub(super) const OVERHEAD_BYTES: usize = 1024;

#[derive(Debug)]
pub(super) struct Held {
    pub begin: BeginOfFile,
    pub announced: Announced,
    /// The bytes that have come, with zeros where some are missing.
    pub content: Vec<u8>,
    /// The ranges that have come, in the order in which they came.
    pub there: Vec<Range<u64>>,
    /// Hash of the whole object, computed when its last byte came.
    early_hash: Option<[u8; 32]>,
    /// The hash that was reported to the machine.
    pub hash: Option<[u8; 32]>,
    /// The first turn of the log in which a part of the object was noted.
    pub logged: Option<u64>,
}

impl Held {
    /// Creates an object of which these ranges of `content` have come.
    pub fn new(begin: BeginOfFile, content: Vec<u8>, there: Vec<Range<u64>>) -> Self {
        Self {
            announced: announced(&begin),
            begin,
            content,
            there,
            early_hash: None,
            hash: None,
            logged: None,
        }
    }

    /// The memory that it takes when it is complete, in bytes.
    pub fn len(&self) -> usize {
        self.begin.file_size as usize + OVERHEAD_BYTES
    }

    /// Stores bytes that are within the object.
    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        let (before, end) = (self.content.len(), at + bytes.len());
        if at == before {
            self.content.extend_from_slice(bytes);
        } else {
            self.content.resize(before.max(end), 0);
            self.content[at..end].copy_from_slice(bytes);
        }
        match self.there.last_mut() {
            Some(last) if last.end == at as u64 => last.end = end as u64,
            _ => self.there.push(at as u64..end as u64),
        }
        // While it is in the cache: the sender's word on it comes megabytes later.
        let is_whole = self.there.len() == 1 && self.there[0] == (0..self.begin.file_size);
        self.early_hash = is_whole.then(|| *blake3::hash(&self.content).as_bytes());
    }

    /// Computes the hash of the object, all of which must have come.
    pub fn compute_hash(&self) -> [u8; 32] {
        self.early_hash.unwrap_or_else(|| *blake3::hash(&self.content).as_bytes())
    }

    /// The pieces of all that has come, for the log.
    fn pieces(&self, file: FileId) -> impl Iterator<Item = Piece<'_>> {
        self.there.iter().filter_map(move |range| self.piece(file, range))
    }

    /// A part of the object for the log.
    pub fn piece(&self, file: FileId, range: &Range<u64>) -> Option<Piece<'_>> {
        let bytes = self.content.get(range.start as usize..range.end as usize)?;
        Some(Piece { index: file.index(), announced: self.announced, position: range.start as u32, bytes })
    }

    /// The tasks that hand all bytes to the store.
    pub fn into_tasks(self, file: FileId) -> impl Iterator<Item = Task> {
        let Self { content, there, .. } = self;
        there.into_iter().map(move |range| {
            let bytes = content[range.start as usize..range.end as usize].to_vec();
            Task::KeepHeld { file, position: range.start, bytes }
        })
    }
}

/// Begins a turn of the log with all that counts and was noted in the file that is written over now: before the last turn.
pub(super) fn carry_over(
    log: &mut HeldLog,
    held: &mut BTreeMap<FileId, Held>,
    left: &BTreeMap<u32, Left>,
) -> io::Result<()> {
    let turn = log.turns();
    let is_old = |held: &Held| held.logged.is_some_and(|logged| logged + 1 < turn);
    let old = held.iter().filter(|(_, held)| is_old(held)).flat_map(|(file, held)| held.pieces(*file));
    let left = left.iter().flat_map(|(index, left)| left.pieces(*index));
    log.carry_over(&old.chain(left).collect::<Vec<_>>())?;
    for held in held.values_mut().filter(|held| is_old(held)) {
        held.logged = Some(turn);
    }
    Ok(())
}
