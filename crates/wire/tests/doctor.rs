//! The packets of the doctor, Mtrace2's and the beacons': golden packets, and the properties of their parsers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::vectors;
use proptest::prelude::*;
use treecast_wire::{
    beacon::{self, Beacon, Row},
    mtrace2::{Block, ForwardingCode, Header, Interfaces, Kind, Message, StandardBlock},
};

fn v4(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, last, 1)
}

fn v6(link: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, link, 0, 0, 0, 0, 0, 1)
}

fn header(is_ipv4: bool) -> Header {
    let [group, source, client]: [IpAddr; 3] = match is_ipv4 {
        true => [Ipv4Addr::new(239, 1, 2, 3).into(), v4(0).into(), v4(9).into()],
        false => [Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 0x42).into(), v6(0).into(), v6(9).into()],
    };
    Header::new(32, Some(group), Some(source), client, 0x1234, 40_000).expect("a good header")
}

fn block(is_ipv4: bool, code: ForwardingCode) -> StandardBlock {
    let interfaces = match is_ipv4 {
        true => Interfaces::V4 { incoming: v4(2), outgoing: v4(3), upstream: v4(1), hop_limit: 1 },
        false => Interfaces::V6 { incoming: 2, outgoing: 3, local: v6(3), upstream: v6(1) },
    };
    StandardBlock {
        arrival: 0x7e80_8000,
        interfaces,
        packets_in: Some(1_000_000),
        packets_out: Some(2_000_000),
        packets: (code == ForwardingCode::NoError).then_some(1 << 40),
        unicast_protocol: 1,
        multicast_protocol: 10,
        is_for_network: false,
        prefix_len: if is_ipv4 { 32 } else { 128 },
        code,
    }
}

fn beacon() -> Beacon {
    let mut beacon = Beacon::new(0x0123_4567_89ab_cdef, "büro 3").expect("a good name");
    (beacon.sequence, beacon.sent_us) = (1 << 31, 1_795_000_000_000_000);
    (beacon.hop_limit, beacon.interval_ms) = (32, 200);
    let row = Row { id: 7, loss_permille: 12, one_way_us: Some(-350), hops: Some(2), duplicates_permille: 0 };
    let silent = Row { id: 8, loss_permille: 1000, one_way_us: None, hops: None, duplicates_permille: 1000 };
    beacon.set_rows([row, silent]);
    beacon
}

#[test]
fn the_vectors_hold_every_kind_of_message() {
    let standard = |is_ipv4, code| Block::Standard(block(is_ipv4, code));
    let cases = [
        ("query-ipv4", Kind::Query, true, vec![]),
        ("query-ipv6", Kind::Query, false, vec![]),
        (
            "query-extended",
            Kind::Query,
            false,
            vec![Block::ExtendedQuery { is_transitive: true, kind: 5, value: vec![1, 2] }],
        ),
        ("request-ipv4", Kind::Request, true, vec![standard(true, ForwardingCode::NoError)]),
        (
            "request-ipv6",
            Kind::Request,
            false,
            vec![standard(false, ForwardingCode::NoError), Block::Returned(14)],
        ),
        (
            "reply-ipv4",
            Kind::Reply,
            true,
            vec![standard(true, ForwardingCode::NoError), standard(true, ForwardingCode::NoRoute)],
        ),
        (
            "reply-ipv6",
            Kind::Reply,
            false,
            vec![standard(false, ForwardingCode::NoError), standard(false, ForwardingCode::Prohibited)],
        ),
        (
            "reply-wrong-last-hop",
            Kind::Reply,
            true,
            vec![Block::Standard(StandardBlock::only(ForwardingCode::WrongLastHop, true))],
        ),
        ("reply-augmented", Kind::Reply, true, vec![Block::Augmented { kind: 77, value: vec![9; 5] }]),
    ];
    for (name, kind, is_ipv4, blocks) in cases {
        let message = Message { kind, header: header(is_ipv4), blocks };
        vectors::must_hold(&format!("mtrace2-{name}"), &message.to_bytes(), &format!("{message}\n"));
        assert_eq!(Message::parse(&message.to_bytes()), Ok(message), "{name}");
    }
    let beacon = beacon();
    vectors::must_hold("beacon-plain", &beacon.to_bytes(), &format!("{beacon}\n"));
    let sealed = beacon.to_sealed_bytes(|message| [message.len() as u8; 16]);
    vectors::must_hold("beacon-keyed", &sealed, &format!("{beacon}\n"));
}

#[test]
fn addresses_that_do_not_fit_are_refused() {
    let [client, group, other] = [IpAddr::from(v4(9)), [239, 1, 2, 3].into(), v6(1).into()];
    let new = |group, source, client| Header::new(1, group, source, client, 0, 1).map(drop);
    let error = |group, source, client| new(group, source, client).expect_err("it is wrong").to_string();
    assert_eq!(new(Some(group), None, client), Ok(()));
    assert_eq!(new(None, Some(client), client), Ok(()));
    assert!(error(None, None, client).starts_with("group and source: none found"));
    assert!(error(Some(client), None, client).starts_with("group: 10.0.9.1 found"));
    assert!(error(Some(group), Some(group), client).starts_with("source: 239.1.2.3 found"));
    assert!(error(Some(group), Some(other), client).starts_with("source: fd00:1::1 found"));
    for client in [group, [0; 4].into(), [255; 4].into(), [127, 0, 0, 1].into()] {
        assert!(error(Some(group), None, client).starts_with("client"), "{client}");
    }
    assert!(Header::new(0, Some(group), None, client, 0, 1).is_err(), "no hop at all");
    assert!(Header::new(1, Some(group), None, client, 0, 0).is_err(), "no port");
}

#[test]
fn every_forwarding_code_has_its_number_and_words_of_its_own() {
    let codes = ForwardingCode::REGISTERED;
    let numbers: Vec<u8> = codes.iter().map(|code| code.number()).collect();
    let registered: Vec<u8> = (0..=0x0d).chain(0x80..=0x82).collect();
    assert_eq!(numbers, registered, "as IANA has them");
    for number in 0..=u8::MAX {
        assert_eq!(ForwardingCode::from_number(number).number(), number);
    }
    let words: std::collections::BTreeSet<_> = codes.iter().map(|code| code.words()).collect();
    assert_eq!(words.len(), codes.len());
    assert_eq!(ForwardingCode::from_number(0x44).to_string(), "UNKNOWN(0x44)");
}

#[test]
fn a_beacon_that_is_not_one_is_refused() {
    let bytes = beacon().to_bytes();
    for len in 0..bytes.len() {
        assert!(Beacon::parse(&bytes[..len]).is_err(), "{len} bytes");
    }
    assert!(Beacon::parse(&[&bytes[..], &[0]].concat()).is_err(), "one byte more");
    let error = |at: usize, value: u8| {
        let mut changed = bytes.clone();
        changed[at] = value;
        Beacon::parse(&changed).expect_err("it is not valid").to_string()
    };
    assert!(error(3, b'2').starts_with("magic: "));
    assert!(error(4, 2).starts_with("flags: 2 found"));
    assert!(error(28, 61).starts_with("rows: 61 found"));
    assert!(error(30, 7).starts_with("name: \\u{7}"));
    assert!(error(30, 0xff).starts_with("name: other bytes"));
    assert!(Beacon::new(1, "").is_err() && Beacon::new(1, &"x".repeat(41)).is_err());
}

fn address(is_ipv4: bool) -> BoxedStrategy<IpAddr> {
    match is_ipv4 {
        true => any::<u32>().prop_map(|bits| IpAddr::from(Ipv4Addr::from(bits))).boxed(),
        false => any::<u128>().prop_map(|bits| IpAddr::from(Ipv6Addr::from(bits))).boxed(),
    }
}

fn any_header(is_ipv4: bool) -> impl Strategy<Value = Header> {
    let group = prop::option::of(address(is_ipv4));
    let source = prop::option::of(address(is_ipv4));
    (1..=u8::MAX, group, source, address(is_ipv4), any::<u16>(), 1..=u16::MAX).prop_filter_map(
        "a valid combination",
        |(hops, group, source, client, id, port)| {
            let group = group.map(|group| match group {
                IpAddr::V4(group) => Ipv4Addr::from(0xe000_0000 | group.to_bits() >> 4).into(),
                IpAddr::V6(group) => Ipv6Addr::from(0xff << 120 | group.to_bits() >> 8).into(),
            });
            Header::new(hops, group, source, client, id, port).ok()
        },
    )
}

fn any_block(is_ipv4: bool) -> impl Strategy<Value = Block> {
    let value = || prop::collection::vec(any::<u8>(), 0..20);
    let unknown = (2..=u16::MAX, value()).prop_map(|(kind, value)| Block::Augmented { kind, value });
    let extended = (any::<bool>(), any::<u16>(), value())
        .prop_map(|(is_transitive, kind, value)| Block::ExtendedQuery { is_transitive, kind, value });
    prop_oneof![
        any_standard(is_ipv4).prop_map(Block::Standard),
        any::<u16>().prop_map(Block::Returned),
        unknown,
        extended,
    ]
}

fn any_standard(is_ipv4: bool) -> impl Strategy<Value = StandardBlock> {
    let counts =
        any::<[u64; 3]>().prop_map(|counts| counts.map(|count| Some(count).filter(|c| *c != u64::MAX)));
    let longest: u8 = if is_ipv4 { 127 } else { 255 };
    (
        any::<[u128; 2]>(),
        any::<[u32; 3]>(),
        any::<u8>(),
        counts,
        any::<[u16; 2]>(),
        0..=longest,
        any::<bool>(),
    )
        .prop_map(move |(addresses, numbers, byte, counts, protocols, prefix_len, is_for_network)| {
            let [first, second, third] = numbers;
            let interfaces = match is_ipv4 {
                true => Interfaces::V4 {
                    incoming: first.into(),
                    outgoing: second.into(),
                    upstream: third.into(),
                    hop_limit: byte,
                },
                false => {
                    let [local, upstream] = addresses.map(Ipv6Addr::from);
                    Interfaces::V6 { incoming: first, outgoing: second, local, upstream }
                }
            };
            let [packets_in, packets_out, packets] = counts;
            StandardBlock {
                arrival: third,
                interfaces,
                packets_in,
                packets_out,
                packets,
                unicast_protocol: protocols[0],
                multicast_protocol: protocols[1],
                is_for_network,
                prefix_len,
                code: ForwardingCode::from_number(byte),
            }
        })
}

fn any_message() -> impl Strategy<Value = Message> {
    let kind = prop::sample::select(vec![Kind::Query, Kind::Request, Kind::Reply]);
    (kind, any::<bool>()).prop_flat_map(|(kind, is_ipv4)| {
        (any_header(is_ipv4), prop::collection::vec(any_block(is_ipv4), 0..20))
            .prop_map(move |(header, blocks)| Message { kind, header, blocks })
    })
}

fn any_beacon() -> impl Strategy<Value = Beacon> {
    let row =
        (any::<u64>(), 0..=1000u16, prop::option::of(-i32::MAX..), prop::option::of(0..255u8), 0..=1000u16)
            .prop_map(|(id, loss_permille, one_way_us, hops, duplicates_permille)| Row {
                id,
                loss_permille,
                one_way_us,
                hops,
                duplicates_permille,
            });
    let rows = prop::collection::vec(row, 0..=beacon::MAX_ROWS);
    (any::<u64>(), "[a-zß.-]{1,20}", any::<(u32, u64, u8)>(), 1..=u16::MAX, rows).prop_map(
        |(id, name, (sequence, sent_us, hop_limit), interval_ms, rows)| {
            let mut beacon = Beacon::new(id, &name).expect("a short name");
            (beacon.sequence, beacon.sent_us) = (sequence, sent_us);
            (beacon.hop_limit, beacon.interval_ms) = (hop_limit, interval_ms);
            beacon.set_rows(rows);
            beacon
        },
    )
}

proptest! {
    #[test]
    fn a_message_of_mtrace2_reads_back_the_same(message in any_message()) {
        let bytes = message.to_bytes();
        prop_assert_eq!(bytes.len(), message.len());
        prop_assert_eq!(Message::parse(&bytes), Ok(message));
    }

    #[test]
    fn a_beacon_reads_back_the_same(beacon in any_beacon(), code: [u8; 16]) {
        let bytes = beacon.to_bytes();
        prop_assert!(bytes.len() + beacon::CODE_LEN <= beacon::MAX_LEN);
        prop_assert_eq!(Beacon::parse(&bytes), Ok((beacon.clone(), None)));
        let sealed = beacon.to_sealed_bytes(|_| code);
        let (parsed, seal) = Beacon::parse(&sealed).expect("its own bytes");
        prop_assert_eq!(parsed, beacon);
        let seal = seal.expect("a code");
        prop_assert_eq!((seal.code, seal.message), (code, &sealed[..sealed.len() - 16]));
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0..4u8) {
        let _ = (Message::parse(&bytes), Beacon::parse(&bytes));
        let query = [&[kind, 0, 20][..], &bytes].concat();
        if let Ok(message) = Message::parse(&query) {
            prop_assert!(message.len() <= query.len());
        }
        let _ = Beacon::parse(&[&b"tbn1"[..], &bytes].concat());
    }
}
