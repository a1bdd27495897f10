//! What the tests of both routers share: routers, packets, and the files in `vectors/`.
#![allow(dead_code, reason = "each of the tests uses a part")]

use std::{fs, net::Ipv6Addr, path::PathBuf};

use treecast_proto::explicit::{
    authentication::DomainKey,
    list_proof::ListKey,
    mead::router::{Guard, ReversePath, Router},
};
use treecast_wire::ipv6::{self, next_header, upper_layer_checksum};

pub const GROUP: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 0x77);

/// Numbers of interfaces: that by which packets come, and two others.
pub const ARRIVED: u32 = 10;
pub const LANS: [u32; 2] = [11, 12];

pub fn router(own: &[Ipv6Addr]) -> Router {
    Router { is_enabled: true, own: own.iter().copied().collect(), ..Router::default() }
}

/// A router with listeners on three links.
pub fn designated(own: &[Ipv6Addr]) -> Router {
    Router { groups: [(GROUP, [ARRIVED, LANS[0], LANS[1]].into())].into(), ..router(own) }
}

/// The epoch in which routers and senders are.
pub const EPOCH: u64 = 3_000_000;

pub fn list_key() -> ListKey {
    DomainKey::new(&[7; 32]).of_lists()
}

/// A router that looks at whom it makes copies for.
pub fn guarded(guard: Guard) -> Router {
    Router { guard, ..router(&[]) }
}

/// The guards of routers that look at one thing each.
pub fn strict() -> Guard {
    Guard { reverse_path: ReversePath::Strict, ..Guard::default() }
}

pub fn allowing(prefix: &str) -> Guard {
    Guard { allowed: vec![prefix.parse().expect("a prefix")], ..Guard::default() }
}

pub fn with_key() -> Guard {
    Guard { lists: Some((list_key(), EPOCH)), ..Guard::default() }
}

/// A guard as it stands in `vectors/`; nothing, when it looks at nothing.
pub fn guard_text(guard: &Guard) -> String {
    let mut text = match guard.reverse_path {
        ReversePath::Off => String::new(),
        path => format!(" reverse-path={path:?}"),
    };
    text.extend(guard.allowed.iter().map(|prefix| format!(" allowed={prefix}")));
    if let Some((key, epoch)) = &guard.lists {
        text.push_str(&format!(" list-key={:016x?} epoch={epoch}", key.words()));
    }
    text
}

/// A segment with its right checksum; `port` is the destination's.
pub fn segment((source, destination): (Ipv6Addr, Ipv6Addr), kind: u8, port: u16) -> Vec<u8> {
    let ports = [[0x12, 0x34], port.to_be_bytes()].concat();
    let mut segment: Vec<u8> = match kind {
        next_header::UDP => [&ports[..], &[0, 17, 0, 0], b"nine byte"].concat(),
        next_header::TCP => {
            [&ports[..], &[0, 0, 0, 1, 0, 0, 0, 2, 0x50, 2, 1, 0, 0, 0, 0, 0], b"odd"].concat()
        }
        _ => vec![128, 0, 0, 0, 1, 2, 3, 4, 5],
    };
    let at = ipv6::checksum_offset(kind).expect("a layer with a checksum");
    let checksum = upper_layer_checksum(source, destination, kind, &segment);
    segment[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    segment
}

/// A packet with this routing header, which names what follows it.
pub fn packet((source, destination): (Ipv6Addr, Ipv6Addr), header: &[u8], rest: &[u8]) -> Vec<u8> {
    let ip = ipv6::Header::new(source, destination, next_header::ROUTING);
    ipv6::Header { class_and_label: 0x0ab1_2345, ..ip }.packet(&[header, rest])
}

/// The packet with other bytes at a place.
pub fn changed(packet: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut changed = packet.to_vec();
    changed[at..at + bytes.len()].copy_from_slice(bytes);
    changed
}

/// The packet with other bytes at some places; those beyond its end change nothing.
pub fn damaged(mut packet: Vec<u8>, changes: Vec<(usize, u8)>) -> Vec<u8> {
    for (at, value) in changes {
        packet.get_mut(at).into_iter().for_each(|byte| *byte = value);
    }
    packet
}

/// A router as it stands in `vectors/`.
pub fn router_text(router: &Router, more: &str) -> String {
    let own: Vec<_> = router.own.iter().map(Ipv6Addr::to_string).collect();
    let Router { min_dsts, is_enabled, .. } = router;
    let mut text = format!("router own={} min-dsts={min_dsts}{more} enabled={is_enabled}", own.join(","));
    if router.is_leaving {
        text.push_str(" leaving");
    }
    text.extend(router.groups.iter().map(|(group, interfaces)| format!(" group={group}@{interfaces:?}")));
    text + &guard_text(&router.guard)
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The file of this name in `vectors/` must hold the text. With `TREECAST_WRITE_VECTORS=1` it is written anew.
#[allow(clippy::disallowed_methods, reason = "the vectors are files")]
pub fn must_be_in_vectors(name: &str, text: &str) {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors")).join(name);
    if std::env::var_os("TREECAST_WRITE_VECTORS").is_some() {
        fs::write(&path, text).expect("vectors/ can be written");
    }
    assert_eq!(fs::read_to_string(&path).expect("a vector"), text, "{name}");
}
