//! Finds a sender of a group by listening to the link.

use std::{
    io::Read,
    net::IpAddr,
    time::{Duration, Instant},
};

use treecast_host::{interface::Interface, packet};
use treecast_wire::ipv6::next_header::UDP;

use crate::packet::Packet;

/// The time for which packets of the group are awaited.
const PATIENCE: Duration = Duration::from_secs(3);

/// The source of the next UDP packet of another host to the group on this link. `None`: no packet came, or this user
/// may not look. Packets of other protocols are those of listeners: IGMPv2 and MLDv1 report to the group itself.
pub fn listen(interface: &Interface, group: IpAddr, is_stopped: &dyn Fn() -> bool) -> Option<IpAddr> {
    let mut socket = packet::open(interface.index, packet::ALL_TYPES).ok()?;
    let until = Instant::now() + PATIENCE;
    let mut frame = [0; 128];
    while Instant::now() < until && !is_stopped() {
        match socket.read(&mut frame) {
            Ok(len) => {
                let packet = Packet::in_frame(&frame[..len], interface.is_ethernet);
                let is_sent = |packet: &Packet| {
                    packet.protocol == UDP
                        && packet.destination == group
                        && !interface.addresses.contains(&packet.source)
                };
                if let Some(packet) = packet.filter(is_sent) {
                    return Some(packet.source);
                }
            }
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
    None
}
