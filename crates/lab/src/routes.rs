//! Unicast routes: the shortest path from every node to every network, with as few entries in each node as
//! possible.
//!
//! The entries are the smallest table by the method of Draves, King, Venkatachary and Zill ("Constructing
//! optimal IP routing tables", 1999), with one liberty: addresses that no network of the lab has may go
//! anywhere. So a host ends up with only a default route.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::frr::Protocol;
use crate::topology::{Member, Role, Topology};

/// A route: packets to `prefix/length` go to `gateway`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub prefix: IpAddr,
    pub length: u8,
    pub gateway: IpAddr,
    /// The node's interface towards the gateway, counted in the order of the networks.
    pub interface: usize,
}

/// The source of IPv6 routes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Routing {
    /// The lab computes them once.
    #[default]
    Computed,
    /// Routers find them by OSPFv3. Hosts have the lab's routes.
    Ospf,
    /// Routers find them by BGP, as the topology says who speaks with whom. Hosts have the lab's routes.
    Bgp,
}

impl Routing {
    /// The source of the routes in a topology. If its routers speak BGP, that is the source; then OSPF cannot be.
    pub(crate) fn of(topology: &Topology, wanted: Self) -> Result<Self> {
        let refused = |has, word| Err(Error::Routing { topology: topology.name.clone(), has, word });
        match (topology.bgp.is_empty(), wanted) {
            (true, Self::Bgp) => refused("says of no router that it speaks BGP", "bgp"),
            (false, Self::Ospf) => refused("has its routes from BGP", "ospf"),
            (false, _) => Ok(Self::Bgp),
            (true, wanted) => Ok(wanted),
        }
    }

    /// The protocol by which routers find their routes, if there is one.
    pub(crate) fn protocol(self) -> Option<Protocol> {
        match self {
            Self::Computed => None,
            Self::Ospf => Some(Protocol::Ospf),
            Self::Bgp => Some(Protocol::Bgp),
        }
    }
}

/// The routes that the lab gives every node, in the order of the topology.
pub fn given(topology: &Topology, routing: Routing, avoided: &BTreeSet<usize>) -> Vec<Vec<Route>> {
    let mut routes = avoiding(topology, avoided);
    if routing.protocol().is_some() {
        let routers = topology.nodes.iter().zip(&mut routes).filter(|(node, _)| node.role == Role::Router);
        routers.for_each(|(_, routes)| routes.retain(|route| route.prefix.is_ipv4()));
    }
    routes
}

/// The routes of every node, in the order of the topology. Of equally short paths, the one by the network, and
/// then the router, that was defined first is used.
pub fn compute(topology: &Topology) -> Vec<Vec<Route>> {
    avoiding(topology, &BTreeSet::new())
}

/// Like [`compute`], without using the networks in `avoided`. Addresses on these networks cannot be reached
/// then.
pub fn avoiding(topology: &Topology, avoided: &BTreeSet<usize>) -> Vec<Vec<Route>> {
    let graph = Graph::avoiding(topology, avoided);
    let targets: Vec<Target> = targets(topology)
        .into_iter()
        .filter(|target| target.network.is_none_or(|network| !avoided.contains(&network)))
        .collect();
    let distances: Vec<Vec<u16>> = targets.iter().map(|target| graph.distances(&target.routers)).collect();
    // Hosts on the same networks have the same routes, and most of a lab's nodes are such hosts.
    let mut of_hosts: HashMap<&[usize], Vec<Route>> = HashMap::new();
    let nodes = topology.nodes.iter().enumerate();
    let mut routes = Vec::with_capacity(topology.nodes.len());
    for (index, node) in nodes {
        let known = of_hosts.get(graph.networks_of[index].as_slice()).filter(|_| node.role != Role::Router);
        let computed =
            known.cloned().unwrap_or_else(|| routes_of(topology, &graph, &targets, &distances, index));
        if node.role != Role::Router && node.loopback_v6.is_empty() {
            of_hosts.insert(&graph.networks_of[index], computed.clone());
        }
        routes.push(computed);
    }
    routes
}

/// A destination: a network, or a node by an address of its own.
struct Target {
    network: Option<usize>,
    node: Option<usize>,
    prefixes: Vec<(IpAddr, u8)>,
    /// The routers that deliver to the destination without another router.
    routers: Vec<usize>,
}

fn targets(topology: &Topology) -> Vec<Target> {
    let routers_of = |network: usize| {
        let members = topology.networks[network].members.iter().map(|member| member.node);
        members.filter(|node| topology.nodes[*node].role == Role::Router).collect::<Vec<_>>()
    };
    let networks = topology.networks.iter().enumerate().map(|(index, network)| Target {
        network: Some(index),
        node: None,
        prefixes: vec![
            (network.v4.base.into(), network.v4.length),
            (network.v6.base.into(), network.v6.length),
        ],
        routers: routers_of(index),
    });
    let loopbacks = topology.nodes.iter().enumerate().filter(|(_, node)| !node.loopback_v6.is_empty());
    let loopbacks = loopbacks.map(|(index, node)| Target {
        network: None,
        node: Some(index),
        prefixes: node.loopback_v6.iter().map(|address| ((*address).into(), 128)).collect(),
        routers: vec![index],
    });
    networks.chain(loopbacks).collect()
}

fn routes_of(
    topology: &Topology,
    graph: &Graph,
    targets: &[Target],
    distances: &[Vec<u16>],
    node: usize,
) -> Vec<Route> {
    let neighbours = graph.neighbours(topology, node);
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for (target, distance) in targets.iter().zip(distances) {
        let direct = target.network.is_some_and(|network| graph.networks_of[node].contains(&network));
        if direct || target.node == Some(node) {
            continue;
        }
        let reachable =
            neighbours.iter().enumerate().filter(|(_, (_, router))| distance[router.node] != u16::MAX);
        let Some((hop, _)) = reachable.min_by_key(|(_, (_, router))| distance[router.node]) else { continue };
        for (address, length) in &target.prefixes {
            let entries = if address.is_ipv4() { &mut v4 } else { &mut v6 };
            entries.push(Entry { bits: left_aligned(*address), length: *length, hop });
        }
    }
    let v4 = compress(v4).into_iter().map(|Entry { bits, length, hop }| {
        let (interface, member) = neighbours[hop];
        let prefix = Ipv4Addr::from((bits >> 96) as u32);
        Route { prefix: prefix.into(), length, gateway: member.v4.into(), interface }
    });
    let v6 = compress(v6).into_iter().map(|Entry { bits, length, hop }| {
        let (interface, member) = neighbours[hop];
        Route { prefix: Ipv6Addr::from(bits).into(), length, gateway: member.v6.into(), interface }
    });
    v4.chain(v6).collect()
}

fn left_aligned(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)) << 96,
        IpAddr::V6(v6) => v6.into(),
    }
}

/// The members of each network and the networks of each node, and which members are routers.
pub(crate) struct Graph {
    pub(crate) networks_of: Vec<Vec<usize>>,
    /// The routers of each network. Empty for networks that are avoided.
    pub(crate) routers_of: Vec<Vec<usize>>,
}

impl Graph {
    pub(crate) fn of(topology: &Topology) -> Self {
        Self::avoiding(topology, &BTreeSet::new())
    }

    fn avoiding(topology: &Topology, avoided: &BTreeSet<usize>) -> Self {
        let mut networks_of = vec![Vec::new(); topology.nodes.len()];
        let mut routers_of = vec![Vec::new(); topology.networks.len()];
        for (index, network) in topology.networks.iter().enumerate() {
            for member in &network.members {
                networks_of[member.node].push(index);
                if topology.nodes[member.node].role == Role::Router && !avoided.contains(&index) {
                    routers_of[index].push(member.node);
                }
            }
        }
        Self { networks_of, routers_of }
    }

    /// The number of routers on the way from each router to the nearest of `goals`.
    pub(crate) fn distances(&self, goals: &[usize]) -> Vec<u16> {
        let mut distance = vec![u16::MAX; self.networks_of.len()];
        let mut seen = vec![false; self.routers_of.len()];
        let mut queue: VecDeque<usize> = goals.iter().copied().collect();
        goals.iter().for_each(|goal| distance[*goal] = 0);
        while let Some(router) = queue.pop_front() {
            for &network in &self.networks_of[router] {
                if std::mem::replace(&mut seen[network], true) {
                    continue;
                }
                for &next in &self.routers_of[network] {
                    if distance[next] == u16::MAX {
                        distance[next] = distance[router] + 1;
                        queue.push_back(next);
                    }
                }
            }
        }
        distance
    }

    /// The routers to which a node can hand packets, and the interface towards each.
    fn neighbours<'a>(&self, topology: &'a Topology, node: usize) -> Vec<(usize, &'a Member)> {
        let networks = self.networks_of[node].iter().enumerate();
        let members = networks.flat_map(|(interface, network)| {
            let routers = &self.routers_of[*network];
            let is_router = |member: &&Member| member.node != node && routers.contains(&member.node);
            topology.networks[*network]
                .members
                .iter()
                .filter(is_router)
                .map(move |member| (interface, member))
        });
        members.collect()
    }
}

/// A prefix, left-aligned in 128 bits, and the neighbour for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    bits: u128,
    length: u8,
    hop: usize,
}

/// The smallest table that sends every address of `entries` to the same neighbour.
fn compress(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_unstable();
    let root = Branch::build(&entries, 0, 0, None);
    let mut table = Vec::new();
    root.choose(None, &mut table);
    table
}

/// A prefix in the tree of prefixes, and the neighbours that may serve its addresses.
struct Branch {
    bits: u128,
    length: u8,
    /// The neighbours that serve the most addresses under the prefix. `None`: all of them.
    hops: Option<Vec<usize>>,
    children: Vec<Branch>,
}

impl Branch {
    /// Builds the branch of `bits/length`. `entries` are sorted and under that prefix. `above` is the neighbour
    /// for addresses that no entry names.
    fn build(entries: &[Entry], bits: u128, length: u8, above: Option<usize>) -> Self {
        let leaf = |hops| Self { bits, length, hops, children: Vec::new() };
        let Some(first) = entries.first() else { return leaf(above.map(|hop| vec![hop])) };
        if first.length == length {
            let (hop, rest) = (Some(first.hop), &entries[1..]);
            return Self::build(rest, bits, length, hop);
        }
        let split = if above.is_some() { length } else { common_length(entries) };
        if above.is_none() && split == first.length {
            let under = Self::build(&entries[1..], first.bits, split, Some(first.hop));
            return Self { bits, length, ..under };
        }
        let half = 1u128 << (127 - split);
        let (prefix, middle) =
            (first.bits & !(half | (half - 1)), entries.partition_point(|entry| entry.bits & half == 0));
        let children = vec![
            Self::build(&entries[..middle], prefix, split + 1, above),
            Self::build(&entries[middle..], prefix | half, split + 1, above),
        ];
        Self { bits, length, hops: combine(&children[0].hops, &children[1].hops), children }
    }

    /// Adds the entries that are needed if addresses otherwise go to `inherited`.
    fn choose(&self, inherited: Option<usize>, table: &mut Vec<Entry>) {
        let Some(hops) = &self.hops else { return };
        let hop = inherited.filter(|hop| hops.contains(hop)).or(hops.first().copied());
        if let Some(hop) = hop.filter(|_| hop != inherited) {
            table.push(Entry { bits: self.bits, length: self.length, hop });
        }
        self.children.iter().for_each(|child| child.choose(hop, table));
    }
}

/// The neighbours that both halves may use, or else those that either half may use.
fn combine(left: &Option<Vec<usize>>, right: &Option<Vec<usize>>) -> Option<Vec<usize>> {
    let (Some(left), Some(right)) = (left, right) else { return left.clone().or_else(|| right.clone()) };
    let both: Vec<usize> = left.iter().copied().filter(|hop| right.contains(hop)).collect();
    if !both.is_empty() {
        return Some(both);
    }
    let mut either = left.clone();
    either.extend(right);
    either.sort_unstable();
    Some(either)
}

/// The number of leading bits that all entries share, at most the length of the first.
fn common_length(entries: &[Entry]) -> u8 {
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return 0 };
    let shared = (first.bits ^ last.bits).leading_zeros() as u8;
    shared.min(first.length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hop to which `table` sends `address`, by the longest prefix.
    fn look_up(table: &[Entry], address: u128) -> Option<usize> {
        let holds = |entry: &&Entry| entry.length == 0 || (entry.bits ^ address) >> (128 - entry.length) == 0;
        table.iter().filter(holds).max_by_key(|entry| entry.length).map(|entry| entry.hop)
    }

    fn entry(text: &str, hop: usize) -> Entry {
        let (base, length) = text.split_once('/').unwrap();
        Entry { bits: u128::from(base.parse::<Ipv6Addr>().unwrap()), length: length.parse().unwrap(), hop }
    }

    #[test]
    fn networks_behind_one_neighbour_need_one_entry() {
        let table =
            compress(vec![entry("fd00:1::/64", 3), entry("fd00:2::/64", 3), entry("fd00:9::1/128", 3)]);
        assert_eq!(table, [entry("::/0", 3)]);
    }

    #[test]
    fn the_table_forwards_as_the_entries_do() {
        let mut seed = 1u64;
        let mut random = |bound: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % bound
        };
        for _ in 0..500 {
            let mut entries: Vec<Entry> = Vec::new();
            for _ in 0..random(30) {
                let length = 1 + random(12) as u8;
                let bits = u128::from(random(1 << 12)) << 116 & !(u128::MAX >> length);
                if !entries.iter().any(|entry| (entry.bits, entry.length) == (bits, length)) {
                    entries.push(Entry { bits, length, hop: random(4) as usize });
                }
            }
            let table = compress(entries.clone());
            assert!(table.len() <= entries.len());
            for address in (0..1u128 << 12).map(|address| address << 116) {
                if let Some(hop) = look_up(&entries, address) {
                    assert_eq!(look_up(&table, address), Some(hop), "{address:x} {entries:x?} {table:x?}");
                }
            }
        }
    }

    #[test]
    fn a_client_of_a_tree_has_a_default_route_and_a_router_few() {
        let topology = Topology::parse("tree:levels=3,clients=5").unwrap();
        let routes = compute(&topology);
        for (node, routes) in topology.nodes.iter().zip(&routes) {
            let most = if node.role == Role::Router { 2 * 7 } else { 2 };
            assert!(!routes.is_empty() && routes.len() <= most, "{}: {routes:?}", node.name);
            assert!(routes.iter().any(|route| route.length == 0));
        }
    }

    /// Follows the routes hop by hop from every node to every address.
    #[test]
    fn every_node_reaches_every_address_of_a_tree() {
        let topology = Topology::parse("tree:levels=4,clients=1").unwrap();
        let routes = compute(&topology);
        let addresses = topology.members();
        for (to, address) in addresses.map(|member| (member.node, member.v6)) {
            for from in 0..topology.nodes.len() {
                let mut at = from;
                for _ in 0..topology.nodes.len() {
                    let on_link = topology.networks.iter().find(|network| {
                        network.members.iter().any(|member| member.node == at) && network.v6.contains(address)
                    });
                    if on_link.is_some() || at == to {
                        at = to;
                        break;
                    }
                    let holds = |route: &&Route| match route.prefix {
                        IpAddr::V6(base) => {
                            crate::topology::Subnet { base, length: route.length }.contains(address)
                        }
                        IpAddr::V4(_) => false,
                    };
                    let best = routes[at].iter().filter(holds).max_by_key(|route| route.length).unwrap();
                    let mut members = topology.members();
                    at = members.find(|member| IpAddr::from(member.v6) == best.gateway).unwrap().node;
                }
                assert_eq!(at, to);
            }
        }
    }
}
