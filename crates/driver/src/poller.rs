//! Waiting for descriptors with a deadline in nanoseconds (epoll).

use std::{
    io,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    time::Duration,
};

/// What a descriptor is waited for. Its errors are always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    Read,
    ReadWrite,
}

/// A descriptor is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The number that it was added under.
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
    /// # Errors
    /// When no more descriptors are to be had.
    pub fn new() -> io::Result<Self> {
        // SAFETY: a result that is not negative is a new descriptor of ours.
        unsafe {
            match libc::epoll_create1(libc::EPOLL_CLOEXEC) {
                fd if fd >= 0 => Ok(Self { epoll: OwnedFd::from_raw_fd(fd), has_nanoseconds: true }),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }

    /// Adds a descriptor. It leaves by [`Poller::remove`] or by being closed.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn add(&self, fd: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    /// # Errors
    /// What the kernel says.
    pub fn modify(&self, fd: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    /// Takes a descriptor out.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn remove(&self, fd: &impl AsFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, Interest::Read)
    }

    /// Waits until a descriptor is ready or the time is up (none: for ever), and appends to `ready`. A signal
    /// ends the wait, too.
    ///
    /// # Errors
    /// What the kernel says.
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

    /// `epoll_pwait2` (Linux 5.11) where there is one; else milliseconds, rounded up.
    fn wait_raw(&mut self, timeout: Option<Duration>, events: &mut [libc::epoll_event]) -> libc::c_int {
        let (epoll, len) = (self.epoll.as_raw_fd(), events.len() as libc::c_int);
        if self.has_nanoseconds {
            let timespec = timeout.map(|timeout| libc::timespec {
                tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
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

    fn control(&self, operation: i32, fd: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let flags = match interest {
            Interest::Read => libc::EPOLLIN,
            Interest::ReadWrite => libc::EPOLLIN | libc::EPOLLOUT,
        };
        let mut event = libc::epoll_event { events: flags as u32, u64: token };
        // SAFETY: two open descriptors and an event that lives.
        let result =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd.as_fd().as_raw_fd(), &mut event) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
