//! What goes into the database and comes out of it.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use crate::series::Name;

/// What distinguishes a run from the others of its experiment, by name: `delivery` is `nack`, `size` is `1048576`.
/// Numbers are in base units.
pub type Parameters = BTreeMap<String, String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub i64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub i64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesId(pub i64);

/// The machine that a run was made on.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Machine {
    pub hostname: String,
    /// Name and release, e.g. `Linux 6.1.0-18-amd64`.
    pub kernel: String,
    pub cpu_model: String,
    pub cpus: u32,
    pub memory_bytes: u64,
    pub treecast_version: String,
}

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Running,
    Complete,
    /// It was ended early, or its process was killed; what was measured until then is kept.
    CutShort,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEnd {
    /// [`Status::Complete`] or [`Status::CutShort`].
    pub status: Status,
    /// How long it took, from `begin_run`.
    pub duration: Duration,
    /// Why the machine, and not the network, was the limit; `None` when it was not.
    pub saturated: Option<String>,
}

/// A run as the database has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub id: RunId,
    /// The experiment that it belongs to, e.g. `demo`.
    pub experiment: String,
    pub parameters: Parameters,
    /// Which repetition this is, from 0.
    pub repeat: u32,
    /// What all randomness of the run came from.
    pub seed: u64,
    /// The command that repeats it.
    pub command: String,
    pub machine: Machine,
    pub started: SystemTime,
    pub status: Status,
    /// Of a run cut short: until the last thing known of it.
    pub duration: Duration,
    pub saturated: Option<String>,
}

/// What a node does in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Server,
    Client,
    Router,
    /// The machine that the lab runs on.
    Machine,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NodeInfo {
    pub name: String,
    pub role: Role,
}

/// The value of one series of one node at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub node: NodeId,
    /// A name as `crate::series` describes them.
    pub series: Name,
    pub at: Duration,
    pub value: i64,
}

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub at: Duration,
    pub node: Option<NodeId>,
    /// One word, e.g. `joined`.
    pub kind: String,
    pub detail: String,
}

impl Status {
    const ALL: [Status; 3] = [Status::Running, Status::Complete, Status::CutShort];

    pub fn as_str(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Complete => "complete",
            Status::CutShort => "cut short",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

impl Role {
    const ALL: [Role; 4] = [Role::Server, Role::Client, Role::Router, Role::Machine];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Server => "server",
            Role::Client => "client",
            Role::Router => "router",
            Role::Machine => "machine",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }
}
