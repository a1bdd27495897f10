//! A queue of objects that is filled while a session runs (the sending request queue of interdomain-2013, 4.6.2).

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc::TryRecvError},
    time::Instant,
};

use thiserror::Error;
use treecast_host::wake::Waker;

use super::{Arrival, Terms};
use crate::{files::NamedSource, remedies::Advised};

/// An object in a queue.
#[derive(Debug)]
pub struct Queued {
    pub object: NamedSource,
    /// The number by which events call the object. `None` if nobody asks for it.
    pub number: Option<u64>,
    pub terms: Terms,
    /// The time at which the object is of no use any more. `None`: never.
    pub expires: Option<Instant>,
}

impl Queued {
    /// An object whose time begins now.
    pub fn new(object: NamedSource, number: Option<u64>, terms: Terms) -> Self {
        let expires = terms.expires_after.and_then(|time| Instant::now().checked_add(time));
        Self { object, number, terms, expires }
    }
}

/// A queue of objects, shared by its session and whoever fills it. Clones are the same queue. Objects of a higher priority leave
/// first, and equal ones in the order in which they came.
///
/// The queue has no bound of its own: its program counts what has no event yet.
#[derive(Debug, Clone, Default)]
pub struct ObjectQueue(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Told when something has been taken, or the queue was closed.
    room: Condvar,
}

/// The place of an arrival: its priority, and its number in the order of arrivals.
type Place = (Reverse<i32>, u64);

#[derive(Debug, Default)]
struct State {
    arrivals: BTreeMap<Place, Arrival>,
    arrived: u64,
    /// Total size, in bytes, of the objects that wait.
    bytes: u64,
    /// Lines for the user, which wait for nothing. Too many are left out.
    lines: Vec<Advised>,
    is_closed: bool,
    /// Whether the session has begun to take objects.
    has_begun: bool,
    /// The number of objects that were taken out because too many waited.
    dropped: u64,
    /// Wakes the session. `None` before it has begun.
    waker: Option<Waker>,
}

/// The most lines for the user that wait.
const MOST_LINES: usize = 64;

/// The limits of what may wait in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// The largest number of objects.
    pub objects: usize,
    /// The largest size of all objects together, in bytes.
    pub bytes: u64,
}

/// The queue is closed.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("no more objects can be sent: the session is closed")]
pub struct QueueClosed;

impl ObjectQueue {
    /// Adds an object. Returns at once.
    ///
    /// # Errors
    /// If the queue is closed.
    pub fn push(&self, queued: Queued) -> Result<(), QueueClosed> {
        self.add(Arrival::Object(queued))
    }

    /// Adds something. Returns at once.
    pub(super) fn add(&self, arrival: Arrival) -> Result<(), QueueClosed> {
        self.state().add(arrival)
    }

    /// Takes no more objects. The session ends when everything that is in the queue is sent.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.wake();
        self.0.room.notify_all();
    }

    /// Takes no more objects, and drops those that the session has not taken.
    pub fn clear(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.bytes = 0;
        let arrivals = std::mem::take(&mut state.arrivals);
        self.0.room.notify_all();
        drop(state);
        // The objects' owners may look at the queue.
        drop(arrivals);
    }

    /// Adds something when fewer than `most` wait. Blocks until then.
    pub(super) fn give(&self, arrival: Arrival, most: usize) -> Result<(), QueueClosed> {
        let is_full = |state: &mut State| state.arrivals.len() >= most && !state.is_closed;
        let mut state = self.0.room.wait_while(self.state(), is_full).unwrap_or_else(PoisonError::into_inner);
        state.add(arrival)
    }

    /// Queues a line that the session tells the user.
    pub(super) fn tell(&self, line: impl Into<Advised>) {
        let mut state = self.state();
        if state.lines.len() < MOST_LINES {
            state.lines.push(line.into());
            state.wake();
        }
    }

    /// Lines for the user.
    pub(super) fn lines(&self) -> Vec<Advised> {
        std::mem::take(&mut self.state().lines)
    }

    /// Takes out what is beyond a bound, and counts it as dropped: objects of the lowest priority first, and of these the oldest.
    pub(super) fn shed(&self, bound: Bound) -> Vec<Queued> {
        let mut state = self.state();
        let shed = state.take_beyond(bound, |arrivals| {
            let ((lowest, _), _) = arrivals.last_key_value()?;
            arrivals.range((*lowest, 0)..).next()
        });
        state.dropped += shed.len() as u64;
        shed
    }

    /// Takes out what is beyond a bound: objects of the lowest priority first, and of these the newest.
    pub(super) fn put_back(&self, bound: Bound) -> Vec<Queued> {
        self.state().take_beyond(bound, BTreeMap::last_key_value)
    }

    /// Whether the session has begun to take objects.
    pub(super) fn has_begun(&self) -> bool {
        self.state().has_begun
    }

    /// Whether an object of this size, in bytes, may come without another one going. An empty queue takes any.
    pub(super) fn has_room(&self, bound: Bound, bytes: u64) -> bool {
        let state = self.state();
        let fits = state.arrivals.len() < bound.objects && state.bytes.saturating_add(bytes) <= bound.bytes;
        fits || state.arrivals.is_empty()
    }

    /// The number of objects that wait.
    pub(super) fn waiting(&self) -> u64 {
        self.state().arrivals.len() as u64
    }

    /// The number of objects that were dropped because too many waited.
    pub(super) fn dropped(&self) -> u64 {
        self.state().dropped
    }

    /// Takes out the object with this number. `None` if the session has taken it.
    pub(super) fn remove(&self, number: u64) -> Option<Queued> {
        let mut state = self.state();
        let is_it =
            |arrival: &Arrival| matches!(arrival, Arrival::Object(queued) if queued.number == Some(number));
        let place = state.arrivals.iter().find(|(_, arrival)| is_it(arrival)).map(|(place, _)| *place)?;
        state.remove(place)?.into_object()
    }

    /// Whether nothing more is taken.
    pub(super) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Sets the waker that is woken when there is something new.
    pub(super) fn wake_by(&self, waker: Waker) {
        let mut state = self.state();
        state.waker = Some(waker);
        state.wake();
    }

    /// The next arrival.
    ///
    /// # Errors
    /// If there is none now, or the queue is closed and empty.
    pub(super) fn take(&self) -> Result<Arrival, TryRecvError> {
        let mut state = self.state();
        state.has_begun = true;
        let none = if state.is_closed { TryRecvError::Disconnected } else { TryRecvError::Empty };
        let place = state.arrivals.first_key_value().map(|(place, _)| *place).ok_or(none)?;
        self.0.room.notify_one();
        state.remove(place).ok_or(none)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, arrival: Arrival) -> Result<(), QueueClosed> {
        if self.is_closed {
            return Err(QueueClosed);
        }
        self.arrived += 1;
        self.bytes = self.bytes.saturating_add(arrival.bytes());
        self.arrivals.insert((Reverse(arrival.priority()), self.arrived), arrival);
        self.wake();
        Ok(())
    }

    /// Takes out what is beyond a bound, each time the object that `next` says.
    fn take_beyond(
        &mut self,
        bound: Bound,
        next: impl Fn(&BTreeMap<Place, Arrival>) -> Option<(&Place, &Arrival)>,
    ) -> Vec<Queued> {
        let mut taken = Vec::new();
        while (self.arrivals.len() > bound.objects || self.bytes > bound.bytes)
            && let Some((&place, _)) = next(&self.arrivals)
        {
            taken.extend(self.remove(place).and_then(Arrival::into_object));
        }
        taken
    }

    fn remove(&mut self, place: Place) -> Option<Arrival> {
        let arrival = self.arrivals.remove(&place)?;
        self.bytes = self.bytes.saturating_sub(arrival.bytes());
        Some(arrival)
    }

    fn wake(&self) {
        self.waker.iter().for_each(Waker::wake);
    }
}

/// Two queues are equal if they are the same one.
impl PartialEq for ObjectQueue {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ObjectQueue {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Source;

    fn queued(number: u64) -> Queued {
        with_priority(number, 0)
    }

    fn with_priority(number: u64, priority: i32) -> Queued {
        let source = Source::memory("bytes", Arc::new([1_u8; 3]));
        let object = NamedSource { name: "bytes".to_owned(), source };
        Queued::new(object, Some(number), Terms { priority, ..Terms::default() })
    }

    fn taken(queue: &ObjectQueue) -> u64 {
        queue.take().unwrap().into_object().unwrap().number.unwrap()
    }

    #[test]
    fn objects_come_in_order_and_then_the_end() {
        let (queue, waker) = (ObjectQueue::default(), Waker::new().unwrap());
        queue.push(queued(1)).unwrap();
        queue.wake_by(waker.clone());
        assert!(waker.take(), "it was not empty");
        queue.clone().push(queued(2)).unwrap();
        assert!(waker.take());
        assert_eq!([1, 2].map(|_| taken(&queue)), [1, 2]);
        assert_eq!(queue.take().unwrap_err(), TryRecvError::Empty);
        queue.push(queued(3)).unwrap();
        queue.close();
        assert_eq!(queue.push(queued(4)), Err(QueueClosed));
        assert_eq!(taken(&queue), 3);
        assert_eq!(queue.take().unwrap_err(), TryRecvError::Disconnected);
        assert!(queue == queue.clone() && queue != ObjectQueue::default());
    }

    #[test]
    fn a_cleared_queue_has_dropped_its_objects() {
        let (queue, bytes) = (ObjectQueue::default(), Arc::new([1_u8; 3]));
        let mut one = queued(1);
        one.object.source = Source::memory("bytes", bytes.clone());
        queue.push(one).unwrap();
        queue.clear();
        assert_eq!((Arc::strong_count(&bytes), queue.take().unwrap_err()), (1, TryRecvError::Disconnected));
    }

    #[test]
    fn a_higher_priority_leaves_first_and_the_oldest_of_the_lowest_is_shed_first() {
        let queue = ObjectQueue::default();
        for (number, priority) in [(0, 0), (1, -1), (2, 5), (3, -1), (4, 5), (5, i32::MIN), (6, i32::MAX)] {
            queue.push(with_priority(number, priority)).unwrap();
        }
        let numbers =
            |shed: Vec<Queued>| shed.iter().map(|queued| queued.number.unwrap()).collect::<Vec<_>>();
        assert_eq!(numbers(queue.shed(Bound { objects: 7, bytes: 21 })), [0_u64; 0]);
        assert_eq!(numbers(queue.shed(Bound { objects: 5, bytes: 21 })), [5, 1]);
        assert_eq!(numbers(queue.shed(Bound { objects: 7, bytes: 14 })), [3]);
        assert_eq!(queue.dropped(), 3);
        assert_eq!(queue.remove(2).unwrap().number, Some(2));
        assert!(queue.remove(2).is_none());
        queue.push(with_priority(7, 0)).unwrap();
        let bound = Bound { objects: 3, bytes: 21 };
        assert!(!queue.has_room(bound, 3) && !queue.has_begun());
        assert_eq!(numbers(queue.put_back(bound)), [7]);
        assert_eq!([1, 2, 3].map(|_| taken(&queue)), [6, 4, 0]);
        let too_large = Bound { objects: 3, bytes: 2 };
        assert!(queue.has_room(too_large, 3) && queue.has_begun() && queue.dropped() == 3);
    }

    #[test]
    fn who_gives_waits_for_room() {
        let queue = ObjectQueue::default();
        queue.give(Arrival::Object(queued(1)), 1).unwrap();
        let giver = {
            let queue = queue.clone();
            std::thread::spawn(move || {
                queue
                    .give(Arrival::Object(queued(2)), 1)
                    .and_then(|()| queue.give(Arrival::Object(queued(3)), 1))
            })
        };
        assert_eq!(taken(&queue), 1);
        while queue.state().arrivals.is_empty() {
            std::thread::yield_now();
        }
        queue.clear();
        assert_eq!(giver.join().unwrap(), Err(QueueClosed));
    }
}
