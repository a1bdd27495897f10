//! The last step of every parser: a draft, whose names are still words, becomes a topology, or is
//! refused with the line that is wrong.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::spec::SpecError;
use super::{
    MAX_MULTICAST_INTERFACES, MAX_NAME_BYTES, Member, Network, NetworkKind, Node, Quality, Role, Subnet,
    Topology,
};

/// More namespaces than this are beyond what one machine was ever tried with.
const MAX_NODES: usize = 4096;

/// What a parser has read, in the order of the file.
pub(super) struct Draft<'a> {
    /// The file's name or the generator's words, for errors.
    pub file: &'a str,
    pub name: String,
    pub nodes: Vec<DraftNode>,
    pub networks: Vec<DraftNetwork>,
}

pub(super) struct DraftNode {
    pub name: String,
    pub role: Role,
    pub loopback_v6: Vec<Ipv6Addr>,
    pub line: Option<usize>,
}

pub(super) struct DraftNetwork {
    pub name: String,
    pub kind: NetworkKind,
    /// `None`: the next free one.
    pub v4: Option<Subnet<Ipv4Addr>>,
    pub v6: Option<Subnet<Ipv6Addr>>,
    pub members: Vec<DraftMember>,
    pub line: Option<usize>,
}

pub(super) struct DraftMember {
    pub node: String,
    /// `None`: `if1`, `if2`... in the order of the networks.
    pub interface: Option<String>,
    /// `None`: the next free one of the network.
    pub v4: Option<Ipv4Addr>,
    pub v6: Option<Ipv6Addr>,
    pub quality: Quality,
    pub line: Option<usize>,
}

impl DraftMember {
    /// A member of which nothing is known but its node.
    pub fn of(node: impl Into<String>, quality: Quality) -> Self {
        let node = node.into();
        Self { node, interface: None, v4: None, v6: None, quality, line: None }
    }

    pub fn on(mut self, interface: &str) -> Self {
        self.interface = Some(interface.to_owned());
        self
    }
}

impl Draft<'_> {
    /// Checks everything and fills in what was left open.
    pub fn finish(self) -> Result<Topology, SpecError> {
        let nodes = self.index_nodes()?;
        self.check_network_names()?;
        let subnets = self.assign_subnets()?;
        let mut owners = Owners::default();
        self.claim_fixed_addresses(&mut owners)?;
        let mut interfaces = vec![Vec::new(); self.nodes.len()];
        let mut networks = Vec::with_capacity(self.networks.len());
        for (network, (v4, v6)) in self.networks.iter().zip(subnets) {
            let mut free = Free { v4, v6, next: 1 };
            let mut members = Vec::with_capacity(network.members.len());
            for member in &network.members {
                let node = self.resolve(&nodes, member)?;
                let interface = self.name_interface(member, &mut interfaces[node])?;
                let v4 = member.v4.map_or_else(|| free.v4(&mut owners), Some);
                let v6 = member.v6.map_or_else(|| free.v6(&mut owners), Some);
                let (Some(v4), Some(v6)) = (v4, v6) else {
                    let message =
                        format!("network {} is too small for its members: shorten its prefix", network.name);
                    return Err(self.wrong(network.line, message));
                };
                let quality = member.quality.clone();
                members.push(Member { node, interface, v4, v6, quality });
            }
            self.check_members(network, &members)?;
            let (name, kind) = (network.name.clone(), network.kind);
            networks.push(Network { name, kind, v4, v6, members });
        }
        self.check_routers(&interfaces)?;
        let node = |node: DraftNode| Node { name: node.name, role: node.role, loopback_v6: node.loopback_v6 };
        Ok(Topology { name: self.name, nodes: self.nodes.into_iter().map(node).collect(), networks })
    }

    fn wrong(&self, line: Option<usize>, message: impl Into<String>) -> SpecError {
        SpecError::new(self.file, line, message)
    }

    fn index_nodes(&self) -> Result<HashMap<&str, usize>, SpecError> {
        if self.nodes.is_empty() || self.nodes.len() > MAX_NODES {
            let message = format!("has {} nodes: 1 to {MAX_NODES} were expected", self.nodes.len());
            return Err(self.wrong(None, message));
        }
        let mut index = HashMap::new();
        for (position, node) in self.nodes.iter().enumerate() {
            self.check_name("node", &node.name, node.line)?;
            if node.role != Role::Router && !node.loopback_v6.is_empty() {
                let message = format!("{} is no router, so its addresses belong to its ends", node.name);
                return Err(self.wrong(node.line, message));
            }
            if index.insert(node.name.as_str(), position).is_some() {
                let message = format!("a second node is called {}: give it another name", node.name);
                return Err(self.wrong(node.line, message));
            }
        }
        Ok(index)
    }

    fn check_network_names(&self) -> Result<(), SpecError> {
        let mut seen = HashMap::new();
        for network in &self.networks {
            self.check_name("network", &network.name, network.line)?;
            if seen.insert(network.name.as_str(), ()).is_some() {
                let message = format!("a second network is called {}: give it another name", network.name);
                return Err(self.wrong(network.line, message));
            }
        }
        Ok(())
    }

    fn check_name(&self, what: &str, name: &str, line: Option<usize>) -> Result<(), SpecError> {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.len() > MAX_NAME_BYTES {
            let message = format!(
                "{what} name {name:?} has {} bytes: the kernel allows an interface at most {MAX_NAME_BYTES}",
                name.len()
            );
            return Err(self.wrong(line, message));
        }
        if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(good) {
            let message = format!("{what} name {name:?} is no good: use letters, digits, '-' and '_'");
            return Err(self.wrong(line, message));
        }
        Ok(())
    }

    fn resolve(&self, nodes: &HashMap<&str, usize>, member: &DraftMember) -> Result<usize, SpecError> {
        nodes.get(member.node.as_str()).copied().ok_or_else(|| {
            let message = format!("there is no node {}: define it or correct the name", member.node);
            self.wrong(member.line, message)
        })
    }

    fn name_interface(&self, member: &DraftMember, taken: &mut Vec<String>) -> Result<String, SpecError> {
        let automatic = || (1..).map(|n| format!("if{n}")).find(|name| !taken.contains(name));
        let name = member.interface.clone().or_else(automatic).unwrap_or_default();
        self.check_name("interface", &name, member.line)?;
        if name == "lo" || taken.contains(&name) {
            let message = format!("node {} has an interface {name} already: use another name", member.node);
            return Err(self.wrong(member.line, message));
        }
        taken.push(name.clone());
        Ok(name)
    }

    fn check_members(&self, network: &DraftNetwork, members: &[Member]) -> Result<(), SpecError> {
        let expected = match network.kind {
            NetworkKind::Lan => 1..=MAX_NODES,
            NetworkKind::Link => 2..=2,
        };
        if !expected.contains(&members.len()) {
            let message = format!(
                "{} joins {} nodes: a LAN joins at least 1, a link exactly 2",
                network.name,
                members.len()
            );
            return Err(self.wrong(network.line, message));
        }
        let mut seen = HashMap::new();
        for (member, draft) in members.iter().zip(&network.members) {
            if seen.insert(member.node, ()).is_some() {
                let message =
                    format!("{} is in {} twice: a loop, which carries no traffic", draft.node, network.name);
                return Err(self.wrong(draft.line.or(network.line), message));
            }
        }
        Ok(())
    }

    fn check_routers(&self, interfaces: &[Vec<String>]) -> Result<(), SpecError> {
        for (node, interfaces) in self.nodes.iter().zip(interfaces) {
            if node.role == Role::Router && interfaces.len() > MAX_MULTICAST_INTERFACES {
                let message = format!(
                    "router {} has {} interfaces, but the kernel routes multicast between at most {MAX_MULTICAST_INTERFACES}: split it in two",
                    node.name,
                    interfaces.len()
                );
                return Err(self.wrong(node.line, message));
            }
        }
        Ok(())
    }

    fn claim_fixed_addresses(&self, owners: &mut Owners) -> Result<(), SpecError> {
        for node in &self.nodes {
            for address in &node.loopback_v6 {
                self.claim(owners, (*address).into(), &node.name, node.line)?;
            }
        }
        for member in self.networks.iter().flat_map(|network| &network.members) {
            let fixed = member.v4.map(IpAddr::from).into_iter().chain(member.v6.map(IpAddr::from));
            for address in fixed {
                self.claim(owners, address, &member.node, member.line)?;
            }
        }
        Ok(())
    }

    fn claim(
        &self,
        owners: &mut Owners,
        address: IpAddr,
        node: &str,
        line: Option<usize>,
    ) -> Result<(), SpecError> {
        match owners.0.insert(address, node.to_owned()) {
            None => Ok(()),
            Some(other) => {
                let message = format!("{address} of {node} is an address of {other} too: change one of them");
                Err(self.wrong(line, message))
            }
        }
    }

    /// The given subnets, and the next free ones where none is given.
    fn assign_subnets(&self) -> Result<Vec<(Subnet<Ipv4Addr>, Subnet<Ipv6Addr>)>, SpecError> {
        let mut taken_v4 = Vec::new();
        let mut taken_v6 = Vec::new();
        for network in &self.networks {
            self.take(&mut taken_v4, network.v4, network)?;
            self.take(&mut taken_v6, network.v6, network)?;
            self.check_inside(network)?;
        }
        let mut next = 1 << 8;
        let mut assigned = Vec::with_capacity(self.networks.len());
        for network in &self.networks {
            let block = (network.members.len() as u32 + 2).next_power_of_two().max(256);
            let fits = |base: &u32| {
                let (v4, v6) = numbered(*base, block);
                base % block == 0
                    && !taken_v4.iter().any(|other| v4.overlaps(other))
                    && !taken_v6.iter().any(|other| v6.overlaps(other))
            };
            let base = (next..1 << 24).step_by(256).find(fits);
            let base =
                base.ok_or_else(|| self.wrong(network.line, "the addresses of 10.0.0.0/8 are used up"))?;
            let (v4, v6) = numbered(base, block);
            if network.v4.is_none() || network.v6.is_none() {
                next = base + block;
            }
            assigned.push((network.v4.unwrap_or(v4), network.v6.unwrap_or(v6)));
        }
        Ok(assigned)
    }

    fn take<A>(
        &self,
        taken: &mut Vec<Subnet<A>>,
        subnet: Option<Subnet<A>>,
        network: &DraftNetwork,
    ) -> Result<(), SpecError>
    where
        Subnet<A>: Prefix + std::fmt::Display,
    {
        let Some(subnet) = subnet else { return Ok(()) };
        if let Some(other) = taken.iter().find(|other| subnet.overlaps(other)) {
            let message = format!(
                "{subnet} of {} overlaps {other} of another network: change one of them",
                network.name
            );
            return Err(self.wrong(network.line, message));
        }
        taken.push(subnet);
        Ok(())
    }

    fn check_inside(&self, network: &DraftNetwork) -> Result<(), SpecError> {
        for member in &network.members {
            let v4 = member.v4.map(|address| {
                (IpAddr::from(address), network.v4.is_some_and(|subnet| subnet.contains(address)))
            });
            let v6 = member.v6.map(|address| {
                (IpAddr::from(address), network.v6.is_some_and(|subnet| subnet.contains(address)))
            });
            let outside = v4.into_iter().chain(v6).find(|(_, inside)| !inside);
            if let Some((address, _)) = outside {
                let message = format!(
                    "{address} of {} is outside its network {}: give the network a prefix that holds it",
                    member.node, network.name
                );
                return Err(self.wrong(member.line, message));
            }
        }
        Ok(())
    }
}

/// Subnets number `base / 256` of 10.0.0.0/8 and of fd00::/48, the former with `block` addresses.
fn numbered(base: u32, block: u32) -> (Subnet<Ipv4Addr>, Subnet<Ipv6Addr>) {
    let v4 = Subnet { base: Ipv4Addr::from((10 << 24) | base), length: 32 - block.trailing_zeros() as u8 };
    let v6 = Subnet { base: Ipv6Addr::new(0xfd00, 0, 0, (base >> 8) as u16, 0, 0, 0, 0), length: 64 };
    (v4, v6)
}

#[derive(Default)]
struct Owners(HashMap<IpAddr, String>);

/// Hands out a network's addresses in order, those with a fixed owner left out.
struct Free {
    v4: Subnet<Ipv4Addr>,
    v6: Subnet<Ipv6Addr>,
    /// The host number after which all v4 and v6 addresses are free.
    next: u32,
}

impl Free {
    fn v4(&mut self, owners: &mut Owners) -> Option<Ipv4Addr> {
        let mut address = |host: &u32| {
            let address = Ipv4Addr::from(u32::from(self.v4.base) + host);
            owners.0.insert(address.into(), String::new()).is_none()
        };
        let last = (1u64 << (32 - self.v4.length)).saturating_sub(2) as u32;
        let host = (self.next..=last).find(|host| address(host))?;
        Some(Ipv4Addr::from(u32::from(self.v4.base) + host))
    }

    /// Takes the same host number as the member's v4 address where that is free.
    fn v6(&mut self, owners: &mut Owners) -> Option<Ipv6Addr> {
        let base = u128::from(self.v6.base);
        let last = (1u128 << (128 - self.v6.length).min(32)) - 1;
        let host = (u128::from(self.next)..=last)
            .find(|host| owners.0.insert(Ipv6Addr::from(base + host).into(), String::new()).is_none())?;
        Some(Ipv6Addr::from(base + host))
    }
}

/// What v4 and v6 subnets have in common.
pub(super) trait Prefix {
    fn overlaps(&self, other: &Self) -> bool;
}

impl Subnet<Ipv4Addr> {
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        let shift = 32 - u32::from(self.length);
        u32::from(address).checked_shr(shift) == u32::from(self.base).checked_shr(shift)
    }
}

impl Subnet<Ipv6Addr> {
    pub fn contains(&self, address: Ipv6Addr) -> bool {
        let shift = 128 - u32::from(self.length);
        u128::from(address).checked_shr(shift) == u128::from(self.base).checked_shr(shift)
    }
}

impl Prefix for Subnet<Ipv4Addr> {
    fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.base) || other.contains(self.base)
    }
}

impl Prefix for Subnet<Ipv6Addr> {
    fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.base) || other.contains(self.base)
    }
}

impl<A: std::fmt::Display> std::fmt::Display for Subnet<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.base, self.length)
    }
}
