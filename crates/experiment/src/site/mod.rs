//! The place where a run is made.
//!
//! [`Site`] is all that an experiment needs of that place: start a program at a node and read what it prints, exchange files
//! with a node, have something go wrong, read counters. A node may be a namespace of this machine, as in [`LabSite`], or
//! a host far away: nothing here assumes that a node sees the files, processes or sockets of this process. What only some
//! places can do is a [`Need`], and a run that needs what its site lacks is refused before it begins.

mod happenings;
mod lab;

use std::{
    collections::BTreeSet,
    fmt,
    io::{self},
    path::{Path, PathBuf},
    process::Command,
};

pub use treecast_lab::program::{Input, Program, Said, Slot};
use treecast_lab::{BgpRoutes, CableQueue, Topology, events::Fault};
use treecast_measure::{Db, db::NodeId, sample::Recorder, sample::SampleError};

pub use happenings::{Happening, while_they_happen};
pub use lab::{LabSite, Routers, is_bound};

pub use crate::{
    document::network::Attachment,
    record::Record,
    verify::{CopyError, Digest, check_copy, digest},
};

use crate::document::network;

/// The place where a run is made, with a network whose nodes have the names of its topology.
pub trait Site: Sync {
    /// Returns the topology of the network that is there.
    fn topology(&self) -> &Topology;

    /// Makes the routers run these programs. Only the routers in `support` speak MEADcast and Xcast; `None` for all.
    ///
    /// # Errors
    /// One line, when a router does not start.
    fn prepare(&mut self, routers: Routers, support: Option<BTreeSet<String>>) -> Result<(), String>;

    /// Returns the file with the domain's key, where routers have one.
    fn key(&self) -> PathBuf;

    /// Returns the interface and the address by which a node is connected to the network.
    ///
    /// # Errors
    /// If it is connected to none.
    fn attachment(&self, node: &str) -> io::Result<Attachment> {
        let topology = self.topology();
        let index = topology.nodes.iter().position(|of| of.name == node);
        let found = index.and_then(|index| network::attachment(topology, index));
        found.ok_or_else(|| io::Error::other(format!("{node} is on no network")))
    }

    /// Whether the place can do this.
    fn can(&self, need: Need) -> bool;

    /// Starts a program at a node. It ends at the latest when the last handle of it is dropped.
    ///
    /// # Errors
    /// If there is no such program or node.
    fn start(&self, node: &str, command: Command) -> io::Result<Program>;

    /// Starts a program as [`Site::start`] does. What is written to its `input` here, the program reads there.
    ///
    /// # Errors
    /// If there is no such program or node.
    fn start_with_input(&self, node: &str, command: Command) -> io::Result<Program>;

    /// Returns how far the time of day at a node is ahead of this machine's, in nanoseconds.
    ///
    /// # Errors
    /// If that is not known.
    fn clock_ahead_ns(&self, node: &str) -> io::Result<i64>;

    /// Makes an empty folder at a node. What an earlier folder of this name held is deleted.
    fn folder(&self, node: &str, name: &str) -> io::Result<PathBuf>;

    /// Makes a file of this host available at a node. Returns its path there.
    fn offer(&self, node: &str, file: &Path) -> io::Result<PathBuf>;

    /// Compares a file at a node with a size and a BLAKE3 hash. An error says in a few words how it differs.
    fn check(&self, node: &str, path: &Path, size_bytes: u64, digest: &Digest) -> Result<(), CopyError>;

    /// Whether a program at a node listens at a port of `tcp` or `udp`.
    fn is_listening(&self, node: &str, transport: &str, port: u16) -> io::Result<bool>;

    /// Samples the counters of all nodes into a run until the recorder is stopped.
    fn watch(
        &self,
        db: &Db,
        record: &Record,
        every: std::time::Duration,
    ) -> Result<Box<dyn Recording>, SampleError>;

    /// Makes something go wrong. The value that is returned is to be dropped when it ends ([`Site::end`]).
    fn begin(&self, fault: &Fault) -> io::Result<Box<dyn Send>>;

    /// Undoes what [`Site::begin`] did.
    fn end(&self, fault: &Fault) -> io::Result<()>;

    /// Changes the rate at which a node, by its index, sends over an interface.
    fn set_rate(&self, node: usize, interface: &str, rate_bps: u64) -> io::Result<()>;

    /// Reads what the queue of each cable with a rate has passed and dropped.
    fn queues(&self) -> io::Result<Vec<CableQueue>>;

    /// Reads the BGP table of a router ([`Need::Bgp`]).
    fn bgp_table(&self, node: &str) -> io::Result<Vec<BgpRoutes>>;

    /// Returns the folder with the sockets of a router's frr daemons ([`Need::Bgp`]).
    fn frr_folder(&self, node: &str) -> PathBuf;

    /// Makes all switches send a group only to its listeners, or to all ports.
    fn set_snooping(&self, is_on: bool) -> io::Result<()>;

    /// Runs `work` on a thread whose sockets and files are those of a node ([`Need::Sockets`]).
    fn enter(&self, node: &str, work: Box<dyn FnOnce() + Send + '_>) -> io::Result<()>;
}

/// An ability that only some places have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Routers run the daemons for multicast, MEADcast and Xcast.
    Routers,
    /// Sockets at nodes are opened by this process, so that what is sent and what comes have one clock.
    Sockets,
    /// Links break, programs are killed, packets are forged.
    Events,
    /// Links change their rate.
    Rates,
    /// Switches and hosts are told how to treat groups.
    Settings,
    /// Nodes see the files of this host.
    Files,
    /// Routers speak BGP, and tell what they know.
    Bgp,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Routers => "routers that run treecast",
            Self::Sockets => "sockets of this process at its nodes",
            Self::Events => "links and programs that can be broken",
            Self::Rates => "links whose rate can be changed",
            Self::Settings => "switches and hosts whose settings can be changed",
            Self::Files => "files of this host at its nodes",
            Self::Bgp => "routers that speak BGP",
        })
    }
}

/// Runs `work` on a thread whose sockets and files are those of a node.
pub fn enter<T: Send>(site: &dyn Site, node: &str, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let mut result = None;
    let place = &mut result;
    site.enter(node, Box::new(move || *place = Some(work())))?;
    result.ok_or_else(|| io::Error::other(format!("nothing was done at {node}")))
}

/// A recording of the counters of a run's nodes, which goes on.
pub trait Recording: Send + Sync {
    /// Also samples a process of this machine and its descendants, under a node.
    fn watch_process(&self, node: NodeId, pid: u32);

    /// Takes last samples, and returns when all are in the database.
    ///
    /// # Errors
    /// The first error that happened.
    fn stop(self: Box<Self>) -> Result<(), SampleError>;
}

impl Recording for Recorder {
    fn watch_process(&self, node: NodeId, pid: u32) {
        Recorder::watch_process(self, node, pid);
    }

    fn stop(self: Box<Self>) -> Result<(), SampleError> {
        Recorder::stop(*self)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A line as `treecast send --json` prints it when its ticket is ready.
    pub const TICKET_LINE: &str = concat!(
        r#"{"event":"ticket","ticket":"treecast2.HzwCqgADBZgG_xUAAAAAAAAAAAAAAAAAQhtZAAEG_QAAAAAAAAAAAAAAAAAAARtYAUsid3fU3R_GHG"#,
        r#"-IT0hkHQK00SHT_TKMsItVMfys2r-KAAAAAAAAAAB4mr4b"}"#
    );

    /// Starts a shell with a script, for tests. It belongs to no site.
    pub fn shell(script: &str) -> io::Result<Program> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Program::start("sh".into(), command)
    }

    /// A site for tests that can do nothing.
    pub struct Bare(pub Topology);

    impl Site for Bare {
        fn topology(&self) -> &Topology {
            &self.0
        }

        fn prepare(&mut self, _: Routers, _: Option<BTreeSet<String>>) -> Result<(), String> {
            Ok(())
        }

        fn key(&self) -> PathBuf {
            PathBuf::new()
        }

        fn can(&self, _: Need) -> bool {
            false
        }

        fn start(&self, _: &str, _: Command) -> io::Result<Program> {
            Err(nowhere())
        }

        fn start_with_input(&self, _: &str, _: Command) -> io::Result<Program> {
            Err(nowhere())
        }

        fn clock_ahead_ns(&self, _: &str) -> io::Result<i64> {
            Err(nowhere())
        }

        fn folder(&self, _: &str, _: &str) -> io::Result<PathBuf> {
            Err(nowhere())
        }

        fn offer(&self, _: &str, _: &Path) -> io::Result<PathBuf> {
            Err(nowhere())
        }

        fn check(&self, _: &str, _: &Path, _: u64, _: &Digest) -> Result<(), CopyError> {
            Err(nowhere().into())
        }

        fn is_listening(&self, _: &str, _: &str, _: u16) -> io::Result<bool> {
            Err(nowhere())
        }

        fn watch(
            &self,
            db: &Db,
            record: &Record,
            every: std::time::Duration,
        ) -> Result<Box<dyn Recording>, SampleError> {
            Ok(Box::new(record.recorder(db, every, Vec::new())?))
        }

        fn begin(&self, _: &Fault) -> io::Result<Box<dyn Send>> {
            Err(nowhere())
        }

        fn end(&self, _: &Fault) -> io::Result<()> {
            Err(nowhere())
        }

        fn set_rate(&self, _: usize, _: &str, _: u64) -> io::Result<()> {
            Err(nowhere())
        }

        fn queues(&self) -> io::Result<Vec<CableQueue>> {
            Err(nowhere())
        }

        fn bgp_table(&self, _: &str) -> io::Result<Vec<BgpRoutes>> {
            Err(nowhere())
        }

        fn frr_folder(&self, _: &str) -> PathBuf {
            PathBuf::new()
        }

        fn set_snooping(&self, _: bool) -> io::Result<()> {
            Err(nowhere())
        }

        fn enter(&self, _: &str, _: Box<dyn FnOnce() + Send + '_>) -> io::Result<()> {
            Err(nowhere())
        }
    }

    fn nowhere() -> io::Error {
        io::Error::other("this is nowhere")
    }
}
