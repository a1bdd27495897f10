//! The index of an object: the hashes of its chunks, by which a receiver finds those that an older version holds.
//!
//! Chunks are content-defined: FastCDC ends a chunk where the bytes before it say so. So a change moves only the ends near it, and
//! what lies behind an insertion is found at its new place.
//!
//! An index is only a hint. What is copied by it is hashed first, and the whole object is verified as every other is. A wrong
//! index costs bandwidth.

use std::{io, ops::Range};

use fastcdc::v2020::FastCDC;
use treecast_wire::chunk_index::{self as format, LARGEST_AVERAGE, LEAST_AVERAGE, MANY_CHUNKS, SPREAD};

/// The smallest object, in bytes, that has an index. A smaller one is sent whole.
pub(crate) const LEAST_INDEXED: u64 = 256 * 1024;

/// The average length of chunks of an object of `size` bytes. `None` if it has no index.
fn average(size: u64) -> Option<u32> {
    // Half of the smallest average would double the index, and save as much.
    let average = size.div_ceil(MANY_CHUNKS).next_power_of_two().max(LEAST_AVERAGE.into());
    (size >= LEAST_INDEXED && average <= LARGEST_AVERAGE.into()).then_some(average as u32)
}

/// Cuts bytes that come in order into chunks.
#[derive(Debug)]
pub(crate) struct Cutter {
    average: usize,
    /// Bytes behind the last chunk.
    rest: Vec<u8>,
}

impl Cutter {
    fn new(average: u32) -> Self {
        Self { average: average as usize, rest: Vec::new() }
    }

    /// Lets `read` read the next bytes, `len` at most, and returns their number. They are cut with the bytes that
    /// come next.
    ///
    /// # Errors
    /// The error of `read`.
    pub fn fill(
        &mut self,
        len: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let before = self.rest.len();
        self.rest.resize(before + len, 0);
        let result = read(&mut self.rest[before..]);
        self.rest.truncate(before + result.as_ref().map_or(0, |read| len.min(*read)));
        result
    }

    /// Takes the next bytes, the last ones if `is_end`. Hands each chunk that is whole to `take`.
    pub fn cut(&mut self, bytes: &[u8], is_end: bool, mut take: impl FnMut(&[u8])) {
        self.rest.extend_from_slice(bytes);
        let longest = self.average * SPREAD;
        let cutter = FastCDC::new(&self.rest, self.average / SPREAD, self.average, longest);
        let mut at = 0;
        // What follows could move the end of a chunk that may still grow.
        while at < self.rest.len() && (is_end || self.rest.len() - at >= longest) {
            let (_, end) = cutter.cut(at, self.rest.len() - at);
            let end = end.max(at + 1);
            take(&self.rest[at..end]);
            at = end;
        }
        self.rest.drain(..at);
    }
}

/// Makes the index of an object whose bytes come in order.
#[derive(Debug)]
pub(crate) struct IndexWriter {
    cutter: Cutter,
    index: Vec<u8>,
}

impl IndexWriter {
    /// Starts the index of an object of `size` bytes. `None` if such an object has none.
    pub fn new(size: u64) -> Option<Self> {
        let average = average(size)?;
        Some(Self { cutter: Cutter::new(average), index: format::head(average, size).to_vec() })
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.add(bytes, false);
    }

    /// Finishes when all bytes have come. Returns the index.
    pub fn finish(mut self) -> Vec<u8> {
        self.add(&[], true);
        self.index
    }

    fn add(&mut self, bytes: &[u8], is_end: bool) {
        let Self { cutter, index } = self;
        cutter.cut(bytes, is_end, |chunk| {
            let chunk = format::Chunk { len: chunk.len() as u32, hash: blake3::hash(chunk).into() };
            index.extend_from_slice(&chunk.to_bytes());
        });
    }
}

/// An index, as a receiver reads it.
#[derive(Debug)]
pub(crate) struct ChunkIndex {
    average: u32,
    size: u64,
    /// The chunks, in the order of the object.
    chunks: Vec<Chunk>,
    /// Numbers of the chunks, by hash. Those of equal chunks are in order.
    by_hash: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Chunk {
    start: u64,
    len: u32,
    hash: [u8; 32],
}

impl Chunk {
    fn key(&self) -> ([u8; 32], u32) {
        (self.hash, self.len)
    }
}

impl ChunkIndex {
    /// Reads an index. `None` if it is none, does not add up, or cuts the object in another way than [`IndexWriter`] does.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let index =
            format::ChunkIndex::parse(bytes).ok().filter(|it| average(it.size) == Some(it.average))?;
        let mut start = 0;
        let place = |format::Chunk { len, hash }| {
            let chunk = Chunk { start, len, hash };
            start += u64::from(len);
            chunk
        };
        let chunks: Vec<_> = index.chunks().map(place).collect();
        let mut by_hash: Vec<u32> = (0..chunks.len() as u32).collect();
        by_hash.sort_unstable_by_key(|number| (chunks[*number as usize].key(), *number));
        Some(Self { average: index.average, size: index.size, chunks, by_hash })
    }

    /// The size of the object, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The number of chunks.
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// The memory that it takes, in bytes.
    pub fn memory(&self) -> usize {
        self.chunks.len() * (size_of::<Chunk>() + size_of::<u32>())
    }

    /// Whether a chunk of `len` bytes is so short that only the end of an object can be one.
    pub fn is_short(&self, len: usize) -> bool {
        len < self.average as usize / SPREAD
    }

    /// A cutter that cuts another version as this object was cut.
    pub fn cutter(&self) -> Cutter {
        Cutter::new(self.average)
    }

    /// The places of those chunks of the object that are this one. Equal chunks have the same places.
    pub fn places(&self, chunk: &[u8]) -> Range<usize> {
        let key = (*blake3::hash(chunk).as_bytes(), chunk.len() as u32);
        let first = self.by_hash.partition_point(|number| self.chunks[*number as usize].key() < key);
        let count =
            self.by_hash[first..].partition_point(|number| self.chunks[*number as usize].key() == key);
        first..first + count
    }

    /// The length of the chunk at a place, in bytes.
    pub fn len_at(&self, place: usize) -> u64 {
        self.chunks[self.by_hash[place] as usize].len.into()
    }

    /// The position of a place in the object. Those of one chunk are in order.
    pub fn position(&self, place: usize) -> u64 {
        self.chunks[self.by_hash[place] as usize].start
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::chunk_index::MAX_INDEX_LEN;

    use super::*;

    /// The length of an index's beginning, and of each chunk's entry, in bytes.
    const HEAD_LEN: usize = 20;
    const ENTRY_LEN: usize = 36;

    fn noise(seed: u8, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        blake3::Hasher::new_keyed(&[seed; 32]).finalize_xof().fill(&mut bytes);
        bytes
    }

    fn index_of(bytes: &[u8], step: usize) -> Vec<u8> {
        let mut writer = IndexWriter::new(bytes.len() as u64).unwrap();
        bytes.chunks(step).for_each(|run| writer.update(run));
        writer.finish()
    }

    /// The number of bytes of `new` that its index finds in `old`.
    fn found(old: &[u8], new: &[u8]) -> u64 {
        let index = ChunkIndex::parse(&index_of(new, 100_000)).unwrap();
        let (mut found, mut cutter) = (vec![0; index.len()], index.cutter());
        let take = |chunk: &[u8]| {
            for place in index.places(chunk) {
                assert!(new[index.position(place) as usize..][..chunk.len()] == *chunk);
                found[place] = chunk.len() as u64;
            }
        };
        cutter.cut(old, true, take);
        found.into_iter().sum()
    }

    #[test]
    fn chunks_do_not_depend_on_how_the_bytes_come() {
        let bytes = noise(1, 3_000_001);
        let index = index_of(&bytes, 3_000_001);
        assert!(index == index_of(&bytes, 1_000) && index == index_of(&bytes, 262_144));
        let chunks = (index.len() - HEAD_LEN) / ENTRY_LEN;
        assert!((100..400).contains(&chunks), "{chunks} chunks");
    }

    #[test]
    fn what_lies_before_and_behind_a_change_is_found() {
        let old = noise(2, 4_000_000);
        let mut changed = old.clone();
        changed[1_000_000..1_050_000].copy_from_slice(&noise(3, 50_000));
        let longer = [&old[..2_000_000], b"inserted", &old[2_000_000..]].concat();
        let shorter = old[1_000_001..].to_vec();
        assert_eq!(found(&old, &old), 4_000_000);
        for new in [changed, longer, shorter] {
            let missing = new.len() as u64 - found(&old, &new);
            assert!((1..200_000).contains(&missing), "{missing} of {} bytes are not found", new.len());
        }
        assert_eq!(found(&noise(4, 4_000_000), &old), 0, "another file");
        assert_eq!(found(&[0; 70_000], &[0; 1_000_000]), 16 * 65_536 - 65_536, "one chunk is many");
    }

    #[test]
    fn small_and_huge_objects_have_no_index_and_others_a_bounded_one() {
        assert!(average(LEAST_INDEXED - 1).is_none() && average((1 << 40) + 1).is_none());
        for size in [LEAST_INDEXED, 1 << 30, (4 << 30) + 1, 1 << 40] {
            let average = u64::from(average(size).unwrap());
            let most = size.div_ceil(average / SPREAD as u64);
            assert!(HEAD_LEN as u64 + most * ENTRY_LEN as u64 <= MAX_INDEX_LEN, "{size}");
        }
    }

    #[test]
    fn what_is_no_index_is_refused() {
        let good = index_of(&noise(5, 500_000), 500_000);
        assert!(ChunkIndex::parse(&good).is_some());
        for len in [0, 7, HEAD_LEN, HEAD_LEN + 5, good.len() - 1, good.len() - ENTRY_LEN] {
            assert!(ChunkIndex::parse(&good[..len]).is_none(), "{len} bytes");
        }
        for (at, byte) in [(0, b'x'), (8, 1), (10, 1), (12, 9), (19, 9), (HEAD_LEN, 1), (HEAD_LEN + 2, 0xff)]
        {
            let mut bad = good.clone();
            bad[at] ^= byte;
            assert!(ChunkIndex::parse(&bad).is_none(), "byte {at}");
        }
        let mut small = format::head(LEAST_AVERAGE, 40).to_vec();
        small.extend_from_slice(&format::Chunk { len: 40, hash: [0; 32] }.to_bytes());
        assert!(format::ChunkIndex::parse(&small).is_ok() && ChunkIndex::parse(&small).is_none());
        let mut coarse = good.clone();
        coarse[8..12].copy_from_slice(&(2 * LEAST_AVERAGE).to_be_bytes());
        assert!(ChunkIndex::parse(&coarse).is_none(), "another average than the object's size asks for");
        // Lengths add up. A chunk of a quarter of the average is long enough, and a shorter one may only be the last.
        let of_lens = |lens: &[u32]| {
            let mut index =
                format::head(LEAST_AVERAGE, lens.iter().map(|len| u64::from(*len)).sum()).to_vec();
            let chunks = lens.iter().flat_map(|len| format::Chunk { len: *len, hash: [0; 32] }.to_bytes());
            index.extend(chunks);
            format::ChunkIndex::parse(&index).is_ok()
        };
        let least = LEAST_AVERAGE / 4;
        assert!(of_lens(&[least, 5]) && !of_lens(&[least - 1, 5]) && !of_lens(&[least, 5, least]));
        let mut long = good;
        long.resize(MAX_INDEX_LEN as usize + ENTRY_LEN, 0);
        assert!(ChunkIndex::parse(&long).is_none());
    }
}
