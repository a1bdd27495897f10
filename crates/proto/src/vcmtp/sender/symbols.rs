//! Repair symbols to the group: a share of each source block behind it, and as many as receivers have said that they
//! lack. When those of a source block are out, SymbolsSent follows: who has it knows what has been lost.

use std::{collections::BTreeSet, ops::Range};

use treecast_wire::message::{Lack, Message, SymbolsSent};

use super::{
    super::Repair,
    Destination, ReceiverId, Sender, SenderTransmit,
    objects::{Object, Objects},
    to_group,
};
use crate::fec::{Estimate, Schedule, Share, ToGo, Wish};

/// What a receiver's word that it lacks symbols of a source block leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// More to the group, or nothing that is not on its way.
    Group,
    /// So many symbols to this receiver.
    Apart(u32),
    /// These blocks to this receiver: there are no more symbols.
    Blocks(Range<u64>),
    /// All that it needs is out, which the group has been told.
    Out,
    /// There is no such source block, or it has not been out.
    Correction,
}

#[derive(Debug)]
pub(super) struct Symbols {
    /// None without forward error correction.
    estimate: Option<Estimate>,
    repair: Repair,
    /// Object and source block of symbols that are to go now.
    due: BTreeSet<(u32, u32)>,
    /// As `due`, when the object is out (VCMTP 1).
    later: BTreeSet<(u32, u32)>,
    /// Of which SymbolsSent is to go.
    told: BTreeSet<(u32, u32)>,
    sent: u64,
}

impl Symbols {
    pub(super) fn new(fec: Option<Share>, repair: Repair) -> Self {
        let estimate = fec.map(Estimate::new);
        Self {
            estimate,
            repair,
            due: BTreeSet::new(),
            later: BTreeSet::new(),
            told: BTreeSet::new(),
            sent: 0,
        }
    }

    pub(super) fn join(&mut self, receiver: ReceiverId) {
        if let Some(estimate) = &mut self.estimate {
            estimate.join(receiver.0);
        }
    }

    pub(super) fn leave(&mut self, receiver: ReceiverId) {
        if let Some(estimate) = &mut self.estimate {
            estimate.leave(receiver.0);
        }
    }

    /// Blocks have been multicast up to byte `end`: behind the last one of a source block, its share of repair symbols
    /// is due.
    pub(super) fn sent(&mut self, objects: &mut Objects, index: u32, end: u64) {
        let next_block = objects.blocks(0..end).end;
        let Some(estimate) = &mut self.estimate else { return };
        let Some(schedule) = objects.get_mut(index).and_then(|object| object.schedule.as_mut()) else {
            return;
        };
        let layout = schedule.layout();
        let source_block = layout.source_block(next_block - 1);
        if next_block != layout.blocks(source_block).end {
            return;
        }
        let symbols = layout.source_symbols(source_block);
        if schedule.aim(source_block, symbols.saturating_add(estimate.ahead(symbols))) {
            self.due.insert((index, source_block));
        }
    }

    /// The object is out: what waited for that is due.
    pub(super) fn out(&mut self, index: u32) {
        let waiting: Vec<_> = self.later.range((index, 0)..=(index, u32::MAX)).copied().collect();
        for one in waiting {
            self.later.remove(&one);
            self.due.insert(one);
        }
    }

    /// Nothing more of the object goes out.
    pub(super) fn forget(&mut self, index: u32) {
        for set in [&mut self.due, &mut self.later, &mut self.told] {
            set.retain(|(other, _)| *other != index);
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
                        self.told.insert((index, source_block));
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

/// What a receiver says that it lacks, of a source block that has been out; it cannot have heard of more symbols than those.
fn known(object: &Object, lack: Lack) -> Option<(&Schedule, Lack)> {
    let schedule = object.schedule.as_ref()?;
    let (layout, next) = (schedule.layout(), schedule.next(lack.source_block)?);
    let is_under_way = object.sent < object.begin.file_size
        && layout.source_block(object.sent / layout.block_len()) <= lack.source_block;
    (!is_under_way).then(|| (schedule, Lack { next: lack.next.min(next), ..lack }))
}

impl Sender {
    /// The next repair symbols to the group, or the word that they are out.
    pub(super) fn next_symbols(&mut self) -> Option<SenderTransmit> {
        while let Some((index, source_block)) = self.symbols.due.first().copied() {
            let most = self.objects.blocks_per_run(self.config.max_run_len) as u32;
            let object = self.objects.get_mut(index);
            let schedule = object.and_then(|object| object.schedule.as_mut());
            if let Some(symbols) = schedule.and_then(|schedule| schedule.take(source_block, most)) {
                self.symbols.sent += u64::from(symbols.end - symbols.start);
                let (to, file) = (Destination::Group, self.objects.file_id(index));
                return Some(SenderTransmit::Symbols { to, file, source_block, symbols });
            }
            self.symbols.due.remove(&(index, source_block));
            self.symbols.told.insert((index, source_block));
        }
        let (index, source_block) = self.symbols.told.pop_first()?;
        let next = self.objects.get(index)?.schedule.as_ref()?.next(source_block)?;
        let message = Message::SymbolsSent(SymbolsSent { source_block, next });
        Some(to_group(self.objects.file_id(index), message))
    }
}
