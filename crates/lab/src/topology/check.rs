//! The last step of every parser: a draft, whose names are still words, becomes a topology, or is
//! refused with the line that is wrong.

use std::collections::HashMap;

use super::addresses::Owners;
use super::draft::{Draft, DraftMember, DraftNetwork, DraftNode};
use super::error::SpecError;
use super::{
    MAX_MULTICAST_INTERFACES, MAX_NAME_BYTES, Member, Network, NetworkKind, Node, Quality, Role, Topology,
};

/// The most namespaces. One machine was never tried with more.
pub(super) const MAX_NODES: usize = 4096;

/// Refuses a file that would fill the memory, at the line where it gets too much.
pub(super) fn check_count(file: &str, line: usize, what: &str, count: usize) -> Result<(), SpecError> {
    if count <= MAX_NODES {
        return Ok(());
    }
    Err(SpecError::new(file, line, format!("makes more than {MAX_NODES} {what}: a lab can have that many")))
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
            let mut members = Vec::with_capacity(network.members.len());
            for member in &network.members {
                let node = self.resolve(&nodes, member)?;
                let interface = self.name_interface(member, &mut interfaces[node])?;
                let Some((v4, v6)) = owners.take(member.v4, v4).zip(owners.take(member.v6, v6)) else {
                    let hint = "is too small for its members: shorten its prefix";
                    return Err(self.wrong(network.line, format!("network {} {hint}", network.name)));
                };
                members.push(Member { node, interface, v4, v6, quality: member.quality.clone() });
            }
            self.check_members(network, &members)?;
            let (name, kind, trunk) = (network.name.clone(), network.kind, network.trunk.clone());
            networks.push(Network { name, kind, v4, v6, members, area: 0, trunk });
        }
        self.check_routers(&interfaces)?;
        let node = |node: DraftNode| Node { name: node.name, role: node.role, loopback_v6: node.loopback_v6 };
        let nodes = self.nodes.into_iter().map(node).collect();
        Ok(Topology { name: self.name, nodes, networks, area_ranges: Vec::new(), bgp: Vec::new() })
    }

    pub(super) fn wrong(&self, line: Option<usize>, message: impl Into<String>) -> SpecError {
        SpecError::new(self.file, line, message)
    }

    fn index_nodes(&self) -> Result<HashMap<&str, usize>, SpecError> {
        if self.nodes.is_empty() {
            return Err(self.wrong(None, "has no nodes: define at least one"));
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
            let Quality { rate_bps, background_bps, drops_early, .. } = member.quality;
            if rate_bps.is_none() && (background_bps.is_some() || drops_early) {
                let message = format!(
                    "{} has `background` or `drop` at {}, and no rate: give it a rate",
                    network.name, draft.node
                );
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
}
