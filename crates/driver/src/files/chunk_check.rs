//! Finds the chunks of a stored object that differ from the sender's.

use std::{io, ops::Range};

use treecast_proto::object::chunks::Chunks;
use treecast_wire::message::ChunkHashes;

use super::stored::Stored;
use crate::chunk_tree::{chunk_hash, is_part_of};

/// Compares a page of chunks with what is stored. Returns where they differ, in bytes; none when the page is no part of
/// the object with this hash.
pub(super) fn wrong_chunks(
    stored: &Stored,
    size: u64,
    hash: &[u8; 32],
    page: &ChunkHashes,
    buffer: &mut [u8],
) -> io::Result<Option<Vec<Range<u64>>>> {
    let Some(chunks) = Chunks::new(size).filter(|chunks| is_part_of(page, *chunks, hash)) else {
        return Ok(None);
    };
    let mut wrong: Vec<Range<u64>> = Vec::new();
    for (chunk, expected) in chunks.of_page(page.page()).zip(page.hashes()) {
        let bytes = chunks.bytes(chunk..chunk + 1);
        let found = chunk_hash(bytes.start, |hasher| stored.read_into(bytes.clone(), buffer, hasher))?;
        match wrong.last_mut() {
            _ if found == *expected => {}
            Some(last) if last.end == bytes.start => last.end = bytes.end,
            _ => wrong.push(bytes),
        }
    }
    Ok(Some(wrong))
}
