//! The configuration of a router's bgpd.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::topology::{Neighbour, Relation, Speaker, Subnet, Topology};

/// The interval of keepalives, and the time without one after which a session is over. A link that goes down ends its session
/// at once.
const KEEPALIVE_SECONDS: u16 = 3;
const HOLD_SECONDS: u16 = 9;

/// The time between two attempts to reach a neighbour. frr's default of 120 s would be most of an experiment.
const CONNECT_SECONDS: u16 = 1;

/// The community of routes from customers. It has no meaning for neighbours, and what they send with it is overwritten.
const CUSTOMERS: &str = "64512:1";

/// The configuration file of a speaker.
///
/// Own blocks and customers' routes go to everybody, and routes of providers and peers to customers only. Out of its own
/// blocks, a provider announces nothing but the whole (interdomain-2013, 6.3.1). Customers' routes are preferred to those of
/// peers, and these to those of providers. `from-tunnel` is for a session over a backup tunnel: it has a lower preference
/// than any link, and what comes by it is announced to nobody but customers.
pub(super) fn of(topology: &Topology, speaker: &Speaker) -> String {
    let mut text = format!("hostname {}\n", topology.nodes[speaker.router].name);
    add_lists(&mut text, topology, speaker);
    add_maps(&mut text, topology, speaker);
    let id = Ipv4Addr::from(speaker.router as u32 + 1);
    let head = format_args!("router bgp {}\n bgp router-id {id}", speaker.as_number);
    add(&mut text, head);
    add(&mut text, format_args!(" no bgp default ipv4-unicast\n no bgp network import-check"));
    // Of equally good routes, the oldest would stay: a link that was cut would not be used again.
    add(&mut text, format_args!(" bgp bestpath compare-routerid"));
    add(&mut text, format_args!(" timers bgp {KEEPALIVE_SECONDS} {HOLD_SECONDS}"));
    let neighbours = || speaker.neighbours.iter().map(|neighbour| (neighbour, address(topology, neighbour)));
    for (neighbour, address) in neighbours() {
        let as_number = as_number(topology, neighbour);
        add(&mut text, format_args!(" neighbor {address} remote-as {as_number}"));
        add(&mut text, format_args!(" neighbor {address} timers connect {CONNECT_SECONDS}"));
    }
    add(&mut text, format_args!(" address-family ipv6 unicast"));
    // A prefix that several neighbours hear of would be there twice.
    let mut announced: Vec<Subnet<Ipv6Addr>> = speaker.announced().collect();
    announced.sort_by_key(|prefix| (prefix.base, prefix.length));
    announced.dedup();
    announced.iter().for_each(|prefix| add(&mut text, format_args!("  network {prefix}")));
    for (neighbour, address) in neighbours() {
        let (from, to) = maps(topology, neighbour);
        add(&mut text, format_args!("  neighbor {address} activate"));
        add(&mut text, format_args!("  neighbor {address} route-map {from} in"));
        add(&mut text, format_args!("  neighbor {address} route-map {to} out"));
    }
    add(&mut text, format_args!(" exit-address-family"));
    text
}

/// The lists that route maps refer to.
fn add_lists(text: &mut String, topology: &Topology, speaker: &Speaker) {
    for block in &speaker.blocks {
        add(text, format_args!("ipv6 prefix-list own permit {block}"));
        add(text, format_args!("ipv6 prefix-list inside permit {block} ge {}", block.length + 1));
    }
    for neighbour in speaker.neighbours.iter().filter(|neighbour| !neighbour.announced.is_empty()) {
        let name = &topology.nodes[neighbour.router].name;
        for prefix in &neighbour.announced {
            add(text, format_args!("ipv6 prefix-list to-{name} permit {prefix}"));
        }
    }
    add(text, format_args!("bgp community-list standard customers permit {CUSTOMERS}"));
}

fn add_maps(text: &mut String, topology: &Topology, speaker: &Speaker) {
    for (name, preference, community) in [
        ("from-customer", 200, CUSTOMERS),
        ("from-peer", 150, "none"),
        ("from-provider", 100, "none"),
        ("from-tunnel", 50, "none"),
    ] {
        add(text, format_args!("route-map {name} permit 10\n set local-preference {preference}"));
        add(text, format_args!(" set community {community}"));
    }
    for name in ["to-customer", "to-other"] {
        if !speaker.blocks.is_empty() {
            add(text, format_args!("route-map {name} deny 10\n match ipv6 address prefix-list inside"));
            add(text, format_args!("route-map {name} permit 20\n match ipv6 address prefix-list own"));
        }
        add(text, format_args!("route-map {name} permit 30"));
        if name == "to-other" {
            add(text, format_args!(" match community customers"));
        }
    }
    for neighbour in speaker.neighbours.iter().filter(|neighbour| !neighbour.announced.is_empty()) {
        let name = &topology.nodes[neighbour.router].name;
        add(text, format_args!("route-map to-{name} permit 10\n match ipv6 address prefix-list to-{name}"));
    }
}

/// The route maps for what a neighbour sends, and for what it is sent.
fn maps(topology: &Topology, neighbour: &Neighbour) -> (&'static str, String) {
    let from = match neighbour.relation {
        Relation::Customer => "from-customer",
        Relation::Peer => "from-peer",
        Relation::Provider => "from-provider",
    };
    let to = match (neighbour.announced.is_empty(), neighbour.relation) {
        (false, _) => format!("to-{}", topology.nodes[neighbour.router].name),
        (true, Relation::Customer) => "to-customer".to_owned(),
        (true, Relation::Peer | Relation::Provider) => "to-other".to_owned(),
    };
    (from, to)
}

fn as_number(topology: &Topology, neighbour: &Neighbour) -> u32 {
    let known = topology.bgp.iter().find(|speaker| speaker.router == neighbour.router);
    known.map_or(0, |speaker| speaker.as_number)
}

/// The address of a neighbour on the network that both are on.
fn address(topology: &Topology, neighbour: &Neighbour) -> Ipv6Addr {
    let members = &topology.networks[neighbour.network].members;
    let known = members.iter().find(|member| member.node == neighbour.router);
    known.map_or(Ipv6Addr::UNSPECIFIED, |member| member.v6)
}

fn add(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(spec: &str, router: &str) -> String {
        let topology = Topology::parse(spec).expect("a topology");
        of(&topology, topology.speaker(router).expect("it speaks BGP"))
    }

    #[test]
    fn a_provider_announces_its_block_and_nothing_out_of_it() {
        let text = text("interdomain:addressing=provider", "provider-a");
        assert!(text.contains("prefix-list own permit 2001:db8:4000::/36\n"), "{text}");
        assert!(text.contains("prefix-list inside permit 2001:db8:4000::/36 ge 37\n"), "{text}");
        assert!(
            text.contains("route-map to-other deny 10\n match ipv6 address prefix-list inside\n"),
            "{text}"
        );
        assert!(
            text.contains(" address-family ipv6 unicast\n  network 2001:db8:4000::/36\n  neighbor"),
            "{text}"
        );
        // To its customer, and to the tier-1 network.
        assert_eq!(
            [text.matches("route-map to-customer out"), text.matches("route-map to-other out")]
                .map(Iterator::count),
            [1, 1]
        );
    }

    #[test]
    fn a_stub_tells_each_provider_of_its_own_share_alone() {
        let text = text("interdomain:addressing=provider", "gateway");
        assert!(text.contains("prefix-list to-provider-a permit 2001:db8:4000:100::/56\n"), "{text}");
        assert!(
            text.contains(
                "route-map to-provider-b permit 10\n match ipv6 address prefix-list to-provider-b\n"
            ),
            "{text}"
        );
        assert!(text.contains("route-map to-provider-a out") && !text.contains("prefix-list own"), "{text}");
        let plain = super::tests::text("interdomain:addressing=independent", "gateway");
        assert_eq!(plain.matches("route-map to-other out").count(), 2, "{plain}");
        assert!(plain.contains("prefix-list own permit 2001:db8:f000:100::/56\n"), "{plain}");
    }

    #[test]
    fn a_prefix_that_two_providers_hear_of_is_there_once() {
        let text = text("interdomain:addressing=independent,stubs=3", "stubs-ab");
        assert_eq!(text.matches("  network 2001:db8:f000:300::/56\n").count(), 1, "{text}");
    }
}
