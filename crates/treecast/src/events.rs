//! The queue of a session's events, or the function that gets them.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use crate::{place::Place, wait::Watched};

/// The largest number of events that wait to be read.
const MOST_UNREAD: usize = 1 << 16;

/// The function that gets a session's events.
pub(crate) type Callback<E> = Box<dyn FnMut(E) + Send>;

/// The events of a session.
pub(crate) struct Events<E> {
    queue: Watched<Queue<E>>,
    callback: Option<Mutex<Callback<E>>>,
    /// The event that tells how many others were lost.
    missed: fn(u64) -> E,
    place: Place,
}

struct Queue<E> {
    events: VecDeque<E>,
    missed: u64,
    has_ended: bool,
}

impl<E> Events<E> {
    pub fn new(callback: Option<Callback<E>>, missed: fn(u64) -> E, place: Place) -> Self {
        let queue = Queue { events: VecDeque::new(), missed: 0, has_ended: false };
        Self { queue: Watched::new(queue), callback: callback.map(Mutex::new), missed, place }
    }

    /// Tells an event. If too many are unread, the oldest one is lost.
    pub fn tell(&self, event: E) {
        if let Some(callback) = &self.callback {
            return callback.lock().unwrap_or_else(PoisonError::into_inner)(event);
        }
        let lost = self.queue.change(|queue| {
            queue.events.push_back(event);
            let is_full = queue.events.len() > MOST_UNREAD;
            queue.missed += u64::from(is_full);
            if is_full { queue.events.pop_front() } else { None }
        });
        // It may own something that takes long to drop.
        drop(lost);
    }

    /// There are no more events.
    pub fn end(&self) {
        self.queue.change(|queue| queue.has_ended = true);
    }

    /// The next event. `Some(None)` at the end, `None` when there is none now.
    fn take(&self, queue: &mut Queue<E>) -> Option<Option<E>> {
        if queue.missed > 0 {
            return Some(Some((self.missed)(std::mem::take(&mut queue.missed))));
        }
        match queue.events.pop_front() {
            None if !queue.has_ended => None,
            event => Some(event),
        }
    }
}

impl<E> fmt::Debug for Events<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

/// The next event of a session: `.await` it, or block with [`NextEvent::wait`]. `None` after the last one.
///
/// An event belongs to whoever takes it. A `NextEvent` that is dropped before it is ready loses no event.
#[must_use = "this does nothing until it is awaited, or waited for"]
#[derive(Debug)]
pub struct NextEvent<'a, E>(pub(crate) &'a Events<E>);

impl<E> NextEvent<'_, E> {
    /// Blocks this thread until there is an event. `None` after the last one. A function that the session calls gets only what is
    /// there, because no event comes while it waits; and a child that was forked gets none.
    pub fn wait(self) -> Option<E> {
        match self.0.place.can_wait() {
            true => self.0.queue.wait(|queue| self.0.take(queue)),
            false => {
                if let Poll::Ready(event) = self.wait_timeout(Duration::ZERO) {
                    event
                } else {
                    None
                }
            }
        }
    }

    /// Blocks this thread for at most this time. [`Poll::Pending`] if no event came. Zero takes only what is there: the paper's
    /// GetNextEvent (interdomain-2013, section 4.6.2), whose status is QUEUE_EMPTY then.
    pub fn wait_timeout(self, time: Duration) -> Poll<Option<E>> {
        if !self.0.place.is_in_process() {
            return Poll::Ready(None);
        }
        let time = if self.0.place.is_in_thread() { Duration::ZERO } else { time };
        let event = self.0.queue.wait_timeout(time, |queue| self.0.take(queue));
        event.map_or(Poll::Pending, Poll::Ready)
    }
}

impl<E> Future for NextEvent<'_, E> {
    type Output = Option<E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<E>> {
        self.0.queue.poll(context, |queue| self.0.take(queue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_and_lost_ones_are_counted() {
        let events = Events::new(None, |missed| usize::MAX - missed as usize, Place::new());
        let next = |time| NextEvent(&events).wait_timeout(Duration::from_millis(time));
        assert_eq!(next(1), Poll::Pending);
        (0..MOST_UNREAD + 3).for_each(|event| events.tell(event));
        assert_eq!([0; 3].map(next), [usize::MAX - 3, 3, 4].map(|event| Poll::Ready(Some(event))));
        events.end();
        let left = std::iter::from_fn(|| NextEvent(&events).wait()).collect::<Vec<_>>();
        assert_eq!((left.len(), left.last()), (MOST_UNREAD - 2, Some(&(MOST_UNREAD + 2))));
    }
}
