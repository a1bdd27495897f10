//! A session in a network of nodes and cables, as an experiment has it. Objects are numbers of bytes, and
//! nothing goes wrong except what the network does.

use std::{net::Ipv6Addr, time::Duration};

use treecast_proto::explicit::{finder, mead::grouping::Parameters};

use super::local::Local;
use crate::graph::{Change, GraphPlan};

/// The places of a session's nodes, and what its network does.
#[derive(Debug, Clone)]
pub struct Placed {
    pub graph: GraphPlan,
    /// The node of the sender.
    pub sender: usize,
    /// The nodes of the receivers, in the order of the scenario.
    pub receivers: Vec<usize>,
    pub fanout: Fanout,
    /// How routers and switches know where packets to groups go.
    pub multicast: Multicast,
    /// The addresses and routers, for packets that name their receivers.
    pub explicit: Option<Explicit>,
    /// The settings of local groups, which take the place of the scenario's repair.
    pub local: Option<Local>,
    /// The changes of cables, each with the time since all receivers were there.
    pub changes: Vec<(Duration, usize, Change)>,
    /// The time that a receiver's program takes from its start until it connects.
    pub starting: Duration,
    /// The number of bytes that encryption adds to each packet to the group.
    pub seal_bytes: usize,
    /// The time since its beginning at which the run ends in any case.
    pub timeout: Duration,
    /// The time between two samples of what cables have carried.
    pub sample: Duration,
}

/// How the nodes of a network know where packets to groups go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Multicast {
    /// Packets follow the tree of shortest paths from their source to all members. Nobody has to make it.
    #[default]
    Tree,
    /// Hosts report what they listen to by MLD, switches snoop, and routers run the machine of `treecast mroute`.
    Mld(Routing),
}

/// The settings of a network with MLD. A host has one interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Routing {
    /// The number of the first switch. All nodes from this one on that forward are switches, and those before it are routers.
    pub first_switch: usize,
    /// Whether each source has a tree of its own, as with `treecast mroute --source-trees`.
    pub source_trees: bool,
}

/// How one packet reaches all receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fanout {
    /// IP multicast.
    Multicast,
    /// One copy for each receiver.
    Unicast,
    /// Packets with lists of receivers, made after routers were discovered (MEADcast).
    Mead,
    /// Packets with lists of receivers, made without discovery (Xcast).
    Xcast,
    /// The fanout is chosen for each receiver by what it hears: multicast, MEADcast or unicast.
    Auto,
}

impl Fanout {
    /// Whether what receivers hear decides by which way they are served.
    pub(super) fn chooses(self) -> bool {
        matches!(self, Self::Mead | Self::Xcast | Self::Auto)
    }
}

/// The addresses and links that a sender of packets with lists must know.
#[derive(Debug, Clone)]
pub struct Explicit {
    /// The sender's address.
    pub sender: Ipv6Addr,
    /// The receivers' addresses, in the scenario's order.
    pub receivers: Vec<Ipv6Addr>,
    /// Whether each receiver is on the sender's own link.
    pub on_link: Vec<bool>,
    pub routers: Vec<PlacedRouter>,
    /// The MTU of all links, in bytes.
    pub mtu: usize,
    pub lists: Lists,
}

/// How a sender finds routers, and makes packets with lists of receivers.
#[derive(Debug, Clone)]
pub struct Lists {
    /// The limits of lists. `None`: as many addresses as leave room for a packet of the least MTU of IPv6.
    pub limits: Option<Parameters>,
    /// Whether receivers are grouped so that links carry the fewest bytes, and not as in the MEADcast thesis.
    pub by_cost: bool,
    pub dont_replicate: bool,
    pub to_router: bool,
    /// Whether routers overwrite addresses that a copy is not for (Xcast).
    pub is_anonymous: bool,
    /// The time before the first discovery, for which each one gathers responses, and from one to the next.
    pub delay: Duration,
    pub timeout: Duration,
    pub interval: Duration,
    /// Whether the first discovery waits for traffic.
    pub waits_for_traffic: bool,
}

impl Default for Lists {
    /// What `treecast send` does.
    fn default() -> Self {
        Self {
            limits: None,
            by_cost: true,
            dont_replicate: false,
            to_router: false,
            is_anonymous: false,
            delay: finder::DISCOVERY_DELAY,
            timeout: finder::DISCOVERY_TIMEOUT,
            interval: finder::DISCOVERY_INTERVAL,
            waits_for_traffic: false,
        }
    }
}

/// A router of a network.
#[derive(Debug, Clone)]
pub struct PlacedRouter {
    pub node: usize,
    /// All addresses of the router. It answers from the first one.
    pub addresses: Vec<Ipv6Addr>,
    /// Whether the router speaks MEADcast and Xcast.
    pub speaks: bool,
}

/// What the cables had carried at a time of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    pub at: Duration,
    /// The bytes of Ethernet frames on all cables. Each frame counts once.
    pub network_bytes: u64,
    /// The part of these bytes that left the sender.
    pub sender_bytes: u64,
}
