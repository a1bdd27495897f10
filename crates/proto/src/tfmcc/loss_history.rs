//! The packets that were lost, and from them the rate at which loss events begin (RFC 5348, 5; RFC 4654, 5).

use std::{collections::VecDeque, time::Duration};

use super::Arrived;
use crate::Instant;

/// The weights of the last eight loss intervals, the latest first (RFC 5348, 5.4).
const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

/// The intervals before the present one are never discounted to less (RFC 5348, 5.5).
const LEAST_DISCOUNT: f64 = 0.25;

/// A packet is lost when so many later ones have arrived (RFC 5348, 5.1): it may have been overtaken.
const REORDERING: u32 = 3;

/// Numbers that jump further are another count: the sender has started again.
const MAX_JUMP: u32 = 1 << 22;

/// The most gaps that wait for late packets; the oldest is given up for another.
const MAX_GAPS: usize = 64;

/// Tells lost packets from late ones, and keeps the distances between loss events.
#[derive(Debug, Default)]
pub struct LossHistory {
    /// The number behind the highest that has arrived.
    next: Option<u32>,
    /// Oldest first.
    gaps: VecDeque<Gap>,
    /// The first packet of the present loss event and the time when it was missed.
    event: Option<(u32, Instant)>,
    /// The closed loss intervals, latest first: packets, and what discounting has left of the weight.
    intervals: VecDeque<(f64, f64)>,
}

/// Packets that have not arrived.
#[derive(Debug)]
struct Gap {
    first: u32,
    count: u32,
    missed_at: Instant,
    /// The number of packets that have arrived after it was seen.
    later: u32,
}

impl LossHistory {
    /// Takes note of packets that have arrived. Returns whether this shows that a loss event has begun.
    pub fn arrived(&mut self, now: Instant, packets: Arrived, round_trip: Duration) -> bool {
        let Arrived { first, count, marked } = packets;
        let next = *self.next.get_or_insert(first);
        let end = first.wrapping_add(count);
        match first.wrapping_sub(next) {
            ahead if ahead <= MAX_JUMP => {
                self.miss(now, next, ahead);
                self.next = Some(end);
                self.gaps.iter_mut().for_each(|gap| gap.later = gap.later.saturating_add(count));
            }
            behind if behind.wrapping_neg() <= MAX_JUMP => self.fill(first, count),
            _ => self.start_again(end),
        }
        let mut begins = marked && self.lose(now, first, round_trip);
        while let Some(gap) = self.gaps.front().filter(|gap| gap.later >= REORDERING) {
            let (first, missed_at) = (gap.first, gap.missed_at);
            begins |= self.lose(missed_at, first, round_trip);
            self.gaps.pop_front();
        }
        begins
    }

    /// Sets the interval before the first loss event, whose beginning nobody knows. It is taken to be as long
    /// as fits the rate at which the first loss came (RFC 5348, 6.3.1).
    pub fn set_first_interval(&mut self, packets: f64) {
        if self.intervals.is_empty() {
            self.intervals.push_front((packets.max(1.0), 1.0));
        }
    }

    /// Returns the number of loss events for each packet (RFC 5348, 5.4); 0 before the first event.
    pub fn loss_rate(&self) -> f64 {
        let Some(open) = self.open_interval() else { return 0.0 };
        let discount = self.discount(open);
        let (mut total, mut weight) = (open * WEIGHTS[0], WEIGHTS[0]);
        for ((packets, left), of) in self.intervals.iter().zip(&WEIGHTS[1..]) {
            total += packets * of * left * discount;
            weight += of * left * discount;
        }
        let with_open = total / weight;
        1.0 / with_open.max(self.closed_mean()).max(1.0)
    }

    /// Packets since the present loss event began.
    fn open_interval(&self) -> Option<f64> {
        let (first, _) = self.event?;
        Some(f64::from(self.next?.wrapping_sub(first)))
    }

    /// The average of the closed intervals.
    fn closed_mean(&self) -> f64 {
        let weighted = self.intervals.iter().zip(&WEIGHTS);
        let (total, weight) = weighted.fold((0.0, 0.0), |(total, weight), ((packets, left), of)| {
            (total + packets * of * left, weight + of * left)
        });
        if weight > 0.0 { total / weight } else { 0.0 }
    }

    /// The share that the closed intervals still count, 0 to 1, when the open one is more than twice their
    /// average (RFC 5348, 5.5).
    fn discount(&self, open: f64) -> f64 {
        let twice = 2.0 * self.closed_mean();
        if open > twice && twice > 0.0 { (twice / open).max(LEAST_DISCOUNT) } else { 1.0 }
    }

    fn miss(&mut self, now: Instant, first: u32, count: u32) {
        if count > 0 {
            self.gaps.push_back(Gap { first, count, missed_at: now, later: 0 });
        }
        if self.gaps.len() > MAX_GAPS {
            self.gaps.pop_front();
        }
    }

    /// Late packets are no longer missed. A gap is split at most at its ends: what lies in the middle of one was
    /// overtaken by so many that the rest is lost anyway.
    fn fill(&mut self, first: u32, count: u32) {
        for gap in &mut self.gaps {
            let at = first.wrapping_sub(gap.first);
            if at == 0 {
                let filled = count.min(gap.count);
                gap.first = gap.first.wrapping_add(filled);
                gap.count -= filled;
            } else if at < gap.count && at.saturating_add(count) >= gap.count {
                gap.count = at;
            }
        }
        self.gaps.retain(|gap| gap.count > 0);
    }

    /// A packet is lost. What is lost within one and a half round trips of the first packet of an event belongs to it: so
    /// long it takes until the sender has heard of it, has slowed down, and a queue that was full is so no longer.
    fn lose(&mut self, now: Instant, number: u32, round_trip: Duration) -> bool {
        let Some((first, began)) = self.event else {
            self.event = Some((number, now));
            return true;
        };
        if now.saturating_duration_since(began) <= round_trip * 3 / 2 {
            return false;
        }
        let packets = f64::from(number.wrapping_sub(first).min(MAX_JUMP));
        let discount = self.discount(packets);
        self.intervals.iter_mut().for_each(|(_, left)| *left *= discount);
        self.intervals.push_front((packets.max(1.0), 1.0));
        self.intervals.truncate(WEIGHTS.len());
        self.event = Some((number, now));
        true
    }

    /// Another count begins. The present interval goes on with it.
    fn start_again(&mut self, next: u32) {
        if let (Some(open), Some((first, _))) = (self.open_interval(), &mut self.event) {
            *first = next.wrapping_sub(open as u32);
        }
        self.gaps.clear();
        self.next = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    const ROUND_TRIP: Duration = Duration::from_millis(40);

    fn run(first: u32, count: u32) -> Arrived {
        Arrived { first, count, marked: false }
    }

    /// Every `every`-th packet is lost, a packet a millisecond; returns the history after `packets`.
    fn regular(every: u32, packets: u32) -> LossHistory {
        let mut history = LossHistory::default();
        for number in (0..packets).filter(|number| number % every != every - 1) {
            let begins =
                history.arrived(at(number.into()), run(u32::MAX.wrapping_add(number), 1), ROUND_TRIP);
            if begins {
                history.set_first_interval(every.into());
            }
        }
        history
    }

    #[test]
    fn regular_losses_give_their_rate() {
        let rate = regular(100, 2_000).loss_rate();
        assert!((0.009..0.0101).contains(&rate), "{rate}");
        assert_eq!(regular(100, 99).loss_rate(), 0.0);
    }

    #[test]
    fn losses_within_a_round_trip_are_one_event() {
        let rate = regular(10, 2_000).loss_rate();
        assert!((0.012..0.017).contains(&rate), "every 70th begins an event: {rate}");
    }

    #[test]
    fn a_late_packet_is_not_lost_and_an_early_one_no_event() {
        let mut history = LossHistory::default();
        assert!(!history.arrived(at(0), run(0, 10), ROUND_TRIP));
        assert!(!history.arrived(at(1), run(12, 2), ROUND_TRIP), "it may come yet");
        assert!(!history.arrived(at(1), run(10, 1), ROUND_TRIP));
        assert!(!history.arrived(at(1), run(11, 1), ROUND_TRIP));
        assert!(!history.arrived(at(2), run(14, 10), ROUND_TRIP) && history.event.is_none());
        assert!(history.arrived(at(3), run(25, 3), ROUND_TRIP) && history.event.is_some());
        assert!(!history.arrived(at(4), run(24, 1), ROUND_TRIP), "too late");
    }

    #[test]
    fn a_mark_is_a_loss() {
        let mut history = LossHistory::default();
        history.arrived(at(0), run(0, 10), ROUND_TRIP);
        assert!(history.arrived(at(1), Arrived { marked: true, ..run(10, 1) }, ROUND_TRIP));
    }

    #[test]
    fn a_long_time_without_loss_counts_soon() {
        let mut history = regular(100, 2_000);
        let before = history.loss_rate();
        history.arrived(at(2_000), run(1_999, 1_000), ROUND_TRIP);
        let after = history.loss_rate();
        assert!(after < before / 2.0, "{before} {after}: discounting doubles the weight of the present");
        assert!(after > before / 10.0, "{before} {after}");
    }

    #[test]
    fn a_sender_that_starts_again_loses_nothing_by_that() {
        let mut history = regular(100, 2_000);
        let before = history.loss_rate();
        history.arrived(at(2_000), run(3_000_000_000, 1), ROUND_TRIP);
        assert_eq!(history.loss_rate(), before);
    }

    #[test]
    fn memory_is_bounded_whatever_comes() {
        let mut history = LossHistory::default();
        let mut number = 1_u32;
        for step in 0..100_000 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let arrived = Arrived { first: number >> (step % 32), count: number % 3, marked: step % 7 == 0 };
            history.arrived(at(step), arrived, Duration::from_millis(step % 90));
            assert!(history.gaps.len() <= MAX_GAPS && history.intervals.len() <= WEIGHTS.len());
            assert!((0.0..=1.0).contains(&history.loss_rate()));
        }
    }
}
