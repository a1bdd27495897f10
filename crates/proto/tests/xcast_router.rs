//! The rules of the Xcast router, one by one, and its golden packets.
//!
//! `TREECAST_WRITE_VECTORS=1` writes `vectors/xcast/router-xcast-*.txt` anew.

mod packets;

use std::net::Ipv6Addr;

use packets::{
    ALONE, GROUP, LANS, NOWHERE, OWN, SENDER, Triple, changed, damaged, designated, destinations, header,
    must_be_in_vectors, node, packet, route, router, segment, text, triples, udp_packet,
};
use proptest::prelude::*;
use treecast_proto::explicit::{
    mead::router::{Refused, Router},
    xcast::router::{Dropped, Outcome, Outgoing, OutgoingKind, encapsulate, forward},
};
use treecast_wire::{
    ipv6::{self, next_header, upper_layer_checksum},
    mead::Map,
    xcast::{Header, MAX_DESTINATIONS, Options, Reason},
};

#[test]
fn triples_are_those_in_vectors() {
    for triple in triples() {
        must_be_in_vectors(&format!("xcast/router-xcast-{}.txt", triple.name), &text(&triple));
    }
}

fn named(name: &str) -> Triple {
    triples().into_iter().find(|triple| triple.name == name).expect("there is one")
}

fn copies(name: &str) -> Vec<Outgoing> {
    match named(name).outcome() {
        Outcome::Forward(copies) => copies,
        other => panic!("{name}: {other:?}"),
    }
}

/// Kind, destination and, of what is still Xcast, the bitmap.
type Seen = (OutgoingKind, Ipv6Addr, Option<String>);

fn seen(name: &str) -> Vec<Seen> {
    copies(name).iter().map(see).collect()
}

fn see(copy: &Outgoing) -> Seen {
    let (ip, payload) = ipv6::Header::parse(&copy.packet).expect("a packet");
    assert_eq!((ip.hop_limit, ip.source, ip.class_and_label), (63, SENDER, 0x0ab1_2345));
    let header = (ip.next_header == next_header::ROUTING)
        .then(|| Header::parse(payload).expect("a good header with a right checksum").0);
    (copy.kind, ip.destination, header.map(|header| header.valid.to_string()))
}

use OutgoingKind::{Copy, Local, Multicast, Premature, Unicast, Unrouted};

fn copy(to: Ipv6Addr, bitmap: &str) -> Seen {
    (Copy, to, Some(bitmap.to_owned()))
}

fn plain(kind: OutgoingKind, to: Ipv6Addr) -> Seen {
    (kind, to, None)
}

/// RFC 5058, 9.2.2 (bitmap, X) and 11.2.
#[test]
fn each_next_hop_gets_one_copy_and_the_last_destination_unicast() {
    let both = [copy(node(1, 1), "101001"), copy(node(2, 1), "01001"), plain(Unicast, node(4, 1))];
    for name in ["copies", "to-all-routers", "to-all-routers-by-group", "to-another"] {
        assert_eq!(seen(name), both, "{name}");
    }
    let some = [copy(node(1, 2), "001001"), plain(Unicast, node(2, 1))];
    assert_eq!(seen("copies-of-some"), some, "what is not valid is served elsewhere");
    let [first, last] = [1, 2].map(|number| plain(Premature, node(2, number)));
    assert_eq!(seen("premature"), [both[0].clone(), first, both[2].clone(), last]);
    assert_eq!(seen("premature-all").len(), 6);
    let alone = copy(node(4, 1), "0001");
    assert_eq!(seen("stays"), [both[0].clone(), both[1].clone(), alone], "the X bit: never unicast");
    assert_eq!(seen("one-way"), [copy(node(3, 1), "11")]);
    assert_eq!(seen("back"), [copy(node(5, 1), "11")]);
    let each = [1, 3, 2].map(|number| plain(Unicast, node(4, number)));
    assert_eq!(seen("on-link"), each);
    let longest = seen("thirty-two");
    assert_eq!(longest.iter().map(|(kind, ..)| *kind).collect::<Vec<_>>(), [Copy, Copy, Copy]);
}

#[test]
fn with_the_a_bit_nobody_sees_who_is_served_elsewhere() {
    let shown = |name: &str| -> Vec<Vec<Ipv6Addr>> {
        let copies = copies(name);
        let still_xcast = copies.iter().filter(|copy| copy.kind == Copy);
        let header = |copy: &Outgoing| Header::parse(&copy.packet[ipv6::HEADER_LEN..]).expect("a header").0;
        still_xcast.map(|copy| header(copy).destinations).collect()
    };
    let all = destinations();
    let only = |places: [usize; 2], also: Option<usize>| -> Vec<Ipv6Addr> {
        let is_shown = |place: &usize| places.contains(place) || also == Some(*place);
        let address = |place| if is_shown(&place) { all[place] } else { Ipv6Addr::UNSPECIFIED };
        (0..all.len()).map(address).collect()
    };
    assert_eq!(shown("anonymous"), [only([0, 2], Some(5)), only([1, 4], None)]);
    assert_eq!(shown("copies"), [all.clone(), all.clone()]);
}

#[test]
fn who_is_here_or_nowhere_gets_unicast_whatever_the_x_bit_says() {
    for name in ["own", "own-stays"] {
        assert_eq!(seen(name), [copy(node(1, 1), "101"), plain(Local, OWN)], "{name}");
    }
    assert_eq!(seen("own-alone"), [plain(Local, OWN)]);
    let nowhere = |number| plain(Unrouted, node(NOWHERE, number));
    for name in ["no-route", "no-route-stays"] {
        assert_eq!(seen(name), [copy(node(1, 1), "0101"), nowhere(1), nowhere(2)], "{name}");
    }
}

/// Each router on the link has got it, and one of them is nearer.
#[test]
fn of_what_came_to_all_routers_each_serves_whom_it_forwards_to() {
    let nowhere = plain(Unrouted, node(NOWHERE, 1));
    let whole = [copy(node(5, 1), "10001"), copy(node(1, 1), "010001"), nowhere, plain(Local, OWN)];
    assert_eq!(seen("to-all-routers-mixed"), whole, "it came to this router alone");
    assert_eq!(seen("to-all-routers-by-group-mixed"), [copy(node(1, 1), "010001"), plain(Local, OWN)]);
    let others = named("to-all-routers-by-group-others").outcome();
    assert_eq!(others, Outcome::Drop(Dropped::ForOthers));
}

#[test]
fn copies_have_right_checksums_for_their_destinations() {
    for triple in triples() {
        let Outcome::Forward(copies) = triple.outcome() else { continue };
        for copy in copies {
            let (ip, payload) = ipv6::Header::parse(&copy.packet).expect("a packet");
            let (mut next, mut segment) = (ip.next_header, payload);
            if next == next_header::ROUTING {
                let (header, rest) = Header::parse(payload).expect("a header");
                (next, segment) = (header.next_header, rest);
                if next == next_header::DESTINATION_OPTIONS {
                    let (_, of_upper, len) =
                        Options::parse(rest, header.destinations.len()).expect("options");
                    (next, segment) = (of_upper, &rest[len..]);
                }
            }
            let is_whole = ipv6::checksum_offset(next).is_some_and(|at| segment.len() > at + 2);
            if is_whole && triple.name != "udp-without-checksum" {
                let sum = upper_layer_checksum(ip.source, ip.destination, next, segment);
                assert_eq!(sum, 0, "{}: {:?} to {}", triple.name, copy.kind, ip.destination);
            }
        }
    }
    let inner = |name: &str, from: usize| {
        let unicast = copies(name).into_iter().find(|copy| copy.kind == Unicast).expect("there is one");
        (unicast.packet[6], unicast.packet[ipv6::HEADER_LEN + from..].to_vec())
    };
    let udp = segment(next_header::UDP, node(4, 1), 0x1516);
    assert_eq!(inner("others-options", 8), (next_header::DESTINATION_OPTIONS, udp.clone()));
    assert_eq!(inner("first-fragment", 8), (next_header::FRAGMENT, udp.clone()));
    assert_eq!(inner("udp-cut", 0).1.len(), 7);
    assert_eq!(inner("no-payload", 0), (next_header::NONE, Vec::new()));
    assert_eq!(inner("udp-without-checksum", 0).1[6..8], [0, 0], "no checksum stays none");
    let sent = segment(next_header::UDP, node(1, 1), 0x1516);
    assert_eq!(inner("later-fragment", 8).1, sent, "a checksum is in the first fragment only");
}

/// RFC 5058, 8.1 and 10.1.
#[test]
fn ports_are_the_destinations_own() {
    let port = |copy: &Outgoing| u16::from_be_bytes([copy.packet[42], copy.packet[43]]);
    let copies_with_ports = copies("ports");
    let unicast: Vec<_> = copies_with_ports.iter().filter(|copy| copy.kind == Unicast).collect();
    assert_eq!(unicast.iter().map(|copy| port(copy)).collect::<Vec<_>>(), [9]);
    let still = &copies_with_ports[0].packet[ipv6::HEADER_LEN..];
    let (header, rest) = Header::parse(still).expect("a header");
    let ports = Options::parse(rest, header.destinations.len()).expect("a list").0.ports;
    assert_eq!(ports, Some(vec![4242, 4243, 0, 9, 10, 11]), "it stays whole on the way");
    let tcp = copies("ports-of-tcp").pop().expect("the unicast one");
    assert_eq!((tcp.kind, port(&tcp)), (Unicast, 5), "ports are UDP's");
}

#[test]
fn designated_routers_multicast_on_their_own_links() {
    let whither = |name: &str| {
        let copies = copies(name).into_iter();
        copies.map(|copy| (copy.kind, see(&copy).1, copy.interface)).collect::<Vec<_>>()
    };
    let on_lans = LANS.map(|lan| (Multicast, GROUP, Some(lan)));
    assert_eq!(whither("group"), on_lans, "not back to where it came from");
    assert_eq!(whither("group-twice"), on_lans, "each listener gets one");
    let copy = (Copy, node(1, 1), None);
    assert_eq!(whither("group-mixed"), [&[copy][..], &on_lans].concat());
    assert_eq!(whither("group-elsewhere"), [copy]);
    assert_eq!(whither("group-no-listener-mixed"), [(Unicast, node(1, 1), None)]);
    for name in ["group-no-listener", "group-arrived"] {
        assert_eq!(named(name).outcome(), Outcome::Drop(Dropped::NoListener), "{name}");
    }
    let port = |copy: &Outgoing| u16::from_be_bytes([copy.packet[42], copy.packet[43]]);
    assert_eq!(port(&copies("group-mixed")[1]), 4243, "that of the router's place");
}

/// M2X: from the router on the sender's link to the router on the listeners', and there X2M.
#[test]
fn a_multicast_packet_crosses_as_xcast_and_leaves_as_it_came() {
    let multicast = |hop_limit, destination| {
        let segment = segment(next_header::UDP, destination, 4000);
        let ip = ipv6::Header::new(SENDER, destination, next_header::UDP);
        ipv6::Header { class_and_label: 0x0ab1_2345, hop_limit, ..ip }.packet(&[&segment])
    };
    let sent = multicast(64, GROUP);
    let [wrapped] = &encapsulate(&sent, &[node(1, 9), OWN, node(1, 8)], 1500, None)[..] else {
        panic!("one packet")
    };
    let (header, _) = Header::parse(&wrapped[ipv6::HEADER_LEN..]).expect("a header");
    assert_eq!((header.channel, header.stays_xcast, header.destinations.len()), (GROUP, true, 3));
    let on_lans = |packet: &[u8], own| match forward(&designated(&[own]), packet, ALONE, &mut route) {
        Outcome::Forward(copies) => copies,
        other => panic!("{other:?}"),
    };
    let copies = on_lans(wrapped, OWN);
    assert_eq!(see(&copies[0]).2.as_deref(), Some("101"));
    assert_eq!(
        copies[1].packet,
        [&sent[..7], &[63], &sent[8..]].concat(),
        "but for its hop limit as it came"
    );
    let next = on_lans(&copies[0].packet, node(1, 9));
    let still = next.iter().find(|copy| copy.kind == Copy).expect("it stays Xcast");
    assert_eq!(ipv6::Header::parse(&still.packet).expect("a packet").0.destination, node(1, 8));
    let many: Vec<_> = (1..=40).map(|number| node(1, number)).collect();
    let counts = |mtu| -> Vec<usize> {
        let all = encapsulate(&sent, &many, mtu, None);
        let count = |packet: &Vec<u8>| usize::from(packet[ipv6::HEADER_LEN + 5]);
        assert!(all.iter().all(|packet| packet.len() <= mtu));
        all.iter().map(count).collect()
    };
    assert_eq!((counts(1500), counts(40 + 17 + 32 + 16 * 20)), (vec![32, 8], vec![20, 20]));
    for none in
        [multicast(1, GROUP), multicast(64, "ff02::77".parse().expect("an address")), multicast(64, OWN)]
    {
        assert!(encapsulate(&none, &many, 1500, None).is_empty());
    }
    let mut routed = sent.clone();
    routed[6] = next_header::ROUTING;
    assert!(encapsulate(&routed, &many, 1500, None).is_empty(), "a second routing header");
    assert!(
        encapsulate(&sent[..50], &many, 1500, None).is_empty()
            && encapsulate(&sent, &[], 1500, None).is_empty()
    );
}

/// As with MEADcast. X2M is strict about where packets come from, too, unless nothing is asked of any.
#[test]
fn copies_are_made_for_those_whom_the_guard_admits() {
    let malformed = Outcome::Drop(Dropped::Malformed(Reason::Twice));
    for (name, outcome) in [
        ("twice", malformed),
        ("reverse-path", Outcome::Refuse(Refused::ReversePath)),
        ("reverse-path-group", Outcome::Drop(Dropped::NoListener)),
        ("not-allowed", Outcome::Refuse(Refused::NotAllowed)),
        ("proof-old", Outcome::Refuse(Refused::Stale)),
        ("proof-forged", Outcome::Refuse(Refused::Unproved)),
        ("proof-missing", Outcome::Refuse(Refused::Unproved)),
    ] {
        assert_eq!(named(name).outcome(), outcome, "{name}");
    }
    for (name, count) in [
        ("twice-served", 1),
        ("reverse-path-right", 3),
        ("reverse-path-group-right", 2),
        ("reverse-path-group-off", 2),
        ("proof", 3),
        ("proof-and-ports", 3),
    ] {
        assert!(matches!(named(name).outcome(), Outcome::Forward(all) if all.len() == count), "{name}");
    }
}

#[test]
fn what_is_wrong_ends_here_and_what_is_no_xcast_is_the_kernels() {
    let malformed = |reason| Outcome::Drop(Dropped::Malformed(reason));
    for (name, outcome) in [
        ("version", malformed(Reason::Version)),
        ("dscps", malformed(Reason::Dscps)),
        ("no-address", malformed(Reason::NoAddress)),
        ("too-many", malformed(Reason::TooManyAddresses)),
        ("header-length", malformed(Reason::HeaderLen)),
        ("segments-left", malformed(Reason::SegmentsLeft)),
        ("checksum", malformed(Reason::Checksum)),
        ("too-few-ports", malformed(Reason::Ports)),
        ("nested", malformed(Reason::SecondRoutingHeader)),
        ("nested-behind-ports", malformed(Reason::SecondRoutingHeader)),
        ("nested-behind-others-options", malformed(Reason::SecondRoutingHeader)),
        ("nested-in-fragment", malformed(Reason::SecondRoutingHeader)),
        ("disabled", Outcome::Pass),
        ("linux-6.5", Outcome::Pass),
        ("hop-limit", Outcome::Pass),
        ("hop-limit-here", Outcome::Drop(Dropped::HopLimit)),
        ("hop-limit-all-routers", Outcome::Drop(Dropped::HopLimit)),
    ] {
        assert_eq!(named(name).outcome(), outcome, "{name}");
    }
    let good = udp_packet(&header(next_header::UDP, &destinations()));
    for (what, at, bytes) in [
        ("not IPv6", 0, &[0x45][..]),
        ("no routing header", 6, &[next_header::UDP]),
        ("more payload than there is", 4, &[0xff]),
        ("MEADcast's routing header", 42, &[253]),
        ("a source on the link", 8, &[0xfe, 0x80]),
        ("another group", 24, &[0xff]),
    ] {
        let outcome = forward(&router(&[]), &changed(&good, at, bytes), ALONE, &mut route);
        assert_eq!(outcome, Outcome::Pass, "{what}");
    }
}

proptest! {
    #[test]
    fn no_packet_makes_a_router_panic_or_multiply_without_bound(
        seed in packet_and_changes(),
        min_dsts in 0_u8..8,
        is_own: bool,
    ) {
        let own = is_own.then_some(node(1, 1)).into_iter().collect();
        let router = Router { min_dsts, own, ..designated(&[]) };
        if let Outcome::Forward(copies) = forward(&router, &seed, ALONE, &mut route) {
            prop_assert!(copies.len() < MAX_DESTINATIONS + LANS.len());
            for copy in copies {
                prop_assert!(copy.packet.len() <= seed.len());
                let (ip, _) = ipv6::Header::parse(&copy.packet).expect("a packet");
                prop_assert_eq!(ip.next_header == next_header::ROUTING, copy.kind == Copy);
            }
        }
    }

    /// Whatever routers are between: each destination gets the packet once.
    #[test]
    fn each_destination_is_reached_once(min_dsts in 0_u8..8, bits in 1_u32..64, is_anonymous: bool) {
        let valid = Map::from_bits(bits << 26);
        let header = Header { is_anonymous, ..header(next_header::UDP, &destinations()) }.only(valid);
        let first = Router { min_dsts, ..router(&[]) };
        let mut reached = Vec::new();
        let mut waiting = vec![udp_packet(&header)];
        for _ in 0..3 {
            for packet in std::mem::take(&mut waiting) {
                match forward(&first, &packet, ALONE, &mut |to| on_link_next(&packet, to)) {
                    Outcome::Forward(copies) => waiting.extend(copies.into_iter().map(|copy| copy.packet)),
                    _ => reached.push(ipv6::Header::parse(&packet).expect("a packet").0.destination),
                }
            }
        }
        reached.sort();
        let mut expected: Vec<_> = header.valid_destinations().collect();
        expected.sort();
        prop_assert_eq!(reached, expected);
    }
}

/// From the sender's router where [`route`] leads; from the next one on all are on the link.
fn on_link_next(packet: &[u8], to: Ipv6Addr) -> Option<treecast_proto::explicit::xcast::router::NextHop> {
    let mut hop = route(to)?;
    if packet[7] < 64 {
        hop.gateway = None;
    }
    Some(hop)
}

prop_compose! {
    fn packet_and_changes()(
        rest in prop::collection::vec(any::<u8>(), 0..200),
        next in prop::sample::select(vec![6, 17, 43, 44, 58, 59, 60]),
        bits in 1_u32..64,
        flags: (bool, bool, bool),
        changes in prop::collection::vec((0_usize..240, any::<u8>()), 0..3),
    ) -> Vec<u8> {
        let (is_anonymous, stays_xcast, has_channel) = flags;
        let channel = if has_channel { GROUP } else { Ipv6Addr::UNSPECIFIED };
        let header = Header { is_anonymous, stays_xcast, channel, ..header(next, &destinations()) };
        damaged(packet(&header.only(Map::from_bits(bits << 26)), node(1, 1), &rest), changes)
    }
}
