//! State that several threads and tasks wait for. It needs no runtime: futures keep the [`Waker`]s of their tasks.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

/// A state, and those who wait until it changes.
#[derive(Debug, Default)]
pub(crate) struct Watched<S> {
    state: Mutex<(S, Vec<Waker>)>,
    changed: Condvar,
}

impl<S> Watched<S> {
    pub fn new(state: S) -> Self {
        Self { state: Mutex::new((state, Vec::new())), changed: Condvar::new() }
    }

    /// Changes the state, and wakes all who wait.
    pub fn change<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state.0);
        let wakers = std::mem::take(&mut state.1);
        drop(state);
        self.changed.notify_all();
        // A waker may look at the state.
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    /// Looks at the state, or takes something out of it, without waking anybody.
    pub fn with<R>(&self, look: impl FnOnce(&mut S) -> R) -> R {
        look(&mut self.lock().0)
    }

    /// Blocks this thread until `look` finds something.
    pub fn wait<R>(&self, mut look: impl FnMut(&mut S) -> Option<R>) -> R {
        let mut state = self.lock();
        loop {
            if let Some(found) = look(&mut state.0) {
                return found;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Like [`Watched::wait`], for at most this time.
    pub fn wait_timeout<R>(&self, time: Duration, mut look: impl FnMut(&mut S) -> Option<R>) -> Option<R> {
        let Some(until) = Instant::now().checked_add(time) else { return Some(self.wait(look)) };
        let mut state = self.lock();
        loop {
            if let Some(found) = look(&mut state.0) {
                return Some(found);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Has the task woken at the next change, unless `look` finds something now.
    pub fn poll<R>(&self, context: &Context<'_>, look: impl FnOnce(&mut S) -> Option<R>) -> Poll<R> {
        let (state, wakers) = &mut *self.lock();
        if let Some(found) = look(state) {
            return Poll::Ready(found);
        }
        if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            wakers.push(context.waker().clone());
        }
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, (S, Vec<Waker>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use super::*;

    #[test]
    fn a_thread_and_a_task_hear_of_a_change() {
        let watched = Arc::new(Watched::new(0));
        let positive = |state: &mut i32| (*state > 0).then_some(*state);
        assert_eq!(watched.wait_timeout(Duration::from_millis(5), positive), None);
        let (tell, told) = std::sync::mpsc::channel();
        let task = Waker::from(Arc::new(Teller(tell)));
        let context = Context::from_waker(&task);
        assert!(watched.poll(&context, positive).is_pending());
        assert!(watched.poll(&context, positive).is_pending(), "the same waker is kept once");
        let waiter = thread::spawn({
            let watched = watched.clone();
            move || watched.wait(positive)
        });
        watched.change(|state| *state = 7);
        assert_eq!(waiter.join().unwrap(), 7);
        told.recv().unwrap();
        assert!(told.try_recv().is_err());
        assert_eq!(watched.poll(&context, positive), Poll::Ready(7));
    }

    struct Teller(std::sync::mpsc::Sender<()>);

    impl std::task::Wake for Teller {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
        }
    }
}
