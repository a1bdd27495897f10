//! Reusable buffers for the bytes of small objects. One thread fills them and another one releases them, which
//! is the worst case for an allocator: it cost as much as hashing the content.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The shortest buffers, in bytes, that are kept. Shorter ones are the allocator's.
const LEAST_LEN: usize = 4 * 1024;

/// Number of sizes, each twice the one before.
const SIZES: usize = 5;

/// The most memory of buffers that nobody uses.
const MAX_SPARE_BYTES: usize = 4 << 20;

/// The buffers, shared by all threads that take and release them.
#[derive(Debug, Clone, Default)]
pub struct Buffers(Arc<Mutex<Spare>>);

#[derive(Debug, Default)]
struct Spare {
    /// Free buffers, one list for each size.
    buffers: [Vec<Vec<u8>>; SIZES],
    bytes: usize,
}

impl Buffers {
    /// Takes an empty buffer with room for this many bytes, and for at most twice as many.
    pub fn take(&self, len: usize) -> Vec<u8> {
        let Some(size) = size_for(len) else { return Vec::with_capacity(len) };
        let mut spare = self.lock();
        match spare.buffers[size].pop() {
            Some(buffer) => {
                spare.bytes -= buffer.capacity();
                buffer
            }
            None => Vec::with_capacity(LEAST_LEN << size),
        }
    }

    /// Gives a buffer back.
    pub fn give(&self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        let Some(size) = size_for(capacity).filter(|size| LEAST_LEN << size == capacity) else { return };
        let mut spare = self.lock();
        if spare.bytes + capacity <= MAX_SPARE_BYTES {
            buffer.clear();
            spare.bytes += capacity;
            spare.buffers[size].push(buffer);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Spare> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The index of the size with room for this many bytes. `None` where the allocator gives the buffer.
fn size_for(len: usize) -> Option<usize> {
    let size = len.next_power_of_two().trailing_zeros().checked_sub(LEAST_LEN.trailing_zeros())? as usize;
    (size < SIZES).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_for_whoever_needs_about_as_much() {
        let buffers = Buffers::default();
        let mut first = buffers.take(10_000);
        first.extend_from_slice(&[7; 10_000]);
        let (place, capacity) = (first.as_ptr(), first.capacity());
        buffers.give(first);
        let [shorter, second, third] = [5_000, 12_000, 10_000].map(|len| buffers.take(len));
        assert_eq!((second.as_ptr(), second.len(), second.capacity()), (place, 0, capacity));
        assert!(capacity <= 2 * 10_000);
        assert!(shorter.as_ptr() != place && third.as_ptr() != place, "it is in use, or of another size");
    }

    #[test]
    fn what_nobody_uses_is_bounded() {
        let buffers = Buffers::default();
        for len in [0, 100, 4_096, 20_000, 65_536, 65_537, 1 << 20] {
            for buffer in (0..2_000).map(|_| buffers.take(len)).collect::<Vec<_>>() {
                assert!(buffer.capacity() >= len);
                buffers.give(buffer);
            }
        }
        let spare = buffers.lock();
        let bytes: usize = spare.buffers.iter().flatten().map(Vec::capacity).sum();
        assert_eq!(bytes, spare.bytes);
        assert!(bytes <= MAX_SPARE_BYTES && bytes > MAX_SPARE_BYTES / 2);
    }
}
