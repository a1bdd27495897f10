//! ChunkHashesRequest and ChunkHashes: the hashes of an object's chunks, for a receiver whose copy is wrong
//! somewhere. A page has the hashes of at most [`PAGE_CHUNKS`] chunks of one object. Its proof leads from these
//! to the object's BLAKE3 hash, so that each page is checked by itself.
//!
//! ```text
//!  0            4       8
//!  +------------+-------+                        ChunkHashesRequest: pages from the first one on
//!  | first page | count |
//!  +------------+-------+
//!
//!  0      4       8
//!  +------+-------+--------+-------+             ChunkHashes: 32 bytes for each hash
//!  | page | count | hashes | proof |
//!  +------+-------+--------+-------+
//! ```
//!
//! A hash is the BLAKE3 chaining value of a chunk's subtree. The proof has the chaining values of the subtree
//! beside the page's, the one beside its parent's, and so on, up to the two below the root. A page without
//! hashes is one that the sender does not have.

use std::{fmt, ops::Range};

use crate::{
    ParseError,
    field::{Reader, fixed_body},
};

/// The largest number of chunks in a page. With its proof, the page fits a packet.
pub const PAGE_CHUNKS: usize = 16;

/// The largest number of hashes in a proof.
pub const MAX_PROOF: usize = 32;

/// The largest number of pages in a request.
pub const MAX_PAGES: u32 = 32;

const HASH_LEN: usize = 32;

fixed_body! {
    /// Asks for pages of an object's chunk hashes.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ChunkHashesRequest in "request for chunk hashes", checked by check {
        first: u32 = "first page",
        count: u32 = "pages",
    }
}

impl ChunkHashesRequest {
    /// Creates a request for these pages of chunk hashes.
    ///
    /// # Errors
    /// If `pages` is empty, or has more than [`MAX_PAGES`].
    pub fn new(pages: Range<u32>) -> Result<Self, ParseError> {
        let request = Self { first: pages.start, count: pages.end.saturating_sub(pages.start) };
        request.check().map(|()| request)
    }

    fn check(&self) -> Result<(), ParseError> {
        if self.count == 0 || self.count > MAX_PAGES {
            return Err(ParseError::invalid("pages", self.count, "1 to 32"));
        }
        if self.first.checked_add(self.count).is_none() {
            return Err(ParseError::invalid("first page", self.first, "an end below 2^32"));
        }
        Ok(())
    }

    pub fn pages(&self) -> Range<u32> {
        self.first..self.first + self.count
    }
}

impl fmt::Display for ChunkHashesRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pages={:?}", self.pages())
    }
}

/// One page of an object's chunk hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkHashes {
    page: u32,
    hashes: Vec<[u8; HASH_LEN]>,
    proof: Vec<[u8; HASH_LEN]>,
}

impl ChunkHashes {
    /// # Errors
    /// When there are more than [`PAGE_CHUNKS`] hashes or more than [`MAX_PROOF`] in the proof, or a proof of nothing.
    pub fn new(
        page: u32,
        hashes: Vec<[u8; HASH_LEN]>,
        proof: Vec<[u8; HASH_LEN]>,
    ) -> Result<Self, ParseError> {
        if hashes.len() > PAGE_CHUNKS {
            return Err(ParseError::invalid("chunks", hashes.len(), "at most 16"));
        }
        if proof.len() > MAX_PROOF || hashes.is_empty() && !proof.is_empty() {
            return Err(ParseError::invalid("proof", proof.len(), "at most 32 hashes, and none of nothing"));
        }
        Ok(Self { page, hashes, proof })
    }

    /// Creates the answer that the sender does not have this page.
    pub fn none(page: u32) -> Self {
        Self { page, hashes: Vec::new(), proof: Vec::new() }
    }

    pub fn page(&self) -> u32 {
        self.page
    }

    /// The hashes of the page's chunks, in order.
    pub fn hashes(&self) -> &[[u8; HASH_LEN]] {
        &self.hashes
    }

    /// The chaining values that prove the page, from the page up to the root.
    pub fn proof(&self) -> &[[u8; HASH_LEN]] {
        &self.proof
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let (page, count) = (reader.u32("page")?, reader.u32("chunks")?);
        if count as usize > PAGE_CHUNKS {
            return Err(ParseError::invalid("chunks", count, "at most 16"));
        }
        let hashes = (0..count).map(|_| reader.array("chunk hash")).collect::<Result<_, _>>()?;
        let rest = reader.rest();
        let (proof, odd) = rest.as_chunks();
        if !odd.is_empty() || proof.len() > MAX_PROOF {
            return Err(ParseError::invalid("proof", format!("{} bytes", rest.len()), "at most 32 hashes"));
        }
        Self::new(page, hashes, proof.to_vec())
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.page.to_be_bytes());
        out.extend_from_slice(&(self.hashes.len() as u32).to_be_bytes());
        out.extend(self.hashes.iter().chain(&self.proof).flatten());
    }
}

impl fmt::Display for ChunkHashes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page={} chunks={} proof={}", self.page, self.hashes.len(), self.proof.len())
    }
}
