//! What goes into the database and comes out of it.

use std::time::{Duration, SystemTime};

use crate::series::Name;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub i64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub i64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesId(pub i64);

/// What a run is going to do, known before it starts.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct RunInfo {
    /// The experiment that it belongs to, e.g. `demo`.
    pub experiment: String,
    /// The network's name in the paper's form, e.g. `S1R3L5`.
    pub topology: String,
    pub clients: u32,
    /// Routers between the server and a client; 0 on a LAN.
    pub router_levels: u32,
    /// The rate of the links; `None` when they are not limited.
    pub link_bps: Option<u64>,
    /// The rate of the server's own link, where it is known.
    pub server_bps: Option<u64>,
    /// How the bytes travel, e.g. `nack` or `tcp`.
    pub delivery: String,
    /// When the clients ask: `immediate`, `random` or `random2` (librecast-updates-2022, 1).
    pub schedule: String,
    pub size_bytes: u64,
    /// Which repetition this is, from 0.
    pub repeat: u32,
    /// What all randomness of the run came from.
    pub seed: u64,
    /// The command that repeats it.
    pub command: String,
    pub machine: Machine,
}

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
    pub info: RunInfo,
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

/// How one client got the object: from the moment it asked until it had checked its copy.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transfer {
    pub started: Duration,
    /// `None` when it never ended.
    pub finished: Option<Duration>,
    /// Bytes of the object that the client has.
    pub received_bytes: u64,
    /// The copy's BLAKE3 hash is the sender's.
    pub verified: bool,
    /// Why it failed; `None` when it did not.
    pub failure: Option<String>,
    pub retransmitted_bytes: u64,
    pub duplicate_bytes: u64,
    /// Packets that the kernel dropped at the client's socket.
    pub dropped_packets: u64,
    pub cpu_user: Duration,
    pub cpu_system: Duration,
    pub peak_memory_bytes: u64,
}

impl Transfer {
    /// The time that the paper's tables 1 to 5 average; `None` for a transfer that did not succeed.
    pub fn run_time(&self) -> Option<Duration> {
        let finished = self.finished.filter(|_| self.verified && self.failure.is_none())?;
        finished.checked_sub(self.started)
    }
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
