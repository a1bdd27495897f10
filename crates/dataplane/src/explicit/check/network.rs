//! The network in which the program is tested: the routes as the kernel and the model have them, and the
//! packets that leave the network.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{self, Write},
    net::Ipv6Addr,
    process::{Command, Stdio},
};

use socket2::Socket;
use treecast_proto::explicit::xcast::router::NextHop;

use super::Failure;
use treecast_host::{
    namespace::Namespace,
    netlink::Netlink,
    packet::{self, Addressee},
};

/// The number of the interface at which packets arrive. Copies leave by two others.
pub const ENTRANCE: u32 = 10;
const INTERFACES: [(u32, &str); 3] = [(ENTRANCE, "in"), (11, "out"), (12, "out2")];

/// The next hop of every destination that is not named here: a neighbour in a network that no packet names.
const DEFAULT: (Ipv6Addr, u32) =
    (Ipv6Addr::new(0x2001, 0xdb8, 0x7ca5, 0x7ca5, 0x7ca5, 0x7ca5, 0x7ca5, 2), 11);
const DEFAULT_OWN: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x7ca5, 0x7ca5, 0x7ca5, 0x7ca5, 0x7ca5, 1);

/// Networks (/32) of [`far`], the interface towards each, and the router there; none: the network is on the link. There is no
/// route to others.
const NETWORKS: [(u16, u32, Option<Ipv6Addr>); 6] = [
    (1, 11, Some(far(0xf1, 1))),
    (2, 11, Some(far(0xf1, 2))),
    (3, 12, Some(far(0xf2, 1))),
    (4, 12, None),
    (5, ENTRANCE, Some(far(0xf0, 1))),
    (6, 12, Some(UNRESOLVED)),
];

/// A router whose Ethernet address nobody knows.
const UNRESOLVED: Ipv6Addr = far(0xf2, 9);

/// Hosts of the network on the link whose Ethernet addresses are known: from 1 up to this.
const RESOLVED: u16 = 16;

/// The addresses of this host.
pub const OWN: [Ipv6Addr; 2] = [far(0x50, 1), far(0x50, 2)];

/// The beginning of all groups that are tested with, and of none of a kernel's own.
const GROUP_PREFIX: [u8; 2] = [0xff, 0x15];

const ETHERNET_LEN: usize = 14;
const AT_SOURCE: usize = ETHERNET_LEN + 8;

/// Returns the address of a host in one of the networks. The table of routes, the generator and the tests all
/// use it.
pub const fn far(network: u16, number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd15, network, 0, 0, 0, 1, 0, number)
}

/// Returns where the host's routes lead.
pub fn next_hop(destination: Ipv6Addr) -> Option<NextHop> {
    let [first, second, ..] = destination.segments();
    if first != far(0, 0).segments()[0] {
        return Some(NextHop { interface: DEFAULT.1, gateway: Some(DEFAULT.0) });
    }
    let (_, interface, gateway) = NETWORKS.iter().find(|(network, ..)| *network == second)?;
    Some(NextHop { interface: *interface, gateway: *gateway })
}

/// The way by which a packet leaves the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// The packet leaves by this interface, to this Ethernet address.
    Direct(u32, [u8; 6]),
    /// The packet goes back to the interface at which it arrived, and the kernel forwards it as it can.
    Kernel,
}

/// Returns how a packet to this destination leaves.
pub fn way(destination: Ipv6Addr) -> Exit {
    let Some(NextHop { interface, gateway }) = next_hop(destination) else { return Exit::Kernel };
    let is_resolved = match gateway {
        Some(gateway) => gateway != UNRESOLVED,
        None => (1..=RESOLVED).any(|number| destination == far(4, number)),
    };
    if is_resolved { Exit::Direct(interface, mac(gateway.unwrap_or(destination))) } else { Exit::Kernel }
}

/// Returns the Ethernet address of a neighbour.
pub fn mac(neighbour: Ipv6Addr) -> [u8; 6] {
    let octets = neighbour.octets();
    [2, 0x7c, octets[2], octets[3], octets[14], octets[15]]
}

pub struct Network {
    sockets: Vec<(u32, Socket)>,
    /// Ethernet address of each interface.
    macs: BTreeMap<u32, [u8; 6]>,
    buffer: Vec<u8>,
}

impl Network {
    /// Makes the network and moves the calling thread into it.
    pub fn enter() -> Result<Self, Failure> {
        Namespace::enter_new()
            .map_err(|error| format!("cannot make a network namespace: {error}; be root"))?;
        for (setting, value) in [("all/forwarding", "1"), ("default/accept_dad", "0")] {
            fs::write(format!("/proc/sys/net/ipv6/conf/{setting}"), value)?;
        }
        ip(&commands())?;
        let interfaces = Netlink::open()?.interfaces()?;
        let mut macs = BTreeMap::new();
        let mut sockets = Vec::new();
        for (index, name) in INTERFACES {
            macs.insert(index, interfaces[&index].mac.ok_or(format!("{name} has no Ethernet address"))?);
            let socket = packet::open(index, packet::ALL_TYPES)?;
            socket.set_recv_buffer_size(4 << 20)?;
            sockets.push((index, socket));
        }
        Ok(Self { sockets, macs, buffer: vec![0; 1 << 17] })
    }

    /// Returns the interfaces and their Ethernet addresses.
    pub fn macs(&self) -> &BTreeMap<u32, [u8; 6]> {
        &self.macs
    }

    /// Returns the Ethernet header of a frame that arrives for this host, or for a group when one is given.
    pub fn incoming_head(&self, group: Option<[u8; 6]>) -> [u8; ETHERNET_LEN] {
        head(group.unwrap_or(self.macs[&ENTRANCE]), mac(DEFAULT.0))
    }

    /// Returns the frame of a packet that leaves this way. Where the kernel forwards, it lowers the hop limit
    /// by itself.
    pub fn frame(&self, way: Exit, packet: &[u8]) -> Vec<u8> {
        let head = match way {
            Exit::Direct(interface, to) => head(to, self.macs[&interface]),
            Exit::Kernel => self.incoming_head(None),
        };
        let mut frame = [&head[..], packet].concat();
        frame[ETHERNET_LEN + 7] += u8::from(way == Exit::Kernel);
        frame
    }

    /// Returns the copies that have left: those of each interface in their order, and then those for the
    /// kernel.
    pub fn left(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let (mut direct, mut to_kernel) = (Vec::new(), Vec::new());
        let incoming = self.incoming_head(None);
        for (interface, socket) in &self.sockets {
            loop {
                let (len, to) = match packet::receive(socket, &mut self.buffer) {
                    Ok(read) => read,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                };
                let frame = &self.buffer[..len];
                if to == Addressee::Leaving && is_copy(frame) {
                    direct.push(frame.to_vec());
                } else if *interface == ENTRANCE && frame.starts_with(&incoming) {
                    to_kernel.push(frame.to_vec());
                }
            }
        }
        Ok([direct, to_kernel].concat())
    }
}

/// Whether a frame that leaves is not one of the kernel's own, which joins groups, looks for neighbours, and answers.
fn is_copy(frame: &[u8]) -> bool {
    let is_from = |own: &Ipv6Addr| frame.get(AT_SOURCE..AT_SOURCE + 16) == Some(&own.octets()[..]);
    let is_of_host = OWN.iter().chain([&DEFAULT_OWN]).any(is_from);
    let is_to_group = frame.get(AT_SOURCE + 16..AT_SOURCE + 18) == Some(&GROUP_PREFIX[..]);
    !is_of_host && (is_to_group || frame.starts_with(&mac(DEFAULT.0)[..2]))
}

fn head(to: [u8; 6], from: [u8; 6]) -> [u8; ETHERNET_LEN] {
    let mut head = [0; ETHERNET_LEN];
    head[..6].copy_from_slice(&to);
    head[6..12].copy_from_slice(&from);
    head[12..].copy_from_slice(&(libc::ETH_P_IPV6 as u16).to_be_bytes());
    head
}

/// The commands for `ip`. Interfaces have no addresses of their own, so that little but the packets tested leaves.
fn commands() -> String {
    let mut text = String::from("link set lo up\n");
    let mut put = |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("a String takes all");
    for (index, name) in INTERFACES {
        put(format_args!(
            "link add name {name} index {index} mtu 65535 type veth peer name {name}-far index {}",
            index + 10
        ));
        for end in [name.to_owned(), format!("{name}-far")] {
            put(format_args!("link set {end} addrgenmode none\nlink set {end} up"));
        }
    }
    let name = |index| INTERFACES.iter().find(|(other, _)| *other == index).expect("one of them").1;
    let mut neighbour = |address: Ipv6Addr, interface| {
        let octets: Vec<_> = mac(address).iter().map(|octet| format!("{octet:02x}")).collect();
        put(format_args!(
            "neigh add {address} lladdr {} dev {} nud permanent",
            octets.join(":"),
            name(interface)
        ));
    };
    neighbour(DEFAULT.0, DEFAULT.1);
    (1..=RESOLVED).for_each(|number| neighbour(far(4, number), 12));
    let gateways = NETWORKS.iter().filter_map(|(_, interface, gateway)| Some((*interface, (*gateway)?)));
    gateways
        .filter(|(_, gateway)| *gateway != UNRESOLVED)
        .for_each(|(interface, gateway)| neighbour(gateway, interface));
    OWN.iter().for_each(|own| put(format_args!("addr add {own}/128 dev lo nodad")));
    put(format_args!("addr add {DEFAULT_OWN}/112 dev {} nodad", name(DEFAULT.1)));
    put(format_args!("route add default via {}", DEFAULT.0));
    put(format_args!("route add unreachable {}/16", network_of(0)));
    for (network, interface, gateway) in NETWORKS {
        let via = gateway.map(|gateway| format!("via {gateway} onlink ")).unwrap_or_default();
        put(format_args!("route add {}/32 {via}dev {}", network_of(network), name(interface)));
    }
    text
}

fn network_of(network: u16) -> Ipv6Addr {
    Ipv6Addr::new(far(0, 0).segments()[0], network, 0, 0, 0, 0, 0, 0)
}

fn ip(commands: &str) -> Result<(), Failure> {
    let mut command = Command::new("ip");
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|error| format!("cannot run ip of iproute2 ({error}): apt install iproute2"))?;
    child.stdin.take().expect("it is piped").write_all(commands.as_bytes())?;
    let output = child.wait_with_output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip: {}", String::from_utf8_lossy(&output.stderr).trim()).into()),
    }
}
