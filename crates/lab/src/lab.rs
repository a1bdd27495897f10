//! A lab that is up, as its users see it.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use treecast_host::{
    namespace::{self, Namespace},
    user,
};

use crate::down;
use crate::error::{Error, Result};
use crate::frr::{self, Frr};
use crate::links;
use crate::options::Options;
use crate::parallel;
use crate::plan::{Interface, LabNode, Plan};
use crate::relay;
use crate::routes::Routing;
use crate::state::{self, Locked, Phase, Record};
use crate::topology::Topology;
use crate::up;

/// The variable that tells a program its node's name. Receivers use it as their name.
const NODE_VARIABLE: &str = "TREECAST_NODE";

/// A network of namespaces on this machine.
///
/// [`Lab::up`] builds one, [`Lab::open`] finds one again; [`Lab::spawn`] and [`Lab::enter`] run
/// programs and code in its nodes; [`Lab::down`] removes it. Dropping a `Lab` leaves the network as
/// it is.
pub struct Lab {
    name: String,
    options: Options,
    topology: Topology,
    plan: Plan,
    routing: Routing,
}

/// One line of `lab list`.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Summary {
    pub name: String,
    /// The number of nodes. `None`: the lab was never finished, and should be taken down.
    pub nodes: Option<usize>,
}

// Functions that build, find and remove labs.
impl Lab {
    /// Builds the network and returns when every link and route works. A lab that cannot be built
    /// leaves nothing behind.
    ///
    /// # Errors
    /// [`Error::NotRoot`], [`Error::BadName`], [`Error::Exists`], [`Error::NamespaceTaken`], and what
    /// the kernel refuses.
    pub fn up(topology: &Topology, name: &str, options: &Options) -> Result<Self> {
        require_root()?;
        check_name(name)?;
        if let Some((network, key)) = topology.only_simulated() {
            return Err(Error::Simulated { network: network.to_owned(), key });
        }
        let routing = Routing::of(topology, options.routing)?;
        let frr = routing.protocol().map(Frr::find).transpose()?;
        let delaying = links::delaying(topology);
        let plan = Plan::of(name, topology, delaying);
        if let Some(taken) = plan.namespaces().find(|namespace| namespace::exists(namespace)) {
            if state::names(&options.state_directory)?.iter().any(|known| known == name) {
                return Err(Error::Exists { name: name.to_owned() });
            }
            return Err(Error::NamespaceTaken { namespace: taken.to_owned() });
        }
        let locked = Locked::create(&options.state_directory, name)?;
        let mut record = Record {
            name: name.to_owned(),
            phase: Phase::Unfinished,
            topology: topology.clone(),
            delaying,
            loss: None,
            losing: Vec::new(),
            avoided: BTreeSet::new(),
            routing,
        };
        locked.write(&record)?;
        if let Err(error) = up::reserve(&plan) {
            locked.remove()?;
            return Err(error);
        }
        let built = up::build(topology, &plan, routing).and_then(|loss| {
            record.loss = loss;
            relay::start(&plan, name, options)?;
            frr.map_or(Ok(()), |frr| frr::start(&frr, topology, &plan, locked.folder()))
        });
        if let Err(error) = built {
            down::remove(name, &plan)?;
            locked.remove()?;
            return Err(error);
        }
        record.phase = Phase::Up;
        locked.write(&record)?;
        let Record { topology, routing, .. } = record;
        Ok(Self { name: name.to_owned(), options: options.clone(), topology, plan, routing })
    }

    /// Finds the lab called `name`.
    ///
    /// # Errors
    /// [`Error::NoSuchLab`], and [`Error::Unfinished`] when it was not built to its end.
    pub fn open(name: &str, options: &Options) -> Result<Self> {
        let record = state::peek(&options.state_directory, name)?;
        let finished = record.filter(|record| record.phase == Phase::Up);
        let record = finished.ok_or_else(|| Error::Unfinished { name: name.to_owned() })?;
        let plan = record.plan();
        let Record { topology, routing, .. } = record;
        Ok(Self { name: name.to_owned(), options: options.clone(), topology, plan, routing })
    }

    /// All labs of this machine, also those that were never finished.
    pub fn list(options: &Options) -> Result<Vec<Summary>> {
        let names = state::names(&options.state_directory)?;
        let summary = |name: String| {
            let record = state::peek(&options.state_directory, &name).ok().flatten();
            let up = record.filter(|record| record.phase == Phase::Up);
            Summary { name, nodes: up.map(|record| record.topology.nodes.len()) }
        };
        Ok(names.into_iter().map(summary).collect())
    }

    /// Removes the lab: first ends its processes, then removes everything else.
    pub fn down(self) -> Result<()> {
        Self::remove(&self.name, &self.options)
    }

    /// Removes the lab called `name`, in any state.
    ///
    /// # Errors
    /// [`Error::NoSuchLab`]; [`Error::Busy`] if another process is building it.
    pub fn remove(name: &str, options: &Options) -> Result<()> {
        require_root()?;
        let locked = Locked::open(&options.state_directory, name)?;
        if let Some(mut record) = locked.read()? {
            if record.phase == Phase::Up {
                record.phase = Phase::Unfinished;
                locked.write(&record)?;
            }
            down::remove(name, &record.plan())?;
        }
        locked.remove()
    }

    /// Removes every lab, and returns their names.
    ///
    /// # Errors
    /// The first lab that could not be removed; the others are removed all the same.
    pub fn down_all(options: &Options) -> Result<Vec<String>> {
        require_root()?;
        let names = state::names(&options.state_directory)?;
        let mut outcome = Ok(());
        for name in &names {
            match Self::remove(name, options) {
                // Another process was faster.
                Err(Error::NoSuchLab { .. }) => (),
                removed => outcome = outcome.and(removed),
            }
        }
        outcome.map(|()| names)
    }
}

// Functions that describe the lab.
impl Lab {
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn state_directory(&self) -> &Path {
        &self.options.state_directory
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The source of the lab's routes.
    pub fn routing(&self) -> Routing {
        self.routing
    }

    /// The nodes, in the order of the topology.
    pub fn nodes(&self) -> &[LabNode] {
        &self.plan.nodes
    }

    pub fn node(&self, name: &str) -> Result<&LabNode> {
        let known = || list(self.plan.nodes.iter().map(|node| node.name.as_str()));
        let node = self.plan.nodes.iter().find(|node| node.name == name);
        node.ok_or_else(|| Error::NoSuchNode {
            lab: self.name.clone(),
            node: name.to_owned(),
            known: known(),
        })
    }

    pub fn interface(&self, node: &str, name: &str) -> Result<&Interface> {
        let node = self.node(node)?;
        let known = || list(node.interfaces.iter().map(|interface| interface.name.as_str()));
        node.interface(name).ok_or_else(|| Error::NoSuchInterface {
            node: node.name.clone(),
            interface: name.to_owned(),
            known: known(),
        })
    }
}

// Functions that run programs in the lab.
impl Lab {
    /// Makes `command` start inside `node`, with that node's name in its environment.
    pub fn place(&self, node: &str, command: &mut Command) -> Result<()> {
        namespace::place(self.namespace(node)?, command);
        command.env(NODE_VARIABLE, node);
        Ok(())
    }

    /// A command that runs `command` inside `node`, and ends with the thread that starts it. If many are
    /// started, this is cheaper than [`Lab::spawn`], which copies this process' memory map each time. It has
    /// only the arguments and environment of `command`.
    pub fn inside(&self, node: &str, command: &Command) -> Result<Command> {
        let namespace = &self.node(node)?.namespace;
        let mut inside = Command::new(&self.options.program);
        inside.args(["lab", "enter", namespace, &std::process::id().to_string(), "--"]);
        inside.arg(command.get_program()).args(command.get_args()).env(NODE_VARIABLE, node);
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        Ok(inside)
    }

    /// Has `start` start a program inside `node`.
    ///
    /// # Errors
    /// The program, the node and the reason why it could not be started.
    pub fn start_by<T>(
        &self,
        node: &str,
        mut command: Command,
        start: impl FnOnce(Command) -> io::Result<T>,
    ) -> Result<T> {
        self.place(node, &mut command)?;
        let starting = starting(&command, node);
        start(command).map_err(Error::system(starting))
    }

    /// Starts a program inside `node`.
    pub fn spawn(&self, node: &str, command: Command) -> Result<Child> {
        self.start_by(node, command, |mut command| command.spawn())
    }

    /// Becomes a program inside `node`, which then gets the signals that are meant for it. Returns only if that fails.
    ///
    /// # Errors
    /// The reason why the program could not be started.
    pub fn become_program(&self, node: &str, command: Command) -> Result<Infallible> {
        self.start_by(node, command, |mut command| Err(command.exec()))
    }

    /// Runs `work` on a thread inside `node`. Sockets and files that it returns still belong to that node.
    pub fn enter<T: Send>(&self, node: &str, work: impl FnOnce() -> T + Send) -> Result<T> {
        let namespace = self.namespace(node)?;
        parallel::aside(|| {
            namespace.enter().map_err(Error::system(format!("enter {node}")))?;
            Ok(work())
        })
    }

    /// Ends all processes inside `node`; the node itself stays.
    pub fn kill(&self, node: &str) -> Result<()> {
        let node = self.node(node)?;
        down::kill_processes(&self.name, &[&node.namespace])
    }

    fn namespace(&self, node: &str) -> Result<Namespace> {
        let name = &self.node(node)?.namespace;
        Namespace::open(name).map_err(Error::system(format!("open namespace {name}")))
    }
}

/// The start of a program, in words.
fn starting(command: &Command, node: &str) -> String {
    let program = command.get_program().to_string_lossy();
    format!("start {program} in {node} (is it installed, and may it be run?)")
}

fn require_root() -> Result<()> {
    if user::is_root() { Ok(()) } else { Err(Error::NotRoot) }
}

fn check_name(name: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    let is_good = (1..=32).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(good);
    if is_good { Ok(()) } else { Err(Error::BadName { name: name.to_owned() }) }
}

/// Lists the first few names, so that a line stays short.
pub(crate) fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.take(9).collect();
    if names.len() == 9 {
        names[8] = "...";
    }
    names.join(", ")
}
