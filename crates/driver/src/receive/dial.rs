//! Opens a TCP connection faster than the kernel alone, where packets are lost.
//!
//! The kernel waits a second before it repeats a SYN or the answer to it (RFC 6298, 2.1), and no socket option shortens that.
//! Among ten receivers that lose a packet in five, nine times out of ten one loses such a packet, and all wait for it.
//! So further attempts start beside the first one, as in RFC 8305 (5), and the first answer wins.

use std::{
    collections::BTreeMap,
    io,
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use socket2::{Domain, Protocol, Socket, Type};
use treecast_host::{
    poller::{Interest, Poller},
    stop::Stop,
};

use crate::connection;

/// Time until the second attempt. It doubles with each further one, so that a distant sender gets few in vain.
const SECOND_AFTER: Duration = Duration::from_millis(20);

/// The most attempts at the same time. Each repeats its SYN after a second, as the kernel does.
const MAX_ATTEMPTS: usize = 4;

/// The poller's token of the stop. Attempts have their positions.
const STOP: u64 = MAX_ATTEMPTS as u64;

/// Connects to `address` within `timeout`.
///
/// # Errors
/// The first error, if all attempts fail, or that the time is up or the program is to stop.
pub(super) fn dial(address: SocketAddr, timeout: Duration, stop: &Stop) -> io::Result<TcpStream> {
    let start = Instant::now();
    let mut poller = Poller::new()?;
    poller.watch(stop, STOP)?;
    let mut attempts = BTreeMap::new();
    let mut first_error = None;
    let mut begun = 0;
    loop {
        if begun < MAX_ATTEMPTS && start.elapsed() >= begins_at(begun) {
            match begin(address).and_then(|attempt| {
                poller.add(&attempt, begun as u64, Interest::ReadWrite)?;
                Ok(attempt)
            }) {
                Ok(attempt) => _ = attempts.insert(begun as u64, attempt),
                Err(error) => _ = first_error.get_or_insert(error),
            }
            begun += 1;
        }
        if attempts.is_empty()
            && let Some(error) = first_error
        {
            return Err(error);
        }
        let next_at = if begun < MAX_ATTEMPTS { begins_at(begun) } else { timeout };
        for token in poller.tokens(Some(next_at.min(timeout).saturating_sub(start.elapsed())))? {
            if token == STOP {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let Some(attempt) = attempts.remove(&token) else { continue };
            match attempt.take_error()? {
                // The other attempts are closed, most of them before they are connected.
                None => return Ok(attempt.into()),
                Some(error) => _ = first_error.get_or_insert(error),
            }
        }
        if start.elapsed() >= timeout {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out"));
        }
    }
}

/// Time from the first attempt to the one with this number.
fn begins_at(number: usize) -> Duration {
    SECOND_AFTER * ((1 << number) - 1)
}

/// Sends a SYN, and does not wait for the answer.
fn begin(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    connection::bound_packets(&socket);
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
        // A busy machine may hold everything up for as long.
        let taken = (0..5).map(|_| after_a_lost_syn()).min().unwrap();
        assert!(taken < Duration::from_millis(900), "{taken:?}, as long as the kernel waits");
    }

    /// The time that it takes to connect when the first SYN is lost.
    fn after_a_lost_syn() -> Duration {
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
        taken
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
