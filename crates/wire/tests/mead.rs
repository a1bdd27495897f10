//! MEADcast's headers against golden bytes, each malformed shape, and the properties of the parsers.
//!
//! `vectors/mead/*.bin` hold the routing header with what follows it; those of the dialect `linux-6.5` were put together by
//! hand from the struct that DESIGN describes. `TREECAST_WRITE_VECTORS=1` writes the snapshots anew.

use std::net::Ipv6Addr;

use crate::vectors;
use proptest::prelude::*;
use treecast_wire::{
    ipv6::next_header,
    list_proof::ListProof,
    mead::{CODE_LEN, Dialect, Header, Kind, Malformed, Map, NONCE_LEN, Options, Proof, Reason},
};

/// A receiver or router of the thesis' figures.
fn node(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd14, 0, 0, 0, 0, 1, 0, number)
}

/// Meadcast-thesis-2024, 2.1.4, "Data Delivery": R5 with E2 and E3, R6 with E4 and E5.
fn example() -> Header {
    let groups = [(node(0x50), vec![node(2), node(3)]), (node(0x60), vec![node(4), node(5)])];
    Header::data(next_header::UDP, &groups).expect("a good list")
}

fn revised() -> (Header, Options) {
    let header =
        Header { next_header: next_header::DESTINATION_OPTIONS, dont_replicate: 3, hops: 2, ..example() };
    let group = Some(Ipv6Addr::new(0xff35, 0, 0, 0, 0, 0, 0, 1));
    (header, Options { ports: Some(vec![0, 4242, 4243, 0, 9, 10]), group, ..Options::default() })
}

fn proved() -> (Header, Options) {
    let list_proof = Some(ListProof { epoch: 0xc6c0, code: [1, 2, 3, 4, 5, 6, 7, 8] });
    let header = Header { next_header: next_header::DESTINATION_OPTIONS, ..example() };
    (header, Options { list_proof, ..Options::default() })
}

fn response() -> (Header, Options) {
    let request = Header::request(node(2));
    let header =
        Header { kind: Kind::Response, hops: 5, next_header: next_header::DESTINATION_OPTIONS, ..request };
    let proof = Proof { nonce: [7; NONCE_LEN], code: [8; CODE_LEN] };
    (header, Options { proof: Some(proof), ..Options::default() })
}

#[test]
fn headers_are_what_the_vectors_hold() {
    let with = |(header, options): (Header, Options), next| (header, options, next);
    let samples = [
        ("mead-data", with((example(), Options::default()), next_header::UDP), Dialect::Rfc),
        ("mead-data-linux", with((example(), Options::default()), next_header::UDP), Dialect::Linux65),
        ("mead-data-revised", with(revised(), next_header::UDP), Dialect::Rfc),
        (
            "mead-request",
            with((Header::request(node(2)), Options::default()), next_header::NONE),
            Dialect::Rfc,
        ),
        ("mead-data-proof", with(proved(), next_header::UDP), Dialect::Rfc),
        ("mead-response", with(response(), next_header::NONE), Dialect::Rfc),
        ("mead-response-linux", with(response(), next_header::NONE), Dialect::Linux65),
    ];
    for (name, (header, options, next), dialect) in samples {
        let mut bytes = header.to_bytes(dialect);
        assert_eq!(bytes.len(), header.emitted_len());
        bytes.extend(options.to_bytes(next));
        vectors::must_hold(name, &bytes, &format!("{header}\n{options:?}\n"));
        let (read, rest) = Header::parse(&bytes, dialect).expect("its own header");
        assert_eq!(read, header, "{name}");
        if !options.is_empty() {
            assert_eq!(Options::parse(rest), Ok((options, next, rest.len())), "{name}");
        }
    }
}

/// Octets by hand, from table 4.1 and DESIGN ("fanout on the wire").
#[test]
fn both_dialects_stand_on_the_wire_as_described() {
    let fixed = |dialect| Header { hops: 2, ..example() }.to_bytes(dialect)[..16].to_vec();
    let (delivery, little) = ([0b1001_0000, 0, 0, 0], [0, 0, 0, 0b1001_0000]);
    let head = |flags, map: [u8; 4]| [&[17, 13, 253, 0, 6, flags, 0, 0][..], &map, &map].concat();
    assert_eq!(fixed(Dialect::Rfc), head(2, delivery));
    assert_eq!(fixed(Dialect::Linux65), head(2 << 2, little));
    let flags = |dialect| response().0.to_bytes(dialect)[5];
    assert_eq!((flags(Dialect::Rfc), flags(Dialect::Linux65)), (0b1100_0101, 0b0001_0111));
}

#[test]
fn a_router_finds_its_receivers() {
    let header = example();
    assert_eq!((header.receivers_of(0), header.receivers_of(3)), (1..3, 4..6));
}

#[test]
fn each_malformed_shape_has_its_line() {
    let good = example().to_bytes(Dialect::Rfc);
    let parse = |bytes: &[u8]| Header::parse(bytes, Dialect::Rfc).expect_err("it is wrong");
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        parse(&changed)
    };
    let discovery = |at: usize, value: u8| {
        let mut changed = Header::request(node(1)).to_bytes(Dialect::Rfc);
        changed[at] = value;
        parse(&changed)
    };
    let many = |count: u8| {
        let mut changed = vec![0; 16 + usize::from(count) * 16];
        (changed[1], changed[2], changed[4]) = (1 + 2 * count, 253, count);
        parse(&changed)
    };
    let of_many = with(5, &[0x80]);
    let seen = [
        (parse(&good[..15]), "packet: 15 bytes are there, 16 are needed"),
        (parse(&good[..111]), "packet: 111 bytes are there, 112 are needed"),
        (with(4, &[0]), "number of destinations: 0 found, expected 1 to 32"),
        (many(33), "number of destinations: 33 found, expected 1 to 32"),
        (with(1, &[12]), "header extension length: 12 found, expected 13 for this number of destinations"),
        (with(3, &[1]), "segments left: 1 found, expected 0"),
        (with(5, &[0x40]), "flags: 0b01 found, expected 00, 10 or 11"),
        (of_many, "number of destinations: 6 found, expected 1 in discovery"),
        (
            discovery(0, 17),
            "next header: 17 found, expected 59 (none) or 60 (options before it) in discovery",
        ),
        (with(12, &[0b1001_0010]), "maps: a bit beyond the 6 addresses found, expected none"),
        (with(8, &[0b1101_0000]), "delivery map: the bit of a receiver found, expected bits of routers only"),
        (
            with(8, &[0b0001_0000, 0, 0, 0, 0b0001_0000]),
            "router map: the first address is a receiver, expected a router before each receiver",
        ),
        (
            with(32, &[0xff, 2]),
            "address list: ff02::1:0:2 found, expected unicast addresses that can be forwarded to",
        ),
        (
            Options::parse(&[17, 0, 0x1e, 2, 1, 0, 1, 0]).expect_err("odd"),
            "options: a list of ports of a wrong length found",
        ),
        (
            Header { next_header: next_header::ROUTING, ..example() }.check_rest(&good).expect_err("nested"),
            "next header: a second routing header (43) found, expected none",
        ),
        (with(32, &node(5).octets()), "address list: fd14::1:0:5 found twice, expected each address once"),
        (
            Options::parse(&[17, 0, 0x1e, 3, 5, 0, 0, 0]).expect_err("short"),
            "options: one of a wrong length found",
        ),
    ];
    let reasons: Vec<_> = seen.iter().map(|(malformed, _)| malformed.reason()).collect();
    for reason in Reason::ALL {
        assert!(reasons.contains(&reason), "{} is not shown", reason.name());
    }
    for (malformed, line) in seen {
        assert_eq!(malformed.to_string(), line);
    }
}

#[test]
fn options_of_others_are_passed_over_if_they_say_so() {
    let with = |kind| Options::parse(&[17, 0, kind, 2, 0, 0, 1, 0]);
    assert_eq!(with(0x05), Ok((Options::default(), 17, 8)));
    assert_eq!(with(0x45), Err(Malformed::Options("one that may not be skipped found")));
    assert_eq!(
        Options::parse(&[17, 0, 1, 9, 0, 0, 0, 0]),
        Err(Malformed::Options("one beyond the header's end found"))
    );
    let long = Options::parse(&[[17, 32, 1, 254].as_slice(), &[0; 260]].concat());
    assert_eq!(long, Err(Malformed::Options("more than 256 bytes of them found")));
    let short = Options::parse(&[17, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(short, Err(Malformed::Truncated { have: 8, need: 16 }));
}

#[test]
fn more_than_32_addresses_are_refused() {
    let groups = [(node(100), (0..32).map(node).collect())];
    assert_eq!(Header::data(next_header::UDP, &groups), Err(Malformed::TooManyAddresses(33)));
}

proptest! {
    #[test]
    fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..700)) {
        for dialect in [Dialect::Rfc, Dialect::Linux65] {
            let _ = Header::parse(&bytes, dialect);
        }
        if let Ok((options, next, len)) = Options::parse(&bytes) {
            prop_assert!(len <= bytes.len());
            let written = options.to_bytes(next);
            prop_assert!(options.is_empty() || Options::parse(&written) == Ok((options, next, written.len())));
        }
    }

    #[test]
    fn a_header_reads_back_the_same(header in header(), is_linux: bool) {
        let dialect = if is_linux { Dialect::Linux65 } else { Dialect::Rfc };
        let bytes = header.to_bytes(dialect);
        prop_assert_eq!(bytes.len(), header.emitted_len());
        prop_assert_eq!(Header::parse(&bytes, dialect), Ok((header, &[][..])));
    }
}

prop_compose! {
    fn header()(
        sizes in prop::collection::vec(0_usize..6, 1..6),
        hops in 0_u8..64,
        dont_replicate: u8,
        delivered: u32,
    ) -> Header {
        let mut numbers = 1..;
        let mut next = || node(numbers.next().expect("enough"));
        let groups: Vec<_> =
            sizes.iter().map(|size| (next(), (0..*size).map(|_| next()).collect::<Vec<_>>())).collect();
        let header = Header::data(next_header::UDP, &groups).expect("at most 30");
        let delivery = header.routers.and(Map::from_bits(delivered));
        Header { hops, dont_replicate, delivery, ..header }
    }
}
