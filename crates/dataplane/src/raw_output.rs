//! Sends finished IPv6 packets: the kernel finds their route, and changes nothing in them.

use std::{
    io,
    net::{SocketAddr, SocketAddrV6},
};

use socket2::Socket;
use treecast_host::raw;
use treecast_wire::ipv6;

/// The most bytes that wait to leave. Beyond it, packets are lost as on a link.
const BUFFER_BYTES: usize = 4 << 20;

pub struct RawOutput(Socket);

impl RawOutput {
    pub fn open() -> io::Result<Self> {
        let socket = raw::open_ipv6_packets()?;
        socket.set_send_buffer_size(BUFFER_BYTES)?;
        Ok(Self(socket))
    }

    /// Sends a packet. A packet to a group leaves by this interface, if one is named.
    ///
    /// # Errors
    /// If the packet was not sent.
    pub fn send(&self, packet: &[u8], interface: Option<u32>) -> io::Result<()> {
        let (ip, _) = ipv6::Header::parse_start(packet).map_err(io::Error::other)?;
        if let Some(interface) = interface {
            self.0.set_multicast_if_v6(interface)?;
        }
        let to = SocketAddr::V6(SocketAddrV6::new(ip.destination, 0, 0, 0));
        self.0.send_to(packet, &to.into()).map(drop)
    }
}
