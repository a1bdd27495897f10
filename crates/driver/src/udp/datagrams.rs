//! Receiving datagrams of any format, super-packets told apart, each with who sent it.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
};

use treecast_host::messages;

use super::{Offload, Spare, collector::DropCounter};
use treecast_host::option;

/// The longest UDP payload, and so the longest super-packet.
const MAX_DATAGRAM_LEN: usize = 65_535;

/// Receives into a buffer of its own; what is to be kept is copied from there.
#[derive(Debug)]
pub struct DatagramReceiver {
    socket: UdpSocket,
    offload: Offload,
    buffer: Box<[u8]>,
    dropped: DropCounter,
}

impl DatagramReceiver {
    /// Takes over a socket, which stays as blocking for sending as it is; with [`Offload::SuperPackets`]
    /// the kernel joins datagrams unless it cannot.
    pub fn new(socket: UdpSocket, offload: Offload) -> Self {
        if offload == Offload::SuperPackets {
            // Without it datagrams come one by one, which works as well.
            let _ = option::set(&socket, libc::SOL_UDP, libc::UDP_GRO, 1);
        }
        let _ = option::set(&socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
        Self { socket, offload, buffer: vec![0; MAX_DATAGRAM_LEN].into(), dropped: DropCounter::default() }
    }

    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Makes another socket ready for [`Self::swap`].
    ///
    /// # Errors
    /// When the socket cannot be made nonblocking.
    pub(crate) fn prepare(&self, socket: UdpSocket) -> io::Result<Spare> {
        socket.set_nonblocking(true)?;
        Ok(Spare::new(Self::new(socket, self.offload).socket))
    }

    /// Receives from the other socket from now on, and keeps this one's place in `spare`.
    pub(crate) fn swap(&mut self, spare: &mut Spare) {
        spare.swap(&mut self.socket, &mut self.dropped);
    }

    /// Datagrams that the kernel has dropped at this socket so far because its buffer was full, as far as
    /// one received since has told.
    pub fn dropped(&self) -> u64 {
        self.dropped.total
    }

    /// Takes what one call to the kernel yields and hands each datagram in it to `each`, with its source.
    /// Returns false when nothing is there.
    ///
    /// # Errors
    /// What the kernel says, other than that nothing is there or nobody listened where this socket
    /// has sent to.
    pub fn receive(&mut self, mut each: impl FnMut(SocketAddr, &[u8])) -> io::Result<bool> {
        loop {
            match messages::receive_from(&self.socket, &mut self.buffer) {
                Ok((from, messages::Received { len, ancillary, .. })) => {
                    self.dropped.note(ancillary);
                    let Some(from) = from.as_socket() else { return Ok(true) };
                    let segment_len = ancillary.segment_len.unwrap_or(len).max(1);
                    if len == 0 {
                        each(from, &[]);
                    }
                    self.buffer[..len].chunks(segment_len).for_each(|datagram| each(from, datagram));
                    return Ok(true);
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(false),
                    Some(libc::EINTR | libc::ECONNREFUSED) => {}
                    _ => return Err(error),
                },
            }
        }
    }
}
