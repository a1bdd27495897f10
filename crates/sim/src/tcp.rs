//! Simulates one direction of a TCP connection through a network that loses packets, with both ends.
//!
//! The window is CUBIC's. Every segment has a number of its own, even when it carries again what was lost. An
//! acknowledgement names all segments that have come, so a lost acknowledgement costs nothing. What is written
//! at one end comes out at the other end complete and in order.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use treecast_proto::Instant;

use crate::tfmcc::Cubic;

/// The number of bytes of headers around a segment's data: IPv6, TCP with timestamps, and a TLS record.
pub const HEADERS: usize = 40 + 32 + 22;

/// The length of an acknowledgement, in bytes of IP.
pub const ACKNOWLEDGEMENT_BYTES: usize = 40 + 32;

/// The time for which an acknowledgement waits for a second segment.
pub const DELAYED: Duration = Duration::from_millis(40);

/// One direction of a connection. `T` is the type of what is written.
#[derive(Debug)]
pub struct Tcp<T> {
    cubic: Cubic,
    /// The data that waits for the window, with its place in what was written.
    queue: VecDeque<(u64, T)>,
    written: u64,
    under_way: BTreeMap<u64, (u64, T)>,
    /// The numbers that have come to the other end since the oldest one under way.
    came: BTreeSet<u64>,
    unacknowledged: u32,
    /// The place that is due at the other end, and the data that came before its turn.
    due: u64,
    early: BTreeMap<u64, T>,
}

/// A segment: the data that is sent at once.
#[derive(Debug, Clone)]
pub struct Segment<T> {
    number: u64,
    /// The oldest number under way.
    oldest: u64,
    place: u64,
    pub data: T,
}

/// An acknowledgement, which names the segments that have come.
#[derive(Debug, Clone)]
pub struct Acknowledgement(BTreeSet<u64>);

impl<T: Clone> Tcp<T> {
    /// Creates one end of a connection that is open at `now`. `round_trip` is the time that its handshake took: the
    /// first estimate of the round-trip time.
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

    /// Writes the data of one segment.
    pub fn write(&mut self, data: T) {
        self.queue.push_back((self.written, data));
        self.written += 1;
    }

    /// Returns how many segments wait for the window.
    pub fn backlog(&self) -> usize {
        self.queue.len()
    }

    /// Returns the next segment to send, if there is one and the window has room.
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

    /// Returns when the oldest segment counts as lost. `None` when no segment is on its way.
    pub fn deadline(&self) -> Option<Instant> {
        (!self.under_way.is_empty()).then(|| self.cubic.deadline())
    }

    pub fn time_out(&mut self, now: Instant) {
        self.cubic.time_out(now);
        let lost = std::mem::take(&mut self.under_way);
        self.again(lost.into_values());
    }

    /// Takes in a segment. Returns the data that can be read now, in order, and an acknowledgement if one is
    /// due.
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

    /// Returns the acknowledgement that was delayed. `None` when all that came is acknowledged.
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

    /// Puts lost segments in front of everything else.
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
