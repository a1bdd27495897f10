//! A network that is up, with all that its runs share: routers that route, programs, who is who.

use std::{
    io::{self, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command},
};

use treecast_measure::sample::{InterfaceSource, NodeSource};

use super::{
    Error,
    file::Network as Description,
    network::{self, Attachment},
    programs::Programs,
    sharing::{RIVAL, SharedPath},
};
use treecast_lab::process;
use treecast_lab::{Lab, Options, Role, Topology};

/// A client's node.
pub struct ClientNode {
    pub name: String,
    pub attachment: Attachment,
}

/// A network that is up. Dropped, it is down.
pub struct Stage {
    lab: Network,
    pub topology: Topology,
    /// The sender and receivers that the experiment is about.
    pub main: Party,
    /// Those of a rival session.
    pub rival: Option<Party>,
    /// The link that all flows share.
    pub shared: Option<SharedPath>,
}

/// A server and its clients.
pub struct Party {
    pub programs: Programs,
    pub server: String,
    pub clients: Vec<ClientNode>,
}

impl Stage {
    /// Builds the network. `programs` is told where the server is. With `multicast`, routers run
    /// `treecast mroute`, until the network is down.
    pub fn build(
        description: &Description,
        topology: Topology,
        multicast: bool,
        shared: Option<SharedPath>,
        mut programs: impl FnMut(Attachment) -> Programs,
    ) -> Result<Self, Error> {
        let refused = |what: String| Error::Network { name: description.name.clone(), what };
        let node = |index: usize| -> Result<ClientNode, Error> {
            let name = topology.nodes[index].name.clone();
            let unattached = || refused(format!("{name} is on no network"));
            Ok(ClientNode { attachment: network::attachment(&topology, index).ok_or_else(unattached)?, name })
        };
        let has_rival = description.rival.is_some();
        let mut party = |number: usize| -> Result<Party, Error> {
            let server = network::with_role(&topology, Role::Server).nth(number);
            let server = node(server.ok_or_else(|| refused("it has no server".into()))?)?;
            let is_ours =
                |index: &usize| !has_rival || topology.nodes[*index].name.starts_with(RIVAL) == (number == 1);
            let clients = network::with_role(&topology, Role::Client).filter(is_ours).map(node);
            let clients = clients.collect::<Result<_, _>>()?;
            Ok(Party { programs: programs(server.attachment), server: server.name, clients })
        };
        let main = party(0)?;
        let rival = if has_rival { Some(party(1)?) } else { None };
        let lab = Lab::up(&topology, &lab_name(description), &Options::default())
            .map_err(|error| refused(error.to_string()))?;
        let stage = Self { lab: Network(lab), topology, main, rival, shared };
        if multicast {
            let routed = stage.lab.0.start_routers(&stage.main.programs.treecast, process::die_with_parent);
            routed.map_err(|error| refused(format!("multicast routing: {error}")))?;
        }
        Ok(stage)
    }

    /// Starts a program on a node; it ends with the thread that calls.
    pub fn spawn(&self, node: &str, mut command: Command) -> io::Result<Child> {
        process::die_with_parent(&mut command);
        // Ctrl-C is for the director, which ends the others in order.
        command.process_group(0);
        self.lab.0.spawn(node, command).map_err(io::Error::other)
    }

    /// The command that runs another on a node; its process ends with the thread that starts it.
    pub fn inside(&self, node: &str, command: &Command) -> io::Result<Command> {
        let mut inside = self.lab.0.inside(node, command).map_err(io::Error::other)?;
        // As in `spawn`.
        inside.process_group(0);
        Ok(inside)
    }

    /// Runs `work` on a thread inside a node.
    pub fn enter<T: Send>(&self, node: &str, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        self.lab.0.enter(node, work).map_err(io::Error::other)
    }

    /// Has what a node, by its index, sends over an interface go at another rate from now on.
    pub fn set_rate(&self, node: usize, interface: &str, rate_bps: u64) -> io::Result<()> {
        self.lab.0.set_rate(&self.topology.nodes[node].name, interface, rate_bps).map_err(io::Error::other)
    }

    /// Every node and where its counters are, in the topology's order.
    pub fn node_sources(&self) -> Vec<NodeSource> {
        let nodes = self.lab.0.nodes().iter().enumerate();
        nodes
            .map(|(index, node)| NodeSource {
                name: node.name.clone(),
                namespace: Some(Path::new("/run/netns").join(&node.namespace)),
                interfaces: self.interfaces(index),
                queues: self.shared.as_ref().is_some_and(|path| path.ends[0].0 == index),
            })
            .collect()
    }

    /// What an interface's counters are called. Those of a router are called after what they lead to, as in the paper's
    /// tables 10 and 11.
    pub fn label(&self, node: usize, interface: &str) -> String {
        let is_router = self.topology.nodes[node].role == Role::Router;
        match interface {
            "if1" if is_router => "client".to_string(),
            "if2" if is_router => "server".to_string(),
            other => other.to_string(),
        }
    }

    fn interfaces(&self, node: usize) -> Vec<InterfaceSource> {
        let members = self.topology.networks.iter().flat_map(|network| &network.members);
        members
            .filter(|member| member.node == node)
            .map(|member| InterfaceSource {
                device: member.interface.clone(),
                label: self.label(node, &member.interface),
            })
            .collect()
    }
}

/// A name for the lab that no other experiment has, within the 32 bytes of one.
fn lab_name(description: &Description) -> String {
    format!("x{}-{:.20}", std::process::id(), description.name.to_lowercase())
}

/// A lab that is taken down when it is dropped.
pub(super) struct Network(pub(super) Lab);

impl Drop for Network {
    fn drop(&mut self) {
        if let Err(error) = Lab::remove(self.0.name(), &Options::default()) {
            // Nobody may be left to read it.
            _ = writeln!(io::stderr(), "treecast: {error}");
        }
    }
}
