//! Reads what an experiment file says about flows that share a link for a while, and checks it.

use serde::Deserialize;
use treecast_lab::quantity::{Rate, Size, Time};

/// A link that all flows of a run cross, and how long they share it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sharing {
    /// The name of the link in the topologies.
    pub link: String,
    /// How long all flows run together.
    pub lasts: Time,
    /// How much may wait in front of the link, in place of what the topology says.
    pub queue: Option<Size>,
    /// The congestion control of TCP flows that name none themselves.
    pub congestion: Congestion,
}

/// A congestion control of TCP, as the kernel calls it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Congestion(pub String);

impl TryFrom<String> for Congestion {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        // The kernel's TCP_CA_NAME_MAX.
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        match (1..16).contains(&name.len()) && name.bytes().all(is_plain) {
            true => Ok(Self(name)),
            false => Err(format!("congestion `{name}`: expected the name of one, such as `cubic`")),
        }
    }
}

/// Another flow on the shared link, which competes with the first one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rival {
    pub kind: RivalKind,
    /// How long after the first flow the rival begins.
    pub after: Option<Time>,
    /// The congestion control of a TCP rival, in place of the workload's.
    pub congestion: Option<Congestion>,
}

impl Rival {
    /// Returns the congestion control of a TCP rival.
    pub fn congestion_in<'a>(&'a self, sharing: &'a Sharing) -> &'a str {
        &self.congestion.as_ref().unwrap_or(&sharing.congestion).0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RivalKind {
    /// One TCP connection that always has something to send.
    Tcp,
    /// A second session like the first.
    Session,
}

/// A change of the link's rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// When the rate changes, counted from when all flows run.
    pub after: Time,
    pub rate: Rate,
}

/// The beginning of the names of the nodes that a rival sends to.
pub const RIVAL: &str = "rival";
