//! The hashes of an object's chunks. They are nodes of the BLAKE3 tree whose root is the object's hash, so they
//! need no signature of their own. A page of them is sent with the nodes beside its path to the root, and can
//! be checked by itself.

use blake3::{
    Hasher,
    hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root},
};
use treecast_proto::object::chunks::Chunks;
use treecast_wire::message::{ChunkHashes, PAGE_CHUNKS};

/// An object's hash, and its chunks' if it has more than one.
pub(crate) type Hashes = ([u8; 32], Option<ChunkTree>);

/// Hashes an object whose bytes come in order, and keeps its chunks' hashes: 32 bytes for 64 KiB, at most 4.5 MiB.
#[derive(Debug)]
pub(crate) struct ChunkHasher {
    /// The division of the object into chunks. `None` when the object is a single chunk.
    chunks: Option<Chunks>,
    /// Hasher of the chunk whose bytes are coming.
    hasher: Hasher,
    position: u64,
    hashes: Vec<ChainingValue>,
}

impl ChunkHasher {
    /// Creates a hasher for an object of `size` bytes.
    pub fn new(size: u64) -> Self {
        Self { chunks: Chunks::new(size), hasher: Hasher::new(), position: 0, hashes: Vec::new() }
    }

    /// Hashes the next bytes of the object.
    pub fn update(&mut self, mut bytes: &[u8]) {
        let Some(chunks) = self.chunks else {
            self.hasher.update(bytes);
            return;
        };
        while !bytes.is_empty() {
            let end = (self.position / chunks.chunk_len() + 1) * chunks.chunk_len();
            let (piece, rest) = bytes.split_at(bytes.len().min((end - self.position) as usize));
            self.hasher.update(piece);
            self.position += piece.len() as u64;
            bytes = rest;
            if self.position == end {
                self.hashes.push(self.hasher.finalize_non_root());
                self.hasher = Hasher::new();
                self.hasher.set_input_offset(end);
            }
        }
    }

    /// Finishes when all bytes have come. Returns the object's hash, and the hashes of its chunks if it has
    /// more than one.
    pub fn finish(mut self) -> Hashes {
        let Some(chunks) = self.chunks else { return (*self.hasher.finalize().as_bytes(), None) };
        if !self.position.is_multiple_of(chunks.chunk_len()) {
            self.hashes.push(self.hasher.finalize_non_root());
        }
        let tree = ChunkTree::new(self.hashes);
        (tree.root(), Some(tree))
    }
}

/// The hashes of an object's chunks, two of them at least.
#[derive(Debug)]
pub(crate) struct ChunkTree {
    chunks: Vec<ChainingValue>,
    /// The nodes over whole pages, the nodes over two of these, and so on to the root's two; none over a single page.
    levels: Vec<Vec<ChainingValue>>,
}

impl ChunkTree {
    fn new(chunks: Vec<ChainingValue>) -> Self {
        let mut levels = Vec::new();
        if chunks.len() > PAGE_CHUNKS {
            levels.push(chunks.chunks(PAGE_CHUNKS).map(|page| node(page.to_vec())).collect::<Vec<_>>());
            while let Some(parents) =
                levels.last().filter(|level| level.len() > 2).map(|level| parents(level))
            {
                levels.push(parents);
            }
        }
        Self { chunks, levels }
    }

    fn root(&self) -> [u8; 32] {
        root(self.levels.last().unwrap_or(&self.chunks).clone())
    }

    /// A page of hashes with its proof. `None` if the object has no such page.
    pub fn page(&self, page: u32) -> Option<ChunkHashes> {
        let hashes = self.chunks.chunks(PAGE_CHUNKS).nth(page as usize)?;
        let beside = |(level, nodes): (usize, &Vec<ChainingValue>)| {
            nodes.get((page as usize).checked_shr(level as u32).unwrap_or(0) ^ 1).copied()
        };
        let proof = self.levels.iter().enumerate().filter_map(beside).collect();
        ChunkHashes::new(page, hashes.to_vec(), proof).ok()
    }
}

/// Whether a page is part of an object with this hash.
pub(crate) fn is_part_of(page: &ChunkHashes, chunks: Chunks, hash: &[u8; 32]) -> bool {
    page.hashes().len() == chunks.of_page(page.page()).len()
        && !page.hashes().is_empty()
        && root_over(page, chunks) == Some(*hash)
}

/// The root that a page and its proof give; none when the proof has too many nodes or too few.
fn root_over(page: &ChunkHashes, chunks: Chunks) -> Option<[u8; 32]> {
    let (mut index, mut count, mut proof) = (page.page(), chunks.pages(), page.proof().iter());
    if count == 1 {
        return proof.next().is_none().then(|| root(page.hashes().to_vec()));
    }
    let mut value = node(page.hashes().to_vec());
    loop {
        let beside = if index ^ 1 < count { Some(proof.next()?) } else { None };
        let pair = beside.map(|beside| if index & 1 == 0 { (value, *beside) } else { (*beside, value) });
        match pair {
            Some((left, right)) if count == 2 => {
                let root = merge_subtrees_root(&left, &right, Mode::Hash);
                return proof.next().is_none().then(|| *root.as_bytes());
            }
            Some((left, right)) => value = merge_subtrees_non_root(&left, &right, Mode::Hash),
            None => {}
        }
        (index, count) = (index / 2, count.div_ceil(2));
    }
}

/// The hash of a chunk that begins at `start` and whose bytes `update` feeds to the hasher that it is given.
///
/// # Errors
/// Those of `update`.
pub(crate) fn chunk_hash<E>(
    start: u64,
    update: impl FnOnce(&mut Hasher) -> Result<(), E>,
) -> Result<[u8; 32], E> {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(start);
    update(&mut hasher)?;
    Ok(hasher.finalize_non_root())
}

/// The node over a row of nodes, which is a power of two of them or the last ones of the object.
fn node(mut row: Vec<ChainingValue>) -> ChainingValue {
    while row.len() > 1 {
        row = parents(&row);
    }
    row.first().copied().unwrap_or_default()
}

/// The root over a row of nodes, at least two, from the object's first to its last.
fn root(mut row: Vec<ChainingValue>) -> [u8; 32] {
    while row.len() > 2 {
        row = parents(&row);
    }
    match row[..] {
        [left, right] => *merge_subtrees_root(&left, &right, Mode::Hash).as_bytes(),
        _ => [0; 32],
    }
}

/// The nodes over each two of a row; the last one of an odd number stands for itself.
fn parents(row: &[ChainingValue]) -> Vec<ChainingValue> {
    let over = |pair: &[ChainingValue]| match pair {
        [left, right] => merge_subtrees_non_root(left, right, Mode::Hash),
        _ => pair[0],
    };
    row.chunks(2).map(over).collect()
}

#[cfg(test)]
mod tests {
    use treecast_proto::object::chunks::CHUNK_LEN;

    use super::*;

    fn bytes(len: u64) -> Vec<u8> {
        (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 15) as u8).collect()
    }

    fn hashed(data: &[u8], piece: usize) -> ([u8; 32], Option<ChunkTree>) {
        let mut hasher = ChunkHasher::new(data.len() as u64);
        data.chunks(piece).for_each(|piece| hasher.update(piece));
        hasher.finish()
    }

    #[test]
    fn is_blake3_and_each_page_leads_to_it_for_every_shape_of_tree() {
        for count in (0..8).chain([15, 16, 17, 31, 32, 33, 47, 48, 49, 80, 81]) {
            for rest in [0, 1, 1025, CHUNK_LEN - 1] {
                let data = bytes(count * CHUNK_LEN + rest);
                let (hash, tree) = hashed(&data, 255_600);
                assert_eq!(hash, *blake3::hash(&data).as_bytes(), "{count} {rest}");
                assert_eq!(tree.is_some(), data.len() as u64 > CHUNK_LEN);
                let Some(chunks) = Chunks::new(data.len() as u64) else { continue };
                for page in 0..chunks.pages() {
                    let told = tree.as_ref().unwrap().page(page).unwrap();
                    assert!(is_part_of(&told, chunks, &hash), "{count} {rest}: {told}");
                }
                assert_eq!(tree.unwrap().page(chunks.pages()), None);
            }
        }
    }

    #[test]
    fn what_is_forged_or_of_another_place_is_no_part_of_the_object() {
        let data = bytes(40 * CHUNK_LEN + 9);
        let chunks = Chunks::new(data.len() as u64).unwrap();
        let (hash, tree) = hashed(&data, 1_000_000);
        let right = tree.unwrap().page(1).unwrap();
        let forged = |page, hashes: &[[u8; 32]], proof: &[[u8; 32]]| {
            let page = ChunkHashes::new(page, hashes.to_vec(), proof.to_vec()).unwrap();
            assert!(!is_part_of(&page, chunks, &hash), "{page}");
        };
        let (mut hashes, mut proof) = (right.hashes().to_vec(), right.proof().to_vec());
        forged(0, &hashes, &proof);
        forged(2, &hashes, &proof);
        forged(u32::MAX, &hashes, &proof);
        forged(1, &hashes[..15], &proof);
        forged(1, &[], &[]);
        forged(1, &hashes, &proof[1..]);
        forged(1, &hashes, &[&proof[..], &[[1; 32]]].concat());
        hashes[3][0] ^= 1;
        forged(1, &hashes, &proof);
        hashes[3][0] ^= 1;
        proof[1][31] ^= 1;
        forged(1, &hashes, &proof);
        let other = Chunks::new(data.len() as u64 + 40 * CHUNK_LEN).unwrap();
        assert!(is_part_of(&right, chunks, &hash) && !is_part_of(&right, other, &hash));
    }

    #[test]
    fn a_chunk_is_hashed_where_it_lies() {
        let data = bytes(3 * CHUNK_LEN + 100);
        let told = hashed(&data, 77_777).1.unwrap().page(0).unwrap();
        for (chunk, hash) in data.chunks(CHUNK_LEN as usize).zip(told.hashes()) {
            let start = chunk.as_ptr() as u64 - data.as_ptr() as u64;
            let computed = chunk_hash(start, |hasher| {
                hasher.update(chunk);
                Ok::<(), ()>(())
            });
            assert_eq!(computed, Ok(*hash));
        }
    }
}
