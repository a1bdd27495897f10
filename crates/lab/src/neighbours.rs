//! Link addresses that nodes are given, so that they need not ask for them.
//!
//! The kernel keeps at most 1,024 learnt neighbours (`gc_thresh3`) for all namespaces together, and only the
//! host's administrator may raise that. Permanent entries are not counted. So nodes on LANs that are too large
//! for the limit get permanent entries.
//!
//! A lab in which packets are lost gets them, too. A lost answer is asked for again after a second (RFC 4861, 10), so that
//! among ten clients with 20 % loss, the first run in a network would measure that second, and later runs would not.

use std::collections::HashMap;

use treecast_host::netlink::{Batch, requests};

use crate::plan::{Interface, LabNode, Plan};
use crate::topology::Role;

/// The number of learnt neighbours up to which nothing is done: half the limit, because there may be another
/// lab, and link-local addresses are neighbours, too.
const MAX_LEARNT: usize = 512;

/// The members of the LANs whose nodes need permanent entries.
pub(crate) struct Neighbours<'a> {
    lans: HashMap<&'a str, Lan<'a>>,
}

/// The number of clients on a LAN above which they speak only with servers and routers. Entries for all pairs
/// of clients would be too many.
const MAX_PEERS: usize = 64;

/// A LAN. Clients speak with servers and routers, and on smaller LANs also with each other.
#[derive(Default)]
struct Lan<'a> {
    clients: Vec<&'a Interface>,
    others: Vec<&'a Interface>,
}

impl<'a> Neighbours<'a> {
    pub fn of(plan: &'a Plan) -> Self {
        let mut lans: HashMap<&str, Lan> = HashMap::new();
        for node in &plan.nodes {
            for interface in &node.interfaces {
                let lan = lans.entry(&interface.network).or_default();
                let side = if node.role == Role::Client { &mut lan.clients } else { &mut lan.others };
                side.push(interface);
            }
        }
        let learnt: usize = lans.values().map(Lan::pairs).sum();
        let loses =
            plan.nodes.iter().flat_map(|node| &node.interfaces).any(|one| !one.quality.loss.is_none());
        if learnt <= MAX_LEARNT && !loses {
            lans.clear();
        }
        Self { lans }
    }

    /// Gives `node` the link addresses of its peers.
    pub fn add(&self, batch: &mut Batch, node: &LabNode) {
        for interface in &node.interfaces {
            let Some(lan) = self.lans.get(interface.network.as_str()) else { continue };
            let are_peers = node.role != Role::Client || lan.clients.len() <= MAX_PEERS;
            let clients = lan.clients.iter().filter(|_| are_peers);
            for other in clients.chain(&lan.others).filter(|other| other.index != interface.index) {
                for (address, _) in other.addresses() {
                    requests::set_address_permanent(batch, interface.index, address, other.mac);
                }
            }
        }
    }
}

impl Lan<'_> {
    /// The number of entries of all members together.
    fn pairs(&self) -> usize {
        let (clients, others) = (self.clients.len(), self.others.len());
        let peers = if clients <= MAX_PEERS { clients * clients.saturating_sub(1) } else { 0 };
        peers + 2 * clients * others + others * others.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Delaying;
    use crate::topology::Topology;

    #[test]
    fn a_lab_is_told_if_it_loses_packets_or_is_too_large_for_the_kernels_table() {
        let told = |spec| {
            !Neighbours::of(&Plan::of("x", &Topology::parse(spec).unwrap(), Delaying::Netem)).lans.is_empty()
        };
        assert!(!told("lan:clients=20") && !told("tree:levels=3,clients=10"));
        assert!(told("lan:clients=300") && told("lan:clients=2,loss=1%"));
        // Not for its router: each may speak with all others.
        assert!(told("tree:levels=3,clients=50"));
    }
}
