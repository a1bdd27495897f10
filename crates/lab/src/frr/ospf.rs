//! The configuration of a router's ospf6d.

use std::fmt::Write;
use std::net::Ipv4Addr;

use crate::topology::{Network, NetworkKind, Role, Topology};

/// The interval of hellos, and the time without a hello after which a link counts as failed. In the thesis,
/// routes changed about that long after a failure (meadcast-thesis-2024, figure 5.9 (e) and (f)).
const HELLO_SECONDS: u16 = 3;
const DEAD_SECONDS: u16 = 12;

/// The configuration file of a router, by the router's index.
pub(super) fn of(topology: &Topology, router: usize) -> String {
    let mut text = format!("hostname {}\n", topology.nodes[router].name);
    let mut own_area = 0;
    for network in &topology.networks {
        for member in network.members.iter().filter(|member| member.node == router) {
            own_area = own_area.max(network.area);
            add_interface(&mut text, &member.interface, network.area, kind(topology, network));
        }
    }
    // The address of a boundary router is in the area whose prefix it publishes.
    add_interface(&mut text, "lo", own_area, Kind::Passive);
    let id = Ipv4Addr::from(router as u32 + 1);
    // Each destination has one next hop, because MEADcast's packets must pass the routers that discovery found.
    add(&mut text, format_args!("router ospf6\n ospf6 router-id {id}\n maximum-paths 1"));
    for range in topology.area_ranges.iter().filter(|range| range.router == router) {
        add(&mut text, format_args!(" area {} range {}", area(range.area), range.prefix));
    }
    text
}

/// The use of OSPF on a network.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// No OSPF, because there is no other router.
    Passive,
    PointToPoint,
    Broadcast,
}

fn kind(topology: &Topology, network: &Network) -> Kind {
    let routers = network.members.iter().filter(|member| topology.nodes[member.node].role == Role::Router);
    match (routers.count(), network.kind) {
        (0 | 1, _) => Kind::Passive,
        (_, NetworkKind::Link) => Kind::PointToPoint,
        (_, NetworkKind::Lan) => Kind::Broadcast,
    }
}

fn add_interface(text: &mut String, interface: &str, in_area: u16, kind: Kind) {
    add(text, format_args!("interface {interface}\n ipv6 ospf6 area {}", area(in_area)));
    let network = match kind {
        Kind::Passive => return add(text, format_args!(" ipv6 ospf6 passive")),
        Kind::PointToPoint => "point-to-point",
        Kind::Broadcast => "broadcast",
    };
    add(text, format_args!(" ipv6 ospf6 network {network}"));
    add(text, format_args!(" ipv6 ospf6 hello-interval {HELLO_SECONDS}"));
    add(text, format_args!(" ipv6 ospf6 dead-interval {DEAD_SECONDS}"));
}

fn add(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    _ = writeln!(text, "{line}");
}

/// An area in frr's notation, which is that of an IPv4 address.
fn area(number: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_on_a_boundary_is_in_both_areas_and_publishes_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/meadcast/testbed.json");
        let testbed = Topology::parse(&format!("testbed:{path}")).expect("the testbed");
        let router =
            |name: &str| testbed.nodes.iter().position(|node| node.name == name).expect("it is there");
        let text = of(&testbed, router("r3"));
        let speaks = "\n ipv6 ospf6 network point-to-point\n ipv6 ospf6 hello-interval 3\n ipv6 ospf6 dead-interval 12\n";
        assert!(text.contains(&format!("interface r1\n ipv6 ospf6 area 0.0.0.0{speaks}")), "{text}");
        assert!(text.contains(&format!("interface r31\n ipv6 ospf6 area 0.0.0.3{speaks}")), "{text}");
        assert!(text.contains("interface lo\n ipv6 ospf6 area 0.0.0.3\n ipv6 ospf6 passive\n"), "{text}");
        assert!(text.ends_with(" maximum-paths 1\n area 0.0.0.3 range fd14::3:0:0/96\n"), "{text}");
        let inner = of(&testbed, router("r310"));
        assert!(
            inner.contains("interface net33\n ipv6 ospf6 area 0.0.0.3\n ipv6 ospf6 passive\n"),
            "{inner}"
        );
        assert!(!inner.contains("range") && !inner.contains("area 0.0.0.0"), "{inner}");
    }

    #[test]
    fn routers_on_one_lan_speak_to_each_other_there() {
        let tree = Topology::parse("tree:levels=2,clients=1").expect("a topology");
        let router = tree.nodes.iter().position(|node| node.role == Role::Router).expect("it has one");
        let text = of(&tree, router);
        assert!(text.contains("network broadcast") && text.contains("passive"), "{text}");
    }
}
