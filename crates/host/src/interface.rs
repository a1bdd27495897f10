//! Finds network interfaces, their addresses and their MTU.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

use rustix::net::{AddressFamily, SocketType, netdevice::name_to_index};
use thiserror::Error;

pub use crate::netlink::Interface;
use crate::netlink::Netlink;

/// The reason why no interface can be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InterfaceError {
    #[error("interface {name} does not exist here; there are: {known}")]
    Missing { name: String, known: String },
    #[error("interface {name} is down: bring it up with `ip link set {name} up` or choose another")]
    Down { name: String },
    #[error("interface {name} has no {family} address: give it one or choose another")]
    NoAddress { name: String, family: &'static str },
    #[error("no interface is up and has an address")]
    None,
    #[error("cannot list the network interfaces: {0}")]
    List(#[from] io::Error),
}

impl Interface {
    /// The interface of this name, if it is up.
    ///
    /// # Errors
    /// If it does not exist (the error lists the existing ones) or is down.
    pub fn named(name: &str) -> Result<Self, InterfaceError> {
        let all = list()?;
        let known = all.iter().map(|interface| interface.name.as_str()).collect::<Vec<_>>().join(", ");
        let interface = all
            .into_iter()
            .find(|interface| interface.name == name)
            .ok_or_else(|| InterfaceError::Missing { name: name.to_owned(), known })?;
        if interface.is_up { Ok(interface) } else { Err(InterfaceError::Down { name: name.to_owned() }) }
    }

    /// The interface by which this host reaches others, as [`Choice::towards`] chooses it.
    ///
    /// # Errors
    /// If none is up and has an address.
    pub fn by_route(towards: Option<IpAddr>) -> Result<Self, InterfaceError> {
        Choice::towards(towards).map(|choice| choice.interface)
    }

    /// The interface with this number, such as the scope of an IPv6 address names it (RFC 4007, section 11).
    ///
    /// # Errors
    /// If it does not exist (the error lists the existing ones) or is down.
    pub fn numbered(index: u32) -> Result<Self, InterfaceError> {
        let found = list()?.into_iter().find(|interface| interface.index == index);
        Self::named(&found.map_or_else(|| index.to_string(), |interface| interface.name))
    }

    /// The interface's addresses that other hosts can use: global and unique local IPv6 addresses first, then
    /// IPv4. An interface without such addresses has its link-local ones, which hosts on its link can use.
    pub fn reachable_addresses(&self) -> Vec<IpAddr> {
        let far = |address: &&IpAddr| !is_link_local(**address);
        let of_link = !self.has_global();
        let usable = self.addresses.iter().filter(|address| of_link || far(address)).copied();
        let (v6, v4): (Vec<IpAddr>, Vec<IpAddr>) = usable.partition(IpAddr::is_ipv6);
        v6.into_iter().chain(v4).collect()
    }

    /// Checks that the interface has an address of `group`'s family. For IPv6, a link-local address is enough.
    ///
    /// # Errors
    /// One line if it has none.
    pub fn check_family(&self, group: IpAddr) -> Result<(), InterfaceError> {
        if self.addresses.iter().any(|address| address.is_ipv4() == group.is_ipv4()) {
            return Ok(());
        }
        Err(InterfaceError::NoAddress { name: self.name.clone(), family: family(group) })
    }

    /// Whether no router lies between this interface and `address`, by the interface's networks.
    pub fn is_on_link(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|(network, prefix_len)| {
            let unlike = match (*network, address) {
                (IpAddr::V4(network), IpAddr::V4(address)) => {
                    (network.to_bits() ^ address.to_bits()).leading_zeros()
                }
                (IpAddr::V6(network), IpAddr::V6(address)) => {
                    (network.to_bits() ^ address.to_bits()).leading_zeros()
                }
                _ => return false,
            };
            unlike >= u32::from(*prefix_len)
        })
    }

    /// Whether it has an address that is good beyond its link.
    fn has_global(&self) -> bool {
        self.addresses.iter().any(|address| !is_link_local(*address))
    }
}

/// An interface that was chosen because nobody has named one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub interface: Interface,
    /// The interfaces that would do as well. Empty where a route has decided.
    pub others: Vec<Interface>,
}

impl Choice {
    /// Chooses the interface of the route to `towards`, or of the default route. Without such a route,
    /// it is the first interface that is up and has an address. One whose link works comes before one without
    /// carrier, one with an address that is good beyond its link comes before others, and the loopback is last.
    ///
    /// # Errors
    /// If none is up and has an address.
    pub fn towards(towards: Option<IpAddr>) -> Result<Self, InterfaceError> {
        let all = list()?;
        let by_route = towards.map_or_else(
            || SOMEWHERE.iter().find_map(|target| by_route_among(&all, *target)),
            |target| by_route_among(&all, target),
        );
        match by_route {
            Some(interface) => Ok(Self { interface, others: Vec::new() }),
            None => Self::among(all).ok_or(InterfaceError::None),
        }
    }

    /// Chooses an interface where no route says which.
    fn among(all: Vec<Interface>) -> Option<Self> {
        let mut candidates: Vec<_> =
            all.into_iter().filter(|it| it.is_up && !it.addresses.is_empty()).collect();
        candidates
            .sort_by_key(|it| (it.is_loopback, !it.is_running, !it.is_usable, !it.has_global(), it.index));
        let mut candidates = candidates.into_iter();
        let interface = candidates.next()?;
        let does = |other: &Interface| other.is_usable && other.is_running;
        Some(Self { interface, others: candidates.filter(does).collect() })
    }
}

/// Addresses that only a default route leads to: those of documentation (RFC 3849, RFC 5737).
const SOMEWHERE: [IpAddr; 2] =
    [IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))];

/// The interface of the route to `target`. A group, like a default route, says nothing about the links behind an interface, so
/// an interface without carrier does not count for it.
fn by_route_among(all: &[Interface], target: IpAddr) -> Option<Interface> {
    let local = local_address_towards(target)?;
    let is_certain = !target.is_multicast() && !SOMEWHERE.contains(&target);
    let found = all.iter().find(|it| it.addresses.contains(&local));
    found.filter(|it| is_certain || it.is_running).cloned()
}

/// The name of an address's family.
pub fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Whether no router lies between this host and `address`, by the networks of its interfaces. False if that
/// cannot be determined.
pub fn is_on_link(address: Ipv6Addr) -> bool {
    let reaches = |interface: &Interface| interface.is_up && interface.is_on_link(address.into());
    list().is_ok_and(|all| all.iter().any(reaches))
}

/// All interfaces of this network namespace, by index.
///
/// # Errors
/// The error of the kernel.
pub fn list() -> io::Result<Vec<Interface>> {
    Ok(Netlink::open()?.interfaces()?.into_values().collect())
}

/// The number of an interface of this network namespace.
///
/// # Errors
/// When there is none of this name.
pub fn index_of(name: &str) -> io::Result<u32> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
    Ok(name_to_index(&socket, name)?)
}

/// The source address of packets to `target`. Sends nothing.
fn local_address_towards(target: IpAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    source_towards((any, 0).into(), (target, 9).into()).ok()
}

/// The source address that the kernel uses for packets to `target` from a socket that is bound to `from`. Sends
/// nothing.
pub fn source_towards(from: SocketAddr, target: SocketAddr) -> io::Result<IpAddr> {
    let socket = UdpSocket::bind(from)?;
    socket.connect(target)?;
    socket.local_addr().map(|address| address.ip())
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_by_name() {
        let loopback = Interface::named("lo").unwrap();
        assert!(loopback.is_loopback);
        assert!(loopback.addresses.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert!(loopback.mtu >= 1280);
    }

    #[test]
    fn what_needs_no_router_is_told_by_the_prefix() {
        let loopback = Interface::named("lo").unwrap();
        assert!(loopback.is_on_link(Ipv4Addr::new(127, 1, 2, 3).into()));
        assert!(!loopback.is_on_link(Ipv4Addr::new(128, 0, 0, 1).into()));
        let v6 = Ipv6Addr::new(0xfd14, 0, 0, 1, 0, 0, 0, 1);
        let interface = Interface { networks: vec![(v6.into(), 64)], ..loopback };
        assert!(interface.is_on_link(Ipv6Addr::new(0xfd14, 0, 0, 1, 9, 9, 9, 9).into()));
        assert!(!interface.is_on_link(Ipv6Addr::new(0xfd14, 0, 0, 2, 0, 0, 0, 1).into()));
        assert!(!interface.is_on_link(Ipv4Addr::new(127, 1, 2, 3).into()));
    }

    /// An interface that is up and works, with these addresses.
    fn working(name: &str, index: u32, addresses: &[&str]) -> Interface {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        let (name, loopback) = (name.to_owned(), Interface::named("lo").unwrap());
        Interface {
            name,
            index,
            addresses,
            is_loopback: false,
            is_usable: true,
            is_running: true,
            ..loopback
        }
    }

    fn chosen(all: &[Interface]) -> (String, Vec<String>) {
        let choice = Choice::among(all.to_vec()).unwrap();
        (choice.interface.name, choice.others.into_iter().map(|other| other.name).collect())
    }

    #[test]
    fn an_interface_whose_link_works_comes_first() {
        let bridge = Interface { is_running: false, ..working("docker0", 2, &["172.17.0.1"]) };
        let card = working("eth0", 3, &["10.0.0.1", "fe80::3"]);
        let cable = working("eth1", 4, &["fe80::4"]);
        let lo = Interface::named("lo").unwrap();
        let all = [lo.clone(), bridge.clone(), card, cable.clone()];
        assert_eq!(chosen(&all), ("eth0".to_owned(), vec!["eth1".to_owned()]));
        assert_eq!(chosen(&[lo.clone(), bridge.clone(), cable]), ("eth1".to_owned(), vec![]));
        assert_eq!(chosen(&[lo.clone(), bridge]), ("docker0".to_owned(), vec![]), "its peer may still come");
        assert_eq!(chosen(&[lo]), ("lo".to_owned(), vec![]));
    }

    #[test]
    fn link_local_addresses_count_where_there_are_no_others() {
        let reached = |addresses: &[&str]| -> Vec<String> {
            working("eth0", 2, addresses).reachable_addresses().iter().map(ToString::to_string).collect()
        };
        assert_eq!(reached(&["10.0.0.1", "fe80::2", "fd00::2"]), ["fd00::2", "10.0.0.1"]);
        assert_eq!(reached(&["10.0.0.1", "fe80::2"]), ["10.0.0.1"]);
        assert_eq!(reached(&["169.254.0.2", "fe80::2"]), ["fe80::2", "169.254.0.2"]);
        assert_eq!(reached(&["fe80::2"]), ["fe80::2"]);
    }

    #[test]
    fn a_missing_interface_is_named_with_those_that_are_there() {
        let line = Interface::named("no-such-if").unwrap_err().to_string();
        assert!(line.contains("no-such-if") && line.contains("lo"), "{line}");
    }
}
