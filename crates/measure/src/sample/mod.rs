//! Reads the kernel's counters: of the machine, of the interfaces of any number of network namespaces, and of
//! processes.
//!
//! Sampling is cheap, so that it does not disturb what it measures. Files stay open and are read again from
//! their start. A namespace is entered once, to open a netlink socket that stays in it. One request gets all
//! counters of all its interfaces.

mod machine;
mod nodes;
mod process;
mod procfile;
mod recorder;

use std::{io, path::PathBuf};

use crate::series::Name;

pub use machine::{MachineSampler, OwnCost};
pub use nodes::{InterfaceSource, NodeSampler, NodeSource};
pub use process::own_cpu_ns;
pub use recorder::Recorder;

/// The present value of one series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    pub name: Name,
    pub value: i64,
}

/// The errors when sampling starts. Later, a thing that is gone (a process that ended, an interface that was
/// removed) is left out of the readings, and is no error.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    #[error("cannot read {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot enter the network namespace {}: {source}; is the node up, and are you root?", path.display())]
    Namespace { path: PathBuf, source: io::Error },
    #[error("cannot ask the kernel for the interfaces of {node}: {source}")]
    Netlink { node: String, source: io::Error },
    #[error("{node} has no interface {device}; it has {present}")]
    NoInterface { node: String, device: String, present: String },
    #[error(transparent)]
    Database(#[from] crate::db::DbError),
    #[error("cannot start the thread that samples: {0}")]
    Thread(io::Error),
}
