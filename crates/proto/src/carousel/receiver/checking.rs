//! What the receiver does with the hashes of an object's chunks, when the object's own is wrong.

use std::ops::Range;

use treecast_wire::{header::FileId, message::ChunkHashes};

use super::Receiver;
use crate::object::{ReceiverTransmit, chunks};

impl Receiver {
    pub(super) fn has_chunk_hashes(&self) -> bool {
        self.config.has_chunk_hashes && chunks::fit_in(self.config.block_len)
    }

    /// A page of chunk hashes that is awaited, since an object's hash was wrong.
    pub(crate) fn unchecked_page(&self, index: u32) -> Option<u32> {
        self.objects.get(&index)?.check.as_ref()?.first_open()
    }

    /// What some chunks should be. The page may be anybody's, which shows when it is compared.
    pub(super) fn on_chunk_hashes(&mut self, file: FileId, page: ChunkHashes) {
        let Some(object) = self.object(file) else { return };
        let Some((check, hash)) = object.check.as_mut().zip(object.digest) else { return };
        if check.take(page.page()) {
            self.transmit(ReceiverTransmit::CheckChunks { file, hash, page });
        }
    }

    /// A page of chunks has been compared: the wrong ones are taken again. When all are, what is there is right.
    pub(super) fn on_checked(&mut self, file: FileId, page: u32, wrong: Option<&[Range<u64>]>) {
        let Some(object) = self.object(file) else { return };
        let Some(check) = &mut object.check else { return };
        let (was_awaited, wrong) = (check.compared(page, wrong.is_some()), wrong.unwrap_or_default());
        if !was_awaited {
            return;
        }
        let count: u64 = wrong.iter().map(|bytes| check.count(bytes)).sum();
        if check.is_over() {
            object.check = None;
        }
        wrong.iter().for_each(|bytes| _ = object.stored.forget(bytes));
        self.counters.wrong_chunks += count;
        self.hash_when_complete(file);
    }
}
