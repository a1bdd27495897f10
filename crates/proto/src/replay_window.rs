//! Tells which packets have been heard already when packets may come by two ways. A window slides with the
//! highest counter (like RFC 4303, 3.4.3). For packets sealed with a key, [`crate::taken_counters`] remembers
//! all counters without a window.

/// The number of packets that the window reaches back: 80 ms at 10 Gbit/s, which is far longer than networks
/// delay packets against each other.
pub const WINDOW: u64 = 1 << 16;

const WORD: u64 = u64::BITS as u64;

/// The last [`WINDOW`] counters, and which of them have come already.
#[derive(Debug, Clone)]
pub struct ReplayWindow {
    /// The counter after the highest taken.
    next: u64,
    /// One bit a counter, at its place modulo the window.
    taken: Box<[u64]>,
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self { next: 0, taken: vec![0; (WINDOW / WORD) as usize].into() }
    }
}

impl ReplayWindow {
    /// Whether a packet with this counter would be new: neither taken nor too old to tell.
    pub fn is_new(&self, counter: u64) -> bool {
        counter >= self.next || (self.next - counter <= WINDOW && !self.is_taken(counter))
    }

    /// Takes note of a packet. The caller has asked [`Self::is_new`] before.
    pub fn take(&mut self, counter: u64) {
        if counter >= self.next {
            self.slide(counter);
        }
        let (word, bit) = place(counter);
        self.taken[word] |= bit;
    }

    /// Makes room up to `counter`: those between were not taken yet.
    fn slide(&mut self, counter: u64) {
        if counter - self.next >= WINDOW {
            self.taken.fill(0);
        } else {
            for passed in self.next..=counter {
                let (word, bit) = place(passed);
                self.taken[word] &= !bit;
            }
        }
        self.next = counter.saturating_add(1);
    }

    fn is_taken(&self, counter: u64) -> bool {
        let (word, bit) = place(counter);
        self.taken[word] & bit != 0
    }
}

fn place(counter: u64) -> (usize, u64) {
    let slot = counter % WINDOW;
    ((slot / WORD) as usize, 1 << (slot % WORD))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(window: &mut ReplayWindow, counter: u64) -> bool {
        let is_new = window.is_new(counter);
        if is_new {
            window.take(counter);
        }
        is_new
    }

    #[test]
    fn every_counter_is_taken_once_in_any_order() {
        let mut window = ReplayWindow::default();
        for counter in [0, 3, 1, 2, 70_000, 69_999, 5000, 70_001] {
            assert!(offer(&mut window, counter), "{counter}");
            assert!(!offer(&mut window, counter), "{counter} again");
        }
        assert!(offer(&mut window, 70_002 - WINDOW), "the oldest that it reaches");
    }

    #[test]
    fn what_is_older_than_the_window_is_not_taken() {
        let mut window = ReplayWindow::default();
        assert!(offer(&mut window, 10 * WINDOW));
        assert!(!offer(&mut window, 9 * WINDOW));
        assert!(offer(&mut window, 9 * WINDOW + 1));
    }

    #[test]
    fn slots_are_used_again_for_later_counters() {
        let mut window = ReplayWindow::default();
        for round in 0..3 {
            for counter in round * WINDOW..(round + 1) * WINDOW {
                assert!(offer(&mut window, counter) && !offer(&mut window, counter), "{counter}");
            }
        }
        assert!(offer(&mut window, u64::MAX) && !offer(&mut window, u64::MAX - WINDOW));
    }

    /// Against a model that remembers everything.
    #[test]
    fn it_never_takes_twice_and_refuses_nothing_that_is_recent() {
        let (mut window, mut taken, mut highest) =
            (ReplayWindow::default(), std::collections::BTreeSet::new(), 0);
        let mut state = 7_u64;
        for _ in 0..100_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let counter = highest + 100 - (state >> 33) % 200_u64.min(highest + 100);
            let was_new = taken.insert(counter);
            assert_eq!(offer(&mut window, counter), was_new, "{counter}");
            highest = highest.max(counter);
        }
    }
}
