//! Queries about interfaces, routes, neighbours and filters.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use super::{
    Netlink,
    message::{Attributes, attribute, attributes, text, u16_at, u32_at},
};

/// The handle of the ingress half of clsact.
const TC_H_MIN_INGRESS: u32 = 0xffff_fff2;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_ID: u16 = 11;

/// The size of `struct ifinfomsg` in bytes.
pub(super) const LINK_LEN: usize = 16;
/// The size of `struct rtmsg`, and of `struct ndmsg`, in bytes.
const ROUTE_LEN: usize = 12;

/// The states of a neighbour whose link address is certain: all except incomplete and failed ones.
const KNOWN: u16 = libc::NUD_REACHABLE
    | libc::NUD_STALE
    | libc::NUD_DELAY
    | libc::NUD_PROBE
    | libc::NUD_NOARP
    | libc::NUD_PERMANENT;

/// The flags of an interface that can send: on, operational, and with a carrier.
const RUNNING: i32 = libc::IFF_UP | libc::IFF_RUNNING | 1 << 16;

/// A network interface, as it was when it was looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub index: u32,
    /// Whether somebody has switched it on.
    pub is_up: bool,
    /// Whether it is on, and the cable or peer at its other end works.
    pub is_running: bool,
    pub is_loopback: bool,
    /// Whether the interface can multicast, is not the loopback, and is not a part of another interface, such
    /// as a port of a bridge.
    pub is_usable: bool,
    /// Whether its frames begin with an Ethernet header.
    pub is_ethernet: bool,
    /// The link-layer address of the interface, if it is as long as an Ethernet address.
    pub mac: Option<[u8; 6]>,
    /// The length of the longest IP packet that it can send, in bytes.
    pub mtu: u32,
    /// The number of the group of interfaces that it is in. 0: the default one.
    pub group: u32,
    /// The source address of IGMP messages: its first IPv4 address.
    pub ipv4: Option<IpAddr>,
    /// The source address of MLD messages: its first link-local address, once that is known to be unique.
    pub ipv6: Option<IpAddr>,
    /// The networks that are reached without a router: an address in each, and the length of its prefix in
    /// bits.
    pub networks: Vec<(IpAddr, u8)>,
    /// All addresses of both families, link-local ones included.
    pub addresses: Vec<IpAddr>,
}

/// The route of packets to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    pub interface: u32,
    /// The next router. `None` if the address is on the link.
    pub gateway: Option<IpAddr>,
}

/// A filter of `tc` at an interface's ingress that runs eBPF or classic BPF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpfFilter {
    pub priority: u16,
    pub handle: u32,
    /// The filter's name. Empty if it has none.
    pub name: String,
    /// The number of its eBPF program. `None` if it is classic BPF.
    pub program: Option<u32>,
}

impl Netlink {
    /// All interfaces of the network namespace, by index.
    pub fn interfaces(&mut self) -> io::Result<BTreeMap<u32, Interface>> {
        let mut by_index = BTreeMap::new();
        self.dump(libc::RTM_GETLINK, &[0; LINK_LEN], |_, body| {
            by_index.extend(parse_link(body).map(|interface| (interface.index, interface)));
        })?;
        self.dump(libc::RTM_GETADDR, &[0; 8], |_, body| add_address(body, &mut by_index))?;
        Ok(by_index)
    }

    /// The route of packets to `address`, restricted to the interface `by` if that is given. `None` if there is
    /// no route, or the address is this host's own.
    pub fn route(&mut self, address: IpAddr, by: Option<u32>) -> io::Result<Option<Route>> {
        let (family, octets) = family_and_octets(address);
        let mut body = vec![0; ROUTE_LEN];
        body[0] = family;
        body[1] = (octets.len() * 8) as u8;
        let mut attributes = Attributes::of(&mut body);
        attributes.bytes(libc::RTA_DST, &octets);
        by.into_iter().for_each(|interface| attributes.u32(libc::RTA_OIF, interface));

        let mut route = None;
        let answered = self.ask(libc::RTM_GETROUTE, 0, &body, |_, body| route = parse_route(body));
        match answered.map_err(|error| (error.raw_os_error(), error)) {
            Ok(()) => Ok(route),
            Err((Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL), _)) => Ok(None),
            Err((_, error)) => Err(error),
        }
    }

    /// The Ethernet address of a host on this interface's link, if the kernel knows it.
    pub fn neighbour(&mut self, interface: u32, address: Ipv6Addr) -> io::Result<Option<[u8; 6]>> {
        // struct ndmsg: family, padding, interface, and 4 bytes that may stay zero.
        let mut body = [[libc::AF_INET6 as u8, 0, 0, 0], interface.to_ne_bytes(), [0; 4]].concat();
        Attributes::of(&mut body).bytes(libc::NDA_DST, &address.octets());
        let mut found = None;
        let answered = self.ask(libc::RTM_GETNEIGH, 0, &body, |_, body| {
            let is_known = u16_at(body, 8).is_some_and(|state| state & KNOWN != 0);
            let link_address = attribute(body.get(ROUTE_LEN..).unwrap_or_default(), libc::NDA_LLADDR);
            found = link_address.filter(|_| is_known).and_then(|address| address.try_into().ok());
        });
        match answered {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(found),
        }
    }

    /// The Ethernet address of an interface of this host. `None` if it is no Ethernet interface, or is gone.
    pub fn link_address(&mut self, interface: u32) -> io::Result<Option<[u8; 6]>> {
        let mut body = [0; LINK_LEN];
        body[4..8].copy_from_slice(&interface.to_ne_bytes());
        let mut found = None;
        let answered = self.ask(libc::RTM_GETLINK, 0, &body, |_, body| found = parse_link(body));
        match answered {
            Err(error) if error.raw_os_error() != Some(libc::ENODEV) => Err(error),
            _ => Ok(found.filter(|interface| interface.is_ethernet).and_then(|interface| interface.mac)),
        }
    }

    /// The BPF filters at an interface's ingress. Empty if the interface has no place for filters.
    pub fn ingress_filters(&mut self, interface: u32) -> io::Result<Vec<BpfFilter>> {
        // struct tcmsg: family, padding, interface, handle, parent, info.
        let words = [0, interface, 0, TC_H_MIN_INGRESS, 0].map(u32::to_ne_bytes).concat();
        let mut filters = Vec::new();
        let answered = self.dump(libc::RTM_GETTFILTER, &words, |_, body| filters.extend(parse_filter(body)));
        match answered {
            Err(error) if error.raw_os_error() != Some(libc::EINVAL) => Err(error),
            _ => Ok(filters),
        }
    }
}

/// The family and octets of an address, as used in messages.
pub(super) fn family_and_octets(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (libc::AF_INET as u8, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6 as u8, address.octets().to_vec()),
    }
}

/// The address in the 4 or 16 octets at the start of `bytes`.
fn address(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match i32::from(family) {
        libc::AF_INET => Some(Ipv4Addr::from(*bytes.first_chunk::<4>()?).into()),
        libc::AF_INET6 => Some(Ipv6Addr::from(*bytes.first_chunk::<16>()?).into()),
        _ => None,
    }
}

/// struct rtmsg: family, lengths, and the type at 7; then attributes.
fn parse_route(body: &[u8]) -> Option<Route> {
    let rest = body.get(ROUTE_LEN..)?;
    let interface = attribute(rest, libc::RTA_OIF).and_then(|value| u32_at(value, 0))?;
    let gateway = attribute(rest, libc::RTA_GATEWAY).and_then(|value| address(body[0], value));
    (body[7] == libc::RTN_UNICAST).then_some(Route { interface, gateway })
}

/// struct ifinfomsg: family, padding, 2 bytes of type, index, flags, change; then attributes.
fn parse_link(body: &[u8]) -> Option<Interface> {
    let flags = u32_at(body, 8)? as i32;
    let mut interface = Interface {
        name: String::new(),
        index: u32_at(body, 4)?,
        is_up: flags & libc::IFF_UP != 0,
        is_running: flags & RUNNING == RUNNING,
        is_loopback: flags & libc::IFF_LOOPBACK != 0,
        is_usable: flags & libc::IFF_MULTICAST != 0 && flags & libc::IFF_LOOPBACK == 0,
        is_ethernet: u16_at(body, 2) == Some(libc::ARPHRD_ETHER),
        mac: None,
        mtu: 0,
        group: 0,
        ipv4: None,
        ipv6: None,
        networks: Vec::new(),
        addresses: Vec::new(),
    };
    for (kind, value) in attributes(body.get(LINK_LEN..)?) {
        match kind {
            libc::IFLA_ADDRESS => interface.mac = value.try_into().ok(),
            libc::IFLA_IFNAME => interface.name = text(value),
            libc::IFLA_MTU => interface.mtu = u32_at(value, 0).unwrap_or_default(),
            libc::IFLA_GROUP => interface.group = u32_at(value, 0).unwrap_or_default(),
            libc::IFLA_MASTER => interface.is_usable = false,
            _ => {}
        }
    }
    Some(interface)
}

/// struct ifaddrmsg: family, prefix length, flags, scope, index; then attributes.
fn add_address(body: &[u8], interfaces: &mut BTreeMap<u32, Interface>) {
    let &[family, prefix_len, flags, scope, ..] = body else { return };
    let Some(interface) = u32_at(body, 4).and_then(|index| interfaces.get_mut(&index)) else { return };
    let (mut peer, mut local, mut flags) = (None, None, u32::from(flags));
    for (kind, value) in attributes(body.get(8..).unwrap_or_default()) {
        match kind {
            libc::IFA_ADDRESS => peer = address(family, value),
            libc::IFA_LOCAL => local = address(family, value),
            libc::IFA_FLAGS => flags = u32_at(value, 0).unwrap_or(flags),
            _ => {}
        }
    }
    // On point-to-point links the address is the peer's, and the local one is ours.
    let Some(own) = local.or(peer) else { return };
    interface.addresses.push(own);
    interface.networks.push((peer.unwrap_or(own), prefix_len));
    let is_unique = flags & (libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED) == 0;
    match own {
        IpAddr::V4(_) => _ = interface.ipv4.get_or_insert(own),
        IpAddr::V6(_) if scope == libc::RT_SCOPE_LINK && is_unique => {
            _ = interface.ipv6.get_or_insert(own);
        }
        IpAddr::V6(_) => {}
    }
}

/// struct tcmsg: family, padding, interface, handle, parent, info with the priority in its upper half; then attributes.
fn parse_filter(body: &[u8]) -> Option<BpfFilter> {
    let handle = u32_at(body, 8)?;
    let priority = (u32_at(body, 16)? >> 16) as u16;
    let mut filter = BpfFilter { priority, handle, name: String::new(), program: None };
    let mut is_bpf = false;
    for (kind, value) in attributes(body.get(20..)?) {
        match kind {
            libc::TCA_KIND => is_bpf = text(value) == "bpf",
            libc::TCA_OPTIONS => attributes(value).for_each(|(kind, value)| match kind {
                TCA_BPF_NAME => filter.name = text(value),
                TCA_BPF_ID => filter.program = u32_at(value, 0),
                _ => {}
            }),
            _ => {}
        }
    }
    // The head of the filters of one priority has no handle.
    (is_bpf && handle != 0).then_some(filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_there_and_not_usable() {
        let mut netlink = Netlink::open().expect("netlink is there");
        let interfaces = netlink.interfaces().expect("a list");
        let loopback = &interfaces[&1];
        assert_eq!((loopback.name.as_str(), loopback.is_usable, loopback.is_loopback), ("lo", false, true));
        assert_eq!(netlink.route([127, 0, 0, 1].into(), None).expect("an answer"), None, "it is ours");
        assert_eq!(netlink.link_address(1).expect("an answer"), None, "it is no Ethernet");
        assert_eq!(netlink.link_address(u32::MAX / 2).expect("an answer"), None, "it is not there");
    }
}
