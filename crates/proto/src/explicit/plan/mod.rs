//! Computes what each way of grouping receivers costs on a network: the bytes that one packet to every receiver
//! puts on all links together, and how many of them leave the sender. Nothing is measured here.
//!
//! Routers answer discovery as [`super::mead`] expects it, and packets travel as its routers would forward
//! them, link by link along the network's routes ([`Network`]). A LAN counts as one link, as it does for the
//! router that serves it.

mod xcast;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv6Addr,
};

use super::mead::{
    cost::{self, Model},
    grouping::{self, AddressList, Entry, Grouping, Parameters},
    tree::{Answers, Tree},
};

/// A network as the computation sees it: nodes and the paths between them. Nodes are known by numbers from 0
/// on.
pub trait Network {
    /// The number of nodes.
    fn nodes(&self) -> usize;

    /// The name of a node.
    fn name(&self, node: usize) -> &str;

    /// Whether a node forwards packets for others.
    fn is_router(&self, node: usize) -> bool;

    /// The address by which others reach a node.
    fn address(&self, node: usize) -> Option<Ipv6Addr>;

    /// Returns the nodes that a packet from one node to another passes, both included. None: the packet does
    /// not arrive.
    fn way(&self, from: usize, to: usize) -> Option<Vec<usize>>;
}

/// A group: its sender and its receivers, by the names of their nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub sender: String,
    pub receivers: Vec<String>,
}

/// The costs of one way of serving a group, compared with the others.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// The name of the delivery, as a table shows it.
    pub delivery: String,
    /// The number of MEADcast packets that leave the sender.
    pub packets: usize,
    /// The number of receivers that get unicast.
    pub unicast: usize,
    /// The number of bytes that one datagram to every receiver puts on all links, as a fraction of what
    /// unicast takes.
    pub network_share: f64,
    /// The number of these bytes that leave the sender, as a fraction of what unicast takes.
    pub sender_share: f64,
}

/// The length of the headers of UDP and IPv6, in bytes.
const HEADERS_LEN: usize = 48;

/// Compares all ways of grouping for packets of at most `max` addresses that carry this number of bytes of
/// data.
///
/// # Errors
/// One line, when the group names something that the network does not have.
pub fn compare(
    network: &dyn Network,
    group: &Group,
    support: Option<&BTreeSet<String>>,
    (max, data_bytes): (usize, usize),
) -> Result<Vec<Share>, String> {
    let payload_bytes = data_bytes + 8;
    let stage = Stage::new(network, group, support)?;
    let unicast = stage.unicast_loads(payload_bytes).cost(stage.sender);
    let share = |delivery: &str, grouping: &Grouping, loads: Loads| Share {
        delivery: delivery.to_owned(),
        packets: grouping.lists.len(),
        unicast: grouping.unicast.len(),
        network_share: loads.cost(stage.sender).network_bytes as f64 / unicast.network_bytes as f64,
        sender_share: loads.cost(stage.sender).sender_bytes as f64 / unicast.sender_bytes as f64,
    };
    let mut shares = Vec::new();
    for (delivery, algorithm, model) in deliveries(max, payload_bytes) {
        let grouping = stage.group(algorithm.as_ref(), max, &model);
        shares.push(share(&delivery, &grouping, stage.loads(&grouping, &model)));
    }
    let multicast = Grouping::default();
    shares.push(share("IP multicast (the floor)", &multicast, stage.multicast_loads(payload_bytes)));
    Ok(shares)
}

/// A way in which a datagram reaches every receiver.
#[derive(Debug, Clone, Copy)]
pub enum Scheme {
    Unicast,
    Multicast,
    /// MEADcast, with these parameters of the thesis' grouping. None: with the grouping by cost.
    Mead {
        grouping: Option<Parameters>,
        dont_replicate: bool,
        designated: bool,
    },
    /// Xcast: all receivers stand in lists.
    Xcast,
    /// Xcast+: the receivers' routers stand in lists, and send one packet on each of their links.
    XcastPlus,
}

/// Computes what one datagram with this number of bytes of data costs, in packets of at most `max` addresses.
///
/// # Errors
/// One line, when the group names something that the network does not have.
pub fn cost(
    network: &dyn Network,
    group: &Group,
    support: Option<&BTreeSet<String>>,
    (max, data_bytes): (usize, usize),
    scheme: &Scheme,
) -> Result<Cost, String> {
    let payload_bytes = data_bytes + 8;
    let stage = Stage::new(network, group, support)?;
    let loads = match *scheme {
        Scheme::Unicast => stage.unicast_loads(payload_bytes),
        Scheme::Multicast => stage.multicast_loads(payload_bytes),
        Scheme::Mead { grouping, dont_replicate, designated } => {
            let model = Model { payload_bytes, dont_replicate, designated };
            stage.loads(&stage.group(grouping.as_ref(), max, &model), &model)
        }
        Scheme::Xcast => stage.xcast_loads(max, payload_bytes),
        Scheme::XcastPlus => stage.xcast_plus_loads(max, payload_bytes),
    };
    Ok(loads.cost(stage.sender))
}

/// Returns the last routers before the receivers.
///
/// # Errors
/// One line, when the group names something that the network does not have.
pub fn last_routers(network: &dyn Network, group: &Group) -> Result<BTreeSet<String>, String> {
    let stage = Stage::new(network, group, None)?;
    let name = |router: usize| network.name(router).to_owned();
    Ok(stage.last_routers().into_iter().map(name).collect())
}

/// The ways of grouping: the thesis' with its parameters, or none for the one by cost.
fn deliveries(max: usize, payload_bytes: usize) -> Vec<(String, Option<Parameters>, Model)> {
    let thesis = |merge| Parameters { max, ok: max, merge, ..Parameters::default() };
    let by_name = [
        ("thesis", Some(thesis(0))),
        ("thesis, merge 1", Some(thesis(1))),
        ("thesis, merge 2", Some(thesis(2))),
        ("cost", None),
    ];
    let revisions =
        [("", false, false), (", don't replicate", true, false), (", designated routers", true, true)];
    let all = revisions.iter().flat_map(|(revision, dont_replicate, designated)| {
        by_name.iter().map(move |(name, algorithm)| {
            let model = Model { payload_bytes, dont_replicate: *dont_replicate, designated: *designated };
            (format!("{name}{revision}"), *algorithm, model)
        })
    });
    // Merging gives routers receivers that are not on their own links, which the thesis' lists have then.
    all.filter(|(_, algorithm, model)| !model.designated || algorithm.is_none_or(|found| found.merge == 0))
        .collect()
}

struct Stage<'a> {
    network: &'a dyn Network,
    sender: usize,
    receivers: Vec<usize>,
    node_of: BTreeMap<Ipv6Addr, usize>,
    /// The routers that act, by name; none: all.
    support: Option<BTreeSet<String>>,
    tree: Tree,
}

impl<'a> Stage<'a> {
    fn new(
        network: &'a dyn Network,
        group: &Group,
        support: Option<&BTreeSet<String>>,
    ) -> Result<Self, String> {
        let node = |name: &String| {
            let found = (0..network.nodes()).find(|node| network.name(*node) == name);
            found.ok_or_else(|| format!("the network has no node {name}"))
        };
        let sender = node(&group.sender)?;
        let receivers = group.receivers.iter().map(node).collect::<Result<Vec<_>, _>>()?;
        let address = |node: usize| network.address(node).ok_or("a node without an address".to_owned());
        let mut node_of = BTreeMap::new();
        for node in 0..network.nodes() {
            node_of.extend(network.address(node).map(|address| (address, node)));
        }
        let speaks = |node: &usize| speaks(network, *node, support);
        let addresses = receivers.iter().map(|node| address(*node)).collect::<Result<Vec<_>, _>>()?;
        let mut answers = Answers::new(address(sender)?, addresses.iter().copied());
        for (receiver, to) in receivers.iter().zip(&addresses) {
            let way = network.way(sender, *receiver).ok_or("a receiver that cannot be reached")?;
            // All have joined the group. A sender that asks for no designated routers does not make use of it.
            for (hops, router) in (1..).zip(way.iter().filter(|node| speaks(node))) {
                answers.add_offer(address(*router)?, *to, hops).map_err(|anomaly| anomaly.to_string())?;
            }
        }
        let support = support.cloned();
        Ok(Self { network, tree: Tree::new(&answers), sender, receivers, node_of, support })
    }

    /// Groups the receivers by the thesis' algorithm, or by cost where `thesis` is `None`.
    fn group(&self, thesis: Option<&Parameters>, max: usize, model: &Model) -> Grouping {
        match thesis {
            Some(parameters) => grouping::group(&self.tree, parameters),
            None => cost::group(&self.tree, &Parameters { max, ..Parameters::default() }, model),
        }
    }

    /// The network of a host, by its address: testbeds have prefixes of 112 bits. More than any node's index.
    fn lan(&self, host: usize) -> u128 {
        self.network.address(host).map_or(0, |address| u128::from(address) >> 16)
    }

    /// The loads when each receiver gets a copy.
    fn unicast_loads(&self, payload_bytes: usize) -> Loads {
        let mut loads = Loads::default();
        for receiver in &self.receivers {
            self.carry(&mut loads, self.sender, *receiver, single_bytes(payload_bytes));
        }
        loads
    }

    /// The loads when each link carries one copy.
    fn multicast_loads(&self, payload_bytes: usize) -> Loads {
        let mut loads = self.unicast_loads(payload_bytes);
        loads.0.values_mut().for_each(|bytes| *bytes = single_bytes(payload_bytes));
        loads
    }

    /// The loads when routers send a grouping's packets on.
    fn loads(&self, grouping: &Grouping, model: &Model) -> Loads {
        let mut loads = Loads::default();
        let single = single_bytes(model.payload_bytes);
        for receiver in &grouping.unicast {
            self.carry(&mut loads, self.sender, self.node_of[receiver], single);
        }
        grouping.lists.iter().for_each(|list| self.carry_list(&mut loads, list, model));
        loads
    }

    fn carry_list(&self, loads: &mut Loads, list: &AddressList, model: &Model) {
        let branching = list.branching(&self.tree);
        let mut before = self.tree.ancestors(branching).take_while(|node| *node != Tree::ROOT);
        let parts_at = if model.dont_replicate { Some(branching) } else { before.by_ref().last() };
        let parts_at = parts_at.map_or(self.sender, |node| self.node_of[&self.tree.node(node).address]);
        let alone = Grouping { lists: vec![list.clone()], unicast: Vec::new() };
        let packet = model.sender_bytes(&self.tree, &alone);
        self.carry(loads, self.sender, parts_at, packet);
        for entry in &list.entries {
            self.carry(loads, parts_at, self.node_of[&entry.router], packet);
            self.carry_behind(loads, entry, model);
        }
    }

    fn carry_behind(&self, loads: &mut Loads, entry: &Entry, model: &Model) {
        let router = self.node_of[&entry.router];
        let single = single_bytes(model.payload_bytes);
        let is_designated = |receiver: &&Ipv6Addr| model.is_designated(&self.tree, entry, **receiver);
        let (designated, listed): (Vec<_>, Vec<_>) = entry.receivers.iter().partition(is_designated);
        // One packet on each of its LANs on which there are receivers.
        let lans: BTreeSet<_> = designated.iter().map(|receiver| self.lan(self.node_of[*receiver])).collect();
        lans.into_iter().for_each(|lan| loads.add((router, lan), single));
        listed.iter().for_each(|receiver| self.carry(loads, router, self.node_of[*receiver], single));
    }

    /// Adds a packet to each link from one node to another. Hosts on one LAN share its link.
    fn carry(&self, loads: &mut Loads, from: usize, to: usize, bytes: u64) {
        let way = self.network.way(from, to).unwrap_or_default();
        way.windows(2).for_each(|hop| loads.add(self.link(hop[0], hop[1]), bytes));
    }

    /// The link from a node to its neighbour.
    fn link(&self, from: usize, to: usize) -> (usize, u128) {
        (from, if self.network.is_router(to) { to as u128 } else { self.lan(to) })
    }
}

/// Whether a node is a router that acts on packets for several.
fn speaks(network: &dyn Network, node: usize, support: Option<&BTreeSet<String>>) -> bool {
    network.is_router(node) && support.is_none_or(|named| named.contains(network.name(node)))
}

/// Bytes on each link in one direction: from a node to another, or to a LAN with hosts.
#[derive(Debug, Default)]
struct Loads(BTreeMap<(usize, u128), u64>);

impl Loads {
    fn add(&mut self, link: (usize, u128), bytes: u64) {
        *self.0.entry(link).or_default() += bytes;
    }

    fn cost(&self, sender: usize) -> Cost {
        let of_sender = self.0.iter().filter(|((from, _), _)| *from == sender);
        Cost {
            network_bytes: self.0.values().sum(),
            sender_bytes: of_sender.map(|(_, bytes)| bytes).sum(),
            heaviest_bytes: self.0.values().copied().max().unwrap_or(0),
        }
    }
}

/// The cost of one datagram to every receiver, in bytes of IP packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// The number of bytes on all links together.
    pub network_bytes: u64,
    /// The number of bytes that leave the sender.
    pub sender_bytes: u64,
    /// The number of bytes on the link that carries most, in one direction.
    pub heaviest_bytes: u64,
}

fn single_bytes(payload_bytes: usize) -> u64 {
    (HEADERS_LEN - 8 + payload_bytes) as u64
}
