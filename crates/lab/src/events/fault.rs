//! The faults of a running network, and how each is undone.

use std::fmt;
use std::net::Ipv6Addr;
use std::time::Duration;

use super::error::EventError;
use crate::topology::{Loss, NetworkKind, Role, Topology};

/// A fault, which lasts until it is undone. Links, nodes and interfaces are given by name.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// A link is down at its second end, and its first end has no carrier.
    Down { link: String },
    /// A link loses all packets, while both ends seem up.
    Fail { link: String },
    /// Routes avoid a link, as those of a routing protocol do when it has noticed a failure.
    Avoid { link: String },
    /// A node's cable is unplugged. Without `interface`, the first one is meant.
    Unplug { node: String, interface: Option<String> },
    /// A node loses packets that are sent to it.
    Lose { node: String, interface: Option<String>, loss: Loss },
    /// A node drops IPv6 packets with a routing header.
    Firewall { node: String, interface: Option<String> },
    /// A MEADcast router makes no copies and passes everything on.
    RouterOff { node: String },
    /// A MEADcast router's daemon is killed. Its program in the kernel goes on forwarding.
    RouterKilled { node: String },
    /// A MEADcast router has ended, together with its program in the kernel.
    RouterGone { node: String },
    /// Discovery responses come from a node that is no router.
    Forge(Forgery),
    /// Discovery responses that come to a node are sent again later.
    Replay { node: String, interface: Option<String>, after: Duration },
}

/// Forged discovery responses (in the thesis: made with scapy). All addresses may be names of nodes, or IPv6
/// addresses.
#[derive(Debug, Clone, PartialEq)]
pub struct Forgery {
    /// The name of the node that sends them.
    pub node: String,
    /// The MEADcast sender.
    pub to: String,
    /// The router that seems to send them.
    pub router: String,
    /// Receivers that the router claims to be on the way to.
    pub receivers: Vec<String>,
    /// The position that the router claims: 1 is the first MEADcast router after the sender.
    pub hops: u8,
    /// The time between two rounds of responses.
    pub every: Duration,
}

impl Forgery {
    /// The default of `every`. Each discovery hears responses that come that often.
    pub const EVERY: Duration = Duration::from_millis(200);
}

impl Fault {
    /// The two words for the begin and end of this fault, in a list of events and on the command line.
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

    /// The place of the fault: a link, or a node and perhaps its interface.
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

    /// Whether the fault is an attack, which goes on by itself until it is ended.
    pub fn is_attack(&self) -> bool {
        matches!(self, Self::Forge(_) | Self::Replay { .. })
    }

    /// Checks that everything that the fault names exists.
    ///
    /// # Errors
    /// The name that is wrong, and the names that exist.
    pub fn check(&self, topology: &Topology) -> Result<(), EventError> {
        let (place, interface) = self.place();
        match self {
            Self::Down { .. } | Self::Fail { .. } | Self::Avoid { .. } => check_link(topology, place),
            Self::RouterOff { .. } | Self::RouterKilled { .. } | Self::RouterGone { .. } => {
                check_node(topology, place, None)?;
                let is_router = |node: &&crate::Node| node.name == place && node.role == Role::Router;
                let found = topology.nodes.iter().find(is_router);
                found.map(|_| ()).ok_or_else(|| EventError::NoRouter(place.to_owned()))
            }
            Self::Forge(forgery) => {
                check_node(topology, place, None)?;
                let named = forgery.receivers.iter().chain([&forgery.to, &forgery.router]);
                named.filter(|name| name.parse::<Ipv6Addr>().is_err()).try_for_each(|name| {
                    check_node(topology, name, None).map_err(|why| EventError::NoAddress(Box::new(why)))
                })
            }
            Self::Unplug { .. } | Self::Lose { .. } | Self::Firewall { .. } | Self::Replay { .. } => {
                check_node(topology, place, interface)
            }
        }
    }
}

fn check_link(topology: &Topology, name: &str) -> Result<(), EventError> {
    let links = || topology.networks.iter().filter(|network| network.kind == NetworkKind::Link);
    match links().any(|network| network.name == name) {
        true => Ok(()),
        false if topology.networks.iter().any(|network| network.name == name) => {
            Err(EventError::Lan(name.to_owned()))
        }
        false => {
            let known = crate::lab::list(links().map(|network| network.name.as_str()));
            let none = || "none; break a node's own cable with unplug or lose".to_owned();
            Err(EventError::NoLink(name.to_owned(), if known.is_empty() { none() } else { known }))
        }
    }
}

fn check_node(topology: &Topology, name: &str, interface: Option<&str>) -> Result<(), EventError> {
    let found = topology.nodes.iter().position(|node| node.name == name);
    let index = found.ok_or_else(|| {
        let known = crate::lab::list(topology.nodes.iter().map(|node| node.name.as_str()));
        EventError::NoNode(name.to_owned(), known)
    })?;
    let mut interfaces =
        topology.members().filter(|member| member.node == index).map(|member| member.interface.as_str());
    match interface {
        Some(wanted) if !interfaces.clone().any(|known| known == wanted) => {
            let known = crate::lab::list(interfaces);
            Err(EventError::NoInterface(name.to_owned(), wanted.to_owned(), known))
        }
        _ if interfaces.next().is_none() => Err(EventError::NoNetwork(name.to_owned())),
        _ => Ok(()),
    }
}

impl fmt::Display for Fault {
    /// Writes the place and the fault: `r1-r3 down`.
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
