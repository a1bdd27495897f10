//! Simulates one direction of a TCP connection through a network that loses packets, with both ends.
//!
//! A congestion control decides when segments leave ([`Cubic`], [`Bbr`]). Every segment has a number of its own, even when
//! it carries again what was lost. An acknowledgement names all segments that have come, so a lost acknowledgement costs
//! nothing. What is written at one end comes out at the other end complete and in order.

mod bbr;
mod cubic;
mod slow_start;

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    time::Duration,
};

use treecast_proto::Instant;

pub use self::{bbr::Bbr, cubic::Cubic};

/// The length of a full packet in bytes, with its IP header.
pub const PACKET_BYTES: u32 = 1500;

/// The number of bytes of headers around a segment's data: IPv6, TCP with timestamps, and a TLS record.
pub const HEADERS: usize = 40 + 32 + 22;

/// The length of an acknowledgement, in bytes of IP.
pub const ACKNOWLEDGEMENT_BYTES: usize = 40 + 32;

/// The time for which an acknowledgement waits for a second segment (Linux).
pub const DELAYED: Duration = Duration::from_millis(40);

/// The congestion control of a connection. It numbers segments, from 0 on.
pub trait Congestion: fmt::Debug {
    /// Returns the number of the segment to send now. `None` if the window or the pace allows none.
    fn send(&mut self, now: Instant) -> Option<u64>;

    /// Returns when the pace allows the next segment. `None` without a pace.
    fn next_at(&self) -> Option<Instant> {
        None
    }

    /// Takes note that `last` has come, and of those before it the ones that `has_come` names. The others are lost.
    fn acknowledged(&mut self, now: Instant, last: u64, has_come: &dyn Fn(u64) -> bool);

    /// Takes note of a round trip that was measured before the first segment.
    fn know(&mut self, _round_trip: Duration) {}

    /// Takes note that sending goes on after a pause in which nothing was under way.
    fn resume(&mut self, now: Instant);

    /// Returns the time of the retransmission timeout.
    fn deadline(&self) -> Instant;

    /// Reacts to the retransmission timeout.
    fn time_out(&mut self, now: Instant);
}

/// One direction of a connection. `T` is the type of what is written.
#[derive(Debug)]
pub struct Tcp<T> {
    congestion: Box<dyn Congestion>,
    /// The data that waits for the window, with its place in what was written.
    queue: VecDeque<(u64, T)>,
    written: u64,
    under_way: BTreeMap<u64, (u64, T)>,
    /// The time for which the timer is set.
    timer_at: Option<Instant>,
    /// The numbers that have come to the other end since the oldest one under way.
    came: Came,
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
pub struct Acknowledgement(Came);

/// Numbers of segments, a bit each. Every acknowledgement has a copy, so it is small also where every second one is lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Came {
    /// The number of the first bit, a multiple of 64.
    first: u64,
    words: VecDeque<u64>,
    last: Option<u64>,
}

impl Came {
    /// Adds a number. It is seldom lower than others: only a change of routes lets segments overtake each other.
    fn insert(&mut self, number: u64) {
        let word_at = number / 64 * 64;
        if self.words.is_empty() {
            self.first = word_at;
        }
        while word_at < self.first {
            self.words.push_front(0);
            self.first -= 64;
        }
        let place = ((word_at - self.first) / 64) as usize;
        if place >= self.words.len() {
            self.words.resize(place + 1, 0);
        }
        self.words[place] |= 1 << (number % 64);
        self.last = self.last.max(Some(number));
    }

    /// Forgets the numbers before `oldest`.
    fn forget(&mut self, oldest: u64) {
        if self.last.is_some_and(|last| last < oldest) {
            *self = Self::default();
        }
        while self.first + 64 <= oldest && self.words.pop_front().is_some() {
            self.first += 64;
        }
        if let Some(word) = self.words.front_mut().filter(|_| self.first < oldest) {
            *word &= u64::MAX << (oldest - self.first);
        }
    }

    fn last(&self) -> Option<u64> {
        self.last
    }

    fn contains(&self, number: u64) -> bool {
        let place = number.checked_sub(self.first).map(|ahead| (ahead / 64) as usize);
        place.and_then(|place| self.words.get(place)).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

impl<T: Clone> Tcp<T> {
    /// Creates a connection that is open at `now`. `round_trip` is the time that its handshake took: the first
    /// estimate of the round-trip time.
    pub fn new(mut congestion: Box<dyn Congestion>, round_trip: Duration) -> Self {
        congestion.know(round_trip);
        Self {
            congestion,
            queue: VecDeque::new(),
            written: 0,
            under_way: BTreeMap::new(),
            timer_at: None,
            came: Came::default(),
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

    /// Returns the next segment to send, if there is one and the congestion control lets it go.
    pub fn poll(&mut self, now: Instant) -> Option<Segment<T>> {
        if self.queue.is_empty() {
            return None;
        }
        if self.under_way.is_empty() {
            self.congestion.resume(now);
        }
        let number = self.congestion.send(now)?;
        let (place, data) = self.queue.pop_front()?;
        self.under_way.insert(number, (place, data.clone()));
        let oldest = self.under_way.first_key_value().map_or(number, |(oldest, _)| *oldest);
        Some(Segment { number, oldest, place, data })
    }

    /// Sets the timer when nothing more leaves now. Returns when it goes off. `None` when it is set already, or when there
    /// is nothing to wait for.
    pub fn set_timer(&mut self, now: Instant) -> Option<Instant> {
        let overdue = (!self.under_way.is_empty()).then(|| self.congestion.deadline());
        let paced = self.congestion.next_at().filter(|at| !self.queue.is_empty() && *at > now);
        let at = [overdue, paced].into_iter().flatten().min()?;
        let is_sooner = self.timer_at.is_none_or(|set| at < set);
        self.timer_at = if is_sooner { Some(at) } else { self.timer_at };
        is_sooner.then_some(at)
    }

    /// Handles the timer: the oldest segment may be overdue.
    pub fn handle_timer(&mut self, now: Instant) {
        self.timer_at.take_if(|at| *at <= now);
        if !self.under_way.is_empty() && self.congestion.deadline() <= now {
            self.congestion.time_out(now);
            let lost = std::mem::take(&mut self.under_way);
            self.again(lost.into_values());
        }
    }

    /// Takes in a segment. Returns the data that can be read now, in order, and an acknowledgement if one is
    /// due.
    pub fn receive(&mut self, segment: Segment<T>) -> (Vec<T>, Option<Acknowledgement>) {
        let Segment { number, oldest, place, data } = segment;
        let is_behind_gap = self.came.last().is_some_and(|last| last + 1 != number) || place != self.due;
        self.came.forget(oldest);
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
        let Some(last) = came.last() else { return };
        self.congestion.acknowledged(now, last, &|number| came.contains(number));
        let later = self.under_way.split_off(&(last + 1));
        let before = std::mem::replace(&mut self.under_way, later);
        self.again(before.into_iter().filter(|(number, _)| !came.contains(*number)).map(|(_, lost)| lost));
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
        let mut tcp = Tcp::new(Box::new(Cubic::new(at(0))), Duration::from_millis(20));
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
            tcp.handle_timer(now);
            assert!(now < at(20_000) && sent < 400, "{sent} segments for {} read", read.len());
        }
        assert_eq!(read, (0..200).collect::<Vec<_>>());
    }

    #[test]
    fn every_second_segment_is_acknowledged_and_gaps_at_once() {
        let mut tcp = Tcp::new(Box::new(Cubic::new(at(0))), Duration::from_millis(20));
        (0..9).for_each(|number| tcp.write(number));
        let segments: Vec<_> = std::iter::from_fn(|| tcp.poll(at(0))).collect();
        let mut acknowledges = |number: usize| tcp.receive(segments[number].clone()).1.is_some();
        assert_eq!([0, 1, 2, 3, 5, 6].map(&mut acknowledges), [false, true, false, true, true, true]);
        assert!(tcp.acknowledge().is_none());
    }

    /// A segment is due when the pace allows it, and none is overdue before its timeout.
    #[test]
    fn the_timer_waits_for_the_pace_and_for_the_timeout() {
        let mut tcp = Tcp::new(Box::new(Bbr::new(at(0))), Duration::from_millis(20));
        (0..2).for_each(|number| tcp.write(number));
        assert!(tcp.poll(at(0)).is_some() && tcp.poll(at(0)).is_none());
        let paced = tcp.set_timer(at(0)).expect("the pace is known");
        assert!(paced < at(100) && tcp.set_timer(at(0)).is_none());
        tcp.handle_timer(paced);
        assert!(tcp.poll(paced).is_some());
        let overdue = tcp.set_timer(paced).expect("two are under way");
        tcp.handle_timer(overdue);
        assert_eq!((tcp.backlog(), tcp.poll(overdue).map(|segment| segment.data)), (2, Some(0)));
    }
}
