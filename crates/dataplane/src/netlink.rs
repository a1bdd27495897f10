//! Interfaces, their addresses and the routes to sources, from the kernel's rtnetlink (rtnetlink(7)).

use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::{IpAddr, Ipv6Addr},
    os::fd::{AsRawFd, RawFd},
    time::Duration,
};

use socket2::{Domain, Protocol, Socket, Type};

use crate::sys;

const HEADER_LEN: usize = 16;
pub const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
/// The ingress half of clsact.
const TC_H_MIN_INGRESS: u32 = 0xffff_fff2;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_ID: u16 = 11;
const RTN_UNICAST: u8 = 1;
const RT_SCOPE_LINK: u8 = 253;

/// Room for the largest message that a kernel puts together for a dump.
const BUFFER_LEN: usize = 32 * 1024;

/// One network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub index: u32,
    pub name: String,
    pub is_up: bool,
    /// Whether it can multicast and is neither the loopback nor part of another, as a bridge's port is.
    pub is_usable: bool,
    /// Whether its frames begin with an Ethernet header.
    pub is_ethernet: bool,
    /// Its Ethernet address.
    pub mac: Option<[u8; 6]>,
    /// The longest packet that it takes, in bytes.
    pub mtu: u32,
    /// The address that it sends IGMP from: its first.
    pub ipv4: Option<IpAddr>,
    /// The address that it sends MLD from: its first link-local one, once that is known to be unique.
    pub ipv6: Option<IpAddr>,
    /// Its IPv4 networks.
    pub networks: Vec<(IpAddr, u8)>,
    /// All addresses of either family.
    pub addresses: Vec<IpAddr>,
}

/// Where the kernel sends packets to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    pub interface: u32,
    /// The router that they go to; none: the address is on the link.
    pub gateway: Option<IpAddr>,
}

/// A filter of `tc` at an interface's ingress that runs eBPF or classic BPF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpfFilter {
    pub priority: u16,
    pub handle: u32,
    /// Empty where it has none.
    pub name: String,
    /// The number of its eBPF program. None: it is classic BPF.
    pub program: Option<u32>,
}

/// What has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    pub interfaces: bool,
    pub routes: bool,
}

/// Questions to the kernel.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

/// News from the kernel.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
}

impl Netlink {
    pub fn open() -> io::Result<Self> {
        let socket = open()?;
        // The kernel answers before the request returns; this is for a kernel that does not.
        socket.set_read_timeout(Some(Duration::from_secs(2)))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// All interfaces of the network namespace, by name.
    pub fn interfaces(&mut self) -> io::Result<BTreeMap<String, Interface>> {
        let mut by_index = HashMap::new();
        self.dump(libc::RTM_GETLINK, &[0; 16], |body| {
            if let Some(interface) = parse_link(body) {
                by_index.insert(interface.index, interface);
            }
        })?;
        self.dump(libc::RTM_GETADDR, &[0; 8], |body| add_address(body, &mut by_index))?;
        Ok(by_index.into_values().map(|interface| (interface.name.clone(), interface)).collect())
    }

    /// Where packets to `address` leave; none when there is no route, or when the address is this host's own.
    pub fn route(&mut self, address: IpAddr) -> io::Result<Option<Route>> {
        let (family, octets) = match address {
            IpAddr::V4(address) => (libc::AF_INET, address.octets().to_vec()),
            IpAddr::V6(address) => (libc::AF_INET6, address.octets().to_vec()),
        };
        // struct rtmsg: family, length of the destination, and 10 bytes that may stay zero.
        let mut body = vec![0; 12];
        body[0] = family as u8;
        body[1] = (octets.len() * 8) as u8;
        body.extend_from_slice(&((4 + octets.len()) as u16).to_ne_bytes());
        body.extend_from_slice(&RTA_DST.to_ne_bytes());
        body.extend_from_slice(&octets);

        let mut route = None;
        let answered = self.ask(libc::RTM_GETROUTE, 0, &body, |body| {
            let is_unicast = body.get(7) == Some(&RTN_UNICAST);
            let attribute = |wanted| {
                let mut all = attributes(body.get(12..).unwrap_or_default());
                all.find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
            };
            let interface = attribute(RTA_OIF).and_then(read_u32).filter(|_| is_unicast);
            let gateway = attribute(RTA_GATEWAY).and_then(|value| sys::address(body[0], value));
            route = interface.map(|interface| Route { interface, gateway });
        });
        match answered.map_err(|error| (error.raw_os_error(), error)) {
            Ok(()) => Ok(route),
            Err((Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL), _)) => Ok(None),
            Err((_, error)) => Err(error),
        }
    }

    /// The Ethernet address of a host on this interface's link, if the kernel has it.
    pub fn neighbour(&mut self, interface: u32, address: Ipv6Addr) -> io::Result<Option<[u8; 6]>> {
        // struct ndmsg: family, padding, interface, and 4 bytes that may stay zero; then the address.
        let mut body = vec![libc::AF_INET6 as u8, 0, 0, 0];
        body.extend_from_slice(&interface.to_ne_bytes());
        body.extend_from_slice(&[0; 4]);
        body.extend_from_slice(&20_u16.to_ne_bytes());
        body.extend_from_slice(&NDA_DST.to_ne_bytes());
        body.extend_from_slice(&address.octets());

        let mut found = None;
        let answered = self.ask(libc::RTM_GETNEIGH, 0, &body, |body| {
            found = attributes(body.get(12..).unwrap_or_default())
                .find(|(kind, _)| *kind == NDA_LLADDR)
                .and_then(|(_, value)| value.try_into().ok());
        });
        match answered {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(found),
        }
    }

    /// The filters at an interface's ingress that run BPF; none, where nothing can hang.
    pub fn ingress_filters(&mut self, interface: u32) -> io::Result<Vec<BpfFilter>> {
        // struct tcmsg: family, padding, interface, handle, parent, info.
        let words = [0, interface, 0, TC_H_MIN_INGRESS, 0].map(u32::to_ne_bytes).concat();
        let mut filters = Vec::new();
        let answered = self.dump(libc::RTM_GETTFILTER, &words, |body| filters.extend(parse_filter(body)));
        match answered {
            Err(error) if error.raw_os_error() != Some(libc::EINVAL) => Err(error),
            _ => Ok(filters),
        }
    }

    fn dump(&mut self, kind: u16, body: &[u8], take: impl FnMut(&[u8])) -> io::Result<()> {
        self.ask(kind, libc::NLM_F_DUMP as u16, body, take)
    }

    /// Sends a request and hands on the body of each message of the answer.
    fn ask(&mut self, kind: u16, flags: u16, body: &[u8], mut take: impl FnMut(&[u8])) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = Vec::with_capacity(HEADER_LEN + body.len());
        request.extend_from_slice(&((HEADER_LEN + body.len()) as u32).to_ne_bytes());
        request.extend_from_slice(&kind.to_ne_bytes());
        request.extend_from_slice(&(flags | libc::NLM_F_REQUEST as u16).to_ne_bytes());
        request.extend_from_slice(&self.sequence.to_ne_bytes());
        request.extend_from_slice(&[0; 4]);
        request.extend_from_slice(body);
        self.socket.send(&request)?;

        let is_dump = flags & libc::NLM_F_DUMP as u16 != 0;
        let mut buffer = vec![0; BUFFER_LEN];
        loop {
            let len = io::Read::read(&mut &self.socket, &mut buffer)?;
            for message in messages(&buffer[..len]).filter(|message| message.sequence == self.sequence) {
                match message.kind {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => return parse_error(message.body),
                    _ => take(message.body),
                }
                if !is_dump {
                    return Ok(());
                }
            }
        }
    }
}

impl Monitor {
    pub fn open() -> io::Result<Self> {
        let socket = open()?;
        let groups = libc::RTMGRP_LINK
            | libc::RTMGRP_IPV4_IFADDR
            | libc::RTMGRP_IPV6_IFADDR
            | libc::RTMGRP_IPV4_ROUTE
            | libc::RTMGRP_IPV6_ROUTE;
        sys::bind_netlink(&socket, groups as u32)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket })
    }

    /// What has changed since the last call; everything, when there was more news than room for it.
    pub fn changes(&self) -> io::Result<Changes> {
        let mut changes = Changes::default();
        let mut buffer = vec![0; BUFFER_LEN];
        loop {
            match io::Read::read(&mut &self.socket, &mut buffer) {
                Ok(len) => messages(&buffer[..len]).for_each(|message| changes.add(message.kind)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(changes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    changes = Changes { interfaces: true, routes: true };
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsRawFd for Monitor {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl Changes {
    fn add(&mut self, kind: u16) {
        match kind {
            libc::RTM_NEWLINK | libc::RTM_DELLINK | libc::RTM_NEWADDR | libc::RTM_DELADDR => {
                self.interfaces = true;
            }
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => self.routes = true,
            _ => {}
        }
    }
}

fn open() -> io::Result<Socket> {
    Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(Protocol::from(libc::NETLINK_ROUTE)))
}

/// struct ifinfomsg: family, padding, 2 bytes of type, index, flags, change; then attributes.
fn parse_link(body: &[u8]) -> Option<Interface> {
    let index = read_u32(body.get(4..)?)?;
    let flags = read_u32(body.get(8..)?)? as i32;
    let mut interface = Interface {
        index,
        name: String::new(),
        is_up: flags & libc::IFF_UP != 0,
        is_usable: flags & libc::IFF_MULTICAST != 0 && flags & libc::IFF_LOOPBACK == 0,
        is_ethernet: body.get(2..).and_then(read_u16) == Some(libc::ARPHRD_ETHER),
        mac: None,
        mtu: 0,
        ipv4: None,
        ipv6: None,
        networks: Vec::new(),
        addresses: Vec::new(),
    };
    for (kind, value) in attributes(body.get(16..)?) {
        match kind {
            IFLA_ADDRESS => interface.mac = value.try_into().ok(),
            IFLA_IFNAME => interface.name = text(value),
            IFLA_MTU => interface.mtu = read_u32(value).unwrap_or_default(),
            IFLA_MASTER => interface.is_usable = false,
            _ => {}
        }
    }
    Some(interface)
}

/// struct ifaddrmsg: family, prefix length, flags, scope, index; then attributes.
fn add_address(body: &[u8], interfaces: &mut HashMap<u32, Interface>) {
    let &[family, prefix_len, flags, scope, ..] = body else { return };
    let index = body.get(4..).and_then(read_u32);
    let Some(interface) = index.and_then(|index| interfaces.get_mut(&index)) else { return };
    let (mut address, mut local, mut flags) = (None, None, u32::from(flags));
    for (kind, value) in attributes(body.get(8..).unwrap_or_default()) {
        match kind {
            IFA_ADDRESS => address = sys::address(family, value),
            IFA_LOCAL => local = sys::address(family, value),
            IFA_FLAGS => flags = read_u32(value).unwrap_or(flags),
            _ => {}
        }
    }
    // On point-to-point links the address is the peer's, and the local one is ours.
    let Some(own) = local.or(address) else { return };
    interface.addresses.push(own);
    match own {
        IpAddr::V4(_) => {
            interface.ipv4.get_or_insert(own);
            interface.networks.push((address.unwrap_or(own), prefix_len));
        }
        IpAddr::V6(_) => {
            let is_usable = flags & (libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED) == 0;
            if scope == RT_SCOPE_LINK && is_usable {
                interface.ipv6.get_or_insert(own);
            }
        }
    }
}

/// struct tcmsg: family, padding, interface, handle, parent, info with the priority in its upper half; then attributes.
fn parse_filter(body: &[u8]) -> Option<BpfFilter> {
    let handle = read_u32(body.get(8..)?)?;
    let priority = (read_u32(body.get(16..)?)? >> 16) as u16;
    let mut filter = BpfFilter { priority, handle, name: String::new(), program: None };
    let mut is_bpf = false;
    for (kind, value) in attributes(body.get(20..)?) {
        match kind {
            libc::TCA_KIND => is_bpf = text(value) == "bpf",
            libc::TCA_OPTIONS => attributes(value).for_each(|(kind, value)| match kind {
                TCA_BPF_NAME => filter.name = text(value),
                TCA_BPF_ID => filter.program = read_u32(value),
                _ => {}
            }),
            _ => {}
        }
    }
    // The head of the filters of one priority has no handle.
    (is_bpf && handle != 0).then_some(filter)
}

pub struct NetlinkMessage<'a> {
    pub kind: u16,
    pub sequence: u32,
    pub body: &'a [u8],
}

/// The messages of one datagram, as far as they are whole.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = NetlinkMessage<'_>> {
    std::iter::from_fn(move || {
        let len = read_u32(bytes)? as usize;
        let message = bytes.get(HEADER_LEN..len)?;
        let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
        let sequence = read_u32(bytes.get(8..)?)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(NetlinkMessage { kind, sequence, body: message })
    })
}

/// The attributes in `bytes`, as far as they are whole: their types, without flags, and values.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(*bytes.first_chunk::<2>()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & 0x3fff, value))
    })
}

/// struct nlmsgerr: minus an error number, or 0 for an acknowledgement.
pub fn parse_error(body: &[u8]) -> io::Result<()> {
    match read_u32(body).map(|code| code as i32) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn read_u32(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.first_chunk::<4>()?))
}

fn read_u16(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.first_chunk::<2>()?))
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_there_and_not_usable() {
        let mut netlink = Netlink::open().expect("netlink is there");
        let interfaces = netlink.interfaces().expect("a list");
        let loopback = &interfaces["lo"];
        assert_eq!((loopback.index, loopback.is_usable), (1, false));
        assert_eq!(netlink.route(IpAddr::from([127, 0, 0, 1])).expect("an answer"), None, "it is ours");
    }

    #[test]
    fn cut_messages_and_attributes_end_the_walk() {
        let mut bytes = vec![0; 24];
        bytes[0] = 24;
        bytes[16] = 8;
        bytes[18] = 5;
        assert_eq!(messages(&bytes).count(), 1);
        assert_eq!(attributes(&bytes[16..]).collect::<Vec<_>>(), [(5, &[0u8; 4][..])]);
        for len in 0..bytes.len() {
            assert_eq!(messages(&bytes[..len]).count(), 0);
        }
        bytes[16] = 3;
        assert_eq!(attributes(&bytes[16..]).count(), 0, "shorter than its own header");
        bytes[0] = 15;
        assert_eq!(messages(&bytes).count(), 0, "shorter than its own header");
    }
}
