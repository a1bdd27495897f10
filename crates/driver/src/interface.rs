//! Network interfaces: finding them, their addresses and their MTU.

use std::{
    collections::BTreeMap,
    ffi::CStr,
    io, mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::AsRawFd,
};

use thiserror::Error;

/// One network interface, as it was when it was looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub index: u32,
    /// Link-local ones included.
    pub addresses: Vec<IpAddr>,
    /// The networks that these addresses are in, which are reached without a router: (address, prefix length).
    pub networks: Vec<(IpAddr, u32)>,
    /// The longest IP packet, in bytes.
    pub mtu: u32,
    pub is_up: bool,
    pub is_loopback: bool,
}

/// Why no interface can be used.
#[derive(Debug, Error)]
pub enum InterfaceError {
    #[error("interface {name} does not exist here; there are: {known}")]
    Missing { name: String, known: String },
    #[error("interface {name} is down: bring it up with `ip link set {name} up` or choose another")]
    Down { name: String },
    #[error("interface {name} has no {family} address: give it one or choose another")]
    NoAddress { name: String, family: &'static str },
    #[error("no interface is up and has an address: name one with --interface")]
    None,
    #[error("cannot list the network interfaces: {0}")]
    List(#[from] io::Error),
}

impl Interface {
    /// The interface of this name, if it is up.
    ///
    /// # Errors
    /// When it is missing (the line lists those that are there) or down.
    pub fn named(name: &str) -> Result<Self, InterfaceError> {
        let all = list()?;
        let known = all.iter().map(|interface| interface.name.as_str()).collect::<Vec<_>>().join(", ");
        let interface = all
            .into_iter()
            .find(|interface| interface.name == name)
            .ok_or_else(|| InterfaceError::Missing { name: name.to_owned(), known })?;
        if interface.is_up { Ok(interface) } else { Err(InterfaceError::Down { name: name.to_owned() }) }
    }

    /// The interface that this host reaches others over: the one that the route to `towards` (or, without
    /// it, the default route) uses, else the first that is up and has an address, loopback last.
    ///
    /// # Errors
    /// When none is up and has an address.
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

    /// Its addresses that other hosts can use: global and unique local IPv6 first, then IPv4.
    pub fn reachable_addresses(&self) -> Vec<IpAddr> {
        let (v6, v4): (Vec<IpAddr>, Vec<IpAddr>) = self
            .addresses
            .iter()
            .copied()
            .filter(|address| !is_link_local(*address))
            .partition(IpAddr::is_ipv6);
        v6.into_iter().chain(v4).collect()
    }

    /// Whether it has an address of `group`'s family; with IPv6 a link-local one will do.
    ///
    /// # Errors
    /// One line when it has none.
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
            unlike >= *prefix_len
        })
    }

    fn has_global(&self) -> bool {
        !self.reachable_addresses().is_empty()
    }
}

/// Whether no router lies between this host and `address`, by the networks of its interfaces. What cannot be told is no.
pub(crate) fn is_on_link(address: Ipv6Addr) -> bool {
    let reaches = |interface: &Interface| interface.is_up && interface.is_on_link(address.into());
    list().is_ok_and(|all| all.iter().any(reaches))
}

/// All interfaces of this network namespace, by index.
///
/// # Errors
/// What the kernel says.
pub fn list() -> io::Result<Vec<Interface>> {
    let mut found: BTreeMap<u32, Interface> = BTreeMap::new();
    let probe = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let entries = AddressList::new()?;
    for entry in entries.iter() {
        // SAFETY: getifaddrs makes ifa_name a C string that lives as long as the list.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        // SAFETY: `name` is a C string.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            continue;
        }
        let flags = entry.ifa_flags as i32;
        let interface = found.entry(index).or_insert_with(|| Interface {
            name: name.to_string_lossy().into_owned(),
            index,
            addresses: Vec::new(),
            networks: Vec::new(),
            mtu: mtu(&probe, name).unwrap_or(1500),
            is_up: flags & libc::IFF_UP != 0,
            is_loopback: flags & libc::IFF_LOOPBACK != 0,
        });
        let Some(address) = address_of(entry.ifa_addr) else { continue };
        interface.addresses.push(address);
        // A netmask is given as an address of ones and then zeroes.
        interface.networks.extend(address_of(entry.ifa_netmask).map(|mask| (address, count_ones(mask))));
    }
    Ok(found.into_values().collect())
}

/// The address that packets to `target` would leave with; sends nothing.
fn local_address_towards(target: IpAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    source_towards((any, 0).into(), (target, 9).into()).ok()
}

/// The address that the kernel takes for packets to `target` from a socket that is bound to `from`; sends nothing.
pub(crate) fn source_towards(from: SocketAddr, target: SocketAddr) -> io::Result<IpAddr> {
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

/// What getifaddrs returned, freed when dropped.
struct AddressList(*mut libc::ifaddrs);

impl AddressList {
    fn new() -> io::Result<Self> {
        let mut head = std::ptr::null_mut();
        // SAFETY: `head` is a valid place for the result.
        match unsafe { libc::getifaddrs(&mut head) } {
            0 => Ok(Self(head)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &libc::ifaddrs> {
        // SAFETY: the list is well-formed and lives as long as `self`.
        std::iter::successors(unsafe { self.0.as_ref() }, |entry| unsafe { entry.ifa_next.as_ref() })
    }
}

impl Drop for AddressList {
    fn drop(&mut self) {
        // SAFETY: the pointer is getifaddrs' own and is freed once.
        unsafe { libc::freeifaddrs(self.0) }
    }
}

fn count_ones(mask: IpAddr) -> u32 {
    match mask {
        IpAddr::V4(mask) => mask.to_bits().count_ones(),
        IpAddr::V6(mask) => mask.to_bits().count_ones(),
    }
}

/// Reads what getifaddrs points at.
fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: it is null or points at an address whose family says its type; read unaligned because the
    // pointer's declared type promises less.
    unsafe {
        match i32::from(address.as_ref()?.sa_family) {
            libc::AF_INET => {
                let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

fn mtu(probe: &UdpSocket, name: &CStr) -> Option<u32> {
    // SAFETY: ifreq is plain data; the name fits (the kernel gave it) and stays terminated by a zero.
    unsafe {
        let mut request: libc::ifreq = mem::zeroed();
        for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.to_bytes()) {
            *to = *from as libc::c_char;
        }
        if libc::ioctl(probe.as_raw_fd(), libc::SIOCGIFMTU, &mut request) != 0 {
            return None;
        }
        u32::try_from(request.ifr_ifru.ifru_mtu).ok()
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
