//! The testbed, up with all its routers, in which the runs of an experiment follow each other.

use std::{
    collections::BTreeSet,
    fs::OpenOptions,
    io::{self, Write},
    os::unix::{fs::OpenOptionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command},
};

use treecast_dataplane::explicit::{self, Setting};
use treecast_driver::security::random;
use treecast_measure::sample::{InterfaceSource, NodeSource};

use super::{
    super::{Error, stage::Network},
    file::UseCases,
};
use treecast_lab::process;
use treecast_lab::{Daemon, Lab, LabNode, Options, Role, Topology, parallel};

/// A network that is up. Dropped, it is down.
pub struct Stage {
    network: Network,
    pub topology: Topology,
    treecast: PathBuf,
    /// The routers that speak MEADcast now; none: all.
    support: Option<BTreeSet<String>>,
    /// The routers' `treecast mroute`, while they route multicast.
    multicast: Vec<Daemon>,
    mead: MeadRouters,
}

/// The routers' `treecast router`.
struct MeadRouters {
    /// What they are started for. With `key`, they have the domain's key now.
    daemons: Daemons,
    running: Vec<Daemon>,
}

/// Which daemons routers run.
#[derive(Debug, Clone, Copy)]
pub struct Daemons {
    pub mead: bool,
    /// Whether they are the designated routers of hosts that join groups.
    pub designated: bool,
    pub multicast: bool,
    /// Whether MEADcast's routers are those of Xcast+, too, for hosts that join groups: then none routes multicast before
    /// [`Stage::route_multicast`].
    pub xcast_plus: bool,
    /// Whether MEADcast's routers have a domain's key. Those serve only senders that have it, too.
    pub key: bool,
}

/// The topology of an experiment, its links as slow as it says.
pub fn topology(experiment: &UseCases) -> Result<Topology, Error> {
    let name = || experiment.use_case.name.clone();
    let mut topology = Topology::parse(&experiment.topology)
        .map_err(|error| Error::Network { name: name(), what: error.to_string() })?;
    let members = topology.networks.iter_mut().flat_map(|network| &mut network.members);
    members.for_each(|member| member.quality.rate_bps = experiment.link_rate.map(|rate| rate.0));
    Ok(topology)
}

impl Stage {
    pub fn build(
        topology: Topology,
        experiment: &UseCases,
        treecast: &Path,
        daemons: Daemons,
    ) -> Result<Self, Error> {
        let name = experiment.use_case.name.as_str();
        let refused = |what: String| Error::Network { name: name.to_owned(), what };
        let lab_name = format!("x{}-{:.20}", std::process::id(), name.to_lowercase());
        let options = Options { routing: experiment.routing, ..Options::default() };
        let lab = Lab::up(&topology, &lab_name, &options).map_err(|error| refused(error.to_string()))?;
        let (network, treecast) = (Network(lab), treecast.to_owned());
        let mead = MeadRouters { daemons: Daemons { key: false, ..daemons }, running: Vec::new() };
        let mut stage = Self { network, topology, treecast, support: None, multicast: Vec::new(), mead };
        if daemons.key {
            write_key(&stage.key())
                .map_err(|error| refused(format!("cannot write a domain's key: {error}")))?;
        }
        stage.start_mead().map_err(|error| refused(format!("MEADcast routers: {error}")))?;
        if daemons.multicast && !daemons.xcast_plus {
            stage.route_multicast(true).map_err(|error| refused(format!("multicast routing: {error}")))?;
        }
        Ok(stage)
    }

    /// Has MEADcast's routers start anew with the domain's key, or without.
    pub fn set_key(&mut self, has_key: bool) -> treecast_lab::Result<()> {
        if self.mead.daemons.key == has_key || !self.mead.daemons.mead {
            return Ok(());
        }
        self.mead.daemons.key = has_key;
        // Nobody sends: there is nothing to leave gently.
        self.mead.running.drain(..).try_for_each(|daemon| daemon.end_by(libc::SIGKILL))?;
        self.support = None;
        self.start_mead()
    }

    fn start_mead(&mut self) -> treecast_lab::Result<()> {
        let daemons = self.mead.daemons;
        let prepare = |command: &mut Command| {
            process::die_with_parent(command);
            if daemons.key {
                command.arg("--key").arg(self.key());
            }
            let roles = [("--designated", daemons.designated), ("--xcast-plus", daemons.xcast_plus)];
            command.args(roles.iter().filter(|(_, is_played)| *is_played).map(|(option, _)| option));
        };
        if daemons.mead {
            self.mead.running = self.lab().start_mead_routers(&self.treecast, prepare)?;
        }
        Ok(())
    }

    /// Has all routers route multicast, or none.
    pub fn route_multicast(&mut self, is_wanted: bool) -> treecast_lab::Result<()> {
        match is_wanted {
            true if self.multicast.is_empty() => {
                let started =
                    self.lab().start_source_specific_routers(&self.treecast, process::die_with_parent);
                self.multicast = started?;
                Ok(())
            }
            true => Ok(()),
            false => self.multicast.drain(..).try_for_each(Daemon::end),
        }
    }

    pub fn lab(&self) -> &Lab {
        &self.network.0
    }

    /// The file with the domain's key; it goes with the lab.
    pub fn key(&self) -> PathBuf {
        Options::default().state_directory.join(self.lab().name()).join("domain.key")
    }

    /// Has only some routers speak MEADcast; none: all.
    pub fn set_support(&mut self, support: Option<BTreeSet<String>>) -> io::Result<()> {
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

    /// One of treecast's commands, which is to say what happens as JSON.
    pub fn treecast(&self, command: &str) -> Command {
        let mut treecast = Command::new(&self.treecast);
        treecast.args([command, "--json"]);
        treecast
    }

    /// Starts a program in a node; it ends with the thread that calls.
    pub fn spawn(&self, node: &str, mut command: Command) -> io::Result<Child> {
        process::die_with_parent(&mut command);
        // Ctrl-C is for the director, which ends the others in order.
        command.process_group(0);
        self.lab().spawn(node, command).map_err(io::Error::other)
    }

    /// Every node and where its counters are, in the topology's order.
    pub fn node_sources(&self) -> Vec<NodeSource> {
        let of_node = |node: &LabNode| NodeSource {
            name: node.name.clone(),
            namespace: Some(Path::new("/run/netns").join(&node.namespace)),
            interfaces: node.interfaces.iter().map(|interface| source(&interface.name)).collect(),
            queues: false,
        };
        self.lab().nodes().iter().map(of_node).collect()
    }
}

fn write_key(path: &Path) -> io::Result<()> {
    let key: [u8; 32] = random()?;
    let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    // Routers refuse a key that others may read.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file?.write_all(digits.as_bytes())
}

fn source(interface: &str) -> InterfaceSource {
    InterfaceSource { device: interface.to_owned(), label: interface.to_owned() }
}
