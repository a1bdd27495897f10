//! A UDP socket that tells when the kernel got each datagram.

use std::{
    io,
    mem::{self, MaybeUninit},
    net::{Ipv6Addr, UdpSocket},
    os::fd::AsRawFd,
    time::Duration,
};

use socket2::{Domain, Protocol, Socket, Type};

use super::STAMP_LEN;

/// What a sink takes while it waits for a processor.
const BUFFER_BYTES: libc::c_int = 8 << 20;

/// Datagrams taken by one call.
const BATCH: usize = 64;

/// Room for a timestamp as a control message.
const CONTROL_LEN: usize = 64;

/// A socket in the namespace of the thread that opened it.
pub struct StampedSocket(UdpSocket);

/// A group that a socket is to hear.
#[derive(Debug, Clone, Copy)]
pub struct Membership {
    pub group: Ipv6Addr,
    /// Whose packets to it; none: everybody's.
    pub source: Option<Ipv6Addr>,
    /// The number of the interface to listen at.
    pub interface: u32,
}

/// The beginnings of some datagrams, and when they came.
pub struct Batch {
    data: [[u8; STAMP_LEN]; BATCH],
    control: [Control; BATCH],
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_LEN]);

impl Default for Batch {
    fn default() -> Self {
        Self { data: [[0; STAMP_LEN]; BATCH], control: [Control([0; CONTROL_LEN]); BATCH] }
    }
}

impl StampedSocket {
    /// Listens at `port`, and to what is sent there to a group.
    pub fn open(port: u16, membership: Option<Membership>) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM.nonblocking().cloexec(), Some(Protocol::UDP))?;
        set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &BUFFER_BYTES)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)?;
        socket.bind(&std::net::SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into())?;
        match membership {
            Some(Membership { group, source: Some(source), interface }) => {
                let request = source_request(group, source, interface);
                set(&socket, libc::IPPROTO_IPV6, MCAST_JOIN_SOURCE_GROUP, &request)?;
            }
            Some(Membership { group, source: None, interface }) => {
                socket.join_multicast_v6(&group, interface)?;
            }
            None => {}
        }
        Ok(Self(socket.into()))
    }

    /// Takes what has come, up to a batch, and hands each beginning with its time since 1970 to `each`. Returns whether
    /// there may be more.
    pub fn take(&self, batch: &mut Batch, mut each: impl FnMut(&[u8], Duration)) -> io::Result<bool> {
        let mut parts: [libc::iovec; BATCH] = batch
            .data
            .each_mut()
            .map(|data| libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() });
        let mut headers: [libc::mmsghdr; BATCH] = std::array::from_fn(|index| {
            // SAFETY: all zeros is a message header without anything.
            let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
            header.msg_hdr.msg_iov = &mut parts[index];
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = batch.control[index].0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL_LEN;
            header
        });
        // SAFETY: the headers point to buffers that outlive the call, each of the length named.
        let count = unsafe {
            let (first, flags) = (headers.as_mut_ptr(), libc::MSG_DONTWAIT);
            libc::recvmmsg(self.0.as_raw_fd(), first, BATCH as u32, flags, std::ptr::null_mut())
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock => Ok(false),
                io::ErrorKind::Interrupted => Ok(true),
                _ => Err(error),
            };
        }
        for (index, header) in headers.iter().enumerate().take(count as usize) {
            let len = (header.msg_len as usize).min(STAMP_LEN);
            each(&batch.data[index][..len], came_at(&header.msg_hdr).unwrap_or_else(super::now));
        }
        Ok(count as usize == BATCH)
    }
}

/// `linux/in.h`; the libc crate has it for other systems only.
const MCAST_JOIN_SOURCE_GROUP: libc::c_int = 46;

/// `struct group_source_req`.
#[repr(C)]
struct SourceRequest {
    interface: u32,
    group: libc::sockaddr_storage,
    source: libc::sockaddr_storage,
}

fn source_request(group: Ipv6Addr, source: Ipv6Addr, interface: u32) -> SourceRequest {
    let storage = |address: Ipv6Addr| {
        let address = socket2::SockAddr::from(std::net::SocketAddrV6::new(address, 0, 0, 0));
        let mut storage = MaybeUninit::<libc::sockaddr_storage>::zeroed();
        // SAFETY: an address is not longer than the storage, and all zeros are one.
        unsafe {
            let from = address.as_ptr().cast::<u8>();
            from.copy_to_nonoverlapping(storage.as_mut_ptr().cast(), address.len() as usize);
            storage.assume_init()
        }
    };
    SourceRequest { interface, group: storage(group), source: storage(source) }
}

fn set<T>(socket: &Socket, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let len = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the value outlives the call and is as long as is said.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The time in the control messages of what has come, since 1970.
fn came_at(header: &libc::msghdr) -> Option<Duration> {
    // SAFETY: the kernel has written whole control messages into the buffer, which is aligned for them.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(found) = message.as_ref() {
            if found.cmsg_level == libc::SOL_SOCKET && found.cmsg_type == libc::SCM_TIMESTAMPNS {
                let time: libc::timespec = libc::CMSG_DATA(message).cast::<libc::timespec>().read_unaligned();
                return Some(Duration::new(time.tv_sec as u64, time.tv_nsec as u32));
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    None
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
        let mut came = Vec::new();
        let more = sink.take(&mut Batch::default(), |data, at| came.push((Stamp::read(data), at))).unwrap();
        let after = super::super::now();
        assert!(!more && came.len() == 3);
        came.into_iter().all(|(stamp, at)| {
            assert_eq!(stamp.unwrap().number, 3);
            before <= at && at + Duration::from_millis(40) < after
        })
    }
}
