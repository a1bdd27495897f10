//! Routes between routers by a routing protocol, with Debian's frr: OSPFv3 (RFC 5340) or BGP (RFC 4271). Two daemons run in
//! each router: zebra, and the one of the protocol.
//!
//! All their files are in the lab's folder, one subfolder for each router, which the router's daemons see as
//! `/run/frr`. So several daemons run on one machine, and Debian's own beside them, without affecting each
//! other. They end with their namespaces.

mod bgp;
mod ospf;

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

/// The socket in that folder where the other daemon finds zebra, which puts routes into the kernel. A daemon that comes
/// too early tries again after 10 s.
const ZEBRA_SOCKET: &str = "zserv.api";

/// The longest time until zebra has started, and then until all routes are there. 39 routers on two processors
/// take 8 s.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(100);

/// A routing protocol, and its daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Ospf,
    Bgp,
}

impl Protocol {
    /// The protocol's name in messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ospf => "OSPF",
            Self::Bgp => "BGP",
        }
    }

    fn daemon(self) -> &'static str {
        match self {
            Self::Ospf => "ospf6d",
            Self::Bgp => "bgpd",
        }
    }

    /// The configuration of a router's daemon. `None`: the router does not speak the protocol.
    fn configuration(self, topology: &Topology, router: usize) -> Option<String> {
        match self {
            Self::Ospf => Some(ospf::of(topology, router)),
            Self::Bgp => {
                let speaker = topology.bgp.iter().find(|speaker| speaker.router == router)?;
                Some(bgp::of(topology, speaker))
            }
        }
    }
}

/// The location of frr, and its user and group.
pub(crate) struct Frr {
    directory: PathBuf,
    user: (u32, u32),
    protocol: Protocol,
}

impl Frr {
    /// Finds the programs of frr on this machine.
    ///
    /// # Errors
    /// [`Error::NoFrr`], which says how to get them.
    pub fn find(protocol: Protocol) -> Result<Self> {
        let needed = ["zebra", protocol.daemon()];
        let has_both = |directory: &&Path| needed.iter().all(|name| directory.join(name).is_file());
        let directory = DIRECTORIES.map(Path::new).iter().copied().find(has_both);
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        match directory.map(Path::to_owned).zip(user(&users)) {
            Some((directory, user)) => Ok(Self { directory, user, protocol }),
            None => Err(Error::NoFrr { protocol: protocol.word() }),
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

    fn prepare(&self, name: &str, configuration: &str, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("zebra.conf"), format!("hostname {name}\n"))?;
        fs::write(folder.join(format!("{}.conf", self.protocol.daemon())), configuration)?;
        chown(folder, Some(self.user.0), Some(self.user.1))
    }
}

/// The folder with the files of a router's daemons, in the lab's folder.
pub(crate) fn folder(lab: &Path, router: &str) -> PathBuf {
    lab.join(format!("frr-{router}"))
}

/// A router that runs the daemons.
struct Running<'a> {
    router: &'a LabNode,
    /// The addresses to which it must have a route.
    targets: Vec<Ipv6Addr>,
    daemon: Daemon,
}

/// Starts the protocol in its routers. Returns when each has a route to all that the others announce.
pub(crate) fn start(frr: &Frr, topology: &Topology, plan: &Plan, lab: &Path) -> Result<()> {
    fs::create_dir_all(RUN_DIRECTORY).map_err(Error::system(format!("make {RUN_DIRECTORY}")))?;
    let protocol = frr.protocol;
    let mut routers: Vec<(usize, &LabNode)> = Vec::new();
    for (index, router) in plan.nodes.iter().enumerate().filter(|(_, node)| node.role == Role::Router) {
        let Some(configuration) = protocol.configuration(topology, index) else { continue };
        let failed = Error::system(format!("configure {} of {}", protocol.word(), router.name));
        frr.prepare(&router.name, &configuration, &folder(lab, &router.name)).map_err(failed)?;
        routers.push((index, router));
    }
    let begin = |name: &str, router: &LabNode| -> Result<Daemon> {
        let failed = Error::system(format!("start {name} in {}", router.name));
        let command = frr.daemon(name, &folder(lab, &router.name)).map_err(failed)?;
        Daemon::start(lab.to_owned(), &router.name, &router.namespace, command)
    };
    let mut zebras = routers.iter().map(|(_, router)| begin("zebra", router)).collect::<Result<Vec<_>>>()?;
    for (zebra, (_, router)) in zebras.iter_mut().zip(&routers) {
        wait_for_socket(&folder(lab, &router.name).join(ZEBRA_SOCKET), zebra, &router.name)?;
    }
    let targets = targets(protocol, topology);
    let run = |(index, router): &(usize, &'_ LabNode)| {
        let of_others = targets.iter().filter(|(owner, _)| *owner != Some(*index));
        let targets = of_others.map(|(_, address)| *address).collect();
        Ok((targets, begin(protocol.daemon(), router)?))
    };
    let running = routers
        .iter()
        .map(|router| run(router).map(|(targets, daemon)| Running { router: router.1, targets, daemon }));
    wait_for_routes(protocol, running.collect::<Result<Vec<_>>>()?)
}

fn wait_for_routes(protocol: Protocol, running: Vec<Running>) -> Result<()> {
    let mut left: Vec<&Running> = running.iter().collect();
    let start = Instant::now();
    loop {
        let lacking = parallel::map(left.len(), |index| lacks(left[index].router, &left[index].targets))?;
        let lacking: Vec<_> = left.drain(..).zip(lacking).collect();
        left = lacking.iter().filter(|(_, lacks)| lacks.is_some()).map(|(running, _)| *running).collect();
        match lacking.iter().find_map(|(running, address)| Some((running, (*address)?))) {
            None => return Ok(()),
            Some((running, address)) if start.elapsed() > PATIENCE => {
                let (router, last) = (running.router.name.clone(), running.daemon.last_line());
                let (protocol, seconds) = (protocol.word(), PATIENCE.as_secs());
                return Err(Error::NotConverged { router, address, seconds, protocol, last });
            }
            Some(_) => std::thread::sleep(LOOK),
        }
    }
}

/// An address in all that is announced, and the router that announces it alone.
fn targets(protocol: Protocol, topology: &Topology) -> Vec<(Option<usize>, Ipv6Addr)> {
    if protocol == Protocol::Bgp {
        let first = |base: Ipv6Addr| Ipv6Addr::from(u128::from(base) | 1);
        let of = |speaker: &crate::topology::Speaker| {
            let router = speaker.router;
            speaker.announced().map(move |prefix| (Some(router), first(prefix.base))).collect::<Vec<_>>()
        };
        return topology.bgp.iter().flat_map(of).collect();
    }
    let networks = topology.networks.iter().filter(|network| network.has_router(&topology.nodes));
    let of_networks = networks.filter_map(|network| network.members.first()).map(|member| member.v6);
    let of_routers = topology.nodes.iter().flat_map(|node| node.loopback_v6.iter().copied());
    of_networks.chain(of_routers).map(|address| (None, address)).collect()
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
        assert_eq!(targets(Protocol::Ospf, &topology).len(), topology.networks.len());
        let alone = Topology::parse("lan:clients=2").unwrap();
        assert!(targets(Protocol::Ospf, &alone).is_empty());
    }

    #[test]
    fn all_that_is_announced_is_to_be_reached() {
        let topology = Topology::parse("interdomain:addressing=independent,stubs=3").unwrap();
        // Six blocks, and a prefix of each stub, of which two providers hear.
        let mut targets = targets(Protocol::Bgp, &topology);
        targets.dedup();
        targets.sort();
        targets.dedup();
        assert_eq!(targets.len(), 6 + 3);
    }
}
