//! A site made of network namespaces on this machine.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use treecast_dataplane::explicit::{self, Setting};
use treecast_driver::security::random;
use treecast_lab::{
    BgpRoutes, CableQueue, Daemon, Lab, LabNode, Options, Role, Routing, Topology, Trees, events::Fault,
    parallel, process,
};
use treecast_measure::{
    Db,
    sample::{InterfaceSource, NodeSource, SampleError},
};

use super::{Need, Program, Recording, Site};
use crate::{
    record::Record,
    store::Store,
    verify::{self, CopyError, Digest},
};

/// A lab that is up. It is taken down when this value is dropped.
pub struct LabSite {
    lab: Up,
    topology: Topology,
    store: Arc<Store>,
    treecast: PathBuf,
    /// The router, by its index, in front of the link that flows share: its queues are sampled.
    shared: Option<usize>,
    routers: Routers,
    /// The routers' `treecast mroute`, while they route multicast.
    multicast: Vec<Daemon>,
    /// The routers' `treecast router`.
    explicit: Vec<Daemon>,
    /// The routers that speak MEADcast and Xcast now; `None` for all.
    support: Option<BTreeSet<String>>,
}

/// The programs and settings of a network's routers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Routers {
    pub multicast: bool,
    /// The trees of multicast in a network with loops.
    pub trees: Trees,
    /// Whether the routers speak MEADcast and Xcast.
    pub explicit: bool,
    /// Whether the routers serve hosts on their own links that join a group of MEADcast.
    pub designated: bool,
    /// Whether the routers are designated routers of Xcast+, which take listeners and sources on their links
    /// for their own.
    pub xcast_plus: bool,
    /// Whether the routers prove their responses with a domain's key, and serve only senders that have it.
    pub key: bool,
}

impl LabSite {
    /// Builds the network under a name that no other experiment has. Its routers run no programs yet.
    ///
    /// # Errors
    /// One line, when the network cannot be built here.
    pub fn build(
        network: &str,
        topology: Topology,
        routing: Routing,
        treecast: &Path,
        store: Arc<Store>,
        shared: Option<usize>,
    ) -> Result<Self, String> {
        let name = format!("x{}-{:.20}", std::process::id(), network.to_lowercase());
        let options = Options { routing, ..Options::default() };
        let lab = Lab::up(&topology, &name, &options).map_err(|error| error.to_string())?;
        Ok(Self {
            lab: Up(lab),
            topology,
            store,
            treecast: treecast.to_owned(),
            shared,
            routers: Routers::default(),
            multicast: Vec::new(),
            explicit: Vec::new(),
            support: None,
        })
    }

    fn lab(&self) -> &Lab {
        &self.lab.0
    }

    fn run_multicast(&mut self, routers: Routers) -> treecast_lab::Result<()> {
        if (routers.multicast, routers.trees) == (self.routers.multicast, self.routers.trees) {
            return Ok(());
        }
        self.multicast.drain(..).try_for_each(Daemon::end)?;
        if routers.multicast {
            self.multicast =
                self.lab().start_routers(&self.treecast, routers.trees, process::die_with_parent)?;
        }
        Ok(())
    }

    fn run_explicit(&mut self, routers: Routers) -> treecast_lab::Result<()> {
        let of = |routers: Routers| Routers { multicast: false, trees: Trees::Shared, ..routers };
        if of(routers) == of(self.routers) {
            return Ok(());
        }
        // Nobody sends: there is nothing to leave gently.
        self.explicit.drain(..).try_for_each(|daemon| daemon.end_by(libc::SIGKILL))?;
        self.lab().kill_mead_routers()?;
        self.support = None;
        if !routers.explicit {
            return Ok(());
        }
        if routers.key && !self.key().exists() {
            let action = || "write a domain's key".to_owned();
            write_key(&self.key())
                .map_err(|source| treecast_lab::Error::System { action: action(), source })?;
        }
        let prepare = |command: &mut Command| {
            process::die_with_parent(command);
            if routers.key {
                command.arg("--key").arg(self.key());
            }
            let roles = [("--designated", routers.designated), ("--xcast-plus", routers.xcast_plus)];
            command.args(roles.iter().filter(|(_, is_played)| *is_played).map(|(option, _)| option));
        };
        self.explicit = self.lab().start_mead_routers(&self.treecast, prepare)?;
        Ok(())
    }

    fn set_support(&mut self, support: Option<BTreeSet<String>>) -> io::Result<()> {
        if self.support == support {
            return Ok(());
        }
        let routers: Vec<&LabNode> =
            self.lab().nodes().iter().filter(|node| node.role == Role::Router).collect();
        parallel::map(routers.len(), |index| {
            let router = &routers[index].name;
            let speaks = support.as_ref().is_none_or(|named| named.contains(router));
            let set = || explicit::set(None, Setting::Enabled(speaks)).map_err(|error| error.to_string());
            let outcome = self.lab().enter(router, set).map_err(|error| error.to_string());
            outcome.and_then(|set| set).map_err(|error| io::Error::other(format!("{router}: {error}")))
        })?;
        self.support = support;
        Ok(())
    }

    /// Every node and where its counters are, in the topology's order.
    fn sources(&self) -> Vec<NodeSource> {
        let source = |(index, node): (usize, &LabNode)| NodeSource {
            name: node.name.clone(),
            namespace: Some(Path::new("/run/netns").join(&node.namespace)),
            interfaces: node
                .interfaces
                .iter()
                .map(|interface| InterfaceSource {
                    device: interface.name.clone(),
                    label: interface.name.clone(),
                })
                .collect(),
            queues: self.shared == Some(index),
        };
        self.lab().nodes().iter().enumerate().map(source).collect()
    }
}

impl Site for LabSite {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn prepare(&mut self, routers: Routers, support: Option<BTreeSet<String>>) -> Result<(), String> {
        self.run_explicit(routers).map_err(|error| format!("MEADcast routers: {error}"))?;
        self.run_multicast(routers).map_err(|error| format!("multicast routing: {error}"))?;
        self.routers = routers;
        match routers.explicit {
            true => self.set_support(support).map_err(|error| error.to_string()),
            false => Ok(()),
        }
    }

    /// It is deleted with the lab.
    fn key(&self) -> PathBuf {
        Options::default().state_directory.join(self.lab().name()).join("domain.key")
    }

    fn can(&self, _: Need) -> bool {
        true
    }

    fn start(&self, node: &str, command: Command) -> io::Result<Program> {
        let inside = self.lab().inside(node, &command).map_err(io::Error::other)?;
        Program::start(name_of(&command), inside)
    }

    fn start_with_input(&self, node: &str, command: Command) -> io::Result<Program> {
        let mut inside = self.lab().inside(node, &command).map_err(io::Error::other)?;
        inside.stdin(Stdio::piped());
        Program::start_with_input(name_of(&command), inside)
    }

    fn clock_ahead_ns(&self, _: &str) -> io::Result<i64> {
        Ok(0)
    }

    fn folder(&self, node: &str, name: &str) -> io::Result<PathBuf> {
        self.store.fresh_folder(&format!("{node}-{name}"))
    }

    fn offer(&self, _: &str, file: &Path) -> io::Result<PathBuf> {
        Ok(file.to_owned())
    }

    fn check(&self, _: &str, path: &Path, size_bytes: u64, digest: &Digest) -> Result<(), CopyError> {
        verify::check_copy(path, size_bytes, digest)
    }

    fn is_listening(&self, node: &str, transport: &str, port: u16) -> io::Result<bool> {
        super::enter(self, node, || is_bound(transport, port))
    }

    fn watch(&self, db: &Db, record: &Record, every: Duration) -> Result<Box<dyn Recording>, SampleError> {
        Ok(Box::new(record.recorder(db, every, self.sources())?))
    }

    fn begin(&self, fault: &Fault) -> io::Result<Box<dyn Send>> {
        self.lab().begin(fault).map(|held| Box::new(held) as Box<dyn Send>).map_err(io::Error::other)
    }

    fn end(&self, fault: &Fault) -> io::Result<()> {
        self.lab().end(fault).map_err(io::Error::other)
    }

    fn set_rate(&self, node: usize, interface: &str, rate_bps: u64) -> io::Result<()> {
        self.lab().set_rate(&self.topology.nodes[node].name, interface, rate_bps).map_err(io::Error::other)
    }

    fn queues(&self) -> io::Result<Vec<CableQueue>> {
        self.lab().queues().map_err(io::Error::other)
    }

    fn bgp_table(&self, node: &str) -> io::Result<Vec<BgpRoutes>> {
        self.lab().bgp_table(node).map_err(io::Error::other)
    }

    fn frr_folder(&self, node: &str) -> PathBuf {
        self.lab().frr_folder(node)
    }

    fn set_snooping(&self, is_on: bool) -> io::Result<()> {
        self.lab().set_snooping(is_on).map_err(io::Error::other)
    }

    fn enter(&self, node: &str, work: Box<dyn FnOnce() + Send + '_>) -> io::Result<()> {
        self.lab().enter(node, work).map_err(io::Error::other)
    }
}

/// Returns the name by which messages call a program.
fn name_of(command: &Command) -> String {
    let verb = command.get_args().next().unwrap_or_default().to_string_lossy();
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    format!("{program} {verb}")
}

/// Whether a socket of this thread's namespace is bound to a port of `tcp` or `udp` (proc_pid_net(5)).
pub fn is_bound(transport: &str, port: u16) -> bool {
    let local = format!(":{port:04X}");
    ["", "6"].iter().any(|version| {
        let table = format!("/proc/thread-self/net/{transport}{version}");
        let table = fs::read_to_string(table).unwrap_or_default();
        table.lines().skip(1).any(|line| is_open_socket(line, &local))
    })
}

/// Whether a line is of a TCP socket that listens (state 0A), or a UDP socket that is bound (state 07).
fn is_open_socket(line: &str, local: &str) -> bool {
    let mut fields = line.split_whitespace().skip(1);
    let (address, _, state) = (fields.next(), fields.next(), fields.next());
    address.is_some_and(|address| address.ends_with(local)) && matches!(state, Some("0A" | "07"))
}

fn write_key(path: &Path) -> io::Result<()> {
    let key: [u8; 32] = random()?;
    let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    // Routers refuse a key that others may read.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file?.write_all(digits.as_bytes())
}

/// A lab that is taken down when it is dropped.
struct Up(Lab);

impl Drop for Up {
    fn drop(&mut self) {
        if let Err(error) = Lab::remove(self.0.name(), &Options::default()) {
            // Nobody may be left to read it.
            _ = writeln!(io::stderr(), "treecast: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_port_is_seen() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = std::net::UdpSocket::bind("[::1]:0").unwrap();
        assert!(is_bound("tcp", listener.local_addr().unwrap().port()));
        assert!(is_bound("udp", socket.local_addr().unwrap().port()));
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        assert!(!is_bound("tcp", port));
    }
}
