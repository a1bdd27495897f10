//! Turns a topology into a network of the simulator.

use std::{net::Ipv6Addr, time::Duration};

use treecast_lab::{
    Loss, Member, NetworkKind, Quality, Role, Topology,
    events::{self, Fault},
};
use treecast_sim::{
    graph::{CablePlan, Change, GraphPlan},
    network::{self, Discipline, Narrow, Path},
};

/// The cables of a topology, and the links that they belong to.
pub struct Cables {
    pub plan: GraphPlan,
    /// The names of each cable.
    names: Vec<Names>,
}

/// The link that a cable belongs to, and its ends: node and interface. `None` for a switch.
struct Names {
    link: String,
    from: Option<(String, String)>,
    to: Option<(String, String)>,
}

/// Makes the cables of a topology. A LAN becomes one more node, its switch, with a cable to each member. A LAN with a trunk
/// becomes two switches.
pub fn cables(topology: &Topology) -> Cables {
    let forwards = topology.nodes.iter().map(|node| node.role == Role::Router).collect();
    let mut cables = Cables { plan: GraphPlan { forwards, cables: Vec::new() }, names: Vec::new() };
    for network in &topology.networks {
        let end =
            |member: &Member| Some((topology.nodes[member.node].name.clone(), member.interface.clone()));
        let names = |from, to| Names { link: network.name.clone(), from, to };
        if let (NetworkKind::Link, [one, other]) = (network.kind, network.members.as_slice()) {
            for (from, to) in [(one, other), (other, one)] {
                let cable = cable(from.node, to.node, &from.quality, to.quality.loss, true);
                cables.add(cable, names(end(from), end(to)));
            }
            continue;
        }
        let first = cables.plan.forwards.len();
        cables.plan.forwards.push(true);
        if let Some(trunk) = &network.trunk {
            cables.plan.forwards.push(true);
            for (from, to) in [(first, first + 1), (first + 1, first)] {
                cables.add(cable(from, to, &trunk.quality, trunk.quality.loss, false), names(None, None));
            }
        }
        for (place, member) in network.members.iter().enumerate() {
            let switch =
                first + usize::from(network.trunk.as_ref().is_some_and(|trunk| place >= trunk.first));
            let Quality { loss, .. } = member.quality;
            let outward = cable(member.node, switch, &member.quality, Loss::None, true);
            cables.add(outward, names(end(member), None));
            let inward = cable(switch, member.node, &member.quality, loss, false);
            cables.add(inward, names(None, end(member)));
        }
    }
    cables
}

fn cable(from: usize, to: usize, quality: &Quality, loss: Loss, is_counted: bool) -> CablePlan {
    let discipline = if quality.drops_early { Discipline::Red } else { Discipline::DropTail };
    let narrow = quality.rate_bps.map(|rate_bps| Narrow {
        rate_bps,
        queue_bytes: quality.queue_bytes(),
        discipline,
        background_bps: quality.background_bps.unwrap_or(0),
    });
    let path = Path { loss: lost(loss), jitter: quality.jitter, ..Path::clean(quality.delay) };
    CablePlan { from, to, path, narrow, is_counted }
}

pub fn lost(loss: Loss) -> network::Loss {
    match loss {
        Loss::None => network::Loss::Uniform(0.0),
        Loss::Uniform(share) => network::Loss::Uniform(share),
        Loss::Gilbert { to_bad, to_good, in_bad, in_good } => {
            network::Loss::Bursts { enter: to_bad, leave: to_good, lost: in_bad, outside: in_good }
        }
    }
}

impl Cables {
    fn add(&mut self, cable: CablePlan, names: Names) {
        self.plan.cables.push(cable);
        self.names.push(names);
    }

    /// Returns what events do to cables, and when.
    pub fn changes(&self, events: &[events::Event]) -> Vec<(Duration, usize, Change)> {
        let mut changes = Vec::new();
        for step in events::agenda(events) {
            let meant = self.meant(&step.fault);
            let change = change(&step.fault, step.begins);
            changes.extend(meant.into_iter().map(|cable| (step.at, cable, change)));
        }
        changes
    }

    /// The cables that a fault is about.
    fn meant(&self, fault: &Fault) -> Vec<usize> {
        let is_meant = |names: &Names| match fault {
            Fault::Down { link } | Fault::Fail { link } | Fault::Avoid { link } => names.link == *link,
            Fault::Unplug { node, interface } => {
                let interface = self.interface(node, interface.as_deref());
                is_at(&names.from, node, interface) || is_at(&names.to, node, interface)
            }
            Fault::Lose { node, interface, .. } => {
                is_at(&names.to, node, self.interface(node, interface.as_deref()))
            }
            _ => false,
        };
        (0..self.names.len()).filter(|cable| is_meant(&self.names[*cable])).collect()
    }

    /// The interface of this name, or a node's first.
    fn interface<'a>(&'a self, node: &str, name: Option<&'a str>) -> Option<&'a str> {
        let first = || {
            let mut ends = self.names.iter().filter_map(|names| names.from.as_ref());
            ends.find(|(of, _)| of == node).map(|(_, interface)| interface.as_str())
        };
        name.or_else(first)
    }
}

fn change(fault: &Fault, begins: bool) -> Change {
    match fault {
        Fault::Avoid { .. } => Change::Avoided(begins),
        Fault::Down { .. } => Change::Down(begins),
        Fault::Lose { loss, .. } => Change::Loss(begins.then(|| lost(*loss))),
        _ => Change::Cut(begins),
    }
}

fn is_at(end: &Option<(String, String)>, node: &str, interface: Option<&str>) -> bool {
    end.as_ref().is_some_and(|(of, name)| of == node && Some(name.as_str()) == interface)
}

/// Returns the addresses of a node: its own and those of its interfaces.
pub fn addresses(topology: &Topology, node: usize) -> Vec<Ipv6Addr> {
    let members = topology.networks.iter().flat_map(|network| &network.members);
    let of_interfaces = members.filter(|member| member.node == node).map(|member| member.v6);
    topology.nodes[node].loopback_v6.iter().copied().chain(of_interfaces).collect()
}

/// Returns the index of the node with this name.
pub fn node(topology: &Topology, name: &str) -> Option<usize> {
    topology.nodes.iter().position(|node| node.name == name)
}

#[cfg(test)]
mod tests {
    use treecast_sim::graph::Graph;

    use super::*;

    #[test]
    fn a_trunk_makes_two_switches_of_a_lan() {
        let topology = Topology::parse("switches:clients=3+2,rate=10M,trunk-rate=1M").unwrap();
        let cables = cables(&topology);
        assert_eq!(cables.plan.forwards.iter().filter(|forwards| **forwards).count(), 2);
        let mut graph = Graph::new(&cables.plan, 0);
        let lan = &topology.networks[0];
        let trunk = lan.trunk.as_ref().unwrap();
        let nodes: Vec<usize> = lan.members.iter().map(|member| member.node).collect();
        assert_eq!(graph.distance(nodes[0], nodes[trunk.first - 1]), Some(2));
        assert_eq!(graph.distance(nodes[0], nodes[trunk.first]), Some(3));
    }
}
