//! A TCP connection through a network that loses packets: both ends of one direction.
//!
//! The window is CUBIC's. Every segment has a number of its own, also when it carries again what was lost. An acknowledgement names all
//! segments that have come, so that one that is lost itself costs nothing. What is written comes out at the other end whole and
//! in order.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use treecast_proto::Instant;

use crate::tfmcc::Cubic;

/// Bytes of IPv6 and TCP, with timestamps, and of a TLS record around a segment's data.
pub const HEADERS: usize = 40 + 32 + 22;

/// Length of an acknowledgement, in bytes of IP.
pub const ACKNOWLEDGEMENT_BYTES: usize = 40 + 32;

/// How long an acknowledgement waits for a second segment.
pub const DELAYED: Duration = Duration::from_millis(40);

/// One direction of a connection. `T` is what is written.
#[derive(Debug)]
pub struct Tcp<T> {
    cubic: Cubic,
    /// What waits for the window, with its place in what was written.
    queue: VecDeque<(u64, T)>,
    written: u64,
    under_way: BTreeMap<u64, (u64, T)>,
    /// At the other end: the numbers that have come since the oldest one under way.
    came: BTreeSet<u64>,
    unacknowledged: u32,
    /// At the other end: the place that is due, and what came before its turn.
    due: u64,
    early: BTreeMap<u64, T>,
}

/// What is sent at once.
#[derive(Debug, Clone)]
pub struct Segment<T> {
    number: u64,
    /// The oldest number under way.
    oldest: u64,
    place: u64,
    pub data: T,
}

/// What has come of the segments that are under way.
#[derive(Debug, Clone)]
pub struct Acknowledgement(BTreeSet<u64>);

impl<T: Clone> Tcp<T> {
    /// A connection that is there: its handshake took `round_trip`.
    pub fn new(now: Instant, round_trip: Duration) -> Self {
        let mut cubic = Cubic::new(now);
        cubic.know(round_trip);
        Self {
            cubic,
            queue: VecDeque::new(),
            written: 0,
            under_way: BTreeMap::new(),
            came: BTreeSet::new(),
            unacknowledged: 0,
            due: 0,
            early: BTreeMap::new(),
        }
    }

    /// Writes a segment's worth.
    pub fn write(&mut self, data: T) {
        self.queue.push_back((self.written, data));
        self.written += 1;
    }

    /// The number of segments that wait for the window.
    pub fn backlog(&self) -> usize {
        self.queue.len()
    }

    /// The next segment to send, if there is one and the window has room.
    pub fn poll(&mut self, now: Instant) -> Option<Segment<T>> {
        if self.queue.is_empty() {
            return None;
        }
        if self.under_way.is_empty() {
            self.cubic.resume(now);
        }
        let number = self.cubic.send(now)?;
        let (place, data) = self.queue.pop_front()?;
        self.under_way.insert(number, (place, data.clone()));
        let oldest = self.under_way.first_key_value().map_or(number, |(oldest, _)| *oldest);
        Some(Segment { number, oldest, place, data })
    }

    /// When the oldest segment is given up. `None` when nothing is under way.
    pub fn deadline(&self) -> Option<Instant> {
        (!self.under_way.is_empty()).then(|| self.cubic.deadline())
    }

    pub fn time_out(&mut self, now: Instant) {
        self.cubic.time_out(now);
        let lost = std::mem::take(&mut self.under_way);
        self.again(lost.into_values());
    }

    /// A segment comes. Returns what can be read now, in order, and an acknowledgement if one is due.
    pub fn receive(&mut self, segment: Segment<T>) -> (Vec<T>, Option<Acknowledgement>) {
        let Segment { number, oldest, place, data } = segment;
        let is_behind_gap = self.came.last().is_some_and(|last| last + 1 != number) || place != self.due;
        self.came = self.came.split_off(&oldest);
        self.came.insert(number);
        self.unacknowledged += 1;
        if place >= self.due {
            self.early.insert(place, data);
        }
        let mut read = Vec::new();
        while let Some(data) = self.early.remove(&self.due) {
            read.push(data);
            self.due += 1;
        }
        let is_due = is_behind_gap || self.unacknowledged > 1;
        (read, is_due.then(|| self.acknowledge()).flatten())
    }

    /// What a delayed acknowledgement says. `None` when all that came is acknowledged.
    pub fn acknowledge(&mut self) -> Option<Acknowledgement> {
        (std::mem::take(&mut self.unacknowledged) > 0).then(|| Acknowledgement(self.came.clone()))
    }

    pub fn has_unacknowledged(&self) -> bool {
        self.unacknowledged > 0
    }

    pub fn acknowledged(&mut self, now: Instant, Acknowledgement(came): Acknowledgement) {
        let Some(last) = came.last().copied() else { return };
        let lost = self.cubic.acknowledged_some(now, last, |number| came.contains(&number));
        came.iter().for_each(|number| _ = self.under_way.remove(number));
        let lost: Vec<_> = lost.into_iter().filter_map(|number| self.under_way.remove(&number)).collect();
        self.again(lost.into_iter());
    }

    /// Sends again before anything else.
    fn again(&mut self, lost: impl DoubleEndedIterator<Item = (u64, T)>) {
        lost.rev().for_each(|segment| self.queue.push_front(segment));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Writes 200 numbers through a way of 10 ms that loses every seventh segment and every fifth acknowledgement.
    #[test]
    fn what_is_written_comes_in_order_whatever_is_lost() {
        let mut tcp = Tcp::new(at(0), Duration::from_millis(20));
        (0..200).for_each(|number| tcp.write(number));
        let (mut read, mut sent, mut now) = (Vec::new(), 0_u32, at(0));
        let mut acknowledgements: VecDeque<(Instant, Acknowledgement)> = VecDeque::new();
        while read.len() < 200 {
            while let Some(segment) = tcp.poll(now) {
                sent += 1;
                if sent.is_multiple_of(7) {
                    continue;
                }
                let (came, acknowledgement) = tcp.receive(segment);
                read.extend(came);
                if let Some(acknowledgement) = acknowledgement.filter(|_| !sent.is_multiple_of(5)) {
                    acknowledgements.push_back((now + Duration::from_millis(20), acknowledgement));
                }
            }
            now += Duration::from_millis(1);
            while acknowledgements.front().is_some_and(|(due, _)| *due <= now) {
                acknowledgements.pop_front().into_iter().for_each(|(_, came)| tcp.acknowledged(now, came));
            }
            if tcp.deadline().is_some_and(|deadline| deadline <= now) {
                tcp.time_out(now);
            }
            assert!(now < at(20_000) && sent < 400, "{sent} segments for {} read", read.len());
        }
        assert_eq!(read, (0..200).collect::<Vec<_>>());
    }
}
