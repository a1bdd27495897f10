//! The extent of reordering (RFC 4737).

use std::{collections::VecDeque, time::Duration};

use crate::report::Reordering;

/// The number of packets with higher numbers, directly before a reordered one, after which TCP sends again (RFC 4737, section 5).
const TCP_PACKETS: usize = 3;

/// An arrival with a number higher than all before it.
#[derive(Debug, Clone, Copy)]
struct Maximum {
    number: u64,
    /// The place among all arrivals.
    index: u64,
    at: Duration,
}

#[derive(Debug, Clone)]
pub struct Order {
    /// The latest maxima. A packet within the window has at most `window` of them above it.
    maxima: VecDeque<Maximum>,
    window: usize,
    arrivals: u64,
    latest: [u64; TCP_PACKETS],
    count: u64,
    extents: u64,
    counts: Reordering,
}

impl Order {
    pub fn new(window: u64) -> Self {
        Self {
            maxima: VecDeque::new(),
            window: window as usize,
            arrivals: 0,
            latest: [0; TCP_PACKETS],
            count: 0,
            extents: 0,
            counts: Reordering::default(),
        }
    }

    /// Takes the first copy of a packet that has a higher number than all before it.
    pub fn take_highest(&mut self, number: u64, at: Duration) {
        self.maxima.push_back(Maximum { number, index: self.arrivals, at });
        if self.maxima.len() > self.window.max(1) {
            self.maxima.pop_front();
        }
        self.arrive(number);
    }

    /// Takes the first copy of a packet that is reordered, but not late.
    pub fn take_reordered(&mut self, number: u64, at: Duration) {
        // Section 4.2: the extent reaches back to the earliest packet with a higher number.
        let first = self.maxima.partition_point(|maximum| maximum.number < number);
        if let Some(earliest) = self.maxima.get(first) {
            let extent = self.arrivals - earliest.index;
            self.extents += extent;
            self.counts.max_extent = self.counts.max_extent.max(extent);
            let late_us = at.saturating_sub(earliest.at).as_secs_f64() * 1e6;
            self.counts.max_late_us = self.counts.max_late_us.max(late_us);
        }
        self.counts.by_three += u64::from(self.latest.iter().all(|before| *before > number));
        self.count += 1;
        self.arrive(number);
    }

    /// Takes the first copy of a late packet, which only has its place among the arrivals.
    pub fn take_late(&mut self, number: u64) {
        self.arrive(number);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn report(&self) -> Reordering {
        Reordering { mean_extent: self.extents as f64 / self.count.max(1) as f64, ..self.counts }
    }

    fn arrive(&mut self, number: u64) {
        self.latest.rotate_left(1);
        self.latest[TCP_PACKETS - 1] = number;
        self.arrivals += 1;
    }
}
