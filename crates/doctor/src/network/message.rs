//! The doctor's requests to a host, and the host's answers: one JSON object a line, over TCP.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{finding::Finding, host::Querier};

/// The version of these messages, and of the kinds of findings in them. Both sides must have the same.
pub const VERSION: u32 = 4;

/// The longest request, in bytes, that a listener reads.
pub const MAX_REQUEST_BYTES: usize = 256 * 1024;

/// The longest answer, in bytes, that the doctor reads: 300 senders' worth.
pub const MAX_ANSWER_BYTES: usize = 4 << 20;

/// A request of the doctor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Request {
    /// Asks for the host's description, and opens a run.
    Hello { version: u32 },
    /// A second connection of the same run: the address that it comes from may get probes, too.
    Also { token: u64 },
    /// Look at your host.
    Examine,
    /// Join these groups, and note from now on what arrives of so many senders and tests. Make a visit meanwhile. `groups`: those that a
    /// person has named, beside the ones of the run ([`super::groups::Groups::of_run`]).
    Listen { run: u64, groups: Vec<IpAddr>, senders: u16, tests: u16, joins: Vec<Join>, visit: Option<Visit> },
    /// Send these packets, in this order.
    Send { run: u64, sender: u16, rounds: Vec<Round> },
    /// Say what has arrived, and leave all groups.
    Collect { senders: Vec<IpAddr> },
    /// Find the routers towards an address of the asker, or towards another host of the run, and how far packets with such a header come.
    Trace { to: IpAddr, header: Header, hops: u8 },
}

/// A group to join.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// The group's place in [`super::groups::Groups`].
    pub group: usize,
    /// The sources of a source-specific group.
    pub sources: Vec<IpAddr>,
}

/// A host sends to groups all the time, joins them after a while, and leaves them again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visit {
    /// The host's number in the run.
    pub sender: u16,
    /// The numbers of the tests, and the groups' places in [`super::groups::Groups`].
    pub groups: Vec<(u16, usize)>,
    /// The time between two packets to a group, in microseconds.
    pub gap_us: u32,
    /// The time between the leave and the end, in milliseconds.
    pub after_ms: u32,
}

/// Packets of one test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    pub test: u16,
    pub to: Target,
    pub packets: u32,
    /// The length of each packet's UDP payload in bytes.
    pub bytes: u32,
    /// The number of packets that the host hands to the kernel as one super-packet. At least 1.
    pub at_once: u32,
    /// The time between two packets in microseconds.
    pub gap_us: u32,
    pub hop_limit: u8,
    pub header: Header,
}

/// The destination of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// The group at this place.
    Group(usize),
    /// A host. It must have proved that the address is its own.
    Host(IpAddr),
}

/// An IPv6 extension header in front of UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Header {
    None,
    /// A routing header of the experimental type 253 (RFC 4727), with no segments left.
    Routing,
    /// Destination options: padding.
    DestinationOptions,
    /// The fragment header of a packet that is not fragmented (RFC 6946).
    Fragment,
}

/// The answer of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    Host(Host),
    Examined {
        findings: Vec<Finding>,
        queriers: Vec<Querier>,
    },
    Done,
    /// Some packets could not be sent: the reason of the first one.
    Sent {
        failed: u32,
        why: Option<String>,
    },
    Heard(Ear),
    /// The router at each hop that said that a packet's hop limit was used up. `None` for those that said nothing.
    Path {
        routers: Vec<Option<IpAddr>>,
    },
    /// The request was not carried out, for this reason.
    Refused {
        why: String,
    },
}

/// A host of the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    pub version: u32,
    pub name: String,
    pub is_root: bool,
    pub interface: String,
    /// Its addresses on that interface that others can use, at most one of a family.
    pub addresses: Vec<IpAddr>,
    /// The prefix that names its LAN.
    pub lan: String,
    pub mtu: u32,
    pub token: u64,
}

impl Host {
    /// The host's address of a family.
    pub fn address(&self, is_ipv4: bool) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|address| address.is_ipv4() == is_ipv4)
    }
}

/// The packets that have arrived at a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ear {
    /// The packets that programs got.
    pub delivered: Vec<Heard>,
    /// The packets that the interface got and sent. `None` without root.
    pub captured: Option<Vec<Heard>>,
    /// The senders whose packets a strict rp_filter of this host drops, and the interface by which it reaches them.
    pub filtered: Vec<(IpAddr, String)>,
    /// The reasons why groups could not be joined.
    pub refused: Vec<String>,
    pub visits: Vec<Visited>,
}

/// The fate of one sender's packets to a group that this host joined late and left early.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visited {
    pub sender: u16,
    pub test: u16,
    /// Whether packets came to the interface before the join.
    pub is_flooded: bool,
    /// The time from the join to the first packet that the program got, in milliseconds. `None`: it got none.
    pub join_ms: Option<u32>,
    /// The time from the leave to the last packet at the interface, in milliseconds. `None`: the host could not look.
    pub leave_ms: Option<u32>,
}

/// The packets of one test from one sender.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    pub sender: u16,
    pub test: u16,
    /// The number of different packets.
    pub packets: u32,
    /// The largest number of times that one packet came.
    pub copies: u32,
    /// The largest and smallest hop limit.
    pub hop_limit: u8,
    pub least_hop_limit: u8,
    /// Whether the packets left this host.
    pub is_own: bool,
    /// The link-layer addresses that the packets came from.
    pub from: Vec<String>,
}
