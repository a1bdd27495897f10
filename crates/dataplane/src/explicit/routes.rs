//! The routes to Xcast's destinations, as the kernel tells them. They are remembered, because each packet asks
//! for up to 32.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use treecast_proto::{Instant, explicit::xcast::router::NextHop};

use treecast_host::netlink::{Netlink, Route};

use crate::clock::Clock;

/// Destinations that are remembered; when there are more, all are forgotten.
const MAX_KNOWN: usize = 8192;

/// The longest time for which a route is remembered. The kernel tells of new routes, but not of new policies.
const LIFETIME: Duration = Duration::from_secs(10);

pub struct Routes {
    netlink: Netlink,
    clock: Clock,
    known: HashMap<Ipv6Addr, (Option<NextHop>, Instant)>,
}

impl Routes {
    pub fn open() -> io::Result<Self> {
        Ok(Self { netlink: Netlink::open()?, clock: Clock::start(), known: HashMap::new() })
    }

    /// Returns the route to a destination. None: there is no route, or the kernel does not tell it.
    pub fn towards(&mut self, destination: Ipv6Addr) -> Option<NextHop> {
        let now = self.clock.now();
        if let Some((hop, until)) = self.known.get(&destination)
            && *until > now
        {
            return *hop;
        }
        let route = self.netlink.route(destination.into(), None).ok()?;
        let hop = route.map(|Route { interface, gateway }| NextHop {
            interface,
            gateway: if let Some(IpAddr::V6(gateway)) = gateway { Some(gateway) } else { None },
        });
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(destination, (hop, now + LIFETIME));
        hop
    }

    /// Forgets all routes, because some have changed.
    pub fn forget(&mut self) {
        self.known.clear();
    }
}
