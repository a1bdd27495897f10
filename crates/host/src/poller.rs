//! Waits for descriptors, with a deadline in nanoseconds (epoll).

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{
        PollFd, PollFlags,
        epoll::{self, CreateFlags, EventData, EventFlags},
        poll,
    },
    io::Errno,
    time::Timespec,
};

/// The state of a descriptor that is awaited. Errors are always awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    Read,
    ReadWrite,
}

/// A descriptor is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The token that the descriptor was added with.
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
}

/// Waits for many descriptors at once; level-triggered.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    has_nanoseconds: bool,
}

const MAX_EVENTS: usize = 64;

impl Poller {
    /// Creates a poller that watches nothing yet.
    ///
    /// # Errors
    /// If no more descriptors are available.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, has_nanoseconds: true })
    }

    /// Adds a descriptor. [`Poller::remove`] or closing it takes it out.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn add(&self, fd: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token), interest.flags())?)
    }

    /// Adds a descriptor, to wait until it is readable.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn watch(&self, fd: &impl AsFd, token: u64) -> io::Result<()> {
        self.add(fd, token, Interest::Read)
    }

    /// Changes the awaited state of a descriptor.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn modify(&self, fd: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(token), interest.flags())?)
    }

    /// Takes a descriptor out.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn remove(&self, fd: &impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Waits until a descriptor is ready or the time is up (`None`: for ever), and appends to `ready`. A signal
    /// ends the wait, too.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MAX_EVENTS];
        let count = match usize::try_from(self.wait_raw(timeout, &mut events)) {
            Ok(count) => count,
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => 0,
                error => return Err(error),
            },
        };
        ready.extend(events[..count].iter().map(|event| {
            let flags = event.events as i32;
            let failed = flags & (libc::EPOLLERR | libc::EPOLLHUP) != 0;
            Ready {
                token: event.u64,
                readable: failed || flags & libc::EPOLLIN != 0,
                writable: failed || flags & libc::EPOLLOUT != 0,
            }
        }));
        Ok(())
    }

    /// Waits like [`Poller::wait`]. Returns the tokens of the descriptors that are ready.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn tokens(&mut self, timeout: Option<Duration>) -> io::Result<Vec<u64>> {
        let mut ready = Vec::new();
        self.wait(timeout, &mut ready)?;
        Ok(ready.into_iter().map(|ready| ready.token).collect())
    }

    /// Uses `epoll_pwait2` if the kernel has it (Linux 5.11). Otherwise the time is rounded up to milliseconds.
    fn wait_raw(&mut self, timeout: Option<Duration>, events: &mut [libc::epoll_event]) -> libc::c_int {
        let (epoll, len) = (self.epoll.as_raw_fd(), events.len() as libc::c_int);
        if self.has_nanoseconds {
            let timespec = timeout.map(|timeout| libc::timespec {
                tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: timeout.subsec_nanos().into(),
            });
            let pointer = timespec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            let no_mask = std::ptr::null::<libc::sigset_t>();
            // SAFETY: `events` has room for `len` events, and `pointer` is null or a timespec that lives.
            let result = unsafe {
                libc::syscall(libc::SYS_epoll_pwait2, epoll, events.as_mut_ptr(), len, pointer, no_mask, 8)
            };
            if result >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS) {
                return result as libc::c_int;
            }
            self.has_nanoseconds = false;
        }
        let millis = timeout.map_or(-1, |timeout| {
            libc::c_int::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX)
        });
        // SAFETY: as above.
        unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), len, millis) }
    }
}

impl AsFd for Poller {
    /// The poller's own descriptor. It is readable when a descriptor in the poller is ready.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Self::Read => EventFlags::IN,
            Self::ReadWrite => EventFlags::IN | EventFlags::OUT,
        }
    }
}

/// Waits until one of `fds` is readable or the time is up. Returns which ones are readable. A signal ends the
/// wait, too.
///
/// # Errors
/// The error of the kernel.
pub fn wait_readable<const N: usize>(
    fds: [Option<BorrowedFd<'_>>; N],
    timeout: Duration,
) -> io::Result<[bool; N]> {
    let mut poller = Poller::new()?;
    for (fd, token) in fds.iter().zip(0..) {
        fd.map_or(Ok(()), |fd| poller.add(&fd, token, Interest::Read))?;
    }
    let ready = poller.tokens(Some(timeout))?;
    Ok(std::array::from_fn(|index| ready.contains(&(index as u64))))
}

/// Whether a write of up to 4,096 bytes returns at once. A descriptor that cannot be asked counts as writable.
pub fn is_writable(fd: &impl AsFd) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(fd, PollFlags::OUT)], Some(&at_once)).map_or(true, |ready| ready > 0)
}

/// Waits until a read returns at once, for at most `timeout`. Returns whether it does. A regular file can always be read.
///
/// # Errors
/// If the descriptor cannot be asked.
pub fn is_readable_within(fd: &impl AsFd, timeout: Duration) -> io::Result<bool> {
    let timeout =
        Timespec { tv_sec: timeout.as_secs().cast_signed(), tv_nsec: timeout.subsec_nanos().into() };
    match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout)) {
        // A signal has ended the wait.
        Err(Errno::INTR) => Ok(false),
        ready => Ok(ready? > 0),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::wake::Waker;

    #[test]
    fn what_is_ready_is_told_and_nothing_else() {
        let (woken, idle) = (Waker::new().unwrap(), Waker::new().unwrap());
        woken.wake();
        let fds = [Some(idle.as_fd()), None, Some(woken.as_fd())];
        assert_eq!(wait_readable(fds, Duration::from_secs(9)).unwrap(), [false, false, true]);
        let mut poller = Poller::new().unwrap();
        poller.add(&idle, 7, Interest::ReadWrite).unwrap();
        let mut ready = Vec::new();
        poller.wait(None, &mut ready).unwrap();
        assert_eq!(ready, [Ready { token: 7, readable: false, writable: true }]);
        poller.modify(&idle, 8, Interest::Read).unwrap();
        assert_eq!(poller.tokens(Some(Duration::ZERO)).unwrap(), []);
        idle.wake();
        assert_eq!(poller.tokens(None).unwrap(), [8]);
        poller.remove(&idle).unwrap();
        assert_eq!(poller.tokens(Some(Duration::ZERO)).unwrap(), []);
    }

    #[test]
    fn a_wait_lasts_as_long_as_it_should() {
        let begin = Instant::now();
        assert!(Poller::new().unwrap().tokens(Some(Duration::from_micros(300))).unwrap().is_empty());
        assert!(begin.elapsed() >= Duration::from_micros(300));
    }
}
