//! Forward error correction at the receiver: repair symbols are gathered until a source block can be decoded; of those
//! that have been out and cannot, the sender is told how many symbols they lack.
//!
//! Before the sender has sent any symbols, it is told what is lost, block by block, as without forward error correction.
//! It sends these blocks again, or symbols in their place. In the latter case it says over the connection, too, that symbols
//! of the source block are out.

use std::ops::Range;

use treecast_wire::{
    header::FileId,
    message::{Lack, MAX_LACKS, SymbolsSent},
};

use super::{
    super::Repair,
    Channel, Receiver, ReceiverTransmit, State,
    data_receiver::{MAX_CHUNKS, QUIET},
    lacking::{GATHER, LONGEST_RETRY, Lacking, RETRY},
    ledger::Word,
    object::{Decision, End, Object, Stage},
    requester::Request,
};
use crate::{Instant, fec::Layout};

/// The most messages at a time.
const MAX_MESSAGES: usize = 16;

/// The treatment of what comes in.
impl Receiver {
    /// Repair symbols of one source block.
    pub(super) fn symbols(&mut self, now: Instant, from: Channel, file: FileId, positions: Range<u64>) {
        if self.is_foreign(file) {
            return;
        }
        if from == Channel::Control {
            let len = positions.end.saturating_sub(positions.start);
            self.requester.arrived_symbols += len.div_ceil(u64::from(self.config.block_len.max(1)));
        }
        if self.state != State::ReceivingData {
            return self.counters.refused += 1;
        }
        self.note_heard(now, from);
        let index = file.index();
        let word = if from == Channel::Control { Word::Sender } else { Word::Hearsay };
        if self.is_late(index) || self.open(word, index).is_none() {
            return;
        }
        self.request_begin_of_file(index);
        let Some(object) = self.ledger.get_mut(index) else { return };
        if object.decision == Decision::Ignored || object.doom.is_some() {
            return;
        }
        let (is_final, before) = (object.is_final(), object.chunks());
        let Some(lacking) = object.lacking.as_mut().filter(|_| is_final && self.chunks < MAX_CHUNKS) else {
            return self.counters.refused += 1;
        };
        let layout = lacking.gatherer.layout();
        let Some((source_block, symbols)) = layout.repair_symbols(&positions) else {
            self.counters.malformed += 1;
            return self.doubt_announcement(index);
        };
        let blocks = layout.blocks(source_block);
        if from == Channel::Group {
            lacking.gatherer.sent(source_block, symbols.end);
        }
        let there = self.ledger.get(index).map_or(0, |object| object.stored.count(blocks.clone()));
        let Some(object) = self.ledger.get_mut(index) else { return };
        let Some(lacking) = object.lacking.as_mut() else { return };
        let kept = lacking.gatherer.take(source_block, symbols, there);
        self.account(index, before);
        for symbols in kept {
            self.counters.repair_symbols += u64::from(symbols.end - symbols.start);
            let positions = layout.positions(source_block, &symbols);
            self.transmit(ReceiverTransmit::KeepSymbols { file, source_block, positions });
        }
        self.requester.counts = true;
        self.heard_symbols(now, from, index, source_block);
        self.decode(index, source_block);
    }

    /// Symbols of a source block came in: those of another that came before are out.
    fn heard_symbols(&mut self, now: Instant, from: Channel, index: u32, source_block: u32) {
        let Some(object) = self.ledger.get_mut(index) else { return };
        let (is_quiet, chunks) = (object.quiet_at.is_some(), object.chunks());
        let Some(lacking) = &mut object.lacking else { return };
        let (mut at, gather) = (lacking.at, lacking.gather());
        let before = match from {
            Channel::Group => lacking.last.replace(source_block).filter(|before| *before != source_block),
            Channel::Control | Channel::Member(_) => None,
        };
        let is_news = lacking.pass_blocks(source_block);
        lacking.retry = RETRY;
        if before.is_some_and(|before| lacking.is_out(before)) || is_news {
            at = Some(at.map_or(now + gather, |at| at.min(now + gather)));
        } else if lacking.due.is_empty() {
            // What was asked for is coming. When no more does, the word that it was all may have been lost.
            at = Some(now + RETRY);
        }
        self.account(index, chunks);
        self.say_lacks_at(index, at);
        if is_quiet && from == Channel::Group {
            self.be_quiet_at(index, Some(now + QUIET));
        }
    }

    /// All symbols of a source block up to this one are out.
    pub(super) fn symbols_sent(&mut self, now: Instant, from: Channel, index: u32, sent: SymbolsSent) {
        self.requester.counts = true;
        let word = if from == Channel::Control { Word::Sender } else { Word::Hearsay };
        let Some(object) = self.open(word, index) else { return };
        let before = object.chunks();
        let Some(lacking) = &mut object.lacking else { return };
        if sent.source_block >= lacking.gatherer.layout().count() {
            return self.counters.malformed += 1;
        }
        lacking.pass_blocks(sent.source_block);
        if from == Channel::Control {
            // This receiver's blocks are not sent: also those do not come that it has asked for because it came late.
            lacking.open.insert(sent.source_block.into()..u64::from(sent.source_block) + 1);
        }
        if lacking.is_open(sent.source_block) {
            lacking.gatherer.sent(sent.source_block, sent.next);
            lacking.is_out(sent.source_block);
            lacking.last = None;
            let at = now + lacking.gather();
            self.say_lacks_at(index, Some(at));
        }
        self.account(index, before);
    }

    /// A source block has been decoded and stored, or could not be.
    pub(super) fn decoded(&mut self, now: Instant, file: FileId, source_block: u32, is_right: bool) {
        let index = file.index();
        let Some(object) = self.ledger.of_session(file, self.config.session) else { return };
        let before = object.chunks();
        let Some(lacking) = &mut object.lacking else { return };
        if !lacking.gatherer.decoded(source_block, is_right) {
            return;
        }
        if is_right {
            let blocks = lacking.gatherer.layout().blocks(source_block);
            lacking.close(source_block);
            for gap in object.stored.gaps(blocks) {
                object.take(&gap);
                self.counters.decoded_blocks += object.count(&gap);
                self.reporter.progress.received_bytes += gap.end - gap.start;
            }
            self.reporter.note(now);
        } else {
            // Its count takes the place of what this receiver has asked for, also of a source block that went by before it came.
            let one = u64::from(source_block)..u64::from(source_block) + 1;
            lacking.open.insert(one.clone());
            lacking.due.insert(one);
            self.say_lacks_at(index, Some(now));
        }
        self.account(index, before);
        if !is_right {
            // What came while it was being decoded may do.
            self.decode(index, source_block);
        }
        self.settle(now, index);
    }
}

/// The actions that follow from it.
impl Receiver {
    /// Whether the sender is told how much is missing of an object, and not what.
    pub(super) fn counts_lacks(&self, index: u32) -> bool {
        let has_symbols = |object: &Object| object.lacking.is_some() || object.begin.is_none();
        self.group == 0
            && self.config.fec
            && self.requester.counts
            && self.ledger.get(index).is_some_and(has_symbols)
    }

    /// Tells the sender what is missing of an object that the group has sent up to `position`.
    pub(super) fn name_gaps(&mut self, index: u32, gaps: Vec<Range<u64>>, position: u64) {
        self.ask_blocks(index, gaps);
        let Some(object) = self.ledger.get_mut(index) else { return };
        let (block_len, before) = (object.stored.block_len(), object.chunks());
        // Its gaps are asked for when it is known what is there.
        if object.awaits_kept {
            return;
        }
        if let Some(lacking) = &mut object.lacking {
            let layout = lacking.gatherer.layout();
            lacking.name(layout.source_block(position / block_len));
            self.account(index, before);
        }
    }

    /// Whether an object is whole and its hash is being computed, or was right.
    pub(super) fn is_checked(&self, index: u32) -> bool {
        let stage = self.ledger.get(index).map(|object| object.stage);
        matches!(stage, Some(Stage::Hashing | Stage::Committing))
    }

    /// The object's size has become known, or another one: so have its source blocks.
    pub(super) fn plan_symbols(&mut self, now: Instant, index: u32) {
        let (file, block_len) = (self.file_id(index), self.config.block_len);
        if !self.config.fec || self.group > 0 {
            return;
        }
        let Some(object) = self.ledger.get_mut(index).filter(|object| !object.mismatched) else { return };
        let layout = object.begin.as_ref().and_then(|begin| Layout::new(begin.file_size, block_len));
        if layout.is_some() && object.lacking.as_ref().map(|lacking| lacking.gatherer.layout()) == layout {
            return;
        }
        let (before, heard) = (object.chunks(), object.heard());
        let mut planned = layout.map(Lacking::new);
        if let Some(lacking) = &mut planned {
            // Any of it may have been asked for when the size was not known.
            lacking.ask(0..heard.div_ceil(u64::from(block_len.max(1))));
        }
        let had_symbols = std::mem::replace(&mut object.lacking, planned).is_some();
        self.account(index, before);
        self.say_lacks_at(index, None);
        if had_symbols {
            self.transmit(ReceiverTransmit::ForgetSymbols { file });
        }
        if heard > 0 && self.requester.counts {
            self.pass_before(now, index, heard - 1);
        } else if heard > 0 {
            self.name_gaps(index, Vec::new(), heard - 1);
        }
    }

    /// Forgets the symbols of an object, because no more are to come.
    pub(super) fn forget_symbols(&mut self, index: u32) {
        let file = self.file_id(index);
        self.say_lacks_at(index, None);
        let Some(object) = self.ledger.get_mut(index) else { return };
        let before = object.chunks();
        if object.lacking.take().is_some() {
            self.account(index, before);
            self.transmit(ReceiverTransmit::ForgetSymbols { file });
        }
    }

    /// The group has come to the block at `position`. Source blocks that were out before it was first heard are asked
    /// for block by block, since nobody else may lack them; the others before that block have been out.
    pub(super) fn pass_before(&mut self, now: Instant, index: u32, position: u64) {
        let Some(object) = self.ledger.get_mut(index) else { return };
        // It may have all that was before.
        if object.awaits_kept {
            return;
        }
        let (block_len, before) = (object.stored.block_len(), object.chunks());
        let (is_first, first_heard) = (object.first_heard.is_some(), object.first_heard.unwrap_or_default());
        let Some(lacking) = &mut object.lacking else { return };
        let layout = lacking.gatherer.layout();
        let mut missed = None;
        if lacking.passed == 0 && is_first {
            let first = layout.source_block(first_heard / block_len);
            (lacking.first, lacking.passed) = (first, first);
            missed = Some(0..layout.blocks(first).start);
        }
        let mut is_news = lacking.pass(layout.source_block(position / block_len));
        if let Some(last) = lacking.last.take() {
            is_news |= lacking.is_out(last);
        }
        self.account(index, before);
        if is_news {
            self.say_lacks_at(index, Some(now + GATHER));
        }
        let missed = missed.zip(self.ledger.get(index)).map(|(missed, object)| object.stored.gaps(missed));
        self.ask_blocks(index, missed.unwrap_or_default());
    }

    /// Asks the sender for these bytes of an object, which are whole blocks.
    fn ask_blocks(&mut self, index: u32, gaps: Vec<Range<u64>>) {
        if let Some(object) = self.ledger.get_mut(index) {
            let (block_len, before) = (object.stored.block_len(), object.chunks());
            if let Some(lacking) = &mut object.lacking {
                gaps.iter().for_each(|gap| lacking.ask(gap.start / block_len..gap.end.div_ceil(block_len)));
                self.account(index, before);
            }
        }
        for gap in gaps {
            self.request(index, Request::Retransmission(gap));
        }
    }

    /// All of the object has been out.
    pub(super) fn pass_end(&mut self, now: Instant, index: u32) {
        let Some(object) = self.ledger.get_mut(index) else { return };
        let (before, is_unheard) = (object.chunks(), object.first_heard.is_none());
        let repeats = object.end_is_sure && std::mem::take(&mut object.asked_in_vain) > 0;
        let gaps = object.gaps_at_end();
        let Some(lacking) = &mut object.lacking else { return };
        if is_unheard && lacking.passed == 0 {
            // It came when all was out.
            let count = lacking.gatherer.layout().count();
            (lacking.first, lacking.passed) = (count, count);
            return self.ask_blocks(index, gaps);
        }
        let is_news = lacking.pass(lacking.gatherer.layout().count());
        let layout = lacking.gatherer.layout();
        let named = (0..layout.count()).filter(|block| repeats && lacking.named.has(u64::from(*block)));
        let mut missed: Vec<_> = named.map(|block| layout.blocks(block)).collect();
        if repeats {
            lacking.repeat();
            missed.push(0..layout.blocks(lacking.first).start);
        }
        let waits = lacking.at.is_none() && !lacking.open.is_empty() && self.config.repair != Repair::None;
        let is_due = is_news || repeats || waits;
        let at = now + lacking.gather();
        let gaps: Vec<_> = missed.into_iter().flat_map(|missed| object.stored.gaps(missed)).collect();
        self.account(index, before);
        self.ask_blocks(index, gaps);
        if is_due {
            self.say_lacks_at(index, Some(at));
        }
    }

    /// Blocks came in: their source blocks may now have enough symbols.
    pub(super) fn decode_if_possible(&mut self, index: u32, bytes: &Range<u64>) {
        let lacking = self.ledger.get(index).and_then(|object| object.lacking.as_ref());
        for source_block in lacking.map(|lacking| lacking.gatherer.touched(bytes)).unwrap_or_default() {
            self.decode(index, source_block);
        }
    }

    /// These bytes of an object have come over the connection though they were there: the sender is told of their source blocks
    /// that are whole, so that it does not send the rest of what it has been asked for. Once each.
    pub(super) fn say_whole(&mut self, index: u32, bytes: &Range<u64>) {
        let Some(object) = self.ledger.get_mut(index) else { return };
        let (block_len, before) = (object.stored.block_len(), object.chunks());
        let Some(mut lacking) = object.lacking.take() else { return };
        let layout = lacking.gatherer.layout();
        let mut whole = Vec::new();
        for source_block in
            layout.source_block(bytes.start / block_len)..=layout.source_block((bytes.end - 1) / block_len)
        {
            let blocks = layout.blocks(source_block);
            let is_whole = object.stored.count(blocks.clone()) == blocks.end - blocks.start;
            if is_whole && lacking.asked.remove(source_block.into()..u64::from(source_block) + 1) > 0 {
                whole.push(Lack { source_block, lacking: 0, next: lacking.gatherer.next(source_block) });
            }
        }
        object.lacking = Some(lacking);
        self.account(index, before);
        for lacks in whole.chunks(MAX_LACKS) {
            self.request(index, Request::Symbols(lacks.to_vec()));
        }
    }

    /// Has a source block decoded if there is enough of it.
    fn decode(&mut self, index: u32, source_block: u32) {
        let file = self.file_id(index);
        let Some(object) = self.ledger.get_mut(index) else { return };
        let Some(lacking) = &object.lacking else { return };
        let blocks = lacking.gatherer.layout().blocks(source_block);
        let there = object.stored.count(blocks.clone());
        let missing = object.stored.gaps(blocks.clone());
        let Some(lacking) = &mut object.lacking else { return };
        if lacking.gatherer.decode(source_block, there) {
            self.transmit(ReceiverTransmit::Decode { file, source_block, blocks, missing });
        }
    }

    /// Tells the sender what objects lack whose time it is.
    pub(super) fn say_lacks(&mut self, now: Instant) {
        while self.lacks.first().is_some_and(|(time, _)| *time <= now)
            && let Some((_, index)) = self.lacks.pop_first()
        {
            self.say_lacks_of(now, index);
        }
    }

    fn say_lacks_of(&mut self, now: Instant, index: u32) {
        let repair = self.config.repair;
        let Some(object) = self.ledger.get_mut(index) else { return };
        let waits_for_end = repair != Repair::Nack && object.end != End::Reached;
        let before = object.chunks();
        let awaits_kept = object.awaits_kept;
        let Some(mut lacking) = object.lacking.take() else { return };
        lacking.at = None;
        if awaits_kept {
            object.lacking = Some(lacking);
            return self.say_lacks_at(index, Some(now + RETRY));
        }
        if lacking.due.is_empty() {
            lacking.repeat();
            lacking.retry = (lacking.retry * 2).min(LONGEST_RETRY);
        }
        let mut lacks = Vec::new();
        while lacks.len() < MAX_LACKS * MAX_MESSAGES
            && let Some(run) = lacking.due.first_run(0..u64::MAX)
        {
            lacking.due.remove(run.start..run.start + 1);
            let source_block = run.start as u32;
            let blocks = lacking.gatherer.layout().blocks(source_block);
            let there = object.stored.count(blocks.clone());
            if there == blocks.end - blocks.start {
                lacking.close(source_block);
                continue;
            }
            let count = lacking.gatherer.lacking(source_block, there);
            let next = lacking.gatherer.next(source_block);
            if count > 0 && lacking.said.insert(source_block, (count, next)) != Some((count, next)) {
                lacks.push(Lack { source_block, lacking: count, next });
                // The count takes the place of what has been asked for.
                lacking.asked.remove(run.start..run.start + 1);
            }
        }
        let again = if lacking.due.is_empty() { lacking.retry } else { GATHER };
        let at = (!lacking.open.is_empty() && !waits_for_end && repair != Repair::None).then(|| now + again);
        object.lacking = Some(lacking);
        self.account(index, before);
        self.say_lacks_at(index, at);
        for lacks in lacks.chunks(MAX_LACKS) {
            self.request(index, Request::Symbols(lacks.to_vec()));
        }
    }

    /// Counts the memory that an object takes, which was `before` chunks.
    pub(super) fn account(&mut self, index: u32, before: usize) {
        let after = self.ledger.get(index).map_or(0, Object::chunks);
        self.chunks = self.chunks + after - before;
    }
}
