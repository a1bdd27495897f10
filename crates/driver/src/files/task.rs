//! The tasks of the store.

use std::ops::Range;

use treecast_proto::object::Address;
use treecast_wire::{
    header::FileId,
    message::{BeginOfFile, ChunkHashes},
};

use super::{Kept, SourceBlock, held_log::Announced};

/// A task. Tasks are done in the order in which they are given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Notes the size and name of an object, which are new or have changed. `kept` is what an earlier receiver
    /// has left of it.
    Announce { file: FileId, begin: BeginOfFile, kept: Kept },
    /// Reserves the space for all of an announced object. Its size is known for certain, while anybody can send
    /// an announcement to a group.
    Reserve { file: FileId, size: u64 },
    /// Writes `range` of an object. The bytes are at `at` in the batch that is handed over with the task. They
    /// stay in memory until the object is announced; the caller must keep their number small.
    Keep { file: FileId, range: Range<u64>, at: usize },
    /// Like `Keep`, for bytes that are all zero. The object has been announced.
    KeepZeros { file: FileId, range: Range<u64> },
    /// Like `Keep`, for bytes that are not in the batch.
    KeepHeld { file: FileId, position: u64, bytes: Vec<u8> },
    /// Like `Keep`, if bytes are stored there already. Only bytes that differ are written.
    Overwrite { file: FileId, range: Range<u64>, at: usize },
    /// Copies what an older version holds of an announced object with blocks of `block_len` bytes, as soon as the object's index is
    /// there. The result comes as a [`Report`](super::Report).
    Seed { file: FileId, block_len: u16 },
    /// The index of this object will not come, or need not: the object has ended, or is not wanted.
    NoIndex { file: FileId },
    /// Keeps repair symbols of a source block, from number `first` on. They are at `at` in the batch, and `len`
    /// bytes long.
    KeepSymbols { file: FileId, source_block: u32, first: u32, symbol_len: u16, at: usize, len: usize },
    /// Computes the missing blocks of a source block, and stores them. The result comes as a [`Report`].
    Decode { file: FileId, source_block: SourceBlock },
    /// Drops the symbols that are kept of an object.
    ForgetSymbols { file: FileId },
    /// Computes the hash of the stored bytes. It comes as a [`Report`].
    Hash { file: FileId },
    /// Like `Hash`, with BLAKE2b-256.
    HashAsBlake2b { file: FileId },
    /// Compares a page of chunk hashes of the object with this hash with the stored bytes. The result comes as
    /// a [`Report`].
    CheckChunks { file: FileId, hash: [u8; 32], page: ChunkHashes },
    /// Gives an announced object its final name, and reports that.
    Commit { file: FileId },
    /// Creates the file of an object that is complete and verified, and of which nothing is stored. Reports
    /// like `Commit`.
    Make { file: FileId, whole: Box<Whole> },
    /// Removes stored bytes, and forgets that the object has failed.
    Discard { file: FileId },
    /// Removes what an earlier receiver has left of an object that will not come again.
    DropPart { file: FileId },
    /// Remembers, from now on, where objects are that have their names, so that they can be read back.
    Serve,
    /// Reads stored bytes back, to be sent to this address. They come as a [`Report`], unless they are not there.
    Read { file: FileId, range: Range<u64>, to: Address },
    /// Nobody will have this object read back any more.
    Release { file: FileId },
}

/// A small object that is complete, with its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    pub begin: BeginOfFile,
    /// The value that stands for `begin` in a journal.
    pub(super) announced: Announced,
    pub content: Vec<u8>,
    pub hash: [u8; 32],
}
