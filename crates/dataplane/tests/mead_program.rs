//! The eBPF program against golden packets and the reference models of MEADcast and Xcast. Needs root.
//!
//! `TREECAST_MEAD_PACKETS=10000000` checks ten million random packets, and `TREECAST_MEAD_SEED` others.

#[path = "../../proto/tests/mead_router/packets.rs"]
mod packets;
#[path = "../../proto/tests/router_packets/mod.rs"]
mod router_packets;
#[path = "../../proto/tests/xcast_router/packets.rs"]
mod xcast_packets;

use treecast_dataplane::explicit::check::{self, Stage};
use treecast_wire::{ipv6, xcast};

#[test]
fn the_program_does_what_the_vectors_say() {
    let mut stage = Stage::enter().expect("a network of its own");
    let mead = packets::triples().into_iter().map(|triple| (triple.name, triple.router, triple.packet));
    let xcast =
        xcast_packets::triples().into_iter().map(|triple| (triple.name, triple.router, triple.packet));
    for (name, router, packet) in mead.chain(xcast) {
        stage.configure(router).expect("a router");
        for padding in [0, 7] {
            let packet = [&packet[..], &vec![0xee; padding]].concat();
            stage.check(&packet).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
    stage.check_counters().expect("the same counts");
}

#[test]
fn the_routes_are_those_of_the_vectors() {
    for triple in xcast_packets::triples() {
        let Ok((header, _)) = xcast::Header::parse(&triple.packet[ipv6::HEADER_LEN..]) else { continue };
        for destination in header.valid_destinations() {
            assert_eq!(check::next_hop(destination), xcast_packets::route(destination), "{destination}");
        }
    }
}

#[test]
fn the_program_does_with_random_packets_what_the_model_does() {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let report =
        check::run(number("TREECAST_MEAD_PACKETS", 20_000), number("TREECAST_MEAD_SEED", 1), &mut |_| {})
            .unwrap_or_else(|error| panic!("{error}"));
    println!("{report:#?}");
    // Nearly every reason and outcome, and more than one copy of most packets.
    assert!(report.outcomes.len() > 30, "{report:#?}");
    assert!(report.out > report.packets, "{report:#?}");
}
