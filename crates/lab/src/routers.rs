//! Starts programs that stay in a lab's nodes, such as routers.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::daemon::Daemon;
use crate::error::Result;
use crate::lab::Lab;
use crate::plan::LabNode;
use crate::topology::Role;

/// The arguments of a multicast router of which nothing is left when it ends.
const MROUTE: [&str; 3] = ["mroute", "--keep", "0s"];

/// The trees by which multicast routers forward to any-source groups in a network with loops. Without loops, there is
/// only one way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Trees {
    /// One tree, whose root is the first node's network.
    #[default]
    Shared,
    /// The shortest ways from each source.
    OfEachSource,
    /// None: all groups are source-specific, and their joins follow the routes to their sources.
    SourceSpecific,
}

impl Lab {
    /// Starts `command` in `node`, detached from this terminal. Its output is kept beside the lab's record, and
    /// is removed with the lab.
    pub fn start_daemon(&self, node: &str, command: Command) -> Result<Daemon> {
        let namespace = &self.node(node)?.namespace;
        Daemon::start(self.state_directory().join(self.name()), node, namespace, command)
    }

    /// Starts `program mroute` in every router, and returns when all are ready. `prepare` may change each
    /// command.
    pub fn start_routers(
        &self,
        program: &Path,
        trees: Trees,
        prepare: impl Fn(&mut Command),
    ) -> Result<Vec<Daemon>> {
        let has_loops = self.topology().has_loops();
        self.start_in_routers(program, prepare, |upstream| {
            let mut arguments = MROUTE.to_vec();
            match trees {
                Trees::Shared => {
                    arguments.extend(upstream.into_iter().flat_map(|interface| ["--upstream", interface]));
                }
                Trees::OfEachSource => arguments.extend(has_loops.then_some("--source-trees")),
                Trees::SourceSpecific => {}
            }
            arguments
        })
    }

    /// Starts `program router run --all` in every router, and returns when all of them are ready.
    pub fn start_mead_routers(&self, program: &Path, prepare: impl Fn(&mut Command)) -> Result<Vec<Daemon>> {
        self.start_in_routers(program, prepare, |_| vec!["router", "run", "--all", "--rpf", "loose"])
    }

    fn start_in_routers<'a>(
        &'a self,
        program: &Path,
        prepare: impl Fn(&mut Command),
        arguments: impl Fn(Option<&'a str>) -> Vec<&'a str>,
    ) -> Result<Vec<Daemon>> {
        // Fifty routers load their programs at once. A router that ends is noticed at once; this is for one that hangs.
        const PATIENCE: Duration = Duration::from_secs(300);
        let start = |(node, upstream): (&LabNode, Option<&'a str>)| {
            let mut command = Command::new(program);
            command.args(arguments(upstream));
            prepare(&mut command);
            self.start_daemon(&node.name, command)
        };
        let nodes = self.nodes().iter().zip(self.topology().multicast_upstreams());
        let routers = nodes.filter(|(node, _)| node.role == Role::Router);
        let mut daemons = routers.map(start).collect::<Result<Vec<_>>>()?;
        daemons.iter_mut().try_for_each(|daemon| daemon.wait_for_line("ready", PATIENCE))?;
        Ok(daemons)
    }
}
