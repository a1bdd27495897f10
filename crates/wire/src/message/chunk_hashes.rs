//! Chunk hashes: what an object's BLAKE3 hash is made of, so that whoever has an object with the wrong hash finds out
//! which of its chunks are wrong (`DESIGN`, "Security").
//!
//! ```text
//!  request     0       8       16
//!              +-------+-------+
//!              | first | end   |   numbers of chunks
//!              +-------+-------+
//!  answer      0       8              8 + 32 n
//!              +-------+----------------+
//!              | first | n chunks' hashes|
//!              +-------+----------------+
//! ```
//!
//! A chunk is [`CHUNK_LEN`] bytes, an object's last one what is left. Its hash is the chaining value of its subtree:
//! merged, they give the object's hash.

use std::{fmt, ops::Range};

use crate::{ParseError, field::Reader};

/// Bytes of a chunk: what is thrown away and asked for again when one byte is wrong.
pub const CHUNK_LEN: u64 = 64 * 1024;

/// The most hashes in one message, which fits the smallest block.
pub const MAX_CHUNK_HASHES: usize = 15;

/// Asks for the hashes of an object's chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkHashesRequest {
    chunks: Range<u64>,
}

impl ChunkHashesRequest {
    /// Length of the payload in bytes.
    pub const LEN: usize = 16;

    /// # Errors
    /// When there are no chunks in the range.
    pub fn new(chunks: Range<u64>) -> Result<Self, ParseError> {
        if chunks.is_empty() {
            return Err(ParseError::invalid("end chunk", chunks.end, "a value above the first chunk"));
        }
        Ok(Self { chunks })
    }

    /// Their numbers.
    pub fn chunks(&self) -> Range<u64> {
        self.chunks.clone()
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let first = reader.u64("first chunk")?;
        let end = reader.u64("end chunk")?;
        reader.end("chunk hashes request")?;
        Self::new(first..end)
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.chunks.start.to_be_bytes());
        out.extend_from_slice(&self.chunks.end.to_be_bytes());
    }
}

impl fmt::Display for ChunkHashesRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "first={} end={}", self.chunks.start, self.chunks.end)
    }
}

/// The hashes of chunks that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkHashes {
    first: u64,
    hashes: Vec<[u8; 32]>,
}

impl ChunkHashes {
    /// `first` is the number of the first chunk.
    ///
    /// # Errors
    /// When there are no hashes, or more than [`MAX_CHUNK_HASHES`].
    pub fn new(first: u64, hashes: Vec<[u8; 32]>) -> Result<Self, ParseError> {
        if hashes.is_empty() || hashes.len() > MAX_CHUNK_HASHES {
            return Err(ParseError::invalid("chunk hashes", hashes.len(), "1 to 15"));
        }
        if first.checked_add(hashes.len() as u64).is_none() {
            return Err(ParseError::invalid("first chunk", first, "an end below 2^64"));
        }
        Ok(Self { first, hashes })
    }

    /// The number of the first chunk.
    pub fn first(&self) -> u64 {
        self.first
    }

    pub fn hashes(&self) -> &[[u8; 32]] {
        &self.hashes
    }

    /// Length of the payload in bytes.
    pub fn emitted_len(&self) -> usize {
        8 + 32 * self.hashes.len()
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let first = reader.u64("first chunk")?;
        let (hashes, rest) = reader.rest().as_chunks::<32>();
        if !rest.is_empty() {
            return Err(ParseError::invalid("chunk hashes", format!("{} bytes more", rest.len()), "32 each"));
        }
        Self::new(first, hashes.to_vec())
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.first.to_be_bytes());
        out.extend_from_slice(self.hashes.as_flattened());
    }
}

impl fmt::Display for ChunkHashes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "first={} count={}", self.first, self.hashes.len())
    }
}
