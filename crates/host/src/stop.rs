//! Stops a session from outside: by Ctrl-C, SIGTERM, or another thread.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{clock, wake::Waker};

/// A request to stop, shared by those who make it and those who obey it.
#[derive(Debug, Clone)]
pub struct Stop {
    requested: Arc<AtomicBool>,
    /// The time of [`Stop::request_after`], once it has passed.
    time_up: Arc<OnceLock<Duration>>,
    waker: Waker,
}

/// The descriptor that the signal handler writes to. Negative if there is none.
static SIGNAL_FD: AtomicI32 = AtomicI32::new(-1);

/// The number of the first signal. 0 before it.
static FIRST_SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Whether the program waits for a second signal ([`Stop::comes_again`]), so that it does not end the process.
static AWAITS_AGAIN: AtomicBool = AtomicBool::new(false);

/// Whether a second signal has come while it was waited for.
static CAME_AGAIN: AtomicBool = AtomicBool::new(false);

/// The time of the first signal, in milliseconds of the monotonic clock. 0 before it.
static FIRST_SIGNAL_MS: AtomicI64 = AtomicI64::new(0);

/// The time in milliseconds within which several signals are one request. The program `timeout` sends two, one
/// to the process and one to its group.
const ONE_REQUEST_MS: i64 = 1000;

/// The time in milliseconds after the first signal from which on one more answers the question of [`Stop::comes_again`]. Nobody
/// presses keys faster, and `timeout` has sent both of its signals by then.
const QUICKEST_ANSWER_MS: i64 = 200;

impl Stop {
    /// Creates a request to stop that nobody has made yet.
    ///
    /// # Errors
    /// If no more descriptors are available.
    pub fn new() -> io::Result<Self> {
        Ok(Self { requested: Arc::default(), time_up: Arc::default(), waker: Waker::new()? })
    }

    /// Creates a request that SIGINT and SIGTERM make, too. A process may have only one at a time; its
    /// descriptor stays open until the process ends. A second signal, a second later or more, ends the process
    /// at once.
    ///
    /// # Errors
    /// If no more descriptors are available.
    pub fn on_signals() -> io::Result<Self> {
        let stop = Self::new()?;
        SIGNAL_FD.store(stop.waker.as_fd().as_raw_fd(), Ordering::SeqCst);
        // The handler must never use a closed descriptor, or one that has become another file.
        std::mem::forget(stop.waker.clone());
        for signal in [libc::SIGINT, libc::SIGTERM] {
            // SAFETY: the action is plain data; the handler only calls what is safe in one.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
                action.sa_flags = libc::SA_RESTART;
                if libc::sigaction(signal, &action, std::ptr::null_mut()) != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
        }
        Ok(stop)
    }

    pub fn request(&self) {
        self.requested.store(true, Ordering::SeqCst);
        self.waker.wake();
    }

    /// Requests a stop after this time.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn request_after(&self, time: Duration) -> io::Result<()> {
        let stop = self.clone();
        let wait = move || {
            std::thread::sleep(time);
            stop.end_time(time);
        };
        crate::thread::spawn("time limit", wait).map(drop)
    }

    /// Requests a stop because this time is over. A receiver keeps what has come, for its next start.
    pub fn end_time(&self, time: Duration) {
        // A later limit changes nothing.
        _ = self.time_up.set(time);
        self.request();
    }

    /// Returns the time of [`Stop::request_after`] when it has passed.
    pub fn time_up(&self) -> Option<Duration> {
        self.time_up.get().copied()
    }

    /// Whether the time of [`Stop::request_after`] has passed.
    pub fn is_time_up(&self) -> bool {
        self.time_up().is_some()
    }

    /// Whether a signal has requested a stop of this process.
    pub fn was_signalled() -> bool {
        FIRST_SIGNAL.load(Ordering::SeqCst) != 0
    }

    /// Asks for Ctrl-C to be pressed once more, and waits for it for at most this time. Returns whether it was. False at once, without
    /// the question, if it was not Ctrl-C (SIGINT) that requested the stop.
    pub fn comes_again(&self, time: Duration, ask: impl FnOnce()) -> bool {
        if FIRST_SIGNAL.load(Ordering::SeqCst) != libc::SIGINT {
            return false;
        }
        // Before the question: the answer to it must not end the process.
        AWAITS_AGAIN.store(true, Ordering::SeqCst);
        ask();
        let end = Instant::now() + time;
        while !CAME_AGAIN.load(Ordering::SeqCst) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            // The signal cuts the sleep short only in the thread that takes it.
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
        let came = CAME_AGAIN.load(Ordering::SeqCst);
        // Whoever keeps the key pressed does not end the process while it obeys.
        AWAITS_AGAIN.store(came, Ordering::SeqCst);
        came
    }

    /// Whether a stop was requested. Once true, it stays true.
    pub fn is_requested(&self) -> bool {
        if self.waker.take() {
            self.requested.store(true, Ordering::SeqCst);
        }
        self.requested.load(Ordering::SeqCst)
    }
}

impl AsFd for Stop {
    /// A descriptor that is readable once a stop is requested, until [`Stop::is_requested`] has returned true.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

extern "C" fn on_signal(signal: libc::c_int) {
    let now = monotonic_ms();
    let first = FIRST_SIGNAL_MS.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst);
    if first.is_ok() {
        FIRST_SIGNAL.store(signal, Ordering::SeqCst);
    }
    let is_awaited = AWAITS_AGAIN.load(Ordering::SeqCst);
    let least = if is_awaited { QUICKEST_ANSWER_MS } else { ONE_REQUEST_MS };
    let is_another = first.is_err_and(|first| now - first >= least);
    if is_another && is_awaited {
        CAME_AGAIN.store(true, Ordering::SeqCst);
        return;
    }
    if is_another {
        // SAFETY: both are safe in a signal handler; the signal has its usual effect when this returns.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
    let one = 1_u64;
    let fd = SIGNAL_FD.load(Ordering::SeqCst);
    // SAFETY: write is safe in a signal handler; eight bytes of `one`.
    unsafe { libc::write(fd, (&raw const one).cast(), 8) };
}

/// The monotonic time in milliseconds, never 0. Safe to call in a signal handler.
fn monotonic_ms() -> i64 {
    (clock::coarse_ns() / 1_000_000).max(1) as i64
}
