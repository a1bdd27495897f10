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
    plan::Facts,
    process,
    programs::Programs,
};
use crate::{
    Lab, Options,
    topology::{Role, Topology},
};

/// A client's node.
pub struct ClientNode {
    pub name: String,
    pub attachment: Attachment,
}

/// A network that is up. Dropped, it is down.
pub struct Stage {
    lab: Network,
    pub topology: Topology,
    pub facts: Facts,
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
        programs: impl FnOnce(Attachment) -> Programs,
    ) -> Result<Self, Error> {
        let refused = |what: String| Error::Network { name: description.name.clone(), what };
        let node = |index: usize| -> Result<ClientNode, Error> {
            let name = topology.nodes[index].name.clone();
            let unattached = || refused(format!("{name} is on no network"));
            Ok(ClientNode { attachment: network::attachment(&topology, index).ok_or_else(unattached)?, name })
        };
        let server = network::with_role(&topology, Role::Server).next();
        let server = node(server.ok_or_else(|| refused("it has no server".into()))?)?;
        let clients = network::with_role(&topology, Role::Client).map(node).collect::<Result<Vec<_>, _>>()?;
        let lab = Lab::up(&topology, &lab_name(description), &Options::default())
            .map_err(|error| refused(error.to_string()))?;
        let facts = network::facts(&topology);
        let programs = programs(server.attachment);
        let stage = Self { lab: Network(lab), topology, facts, programs, server: server.name, clients };
        if multicast {
            let routed = stage.lab.0.start_routers(&stage.programs.treecast, process::die_with_parent);
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

    pub fn spawn_on_server(&self, command: Command) -> io::Result<Child> {
        self.spawn(&self.server, command)
    }

    /// Every node and where its counters are, in the topology's order.
    pub fn node_sources(&self) -> Vec<NodeSource> {
        let nodes = self.lab.0.nodes().iter().enumerate();
        nodes
            .map(|(index, node)| NodeSource {
                name: node.name.clone(),
                namespace: Some(Path::new("/run/netns").join(&node.namespace)),
                interfaces: self.interfaces(index),
            })
            .collect()
    }

    /// A node's interfaces. Those of a router are called after what they lead to, as in the paper's tables
    /// 10 and 11.
    fn interfaces(&self, node: usize) -> Vec<InterfaceSource> {
        let is_router = self.topology.nodes[node].role == Role::Router;
        let label = |interface: &str| match interface {
            "if1" if is_router => "client".to_string(),
            "if2" if is_router => "server".to_string(),
            other => other.to_string(),
        };
        let members = self.topology.networks.iter().flat_map(|network| &network.members);
        members
            .filter(|member| member.node == node)
            .map(|member| InterfaceSource {
                device: member.interface.clone(),
                label: label(&member.interface),
            })
            .collect()
    }
}

/// A name for the lab that no other experiment has, within the 32 bytes of one.
fn lab_name(description: &Description) -> String {
    format!("x{}-{:.20}", std::process::id(), description.name.to_lowercase())
}

/// A lab that is taken down when it is dropped.
struct Network(Lab);

impl Drop for Network {
    fn drop(&mut self) {
        if let Err(error) = Lab::remove(self.0.name(), &Options::default()) {
            // Nobody may be left to read it.
            _ = writeln!(io::stderr(), "treecast: {error}");
        }
    }
}
