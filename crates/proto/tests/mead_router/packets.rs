//! Packets for the tests of the MEADcast router, and the triples in `vectors/` that model and eBPF program share.
#![allow(dead_code, reason = "each of the tests uses a part")]

use std::{fmt::Write, net::Ipv6Addr};

use crate::router_packets;
#[allow(unused_imports, reason = "as above")]
pub use crate::router_packets::{
    ARRIVED, EPOCH, GROUP, LANS, allowing, changed, damaged, designated, guarded, hex, list_key,
    must_be_in_vectors, router, router_text, strict, with_key,
};
use treecast_proto::explicit::{
    list_proof::{self, Listed},
    mead::router::{Guard, NextHop, Outcome, ReversePath, Router},
};
use treecast_wire::{
    ipv6::{
        self,
        next_header::{self, DESTINATION_OPTIONS, FRAGMENT, ROUTING},
    },
    mead::{Dialect, Header, Kind, Options},
};

/// A receiver or router of the thesis' figures.
pub const fn node(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd14, 0, 0, 0, 0, 1, 0, number)
}

pub const SENDER: Ipv6Addr = node(0x1000);
/// Somebody to whom the route leads back.
pub const NEAR_SENDER: Ipv6Addr = Ipv6Addr::new(0xfd15, 5, 0, 0, 0, 1, 0, 1);

/// The routes of the network in which the eBPF program is tested, as far as senders are concerned.
pub fn route(destination: Ipv6Addr) -> Option<NextHop> {
    let interface = match destination.segments() {
        [0xfd14, ..] => LANS[0],
        [0xfd15, 5, ..] => ARRIVED,
        _ => return None,
    };
    Some(NextHop { interface, gateway: Some(R5) })
}

pub const R5: Ipv6Addr = node(0x50);
pub const R6: Ipv6Addr = node(0x60);
pub const R7: Ipv6Addr = node(0x70);

/// Meadcast-thesis-2024, 2.1.4, "Data Delivery": R5 with E2 and E3, R6 with E4 and E5.
pub fn example(next: u8) -> Header {
    let groups = [(R5, vec![node(2), node(3)]), (R6, vec![node(4), node(5)])];
    Header::data(next, &groups).expect("a good list")
}

/// A segment with its right checksum.
pub fn segment(kind: u8, destination: Ipv6Addr) -> Vec<u8> {
    router_packets::segment((SENDER, destination), kind, 0x1516)
}

/// A packet from [`SENDER`], in the router's dialect; the header names what follows it.
pub fn packet(dialect: Dialect, header: &Header, destination: Ipv6Addr, rest: &[u8]) -> Vec<u8> {
    router_packets::packet((SENDER, destination), &header.to_bytes(dialect), rest)
}

/// One packet and what a router makes of it.
pub struct Triple {
    pub name: &'static str,
    pub router: Router,
    pub packet: Vec<u8>,
}

/// As it stands in `vectors/`: the router, the packet in and each packet out, in hexadecimal digits.
pub fn text(triple: &Triple) -> String {
    let Triple { router, packet, .. } = triple;
    let mut text = router_text(router, &format!(" dialect={:?}", router.dialect));
    writeln!(text, "\nin {}", hex(packet)).expect("a String takes all");
    match router.forward(packet, ARRIVED, &mut route) {
        Outcome::Pass => text.push_str("pass\n"),
        Outcome::Drop(reason) => writeln!(text, "drop {reason:?}").expect("a String takes all"),
        Outcome::Request { passed_on, request } => {
            writeln!(text, "request {}\nanswer {}", hex(&passed_on), hex(&request.answer(R5, None, true)))
                .expect("a String takes all");
        }
        Outcome::Refuse(why) => writeln!(text, "refuse {why:?}").expect("a String takes all"),
        Outcome::Forward(copies) => copies.iter().for_each(|copy| {
            writeln!(text, "{} {}", format!("{:?}", copy.kind).to_lowercase(), hex(&copy.packet))
                .expect("a String takes all");
        }),
    }
    text
}

/// One for each rule.
pub fn triples() -> Vec<Triple> {
    let mut triples = plain_data();
    triples.extend(payloads());
    triples.extend(revision());
    triples.extend(designated_routers());
    triples.extend(others());
    triples.extend(nested());
    triples.extend(guarded_routers());
    triples
}

fn udp_example(router: Router, name: &'static str) -> Triple {
    let packet =
        packet(router.dialect, &example(next_header::UDP), node(2), &segment(next_header::UDP, node(2)));
    Triple { name, router, packet }
}

fn plain_data() -> Vec<Triple> {
    let linux = Router { dialect: Dialect::Linux65, ..router(&[R6]) };
    vec![
        udp_example(router(&[]), "replicas"),
        udp_example(router(&[R5]), "own-and-replica"),
        udp_example(router(&[R5, R6]), "own-both"),
        udp_example(Router { min_dsts: 3, ..router(&[]) }, "premature"),
        udp_example(Router { min_dsts: 3, ..router(&[R6]) }, "premature-and-own"),
        udp_example(linux, "linux-6.5"),
        udp_example(Router { is_enabled: false, ..router(&[R5]) }, "disabled"),
        {
            let groups = [(R5, vec![]), (R6, vec![node(4)])];
            let header = Header::data(next_header::UDP, &groups).expect("a good list");
            let packet = packet(Dialect::Rfc, &header, node(4), &segment(next_header::UDP, node(4)));
            Triple { name: "router-without-receivers", router: router(&[]), packet }
        },
        {
            let groups = [(R5, (1..32).map(node).collect())];
            let header = Header::data(next_header::UDP, &groups).expect("32 addresses");
            let packet = packet(Dialect::Rfc, &header, node(1), &segment(next_header::UDP, node(1)));
            Triple { name: "thirty-two", router: router(&[R5]), packet }
        },
    ]
}

fn payloads() -> Vec<Triple> {
    let of = |name, next, rest: Vec<u8>| {
        let packet = packet(Dialect::Rfc, &example(next), node(2), &rest);
        Triple { name, router: router(&[R5]), packet }
    };
    let udp = segment(next_header::UDP, node(2));
    let without_checksum = [&udp[..6], &[0, 0], &udp[8..]].concat();
    // A Destination Options header with a PadN of 4 bytes: nothing of ours.
    let others_options = [&[next_header::UDP, 0, 1, 4, 0, 0, 0, 0][..], &udp].concat();
    let fragment = |offset: u8| [&[next_header::UDP, 0, 0, offset << 3 | 1, 0, 0, 0, 9][..], &udp].concat();
    vec![
        of("tcp", next_header::TCP, segment(next_header::TCP, node(2))),
        of("icmpv6", next_header::ICMPV6, segment(next_header::ICMPV6, node(2))),
        of("udp-without-checksum", next_header::UDP, without_checksum),
        of("udp-cut", next_header::UDP, udp[..7].to_vec()),
        of("others-options", next_header::DESTINATION_OPTIONS, others_options),
        of("first-fragment", next_header::FRAGMENT, fragment(0)),
        of("later-fragment", next_header::FRAGMENT, fragment(1)),
        of("no-payload", next_header::NONE, Vec::new()),
    ]
}

fn revision() -> Vec<Triple> {
    let ports = Options { ports: Some(vec![0, 4242, 4243, 0, 9]), ..Options::default() };
    let with_ports = [ports.to_bytes(next_header::UDP), segment(next_header::UDP, node(2))].concat();
    let options = example(next_header::DESTINATION_OPTIONS);
    let counting = Header { dont_replicate: 2, hops: 63, ..example(next_header::UDP) };
    let udp = segment(next_header::UDP, node(2));
    let to = |name, own: &[Ipv6Addr], destination, header: &Header| {
        let packet = packet(Dialect::Rfc, header, destination, &segment(next_header::UDP, destination));
        Triple { name, router: router(own), packet }
    };
    vec![
        Triple {
            name: "ports",
            router: router(&[R5, R6]),
            packet: packet(Dialect::Rfc, &options, node(2), &with_ports),
        },
        Triple {
            name: "dont-replicate",
            router: Router { min_dsts: 3, ..router(&[]) },
            packet: packet(Dialect::Rfc, &counting, node(2), &udp),
        },
        to("dont-replicate-named", &[R5], node(2), &counting),
        to("addressed-to-router", &[], R5, &example(next_header::UDP)),
        to("addressed-here", &[R5], R5, &example(next_header::UDP)),
        to("addressed-here-unnamed", &[node(0x99)], node(0x99), &counting),
    ]
}

fn designated_routers() -> Vec<Triple> {
    let options = Options { group: Some(GROUP), ports: Some(vec![4242, 0, 4243]), ..Options::default() };
    let of =
        |name, router: Router, groups: &[(Ipv6Addr, Vec<Ipv6Addr>)], options: &Options, dont_replicate| {
            let header = Header::data(next_header::DESTINATION_OPTIONS, groups).expect("a good list");
            let header = Header { dont_replicate, ..header };
            let rest = [options.to_bytes(next_header::UDP), segment(next_header::UDP, R5)].concat();
            Triple { name, packet: packet(router.dialect, &header, R5, &rest), router }
        };
    let without_ports = Options { ports: None, ..options.clone() };
    let alone = [(R5, vec![])];
    let both = [(R5, vec![]), (R6, vec![])];
    let mixed = [(R5, vec![]), (R6, vec![node(4)]), (R7, vec![node(2), node(3)])];
    let only_arrived = Router { groups: [(GROUP, [ARRIVED].into())].into(), ..router(&[R5]) };
    vec![
        of("designated", designated(&[R5]), &alone, &without_ports, 0),
        of("designated-ports", designated(&[R5]), &alone, &options, 0),
        of("designated-twice", designated(&[R5, R6]), &both, &without_ports, 0),
        of("designated-mixed", designated(&[R5, R7]), &mixed, &options, 0),
        of("designated-whole", designated(&[R5, R7]), &mixed, &options, 2),
        of("designated-replicas", Router { min_dsts: 3, ..router(&[]) }, &both, &without_ports, 0),
        of("designated-no-listener", router(&[R5]), &alone, &without_ports, 0),
        of("designated-arrived", only_arrived, &alone, &without_ports, 0),
        of(
            "designated-without-group",
            designated(&[R5]),
            &alone,
            &Options { group: None, ..options.clone() },
            0,
        ),
    ]
}

fn others() -> Vec<Triple> {
    let request = Header { hops: 1, ..Header::request(node(2)) };
    let linux = Router { dialect: Dialect::Linux65, ..router(&[R5]) };
    let with_nonce = Header { next_header: next_header::DESTINATION_OPTIONS, ..request.clone() };
    let nonce = Options { nonce: Some([7; 16]), ..Options::default() }.to_bytes(next_header::NONE);
    let group = Options { group: Some(GROUP), ..Options::default() }.to_bytes(next_header::NONE);
    let response = Header { kind: treecast_wire::mead::Kind::Response, ..request.clone() };
    let of = |name, header: &Header, rest: &[u8]| Triple {
        name,
        router: router(&[R5]),
        packet: packet(Dialect::Rfc, header, node(2), rest),
    };
    let leaving =
        |name, packet| Triple { name, router: Router { is_leaving: true, ..router(&[R5]) }, packet };
    // To a router of one dialect, in the other one.
    let other = |name, dialect: Dialect, header: &Header| Triple {
        name,
        router: Router { dialect, ..router(&[R5]) },
        packet: packet(dialect.other(), header, node(2), &[]),
    };
    let last_hop = |name, own: &[Ipv6Addr], destination| {
        let mut packet = packet(Dialect::Rfc, &example(next_header::NONE), destination, &[]);
        packet[7] = 1;
        Triple { name, router: router(own), packet }
    };
    let mut wrong_flags = of("malformed", &example(next_header::NONE), &[]);
    wrong_flags.packet[ipv6::HEADER_LEN + 5] = 0x40;
    vec![
        of("request", &request, &[]),
        of("request-with-nonce", &with_nonce, &nonce),
        of("request-with-group", &with_nonce, &group),
        leaving("leaving-request", packet(Dialect::Rfc, &request, node(2), &[])),
        leaving("leaving-data", udp_example(router(&[R5]), "").packet),
        other("other-dialect", Dialect::Rfc, &Header::request(node(2))),
        other("other-dialect-rfc", Dialect::Linux65, &Header::request(node(2))),
        other("other-dialect-data", Dialect::Rfc, &example(next_header::NONE)),
        of("request-63", &Header { hops: 63, ..request.clone() }, &[]),
        Triple {
            name: "request-linux-6.5",
            packet: packet(linux.dialect, &request, node(2), &[]),
            router: linux,
        },
        of("response", &response, &[]),
        last_hop("hop-limit", &[], node(2)),
        last_hop("hop-limit-here", &[R5], R5),
        of("all-delivered", &Header { delivery: Default::default(), ..example(next_header::NONE) }, &[]),
        wrong_flags,
    ]
}

/// With a second routing header: data or a request as payload, behind options and in a fragment.
fn nested() -> Vec<Triple> {
    let of = |name, header: &Header, rest: &[&[u8]]| {
        let packet = packet(Dialect::Rfc, header, node(2), &rest.concat());
        Triple { name, router: router(&[R5]), packet }
    };
    let data = [example(next_header::UDP).to_bytes(Dialect::Rfc), segment(next_header::UDP, R5)].concat();
    let request = Header::request(node(2)).to_bytes(Dialect::Rfc);
    let ports = Options { ports: Some(vec![0, 4242]), ..Options::default() }.to_bytes(ROUTING);
    let fragment = |next| [next, 0, 0, 0, 0, 0, 0, 9];
    let asked = Header { next_header: DESTINATION_OPTIONS, ..Header::request(node(2)) };
    vec![
        of("nested", &example(ROUTING), &[&data]),
        of("nested-request", &example(ROUTING), &[&request]),
        of("nested-behind-ports", &example(DESTINATION_OPTIONS), &[&ports, &data]),
        of(
            "nested-behind-others-options",
            &example(DESTINATION_OPTIONS),
            &[&[ROUTING, 0, 1, 4, 0, 0, 0, 0], &data],
        ),
        of("nested-in-fragment", &example(FRAGMENT), &[&fragment(ROUTING), &data]),
        of("nested-in-two-fragments", &example(FRAGMENT), &[&fragment(FRAGMENT), &fragment(ROUTING), &data]),
        of("nested-in-request", &asked, &[&ports, &data]),
    ]
}

/// Packets of the example's list, with a proof of it.
fn proved(source: Ipv6Addr, header: &Header, epoch: u64, change: impl Fn(&mut Options)) -> Vec<u8> {
    let is_request = header.kind == Kind::Request;
    let listed = Listed {
        kind: if is_request { list_proof::Kind::Request } else { list_proof::Kind::Mead },
        source,
        group: Ipv6Addr::UNSPECIFIED,
        routers: header.routers,
        addresses: &header.addresses,
    };
    let mut options = Options { list_proof: Some(list_key().prove(epoch, &listed)), ..Options::default() };
    change(&mut options);
    let header = Header { next_header: DESTINATION_OPTIONS, ..header.clone() };
    let next = if is_request { next_header::NONE } else { next_header::UDP };
    let rest = if is_request {
        Vec::new()
    } else {
        router_packets::segment((source, node(2)), next_header::UDP, 0x1516)
    };
    let rest = [options.to_bytes(next), rest].concat();
    router_packets::packet((source, node(2)), &header.to_bytes(Dialect::Rfc), &rest)
}

/// Routers that do not make copies for everybody.
fn guarded_routers() -> Vec<Triple> {
    let of = |name, guard, packet| Triple { name, router: guarded(guard), packet };
    let data = example(next_header::UDP);
    let plain = |source| {
        let segment = router_packets::segment((source, node(2)), next_header::UDP, 0x1516);
        router_packets::packet((source, node(2)), &data.to_bytes(Dialect::Rfc), &segment)
    };
    let good = |epoch| proved(SENDER, &data, epoch, |_| {});
    let forged = |options: &mut Options| options.list_proof.as_mut().expect("one").code[7] ^= 1;
    let with_ports = |options: &mut Options| options.ports = Some(vec![0, 4242, 4243, 0, 9, 10]);
    let request = Header::request(node(2));
    let mut twice = plain(SENDER);
    // E5 becomes E2 again.
    twice.copy_within(40 + 16 + 16..40 + 16 + 32, 40 + 16 + 5 * 16);
    let loose = Guard { reverse_path: ReversePath::Loose, ..Guard::default() };
    let lans = Router { guard: loose.clone(), ..designated(&[R5]) };
    let named = Options { group: Some(GROUP), ..Options::default() }.to_bytes(next_header::UDP);
    let header = Header::data(DESTINATION_OPTIONS, &[(R5, vec![])]).expect("a good list");
    let to_group = packet(Dialect::Rfc, &header, R5, &[named, segment(next_header::UDP, R5)].concat());
    vec![
        of("twice", Guard::default(), twice),
        of("reverse-path", strict(), plain(SENDER)),
        of("reverse-path-right", strict(), plain(NEAR_SENDER)),
        of("reverse-path-loose", loose.clone(), plain(SENDER)),
        of("reverse-path-none", loose, plain(Ipv6Addr::new(0xfd15, 9, 0, 0, 0, 1, 0, 1))),
        Triple { name: "reverse-path-loose-designated", router: lans, packet: to_group },
        of("reverse-path-request", strict(), packet(Dialect::Rfc, &request, node(2), &[])),
        of("allowed", allowing("fd14::/64"), plain(SENDER)),
        of("not-allowed", allowing("fd14:0:0:1::/64"), plain(SENDER)),
        of("proof", with_key(), good(EPOCH)),
        of("proof-and-ports", with_key(), proved(SENDER, &data, EPOCH, with_ports)),
        of("proof-of-next-epoch", with_key(), good(EPOCH + 1)),
        of("proof-old", with_key(), good(EPOCH - 2)),
        of("proof-forged", with_key(), proved(SENDER, &data, EPOCH, forged)),
        of("proof-missing", with_key(), plain(SENDER)),
        of("proof-not-asked", Guard::default(), good(EPOCH)),
        of("proof-in-request", with_key(), proved(SENDER, &request, EPOCH, |_| {})),
        of("proof-missing-in-request", with_key(), packet(Dialect::Rfc, &request, node(2), &[])),
    ]
}
