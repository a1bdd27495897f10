//! Sockets for whole frames, to put MEADcast packets on a link and to look at those that pass.

use socket2::Socket;
use treecast_host::{interface::index_of, packet};

/// Sends frames out of an interface and sees all of it that pass there, whatever an eBPF program then does with them. Before
/// each stands a struct `virtio_net_hdr`.
pub fn packet_socket(interface: &str) -> Socket {
    let index = index_of(interface).expect("it is there");
    let socket = packet::open_for_forwarding(index).expect("root may");
    socket.set_nonblocking(false).expect("a socket can wait");
    socket
}
