//! Routing tables, relations between ASes, and delegations: whatever a file holds, reading and analysing it never panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_rib::{
    delegations::Delegations, mrt::Header, read::read, relations::Relations, report::analyse, source,
};

fuzz_target!(|bytes: &[u8]| {
    _ = source::format(bytes);
    check(bytes);
    // Behind right headers, so that the parsers of records and messages see the bytes, too.
    for (kind, subtype) in [(13, 2), (13, 4), (13, 6), (13, 8), (12, 1), (12, 2), (16, 1), (16, 4), (17, 4), (17, 9)] {
        let header = |kind, subtype, length| Header { time: 1_000_000, kind, subtype, length }.to_wire();
        let peers = [&header(13, 1, 8)[..], &[0; 8]].concat();
        check(&[&peers, &header(kind, subtype, bytes.len())[..], bytes].concat());
    }
    _ = Relations::read(bytes, "relations").map(|relations| relations.counts());
    _ = Delegations::read(bytes, "delegations");
});

fn check(file: &[u8]) {
    let dump = read(file, "fuzz", 1).expect("memory can be read");
    let report = analyse(&dump, &[]).report;
    assert_eq!(report.entries, dump.routes.iter().map(|route| route.entries).sum::<u64>());
}
