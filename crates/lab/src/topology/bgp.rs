//! The BGP sessions between routers, and the prefixes that each announces to the other.

use std::net::Ipv6Addr;

use serde::{Deserialize, Serialize};

use super::{Subnet, Topology};

/// A router that speaks BGP with its neighbours in other networks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speaker {
    /// The router's index.
    pub router: usize,
    pub as_number: u32,
    /// The prefixes that are the network's own. All neighbours hear of them, and nobody hears of a longer prefix out of them.
    pub blocks: Vec<Subnet<Ipv6Addr>>,
    pub neighbours: Vec<Neighbour>,
    /// Whether the network sells access to no other. A provider may have no customers yet.
    pub is_stub: bool,
}

/// The other end of a BGP session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// The index of the network that both routers are on.
    pub network: usize,
    /// The other router's index.
    pub router: usize,
    /// The relation of the other network to this one.
    pub relation: Relation,
    /// The prefixes that only this neighbour hears of, such as a customer's share of its provider's block.
    pub announced: Vec<Subnet<Ipv6Addr>>,
}

/// The relation of a neighbour. Routes of customers go to everybody; routes of providers and peers go to customers
/// only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Relation {
    Provider,
    Peer,
    Customer,
}

impl Speaker {
    /// Every prefix that the router announces to somebody as its own.
    pub fn announced(&self) -> impl Iterator<Item = Subnet<Ipv6Addr>> {
        let to_one = self.neighbours.iter().flat_map(|neighbour| &neighbour.announced);
        self.blocks.iter().chain(to_one).copied()
    }

    /// The last 64-bit prefix of the first block, for addresses inside of tunnels.
    pub fn tunnels(&self) -> Option<Subnet<Ipv6Addr>> {
        const LENGTH: u8 = 64;
        let block = self.blocks.first().filter(|block| block.length <= LENGTH)?;
        let last = u128::MAX >> block.length & u128::MAX << (128 - LENGTH);
        Some(Subnet { base: Ipv6Addr::from(u128::from(block.base) | last), length: LENGTH })
    }

    /// Whether the network sells access to others.
    pub fn is_provider(&self) -> bool {
        !self.is_stub
    }
}

impl Topology {
    /// The BGP speaker with this name.
    pub fn speaker(&self, name: &str) -> Option<&Speaker> {
        self.bgp.iter().find(|speaker| self.nodes[speaker.router].name == name)
    }
}
