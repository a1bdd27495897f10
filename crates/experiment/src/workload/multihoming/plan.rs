//! Plans a run of the workload `multihoming`: which stub it is about, and how its prefixes are announced.

use std::{net::Ipv6Addr, time::Duration};

use treecast_lab::{Network, NetworkKind, Role, Speaker, Subnet, Topology};

use super::keys::{Multihoming, Transfer};

/// The plan of a run.
#[derive(Debug, Clone)]
pub struct PlannedMultihoming {
    pub inside: String,
    pub outside: String,
    /// The number of stubs in the network.
    pub stubs: usize,
    /// Whether each provider announces nothing of a stub but its own block.
    pub is_mast: bool,
    pub transfer: Option<PlannedTransfer>,
}

/// A transfer, and the stub whose access link is cut.
#[derive(Debug, Clone)]
pub struct PlannedTransfer {
    pub transfer: Transfer,
    /// The stub's router.
    pub gateway: String,
    /// The interface of the stub's router on the link that is cut.
    pub interface: String,
    /// The stub's LAN.
    pub lan: String,
    /// The prefix that is reached over the link that is cut. `None`: the stub has one prefix for all links.
    pub prefix: Option<Subnet<Ipv6Addr>>,
}

impl PlannedMultihoming {
    /// Plans the run of a network.
    pub fn of(workload: &Multihoming, topology: &Topology) -> Result<Self, String> {
        if topology.bgp.is_empty() {
            return Err(
                "multihoming needs routers that speak BGP: take a topology like interdomain:stubs=10".into(),
            );
        }
        let Multihoming { inside, outside, transfer } = workload;
        for name in [inside, outside] {
            let is_host = |node: &&treecast_lab::Node| node.name == *name && node.role != Role::Router;
            if !topology.nodes.iter().any(|node| is_host(&node)) {
                return Err(format!("workload: it has no host {name}"));
            }
        }
        let transfer = transfer.as_ref().map(|transfer| planned(transfer, inside, topology)).transpose()?;
        let stubs = topology.bgp.iter().filter(|speaker| !speaker.is_provider());
        let shares =
            |speaker: &Speaker| speaker.neighbours.iter().map(|neighbour| neighbour.announced.len()).max();
        let count = stubs.map(|speaker| speaker.blocks.len() + shares(speaker).unwrap_or(0));
        Ok(Self {
            inside: inside.clone(),
            outside: outside.clone(),
            stubs: count.sum(),
            is_mast: is_mast(topology),
            transfer,
        })
    }

    /// Returns the words that tell this run from others of its network.
    pub fn words(&self) -> String {
        match &self.transfer {
            None => "tables".to_owned(),
            Some(PlannedTransfer { transfer, .. }) => {
                let cuts = transfer.cuts.len();
                format!("{} {} x{cuts}", transfer.link, transfer.fault.word())
            }
        }
    }

    /// Sets the parameters of the run.
    pub fn parameters(&self, set: &mut dyn FnMut(&str, String)) {
        set("stubs", self.stubs.to_string());
        set("addressing", if self.is_mast { "provider" } else { "independent" }.into());
        if let Some(PlannedTransfer { transfer, .. }) = &self.transfer {
            set("lasts", transfer.lasts.as_secs_f64().to_string());
            set("rate", transfer.rate_bps.to_string());
            set("outage", transfer.outage.as_secs_f64().to_string());
            set("fault", transfer.fault.word().into());
            set("forged", if transfer.forges { "yes" } else { "no" }.into());
        }
    }

    /// Returns about how long the run takes.
    pub fn duration(&self) -> Duration {
        /// The time until tables no longer change, and until the stub's systems are ready.
        const TABLES: Duration = Duration::from_secs(4);
        const SYSTEMS: Duration = Duration::from_secs(8);
        let systems = if self.is_mast { SYSTEMS } else { Duration::ZERO };
        TABLES + self.transfer.as_ref().map_or(Duration::ZERO, |planned| planned.transfer.lasts + systems)
    }
}

/// Whether a stub tells each of its providers of the share of that provider's block alone.
fn is_mast(topology: &Topology) -> bool {
    let mut blocks =
        topology.bgp.iter().filter(|speaker| speaker.is_provider()).flat_map(|speaker| &speaker.blocks);
    let mut stubs = topology.bgp.iter().filter(|speaker| !speaker.is_provider());
    let inside = |prefix: Subnet<Ipv6Addr>| blocks.any(|block| block.contains(prefix.base));
    stubs.next().and_then(|stub| stub.announced().next()).is_some_and(inside)
}

fn planned(transfer: &Transfer, inside: &str, topology: &Topology) -> Result<PlannedTransfer, String> {
    let is_link = |network: &&Network| network.name == transfer.link && network.kind == NetworkKind::Link;
    let link = topology.networks.iter().find(is_link);
    let link = link.ok_or_else(|| format!("workload: there is no link {}", transfer.link))?;
    let end = link.members.iter().find_map(|member| {
        let mut stubs = topology.bgp.iter().filter(|speaker| !speaker.is_provider());
        stubs.find(|speaker| speaker.router == member.node).map(|speaker| (member, speaker))
    });
    let (member, speaker) =
        end.ok_or_else(|| format!("workload: {} is no access link of a stub", transfer.link))?;
    let number = |network: &Network| topology.networks.iter().position(|other| other.name == network.name);
    let neighbour = speaker.neighbours.iter().find(|neighbour| Some(neighbour.network) == number(link));
    let has = |network: &&Network, node: usize| network.members.iter().any(|member| member.node == node);
    let host = topology.nodes.iter().position(|node| node.name == inside).unwrap_or_default();
    let lan = topology.networks.iter().find(|network| has(network, host) && has(network, member.node));
    let gateway = topology.nodes[member.node].name.clone();
    let lan = lan.ok_or_else(|| format!("workload: {inside} is on no LAN with {gateway}"))?;
    Ok(PlannedTransfer {
        transfer: transfer.clone(),
        gateway,
        interface: member.interface.clone(),
        lan: lan.name.clone(),
        prefix: neighbour.and_then(|neighbour| neighbour.announced.first()).copied(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::multihoming::keys::Break;

    fn workload(link: &str) -> Multihoming {
        let transfer = Transfer {
            lasts: Duration::from_secs(60),
            rate_bps: 1_000_000,
            link: link.into(),
            cuts: vec![Duration::from_secs(20)],
            outage: Duration::from_secs(5),
            fault: Break::Down,
            forges: false,
        };
        Multihoming { inside: "client0".into(), outside: "far0".into(), transfer: Some(transfer) }
    }

    #[test]
    fn the_link_says_which_stub_and_prefix_it_is_about() {
        let topology = Topology::parse("interdomain:stubs=10").unwrap();
        let planned = PlannedMultihoming::of(&workload("a-stub"), &topology).unwrap();
        assert_eq!((planned.stubs, planned.is_mast, planned.words().as_str()), (10, true, "a-stub down x1"));
        let of_transfer = planned.transfer.unwrap();
        assert_eq!(of_transfer.prefix.unwrap().to_string(), "2001:db8:4000:100::/56");
        assert_eq!((of_transfer.gateway.as_str(), of_transfer.lan.as_str()), ("gateway", "stub"));
        let alone = Topology::parse("interdomain:stubs=1").unwrap();
        let planned = PlannedMultihoming::of(&workload("a-stub"), &alone).unwrap();
        assert_eq!((planned.stubs, planned.is_mast), (1, true));
        let plain = Topology::parse("interdomain:addressing=independent,stubs=10").unwrap();
        let planned = PlannedMultihoming::of(&workload("b-stub"), &plain).unwrap();
        assert_eq!((planned.stubs, planned.is_mast), (10, false));
        assert_eq!(planned.transfer.unwrap().prefix, None);
    }

    #[test]
    fn links_and_hosts_that_are_not_there_are_refused() {
        let topology = Topology::parse("interdomain:stubs=1").unwrap();
        let refused = |link: &str| PlannedMultihoming::of(&workload(link), &topology).unwrap_err();
        assert_eq!(refused("x"), "workload: there is no link x");
        assert_eq!(refused("t1-a"), "workload: t1-a is no access link of a stub");
        let lan = Topology::parse("lan:clients=1").unwrap();
        assert!(PlannedMultihoming::of(&workload("x"), &lan).unwrap_err().contains("speak BGP"));
        let nobody = Multihoming { inside: "nobody".into(), ..workload("a-stub") };
        assert!(PlannedMultihoming::of(&nobody, &topology).unwrap_err().contains("no host nobody"));
    }
}
