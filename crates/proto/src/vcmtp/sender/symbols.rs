//! Repair symbols to the group: a share of each source block behind it, and as many as receivers have said
//! that they lack. When those of a source block are out, SymbolsSent follows. A receiver that has it knows
//! what has been lost.
//!
//! Receivers begin by naming the blocks that they lack, which are sent again to each of them. Where symbols to the group cost less,
//! these take the blocks' place ([`Sender::code_if_worth`]), and receivers say from then on how much they lack.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use treecast_wire::{
    header::FileId,
    message::{Digest, Lack, Message, SymbolsSent},
};

use super::{super::Repair, Destination, ReceiverId, Sender, SenderTransmit, objects::Object, to_group};
use crate::{
    Instant,
    fec::{Estimate, Layout, Schedule, Share, ToGo, Wish, is_out_of_reach},
};

/// The time after which the last words on an object ([`Word`]) are said to the group again for the first
/// time. It doubles each time. A receiver that has lost them would ask much later.
const SAY_AGAIN: Duration = Duration::from_millis(15);

/// The longest such time. Later than this, they are not said again.
const LAST_SAID_AGAIN: Duration = Duration::from_millis(240);

/// The time for which symbols of an object that is out give way to blocks of others. A receiver that has lost
/// nothing waits for those.
pub(super) const GIVES_WAY: Duration = Duration::from_millis(20);

/// The sender's answer to a receiver's word that it lacks symbols of a source block.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// More to the group, or nothing that is not on its way.
    Group,
    /// This number of symbols goes to this receiver.
    Apart(u32),
    /// These blocks to this receiver: there are no more symbols.
    Blocks(Range<u64>),
    /// All that it needs is out, which the group has been told.
    Out,
    /// There is no such source block, or it has not been out.
    Correction,
}

/// A word to the group about an object, besides its announcement and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    /// SymbolsSent, of this source block.
    SymbolsSent(u32),
    /// The hash, for receivers that can see that it is the sender's. Over a connection that loses packets it may be late.
    Digest,
}

/// The blocks of a source block that receivers have named.
#[derive(Debug, Default)]
struct Named {
    /// The number of its blocks that each receiver lacks. Some of them may have been sent again.
    lost: BTreeMap<ReceiverId, u32>,
    /// The receivers that have named some since this was last looked at.
    new: BTreeSet<ReceiverId>,
    /// The receivers that are to be told over their connections that symbols have taken the blocks' place,
    /// when these are out.
    untold: BTreeSet<ReceiverId>,
}

#[derive(Debug)]
pub(super) struct Symbols {
    /// None without forward error correction.
    estimate: Option<Estimate>,
    repair: Repair,
    /// Object and source block of symbols that are to go now.
    due: BTreeSet<(u32, u32)>,
    /// The time since which some have been in `due`.
    due_since: Option<Instant>,
    /// The same as `due`, for symbols that go when the object is out (VCMTP 1).
    later: BTreeSet<(u32, u32)>,
    /// The words that are to be said, each with its object.
    told: BTreeSet<(u32, Word)>,
    /// The words that are to be said once more, each with its time and the time since it was said before.
    again: BTreeMap<(u32, Word), (Instant, Duration)>,
    named: BTreeMap<(u32, u32), Named>,
    /// Objects of which a receiver has got wrong blocks, and fetches right ones: symbols are of no use to it.
    blocks_only: BTreeSet<(u32, ReceiverId)>,
    /// Whether symbols have taken the place of blocks, or do so from the beginning.
    is_coding: bool,
    /// Whether symbols may take that place, where nobody insists on blocks.
    may_code: bool,
    /// Whether the rate is being found, and whether it was at any time since the last source block was out.
    is_finding_rate: bool,
    was_finding_rate: bool,
    sent: u64,
}

impl Symbols {
    pub(super) fn new(fec: Option<Share>, repair: Repair) -> Self {
        let estimate = fec.map(Estimate::new);
        Self {
            estimate,
            repair,
            due: BTreeSet::new(),
            due_since: None,
            later: BTreeSet::new(),
            told: BTreeSet::new(),
            again: BTreeMap::new(),
            named: BTreeMap::new(),
            blocks_only: BTreeSet::new(),
            is_coding: fec.is_some_and(|share| share != Share::Needed),
            may_code: true,
            is_finding_rate: false,
            was_finding_rate: false,
            sent: 0,
        }
    }

    pub(super) fn join(&mut self, receiver: ReceiverId) {
        if let Some(estimate) = &mut self.estimate {
            estimate.join(receiver.0);
        }
    }

    /// The receiver has gone, or listens to a slower group, which gets no symbols.
    pub(super) fn leave(&mut self, receiver: ReceiverId) {
        if let Some(estimate) = &mut self.estimate {
            estimate.leave(receiver.0);
        }
        for named in self.named.values_mut() {
            named.lost.remove(&receiver);
            named.new.remove(&receiver);
            named.untold.remove(&receiver);
        }
        self.blocks_only.retain(|(_, other)| *other != receiver);
    }

    /// Whether symbols mend losses.
    pub(super) fn is_coding(&self) -> bool {
        self.is_coding
    }

    /// A source block is out. What got lost of it while the rate was being found is not expected again.
    fn note_rate(&mut self, (index, source_block): (u32, u32)) {
        let was_finding_rate = std::mem::replace(&mut self.was_finding_rate, self.is_finding_rate);
        if let Some(estimate) = self.estimate.as_mut().filter(|_| was_finding_rate) {
            estimate.rate_was_unknown(index, source_block);
        }
    }

    /// A source block is out: its share of repair symbols is due. `is_at_last`: nothing is to be multicast behind the object.
    fn passed(&mut self, object: &mut Object, of: (u32, u32), is_at_last: bool) {
        let Some((estimate, schedule)) = self.estimate.as_mut().zip(object.schedule.as_mut()) else { return };
        let (layout, source_block) = (schedule.layout(), of.1);
        let symbols = layout.source_symbols(source_block);
        let is_last = is_at_last && source_block + 1 == layout.count();
        let ahead = estimate.ahead(symbols, is_last);
        if self.is_coding && schedule.aim(source_block, symbols.saturating_add(ahead)) {
            self.due.insert(of);
        }
    }

    /// A receiver has got wrong blocks of an object.
    pub(super) fn take_blocks_only(&mut self, from: ReceiverId, index: u32) {
        self.blocks_only.insert((index, from));
        for (_, named) in self.named.range_mut((index, 0)..=(index, u32::MAX)) {
            named.lost.remove(&from);
            named.new.remove(&from);
        }
    }

    /// A receiver has named so many blocks of a source block.
    fn name(&mut self, from: ReceiverId, of: (u32, u32), blocks: u32) {
        let named = self.named.entry(of).or_default();
        *named.lost.entry(from).or_default() += blocks;
        named.new.insert(from);
    }

    /// Whether symbols cost less than the blocks that receivers have named of a source block.
    fn is_worth(&self, object: &Object, of: (u32, u32)) -> bool {
        let Some((estimate, schedule)) = self.estimate.as_ref().zip(object.schedule.as_ref()) else {
            return false;
        };
        let Some(named) = self.named.get(&of) else { return false };
        let symbols = schedule.layout().source_symbols(of.1);
        let has_symbols = schedule.next(of.1).is_some_and(|next| next > symbols) || schedule.to_go(of.1) > 0;
        let reached = named.lost.values().copied().filter(|lost| !is_out_of_reach(*lost, symbols));
        has_symbols || (self.may_code || self.is_coding) && estimate.is_worth(symbols, reached)
    }

    /// Has symbols take the place of what has been named of a source block, if that costs less. Returns whose blocks they are.
    fn code(&mut self, object: &mut Object, of: (u32, u32)) -> Vec<ReceiverId> {
        if !self.is_worth(object, of) {
            return Vec::new();
        }
        let (index, source_block) = of;
        let Some((estimate, schedule)) = self.estimate.as_mut().zip(object.schedule.as_mut()) else {
            return Vec::new();
        };
        let Some(named) = self.named.get_mut(&of) else { return Vec::new() };
        let symbols = schedule.layout().source_symbols(source_block);
        self.is_coding = true;
        let lack = |lost: u32| Lack { source_block, lacking: lost, next: symbols };
        let new: Vec<_> =
            std::mem::take(&mut named.new).into_iter().map(|one| (one, named.lost[&one])).collect();
        let new: Vec<_> = new.into_iter().filter(|(_, lost)| !is_out_of_reach(*lost, symbols)).collect();
        new.iter().for_each(|(one, lost)| estimate.note(one.0, index, symbols, lack(*lost)));
        let mut coded = Vec::new();
        for (receiver, lost) in new {
            let to_go = ToGo { symbols: schedule.to_go(source_block), is_out: object.out.is_some() };
            if let Wish::Group(goal) = estimate.lack(receiver.0, index, symbols, lack(lost), to_go) {
                schedule.aim(source_block, goal);
                coded.push(receiver);
            }
        }
        named.untold.extend(&coded);
        let waits = self.repair == Repair::After && object.out.is_none();
        match schedule.to_go(source_block) {
            0 => self.told.insert((index, Word::SymbolsSent(source_block))),
            _ if waits => self.later.insert(of),
            _ => self.due.insert(of),
        };
        coded
    }

    /// The object is out: what waited for that is due.
    pub(super) fn out(&mut self, index: u32) {
        let waiting: Vec<_> = self.later.range((index, 0)..=(index, u32::MAX)).copied().collect();
        for one in waiting {
            self.later.remove(&one);
            self.due.insert(one);
        }
    }

    /// Forgets an object of which nothing more goes out.
    pub(super) fn forget(&mut self, index: u32) {
        for set in [&mut self.due, &mut self.later] {
            set.retain(|(other, _)| *other != index);
        }
        self.told.retain(|(other, _)| *other != index);
        self.again.retain(|(other, _), _| *other != index);
        self.named.retain(|(other, _), _| *other != index);
        if let Some(estimate) = &mut self.estimate {
            estimate.forget(index);
        }
        self.blocks_only.retain(|(other, _)| *other != index);
    }

    /// The time when SymbolsSent is to be said again, or symbols give way no longer.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let again = self.again.values().map(|(time, _)| *time).min();
        again.into_iter().chain(self.due_since.map(|since| since + GIVES_WAY)).min()
    }

    /// Has said again what it is time for.
    fn tell_again(&mut self, now: Instant) {
        let due: Vec<_> =
            self.again.iter().filter(|(_, (time, _))| *time <= now).map(|(of, _)| *of).collect();
        for of in due {
            self.told.insert(of);
            let wait = self.again.remove(&of).map_or(SAY_AGAIN, |(_, wait)| wait * 2);
            if wait <= LAST_SAID_AGAIN {
                self.again.insert(of, (now + wait, wait));
            }
        }
    }

    /// Counts what a receiver has lost. [`Self::lack`] says what follows, when all that it says at a time is counted.
    pub(super) fn note(&mut self, from: ReceiverId, index: u32, object: &Object, lack: Lack) {
        let known = known(object, lack);
        if let Some(((schedule, lack), estimate)) = known.zip(self.estimate.as_mut()) {
            estimate.note(from.0, index, schedule.layout().source_symbols(lack.source_block), lack);
        }
    }

    /// A receiver lacks symbols of a source block.
    pub(super) fn lack(&mut self, from: ReceiverId, index: u32, object: &mut Object, lack: Lack) -> Answer {
        let Some((_, lack)) = known(object, lack) else { return Answer::Correction };
        let is_out = object.out.is_some();
        let Some((estimate, schedule)) = self.estimate.as_mut().zip(object.schedule.as_mut()) else {
            return Answer::Correction;
        };
        let (layout, source_block) = (schedule.layout(), lack.source_block);
        let (next, blocks) = (schedule.next(source_block), layout.blocks(source_block));
        let to_go = ToGo { symbols: schedule.to_go(source_block), is_out };
        match estimate.lack(from.0, index, layout.source_symbols(source_block), lack, to_go) {
            Wish::Apart(count) => Answer::Apart(count),
            Wish::Group(_) if schedule.is_used_up(source_block) => Answer::Blocks(blocks),
            Wish::Group(goal) => {
                let waits = self.repair == Repair::After && !is_out;
                match (schedule.aim(source_block, goal), waits) {
                    (true, true) => _ = self.later.insert((index, source_block)),
                    (true, false) => _ = self.due.insert((index, source_block)),
                    // All that it needs is out, and it does not know.
                    (false, _) if Some(lack.next) < next => {
                        self.told.insert((index, Word::SymbolsSent(source_block)));
                        return Answer::Out;
                    }
                    (false, _) => {}
                }
                Answer::Group
            }
        }
    }

    /// Symbols went to one receiver.
    pub(super) fn note_apart(&mut self, symbols: &Range<u32>) {
        self.sent += u64::from(symbols.end - symbols.start);
    }

    pub(super) fn sent_symbols(&self) -> u64 {
        self.sent
    }
}

/// The lack that a receiver reports of a source block that has been out. It cannot have heard of more symbols
/// than those that are out.
fn known(object: &Object, lack: Lack) -> Option<(&Schedule, Lack)> {
    let schedule = object.schedule.as_ref()?;
    let next = schedule.next(lack.source_block)?;
    has_passed(object, &schedule.layout(), lack.source_block)
        .then(|| (schedule, Lack { next: lack.next.min(next), ..lack }))
}

/// Whether all blocks of a source block have been multicast.
fn has_passed(object: &Object, layout: &Layout, source_block: u32) -> bool {
    object.sent >= object.begin.file_size
        || layout.source_block(object.sent / layout.block_len()) > source_block
}

impl Sender {
    /// Sets whether the sender may send repair symbols in place of lost blocks where that costs less. The
    /// caller says no when it lacks the processor time for them.
    pub fn set_may_code(&mut self, may_code: bool) {
        self.symbols.may_code = may_code;
    }

    /// Sets whether the rate is still being found. What gets lost meanwhile is not expected to be lost later.
    pub fn set_finding_rate(&mut self, is_finding_rate: bool) {
        self.symbols.is_finding_rate = is_finding_rate;
        self.symbols.was_finding_rate |= is_finding_rate;
    }

    /// Whether a source block that is being multicast will be followed by symbols, as far as receivers have named its blocks.
    pub fn expects_symbols(&self, file: FileId, source_block: u32) -> bool {
        let index = file.index();
        self.objects.get(index).is_some_and(|object| self.symbols.is_worth(object, (index, source_block)))
    }

    /// Blocks have been multicast up to byte `end` of an object: where that is the end of a source block, symbols for it are due.
    pub(super) fn note_passed(&mut self, index: u32, end: u64) {
        let next_block = self.objects.blocks(0..end).end;
        let is_at_last = self.multicast.is_at_last();
        let schedule = self.objects.get(index).and_then(|object| object.schedule.as_ref());
        // Nobody would hear symbols.
        let Some(layout) = schedule.map(Schedule::layout).filter(|_| !self.is_unheard) else { return };
        let source_block = layout.source_block(next_block - 1);
        if next_block == layout.blocks(source_block).end {
            self.symbols.note_rate((index, source_block));
            self.code_if_worth(index, source_block);
            if let Some(object) = self.objects.get_mut(index) {
                self.symbols.passed(object, (index, source_block), is_at_last);
            }
        }
    }

    /// A receiver has named blocks that it lacks. Whole source blocks are nothing that the group could mend.
    pub(super) fn note_named(&mut self, from: ReceiverId, index: u32, blocks: Range<u64>) {
        let object = self.objects.get(index);
        let Some((object, schedule)) = object.and_then(|object| Some((object, object.schedule.as_ref()?)))
        else {
            return;
        };
        if self.is_unheard || self.symbols.blocks_only.contains(&(index, from)) {
            return;
        }
        let layout = schedule.layout();
        let first = layout.source_block(blocks.start);
        let last = layout.source_block(blocks.end.saturating_sub(1));
        if last - first.min(last) > 1 {
            return;
        }
        let mut passed = Vec::new();
        for source_block in first..=last {
            let inside = layout.blocks(source_block);
            let count = blocks.end.min(inside.end).saturating_sub(blocks.start.max(inside.start));
            self.symbols.name(from, (index, source_block), count as u32);
            passed.extend(has_passed(object, &layout, source_block).then_some(source_block));
        }
        passed.into_iter().for_each(|source_block| self.code_if_worth(index, source_block));
    }

    /// Has symbols to the group take the place of what receivers have named of a source block, if that costs less.
    fn code_if_worth(&mut self, index: u32, source_block: u32) {
        let Some(object) = self.objects.get_mut(index) else { return };
        let coded = self.symbols.code(object, (index, source_block));
        let Some(schedule) = &object.schedule else { return };
        let blocks = schedule.layout().blocks(source_block);
        for receiver in coded {
            if let Some(retransmitter) = self.retransmitters.get_mut(&receiver) {
                retransmitter.lack(index);
                retransmitter.requests.remove(index, blocks.clone());
            }
        }
    }

    /// The next repair symbols to the group, or the word that they are out.
    pub(super) fn next_symbols(&mut self, now: Instant) -> Option<SenderTransmit> {
        self.symbols.tell_again(now);
        // A receiver that has lost nothing of an object needs no symbols, and waits for the hash.
        if self.has_symbols_due()
            && let Some(word) = self.symbols.told.iter().copied().find(|(_, word)| *word == Word::Digest)
        {
            self.symbols.told.remove(&word);
            return self.digest_to_group(word.0);
        }
        while let Some((index, source_block)) = self.symbols.due.first().copied() {
            let since = *self.symbols.due_since.get_or_insert(now);
            if now < since + GIVES_WAY && self.multicast.has_others(&self.objects, index) {
                return None;
            }
            let most = self.objects.blocks_per_run(self.config.max_run_len) as u32;
            let object = self.objects.get_mut(index);
            let schedule = object.and_then(|object| object.schedule.as_mut());
            if let Some(symbols) = schedule.and_then(|schedule| schedule.take(source_block, most)) {
                self.symbols.sent += u64::from(symbols.end - symbols.start);
                let (to, file) = (Destination::Group, self.objects.file_id(index));
                return Some(SenderTransmit::Symbols { to, file, source_block, symbols });
            }
            self.symbols.due.remove(&(index, source_block));
            self.say(now, index, Word::SymbolsSent(source_block));
        }
        self.symbols.due_since = None;
        let (index, word) = self.symbols.told.pop_first()?;
        match word {
            Word::SymbolsSent(source_block) => self.symbols_sent(index, source_block),
            Word::Digest => self.digest_to_group(index),
        }
    }

    fn digest_to_group(&self, index: u32) -> Option<SenderTransmit> {
        let hash = self.objects.get(index)?.hash?;
        Some(to_group(self.objects.file_id(index), Message::Digest(Digest::unsigned(hash))))
    }

    /// Tells the group of an object now and, when nothing else of it goes out that would show who has lost that, a few
    /// times more.
    fn say(&mut self, now: Instant, index: u32, word: Word) {
        self.symbols.told.insert((index, word));
        let is_out = |object: &Object| object.sent >= object.begin.file_size;
        if self.objects.get(index).is_some_and(is_out) {
            self.symbols.again.insert((index, word), (now + SAY_AGAIN, SAY_AGAIN));
        }
    }

    /// Whether repair symbols are to go to the group now.
    pub fn has_symbols_due(&self) -> bool {
        !self.symbols.due.is_empty()
    }

    /// The group is told the hash of an object whose blocks are out, where losses are to be expected.
    pub(super) fn say_digest(&mut self, now: Instant, index: u32) {
        let is_said = self.symbols.again.contains_key(&(index, Word::Digest));
        if self.config.digest_to_group && self.symbols.is_coding && !is_said {
            self.say(now, index, Word::Digest);
        }
    }

    /// The word that symbols are out, also to receivers whose blocks they stand for over their connections.
    fn symbols_sent(&mut self, index: u32, source_block: u32) -> Option<SenderTransmit> {
        let untold = self.symbols.named.get_mut(&(index, source_block));
        for receiver in untold.map(|named| std::mem::take(&mut named.untold)).into_iter().flatten() {
            if let Some(retransmitter) = self.retransmitters.get_mut(&receiver) {
                retransmitter.symbols.owe_out((index, source_block));
            }
        }
        let next = self.objects.get(index)?.schedule.as_ref()?.next(source_block)?;
        let message = Message::SymbolsSent(SymbolsSent { source_block, next });
        Some(to_group(self.objects.file_id(index), message))
    }
}
