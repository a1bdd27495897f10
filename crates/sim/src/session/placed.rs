//! A session in a network of nodes and cables, as an experiment has it: objects are numbers of bytes, and nothing goes wrong but what the
//! network does.

use std::{net::Ipv6Addr, time::Duration};

use crate::graph::{Change, GraphPlan};

/// Where a session is, and what its network does.
#[derive(Debug, Clone)]
pub struct Placed {
    pub graph: GraphPlan,
    /// The sender's node.
    pub sender: usize,
    /// The receivers' nodes, in the scenario's order.
    pub receivers: Vec<usize>,
    pub fanout: Fanout,
    /// Addresses and routers, where packets name their receivers.
    pub explicit: Option<Explicit>,
    /// A carousel in place of the scenario's repair.
    pub carousel: Option<Carousel>,
    /// What happens to cables, by time since all receivers were there.
    pub changes: Vec<(Duration, usize, Change)>,
    /// What a receiver's program takes from its start until it connects.
    pub starting: Duration,
    /// Bytes that encryption adds to each packet to the group.
    pub seal_bytes: usize,
    /// When the run ends in any case, since its begin.
    pub timeout: Duration,
    /// The time between two samples of what cables have carried.
    pub sample: Duration,
}

/// How one packet reaches all receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fanout {
    /// IP multicast.
    Multicast,
    /// A copy for each.
    Unicast,
    /// Packets with lists of receivers, by discovery of routers.
    Mead,
    /// Packets with lists of receivers.
    Xcast,
    /// What each receiver hears decides, between multicast, MEADcast and unicast.
    Auto,
}

impl Fanout {
    /// Whether what receivers hear decides by which way they are served.
    pub(super) fn chooses(self) -> bool {
        matches!(self, Self::Mead | Self::Xcast | Self::Auto)
    }
}

/// What packets that name their receivers need to know of a network.
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
}

/// A router of a network.
#[derive(Debug, Clone)]
pub struct PlacedRouter {
    pub node: usize,
    /// All its addresses; the first one is where its answers come from.
    pub addresses: Vec<Ipv6Addr>,
    /// Whether it speaks MEADcast and Xcast.
    pub speaks: bool,
}

/// A carousel: it starts when somebody listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carousel {
    /// After how many loops it ends. `None` when nobody listens any more.
    pub loops: Option<u64>,
}

/// What cables had carried at a time of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    pub at: Duration,
    /// Ethernet frames on all cables, each frame once, in bytes.
    pub network_bytes: u64,
    /// The part of these bytes that left the sender.
    pub sender_bytes: u64,
}

/// How long driver's sessions wait, for what stands in their place here.
impl Placed {
    pub(super) const SENDER_STALL_LIMIT: Duration = Duration::from_secs(120);
    pub(super) const RECEIVER_STALL_LIMIT: Duration = Duration::from_secs(15);
    pub(super) const KEEPALIVE: Duration = Duration::from_secs(5);
    pub(super) const REPORT_INTERVAL: Duration = Duration::from_millis(200);
}
