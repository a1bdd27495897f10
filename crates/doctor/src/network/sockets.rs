//! The UDP sockets of a host of a run.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

use socket2::{Domain, Protocol, Socket, Type};
use treecast_host::{
    interface::Interface,
    option::{self, ToGroups},
};

/// The receive buffer that is asked for, in bytes. It holds the fastest burst of a run.
pub const BUFFER_BYTES: usize = 4 << 20;

/// The sockets of a host: one of each family, bound to the doctor's port.
pub struct Sockets {
    pub v4: Option<UdpSocket>,
    pub v6: Option<UdpSocket>,
}

impl Sockets {
    /// Opens the sockets. A family that the host lacks has none.
    ///
    /// # Errors
    /// If neither family can be used, for example because another program has the port.
    pub fn open(interface: &Interface, port: u16) -> io::Result<Self> {
        let v4 = open(interface, (Ipv4Addr::UNSPECIFIED, port).into());
        let v6 = open(interface, (Ipv6Addr::UNSPECIFIED, port).into());
        match (v4, v6) {
            (Err(error), Err(_)) => Err(error),
            (Err(error), _) | (_, Err(error)) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
            (v4, v6) => Ok(Self { v4: v4.ok(), v6: v6.ok() }),
        }
    }

    /// Sockets that share these ones' state.
    pub fn try_clone(&self) -> io::Result<Self> {
        let [v4, v6] = [&self.v4, &self.v6].map(|it| it.as_ref().map(UdpSocket::try_clone).transpose());
        Ok(Self { v4: v4?, v6: v6? })
    }

    /// The sockets of all families that the host has.
    pub fn both(&self) -> impl Iterator<Item = &UdpSocket> {
        [&self.v4, &self.v6].into_iter().flatten()
    }

    /// The socket of an address's family.
    pub fn of(&self, address: IpAddr) -> Option<&UdpSocket> {
        if address.is_ipv4() { self.v4.as_ref() } else { self.v6.as_ref() }
    }

    /// The socket that sends to an address.
    pub fn towards(&self, address: IpAddr) -> io::Result<&UdpSocket> {
        self.of(address).ok_or_else(|| io::Error::other("this host lacks the address family"))
    }
}

/// Opens the socket of the address's family. Each round of probes sets a hop limit of its own.
fn open(interface: &Interface, address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    option::hear_only_own_groups(&socket)?;
    option::receive_hop_limit(&socket)?;
    let to_groups = ToGroups { interface: interface.index, hop_limit: 1, loops_back: false };
    option::send_to_groups(&socket, to_groups)?;
    option::set_buffer(&socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, BUFFER_BYTES)?;
    socket.bind(&address.into())?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}
