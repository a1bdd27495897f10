//! A network that is up, with all that its runs share: routers that route, programs, who is who.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use treecast_measure::sample::{InterfaceSource, NodeSource};

use super::{
    Error,
    file::Network as Description,
    network::{self, Attachment},
    plan::Facts,
    process,
    programs::Programs,
    server::last_line,
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
    /// Before the lab, so that their processes are gone when it goes.
    routers: Vec<Router>,
    lab: Network,
    pub topology: Topology,
    pub facts: Facts,
    pub programs: Programs,
    pub server: String,
    pub clients: Vec<ClientNode>,
}

impl Stage {
    /// Builds the network. `programs` is told where the server is. With `routing_logs`, a folder, routers run
    /// `treecast mroute`.
    pub fn build(
        description: &Description,
        topology: Topology,
        routing_logs: Option<&Path>,
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
        let mut stage = Self {
            routers: Vec::new(),
            lab: Network(lab),
            topology,
            facts,
            programs,
            server: server.name,
            clients,
        };
        if let Some(logs) = routing_logs {
            stage.start_routers(logs).map_err(|error| refused(format!("multicast routing: {error}")))?;
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

    fn start_routers(&mut self, logs: &Path) -> io::Result<()> {
        let mut waiting = Vec::new();
        for index in network::with_role(&self.topology, Role::Router) {
            let name = &self.topology.nodes[index].name;
            let log = logs.join(format!("{name}-stderr"));
            let mut command = Command::new(&self.programs.treecast);
            command.arg("mroute").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&log)?);
            let mut child = self.spawn(name, command)?;
            waiting.push((name, ready_line(&mut child), log));
            self.routers.push(Router(child));
        }
        waiting.into_iter().try_for_each(|(name, ready, log)| wait_ready(name, &ready, &log))
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
            eprintln!("treecast: {error}");
        }
    }
}

/// The routing daemon of one router. Dropped, it is gone.
struct Router(Child);

impl Drop for Router {
    fn drop(&mut self) {
        // An error means that it is gone already.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Tells when the daemon says that it is ready, and reads on to the end, so that it never waits for
/// somebody to read.
fn ready_line(daemon: &mut Child) -> mpsc::Receiver<()> {
    let (is_ready, ready) = mpsc::sync_channel(1);
    if let Some(output) = daemon.stdout.take() {
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if line.contains("ready") {
                    // Full or gone: it has been told already.
                    _ = is_ready.try_send(());
                }
            }
        });
    }
    ready
}

fn wait_ready(router: &str, ready: &mpsc::Receiver<()>, log: &Path) -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(20);
    ready.recv_timeout(PATIENCE).map_err(|_| {
        let reason = last_line(log).unwrap_or_else(|| "it did not become ready".into());
        io::Error::other(format!("{router}: {reason}"))
    })
}
