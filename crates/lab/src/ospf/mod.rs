//! Routes between routers by OSPFv3 (RFC 5340), with Debian's frr: two daemons in each router.
//!
//! All their files are in the lab's folder, one subfolder for each router, which the router's daemons see as
//! `/run/frr`. So several daemons run on one machine, and Debian's own beside them, without affecting each
//! other. They end with their namespaces.

mod config;

use std::fs;
use std::io;
use std::net::{Ipv6Addr, UdpSocket};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use treecast_host::{mount::mount_over, namespace::Namespace};

use crate::daemon::Daemon;
use crate::error::{Error, Result};
use crate::parallel;
use crate::plan::{LabNode, Plan};
use crate::topology::{Role, Topology};

/// The folders where Debian and other distributions keep frr's daemons.
const DIRECTORIES: [&str; 2] = ["/usr/lib/frr", "/usr/libexec/frr"];

/// The user of the daemons. The package creates this user.
const USER: &str = "frr";

/// The folder for the daemons' sockets and other files, whose names are the same for all daemons.
const RUN_DIRECTORY: &str = "/run/frr";

/// The socket in that folder where ospf6d finds zebra, which puts routes into the kernel. A daemon that comes
/// too early tries again after 10 s.
const ZEBRA_SOCKET: &str = "zserv.api";

/// The longest time until zebra has started, and then until all routes are there. 39 routers on two processors
/// take 8 s.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(100);

/// The location of frr, and its user and group.
pub(crate) struct Frr {
    directory: PathBuf,
    user: (u32, u32),
}

impl Frr {
    /// Finds the programs of frr on this machine.
    ///
    /// # Errors
    /// [`Error::NoFrr`], which says how to get them.
    pub fn find() -> Result<Self> {
        let has_both =
            |directory: &&Path| ["zebra", "ospf6d"].iter().all(|name| directory.join(name).is_file());
        let directory = DIRECTORIES.map(Path::new).iter().copied().find(has_both);
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        match directory.map(Path::to_owned).zip(user(&users)) {
            Some((directory, user)) => Ok(Self { directory, user }),
            None => Err(Error::NoFrr),
        }
    }

    /// The command of a daemon that keeps all its files in `folder`.
    fn daemon(&self, name: &str, folder: &Path) -> io::Result<Command> {
        let mut command = Command::new(self.directory.join(name));
        command.args(["-u", USER, "-g", USER, "--log", "stdout", "-P", "0", "-f"]);
        // The path is used because frr's user may not enter the folders above its own.
        command.arg(format!("{RUN_DIRECTORY}/{name}.conf"));
        mount_over(folder, RUN_DIRECTORY, &mut command)?;
        Ok(command)
    }

    fn prepare(&self, topology: &Topology, node: usize, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("zebra.conf"), format!("hostname {}\n", topology.nodes[node].name))?;
        fs::write(folder.join("ospf6d.conf"), config::of(topology, node))?;
        chown(folder, Some(self.user.0), Some(self.user.1))
    }
}

/// Starts OSPF in all routers. Returns when each has a route to every network and router.
pub(crate) fn start(frr: &Frr, topology: &Topology, plan: &Plan, lab: &Path) -> Result<()> {
    fs::create_dir_all(RUN_DIRECTORY).map_err(Error::system(format!("make {RUN_DIRECTORY}")))?;
    let nodes = plan.nodes.iter().enumerate();
    let routers: Vec<(usize, &LabNode)> = nodes.filter(|(_, node)| node.role == Role::Router).collect();
    let folder = |router: &LabNode| lab.join(format!("frr-{}", router.name));
    let begin = |name: &str, (_, router): &(usize, &LabNode)| -> Result<Daemon> {
        let failed = Error::system(format!("start {name} in {}", router.name));
        let command = frr.daemon(name, &folder(router)).map_err(failed)?;
        Daemon::start(lab.to_owned(), &router.name, &router.namespace, command)
    };
    for (index, router) in &routers {
        let failed = Error::system(format!("configure OSPF of {}", router.name));
        frr.prepare(topology, *index, &folder(router)).map_err(failed)?;
    }
    let mut zebras = routers.iter().map(|router| begin("zebra", router)).collect::<Result<Vec<_>>>()?;
    for (zebra, (_, router)) in zebras.iter_mut().zip(&routers) {
        wait_for_socket(&folder(router).join(ZEBRA_SOCKET), zebra, &router.name)?;
    }
    let speakers = routers.iter().map(|router| begin("ospf6d", router)).collect::<Result<Vec<_>>>()?;
    let targets = targets(topology);
    let mut left: Vec<(&LabNode, &Daemon)> =
        routers.iter().map(|(_, router)| *router).zip(&speakers).collect();
    let start = Instant::now();
    loop {
        let lacking = parallel::map(left.len(), |index| lacks(left[index].0, &targets))?;
        let lacking: Vec<_> = left.drain(..).zip(lacking).collect();
        left = lacking.iter().filter(|(_, lacks)| lacks.is_some()).map(|(router, _)| *router).collect();
        match lacking.iter().find_map(|((router, daemon), lacks)| Some((router, daemon, (*lacks)?))) {
            None => return Ok(()),
            Some((router, daemon, address)) if start.elapsed() > PATIENCE => {
                let (router, last) = (router.name.clone(), daemon.last_line());
                return Err(Error::NotConverged { router, address, seconds: PATIENCE.as_secs(), last });
            }
            Some(_) => std::thread::sleep(LOOK),
        }
    }
}

/// An address of each network and router.
fn targets(topology: &Topology) -> Vec<Ipv6Addr> {
    let networks = topology.networks.iter().filter(|network| network.has_router(&topology.nodes));
    let of_networks = networks.filter_map(|network| network.members.first()).map(|member| member.v6);
    let of_routers = topology.nodes.iter().flat_map(|node| node.loopback_v6.iter().copied());
    of_networks.chain(of_routers).collect()
}

/// The first of the addresses to which a router has no route.
fn lacks(router: &LabNode, targets: &[Ipv6Addr]) -> Result<Option<Ipv6Addr>> {
    let look = || -> io::Result<Option<Ipv6Addr>> {
        Namespace::open(&router.namespace)?.enter()?;
        let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
        // This sends nothing: the kernel only looks up the route.
        let has_no_route = |address: &&Ipv6Addr| socket.connect((**address, 9)).is_err();
        Ok(targets.iter().find(has_no_route).copied())
    };
    look().map_err(Error::system(format!("look at the routes of {}", router.name)))
}

fn wait_for_socket(path: &Path, zebra: &mut Daemon, node: &str) -> Result<()> {
    let start = Instant::now();
    while !path.exists() {
        if start.elapsed() > PATIENCE || zebra.has_ended() {
            let (node, line, last) = (node.to_owned(), "zebra starting".to_owned(), zebra.last_line());
            return Err(Error::Daemon { node, line, last });
        }
        std::thread::sleep(LOOK / 10);
    }
    Ok(())
}

/// The user and group numbers of frr in the text of `/etc/passwd`.
fn user(users: &str) -> Option<(u32, u32)> {
    let mut lines = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let fields = lines.find(|fields| fields.first() == Some(&USER))?;
    Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_frr_is_found_by_its_name() {
        let users = "root:x:0:0:root:/root:/bin/bash\nfrrouter:x:1:1::/:\nfrr:x:103:106:Frr:/nonexistent:/bin/false\n";
        assert_eq!(user(users), Some((103, 106)));
        assert_eq!(user("root:x:0:0:root:/root:/bin/bash\nfrr:x\n"), None);
    }

    #[test]
    fn every_network_with_a_router_and_every_router_is_to_be_reached() {
        let topology = Topology::parse("tree:levels=2,clients=1").unwrap();
        let targets = targets(&topology);
        assert_eq!(targets.len(), topology.networks.len());
        let alone = Topology::parse("lan:clients=2").unwrap();
        assert_eq!(super::targets(&alone), Vec::<Ipv6Addr>::new());
    }
}
