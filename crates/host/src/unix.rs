//! Unix sockets: the peer's process and user, and passing open descriptors. Also descriptors that a service
//! manager passes.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
};

use rustix::{
    cmsg_space,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
        SendFlags, recvmsg, sendmsg,
    },
};

use socket2::{Domain, SockAddr, Socket, Type};

use crate::option;

/// The largest number of descriptors that are passed at once.
const MAX_DESCRIPTORS: usize = 64;

/// The largest number of bytes that accompany descriptors.
const MAX_BYTES: usize = 64;

/// The process and user at the other end of a Unix socket. For a connection to a listener, that is the process
/// that began to listen.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// The process' number; 0 when this process cannot see it.
    pub process: i32,
    /// The user's number.
    pub user: u32,
}

/// The process and user at the other end of a Unix socket.
pub fn peer(stream: &impl AsFd) -> io::Result<Peer> {
    // SAFETY: the structure is of three numbers.
    let peer: libc::ucred = unsafe { option::get(stream, libc::SOL_SOCKET, libc::SO_PEERCRED) }?;
    Ok(Peer { process: peer.pid, user: peer.uid })
}

/// Connects to an abstract Unix socket without waiting. The error is [`io::ErrorKind::WouldBlock`] if its
/// listener does not accept connections.
pub fn connect_at_once(abstract_name: &str) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
    socket.connect(&SockAddr::unix(format!("\0{abstract_name}"))?)?;
    socket.set_nonblocking(false)?;
    Ok(OwnedFd::from(socket).into())
}

/// Sends bytes, at least one, and copies of open descriptors over a Unix socket.
pub fn send_descriptors(socket: &impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let is_good = descriptors.len() <= MAX_DESCRIPTORS;
    if !is_good || !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for what [`send_descriptors`] has sent, and receives it: at most 64 bytes, and as many descriptors as
/// fit.
pub fn receive_descriptors(socket: &impl AsFd) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = vec![0; MAX_BYTES];
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received = recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            descriptors.extend(passed);
        }
    }
    bytes.truncate(received.bytes);
    Ok((bytes, descriptors))
}

/// The descriptors that a service manager has passed to this process, with the names that it gives them
/// (sd_listen_fds(3)). May be called only once.
pub fn passed_descriptors() -> Vec<(String, OwnedFd)> {
    const FIRST: RawFd = 3;
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u32>().ok());
    if number("LISTEN_PID") != Some(std::process::id()) {
        return Vec::new();
    }
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let descriptors = (FIRST..).take(number("LISTEN_FDS").unwrap_or(0) as usize);
    let own = descriptors.zip(names.split(':')).map(|(descriptor, name)| {
        // SAFETY: the manager has opened it for this process, and nobody else here uses it: this is called once.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        // It stays inheritable only when it is no descriptor.
        _ = rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC);
        (name.to_owned(), descriptor)
    });
    own.collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::user;

    #[test]
    fn descriptors_come_over_and_so_does_who_sent_them() {
        let (near, far) = UnixStream::pair().unwrap();
        let (passed, mut other) = UnixStream::pair().unwrap();
        send_descriptors(&near, b"one", &[passed.as_fd()]).unwrap();
        let (bytes, mut descriptors) = receive_descriptors(&far).unwrap();
        assert_eq!((bytes.as_slice(), descriptors.len()), (&b"one"[..], 1));
        drop(passed);
        other.write_all(b"x").unwrap();
        let mut read = [0];
        io::Read::read_exact(&mut UnixStream::from(descriptors.remove(0)), &mut read).unwrap();
        assert_eq!(read, *b"x");
        let peer = peer(&far).unwrap();
        assert_eq!((peer.process, peer.user), (std::process::id() as i32, user::effective()));
        let many = vec![near.as_fd(); MAX_DESCRIPTORS + 1];
        assert_eq!(send_descriptors(&near, b"x", &many).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
