//! The events of a sender of MEADcast or Xcast. `treecast mead --json` prints them, one a line.

use std::net::Ipv6Addr;

use serde::{Deserialize, Serialize};
use treecast_proto::explicit::{
    lists::{List, TransmissionGroup},
    mead::tree::Tree,
};

use crate::{events::as_field_text, remedies::Advised};

/// An event of the sender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum MeadEvent {
    /// The sender is ready: programs can send now.
    Ready {
        /// Name of the TUN device.
        tun: String,
        /// Length of the longest packet that the device takes.
        mtu_bytes: u32,
        /// Address that packets leave from.
        source: Ipv6Addr,
    },
    /// Something is not as it should be.
    #[serde(with = "as_field_text")]
    Warning(Advised),
    /// The path to these receivers has a smaller MTU than the sender's packets.
    Narrow {
        receivers: Vec<Ipv6Addr>,
        /// Length of the longest packet that fits.
        mtu_bytes: usize,
        /// Length of the longest packet that the device takes now.
        tun_mtu_bytes: u32,
        /// Length of the longest datagram that goes there by MEADcast. Longer ones go by unicast.
        longest_by_mead_bytes: usize,
    },
    /// Packets cannot reach these receivers. The sender goes on sending to them.
    Unreachable { receivers: Vec<Ipv6Addr>, why: String },
    /// Packets use this grouping from now on.
    Group(Group),
    /// A discovery is over and has found this tree, whose root is the sender.
    Tree { sender: Branch },
    /// The counts so far.
    Statistics(Counted),
    /// The sender has ended.
    Done(Counted),
}

/// A grouping of the receivers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Group {
    /// The first grouping has the number 1.
    pub number: u64,
    /// Seconds since the sender became ready.
    pub seconds: f64,
    /// One list for each packet to several receivers.
    pub lists: Vec<Listed>,
    /// Receivers that get a copy of their own.
    pub unicast: Vec<Ipv6Addr>,
    /// Routers that have registered for the group (Xcast+). `None` with MEADcast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registered: Option<Vec<Ipv6Addr>>,
}

/// The addresses in one packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Listed {
    Mead {
        /// Routers that are in the packet together with their receivers.
        routers: Vec<Served>,
        /// Routers that serve their receivers by the multicast group.
        designated: Vec<Served>,
        /// Number of routers that must forward the packet without copying it.
        dont_replicate: u8,
    },
    Xcast {
        destinations: Vec<Ipv6Addr>,
    },
}

/// A router and the receivers that it serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    pub router: Ipv6Addr,
    pub receivers: Vec<Ipv6Addr>,
}

/// A node of the tree that a discovery has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    pub address: Ipv6Addr,
    /// The number of MEADcast routers up to this node, which is counted, too; 0 at the sender.
    pub hops: u8,
    /// Receivers for which this is the last router on the way.
    pub receivers: Vec<Ipv6Addr>,
    /// The routers right behind this node.
    pub routers: Vec<Self>,
}

/// The sender's counters since its start.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counted {
    /// Seconds since the sender became ready.
    pub seconds: f64,
    /// Packets that programs sent to the device's address.
    pub packets: u64,
    /// Sent packets whose super-packet was not divided.
    pub in_super_packets: u64,
    /// Packets that left with a list of addresses (MEADcast or Xcast).
    pub mead_packets: u64,
    /// The bytes of the packets with a MEADcast header, IPv6 headers included.
    pub mead_bytes: u64,
    /// Packets that left for one receiver.
    pub unicast_packets: u64,
    /// The bytes of the packets to single receivers, IPv6 headers included.
    pub unicast_bytes: u64,
    /// Discoveries that are over.
    pub discoveries: u64,
    /// The number of discovery requests sent.
    pub discovery_packets: u64,
    /// The bytes of discovery requests, IPv6 headers included.
    pub discovery_bytes: u64,
    /// The number of responses that were used.
    pub responses: u64,
    /// Messages of routers that leave.
    pub farewells: u64,
    /// Responses outside of a discovery.
    pub late: u64,
    /// Responses that are impossible, or contradict another one.
    pub anomalous: u64,
    /// Packets with a wrong header.
    pub malformed: u64,
    /// Responses without a proof where one is needed.
    pub unproved: u64,
    /// Responses that prove an answer to another request.
    pub replayed: u64,
    /// Responses whose proof is wrong.
    pub forged: u64,
    /// ICMPv6 errors about packets that this sender did not send.
    pub stray: u64,
    /// Packets lost because programs sent faster than the sender could.
    pub overrun_packets: u64,
    /// Packets that the kernel refused.
    pub refused_packets: u64,
    /// Registrations of Xcast+. `None` with MEADcast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registrations: Option<Registrations>,
}

/// Registrations of Xcast+ routers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Registrations {
    /// The number of registrations that were used.
    pub counted: u64,
    /// Registrations for another channel, or too many.
    pub unwanted: u64,
    /// Registrations that were not made with the key.
    pub forged: u64,
    /// Registrations that were older than others.
    pub replayed: u64,
}

impl Group {
    pub fn new(group: &TransmissionGroup, is_xcast: bool, seconds: f64) -> Self {
        Self {
            number: group.number,
            seconds,
            lists: group.lists.iter().map(|list| Listed::new(list, is_xcast)).collect(),
            unicast: group.unicast.clone(),
            registered: is_xcast.then(|| group.routers.clone()),
        }
    }
}

impl Listed {
    fn new(list: &List, is_xcast: bool) -> Self {
        if is_xcast {
            return Self::Xcast { destinations: list.receivers().collect() };
        }
        let served = |(router, receivers): &(Ipv6Addr, Vec<Ipv6Addr>)| Served {
            router: *router,
            receivers: receivers.clone(),
        };
        Self::Mead {
            routers: list.entries.iter().map(served).collect(),
            designated: list.designated.iter().map(served).collect(),
            dont_replicate: list.dont_replicate,
        }
    }
}

impl Branch {
    /// Converts the tree below a node. It is at most as deep as the largest number of hops.
    pub fn new(tree: &Tree, index: usize) -> Self {
        let node = tree.node(index);
        Self {
            address: node.address,
            hops: node.hops,
            receivers: node.leaves.clone(),
            routers: node.children.iter().map(|child| Self::new(tree, *child)).collect(),
        }
    }
}
