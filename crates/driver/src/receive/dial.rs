//! Opens a TCP connection faster than the kernel alone, where packets are lost.
//!
//! The kernel waits a second before it repeats a SYN or the answer to it (RFC 6298, 2.1), and no socket option shortens that.
//! Among ten receivers that lose a packet in five, nine times out of ten one loses such a packet, and all wait for it.
//! So further attempts start beside the first one, as in RFC 8305 (5), and the first answer wins.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use socket2::{Domain, Protocol, Socket, Type};
use treecast_host::{
    poller::{Interest, Poller},
    stop::Stop,
};

/// Time until the second attempt. It doubles with each further one, so that a distant sender gets few in vain.
const SECOND_AFTER: Duration = Duration::from_millis(20);

/// The most attempts at the same time. Each repeats its SYN after a second, as the kernel does.
const MAX_ATTEMPTS: usize = 4;

/// The poller's token of the stop. Attempts have their positions.
const STOP: u64 = MAX_ATTEMPTS as u64;

/// Connects to `address` within `timeout`.
///
/// # Errors
/// The first attempt's error that comes, or that the time is up or the program is to stop.
pub(super) fn dial(address: SocketAddr, timeout: Duration, stop: &Stop) -> io::Result<TcpStream> {
    let start = Instant::now();
    let mut poller = Poller::new()?;
    poller.watch(stop, STOP)?;
    let mut attempts: Vec<Socket> = Vec::new();
    loop {
        let next_at = match attempts.len() {
            0 => Duration::ZERO,
            MAX_ATTEMPTS => timeout,
            count => SECOND_AFTER * ((1 << count) - 1),
        };
        let wait = next_at.min(timeout).saturating_sub(start.elapsed());
        if let Some(token) = poller.tokens(Some(wait))?.into_iter().next() {
            let Some(attempt) = attempts.get(token as usize) else {
                return Err(io::ErrorKind::Interrupted.into());
            };
            if let Some(error) = attempt.take_error()? {
                return Err(error);
            }
            // The others are closed before they are there, as a rule. Their answers are reset by the kernel.
            return Ok(attempts.swap_remove(token as usize).into());
        }
        if start.elapsed() >= timeout {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out"));
        }
        if attempts.len() < MAX_ATTEMPTS && start.elapsed() >= next_at {
            let attempt = begin(address)?;
            poller.add(&attempt, attempts.len() as u64, Interest::ReadWrite)?;
            attempts.push(attempt);
        }
    }
}

/// Sends a SYN, and does not wait for the answer.
fn begin(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv6Addr, thread};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(2);

    /// A listener with room for one connection that waits. While one does, the kernel drops each SYN.
    fn narrow_listener() -> (Socket, SocketAddr) {
        let listener = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP)).unwrap();
        listener.bind(&SocketAddr::from((Ipv6Addr::LOCALHOST, 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        (listener, address)
    }

    #[test]
    fn a_lost_syn_is_not_waited_for() {
        let (listener, address) = narrow_listener();
        let first = TcpStream::connect(address).unwrap();
        let stop = Stop::new().unwrap();
        let taken = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(10));
                listener.accept().unwrap()
            });
            let start = Instant::now();
            let stream = dial(address, TIMEOUT, &stop).unwrap();
            assert_eq!(stream.peer_addr().unwrap(), address);
            start.elapsed()
        });
        drop(first);
        assert!(taken < Duration::from_millis(900), "{taken:?}, as long as the kernel waits");
    }

    #[test]
    fn nobody_listening_and_no_answer_are_told_apart() {
        let (listener, address) = narrow_listener();
        let _first = TcpStream::connect(address).unwrap();
        let stop = Stop::new().unwrap();
        let timed_out = dial(address, Duration::from_millis(100), &stop).unwrap_err();
        assert_eq!(timed_out.kind(), io::ErrorKind::TimedOut);
        drop(listener);
        let refused = dial(address, TIMEOUT, &stop).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
