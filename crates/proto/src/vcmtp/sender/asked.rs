//! The amount that a receiver asks for again of what its group was sent while it listened. Congestion control
//! holds its reports against that.

use std::{collections::BTreeMap, ops::Range};

use treecast_wire::message::Lack;

/// No request counts for more bytes. One packet may tell of a long run of zeros, and a path that was cut is no congestion.
const MOST_AT_ONCE: u64 = 128 << 10;

/// Source blocks of which it is known what was asked for. More are taken for new ones.
const MOST_SOURCE_BLOCKS: usize = 4_096;

#[derive(Debug, Default)]
pub(super) struct Asked {
    bytes: u64,
    /// The position up to which each object had been sent that had begun when the receiver began to listen,
    /// and the index of the first one that had not begun.
    before: BTreeMap<u32, u64>,
    first: u32,
    /// The most symbols that it has lacked of a source block.
    lacked: BTreeMap<(u32, u32), u32>,
}

impl Asked {
    /// Begins to count for a receiver that listens to its group from now on. `begun` has the objects that are
    /// being sent, and how far each one is. `first` is the index of the first object that has not begun.
    pub(super) fn begin(begun: impl Iterator<Item = (u32, u64)>, first: u32) -> Self {
        Self { before: begun.collect(), first, ..Self::default() }
    }

    /// Notes that the receiver asks for bytes of an object that have been sent.
    pub(super) fn ask(&mut self, index: u32, bytes: Range<u64>) {
        let start = bytes.start.max(self.heard_from(index));
        self.bytes += bytes.end.saturating_sub(start).min(MOST_AT_ONCE);
    }

    /// Notes that the receiver lacks symbols of this length.
    pub(super) fn lack(&mut self, index: u32, lack: Lack, symbol_len: u64) {
        if self.heard_from(index) > 0 {
            return;
        }
        if self.lacked.len() >= MOST_SOURCE_BLOCKS {
            self.lacked.pop_first();
        }
        let most = self.lacked.entry((index, lack.source_block)).or_default();
        let more = lack.lacking.saturating_sub(*most);
        *most += more;
        self.bytes += (u64::from(more) * symbol_len).min(MOST_AT_ONCE);
    }

    /// Takes what it has asked for since this was called last, in bytes.
    pub(super) fn take(&mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }

    /// The position from which on the receiver could hear an object.
    fn heard_from(&self, index: u32) -> u64 {
        let is_old = index < self.first;
        self.before.get(&index).copied().unwrap_or(if is_old { u64::MAX } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lack(source_block: u32, lacking: u32) -> Lack {
        Lack { source_block, lacking, next: 0 }
    }

    #[test]
    fn what_was_sent_before_it_listened_is_not_counted() {
        let mut asked = Asked::begin([(3, 1_000)].into_iter(), 4);
        asked.ask(2, 0..50_000);
        asked.ask(3, 0..1_000);
        assert_eq!(asked.take(), 0);
        asked.ask(3, 500..1_500);
        asked.ask(4, 0..2_000);
        assert_eq!((asked.take(), asked.take()), (2_500, 0));
    }

    #[test]
    fn symbols_count_once_and_long_runs_in_part() {
        let mut asked = Asked::default();
        [lack(0, 3), lack(0, 2), lack(0, 5), lack(1, 1)]
            .into_iter()
            .for_each(|lack| asked.lack(0, lack, 100));
        assert_eq!(asked.take(), 600);
        asked.ask(1, 0..1 << 40);
        assert_eq!(asked.take(), MOST_AT_ONCE);
    }
}
