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

    /// The interface by which this host reaches others. It is the one of the route to `towards`, or of the
    /// default route. If there is no route, it is the first one that is up and has an address, the loopback
    /// last.
    ///
    /// # Errors
    /// If none is up and has an address.
    pub fn by_route(towards: Option<IpAddr>) -> Result<Self, InterfaceError> {
        let all = list()?;
        let somewhere_v6 = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
        let somewhere_v4 = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        let targets = match towards {
            Some(address) => vec![address],
            None => vec![somewhere_v6, somewhere_v4],
        };
        for target in targets {
            let Some(local) = local_address_towards(target) else { continue };
            if let Some(found) = all.iter().find(|interface| interface.addresses.contains(&local)) {
                return Ok(found.clone());
            }
        }
        let usable = |interface: &&Interface| interface.is_up && !interface.addresses.is_empty();
        let mut candidates: Vec<_> = all.iter().filter(usable).collect();
        candidates.sort_by_key(|interface| (interface.is_loopback, !interface.has_global(), interface.index));
        candidates.first().map(|found| (*found).clone()).ok_or(InterfaceError::None)
    }

    /// The interface's addresses that other hosts can use: global and unique local IPv6 addresses first, then
    /// IPv4.
    pub fn reachable_addresses(&self) -> Vec<IpAddr> {
        let (v6, v4): (Vec<IpAddr>, Vec<IpAddr>) = self
            .addresses
            .iter()
            .copied()
            .filter(|address| !is_link_local(*address))
            .partition(IpAddr::is_ipv6);
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
        let family = if group.is_ipv4() { "IPv4" } else { "IPv6" };
        Err(InterfaceError::NoAddress { name: self.name.clone(), family })
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

    fn has_global(&self) -> bool {
        !self.reachable_addresses().is_empty()
    }
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

    #[test]
    fn a_missing_interface_is_named_with_those_that_are_there() {
        let line = Interface::named("no-such-if").unwrap_err().to_string();
        assert!(line.contains("no-such-if") && line.contains("lo"), "{line}");
    }
}
