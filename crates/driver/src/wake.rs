//! Waking a thread that waits on file descriptors.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    sync::Arc,
};

/// A counter of the kernel's (eventfd) that becomes readable when any of its clones is woken.
#[derive(Debug, Clone)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// # Errors
    /// When no more descriptors are to be had.
    pub fn new() -> io::Result<Self> {
        // SAFETY: a result that is not negative is a new descriptor of ours.
        unsafe {
            match libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) {
                fd if fd >= 0 => Ok(Self(Arc::new(OwnedFd::from_raw_fd(fd)))),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }

    /// Makes the descriptor readable. Safe to call in a signal handler.
    pub fn wake(&self) {
        let one = 1_u64;
        // SAFETY: eight bytes of `one`. It fails only when the counter is full, and then it is readable.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Whether it has been woken since the last call.
    pub fn take(&self) -> bool {
        let mut count = 0_u64;
        // SAFETY: eight bytes of `count`.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) == 8 }
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
