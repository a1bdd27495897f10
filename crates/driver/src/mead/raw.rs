//! Whole IPv6 packets out, and MEADcast's discovery responses in.

use std::{
    io, mem,
    mem::MaybeUninit,
    net::{Ipv6Addr, SocketAddrV6},
    os::fd::{AsFd, AsRawFd, BorrowedFd},
};

use socket2::{Domain, Protocol, Socket, Type};
use treecast_wire::{
    ipv6::{self, next_header},
    mead::{Dialect, Header, Malformed, Options, Proof},
};

/// Packets in one system call.
const BATCH: usize = 64;

/// Longer than any response.
const MAX_RESPONSE_LEN: usize = 2048;

/// What a sender needs to have room for between two of the kernel's turns.
const BUFFER_BYTES: usize = 4 << 20;

const HOP_LIMIT: u8 = 64;

/// Sends packets that are whole from the IPv6 header on; the kernel routes them by their destination.
#[derive(Debug)]
pub(super) struct PacketSocket(Socket);

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

    /// Sends all, each to its address. Returns how many the kernel refused, and the last reason.
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
        let mut addresses: Vec<_> = packets.iter().map(|(to, _)| socket_address(*to)).collect();
        let slice = |packet: &Vec<u8>| libc::iovec {
            iov_base: packet.as_ptr().cast_mut().cast(),
            iov_len: packet.len(),
        };
        let mut slices: Vec<_> = packets.iter().map(|(_, packet)| slice(packet)).collect();
        let message = |(address, slice): (&mut libc::sockaddr_in6, &mut libc::iovec)| {
            // SAFETY: the header is plain data for which zeroes are good.
            let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
            message.msg_hdr.msg_name = std::ptr::from_mut(address).cast();
            message.msg_hdr.msg_namelen = mem::size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (slice, 1);
            message
        };
        let mut messages: Vec<_> = addresses.iter_mut().zip(&mut slices).map(message).collect();
        let count = messages.len() as libc::c_uint;
        // SAFETY: each message points at an address and a slice that outlive the call; the kernel only reads the packets.
        let sent = unsafe { libc::sendmmsg(self.0.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// A discovery request as it leaves.
pub(super) fn request_packet(
    source: Ipv6Addr,
    receiver: Ipv6Addr,
    nonce: Option<[u8; treecast_wire::mead::NONCE_LEN]>,
    dialect: Dialect,
) -> Vec<u8> {
    let options = Options { nonce, ..Options::default() }.to_bytes(next_header::NONE);
    let mut header = Header::request(receiver);
    if !options.is_empty() {
        header.next_header = next_header::DESTINATION_OPTIONS;
    }
    let header = header.to_bytes(dialect);
    let ip = ipv6::Header {
        class_and_label: 0,
        payload_len: (header.len() + options.len()) as u16,
        next_header: next_header::ROUTING,
        hop_limit: HOP_LIMIT,
        source,
        destination: receiver,
    };
    [&ip.to_bytes()[..], &header, &options].concat()
}

/// Gets what comes to this host with a routing header, that header first.
#[derive(Debug)]
pub(super) struct ResponseSocket {
    socket: Socket,
    dialect: Dialect,
}

/// What a router said.
#[derive(Debug)]
pub(super) struct Response {
    pub router: Ipv6Addr,
    pub header: Header,
    pub proof: Option<Proof>,
}

impl ResponseSocket {
    pub fn open(source: Ipv6Addr, dialect: Dialect) -> io::Result<Self> {
        let protocol = Protocol::from(i32::from(next_header::ROUTING));
        let socket = Socket::new(Domain::IPV6, Type::RAW, Some(protocol))?;
        // Responses come in rounds.
        _ = socket.set_recv_buffer_size(BUFFER_BYTES);
        socket.set_nonblocking(true)?;
        socket.bind(&SocketAddrV6::new(source, 0, 0, 0).into())?;
        Ok(Self { socket, dialect })
    }

    /// The next response; none when there is none now. What is no MEADcast header is passed over.
    pub fn receive(&self) -> io::Result<Option<Result<Response, Malformed>>> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); MAX_RESPONSE_LEN];
        loop {
            let (len, from) = match self.socket.recv_from(&mut buffer) {
                Ok(received) => received,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(None),
                    io::ErrorKind::Interrupted => continue,
                    _ => return Err(error),
                },
            };
            // SAFETY: the kernel has written so many bytes.
            let bytes = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), len) };
            let is_ours = bytes.get(2).is_some_and(|kind| Header::is_routing_type(*kind));
            if let (true, Some(from)) = (is_ours, from.as_socket_ipv6()) {
                return Ok(Some(self.parse(*from.ip(), bytes)));
            }
        }
    }

    fn parse(&self, router: Ipv6Addr, bytes: &[u8]) -> Result<Response, Malformed> {
        let (header, rest) = Header::parse(bytes, self.dialect)?;
        let proof = match header.next_header {
            next_header::DESTINATION_OPTIONS => Options::parse(rest)?.0.proof,
            _ => None,
        };
        Ok(Response { router, header, proof })
    }
}

impl AsFd for ResponseSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn socket_address(address: Ipv6Addr) -> libc::sockaddr_in6 {
    // SAFETY: the address is plain data for which zeroes are good. A raw socket takes no port.
    let mut to: libc::sockaddr_in6 = unsafe { mem::zeroed() };
    to.sin6_family = libc::AF_INET6 as libc::sa_family_t;
    to.sin6_addr.s6_addr = address.octets();
    to
}
