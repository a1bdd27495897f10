//! Keeps virtual time: which event happens when.

use std::{cmp::Ordering, collections::BinaryHeap};

use treecast_proto::Instant;

/// The events of a run in the order of their time. Events of the same time happen in the order in which they
/// were added.
#[derive(Debug)]
pub struct Schedule<E> {
    now: Instant,
    added: u64,
    due: BinaryHeap<Due<E>>,
}

#[derive(Debug)]
struct Due<E> {
    time: Instant,
    number: u64,
    event: E,
}

impl<E> Default for Schedule<E> {
    fn default() -> Self {
        Self { now: Instant::ZERO, added: 0, due: BinaryHeap::new() }
    }
}

impl<E> Schedule<E> {
    /// Returns the time of the event that was taken last.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the time of the next event.
    pub fn next(&self) -> Option<Instant> {
        self.due.peek().map(|due| due.time)
    }

    /// Adds an event. An event in the past happens now.
    pub fn at(&mut self, time: Instant, event: E) {
        self.due.push(Due { time: time.max(self.now), number: self.added, event });
        self.added += 1;
    }

    /// Takes the next event and moves time on to it.
    pub fn take(&mut self) -> Option<E> {
        let Due { time, event, .. } = self.due.pop()?;
        self.now = time;
        Some(event)
    }
}

/// The heap gives out its greatest: the earliest event is the greatest.
impl<E> Ord for Due<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.number).cmp(&(self.time, self.number))
    }
}

impl<E> PartialOrd for Due<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Due<E> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<E> Eq for Due<E> {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_order() {
        let mut schedule = Schedule::default();
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        for (time, event) in [(2, "c"), (1, "a"), (1, "b")] {
            schedule.at(at(time), event);
        }
        assert_eq!((schedule.take(), schedule.now()), (Some("a"), at(1)));
        schedule.at(at(0), "late");
        let rest: String = std::iter::from_fn(|| schedule.take()).collect();
        assert_eq!(rest, "blatec");
    }
}
