//! A raw ICMPv6 socket as MLD wants it.

use std::{io, net::IpAddr};

use socket2::Socket;
use treecast_proto::membership::Message;
use treecast_wire::mld;

use crate::sys;

const ICMP6_FILTER: i32 = 1;

/// Padding, router alert for MLD (RFC 2711), padding; the kernel fills in the next header.
const HOP_BY_HOP_ROUTER_ALERT: [u8; 8] = [0, 0, 5, 2, 0, 0, 1, 0];

/// What leaves has a hop limit of 1 and the router alert; what comes in is of these ICMPv6 types alone.
pub fn configure(socket: &Socket, types: &[u8]) -> io::Result<()> {
    sys::set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, &1_i32)?;
    sys::set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS, &HOP_BY_HOP_ROUTER_ALERT)?;
    sys::set_option(socket, libc::IPPROTO_ICMPV6, ICMP6_FILTER, &filter(types))?;
    socket.set_nonblocking(true)
}

/// Sends a message of a router from its address on a link.
pub fn send(socket: &Socket, interface: u32, source: IpAddr, message: &Message) -> io::Result<()> {
    let Some(message) = message.to_mld() else { return Ok(()) };
    let destination = match &message {
        mld::Message::Query(query) => query.group.unwrap_or(mld::ALL_NODES),
        mld::Message::Report(_) => mld::REPORT_DESTINATION,
        mld::Message::ReportV1(body) => body.group.unwrap_or(mld::ALL_NODES),
        mld::Message::DoneV1(_) => mld::ALL_ROUTERS,
        _ => mld::ALL_SNOOPERS,
    };
    sys::send(socket, interface, source, destination.into(), &message.to_bytes())
}

/// struct icmp6_filter, in which a set bit blocks its type.
fn filter(types: &[u8]) -> [u32; 8] {
    let mut blocked = [u32::MAX; 8];
    for kind in types {
        blocked[usize::from(kind >> 5)] &= !(1 << (kind & 31));
    }
    blocked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_passes_what_can_be_parsed() {
        let filter = filter(&mld::Message::TYPES);
        let passes = |kind: u8| filter[usize::from(kind >> 5)] >> (kind & 31) & 1 == 0;
        assert!(mld::Message::TYPES.into_iter().all(passes));
        assert_eq!((0..=255).filter(|kind| passes(*kind)).count(), mld::Message::TYPES.len());
    }
}
