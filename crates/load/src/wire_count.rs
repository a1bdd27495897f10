//! Counts the data packets that leave by an interface, by a packet socket.
//!
//! The kernel counts the frames that pass the socket's filter, whether or not they find room in its buffer. So nothing is read,
//! and sending is hardly slower.

use std::{io, net::SocketAddr};

use socket2::{SockFilter, Socket};
use treecast_host::{
    classic_bpf::{AND, JUMP_EQUAL, LOAD_BYTE, LOAD_HALF, LOAD_WORD, RETURN},
    packet,
};

use crate::packet::Format;

/// The beginning of the network header, whatever the link-layer header is (`SKF_NET_OFF`).
const NETWORK: u32 = -0x10_0000_i32 as u32;
/// The place of the packet's type: for this host, leaving, and so on (`SKF_AD_OFF + SKF_AD_PKTTYPE`).
const PACKET_TYPE: u32 = (-0x1000_i32 + 4) as u32;
const LEAVING: u32 = libc::PACKET_OUTGOING as u32;
const UDP: u32 = libc::IPPROTO_UDP as u32;

/// Counts packets to a group from now on.
#[derive(Debug)]
pub struct WireCount(Socket);

impl WireCount {
    /// Begins to count.
    ///
    /// # Errors
    /// If this user may not open packet sockets.
    pub fn begin(interface: u32, group: SocketAddr, format: Format) -> io::Result<Self> {
        let socket = packet::open(interface, packet::NOTHING)?;
        socket.attach_filter(&filter(group, format))?;
        socket.set_recv_buffer_size(0)?;
        packet::bind(&socket, interface, packet::ALL_TYPES)?;
        packet::take_count(&socket)?;
        Ok(Self(socket))
    }

    /// The number of packets that have left.
    pub fn end(self) -> io::Result<u64> {
        packet::take_count(&self.0).map(u64::from)
    }
}

/// A comparison of the filter: how to load a number, from where, the bits that count, and the number.
type Check = (u16, u32, u32, u32);

/// Accepts packets that leave for the group and its port. Of our format, it accepts only data packets. Of a packet that was divided, it
/// accepts the first part.
fn filter(group: SocketAddr, format: Format) -> Vec<SockFilter> {
    let word = |octets: &[u8]| u32::from_be_bytes([octets[0], octets[1], octets[2], octets[3]]);
    let mut checks: Vec<Check> = vec![(LOAD_WORD, PACKET_TYPE, u32::MAX, LEAVING)];
    let transport = match group {
        SocketAddr::V4(v4) => {
            // Version and header length, no offset of a fragment, protocol, destination.
            checks.push((LOAD_BYTE, NETWORK, u32::MAX, 0x45));
            checks.push((LOAD_HALF, NETWORK + 6, 0x1fff, 0));
            checks.push((LOAD_BYTE, NETWORK + 9, u32::MAX, UDP));
            checks.push((LOAD_WORD, NETWORK + 16, u32::MAX, word(&v4.ip().octets())));
            20
        }
        SocketAddr::V6(v6) => {
            checks.push((LOAD_BYTE, NETWORK, 0xf0, 0x60));
            checks.push((LOAD_BYTE, NETWORK + 6, u32::MAX, UDP));
            let octets = v6.ip().octets();
            let words = (0..4_u32).map(|at| (at, word(&octets[at as usize * 4..])));
            checks.extend(words.map(|(at, word)| (LOAD_WORD, NETWORK + 24 + at * 4, u32::MAX, word)));
            40
        }
    };
    checks.push((LOAD_HALF, NETWORK + transport + 2, u32::MAX, group.port().into()));
    if format == Format::Own {
        checks.push((LOAD_BYTE, NETWORK + transport + 8 + 3, u32::MAX, u32::from(b'D')));
    }
    let step = SockFilter::new;
    let mut steps = Vec::new();
    for (left, (load, at, mask, value)) in
        checks.iter().enumerate().map(|(index, it)| (checks.len() - 1 - index, it))
    {
        // Three steps for each further check, and one to accept, lie before the step that refuses.
        let refuse = (left * 3 + 1) as u8;
        steps.push(step(*load, 0, 0, *at));
        steps.push(step(AND, 0, 0, *mask));
        steps.push(step(JUMP_EQUAL, 0, refuse, *value));
    }
    steps.push(step(RETURN, 0, 0, 1));
    steps.push(step(RETURN, 0, 0, 0));
    steps
}
