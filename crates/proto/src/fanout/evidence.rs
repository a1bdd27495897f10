//! Remembers when which packets left.

use std::{collections::VecDeque, time::Duration};

use crate::Instant;

/// Moments that lie closer together than this are one.
const GRAIN: Duration = Duration::from_millis(5);

/// The number of moments that are remembered: several times the patience with a receiver.
const MOMENTS: usize = 1024;

/// Numbers are told apart modulo this: the two highest bits may be the number of a lane.
const NUMBERS: u32 = u32::MAX >> 2;

/// The number of packets that had left by each moment, from the numbers that they have.
#[derive(Debug, Default)]
pub(super) struct SentLog {
    next: u32,
    total: u64,
    /// Moments, and how many packets had left just before; oldest first.
    moments: VecDeque<(Instant, u64)>,
}

impl SentLog {
    /// Takes note that packets have left, and that the next one has the number `next`.
    pub fn sent(&mut self, now: Instant, next: u32) {
        let count = next.wrapping_sub(self.next) & NUMBERS;
        if count == 0 {
            return;
        }
        if self.moments.back().is_none_or(|(last, _)| now.saturating_duration_since(*last) >= GRAIN) {
            self.moments.push_back((now, self.total));
        }
        if self.moments.len() > MOMENTS {
            self.moments.pop_front();
        }
        self.next = next;
        self.total += u64::from(count);
    }

    /// Returns how many packets have left.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns how many packets had left when the packet with this number did. None: that packet never left.
    pub fn total_at(&self, number: u32) -> Option<u64> {
        let behind = u64::from(self.next.wrapping_sub(number) & NUMBERS);
        (behind > 0 && behind <= self.total).then(|| self.total - behind + 1)
    }

    /// Returns when the packet after the first `total` ones left, at the earliest. None: it has not left yet.
    pub fn left_at(&self, total: u64) -> Option<Instant> {
        if total >= self.total {
            return None;
        }
        let after = self.moments.partition_point(|(_, before)| *before <= total);
        self.moments.get(after.saturating_sub(1)).map(|(moment, _)| *moment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    #[test]
    fn packets_are_found_by_number_and_by_count() {
        let mut log = SentLog::default();
        assert_eq!((log.total_at(0), log.left_at(0)), (None, None));
        for (millis, next) in [(10, 5), (11, 7), (30, 20)] {
            log.sent(at(millis), next);
        }
        assert_eq!(log.total(), 20);
        assert_eq!([0, 19, 20, u32::MAX].map(|number| log.total_at(number)), [Some(1), Some(20), None, None]);
        assert_eq!(
            [0, 6, 7, 19, 20].map(|total| log.left_at(total)),
            [Some(at(10)), Some(at(10)), Some(at(30)), Some(at(30)), None]
        );
    }

    #[test]
    fn numbers_wrap_and_memory_is_bounded() {
        let mut log = SentLog { next: u32::MAX - 1, ..SentLog::default() };
        for step in 0..10_000 {
            log.sent(at(10 * step), (u32::MAX - 1).wrapping_add(step as u32 + 1));
        }
        assert_eq!((log.total(), log.moments.len()), (10_000, MOMENTS));
        assert_eq!(log.total_at(u32::MAX), Some(2));
        assert_eq!(log.left_at(9_999), Some(at(99_990)));
    }
}
