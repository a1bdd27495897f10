//! What a carousel's receiver knows of one object.

use treecast_wire::message::BeginOfFile;

use crate::{
    Instant,
    fec::Gatherer,
    object::{check::Check, chunks::Chunks, stored::Stored},
};

/// Senders have withdrawn it.
#[derive(Debug)]
pub(super) struct Withdrawn {
    /// The first time.
    pub since: Instant,
    pub times: u32,
    pub reason: String,
}

/// One object, from the first thing heard of it to its end, committed or given up.
#[derive(Debug, Default)]
pub(super) struct Object {
    pub begin: Option<BeginOfFile>,
    /// The hash that it should have.
    pub digest: Option<[u8; 32]>,
    /// The hash of what is stored.
    pub hashed: Option<[u8; 32]>,
    /// How many times the two were not the same.
    pub mismatches: u32,
    pub phase: Phase,
    /// What senders have said against it since anything of it has come.
    pub withdrawn: Option<Withdrawn>,
    /// After a mismatch, while its chunks are compared with what they should be.
    pub check: Option<Check>,
    /// What is there; after a mismatch, what has been compared since.
    pub stored: Stored,
    /// With forward error correction, once the size is known.
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

    /// How much memory it takes, in chunks of about 600 bytes.
    pub fn chunks(&self) -> usize {
        self.stored.chunks() + self.gatherer.as_ref().map_or(0, Gatherer::chunks)
    }

    /// Notes the object's size and name.
    pub fn announce(&mut self, begin: BeginOfFile) {
        self.stored.set_size(begin.file_size);
        self.begin = Some(begin);
    }

    /// Its size; 0 before it is announced.
    pub fn announced_bytes(&self) -> u64 {
        self.begin.as_ref().map_or(0, |begin| begin.file_size)
    }

    /// Keeps the blocks until their chunks are known to be wrong. False when it is a single chunk.
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

    /// Some of what had come is not there.
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
