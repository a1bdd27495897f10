//! Sends and receives messages whose parts are in several places, one or many messages in a call (`sendmsg`,
//! `sendmmsg`, `recvmsg`, `recvmmsg`).

use std::{
    fmt,
    io::{self, IoSlice},
    mem,
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd},
    ptr,
};

use socket2::{MsgHdr, SockAddr, SockAddrStorage, SockRef};

use crate::control::{Ancillary, CONTROL_LEN, Control};

/// The largest number of messages that [`Scatter::receive_many`] receives.
pub const MAX_RECEIVED: usize = 64;

/// Sends one message, gathered from its parts. A signal does not end the wait.
///
/// # Errors
/// What the kernel says.
pub fn send(
    socket: &impl AsFd,
    to: Option<&SockAddr>,
    parts: &[IoSlice<'_>],
    control: &Control,
) -> io::Result<usize> {
    let mut message = MsgHdr::new().with_buffers(parts);
    if let Some(to) = to {
        message = message.with_addr(to);
    }
    if !control.as_bytes().is_empty() {
        message = message.with_control(control.as_bytes());
    }
    let socket = SockRef::from(socket);
    loop {
        match socket.sendmsg(&message, libc::MSG_NOSIGNAL) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            sent => return sent,
        }
    }
}

/// Sends messages in one call, each to its address, or to the address that the socket is connected to. Returns
/// how many the kernel has taken.
///
/// # Errors
/// The kernel's error for the first message.
pub fn send_many<'a>(
    socket: &impl AsFd,
    messages: impl IntoIterator<Item = (Option<&'a SockAddr>, &'a [IoSlice<'a>])>,
) -> io::Result<usize> {
    let header = |(to, parts): (Option<&SockAddr>, &[IoSlice<'_>])| {
        let mut message = empty_message();
        if let Some(to) = to {
            (message.msg_name, message.msg_namelen) = (to.as_ptr().cast_mut().cast(), to.len());
        }
        // An IoSlice has the layout of an iovec. The kernel does not write to what it sends.
        (message.msg_iov, message.msg_iovlen) = (parts.as_ptr().cast_mut().cast(), parts.len() as _);
        libc::mmsghdr { msg_hdr: message, msg_len: 0 }
    };
    let mut messages: Vec<_> = messages.into_iter().map(header).collect();
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: each message points at an address and at parts that outlive the call.
    // The type of its flags differs between glibc and musl.
    crate::checked(unsafe {
        libc::sendmmsg(fd, messages.as_mut_ptr(), messages.len() as u32, libc::MSG_NOSIGNAL as _)
    })
    .map(|sent| sent as usize)
}

/// The result of receiving a message.
#[derive(Debug, Default, Clone, Copy)]
pub struct Received {
    /// The number of bytes received.
    pub len: usize,
    /// Whether the message was longer than the room for it.
    pub is_truncated: bool,
    /// The sender of a message, where [`Scatter::receive`] received it.
    pub from: Option<SocketAddr>,
    pub ancillary: Ancillary,
}

/// Receives messages into parts that are in several places.
///
/// It keeps the list of parts for the kernel, which is empty between calls. Allocating the list for each call
/// would be as expensive as several small allocations.
#[derive(Default)]
pub struct Scatter(Vec<libc::iovec>);

// SAFETY: between calls the list is empty, so no pointer goes to another thread with it.
unsafe impl Send for Scatter {}

impl Scatter {
    /// Receives one message, scattered over `parts`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn receive<'a>(
        &mut self,
        socket: &impl AsFd,
        parts: impl IntoIterator<Item = &'a mut [u8]>,
    ) -> io::Result<Received> {
        self.0.extend(parts.into_iter().map(part));
        let mut control = ControlBuffer::EMPTY;
        let mut message = message_into(&mut self.0, &mut control);
        let mut address = SockAddrStorage::zeroed();
        (message.msg_name, message.msg_namelen) = (ptr::from_mut(&mut address).cast(), address.size_of());
        // SAFETY: the message points at the control buffer, the address and at parts that are borrowed until this function
        // returns.
        let len = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &mut message, 0) };
        let len = crate::checked_len(len);
        self.0.clear();
        let received = received(len?, &message, &control);
        // SAFETY: the kernel has written a socket address of this length.
        let from = unsafe { SockAddr::new(address, message.msg_namelen) };
        Ok(Received { from: from.as_socket(), ..received })
    }

    /// Receives messages that have arrived, each into the given number of parts. Calls `each` for each message.
    /// Returns their number, at most [`MAX_RECEIVED`].
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn receive_many<'a>(
        &mut self,
        socket: &impl AsFd,
        parts: impl IntoIterator<Item = &'a mut [u8]>,
        parts_each: usize,
        mut each: impl FnMut(usize, Received),
    ) -> io::Result<usize> {
        self.0.extend(parts.into_iter().map(part));
        let mut controls = [ControlBuffer::EMPTY; MAX_RECEIVED];
        let mut messages: Vec<_> = self
            .0
            .chunks_exact_mut(parts_each)
            .zip(&mut controls)
            .map(|(parts, control)| libc::mmsghdr { msg_hdr: message_into(parts, control), msg_len: 0 })
            .collect();
        let (fd, count) = (socket.as_fd().as_raw_fd(), messages.len() as u32);
        // SAFETY: as in `receive`, for each message.
        let taken = unsafe {
            libc::recvmmsg(fd, messages.as_mut_ptr(), count, libc::MSG_DONTWAIT as _, ptr::null_mut())
        };
        self.0.clear();
        let count = crate::checked(taken)? as usize;
        for (index, (message, control)) in messages.iter().zip(&controls).enumerate().take(count) {
            each(index, received(message.msg_len as usize, &message.msg_hdr, control));
        }
        Ok(count)
    }

    /// Receives messages that have arrived, each into one part, with their senders. A message that is longer than its part is cut,
    /// and its [`Received::len`] is the whole length. Calls `each` for each message. Returns their number, at most
    /// [`MAX_RECEIVED`].
    ///
    /// # Errors
    /// The error of the kernel; `WouldBlock` if no message has arrived.
    pub fn receive_many_from<'a>(
        &mut self,
        socket: &impl AsFd,
        parts: impl IntoIterator<Item = &'a mut [u8]>,
        mut each: impl FnMut(usize, Received),
    ) -> io::Result<usize> {
        self.0.extend(parts.into_iter().map(part));
        let mut controls = [ControlBuffer::EMPTY; MAX_RECEIVED];
        let mut addresses: [SockAddrStorage; MAX_RECEIVED] =
            std::array::from_fn(|_| SockAddrStorage::zeroed());
        let mut messages: Vec<_> = (self.0.chunks_exact_mut(1).zip(&mut controls).zip(&mut addresses))
            .map(|((parts, control), address)| {
                let mut message = message_into(parts, control);
                (message.msg_name, message.msg_namelen) = (ptr::from_mut(address).cast(), address.size_of());
                libc::mmsghdr { msg_hdr: message, msg_len: 0 }
            })
            .collect();
        let (fd, count) = (socket.as_fd().as_raw_fd(), messages.len() as u32);
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: as in `receive`, for each message.
        let taken = unsafe { libc::recvmmsg(fd, messages.as_mut_ptr(), count, flags as _, ptr::null_mut()) };
        self.0.clear();
        let count = crate::checked(taken)? as usize;
        let all = messages.iter().zip(&controls).zip(addresses).enumerate().take(count);
        for (index, ((message, control), address)) in all {
            // SAFETY: the kernel has written a socket address of this length.
            let from = unsafe { SockAddr::new(address, message.msg_hdr.msg_namelen) }.as_socket();
            each(index, Received { from, ..received(message.msg_len as usize, &message.msg_hdr, control) });
        }
        Ok(count)
    }
}

impl fmt::Debug for Scatter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scatter")
    }
}

/// Receives one message without waiting, and returns its sender.
///
/// # Errors
/// The error of the kernel; `WouldBlock` if no message has arrived.
pub fn receive_from(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<(SockAddr, Received)> {
    receive_with(socket, buffer, libc::MSG_DONTWAIT)
}

/// Takes an error off a socket's error queue ([`crate::option::hear_errors`]). Returns where the packet was to go, and the
/// number of the error.
///
/// # Errors
/// The error of the kernel; `WouldBlock` if the queue is empty.
pub fn receive_error(socket: &impl AsFd) -> io::Result<(SockAddr, Option<i32>)> {
    let (to, received) = receive_with(socket, &mut [0], libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)?;
    Ok((to, received.ancillary.error))
}

fn receive_with(socket: &impl AsFd, buffer: &mut [u8], flags: i32) -> io::Result<(SockAddr, Received)> {
    let mut control = ControlBuffer::EMPTY;
    let mut address = SockAddrStorage::zeroed();
    let mut part = part(buffer);
    let mut message = message_into(std::slice::from_mut(&mut part), &mut control);
    (message.msg_name, message.msg_namelen) = (ptr::from_mut(&mut address).cast(), address.size_of());
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the message points at the control buffer, the address and the buffer, which outlive the call.
    let len = crate::checked_len(unsafe { libc::recvmsg(fd, &mut message, flags) })?;
    // SAFETY: the kernel has written a socket address of this length.
    let from = unsafe { SockAddr::new(address, message.msg_namelen) };
    Ok((from, received(len, &message, &control)))
}

/// Room for the control messages of a received packet. The kernel writes those that fit, and says how many
/// bytes that is.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct ControlBuffer([u8; CONTROL_LEN]);

impl ControlBuffer {
    const EMPTY: Self = Self([0; CONTROL_LEN]);
}

fn received(len: usize, message: &libc::msghdr, control: &ControlBuffer) -> Received {
    let control = &control.0[..CONTROL_LEN.min(message.msg_controllen as _)];
    let is_truncated = message.msg_flags & libc::MSG_TRUNC != 0;
    Received { len, is_truncated, from: None, ancillary: Ancillary::read(control) }
}

fn part(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

fn message_into(parts: &mut [libc::iovec], control: &mut ControlBuffer) -> libc::msghdr {
    let mut message = empty_message();
    (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), parts.len() as _);
    (message.msg_control, message.msg_controllen) = (control.0.as_mut_ptr().cast(), CONTROL_LEN as _);
    message
}

/// A message with nothing in it. Its lengths are `usize` in glibc and shorter in musl, so they are converted with `as _`.
fn empty_message() -> libc::msghdr {
    // SAFETY: the header is plain data, for which zeroes are a value.
    unsafe { mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    fn pair() -> (UdpSocket, UdpSocket) {
        let (sender, receiver) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        receiver.set_nonblocking(true).unwrap();
        (sender, receiver)
    }

    #[test]
    fn parts_are_gathered_and_scattered() {
        let (sender, receiver) = pair();
        let to = SockAddr::from(receiver.local_addr().unwrap());
        let parts = [b"head".as_slice(), b"body", b"head", b"end"].map(IoSlice::new);
        let messages = parts.chunks(2).map(|parts| (Some(&to), parts));
        assert_eq!(send_many(&UdpSocket::bind("127.0.0.1:0").unwrap(), messages).unwrap(), 2);
        assert_eq!(send(&sender, None, &parts[..2], &Control::NONE).unwrap(), 8);

        let (mut scatter, mut heads, mut bodies) = (Scatter::default(), [[0; 4]; 3], [[0; 4]; 3]);
        let mut lens = Vec::new();
        let parts = heads.iter_mut().zip(&mut bodies).flat_map(|(head, body)| [&mut head[..], &mut body[..]]);
        let note = |index, received: Received| lens.push((index, received.len));
        scatter.receive_many(&receiver, parts, 2, note).unwrap();
        assert_eq!(lens, [(0, 8), (1, 7), (2, 8)]);
        assert_eq!((heads, &bodies[1]), ([*b"head"; 3], b"end\0"));
        let nothing = scatter.receive(&receiver, [&mut heads[0][..]]).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn many_messages_come_with_their_senders_and_lengths() {
        let (sender, receiver) = pair();
        for len in [3, 9, 0] {
            sender.send(&b"123456789"[..len]).unwrap();
        }
        let (mut scatter, mut buffers, mut told) = (Scatter::default(), [[0; 4]; 5], Vec::new());
        let parts = buffers.iter_mut().map(|buffer| &mut buffer[..]);
        let note = |index, it: Received| told.push((index, it.len, it.is_truncated, it.from));
        assert_eq!(scatter.receive_many_from(&receiver, parts, note).unwrap(), 3);
        let from = Some(sender.local_addr().unwrap());
        assert_eq!(told, [(0, 3, false, from), (1, 9, true, from), (2, 0, false, from)]);
        assert_eq!((&buffers[0][..3], &buffers[1]), (&b"123"[..], b"1234"));
    }

    #[test]
    fn an_error_says_where_the_packet_was_to_go() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let (sender, gone) = (UdpSocket::bind(any).unwrap(), UdpSocket::bind(any).unwrap());
            let to = gone.local_addr().unwrap();
            drop(gone);
            crate::option::hear_errors(&sender, to.is_ipv4()).unwrap();
            assert_eq!(receive_error(&sender).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            sender.send_to(b"anybody?", to).unwrap();
            let (refused, error) = receive_error(&sender).unwrap();
            assert_eq!((refused.as_socket(), error), (Some(to), Some(libc::ECONNREFUSED)));
        }
    }

    #[test]
    fn a_message_says_who_sent_it_and_whether_it_was_cut() {
        let (sender, receiver) = pair();
        send(&sender, None, &[IoSlice::new(b"12345")], &Control::NONE).unwrap();
        let mut buffer = [0; 3];
        let (from, received) = receive_from(&receiver, &mut buffer).unwrap();
        assert_eq!(from.as_socket(), Some(sender.local_addr().unwrap()));
        assert_eq!((received.len, received.is_truncated, &buffer), (3, true, b"123"));
    }
}
