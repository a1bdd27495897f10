//! The networks of librecast-updates-2022: a LAN (section 2), two LANs with a router between them
//! (section 3) and a tree of routers (section 4).

use super::draft::{Draft, DraftMember, DraftNetwork, DraftNode};
use super::error::SpecError;
use super::quality::parse_rate_bps;
use super::{Loss, NetworkKind, Quality, Role, Topology, Trunk};

const MAX_CLIENTS: usize = 4000;
const MAX_LEVELS: usize = 8;
const MAX_SERVERS: usize = 100;

/// The interface towards clients, and the one towards servers (A.2, figure 6).
const TOWARDS_CLIENTS: &str = "if1";
const TOWARDS_SERVERS: &str = "if2";

/// `lan:clients=20`: servers and clients on one LAN; the paper's `S1L20`.
pub(super) fn lan(keys: &Keys) -> Result<Topology, SpecError> {
    let size = Size::parse(keys, false)?;
    let mut draft = size.start(keys, format!("s{}l{}", size.servers, size.clients));
    let mut front = network("lan0");
    size.add_servers(&mut draft, &mut front);
    size.add_clients(&mut draft, &mut front);
    draft.networks.push(front);
    draft.finish()
}

/// `tree:levels=3,clients=5`: the paper's `S1R3L5`, a binary tree of routers with `clients` on each
/// of the 2^(levels-1) LANs at its leaves.
///
/// Routers are counted from the leftmost client LAN to the right, then one level up and so on
/// (A.5): with three levels, router 4 joins routers 0 and 1, and router 6 is the server's. Each has
/// two interfaces, so the routers below one share a LAN with it.
pub(super) fn tree(keys: &Keys) -> Result<Topology, SpecError> {
    let size = Size::parse(keys, true)?;
    let leaves = 1 << (size.levels - 1);
    if size.clients * leaves > MAX_CLIENTS {
        let message = format!("makes {} clients: at most {MAX_CLIENTS} were expected", size.clients * leaves);
        return Err(SpecError::new(keys.spec, None, message));
    }
    let mut draft = size.start(keys, format!("s{}r{}l{}", size.servers, size.levels, size.clients));
    let routers = 2 * leaves - 1;
    let mut up = network("up");
    size.add_servers(&mut draft, &mut up);
    draft.nodes.extend((0..routers).map(|n| node(format!("router{n}"), Role::Router)));
    up.members.push(size.router(routers - 1, TOWARDS_SERVERS));
    draft.networks.push(up);
    for router in 0..routers {
        let mut down = network(&format!("lan{router}"));
        down.members.push(size.router(router, TOWARDS_CLIENTS));
        down.members.extend(children(router, leaves).map(|child| size.router(child, TOWARDS_SERVERS)));
        if router < leaves {
            size.add_clients(&mut draft, &mut down);
        }
        draft.networks.push(down);
    }
    draft.finish()
}

/// `shared:clients=5,rivals=1+5,rate=50M`: a server for each flow in front of one link, `shared`, and behind it a LAN of
/// clients and two of rivals. Everything else is as fast as the machine, so that all packets wait in front of that link.
pub(super) fn shared(keys: &Keys) -> Result<Topology, SpecError> {
    let known = "clients, rivals, rate, queue, loss, delay, jitter, background, drop";
    let (mut clients, mut rivals, mut cable) = (None, vec![0], Quality::default());
    keys.each(known, |key, value| {
        Some(match key {
            "clients" => number(value, 1..=MAX_CLIENTS).map(|n| clients = Some(n)),
            "rivals" => {
                let each = value.split('+').map(|count| number(count, 0..=MAX_CLIENTS));
                each.collect::<Result<_, _>>().map(|counts| rivals = counts)
            }
            _ => return cable.set(key, value).map(|set| set.map_err(str::to_owned)),
        })
    })?;
    let clients = clients.ok_or_else(|| SpecError::new(keys.spec, None, "clients=N is missing"))?;
    let lans = rivals.iter().map(usize::to_string).collect::<Vec<_>>().join("-");
    let name = format!("shared{clients}-{lans}");
    let mut draft = Draft { file: keys.spec, name, nodes: Vec::new(), networks: Vec::new() };
    let member = |node: String, interface: &str| DraftMember::of(node, Quality::default()).on(interface);
    for server in 0..=rivals.len() {
        let interface = format!("if{}", server + 2);
        let mut up = DraftNetwork { kind: NetworkKind::Link, ..network(&format!("up{server}")) };
        up.members = vec![member(format!("server{server}"), "if1"), member("router0".into(), &interface)];
        draft.nodes.push(node(format!("server{server}"), Role::Server));
        draft.networks.push(up);
    }
    draft.nodes.extend((0..2).map(|router| node(format!("router{router}"), Role::Router)));
    let mut link = DraftNetwork { kind: NetworkKind::Link, ..network("shared") };
    let end = |router: &str, interface| DraftMember::of(router, cable.clone()).on(interface);
    link.members = vec![end("router0", TOWARDS_CLIENTS), end("router1", TOWARDS_SERVERS)];
    draft.networks.push(link);
    let mut behind = |lan: &str, hosts: Vec<String>, interface: &str| {
        let mut lan = network(lan);
        lan.members.push(member("router1".into(), interface));
        for host in hosts {
            lan.members.push(member(host.clone(), "if1"));
            draft.nodes.push(node(host, Role::Client));
        }
        draft.networks.push(lan);
    };
    behind("clients", (0..clients).map(|number| format!("client{number}")).collect(), TOWARDS_CLIENTS);
    let mut first = 0;
    for (lan, count) in (1..).zip(rivals).filter(|(_, count)| *count > 0) {
        let name = if lan == 1 { "rivals".to_owned() } else { format!("rivals{lan}") };
        let hosts = (first..first + count).map(|number| format!("rival{number}")).collect();
        behind(&name, hosts, &format!("if{}", lan + 2));
        first += count;
    }
    draft.finish()
}

/// `switches:clients=47+48,rate=200k`: a LAN with two switches, and a cable between them
/// (congested-multicast-2019, 3.1). All cables carry single packets, so a queue drops what a switch would drop.
pub(super) fn switches(keys: &Keys) -> Result<Topology, SpecError> {
    let known = "clients, rate, trunk-rate, queue, loss, delay, jitter, background, drop";
    let mut cable = Quality { single_packets: true, ..Quality::default() };
    let (mut counts, mut trunk_rate_bps) = (None, None);
    keys.each(known, |key, value| {
        Some(match key {
            "clients" => {
                let two = value
                    .split_once('+')
                    .ok_or_else(|| "the clients of both switches, like 47+48".to_owned());
                let count = |text| number(text, 1..=MAX_CLIENTS);
                two.and_then(|(first, second)| Ok((count(first)?, count(second)?)))
                    .map(|two| counts = Some(two))
            }
            "trunk-rate" => {
                parse_rate_bps(value).map(|rate| trunk_rate_bps = Some(rate)).map_err(str::to_owned)
            }
            _ => return cable.set(key, value).map(|set| set.map_err(str::to_owned)),
        })
    })?;
    let missing = || SpecError::new(keys.spec, None, "clients=N+N is missing");
    let (first, second) = counts.ok_or_else(missing)?;
    let name = format!("switches{first}-{second}");
    let mut draft = Draft { file: keys.spec, name, nodes: Vec::new(), networks: Vec::new() };
    let mut lan = network("lan0");
    for client in 0..first + second {
        let name = format!("client{client}");
        lan.members.push(DraftMember::of(name.clone(), cable.clone()));
        draft.nodes.push(node(name, Role::Client));
    }
    let quality = Quality { rate_bps: trunk_rate_bps.or(cable.rate_bps), loss: Loss::None, ..cable };
    lan.trunk = Some(Trunk { first, quality });
    draft.networks.push(lan);
    draft.finish()
}

/// The routers one level below `router`. None for routers on a client LAN.
fn children(router: usize, leaves: usize) -> std::ops::Range<usize> {
    match router.checked_sub(leaves) {
        None => 0..0,
        Some(inner) => 2 * inner..2 * inner + 2,
    }
}

/// The keys that both generators have.
struct Size {
    servers: usize,
    clients: usize,
    levels: usize,
    /// The quality of every cable except those of servers and clients.
    cable: Quality,
    /// The quality of the servers' cables, whose rate may differ.
    server_cable: Quality,
    /// The quality of the clients' cables. Only they have the loss and the delay.
    client_cable: Quality,
}

impl Size {
    fn parse(keys: &Keys, with_levels: bool) -> Result<Self, SpecError> {
        let known = if with_levels { "levels, clients, servers" } else { "clients, servers" };
        let known = format!("{known}, rate, server-rate, queue, loss, delay, jitter, background, drop");
        let (mut servers, mut clients, mut levels) = (1, None, None);
        let mut client_cable = Quality::default();
        let mut server_rate_bps = None;
        keys.each(&known, |key, value| {
            Some(match key {
                "servers" => number(value, 1..=MAX_SERVERS).map(|n| servers = n),
                "clients" => number(value, 1..=MAX_CLIENTS).map(|n| clients = Some(n)),
                "levels" if with_levels => number(value, 1..=MAX_LEVELS).map(|n| levels = Some(n)),
                "server-rate" => {
                    parse_rate_bps(value).map(|rate| server_rate_bps = Some(rate)).map_err(str::to_owned)
                }
                _ => return client_cable.set(key, value).map(|set| set.map_err(str::to_owned)),
            })
        })?;
        let missing = |key| SpecError::new(keys.spec, None, format!("{key}=N is missing"));
        let clients = clients.ok_or_else(|| missing("clients"))?;
        let levels = if with_levels { levels.ok_or_else(|| missing("levels"))? } else { 0 };
        let Quality { rate_bps, queue_bytes, .. } = client_cable;
        let cable = Quality { rate_bps, queue_bytes, ..Quality::default() };
        let server_cable = Quality { rate_bps: server_rate_bps.or(rate_bps), ..cable.clone() };
        Ok(Self { servers, clients, levels, cable, server_cable, client_cable })
    }

    fn start<'a>(&self, keys: &Keys<'a>, name: String) -> Draft<'a> {
        Draft { file: keys.spec, name, nodes: Vec::new(), networks: Vec::new() }
    }

    fn add_servers(&self, draft: &mut Draft, network: &mut DraftNetwork) {
        for server in 0..self.servers {
            let name = format!("server{server}");
            network.members.push(DraftMember::of(name.clone(), self.server_cable.clone()));
            draft.nodes.push(node(name, Role::Server));
        }
    }

    fn add_clients(&self, draft: &mut Draft, network: &mut DraftNetwork) {
        let first = draft.nodes.iter().filter(|node| node.role == Role::Client).count();
        for client in first..first + self.clients {
            let name = format!("client{client}");
            network.members.push(DraftMember::of(name.clone(), self.client_cable.clone()));
            draft.nodes.push(node(name, Role::Client));
        }
    }

    fn router(&self, number: usize, interface: &str) -> DraftMember {
        DraftMember::of(format!("router{number}"), self.cable.clone()).on(interface)
    }
}

pub(super) fn node(name: String, role: Role) -> DraftNode {
    DraftNode { name, role, loopback_v6: Vec::new(), line: None }
}

pub(super) fn network(name: &str) -> DraftNetwork {
    let (kind, v4, v6) = (NetworkKind::Lan, None, None);
    DraftNetwork { name: name.to_owned(), kind, v4, v6, members: Vec::new(), trunk: None, line: None }
}

/// The `key=value` list of a generator.
pub(super) struct Keys<'a> {
    pub spec: &'a str,
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Keys<'a> {
    pub fn parse(spec: &'a str, keys: &'a str) -> Result<Self, SpecError> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for pair in keys.split(',').filter(|pair| !pair.is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                let message = format!("{pair:?} is no key=value, such as clients=20");
                return Err(SpecError::new(spec, None, message));
            };
            if pairs.iter().any(|(known, _)| *known == key) {
                return Err(SpecError::new(spec, None, format!("{key} is given twice")));
            }
            pairs.push((key, value));
        }
        Ok(Self { spec, pairs })
    }

    /// Calls `accept` with every pair. It returns `None` if the key is unknown, and an error that says what was
    /// expected if the value is wrong.
    pub fn each(
        &self,
        known: &str,
        mut accept: impl FnMut(&str, &str) -> Option<Result<(), String>>,
    ) -> Result<(), SpecError> {
        for (key, value) in &self.pairs {
            let outcome = accept(key, value).unwrap_or_else(|| Err(String::new()));
            outcome.map_err(|expected| {
                let message = if expected.is_empty() {
                    format!("unknown key {key:?}: use {known}")
                } else {
                    format!("{key}={value}: expected {expected}")
                };
                SpecError::new(self.spec, None, message)
            })?;
        }
        Ok(())
    }
}

/// Parses a whole number within bounds. The error says what was expected.
pub(super) fn number(value: &str, range: std::ops::RangeInclusive<usize>) -> Result<usize, String> {
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("a number from {} to {}", range.start(), range.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(topology: &Topology, network: &str) -> Vec<String> {
        let network = topology.networks.iter().find(|n| n.name == network).expect(network);
        let name = |m: &super::super::Member| format!("{}.{}", topology.nodes[m.node].name, m.interface);
        network.members.iter().map(name).collect()
    }

    #[test]
    fn a_lan_has_its_server_first() {
        let topology = Topology::parse("lan:clients=20,rate=1G,loss=5%").unwrap();
        assert_eq!((topology.nodes.len(), topology.name.as_str()), (21, "s1l20"));
        assert_eq!(members(&topology, "lan0")[..2], ["server0.if1", "client0.if1"]);
        let [server, client, ..] = &topology.networks[0].members[..] else { panic!() };
        assert_eq!(
            (server.v4.to_string(), server.v6.to_string()),
            ("10.0.1.1".into(), "fd00:0:0:1::1".into())
        );
        assert_eq!(
            (client.v4.to_string(), client.v6.to_string()),
            ("10.0.1.2".into(), "fd00:0:0:1::2".into())
        );
        assert!(server.quality.loss.is_none() && !client.quality.loss.is_none());
        assert_eq!(server.quality.rate_bps, Some(1_000_000_000));
    }

    #[test]
    fn a_tree_is_numbered_as_in_the_paper() {
        let topology = Topology::parse("tree:levels=3,clients=5").unwrap();
        assert_eq!((topology.count(Role::Router), topology.count(Role::Client)), (7, 20));
        assert_eq!(members(&topology, "up"), ["server0.if1", "router6.if2"]);
        assert_eq!(members(&topology, "lan6"), ["router6.if1", "router4.if2", "router5.if2"]);
        assert_eq!(members(&topology, "lan4"), ["router4.if1", "router0.if2", "router1.if2"]);
        assert_eq!(members(&topology, "lan1")[..2], ["router1.if1", "client5.if1"]);
        assert_eq!(members(&topology, "lan3")[5], "client19.if1");
    }

    #[test]
    fn one_router_joins_two_lans() {
        let topology = Topology::parse("tree:levels=1,clients=20").unwrap();
        assert_eq!(members(&topology, "up"), ["server0.if1", "router0.if2"]);
        assert_eq!(members(&topology, "lan0").len(), 21);
    }

    #[test]
    fn clients_and_rivals_are_behind_one_link() {
        let topology = Topology::parse("shared:clients=2,rivals=1,rate=50M,delay=20ms").unwrap();
        assert_eq!(members(&topology, "shared"), ["router0.if1", "router1.if2"]);
        assert_eq!(members(&topology, "clients"), ["router1.if1", "client0.if1", "client1.if1"]);
        assert_eq!(members(&topology, "rivals"), ["router1.if3", "rival0.if1"]);
        let limited = |network: &crate::topology::Network| {
            network.members.iter().all(|member| member.quality.rate_bps.is_some())
        };
        let limited: Vec<&str> =
            topology.networks.iter().filter(|n| limited(n)).map(|n| n.name.as_str()).collect();
        assert_eq!(limited, ["shared"]);
        assert_eq!(Topology::parse("shared:clients=2").unwrap().networks.len(), 4);
        let three = Topology::parse("shared:clients=2,rivals=2+1,rate=50M").unwrap();
        assert_eq!(members(&three, "rivals"), ["router1.if3", "rival0.if1", "rival1.if1"]);
        assert_eq!(members(&three, "rivals2"), ["router1.if4", "rival2.if1"]);
        assert_eq!(members(&three, "up2"), ["server2.if1", "router0.if4"]);
        let refused = Topology::parse("shared:rivals=2").unwrap_err().to_string();
        assert_eq!(refused, "shared:rivals=2: clients=N is missing");
    }

    #[test]
    fn a_lan_may_have_two_switches() {
        let topology = Topology::parse("switches:clients=3+2,rate=200k,trunk-rate=1M,queue=4k").unwrap();
        let lan = &topology.networks[0];
        assert_eq!((lan.members_by_switch(), topology.nodes.len()), (vec![3, 2], 5));
        let trunk = lan.trunk.as_ref().unwrap();
        assert_eq!(
            (trunk.quality.rate_bps, lan.members[0].quality.rate_bps),
            (Some(1_000_000), Some(200_000))
        );
        assert!(trunk.quality.single_packets);
        let refused = |spec: &str| Topology::parse(spec).unwrap_err().to_string();
        assert_eq!(refused("switches:rate=1M"), "switches:rate=1M: clients=N+N is missing");
        assert!(refused("switches:clients=5").contains("the clients of both switches, like 47+48"));
    }

    #[test]
    fn a_generator_says_what_it_does_not_understand() {
        let refused = |spec: &str| Topology::parse(spec).unwrap_err().to_string();
        assert_eq!(refused("lan:"), "lan:: clients=N is missing");
        assert!(refused("lan:clients=0").contains("a number from 1 to"));
        assert!(refused("lan:levels=2").contains("unknown key \"levels\": use clients, servers"));
        assert!(refused("tree:levels=3,clients=5,levels=4").contains("levels is given twice"));
        assert!(refused("lan:clients=1,loss=5").contains("a percentage like 5%"));
        assert!(refused("tree:levels=8,clients=4000").contains("makes 512000 clients"));
        assert!(refused("lan:20").contains("no key=value"));
    }
}
