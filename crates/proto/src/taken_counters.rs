//! Tells which packets of a key have been taken already, for every counter that a key may seal with. A window
//! that slides with the highest counter (RFC 4303, 3.4.3) would not do: all members of a group can seal, and
//! one packet with a counter far ahead would make all that the sender sends next too old.

use crate::group_key::MAX_PACKETS;

/// The number of counters that are remembered. A sender goes on a little with a key that has sealed its share,
/// until the next key is told.
pub const COUNTERS: u64 = MAX_PACKETS + (1 << 21);

/// Counters of a page: 8 KiB of memory.
const PAGE: u64 = 1 << 16;

const WORD: u64 = u64::BITS as u64;

/// The counters that were taken. The set takes 4 KiB, and 8 KiB more for every 65,536 counters of which some
/// were taken and some were not: 4.3 MiB at most.
#[derive(Debug, Clone)]
pub struct TakenCounters {
    pages: Box<[Page]>,
}

#[derive(Debug, Clone)]
enum Page {
    Untouched,
    /// One bit a counter, and how many are left to be taken.
    Begun(Box<[u64]>, u64),
    Full,
}

impl Default for TakenCounters {
    fn default() -> Self {
        Self { pages: vec![Page::Untouched; COUNTERS.div_ceil(PAGE) as usize].into() }
    }
}

impl TakenCounters {
    /// Whether a packet with this counter would be new.
    pub fn is_new(&self, counter: u64) -> bool {
        let (page, word, bit) = place(counter);
        match self.pages.get(page) {
            Some(Page::Untouched) => true,
            Some(Page::Begun(words, _)) => words[word] & bit == 0,
            Some(Page::Full) | None => false,
        }
    }

    /// Takes note of a packet that was sealed with the key. The caller has asked [`Self::is_new`] before.
    pub fn take(&mut self, counter: u64) {
        let (page, word, bit) = place(counter);
        let Some(page) = self.pages.get_mut(page) else { return };
        if let Page::Untouched = page {
            *page = Page::Begun(vec![0; (PAGE / WORD) as usize].into(), PAGE);
        }
        let Page::Begun(words, left) = page else { return };
        *left -= u64::from(words[word] & bit == 0);
        words[word] |= bit;
        if *left == 0 {
            *page = Page::Full;
        }
    }
}

/// The page of a counter, the word in it, and the bit in that.
fn place(counter: u64) -> (usize, usize, u64) {
    let slot = counter % PAGE;
    (usize::try_from(counter / PAGE).unwrap_or(usize::MAX), (slot / WORD) as usize, 1 << (slot % WORD))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn offer(taken: &mut TakenCounters, counter: u64) -> bool {
        let is_new = taken.is_new(counter);
        if is_new {
            taken.take(counter);
        }
        is_new
    }

    #[test]
    fn every_counter_is_taken_once_in_any_order() {
        let mut taken = TakenCounters::default();
        for counter in [0, 3, 1, 2, 70_000, 69_999, 5000, 70_001, COUNTERS - 1, 4] {
            assert!(offer(&mut taken, counter), "{counter}");
            assert!(!offer(&mut taken, counter), "{counter} again");
        }
    }

    #[test]
    fn what_no_sender_seals_with_is_never_new() {
        let mut taken = TakenCounters::default();
        for counter in [COUNTERS, COUNTERS + 1, 1 << 40, u64::MAX] {
            taken.take(counter);
            assert!(!taken.is_new(counter), "{counter}");
        }
    }

    #[test]
    fn packets_far_ahead_cost_only_their_own_counters() {
        let mut taken = TakenCounters::default();
        let ahead: Vec<u64> = (1..COUNTERS / PAGE).map(|page| page * PAGE + 7).collect();
        assert!(ahead.iter().all(|counter| offer(&mut taken, *counter)));
        let refused: Vec<u64> = (0..3 * PAGE).filter(|counter| !offer(&mut taken, *counter)).collect();
        assert_eq!(refused, [PAGE + 7, 2 * PAGE + 7]);
    }

    #[test]
    fn full_pages_take_no_memory_and_nothing_twice() {
        let mut taken = TakenCounters::default();
        assert!((0..2 * PAGE + 1).rev().all(|counter| offer(&mut taken, counter)));
        assert!(matches!(taken.pages[..4], [Page::Full, Page::Full, Page::Begun(..), Page::Untouched]));
        assert!((0..2 * PAGE + 1).all(|counter| !offer(&mut taken, counter)));
    }

    /// Against a model.
    #[test]
    fn it_knows_what_a_set_knows() {
        let (mut taken, mut model) = (TakenCounters::default(), BTreeSet::new());
        let mut state = 7_u64;
        for _ in 0..100_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let counter = (state >> 33) % (3 * PAGE);
            assert_eq!(offer(&mut taken, counter), model.insert(counter), "{counter}");
        }
    }
}
