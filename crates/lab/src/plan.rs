//! A topology with everything decided that building it needs: the namespace of every node, the
//! number and link address of every interface. The same topology always gives the same plan, so the
//! record of a lab need not hold it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::topology::{NetworkKind, Quality, Role, Topology};

/// Interfaces are numbered throughout the lab from here, above what the kernel makes by itself in a
/// new namespace (`lo`, tunnels). A number thus means the same in every namespace.
const FIRST_INTERFACE: u32 = 32;

/// A node as it is built.
#[derive(Debug, Clone, PartialEq)]
pub struct LabNode {
    pub name: String,
    pub role: Role,
    /// As `ip netns list` shows it.
    pub namespace: String,
    pub interfaces: Vec<Interface>,
    /// Addresses of the node itself, on `lo`.
    pub loopback_v6: Vec<Ipv6Addr>,
}

/// A node's end of a cable.
#[derive(Debug, Clone, PartialEq)]
pub struct Interface {
    pub name: String,
    /// The number that sockets take (`sin6_scope_id`), unique in the lab.
    pub index: u32,
    pub mac: [u8; 6],
    /// The name of the LAN or link it is in.
    pub network: String,
    pub v4: Ipv4Addr,
    pub v4_length: u8,
    pub v6: Ipv6Addr,
    pub v6_length: u8,
    pub quality: Quality,
    /// Index of the cable in [`Plan::cables`], and which end this is.
    pub(crate) cable: (usize, usize),
}

impl LabNode {
    /// The address by which others should call the node: its own, or that of its first interface.
    pub fn v6(&self) -> Option<Ipv6Addr> {
        let first = self.interfaces.first().map(|interface| interface.v6);
        self.loopback_v6.first().copied().or(first)
    }

    pub fn v4(&self) -> Option<Ipv4Addr> {
        self.interfaces.first().map(|interface| interface.v4)
    }

    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }
}

impl Interface {
    /// The address by which only those on the same network know it (RFC 4291, appendix A).
    pub fn link_local(&self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = self.mac.map(u16::from);
        Ipv6Addr::new(0xfe80, 0, 0, 0, (a ^ 2) << 8 | b, c << 8 | 0xff, 0xfe00 | d, e << 8 | f)
    }

    /// Its addresses with their prefixes' lengths.
    pub fn addresses(&self) -> [(IpAddr, u8); 2] {
        [(self.v4.into(), self.v4_length), (self.v6.into(), self.v6_length)]
    }
}

pub(crate) struct Plan {
    pub nodes: Vec<LabNode>,
    /// The namespace of all bridges. No node can be called so.
    pub switch: String,
    pub bridges: Vec<PlannedBridge>,
    pub cables: Vec<Cable>,
}

pub(crate) struct PlannedBridge {
    pub name: String,
    pub index: u32,
    /// Nobody else on the LAN asks for listeners.
    pub querier: bool,
}

/// A veth pair.
pub(crate) struct Cable {
    pub ends: [CableEnd; 2],
    pub quality: [Quality; 2],
}

pub(crate) enum CableEnd {
    /// Interface `.1` of node `.0`.
    Node(usize, usize),
    Port(PlannedPort),
}

pub(crate) struct PlannedPort {
    pub name: String,
    pub index: u32,
    /// Index in [`Plan::bridges`].
    pub bridge: usize,
    /// A server or router must hear every group and report on its LAN.
    pub hears_all: bool,
}

impl Plan {
    pub fn of(lab: &str, topology: &Topology) -> Self {
        let nodes = topology.nodes.iter().map(|node| LabNode {
            name: node.name.clone(),
            role: node.role,
            namespace: format!("{lab}-{}", node.name),
            interfaces: Vec::new(),
            loopback_v6: node.loopback_v6.clone(),
        });
        let mut plan = Self {
            nodes: nodes.collect(),
            switch: format!("{lab}.switch"),
            bridges: Vec::new(),
            cables: Vec::new(),
        };
        let mut next_index = FIRST_INTERFACE;
        for network in 0..topology.networks.len() {
            plan.add_network(topology, network, &mut next_index);
        }
        plan
    }

    fn add_network(&mut self, topology: &Topology, network: usize, next_index: &mut u32) {
        let mut take_index = || {
            *next_index += 1;
            *next_index - 1
        };
        let network = &topology.networks[network];
        let mut ends = Vec::new();
        if network.kind == NetworkKind::Lan {
            let querier = !network.has_router(&topology.nodes);
            self.bridges.push(PlannedBridge { name: network.name.clone(), index: take_index(), querier });
        }
        for member in &network.members {
            let index = take_index();
            let (cable, end) = match network.kind {
                NetworkKind::Lan => (self.cables.len() + ends.len(), 0),
                NetworkKind::Link => (self.cables.len(), ends.len()),
            };
            let node = &mut self.nodes[member.node];
            ends.push((CableEnd::Node(member.node, node.interfaces.len()), member.quality.clone()));
            node.interfaces.push(Interface {
                name: member.interface.clone(),
                index,
                mac: mac(0, index),
                network: network.name.clone(),
                v4: member.v4,
                v4_length: network.v4.length,
                v6: member.v6,
                v6_length: network.v6.length,
                quality: member.quality.clone(),
                cable: (cable, end),
            });
        }
        match network.kind {
            NetworkKind::Lan => {
                let bridge = self.bridges.len() - 1;
                for (member, (end, quality)) in network.members.iter().zip(ends) {
                    let index = take_index();
                    let hears_all = topology.nodes[member.node].role != Role::Client;
                    let port = PlannedPort { name: format!("port{index}"), index, bridge, hears_all };
                    // What the port sends is what the node receives: loss is at the node's end only.
                    let port_quality = Quality { loss: Default::default(), ..quality.clone() };
                    self.cables
                        .push(Cable { ends: [end, CableEnd::Port(port)], quality: [quality, port_quality] });
                }
            }
            NetworkKind::Link => {
                let mut ends = ends.into_iter();
                if let (Some((a, a_quality)), Some((b, b_quality))) = (ends.next(), ends.next()) {
                    self.cables.push(Cable { ends: [a, b], quality: [a_quality, b_quality] });
                }
            }
        }
    }

    /// One more than the highest number of a node's interface.
    pub fn interfaces_end(&self) -> u32 {
        let indices =
            self.nodes.iter().flat_map(|node| &node.interfaces).map(|interface| interface.index + 1);
        indices.max().unwrap_or(0)
    }

    /// Every namespace of the lab.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.namespace.as_str()).chain([self.switch.as_str()])
    }
}

/// A locally administered address that shows the interface's number.
pub(crate) fn mac(kind: u8, index: u32) -> [u8; 6] {
    let [a, b, c, d] = index.to_be_bytes();
    [2, kind, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_interfaces_of_a_lab_have_the_same_number() {
        let plan = Plan::of("x", &Topology::parse("tree:levels=3,clients=5").unwrap());
        let nodes = plan.nodes.iter().flat_map(|node| &node.interfaces).map(|interface| interface.index);
        let ports = plan.cables.iter().flat_map(|cable| &cable.ends).filter_map(|end| match end {
            CableEnd::Port(port) => Some(port.index),
            CableEnd::Node(..) => None,
        });
        let mut all: Vec<u32> =
            nodes.chain(ports).chain(plan.bridges.iter().map(|bridge| bridge.index)).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!((all.len(), count), (2 * (1 + 20 + 2 * 7) + 8, 2 * (1 + 20 + 2 * 7) + 8));
    }

    #[test]
    fn every_interface_finds_its_cable() {
        let plan = Plan::of("x", &Topology::parse("tree:levels=2,clients=2").unwrap());
        for (index, node) in plan.nodes.iter().enumerate() {
            for (position, interface) in node.interfaces.iter().enumerate() {
                let (cable, end) = interface.cable;
                assert!(
                    matches!(plan.cables[cable].ends[end], CableEnd::Node(n, i) if (n, i) == (index, position))
                );
            }
        }
    }

    #[test]
    fn bridges_ask_for_listeners_only_where_no_router_does() {
        let querier = |spec| {
            Plan::of("x", &Topology::parse(spec).unwrap())
                .bridges
                .iter()
                .map(|b| b.querier)
                .collect::<Vec<_>>()
        };
        assert_eq!(querier("lan:clients=2"), [true]);
        assert_eq!(querier("tree:levels=1,clients=2"), [false, false]);
    }
}
