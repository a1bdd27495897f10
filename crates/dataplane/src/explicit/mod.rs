//! The MEADcast and Xcast router: `treecast router`.
//!
//! The forwarding is an eBPF program at the ingress of the interfaces (`bpf/mead.bpf.c`), which stays the same whether the
//! daemon is busy or not. The daemon loads it, tells it the host's addresses, answers discovery requests, which the
//! program passes on and hands it a copy of, and tells and changes what is going on.

mod blocking;
pub mod check;
mod claims;
mod course;
mod daemon;
mod error;
mod lease;
mod left;
mod listeners;
mod plane;
mod program;
mod routes;
mod shared;
mod status;
mod taps;
mod user_space;
mod xcast_plus;

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

use treecast_proto::explicit::{
    authentication::DomainKey,
    list_proof::epoch_at,
    mead::router::{Guard, Prefix, ReversePath},
};
use treecast_wire::mead::Dialect;

pub use crate::notices::Notice;
pub use daemon::{process, run, set, show};
pub use error::{Error, Remains};
pub use left::clean;
pub use shared::MAX_ALLOWED;
pub use status::{
    Copies, DesignatedGroup, Discovery, Interface, Leaving, Neighbour, OtherDialect, Registered, Setting,
    Status, Xcast,
};

/// Priority of the router's filters, behind those of other programs. What other filters drop has not come in.
const PRIORITY: u16 = 60_000;

/// The settings of the router.
#[derive(Debug, Clone)]
pub struct Config {
    /// The interfaces at which the router looks for MEADcast. Empty: all Ethernet interfaces that are up, also
    /// those that appear later.
    pub interfaces: Vec<String>,
    /// The number of receivers below which the packet for a next router becomes unicast here already. 0 and 1:
    /// this never happens.
    pub min_dsts: u8,
    pub dialect: Dialect,
    /// Whether the router serves receivers on its own links by multicast, where they have joined a sender's
    /// group.
    pub is_designated: bool,
    /// Whether the router is a designated router of Xcast+: it registers for the groups that hosts on its links
    /// listen to, and serves these hosts and the senders there.
    pub is_xcast_plus: bool,
    /// The key of the domain, with which responses and registrations prove that they belong to it. With a key,
    /// the router answers discovery and makes copies only for senders that prove the same.
    pub key: Option<DomainKey>,
    /// The check of sources by the path that their packets took.
    pub reverse_path: ReversePath,
    /// The networks of the sources for which the router makes copies, at most [`MAX_ALLOWED`]. Empty: it makes
    /// them for all.
    pub allowed: Vec<Prefix>,
    /// The most copies that the router makes in a second for the sources of one network (/64). 0 means any number.
    pub copies_per_second: u32,
    /// Whether the kernel forwards all copies, so that they pass its firewall and policies.
    pub through_kernel: bool,
    /// Whether the program is attached as a filter of `tc`, after the filters of others, and not before all of
    /// them.
    pub as_filter: bool,
    /// Whether the reference model forwards, in user space, and not the eBPF program.
    pub user_space: bool,
    /// The longest time for which the router still forwards data when it is to end or to leave, until senders have
    /// found other ways.
    pub leave_within: Duration,
    /// The path of the socket where [`show`] and [`set`] ask. None: an abstract socket, of which each network
    /// namespace has its own.
    pub control: Option<PathBuf>,
}

impl Config {
    /// The conditions for copies in this epoch.
    fn guard(&self) -> Guard {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Guard {
            reverse_path: self.reverse_path,
            allowed: self.allowed.clone(),
            lists: self.key.as_ref().map(|key| (key.of_lists(), epoch_at(since.as_secs()))),
            copies_per_second: self.copies_per_second,
        }
    }
}
