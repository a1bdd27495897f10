//! Runs of consecutive losses, by the rate that was asked for.

use std::collections::VecDeque;

use super::history::Leaving;
use crate::report::RateLosses;

/// The largest number of rates that losses are told apart by. Further rates count as unknown.
const MAX_RATES: usize = 128;

/// The largest number of changes of the rate within the history.
const MAX_CHANGES: usize = 1024;

/// The largest number of runs whose numbers are kept.
const MAX_RANGES: usize = 20_000;

#[derive(Debug, Clone, Default)]
pub struct Runs {
    pub rates: Vec<RateLosses>,
    pub ranges: Vec<(u64, u64)>,
    pub is_cut: bool,
    /// The first number at each rate that begins within the history, and its place in `rates`.
    changes: VecDeque<(u64, usize)>,
    /// The place in `rates` of the numbers that leave the history now.
    now: usize,
    /// The place in `rates` of the highest number.
    newest: Option<usize>,
    /// The run that the last number handed in is part of: its first number, its last, and the place of its rate.
    open: Option<(u64, u64, usize)>,
}

impl Runs {
    /// Notes the rate of a packet with the highest number so far.
    pub fn note_rate(&mut self, number: u64, rate_pps: f64) {
        let is_same = |place: usize| self.rates[place].rate_pps == rate_pps;
        if self.newest.is_some_and(is_same) {
            return;
        }
        let place = self.place_of(rate_pps);
        if self.newest.is_none() {
            self.now = place;
        } else if self.changes.len() < MAX_CHANGES {
            self.changes.push_back((number, place));
        }
        self.newest = Some(place);
    }

    /// Takes numbers in order, once it is settled whether they were received.
    pub fn settle(&mut self, numbers: Leaving) {
        while let Some((_, place)) = self.changes.front().filter(|(first, _)| *first <= numbers.first) {
            self.now = *place;
            self.changes.pop_front();
        }
        let now = self.now;
        let count = numbers.last - numbers.first + 1;
        if let Some(rate) = self.rates.get_mut(now) {
            rate.expected += count;
            rate.lost += if numbers.is_received { 0 } else { count };
        }
        match (&mut self.open, numbers.is_received) {
            (_, true) => self.close(),
            (Some((_, last, _)), false) => *last = numbers.last,
            (None, false) => self.open = Some((numbers.first, numbers.last, now)),
        }
    }

    /// Ends the run that is open.
    pub fn close(&mut self) {
        let Some((first, last, place)) = self.open.take() else { return };
        if let Some(rate) = self.rates.get_mut(place) {
            rate.add_run(last - first + 1);
        }
        match self.ranges.len() < MAX_RANGES {
            true => self.ranges.push((first, last)),
            false => self.is_cut = true,
        }
    }

    fn place_of(&mut self, rate_pps: f64) -> usize {
        let wanted = if self.rates.len() < MAX_RATES { rate_pps } else { 0.0 };
        let known = |wanted: f64| self.rates.iter().position(|rate| rate.rate_pps == wanted);
        known(rate_pps).or_else(|| known(wanted)).unwrap_or_else(|| {
            self.rates.push(RateLosses { rate_pps: wanted, ..RateLosses::default() });
            self.rates.len() - 1
        })
    }
}
