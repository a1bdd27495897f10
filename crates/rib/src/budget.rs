//! The budget of memory for the contents of one file, whatever the file says.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use treecast_host::memory;

/// Upper bound, in bytes, of what a text may take: delegations and relations. All registries together need a tenth.
const MAX_TEXT_BYTES: u64 = 1 << 30;

/// Memory, in bytes, that one file may take where the machine does not tell how much it has.
const UNKNOWN_BYTES: u64 = 4 << 30;

/// The memory that the contents of one file may still take. The threads that read the file share it.
#[derive(Debug)]
pub struct Budget {
    left: AtomicU64,
    limit: u64,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(limit: u64) -> Self {
        Self { left: AtomicU64::new(limit), limit }
    }

    /// The budget of a routing table: half of the memory that this process may take. The analysis takes from the other half.
    pub fn of_table() -> Self {
        Self::new(memory::available_bytes().map_or(UNKNOWN_BYTES, |bytes| bytes / 2))
    }

    /// The budget of a text.
    pub fn of_text() -> Self {
        Self::new(Self::of_table().limit.min(MAX_TEXT_BYTES))
    }

    /// Takes memory, in bytes.
    ///
    /// # Errors
    /// `OutOfMemory` if less is left.
    pub fn take(&self, bytes: usize) -> io::Result<()> {
        let taken = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes as u64));
        taken.map(drop).map_err(|_| self.exceeded())
    }

    fn exceeded(&self) -> io::Error {
        let megabytes = self.limit >> 20;
        io::Error::new(
            io::ErrorKind::OutOfMemory,
            format!(
                "its contents need more than {megabytes} MiB of memory, which is all that one file may take here: \
                 if the file is right, divide it, or read it on a machine with more memory"
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_once() {
        let budget = Budget::new(100 << 20);
        budget.take(60 << 20).unwrap();
        let error = budget.take(41 << 20).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(error.to_string().contains("more than 100 MiB of memory"), "{error}");
        budget.take(40 << 20).unwrap();
        assert!(Budget::of_text().limit <= MAX_TEXT_BYTES);
    }
}
