//! The plan of a lab: a topology with everything that building it needs, such as the namespace of every node,
//! and the number and link address of every interface. The same topology always gives the same plan, so the
//! record of a lab need not contain the plan.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::topology::{Loss, Member, Network, NetworkKind, Quality, Role, Topology, Trunk};

/// The first number of an interface. Numbers are unique in the lab, and above those that the kernel uses in a
/// new namespace (`lo`, tunnels). So a number means the same in every namespace.
const FIRST_INTERFACE: u32 = 32;

/// A node of the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct LabNode {
    pub name: String,
    pub role: Role,
    /// The namespace's name, as shown by `ip netns list`.
    pub namespace: String,
    pub interfaces: Vec<Interface>,
    /// Addresses of the node itself, on `lo`.
    pub loopback_v6: Vec<Ipv6Addr>,
}

/// A node's end of a cable.
#[derive(Debug, Clone, PartialEq)]
pub struct Interface {
    pub name: String,
    /// The number for sockets (`sin6_scope_id`), unique in the lab.
    pub index: u32,
    pub mac: [u8; 6],
    /// The name of its LAN or link.
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
    /// The address that others should use for the node: its own, or that of its first interface.
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
    /// The link-local address, which only nodes on the same network can use (RFC 4291, appendix A).
    pub fn link_local(&self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = self.mac.map(u16::from);
        Ipv6Addr::new(0xfe80, 0, 0, 0, (a ^ 2) << 8 | b, c << 8 | 0xff, 0xfe00 | d, e << 8 | f)
    }

    /// The addresses with the lengths of their prefixes.
    pub fn addresses(&self) -> [(IpAddr, u8); 2] {
        [(self.v4.into(), self.v4_length), (self.v6.into(), self.v6_length)]
    }
}

pub(crate) struct Plan {
    pub nodes: Vec<LabNode>,
    /// The namespace of all bridges. No node can have this name.
    pub switch: String,
    pub bridges: Vec<PlannedBridge>,
    pub cables: Vec<Cable>,
    pub relays: Vec<PlannedRelay>,
    delaying: Delaying,
    next_index: u32,
}

pub(crate) struct PlannedBridge {
    pub name: String,
    pub index: u32,
    /// Whether the bridge asks for listeners, because nobody else on the LAN does.
    pub querier: bool,
}

/// A veth pair, and the quality of each end for sending.
pub(crate) struct Cable {
    pub ends: [CableEnd; 2],
    pub quality: [Quality; 2],
}

pub(crate) enum CableEnd {
    /// Interface `.1` of node `.0`.
    Node(usize, usize),
    Switch(PlannedPort),
}

/// An interface in the switch's namespace.
pub(crate) struct PlannedPort {
    pub name: String,
    pub index: u32,
    /// Index in [`Plan::bridges`]. `None`: the port of a relay.
    pub bridge: Option<usize>,
    /// Whether the port gets every group, because a server or router is behind it.
    pub hears_all: bool,
}

/// The means that delays packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Delaying {
    /// The kernel's queueing discipline netem, at the sending end.
    Netem,
    /// A process between the two halves of a cable, if the kernel has no netem.
    Relay,
}

/// The place of a relay in a cable: what arrives at one interface leaves by the other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlannedRelay {
    /// The numbers of the two interfaces in the switch's namespace.
    pub indices: [u32; 2],
    /// The delays of packets that arrive at each interface.
    pub delays: [Hold; 2],
}

/// A delay that is drawn evenly from `delay` ± `jitter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    pub delay: Duration,
    pub jitter: Duration,
}

impl Plan {
    pub fn of(lab: &str, topology: &Topology, delaying: Delaying) -> Self {
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
            relays: Vec::new(),
            delaying,
            next_index: FIRST_INTERFACE,
        };
        for network in &topology.networks {
            plan.add_network(topology, network);
        }
        plan
    }

    fn take_index(&mut self) -> u32 {
        self.next_index += 1;
        self.next_index - 1
    }

    fn add_network(&mut self, topology: &Topology, network: &Network) {
        let is_lan = network.kind == NetworkKind::Lan;
        let querier = !network.has_router(&topology.nodes);
        let bridge = is_lan.then(|| self.bridge(network.name.clone(), querier));
        let mut ends: Vec<_> =
            network.members.iter().map(|member| self.add_interface(network, member)).collect();
        if bridge.is_none() {
            if let (Some(b), Some(a)) = (ends.pop(), ends.pop()) {
                self.join([a, b]);
            }
            return;
        }
        let second =
            network.trunk.as_ref().map(|trunk| (trunk.first, self.add_trunk(network, bridge, trunk)));
        for (number, ((end, quality), member)) in ends.into_iter().zip(&network.members).enumerate() {
            let hears_all = topology.nodes[member.node].role != Role::Client;
            let on_second = second.filter(|(first, _)| number >= *first).map(|(_, second)| second);
            let port = self.port("port", on_second.or(bridge), hears_all);
            // The port sends what the node receives, so loss is at the node's end only.
            let port_quality = Quality { loss: Loss::None, ..quality.clone() };
            self.join([(end, quality), (port, port_quality)]);
        }
    }

    /// Adds a bridge. Returns its index in [`Plan::bridges`].
    fn bridge(&mut self, name: String, querier: bool) -> usize {
        let index = self.take_index();
        self.bridges.push(PlannedBridge { name, index, querier });
        self.bridges.len() - 1
    }

    /// Adds the second switch of a LAN, and the cable to the first one. Returns the index of its bridge. The first
    /// switch asks for listeners, so the second one sends every group to it.
    fn add_trunk(&mut self, network: &Network, first: Option<usize>, trunk: &Trunk) -> usize {
        let second = self.bridge(format!("{}-2", network.name), false);
        let ends = [self.port("trunk", first, false), self.port("trunk", Some(second), true)];
        self.join(ends.map(|end| (end, trunk.quality.clone())));
        second
    }

    fn add_interface(&mut self, network: &Network, member: &Member) -> (CableEnd, Quality) {
        let index = self.take_index();
        let node = &mut self.nodes[member.node];
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
            cable: (usize::MAX, 0),
        });
        (CableEnd::Node(member.node, node.interfaces.len() - 1), member.quality.clone())
    }

    fn port(&mut self, prefix: &str, bridge: Option<usize>, hears_all: bool) -> CableEnd {
        let index = self.take_index();
        CableEnd::Switch(PlannedPort { name: format!("{prefix}{index}"), index, bridge, hears_all })
    }

    /// Adds a cable between two ends, or two cables with a relay between them.
    fn join(&mut self, ends: [(CableEnd, Quality); 2]) {
        let is_delayed = ends.iter().any(|(_, quality)| quality.is_delayed());
        let [(a, mut a_quality), (b, mut b_quality)] = ends;
        if !is_delayed || self.delaying == Delaying::Netem {
            return self.push([a, b], [a_quality, b_quality]);
        }
        let delays =
            [&a_quality, &b_quality].map(|quality| Hold { delay: quality.delay, jitter: quality.jitter });
        for quality in [&mut a_quality, &mut b_quality] {
            (quality.delay, quality.jitter) = (Duration::ZERO, Duration::ZERO);
        }
        let (near_a, near_b) = (self.port("relay", None, false), self.port("relay", None, false));
        let indices = [self.next_index - 2, self.next_index - 1];
        self.push([a, near_a], [a_quality, Quality::default()]);
        // Only the second end of a cable can be a bridge's port from the start.
        match b {
            CableEnd::Switch(_) => self.push([near_b, b], [Quality::default(), b_quality]),
            CableEnd::Node(..) => self.push([b, near_b], [b_quality, Quality::default()]),
        }
        self.relays.push(PlannedRelay { indices, delays });
    }

    fn push(&mut self, ends: [CableEnd; 2], quality: [Quality; 2]) {
        for (end, cable_end) in ends.iter().enumerate() {
            if let CableEnd::Node(node, interface) = cable_end {
                self.nodes[*node].interfaces[*interface].cable = (self.cables.len(), end);
            }
        }
        self.cables.push(Cable { ends, quality });
    }

    /// The quality with which an interface sends.
    pub fn sends_with(&self, interface: &Interface) -> &Quality {
        let (cable, end) = interface.cable;
        &self.cables[cable].quality[end]
    }

    /// One more than the highest number of an interface.
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

/// A locally administered link address that contains the interface's number.
pub(crate) fn mac(kind: u8, index: u32) -> [u8; 6] {
    let [a, b, c, d] = index.to_be_bytes();
    [2, kind, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(spec: &str) -> Plan {
        Plan::of("x", &Topology::parse(spec).unwrap(), Delaying::Relay)
    }

    #[test]
    fn a_relay_joins_the_halves_of_a_delayed_cable() {
        let plan = plan("lan:clients=1,delay=10ms,loss=5%");
        let [relay] = &plan.relays[..] else { panic!("{:?}", plan.relays) };
        assert_eq!(relay.delays[0].delay, Duration::from_millis(10));
        assert_eq!((plan.cables.len(), plan.nodes[1].interfaces[0].cable), (3, (1, 0)));
        // The half at the client is where packets are lost, and the relay's end where they are cut.
        assert!(!plan.cables[1].quality[0].loss.is_none() && !plan.cables[1].quality[0].is_delayed());
        let numbers = [&plan.cables[1].ends[1], &plan.cables[2].ends[0]].map(|end| match end {
            CableEnd::Switch(port) => port.index,
            CableEnd::Node(..) => 0,
        });
        assert_eq!(numbers, relay.indices);
    }

    #[test]
    fn no_two_interfaces_of_a_lab_have_the_same_number() {
        let plan = plan("tree:levels=3,clients=5");
        let nodes = plan.nodes.iter().flat_map(|node| &node.interfaces).map(|interface| interface.index);
        let ports = plan.cables.iter().flat_map(|cable| &cable.ends).filter_map(|end| match end {
            CableEnd::Switch(port) => Some(port.index),
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
        let plan = plan("tree:levels=2,clients=2,delay=5ms");
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
    fn the_second_switch_has_its_own_bridge_and_members() {
        let plan = plan("switches:clients=3+2,rate=1M");
        let bridges: Vec<_> =
            plan.bridges.iter().map(|bridge| (bridge.name.as_str(), bridge.querier)).collect();
        assert_eq!(bridges, [("lan0", true), ("lan0-2", false)]);
        let ports = |bridge: usize| {
            let of = |end: &&CableEnd| matches!(end, CableEnd::Switch(port) if port.bridge == Some(bridge));
            plan.cables.iter().flat_map(|cable| &cable.ends).filter(of).count()
        };
        assert_eq!([ports(0), ports(1)], [4, 3]);
    }

    #[test]
    fn bridges_ask_for_listeners_only_where_no_router_does() {
        let querier = |spec| plan(spec).bridges.iter().map(|bridge| bridge.querier).collect::<Vec<_>>();
        assert_eq!(querier("lan:clients=2"), [true]);
        assert_eq!(querier("tree:levels=1,clients=2"), [false, false]);
    }
}
