//! The repair symbols that go to one receiver alone, and what it does not know of those that are out.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use super::{super::Repair, objects::Objects, requests::Requests};

/// An object, and a source block of it.
pub(super) type SourceBlock = (u32, u32);

#[derive(Debug, Default)]
pub(super) struct OwedSymbols {
    /// The number of symbols that the receiver is to have.
    counts: BTreeMap<SourceBlock, u32>,
    /// The number of symbols that have gone to the receiver.
    sent: u64,
    /// The number of symbols that had gone to it when the last ones of a source block had. Until these have
    /// arrived, the symbols that it says it lacks are on their way.
    on_the_way: BTreeMap<SourceBlock, u64>,
    /// Source blocks whose symbols it did not know to be out, though the group has been told.
    unheard: BTreeSet<SourceBlock>,
    /// Source blocks of which it still did not know that when it asked again. It is told so itself.
    out_due: BTreeSet<SourceBlock>,
}

impl OwedSymbols {
    /// Whether the receiver is owed no symbols.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The receiver is to have so many symbols of a source block for itself. So it said when so many of all
    /// that had been sent to it had arrived.
    pub(super) fn request(&mut self, of: SourceBlock, count: u32, arrived: u64) {
        let is_on_the_way = self.on_the_way.get(&of).is_some_and(|sent| arrived < *sent);
        if count > 0 && !is_on_the_way {
            self.counts.insert(of, count);
        }
    }

    /// Notes that the receiver did not know that symbols of a source block are out. The group is told. A
    /// receiver that asks again without having heard that does not hear the group.
    pub(super) fn note_unheard(&mut self, of: SourceBlock) {
        if !self.unheard.insert(of) {
            self.unheard.remove(&of);
            self.out_due.insert(of);
        }
    }

    /// Notes that the receiver is to be told over its connection that symbols of a source block are out.
    pub(super) fn owe_out(&mut self, of: SourceBlock) {
        self.out_due.insert(of);
    }

    /// Whether [`Self::take_out`] has something.
    pub(super) fn is_out_due(&self) -> bool {
        !self.out_due.is_empty()
    }

    /// Takes a source block of which the receiver is to be told that symbols are out.
    pub(super) fn take_out(&mut self) -> Option<SourceBlock> {
        self.out_due.pop_first()
    }

    pub(super) fn forget(&mut self, index: u32) {
        self.counts.retain(|(other, _), _| *other != index);
        self.on_the_way.retain(|(other, _), _| *other != index);
        self.unheard.retain(|(other, _)| *other != index);
        self.out_due.retain(|(other, _)| *other != index);
    }

    /// Forgets all source blocks: the receiver listens to a slower group, and gets no symbols any more.
    pub(super) fn clear(&mut self) {
        *self = Self { sent: self.sent, ..Self::default() };
    }

    /// The first source block of which symbols may go now.
    pub(super) fn next(&self, objects: &Objects, repair: Repair) -> Option<SourceBlock> {
        self.counts.keys().copied().find(|(index, _)| objects.may_be_mended(*index, repair))
    }

    /// Takes the next symbols that the receiver is to have. When a source block has no new ones any more, all of its blocks are
    /// requested.
    pub(super) fn take(
        &mut self,
        objects: &mut Objects,
        requests: &mut Requests,
        repair: Repair,
        max_run_len: u32,
    ) -> Option<(SourceBlock, Range<u32>)> {
        while let Some(of) = self.next(objects, repair) {
            let (index, source_block) = of;
            let count = self.counts.remove(&of).unwrap_or_default();
            let most = objects.blocks_per_run(max_run_len).min(u64::from(count)) as u32;
            let Some(schedule) = objects.get_mut(index).and_then(|object| object.schedule.as_mut()) else {
                continue;
            };
            let Some(symbols) = schedule.take_apart(source_block, most) else {
                requests.insert(index, schedule.layout().blocks(source_block));
                continue;
            };
            let taken = symbols.end - symbols.start;
            self.sent += u64::from(taken);
            self.on_the_way.insert(of, self.sent);
            if taken < count {
                self.counts.insert(of, count - taken);
            }
            return Some((of, symbols));
        }
        None
    }
}
