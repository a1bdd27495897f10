//! The multicast routing daemon: `treecast mroute`.
//!
//! One thread waits for messages of listeners and other routers, for upcalls of the kernel, for changes of
//! interfaces and routes, for signals and for those who ask about its state; hands them to one
//! [`treecast_proto::membership::Router`] for each address family; and carries out what that wants.
//!
//! The kernel keeps all that the daemon tells it bound to the daemon's sockets. So a daemon that is killed
//! leaves nothing behind, and one that is started again learns all anew with its first queries.

mod clock;
mod control;
mod daemon;
mod error;
mod ipv4;
mod ipv6;
mod kernel;
mod memberships;
mod netlink;
mod notices;
mod plane;
mod status;
mod sys;

use std::{path::PathBuf, time::Duration};

pub use control::show;
pub use daemon::run;
pub use error::Error;
pub use status::{Entry, Family, Group, Interface, Listening, Source, SourceFilter, Status};

/// What the daemon is to do.
#[derive(Debug, Clone)]
pub struct Config {
    /// Interfaces to route between; empty: all that are up and can multicast, also those that come later.
    pub interfaces: Vec<String>,
    /// Where packets of any-source groups come from, and where the router is only a host; none: from
    /// wherever they come.
    pub upstream: Option<String>,
    /// Time between general queries; at least one second.
    pub query_interval: Duration,
    /// Where [`show`] asks; none: an abstract socket, of which each network namespace has its own.
    pub control: Option<PathBuf>,
}

/// What the daemon has to say while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Interfaces are served, first queries are out.
    Ready,
    /// Something is not as it should be; one line.
    Warning(String),
}

/// The most interfaces that a kernel's multicast router takes (MAXMIFS, MAXVIFS).
pub const MAX_INTERFACES: usize = 32;
