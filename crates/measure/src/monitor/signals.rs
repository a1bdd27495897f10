//! The signals that end the monitor, read from a descriptor.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

/// Keeps SIGINT, SIGTERM and SIGHUP back from the calling thread while it lives.
pub struct Signals {
    fd: OwnedFd,
    before: libc::sigset_t,
}

/// A signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal {
    pub number: i32,
    /// The terminal sent it, and with it to all programs in the foreground.
    pub from_terminal: bool,
}

impl Signals {
    pub fn catch() -> io::Result<Self> {
        // SAFETY: the sets are initialised before they are used, and outlive the calls; the descriptor
        // is owned from here on.
        unsafe {
            let mut caught: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut caught);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(&mut caught, signal);
            }
            let fd = libc::signalfd(-1, &caught, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = OwnedFd::from_raw_fd(fd);
            libc::pthread_sigmask(libc::SIG_BLOCK, &caught, &mut before);
            Ok(Self { fd, before })
        }
    }

    /// Readable when a signal has come.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The next signal that has come.
    pub fn next(&self) -> Option<Signal> {
        // SAFETY: signalfd_siginfo is plain numbers, of which all bits zero are valid; the pointer and
        // length are those of `info`.
        unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let size = size_of::<libc::signalfd_siginfo>();
            let read = libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), size);
            const SENT_BY_KERNEL: i32 = 0x80;
            (read == size as isize).then_some(Signal {
                number: info.ssi_signo as i32,
                from_terminal: info.ssi_code == SENT_BY_KERNEL,
            })
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // Who is told to stop twice stops once: a second signal must not kill what has stopped in order.
        while self.next().is_some() {}
        // SAFETY: `before` was filled in by pthread_sigmask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}
