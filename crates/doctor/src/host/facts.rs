//! The facts about a host. All of it is plain data.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Everything that [`super::findings`] judges.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The host's name.
    pub name: String,
    pub is_root: bool,
    pub interfaces: Vec<InterfaceFacts>,
    /// The interface of packets to groups for which the program names none. `None`: such packets cannot be sent.
    pub route_ipv4: Option<String>,
    pub route_ipv6: Option<String>,
    pub limits: Limits,
    pub firewall: Firewall,
    pub bridges: Vec<BridgeFacts>,
    pub queriers: Queriers,
    /// Whether UDP sockets send and receive super-packets.
    pub has_gso: bool,
    pub has_gro: bool,
}

/// One interface, the loopback excepted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct InterfaceFacts {
    pub name: String,
    pub is_up: bool,
    pub has_carrier: bool,
    pub can_multicast: bool,
    /// Whether a network card is behind it, and not only the kernel, as for a bridge or a tunnel.
    pub is_card: bool,
    /// Whether packets are joined as they arrive (generic receive offload). `None` if the driver does not say.
    pub has_gro: Option<bool>,
    /// Whether the card joins packets of TCP itself (large receive offload). `None` if the driver does not say.
    pub has_lro: Option<bool>,
    /// Whether the interface is a port of a bridge or bond, and so carries no addresses of its own.
    pub is_port: bool,
    pub mtu: u32,
    pub addresses: Vec<IpAddr>,
    /// The prefix that names its LAN, such as 10.0.1.0/24: that of the first address that is not link-local.
    pub lan: String,
    /// The larger of the two settings `all` and the interface's own, as the kernel takes it: 0 off, 1 strict, 2 loose
    /// (RFC 3704).
    pub rp_filter: u8,
    /// The version that a setting forces. 0 if none does.
    pub forced_igmp: u8,
    pub forced_mld: u8,
    /// The version of IGMP that the kernel speaks here, by the queries that it has heard. `None` if it does not say.
    pub igmp_version: Option<u8>,
}

impl InterfaceFacts {
    /// Whether multicast sessions can use it.
    pub fn is_usable(&self) -> bool {
        self.is_up && self.can_multicast && !self.addresses.is_empty()
    }
}

/// Limits of the kernel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// The largest receive buffer in bytes that a program without privileges gets.
    pub rmem_max: Option<u64>,
    /// The number of IPv4 groups that one socket may join.
    pub igmp_max_memberships: Option<u64>,
    /// The number of sources that one socket may name for a group.
    pub igmp_max_msf: Option<u64>,
    pub mld_max_msf: Option<u64>,
    /// The bytes of options and memberships that one socket may have.
    pub optmem_max: Option<u64>,
}

/// The effect of the host's nftables rules on multicast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Firewall {
    /// The rules could not be read, for this reason.
    Unread(String),
    /// The packets that are dropped.
    Read(Vec<Verdict>),
}

impl Default for Firewall {
    fn default() -> Self {
        Self::Read(Vec::new())
    }
}

/// A kind of packet that the firewall drops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The packet in words, such as "incoming UDP to 239.255.77.84".
    pub packet: String,
    /// The rule in words: "the rule `udp dport 9 drop` of table inet filter, chain input", or "the policy of ..."
    pub rule: String,
    /// Whether all rules before it were understood.
    pub is_certain: bool,
}

/// A bridge on this host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BridgeFacts {
    pub name: String,
    pub snoops: bool,
    pub is_querier: bool,
}

/// The queriers that ask for listeners.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Queriers {
    /// The interfaces where queries were listened for. Empty without root.
    pub listened_on: Vec<String>,
    pub heard: Vec<Querier>,
}

/// A querier that was heard.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Querier {
    pub interface: String,
    pub address: IpAddr,
    /// The version of IGMP or MLD that it speaks.
    pub version: u8,
}
