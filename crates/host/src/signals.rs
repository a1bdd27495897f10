//! Reads signals from a descriptor.

use std::{
    io, mem,
    os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
    sync::atomic::{AtomicBool, Ordering},
};

/// Blocks some signals for the calling thread while this value lives, and reports which ones have come. Threads
/// and programs that this thread starts inherit that.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    before: libc::sigset_t,
}

/// A signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal {
    pub number: i32,
    /// Whether the terminal sent it, to all programs in the foreground.
    pub from_terminal: bool,
}

impl Signals {
    /// Blocks the signals with these numbers from now on.
    ///
    /// # Errors
    /// If no more descriptors are available.
    pub fn catch(numbers: &[i32]) -> io::Result<Self> {
        // SAFETY: the sets are initialised before they are used, and outlive the calls; the descriptor
        // is owned from here on.
        unsafe {
            let mut caught: libc::sigset_t = mem::zeroed();
            let mut before: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&mut caught);
            for number in numbers {
                libc::sigaddset(&mut caught, *number);
            }
            let fd = libc::signalfd(-1, &caught, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            let fd = OwnedFd::from_raw_fd(crate::checked(fd)?);
            libc::pthread_sigmask(libc::SIG_BLOCK, &caught, &mut before);
            Ok(Self { fd, before })
        }
    }

    /// The next signal that has come.
    pub fn next(&self) -> Option<Signal> {
        const SENT_BY_KERNEL: i32 = 0x80;
        // struct signalfd_siginfo: the number, an error number, and how the signal was sent.
        let mut info = [0; mem::size_of::<libc::signalfd_siginfo>()];
        let read = rustix::io::read(&self.fd, &mut info).ok()?;
        let word = |at: usize| i32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
        (read == info.len()).then(|| Signal { number: word(0), from_terminal: word(8) == SENT_BY_KERNEL })
    }
}

impl AsFd for Signals {
    /// A descriptor that is readable when a signal has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // A second signal of the same kind is discarded: it must not kill a program that has stopped in order.
        while self.next().is_some() {}
        // SAFETY: `before` was filled in by pthread_sigmask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
    }
}

/// Blocks all signals for the calling thread while this value lives, but for those that a fault of the program raises.
#[derive(Debug)]
pub struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    /// Blocks the signals from now on.
    pub fn all() -> Self {
        // SAFETY: the sets are initialised before they are used, and outlive the calls.
        unsafe {
            let mut blocked: libc::sigset_t = mem::zeroed();
            let mut before: libc::sigset_t = mem::zeroed();
            libc::sigfillset(&mut blocked);
            // Whoever handles them wants to know of faults in every thread.
            for fault in [
                libc::SIGSEGV,
                libc::SIGBUS,
                libc::SIGFPE,
                libc::SIGILL,
                libc::SIGTRAP,
                libc::SIGABRT,
                libc::SIGSYS,
            ] {
                libc::sigdelset(&mut blocked, fault);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &blocked, &mut before);
            Self { before }
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: `before` was filled in by pthread_sigmask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
    }
}

/// Whether SIGUSR1 has come since somebody asked.
static USER_SIGNAL: AtomicBool = AtomicBool::new(false);

/// Has SIGUSR1 noted from now on, whichever thread gets it. Without this, it ends the process.
///
/// # Errors
/// The error of the kernel.
pub fn take_user_signals() -> io::Result<()> {
    extern "C" fn note(_: libc::c_int) {
        USER_SIGNAL.store(true, Ordering::SeqCst);
    }
    // SAFETY: the action is plain data; the handler only stores a flag.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = note as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        crate::checked(libc::sigaction(libc::SIGUSR1, &action, ptr::null_mut())).map(drop)
    }
}

/// Returns whether SIGUSR1 has come since the last call.
pub fn has_user_signal() -> bool {
    USER_SIGNAL.swap(false, Ordering::SeqCst)
}

/// Unblocks all signals for the calling thread, also if the parent process had blocked some. Safe between
/// `fork` and `exec`.
pub fn keep_none_back() {
    // SAFETY: the set is initialised before it is used.
    unsafe {
        let mut none: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &none, ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_signal_is_noted_once() {
        take_user_signals().unwrap();
        assert!(!has_user_signal());
        // SAFETY: it is handled.
        unsafe { libc::raise(libc::SIGUSR1) };
        assert!(has_user_signal() && !has_user_signal());
    }

    #[test]
    fn a_signal_to_the_thread_is_told_and_does_nothing_else() {
        let signals = Signals::catch(&[libc::SIGTERM, libc::SIGHUP]).unwrap();
        assert_eq!(signals.next(), None);
        // SAFETY: the signal is kept back from this thread.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGTERM) };
        assert_eq!(signals.next(), Some(Signal { number: libc::SIGTERM, from_terminal: false }));
        assert_eq!(signals.next(), None);
    }
}
