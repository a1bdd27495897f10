//! Topologies: nodes, the networks between them, and the quality of each cable.
//!
//! A [`Topology`] always passes the checks of `check.rs` ([`Topology::parse`] ends with them). So names are
//! unique, references resolve, addresses differ, and no router has more multicast interfaces than the kernel
//! can route between.

mod addresses;
mod bgp;
mod check;
mod draft;
mod error;
mod file;
mod generate;
mod interdomain;
mod quality;
mod spec;
mod testbed;

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

pub use bgp::{Neighbour, Relation, Speaker};
pub use error::SpecError;
pub use quality::{Loss, Quality, parse_rate_bps};

/// The largest number of multicast interfaces of a router. It is the kernel's limit: `MAXVIFS` (IPv4) and
/// `MAXMIFS` (IPv6) of one multicast routing table.
pub const MAX_MULTICAST_INTERFACES: usize = 32;

/// The longest name of an interface in bytes (`IFNAMSIZ` - 1). Bridges have the names of LANs.
pub const MAX_NAME_BYTES: usize = 15;

/// The description of a network. Nodes are referred to by their index in `nodes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// The lab's default name.
    pub name: String,
    pub nodes: Vec<Node>,
    pub networks: Vec<Network>,
    /// The OSPF areas that boundary routers publish as one prefix. Used only if routes come from OSPF.
    #[serde(default)]
    pub area_ranges: Vec<AreaRange>,
    /// The routers that speak BGP. If there are any, all IPv6 routes of routers come from BGP.
    #[serde(default)]
    pub bgp: Vec<Speaker>,
}

/// The prefix that a router on the boundary of an OSPF area publishes (RFC 5340, appendix C.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaRange {
    pub router: usize,
    pub area: u16,
    pub prefix: Subnet<Ipv6Addr>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub name: String,
    pub role: Role,
    /// Addresses of the node itself, and not of an interface. They are reachable from everywhere.
    pub loopback_v6: Vec<Ipv6Addr>,
}

/// The role of a node. Only routers forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Server,
    Client,
    Router,
}

/// Nodes that reach each other without a router between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Network {
    pub name: String,
    pub kind: NetworkKind,
    pub v4: Subnet<Ipv4Addr>,
    pub v6: Subnet<Ipv6Addr>,
    pub members: Vec<Member>,
    /// The OSPF area of the network. Used only if routes come from OSPF.
    #[serde(default)]
    pub area: u16,
    /// The cable between the two switches of a LAN. `None`: the LAN has one switch, or is a link.
    #[serde(default)]
    pub trunk: Option<Trunk>,
}

/// The cable between the two switches of a LAN.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trunk {
    /// The number of members on the first switch. The members after them are on the second switch.
    pub first: usize,
    pub quality: Quality,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkKind {
    /// A bridge that snoops MLD and IGMP; each member has a cable of its own to it.
    Lan,
    /// One cable between two nodes.
    Link,
}

/// The first address of a prefix, and its length in bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet<A> {
    pub base: A,
    pub length: u8,
}

/// One end of a cable: a node's interface in a network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    pub node: usize,
    pub interface: String,
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
    pub quality: Quality,
}

impl Topology {
    /// Parses a topology: `lan:clients=20`, `tree:levels=3,clients=5`, `shared:clients=5,rate=50M`,
    /// `interdomain:stubs=10`, `testbed:FILE`, or the path of a TOML file.
    pub fn parse(spec: &str) -> Result<Self, SpecError> {
        spec::parse(spec)
    }

    /// Parses the text of a TOML file, which errors call `file_name`.
    pub fn from_toml(text: &str, file_name: &str) -> Result<Self, SpecError> {
        file::parse(text, file_name)
    }

    /// A network, and the key of something in it that only the simulator has. `None` where a lab has all of it.
    pub fn only_simulated(&self) -> Option<(&str, &'static str)> {
        let key =
            |network: &Network| network.members.iter().find_map(|member| member.quality.only_simulated());
        self.networks.iter().find_map(|network| Some((network.name.as_str(), key(network)?)))
    }

    /// The members of all networks, in order.
    pub fn members(&self) -> impl Iterator<Item = &Member> + Clone {
        self.networks.iter().flat_map(|network| &network.members)
    }

    pub fn members_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.networks.iter_mut().flat_map(|network| &mut network.members)
    }

    /// The number of nodes with `role`.
    pub fn count(&self, role: Role) -> usize {
        self.nodes.iter().filter(|node| node.role == role).count()
    }
}

impl Network {
    /// Returns the number of members on each switch of a LAN.
    pub fn members_by_switch(&self) -> Vec<usize> {
        let count = self.members.len();
        self.trunk.as_ref().map_or_else(|| vec![count], |trunk| vec![trunk.first, count - trunk.first])
    }

    /// Whether a router is a member, which then asks for listeners itself.
    pub fn has_router(&self, nodes: &[Node]) -> bool {
        self.members.iter().any(|member| nodes[member.node].role == Role::Router)
    }
}
