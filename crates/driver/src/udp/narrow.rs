//! Hosts on the way to which less fits than is to be sent, as routers have told the kernel (RFC 8201). It sends them
//! fragments, and takes no super-packets for them; others need not do without.

use std::{
    collections::BTreeMap,
    mem,
    net::{Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket},
};

use socket2::SockAddr;
use treecast_wire::ipv6;

use super::option;

/// More than a session has receivers. Beyond it, all are looked at anew.
const MAX_HOSTS: usize = 20_000;

const UDP_HEADER_LEN: usize = 8;

/// A host, and what fits on the way to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NarrowWay {
    pub to: Ipv6Addr,
    /// Of IPv6 packets.
    pub mtu_bytes: usize,
    /// How long packets were to be.
    pub packet_bytes: usize,
}

#[derive(Debug, Default)]
pub(super) struct NarrowWays {
    mtu_bytes: BTreeMap<Ipv6Addr, usize>,
    untold: Vec<NarrowWay>,
}

impl NarrowWays {
    /// Whether it is known that datagrams of so many bytes do not fit on the way to `to`.
    pub fn contains(&self, to: &SockAddr, datagram_len: usize) -> bool {
        let known = || self.mtu_bytes.get(to.as_socket_ipv6()?.ip()).copied();
        !self.mtu_bytes.is_empty() && known().is_some_and(|mtu| mtu < packet_bytes(datagram_len))
    }

    /// Looks whether that is so. What the kernel has learned of a way, it forgets after a while, but routers would only tell it again.
    pub fn note(&mut self, to: &SockAddr, datagram_len: usize) -> bool {
        let Some(to) = to.as_socket_ipv6() else { return false };
        let packet_bytes = packet_bytes(datagram_len);
        let Some(mtu_bytes) = path_mtu(to).filter(|mtu| *mtu < packet_bytes) else { return false };
        if self.mtu_bytes.len() >= MAX_HOSTS {
            self.mtu_bytes.clear();
        }
        if self.mtu_bytes.insert(*to.ip(), mtu_bytes).is_none() {
            self.untold.push(NarrowWay { to: *to.ip(), mtu_bytes, packet_bytes });
        }
        true
    }

    pub fn take_untold(&mut self) -> Vec<NarrowWay> {
        mem::take(&mut self.untold)
    }
}

fn packet_bytes(datagram_len: usize) -> usize {
    ipv6::HEADER_LEN + UDP_HEADER_LEN + datagram_len
}

/// Sends nothing.
fn path_mtu(to: SocketAddrV6) -> Option<usize> {
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(SocketAddr::V6(to)).ok()?;
    Some(option::path_mtu(&socket).ok()? as usize)
}
