//! BlockHashes: the hashes of the next blocks, or repair symbols, of an object in a carousel. The sender signs
//! them ([`super::SignedWord`]), so that a receiver recognises and drops forged blocks.
//!
//! ```text
//!  0          8
//!  +----------+------------------------------------------+
//!  | sequence | 8 bytes of the BLAKE3 hash of each block |
//!  +----------+------------------------------------------+
//! ```
//!
//! The sequence number is the first block's. The packet type in front of the signed bytes says whether these
//! are blocks or symbols.

use std::fmt;

use super::SIGNATURE_LEN;
use crate::{ParseError, field::Reader, header::PacketType};

/// The first 8 bytes of a block's BLAKE3 hash. Forging another block with the same bytes takes 2^64 attempts.
pub type BlockHash = [u8; 8];

/// The largest number of hashes in a page.
pub const MAX_BLOCK_HASHES: usize = 128;

/// The smallest number of hashes in a packet that is worth a signature.
const FEWEST: usize = 16;

/// The bytes of a signed page besides the hashes: the signature, the packet type and the sequence number.
const OVERHEAD: usize = SIGNATURE_LEN + 4 + BlockHashes::HEAD_LEN;

/// The hashes of consecutive blocks, or repair symbols, of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockHashes {
    are_symbols: bool,
    sequence: u64,
    hashes: Vec<BlockHash>,
}

impl BlockHashes {
    const HEAD_LEN: usize = 8;

    /// The number of blocks of `block_len` bytes whose hashes fit in one packet. `None` if blocks are so short
    /// that carousels do not sign them.
    pub fn per_page(block_len: u16) -> Option<usize> {
        let hashes = usize::from(block_len).saturating_sub(OVERHEAD) / size_of::<BlockHash>();
        (hashes >= FEWEST).then_some(hashes.min(MAX_BLOCK_HASHES))
    }

    /// Creates a page of hashes of consecutive blocks or symbols, of which the first has the sequence number
    /// `sequence`.
    ///
    /// # Errors
    /// If there are no hashes, or more than [`MAX_BLOCK_HASHES`].
    pub fn new(are_symbols: bool, sequence: u64, hashes: Vec<BlockHash>) -> Result<Self, ParseError> {
        if hashes.is_empty() || hashes.len() > MAX_BLOCK_HASHES {
            return Err(ParseError::invalid("block hashes", hashes.len(), "1 to 128"));
        }
        Ok(Self { are_symbols, sequence, hashes })
    }

    /// The sequence number of the first block.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether the hashes are of repair symbols, and not of blocks.
    pub fn are_symbols(&self) -> bool {
        self.are_symbols
    }

    /// The number of hashes.
    pub fn count(&self) -> usize {
        self.hashes.len()
    }

    /// The hash of the block with this sequence number, if all blocks but the last are `block_len` bytes long.
    /// `None` for a block that is not on this page.
    pub fn hash_of(&self, sequence: u64, block_len: u16) -> Option<&BlockHash> {
        let (offset, block_len) = (sequence.checked_sub(self.sequence)?, u64::from(block_len.max(1)));
        let index = usize::try_from(offset / block_len).ok()?;
        self.hashes.get(index).filter(|_| offset.is_multiple_of(block_len))
    }

    pub(super) fn packet_type(&self) -> PacketType {
        if self.are_symbols { PacketType::RepairSymbol } else { PacketType::Data }
    }

    pub(super) fn parse(are_symbols: bool, payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let sequence = reader.u64("sequence number")?;
        let rest = reader.rest();
        let (hashes, odd) = rest.as_chunks();
        if !odd.is_empty() {
            return Err(ParseError::invalid("block hashes", format!("{} bytes", rest.len()), "8 bytes each"));
        }
        Self::new(are_symbols, sequence, hashes.to_vec())
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.sequence.to_be_bytes());
        out.extend_from_slice(self.hashes.as_flattened());
    }
}

impl fmt::Display for BlockHashes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} from={} count={}", self.packet_type(), self.sequence, self.hashes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_fits_a_packet() {
        assert_eq!(
            [200, 204, 512, 1420, 9000].map(BlockHashes::per_page),
            [None, Some(16), Some(54), Some(128), Some(128)]
        );
    }

    #[test]
    fn a_hash_is_found_by_its_blocks_place() {
        let page = BlockHashes::new(false, 3_000, vec![[1; 8], [2; 8]]).expect("two");
        let hashes = [2_000, 3_000, 3_500, 4_000, 5_000].map(|at| page.hash_of(at, 1_000).copied());
        assert_eq!(hashes, [None, Some([1; 8]), None, Some([2; 8]), None]);
    }
}
