//! The objects of a session: the objects themselves, what is known of them, and the source of further ones.

mod again;
mod feed;
mod manifests;
mod symbols;

use std::io;

use treecast_host::{
    poller::{Interest, Poller},
    wake::Waker,
};
use treecast_proto::{Instant, object::SenderInput};
use treecast_wire::{
    header::{FileId, Header},
    message::{ChunkHashes, MAX_OBJECTS},
};

use self::manifests::Manifests;
use super::{
    super::{
        Plan, SendError,
        feed::{End, Feed},
        hashing::Hashing,
        numbered::Numbered,
        source_table::SourceTable,
    },
    FEED, HASHES,
    core::Core,
};
use crate::{
    fec::Encoders,
    files::{NamedSource, Source, SourceError},
};

/// The objects of a session. What becomes of them is told to the [`Core`].
pub(super) struct Objects {
    pub sources: SourceTable,
    pub manifests: Manifests,
    encoders: Encoders,
    block_len: u16,
    /// Blocks that were read out of order last.
    apart: Vec<u8>,
    /// The source of further objects. `None` when all are known.
    feed: Option<Feed>,
    /// Whether the session sends a feed, also when all of it is known.
    is_feed: bool,
    /// The folder with the pieces of a stream that is kept. Late receivers get them when the stream has ended, too.
    _pieces: Option<crate::pipe::Spool>,
    feed_waker: Waker,
    /// Objects of the feed that are on their way.
    numbered: Numbered,
    /// The thread that hashes objects that are not read in order. `None` where there are none.
    hashing: Option<Hashing>,
}

impl Objects {
    /// Starts the feed, if there is one.
    pub fn open(plan: &Plan, poller: &Poller) -> io::Result<Self> {
        let feed_waker = Waker::new()?;
        poller.add(&feed_waker, FEED, Interest::Read)?;
        let start = |source| {
            let rules = plan.options.content.feed_rules.clone();
            let selection = plan.options.content.selection.clone();
            Feed::start(source, plan.options.compression(), rules, selection, feed_waker.clone())
        };
        let feed = plan.options.content.feed.clone().map(start).transpose()?;
        Ok(Self {
            sources: SourceTable::default(),
            manifests: Manifests::new(plan),
            encoders: Encoders::default(),
            block_len: plan.block_len,
            apart: Vec::new(),
            _pieces: feed.as_ref().and_then(Feed::pieces),
            feed,
            is_feed: plan.options.content.feed.is_some(),
            feed_waker,
            numbered: Numbered::default(),
            hashing: None,
        })
    }

    /// Sends an object (API_Send).
    pub fn send(
        &mut self,
        now: Instant,
        named: NamedSource,
        core: &mut Core<'_>,
    ) -> Result<FileId, SendError> {
        let begin = named.begin()?;
        let file = core.machine.send(now, begin).ok_or(SendError::Contents(MAX_OBJECTS as usize + 1))?;
        core.wake();
        core.marks.iter_mut().for_each(|marks| marks.numbered(file.index()));
        self.add(now, file, named, core);
        Ok(file)
    }

    /// Takes an object that the machine knows. The hash of an empty one is known at once.
    pub fn add(&mut self, now: Instant, file: FileId, named: NamedSource, core: &mut Core<'_>) {
        let size = named.source.size();
        self.sources.add(file, named);
        if size == 0 {
            self.hash_if_read(now, file, core);
        }
    }

    /// Notes that an object has been read for the group up to `end`.
    pub fn note_read(&mut self, now: Instant, file: FileId, end: u64, core: &mut Core<'_>) {
        let size = self.sources.size(file);
        if let Some(marks) = &mut core.marks {
            marks.sent(file.index(), end, size);
        }
        if end == size && !self.sources.has_index(file) {
            self.hash_if_read(now, file, core);
        }
    }

    /// Reads blocks of an object out of order.
    pub fn read_apart(&mut self, file: FileId, position: u64, len: usize) -> Result<&[u8], SourceError> {
        self.apart.resize(len, 0);
        self.sources.read_any(file, position, &mut self.apart)?;
        Ok(&self.apart)
    }

    /// Reads blocks out of order. An object that cannot be read is withdrawn.
    pub fn read_for_repair(
        &mut self,
        now: Instant,
        first: &Header,
        len: usize,
        core: &mut Core<'_>,
    ) -> Option<Vec<u8>> {
        let mut run = vec![0; len];
        match self.sources.read_any(first.file_id, first.sequence, &mut run) {
            Ok(()) => Some(run),
            Err(error) => {
                self.withdraw(now, first.file_id, &error, core);
                None
            }
        }
    }

    /// Tells the machine the hash of an object that has been read to its end.
    fn hash_if_read(&mut self, now: Instant, file: FileId, core: &mut Core<'_>) {
        match self.sources.hash(file) {
            Some(Ok(hash)) => self.manifests.read_to_end(now, file, hash, core),
            Some(Err(error)) => self.withdraw(now, file, &error, core),
            None => {}
        }
    }

    /// Ends an object that cannot be sent to its end.
    pub fn withdraw(
        &mut self,
        now: Instant,
        file: FileId,
        error: &dyn std::fmt::Display,
        core: &mut Core<'_>,
    ) {
        let (name, reason) = (self.sources.name(file).to_owned(), error.to_string());
        let number = self.numbered.number(file);
        self.settled(number, End::Refused);
        core.handle(now, SenderInput::Withdraw { file, reason: reason.clone() });
        core.withdrawn(name, reason, number);
    }

    /// Ceases to send an object, unless somebody comes late. A feed's objects are of no interest to such a one. Returns the object's
    /// name and size, and whether this happens for the first time.
    pub fn let_go(&mut self, file: FileId, core: &Core<'_>) -> (String, u64, bool) {
        self.encoders.forget(file);
        self.manifests.forget(file);
        if !self.is_feed || core.machine.announced(file).is_some() {
            return self.sources.finish(file);
        }
        let (name, bytes) = self.sources.remove(file);
        (name, bytes, true)
    }

    /// Starts the thread that hashes these objects, which are not read in order.
    pub fn hash_apart(&mut self, sources: Vec<(FileId, Source)>, poller: &Poller) -> io::Result<()> {
        let hashing = Hashing::start(sources)?;
        poller.add(hashing.waker(), HASHES, Interest::Read)?;
        self.hashing = Some(hashing);
        Ok(())
    }

    /// Tells the machine of hashes that have become known.
    pub fn take_hashes(&mut self, now: Instant, core: &mut Core<'_>) {
        self.hashing.iter().for_each(|hashing| _ = hashing.waker().take());
        while let Some((file, hash)) = self.hashing.as_mut().and_then(Hashing::next) {
            match hash {
                Ok(hash) => core.hashed(now, file, hash),
                Err(error) => self.withdraw(now, file, &error, core),
            }
        }
    }

    /// A page of the hashes of an object's chunks, once they are known.
    pub fn chunk_hashes(&self, file: FileId, page: u32) -> Option<ChunkHashes> {
        let read = self.sources.chunk_hashes(file, page);
        read.or_else(|| self.hashing.as_ref()?.page(file, page))
    }
}
