//! A queue of objects that a program fills while its session runs (the sending request queue of interdomain-2013, 4.6.2).

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::TryRecvError},
};

use thiserror::Error;
use treecast_host::wake::Waker;

use crate::files::NamedSource;

/// An object in a queue.
#[derive(Debug)]
pub struct Queued {
    pub object: NamedSource,
    /// The number by which events call the object.
    pub number: u64,
    /// The time for retransmissions of the object, as a multiple of the time of its multicast. `None`: the session's.
    /// A session with local groups has no such time.
    pub retransmission_timeout_factor: Option<f64>,
}

/// A queue of objects, shared by its session and the program. Clones are the same queue.
///
/// The queue has no bound of its own: its program counts what has no event yet.
#[derive(Debug, Clone, Default)]
pub struct ObjectQueue(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    objects: VecDeque<Queued>,
    is_closed: bool,
    /// Wakes the session. `None` before it has begun.
    waker: Option<Waker>,
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
        let mut state = self.state();
        if state.is_closed {
            return Err(QueueClosed);
        }
        state.objects.push_back(queued);
        state.wake();
        Ok(())
    }

    /// Takes no more objects. The session ends when everything that is in the queue is sent.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.wake();
    }

    /// Takes no more objects, and drops those that the session has not taken.
    pub fn clear(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let objects = std::mem::take(&mut state.objects);
        drop(state);
        // The objects' owners may look at the queue.
        drop(objects);
    }

    /// Has `waker` woken when there is something new.
    pub(super) fn wake_by(&self, waker: Waker) {
        let mut state = self.state();
        state.waker = Some(waker);
        state.wake();
    }

    /// The next object.
    ///
    /// # Errors
    /// When there is none now, or the queue is closed and empty.
    pub(super) fn take(&self) -> Result<Queued, TryRecvError> {
        let mut state = self.state();
        let none = if state.is_closed { TryRecvError::Disconnected } else { TryRecvError::Empty };
        state.objects.pop_front().ok_or(none)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
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
        let source = Source::memory("bytes", Arc::new([1_u8; 3]));
        let object = NamedSource { name: "bytes".to_owned(), source };
        Queued { object, number, retransmission_timeout_factor: None }
    }

    #[test]
    fn objects_come_in_order_and_then_the_end() {
        let (queue, waker) = (ObjectQueue::default(), Waker::new().unwrap());
        queue.push(queued(1)).unwrap();
        queue.wake_by(waker.clone());
        assert!(waker.take(), "it was not empty");
        queue.clone().push(queued(2)).unwrap();
        assert!(waker.take());
        assert_eq!([1, 2].map(|_| queue.take().unwrap().number), [1, 2]);
        assert_eq!(queue.take().unwrap_err(), TryRecvError::Empty);
        queue.push(queued(3)).unwrap();
        queue.close();
        assert_eq!(queue.push(queued(4)), Err(QueueClosed));
        assert_eq!(queue.take().unwrap().number, 3);
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
}
