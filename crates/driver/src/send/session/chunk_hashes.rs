//! Sends the hashes of an object's chunks to a receiver whose copy is wrong somewhere.

use std::ops::Range;

use treecast_proto::{Instant, object::ReceiverId};
use treecast_wire::{
    header::FileId,
    message::{ChunkHashes, Message},
};

use super::Session;
use crate::pacer;

impl Session<'_> {
    /// Sends pages of an object's chunk hashes to a receiver, up to the first one that there is not.
    pub(super) fn send_chunk_hashes(
        &mut self,
        now: Instant,
        to: ReceiverId,
        file: FileId,
        pages: Range<u32>,
    ) {
        let Some(connection) = self.peers.get_mut(&to).and_then(|peer| peer.link.connection.as_mut()) else {
            return;
        };
        let mut queued = 0;
        for page in pages {
            let hashing = self.objects.hashing.as_ref();
            let known = self.objects.sources.chunk_hashes(file, page);
            let known = known.or_else(|| hashing?.page(file, page));
            let is_last = known.is_none();
            let message = Message::ChunkHashes(known.unwrap_or_else(|| ChunkHashes::none(page)));
            let packet = message.to_packet(file);
            connection.queue(&packet);
            queued += packet.len() as u64;
            if is_last {
                break;
            }
        }
        let sent = pacer::tcp_bytes(queued);
        self.note_repaired(now, to, sent);
    }
}
