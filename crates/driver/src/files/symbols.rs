//! Repair symbols that are kept until their source block is decoded. They are in one unnamed file in the target
//! folder for all objects, so that neither memory nor the number of open files grows.

use std::{collections::BTreeMap, fs::File, io, ops::Range, os::unix::fs::FileExt};

use treecast_wire::header::FileId;

use super::{TargetError, TargetFolder, stored::Stored};

/// The symbols of all objects.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    /// The file with the symbols. `None` while no symbol is kept.
    file: Option<File>,
    /// The end of the slots that have been used.
    end: u64,
    /// Positions of slots that are not used any more, by their length.
    free: BTreeMap<u16, Vec<u64>>,
    kept: BTreeMap<FileId, Kept>,
}

/// The symbols of one object.
#[derive(Debug)]
struct Kept {
    symbol_len: u16,
    /// The symbols' numbers and the positions of their slots, by source block.
    blocks: BTreeMap<u32, Vec<(u32, u64)>>,
}

/// A source block to decode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceBlock {
    pub number: u32,
    /// The numbers of its blocks, and their length.
    pub blocks: Range<u64>,
    pub symbol_len: u16,
    /// The byte ranges of the object that this source block lacks.
    pub missing: Vec<Range<u64>>,
}

impl Symbols {
    /// Keeps symbols of a source block, from number `first` on. If that fails, all symbols of the object are
    /// dropped.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn keep(
        &mut self,
        folder: &TargetFolder,
        file: FileId,
        symbol_len: u16,
        (source_block, first): (u32, u32),
        bytes: &[u8],
    ) -> Result<(), TargetError> {
        let symbol_len = self.kept.get(&file).map_or(symbol_len.max(1), |kept| kept.symbol_len);
        for (number, symbol) in (first..).zip(bytes.chunks_exact(symbol_len.into())) {
            let slot = self.free.get_mut(&symbol_len).and_then(Vec::pop).unwrap_or(self.end);
            self.end = self.end.max(slot + u64::from(symbol_len));
            let kept = self.kept.entry(file).or_insert_with(|| Kept { symbol_len, blocks: BTreeMap::new() });
            kept.blocks.entry(source_block).or_default().push((number, slot));
            if let Err(error) = self.write(folder, slot, symbol) {
                self.forget(file);
                return Err(error);
            }
        }
        Ok(())
    }

    fn write(&mut self, folder: &TargetFolder, slot: u64, symbol: &[u8]) -> Result<(), TargetError> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(folder.scratch()?),
        };
        file.write_all_at(symbol, slot).map_err(|source| folder.error("keep repair symbols".into(), source))
    }

    /// Whether symbols of an object are kept.
    pub fn has(&self, file: FileId) -> bool {
        self.kept.contains_key(&file)
    }

    /// Forgets the symbols of an object.
    pub fn forget(&mut self, file: FileId) {
        if let Some(Kept { symbol_len, blocks }) = self.kept.remove(&file) {
            self.free_slots(symbol_len, blocks.into_values().flatten());
        }
    }

    /// Slots are used again. When none is used, the file goes, and what it takes of the disk.
    fn free_slots(&mut self, symbol_len: u16, symbols: impl Iterator<Item = (u32, u64)>) {
        self.free.entry(symbol_len).or_default().extend(symbols.map(|(_, slot)| slot));
        if self.kept.values().all(|kept| kept.blocks.is_empty()) {
            (self.file, self.end) = (None, 0);
            self.free.clear();
        }
    }

    /// Reads everything that is there of a source block of an object of `size` bytes: stored blocks and kept symbols, by
    /// their numbers.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn gather(
        &self,
        file: FileId,
        (stored, size): (&Stored, u64),
        source_block: &SourceBlock,
    ) -> io::Result<Vec<(u32, Vec<u8>)>> {
        let mut received = source_symbols(stored, size, source_block)?;
        let kept = self.kept.get(&file).filter(|kept| kept.symbol_len == source_block.symbol_len);
        let kept = kept.and_then(|kept| kept.blocks.get(&source_block.number));
        if let Some(scratch) = &self.file {
            for (number, slot) in kept.into_iter().flatten() {
                let mut symbol = vec![0; source_block.symbol_len.into()];
                scratch.read_exact_at(&mut symbol, *slot)?;
                received.push((*number, symbol));
            }
        }
        Ok(received)
    }

    /// Forgets the symbols of one source block.
    pub fn forget_source_block(&mut self, file: FileId, source_block: u32) {
        if let Some(kept) = self.kept.get_mut(&file) {
            let (symbol_len, used) = (kept.symbol_len, kept.blocks.remove(&source_block));
            self.free_slots(symbol_len, used.into_iter().flatten());
        }
    }
}

/// The blocks that are stored, by their numbers in the source block; the object's last one is filled up with zeroes,
/// whatever lies behind it on a device.
/// Neighbours are read together, since 2,900 system calls for a source block take milliseconds.
fn source_symbols(stored: &Stored, size: u64, source_block: &SourceBlock) -> io::Result<Vec<(u32, Vec<u8>)>> {
    let len = u64::from(source_block.symbol_len);
    let (begin, end) = (source_block.blocks.start * len, source_block.blocks.end * len);
    let (mut symbols, mut from) = (Vec::new(), begin);
    for gap in source_block.missing.iter().cloned().chain(std::iter::once(end..end)) {
        let mut run = vec![0; gap.start.saturating_sub(from) as usize];
        let there = size.saturating_sub(from).min(run.len() as u64) as usize;
        stored.read(from, &mut run[..there])?;
        let first = ((from - begin) / len) as u32;
        symbols.extend((first..).zip(run.chunks_exact(len as usize).map(<[u8]>::to_vec)));
        from = gap.end.next_multiple_of(len);
    }
    Ok(symbols)
}

#[cfg(test)]
mod tests {
    use treecast_wire::header::SessionId;

    use super::*;
    use crate::{
        fec::{self, Encoder},
        files::Journal,
        scratch::scratch,
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
        // A device is larger than what it gets, and has no length of its own in its status.
        stored.write(SIZE as u64, &[0xff; 500]).unwrap();
        let names = std::fs::read_dir(&path).unwrap().count();
        let mut symbols = Symbols::default();
        for (number, blocks, missing) in [
            (0, 0..13_u64, vec![0..200_u64, 700..800]),
            (1, 13..25, vec![1_300..1_500, 2_400..2_450]),
            (1, 13..25, vec![1_300..1_500, 1_700..1_800]),
        ] {
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
            symbols.keep(&folder, FileId(1), LEN, (number, count), &repair[..200]).unwrap();
            let source_block = SourceBlock { number, blocks, symbol_len: LEN, missing };
            let of = (&stored, SIZE as u64);
            let gathered = |symbols: &Symbols| symbols.gather(FileId(1), of, &source_block).unwrap();
            let decode = |symbols: &Symbols| fec::decode(count, LEN, gathered(symbols));
            assert_eq!(decode(&symbols), None, "too few");
            symbols.keep(&folder, FileId(1), LEN, (number, count + 2), &repair[200..]).unwrap();
            assert!(decode(&symbols).unwrap() == whole);
            symbols.forget_source_block(FileId(1), number);
            assert!(symbols.file.is_none(), "nothing is kept any more");
        }
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), names);
    }

    /// The number of files under `path` that this process has open.
    fn open_files(path: &std::path::Path) -> usize {
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
        let open = descriptors.filter_map(|one| std::fs::read_link(one.unwrap().path()).ok());
        open.filter(|target| target.starts_with(path) && *target != path).count()
    }

    #[test]
    fn symbols_of_many_objects_take_one_file_and_its_room_is_used_again() {
        let path = scratch("symbols-of-many");
        let folder = TargetFolder::open(&path).unwrap();
        let mut symbols = Symbols::default();
        let before = open_files(&path);
        let keep = |symbols: &mut Symbols, index| {
            let len = if index % 2 == 0 { LEN } else { 2 * LEN };
            symbols.keep(&folder, FileId(index), len, (0, 7), &[index as u8; 600]).unwrap();
        };
        (0..100).for_each(|index| keep(&mut symbols, index));
        assert_eq!(open_files(&path), before + 1);
        let end = symbols.end;
        (0..50).for_each(|index| symbols.forget(FileId(index)));
        (100..150).for_each(|index| keep(&mut symbols, index));
        assert_eq!(symbols.end, end, "slots are used again");
        (0..150).for_each(|index| symbols.forget(FileId(index)));
        assert_eq!(open_files(&path), before);
    }
}
