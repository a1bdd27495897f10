//! One object as a carousel's receiver knows it.

use std::time::Duration;

use treecast_wire::message::BeginOfFile;

use crate::{
    Instant,
    fec::Gatherer,
    object::{check::Check, chunks::Chunks, stored::Stored},
};

/// Senders have withdrawn it.
#[derive(Debug)]
pub(super) struct Withdrawn {
    /// The time when the receiver first heard of the object.
    pub since: Instant,
    pub times: u32,
    pub reason: String,
}

/// One object, from the first thing heard of it to its end, committed or given up.
#[derive(Debug, Default)]
pub(super) struct Object {
    pub begin: Option<BeginOfFile>,
    /// The hash that the sender says the object has.
    pub digest: Option<[u8; 32]>,
    /// The hash of what this receiver has stored of the object.
    pub hashed: Option<[u8; 32]>,
    /// The number of times that the stored object had another hash than the sender says.
    pub mismatches: u32,
    pub phase: Phase,
    /// The withdrawal that senders have announced for the object since the last part of it arrived.
    pub withdrawn: Option<Withdrawn>,
    /// The comparison of the object's chunks with the hashes that they should have. It runs after the object as
    /// a whole had a wrong hash.
    pub check: Option<Check>,
    /// The blocks that are stored. After a wrong hash: the blocks that have been compared since.
    pub stored: Stored,
    /// The time when the sender is next told what is lacking, with the object's next announcement. `None`: it
    /// is not told.
    pub report_at: Option<Instant>,
    /// The time between two such reports.
    pub report_wait: Duration,
    /// The time when the sender first said, after this receiver's last report, that it will bring some of the
    /// object.
    pub said_at: Option<Instant>,
    /// The time when blocks of the object last came.
    pub heard_at: Option<Instant>,
    /// The repair symbols that are kept of the object, when the session uses forward error correction and the
    /// object's size is known.
    pub gatherer: Option<Gatherer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    #[default]
    Receiving,
    /// All blocks are there; its hash, or the one that it should have, is not.
    Hashing,
    /// Its hash is right; it does not have its name yet.
    Committing,
}

impl Object {
    pub fn new(block_len: u16) -> Self {
        Self { stored: Stored::new(block_len), ..Self::default() }
    }

    /// The memory that this object takes in the machine, in chunks of about 600 bytes.
    pub fn chunks(&self) -> usize {
        self.stored.chunks() + self.gatherer.as_ref().map_or(0, Gatherer::chunks)
    }

    /// Notes the object's size and name.
    pub fn announce(&mut self, begin: BeginOfFile) {
        self.stored.set_size(begin.file_size);
        self.begin = Some(begin);
    }

    /// The announced size of the object in bytes; 0 before it is announced.
    pub fn announced_bytes(&self) -> u64 {
        self.begin.as_ref().map_or(0, |begin| begin.file_size)
    }

    /// Begins to compare the object's chunks with their hashes, and keeps all blocks meanwhile. Returns false
    /// when the object is a single chunk, where a comparison would tell nothing.
    pub fn doubt(&mut self) -> bool {
        self.check = Chunks::new(self.announced_bytes()).map(Check::new);
        if self.check.is_some() {
            self.resume();
        }
        self.check.is_some()
    }

    /// Forgets which blocks are there, so that each is compared when it comes again.
    pub fn start_again(&mut self) {
        self.stored.clear();
        self.resume();
    }

    /// Takes note that some stored bytes of the object are lost.
    pub fn lose(&mut self) {
        self.check = None;
        self.resume();
    }

    /// More is to come, and whose symbols have come is not known.
    fn resume(&mut self) {
        self.gatherer = self.gatherer.take().map(|gatherer| Gatherer::new(gatherer.layout()));
        self.hashed = None;
        self.phase = Phase::Receiving;
    }
}
