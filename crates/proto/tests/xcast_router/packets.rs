//! Packets for the tests of the Xcast router, its routes, and the triples in `vectors/` that model and eBPF program share.
#![allow(dead_code, reason = "each of the tests uses a part")]

use std::{fmt::Write, net::Ipv6Addr};

use crate::router_packets;
#[allow(unused_imports, reason = "as above")]
pub use crate::router_packets::{
    ARRIVED, EPOCH, GROUP, LANS, allowing, changed, damaged, designated, guarded, hex, list_key,
    must_be_in_vectors, router, router_text, strict, with_key,
};
use treecast_proto::explicit::{
    list_proof::{Kind, Listed},
    mead::router::{Guard, ReversePath, Router},
    xcast::router::{Arrival, NextHop, Outcome, forward},
};
use treecast_wire::{
    ipv6::{
        self,
        next_header::{self, DESTINATION_OPTIONS, FRAGMENT, ROUTING},
    },
    mead::{Dialect, Map},
    xcast::{ALL_XCAST_ROUTERS, Header, Options},
};

/// A receiver in one of the networks of [`ROUTES`].
pub const fn node(network: u16, number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd15, network, 0, 0, 0, 1, 0, number)
}

pub const SENDER: Ipv6Addr = node(0x1000, 1);
pub const OWN: Ipv6Addr = node(0x50, 1);

/// Networks (/32), the interface towards each, and the router there; none: the network is on the link. There is no route to others.
pub const ROUTES: [(Ipv6Addr, u32, Option<Ipv6Addr>); 5] = [
    (node(1, 0), LANS[0], Some(node(0xf1, 1))),
    (node(2, 0), LANS[0], Some(node(0xf1, 2))),
    (node(3, 0), LANS[1], Some(node(0xf2, 1))),
    (node(4, 0), LANS[1], None),
    // Back to where packets come from.
    (node(5, 0), ARRIVED, Some(node(0xf0, 1))),
];

/// Where there is no route to.
pub const NOWHERE: u16 = 9;

/// The routes as the router asks for them.
pub fn route(destination: Ipv6Addr) -> Option<NextHop> {
    let is_on = |network: &Ipv6Addr| network.segments()[..2] == destination.segments()[..2];
    let (_, interface, gateway) = ROUTES.iter().find(|(network, ..)| is_on(network))?;
    Some(NextHop { interface: *interface, gateway: *gateway })
}

/// Three behind the first router of a link, of which one stands apart, two behind the second, and one on the other link.
pub fn destinations() -> Vec<Ipv6Addr> {
    vec![node(1, 1), node(2, 1), node(1, 2), node(4, 1), node(2, 2), node(1, 3)]
}

/// A list that must be good.
pub fn header(next: u8, destinations: &[Ipv6Addr]) -> Header {
    Header::new(next, Ipv6Addr::UNSPECIFIED, destinations.to_vec()).expect("a good list")
}

/// A segment with its right checksum; `port` is the destination's.
pub fn segment(kind: u8, destination: Ipv6Addr, port: u16) -> Vec<u8> {
    router_packets::segment((SENDER, destination), kind, port)
}

/// A packet from [`SENDER`]; the header names what follows it.
pub fn packet(header: &Header, destination: Ipv6Addr, rest: &[u8]) -> Vec<u8> {
    router_packets::packet((SENDER, destination), &header.to_bytes(), rest)
}

/// To the first valid destination, with a datagram.
pub fn udp_packet(header: &Header) -> Vec<u8> {
    let destination = header.valid_destinations().next().expect("a valid one");
    packet(header, destination, &segment(next_header::UDP, destination, 0x1516))
}

/// One packet and what a router makes of it.
pub struct Triple {
    pub name: &'static str,
    pub router: Router,
    pub packet: Vec<u8>,
    /// Whether it came to all Xcast routers on the link.
    pub is_for_all: bool,
}

/// A packet to this router's Ethernet address.
pub const ALONE: Arrival = Arrival { interface: ARRIVED, is_for_all: false };

impl Triple {
    pub fn outcome(&self) -> Outcome {
        forward(&self.router, &self.packet, Arrival { is_for_all: self.is_for_all, ..ALONE }, &mut route)
    }
}

/// As it stands in `vectors/`: the router, the packet in and each packet out, in hexadecimal digits. Routes are those above.
pub fn text(triple: &Triple) -> String {
    let Triple { router, packet, .. } = triple;
    let mut text = router_text(router, "");
    let mut put = |line: std::fmt::Arguments<'_>| text.write_fmt(line).expect("a String takes all");
    let to = if triple.is_for_all { "in-to-all" } else { "in" };
    put(format_args!("\n{to} {}\n", hex(packet)));
    match triple.outcome() {
        Outcome::Pass => put(format_args!("pass\n")),
        Outcome::Drop(reason) => put(format_args!("drop {reason:?}\n")),
        Outcome::Refuse(why) => put(format_args!("refuse {why:?}\n")),
        Outcome::Forward(copies) => copies.iter().for_each(|copy| {
            put(format_args!("{} {}\n", format!("{:?}", copy.kind).to_lowercase(), hex(&copy.packet)));
        }),
    }
    text
}

/// One for each rule.
pub fn triples() -> Vec<Triple> {
    let mut triples = replication();
    triples.extend(to_all());
    triples.extend(ends());
    triples.extend(payloads());
    triples.extend(xcast_plus());
    triples.extend(refused());
    triples.extend(nested());
    triples.extend(guarded_routers());
    triples
}

fn of(name: &'static str, router: Router, header: &Header) -> Triple {
    Triple { name, router, packet: udp_packet(header), is_for_all: false }
}

fn replication() -> Vec<Triple> {
    let all = header(next_header::UDP, &destinations());
    let some = all.only(Map::of(1).with(2).with(5));
    let longest: Vec<_> = (1..=32).map(|number| node(1 + number % 3, number)).collect();
    vec![
        of("copies", router(&[]), &all),
        of("copies-of-some", router(&[]), &some),
        of("anonymous", router(&[]), &Header { is_anonymous: true, ..all.clone() }),
        of("premature", Router { min_dsts: 3, ..router(&[]) }, &all),
        of("premature-all", Router { min_dsts: 4, ..router(&[]) }, &all),
        of("stays", Router { min_dsts: 9, ..router(&[]) }, &Header { stays_xcast: true, ..all.clone() }),
        of("thirty-two", router(&[]), &header(next_header::UDP, &longest)),
        of("one-way", router(&[]), &header(next_header::UDP, &[node(3, 1), node(3, 2)])),
        of("back", router(&[]), &header(next_header::UDP, &[node(5, 1), node(5, 2)])),
        of("on-link", router(&[]), &header(next_header::UDP, &[node(4, 1), node(4, 3), node(4, 2)])),
        Triple {
            name: "to-another",
            router: router(&[OWN]),
            packet: packet(&all, OWN, &segment(next_header::UDP, OWN, 0x1516)),
            is_for_all: false,
        },
    ]
}

/// To all Xcast routers by the IPv6 header, and to one or all by Ethernet. Some have a route back to the link, and some none.
fn to_all() -> Vec<Triple> {
    let of = |name, is_for_all, destinations: &[Ipv6Addr]| {
        let header = header(next_header::UDP, destinations);
        let segment = segment(next_header::UDP, ALL_XCAST_ROUTERS, 0x1516);
        let own: Vec<_> = destinations.iter().copied().filter(|one| *one == OWN).collect();
        let packet = packet(&header, ALL_XCAST_ROUTERS, &segment);
        Triple { name, router: router(&own), packet, is_for_all }
    };
    let mixed = [node(5, 1), node(1, 1), node(NOWHERE, 1), OWN, node(5, 2), node(1, 2)];
    let others = [node(5, 1), node(NOWHERE, 1)];
    vec![
        of("to-all-routers", false, &destinations()),
        of("to-all-routers-mixed", false, &mixed),
        of("to-all-routers-by-group", true, &destinations()),
        of("to-all-routers-by-group-mixed", true, &mixed),
        of("to-all-routers-by-group-others", true, &others),
    ]
}

/// Packets whose destinations are here, or nowhere.
fn ends() -> Vec<Triple> {
    let own = header(next_header::UDP, &[node(1, 1), OWN, node(1, 2)]);
    let nowhere = header(next_header::UDP, &[node(NOWHERE, 1), node(1, 1), node(NOWHERE, 2), node(1, 2)]);
    let staying = |header: &Header| Header { stays_xcast: true, ..header.clone() };
    vec![
        of("own", router(&[OWN]), &own),
        of("own-stays", router(&[OWN]), &staying(&own)),
        of("own-alone", router(&[OWN]), &header(next_header::UDP, &[OWN])),
        of("no-route", router(&[]), &nowhere),
        of("no-route-stays", router(&[]), &staying(&nowhere)),
    ]
}

fn payloads() -> Vec<Triple> {
    let to = node(1, 1);
    let of = |name, next, rest: Vec<u8>| {
        let packet = packet(&header(next, &destinations()), to, &rest);
        Triple { name, router: router(&[]), packet, is_for_all: false }
    };
    let udp = segment(next_header::UDP, to, 0x1516);
    let without_checksum = [&udp[..6], &[0, 0], &udp[8..]].concat();
    let without_port = segment(next_header::UDP, to, 0);
    let ports = |next, rest: &[u8]| [&ports_to_bytes(&[4242, 4243, 0, 9, 10, 11], next)[..], rest].concat();
    // A Destination Options header with a PadN of 4 bytes: nothing of ours.
    let others_options = [&[next_header::UDP, 0, 1, 4, 0, 0, 0, 0][..], &udp].concat();
    let fragment = |offset: u8| [&[next_header::UDP, 0, 0, offset << 3 | 1, 0, 0, 0, 9][..], &udp].concat();
    let options = next_header::DESTINATION_OPTIONS;
    vec![
        of("ports", options, ports(next_header::UDP, &without_port)),
        of("ports-of-tcp", options, ports(next_header::TCP, &segment(next_header::TCP, to, 5))),
        of("tcp", next_header::TCP, segment(next_header::TCP, to, 5)),
        of("icmpv6", next_header::ICMPV6, segment(next_header::ICMPV6, to, 0)),
        of("udp-without-checksum", next_header::UDP, without_checksum),
        of("udp-cut", next_header::UDP, udp[..7].to_vec()),
        of("others-options", options, others_options),
        of("first-fragment", next_header::FRAGMENT, fragment(0)),
        of("later-fragment", next_header::FRAGMENT, fragment(1)),
        of("no-payload", next_header::NONE, Vec::new()),
    ]
}

/// RFC 5058's Xcast+: a destination is a router, and the channel a group.
fn xcast_plus() -> Vec<Triple> {
    let list = |destinations: &[Ipv6Addr]| Header {
        channel: GROUP,
        ..header(next_header::DESTINATION_OPTIONS, destinations)
    };
    let of = |name, router, header: &Header| {
        let ports: Vec<u16> = (0..header.destinations.len() as u16).map(|place| 4242 + place).collect();
        let to = header.destinations[0];
        let rest = [ports_to_bytes(&ports, next_header::UDP), segment(next_header::UDP, to, 0)].concat();
        Triple { name, router, packet: packet(header, to, &rest), is_for_all: false }
    };
    let (far, near, other) = (node(1, 1), OWN, node(0x50, 2));
    let only_arrived = Router { groups: [(GROUP, [ARRIVED].into())].into(), ..router(&[OWN]) };
    vec![
        of("group", designated(&[OWN]), &list(&[near])),
        of("group-mixed", designated(&[OWN]), &list(&[far, near, node(1, 2)])),
        of("group-twice", designated(&[OWN, other]), &list(&[near, other])),
        of("group-elsewhere", designated(&[OWN]), &list(&[far, node(1, 2)])),
        of("group-no-listener", router(&[OWN]), &list(&[near])),
        of("group-no-listener-mixed", router(&[OWN]), &list(&[near, far])),
        of("group-arrived", only_arrived, &list(&[near])),
    ]
}

fn refused() -> Vec<Triple> {
    let all = header(next_header::UDP, &destinations());
    let changed = |name, at: usize, value: u8| {
        let mut triple = of(name, router(&[OWN]), &all);
        triple.packet[ipv6::HEADER_LEN + at] = value;
        triple
    };
    let last_hop = |name, destination| {
        let mut packet = packet(&all, destination, &segment(next_header::UDP, destination, 1));
        packet[7] = 1;
        Triple { name, router: router(&[OWN]), packet, is_for_all: false }
    };
    let rest = [ports_to_bytes(&[1, 2], next_header::UDP), segment(next_header::UDP, node(1, 1), 0)].concat();
    let too_few_ports = packet(&header(next_header::DESTINATION_OPTIONS, &destinations()), node(1, 1), &rest);
    vec![
        changed("version", 4, 0x20),
        changed("dscps", 4, 0x12),
        changed("no-address", 5, 0),
        changed("too-many", 5, 33),
        changed("header-length", 1, 3),
        changed("segments-left", 3, 1),
        changed("checksum", 40, 0x11),
        of("disabled", Router { is_enabled: false, ..router(&[OWN]) }, &all),
        of("linux-6.5", Router { dialect: Dialect::Linux65, ..router(&[OWN]) }, &all),
        Triple { name: "too-few-ports", router: router(&[OWN]), packet: too_few_ports, is_for_all: false },
        last_hop("hop-limit", node(1, 1)),
        last_hop("hop-limit-here", OWN),
        last_hop("hop-limit-all-routers", ALL_XCAST_ROUTERS),
    ]
}

fn ports_to_bytes(ports: &[u16], next: u8) -> Vec<u8> {
    Options { ports: Some(ports.to_vec()), ..Options::default() }.to_bytes(next)
}

/// Routers that do not make copies for everybody.
fn guarded_routers() -> Vec<Triple> {
    let (all, near) = (destinations(), node(5, 9));
    let of = |name, router, packet| Triple { name, router, packet, is_for_all: false };
    let of_source = |source, destinations: &[Ipv6Addr], change: &dyn Fn(&mut Header, &mut Options)| {
        let (mut header, mut options) = (header(next_header::UDP, destinations), Options::default());
        change(&mut header, &mut options);
        let options = options.to_bytes(next_header::UDP);
        if !options.is_empty() {
            header.next_header = DESTINATION_OPTIONS;
        }
        let to = destinations[0];
        let rest = [options, router_packets::segment((source, to), next_header::UDP, 0x1516)].concat();
        router_packets::packet((source, to), &header.to_bytes(), &rest)
    };
    let plain = |source| of_source(source, &all, &|_, _| {});
    let prove = |epoch: u64| {
        move |header: &mut Header, options: &mut Options| {
            let (group, routers) = (header.channel, Map::EMPTY);
            let addresses = &header.destinations;
            let listed = Listed { kind: Kind::Xcast, source: SENDER, group, routers, addresses };
            options.list_proof = Some(list_key().prove(epoch, &listed));
        }
    };
    let with_ports = |header: &mut Header, options: &mut Options| {
        prove(EPOCH)(header, options);
        options.ports = Some(vec![4242, 4243, 0, 9, 10, 11]);
    };
    let forged = |header: &mut Header, options: &mut Options| {
        prove(EPOCH)(header, options);
        header.channel = GROUP;
    };
    let to_group = |source| of_source(source, &[OWN], &|header, _| header.channel = GROUP);
    let lans =
        |reverse_path| Router { guard: Guard { reverse_path, ..Guard::default() }, ..designated(&[OWN]) };
    let mut twice = header(next_header::UDP, &all);
    twice.destinations[5] = node(4, 1);
    let twice_served = Header { valid: Map::of(3), ..twice.clone() };
    vec![
        of("twice", router(&[]), udp_packet(&twice)),
        of("twice-served", router(&[]), udp_packet(&twice_served)),
        of("reverse-path", guarded(strict()), plain(SENDER)),
        of("reverse-path-right", guarded(strict()), plain(near)),
        of("reverse-path-group", lans(ReversePath::Loose), to_group(node(3, 9))),
        of("reverse-path-group-right", lans(ReversePath::Loose), to_group(near)),
        of("reverse-path-group-off", lans(ReversePath::Off), to_group(node(3, 9))),
        of("not-allowed", guarded(allowing("fd14::/16")), plain(SENDER)),
        of("proof", guarded(with_key()), of_source(SENDER, &all, &prove(EPOCH - 1))),
        of("proof-and-ports", guarded(with_key()), of_source(SENDER, &all, &with_ports)),
        of("proof-old", guarded(with_key()), of_source(SENDER, &all, &prove(EPOCH + 2))),
        of("proof-forged", guarded(with_key()), of_source(SENDER, &all, &forged)),
        of("proof-missing", guarded(with_key()), plain(SENDER)),
    ]
}

/// With a second routing header, behind a list of ports and in a fragment, too.
fn nested() -> Vec<Triple> {
    let all = destinations();
    let payload = udp_packet(&header(next_header::UDP, &all)).split_off(ipv6::HEADER_LEN);
    let of = |name, next, before: &[u8]| {
        let packet = packet(&header(next, &all), all[0], &[before, &payload].concat());
        Triple { name, router: router(&[]), packet, is_for_all: false }
    };
    let ports = ports_to_bytes(&[4242, 4243, 0, 9, 10, 11], ROUTING);
    vec![
        of("nested", ROUTING, &[]),
        of("nested-behind-ports", DESTINATION_OPTIONS, &ports),
        of("nested-behind-others-options", DESTINATION_OPTIONS, &[ROUTING, 0, 1, 4, 0, 0, 0, 0]),
        of("nested-in-fragment", FRAGMENT, &[ROUTING, 0, 0, 0, 0, 0, 0, 9]),
    ]
}
