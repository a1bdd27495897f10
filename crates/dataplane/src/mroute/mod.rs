//! The multicast routing daemon: `treecast mroute`.
//!
//! One thread waits for messages of listeners and other routers, for upcalls of the kernel, for changes of
//! interfaces and routes, for signals and for those who ask about its state; hands them to one
//! [`treecast_proto::membership::Router`] for each address family; and carries out what that wants.
//!
//! The kernel keeps all that the daemon tells it bound to the daemon's sockets. A keeper ([`keep`]) holds these while no
//! daemon runs, for a limited time. So a restarted daemon finds its entries in place, and asks anew who listens.

mod counts;
mod daemon;
mod error;
mod inherited;
mod ipv4;
mod ipv6;
mod keeper;
mod kernel;
mod plane;
mod status;
mod trace;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use crate::{clock, control, notices};

pub use daemon::{run, show};
pub use error::Error;
pub use keeper::keep;
pub use notices::Notice;
pub use status::{Entry, Family, Interface, JoinedGroup, Listening, Room, Source, SourceFilter, Status};

/// A kernel's number for one of the interfaces that it routes between (mif, vif): 0 to 31.
pub(crate) type Slot = u16;

/// The settings of the daemon.
#[derive(Debug, Clone)]
pub struct Config {
    /// The interfaces to route between. Empty: all that are up and can multicast, also those that appear later.
    pub interfaces: Vec<String>,
    /// The interface from which packets of any-source groups come, and on which the router is only a host.
    /// None: they may come from anywhere.
    pub upstream: Option<String>,
    /// Whether each source of an any-source group has a tree of its own in a network with loops.
    pub source_trees: bool,
    /// The time between general queries; at least one second.
    pub query_interval: Duration,
    /// The most groups that the router tracks for the hosts of one interface.
    pub max_groups: usize,
    /// Whether traces (Mtrace2) get no other answer than that they are prohibited.
    pub prohibits_traces: bool,
    /// The program and arguments that run [`keep`]. None: a restart interrupts streams.
    pub keeper: Option<Vec<OsString>>,
    /// The path of the socket where [`show`] asks. None: an abstract socket, of which each network namespace
    /// has its own.
    pub control: Option<PathBuf>,
}

/// The most interfaces that a kernel's multicast router takes (MAXMIFS, MAXVIFS).
pub(crate) const MAX_INTERFACES: usize = 32;
