//! Repair symbols of an object that are kept until their source block is decoded: in a file without a name in the target
//! folder, so that memory does not grow with what comes.

use std::{collections::BTreeMap, fs::File, io, ops::Range, os::unix::fs::FileExt};

use treecast_wire::header::FileId;

use super::{TargetError, TargetFolder, stored::Stored};
use crate::fec;

/// The symbols of one object.
#[derive(Debug)]
pub(super) struct Symbols {
    file: File,
    symbol_len: u16,
    /// Of each source block, the symbols' numbers and their slots in the file.
    kept: BTreeMap<u32, Vec<(u32, u64)>>,
    /// Slots that are not used any more.
    free: Vec<u64>,
    slots: u64,
}

/// A source block that is to be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceBlock {
    pub number: u32,
    /// The blocks in it, and how long they are.
    pub blocks: Range<u64>,
    pub symbol_len: u16,
    /// Those that are not stored, in bytes.
    pub missing: Vec<Range<u64>>,
}

impl Symbols {
    /// # Errors
    /// When no file can be made.
    pub fn new(folder: &TargetFolder, file: FileId, symbol_len: u16) -> Result<Self, TargetError> {
        let file = folder.scratch(file)?;
        Ok(Self { file, symbol_len: symbol_len.max(1), kept: BTreeMap::new(), free: Vec::new(), slots: 0 })
    }

    /// Keeps symbols of a source block, from number `first` on.
    pub fn keep(&mut self, source_block: u32, first: u32, bytes: &[u8]) -> io::Result<()> {
        let kept = self.kept.entry(source_block).or_default();
        for (number, symbol) in (first..).zip(bytes.chunks_exact(self.symbol_len.into())) {
            let slot = self.free.pop().unwrap_or_else(|| {
                self.slots += 1;
                self.slots - 1
            });
            self.file.write_all_at(symbol, slot * u64::from(self.symbol_len))?;
            kept.push((number, slot));
        }
        Ok(())
    }

    /// The bytes of a source block, from what of it is stored and its symbols, which are then forgotten. None when they do
    /// not suffice.
    pub fn decode(&mut self, stored: &Stored, source_block: &SourceBlock) -> io::Result<Option<Vec<u8>>> {
        let symbols = (source_block.blocks.end - source_block.blocks.start) as u32;
        let mut received = source_symbols(stored, source_block)?;
        for (number, slot) in self.kept.get(&source_block.number).into_iter().flatten() {
            let mut symbol = vec![0; self.symbol_len.into()];
            self.file.read_exact_at(&mut symbol, slot * u64::from(self.symbol_len))?;
            received.push((*number, symbol));
        }
        let decoded = fec::decode(symbols, self.symbol_len, received);
        if decoded.is_some() {
            let kept = self.kept.remove(&source_block.number).unwrap_or_default();
            self.free.extend(kept.into_iter().map(|(_, slot)| slot));
        }
        Ok(decoded)
    }
}

/// The blocks that are stored, by their numbers in the source block; the object's last one is filled up with zeroes.
fn source_symbols(stored: &Stored, source_block: &SourceBlock) -> io::Result<Vec<(u32, Vec<u8>)>> {
    let len = u64::from(source_block.symbol_len);
    let size = stored.file_len()?;
    let mut missing = source_block.missing.iter().peekable();
    let mut symbols = Vec::new();
    for (number, block) in (0..).zip(source_block.blocks.clone()) {
        let start = block * len;
        while missing.next_if(|gap| gap.end <= start).is_some() {}
        if missing.peek().is_some_and(|gap| gap.start <= start) {
            continue;
        }
        let mut symbol = vec![0; usize::from(source_block.symbol_len)];
        let there = size.saturating_sub(start).min(len) as usize;
        stored.read(start, &mut symbol[..there])?;
        symbols.push((number, symbol));
    }
    Ok(symbols)
}

#[cfg(test)]
mod tests {
    use treecast_wire::header::SessionId;

    use super::*;
    use crate::{
        fec::Encoder,
        files::{Journal, walk::tests::scratch},
    };

    const LEN: u16 = 100;

    /// 25 blocks in two source blocks, the last one short.
    const SIZE: usize = 2_450;

    #[test]
    fn lost_blocks_come_back_from_a_file_without_a_name() {
        let path = scratch("symbols");
        let folder = TargetFolder::open(&path).unwrap();
        let data: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
        let (journal, _) = Journal::open(&folder, SessionId(0), false).unwrap();
        let mut stored = Stored::new(journal.part(FileId(1), false).unwrap());
        stored.announce(&folder, "name", SIZE as u64).unwrap();
        let names = std::fs::read_dir(&path).unwrap().count();
        let mut symbols = Symbols::new(&folder, FileId(1), LEN).unwrap();
        for (number, blocks, missing) in
            [(0, 0..13_u64, vec![0..200_u64, 700..800]), (1, 13..25, vec![1_300..1_500, 2_400..2_450])]
        {
            let bytes = blocks.start as usize * 100..(blocks.end as usize * 100).min(SIZE);
            let mut whole = data[bytes.clone()].to_vec();
            whole.resize((blocks.end - blocks.start) as usize * 100, 0);
            let present = bytes
                .clone()
                .step_by(100)
                .filter(|at| !missing.iter().any(|gap: &Range<u64>| gap.contains(&(*at as u64))));
            for at in present {
                stored.write(at as u64, &data[at..(at + 100).min(SIZE)]).unwrap();
            }
            let count = (blocks.end - blocks.start) as u32;
            let repair = Encoder::new(&whole, LEN).unwrap().repair(count..count + 5).unwrap();
            symbols.keep(number, count, &repair[..200]).unwrap();
            let source_block = SourceBlock { number, blocks, symbol_len: LEN, missing };
            assert_eq!(symbols.decode(&stored, &source_block).unwrap(), None, "too few");
            symbols.keep(number, count + 2, &repair[200..]).unwrap();
            let decoded = symbols.decode(&stored, &source_block).unwrap().unwrap();
            assert!(decoded == whole);
            let slots: u64 = symbols.slots;
            assert!(slots <= 5 && symbols.kept.is_empty(), "slots are used again");
        }
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), names);
        std::fs::remove_dir_all(path).unwrap();
    }
}
