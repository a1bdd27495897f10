//! The sockets of the load generator.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
};

use socket2::{Domain, Protocol, Socket, Type};
use treecast_host::{
    interface::Interface,
    option::{self, ToGroups},
};

use crate::config::RunConfig;

/// The wanted size of a receive buffer, in bytes. It holds half a second of 100,000 small packets per second.
const RECEIVE_BUFFER_BYTES: usize = 32 << 20;

/// Opens a socket that is connected to the group, by the interface.
pub fn open_sender(config: &RunConfig, interface: &Interface) -> io::Result<UdpSocket> {
    let socket = open(config.group)?;
    option::never_set_dont_fragment(&socket)?;
    let (hop_limit, loops_back) = (config.hops.into(), config.loops_back);
    option::send_to_groups(&socket, ToGroups { interface: interface.index, hop_limit, loops_back })?;
    socket.connect(&option::scoped(config.group, interface.index).into())?;
    Ok(socket.into())
}

/// Opens a socket that hears the group. Returns it with a warning if its buffer is smaller than wanted.
pub fn open_receiver(config: &RunConfig, interface: &Interface) -> io::Result<(UdpSocket, Option<String>)> {
    let socket = open(config.group)?;
    socket.set_reuse_address(true)?;
    socket.bind(&option::scoped(config.group, interface.index).into())?;
    option::hear_only_own_groups(&socket)?;
    option::set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    option::set(&socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)?;
    let warning = option::grow_receive_buffer(&socket, RECEIVE_BUFFER_BYTES)?.warning;
    let sources: Vec<Option<IpAddr>> = match config.sources.is_empty() {
        true => vec![None],
        false => config.sources.iter().copied().map(Some).collect(),
    };
    for source in sources {
        option::join(&socket, config.group.ip(), source, interface.index)?;
    }
    Ok((socket.into(), warning))
}

fn open(group: SocketAddr) -> io::Result<Socket> {
    Socket::new(Domain::for_address(group), Type::DGRAM, Some(Protocol::UDP))
}
