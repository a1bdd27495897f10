//! Finds the frame header that takes a packet to its next hop, by the kernel's own routes and neighbours
//! (rtnetlink(7)).
//!
//! Super-packets leave by a packet socket. The kernel neither routes its packets nor resolves neighbours for
//! it. So the kernel is asked five times a second: for the route of each destination, and for the Ethernet
//! addresses of each next hop, of which there are few. Once in ten seconds a packet is left to the kernel, so
//! that the kernel notices when a neighbour has gone.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv6Addr},
    time::{Duration, Instant},
};

use treecast_host::netlink::Netlink;

/// The time for which an answer is good. When a route changes, packets leave by it well within the half second that a
/// receiver may hear nothing.
const GOOD: Duration = Duration::from_millis(200);

/// Time between two packets that go the kernel's own way.
const OWN_WAY: Duration = Duration::from_secs(10);

/// The most destinations that are kept, which is more than any group has. Beyond it, all are asked for again.
const MAX_WAYS: usize = 65_536;

pub(super) const ETHERNET_LEN: usize = 14;

const IPV6_ETHERTYPE: [u8; 2] = [0x86, 0xdd];

/// The interface by which a frame leaves, and the frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hop {
    pub interface: u32,
    pub ethernet: [u8; ETHERNET_LEN],
}

#[derive(Debug)]
struct Destination {
    asked: Instant,
    left_to_kernel: Instant,
    hop: Option<Hop>,
}

#[derive(Debug)]
pub(super) struct Neighbours {
    netlink: Netlink,
    /// The interface by which packets must leave. `None`: the interface to which routes lead.
    interface: Option<u32>,
    ways: BTreeMap<Ipv6Addr, Destination>,
    /// Known frames, by interface and next hop, and when they were asked for.
    hops: BTreeMap<(u32, Ipv6Addr), (Instant, Hop)>,
}

impl Neighbours {
    pub fn open(interface: Option<u32>) -> io::Result<Self> {
        Ok(Self { netlink: Netlink::open()?, interface, ways: BTreeMap::new(), hops: BTreeMap::new() })
    }

    /// The next hop to `destination`. `None` if the kernel must find it.
    pub fn towards(&mut self, now: Instant, destination: Ipv6Addr) -> Option<Hop> {
        if self.ways.len().max(self.hops.len()) >= MAX_WAYS {
            self.ways.clear();
            self.hops.clear();
        }
        let known = self.ways.get(&destination);
        if let Some(way) = known.filter(|way| now < way.asked + GOOD && now < way.left_to_kernel + OWN_WAY) {
            return way.hop;
        }
        let is_left = known.is_none_or(|way| now >= way.left_to_kernel + OWN_WAY);
        let left_to_kernel = known.filter(|_| !is_left).map_or(now, |way| way.left_to_kernel);
        let hop = self.ask(now, destination).ok().flatten();
        self.ways.insert(destination, Destination { asked: now, left_to_kernel, hop });
        hop.filter(|_| !is_left)
    }

    fn ask(&mut self, now: Instant, destination: Ipv6Addr) -> io::Result<Option<Hop>> {
        let Some(by) = self.next_hop(destination)? else { return Ok(None) };
        if let Some((_, hop)) = self.hops.get(&by).filter(|(asked, _)| now < *asked + GOOD) {
            return Ok(Some(*hop));
        }
        let hop = self.frame_to(by)?;
        // One that is not known yet may be in a moment.
        if let Some(hop) = hop {
            self.hops.insert(by, (now, hop));
        }
        Ok(hop)
    }

    /// The interface by which packets to `destination` leave, and the next hop that they go to there.
    fn next_hop(&mut self, destination: Ipv6Addr) -> io::Result<Option<(u32, Ipv6Addr)>> {
        let route = self.netlink.route(destination.into(), self.interface)?;
        Ok(route.map(|route| match route.gateway {
            Some(IpAddr::V6(gateway)) => (route.interface, gateway),
            _ => (route.interface, destination),
        }))
    }

    /// The frame header to a next hop. `None` when the kernel does not know the hop.
    fn frame_to(&mut self, (interface, next): (u32, Ipv6Addr)) -> io::Result<Option<Hop>> {
        let Some(to) = self.netlink.neighbour(interface, next)? else { return Ok(None) };
        let Some(from) = self.netlink.link_address(interface)? else { return Ok(None) };
        let mut ethernet = [0; ETHERNET_LEN];
        ethernet[..6].copy_from_slice(&to);
        ethernet[6..12].copy_from_slice(&from);
        ethernet[12..].copy_from_slice(&IPV6_ETHERTYPE);
        Ok(Some(Hop { interface, ethernet }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_frame_leads_to_this_host_itself_or_nowhere() {
        let mut neighbours = Neighbours::open(None).expect("netlink is there");
        let now = Instant::now();
        for address in [Ipv6Addr::LOCALHOST, Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 9)] {
            for later in [0, 1, 2] {
                assert_eq!(neighbours.towards(now + later * GOOD, address), None, "{address}");
            }
        }
    }
}
