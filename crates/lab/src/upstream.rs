//! The upstream interface of each router in a network with loops (`treecast mroute --upstream`).
//!
//! Without an upstream, a router forwards the joins of any-source groups by every link except the listeners'
//! own. In a loop they come back, and keep each other alive when the last listener has left. The lab knows all
//! links, so it can tell each router the way to one root.

use crate::routes::Graph;
use crate::topology::{Role, Topology};

impl Topology {
    /// Whether two routers are connected by two ways.
    pub fn has_loops(&self) -> bool {
        has_loop(&Graph::of(self))
    }

    /// The interface of each node towards the network of the first node, by the node's index. `None` for hosts,
    /// and for routers without a way there; `None` for all nodes if no two routers are connected by two ways.
    ///
    /// Networks are ranked by the number of routers between them and the root, then by their order. A router's
    /// upstream is the first of its networks in this ranking. So every router that serves a network gets its
    /// packets from a network with a smaller rank, and the upstreams form a tree (RFC 4605, section 3),
    /// whichever router is elected querier.
    pub fn multicast_upstreams(&self) -> Vec<Option<&str>> {
        let graph = Graph::of(self);
        let root = (0..self.nodes.len()).find_map(|node| graph.networks_of[node].first());
        match root {
            Some(root) if has_loop(&graph) => self.upstreams_to(*root, &graph),
            _ => vec![None; self.nodes.len()],
        }
    }

    fn upstreams_to(&self, root: usize, graph: &Graph) -> Vec<Option<&str>> {
        let distances = graph.distances(&graph.routers_of[root]);
        let rank = |network: usize| match network == root {
            true => 0,
            false => graph.routers_of[network].iter().map(|router| distances[*router]).min().unwrap_or(0) + 1,
        };
        let upstream = |node: usize| {
            let is_reached = self.nodes[node].role == Role::Router && distances[node] != u16::MAX;
            let networks = graph.networks_of[node].iter().filter(|_| is_reached);
            let network = networks.min_by_key(|network| (rank(**network), **network))?;
            let member = self.networks[*network].members.iter().find(|member| member.node == node)?;
            Some(member.interface.as_str())
        };
        (0..self.nodes.len()).map(upstream).collect()
    }
}

/// Whether two routers are connected by two ways: some cable then connects nodes that are connected already.
fn has_loop(graph: &Graph) -> bool {
    let networks = graph.routers_of.len();
    let mut joined: Vec<usize> = (0..networks + graph.networks_of.len()).collect();
    for (network, routers) in graph.routers_of.iter().enumerate() {
        for router in routers {
            let (one, other) = (end(&mut joined, network), end(&mut joined, networks + router));
            if one == other {
                return true;
            }
            joined[one] = other;
        }
    }
    false
}

/// The node that represents all nodes that `one` is connected with.
fn end(joined: &mut [usize], mut one: usize) -> usize {
    while joined[one] != one {
        joined[one] = joined[joined[one]];
        one = joined[one];
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Routers and LANs, each LAN with the nodes that are on it; node 0 is the server.
    fn topology(lans: &[&str]) -> Topology {
        let mut text = "[nodes]\nserver0 = { role = \"server\" }\n".to_owned();
        (0..4).for_each(|router| text += &format!("router{router} = {{ role = \"router\" }}\n"));
        for (index, lan) in lans.iter().enumerate() {
            let nodes: Vec<String> = lan.split(' ').map(|node| format!("\"{node}\"")).collect();
            text += &format!("[lans.lan{index}]\nnodes = [{}]\n", nodes.join(", "));
        }
        Topology::from_toml(&text, "test.toml").unwrap()
    }

    /// The LAN of each router's upstream, by its number; `-` for none.
    fn upstreams(lans: &[&str]) -> String {
        let topology = topology(lans);
        let lan = |(node, interface): (usize, Option<&str>)| {
            let is_it =
                |member: &&crate::Member| member.node == node && Some(&*member.interface) == interface;
            let of = topology.networks.iter().find(|network| network.members.iter().any(|m| is_it(&m)));
            of.map_or("-", |network| network.name.trim_start_matches("lan"))
        };
        topology.multicast_upstreams().into_iter().enumerate().map(lan).collect()
    }

    #[test]
    fn where_there_is_one_way_nobody_is_told() {
        for spec in ["lan:clients=3", "tree:levels=3,clients=5"] {
            let topology = Topology::parse(spec).unwrap();
            assert!(topology.multicast_upstreams().iter().all(Option::is_none), "{spec}");
        }
        assert_eq!(upstreams(&["server0 router0", "router0 router1", "router1 router2 router3"]), "-----");
    }

    #[test]
    fn in_a_triangle_all_lead_to_the_server() {
        let lans = ["router1 router2", "router0 router1", "router2 router0", "server0 router0", "router3"];
        assert_eq!(upstreams(&lans), "-312-", "router3 has no way there");
    }

    #[test]
    fn the_nearer_network_and_then_the_first_is_upstream() {
        let ring =
            ["server0 router0", "router0 router1", "router1 router2", "router2 router3", "router3 router0"];
        assert_eq!(upstreams(&ring), "-0124");
        let parallel =
            ["router0 router1", "server0 router0 router1", "router0 router1 router2", "router3 router2"];
        assert_eq!(upstreams(&parallel), "-1123");
    }
}
