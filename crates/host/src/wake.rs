//! Wakes a thread that waits for descriptors.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use rustix::event::{EventfdFlags, eventfd};

/// A counter in the kernel (eventfd). It becomes readable when any of its clones is woken.
#[derive(Debug, Clone)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Creates a waker that has not been used yet.
    ///
    /// # Errors
    /// If no more descriptors are available.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Makes the descriptor readable. Safe to call in a signal handler.
    pub fn wake(&self) {
        // This fails only if the counter is full, and then it is readable.
        _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    /// Returns whether somebody has woken this since the last call.
    pub fn take(&self) -> bool {
        rustix::io::read(&*self.0, &mut [0_u8; 8]).is_ok_and(|len| len == 8)
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
