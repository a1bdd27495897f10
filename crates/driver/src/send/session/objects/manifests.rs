//! Manifests wait for each other a moment, so that one signature is enough for many small objects. Checking a
//! signature costs each receiver as much as receiving a small object.

use std::time::Duration;

use treecast_proto::{
    Instant,
    carousel::{block_hash, copies},
    object::{Destination, SenderWait},
    vcmtp::Sender,
};
use treecast_wire::{
    header::{FileId, Header, PacketType},
    message::{BlockHashes, Message},
};

use super::super::{super::Plan, core::Core};
use crate::security::manifest::{MAX_BATCH, Signer};

/// The time that a manifest waits for others.
const MAX_AGE: Duration = Duration::from_millis(10);

/// The sender's signatures, and the hashes of objects whose manifests are not signed yet.
#[derive(Debug)]
pub(in super::super) struct Manifests {
    /// Signs manifests. `None` in a plain session.
    signer: Option<Signer>,
    /// The objects whose manifests are not signed, with their hashes.
    unsigned: Vec<(FileId, [u8; 32])>,
    /// The time since which the first of them has waited.
    since: Option<Instant>,
    is_feed: bool,
    /// Whether receivers are told by a connection what only the sender may say.
    has_connections: bool,
    block_len: u16,
    /// The number of times that a page of block hashes is sent.
    page_copies: usize,
}

impl Manifests {
    pub fn new(plan: &Plan) -> Self {
        Self {
            signer: plan.identity.clone().map(Signer::new),
            unsigned: Vec::new(),
            since: None,
            is_feed: plan.options.content.feed.is_some(),
            has_connections: plan.options.kind.has_connections(),
            block_len: plan.block_len,
            page_copies: copies(plan.options.fec().is_some()),
        }
    }

    /// The time when the waiting manifests are signed.
    pub fn deadline(&self) -> Option<Instant> {
        self.since.map(|since| since + MAX_AGE)
    }

    /// Takes the hash of an object that has been read to its end.
    pub fn read_to_end(&mut self, now: Instant, file: FileId, hash: [u8; 32], core: &mut Core<'_>) {
        if self.signer.is_none() {
            return core.hashed(now, file, hash);
        }
        self.since.get_or_insert(now);
        self.unsigned.push((file, hash));
        // Repair symbols take time. Receivers of a feed that need none of them have the object when they have its manifest.
        let symbols_follow = self.is_feed && core.machine.vcmtp().is_some_and(Sender::has_symbols_due);
        if symbols_follow || self.unsigned.len() >= MAX_BATCH {
            self.sign_all(now, core);
        }
    }

    /// Signs what has waited long enough.
    pub fn sign_if_due(&mut self, now: Instant, core: &mut Core<'_>) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.sign_all(now, core);
        }
    }

    /// Signs what waits when the group's lane waits: nothing joins those that are there, unless it does so for receivers' buffers alone.
    pub fn sign_before_waiting(&mut self, now: Instant, why: SenderWait, core: &mut Core<'_>) {
        if why != SenderWait::Credit && self.since.is_some() {
            self.sign_all(now, core);
        }
    }

    fn sign_all(&mut self, now: Instant, core: &mut Core<'_>) {
        self.since = None;
        let hashes = std::mem::take(&mut self.unsigned);
        if let Some(signer) = &mut self.signer {
            let announced =
                |(file, hash): &(FileId, [u8; 32])| Some((*file, core.machine.announced(*file)?, *hash));
            signer.sign_all(&hashes.iter().filter_map(announced).collect::<Vec<_>>());
        }
        for (file, hash) in hashes {
            core.hashed(now, file, hash);
        }
    }

    /// The signed form of a message. `None` where it leaves as it is.
    ///
    /// In a secure session, a digest carries the sender's signature. Without connections, so do words that end something: all
    /// members can seal packets, and no connection would tell. An answer to one receiver repeats a time that the receiver has chosen, and is
    /// not signed: it could be said again to all.
    pub fn signed(
        &mut self,
        to: Destination,
        file: FileId,
        message: &Message,
        core: &Core<'_>,
    ) -> Option<Message> {
        let signer = self.signer.as_mut()?;
        let Message::Digest(digest) = message else {
            let is_answer = matches!((to, message), (Destination::Local(_), Message::Local(_)));
            return if self.has_connections || is_answer { None } else { signer.sign_word(file, message) };
        };
        Some(Message::Digest(signer.sign(file, core.machine.announced(file)?, digest.clone())))
    }

    /// Packets that say what the blocks of a run are. Empty where blocks are not signed.
    pub fn pages(&self, first: &Header, run: &[u8]) -> Vec<Vec<u8>> {
        let signer = self.signer.as_ref().filter(|_| BlockHashes::per_page(self.block_len).is_some());
        let Some(signer) = signer else { return Vec::new() };
        let hashes = run.chunks(self.block_len.into()).map(block_hash).collect();
        let are_symbols = first.kind == PacketType::RepairSymbol;
        let Ok(page) = BlockHashes::new(are_symbols, first.sequence, hashes) else { return Vec::new() };
        let packet = Message::Signed(signer.sign_blocks(first.file_id, page)).to_packet(first.file_id);
        vec![packet; self.page_copies]
    }

    /// Forgets an object whose digest is not sent any more.
    pub fn forget(&mut self, file: FileId) {
        self.signer.iter_mut().for_each(|signer| signer.forget(file));
    }
}
