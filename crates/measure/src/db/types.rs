//! The types that go into the database and come out of it.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use crate::series::Name;

/// The parameters that distinguish a run from the others of its experiment, as pairs of name and value:
/// `delivery` is `nack`, `size` is `1048576`. Numbers are in base units.
pub type Parameters = BTreeMap<String, String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub i64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
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

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Running,
    Complete,
    /// The run was ended early, or its process was killed. Everything measured until then is kept.
    CutShort,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEnd {
    /// [`Status::Complete`] or [`Status::CutShort`].
    pub status: Status,
    /// The time from `begin` to the end of the run.
    pub duration: Duration,
    /// The reason why the machine, and not the network, limited the run. `None` if it did not.
    pub saturated: Option<String>,
}

/// A run, as stored in the database.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub id: RunId,
    /// The experiment that it belongs to, e.g. `demo`.
    pub experiment: String,
    pub parameters: Parameters,
    /// The number of the repetition, from 0.
    pub repeat: u32,
    /// The seed of all random numbers of the run.
    pub seed: u64,
    /// The command that repeats the run.
    pub command: String,
    pub machine: Machine,
    pub started: SystemTime,
    pub status: Status,
    /// The duration. For a run that was cut short, it ends with the last thing known of the run.
    pub duration: Duration,
    pub saturated: Option<String>,
}

/// The role of a node in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Server,
    Client,
    Router,
    /// The machine that the lab runs on.
    Machine,
    /// A link whose load is recorded.
    Link,
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
    /// The series' name, as `crate::series` defines it.
    pub series: Name,
    pub at: Duration,
    pub value: i64,
}

/// An event of a run.
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
    const ALL: [Role; 5] = [Role::Server, Role::Client, Role::Router, Role::Machine, Role::Link];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Server => "server",
            Role::Client => "client",
            Role::Router => "router",
            Role::Machine => "machine",
            Role::Link => "link",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }
}
