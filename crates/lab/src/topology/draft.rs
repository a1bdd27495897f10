//! A topology as a parser has read it, whose names are still words.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{NetworkKind, Quality, Role, Subnet, Trunk};

/// A topology as a parser has read it, in the order of the file.
pub(super) struct Draft<'a> {
    /// The file's name or the generator's words, for errors.
    pub file: &'a str,
    pub name: String,
    pub nodes: Vec<DraftNode>,
    pub networks: Vec<DraftNetwork>,
}

pub(super) struct DraftNode {
    pub name: String,
    pub role: Role,
    pub loopback_v6: Vec<Ipv6Addr>,
    pub line: Option<usize>,
}

pub(super) struct DraftNetwork {
    pub name: String,
    pub kind: NetworkKind,
    /// `None`: the next free one.
    pub v4: Option<Subnet<Ipv4Addr>>,
    pub v6: Option<Subnet<Ipv6Addr>>,
    pub members: Vec<DraftMember>,
    pub trunk: Option<Trunk>,
    pub line: Option<usize>,
}

pub(super) struct DraftMember {
    pub node: String,
    /// The name of the interface. `None`: `if1`, `if2` and so on, in the order of the networks.
    pub interface: Option<String>,
    /// The IPv4 address. `None`: the next free one of the network.
    pub v4: Option<Ipv4Addr>,
    pub v6: Option<Ipv6Addr>,
    pub quality: Quality,
    pub line: Option<usize>,
}

impl DraftMember {
    /// A member of which nothing is known but its node.
    pub fn of(node: impl Into<String>, quality: Quality) -> Self {
        let node = node.into();
        Self { node, interface: None, v4: None, v6: None, quality, line: None }
    }

    pub fn on(mut self, interface: &str) -> Self {
        self.interface = Some(interface.to_owned());
        self
    }
}
