//! MLD and IGMP against golden messages, and their properties.
//!
//! The vectors named in [`FROM_A_KERNEL`] were captured from Linux hosts and bridges, checksums
//! included; the others were put together by hand from the RFCs.
#![allow(clippy::disallowed_methods, reason = "the vectors are files")]

use std::{
    fs,
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use crate::vectors;
use proptest::prelude::*;
use treecast_wire::{
    igmp,
    membership::{Address, GroupRecord, Message, Older, Query, RecordKind, Report, RouterAdvertisement},
    mld,
};

/// Names and the addresses that the checksum covers.
const FROM_A_KERNEL: [(&str, &str, &str); 8] = [
    ("mld-query-general", BRIDGE, "ff02::1"),
    ("mld-query-group-suppress", BRIDGE, "ff15::42"),
    ("mld-query-sources", BRIDGE, "ff15::42"),
    ("mld-report-to-include", HOST, "ff02::16"),
    ("mld-report-block", HOST, "ff02::16"),
    ("mld-report-two-groups", BRIDGE, "ff02::16"),
    ("mld-report-v1", HOST, "ff15::42"),
    ("mld-done-v1", HOST, "ff02::2"),
];
const BY_HAND: [(&str, &str, &str); 4] = [
    ("mld-query-v1", BRIDGE, "ff02::1"),
    ("mld-router-advertisement", BRIDGE, "ff02::6a"),
    ("mld-router-solicitation", BRIDGE, "ff02::2"),
    ("mld-router-termination", BRIDGE, "ff02::6a"),
];
const BRIDGE: &str = "fe80::b0fd:c8ff:fe9c:39be";
const HOST: &str = "fe80::50ba:cbff:fe66:8213";

#[test]
fn mld_messages_read_as_their_snapshots_and_are_written_byte_for_byte() {
    for (name, source, destination) in FROM_A_KERNEL.into_iter().chain(BY_HAND) {
        let (golden, text) = vector(name);
        let source = source.parse().expect("an address");
        let destination = destination.parse().expect("an address");
        mld::verify(&golden, source, destination).unwrap_or_else(|error| panic!("{name}: {error}"));
        let message = mld::Message::parse(&golden).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(format!("{message}\n"), text, "{name}");
        let mut written = message.to_bytes();
        mld::seal(&mut written, source, destination);
        assert_eq!(written, golden, "{name}");
    }
}

#[test]
fn igmp_messages_read_as_their_snapshots_and_are_written_byte_for_byte() {
    let names = [
        "igmp-query-group",
        "igmp-query-group-suppress",
        "igmp-query-sources",
        "igmp-query-long-codes",
        "igmp-query-v1",
        "igmp-query-v2",
        "igmp-report-to-exclude",
        "igmp-report-to-include",
        "igmp-report-v1",
        "igmp-report-v2",
        "igmp-leave-v2",
        "igmp-router-advertisement",
        "igmp-router-solicitation",
        "igmp-router-termination",
    ];
    for name in names {
        let (golden, text) = vector(name);
        let message = igmp::Message::parse(&golden).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(format!("{message}\n"), text, "{name}");
        assert_eq!(message.to_bytes(), golden, "{name}");
    }
}

#[test]
fn what_is_wrong_is_said_in_a_line() {
    let (mut report, _) = vector("igmp-report-to-include");
    report[2] ^= 1;
    let error = igmp::Message::parse(&report).expect_err("the checksum is wrong").to_string();
    assert_eq!(error, "IGMP checksum: a remainder of 0x0100 found, expected 0");
    let error = mld::Message::parse(&[135, 0, 0, 0]).expect_err("a neighbour solicitation").to_string();
    assert_eq!(error, "ICMPv6 type: 135 found, expected 130 to 132, 143 or 151 to 153");
    let error = mld::Message::parse(&[]).expect_err("nothing").to_string();
    assert_eq!(error, "ICMPv6 type: 0 bytes are there, 1 are needed");

    let (report, _) = vector("mld-report-to-include");
    let error = mld::Message::parse(&report[..report.len() - 1]).expect_err("a byte short").to_string();
    assert_eq!(error, "sources: 31 bytes are there, 32 are needed");
    let (query, _) = vector("mld-query-general");
    let error = mld::Message::parse(&query[..26]).expect_err("neither version").to_string();
    assert_eq!(error, "number of sources: 0 bytes are there, 2 are needed");
    let source = HOST.parse().expect("an address");
    let error = mld::verify(&query, source, mld::ALL_NODES).expect_err("another source").to_string();
    assert!(error.starts_with("ICMPv6 checksum: a sum of 0x"), "{error}");
}

#[test]
fn records_of_unknown_type_are_skipped_with_their_auxiliary_data() {
    let (known, _) = vector("mld-report-block");
    let mut report = known.clone();
    let unknown = [&[9u8, 2, 0, 1][..], &[0xff; 16], &[1; 16], &[7; 8]].concat();
    report.splice(8..8, unknown);
    report[7] = 2;
    assert_eq!(mld::Message::parse(&report), mld::Message::parse(&known));
}

#[test]
fn every_vector_of_these_protocols_is_tested() {
    let names = vectors::names();
    let count = names.iter().filter(|name| matches!(vectors::protocol(name), "mld" | "igmp")).count();
    assert_eq!(count, FROM_A_KERNEL.len() + BY_HAND.len() + 14);
}

proptest! {
    #[test]
    fn an_mld_message_reads_back_the_same(message in mld_message(), source: u128, destination: u128) {
        let (source, destination) = (Ipv6Addr::from(source), Ipv6Addr::from(destination));
        let mut bytes = message.to_bytes();
        prop_assert_eq!(bytes.len(), len(&message));
        mld::seal(&mut bytes, source, destination);
        prop_assert_eq!(mld::verify(&bytes, source, destination), Ok(()));
        prop_assert_eq!(mld::Message::parse(&bytes), Ok(message));
        for cut in 0..bytes.len() {
            let _ = mld::Message::parse(&bytes[..cut]);
        }
    }

    #[test]
    fn an_igmp_message_reads_back_the_same(message in igmp_message()) {
        let bytes = message.to_bytes();
        prop_assert_eq!(bytes.len(), len(&message));
        prop_assert_eq!(igmp::Message::parse(&bytes), Ok(message));
    }

    #[test]
    fn random_bytes_never_panic(kind in any::<u8>(), mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = igmp::Message::parse(&bytes);
        if let Some(first) = bytes.first_mut() {
            *first = mld::Message::TYPES[usize::from(kind) % mld::Message::TYPES.len()];
        }
        let _ = mld::Message::parse(&bytes);
        mld::seal(&mut bytes, Ipv6Addr::LOCALHOST, mld::ALL_NODES);
    }
}

/// The length of the message in bytes, by the numbers of its records and sources.
fn len<A: Address>(message: &Message<A>) -> usize {
    match message {
        Message::Query(query) => Older::<A>::LEN + 4 + A::LEN * query.sources.len(),
        Message::Report(Report { records }) => {
            8 + records.iter().map(|record| 4 + A::LEN * (1 + record.sources.len())).sum::<usize>()
        }
        Message::OldQuery(_) | Message::OldReport(_) | Message::IgmpV1Report(_) | Message::OldLeave(_) => {
            Older::<A>::LEN
        }
        Message::RouterAdvertisement(_) => 8,
        Message::RouterSolicitation | Message::RouterTermination => 4,
    }
}

fn mld_message() -> impl Strategy<Value = mld::Message> {
    message(any::<u128>().prop_map(Ipv6Addr::from), 1, (32_767, u16::MAX)).boxed()
}

fn igmp_message() -> impl Strategy<Value = igmp::Message> {
    let address = any::<u32>().prop_map(Ipv4Addr::from);
    let v1 = older(address.clone(), 100, u8::MAX.into()).prop_map(igmp::Message::IgmpV1Report);
    prop_oneof![8 => message(address, 100, (127, u8::MAX.into())), 1 => v1]
}

/// Messages that both protocols have. Response times are up to the largest number of units that a query, or a message of an
/// older version, says without a floating-point code.
fn message<A: Address + 'static>(
    address: impl Strategy<Value = A> + Clone + 'static,
    unit_millis: u64,
    (max_units, max_old_units): (u64, u16),
) -> impl Strategy<Value = Message<A>> {
    let older = || older(address.clone(), unit_millis, max_old_units);
    prop_oneof![
        query(address.clone(), unit_millis, max_units).prop_map(Message::Query),
        older().prop_map(Message::OldQuery),
        older().prop_map(Message::OldReport),
        older().prop_map(Message::OldLeave),
        report(address.clone()).prop_map(Message::Report),
        advertisement().prop_map(Message::RouterAdvertisement),
        Just(Message::RouterSolicitation),
        Just(Message::RouterTermination),
    ]
}

fn older<A: Address + 'static>(
    address: impl Strategy<Value = A> + 'static,
    unit_millis: u64,
    max_units: u16,
) -> impl Strategy<Value = Older<A>> {
    (0..=max_units, address).prop_map(move |(units, group)| Older {
        max_response: Duration::from_millis(u64::from(units) * unit_millis),
        group: (group != A::UNSPECIFIED).then_some(group),
    })
}

/// Queries whose times are below the floating-point codes, which the codes' own tests cover.
fn query<A: Address + 'static>(
    address: impl Strategy<Value = A> + Clone + 'static,
    unit_millis: u64,
    max_units: u64,
) -> impl Strategy<Value = Query<A>> {
    let group = prop::option::of(address.clone())
        .prop_map(|group: Option<A>| group.filter(|group| *group != A::UNSPECIFIED));
    let sources = prop::collection::vec(address, 0..40);
    (0..=max_units, group, any::<bool>(), 0u8..8, 0u64..128, sources).prop_map(
        move |(units, group, suppress, robustness, seconds, sources)| Query {
            max_response: Duration::from_millis(units * unit_millis),
            group,
            suppress_router_processing: suppress,
            robustness,
            query_interval: Duration::from_secs(seconds),
            sources,
        },
    )
}

fn report<A: Address + 'static>(
    address: impl Strategy<Value = A> + Clone + 'static,
) -> impl Strategy<Value = Report<A>> {
    let kind = prop::sample::select(RecordKind::ALL.to_vec());
    let sources = prop::collection::vec(address.clone(), 0..10);
    let record =
        (kind, address, sources).prop_map(|(kind, group, sources)| GroupRecord { kind, group, sources });
    prop::collection::vec(record, 0..10).prop_map(|records| Report { records })
}

fn advertisement() -> impl Strategy<Value = RouterAdvertisement> {
    any::<(u8, u16, u16)>().prop_map(|(advertisement_interval_s, query_interval_s, robustness)| {
        RouterAdvertisement { advertisement_interval_s, query_interval_s, robustness }
    })
}

fn vector(name: &str) -> (Vec<u8>, String) {
    let read = |kind: &str| {
        let path = vectors::path(name, kind);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    (read("bin"), String::from_utf8(read("txt")).expect("a snapshot is text"))
}
