//! The sockets of a beacon.

use std::{io, net::SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use treecast_host::{
    interface::Interface,
    option::{self, ToGroups},
};

/// The size of the receive buffer in bytes. It holds a second of packets of 256 beacons.
const BUFFER_BYTES: usize = 1 << 20;

/// One socket that has joined the group, and one that sends to it.
pub struct Sockets {
    pub receiver: Socket,
    sender: Socket,
    group: SocketAddr,
}

impl Sockets {
    pub fn open(group: SocketAddr, interface: &Interface, hop_limit: u8) -> io::Result<Self> {
        let group = option::scoped(group, interface.index);
        let receiver = open_receiver(group, interface.index)?;
        let sender = Socket::new(Domain::for_address(group), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        let (interface, hop_limit) = (interface.index, u32::from(hop_limit));
        option::send_to_groups(&sender, ToGroups { interface, hop_limit, loops_back: true })?;
        Ok(Self { receiver, sender, group })
    }

    /// Sends a packet to the group. One that cannot be sent counts as lost for all who do not hear it.
    pub fn send(&self, packet: &[u8]) {
        let _ = self.sender.send_to(packet, &self.group.into());
    }
}

fn open_receiver(group: SocketAddr, interface: u32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(group), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    // Several beacons of a host share the port.
    socket.set_reuse_address(true)?;
    option::set_buffer(&socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, BUFFER_BYTES)?;
    option::set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    option::hear_only_own_groups(&socket)?;
    option::receive_hop_limit(&socket)?;
    socket.bind(&group.into())?;
    option::join(&socket, group.ip(), None, interface)?;
    Ok(socket)
}
