//! The rules of the MEADcast router, one by one, and its golden packets.
//!
//! `TREECAST_WRITE_VECTORS=1` writes `vectors/mead/router-*.txt` anew.

mod packets;

use std::{collections::BTreeSet, net::Ipv6Addr};

use packets::{
    ARRIVED, GROUP, LANS, R5, R6, SENDER, Triple, changed, damaged, designated, example, must_be_in_vectors,
    node, packet, route, router, segment, text, triples,
};
use proptest::prelude::*;
use treecast_proto::explicit::{
    authentication::{DomainKey, Said},
    mead::router::{Dropped, Outcome, Outgoing, OutgoingKind, Refused, Router},
};
use treecast_wire::{
    ipv6::{self, next_header, upper_layer_checksum},
    mead::{Dialect, Header, Kind, MAX_ADDRESSES, Map, Options, Reason},
};

#[test]
fn triples_are_those_in_vectors() {
    for triple in triples() {
        must_be_in_vectors(&format!("mead/router-{}.txt", triple.name), &text(&triple));
    }
}

fn named(name: &str) -> Triple {
    triples().into_iter().find(|triple| triple.name == name).expect("there is one")
}

/// Kind, destination and, of what is still MEADcast, the delivery map.
type Seen = (OutgoingKind, Ipv6Addr, Option<String>);

fn outcome(name: &str) -> Outcome {
    let Triple { router, packet, .. } = named(name);
    router.forward(&packet, ARRIVED, &mut route)
}

fn copies(name: &str) -> Vec<Outgoing> {
    match outcome(name) {
        Outcome::Forward(copies) => copies,
        other => panic!("{name}: {other:?}"),
    }
}

fn seen(name: &str) -> Vec<Seen> {
    copies(name).iter().map(|copy| see(copy, named(name).router.dialect)).collect()
}

fn see(copy: &Outgoing, dialect: Dialect) -> Seen {
    let (ip, payload) = ipv6::Header::parse(&copy.packet).expect("a packet");
    assert_eq!((ip.hop_limit, ip.source, ip.class_and_label), (63, SENDER, 0x0ab1_2345));
    let header = (ip.next_header == next_header::ROUTING)
        .then(|| Header::parse(payload, dialect).expect("a good header").0);
    (copy.kind, ip.destination, header.map(|header| header.delivery.to_string()))
}

use OutgoingKind::{Multicast, Premature, Replica, Unicast, Whole};

/// Meadcast-thesis-2024, 2.1.4, (2) to (5).
#[test]
fn routers_replicate_and_turn_their_own_into_unicast() {
    let replica = |to, map: &str| (Replica, to, Some(map.to_owned()));
    assert_eq!(seen("replicas"), [replica(node(2), "1"), replica(node(4), "0001")]);
    let own = [(Unicast, node(2), None), (Unicast, node(3), None)];
    assert_eq!(seen("own-and-replica"), [&[replica(node(4), "0001")][..], &own].concat());
    let behind_r6 = |kind| [(kind, node(4), None), (kind, node(5), None)];
    assert_eq!(seen("own-both"), [own.to_vec(), behind_r6(Unicast).to_vec()].concat());
    let premature = [(Premature, node(2), None), (Premature, node(3), None)];
    assert_eq!(seen("premature-and-own"), [premature.to_vec(), behind_r6(Unicast).to_vec()].concat());
    assert_eq!(seen("linux-6.5"), [&[replica(node(2), "1")][..], &behind_r6(Unicast)].concat());
    assert_eq!(seen("router-without-receivers"), [replica(node(4), "01")]);
    assert_eq!(seen("thirty-two").len(), MAX_ADDRESSES - 1);
}

#[test]
fn the_counter_keeps_routers_from_replicating() {
    let whole = |name: &str| {
        let copies = copies(name);
        let header = Header::parse(&copies[0].packet[ipv6::HEADER_LEN..], Dialect::Rfc).expect("a header").0;
        assert_eq!((header.dont_replicate, header.hops), (1, 63));
        copies.iter().map(|copy| see(copy, Dialect::Rfc)).collect::<Vec<_>>()
    };
    let leaves = |to, map: &str| (Whole, to, Some(map.to_owned()));
    assert_eq!(whole("dont-replicate"), [leaves(node(2), "1001")], "few as the receivers are");
    let served = [(Unicast, node(2), None), (Unicast, node(3), None)];
    assert_eq!(whole("dont-replicate-named"), [&[leaves(node(4), "0001")][..], &served].concat());
    assert_eq!(whole("addressed-here-unnamed"), [leaves(R5, "1001")]);
}

/// Meadcast-thesis-2024, 5.2.4, "Anomaly Handling".
#[test]
fn a_packet_addressed_to_a_router_shows_no_receiver() {
    let to = |name: &str| seen(name).into_iter().map(|(_, to, _)| to).collect::<Vec<_>>();
    assert_eq!(to("addressed-to-router"), [R5, R6]);
    assert_eq!(to("addressed-here"), [R6, node(2), node(3)]);
}

#[test]
fn unicast_copies_are_as_their_sender_would_have_sent_them() {
    for (name, kind) in [
        ("own-both", next_header::UDP),
        ("tcp", next_header::TCP),
        ("icmpv6", next_header::ICMPV6),
        ("ports", next_header::UDP),
        ("thirty-two", next_header::UDP),
    ] {
        for copy in copies(name).iter().filter(|copy| copy.kind == Unicast) {
            let (ip, segment) = ipv6::Header::parse(&copy.packet).expect("a packet");
            assert_eq!(ip.next_header, kind, "{name}");
            assert_eq!(upper_layer_checksum(ip.source, ip.destination, kind, segment), 0, "{name}");
        }
    }
    for copy in copies("replicas").iter().chain(&copies("dont-replicate-named")[..1]) {
        let (ip, payload) = ipv6::Header::parse(&copy.packet).expect("a packet");
        let (_, segment) = Header::parse(payload, Dialect::Rfc).expect("a header");
        assert_eq!(upper_layer_checksum(ip.source, ip.destination, next_header::UDP, segment), 0);
    }
    let inner = |name: &str, from: usize| {
        let is_unicast = |copy: &Outgoing| copy.kind == Unicast;
        let unicast = copies(name).into_iter().find(is_unicast).expect("there is one");
        (unicast.packet[6], unicast.packet[ipv6::HEADER_LEN + from..].to_vec())
    };
    let udp = segment(next_header::UDP, node(2));
    let (next, options) = inner("others-options", 0);
    assert_eq!((next, &options[8..]), (next_header::DESTINATION_OPTIONS, &udp[..]), "it is the payload's");
    assert_eq!(inner("first-fragment", 8), (next_header::FRAGMENT, udp.clone()));
    assert_eq!(inner("udp-cut", 0), (next_header::UDP, udp[..7].to_vec()));
    assert_eq!(inner("no-payload", 0), (next_header::NONE, Vec::new()));
    // Destinations differ here, so that a checksum that is touched would change.
    let second = |name: &str| copies(name).pop().expect("the second").packet[ipv6::HEADER_LEN..].to_vec();
    assert_eq!(second("udp-without-checksum")[6..8], [0, 0]);
    assert_eq!(second("later-fragment")[8..], udp[..]);
}

#[test]
fn ports_are_the_receivers_own() {
    let port = |copy: &Outgoing| u16::from_be_bytes([copy.packet[42], copy.packet[43]]);
    let ports: Vec<_> = copies("ports").iter().map(port).collect();
    assert_eq!(ports, [4242, 4243, 9, 0x1516], "the last one has none in the list");
}

/// Xcast+ (RFC 5058, 3) in MEADcast's clothes: a router that is named without receivers has those that have joined.
#[test]
fn designated_routers_multicast_on_their_own_links() {
    let multicast = |lan: u32| (Multicast, GROUP, Some(lan));
    let whither = |name: &str| {
        let copies = copies(name).into_iter();
        copies.map(|copy| (copy.kind, see(&copy, Dialect::Rfc).1, copy.interface)).collect::<Vec<_>>()
    };
    let on_lans = [multicast(LANS[0]), multicast(LANS[1])];
    assert_eq!(whither("designated"), on_lans, "not back to where it came from");
    assert_eq!(whither("designated-twice"), on_lans, "each listener gets one");
    let served = [(Unicast, node(2), None), (Unicast, node(3), None)];
    assert_eq!(whither("designated-mixed"), [&[(Replica, R6, None)], &on_lans[..], &served].concat());
    assert_eq!(whither("designated-whole"), [&[(Whole, R6, None)], &on_lans[..], &served].concat());
    assert_eq!(
        whither("designated-replicas"),
        [(Replica, R5, None), (Replica, R6, None)],
        "not done without, few as their receivers seem to be"
    );
    for name in ["designated-no-listener", "designated-arrived"] {
        assert_eq!(outcome(name), Outcome::Drop(Dropped::NoListener), "{name}");
    }
    assert_eq!(whither("designated-without-group"), []);
    for copy in copies("designated-ports") {
        let (ip, segment) = ipv6::Header::parse(&copy.packet).expect("a packet");
        assert_eq!(segment[2..4], 4242_u16.to_be_bytes());
        assert_eq!(upper_layer_checksum(ip.source, ip.destination, next_header::UDP, segment), 0);
    }
}

/// Or copies would be copied again: four headers of ten receivers would make ten thousand packets of one.
#[test]
fn a_packet_with_a_second_routing_header_gets_no_copies() {
    for name in [
        "nested",
        "nested-request",
        "nested-behind-ports",
        "nested-behind-others-options",
        "nested-in-fragment",
        "nested-in-two-fragments",
        "nested-in-request",
    ] {
        assert_eq!(outcome(name), Outcome::Drop(Dropped::Malformed(Reason::SecondRoutingHeader)), "{name}");
    }
}

/// What a router makes of packets from whom it makes no copies for, and of others beside them.
#[test]
fn copies_are_made_for_those_whom_the_guard_admits() {
    assert_eq!(outcome("twice"), Outcome::Drop(Dropped::Malformed(Reason::Twice)));
    for (name, why) in [
        ("reverse-path", Refused::ReversePath),
        ("reverse-path-none", Refused::ReversePath),
        ("reverse-path-request", Refused::ReversePath),
        ("not-allowed", Refused::NotAllowed),
        ("proof-old", Refused::Stale),
        ("proof-forged", Refused::Unproved),
        ("proof-missing", Refused::Unproved),
        ("proof-missing-in-request", Refused::Unproved),
    ] {
        assert_eq!(outcome(name), Outcome::Refuse(why), "{name}");
    }
    for name in [
        "reverse-path-right",
        "reverse-path-loose",
        "allowed",
        "proof",
        "proof-and-ports",
        "proof-of-next-epoch",
        "proof-not-asked",
    ] {
        assert_eq!(copies(name).len(), 2, "{name}");
    }
    assert!(matches!(outcome("proof-in-request"), Outcome::Request { .. }));
    let designated = outcome("reverse-path-loose-designated");
    assert_eq!(designated, Outcome::Drop(Dropped::NoListener), "multicast is for a strict path");
}

#[test]
fn requests_go_on_and_are_answered() {
    let request = |name: &str| match outcome(name) {
        Outcome::Request { passed_on, request } => (passed_on, request),
        other => panic!("{name}: {other:?}"),
    };
    for (name, dialect, key, offers) in [
        ("request", Dialect::Rfc, None, true),
        ("request-linux-6.5", Dialect::Linux65, None, true),
        ("request-with-nonce", Dialect::Rfc, Some(DomainKey::new(&[1; 32])), true),
        ("request-with-nonce", Dialect::Rfc, None, false),
        ("request-with-group", Dialect::Rfc, None, true),
        ("request-with-group", Dialect::Rfc, None, false),
        ("request", Dialect::Rfc, Some(DomainKey::new(&[1; 32])), false),
    ] {
        let packet = named(name).packet;
        let (passed_on, request) = request(name);
        assert_eq!(passed_on[..ipv6::HEADER_LEN], packet[..ipv6::HEADER_LEN], "the rest is the kernel's");
        let header = Header::parse(&passed_on[ipv6::HEADER_LEN..], dialect).expect("a header").0;
        assert_eq!((header.kind, header.hops), (Kind::Request, 2));

        let answer = request.answer(R5, key.as_ref(), offers);
        let (ip, payload) = ipv6::Header::parse(&answer).expect("a packet");
        assert_eq!((ip.source, ip.destination, ip.next_header), (R5, SENDER, next_header::ROUTING));
        let (header, rest) = Header::parse(payload, dialect).expect("a header");
        assert_eq!((header.kind, header.hops, &header.addresses[..]), (Kind::Response, 2, &[node(2)][..]));
        let options =
            if rest.is_empty() { Options::default() } else { Options::parse(rest).expect("options").0 };
        let proof = options.proof;
        assert_eq!(options.group, (name == "request-with-group" && offers).then_some(GROUP), "{name}");
        assert_eq!(proof.is_some(), request.nonce.is_some() && key.is_some(), "{name}");
        let extra = if let Some((proof, key)) = proof.zip(key) {
            assert_eq!(Some(proof.nonce), request.nonce);
            let said = Said { router: R5, receiver: node(2), hops: 2, group: options.group };
            assert!(key.verifies(&proof, &said));
            16
        } else {
            0
        };
        assert!(answer.len() <= packet.len() + extra, "{name}: nobody is to gain by asking");
    }
}

#[test]
fn others_packets_are_the_kernels() {
    for name in ["disabled", "request-63", "response", "hop-limit"] {
        assert_eq!(outcome(name), Outcome::Pass, "{name}");
    }
    assert_eq!(outcome("hop-limit-here"), Outcome::Drop(Dropped::HopLimit));
    assert_eq!(outcome("all-delivered"), Outcome::Drop(Dropped::NothingToDeliver));
    assert_eq!(outcome("malformed"), Outcome::Drop(Dropped::Malformed(Reason::Flags)));
    let router = router(&[R5]);
    let udp = packet(Dialect::Rfc, &example(next_header::UDP), node(2), &[]);
    for (what, at, bytes) in [
        ("not IPv6", 0, &[0x45][..]),
        ("no routing header", 6, &[next_header::UDP]),
        ("more payload than there is", 4, &[0xff]),
        ("another routing header", 42, &[4]),
        ("a source on the link", 8, &[0xfe, 0x80]),
        ("a group", 24, &[0xff]),
    ] {
        let outcome = router.forward(&changed(&udp, at, bytes), ARRIVED, &mut route);
        assert_eq!(outcome, Outcome::Pass, "{what}");
    }
    let long = Header { next_header: next_header::DESTINATION_OPTIONS, ..Header::request(node(2)) };
    let options = [&[next_header::NONE, 0, 1, 4, 0, 0, 0, 0][..], &[0; 249]].concat();
    let long = packet(Dialect::Rfc, &long, node(2), &options);
    assert_eq!(
        (long.len(), router.forward(&long, ARRIVED, &mut route)),
        (329, Outcome::Pass),
        "no sender asks so"
    );
    let here = packet(Dialect::Rfc, &Header::request(R5), R5, &[]);
    assert_eq!(router.forward(&here, ARRIVED, &mut route), Outcome::Pass, "it is on no way to itself");
}

proptest! {
    #[test]
    fn no_packet_makes_a_router_panic_or_multiply_without_bound(
        seed in packet_and_changes(),
        min_dsts in 0_u8..5,
        owns: (bool, bool),
    ) {
        let router = Router { min_dsts, own: own(owns), ..designated(&[]) };
        if let Outcome::Forward(copies) = router.forward(&seed, ARRIVED, &mut route) {
            prop_assert!(copies.len() < MAX_ADDRESSES);
            for copy in copies {
                prop_assert!(copy.packet.len() <= seed.len());
                let (ip, _) = ipv6::Header::parse(&copy.packet).expect("a packet");
                let is_copied_again = ip.next_header == next_header::ROUTING;
                prop_assert_eq!(is_copied_again, matches!(copy.kind, Replica | Whole));
            }
        }
    }

    #[test]
    fn each_receiver_is_reached_once(min_dsts in 0_u8..5, dont_replicate in 0_u8..2, owns: (bool, bool)) {
        let header = Header { dont_replicate, ..example(next_header::UDP) };
        let first = packet(Dialect::Rfc, &header, node(2), &segment(next_header::UDP, node(2)));
        let middle = Router { min_dsts, own: own(owns), ..router(&[]) };
        let last = router(&[R5, R6]);
        let mut reached: Vec<_> = unicast_of(&last, unicast_of(&middle, vec![first])).iter()
            .map(|packet| ipv6::Header::parse(packet).expect("a packet").0.destination).collect();
        reached.sort();
        prop_assert_eq!(reached, [2, 3, 4, 5].map(node));
    }
}

/// A router's addresses, as far as they are its own.
fn own(owns: (bool, bool)) -> BTreeSet<Ipv6Addr> {
    owns.0.then_some(R5).into_iter().chain(owns.1.then_some(R6)).collect()
}

/// What a router makes of these packets; it passes on what is unicast already.
fn unicast_of(router: &Router, packets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let forwarded =
        packets.into_iter().flat_map(|packet| match router.forward(&packet, ARRIVED, &mut route) {
            Outcome::Forward(copies) => copies.into_iter().map(|copy| copy.packet).collect(),
            _ => vec![packet],
        });
    forwarded.collect()
}

prop_compose! {
    fn packet_and_changes()(
        rest in prop::collection::vec(any::<u8>(), 0..200),
        next in prop::sample::select(vec![6, 17, 43, 44, 58, 59, 60]),
        delivery in 0_usize..4,
        changes in prop::collection::vec((0_usize..160, any::<u8>()), 0..4),
    ) -> Vec<u8> {
        let delivery: Map = [0, 3].into_iter().filter(|at| delivery & (1 + at / 3) != 0).collect();
        let header = Header { delivery, ..example(next) };
        damaged(packet(Dialect::Rfc, &header, node(2), &rest), changes)
    }
}
