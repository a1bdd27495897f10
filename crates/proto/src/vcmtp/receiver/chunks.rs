//! The receiver's treatment of a complete object that has the wrong hash. It asks the sender for the hashes
//! of its chunks, page by page, and forgets and fetches again only the wrong chunks.

use std::ops::Range;

use treecast_wire::{
    header::FileId,
    message::{ChunkHashes, ChunkHashesRequest, MAX_PAGES},
};

use super::{
    Receiver, ReceiverTransmit,
    object::{Object, Stage},
    requester::Request,
};
use crate::{
    Instant,
    object::{check::Check, chunks::Chunks},
};

impl Receiver {
    /// The object's hash is wrong.
    pub(super) fn check_chunks(&mut self, now: Instant, index: u32) {
        let file = self.file_id(index);
        let Some(object) = self.ledger.get_mut(index) else { return };
        let size = object.begin.as_ref().map_or(0, |begin| begin.file_size);
        let Some(chunks) = Chunks::new(size) else { return self.fetch_again(now, index) };
        let mut check = Check::by_request(chunks);
        let (before, had_symbols) = (object.chunks(), object.lacking.is_some());
        object.doubt_content();
        let pages = check.ask(MAX_PAGES);
        object.check = Some(check);
        self.account(index, before);
        if had_symbols {
            // Whose they were is not known, and one wrong symbol spoils a source block.
            self.say_lacks_at(index, None);
            self.transmit(ReceiverTransmit::ForgetSymbols { file });
        }
        // The answer comes before the hashes, should it be the announcement that is wrong.
        self.confirm_announcement(index);
        self.ask_chunk_hashes(index, pages);
    }

    /// A page of what the chunks should be.
    pub(super) fn chunk_hashes(&mut self, now: Instant, index: u32, page: ChunkHashes) {
        let file = self.file_id(index);
        let Some(object) = self.ledger.get_mut(index) else { return };
        let Some((check, hash)) = object.check.as_mut().zip(object.digest) else { return };
        if !check.take(page.page()) {
            return;
        }
        match page.hashes().is_empty() {
            // The sender does not have them.
            true => self.fetch_again(now, index),
            false => self.transmit(ReceiverTransmit::CheckChunks { file, hash, page }),
        }
    }

    /// The chunks of a page have been compared with what is stored: those in `wrong` are not what they should be. None
    /// when the page is not part of what the sender has signed.
    pub(super) fn checked(&mut self, now: Instant, file: FileId, page: u32, wrong: Option<&[Range<u64>]>) {
        let index = file.index();
        let Some(object) = self.ledger.of_session(file, self.config.session) else { return };
        let before = object.chunks();
        let Some(check) = &mut object.check else { return };
        if !check.compared(page, wrong.is_some()) {
            return;
        }
        let Some(wrong) = wrong else {
            let reason = "what the sender says of its chunks does not go with the hash that it gave";
            return self.fail(index, reason, true);
        };
        self.counters.wrong_chunks += wrong.iter().map(|chunk| check.count(chunk)).sum::<u64>();
        let (is_over, more) = (check.is_over(), check.is_answered().then(|| check.ask(MAX_PAGES)));
        let forgotten: u64 = wrong.iter().map(|chunk| object.forget_bytes(chunk)).sum();
        self.reporter.progress.received_bytes -= forgotten;
        self.account(index, before);
        if is_over {
            self.mend_chunks(now, index);
        } else if let Some(pages) = more {
            self.ask_chunk_hashes(index, pages);
        }
    }

    fn ask_chunk_hashes(&mut self, index: u32, pages: Range<u32>) {
        if let Ok(request) = ChunkHashesRequest::new(pages) {
            self.request(index, Request::ChunkHashes(request));
        }
    }

    /// All chunks are compared: what has been forgotten is asked for.
    fn mend_chunks(&mut self, now: Instant, index: u32) {
        let gaps = self.ledger.get_mut(index).map(Object::end_check).unwrap_or_default();
        for gap in gaps {
            self.request(index, Request::Retransmission(gap));
        }
        self.settle(now, index);
    }

    /// Everything of the object is asked for once more.
    fn fetch_again(&mut self, now: Instant, index: u32) {
        let file = self.file_id(index);
        let Some(object) = self.ledger.get_mut(index) else { return };
        self.chunks -= object.chunks();
        self.reporter.progress.received_bytes -= object.received_bytes;
        let had_symbols = object.lacking.is_some();
        let all = object.start_again();
        if had_symbols {
            self.say_lacks_at(index, None);
            self.transmit(ReceiverTransmit::ForgetSymbols { file });
        }
        self.confirm_announcement(index);
        for gap in all {
            self.request(index, Request::Retransmission(gap));
        }
        self.settle(now, index);
    }

    /// Asks for the announcement if it may be somebody else's.
    fn confirm_announcement(&mut self, index: u32) {
        if let Some(object) = self.ledger.get_mut(index).filter(|object| !object.begin_is_sure) {
            object.doubt_group();
            self.request(index, Request::BeginOfFile);
        }
    }
}

impl Object {
    /// Notes that the stored blocks may be wrong. Nothing more of the object is taken from the group.
    fn doubt_content(&mut self) {
        self.mismatched = true;
        self.lacking = None;
        self.stage = Stage::Checking;
    }

    /// Ends the check, because the blocks that are there now are right. Returns what is missing.
    fn end_check(&mut self) -> Vec<Range<u64>> {
        self.check = None;
        self.stage = Stage::Receiving;
        self.all_gaps()
    }
}
