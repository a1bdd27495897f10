//! What links are beyond their addresses: their flags, and the multicast snooping of bridges.

use std::io;

use super::{
    Netlink,
    message::{attribute, text, u32_at},
    queries::LINK_LEN,
};

const IFLA_BR_MCAST_SNOOPING: u16 = 23;
const IFLA_BR_MCAST_QUERIER: u16 = 25;
const IFLA_INFO_KIND: u16 = 1;

/// One link of a network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub name: String,
    pub index: u32,
    pub is_up: bool,
    /// Whether something is plugged in (`IFF_LOWER_UP`).
    pub has_carrier: bool,
    /// Whether the link can multicast (`IFF_MULTICAST`).
    pub can_multicast: bool,
    /// Whether the kernel itself makes the link (a bridge, a veth pair, a tunnel), so that no network card is behind it.
    pub is_virtual: bool,
    /// `None` for a link that is no bridge.
    pub bridge: Option<Snooping>,
}

/// The multicast snooping of a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snooping {
    /// Whether groups go only to ports behind which somebody listens.
    pub is_on: bool,
    /// Whether the bridge asks for listeners itself.
    pub is_querier: bool,
}

impl Netlink {
    /// The links of the network namespace, with what bridges do with groups.
    pub fn bridges_and_links(&mut self) -> io::Result<Vec<Link>> {
        let mut found = Vec::new();
        self.dump(libc::RTM_GETLINK, &[0; LINK_LEN], |_, body| found.extend(parse(body)))?;
        Ok(found)
    }
}

fn parse(body: &[u8]) -> Option<Link> {
    let flags = u32_at(body, 8)?;
    let has = |flag: i32| flags & flag as u32 != 0;
    let attributes = body.get(LINK_LEN..)?;
    let info = attribute(attributes, libc::IFLA_LINKINFO);
    Some(Link {
        name: text(attribute(attributes, libc::IFLA_IFNAME)?),
        index: u32_at(body, 4)?,
        is_up: has(libc::IFF_UP),
        has_carrier: has(libc::IFF_LOWER_UP),
        can_multicast: has(libc::IFF_MULTICAST),
        is_virtual: info.is_some_and(|info| attribute(info, IFLA_INFO_KIND).is_some()),
        bridge: info.and_then(parse_bridge),
    })
}

fn parse_bridge(info: &[u8]) -> Option<Snooping> {
    const IFLA_INFO_DATA: u16 = 2;
    let data = attribute(info, IFLA_INFO_DATA)?;
    let is_set = |kind| attribute(data, kind).and_then(|value| value.first()).is_some_and(|byte| *byte != 0);
    (text(attribute(info, IFLA_INFO_KIND)?) == "bridge").then(|| Snooping {
        is_on: is_set(IFLA_BR_MCAST_SNOOPING),
        is_querier: is_set(IFLA_BR_MCAST_QUERIER),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{Batch, requests};

    #[test]
    fn a_bridge_tells_whether_it_snoops_and_asks() {
        std::thread::spawn(|| {
            crate::namespace::Namespace::enter_new().unwrap();
            let mut netlink = Netlink::open().unwrap();
            let mut batch = Batch::default();
            let bridge = requests::Bridge { name: "br0", index: 7, mac: [2, 0, 0, 0, 0, 7], group: 1 };
            requests::add_bridge(&mut batch, &bridge);
            netlink.run(batch).unwrap();
            let snooping = |netlink: &mut Netlink| {
                let links = netlink.bridges_and_links().unwrap();
                links.into_iter().find(|link| link.name == "br0").unwrap().bridge
            };
            assert_eq!(snooping(&mut netlink), Some(Snooping { is_on: true, is_querier: false }));
            let mut batch = Batch::default();
            requests::set_querier(&mut batch, 7);
            netlink.run(batch).unwrap();
            assert_eq!(snooping(&mut netlink), Some(Snooping { is_on: true, is_querier: true }));
            let links = netlink.bridges_and_links().unwrap();
            assert!(links.iter().any(|link| link.name == "lo" && link.bridge.is_none() && !link.is_virtual));
            assert!(links.iter().any(|link| link.name == "br0" && link.is_virtual));
        })
        .join()
        .unwrap();
    }
}
