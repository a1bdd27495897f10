//! The chunks of an object, whose hashes tell which part of a wrong copy is wrong (DESIGN, Security). Sender
//! and receivers reckon the same from the object's size.

use std::ops::Range;

use treecast_wire::message::PAGE_CHUNKS;

/// The length of a chunk, in bytes. It is a power of two of BLAKE3's own chunks, so a chunk's hash is a node
/// of BLAKE3's tree.
pub const CHUNK_LEN: u64 = 64 * 1024;

/// The most chunks that an object has, which bounds the memory for their hashes. An object above 8 GiB has
/// longer chunks instead.
pub(crate) const MAX_CHUNKS: u64 = 131_072;

/// The longest page of chunk hashes: two numbers, and 32 bytes for each of its chunks and each node on its way to the root.
const MAX_PAGE_LEN: usize = 8 + 32 * (PAGE_CHUNKS + (MAX_CHUNKS as usize / PAGE_CHUNKS).ilog2() as usize);

/// Whether packets with blocks of `block_len` bytes hold a page, so that a carousel can send chunk hashes. Smaller ones
/// are for links that hardly anybody has.
pub(crate) fn fit_in(block_len: u16) -> bool {
    usize::from(block_len) >= MAX_PAGE_LEN
}

/// The chunks of an object that has more than one, and the pages in which the sender tells their hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks {
    size: u64,
    chunk_len: u64,
}

impl Chunks {
    /// Returns the chunks of an object of `size` bytes, or `None` for an object that is a single chunk.
    pub fn new(size: u64) -> Option<Self> {
        let mut chunk_len = CHUNK_LEN;
        while size.div_ceil(chunk_len) > MAX_CHUNKS {
            chunk_len *= 2;
        }
        (size > chunk_len).then_some(Self { size, chunk_len })
    }

    /// Returns the length of each chunk but the last one, in bytes.
    pub fn chunk_len(self) -> u64 {
        self.chunk_len
    }

    /// Returns how many chunks the object has.
    pub fn count(self) -> u32 {
        self.size.div_ceil(self.chunk_len) as u32
    }

    pub fn pages(self) -> u32 {
        self.count().div_ceil(PAGE_CHUNKS as u32)
    }

    /// Returns the chunks whose hashes are on a page. The range is empty for a page that does not exist.
    pub fn of_page(self, page: u32) -> Range<u32> {
        let first = page.saturating_mul(PAGE_CHUNKS as u32).min(self.count());
        first..first.saturating_add(PAGE_CHUNKS as u32).min(self.count())
    }

    /// Returns the page with the hash of the chunk at this position.
    pub fn page_at(self, position: u64) -> u32 {
        (position / self.chunk_len / PAGE_CHUNKS as u64) as u32
    }

    /// Returns the bytes of the object that these chunks cover.
    pub fn bytes(self, chunks: Range<u32>) -> Range<u64> {
        let at = |chunk: u32| u64::from(chunk).saturating_mul(self.chunk_len).min(self.size);
        at(chunks.start)..at(chunks.end)
    }

    /// Returns the bytes of the object that the chunks of a page cover.
    pub fn page_bytes(self, page: u32) -> Range<u64> {
        self.bytes(self.of_page(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_of_one_chunk_has_none() {
        assert_eq!(Chunks::new(0), None);
        assert_eq!(Chunks::new(CHUNK_LEN), None);
        assert_eq!(Chunks::new(CHUNK_LEN + 1).map(Chunks::count), Some(2));
    }

    #[test]
    fn the_last_chunk_and_the_last_page_may_be_short() {
        let chunks = Chunks::new(17 * CHUNK_LEN + 5).unwrap();
        assert_eq!((chunks.count(), chunks.pages()), (18, 2));
        assert_eq!((chunks.of_page(0), chunks.of_page(1), chunks.of_page(2)), (0..16, 16..18, 18..18));
        assert_eq!(chunks.page_bytes(1), 16 * CHUNK_LEN..17 * CHUNK_LEN + 5);
        assert!(chunks.of_page(u32::MAX).is_empty());
    }

    #[test]
    fn the_number_of_chunks_is_bounded_whatever_the_size() {
        let largest = Chunks::new(MAX_CHUNKS * CHUNK_LEN).unwrap();
        assert_eq!((u64::from(largest.count()), largest.chunk_len()), (MAX_CHUNKS, CHUNK_LEN));
        assert_eq!(Chunks::new(MAX_CHUNKS * CHUNK_LEN + 1).unwrap().chunk_len(), 2 * CHUNK_LEN);
        let huge = Chunks::new(u64::MAX).unwrap();
        assert!(u64::from(huge.count()) <= MAX_CHUNKS);
        assert_eq!(huge.page_bytes(huge.pages() - 1).end, u64::MAX);
    }
}
