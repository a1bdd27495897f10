//! The eBPF program against golden packets and the reference model. Needs root.
//!
//! `TREECAST_MEAD_PACKETS=10000000` checks as many random packets as issue and design ask for, `TREECAST_MEAD_SEED` others.

#[path = "../../proto/tests/mead_router/packets.rs"]
mod packets;

use treecast_dataplane::mead::check::{self, Stage};

#[test]
fn the_program_does_what_the_vectors_say() {
    let mut stage = Stage::enter().expect("a network of its own");
    for packets::Triple { name, router, packet } in packets::triples() {
        stage.configure(router).expect("a router");
        for padding in [0, 7] {
            let packet = [&packet[..], &vec![0xee; padding]].concat();
            stage.check(&packet).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
    stage.check_counters().expect("the same counts");
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
    assert!(report.outcomes.len() > 15, "{report:#?}");
    assert!(report.out > report.packets, "{report:#?}");
}
