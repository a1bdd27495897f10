//! `treecast mroute` between network namespaces: real packets, real listeners, the kernel's own forwarding.

use std::{
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{net::UnixDatagram, process::CommandExt},
    },
    process::Command,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{
    child::{PrivateFile, treecast_as_nobody},
    mroute_network::{Network, PATIENCE, Router, address},
    session::wait_until,
};
use socket2::{Domain, SockAddr, Socket, Type};
use treecast_dataplane::mroute::SourceFilter;
use treecast_driver::udp::{Offload, Transmitter};
use treecast_host::unix::receive_descriptors;
use treecast_wire::header::{FileId, Header, PacketType};

/// Short, so that what takes a few queries is over soon.
const QUICK: [&str; 2] = ["--query-interval", "2s"];

const ANY_SOURCE: [&str; 2] = ["ff15::42", "239.1.2.3"];
const SOURCE_SPECIFIC: [&str; 2] = ["ff3e::8000:42", "232.1.2.3"];

/// s - r0 - r1 - r2 - c, with a host h at r1.
fn chain() -> Network {
    let network = Network::of_cables(&[("s", "r0"), ("r0", "r1"), ("r1", "r2"), ("r2", "c"), ("r1", "h")]);
    network.route("r0", &[2, 3, 4], 1, 2);
    network.route("r1", &[0], 1, 1);
    network.route("r1", &[3], 2, 2);
    network.route("r2", &[0, 1, 4], 2, 1);
    network
}

fn routers(network: &Network) -> Vec<Router> {
    ["r0", "r1", "r2"].iter().map(|node| network.router(node, &QUICK)).collect()
}

/// The source's addresses, IPv6 first.
fn addresses(id: u8, host: u8) -> [String; 2] {
    [format!("fd00:{id}::{host}"), format!("10.0.{id}.{host}")]
}

#[test]
fn a_stream_crosses_three_routers_while_somebody_listens() {
    let network = chain();
    let _routers = routers(&network);
    for ((group, source), is_specific) in ANY_SOURCE
        .iter()
        .zip(addresses(0, 1))
        .map(|pair| (pair, false))
        .chain(SOURCE_SPECIFIC.iter().zip(addresses(0, 1)).map(|pair| (pair, true)))
    {
        let _stream = network.stream("s", "r0", group);
        let wanted = is_specific.then_some(source.as_str());
        for _ in 0..2 {
            let listener = network.listen("c", "r2", group, wanted);
            listener.hear("s");
            let entry = network.entry("r1", &source, group).expect("it forwards");
            assert_eq!((entry.from.as_str(), entry.to), ("r0", vec!["r2".to_owned()]), "{group}");
            drop(listener);
            for router in ["r2", "r1", "r0"] {
                wait_until(&format!("{router} no longer forwards {group}"), || {
                    network.entry(router, &source, group).is_none_or(|entry| entry.to.is_empty())
                });
                wait_until(&format!("{router} no longer listens to {group}"), || {
                    network.family(router, group).listening.is_empty()
                });
            }
        }
    }
}

#[test]
fn only_the_source_that_is_asked_for_is_joined() {
    let network = chain();
    let _routers = routers(&network);
    for ((group, wanted), other) in SOURCE_SPECIFIC.iter().zip(addresses(0, 1)).zip(addresses(4, 2)) {
        let _streams = [network.stream("s", "r0", group), network.stream("h", "r1", group)];
        let listener = network.listen("c", "r2", group, Some(&wanted));
        listener.hear("s");
        assert_eq!(listener.senders_of(100), ["s"], "{group}");
        let listening = network.family("r1", group).listening;
        assert_eq!(listening.len(), 1, "{listening:?}");
        assert_eq!(listening[0].interface, "r0");
        assert_eq!(listening[0].filter, SourceFilter::Include(vec![address(&wanted)]));
        assert!(network.entry("r1", &other, group).is_none_or(|entry| entry.to.is_empty()));
        let both = network.listen("c", "r2", group, Some(&other));
        both.hear("h");
    }
}

/// LAN lan0 with s, LAN lan1 with c, two routers between them that both have lan0 as their upstream.
#[test]
fn of_two_routers_with_the_same_upstream_one_forwards_and_the_other_replaces_it() {
    let network = Network::new(&["s", "r0", "r1", "c", "lan0", "lan1"]);
    network.lan(0, "lan0", &["s", "r0", "r1"]);
    network.lan(1, "lan1", &["r0", "r1", "c"]);
    let start = |node| network.router(node, &[&QUICK[..], &["--upstream", "lan0"]].concat());
    let (first, _second) = (start("r0"), start("r1"));
    let group = ANY_SOURCE[1];
    wait_until("r0 is the querier of lan1", || {
        let family = network.family("r1", group);
        family.interfaces.iter().any(|interface| interface.querier == Some(address("10.0.1.1")))
    });
    let _stream = network.stream("s", "lan0", group);
    let listener = network.listen("c", "lan1", group, None);
    listener.hear("s");
    let outgoing = |node| network.entry(node, "10.0.0.1", group).map(|entry| entry.to);
    assert_eq!(outgoing("r0"), Some(vec!["lan1".to_owned()]));
    assert!(outgoing("r1").is_none_or(|to| to.is_empty()));
    drop(first);
    listener.hear_the_end();
    listener.hear("s");
    assert_eq!(outgoing("r1"), Some(vec!["lan1".to_owned()]));
}

/// More groups and sources than a kernel lets one socket join (IPv4: 20 groups, 10 sources of each).
#[test]
fn many_groups_and_sources_are_joined() {
    let network = chain();
    let _routers = routers(&network);
    let groups: Vec<_> = (1..=50).map(|last| format!("239.7.7.{last}")).collect();
    let mut listeners: Vec<_> = groups.iter().map(|group| network.listen("c", "r2", group, None)).collect();
    for (group, prefix) in SOURCE_SPECIFIC.iter().zip(["fd00:0::", "10.0.0."]) {
        let sources = (11..=35).map(|host| format!("{prefix}{host}"));
        listeners.extend(sources.map(|source| network.listen("c", "r2", group, Some(&source))));
        wait_until("all sources are joined across three routers", || {
            let listening = network.family("r0", group).listening;
            listening.iter().any(|one| match &one.filter {
                SourceFilter::Include(sources) => one.group.to_string() == *group && sources.len() == 25,
                SourceFilter::Exclude(_) => false,
            })
        });
    }
    wait_until("all groups are joined across three routers", || {
        network.family("r0", &groups[0]).listening.len() == 51
    });
    drop(listeners);
    for group in SOURCE_SPECIFIC {
        wait_until("all are left again", || network.family("r0", group).listening.is_empty());
    }
}

#[test]
fn an_any_source_group_has_senders_anywhere() {
    let network = chain();
    let _routers = routers(&network);
    for group in ANY_SOURCE {
        let at_leaf = network.listen("c", "r2", group, None);
        let at_root = network.listen("s", "r0", group, None);
        // Who waits for listeners before it sends hears of them wherever it is.
        for router in ["r0", "r1", "r2"] {
            wait_until("every link has listeners behind it", || {
                network.family(router, group).interfaces.iter().all(|interface| {
                    interface.name == "h" || interface.groups.iter().any(|one| one.group.to_string() == group)
                })
            });
        }
        let _streams = [
            network.stream("s", "r0", group),
            network.stream("h", "r1", group),
            network.stream("c", "r2", group),
        ];
        for sender in ["s", "h"] {
            at_leaf.hear(sender);
        }
        for sender in ["c", "h"] {
            at_root.hear(sender);
        }
    }
}

/// With the default query interval, a listener of a killed router's network would otherwise be asked
/// again after up to 125 s.
#[test]
fn a_router_that_is_killed_and_started_again_goes_on_within_seconds() {
    let network = chain();
    let mut routers: Vec<_> = ["r0", "r1", "r2"].iter().map(|node| network.router(node, &[])).collect();
    let group = ANY_SOURCE[0];
    let _stream = network.stream("s", "r0", group);
    let listener = network.listen("c", "r2", group, None);
    listener.hear("s");
    drop(routers.remove(1));
    listener.hear_the_end();
    routers.push(network.router("r1", &[]));
    let gap = listener.hear("s");
    eprintln!("{gap:?} from ready to the first packet");
    assert!(gap < PATIENCE, "long before the next regular query");
}

#[test]
fn a_bridge_sends_a_stream_only_to_its_listeners() {
    let network = Network::new(&["s", "r0", "bridge", "a", "b", "c"]);
    network.connect(0, "s", "r0");
    network.lan(1, "bridge", &["r0", "a", "b", "c"]);
    let _router = network.router("r0", &QUICK);
    for (group, source) in ANY_SOURCE.iter().zip(addresses(0, 1)) {
        let _stream = network.stream("s", "r0", group);
        let (a, b) = (network.listen("a", "bridge", group, None), network.listen("b", "bridge", group, None));
        a.hear("s");
        b.hear("s");
        // A bridge floods for a moment after the first query that it sees, and what all hosts of a LAN get
        // is a few packets.
        wait_until(&format!("c does not get {group}"), || {
            let (to_r0, to_c) = received_meanwhile(&network, [("r0", "s"), ("c", "bridge")]);
            to_r0 > 100 && to_c < to_r0 / 4
        });
        drop(b);
        // Two seconds without packets, a query interval, would be most of these.
        let (to_r0, to_a) = received_meanwhile(&network, [("r0", "s"), ("a", "bridge")]);
        assert!(to_a * 10 >= to_r0 * 6, "{to_a} of {to_r0} packets come when another leaves");
        a.hear("s");
        drop(a);
        wait_until("nothing is forwarded to nobody", || {
            network.entry("r0", &source, group).is_none_or(|entry| entry.to.is_empty())
        });
    }
}

/// s - r0 - snooping bridge - a, b, and h at r0, too. Found with the router reporting "all but s" to the bridge, which it
/// forwarded s to: Linux then keeps an entry of its own for s, into which it does not copy joins of MLDv1 and IGMPv2.
#[test]
fn hosts_of_older_versions_hear_behind_a_snooping_bridge() {
    let network = Network::new(&["s", "r0", "h", "bridge", "a", "b"]);
    network.connect(0, "s", "r0");
    network.connect(2, "h", "r0");
    network.lan(1, "bridge", &["r0", "a", "b"]);
    network.configure("bridge", "link set dev lan type bridge mcast_igmp_version 3 mcast_mld_version 2\n");
    network.within("b", || {
        std::fs::write("/proc/sys/net/ipv6/conf/bridge/force_mld_version", "1").expect("a setting");
        std::fs::write("/proc/sys/net/ipv4/conf/bridge/force_igmp_version", "2").expect("a setting");
    });
    let _router = network.router("r0", &QUICK);
    for group in ANY_SOURCE {
        let _stream = network.stream("s", "r0", group);
        let elsewhere = network.listen("h", "r0", group, None);
        elsewhere.hear("s");
        let newer = network.listen("a", "bridge", group, None);
        newer.hear("s");
        wait_until("the router joins for h on the bridge's side, too", || {
            let listening = network.family("r0", group).listening;
            listening.iter().any(|one| one.interface == "bridge" && one.group == address(group))
        });
        // Its report reaches the bridge before b's.
        thread::sleep(Duration::from_secs(1));
        network.listen("b", "bridge", group, None).hear("s");
    }
}

/// s - r0 - LAN - r1 - c, where r1 has the lower IPv4 address on the LAN and is the querier there. The bridge
/// hands r1's and the listeners' reports to r0 only because r0 advertises itself.
#[test]
fn a_router_that_is_not_the_querier_hears_listeners_through_a_bridge() {
    let network = Network::new(&["s", "r0", "bridge", "r1", "c", "a"]);
    network.connect(0, "s", "r0");
    network.lan(1, "bridge", &["r1", "r0", "a"]);
    network.connect(2, "r1", "c");
    network.route("r1", &[0], 1, 2);
    network.route("r0", &[2], 1, 1);
    let _routers = ["r0", "r1"].map(|node| network.router(node, &QUICK));
    let group = ANY_SOURCE[1];
    wait_until("r1 is the querier", || {
        let family = network.family("r0", group);
        family.interfaces.iter().any(|interface| interface.querier == Some(address("10.0.1.1")))
    });
    let _stream = network.stream("s", "r0", group);
    let behind = network.listen("c", "r1", group, None);
    behind.hear("s");
    drop(behind);
    wait_until("nothing is forwarded to nobody", || {
        network.entry("r0", "10.0.0.1", group).is_none_or(|entry| entry.to.is_empty())
    });
    network.listen("a", "bridge", group, None).hear("s");
}

/// Three routers in a ring that know no upstream. A packet comes in by the route to its source only, so
/// none goes round; the router that gets it twice says so, once for each family.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn in_a_ring_no_packet_goes_round() {
    let network = Network::of_cables(&[("s", "r0"), ("r0", "r1"), ("r1", "r2"), ("r2", "r0"), ("r2", "c")]);
    network.route("r0", &[2, 4], 3, 1);
    network.route("r1", &[0], 1, 1);
    network.route("r1", &[3, 4], 2, 2);
    network.route("r2", &[0, 1], 3, 2);
    let warnings = PrivateFile::new("");
    let _others = ["r0", "r1"].map(|node| network.router(node, &QUICK));
    let _last = network.router_that_warns("r2", &QUICK, &warnings);
    let said = || warnings.text();
    for (number, group) in ANY_SOURCE.iter().enumerate() {
        let _stream = network.stream("s", "r0", group);
        let listener = network.listen("c", "r2", group, None);
        listener.hear("s");
        wait_until("it is said that there may be a loop", || {
            said().matches("start every router with --upstream").count() == number + 1
        });
        for at in [("r2", "r1"), ("r1", "r0"), ("c", "r2")] {
            let (sent, received) = received_meanwhile(&network, [("r0", "s"), at]);
            assert!(received * 2 < sent * 3, "{received} packets for {sent} at {at:?} of {group}");
        }
    }
    assert_eq!(said().lines().count(), 2, "{}", said());
}

/// r1 listens itself on the links that it forwards to, since there are listeners on several. Its kernel must not
/// give it its own packets back.
#[test]
fn a_router_between_listeners_gets_each_packet_once() {
    let network = chain();
    let warnings = PrivateFile::new("");
    let _others = ["r0", "r2"].map(|node| network.router(node, &QUICK));
    let _between = network.router_that_warns("r1", &QUICK, &warnings);
    for (group, source) in ANY_SOURCE.iter().zip(addresses(0, 1)) {
        let _stream = network.stream("s", "r0", group);
        let listeners = [network.listen("h", "r1", group, None), network.listen("c", "r2", group, None)];
        for listener in &listeners {
            listener.hear("s");
        }
        let listening = network.family("r1", group).listening;
        assert_eq!(listening.len(), 3, "a sender may be anywhere: {listening:?}");
        let packets = || ["r1", "r2"].map(|node| network.entry(node, &source, group).expect("busy").packets);
        let before = packets();
        thread::sleep(Duration::from_secs(2));
        let after = packets();
        let (between, last) = (after[0] - before[0], after[1] - before[1]);
        assert!(last > 10 && between * 2 < last * 3, "{between} packets at r1, {last} at r2 of {group}");
        assert_eq!(network.entry("r1", &source, group).expect("busy").wrong_interface, 0, "{group}");
    }
    assert_eq!(warnings.text(), "");
}

/// UDP super-packets pass three routers as they are: the kernel's count is of them, not of their segments.
#[test]
fn super_packets_pass_whole() {
    const BLOCK_LEN: usize = 1420;
    const PASSES: usize = 400;
    let network = chain();
    let _routers = routers(&network);
    for (group, source) in ANY_SOURCE.iter().zip(addresses(0, 1)) {
        let listener = network.listen("c", "r2", group, None);
        let (socket, group_and_port) = network.socket_to("s", "r0", group);
        let mut transmitter = Transmitter::new(socket, Offload::SuperPackets);
        let header = Header::new(PacketType::Data, FileId(1), 0, BLOCK_LEN as u32);
        let run = vec![7; 40 * BLOCK_LEN];
        let mut send =
            || transmitter.send_blocks(group_and_port, header, BLOCK_LEN, &run).expect("it is sent");
        wait_until("the way is open", || {
            send();
            network.entry("r2", &source, group).is_some_and(|entry| !entry.to.is_empty())
        });
        let before = network.entry("r2", &source, group).expect("it was there");
        let start = Instant::now();
        (0..PASSES).for_each(|_| send());
        let elapsed = start.elapsed();
        wait_until("all have passed", || {
            let now = network.entry("r2", &source, group).expect("it is busy");
            now.bytes - before.bytes >= (PASSES * run.len()) as u64
        });
        let after = network.entry("r2", &source, group).expect("it is busy");
        let (packets, bytes) = (after.packets - before.packets, after.bytes - before.bytes);
        eprintln!("{group}: {packets} packets of {} bytes in {elapsed:?}", bytes / packets);
        assert!(packets < 2 * PASSES as u64, "{packets} packets for {PASSES} super-packets of 40");
        drop(listener);
    }
}

#[test]
fn interfaces_come_and_go() {
    let network = Network::new(&["s", "r0", "c"]);
    network.connect(0, "s", "r0");
    let _router = network.router("r0", &QUICK);
    let group = ANY_SOURCE[0];
    let _stream = network.stream("s", "r0", group);
    for _ in 0..2 {
        network.connect(1, "r0", "c");
        network.listen("c", "r0", group, None).hear("s");
        network.configure("r0", "link set c down\n");
        wait_until("an interface that is down is not served", || {
            network.family("r0", group).interfaces.len() == 1
        });
        network.configure("r0", "link set c up\n");
        network.listen("c", "r0", group, None).hear("s");
        network.configure("r0", "link del c\n");
        wait_until("an interface that is gone is forgotten", || {
            let family = network.family("r0", group);
            family.interfaces.len() == 1 && family.listening.is_empty()
        });
    }
}

#[test]
fn a_router_that_is_asked_to_end_leaves_nothing() {
    let network = Network::new(&["s", "r0"]);
    network.connect(0, "s", "r0");
    let router = network.router("r0", &["--interface", "s"]);
    let interfaces = || routed_interfaces(&network, "r0");
    // An IPv6 interface is served once its own address is in use.
    wait_until("both families are served", || interfaces() == [1, 1]);
    let text = network.prints("r0", &["mroute", "show"]);
    let row = |words: &[&str]| text.lines().any(|line| line.split_whitespace().eq(words.iter().copied()));
    assert!(row(&["INTERFACE", "IPv4", "QUERIER"]), "{text}");
    assert!(row(&["s", "10.0.0.2", "this", "router"]), "{text}");
    assert_eq!(router.terminate(), Some(0));
    assert_eq!(interfaces(), [0, 0]);
}

/// Numbered packets of both families every 2 ms, through a router that is ended by either signal and started again. Found
/// with 0.4 to 0.7 s of them lost.
#[test]
fn a_restart_loses_no_packet() {
    let network = Network::of_cables(&[("s", "r0"), ("r0", "c"), ("r0", "d")]);
    let start = |keep| network.router("r0", &["--keep", keep]);
    let mut router = start("60s");
    let listeners = ANY_SOURCE.map(|group| network.listen("c", "r0", group, None));
    let senders = ANY_SOURCE.map(|group| network.socket_to("s", "r0", group));
    let last = |received: &[u32]| received.last().copied().unwrap_or(0);
    let (stop, sent) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in (1..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                for (socket, group) in &senders {
                    socket.send_to(&u32::to_be_bytes(number), group).expect("it is sent");
                }
                sent.store(number, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(2));
            }
        });
        // Ends the stream if something is wrong, too.
        let _stop = Flag(&stop);
        let mut received = [Vec::new(), Vec::new()];
        let mut receive_until = |number: u32| {
            for (listener, received) in listeners.iter().zip(&mut received) {
                let (start, mut packet) = (Instant::now(), [0; 4]);
                while last(received) < number {
                    assert!(start.elapsed() < PATIENCE, "packets no longer come");
                    if listener.socket.recv(&mut packet).is_ok() {
                        received.push(u32::from_be_bytes(packet));
                    }
                }
            }
        };
        receive_until(100);
        for signal in [libc::SIGTERM, libc::SIGKILL] {
            router.end_by(signal);
            thread::sleep(Duration::from_millis(500));
            router = start(if signal == libc::SIGKILL { "3s" } else { "60s" });
            // Two seconds are long enough for listeners to be asked and to answer.
            receive_until(sent.load(Ordering::Relaxed) + 1000);
            // A new listener is served by what the router has learned anew.
            let later = network.listen("d", "r0", ANY_SOURCE[0], None);
            let mut packet = [0; 4];
            wait_until("packets for another", || later.socket.recv(&mut packet).is_ok());
        }
        for (received, group) in received.iter().zip(ANY_SOURCE) {
            let lost: u32 = received.windows(2).map(|pair| pair[1] - pair[0] - 1).sum();
            assert_eq!(lost, 0, "packets of {group} among {}", received.len());
        }
        // Nobody comes: all is forgotten in time, and nothing is left.
        router.terminate();
        assert_eq!(routed_interfaces(&network, "r0"), [3, 3]);
        wait_until("the keeper has ended", || routed_interfaces(&network, "r0") == [0, 0]);
    });
    // Who interrupts it means it.
    assert_eq!(start("3s").end_by(libc::SIGINT), Some(0));
    assert_eq!(routed_interfaces(&network, "r0"), [0, 0]);
}

/// Another user's process has the keeper's name, and accepts no connections or answers none: the router does without.
#[test]
fn who_takes_the_keepers_name_keeps_no_router_from_starting_or_ending() {
    let network = Network::new(&["s", "r0"]);
    network.connect(0, "s", "r0");
    for accepts in [true, false] {
        // The thread that listens is another user's.
        let squat = move || {
            // SAFETY: no pointers. The system call itself, unlike the C library's, changes this thread alone.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) }, 0);
            let name = SockAddr::unix("\0treecast-mroute-keeper").expect("a good name");
            let listener = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
            listener.bind(&name).expect("nobody has the name");
            listener.listen(if accepts { 100 } else { 0 }).expect("it can listen");
            let waiting = (!accepts).then(|| {
                let socket = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
                socket.connect(&name).map(|()| socket).expect("there is room for one")
            });
            (listener, waiting)
        };
        let _squatter = network.within("r0", squat);
        let warnings = PrivateFile::new("");
        let router = network.router_that_warns("r0", &["--keep", "30s"], &warnings);
        assert_eq!(router.terminate(), Some(0));
        let said = warnings.text();
        assert!(said.contains("a restart will interrupt streams: "), "{said}");
        assert_eq!(said.contains("of user 65534 has taken @treecast-mroute-keeper"), accepts, "{said}");
        assert_eq!(routed_interfaces(&network, "r0"), [0, 0], "nobody keeps it");
    }
}

/// What systemd does: it stores the descriptors, ends all processes of the service, and passes them to the next daemon.
#[test]
fn a_service_manager_holds_the_entries_over_a_restart() {
    let network = Network::of_cables(&[("s", "r0"), ("r0", "c")]);
    let place = std::env::temp_dir().join(format!("treecast-notify-{}", std::process::id()));
    let manager = UnixDatagram::bind(&place).expect("a socket");
    manager.set_read_timeout(Some(PATIENCE)).expect("a good time");
    let listeners = ANY_SOURCE.map(|group| network.listen("c", "r0", group, None));
    let _streams = ANY_SOURCE.map(|group| network.stream("s", "r0", group));
    let notify = format!("NOTIFY_SOCKET={}", place.display());
    let start = |stored: &[(String, OwnedFd)]| {
        let descriptors: Vec<i32> = stored.iter().map(|(_, descriptor)| descriptor.as_raw_fd()).collect();
        let names: Vec<&str> = stored.iter().map(|(name, _)| name.as_str()).collect();
        let script = format!(
            "export LISTEN_PID=$$ LISTEN_FDS={} LISTEN_FDNAMES={} {notify}; exec {} mroute --keep 500ms",
            stored.len(),
            names.join(":"),
            env!("CARGO_BIN_EXE_treecast")
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        network.daemon_of("r0", with_descriptors(command, descriptors))
    };
    let router = start(&[]);
    for listener in &listeners {
        listener.hear("s");
    }
    let stored = [(); 2].map(|()| take_stored(&manager));
    let mut names: Vec<_> = stored.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["treecast-mroute-ipv4", "treecast-mroute-ipv6"]);
    assert_eq!(router.terminate(), Some(0));
    // The keeper is of the service, too.
    let sockets = || network.within("r0", || std::fs::read_to_string("/proc/thread-self/net/unix"));
    wait_until("the keeper has ended", || {
        !sockets().expect("it is shown").contains("@treecast-mroute-keeper")
    });
    for listener in &listeners {
        // What has come before does not count.
        listener.socket.set_nonblocking(true).expect("it can be set");
        while listener.next().is_some() {}
        listener.socket.set_nonblocking(false).expect("it can be set");
        listener.hear("s");
    }
    assert_eq!(routed_interfaces(&network, "r0"), [2, 2], "the manager's copies keep it");
    let router = start(&stored);
    let again = [(); 2].map(|()| take_stored(&manager));
    assert_eq!(again.each_ref().map(|(name, _)| name), stored.each_ref().map(|(name, _)| name));
    for group in ANY_SOURCE {
        network.family("r0", group);
    }
    // Who interrupts it means the end: the manager is to forget them.
    assert_eq!(router.end_by(libc::SIGINT), Some(0));
    let mut text = [0; 100];
    let len = manager.recv(&mut text).expect("a message");
    assert!(text[..len].starts_with(b"FDSTOREREMOVE=1\nFDNAME=treecast-mroute-ipv"));
    let _ = std::fs::remove_file(&place);
}

/// Has a command find these descriptors where a service manager puts them: from number 3 on (sd_listen_fds(3)).
fn with_descriptors(mut command: Command, descriptors: Vec<i32>) -> Command {
    let place = move || {
        let mut copies = [0; 2];
        for (copy, descriptor) in copies.iter_mut().zip(&descriptors) {
            // SAFETY: no pointers. The copy has the lowest free number from 100 on, and so is in the place of no other.
            *copy = unsafe { libc::fcntl(*descriptor, libc::F_DUPFD_CLOEXEC, 100) };
            assert!(*copy >= 0);
        }
        for (place, copy) in (3..).zip(copies).take(descriptors.len()) {
            // SAFETY: as above.
            unsafe { libc::dup2(copy, place) };
        }
        Ok(())
    };
    // SAFETY: it makes system calls only.
    unsafe { command.pre_exec(place) };
    command
}

/// Receives one descriptor and the name under which it is to be stored.
fn take_stored(manager: &UnixDatagram) -> (String, OwnedFd) {
    let (text, mut descriptors) = receive_descriptors(manager).expect("a message with a descriptor");
    let text = String::from_utf8(text).expect("text");
    assert!(text.starts_with("FDSTORE=1\n") && text.contains("\nFDPOLL=0"), "{text}");
    let name = text.lines().find_map(|line| line.strip_prefix("FDNAME=")).expect("a name");
    (name.to_owned(), descriptors.remove(0))
}

/// One host joins more groups than there is room for, another only one.
#[test]
fn hosts_of_a_link_have_equal_shares_of_its_room() {
    let network = Network::new(&["s", "r0", "bridge", "a", "b"]);
    network.connect(0, "s", "r0");
    network.lan(1, "bridge", &["r0", "a", "b"]);
    let warnings = PrivateFile::new("");
    let _router = network.router_that_warns("r0", &["--max-groups", "4"], &warnings);
    for (group, prefix) in ANY_SOURCE.iter().zip(["ff15::7:", "239.7.7."]) {
        let flood: Vec<_> =
            (1..=9).map(|last| network.listen("a", "bridge", &format!("{prefix}{last}"), None)).collect();
        let room = || {
            let interfaces = network.family("r0", group).interfaces;
            let on_lan = interfaces.into_iter().find(|interface| interface.name == "bridge");
            on_lan.and_then(|interface| interface.room).expect("it is served")
        };
        wait_until("it is full", || room().refused >= 5);
        let (room, _stream) = (room(), network.stream("s", "r0", group));
        assert!(room.is_full && room.largest_host_groups == 4, "{room:?}");
        network.listen("b", "bridge", group, None).hear("s");
        drop(flood);
    }
    let text = network.prints("r0", &["mroute", "show"]);
    assert!(text.contains("bridge is full: 4 groups of at most 4 (--max-groups)"), "{text}");
    let said = warnings.text();
    let shortages = said.lines().filter(|line| line.contains("hosts on bridge ask for more groups"));
    assert!(shortages.count() >= 2, "{said}");
}

#[test]
fn an_idle_router_costs_next_to_nothing() {
    let network = Network::new(&["s", "r0"]);
    network.connect(0, "s", "r0");
    let start = Instant::now();
    let router = network.router("r0", &[]);
    eprintln!("ready after {:?}", start.elapsed());
    // To start takes longer where other programs take caches away.
    let before = router.processor_ticks();
    thread::sleep(Duration::from_secs(3));
    let ticks = router.processor_ticks() - before;
    assert!(ticks <= 15, "{ticks}0 ms of processor time in 3 s");
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let network = Network::new(&["s", "r0"]);
    network.connect(0, "s", "r0");
    let refuses = |arguments: &[&str], line: &str| {
        network.refuses("r0", &[&["mroute"], arguments].concat(), &[&format!("treecast: {line}\n")]);
    };
    refuses(
        &["show"],
        "no multicast routing daemon answers here: start one with `treecast mroute` in this network namespace",
    );
    for (interface, line) in [
        ("nosuch", "interface nosuch does not exist: `ip link` lists those that do"),
        ("lo", "interface lo cannot multicast: name another with --interface"),
    ] {
        refuses(&["--interface", interface], line);
    }
    let output = network.within("r0", || treecast_as_nobody(&["mroute"]));
    assert_eq!(
        String::from_utf8(output.stderr).expect("UTF-8"),
        "treecast: multicast routing needs root (CAP_NET_ADMIN and CAP_NET_RAW): run it as root\n"
    );
    let router = network.router("r0", &[]);
    refuses(&[], "another IPv6 multicast routing daemon runs in this network namespace: stop it first");
    assert_eq!(router.terminate(), Some(0));

    network.configure("r0", "link set s down\n");
    refuses(&["--interface", "s"], "interface s is down: bring it up with `ip link set s up`");
    let pairs = (0..17).map(|pair| {
        format!("link add a{pair} type veth peer name b{pair}\nlink set a{pair} up\nlink set b{pair} up\n")
    });
    network.configure("r0", &pairs.collect::<String>());
    let line = "34 interfaces can multicast here, and a kernel routes between 32 at most: \
                name those to use with --interface";
    refuses(&[], line);
}

/// How many interfaces a node's kernel routes multicast between, IPv6 first.
fn routed_interfaces(network: &Network, node: &str) -> [usize; 2] {
    let count = |path| std::fs::read_to_string(path).expect("the kernel routes").lines().count() - 1;
    network.within(node, || {
        [count("/proc/thread-self/net/ip6_mr_vif"), count("/proc/thread-self/net/ip_mr_vif")]
    })
}

/// Set when it is dropped.
struct Flag<'a>(&'a AtomicBool);

impl Drop for Flag<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn received_packets(network: &Network, node: &str, interface: &str) -> u64 {
    let table = network.within(node, || std::fs::read_to_string("/proc/thread-self/net/dev"));
    let table = table.expect("the kernel counts");
    let line = table.lines().find_map(|line| line.trim().strip_prefix(interface)).expect("the interface");
    line.split_whitespace().nth(2).and_then(|packets| packets.parse().ok()).expect("a count")
}

/// How many packets two interfaces receive within the same three seconds.
fn received_meanwhile(network: &Network, at: [(&str, &str); 2]) -> (u64, u64) {
    let count = || at.map(|(node, interface)| received_packets(network, node, interface));
    let before = count();
    thread::sleep(Duration::from_secs(3));
    let after = count();
    (after[0] - before[0], after[1] - before[1])
}
