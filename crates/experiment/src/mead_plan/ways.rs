//! The path of a packet through a topology, by the routes that the lab would give its nodes.

use std::net::{IpAddr, Ipv6Addr};

use treecast_proto::explicit::plan::Network;

use treecast_lab::{Role, Route, Subnet, Topology, routes};

/// Follows IPv6 routes from node to node.
pub(super) struct Ways<'a> {
    topology: &'a Topology,
    routes: Vec<Vec<Route>>,
}

impl<'a> Ways<'a> {
    pub fn of(topology: &'a Topology) -> Self {
        Self { topology, routes: routes::compute(topology) }
    }

    fn next(&self, at: usize, to: usize, address: Ipv6Addr) -> Option<usize> {
        let mut networks = self.topology.networks.iter();
        let is_shared = networks.any(|network| {
            let is_member = |node| network.members.iter().any(|member| member.node == node);
            network.v6.contains(address) && is_member(at) && is_member(to)
        });
        if is_shared {
            return Some(to);
        }
        let holds = |route: &&Route| match route.prefix {
            IpAddr::V6(base) => Subnet { base, length: route.length }.contains(address),
            IpAddr::V4(_) => false,
        };
        let route = self.routes[at].iter().filter(holds).max_by_key(|route| route.length)?;
        let mut members = self.topology.members();
        members.find(|member| IpAddr::from(member.v6) == route.gateway).map(|member| member.node)
    }
}

impl Network for Ways<'_> {
    fn nodes(&self) -> usize {
        self.topology.nodes.len()
    }

    fn name(&self, node: usize) -> &str {
        &self.topology.nodes[node].name
    }

    fn is_router(&self, node: usize) -> bool {
        self.topology.nodes[node].role == Role::Router
    }

    fn address(&self, node: usize) -> Option<Ipv6Addr> {
        let own = self.topology.nodes[node].loopback_v6.first().copied();
        let members = self.topology.members();
        own.or_else(|| members.into_iter().find(|member| member.node == node).map(|member| member.v6))
    }

    fn way(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let address = self.address(to)?;
        let mut way = vec![from];
        while *way.last()? != to {
            way.push(self.next(*way.last()?, to, address)?);
            if way.len() > self.topology.nodes.len() {
                return None;
            }
        }
        Some(way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_leads_up_and_down_a_tree() {
        let topology = Topology::parse("tree:levels=2,clients=2").expect("a topology");
        let ways = Ways::of(&topology);
        let node =
            |name: &str| topology.nodes.iter().position(|node| node.name == name).expect("it is there");
        let names = |way: Vec<usize>| way.into_iter().map(|node| topology.nodes[node].name.clone()).collect();
        let way: Vec<String> = names(ways.way(node("server0"), node("client3")).expect("a way"));
        assert_eq!((way.len(), way[0].as_str(), way[3].as_str()), (4, "server0", "client3"));
        let links = |from, to| ways.way(node(from), node(to)).expect("a way").len() - 1;
        assert_eq!(links("client0", "client1"), 1, "on one LAN");
        assert_eq!(links("client0", "client3"), 3, "over the LAN of both routers");
    }
}
