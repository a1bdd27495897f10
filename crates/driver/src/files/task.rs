//! What the store is asked to do.

use std::ops::Range;

use treecast_wire::{
    header::FileId,
    message::{BeginOfFile, ChunkHashes},
};

use super::{Kept, SourceBlock, held_log::Announced};

/// Something to do, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// The object's size and name are known, or others than before. `kept` is what an earlier receiver has left of it.
    Announce { file: FileId, begin: BeginOfFile, kept: Kept },
    /// Take the room for all of an announced object, whose size is known for sure: anybody can announce to a group.
    Reserve { file: FileId, size: u64 },
    /// Write `range` of an object, which lies at `at` in the batch handed over with it. It stays in memory
    /// until the object is announced: whoever hands it in sees to it that this is not much.
    Keep { file: FileId, range: Range<u64>, at: usize },
    /// As `Keep`, of bytes that have been held elsewhere.
    KeepHeld { file: FileId, position: u64, bytes: Vec<u8> },
    /// As `Keep` where something is stored already: only what differs is written.
    Overwrite { file: FileId, range: Range<u64>, at: usize },
    /// Keep repair symbols of a source block, from number `first` on, which lie at `at` in the batch, `len` bytes.
    KeepSymbols { file: FileId, source_block: u32, first: u32, symbol_len: u16, at: usize, len: usize },
    /// Compute what is missing of a source block, and store it; how that went comes as a [`Report`].
    Decode { file: FileId, source_block: SourceBlock },
    /// Forget the symbols that are kept of an object.
    ForgetSymbols { file: FileId },
    /// Compute the hash of what is stored; it comes as a [`Report`].
    Hash { file: FileId },
    /// As `Hash`, where the hash is to be BLAKE2b-256.
    HashAsBlake2b { file: FileId },
    /// Compare a page of chunks of an object with this hash with what is stored; it comes as a [`Report`].
    CheckChunks { file: FileId, hash: [u8; 32], page: ChunkHashes },
    /// Give an announced object its final name, and report that it has it.
    Commit { file: FileId },
    /// Make a file of an object that is whole and right, of which nothing is stored; reports as `Commit` does.
    Make { file: FileId, whole: Box<Whole> },
    /// Throw away what is stored, and forget that it has failed.
    Discard { file: FileId },
}

/// A small object that is whole, and its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    pub begin: BeginOfFile,
    /// What stands for `begin` in a journal.
    pub(super) announced: Announced,
    pub content: Vec<u8>,
    pub hash: [u8; 32],
}
