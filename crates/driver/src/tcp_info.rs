//! What the kernel knows of a TCP connection.

use std::{
    mem,
    os::fd::{AsFd, AsRawFd},
    time::Duration,
};

/// The smoothed round trip, of which the handshake gives the first measurement; none where the kernel does not tell.
pub fn round_trip(connection: &impl AsFd) -> Option<Duration> {
    // SAFETY: tcp_info is plain numbers, for which zeroes are a value.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut len = mem::size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `info`, and the kernel writes no more than that.
    let result = unsafe {
        libc::getsockopt(
            connection.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    (result == 0 && info.tcpi_rtt > 0).then(|| Duration::from_micros(info.tcpi_rtt.into()))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn a_connection_has_a_round_trip_and_another_socket_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        for end in [near, far] {
            assert!(round_trip(&end).is_some_and(|time| time < Duration::from_secs(1)));
        }
        assert_eq!(round_trip(&UdpSocket::bind("127.0.0.1:0").unwrap()), None);
    }
}
