//! The kernel's measurements of a TCP connection.

use std::{io, os::fd::AsFd, time::Duration};

use socket2::SockRef;

use crate::option;

/// The shortest round-trip time of the last minutes. The first measurement, that of the handshake, may contain the search for the
/// neighbour's address. `None` if the kernel does not provide it.
pub fn shortest_round_trip(connection: &impl AsFd) -> Option<Duration> {
    let shortest = read(connection)?.tcpi_min_rtt;
    // A kernel that has not measured any gives all ones.
    (1..u32::MAX).contains(&shortest).then(|| Duration::from_micros(shortest.into()))
}

/// How long the kernel waits now until it repeats what is not acknowledged. `None` if the kernel does not provide it.
pub fn retransmission_timeout(connection: &impl AsFd) -> Option<Duration> {
    read(connection).map(|info| Duration::from_micros(info.tcpi_rto.into()))
}

/// Whether the other end's kernel has everything that was written, the end of the connection included. False if the kernel does not
/// tell.
pub fn has_delivered(connection: &impl AsFd) -> bool {
    read(connection).is_some_and(|info| info.tcpi_unacked == 0 && info.tcpi_notsent_bytes == 0)
}

/// The progress of a connection, by the kernel's counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// Bytes acknowledged since the connection was opened.
    pub acknowledged_bytes: u64,
    /// Bytes that were written and never sent yet.
    pub unsent_bytes: u64,
    /// Payload bytes of a full segment.
    pub segment_bytes: u64,
    /// The rate that congestion control allows, in bytes a second.
    pub pacing_bytes_a_second: u64,
}

pub fn delivery(connection: &impl AsFd) -> Option<Delivery> {
    read(connection).map(|info| Delivery {
        acknowledged_bytes: info.tcpi_bytes_acked,
        unsent_bytes: info.tcpi_notsent_bytes.into(),
        segment_bytes: info.tcpi_snd_mss.into(),
        pacing_bytes_a_second: info.tcpi_pacing_rate,
    })
}

/// Makes congestion control forget its measurements, by replacing it with another algorithm and back.
///
/// # Errors
/// If the kernel refuses, or the connection is no TCP connection.
pub fn restart_congestion_control(connection: &impl AsFd) -> io::Result<()> {
    let socket = SockRef::from(connection);
    let name = socket.tcp_congestion()?;
    socket.set_tcp_congestion(b"reno")?;
    // The kernel fills the bytes behind the name with zeros.
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    socket.set_tcp_congestion(&name[..end])
}

fn read(connection: &impl AsFd) -> Option<libc::tcp_info> {
    // SAFETY: tcp_info is plain numbers, for which every bit pattern is a value.
    unsafe { option::get(connection, libc::IPPROTO_TCP, libc::TCP_INFO).ok() }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream, UdpSocket},
    };

    use super::*;

    #[test]
    fn a_connection_has_a_round_trip_and_another_socket_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        for end in [near, far] {
            assert!(shortest_round_trip(&end).is_some_and(|time| time < Duration::from_secs(1)));
        }
        assert_eq!(shortest_round_trip(&UdpSocket::bind("127.0.0.1:0").unwrap()), None);
    }

    #[test]
    fn congestion_control_that_is_restarted_is_the_same_and_goes_on() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut far = listener.accept().unwrap().0;
        let before = SockRef::from(&near).tcp_congestion().unwrap();
        restart_congestion_control(&near).unwrap();
        assert_eq!(SockRef::from(&near).tcp_congestion().unwrap(), before);
        near.write_all(b"on").unwrap();
        far.read_exact(&mut [0; 2]).unwrap();
        let delivery = delivery(&near).unwrap();
        assert!(delivery.segment_bytes > 0 && delivery.unsent_bytes == 0, "{delivery:?}");
        assert!(restart_congestion_control(&UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }
}
