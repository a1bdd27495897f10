//! Sockets for whole frames, to put MEADcast packets on a link and to look at those that pass.

use std::{ffi::CString, io, mem, os::fd::AsRawFd};

use socket2::{Domain, Protocol, Socket, Type};

/// Sends frames out of an interface and sees all of it that pass there, whatever an eBPF program then does with them. Before
/// each stands a struct `virtio_net_hdr`.
pub fn packet_socket(interface: &str) -> Socket {
    const PACKET_VNET_HDR: i32 = 15;
    let protocol = (libc::ETH_P_ALL as u16).to_be();
    let socket =
        Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(i32::from(protocol)))).expect("root may");
    let name = CString::new(interface).expect("a name");
    let on: libc::c_int = 1;
    // SAFETY: pointers and lengths are those of live values of plain bytes.
    unsafe {
        let len = mem::size_of_val(&on) as u32;
        let on = (&raw const on).cast();
        let set = libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, PACKET_VNET_HDR, on, len);
        let mut address: libc::sockaddr_ll = mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
        let len = mem::size_of_val(&address) as u32;
        let bound = libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len);
        assert_eq!((set, bound), (0, 0), "{}", io::Error::last_os_error());
    }
    socket
}
