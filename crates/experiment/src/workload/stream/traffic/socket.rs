//! A UDP socket that tells when the kernel received each datagram.

use std::{
    io,
    net::{Ipv6Addr, SocketAddr, UdpSocket},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};
use treecast_host::{
    interface::index_of,
    messages::{MAX_RECEIVED, Received, Scatter},
    option,
};

use super::STAMP_LEN;

/// The number of bytes that a sink takes while it waits for a processor.
const BUFFER_BYTES: i32 = 8 << 20;

/// A socket in the namespace of the thread that opened it.
pub struct StampedSocket(UdpSocket);

/// A multicast group that a socket joins.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Membership {
    pub group: Ipv6Addr,
    /// The only source whose packets to the group the socket receives; `None` for every source.
    pub source: Option<Ipv6Addr>,
    /// The interface to listen at.
    pub interface: String,
}

/// The first bytes of several datagrams.
pub struct Batch {
    data: [[u8; STAMP_LEN]; MAX_RECEIVED],
    scatter: Scatter,
}

impl Default for Batch {
    fn default() -> Self {
        Self { data: [[0; STAMP_LEN]; MAX_RECEIVED], scatter: Scatter::default() }
    }
}

impl StampedSocket {
    /// Opens a socket that listens at `port`, also for packets to a group when one is given.
    pub fn open(port: u16, membership: Option<&Membership>) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM.nonblocking().cloexec(), Some(Protocol::UDP))?;
        option::set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER_BYTES)?;
        option::set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into())?;
        if let Some(Membership { group, source, interface }) = membership {
            option::join(&socket, (*group).into(), source.map(Into::into), index_of(interface)?)?;
        }
        Ok(Self(socket.into()))
    }

    /// Reads the datagrams that have come, at most a batch, and hands the first bytes of each to `each`, with
    /// the time since 1970. Returns whether there may be more.
    pub fn take(&self, batch: &mut Batch, mut each: impl FnMut(&[u8], Duration)) -> io::Result<bool> {
        let mut came = [Received::default(); MAX_RECEIVED];
        let parts = batch.data.iter_mut().map(|data| &mut data[..]);
        let taken = batch.scatter.receive_many(&self.0, parts, 1, |index, received| came[index] = received);
        let count = match taken {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            taken => taken?,
        };
        for (data, received) in batch.data.iter().zip(came).take(count) {
            each(&data[..received.len.min(STAMP_LEN)], received.ancillary.arrived.unwrap_or_else(super::now));
        }
        Ok(count == MAX_RECEIVED)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Stamp, *};

    #[test]
    fn the_kernel_says_when_a_datagram_came() {
        let sink = StampedSocket::open(0, None).unwrap();
        // The kernel begins to stamp what comes in a moment after the first socket has asked for it.
        assert!((0..40).any(|_| is_stamped_as_it_comes(&sink)), "not when it was taken");
    }

    /// Whether three datagrams that are taken late have the times when they came.
    fn is_stamped_as_it_comes(sink: &StampedSocket) -> bool {
        let port = sink.0.local_addr().unwrap().port();
        let sender = UdpSocket::bind("[::1]:0").unwrap();
        let before = super::super::now();
        let mut datagram = [0; 100];
        Stamp { run: 1, flow: 2, number: 3, sent: before }.write(&mut datagram);
        for _ in 0..3 {
            sender.send_to(&datagram, ("::1", port)).unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
        let (mut came, mut more) = (Vec::new(), false);
        let after = super::super::now();
        // A busy kernel delivers later.
        while came.len() < 3 && super::super::now() < after + Duration::from_secs(30) {
            more = sink.take(&mut Batch::default(), |data, at| came.push((Stamp::read(data), at))).unwrap();
        }
        assert!(!more && came.len() == 3);
        came.into_iter().all(|(stamp, at)| {
            assert_eq!(stamp.unwrap().number, 3);
            before <= at && at + Duration::from_millis(40) < after
        })
    }
}
