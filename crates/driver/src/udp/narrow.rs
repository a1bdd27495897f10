//! Hosts whose path is too narrow for the session's packets, according to routes or to routers' messages (RFC
//! 1191, RFC 8201). The kernel sends fragments to them, and accepts no super-packets for them. Other hosts
//! still get super-packets.

use std::{
    collections::BTreeMap,
    mem,
    net::{IpAddr, SocketAddr},
};

use socket2::SockAddr;
use treecast_wire::ipv6;

use super::open::unspecified;
use treecast_host::offload::UDP_HEADER_LEN;
use treecast_host::option;

/// The most hosts that are remembered: more than a session has receivers. Beyond it, all are looked at anew.
const MAX_HOSTS: usize = 20_000;

const IPV4_HEADER_LEN: usize = 20;

/// A host, and what fits on the way to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NarrowWay {
    pub to: IpAddr,
    /// Length of the longest IP packet that fits, in bytes.
    pub mtu_bytes: usize,
    /// The length of the packets that were to be sent.
    pub packet_bytes: usize,
}

#[derive(Debug, Default)]
pub(super) struct NarrowWays {
    mtu_bytes: BTreeMap<IpAddr, usize>,
    untold: Vec<NarrowWay>,
}

impl NarrowWays {
    /// Whether datagrams of this length are known not to fit on the path to `to`.
    pub fn contains(&self, to: &SockAddr, datagram_len: usize) -> bool {
        if self.mtu_bytes.is_empty() {
            return false;
        }
        let Some(to) = to.as_socket().map(|to| to.ip()) else { return false };
        self.mtu_bytes.get(&to).is_some_and(|mtu| *mtu < packet_bytes(to, datagram_len))
    }

    /// Asks the kernel whether a datagram fits. The kernel forgets a path's MTU after a while, but routers
    /// would only report it again.
    pub fn note(&mut self, to: &SockAddr, datagram_len: usize) -> bool {
        let Some(to) = to.as_socket() else { return false };
        let packet_bytes = packet_bytes(to.ip(), datagram_len);
        let Some(mtu_bytes) = path_mtu(to).filter(|mtu| *mtu < packet_bytes) else { return false };
        if self.mtu_bytes.len() >= MAX_HOSTS {
            self.mtu_bytes.clear();
        }
        if self.mtu_bytes.insert(to.ip(), mtu_bytes).is_none() {
            self.untold.push(NarrowWay { to: to.ip(), mtu_bytes, packet_bytes });
        }
        true
    }

    pub fn take_untold(&mut self) -> Vec<NarrowWay> {
        mem::take(&mut self.untold)
    }
}

fn packet_bytes(to: IpAddr, datagram_len: usize) -> usize {
    let header_len = if to.is_ipv4() { IPV4_HEADER_LEN } else { ipv6::HEADER_LEN };
    header_len + UDP_HEADER_LEN + datagram_len
}

fn path_mtu(to: SocketAddr) -> Option<usize> {
    let any = SocketAddr::new(unspecified(to.ip()), 0);
    Some(option::path_mtu(any, to).ok()? as usize)
}
