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
    Copies, Discovery, Group, Interface, Leaving, Neighbour, OtherDialect, Registered, Setting, Status, Xcast,
};

/// Priority of the router's filters, behind those of other programs. What other filters drop has not come in.
const PRIORITY: u16 = 60_000;

/// What the daemon is to do.
#[derive(Debug, Clone)]
pub struct Config {
    /// Interfaces at which it looks for MEADcast; empty: all Ethernet interfaces that are up, also those that come later.
    pub interfaces: Vec<String>,
    /// Routers with fewer receivers than this are done without. 0 and 1: never.
    pub min_dsts: u8,
    pub dialect: Dialect,
    /// Whether it serves receivers on its own links by multicast, where they have joined a sender's group.
    pub is_designated: bool,
    /// Whether it is the designated router of Xcast+: registers for what hosts on its links listen to, and serves them and
    /// senders there.
    pub is_xcast_plus: bool,
    /// What responses and registrations prove that they are of the domain with. With one, discovery is answered and copies are
    /// made only where the sender proves the same.
    pub key: Option<DomainKey>,
    /// Which sources are believed by the way that their packets came.
    pub reverse_path: ReversePath,
    /// Sources for which copies are made, at most [`MAX_ALLOWED`]; empty: for all.
    pub allowed: Vec<Prefix>,
    /// Copies that are made in a second for the sources of one network (/64); 0: any number.
    pub copies_per_second: u32,
    /// Whether all copies go the kernel's own way, past its firewall and policies.
    pub through_kernel: bool,
    /// Whether the program is a filter of `tc`, behind those of others, and not before all of them.
    pub as_filter: bool,
    /// Whether the model forwards, in user space, and not the eBPF program.
    pub user_space: bool,
    /// For how long at most it acts on data when it is to end or to leave, until senders have found other ways.
    pub leave_within: Duration,
    /// Where [`show`] and [`set`] ask; none: an abstract socket, of which each network namespace has its own.
    pub control: Option<PathBuf>,
}

impl Config {
    /// For whom copies are made in this epoch.
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
