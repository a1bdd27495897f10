//! What agents and their manager say to each other: JSON in the text messages of one WebSocket.
//!
//! An agent begins with [`ToManager::Hello`]. The manager answers with [`ToAgent::Welcome`] or [`ToAgent::Refused`].
//!
//! Orders are numbered for each agent, and the numbers grow. An agent carries out each number once, and remembers on its disk which it
//! has begun. What it reports is numbered as well, and stays on its disk until the manager says that it has it
//! ([`ToAgent::Committed`]). So either side may end and come back at any moment: both say in their greeting how far they are.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use crate::json::{of_word, read, text_of, word};

use crate::{facts::Facts, permits::Permits, release::Signed};

/// The version of what is said here. Both sides name theirs, and the older one decides what is said.
pub const PROTOCOL: u32 = 1;

/// The name of the protocol in TLS (RFC 7301).
pub const TLS_NAME: &[u8] = b"treecast-fleet";

/// The most bytes of one message. Output of programs and samples are divided into several.
pub const MAX_MESSAGE_LEN: usize = 1 << 20;

/// The size of the buffer that a connection reads into, in bytes. Most messages are shorter.
pub const READ_BUFFER_LEN: usize = 4 << 10;

/// The most bytes of text in one report.
pub const MAX_TEXT_LEN: usize = 64 << 10;

/// The most bytes of text that are written to a program's standard input at once. A pipe takes so many whole or not at all
/// (`PIPE_BUF`, pipe(7)).
pub const MAX_INPUT_LEN: usize = 4096;

/// A message from an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ToManager {
    Hello(Box<Hello>),
    Report(Report),
    Pong {
        /// The time of the question that is answered, as the manager said it.
        asked_ns: u64,
        /// The times when the agent heard the question and answered, by its monotonic clock.
        heard_ns: u64,
        answered_ns: u64,
        /// The time of day by the agent's clock, in nanoseconds since 1970.
        wall_ns: u64,
        /// What the interface towards the manager has carried since the host started.
        #[serde(default)]
        carried: Carried,
    },
    /// The facts have changed.
    Facts(Box<Facts>),
}

/// The bytes that an interface has carried. Both are 0 where that is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    pub received_bytes: u64,
    pub sent_bytes: u64,
}

/// A message to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ToAgent {
    Welcome(Welcome),
    /// The agent is not taken, and need not come back unless something is changed.
    Refused {
        reason: String,
    },
    Order(Order),
    /// All reports up to this number are kept by the manager.
    Committed {
        through: u64,
    },
    Ping {
        asked_ns: u64,
    },
}

/// The greeting of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    pub protocol: u32,
    /// The name that the agent wants to have. One that has joined before keeps the name that it got.
    pub name: String,
    /// The secret of a code, when the agent joins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The manager's database that the agent has joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<String>,
    pub facts: Facts,
    pub permits: Permits,
    /// The tags of the agent's own configuration.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// The highest number of an order that the agent has taken.
    pub last_order: u64,
    /// The highest number of a report that the agent has given.
    pub last_report: u64,
}

/// The answer to an agent that is taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    pub protocol: u32,
    /// The name of the host in the fleet.
    pub name: String,
    /// The manager's database, by a random number that was drawn when it was made.
    pub fleet: String,
    /// All reports up to this number are kept by the manager.
    pub committed: u64,
    /// Orders up to this number are not given any more. It is above the agent's own number where the agent has lost its memory.
    pub orders: u64,
}

/// Something that an agent is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    pub number: u64,
    pub work: Work,
}

/// The kinds of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Work {
    /// Tell the facts of the host as they are now.
    Facts,
    /// Start a program, and tell what it prints and how it ends.
    Start(Start),
    /// Send a signal to the program that an earlier order has started.
    Signal { order: u64, signal: i32 },
    /// Write whole lines, at most [`MAX_INPUT_LEN`] bytes of them, to the standard input of the program that an earlier order has
    /// started. `None` ends the input.
    Input { order: u64, text: Option<String> },
    /// Make an empty folder for a run. What an earlier folder of this name held is deleted.
    Folder { name: String },
    /// Get a file from the manager into a folder of the agent's.
    Fetch { blob: String, size_bytes: u64, folder: String, name: String },
    /// Compare a file with a size and a BLAKE3 hash in hexadecimal digits.
    Check { path: String, size_bytes: u64, blake3: String },
    /// Whether a program listens at a port of `tcp` or `udp`.
    Listening { transport: String, port: u16 },
    /// Sample the counters of all interfaces until [`Work::StopSampling`].
    Sample {
        #[serde(rename = "every_ms")]
        every_ms: u64,
    },
    /// Make ready for the files of a release. Tells the folder for them, or null where all are there.
    Stage { signed: Signed },
    /// Compare what is there of a release with it. Tells the first difference, or null.
    Verify { signed: Signed },
    /// Activate a release by the host's own command.
    Activate { signed: Signed },
    /// Activate the version before.
    GoBack { name: String },
    /// End the sampling of an earlier order, and tell all samples.
    StopSampling { order: u64 },
    /// Make ready for files. Tells the folder to receive them, or null where all are there.
    MakeReady { delivery: Delivery },
    /// Compare files that came, and move those that are whole to where the host wants them. Tells the others, as [`Lack`]s.
    TakeIn { delivery: Delivery },
    /// Delete what came of a delivery that was ended.
    Forget { delivery: Delivery },
}

/// Files that somebody delivers to a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The number of the delivery at its manager.
    pub id: u64,
    /// A folder below the one that the host names for files. Empty: that one.
    #[serde(default)]
    pub into: String,
    pub files: Vec<Delivered>,
}

/// A file of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    /// The path below the delivery's folder.
    pub path: String,
    pub size_bytes: u64,
    /// The BLAKE3 hash in hexadecimal digits.
    pub blake3: String,
}

/// A file that a host lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lack {
    pub path: String,
    pub why: String,
}

/// A program that is to be started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    pub program: Program,
    pub arguments: Vec<String>,
    /// The folder of the agent's in which the program works; `None` for a fresh one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The time to start at, by the agent's monotonic clock. `None`: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ns: Option<u64>,
    /// The longest time that the program may run, in milliseconds.
    pub limit_ms: u64,
    /// Whether the program gets a standard input ([`Work::Input`]). Else it is empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_input: bool,
}

/// Which program is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// The treecast program of the agent.
    Treecast,
    /// Any program of the host: the first argument names it.
    System,
}

/// Something that an agent reports about an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub number: u64,
    pub order: u64,
    /// The time of what is reported, by the agent's monotonic clock.
    pub at_ns: u64,
    pub what: What,
}

/// The kinds of reports. An order ends with [`What::Done`], [`What::Ended`] or [`What::Failed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "told", rename_all = "snake_case")]
pub enum What {
    /// The program runs.
    Began,
    /// The program has printed this line on its standard output.
    Line { text: String },
    /// So many lines were dropped, because the agent's disk may not hold more.
    Dropped { lines: u64 },
    /// The program has ended.
    Ended(End),
    /// The order is carried out.
    Done { value: serde_json::Value },
    /// The order was not carried out.
    Failed { reason: String },
    /// Samples of counters.
    Samples { samples: Vec<Sample> },
}

/// The end of a program, and the resources that it used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct End {
    /// The exit code; `None` if a signal ended it.
    #[schema(required)]
    pub code: Option<i32>,
    #[schema(required)]
    pub signal: Option<i32>,
    pub user_ns: u64,
    pub system_ns: u64,
    pub peak_memory_bytes: u64,
    /// The last line of its standard error.
    #[schema(required)]
    pub last: Option<String>,
    /// The end of its standard error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub errors: String,
}

/// The values of one counter at an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The name of the series, as in results databases.
    pub series: String,
    /// Times by the agent's monotonic clock in nanoseconds, each with the counter's value.
    pub points: Vec<(u64, i64)>,
}

impl What {
    /// Whether nothing more will be reported about the order.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Done { .. } | Self::Failed { .. })
    }
}

impl From<(&treecast_host::process::Ended, Option<String>)> for End {
    fn from((ended, last): (&treecast_host::process::Ended, Option<String>)) -> Self {
        Self {
            code: ended.code,
            signal: ended.signal,
            user_ns: nanoseconds(ended.cpu_user),
            system_ns: nanoseconds(ended.cpu_system),
            peak_memory_bytes: ended.peak_memory_bytes,
            last,
            errors: String::new(),
        }
    }
}

impl From<&End> for treecast_host::process::Ended {
    fn from(end: &End) -> Self {
        Self {
            code: end.code,
            signal: end.signal,
            cpu_user: Duration::from_nanos(end.user_ns),
            cpu_system: Duration::from_nanos(end.system_ns),
            peak_memory_bytes: end.peak_memory_bytes,
        }
    }
}

/// Returns a time in nanoseconds.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
