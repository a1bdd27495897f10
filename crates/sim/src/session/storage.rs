//! Simulates a receiver's storage in memory.

use std::{collections::BTreeMap, ops::Range, rc::Rc};

use treecast_proto::object::chunks::Chunks;
use treecast_wire::message::ChunkHashes;

use super::scenario::Fault;

/// The hash of an object. If only the number of its bytes counts, the hash is made of the object's number.
pub(crate) fn hash_of(index: u32, content: &[u8]) -> [u8; 32] {
    if content.is_empty() { blake3::hash(&index.to_be_bytes()).into() } else { blake3::hash(content).into() }
}

/// The largest object that fits, in bytes.
pub(crate) const CAPACITY: u64 = 1 << 24;

/// A receiver's files, under temporary and under final names.
#[derive(Debug)]
pub(crate) struct Storage {
    faults: Vec<Option<Fault>>,
    temporary: BTreeMap<u32, Temporary>,
    committed: BTreeMap<u32, Vec<u8>>,
    /// Repair symbols, by object and source block.
    symbols: BTreeMap<(u32, u32), Vec<Symbols>>,
    /// Whether only the number of bytes counts.
    is_counting: bool,
}

/// The hashes of a page of an object's chunks, as a host would report them, but without the proof: nobody can forge
/// it here.
pub(crate) fn chunk_hashes(content: &[u8], page: u32) -> ChunkHashes {
    let Some(chunks) = Chunks::new(content.len() as u64) else { return ChunkHashes::none(page) };
    let hash = |chunk: u32| {
        let bytes = chunks.bytes(chunk..chunk + 1);
        blake3::hash(&content[bytes.start as usize..bytes.end as usize]).into()
    };
    let hashes = chunks.of_page(page).map(hash).collect();
    ChunkHashes::new(page, hashes, Vec::new()).unwrap_or(ChunkHashes::none(page))
}

/// The sequence numbers of repair symbols, and the object that they were computed from.
type Symbols = (Range<u64>, Rc<[u8]>);

#[derive(Debug, Default)]
struct Temporary {
    bytes: Vec<u8>,
    /// The number of bytes stored since the last hash.
    stored: usize,
}

impl Storage {
    pub(crate) fn new(faults: Vec<Option<Fault>>) -> Self {
        Self {
            faults,
            temporary: BTreeMap::new(),
            committed: BTreeMap::new(),
            symbols: BTreeMap::new(),
            is_counting: false,
        }
    }

    /// Creates a storage that keeps only the number of bytes.
    pub(crate) fn counting() -> Self {
        Self { is_counting: true, ..Self::new(Vec::new()) }
    }

    pub(crate) fn announce(&mut self, index: u32, size: u64) {
        let file = self.temporary.entry(index).or_default();
        if !self.is_counting {
            file.bytes.resize(size as usize, 0);
        }
    }

    /// # Errors
    /// When the fault that is planned says so.
    pub(crate) fn store(&mut self, index: u32, range: Range<u64>, content: &[u8]) -> Result<(), String> {
        let range = range.start as usize..range.end as usize;
        if self.is_counting {
            self.temporary.entry(index).or_default().stored += range.len();
            return Ok(());
        }
        let fault = self.fault(index);
        if let Some(Fault::StoreFails(position)) = fault
            && range.contains(&position)
        {
            return Err("no space is left".to_owned());
        }
        let file = self.temporary.entry(index).or_default();
        if file.bytes.len() < range.end {
            file.bytes.resize(range.end, 0);
        }
        file.bytes[range.clone()].copy_from_slice(content);
        file.stored += content.len();
        if matches!(fault, Some(Fault::DamagedOnce | Fault::DamagedAlways)) && range.start == 0 {
            file.bytes[0] ^= 1;
            if fault == Some(Fault::DamagedOnce) {
                self.faults[index as usize] = None;
            }
        }
        Ok(())
    }

    pub(crate) fn keep_symbols(
        &mut self,
        index: u32,
        source_block: u32,
        positions: Range<u64>,
        of: &Rc<[u8]>,
    ) {
        self.symbols.entry((index, source_block)).or_default().push((positions, Rc::clone(of)));
    }

    /// Does what a decoder would: with enough symbols, now and then one more, the missing bytes are there; when a
    /// symbol or a stored block was wrong, wrong ones. Returns whether it could; none when there are too few symbols,
    /// which nobody should ask for.
    ///
    /// # Errors
    /// When the fault that is planned says so.
    pub(crate) fn decode(
        &mut self,
        index: u32,
        source_block: u32,
        blocks: Range<u64>,
        missing: &[Range<u64>],
        block_len: u16,
    ) -> Result<Option<bool>, String> {
        let block_len = u64::from(block_len);
        let symbols = self.symbols.get(&(index, source_block)).map_or(&[][..], Vec::as_slice);
        let kept: u64 =
            symbols.iter().map(|(positions, _)| (positions.end - positions.start) / block_len).sum();
        let lost: u64 = missing.iter().map(|gap| (gap.end - gap.start).div_ceil(block_len)).sum();
        let Some((first, content)) = symbols.first().filter(|_| kept >= lost).cloned() else {
            return Ok(None);
        };
        if kept == lost && (first.start / block_len).is_multiple_of(16) {
            return Ok(Some(false));
        }
        if self.is_counting {
            self.symbols.remove(&(index, source_block));
            let bytes: u64 = missing.iter().map(|gap| gap.end - gap.start).sum();
            self.temporary.entry(index).or_default().stored += bytes as usize;
            return Ok(Some(true));
        }
        let is_forged = symbols.iter().any(|(_, other)| !Rc::ptr_eq(other, &content));
        let bytes = self.temporary.get(&index).map_or(&[][..], |file| &file.bytes);
        let end = bytes.len().min((blocks.end * block_len) as usize);
        let gaps = || missing.iter().map(|gap| gap.start as usize..gap.end as usize);
        let starts = gaps().map(|gap| gap.start).chain([end]);
        let mut between =
            std::iter::once((blocks.start * block_len) as usize).chain(gaps().map(|gap| gap.end)).zip(starts);
        let is_wrong = is_forged
            || content.len() != bytes.len()
            || between.any(|(from, to)| content.get(from..to) != bytes.get(from..to));
        self.symbols.remove(&(index, source_block));
        for gap in gaps() {
            let Some(right) = content.get(gap.clone()) else { continue };
            let mut right = right.to_vec();
            right[0] ^= u8::from(is_wrong);
            self.store(index, gap.start as u64..gap.end as u64, &right)?;
        }
        Ok(Some(true))
    }

    pub(crate) fn forget_symbols(&mut self, index: u32) {
        self.symbols.retain(|(other, _), _| *other != index);
    }

    /// The hash of what is stored, and how many bytes were stored for it; none when it is discarded.
    pub(crate) fn hash(&mut self, index: u32) -> Option<([u8; 32], usize)> {
        let file = self.temporary.get_mut(&index)?;
        Some((hash_of(index, &file.bytes), std::mem::take(&mut file.stored)))
    }

    /// Which chunks of a page are stored otherwise than they should be; none when nothing is stored.
    pub(crate) fn wrong_chunks(&self, index: u32, page: &ChunkHashes) -> Option<Vec<Range<u64>>> {
        let bytes = &self.temporary.get(&index)?.bytes;
        if self.is_counting {
            return Some(Vec::new());
        }
        let chunks = Chunks::new(bytes.len() as u64)?;
        let ranges = chunks.of_page(page.page()).map(|chunk| chunks.bytes(chunk..chunk + 1));
        let found = chunk_hashes(bytes, page.page());
        let pairs = ranges.zip(found.hashes().iter().zip(page.hashes()));
        Some(pairs.filter(|(_, (found, expected))| found != expected).map(|(range, _)| range).collect())
    }

    /// # Errors
    /// When the fault that is planned says so.
    pub(crate) fn commit(&mut self, index: u32) -> Result<(), String> {
        if self.fault(index) == Some(Fault::CommitFails) {
            return Err("the folder is gone".to_owned());
        }
        let file = self.temporary.remove(&index).unwrap_or_default();
        self.committed.insert(index, file.bytes);
        self.forget_symbols(index);
        Ok(())
    }

    pub(crate) fn discard(&mut self, index: u32) {
        self.temporary.remove(&index);
        self.forget_symbols(index);
    }

    /// Files under their final names.
    pub(crate) fn committed(&self) -> &BTreeMap<u32, Vec<u8>> {
        &self.committed
    }

    /// Files under temporary names.
    /// Whether something of an object is stored, or may be.
    pub(crate) fn has_begun(&self, index: u32) -> bool {
        self.temporary.contains_key(&index)
    }

    pub(crate) fn leftovers(&self) -> usize {
        self.temporary.len() + self.symbols.len()
    }

    fn fault(&self, index: u32) -> Option<Fault> {
        self.faults.get(index as usize).copied().flatten()
    }
}
