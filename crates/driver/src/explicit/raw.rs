//! Raw sockets of a MEADcast sender: complete IPv6 packets go out, and discovery responses and ICMPv6 errors
//! come in.

use std::{
    io::{self, IoSlice},
    net::{Ipv6Addr, SocketAddrV6},
    os::fd::{AsFd, BorrowedFd},
    time::SystemTime,
};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use treecast_host::{messages, option};
use treecast_proto::explicit::{
    finder::{Failure, Response, RoutingHeader},
    list_proof,
};
use treecast_wire::{
    icmpv6::{DESTINATION_UNREACHABLE, DeliveryError, PACKET_TOO_BIG},
    ipv6::{self, next_header},
    mead::{Dialect, Header, Kind, Malformed, Options},
    xcast,
};

/// Packets in one system call.
const BATCH: usize = 64;

/// The most bytes of a response or error that are read: longer than any.
const MAX_RESPONSE_LEN: usize = 2048;

/// Size of a sender's socket buffers, in bytes: room for what comes between two of the kernel's turns.
pub(super) const BUFFER_BYTES: usize = 4 << 20;

/// Sends packets that are whole from the IPv6 header on; the kernel routes them by their destination.
#[derive(Debug)]
pub(crate) struct PacketSocket(Socket);

impl PacketSocket {
    pub fn open(interface: Option<&str>) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW)))?;
        // The kernel's limit holds without root's right to pass it.
        _ = socket.set_send_buffer_size(BUFFER_BYTES);
        if let Some(name) = interface {
            socket.bind_device(Some(name.as_bytes()))?;
        }
        Ok(Self(socket))
    }

    /// Limits the bytes that wait in the socket. A full socket delays its sender before the link's queue
    /// overflows.
    pub fn hold_at_most(&self, bytes: usize) -> io::Result<()> {
        self.0.set_send_buffer_size(bytes)
    }

    /// Sends all packets, each to its address. Returns how many the kernel refused, and the last reason.
    pub fn send(&self, packets: &[(Ipv6Addr, Vec<u8>)]) -> (u64, Option<io::Error>) {
        let (mut refused, mut last) = (0, None);
        for batch in packets.chunks(BATCH) {
            let mut left = batch;
            while !left.is_empty() {
                match self.send_some(left) {
                    Ok(count) => left = &left[count.max(1)..],
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        // The first of them is at fault; the others may go.
                        (refused, last) = (refused + 1, Some(error));
                        left = &left[1..];
                    }
                }
            }
        }
        (refused, last)
    }

    fn send_some(&self, packets: &[(Ipv6Addr, Vec<u8>)]) -> io::Result<usize> {
        let address = |to: Ipv6Addr| SockAddr::from(SocketAddrV6::new(to, 0, 0, 0));
        let parts: Vec<_> =
            packets.iter().map(|(to, packet)| (address(*to), [IoSlice::new(packet)])).collect();
        messages::send_many(&self.0, parts.iter().map(|(to, packet)| (Some(to), &packet[..])))
    }
}

/// The epoch of address lists' proofs, by this host's clock.
pub(crate) fn epoch() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    list_proof::epoch_at(since.unwrap_or_default().as_secs())
}

/// Gets what comes to this host with a routing header, that header first.
#[derive(Debug)]
pub(crate) struct ResponseSocket {
    socket: Socket,
    dialect: Dialect,
}

impl ResponseSocket {
    pub fn open(source: Ipv6Addr, dialect: Dialect) -> io::Result<Self> {
        Ok(Self { socket: listen(next_header::ROUTING, source)?, dialect })
    }

    /// The next response. `None` if there is none now. Packets without a MEADcast header are skipped. So are
    /// packets in which other senders list this host as a receiver: requests, and data from which no router has
    /// removed the header.
    pub fn receive(&self) -> io::Result<Option<Result<Response, Malformed>>> {
        let mut buffer = [0; MAX_RESPONSE_LEN];
        while let Some((from, bytes)) = receive(&self.socket, &mut buffer)? {
            if bytes.get(2).is_some_and(|kind| Header::is_routing_type(*kind, self.dialect)) {
                let parsed = self.parse(from, bytes);
                if parsed.as_ref().is_ok_and(|response| response.header.kind != Kind::Response) {
                    continue;
                }
                return Ok(Some(parsed));
            }
        }
        Ok(None)
    }

    fn parse(&self, router: Ipv6Addr, bytes: &[u8]) -> Result<Response, Malformed> {
        let (header, rest) = Header::parse(bytes, self.dialect)?;
        let Options { proof, group, .. } = match header.next_header {
            next_header::DESTINATION_OPTIONS => Options::parse(rest)?.0,
            _ => Options::default(),
        };
        Ok(Response { router, header, proof, group })
    }
}

impl AsFd for ResponseSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Gets ICMPv6's errors about packets of this host.
#[derive(Debug)]
pub(crate) struct ErrorSocket {
    socket: Socket,
    source: Ipv6Addr,
    dialect: Dialect,
}

impl ErrorSocket {
    pub fn open(source: Ipv6Addr, dialect: Dialect) -> io::Result<Self> {
        let socket = listen(next_header::ICMPV6, source)?;
        option::hear_icmpv6(&socket, &[DESTINATION_UNREACHABLE, PACKET_TOO_BIG])?;
        Ok(Self { socket, source, dialect })
    }

    /// The next error about a packet from this sender's address. `None` if there is none now.
    pub fn receive(&self) -> io::Result<Option<Failure>> {
        let mut buffer = [0; MAX_RESPONSE_LEN];
        while let Some((_, bytes)) = receive(&self.socket, &mut buffer)? {
            if let Ok(Some(error)) = DeliveryError::parse(bytes)
                && error.packet.source == self.source
                && let Some(failure) = self.failure(&error)
            {
                return Ok(Some(failure));
            }
        }
        Ok(None)
    }

    /// The failure that an error tells of. `None` for a packet with another routing header than ours.
    fn failure(&self, error: &DeliveryError<'_>) -> Option<Failure> {
        let (mut header, mut port) = (None, None);
        match error.packet.next_header {
            next_header::ROUTING => header = Some(self.routing_header(error.payload)?),
            next_header::UDP => {
                port = error.payload.get(2..4).map(|port| u16::from_be_bytes([port[0], port[1]]));
            }
            _ => {}
        }
        let len = ipv6::HEADER_LEN + usize::from(error.packet.payload_len);
        Some(Failure { cause: error.cause, destination: error.packet.destination, len, header, port })
    }
}

impl ErrorSocket {
    fn routing_header(&self, payload: &[u8]) -> Option<RoutingHeader> {
        let kind = *payload.get(2)?;
        if Header::is_routing_type(kind, self.dialect) {
            return Some(RoutingHeader::Mead(Header::parse(payload, self.dialect).ok()?.0));
        }
        let header = (kind == xcast::ROUTING_TYPE).then(|| xcast::Header::parse(payload));
        Some(RoutingHeader::Xcast(header?.ok()?.0))
    }
}

impl AsFd for ErrorSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A raw socket for what comes to this address with this next header.
fn listen(next_header: u8, address: Ipv6Addr) -> io::Result<Socket> {
    let protocol = Protocol::from(i32::from(next_header));
    let socket = Socket::new(Domain::IPV6, Type::RAW, Some(protocol))?;
    // Responses come in rounds.
    _ = socket.set_recv_buffer_size(BUFFER_BYTES);
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddrV6::new(address, 0, 0, 0).into())?;
    Ok(socket)
}

/// The next message, and its sender. `None` when there is none now.
fn receive<'a>(
    socket: &Socket,
    buffer: &'a mut [u8; MAX_RESPONSE_LEN],
) -> io::Result<Option<(Ipv6Addr, &'a [u8])>> {
    loop {
        match messages::receive_from(socket, buffer) {
            Ok((from, received)) => {
                let from = from.as_socket_ipv6().map_or(Ipv6Addr::UNSPECIFIED, |from| *from.ip());
                return Ok(Some((from, &buffer[..received.len])));
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(None),
                io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
    }
}
