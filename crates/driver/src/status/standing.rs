//! The state of a standing receiver at a moment.

use serde::{Deserialize, Serialize};

/// The state of a standing receiver. Counts are since its start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StandingStatus {
    /// The receiver's name at senders.
    pub name: String,
    /// The receiver's public key.
    pub key: String,
    /// The folder with its history.
    pub state: String,
    /// The time at which it started, in seconds since 1970.
    pub started_at: u64,
    /// The interfaces that it listens on.
    pub interfaces: Vec<String>,
    pub rules: Vec<RuleStatus>,
    /// The sessions that it is receiving.
    pub receiving: Vec<TakenStatus>,
    /// The last session that has ended. `None` before the first one.
    pub last: Option<LastSession>,
    /// The thing that it waits for, other than sessions, in words: an interface, or a port. `None` if for nothing.
    pub waits_for: Option<String>,
    pub commands_running: u64,
    /// The number of commands that wait until another one in their folder has ended.
    pub commands_waiting: u64,
    pub counts: StandingCounts,
}

/// The counts of a standing receiver since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StandingCounts {
    /// The number of sessions that were received to their end, and of their files and bytes.
    pub received: u64,
    pub files: u64,
    pub bytes: u64,
    /// The number of sessions that broke off and are tried again.
    pub interrupted: u64,
    pub given_up: u64,
    /// The number of sessions that no rule takes.
    pub ignored: u64,
    /// The number of sessions of trusted senders that are for others.
    pub not_meant: u64,
    /// The number of commands that were successful.
    pub commands_run: u64,
    pub commands_failed: u64,
    pub warnings: u64,
}

/// A rule of a standing receiver.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleStatus {
    /// The number of senders that it trusts.
    pub senders: u64,
    pub into: String,
    /// The receivers that a session must be for: `anybody`, `standing` or `named`.
    pub audience: String,
    /// Whether a command runs after each session.
    pub has_command: bool,
}

/// A session that a standing receiver is receiving.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TakenStatus {
    /// The session's number in hexadecimal digits.
    pub session: String,
    pub name: String,
    /// The number of the rule that took it, from 1 on.
    pub rule: u64,
    pub into: String,
    pub seconds: f64,
    /// Bytes of its objects that are there, and of those that were announced.
    pub received_bytes: u64,
    pub announced_bytes: u64,
}

/// A session that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LastSession {
    /// The time at which it ended, in seconds since 1970.
    pub at: u64,
    /// The way in which it ended, as in the history: `received`, `interrupted` or `given up`.
    pub event: String,
    pub session: String,
    pub name: String,
    pub files: u64,
    pub bytes: u64,
    /// The text that a person should read about it. `None` for nothing.
    pub text: Option<String>,
}
