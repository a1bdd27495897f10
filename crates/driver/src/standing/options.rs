//! What a standing receiver is told: its name and key, and its rules.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use super::Owner;
use crate::{
    files,
    receive::{Chooser, NameFilter},
    security::{Identity, PublicKey},
};

/// A rule: whose sessions are taken, and what becomes of them.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The senders that it trusts.
    pub senders: BTreeSet<PublicKey>,
    /// The names of sessions that it takes.
    pub session: NameFilter,
    /// What decides which objects are wanted. `None`: all are.
    pub chooser: Option<Chooser>,
    pub into: PathBuf,
    /// The owner of what is received. `None`: this process' user.
    pub owner: Option<Owner>,
    /// What the sender may do in the folder.
    pub files: files::Rules,
    /// The longest time that a session may take, all tries together. `None`: no limit.
    pub max_time: Option<Duration>,
    /// The words of a program that runs after a session that is complete. `{}` in a word stands for the folder.
    pub command: Option<Vec<String>>,
    /// The longest time that the program may take. After it, the program and its process group are killed.
    pub command_time: Duration,
}

/// The options of a standing receiver.
#[derive(Debug, Clone)]
pub struct Options {
    /// The receiver's name at senders. It stays the same over restarts.
    pub name: String,
    pub identity: Identity,
    /// The interfaces to listen on. Empty: all that are up.
    pub interfaces: Vec<String>,
    /// The folder for the history.
    pub state: PathBuf,
    /// The largest number of sessions at the same time.
    pub at_once: usize,
    pub rules: Vec<Rule>,
}
