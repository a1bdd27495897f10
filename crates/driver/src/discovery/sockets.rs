//! Sockets for mDNS and SAP, one for each interface and family.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

use socket2::{Domain, Socket, Type};
use treecast_host::{
    interface::{self, Interface, InterfaceError},
    messages,
    option::{self, ToGroups},
};
use treecast_wire::{sap, ticket::Ticket};

use super::mdns;
use crate::words::some_of;

/// The hop limit of packets of both protocols (RFC 6762, section 11; RFC 2974, section 3).
const HOP_LIMIT: u32 = 255;

/// The groups of mDNS (RFC 6762, section 3).
const MDNS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(224, 0, 0, 251)), IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfb))];

/// The groups of SAP that a listener joins: of the local, organization and global scope (RFC 2974, section 3; RFC 2365), and of
/// the scopes site, organization and global.
const SAP: [IpAddr; 6] = [
    IpAddr::V4(Ipv4Addr::new(239, 255, 255, 255)),
    IpAddr::V4(Ipv4Addr::new(239, 195, 255, 255)),
    IpAddr::V4(Ipv4Addr::new(224, 2, 127, 254)),
    sap_v6(5),
    sap_v6(8),
    sap_v6(0xe),
];

/// RFC 2974, section 3: FF0X::2:7FFE in the scope X.
const fn sap_v6(scope: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xff00 | scope, 0, 0, 0, 0, 0, 2, 0x7ffe))
}

/// The protocol that a socket speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Mdns,
    Sap,
}

impl Protocol {
    fn port(self) -> u16 {
        match self {
            Self::Mdns => mdns::PORT,
            Self::Sap => sap::PORT,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mdns => "mDNS",
            Self::Sap => "SAP",
        })
    }
}

/// A socket that could not be opened, and why.
#[derive(Debug)]
pub(super) struct Deaf {
    protocol: Protocol,
    interface: Interface,
    is_ipv4: bool,
    error: io::Error,
}

impl fmt::Display for Deaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { protocol, interface, is_ipv4, error } = self;
        let (family, name) = (if *is_ipv4 { "IPv4" } else { "IPv6" }, &interface.name);
        write!(f, "no {protocol} over {family} on {name}: ")?;
        if error.kind() != io::ErrorKind::AddrInUse {
            return write!(f, "{error}");
        }
        let port = protocol.port();
        write!(
            f,
            "another program has UDP port {port} and does not share it: end it (`ss -ulpn sport = :{port}` names it), or have it share \
             the port"
        )
    }
}

/// The sockets that could not be opened, in one line. `None` if all could.
pub(super) fn problem(failed: &[Deaf]) -> Option<String> {
    /// The most reasons that a person still reads.
    const MOST: usize = 4;
    let mut reasons: Vec<String> = Vec::new();
    for deaf in failed {
        let line = deaf.to_string();
        let (what, why) = line.split_once(": ").unwrap_or((&line, ""));
        // One program that has a port is one reason, on however many interfaces.
        match reasons.iter_mut().find(|reason| !why.is_empty() && reason.ends_with(&format!(": {why}"))) {
            Some(reason) => {
                *reason = format!("{}, {what}: {why}", reason.trim_end_matches(&format!(": {why}")))
            }
            None => reasons.push(line),
        }
    }
    (!reasons.is_empty()).then(|| some_of(&reasons, MOST))
}

/// A socket that hears one protocol on one interface, and sends by it.
#[derive(Debug)]
pub(super) struct Ear {
    pub socket: UdpSocket,
    pub protocol: Protocol,
    pub interface: Interface,
    is_ipv4: bool,
}

impl fmt::Display for Ear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = if self.is_ipv4 { "IPv4" } else { "IPv6" };
        write!(f, "{} over {family} on {}", self.protocol, self.interface.name)
    }
}

impl Ear {
    /// Sends a message to all who listen. For SAP, `scope` gives the group.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn say(&self, message: &[u8], scope: Option<&Ticket>) -> io::Result<()> {
        let groups: &[IpAddr] = match self.protocol {
            Protocol::Mdns => &MDNS,
            Protocol::Sap => &SAP,
        };
        let port = self.protocol.port();
        let mut of_family = groups.iter().copied().filter(|group| group.is_ipv4() == self.is_ipv4);
        let group = match scope {
            Some(ticket) => Some(sap_group(ticket, self.is_ipv4)),
            None => of_family.next(),
        };
        let to = group.map(|group| option::scoped(SocketAddr::new(group, port), self.interface.index));
        to.map_or(Ok(()), |to| self.socket.send_to(message, to).map(drop))
    }

    /// Receives a message without waiting, and returns its sender. A message by mDNS that a router has passed on has
    /// no bytes: it is no neighbour's (RFC 6762, section 11). Routers lower the hop limit, which no host can set
    /// higher than [`HOP_LIMIT`].
    ///
    /// # Errors
    /// The kernel's error. `WouldBlock` if nothing has come.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (from, received) = messages::receive_from(&self.socket, buffer)?;
        let from = from.as_socket().ok_or(io::ErrorKind::InvalidData)?;
        let is_near = received.ancillary.hop_limit.is_some_and(|left| u32::from(left) == HOP_LIMIT);
        Ok((if self.protocol == Protocol::Sap || is_near { received.len } else { 0 }, from))
    }

    /// An address of the interface, in the socket's family.
    pub fn origin(&self) -> Option<IpAddr> {
        self.interface.addresses.iter().copied().find(|address| address.is_ipv4() == self.is_ipv4)
    }
}

/// The group in which a session is announced: that of the session's own scope (RFC 2974, section 3).
fn sap_group(ticket: &Ticket, is_ipv4: bool) -> IpAddr {
    match (ticket.group.ip(), is_ipv4) {
        _ if !ticket.fanout.has_group() => {
            if is_ipv4 {
                SAP[0]
            } else {
                sap_v6(5)
            }
        }
        (IpAddr::V4(group), true) => match group.octets() {
            [239, 255, ..] => SAP[0],
            [239, ..] => SAP[1],
            _ => SAP[2],
        },
        (IpAddr::V6(group), false) => sap_v6((group.segments()[0] & 0xf).max(5)),
        (_, true) => SAP[0],
        (_, false) => sap_v6(5),
    }
}

/// The interfaces of these names; without names, all that are up and have an address, and the loopback only if there is no other.
///
/// # Errors
/// If an interface does not exist or is down, or there is none.
pub fn interfaces(names: &[String]) -> Result<Vec<Interface>, InterfaceError> {
    if !names.is_empty() {
        return names.iter().map(|name| Interface::named(name)).collect();
    }
    let usable = |interface: &Interface| interface.is_up && !interface.addresses.is_empty();
    let (loopback, others): (Vec<_>, Vec<_>) =
        interface::list()?.into_iter().filter(usable).partition(|interface| interface.is_loopback);
    let found = if others.is_empty() { loopback } else { others };
    if found.is_empty() { Err(InterfaceError::None) } else { Ok(found) }
}

/// The interfaces of these names that are up and have an address now; without names, all such ones but the loopback.
///
/// # Errors
/// If the kernel does not list them.
pub(super) fn present(names: &[String]) -> io::Result<Vec<Interface>> {
    let is_wanted = |interface: &Interface| match names {
        [] => !interface.is_loopback,
        names => names.contains(&interface.name),
    };
    let mut present = interface::list()?;
    present.retain(|interface| interface.is_up && !interface.addresses.is_empty() && is_wanted(interface));
    Ok(present)
}

/// Opens the sockets of these protocols on each interface, for each family that it has an address of. Also returns those that could not
/// be opened.
///
/// # Errors
/// If not one can be opened: the reasons.
pub(super) fn open(interfaces: &[Interface], protocols: &[Protocol]) -> io::Result<(Vec<Ear>, Vec<Deaf>)> {
    let (mut ears, mut failed) = (Vec::new(), Vec::new());
    for interface in interfaces {
        for (protocol, is_ipv4) in
            protocols.iter().flat_map(|protocol| [(*protocol, true), (*protocol, false)])
        {
            if !interface.addresses.iter().any(|address| address.is_ipv4() == is_ipv4) {
                continue;
            }
            match ear(interface.clone(), protocol, is_ipv4) {
                Ok(ear) => ears.push(ear),
                Err(deaf) => failed.push(*deaf),
            }
        }
    }
    match problem(&failed) {
        Some(problem) if ears.is_empty() => Err(io::Error::other(problem)),
        _ => Ok((ears, failed)),
    }
}

/// Tries sockets again that could not be opened. Returns those that can be now, and the others.
pub(super) fn open_again(failed: Vec<Deaf>) -> (Vec<Ear>, Vec<Deaf>) {
    let (mut ears, mut still) = (Vec::new(), Vec::new());
    for Deaf { protocol, interface, is_ipv4, .. } in failed {
        match ear(interface, protocol, is_ipv4) {
            Ok(ear) => ears.push(ear),
            Err(deaf) => still.push(*deaf),
        }
    }
    (ears, still)
}

fn ear(interface: Interface, protocol: Protocol, is_ipv4: bool) -> Result<Ear, Box<Deaf>> {
    match open_one(&interface, protocol, is_ipv4) {
        Ok(socket) => Ok(Ear { socket, protocol, interface, is_ipv4 }),
        Err(error) => Err(Box::new(Deaf { protocol, interface, is_ipv4, error })),
    }
}

fn open_one(interface: &Interface, protocol: Protocol, is_ipv4: bool) -> io::Result<UdpSocket> {
    let domain = if is_ipv4 { Domain::IPV4 } else { Domain::IPV6 };
    let (groups, port): (&[IpAddr], u16) = match protocol {
        Protocol::Mdns => (&MDNS, protocol.port()),
        Protocol::Sap => (&SAP, protocol.port()),
    };
    let socket = Socket::new(domain, Type::DGRAM.nonblocking().cloexec(), None)?;
    // Other programs of the host listen to the same groups.
    socket.set_reuse_address(true)?;
    if !is_ipv4 {
        socket.set_only_v6(true)?;
    }
    option::hear_only_own_groups(&socket)?;
    option::receive_hop_limit(&socket)?;
    // Kernels before 5.7 let only root do so. The groups are joined on this interface alone in any case.
    _ = socket.bind_device(Some(interface.name.as_bytes()));
    let any: IpAddr = if is_ipv4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    socket.bind(&SocketAddr::new(any, port).into())?;
    let interface = interface.index;
    option::send_to_groups(&socket, ToGroups { interface, hop_limit: HOP_LIMIT, loops_back: true })?;
    let own = groups.iter().filter(|group| group.is_ipv4() == is_ipv4);
    own.into_iter().try_for_each(|group| option::join(&socket, *group, None, interface))?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::*;

    #[test]
    fn one_program_that_has_a_port_is_one_reason_and_others_are_told_beside_it() {
        let deaf = |protocol, name: &str, is_ipv4, kind: io::ErrorKind| Deaf {
            protocol,
            interface: Interface { name: name.into(), ..Interface::named("lo").unwrap() },
            is_ipv4,
            error: kind.into(),
        };
        assert_eq!(problem(&[]), None);
        let taken = io::ErrorKind::AddrInUse;
        let failed = [
            deaf(Protocol::Mdns, "eth0", true, taken),
            deaf(Protocol::Mdns, "eth0", false, taken),
            deaf(Protocol::Sap, "eth1", true, io::ErrorKind::PermissionDenied),
        ];
        let line = problem(&failed).unwrap();
        let begin =
            "no mDNS over IPv4 on eth0, no mDNS over IPv6 on eth0: another program has UDP port 5353 ";
        assert!(line.starts_with(begin), "{line}");
        assert!(line.ends_with("share the port, no SAP over IPv4 on eth1: permission denied"), "{line}");
    }

    #[test]
    fn what_routers_have_passed_on_is_not_heard_by_mdns() {
        let lo = Interface::named("lo").unwrap();
        let (ears, _) = open(std::slice::from_ref(&lo), &[Protocol::Mdns, Protocol::Sap]).unwrap();
        assert!(ears.len() >= 2);
        for ear in &ears {
            let sender = UdpSocket::bind(if ear.is_ipv4 { "127.0.0.1:0" } else { "[::1]:0" }).unwrap();
            let own = sender.local_addr().unwrap();
            // Loopbacks have no route to IPv6 groups.
            let to = match (ear.is_ipv4, ear.protocol) {
                (true, Protocol::Mdns) => MDNS[0],
                (true, Protocol::Sap) => SAP[0],
                (false, _) => own.ip(),
            };
            let to = SocketAddr::new(to, ear.socket.local_addr().unwrap().port());
            let mut lens = Vec::new();
            for hop_limit in [HOP_LIMIT - 1, HOP_LIMIT] {
                let how = ToGroups { interface: lo.index, hop_limit, loops_back: true };
                option::send_to_groups(&sender, how).unwrap();
                option::set_unicast_hop_limit(&sender, hop_limit).unwrap();
                sender.send_to(b"abc", to).unwrap();
                lens.push(loop {
                    match ear.receive(&mut [0; 10]) {
                        Ok((len, from)) if from == own => break len,
                        Ok(_) => {}
                        Err(_) => thread::sleep(Duration::from_millis(1)),
                    }
                });
            }
            assert_eq!(lens, if ear.protocol == Protocol::Mdns { [0, 3] } else { [3, 3] });
        }
    }
}
