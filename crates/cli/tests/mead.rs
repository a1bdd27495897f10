//! `treecast mead` in networks of namespaces: receivers are plain UDP sockets.

use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    net::UdpSocket,
    time::{Duration, Instant},
};

use crate::{
    child::PrivateFile,
    mead_sender::{Sender, received, receivers_at, router, send, send_super},
    mroute_network::Network,
    packets::packet_socket,
    session::{Scratch, only_refused, wait_until},
};
use serde_json::Value;
use socket2::Socket;
use treecast_wire::{
    ipv6::{self, next_header, upper_layer_checksum},
    mead::{Dialect, Header, Kind},
};

const PORT: u16 = 5000;

/// s - r1 - r2 - LAN of e1, e2 and e3; e4 is behind r1.
fn network() -> Network {
    Network::with_lan_behind("r1", "r2")
}

const RECEIVERS: [(&str, &str); 4] =
    [("e1", "fd00:3::2"), ("e2", "fd00:3::3"), ("e3", "fd00:3::4"), ("e4", "fd00:4::2")];

fn receivers(network: &Network) -> BTreeMap<&'static str, UdpSocket> {
    receivers_at(network, &RECEIVERS.map(|(node, _)| (node, PORT)))
}

#[test]
fn without_routers_everybody_gets_unicast_and_nothing_is_left_behind() {
    let network = network();
    let sockets = receivers(&network);
    let addresses = RECEIVERS.map(|(_, address)| address);
    let start = Instant::now();
    let mut sender = Sender::start(
        &network,
        &[&["-T", "0.2", "-I", "1", "-p", "6000", "--statistics", "0.5"], &addresses[..], &["5000"]].concat(),
    );
    assert_eq!(sender.next("group")["unicast"].as_array().map(Vec::len), Some(4));
    send(&network, 20, 1000);
    for socket in sockets.values() {
        let (numbers, source) = received(socket, 20, 1000);
        assert_eq!(numbers, (0..20).collect::<Vec<_>>());
        assert_eq!(source, Some("[fd00:1::1]:6000".parse().expect("an address")));
    }
    let mut told = 1;
    while sender.next("statistics")["packets"] != 20 {
        told += 1;
    }
    (0..4).for_each(|_| _ = sender.next("statistics"));
    assert!(start.elapsed() >= Duration::from_millis(500) * (told + 4), "one each half second");
    let done = sender.end();
    assert_eq!(
        (&done["packets"], &done["unicast_packets"], &done["mead_packets"]),
        (&20.into(), &80.into(), &0.into())
    );
    assert_eq!((&done["unicast_bytes"], &done["overrun_packets"]), (&(80 * 1048).into(), &0.into()));
    assert!(done["discovery_packets"].as_u64() >= Some(4), "{done}");
    let interfaces = network.within("s", || treecast_host::interface::list().expect("interfaces"));
    assert!(interfaces.iter().all(|interface| !interface.name.starts_with("mead")));
    let routes =
        network.within("s", || fs::read_to_string("/proc/thread-self/net/ipv6_route").expect("routes"));
    assert!(!routes.contains("fd150000000000000000000000000001"), "{routes}");
}

#[test]
fn receivers_join_and_leave_with_the_file_that_names_them() {
    let network = network();
    let sockets = receivers(&network);
    let file = PrivateFile::new("fd00:3::2\n");
    let mut sender = Sender::start(&network, &["--members", &file, "--tun", "mead-test", "5000"]);
    sender.group_with_unicast(1);
    file.replace("fd00:3::2 5000 # the first\n\nfd00:4::2\n");
    sender.group_with_unicast(2);
    send(&network, 5, 100);
    assert_eq!(received(&sockets["e1"], 5, 100).0.len(), 5);
    assert_eq!(received(&sockets["e4"], 5, 100).0.len(), 5);
    file.replace("fd00:4::2");
    sender.group_with_unicast(1);
    send(&network, 5, 100);
    assert_eq!(received(&sockets["e4"], 5, 100).0.len(), 5);
    assert_eq!(received(&sockets["e1"], 0, 100).0.len(), 0);
    // A file that is gone is told once, however often it is looked for.
    fs::remove_file(&*file).expect("it is ours");
    let warning = sender.next("warning");
    let text = warning["text"].as_str().unwrap_or_default();
    assert!(text.contains("No such file") && text.contains("; until it can be read"), "{warning}");
    std::thread::sleep(Duration::from_millis(2500));
    file.replace("fd00:3::2\nfd00:4::2\n");
    let group = sender.wait_for(|event| {
        assert_ne!(event["event"], "warning", "{event}");
        event["event"] == "group"
    });
    assert_eq!(group["unicast"].as_array().map(Vec::len), Some(2));
    assert_eq!(sender.end()["unicast_packets"], 15);
}

#[test]
fn several_senders_on_one_host_have_devices_and_addresses_of_their_own() {
    let network = network();
    let sockets = receivers(&network);
    let mut first = Sender::start(&network, &["fd00:3::2", "5000"]);
    network.refuses("s", &["mead", "fd00:4::2", "5000"], &["there is a route to fd15::1 already"]);
    let mut second = Sender::start(&network, &["--tun-address", "fd15::2", "fd00:4::2", "5000"]);
    for sender in [&mut first, &mut second] {
        sender.group_with_unicast(1);
    }
    send(&network, 3, 50);
    assert_eq!(received(&sockets["e1"], 3, 50).0.len(), 3);
    assert_eq!((first.end()["packets"].as_u64(), second.end()["packets"].as_u64()), (Some(3), Some(0)));
    // The address is free again.
    Sender::start(&network, &["fd00:3::2", "5000"]).end();
}

/// Who is a receiver, too, gets others' requests, with the routing header that responses have.
#[test]
fn members_who_all_send_do_not_take_requests_for_responses() {
    let network = network();
    let options = ["-T", "0.3", "--print-tree"];
    let mut first = Sender::start(&network, &[&options[..], &["fd00:3::2", "5000"]].concat());
    let mut second = Sender::start_in(&network, "e1", &[&options[..], &["fd00:1::1", "5000"]].concat());
    second.next("tree");
    first.next("tree");
    for done in [first.end(), second.end()] {
        assert!(done["discoveries"].as_u64() >= Some(1) && done["anomalous"] == 0, "{done}");
    }
}

/// Arguments on s, and what is said of them. There is a file with no `key`, one of `members`, and one in which they are `doubled`.
const REFUSED: &str = "
--ok 13 fd00:1::2 5000 => name 2 to 12 with --ok
--ok 1 --max 8 fd00:1::2 5000 => name 2 to 8
--members doubled 5000 => line 2: the receiver fd00:1::2 is named twice
--members members 5000 => line 2: a port of its own, for which packets have no room unless they carry ports; name a file
192.0.2.1 5000 => 192.0.2.1 is an IPv4 address
::ffff:192.0.2.1 5000 => is an IPv4 address
fd00:1::2 fd00:1::2 5000 => fd00:1::2 is named twice
--tun-address fd00:1::2 fd00:1::2 5000 => the receiver fd00:1::2 has the address of the TUN device
--tun-address fd00:1::2 --members members 5000 => line 1: the receiver fd00:1::2 has
--max 33 fd00:1::2 5000 => to 32 (its maps have no more bits), and not 33
fd99::1 5000 => fd99::1 cannot be reached
ff02::1 5000 => ff02::1 is no receiver's address
fd00:1::2 fd00:1::3 => fd00:1::3 is no UDP port
5000 => there is no receiver
-a fd77::1 fd00:1::2 5000 => cannot use the address fd77::1
-i nosuch fd00:1::2 5000 => interface nosuch does not exist here
--members /nonexistent 5000 => the members in /nonexistent: No such file or directory (os error 2); name a file with a receiver's address a line
-t sixteen-letters- fd00:1::2 5000 => is no good for an interface
--key key fd00:1::2 5000 => cannot use the key in
--xcast fd00:1::2 fd00:1::2 5000 => the receiver fd00:1::2 is named twice
--xcast 5000 => there is no receiver
--group ff15::1 fd00:1::2 5000 => --xcast
--xcast --interval 3 fd00:1::2 5000 => cannot be used with
--xcast --anonymous --key k fd00:1::2 5000 => --anonymous has routers overwrite addresses that --key has packets prove
--xcast --max 33 fd00:1::2 5000 => 33
--xcast --group ff02::1 fd00:1::2 5000 => ff02::1 is no group
--designated ff02::1 fd00:1::2 5000 => ff02::1 is no group
";

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let (network, scratch) = (Network::new(&["s", "e1", "x"]), Scratch::new());
    network.connect(1, "s", "e1");
    for (name, text) in
        [("key", "07"), ("members", "fd00:1::2\nfd00:1::3 5001\n"), ("doubled", "fd00:1::2\nfd00:1::2\n")]
    {
        fs::write(scratch.path(name), text).expect("it is ours");
    }
    let refused = |node: &str, arguments: &str, expected: &str| {
        let mut command = scratch.command(format!("mead {arguments}"));
        network.within(node, || only_refused(&mut command, &[expected]));
    };
    for row in REFUSED.trim().lines() {
        let (arguments, expected) = row.split_once(" => ").expect("an arrow");
        refused("s", arguments, expected);
    }
    refused("x", "fd00:1::2 5000", "has no global or unique local IPv6 address");
    network.configure("s", "link set dev e1 mtu 1320");
    refused("s", "fd00:1::2 5000", "too small for a single receiver");
}

/// Sees what passes on a link.
fn capture(network: &Network, node: &str, interface: &str) -> Socket {
    let socket = network.within(node, || packet_socket(interface));
    socket.set_nonblocking(true).expect("a plain option");
    socket
}

/// How many datagrams have passed with a MEADcast header, and how many without. All must be well-formed, and what stands in the
/// checksum's field be right for the destination in that very packet, a replica's too (RFC 8200, 8.1).
fn well_formed_datagrams(mut capture: &Socket, dialect: Dialect) -> (usize, usize) {
    const OFFLOAD_LEN: usize = 10;
    const ETHERNET_LEN: usize = 14;
    let (mut with_header, mut without) = (0, 0);
    let mut buffer = [0; 4096];
    while let Ok(len) = capture.read(&mut buffer) {
        let frame = &buffer[OFFLOAD_LEN..len];
        if frame[12..ETHERNET_LEN] != [0x86, 0xdd] {
            continue;
        }
        let (ip, payload) = ipv6::Header::parse(&frame[ETHERNET_LEN..]).expect("an IPv6 packet");
        let (kind, upper_layer, segment) = if ip.next_header == next_header::ROUTING {
            let (header, rest) = Header::parse(payload, dialect).expect("a MEADcast header");
            (Some(header.kind), header.next_header, rest)
        } else {
            (None, ip.next_header, payload)
        };
        if upper_layer == next_header::UDP {
            assert_eq!(
                upper_layer_checksum(ip.source, ip.destination, upper_layer, segment),
                0,
                "{ip}, {kind:?}"
            );
            assert_eq!(usize::from(u16::from_be_bytes([segment[4], segment[5]])), segment.len(), "{ip}");
        }
        with_header += usize::from(kind == Some(Kind::Data));
        without += usize::from(kind.is_none() && upper_layer == next_header::UDP);
    }
    (with_header, without)
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn with_routers_each_datagram_arrives_once_and_fewer_bytes_leave_the_sender() {
    let network = network();
    let sockets = receivers(&network);
    let addresses = RECEIVERS.map(|(_, address)| address);
    let key = &*PrivateFile::key();
    let variants: [(&[&str], &[&str]); 4] = [
        (&[], &[]),
        (&["--dont-replicate", "--to-router", "--grouping", "cost"], &[]),
        (&["--dialect", "linux-6.5"], &["--dialect", "linux-6.5"]),
        (&["--key", key], &["--key", key]),
    ];
    for (of_sender, of_routers) in variants {
        let _routers = ["r1", "r2"].map(|node| router(&network, node, of_routers));
        let mut sender = Sender::start(&network, &[of_sender, &addresses, &["5000"]].concat());
        sender.group_with_unicast(0);
        let captures = [("r1", "s"), ("r2", "r1"), ("e2", "b1"), ("e4", "r1")]
            .map(|(node, interface)| capture(&network, node, interface));
        send(&network, 20, 1000);
        for (node, socket) in &sockets {
            assert_eq!(received(socket, 20, 1000).0, (0..20).collect::<Vec<_>>(), "{node} {of_sender:?}");
        }
        let dialect = if of_sender.contains(&"linux-6.5") { Dialect::Linux65 } else { Dialect::Rfc };
        let [first, second, at_e2, at_e4] = captures.map(|capture| well_formed_datagrams(&capture, dialect));
        // What a router gives its kernel, as it does not know the neighbour yet, comes in there a second time.
        assert!(first.0 >= 20 && second.0 >= 20, "{first:?} {second:?} {of_sender:?}");
        assert_eq!([at_e2, at_e4], [(0, 20), (0, 20)], "{of_sender:?}");
        let done = sender.end();
        let bytes = ["mead_bytes", "unicast_bytes"].map(|field| done[field].as_u64().expect("a count"));
        assert!(2 * bytes.iter().sum::<u64>() < 80 * 1048, "{of_sender:?}: {done}");
        assert!(["forged", "unproved", "malformed"].iter().all(|field| done[field] == 0), "{done}");
    }
}

#[test]
fn routers_of_another_domain_are_not_believed() {
    let network = network();
    let sockets = receivers(&network);
    let [ours, theirs] = ["07", "08"].map(|digits| PrivateFile::new(&digits.repeat(32)));
    let _router = router(&network, "r1", &["--key", &theirs]);
    let arguments = ["--key", &*ours, "--print-tree", "fd00:3::2", "fd00:4::2", "5000"];
    let mut sender = Sender::start(&network, &arguments);
    // The tree comes first.
    assert_eq!(sender.next("tree")["sender"]["receivers"].as_array().map(Vec::len), Some(2));
    let warning = sender.next("warning");
    assert!(warning["text"].as_str().is_some_and(|text| text.contains("has the domain's key")), "{warning}");
    send(&network, 3, 100);
    assert_eq!(received(&sockets["e1"], 3, 100).0.len(), 3);
    let done = sender.end();
    assert_eq!((&done["mead_packets"], &done["unicast_packets"]), (&0.into(), &6.into()));
    // Routers answer only requests that prove the domain's key.
    assert_eq!((&done["responses"], &done["forged"]), (&0.into(), &0.into()), "{done}");
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn super_packets_arrive_as_their_datagrams_whether_they_leave_whole_or_not() {
    let network = network();
    let sockets = receivers(&network);
    let _routers = ["r1", "r2"].map(|node| router(&network, node, &[]));
    let addresses = RECEIVERS.map(|(_, address)| address);
    for option in [&["--dont-replicate"][..], &["--through-kernel"], &["-p", "6000"]] {
        let mut sender = Sender::start(&network, &[option, &addresses, &["5000"]].concat());
        sender.group_with_unicast(0);
        // The first ones to a destination leave the kernel's own way.
        for _ in 0..2 {
            send_super(&network, 50, 1000);
            for (node, socket) in &sockets {
                assert_eq!(received(socket, 50, 1000).0, (0..50).collect::<Vec<_>>(), "{node} {option:?}");
            }
        }
        send(&network, 5, 200);
        sockets.values().for_each(|socket| assert_eq!(received(socket, 5, 200).0.len(), 5));
        let done = sender.end();
        assert_eq!((&done["packets"], &done["unicast_packets"]), (&105.into(), &0.into()), "{option:?}");
        assert_eq!(done["in_super_packets"].as_u64() >= Some(50), option != ["--through-kernel"], "{done}");
        assert_eq!(done["refused_packets"], 0);
    }
}

/// Makes a cable narrow, unseen by the sender.
fn narrow(network: &Network, one: &str, other: &str, mtu: u32) {
    network.configure(one, &format!("link set dev {other} mtu {mtu}"));
    network.configure(other, &format!("link set dev {one} mtu {mtu}"));
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn behind_a_narrow_link_everything_arrives_once_the_sender_has_heard_of_it() {
    // Datagrams that leave room there for the header of four addresses, and for none.
    for (with_routers, mtu, len) in [(true, 1300, 1170), (true, 1280, 1200), (false, 1280, 1244)] {
        let network = network();
        narrow(&network, "r1", "r2", mtu);
        let sockets = receivers(&network);
        let routers = if with_routers { &["r1", "r2"][..] } else { &[] };
        let _routers: Vec<_> = routers.iter().map(|node| router(&network, node, &[])).collect();
        let addresses = RECEIVERS.map(|(_, address)| address);
        let mut sender = Sender::start(&network, &[&addresses[..], &["5000"]].concat());
        sender.group_with_unicast(if with_routers { 0 } else { 4 });
        send(&network, 1, len);
        // What is behind r1 alone is not concerned.
        assert_eq!(received(&sockets["e4"], 1, len).0, [0]);
        let mut told = Vec::new();
        while told.len() < 3 {
            let event = sender.next("narrow");
            assert_eq!((&event["mtu_bytes"], &event["tun_mtu_bytes"]), (&mtu.into(), &1280.into()));
            told.extend(event["receivers"].as_array().expect("a list").clone());
        }
        assert!(told.iter().all(|receiver| receiver != "fd00:4::2"), "{told:?}");
        let captured = capture(&network, "r2", "r1");
        send(&network, 20, len);
        for (node, socket) in &sockets {
            assert_eq!(received(socket, 20, len).0, (0..20).collect::<Vec<_>>(), "{node}: {mtu}");
        }
        let uses_mead = with_routers && mtu == 1300;
        let (by_mead, _) = well_formed_datagrams(&captured, Dialect::Rfc);
        assert_eq!(by_mead > 0, uses_mead);
        assert_eq!(sender.end()["refused_packets"], 0);
    }
}

#[test]
fn who_cannot_be_reached_is_told_with_the_reason_and_still_sent_to() {
    let network = network();
    let mut sockets = receivers(&network);
    sockets.remove("e1");
    network.configure("r1", "route add prohibit fd00:4::2/128");
    let addresses = RECEIVERS.map(|(_, address)| address);
    let mut sender = Sender::start(&network, &[&addresses[..], &["5000"]].concat());
    sender.group_with_unicast(4);
    send(&network, 3, 100);
    let told: BTreeMap<_, _> = (0..2)
        .map(|_| sender.next("unreachable"))
        .map(|event| (event["receivers"][0].to_string(), event["why"].to_string()))
        .collect();
    let expected = [("fd00:3::2", "nobody listens on its port"), ("fd00:4::2", "a firewall forbids it")];
    let quoted = |text: &str| Value::from(text).to_string();
    assert_eq!(told, expected.iter().map(|(whom, why)| (quoted(whom), quoted(why))).collect());
    network.configure("r1", "route del prohibit fd00:4::2/128");
    send(&network, 3, 100);
    assert!(received(&sockets["e4"], 3, 100).0.len() >= 3);
    assert_eq!(sender.end()["unicast_packets"], 24);
}

const GROUP: &str = "ff15::4242";

/// Joins the group, as a program does that knows nothing of MEADcast.
fn join(network: &Network, node: &str, socket: &UdpSocket) {
    network.within(node, || {
        let interface = treecast_host::interface::Interface::named("b1").expect("on the LAN");
        socket.join_multicast_v6(&GROUP.parse().expect("an address"), interface.index).expect("it joins");
    });
}

/// Waits until designated routers serve these receivers, for some discoveries at most.
fn wait_for_designated(sender: &mut Sender, expected: &[&str]) {
    let mut groups = Vec::new();
    let mut discoveries = 0;
    while discoveries < 20 {
        let event = sender.any();
        discoveries += u32::from(event["event"] == "tree");
        if event["event"] == "group" {
            let lists = event["lists"].as_array().into_iter().flatten();
            let designated = lists.flat_map(|list| list["designated"].as_array().expect("a list"));
            let receivers = designated.flat_map(|entry| entry["receivers"].as_array().expect("a list"));
            if receivers.eq(expected) {
                return;
            }
            groups.push(event);
        }
    }
    panic!("{expected:?}: {groups:?}");
}

/// e1 and e3 have joined and get one packet together; e2 and e4 have not, and are served as without.
#[test]
fn a_designated_router_serves_who_has_joined_by_one_packet_on_its_lan() {
    let network = network();
    let sockets = receivers(&network);
    ["e1", "e3"].iter().for_each(|node| join(&network, node, &sockets[node]));
    let key = &*PrivateFile::key();
    for (of_sender, of_router) in [
        (&["--dont-replicate"][..], &["--designated"][..]),
        (&["--key", key, "--grouping", "cost", "--ports"], &["--designated", "--key", key]),
        (&[], &["--designated", "--user-space"]),
    ] {
        let _routers = ["r1", "r2"].map(|node| router(&network, node, of_router));
        wait_until("the router knows who listens", || network.router_status("r2").groups.len() == 1);
        let addresses = RECEIVERS.map(|(_, address)| address);
        let arguments = ["-T", "1", "-I", "1.5", "--print-tree", "--designated", GROUP];
        let mut sender =
            Sender::start(&network, &[&arguments[..], of_sender, &addresses, &["5000"]].concat());
        wait_for_designated(&mut sender, &["fd00:3::2", "fd00:3::4"]);
        let at_lan = capture(&network, "r2", "b1");
        send(&network, 20, 1000);
        for (node, socket) in &sockets {
            assert_eq!(received(socket, 20, 1000).0, (0..20).collect::<Vec<_>>(), "{node} {of_sender:?}");
        }
        let (_, on_lan) = well_formed_datagrams(&at_lan, Dialect::Rfc);
        assert_eq!(on_lan, 40, "one for e1 and e3, one for e2");
        let copies = network.router_status("r2").copies;
        assert_eq!((copies.multicast, copies.unicast), (20, 20), "{copies:?}");
        sender.end();
    }
    // Nobody listens any more: the next discovery finds that out.
    let _routers = ["r1", "r2"].map(|node| router(&network, node, &["--designated"]));
    let mut sender = Sender::start(
        &network,
        &["-T", "0.5", "-I", "1", "--print-tree", "--designated", GROUP, "fd00:3::2", "fd00:3::4", "5000"],
    );
    wait_for_designated(&mut sender, &["fd00:3::2", "fd00:3::4"]);
    drop(sockets);
    wait_for_designated(&mut sender, &[]);
    sender.end();
}
