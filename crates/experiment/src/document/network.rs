//! Reads the description of a network in an experiment file, and checks it before the network is built.

use std::{net::IpAddr, num::NonZeroU32};

use serde::Deserialize;
use treecast_driver::words::counted;
use treecast_lab::{
    Loss, Quality, Role, Routing, Topology,
    quantity::{Rate, Share, Time},
};

use super::{
    rate::SendRate,
    several::Several,
    sharing::{Change, Rival, RivalKind, Sharing},
};
use crate::Error;

/// One network of the experiment.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    pub name: String,
    /// The topology, as `treecast lab up` takes it.
    pub topology: String,
    /// The rate of every link. `None` for what the topology says.
    pub link_rate: Option<Rate>,
    /// The routing protocol that decides where packets go.
    pub routing: Option<Routing>,
    /// The rate at which senders send here, in place of the experiment's rate.
    pub rate: Option<SendRate>,
    /// The loss at some of the clients. When several entries name the same client, the last one counts.
    #[serde(default)]
    pub loss: Vec<ClientLoss>,
    /// The number of receivers for which the topology's only client stands. The simulator alone has so many.
    pub crowd: Option<u32>,
    /// The clients whose links are slower than the topology says. When several entries name the same client,
    /// the last one counts.
    #[serde(default)]
    pub links: Vec<ClientLink>,
    /// The links whose load is kept second by second.
    #[serde(default)]
    pub watch: Vec<String>,
    /// A client whose program is stopped for a while.
    pub stopped: Option<Stopped>,
    /// The names of the deliveries that are run here. `None` for all.
    pub deliveries: Option<Vec<String>>,
    /// Whether switches send a group only to its listeners. `None`: they do.
    pub snooping: Option<bool>,
    /// The version of MLD that hosts speak, 1 or 2. `None`: the one of their querier.
    pub mld: Option<u8>,
    /// How simulated routers and switches know where packets to groups go. A lab always has MLD.
    #[serde(default)]
    pub multicast: Multicast,
    /// Other flows on the shared link, which compete with the first.
    #[serde(default, rename = "rival", deserialize_with = "Several::read")]
    pub rivals: Vec<Rival>,
    /// The changes of the shared link's rate during a run.
    #[serde(default)]
    pub changes: Vec<Change>,
}

/// How simulated routers and switches know where packets to groups go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Multicast {
    /// Packets follow the shortest paths to all members, without a protocol.
    #[default]
    Tree,
    /// Hosts, switches and routers speak MLD, as in a lab.
    Mld,
}

/// A client whose program is stopped (SIGSTOP) and continued later. The time that it needs is filed as
/// `stopped_time`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stopped {
    /// The client's number, from 0.
    pub client: usize,
    /// The time from the clients' start.
    pub after: Time,
    pub lasts: Time,
}

/// The rate of the links of every `every`-th client, or of a `share` of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientLink {
    pub rate: Rate,
    #[serde(default = "one")]
    pub every: NonZeroU32,
    /// The percentage of the clients that this applies to, spread evenly among them.
    pub share: Option<Share>,
}

/// The loss of packets to every `every`-th client, or to a `share` of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientLoss {
    pub rate: LossRate,
    #[serde(default = "one")]
    pub every: NonZeroU32,
    /// The percentage of the clients that this applies to, spread evenly among them.
    pub share: Option<Share>,
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// Loss as a topology writes it: `5%`, or `gilbert:1%:25%`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub struct LossRate(pub Loss);

impl TryFrom<String> for LossRate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Loss::parse(&text).map(Self).map_err(|expected| format!("loss `{text}`: expected {expected}"))
    }
}

impl Network {
    /// Returns the topology with its links as slow and lossy as this network describes them.
    pub fn build(&self) -> Result<Topology, Error> {
        topology(self)
    }

    /// Whether this network runs a delivery of the experiment.
    pub fn runs(&self, delivery: &str) -> bool {
        self.deliveries.as_ref().is_none_or(|only| only.iter().any(|name| name == delivery))
    }

    /// Returns the network's loss and delay in words, and at how many nodes; empty when there is neither.
    pub fn impairments(&self) -> Result<Vec<String>, Error> {
        Ok(impairments(&self.build()?))
    }

    /// Refuses a name that no lab can have.
    pub fn check(&self) -> Result<(), String> {
        let name = &self.name;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if name.is_empty() || name.len() > 32 || !name.bytes().all(plain) {
            return Err(format!("network name `{name}`: expected 1 to 32 letters, digits and `-`"));
        }
        if let Some(version) = self.mld.filter(|version| !(1..=2).contains(version)) {
            return Err(format!("network `{name}`: mld is {version}: expected 1 or 2"));
        }
        if let Some(crowd) = self.crowd.filter(|crowd| !(1..=MAX_CROWD).contains(crowd)) {
            return Err(format!("network `{name}`: crowd is {crowd}: expected 1 to {MAX_CROWD} receivers"));
        }
        Ok(())
    }

    /// Refuses a rival or changes of rate when no link is shared, or when they would come after its time.
    pub fn check_sharing(&self, sharing: Option<&Sharing>) -> Result<(), String> {
        let name = &self.name;
        let Some(sharing) = sharing else {
            let advice = "take a workload of kind \"shared\"";
            return match (self.rivals.is_empty(), self.changes.is_empty()) {
                (true, true) => Ok(()),
                (false, _) => Err(format!("network `{name}` has a rival, but no link to share: {advice}")),
                (true, false) => {
                    Err(format!("network `{name}` has changes, but no link to change: {advice}"))
                }
            };
        };
        if let Some(stopped) = &self.stopped {
            return Err(format!(
                "network `{name}`: client {} cannot be stopped while a link is shared",
                stopped.client
            ));
        }
        if self.rivals.iter().any(|rival| rival.kind == RivalKind::Session && rival.congestion.is_some()) {
            return Err(format!("network `{name}`: a rival session has no congestion: leave it out"));
        }
        if let Some(late) = self.changes.iter().find(|change| change.after >= sharing.lasts) {
            return Err(format!("network `{name}`: a change after {:?} comes after the end", late.after.0));
        }
        if !self.changes.is_sorted_by(|one, next| one.after < next.after) {
            return Err(format!("network `{name}`: changes must be in the order of their times"));
        }
        Ok(())
    }
}

/// The most receivers of a crowd: more than the memory of a large machine holds.
const MAX_CROWD: u32 = 10_000_000;

/// The rate that links without one are taken to have, for estimates.
const UNLIMITED_BPS: u64 = 10_000_000_000;

/// The topology that a description asks for, its loss applied.
fn topology(description: &Network) -> Result<Topology, Error> {
    let refused = |what| Error::Network { name: description.name.clone(), what };
    let mut topology = Topology::parse(&description.topology).map_err(|error| refused(error.to_string()))?;
    degrade(description, &mut topology);
    Ok(topology)
}

fn degrade(description: &Network, topology: &mut Topology) {
    if let Some(rate) = description.link_rate {
        topology.members_mut().for_each(|member| member.quality.rate_bps = Some(rate.0));
    }
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
    topology
        .members_mut()
        .filter(|member| chosen.contains(&member.node))
        .for_each(|member| change(&mut member.quality));
}

/// Returns what makes links worse than their rate, and at how many nodes, such as `5% loss at 20 nodes`.
pub fn impairments(topology: &Topology) -> Vec<String> {
    let mut found: Vec<(String, usize)> = Vec::new();
    for impairment in topology.members().filter_map(|member| impairment(&member.quality)) {
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

/// Returns the clients that lose packets, and the largest share that one of them loses, from 0 to 1.
pub fn slow_clients(topology: &Topology) -> (Vec<String>, f64) {
    let is_slow = |node: &usize| {
        topology.members().filter(|member| member.node == *node).any(|member| !member.quality.loss.is_none())
    };
    let slow: Vec<usize> = with_role(topology, Role::Client).filter(is_slow).collect();
    let losses = topology
        .members()
        .filter(|member| slow.contains(&member.node))
        .map(|member| member.quality.loss.mean());
    let most = losses.fold(0.0, f64::max);
    (slow.into_iter().map(|node| topology.nodes[node].name.clone()).collect(), most)
}

/// Returns the rate of the server's own link in bits a second.
pub fn server_rate_bps(topology: &Topology) -> Option<u64> {
    let server = with_role(topology, Role::Server).next()?;
    topology.members().filter(|member| member.node == server).find_map(|member| member.quality.rate_bps)
}

/// The facts about a network that a plan needs. Receivers of a rival flow get copies, too.
#[derive(Debug, Clone)]
pub struct Facts {
    pub clients: usize,
    /// The rate of the slowest link, in bits a second.
    pub link_rate_bps: u64,
    /// The share of packets that each client loses, from 0 to 1.
    pub losses: Vec<f64>,
}

impl Facts {
    pub fn of(topology: &Topology) -> Self {
        let losses = topology.members().filter(|member| topology.nodes[member.node].role == Role::Client);
        Self {
            clients: topology.count(Role::Client),
            link_rate_bps: link_rate_bps(topology).unwrap_or(UNLIMITED_BPS),
            losses: losses.map(|member| member.quality.loss.mean()).collect(),
        }
    }

    /// Returns the largest share of packets that a client loses.
    pub fn most_lost(&self) -> f64 {
        self.losses.iter().copied().fold(0.0, f64::max)
    }
}

/// Returns the rate of the slowest link in bits a second of Ethernet frames, headers included.
pub fn link_rate_bps(topology: &Topology) -> Option<u64> {
    topology.members().filter_map(|member| member.quality.rate_bps).min()
}

/// Iterates over the nodes of a role, by index, in the order of the topology.
pub fn with_role(topology: &Topology, role: Role) -> impl Iterator<Item = usize> {
    topology.nodes.iter().enumerate().filter(move |(_, node)| node.role == role).map(|(index, _)| index)
}

/// Returns the first interface of a node and its addresses.
pub fn attachment(topology: &Topology, node: usize) -> Option<Attachment> {
    let member = topology.members().find(|m| m.node == node)?;
    Some(Attachment { interface: member.interface.clone(), address: member.v6.into() })
}

/// The interface and the addresses by which a node is connected to the network.
#[derive(Debug, Clone)]
pub struct Attachment {
    pub interface: String,
    pub address: IpAddr,
}

/// Returns how many routers a packet crosses from the first server to the first client.
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

    fn network(spec: &str, loss: &str) -> Topology {
        let text = format!("name = \"n\"\ntopology = \"{spec}\"\n{loss}");
        topology(&toml::from_str(&text).unwrap()).unwrap()
    }

    #[test]
    fn the_papers_tree_has_three_routers_on_every_way() {
        let tree = network("tree:levels=3,clients=5", "");
        assert_eq!(router_levels(&tree), 3);
        assert_eq!(Facts::of(&tree).clients, 20);
        assert_eq!(router_levels(&network("lan:clients=2", "")), 0);
    }

    #[test]
    fn every_third_client_loses_and_nobody_else() {
        let lan = network("lan:clients=7", "loss = [{ rate = \"5%\" }, { rate = \"20%\", every = 3 }]");
        let losing: Vec<&str> = lan
            .members()
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
        let slow = lan.members().filter(|member| member.quality.rate_bps == Some(5_000_000));
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
