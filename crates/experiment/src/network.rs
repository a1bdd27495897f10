//! A network of an experiment, read and understood before it is built.

use std::{net::IpAddr, num::NonZeroU32};

use treecast_driver::words::counted;

use super::{
    Error,
    file::{Network as Description, Share},
    plan::Facts,
};
use treecast_lab::{Quality, Role, Topology};

/// The rate that links without one are taken to have, for estimates.
const UNLIMITED_BPS: u64 = 10_000_000_000;

/// The topology that a description asks for, its loss applied.
pub fn topology(description: &Description) -> Result<Topology, Error> {
    let refused = |what| Error::Network { name: description.name.clone(), what };
    let mut topology = Topology::parse(&description.topology).map_err(|error| refused(error.to_string()))?;
    for (role, what) in [(Role::Server, "server"), (Role::Client, "client")] {
        if topology.count(role) == 0 {
            return Err(refused(format!("{} has no {what}", description.topology)));
        }
    }
    degrade(description, &mut topology);
    Ok(topology)
}

fn degrade(description: &Description, topology: &mut Topology) {
    for loss in &description.loss {
        impair(topology, loss.every, loss.share, |quality| quality.loss = loss.rate.0);
    }
    for link in &description.links {
        impair(topology, link.every, link.share, |quality| quality.rate_bps = Some(link.rate.0));
    }
}

fn impair(
    topology: &mut Topology,
    every: NonZeroU32,
    share: Option<Share>,
    mut change: impl FnMut(&mut Quality),
) {
    let chosen = chosen(every, share, with_role(topology, Role::Client).collect());
    let members = topology.networks.iter_mut().flat_map(|network| &mut network.members);
    members.filter(|member| chosen.contains(&member.node)).for_each(|member| change(&mut member.quality));
}

/// What makes cables worse than their rate, and at how many nodes, such as `5% loss at 20 nodes`.
pub fn impairments(topology: &Topology) -> Vec<String> {
    let mut found: Vec<(String, usize)> = Vec::new();
    let members = topology.networks.iter().flat_map(|network| &network.members);
    for impairment in members.filter_map(|member| impairment(&member.quality)) {
        match found.iter_mut().find(|(known, _)| *known == impairment) {
            Some((_, count)) => *count += 1,
            None => found.push((impairment, 1)),
        }
    }
    let told = |(what, count)| format!("{what} at {}", counted(count, "node"));
    found.into_iter().map(told).collect()
}

fn impairment(quality: &Quality) -> Option<String> {
    let mut words = Vec::new();
    if !quality.loss.is_none() {
        words.push(format!("{} loss", quality.loss));
    }
    match (quality.is_delayed(), quality.jitter.is_zero()) {
        (false, _) => {}
        (true, true) => words.push(format!("{:?} delay", quality.delay)),
        (true, false) => words.push(format!("{:?} ± {:?} delay", quality.delay, quality.jitter)),
    }
    Some(words.join(" and ")).filter(|words| !words.is_empty())
}

/// Every so many of the clients, or a share of them.
fn chosen(every: NonZeroU32, share: Option<Share>, clients: Vec<usize>) -> Vec<usize> {
    let Some(Share(share)) = share else {
        return clients.into_iter().step_by(every.get() as usize).collect();
    };
    let before = |count: usize| (count as f64 * share + 1e-9).floor();
    let chosen = clients.into_iter().enumerate().filter(|(index, _)| before(index + 1) > before(*index));
    chosen.map(|(_, client)| client).collect()
}

/// The clients that lose packets, and the most that one of them loses, from 0 to 1.
pub fn slow_clients(topology: &Topology) -> (Vec<String>, f64) {
    let is_slow = |node: &usize| {
        let members = topology.networks.iter().flat_map(|network| &network.members);
        members.filter(|member| member.node == *node).any(|member| !member.quality.loss.is_none())
    };
    let slow: Vec<usize> = with_role(topology, Role::Client).filter(is_slow).collect();
    let members = topology.networks.iter().flat_map(|network| &network.members);
    let losses =
        members.filter(|member| slow.contains(&member.node)).map(|member| member.quality.loss.mean());
    let most = losses.fold(0.0, f64::max);
    (slow.into_iter().map(|node| topology.nodes[node].name.clone()).collect(), most)
}

/// The rate of the server's own link.
pub fn server_rate_bps(topology: &Topology) -> Option<u64> {
    let server = with_role(topology, Role::Server).next()?;
    let members = topology.networks.iter().flat_map(|network| &network.members);
    members.filter(|member| member.node == server).find_map(|member| member.quality.rate_bps)
}

/// What the plan needs to know of a network in which is sent at that rate. A rival's receivers get copies, too.
pub fn facts(topology: &Topology, sending_rate_bps: Option<u64>) -> Facts {
    let members = topology.networks.iter().flat_map(|network| &network.members);
    let losses = members.filter(|member| topology.nodes[member.node].role == Role::Client);
    Facts {
        clients: topology.count(Role::Client),
        link_rate_bps: link_rate_bps(topology).unwrap_or(UNLIMITED_BPS),
        sending_rate_bps,
        losses: losses.map(|member| member.quality.loss.mean()).collect(),
    }
}

/// The rate of the slowest link, Ethernet frames with their headers.
pub fn link_rate_bps(topology: &Topology) -> Option<u64> {
    let members = topology.networks.iter().flat_map(|network| &network.members);
    members.filter_map(|member| member.quality.rate_bps).min()
}

/// The nodes of a role, by index, in the topology's order.
pub fn with_role(topology: &Topology, role: Role) -> impl Iterator<Item = usize> {
    topology.nodes.iter().enumerate().filter(move |(_, node)| node.role == role).map(|(index, _)| index)
}

/// The first interface of a node and its addresses.
pub fn attachment(topology: &Topology, node: usize) -> Option<Attachment> {
    let member = topology.networks.iter().flat_map(|network| &network.members).find(|m| m.node == node)?;
    Some(Attachment { interface: member.interface.clone(), address: member.v6.into() })
}

/// Where a node meets the network.
#[derive(Debug, Clone)]
pub struct Attachment {
    pub interface: String,
    pub address: IpAddr,
}

/// How many routers a packet crosses from the first server to the first client.
pub fn router_levels(topology: &Topology) -> u32 {
    let (Some(server), Some(client)) =
        (with_role(topology, Role::Server).next(), with_role(topology, Role::Client).next())
    else {
        return 0;
    };
    let mut reached = vec![server];
    let mut networks_crossed = 0;
    while !reached.contains(&client) && networks_crossed < topology.nodes.len() as u32 {
        let next: Vec<usize> = neighbours(topology, &reached).collect();
        reached.extend(next);
        networks_crossed += 1;
    }
    networks_crossed.saturating_sub(1)
}

fn neighbours<'a>(topology: &'a Topology, nodes: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
    let touched = move |network: &&treecast_lab::Network| {
        network.members.iter().any(|member| nodes.contains(&member.node))
    };
    let members = topology.networks.iter().filter(touched).flat_map(|network| &network.members);
    members.map(|member| member.node).filter(move |node| !nodes.contains(node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use treecast_lab::Loss;

    fn network(spec: &str, loss: &str) -> Topology {
        let text = format!("name = \"n\"\ntopology = \"{spec}\"\n{loss}");
        topology(&toml::from_str(&text).unwrap()).unwrap()
    }

    #[test]
    fn the_papers_tree_has_three_routers_on_every_way() {
        let tree = network("tree:levels=3,clients=5", "");
        assert_eq!(router_levels(&tree), 3);
        assert_eq!(facts(&tree, None).clients, 20);
        assert_eq!(router_levels(&network("lan:clients=2", "")), 0);
    }

    #[test]
    fn every_third_client_loses_and_nobody_else() {
        let lan = network("lan:clients=7", "loss = [{ rate = \"5%\" }, { rate = \"20%\", every = 3 }]");
        let members = lan.networks.iter().flat_map(|network| &network.members);
        let losing: Vec<&str> = members
            .filter(|member| member.quality.loss == Loss::Uniform(0.2))
            .map(|member| lan.nodes[member.node].name.as_str())
            .collect();
        assert_eq!(losing, ["client0", "client3", "client6"]);
        assert_eq!(impairments(&lan), ["20% loss at 3 nodes", "5% loss at 4 nodes"]);
    }

    #[test]
    fn a_share_of_the_clients_loses_evenly_among_them() {
        let lan = network("lan:clients=30", "loss = [{ rate = \"5%\", share = \"40%\" }]");
        let (slow, loss) = slow_clients(&lan);
        assert_eq!((slow.len(), loss), (12, 0.05));
        assert_eq!(slow[..3], ["client2", "client4", "client7"]);
        assert_eq!(slow_clients(&network("lan:clients=3", "")), (Vec::new(), 0.0));
    }

    #[test]
    fn every_fourth_client_has_a_slow_link() {
        let lan = network("lan:clients=6,rate=50M", "links = [{ rate = \"5M\", every = 4 }]");
        let members = lan.networks.iter().flat_map(|network| &network.members);
        let slow = members.filter(|member| member.quality.rate_bps == Some(5_000_000));
        let slow: Vec<&str> = slow.map(|member| lan.nodes[member.node].name.as_str()).collect();
        assert_eq!((slow, link_rate_bps(&lan)), (vec!["client0", "client4"], Some(5_000_000)));
    }

    #[test]
    fn a_network_tells_its_delay() {
        let lan = network("lan:clients=2,delay=10ms,jitter=2ms,loss=1%", "");
        assert_eq!(impairments(&lan), ["1% loss and 10ms ± 2ms delay at 2 nodes"]);
        assert!(impairments(&network("lan:clients=2,rate=1G", "")).is_empty());
    }
}
