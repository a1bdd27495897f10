//! `treecast router` between network namespaces: hand-made MEADcast packets, two routers, receivers with plain UDP sockets.

use std::{
    fs,
    io::{Read, Write},
    mem,
    net::{Ipv6Addr, UdpSocket},
    path::Path,
    process::{Command, Stdio},
    time::SystemTime,
};

use crate::{
    child::{PrivateFile, treecast_as_nobody},
    mroute_network::{Network, PATIENCE},
    packets::packet_socket,
    router_network::{
        C1, C2, C3, R1, R2, SENDER, assert_heard, groups, inject, packet, receivers, send, set, start,
        status, tree, udp, with_header,
    },
    session::{Scratch, TREECAST, only_refused, wait_until},
};
use socket2::{Domain, Protocol, Socket, Type};
use treecast_dataplane::explicit::{process, show};
use treecast_host::{interface::index_of, option};
use treecast_proto::explicit::{
    authentication::{DomainKey, Said},
    list_proof::{self, Listed},
};
use treecast_wire::{
    ipv6::{self, next_header},
    mead::{Dialect, Header, Kind, Map, Options},
    xcast,
};

#[test]
fn each_receiver_gets_each_datagram_once_and_a_right_one() {
    let network = tree();
    let _routers = [start(&network, "r1", &[]), start(&network, "r2", &[])];
    let receivers = receivers(&network);
    // No neighbour is known yet: the first one is lost by nobody either.
    for text in ["one", "two", "three"] {
        send(&network, text);
    }
    assert_heard(&receivers, [&["one", "three", "two"]; 3], "by both");
    let (r1, r2) = (status(&network, "r1"), status(&network, "r2"));
    assert_eq!((r1.packets, r1.copies.replicas, r1.copies.unicast), (3, 3, 3), "{r1:?}");
    assert_eq!((r2.packets, r2.copies.replicas, r2.copies.unicast), (3, 0, 6), "{r2:?}");
    assert!(r1.neighbours.iter().any(|neighbour| neighbour.address == C3 && neighbour.packets > 0), "{r1:?}");

    let shown = network.prints("r1", &["router", "status"]);
    let heading = |words: &str| shown.lines().any(|line| line.contains(words));
    assert!(
        heading("MEADCAST PACKETS (A SUPER-PACKET IS ONE)")
            && heading("NEIGHBOUR")
            && heading("DATAGRAMS SENT"),
        "{shown}"
    );

    let mut wrong = packet(&groups(), C3, &udp(C3, b"never"));
    wrong[ipv6::HEADER_LEN + 3] = 1;
    inject(&network, &wrong);
    wait_until("it is counted", || status(&network, "r1").malformed.get("segments-left") == Some(&1));

    set(&network, "r1", &["disable", "--now"]);
    send(&network, "plain");
    assert_heard(&receivers, [&[], &[], &["plain"]], "by the kernel");
    set(&network, "r1", &["enable"]);
    set(&network, "r1", &["min-dsts", "3"]);
    send(&network, "early");
    assert_heard(&receivers, [&["early"]; 3], "early");
    let r1 = status(&network, "r1");
    assert_eq!((r1.copies.premature, r1.min_dsts, r1.is_enabled), (2, 3, true), "{r1:?}");
}

/// The first router without eBPF: the same packets, from the model itself.
#[test]
fn user_space_forwards_the_same() {
    let network = tree();
    let _routers = [start(&network, "r1", &["--user-space"]), start(&network, "r2", &["--user-space"])];
    let receivers = receivers(&network);
    for text in ["one", "two", "three"] {
        send(&network, text);
    }
    let frame = super_frame(&network, &groups().to_bytes(Dialect::Rfc), &[b'x'; 3 * SEGMENT]);
    network.within("s", || packet_socket("r1").write_all(&frame).expect("it is sent"));
    let whole = "x".repeat(SEGMENT);
    assert_heard(&receivers, [&["one", "three", "two", &whole, &whole, &whole]; 3], "by both");
    let r1 = status(&network, "r1");
    assert_eq!((r1.packets, r1.copies.replicas, r1.copies.unicast), (6, 6, 6), "{r1:?}");
    set(&network, "r1", &["disable", "--now"]);
    send(&network, "plain");
    assert_heard(&receivers, [&[], &[], &["plain"]], "by the kernel");
}

/// Nothing drops what nobody forwards any more.
#[test]
fn a_router_in_user_space_that_is_killed_leaves_the_way_to_the_kernel() {
    let network = tree();
    let router = start(&network, "r1", &["--user-space"]);
    let receivers = receivers(&network);
    send(&network, "one");
    assert_heard(&receivers, [&["one"], &[], &["one"]], "by the first");
    drop(router);
    send(&network, "plain");
    assert_heard(&receivers, [&[], &[], &["plain"]], "by the kernel");
    let router = start(&network, "r1", &["--user-space"]);
    send(&network, "two");
    assert_heard(&receivers, [&["two"], &[], &["two"]], "by the second");
    assert_eq!(router.terminate(), Some(0));
}

#[test]
fn a_router_that_is_changed_while_it_runs_loses_nothing() {
    let network = tree();
    let _routers = [start(&network, "r1", &["--through-kernel"]), start(&network, "r2", &[])];
    let receivers = receivers(&network);
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| {
            for n in ["0", "3", "1", "4", "0"] {
                set(&network, "r1", &["min-dsts", n]);
                set(&network, "r2", &["min-dsts", n]);
            }
        });
        let mut sent = 0;
        while sent < 50 || !changes.is_finished() {
            send(&network, "x");
            sent += 1;
            // Within what a plain socket's buffer holds.
            for receiver in &receivers {
                let mut buffer = [0; 16];
                assert_eq!(receiver.recv(&mut buffer).ok(), Some(1), "packet {sent}");
            }
        }
        assert_heard(&receivers, [&[]; 3], "none twice");
    });
}

/// What comes back to s, by its source.
fn responses(socket: &Socket, count: usize) -> Vec<(Ipv6Addr, Header, Options)> {
    let mut responses = Vec::new();
    let mut buffer = [0; 2048];
    let mut reader: &Socket = socket;
    while responses.len() < count {
        let len = reader.read(&mut buffer).expect("a response");
        let (header, rest) = Header::parse(&buffer[..len], Dialect::Rfc).expect("a header");
        assert_eq!(header.kind, Kind::Response);
        let has_options = header.next_header == next_header::DESTINATION_OPTIONS;
        let options = if has_options { Options::parse(rest).expect("options").0 } else { Options::default() };
        let router = if header.hops == 1 { R1 } else { R2 };
        responses.push((router, header, options));
    }
    responses.sort_by_key(|(_, header, _)| header.hops);
    responses
}

#[test]
fn both_routers_answer_discovery_and_prove_it() {
    let file = PrivateFile::key();
    let network = tree();
    let _routers = ["r1", "r2"].map(|node| start(&network, node, &["--key", &file]));
    let listening = network.within("s", || {
        let routing = Some(Protocol::from(i32::from(next_header::ROUTING)));
        let socket = Socket::new(Domain::IPV6, Type::RAW, routing).expect("root may");
        socket.set_read_timeout(Some(PATIENCE)).expect("a good time");
        socket
    });
    let key = DomainKey::from_hex(&"07".repeat(32)).expect("a key");
    let (kind, group, routers) = (list_proof::Kind::Request, Ipv6Addr::UNSPECIFIED, Map::EMPTY);
    let listed = Listed { kind, source: SENDER, group, routers, addresses: &[C1] };
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let proof = key.of_lists().prove(list_proof::epoch_at(since.as_secs()), &listed);
    let header = Header { next_header: next_header::DESTINATION_OPTIONS, ..Header::request(C1) };
    // Who has not the key is not answered.
    for list_proof in [None, Some(proof)] {
        let options = Options { nonce: Some([9; 16]), list_proof, ..Options::default() };
        inject(&network, &packet(&header, C1, &options.to_bytes(next_header::NONE)));
    }
    let responses = responses(&listening, 2);
    let unanswered = status(&network, "r1").passed_on;
    assert_eq!(unanswered.get("no-proof"), Some(&1), "{unanswered:?}");
    for ((router, header, options), hops) in responses.iter().zip([1, 2]) {
        assert_eq!((header.hops, &header.addresses[..]), (hops, &[C1][..]));
        let said = Said { router: *router, receiver: C1, hops, group: None };
        assert!(key.verifies(&options.proof.expect("a proof"), &said), "from its own address");
    }
    let r1 = status(&network, "r1").discovery;
    assert_eq!((r1.requests, r1.answered, r1.responses), (1, 1, 1), "its own is not among those passed on");
}

const SEGMENT: usize = 1000;
const SEGMENTS: usize = 40;

#[test]
fn a_super_packet_stays_whole() {
    let network = tree();
    let _routers = [start(&network, "r1", &[]), start(&network, "r2", &[])];
    let receivers = receivers(&network);
    for receiver in &receivers {
        option::set(receiver, libc::SOL_UDP, libc::UDP_GRO, 1).expect("a socket of UDP");
    }
    // Neighbours become known, by the kernel's own way.
    send(&network, "first");
    assert_heard(&receivers, [&["first"]; 3], "first");
    for receiver in &receivers {
        receiver.set_read_timeout(Some(PATIENCE)).expect("a good time");
    }
    let payload: Vec<u8> = (0..SEGMENT * SEGMENTS).map(|at| (at / SEGMENT) as u8).collect();
    let list = xcast::Header::new(next_header::UDP, Ipv6Addr::UNSPECIFIED, vec![C3, C1, C2]).expect("good");
    let anonymous = xcast::Header { is_anonymous: true, ..list.clone() };
    for header in [groups().to_bytes(Dialect::Rfc), list.to_bytes(), anonymous.to_bytes()] {
        let frame = super_frame(&network, &header, &payload);
        network.within("s", || {
            let mut socket = packet_socket("r1");
            socket.write_all(&frame).expect("it is sent");
        });
        for (receiver, node) in receivers.iter().zip(["c1", "c2", "c3"]) {
            let mut buffer = vec![0; 1 << 16];
            let len = receiver.recv(&mut buffer).expect("a super-packet");
            let what = format!("{node}, type {}: {len} of {} bytes in one", header[2], payload.len());
            assert!(buffer[..len] == payload, "{what}");
        }
    }
}

/// struct virtio_net_hdr, an Ethernet header, and a packet with this routing header whose checksum is left to the device.
fn super_frame(network: &Network, header: &[u8], payload: &[u8]) -> Vec<u8> {
    const NEEDS_CHECKSUM: u8 = 1;
    const GSO_UDP_L4: u8 = 5;
    let mut segment = udp(C3, payload);
    let len_and_kind = [0, 0, (segment.len() >> 8) as u8, segment.len() as u8, 0, 0, 0, next_header::UDP];
    let pseudo = [&SENDER.octets()[..], &C3.octets(), &len_and_kind].concat();
    let sum: u32 = pseudo.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    segment[6..8].copy_from_slice(&(((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    let packet = with_header(header, C3, &segment);
    let start = (14 + packet.len() - segment.len()) as u16;
    let words = [start + 8, SEGMENT as u16, start, 6].map(u16::to_ne_bytes).concat();
    let macs = [mac(network, "r1", "s"), mac(network, "s", "r1")].concat();
    [&[NEEDS_CHECKSUM, GSO_UDP_L4][..], &words, &macs, &[0x86, 0xdd], &packet].concat()
}

fn mac(network: &Network, node: &str, interface: &str) -> Vec<u8> {
    let show =
        || Command::new("ip").args(["-o", "link", "show", "dev", interface]).output().expect("iproute2");
    let output = network.within(node, show);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mac = text.split_whitespace().skip_while(|word| *word != "link/ether").nth(1).expect("an address");
    mac.split(':').map(|octet| u8::from_str_radix(octet, 16).expect("an octet")).collect()
}

/// The router's filters on an interface.
fn filters(network: &Network, node: &str, interface: &str) -> usize {
    let show = || {
        Command::new("tc").args(["filter", "show", "dev", interface, "ingress"]).output().expect("iproute2")
    };
    let text = String::from_utf8_lossy(&network.within(node, show).stdout).into_owned();
    text.lines().filter(|line| line.contains("handle") && line.contains("mead_router")).count()
}

/// Programs of anybody before an interface's filters; none where the kernel has no such place.
fn before_filters(network: &Network, node: &str, interface: &str) -> usize {
    const PROGRAM_QUERY: libc::c_int = 16;
    const TCX_INGRESS: u32 = 46;
    network.within(node, || {
        // SAFETY: the kernel reads and writes no more than the length of the live array, which gives it
        // no other address.
        unsafe {
            let mut attributes = [0_u32; 16];
            (attributes[0], attributes[1]) = (index_of(interface).expect("it is there"), TCX_INGRESS);
            let len = mem::size_of_val(&attributes);
            libc::syscall(libc::SYS_bpf, PROGRAM_QUERY, attributes.as_mut_ptr(), len);
            attributes[6] as usize
        }
    })
}

#[test]
fn nothing_is_left_behind_and_a_killed_routers_program_is_replaced() {
    let network = tree();
    let filters = || ["s", "r2", "c3"].map(|interface| filters(&network, "r1", interface));
    let count = || {
        let before = ["s", "r2", "c3"].map(|interface| before_filters(&network, "r1", interface));
        [0, 1, 2].map(|place| before[place] + filters()[place])
    };
    let router = start(&network, "r1", &[]);
    assert_eq!(count(), [1, 1, 1]);
    drop(router);
    assert_eq!(count(), [1, 1, 1], "it forwards on for a while");
    let router = start(&network, "r1", &[]);
    assert_eq!(count(), [1, 1, 1], "it has taken the killed one's places");
    let second = ["router", "run", "--all"];
    network.refuses("r1", &second, &["another MEADcast router runs in this network namespace"]);
    drop(router);
    for arguments in [&["--as-filter"], &["--user-space"], &["--as-filter"]] {
        drop(start(&network, "r1", arguments));
        // In user space it is a filter, too, of another name.
        let expected = if arguments == &["--as-filter"] { 1 } else { 0 };
        assert_eq!((count(), filters()), ([expected; 3], [expected; 3]), "{arguments:?}");
    }
    let router = start(&network, "r1", &[]);
    assert_eq!(count(), [1, 1, 1], "it has taken the filters' places");
    network.configure("r1", "link add name late type veth peer name later\nlink set late up\n");
    let late = || before_filters(&network, "r1", "late") + self::filters(&network, "r1", "late");
    wait_until("an interface that comes later is served", || late() == 1);
    network.configure("r1", "link set late down\nlink set late up\n");
    wait_until("it is served when it comes back", || late() == 1);
    assert_eq!(router.terminate(), Some(0));
    assert_eq!((count(), late()), ([0, 0, 0], 0));
}

/// The process of the router on r1 that has no other control socket than that of its network namespace.
fn first_process(network: &Network) -> i32 {
    network.within("r1", || process(None)).expect("it runs")
}

fn assert_forwards(network: &Network, receivers: &[UdpSocket; 3], text: &str) {
    send(network, text);
    assert_heard(receivers, [&[text]; 3], text);
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_living_routers_interfaces_are_left_alone_and_a_killed_ones_are_taken() {
    let network = tree();
    let _r2 = start(&network, "r2", &[]);
    let receivers = receivers(&network);
    let scratch = Scratch::new();
    let path = &*scratch.arg("second");
    for of_first in [&[][..], &["--as-filter"], &["--user-space"]] {
        let first = start(&network, "r1", of_first);
        for of_second in [&[][..], &["--as-filter"], &["--user-space"]] {
            let by = format!(
                "is served by another MEADcast router (pid {}): stop it first",
                first_process(&network)
            );
            network.refuses(
                "r1",
                &[&["router", "run", "--all", "--control", path], of_second].concat(),
                &[&by],
            );
            assert!(!scratch.path("second").exists(), "it leaves no socket behind");
            assert_forwards(&network, &receivers, &format!("{of_second:?} after {of_first:?}"));
        }
        // Killed, it leaves its program there.
        drop(first);
        let second = start(&network, "r1", &["--control", path]);
        assert_forwards(&network, &receivers, &format!("after {of_first:?} was killed"));
        assert_eq!(second.terminate(), Some(0));
    }
}

/// Also of interfaces that come up while the routers run.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn two_routers_share_a_host_by_interface() {
    let network = tree();
    let _r2 = start(&network, "r2", &[]);
    let receivers = receivers(&network);
    network.configure("r1", "link add name late type veth peer name later\nlink set later up\n");
    network.configure("r1", "link set late up\naddr add fd00:9::1/64 dev late nodad\n");
    let of_late = network.daemon("r1", &["router", "run", "--interface", "late"], Stdio::inherit());
    network.configure("r1", "link set late down\nlink set later down\n");
    let (scratch, warnings) = (Scratch::new(), PrivateFile::new(""));
    let control = scratch.path("other");
    let file = fs::File::create(&*warnings).expect("it can be written");
    let path = scratch.arg("other");
    let arguments = ["router", "run", "--all", "--leave-within", "0", "--control", &path];
    let other = network.daemon("r1", &arguments, file.into());
    assert_forwards(&network, &receivers, "by the other one");

    network
        .configure("r1", "link set later up\nlink set late up\naddr replace fd00:9::1/64 dev late nodad\n");
    let warning =
        format!("interface late is served by another MEADcast router (pid {})", first_process(&network));
    wait_until("it says so", || warnings.text().contains(&warning));
    let serves = |control: Option<&Path>, name: &str| {
        let status = network.within("r1", || show(control)).expect("it answers");
        status.interfaces.iter().any(|one| one.name == name)
    };
    wait_until("the first one has it back", || serves(None, "late"));
    assert!(!serves(Some(&control), "late"));
    // Something else changes: all interfaces are looked at again.
    network
        .configure("r1", "link add name more type veth peer name most\nlink set most up\nlink set more up\n");
    wait_until("what is nobody's is served", || serves(Some(&control), "more"));
    assert_eq!(warnings.text().matches(&warning).count(), 1, "once: {}", warnings.text());
    assert_eq!(of_late.terminate(), Some(0));
    wait_until("it is served by the other one then", || serves(Some(&control), "late"));
    assert_eq!(other.terminate(), Some(0));
}

#[test]
fn what_keeps_a_router_from_starting_is_one_line() {
    let network = tree();
    network
        .configure("r1", "link add name bare type veth peer name peer\nlink set bare up\nlink set peer up\n");
    let wrong_key = PrivateFile::new("not a key");
    for (arguments, expected) in [
        (&["--interface", "nosuch"][..], "interface nosuch does not exist"),
        (&["--interface", "bare"], "interface bare has no global IPv6 address"),
        (&["--interface", "lo"], "interface lo is no Ethernet interface"),
        (&["--all", "--key", &*wrong_key], "a domain key is 64 hexadecimal digits"),
        (&["--all", "--key", "/nonexistent"], "cannot use the key in /nonexistent"),
        (&["--all", "--xcast-plus", "--dialect", "linux-6.5"], "--xcast-plus needs --dialect rfc"),
    ] {
        network.refuses("r1", &[&["router", "run"], arguments].concat(), &[expected]);
    }
    network.refuses("r1", &["router", "status"], &["no MEADcast router answers here"]);

    let mut without_right = Command::new("setpriv");
    without_right.args(["--bounding-set", "-net_admin", TREECAST, "router", "run", "--all", "--user-space"]);
    network.within("r1", || only_refused(&mut without_right, &["it needs CAP_NET_ADMIN, CAP_NET_RAW"]));
    let refused = network.within("r1", || treecast_as_nobody(&["router", "run", "--all"]));
    let line = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(line.contains("not allowed here") && line.lines().count() == 1, "{line}");
    let _router = start(&network, "r1", &[]);
    let refused = network.within("r1", || treecast_as_nobody(&["router", "set", "disable"]));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("by the user that runs it alone"));
    assert!(status(&network, "r1").is_enabled);
}

/// A sender and a router that speak different dialects, either way.
#[test]
fn packets_of_the_other_dialect_are_told_with_the_option_to_take() {
    let network = tree();
    for (own, other) in [(Dialect::Rfc, Dialect::Linux65), (Dialect::Linux65, Dialect::Rfc)] {
        let router = start(&network, "r1", &["--dialect", own.name()]);
        inject(&network, &packet(&groups(), C3, &udp(C3, b"right")));
        let malformed = with_header(&[59, 3, 253, 1, 1, 0, 0, 0], C1, &[0; 24]);
        inject(&network, &malformed);
        let malformed = || status(&network, "r1").malformed.values().sum::<u64>();
        wait_until("it is counted", || malformed() >= 1);
        assert_eq!(status(&network, "r1").other_dialect.is_some(), own != Dialect::Rfc, "{own:?}");

        let request = with_header(&Header::request(C1).to_bytes(other), C1, &[]);
        if other == Dialect::Linux65 {
            assert_eq!(request[ipv6::HEADER_LEN..][..8], [0x3b, 3, 0xfd, 0, 1, 1, 0, 0], "as was seen");
        }
        (0..9).for_each(|_| inject(&network, &request));
        let data = with_header(&groups().to_bytes(other), C3, &udp(C3, b"never"));
        inject(&network, &data);
        let packets = if own == Dialect::Rfc { 10 } else { 11 };
        let told = || status(&network, "r1").other_dialect.filter(|told| told.packets == packets);
        wait_until("it is counted", || told().is_some());
        let told = told().expect("it has just been there");
        let option = format!("--dialect {}", other.name());
        let sender_option = format!("--dialect {}", own.name());
        assert_eq!(
            (told.dialect, &told.option, &told.sender_option),
            (other.name().to_owned(), &option, &sender_option)
        );
        let shown = network.prints("r1", &["router", "status"]);
        let line = format!(
            "{packets} malformed packets are right in dialect {}: run this router with {option}, or",
            other.name()
        );
        assert!(shown.contains(&line), "{shown}");
        assert_eq!(router.terminate(), Some(0));
    }
}
