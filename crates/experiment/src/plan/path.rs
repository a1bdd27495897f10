//! Finds the path that all flows take: the link that they share, and where each flow is counted after it.

use std::time::Duration;

use treecast_driver::words::counted;
use treecast_lab::{Loss, Member, Network, Quality, Role, Topology};

use crate::document::{
    network::Network as Description,
    sharing::{RIVAL, Sharing},
};

/// The shared link, seen from the senders towards the receivers.
#[derive(Debug, Clone)]
pub struct SharedPath {
    /// The interfaces at the two ends of the link, as (index of the node, name). All flows wait in front of the
    /// first one.
    pub ends: [(usize, String); 2],
    /// The interface by which each flow goes on after the link.
    pub flows: Vec<(usize, String)>,
    pub quality: Quality,
    /// The random loss of packets to receivers on the link.
    pub loss: Loss,
    /// The round trip of a packet that waits nowhere.
    pub round_trip: Duration,
}

/// Changes a topology as an experiment with a shared link wants it: its queue drops single packets, as a router's does, and is
/// as long as asked for.
pub fn prepare(topology: &mut Topology, sharing: &Sharing) {
    for network in &mut topology.networks {
        for member in &mut network.members {
            member.quality.single_packets = true;
            if let (true, Some(queue)) = (network.name == sharing.link, sharing.queue) {
                member.quality.queue_bytes = Some(queue.0);
            }
        }
    }
}

impl SharedPath {
    /// Finds the way. An error says what is missing.
    pub fn of(topology: &Topology, sharing: &Sharing, description: &Description) -> Result<Self, String> {
        let name = &sharing.link;
        let link = topology.networks.iter().find(|network| network.name == *name);
        let link = link.ok_or_else(|| format!("it has no link `{name}` to share"))?;
        let [a, b] = &link.members[..] else {
            return Err(format!("`{name}` does not join two nodes, but more"));
        };
        let is_client = |node: usize| topology.nodes[node].role == Role::Client;
        let is_rival = |node: usize| topology.nodes[node].name.starts_with(RIVAL);
        let with = |wanted: &dyn Fn(usize) -> bool| {
            topology.networks.iter().find(|network| network.members.iter().any(|member| wanted(member.node)))
        };
        let count = description.rivals.len();
        let clients = with(&|node| is_client(node) && !(count > 0 && is_rival(node)));
        let clients = clients.ok_or("it has no client")?;
        let is_behind = |member: &Member| clients.members.iter().any(|of| of.node == member.node);
        let (near, far) = match (is_behind(a), is_behind(b)) {
            (false, true) => (a, b),
            (true, false) => (b, a),
            _ => return Err(format!("the clients are not behind one end of `{name}`, next to it")),
        };
        let mut flows = vec![interface(clients, far)?];
        let lans: Vec<&Network> = rivals(topology).map(|(lan, _)| lan).collect();
        if count > lans.len() {
            let lacking = match lans.len() {
                0 => format!("no client whose name begins with `{RIVAL}`"),
                found => format!("{found} of the LANs with a client whose name begins with `{RIVAL}`"),
            };
            return Err(format!("it has {}, but {lacking}", counted(count, "rival")));
        }
        if let Some(both) = lans[..count].iter().find(|lan| lan.name == clients.name) {
            return Err(format!(
                "clients and rivals are on `{}` together, where nobody can tell them apart",
                both.name
            ));
        }
        if topology.count(Role::Server) <= count {
            return Err(format!("it has {}, but no server for each of them", counted(count, "rival")));
        }
        for lan in &lans[..count] {
            flows.push(interface(lan, far)?);
        }
        let quality = near.quality.clone();
        if quality.rate_bps.is_none() {
            return Err(format!("`{name}` has no rate: nobody has to share it"));
        }
        let round_trip = quality.delay + far.quality.delay;
        let ends = [near, far].map(|member| (member.node, member.interface.clone()));
        Ok(Self { ends, flows, quality, loss: far.quality.loss, round_trip })
    }
}

/// Returns the LANs of rivals, each with the names of its rivals. Each is for a flow of its own.
pub fn rivals(topology: &Topology) -> impl Iterator<Item = (&Network, Vec<String>)> {
    let of = |network: &Network| {
        let members = network.members.iter().map(|member| &topology.nodes[member.node]);
        let rivals = members.filter(|node| node.role == Role::Client && node.name.starts_with(RIVAL));
        rivals.map(|node| node.name.clone()).collect::<Vec<_>>()
    };
    let with_rivals = topology.networks.iter().map(move |network| (network, of(network)));
    with_rivals.filter(|(_, rivals)| !rivals.is_empty())
}

fn interface(network: &Network, far: &Member) -> Result<(usize, String), String> {
    let member = network.members.iter().find(|member| member.node == far.node);
    let member = member.ok_or_else(|| format!("`{}` is not next to the shared link", network.name))?;
    Ok((member.node, member.interface.clone()))
}

#[cfg(test)]
mod tests {
    use treecast_lab::quantity::{Size, Time};

    use super::*;
    use crate::document::sharing::Congestion;

    fn path(spec: &str, rival: &str, link: &str) -> Result<SharedPath, String> {
        let text = format!("name = \"n\"\ntopology = \"{spec}\"\n{rival}");
        let sharing = Sharing {
            link: link.into(),
            lasts: Time(Duration::from_secs(10)),
            queue: Some(Size(250_000)),
            congestion: Congestion("cubic".into()),
        };
        let mut topology = Topology::parse(spec).unwrap();
        prepare(&mut topology, &sharing);
        SharedPath::of(&topology, &sharing, &toml::from_str(&text).unwrap())
    }

    #[test]
    fn flows_are_counted_behind_the_link_each_by_itself() {
        let spec = "shared:clients=5,rivals=2,rate=50M,delay=20ms";
        let path = path(spec, "rival = { kind = \"session\" }", "shared").unwrap();
        let topology = Topology::parse(spec).unwrap();
        let name =
            |(node, interface): &(usize, String)| format!("{}.{interface}", topology.nodes[*node].name);
        assert_eq!(path.ends.each_ref().map(name), ["router0.if1", "router1.if2"]);
        assert_eq!(path.flows.iter().map(name).collect::<Vec<_>>(), ["router1.if1", "router1.if3"]);
        assert_eq!((path.round_trip, path.quality.queue_bytes()), (Duration::from_millis(40), 250_000));
        assert!(path.quality.single_packets);
    }

    #[test]
    fn what_cannot_be_shared_is_told() {
        let refused = |spec, rival, link| path(spec, rival, link).unwrap_err();
        let rival = "rival = { kind = \"tcp\" }";
        assert_eq!(refused("shared:clients=1,rate=50M", "", "up"), "it has no link `up` to share");
        assert_eq!(
            refused("shared:clients=1,rate=50M", rival, "shared"),
            "it has 1 rival, but no client whose name begins with `rival`"
        );
        let two = "rival = [{ kind = \"tcp\" }, { kind = \"session\" }]";
        assert_eq!(
            refused("shared:clients=1,rivals=1,rate=50M", two, "shared"),
            "it has 2 rivals, but 1 of the LANs with a client whose name begins with `rival`"
        );
        let three = path("shared:clients=1,rivals=1+2,rate=50M", two, "shared").unwrap();
        let interfaces: Vec<_> = three.flows.iter().map(|(_, interface)| interface.as_str()).collect();
        assert_eq!(interfaces, ["if1", "if3", "if4"]);
        assert_eq!(refused("shared:clients=1", "", "shared"), "`shared` has no rate: nobody has to share it");
        assert_eq!(refused("lan:clients=5,rate=50M", "", "lan0"), "`lan0` does not join two nodes, but more");
    }
}
