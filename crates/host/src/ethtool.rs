//! What a network card does with packets as they arrive, by the ioctl of ethtool.

use std::{io, net::UdpSocket, os::fd::AsRawFd};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
/// Asks whether generic receive offload is on.
const ETHTOOL_GGRO: u32 = 0x2b;
/// Asks for the flags of a card.
const ETHTOOL_GFLAGS: u32 = 0x25;
/// The flag of large receive offload.
const ETH_FLAG_LRO: u32 = 1 << 15;

/// How an interface joins packets as they arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveOffloads {
    /// Generic receive offload: the kernel joins packets, and can divide them again. Super-packets of UDP need it.
    pub gro: bool,
    /// Large receive offload: the card joins packets of TCP, and nobody can divide them again.
    pub lro: bool,
}

/// The receive offloads of an interface.
///
/// # Errors
/// If there is no such interface, or its driver does not tell.
pub fn receive_offloads(interface: &str) -> io::Result<ReceiveOffloads> {
    let socket = UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))
        .or_else(|_| UdpSocket::bind((std::net::Ipv6Addr::LOCALHOST, 0)))?;
    let gro = ask(&socket, interface, ETHTOOL_GGRO)? != 0;
    let lro = ask(&socket, interface, ETHTOOL_GFLAGS)? & ETH_FLAG_LRO != 0;
    Ok(ReceiveOffloads { gro, lro })
}

/// `struct ethtool_value`.
#[repr(C)]
struct Question {
    command: u32,
    value: u32,
}

fn ask(socket: &UdpSocket, interface: &str, command: u32) -> io::Result<u32> {
    let mut question = Question { command, value: 0 };
    let mut name = [0; libc::IFNAMSIZ];
    // The last byte stays 0.
    if interface.len() >= name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    name.iter_mut().zip(interface.bytes()).for_each(|(to, byte)| *to = byte as libc::c_char);
    let data = libc::__c_anonymous_ifr_ifru { ifru_data: (&raw mut question).cast() };
    let mut request = libc::ifreq { ifr_name: name, ifr_ifru: data };
    // SAFETY: the request and the question that it points to live until the call returns. The kernel reads and writes one
    // `struct ethtool_value` for these commands.
    crate::checked(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) })?;
    Ok(question.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_tells_its_receive_offloads_and_a_missing_one_is_an_error() {
        // The loopback has GRO since Linux 2.6.29.
        assert_eq!(receive_offloads("lo").unwrap(), ReceiveOffloads { gro: true, lro: false });
        assert!(receive_offloads("no-such-if").is_err());
        assert!(receive_offloads("a name that is too long").is_err());
    }
}
