//! Receives datagrams of any format, each with its sender. Super-packets are divided.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
};

use treecast_host::messages;

use super::{Offload, Spare, collector::DropCounter};
use treecast_host::option;

/// The longest UDP payload, and so the longest super-packet.
const MAX_DATAGRAM_LEN: usize = 65_535;

/// A receiver of datagrams with a buffer of its own. The caller copies what it keeps.
#[derive(Debug)]
pub struct DatagramReceiver {
    socket: UdpSocket,
    offload: Offload,
    buffer: Box<[u8]>,
    dropped: DropCounter,
}

impl DatagramReceiver {
    /// Creates a receiver for a socket, whose blocking mode for sending does not change. With
    /// [`Offload::SuperPackets`], the kernel joins datagrams if it can.
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
    /// If the socket cannot be made nonblocking.
    pub(crate) fn prepare(&self, socket: UdpSocket) -> io::Result<Spare> {
        socket.set_nonblocking(true)?;
        Ok(Spare::new(Self::new(socket, self.offload).socket))
    }

    /// Receives from the other socket from now on, and keeps this one's place in `spare`.
    pub(crate) fn swap(&mut self, spare: &mut Spare) {
        spare.swap(&mut self.socket, &mut self.dropped);
    }

    /// The number of datagrams that the kernel has dropped at this socket because its buffer was full, as
    /// reported by a datagram received since.
    pub fn dropped(&self) -> u64 {
        self.dropped.total
    }

    /// Receives what one call to the kernel yields, and calls `each` for each datagram with its source. Returns
    /// false if there is nothing.
    ///
    /// # Errors
    /// The error of the kernel. It is no error if nobody listened where this socket has sent to.
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
