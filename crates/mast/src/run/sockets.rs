//! UDP sockets that never wait.

use std::{
    io::{self, IoSlice},
    net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket},
};

use socket2::{Domain, Protocol, Socket, Type};
use treecast_host::{
    control::Control,
    messages::{self, Scatter},
    option,
};

use super::{Error, doing};

/// The largest datagram that is read, in bytes: the longest that UDP has.
const MAX_DATAGRAM: usize = 65_535;

/// The datagrams that are read before other things get their turn.
const MAX_AT_ONCE: usize = 64;

/// The option by which a socket may have an address that no interface has yet (`linux/in6.h`).
const IPV6_FREEBIND: i32 = 78;

/// The sender of a datagram, and the address of this host that it was sent to.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub from: SocketAddr,
    /// `None`: the socket has one address.
    to: Option<IpAddr>,
}

/// Opens a socket at an address. Answers of one at all addresses come from the one that was asked: others would not be believed.
pub fn open(address: SocketAddr) -> Result<UdpSocket, Error> {
    let open = || {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => {
                option::set(&socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
            }
            IpAddr::V6(ip) if ip.is_unspecified() => {
                option::set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
            }
            _ => {}
        }
        Ok(socket)
    };
    open().map_err(doing(format!("cannot open UDP {address}")))
}

/// Opens a socket whose packets come from an address, whether it is there now or later.
pub fn open_from(address: Ipv6Addr) -> Result<UdpSocket, Error> {
    let open = || {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        option::set(&socket, libc::IPPROTO_IPV6, IPV6_FREEBIND, 1)?;
        socket.bind(&SocketAddr::new(address.into(), 0).into())?;
        Ok(UdpSocket::from(socket))
    };
    open().map_err(doing(format!("cannot send from {address}")))
}

/// Opens a socket at a port of an interface, and joins groups there. Another program may have the same port on another interface.
pub fn open_on(interface: &str, index: u32, port: u16, groups: &[Ipv6Addr]) -> Result<UdpSocket, Error> {
    let open = || {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        socket.set_only_v6(true)?;
        socket.set_reuse_address(true)?;
        socket.bind_device(Some(interface.as_bytes()))?;
        socket.bind(&SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port).into())?;
        groups.iter().try_for_each(|group| option::join(&socket, IpAddr::V6(*group), None, index))?;
        Ok(UdpSocket::from(socket))
    };
    open().map_err(doing(format!("cannot open UDP port {port} on interface {interface}")))
}

/// Reads what has come, up to some datagrams.
pub fn read(socket: &UdpSocket, mut take: impl FnMut(&[u8], Peer)) {
    let (mut buffer, mut scatter) = (vec![0; MAX_DATAGRAM], Scatter::default());
    for _ in 0..MAX_AT_ONCE {
        match scatter.receive(socket, [&mut buffer[..]]) {
            Ok(received) => {
                let (from, to) = (received.from, received.ancillary.destination);
                from.into_iter().for_each(|from| take(&buffer[..received.len], Peer { from, to }));
            }
            // An interruption, or an ICMP error of a datagram that was sent: its errand is run again.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// Sends an answer. One that is lost is asked for again, so nobody is told.
pub fn answer(socket: &UdpSocket, bytes: &[u8], peer: Peer) {
    let control = peer.to.map_or(Control::NONE, |to| Control::NONE.with_source(to, 0));
    _ = messages::send(socket, Some(&peer.from.into()), &[IoSlice::new(bytes)], &control);
}

/// Sends a datagram to an address of an interface's link.
pub fn send_on(socket: &UdpSocket, bytes: &[u8], to: Ipv6Addr, port: u16, index: u32) -> io::Result<()> {
    let to = option::scoped(SocketAddr::new(to.into(), port), index);
    socket.send_to(bytes, to).map(drop)
}

#[cfg(test)]
mod tests {
    use treecast_host::poller::wait_readable;

    use super::*;

    #[test]
    fn an_answer_comes_from_the_address_that_was_asked() {
        for (server, asked) in [("[::]:0", "[::1]"), ("[::]:0", "127.0.0.7"), ("0.0.0.0:0", "127.0.0.7")] {
            let server = open(server.parse().unwrap()).unwrap();
            let to: SocketAddr = format!("{asked}:{}", server.local_addr().unwrap().port()).parse().unwrap();
            let client = UdpSocket::bind(if to.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }).unwrap();
            client.send_to(b"ask", to).unwrap();
            let patience = std::time::Duration::from_secs(60);
            wait_readable([Some(std::os::fd::AsFd::as_fd(&server))], patience).unwrap();
            read(&server, |bytes, peer| {
                assert_eq!(bytes, b"ask");
                answer(&server, b"answer", peer);
            });
            client.set_read_timeout(Some(patience)).unwrap();
            let mut buffer = [0; 9];
            assert_eq!(client.recv_from(&mut buffer).unwrap(), (6, to));
        }
    }
}
