//! A small internet (interdomain-2013, figure 6.1): two tier-1 networks, four providers, and stubs with two providers each.

use std::net::Ipv6Addr;

use super::{
    NetworkKind, Quality, Role, Subnet, Topology,
    bgp::{Neighbour, Relation, Speaker},
    draft::{Draft, DraftMember, DraftNetwork},
    error::SpecError,
    generate::{Keys, network, node, number},
};

/// The most stubs. Each has a number in its provider's block.
const MAX_STUBS: usize = 100_000;

/// Prefixes of 36 bits under 2001:db8::/32, by the digit behind it. A host near `provider-d` shares more leading bits with
/// addresses of `provider-a` than with those of `provider-b`. So a stub's host that may choose takes its address of
/// `provider-a` (RFC 6724, rule 8 of section 5).
const TIER1: [(&str, u8); 2] = [("tier1-1", 0x1), ("tier1-2", 0x2)];
const PROVIDERS: [(&str, u8); 4] =
    [("provider-a", 0x4), ("provider-b", 0x8), ("provider-c", 0xc), ("provider-d", 0x6)];
/// The digit of prefixes that belong to stubs and to no provider.
const INDEPENDENT: u8 = 0xf;

/// The length of a provider's block in bits.
const BLOCK_LENGTH: u8 = 36;

/// The length of a stub's prefix in bits.
const STUB_LENGTH: u8 = 56;

/// Private AS numbers: a tier-1 network or provider by its digit, and stubs (RFC 6996).
const FIRST_AS: u32 = 64_512;
const STUB_AS: u32 = 64_600;

/// The origin of the addresses of stubs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Addressing {
    /// A share of each provider's block, which only this provider hears of (MAST).
    Provider,
    /// A prefix of the stub's own, which both providers hear of and pass on.
    Independent,
}

/// `interdomain:addressing=provider,stubs=10`: two tier-1 networks that exchange routes, two providers behind each, and stubs
/// with two providers. The first stub has hosts behind its router `gateway`. The others are prefixes that two routers announce,
/// one for each pair of providers. `far0` is a host of `provider-d`.
pub(super) fn parse(keys: &Keys) -> Result<Topology, SpecError> {
    let (mut addressing, mut stubs, mut cable) = (Addressing::Provider, 1, Quality::default());
    keys.each("addressing, stubs, rate, queue, delay", |key, value| {
        Some(match key {
            "addressing" => match value {
                "provider" => Ok(Addressing::Provider),
                "independent" => Ok(Addressing::Independent),
                _ => Err("provider or independent".to_owned()),
            }
            .map(|known| addressing = known),
            "stubs" => number(value, 1..=MAX_STUBS).map(|count| stubs = count),
            "rate" | "queue" | "delay" => {
                return cable.set(key, value).map(|set| set.map_err(str::to_owned));
            }
            _ => return None,
        })
    })?;
    let name = format!("interdomain{stubs}");
    let draft = Draft { file: keys.spec, name, nodes: Vec::new(), networks: Vec::new() };
    let mut plan = Internet { draft, cable, sessions: Vec::new() };
    plan.add_providers();
    plan.add_stub(addressing);
    plan.add_crowd(addressing, stubs);
    plan.finish()
}

/// A network under construction, and the sessions between customers and providers.
struct Internet<'a> {
    draft: Draft<'a>,
    cable: Quality,
    sessions: Vec<BgpSession>,
}

/// A BGP session between two routers, over the link with their names.
struct BgpSession {
    customer: String,
    other: String,
    /// The relation of the other network to the first one.
    relation: Relation,
    /// The prefixes that the first one announces to the other one only.
    announced: Vec<Subnet<Ipv6Addr>>,
}

impl Internet<'_> {
    fn add_providers(&mut self) {
        for (name, digit) in TIER1.iter().chain(&PROVIDERS) {
            let mut router = node((*name).to_owned(), Role::Router);
            router.loopback_v6.push(with_host(block(*digit)));
            self.draft.nodes.push(router);
        }
        self.join(TIER1[0].0, TIER1[1].0, Relation::Peer, Vec::new());
        for (number, (name, _)) in PROVIDERS.iter().enumerate() {
            self.join(name, TIER1[number / 2].0, Relation::Provider, Vec::new());
        }
    }

    /// The stub with hosts, and the host far away.
    fn add_stub(&mut self, addressing: Addressing) {
        let mut gateway = node("gateway".into(), Role::Router);
        let mut lan = network("stub");
        match addressing {
            Addressing::Provider => {
                gateway.loopback_v6.extend([share(0, 1), share(1, 1)].map(with_host));
            }
            Addressing::Independent => {
                let Subnet { base, .. } = independent(1);
                lan.v6 = Some(Subnet { base, length: 64 });
            }
        }
        self.draft.nodes.push(gateway);
        for (name, role) in [("server0", Role::Server), ("client0", Role::Client)] {
            self.draft.nodes.push(node(name.into(), role));
        }
        for (provider, (name, _)) in PROVIDERS.iter().enumerate().take(2) {
            let announced = match addressing {
                Addressing::Provider => vec![share(provider, 1)],
                Addressing::Independent => Vec::new(),
            };
            self.join("gateway", name, Relation::Provider, announced);
        }
        let member = |node: &str| DraftMember::of(node, Quality::default());
        lan.members = vec![member("gateway").on("stub"), member("server0"), member("client0")];
        let mut far = network("far");
        let (provider, digit) = PROVIDERS[3];
        far.v6 = Some(Subnet { base: Ipv6Addr::from(u128::from(block(digit).base) | 1 << 64), length: 64 });
        self.draft.nodes.push(node("far0".into(), Role::Client));
        far.members = vec![member(provider).on("far"), member("far0")];
        self.draft.networks.extend([lan, far]);
    }

    /// The other stubs: those with odd numbers have the first two providers, the others the last two.
    fn add_crowd(&mut self, addressing: Addressing, stubs: usize) {
        for (name, first) in [("stubs-cd", 2), ("stubs-ab", 0)] {
            let numbers: Vec<usize> =
                (2..=stubs).filter(|number| (number % 2 == 0) == (first == 2)).collect();
            if numbers.is_empty() {
                continue;
            }
            self.draft.nodes.push(node(name.into(), Role::Router));
            for provider in [first, first + 1] {
                let announced = numbers.iter().map(|number| match addressing {
                    Addressing::Provider => share(provider, *number),
                    Addressing::Independent => independent(*number),
                });
                self.join(name, PROVIDERS[provider].0, Relation::Provider, announced.collect());
            }
        }
    }

    /// Adds the link and the session between two routers. The link's interfaces have the names of the routers behind them.
    fn join(&mut self, customer: &str, other: &str, relation: Relation, announced: Vec<Subnet<Ipv6Addr>>) {
        let end = |node: &str, far: &str| DraftMember::of(node, self.cable.clone()).on(far);
        let members = vec![end(other, customer), end(customer, other)];
        let link = network(&link_name(other, customer));
        self.draft.networks.push(DraftNetwork { kind: NetworkKind::Link, members, ..link });
        let (customer, other) = (customer.to_owned(), other.to_owned());
        self.sessions.push(BgpSession { customer, other, relation, announced });
    }

    fn finish(self) -> Result<Topology, SpecError> {
        let mut topology = self.draft.finish()?;
        let index = |name: &str| topology.nodes.iter().position(|node| node.name == name).unwrap_or_default();
        let mut speakers: Vec<Speaker> = Vec::new();
        let mut add = |router: usize, neighbour: Neighbour| {
            let known = speakers.iter_mut().find(|speaker| speaker.router == router);
            match known {
                Some(speaker) => speaker.neighbours.push(neighbour),
                None => {
                    let (as_number, blocks) = owner(&topology, router);
                    let is_stub = !blocks.iter().any(|block| block.length == BLOCK_LENGTH);
                    let neighbours = vec![neighbour];
                    speakers.push(Speaker { router, as_number, blocks, neighbours, is_stub });
                }
            }
        };
        for BgpSession { customer, other, relation, announced } in self.sessions {
            let name = link_name(&other, &customer);
            let network =
                topology.networks.iter().position(|network| network.name == name).unwrap_or_default();
            let (customer, other) = (index(&customer), index(&other));
            let back = if relation == Relation::Peer { Relation::Peer } else { Relation::Customer };
            add(customer, Neighbour { network, router: other, relation, announced });
            add(other, Neighbour { network, router: customer, relation: back, announced: Vec::new() });
        }
        topology.bgp = speakers;
        Ok(topology)
    }
}

/// The AS number of a router, and the blocks that all neighbours hear of.
fn owner(topology: &Topology, router: usize) -> (u32, Vec<Subnet<Ipv6Addr>>) {
    let name = topology.nodes[router].name.as_str();
    let known = TIER1.iter().chain(&PROVIDERS).find(|(known, _)| *known == name);
    match (known, name) {
        (Some((_, digit)), _) => (FIRST_AS + u32::from(*digit), vec![block(*digit)]),
        // The first stub has either shares of its providers' blocks, or a prefix of its own, which is that of its network.
        (None, "gateway") if topology.nodes[router].loopback_v6.is_empty() => (STUB_AS, vec![independent(1)]),
        (None, "gateway") => (STUB_AS, Vec::new()),
        (None, "stubs-ab") => (STUB_AS + 1, Vec::new()),
        (None, _) => (STUB_AS + 2, Vec::new()),
    }
}

/// The name of a link. The kernel allows 15 letters for an interface, and so does the lab for a network.
fn link_name(other: &str, customer: &str) -> String {
    let short = |name: &str| name.replace("provider-", "").replace("tier1-", "t").replace("gateway", "stub");
    format!("{}-{}", short(other), short(customer))
}

/// The block of a provider: 36 bits.
fn block(digit: u8) -> Subnet<Ipv6Addr> {
    const DOCUMENTATION: u128 = 0x2001_0db8 << 96;
    Subnet { base: Ipv6Addr::from(DOCUMENTATION | u128::from(digit) << 92), length: BLOCK_LENGTH }
}

/// The prefix that a stub has of a provider's block.
fn share(provider: usize, stub: usize) -> Subnet<Ipv6Addr> {
    numbered(PROVIDERS[provider].1, stub)
}

fn independent(stub: usize) -> Subnet<Ipv6Addr> {
    numbered(INDEPENDENT, stub)
}

fn numbered(digit: u8, stub: usize) -> Subnet<Ipv6Addr> {
    let base = u128::from(block(digit).base) | (stub as u128) << (128 - STUB_LENGTH);
    Subnet { base: base.into(), length: STUB_LENGTH }
}

/// The first address of a prefix.
fn with_host(prefix: Subnet<Ipv6Addr>) -> Ipv6Addr {
    Ipv6Addr::from(u128::from(prefix.base) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(topology: &Topology, name: &str) -> Vec<String> {
        let speaker = topology.speaker(name).unwrap();
        let mut all: Vec<String> = speaker.announced().map(|prefix| prefix.to_string()).collect();
        all.sort();
        all
    }

    #[test]
    fn a_stub_has_a_share_of_each_providers_block_or_a_prefix_of_its_own() {
        let mast = Topology::parse("interdomain:addressing=provider").unwrap();
        assert_eq!(announced(&mast, "gateway"), ["2001:db8:4000:100::/56", "2001:db8:8000:100::/56"]);
        assert_eq!(announced(&mast, "provider-d"), ["2001:db8:6000::/36"]);
        // A provider without a customer is no stub.
        let stubs = mast.bgp.iter().filter(|speaker| !speaker.is_provider());
        assert_eq!(stubs.map(|stub| mast.nodes[stub.router].name.as_str()).collect::<Vec<_>>(), ["gateway"]);
        let plain = Topology::parse("interdomain:addressing=independent").unwrap();
        assert_eq!(announced(&plain, "gateway"), ["2001:db8:f000:100::/56"]);
        let stub = plain.networks.iter().find(|network| network.name == "stub").unwrap();
        assert_eq!(stub.v6.to_string(), "2001:db8:f000:100::/64");
    }

    #[test]
    fn every_stub_has_two_providers() {
        for addressing in ["provider", "independent"] {
            let spec = format!("interdomain:addressing={addressing},stubs=10");
            let topology = Topology::parse(&spec).unwrap();
            let [ab, cd] = ["stubs-ab", "stubs-cd"].map(|name| topology.speaker(name).unwrap());
            let counts = |speaker: &Speaker| {
                speaker.neighbours.iter().map(|neighbour| neighbour.announced.len()).collect::<Vec<_>>()
            };
            assert_eq!([counts(ab), counts(cd)], [[4, 4], [5, 5]]);
        }
        let refused = Topology::parse("interdomain:stubs=0").unwrap_err().to_string();
        assert!(refused.contains("stubs=0: expected a number from 1 to"), "{refused}");
    }

    #[test]
    fn routes_of_providers_and_peers_go_to_customers_only() {
        let topology = Topology::parse("interdomain:stubs=2").unwrap();
        let relations = |name: &str| {
            let neighbours = &topology.speaker(name).unwrap().neighbours;
            let told =
                |neighbour: &Neighbour| (topology.nodes[neighbour.router].name.clone(), neighbour.relation);
            neighbours.iter().map(told).collect::<Vec<_>>()
        };
        let expected = [
            ("tier1-2", Relation::Peer),
            ("provider-a", Relation::Customer),
            ("provider-b", Relation::Customer),
        ];
        assert_eq!(relations("tier1-1"), expected.map(|(name, relation)| (name.to_owned(), relation)));
        assert_eq!(relations("gateway")[0], ("provider-a".to_owned(), Relation::Provider));
    }
}
