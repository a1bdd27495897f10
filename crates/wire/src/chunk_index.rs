//! The index of an object that is sent by difference: the lengths and hashes of its chunks, in the order of the object.
//!
//! ```text
//!  0       8         12     20         24     56
//!  +-------+---------+------+----------+------+- - -
//!  | title | average | size | length 1 | hash | ...
//!  +-------+---------+------+----------+------+- - -
//! ```
//!
//! An index travels as an object, so it may come from whoever can send one.

use std::fmt;

use crate::{ParseError, field::Reader};

const TITLE: [u8; 8] = *b"tcindex1";

/// The title, the average length, and the size of the object.
const HEAD_LEN: usize = 8 + 4 + 8;

/// Length and hash of a chunk.
const ENTRY_LEN: usize = 4 + 32;

/// The smallest and the largest average length of chunks, in bytes.
pub const LEAST_AVERAGE: u32 = 16 * 1024;
pub const LARGEST_AVERAGE: u32 = 4 << 20;

/// The shortest chunk is a quarter of the average, and the longest one four times as long.
pub const SPREAD: usize = 4;

/// The number of chunks that an object is to have, at most.
pub const MANY_CHUNKS: u64 = 1 << 18;

/// The longest index, in bytes. No chunk but the last is shorter than a quarter of the average.
pub const MAX_INDEX_LEN: u64 = HEAD_LEN as u64 + (MANY_CHUNKS * SPREAD as u64 + 1) * ENTRY_LEN as u64;

/// The bytes of an index that adds up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkIndex<'a> {
    /// The average length of chunks, in bytes: a power of two.
    pub average: u32,
    /// The size of the object, in bytes.
    pub size: u64,
    entries: &'a [[u8; ENTRY_LEN]],
}

/// One chunk of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// In bytes, at least 1.
    pub len: u32,
    /// The chunk's BLAKE3 hash.
    pub hash: [u8; 32],
}

impl Chunk {
    /// The chunk's entry in an index.
    pub fn to_bytes(&self) -> [u8; ENTRY_LEN] {
        let mut bytes = [0; ENTRY_LEN];
        bytes[..4].copy_from_slice(&self.len.to_be_bytes());
        bytes[4..].copy_from_slice(&self.hash);
        bytes
    }

    fn parse(entry: &[u8; ENTRY_LEN]) -> Self {
        let mut chunk = Self { len: 0, hash: [0; 32] };
        let (len, hash) = entry.split_at(4);
        chunk.len = len.iter().fold(0, |len, byte| len << 8 | u32::from(*byte));
        chunk.hash.copy_from_slice(hash);
        chunk
    }
}

/// The beginning of an index. The entries follow.
pub fn head(average: u32, size: u64) -> [u8; HEAD_LEN] {
    let mut head = [0; HEAD_LEN];
    head[..8].copy_from_slice(&TITLE);
    head[8..12].copy_from_slice(&average.to_be_bytes());
    head[12..].copy_from_slice(&size.to_be_bytes());
    head
}

impl<'a> ChunkIndex<'a> {
    /// Parses an index.
    ///
    /// # Errors
    /// If it is none, if a chunk other than the last is shorter than a quarter of the average, or if the chunks are not together as
    /// long as the object. Short chunks would let a sender guess at a few bytes of a receiver's files.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        if bytes.len() as u64 > MAX_INDEX_LEN {
            return Err(ParseError::invalid("index", bytes.len(), "at most 37748792 bytes"));
        }
        let mut reader = Reader::new(bytes);
        if reader.array::<8>("title")? != TITLE {
            return Err(ParseError::invalid("title", "something else", "tcindex1"));
        }
        let average = reader.u32("average length")?;
        if !(LEAST_AVERAGE..=LARGEST_AVERAGE).contains(&average) || !average.is_power_of_two() {
            return Err(ParseError::invalid(
                "average length",
                average,
                "a power of two from 16 KiB to 4 MiB",
            ));
        }
        let size = reader.u64("size")?;
        let (entries, rest) = reader.rest().as_chunks::<ENTRY_LEN>();
        if !rest.is_empty() {
            return Err(ParseError::Truncated { field: "chunk", have: rest.len(), need: ENTRY_LEN });
        }
        let index = Self { average, size, entries };
        let (mut total, last) = (0, index.entries.len().saturating_sub(1));
        for (place, Chunk { len, .. }) in index.chunks().enumerate() {
            let least = if place == last { 1 } else { average / SPREAD as u32 };
            if len < least || len as usize > average as usize * SPREAD {
                let expected = "a quarter of the average to four times it; the last chunk may be shorter";
                return Err(ParseError::invalid("length of a chunk", len, expected));
            }
            total += u64::from(len);
        }
        match total == size {
            true => Ok(index),
            false => Err(ParseError::invalid("size", size, "the length of all chunks together")),
        }
    }

    /// The chunks, in the order of the object.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = Chunk> + 'a {
        self.entries.iter().map(Chunk::parse)
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        [&head(self.average, self.size)[..], self.entries.as_flattened()].concat()
    }
}

impl fmt::Display for ChunkIndex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index average={} size={} chunks=", self.average, self.size)?;
        f.debug_list().entries(self.chunks().map(|chunk| chunk.len)).finish()
    }
}
