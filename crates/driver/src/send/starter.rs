//! Orders to a session that waits for receivers.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use treecast_host::wake::Waker;

/// Tells a session that waits for its first receivers to start, or to wait for another number of them. Clones tell the same
/// session. Once the session has started, orders change nothing.
#[derive(Debug, Clone)]
pub struct Starter {
    orders: Arc<Orders>,
    waker: Waker,
}

#[derive(Debug, Default)]
struct Orders {
    start: AtomicBool,
    /// The number of receivers that is wanted from now on. 0: nobody has asked.
    wanted: AtomicU32,
}

/// The order that a session has to carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Start with those that are there, or else with the first one that comes.
    Start,
    WaitFor(u32),
}

impl Starter {
    /// Creates a starter that has given no order.
    ///
    /// # Errors
    /// If no more descriptors are available.
    pub fn new() -> io::Result<Self> {
        Ok(Self { orders: Arc::default(), waker: Waker::new()? })
    }

    /// Starts the session with the receivers that are there, or with the first one that comes if nobody is there. A set time of the
    /// start does not count any more.
    pub fn start_now(&self) {
        self.orders.start.store(true, Ordering::SeqCst);
        self.waker.wake();
    }

    /// Changes the number of receivers with which the session starts, 1 or more. It starts at once if as many are there.
    pub fn wait_for(&self, receivers: u32) {
        self.orders.wanted.store(receivers.max(1), Ordering::SeqCst);
        self.waker.wake();
    }

    /// The order that has been given since the last call. A start counts more than a number.
    pub(super) fn take(&self) -> Option<Order> {
        self.waker.take();
        let wanted = self.orders.wanted.swap(0, Ordering::SeqCst);
        match self.orders.start.swap(false, Ordering::SeqCst) {
            true => Some(Order::Start),
            false => (wanted > 0).then_some(Order::WaitFor(wanted)),
        }
    }
}

impl AsFd for Starter {
    /// A descriptor that is readable while an order has not been taken.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_counts_and_a_start_more_than_a_number() {
        let starter = Starter::new().unwrap();
        assert_eq!(starter.take(), None);
        let clone = starter.clone();
        [7, 3, 0].into_iter().for_each(|number| clone.wait_for(number));
        assert_eq!([starter.take(), starter.take()], [Some(Order::WaitFor(1)), None]);
        starter.start_now();
        clone.wait_for(5);
        assert_eq!([clone.take(), starter.take()], [Some(Order::Start), None]);
    }
}
