//! Frames of an interface, and waiting for them.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use super::queue::MAX_FRAME_BYTES;

const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// Everything that arrives at an interface, and a way to send through it.
pub struct FrameSocket(OwnedFd);

impl FrameSocket {
    /// Opens interface `index` of the thread's namespace.
    pub fn open(index: u32) -> io::Result<Self> {
        const BUFFER_BYTES: libc::c_int = 8 << 20;
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // Without a protocol nothing arrives before the socket is bound to its interface.
        // SAFETY: takes no pointers.
        let descriptor = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: the descriptor was just opened and nobody else has it.
        let this = Self(unsafe { OwnedFd::from_raw_fd(descriptor) });
        this.set(libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
        this.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        this.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER_BYTES)?;
        this.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, BUFFER_BYTES)?;
        this.bind(index)?;
        Ok(this)
    }

    fn set(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the pointer is to an integer, whose size is given, and outlives the call.
        check(unsafe { libc::setsockopt(self.descriptor(), level, name, (&raw const value).cast(), size) })?;
        Ok(())
    }

    fn bind(&self, index: u32) -> io::Result<()> {
        // SAFETY: a C structure of integers, for which zero is a value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as libc::c_int;
        let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the pointer is to an address, whose size is given, and outlives the call.
        check(unsafe { libc::bind(self.descriptor(), (&raw const address).cast(), size) })?;
        Ok(())
    }

    /// Reads a frame into `frame`; `false` when there is none.
    pub fn receive(&self, frame: &mut Vec<u8>) -> bool {
        frame.resize(MAX_FRAME_BYTES, 0);
        // SAFETY: the pointer is to as many bytes as are given.
        let length = unsafe { libc::recv(self.descriptor(), frame.as_mut_ptr().cast(), frame.len(), 0) };
        let Ok(length) = usize::try_from(length) else { return false };
        frame.truncate(length);
        true
    }

    pub fn send(&self, frame: &[u8]) {
        // SAFETY: the pointer is to as many bytes as are given.
        unsafe { libc::send(self.descriptor(), frame.as_ptr().cast(), frame.len(), 0) };
    }

    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Lets this process go before all others that are not of real time: a cable does not wait for a processor. Where that is
/// not allowed, a busy machine makes delays longer.
pub fn go_first() {
    // SAFETY: takes no pointers.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

/// Waits for many sockets, with a timer finer than a millisecond.
pub struct Poll(OwnedFd);

impl Poll {
    pub fn new() -> io::Result<Self> {
        // The kernel otherwise lets timers be late by 50 us.
        // SAFETY: takes no pointers.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        // SAFETY: takes no pointers.
        let descriptor = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor was just opened and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Has [`Poll::wait`] return `name` when `descriptor` can be read.
    pub fn watch(&self, descriptor: RawFd, name: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: name };
        // SAFETY: the pointer is to an event, which outlives the call.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, descriptor, &mut event) })?;
        Ok(())
    }

    /// Waits until something can be read, or `timeout` is over; without one, as long as it takes.
    pub fn wait(&self, timeout: Option<Duration>) -> Vec<u64> {
        const MAX_EVENTS: usize = 256;
        let mut waiting = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs() as libc::time_t,
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), |timeout| &raw const *timeout);
        // epoll_wait counts in milliseconds, so the wait is ppoll's.
        // SAFETY: all pointers are to what they say, or null, and outlive the call.
        unsafe { libc::ppoll(&mut waiting, 1, timeout, std::ptr::null()) };
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MAX_EVENTS];
        // SAFETY: the pointer is to as many events as are given.
        let count = unsafe {
            libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), MAX_EVENTS as libc::c_int, 0)
        };
        let count = usize::try_from(count).unwrap_or(0);
        events[..count].iter().map(|event| event.u64).collect()
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
