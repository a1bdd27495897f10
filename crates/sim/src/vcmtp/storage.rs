//! A receiver's storage: what a host's driver does with files, in memory.

use std::{collections::BTreeMap, ops::Range};

use super::scenario::Fault;

/// The largest object that fits, in bytes.
pub(crate) const CAPACITY: u64 = 1 << 24;

/// Files under temporary names, and those under their final ones.
#[derive(Debug)]
pub(crate) struct Storage {
    faults: Vec<Option<Fault>>,
    temporary: BTreeMap<u32, Temporary>,
    committed: BTreeMap<u32, Vec<u8>>,
}

#[derive(Debug, Default)]
struct Temporary {
    bytes: Vec<u8>,
    /// How many bytes have been stored since the last hash.
    stored: usize,
}

impl Storage {
    pub(crate) fn new(faults: Vec<Option<Fault>>) -> Self {
        Self { faults, temporary: BTreeMap::new(), committed: BTreeMap::new() }
    }

    pub(crate) fn announce(&mut self, index: u32, size: u64) {
        self.temporary.entry(index).or_default().bytes.resize(size as usize, 0);
    }

    /// # Errors
    /// When the fault that is planned says so.
    pub(crate) fn store(&mut self, index: u32, range: Range<u64>, content: &[u8]) -> Result<(), String> {
        let range = range.start as usize..range.end as usize;
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

    /// The hash of what is stored, and how many bytes were stored for it; none when it is discarded.
    pub(crate) fn hash(&mut self, index: u32) -> Option<([u8; 32], usize)> {
        let file = self.temporary.get_mut(&index)?;
        Some((blake3::hash(&file.bytes).into(), std::mem::take(&mut file.stored)))
    }

    /// # Errors
    /// When the fault that is planned says so.
    pub(crate) fn commit(&mut self, index: u32) -> Result<(), String> {
        if self.fault(index) == Some(Fault::CommitFails) {
            return Err("the folder is gone".to_owned());
        }
        let file = self.temporary.remove(&index).unwrap_or_default();
        self.committed.insert(index, file.bytes);
        Ok(())
    }

    pub(crate) fn discard(&mut self, index: u32) {
        self.temporary.remove(&index);
    }

    /// Files under their final names.
    pub(crate) fn committed(&self) -> &BTreeMap<u32, Vec<u8>> {
        &self.committed
    }

    /// Files under temporary names.
    pub(crate) fn leftovers(&self) -> usize {
        self.temporary.len()
    }

    fn fault(&self, index: u32) -> Option<Fault> {
        self.faults.get(index as usize).copied().flatten()
    }
}
