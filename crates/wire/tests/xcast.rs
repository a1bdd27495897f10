//! Xcast's routing header and list of ports against golden bytes, each malformed shape, and the properties of the parsers.
//!
//! `vectors/xcast/*.bin` hold the routing header with what follows it. `TREECAST_WRITE_VECTORS=1` writes them anew.

use std::net::Ipv6Addr;

use crate::vectors;
use proptest::prelude::*;
use treecast_wire::{
    ipv6::next_header,
    mead::Map,
    xcast::{
        ALL_XCAST_ROUTERS, Header, MAX_DESTINATIONS, Malformed, Options, PORTS_OPTION, Reason, Registration,
        is_all_xcast_routers,
    },
};

const CHANNEL: Ipv6Addr = Ipv6Addr::new(0xff35, 0, 0, 0, 0, 0, 0, 1);

fn with_ports(ports: &[u16]) -> Options {
    Options { ports: Some(ports.to_vec()), ..Options::default() }
}

fn node(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd14, 0, 0, 0, 0, 1, 0, number)
}

/// RFC 5058, figure 8: B, C and D.
fn example() -> Header {
    Header::new(next_header::UDP, Ipv6Addr::UNSPECIFIED, [0xb, 0xc, 0xd].map(node).to_vec())
        .expect("a good list")
}

fn with_all() -> (Header, Vec<u16>) {
    let header = Header {
        next_header: next_header::DESTINATION_OPTIONS,
        is_anonymous: true,
        stays_xcast: true,
        channel: CHANNEL,
        ..example()
    };
    (header.only([0, 2].into_iter().collect()), vec![4242, 0, 9])
}

#[test]
fn headers_are_what_the_vectors_hold() {
    let (header, ports) = with_all();
    for (name, header, ports) in [("xcast", example(), vec![]), ("xcast-ports", header, ports)] {
        let mut bytes = header.to_bytes();
        assert_eq!(bytes.len(), header.emitted_len());
        if !ports.is_empty() {
            bytes.extend(with_ports(&ports).to_bytes(next_header::UDP));
        }
        vectors::must_hold(name, &bytes, &format!("{header}\nports {ports:?}\n"));
        let (read, rest) = Header::parse(&bytes).expect("its own header");
        assert_eq!(read, header, "{name}");
        if !ports.is_empty() {
            let options = with_ports(&ports);
            assert_eq!(Options::parse(rest, 3), Ok((options, next_header::UDP, rest.len())), "{name}");
        }
    }
}

/// Octets by hand, from RFC 5058, figures 6 and 7.
#[test]
fn header_and_ports_stand_on_the_wire_as_described() {
    let (header, ports) = with_all();
    let bytes = header.to_bytes();
    assert_eq!(bytes[..6], [60, 9, 254, 0, 0b0001_1100, 3]);
    assert_eq!(bytes[8..24], CHANNEL.octets());
    assert_eq!(bytes[24..32], [0b1010_0000, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[32..48], node(0xb).octets());
    assert_eq!(bytes[48..64], [0; 16], "with the A bit nobody sees who is served elsewhere");
    // The 16-bit words, all but the checksum: added up by another way than the code's.
    let words = bytes.chunks(2).enumerate().filter(|(place, _)| *place != 3);
    let sum: u32 = words.map(|(_, pair)| u32::from(pair[0]) * 256 + u32::from(pair[1])).sum();
    let checksum = 0xffff - (sum % 0xffff);
    assert_eq!(u32::from(bytes[6]) * 256 + u32::from(bytes[7]), checksum);
    assert_eq!(with_ports(&ports).to_bytes(17), [17, 1, 0x5e, 6, 0x10, 0x92, 0, 0, 0, 9, 1, 4, 0, 0, 0, 0]);
    assert_eq!(PORTS_OPTION >> 5, 0b010, "who does not know it discards the packet; it does not change");
}

#[test]
fn reserved_bits_are_passed_over_and_leave_as_zero() {
    let mut bytes = example().to_bytes();
    (bytes[4], bytes[5]) = (bytes[4] | 1, bytes[5] | 0x80);
    // What they add to the sum, the checksum has less.
    let checksum = u16::from_be_bytes([bytes[6], bytes[7]]) - 0x0180;
    bytes[6..8].copy_from_slice(&checksum.to_be_bytes());
    let (header, _) = Header::parse(&bytes).expect("reserved bits say nothing");
    assert_eq!((header.to_bytes(), header), (example().to_bytes(), example()));
}

/// The header with these bytes at a place, and a checksum that is right for them.
fn with(at: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = example().to_bytes();
    bytes[at..at + value.len()].copy_from_slice(value);
    bytes[6..8].fill(0);
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let checksum = 0xffff - (sum % 0xffff) as u16;
    bytes[6..8].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

#[test]
fn each_malformed_shape_has_its_line() {
    let good = example().to_bytes();
    let parse = |bytes: &[u8]| Header::parse(bytes).expect_err("it is wrong");
    let wrong = |at: usize, bytes: &[u8]| parse(&with(at, bytes));
    let mut other_sum = good.clone();
    other_sum[79] ^= 1;
    let found = u16::from_be_bytes([good[6], good[7]]);
    let checksum = format!("checksum: {found:#06x} found, expected {:#06x}", found + 1);
    let ports = |bytes: &[u8]| Options::parse(bytes, 3).expect_err("it is wrong");
    let seen = [
        (parse(&good[..31]), "packet: 31 bytes are there, 32 are needed"),
        (parse(&good[..79]), "packet: 79 bytes are there, 80 are needed"),
        (wrong(4, &[0x20]), "version: 2 found, expected 1"),
        (wrong(4, &[0x12]), "D bit: 1 found, expected 0: a code point for each destination is not supported"),
        (wrong(5, &[0x80]), "number of destinations: 0 found, expected 1 to 32"),
        (wrong(5, &[33]), "number of destinations: 33 found, expected 1 to 32"),
        (wrong(1, &[8]), "header extension length: 8 found, expected 9 for this number of destinations"),
        (wrong(3, &[1]), "fourth octet: 1 found, expected 0"),
        (parse(&other_sum), &checksum),
        (wrong(24, &[0b1111_0000]), "bitmap: a bit beyond the 3 destinations found, expected none"),
        (wrong(31, &[1]), "bitmap: a bit beyond the 3 destinations found, expected none"),
        (wrong(24, &[0]), "bitmap: no bit found, expected one of a destination at least"),
        (
            wrong(32, &[0xff, 2]),
            "list of addresses: ff02::1:0:b found, expected unicast addresses that can be forwarded to",
        ),
        (
            ports(&[17, 0, 0x5e, 4, 0, 1, 0, 2]),
            "list of ports: one that has not a port for each destination found",
        ),
        (ports(&[17, 0, 0x45, 4, 0, 0, 0, 0]), "list of ports: one that may not be skipped found"),
        (ports(&[17, 0, 0x5e, 6, 0, 1, 0, 2]), "list of ports: one beyond the header's end found"),
        (ports(&[17, 1, 0, 0, 0, 0, 0, 0]), "packet: 8 bytes are there, 16 are needed"),
        (
            Header { next_header: next_header::ROUTING, ..example() }.check_rest(&good).expect_err("nested"),
            "next header: a second routing header (43) found, expected none",
        ),
        (
            wrong(48, &node(0xb).octets()),
            "list of addresses: fd14::1:0:b found twice, expected each destination once",
        ),
        (ports(&[17, 0, 0x1e, 3, 5, 0, 0, 0]), "list of ports: a proof of a wrong length found"),
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
fn all_xcast_routers_have_a_group_of_each_scope() {
    let is = |text: &str| is_all_xcast_routers(text.parse().expect("an address"));
    assert!(is_all_xcast_routers(ALL_XCAST_ROUTERS) && is("ff0e::114") && is("ff05::114"));
    assert!(["ff12::114", "ff02::115", "ff02:1::114", "fe02::114"].iter().all(|other| !is(other)));
}

#[test]
fn lists_that_no_router_would_take_are_not_made() {
    let new = |list: Vec<Ipv6Addr>| Header::new(next_header::UDP, CHANNEL, list);
    assert_eq!(new(vec![]), Err(Malformed::NoAddress));
    assert_eq!(new((0..33).map(node).collect()), Err(Malformed::TooManyAddresses(33)));
    assert_eq!(new(vec![CHANNEL]), Err(Malformed::Address(CHANNEL)));
    let longest = new((0..32).map(node).collect()).expect("32 are not too many").to_bytes();
    assert_eq!((longest.len(), longest[1]), (544, 67));
    assert!(Header::parse(&longest).is_ok());
}

/// Addresses of destinations that are served elsewhere are not checked: the A bit has routers overwrite them.
#[test]
fn addresses_that_are_not_valid_may_be_anything() {
    let mut header = Header { is_anonymous: true, ..example() };
    header.destinations[1] = Ipv6Addr::UNSPECIFIED;
    assert_eq!(
        Header::parse(&header.to_bytes()),
        Err(Malformed::Address(Ipv6Addr::UNSPECIFIED)),
        "it has a bit"
    );
    header.valid = Map::of(0).with(2);
    assert_eq!(Header::parse(&header.to_bytes()), Ok((header, &[][..])));
    let plain = example().only(Map::of(1));
    assert_eq!(plain.destinations, example().destinations, "without the A bit they stay");
}

proptest! {
    #[test]
    fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..700), count in 0_usize..40) {
        let _ = Header::parse(&bytes);
        if let Ok((options, next, len)) = Options::parse(&bytes, count) {
            prop_assert!(len <= bytes.len());
            let written = options.to_bytes(next);
            let read = Options::parse(&written, count);
            prop_assert!(options.is_empty() || read == Ok((options, next, written.len())));
        }
    }

    #[test]
    fn changed_headers_are_refused_or_read(changes in prop::collection::vec((0_usize..80, any::<u8>()), 0..4)) {
        let mut bytes = example().to_bytes();
        changes.into_iter().for_each(|(at, value)| bytes[at] = value);
        if let Ok((header, rest)) = Header::parse(&bytes) {
            let again = header.to_bytes();
            prop_assert_eq!(Header::parse(&again), Ok((header, rest)));
        }
    }

    #[test]
    fn a_header_reads_back_the_same(header in header()) {
        let bytes = header.to_bytes();
        prop_assert_eq!(bytes.len(), header.emitted_len());
        prop_assert_eq!(Header::parse(&bytes), Ok((header, &[][..])));
    }
}

prop_compose! {
    fn header()(
        count in 1..=MAX_DESTINATIONS,
        flags: (bool, bool),
        channel: u128,
        bits: u32,
        first in 0..32_usize,
        next_header: u8,
    ) -> Header {
        let header = Header::new(next_header, channel.into(), (0..count as u16).map(node).collect());
        let header = header.expect("a good list");
        let valid = header.valid.and(Map::from_bits(bits)).with(first % count);
        Header { is_anonymous: flags.0, stays_xcast: flags.1, ..header }.only(valid)
    }
}

fn registration() -> Registration {
    let [source, router] = [1, 0x50].map(node);
    let sequence = 0x0102_0304_0506_0708;
    Registration { holding_seconds: 35, sequence, source, group: CHANNEL, router, code: [9; 16] }
}

#[test]
fn registrations_are_what_the_vector_holds() {
    let bytes = registration().to_bytes();
    vectors::must_hold("xcast-registration", &bytes, &format!("{}\n", registration()));
    assert_eq!(Registration::parse(&bytes), Ok(registration()));
    assert_eq!(bytes[..8], [b'X', b'+', 1, 1, 0, 35, 0, 0]);
    assert_eq!(bytes[..64], registration().authenticated());
}

#[test]
fn what_is_no_registration_says_why() {
    let good = registration().to_bytes();
    let with = |at: usize, value: u8| {
        let mut bytes = good;
        bytes[at] = value;
        Registration::parse(&bytes).expect_err("it is wrong").to_string()
    };
    assert!(with(1, b'-').starts_with("magic: "));
    assert_eq!(with(2, 2), "version: 2 found, expected 1");
    assert_eq!(with(3, 0), "kind: 0 found, expected 1");
    assert!(with(16, 0xff).starts_with("source: "));
    assert!(with(32, 0xfd).ends_with("expected a multicast address"));
    assert!(with(48, 0xff).starts_with("router: "));
    assert!((0..good.len()).all(|len| Registration::parse(&good[..len]).is_err()));
    assert!(Registration::parse(&[&good[..], &[0]].concat()).is_err(), "there is nothing behind it");
}

proptest! {
    #[test]
    fn no_datagram_makes_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = Registration::parse(&bytes);
    }

    #[test]
    fn changed_registrations_are_refused_or_read(at in 0_usize..80, value: u8) {
        let mut bytes = registration().to_bytes();
        bytes[at] = value;
        if let Ok(read) = Registration::parse(&bytes) {
            let again = read.to_bytes();
            prop_assert_eq!(Registration::parse(&again), Ok(read));
        }
    }
}
