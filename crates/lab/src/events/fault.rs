//! What can go wrong in a network that runs, each with its undoing.

use std::fmt;
use std::net::Ipv6Addr;
use std::time::Duration;

use crate::topology::{Loss, NetworkKind, Role, Topology};

/// Something that goes wrong, until it is undone. Links, nodes and interfaces are named.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// A link is down at its second end; the first one has no carrier.
    Down { link: String },
    /// A link loses all packets, and both ends seem up.
    Fail { link: String },
    /// Routes avoid a link, as those of a routing protocol do that has noticed.
    Avoid { link: String },
    /// A cable is out of its node.
    Unplug { node: String, interface: Option<String> },
    /// A node loses what it is sent so.
    Lose { node: String, interface: Option<String>, loss: Loss },
    /// A node drops IPv6 packets with a routing header.
    Firewall { node: String, interface: Option<String> },
    /// A MEADcast router passes everything on.
    RouterOff { node: String },
    /// A MEADcast router's daemon is killed; its program in the kernel forwards on.
    RouterKilled { node: String },
    /// A MEADcast router has ended, and its program with it.
    RouterGone { node: String },
    /// Discovery responses come from somebody who is no router.
    Forge(Forgery),
    /// Discovery responses that pass a node come again, later.
    Replay { node: String, interface: Option<String>, after: Duration },
}

/// Discovery responses that somebody makes up (the thesis: with scapy). All but the first name a node, or an IPv6 address.
#[derive(Debug, Clone, PartialEq)]
pub struct Forgery {
    /// Who sends them.
    pub node: String,
    /// The MEADcast sender.
    pub to: String,
    /// Who seems to send them.
    pub router: String,
    /// Receivers on whose ways it claims to be.
    pub receivers: Vec<String>,
    /// Number of routers between it and the sender, as it claims.
    pub hops: u8,
    /// Time from one round of responses to the next.
    pub every: Duration,
}

impl Forgery {
    /// Often enough that each discovery hears it.
    pub const EVERY: Duration = Duration::from_millis(200);
}

impl Fault {
    /// The words by which this begins and ends in a list of events, and on the command line.
    pub fn words(&self) -> [&'static str; 2] {
        match self {
            Self::Down { .. } => ["down", "up"],
            Self::Fail { .. } => ["fail", "mend"],
            Self::Avoid { .. } => ["avoid", "take"],
            Self::Unplug { .. } => ["unplug", "plug"],
            Self::Lose { .. } => ["lose", "lose nothing"],
            Self::Firewall { .. } => ["firewall", "no-firewall"],
            Self::RouterOff { .. } => ["router-off", "router-on"],
            Self::RouterKilled { .. } => ["router-kill", "router-start"],
            Self::RouterGone { .. } => ["router-gone", "router-start"],
            Self::Forge(_) => ["forge", "no-forge"],
            Self::Replay { .. } => ["replay", "no-replay"],
        }
    }

    /// What it happens to: a link, or a node and perhaps its interface.
    pub fn place(&self) -> (&str, Option<&str>) {
        match self {
            Self::Down { link } | Self::Fail { link } | Self::Avoid { link } => (link, None),
            Self::Unplug { node, interface }
            | Self::Lose { node, interface, .. }
            | Self::Firewall { node, interface }
            | Self::Replay { node, interface, .. } => (node, interface.as_deref()),
            Self::RouterOff { node } | Self::RouterKilled { node } | Self::RouterGone { node } => {
                (node, None)
            }
            Self::Forge(forgery) => (&forgery.node, None),
        }
    }

    /// Whether it goes on by itself until it is ended, and does not just change something.
    pub fn is_attack(&self) -> bool {
        matches!(self, Self::Forge(_) | Self::Replay { .. })
    }

    /// Refuses what names something that is not there.
    ///
    /// # Errors
    /// What is wrong, and what there is.
    pub fn check(&self, topology: &Topology) -> Result<(), String> {
        let (place, interface) = self.place();
        match self {
            Self::Down { .. } | Self::Fail { .. } | Self::Avoid { .. } => check_link(topology, place),
            Self::RouterOff { .. } | Self::RouterKilled { .. } | Self::RouterGone { .. } => {
                check_node(topology, place, None)?;
                let is_router = |node: &&crate::Node| node.name == place && node.role == Role::Router;
                let found = topology.nodes.iter().find(is_router);
                found.map(|_| ()).ok_or_else(|| format!("{place} is no router"))
            }
            Self::Forge(forgery) => {
                check_node(topology, place, None)?;
                let named = forgery.receivers.iter().chain([&forgery.to, &forgery.router]);
                named.filter(|name| name.parse::<Ipv6Addr>().is_err()).try_for_each(|name| {
                    let hint = |why| format!("{why}; or write an IPv6 address");
                    check_node(topology, name, None).map_err(hint)
                })
            }
            Self::Unplug { .. } | Self::Lose { .. } | Self::Firewall { .. } | Self::Replay { .. } => {
                check_node(topology, place, interface)
            }
        }
    }
}

fn check_link(topology: &Topology, name: &str) -> Result<(), String> {
    let links = || topology.networks.iter().filter(|network| network.kind == NetworkKind::Link);
    match links().any(|network| network.name == name) {
        true => Ok(()),
        false if topology.networks.iter().any(|network| network.name == name) => {
            Err(format!("{name} is a LAN, not a link between two nodes: name a node and its interface"))
        }
        false => {
            let known = crate::lab::list(links().map(|network| network.name.as_str()));
            Err(format!("there is no link {name}: there are {known}"))
        }
    }
}

fn check_node(topology: &Topology, name: &str, interface: Option<&str>) -> Result<(), String> {
    let found = topology.nodes.iter().position(|node| node.name == name);
    let index = found.ok_or_else(|| {
        let known = crate::lab::list(topology.nodes.iter().map(|node| node.name.as_str()));
        format!("there is no node {name}: there are {known}")
    })?;
    let members = topology.networks.iter().flat_map(|network| &network.members);
    let mut interfaces =
        members.filter(|member| member.node == index).map(|member| member.interface.as_str());
    match interface {
        Some(wanted) if !interfaces.clone().any(|known| known == wanted) => {
            let known = crate::lab::list(interfaces);
            Err(format!("node {name} has no interface {wanted}: it has {known}"))
        }
        _ if interfaces.next().is_none() => Err(format!("node {name} is in no network")),
        _ => Ok(()),
    }
}

impl fmt::Display for Fault {
    /// What happens, and to what: `r1-r3 down`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, interface) = self.place();
        write!(f, "{place}")?;
        if let Some(interface) = interface {
            write!(f, " ({interface})")?;
        }
        write!(f, " {}", self.words()[0])?;
        match self {
            Self::Lose { loss, .. } => write!(f, " {loss}"),
            Self::Forge(forgery) => {
                write!(f, " {} for {} receivers", forgery.router, forgery.receivers.len())
            }
            _ => Ok(()),
        }
    }
}
