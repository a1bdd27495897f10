//! DNS messages at the name server of MAST: no panic, and no change of the zone without a key.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_mast::dns::{
    keys::{Keys, Scope, signer},
    records::{InterfaceId, ListedPrefix},
    server::{Server, Transport},
    zone::Zone,
};

fuzz_target!(|bytes: &[u8]| {
    let name = |text: &str| text.parse().expect("a name");
    let mut zone = Zone::new(name("stub.example."), name("ns.stub.example."), 1, 5);
    let prefix = "2001:db8:a:1::/64".parse().expect("a prefix");
    zone.add(&name("lan.stub.example."), 5, ListedPrefix { prefix, is_negated: false }.to_data());
    let id = InterfaceId { ifid: 1, network: name("lan.stub.example.") };
    zone.add(&name("www.stub.example."), 5, id.to_data());
    let before: Vec<_> = zone.records().collect();
    let mut keys = Keys::default();
    keys.add(signer("srms.", &[7; 32]).expect("a key"), Scope::Prefixes, 0);
    let mut server = Server::new(zone, keys);
    for transport in [Transport::Udp, Transport::Tcp] {
        _ = server.answer(1_800_000_000, bytes, transport);
    }
    assert_eq!(server.zone().records().collect::<Vec<_>>(), before);
});
