//! The multicast routing daemon: `treecast mroute`.
//!
//! One thread waits for messages of listeners and other routers, for upcalls of the kernel, for changes of
//! interfaces and routes, for signals and for those who ask about its state; hands them to one
//! [`treecast_proto::membership::Router`] for each address family; and carries out what that wants.
//!
//! The kernel keeps all that the daemon tells it bound to the daemon's sockets. So a daemon that is killed
//! leaves nothing behind, and one that is started again learns all anew with its first queries.

mod daemon;
mod error;
mod ipv4;
mod ipv6;
mod kernel;
mod memberships;
mod plane;
mod status;

use std::{path::PathBuf, time::Duration};

use crate::{clock, control, netlink, notices, sys};

pub use daemon::{run, show};
pub use error::Error;
pub use notices::Notice;
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

/// The most interfaces that a kernel's multicast router takes (MAXMIFS, MAXVIFS).
pub const MAX_INTERFACES: usize = 32;
