//! The place where each pass of a carousel begins, chosen so that no pass keeps step with losses.
//!
//! A network may lose every third packet, or all packets of the same moment in every second. A carousel that repeats itself
//! exactly would then send some blocks at those places for ever, and a receiver would never get them. So each pass differs
//! from the one before by random amounts:
//!
//! - A pass of blocks begins a little before the place where the one before it ended. So all blocks shift against packets.
//!   The shift takes each of an even number of consecutive values with the same probability. So for any period of two or more
//!   packets, a block that the last pass lost is lost by the next one with a probability of at most one half.
//! - A pass of repair symbols begins at any source block.
//! - The first run of a pass has a random length. So blocks shift against super-packets, too.
//! - Up to three small messages go before a pass. So messages shift in sessions that have nearly nothing else.
//! - The pause after a short loop varies.
//!
//! The order within a pass, and the length of all runs but one, stay as they are: receivers store long runs. The first pass
//! begins where the session says, in whole runs.

use std::time::Duration;

use crate::random::SplitMix64;

/// The part of a loop by which passes of blocks overlap at most: a 32nd, and on average half of that. Receivers that need
/// nothing but the rest of a loop wait longer by as much.
const MOST_OVERLAP: u64 = 32;

/// The fewest different overlaps, in blocks.
const FEWEST_OVERLAPS: u64 = 2;

/// The most messages before a pass.
const MOST_MESSAGES: u64 = 3;

/// The random numbers of one group's loop.
#[derive(Debug)]
pub(super) struct Turns {
    random: SplitMix64,
    block_len: u64,
    /// The bytes of all objects.
    total: u64,
    /// The place where the pass began, in bytes of all objects.
    offset: u64,
}

impl Turns {
    /// Numbers from a seed, of a loop of `total` bytes whose first pass begins at `offset`.
    pub fn new(seed: u64, block_len: u16, total: u64, offset: u64) -> Self {
        let total = total.max(1);
        Self { random: SplitMix64(seed), block_len: block_len.max(1).into(), total, offset: offset % total }
    }

    /// Returns where the next pass of blocks begins, in bytes of all objects.
    pub fn shortly_before(&mut self) -> u64 {
        // Even, so that periods of two packets find as many odd overlaps as even ones.
        let overlaps = ((self.total / self.block_len / MOST_OVERLAP) & !1).max(FEWEST_OVERLAPS);
        let back = (1 + self.random.below(overlaps)) * self.block_len % self.total;
        self.offset = match self.offset.checked_sub(back) {
            Some(offset) => offset,
            None => self.total - (back - self.offset),
        };
        self.offset
    }

    /// Returns where the next pass of repair symbols begins, in bytes of all objects.
    pub fn anywhere(&mut self) -> u64 {
        self.offset = self.random.below(self.total);
        self.offset
    }

    /// Returns the most bytes of the first run of a pass, where the other runs have at most `max_run_len` bytes.
    pub fn first_run_len(&mut self, max_run_len: u64) -> u64 {
        (1 + self.random.below(max_run_len / self.block_len)) * self.block_len
    }

    /// Returns the number of messages that go before the next pass.
    pub fn messages(&mut self) -> usize {
        self.random.below(MOST_MESSAGES + 1) as usize
    }

    /// Returns a pause that is at least `shortest`, and at most half as long again.
    pub fn pause(&mut self, shortest: Duration) -> Duration {
        shortest + Duration::from_micros(self.random.below(shortest.as_micros() as u64 / 2 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_begin_a_little_earlier_each_time_and_by_odd_and_even_numbers_of_blocks() {
        for blocks in [1, 2, 3, 50, 1_000, 100_000] {
            let total = blocks * 1_000;
            let mut turns = Turns::new(7, 1_000, total, 0);
            let (mut before, mut odd) = (0, 0);
            for _ in 0..1_000 {
                let begin = turns.shortly_before();
                let back = (before + total - begin) / 1_000 % blocks;
                assert!(begin < total && begin.is_multiple_of(1_000), "{blocks}: {begin}");
                assert!(back <= (blocks / 32).max(2), "{blocks}: {back}");
                odd += back % 2;
                before = begin;
            }
            assert!(blocks < 3 || (400..600).contains(&odd), "{blocks}: {odd}");
        }
    }

    #[test]
    fn an_empty_loop_and_the_longest_one_have_their_turns() {
        for total in [0, 1, u64::MAX] {
            let mut turns = Turns::new(7, 0, total, u64::MAX);
            for _ in 0..100 {
                assert!(turns.shortly_before() < total.max(1) && turns.anywhere() < total.max(1));
            }
        }
    }

    #[test]
    fn runs_messages_and_pauses_keep_to_their_bounds() {
        let mut turns = Turns::new(7, 1_000, 9_000, 0);
        let runs: std::collections::BTreeSet<u64> = (0..200).map(|_| turns.first_run_len(4_000)).collect();
        assert_eq!(Vec::from_iter(runs), [1_000, 2_000, 3_000, 4_000]);
        assert_eq!(turns.first_run_len(0), 1_000);
        let shortest = Duration::from_millis(20);
        for _ in 0..100 {
            assert!(turns.messages() <= 3);
            assert!((shortest..=shortest * 3 / 2).contains(&turns.pause(shortest)));
        }
    }
}
