//! Xcast and Xcast+ in networks of namespaces: plain UDP receivers behind two levels of routers, and one between that knows no Xcast.

use std::{
    collections::BTreeMap,
    net::{Ipv6Addr, UdpSocket},
    time::Duration,
};

use crate::{
    child::PrivateFile,
    mead_sender::{Sender, received, receivers_at, router, send, send_super},
    mroute_network::{Listener, Network, udp},
    session::{assert_says, wait_until},
};
use treecast_proto::explicit::authentication::DomainKey;
use treecast_wire::{
    ipv6::{self, next_header},
    xcast::{ALL_XCAST_ROUTERS, Header, REGISTRATION_PORT, Registration},
};

/// s - r1 - r2 - r3, with c1 and c2 at r3, and c3 at r1. r2 knows no Xcast.
fn network() -> Network {
    let network = Network::of_cables(&[
        ("s", "r1"),
        ("r1", "r2"),
        ("r2", "r3"),
        ("r3", "c1"),
        ("r3", "c2"),
        ("r1", "c3"),
    ]);
    network.route("s", &[1, 2, 3, 4, 5], 0, 2);
    network.route("r1", &[2, 3, 4], 1, 2);
    network.route("r2", &[3, 4], 2, 2);
    network.route("r2", &[0, 5], 1, 1);
    network.route("r3", &[0, 1, 5], 2, 1);
    for (node, id) in [("c1", 3), ("c2", 4), ("c3", 5)] {
        network.route(node, &[0, 1, 2], id, 1);
    }
    network
}

const S: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const R3: Ipv6Addr = Ipv6Addr::new(0xfd00, 2, 0, 0, 0, 0, 0, 2);
const NOWHERE: Ipv6Addr = Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, 1);
const C3: Ipv6Addr = Ipv6Addr::new(0xfd00, 5, 0, 0, 0, 0, 0, 2);

const RECEIVERS: [(&str, &str); 3] = [("c1", "fd00:3::2"), ("c2", "fd00:4::2"), ("c3", "fd00:5::2")];

/// Plain UDP programs.
fn receivers(network: &Network, ports: [u16; 3]) -> BTreeMap<&'static str, UdpSocket> {
    let nodes = RECEIVERS.map(|(node, _)| node);
    receivers_at(network, &[0, 1, 2].map(|at| (nodes[at], ports[at])))
}

fn everybody_hears(sockets: &BTreeMap<&str, UdpSocket>, count: u8, len: usize) {
    for (node, socket) in sockets {
        let (numbers, from) = received(socket, count.into(), len);
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..count).collect::<Vec<_>>(), "{node}: each once");
        assert_eq!(from.map(|from| from.ip()), Some(S.into()), "{node}: it seems to come from its sender");
    }
}

/// Of the two that there are.
const PLANES: [&[&str]; 2] = [&[], &["--user-space"]];

/// Every receiver gets each datagram once, whichever routers there are; each link carries one copy.
#[test]
fn plain_receivers_get_each_datagram_once_by_one_packet_a_link() {
    let network = network();
    let sockets = receivers(&network, [5000; 3]);
    let addresses = RECEIVERS.map(|(_, address)| address);
    for (plane, options) in [
        (PLANES[0], &[][..]),
        (PLANES[0], &["--ports", "--anonymous"]),
        (PLANES[1], &["--anonymous"]),
        (PLANES[1], &["--ports"]),
    ] {
        let _routers = ["r1", "r3"].map(|node| router(&network, node, plane));
        let mut sender = Sender::start(&network, &[&["--xcast"], options, &addresses, &["5000"]].concat());
        let group = sender.next("group");
        assert_eq!(group["lists"][0]["destinations"].as_array().map(Vec::len), Some(3), "{group}");
        send(&network, 20, 1000);
        everybody_hears(&sockets, 20, 1000);
        let (r1, r3) = (network.router_status("r1").xcast, network.router_status("r3").xcast);
        assert_eq!((r1.packets, r1.copies, r1.unicast, r1.premature), (20, 20, 20, 0), "{plane:?} {r1:?}");
        assert_eq!((r3.packets, r3.copies, r3.unicast, r3.premature), (20, 0, 40, 0), "{plane:?} {r3:?}");
        send_super(&network, 30, 800);
        everybody_hears(&sockets, 30, 800);
        let done = sender.end();
        assert_eq!(
            (&done["packets"], &done["mead_packets"], &done["unicast_packets"], &done["discovery_packets"]),
            (&50.into(), &50.into(), &0.into(), &0.into()),
            "{plane:?} {options:?}"
        );
    }
}

/// Receivers at three ports, of whom one joins later; the router turns a list that is short into unicast early.
#[test]
fn receivers_have_ports_of_their_own_and_join_while_it_runs() {
    let network = network();
    let sockets = receivers(&network, [5001, 5002, 5003]);
    let _routers = ["r1", "r3"].map(|node| router(&network, node, &["--min-dsts", "3"]));
    let members = PrivateFile::new("fd00:3::2 5001\nfd00:4::2 5002\n");
    let mut sender = Sender::start(&network, &["--xcast", "--ports", "--members", &members, "5000"]);
    sender.next("group");
    members.replace("fd00:3::2 5001\nfd00:4::2 5002\nfd00:5::2 5003\n");
    while sender.next("group")["lists"][0]["destinations"].as_array().map(Vec::len) != Some(3) {}
    send(&network, 20, 500);
    everybody_hears(&sockets, 20, 500);
    let r1 = network.router_status("r1").xcast;
    assert_eq!((r1.packets, r1.copies, r1.unicast, r1.premature), (20, 0, 20, 40), "{r1:?}");
    sender.end();
}

/// Sends a hand-made packet from a node; to a group by its interface to `r1`.
fn inject(network: &Network, node: &str, ip: ipv6::Header, payload: &[u8]) {
    inject_by(network, (node, "r1"), ip, payload);
}

/// The same; to a group by the interface that is named.
fn inject_by(network: &Network, (node, interface): (&str, &str), ip: ipv6::Header, payload: &[u8]) {
    network.inject(node, interface, &ip.packet(&[payload]), 1);
}

fn xcast_packet(destinations: &[Ipv6Addr], to: Ipv6Addr) -> (ipv6::Header, Vec<u8>) {
    let header =
        Header::new(next_header::UDP, Ipv6Addr::UNSPECIFIED, destinations.to_vec()).expect("a good list");
    let ip = ipv6::Header::new(S, to, next_header::ROUTING);
    (ip, [header.to_bytes(), udp(S, to, [7, 5000], b"by hand")].concat())
}

fn hears(socket: &UdpSocket, text: &str) {
    let mut buffer = [0; 100];
    wait_until(text, || socket.recv(&mut buffer).is_ok_and(|len| &buffer[..len] == text.as_bytes()));
}

/// The router's kernel answers for who has no route, and the others are served.
#[test]
fn who_has_no_route_is_told_of() {
    let network = network();
    network.route("s", &[9], 0, 2);
    let sockets = receivers(&network, [5000; 3]);
    for plane in PLANES {
        let _router = router(&network, "r1", plane);
        let mut sender = Sender::start(&network, &["--xcast", "fd00:5::2", "fd00:9::1", "5000"]);
        send(&network, 3, 100);
        let told = sender.next("unreachable");
        assert_eq!(
            (&told["receivers"][0], &told["why"]),
            (&"fd00:9::1".into(), &"there is no route to it".into())
        );
        assert_eq!(received(&sockets["c3"], 3, 100).0.len(), 3, "{plane:?}");
        sender.end();
    }
}

/// All Xcast routers on the link, the router itself, what has no route, and what is wrong.
#[test]
fn a_router_takes_what_is_for_all_and_for_itself_and_drops_what_is_wrong() {
    let network = network();
    let sockets = receivers(&network, [5000; 3]);
    let at_r1 = network.within("r1", || UdpSocket::bind(("::", 5000)).expect("the port is free"));
    at_r1.set_read_timeout(Some(Duration::from_millis(100))).expect("a good time");
    for plane in PLANES {
        takes_and_drops(&network, plane, &at_r1, &sockets["c3"]);
    }
}

fn takes_and_drops(network: &Network, plane: &[&str], at_r1: &UdpSocket, at_c3: &UdpSocket) {
    let _router = router(network, "r1", plane);
    let own = "fd00:1::1".parse().expect("an address");
    let (ip, payload) = xcast_packet(&[own, C3, NOWHERE], ALL_XCAST_ROUTERS);
    inject(network, "s", ip, &payload);
    hears(at_r1, "by hand");
    hears(at_c3, "by hand");
    let mut wrong = payload.clone();
    wrong[40] ^= 1;
    inject(network, "s", ip, &wrong);
    wait_until("it is counted", || network.router_status("r1").xcast.malformed.get("checksum") == Some(&1));
    let xcast = network.router_status("r1").xcast;
    // Another router on the link may have the route.
    assert_eq!((xcast.packets, xcast.local, xcast.unicast, xcast.unrouted), (1, 1, 1, 0), "{xcast:?}");
    let (ip, payload) = xcast_packet(&[NOWHERE], ALL_XCAST_ROUTERS);
    inject(network, "s", ip, &payload);
    wait_until("it is counted", || network.router_status("r1").xcast.dropped.get("for-others") == Some(&1));
    let shown = network.prints("r1", &["router", "status"]);
    assert_says(&shown, &["malformed: checksum", "dropped: for-others"]);
}

/// s and three routers on a LAN, with a host behind each, and another one on the LAN.
fn lan() -> Network {
    let network = Network::new(&["s", "r1", "r2", "r3", "c0", "c1", "c2", "c3", "lan0"]);
    network.lan(0, "lan0", &["s", "r1", "r2", "r3", "c0"]);
    let routers = [("r1", "c1", 1), ("r2", "c2", 2), ("r3", "c3", 3)];
    for (router, host, id) in routers {
        network.connect(id, router, host);
        network.route(host, &[0, 1, 2, 3].map(|other| if other == id { 9 } else { other }), id, 1);
        for node in ["s", "r1", "r2", "r3"].into_iter().filter(|node| *node != router) {
            network.route(node, &[id], 0, id + 1);
        }
    }
    network
}

/// Of several routers on the sender's link each serves those behind it, whatever Ethernet address the packets have.
#[test]
fn routers_on_one_lan_do_not_serve_a_destination_twice() {
    let network = lan();
    let hosts = [("c1", "fd00:1::2"), ("c2", "fd00:2::2"), ("c3", "fd00:3::2")];
    let sockets = receivers_at(&network, &hosts.map(|(node, _)| (node, 5000)));
    let on_lan = receivers_at(&network, &[("c0", 5000)]).remove("c0").expect("it is there");
    let addresses = hosts.map(|(_, address)| address);
    for plane in PLANES {
        let _routers = ["r1", "r2", "r3"].map(|node| router(&network, node, plane));
        let sender =
            Sender::start(&network, &[&["--xcast", "fd00:0::5"], &addresses[..], &["5000"]].concat());
        send(&network, 20, 1000);
        everybody_hears(&sockets, 20, 1000);
        everybody_hears(&[("c0", on_lan.try_clone().expect("a socket"))].into(), 20, 1000);
        sender.end();
        let destinations = addresses.map(|address| address.parse().expect("an address"));
        let (ip, payload) = xcast_packet(&destinations, ALL_XCAST_ROUTERS);
        inject_by(&network, ("s", "lan0"), ip, &payload);
        for (node, socket) in &sockets {
            hears(socket, "by hand");
            let again = socket.recv(&mut [0; 100]);
            assert!(again.is_err(), "{plane:?}: {node} hears it twice");
        }
    }
}

const GROUP: &str = "ff35::4242";

fn listeners(network: &Network) -> [Listener; 2] {
    ["c1", "c2"].map(|node| network.listen(node, "r3", GROUP, Some("fd00::1")))
}

fn registered(network: &Network) -> Vec<Ipv6Addr> {
    network.router_status("r1").xcast.registered.into_iter().flat_map(|one| one.routers).collect()
}

/// M2X and X2M: a sender that only multicasts, and receivers that have only joined its channel.
#[test]
fn multicast_crosses_routers_without_multicast_by_xcast() {
    let network = network();
    let key = PrivateFile::key();
    for plane in PLANES {
        let options = [plane, &["--xcast-plus", "--key", &*key]].concat();
        crosses_and_is_not_forged(&network, &options);
    }
}

fn crosses_and_is_not_forged(network: &Network, options: &[&str]) {
    let _routers = ["r1", "r3"].map(|node| router(network, node, options));
    let listeners = listeners(network);
    wait_until("r3 has registered", || registered(network) == [R3]);
    let stream = network.stream("s", "r1", GROUP);
    listeners.iter().for_each(|listener| _ = listener.hear("s"));
    drop(stream);
    listeners.iter().for_each(Listener::hear_the_end);
    let (r1, r3) = (network.router_status("r1").xcast, network.router_status("r3").xcast);
    assert!(r1.encapsulated > 0, "{r1:?}");
    assert_eq!(
        (r3.packets, r3.multicast, r3.unicast),
        (r1.encapsulated, 2 * r1.encapsulated, 0),
        "one packet came"
    );

    // Registrations of who has not the key, and those that say them again, count for nothing.
    let forged = Registration {
        holding_seconds: 30,
        sequence: u64::MAX,
        source: S,
        group: GROUP.parse().expect("a group"),
        router: C3,
        code: [0; 16],
    };
    for registration in [forged, DomainKey::new(&[8; 32]).seal(forged)] {
        network.within("c3", || {
            let socket = UdpSocket::bind("[::]:0").expect("a free port");
            socket.send_to(&registration.to_bytes(), (S, REGISTRATION_PORT)).expect("it is routed");
        });
    }
    wait_until("both are refused", || network.router_status("r1").xcast.registrations_refused == 2);
    assert_eq!(registered(network), [R3]);

    drop(listeners);
    wait_until("nobody listens any more", || registered(network).is_empty());
}

/// The sender itself takes registrations; a plain receiver is served beside the group.
#[test]
fn a_sender_serves_registered_routers_and_plain_receivers() {
    let network = network();
    let _routers = [router(&network, "r1", &[]), router(&network, "r3", &["--xcast-plus"])];
    let mut sender = Sender::start(&network, &["--xcast", "--group", GROUP, "fd00:5::2", "5000"]);
    assert_eq!(sender.next("group")["registered"], serde_json::json!([]));
    let listeners = listeners(&network);
    assert_eq!(sender.next("group")["registered"], serde_json::json!([R3]));
    let plain = receivers(&network, [5001, 5001, 5000]).remove("c3").expect("it is there");
    send(&network, 20, 1000);
    let sockets = listeners.iter().map(|listener| &listener.socket).chain([&plain]);
    for socket in sockets {
        let (numbers, from) = received(socket, 20, 1000);
        assert_eq!((numbers, from.map(|from| from.ip())), ((0..20).collect(), Some(S.into())));
    }
    drop(listeners);
    assert_eq!(sender.next("group")["registered"], serde_json::json!([]));
    let done = sender.end();
    assert_eq!((&done["mead_packets"], &done["unicast_packets"]), (&20.into(), &20.into()), "{done}");
    assert!(done["registrations"]["counted"].as_u64() >= Some(2), "{done}");
}
