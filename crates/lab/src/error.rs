//! The errors of a lab, one line each: what happened, to what, and what to do about it.

use std::io;
use std::net::Ipv6Addr;
use std::path::PathBuf;

use crate::topology::SpecError;

/// The reason why a lab could not be built, found, changed or taken down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("a lab makes network namespaces, which needs root: run it with sudo")]
    NotRoot,
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(
        "lab name {name:?} is no good: use 1 to 32 lower-case letters, digits, '-' and '_', starting with a letter"
    )]
    BadName { name: String },
    #[error("{network} has `{key}`, which only the simulator has: leave it out, or take `treecast sim run`")]
    Simulated { network: String, key: &'static str },
    #[error("there is a lab {name} already: take it down with `treecast lab down {name}`")]
    Exists { name: String },
    #[error("there is no lab {name}: `treecast lab list` shows those there are")]
    NoSuchLab { name: String },
    #[error("lab {lab} has no node {node}: its nodes are {known}")]
    NoSuchNode { lab: String, node: String, known: String },
    #[error("node {node} has no interface {interface}: it has {known}")]
    NoSuchInterface { node: String, interface: String, known: String },
    #[error(
        "lab {lab} has no link {link} between two nodes: it has {known} (a LAN's cables have a node and an interface)"
    )]
    NoSuchLink { lab: String, link: String, known: String },
    #[error(
        "{node} is a node of lab {lab}, and no link: `unplug` and `plug` are for its cables; links between two nodes: {known}"
    )]
    NodeForLink { lab: String, node: String, known: String },
    #[error("node {node} is in no LAN and no link")]
    NoInterface { node: String },
    #[error("the MEADcast router of {node}: {reason}")]
    Router { node: String, reason: String },
    #[error("lab {name} was never finished: take it down with `treecast lab down {name}`")]
    Unfinished { name: String },
    #[error("namespace {namespace} exists and is not of this lab: remove it with `ip netns del {namespace}`")]
    NamespaceTaken { namespace: String },
    #[error("lab {name} is held by another treecast process: wait for it to end, then try again")]
    Busy { name: String },
    #[error("lab {name}: {what} still there {seconds} s after its removal: {remaining}")]
    StillThere { name: String, what: &'static str, seconds: u64, remaining: String },
    #[error("the record of lab {name} in {} is damaged ({reason}): remove that file and the namespaces {name}-*", path.display())]
    DamagedRecord { name: String, path: PathBuf, reason: String },
    #[error("the program started in {node} never said {line:?}, but: {last}")]
    Daemon { node: String, line: String, last: String },
    #[error(
        "routes by {protocol} are those of Debian's frr, which is not installed: run `apt-get install frr` (the lab starts its \
         own daemons; Debian's frr service is not needed), or do without {protocol}"
    )]
    NoFrr { protocol: &'static str },
    #[error("network {topology} {has}: leave out `{word}`")]
    Routing { topology: String, has: &'static str, word: &'static str },
    #[error(
        "lab {lab} has its routes from {protocol}, which avoids {link} when it is down or fails: have that happen"
    )]
    RoutesOfProtocol { lab: String, protocol: &'static str, link: String },
    #[error(
        "{router} knew no route to {address} {seconds} s after {protocol} began; its daemon said last: {last}"
    )]
    NotConverged { router: String, address: Ipv6Addr, seconds: u64, protocol: &'static str, last: String },
    #[error("could not {action}: {source}")]
    System { action: String, source: io::Error },
}

impl Error {
    /// Wraps an error of the system with the action that failed.
    pub fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let action = action.into();
        move |source| Error::System { action, source }
    }
}

pub type Result<T> = std::result::Result<T, Error>;
