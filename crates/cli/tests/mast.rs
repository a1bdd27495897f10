//! MAST in namespaces: a stub network with two providers, and all of its programs.

use std::{
    fs,
    net::{SocketAddr, UdpSocket},
    process::Command,
    thread,
    time::Duration,
};

use crate::{
    child::Teller,
    mroute_network::{Network, treecast},
    session::{Scratch, wait_until},
};
use treecast_host::interface::index_of;
use treecast_mast::{
    dns::{client::PrefixUpdate, keys::signer},
    message::{Envelope, Key, Message, Open, Preference, PrefixState, Protocol, TunnelKind},
};
use treecast_wire::snmp::LinkNotice;

/// Long enough for anything that is going to happen on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const STUB: &str = r#"
state = "state"
[stub]
name = "stub"
as = 64512

[[provider]]
name = "A"
as = 64601
prefix = "2001:db8:a:100::/56"
interface = "ra"
gateway = "fd00:1::2"
[provider.tunnel]
server = "[2001:db8:a::1]:4548"
server_name = "A"
secret = "itmp.key"
from = "2001:db8:b:100::1"
to = "2001:db8:a::1"
inner = "2001:db8:a:ff00::/64"
kinds = ["vxlan"]

[[provider]]
name = "B"
as = 64602
prefix = "2001:db8:b:100::/56"
interface = "rb"
gateway = "fd00:2::2"
[provider.tunnel]
server = "[2001:db8:b::1]:4548"
server_name = "B"
secret = "itmp.key"
from = "2001:db8:a:100::1"
to = "2001:db8:b::1"
inner = "2001:db8:b:ff00::/64"
kinds = ["vxlan"]

[[link]]
name = "lan"
interface = "b1"
subnet = 1

[srms]
recovery_s = 0.5

[[dhcp]]
name = "dhcp"
links = ["lan"]
srmp = "[::1]:4547"
secret = "srmp.key"
key = "dhcp.key"
reserved = ["::1"]

[dns]
zone = "stub.example."
listen = ["[::1]:5300"]
[[dns.key]]
name = "srms."
secret = "tsig.key"
may = "prefixes"
[[dns.host]]
name = "www"
link = "lan"
ifid = "::80"

[router]
listen = "b1"
[[router.interface]]
name = "b1"
subnet = 1
ifid = "::1"
"#;

const PROVIDER: &str = r#"
[tms]
name = "A"
as = 64601
listen = "[2001:db8:a::1]:4548"
end = "2001:db8:a::1"
inner = "2001:db8:a:ff00::/64"
[[tms.stub]]
name = "stub"
as = 64512
secret = "itmp.key"
prefixes = ["2001:db8:a:100::/56"]
"#;

const BY_A: &str = "2001:db8:a:101::80";
const BY_B: &str = "2001:db8:b:101::80";

/// A folder with the keys and files of a stub and a provider.
fn folder() -> Scratch {
    let scratch = Scratch::new();
    for key in ["itmp.key", "srmp.key", "dhcp.key", "tsig.key"] {
        public_key(&scratch, key);
    }
    fs::write(scratch.path("stub.toml"), STUB).expect("a file");
    fs::write(scratch.path("provider.toml"), PROVIDER).expect("a file");
    scratch
}

/// Makes a key, or reads it, and returns its public half.
fn public_key(scratch: &Scratch, name: &str) -> String {
    scratch.run(format!("mast key {name}")).trim().to_owned()
}

/// A program of MAST on a node, once it serves.
fn start(network: &Network, node: &str, arguments: &[&str]) -> Teller {
    let mut teller = start_without_waiting(network, node, arguments);
    teller.next("ready");
    teller
}

fn start_without_waiting(network: &Network, node: &str, arguments: &[&str]) -> Teller {
    network.tell(node, &mut treecast(&[&["mast"], arguments, &["--json"]].concat()))
}

/// A stub behind `rgw`, with a LAN of the host `h`, and the providers' routers `ra` and `rb`, which are joined.
fn network() -> Network {
    let network = Network::new(&["rgw", "ra", "rb", "b1", "h"]);
    network.connect(1, "rgw", "ra");
    network.connect(2, "rgw", "rb");
    network.connect(3, "ra", "rb");
    network.lan(4, "b1", &["rgw", "h"]);
    network.configure(
        "rgw",
        "addr add 2001:db8:a:100::1/128 dev lo\naddr add 2001:db8:b:100::1/128 dev lo\n\
         route add default via fd00:2::2 metric 2048\n",
    );
    network.configure(
        "ra",
        "addr add 2001:db8:a::1/128 dev lo\nroute add 2001:db8:a:100::/56 via fd00:1::1\n\
         route add 2001:db8:b::/48 via fd00:3::2\n",
    );
    network.configure(
        "rb",
        "addr add 2001:db8:b::1/128 dev lo\nroute add 2001:db8:b:100::/56 via fd00:2::1\n\
         route add 2001:db8:a::/48 via fd00:3::1\n",
    );
    network.configure("h", "route add default via fd00:4::1\n");
    network
}

/// The AAAA records of a name, by UDP from `rgw`.
fn look_up(network: &Network, name: &str) -> Vec<String> {
    let labels = name.split('.').flat_map(|label| [&[label.len() as u8][..], label.as_bytes()].concat());
    let mut query = vec![0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend(labels);
    query.extend([0, 0, 28, 0, 1]);
    let answer = network.within("rgw", || {
        let socket = UdpSocket::bind("[::1]:0").expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a good time");
        socket.send_to(&query, "[::1]:5300").expect("it is sent");
        let mut answer = [0; 2000];
        let length = socket.recv(&mut answer).expect("an answer");
        answer[..length].to_vec()
    });
    assert_eq!((answer[3] & 15, &answer[12..query.len()]), (0, &query[12..]), "{answer:?}");
    let count = u16::from_be_bytes([answer[6], answer[7]]).into();
    let mut rest = &answer[query.len()..];
    let mut addresses = Vec::new();
    for _ in 0..count {
        // A pointer to the name, type, class, TTL, and the length of the data.
        let (record, behind) = rest.split_at(28);
        assert_eq!(record[..4], [0xc0, 12, 0, 28], "{record:?}");
        addresses
            .push(std::net::Ipv6Addr::from(*record[12..].first_chunk::<16>().expect("16 bytes")).to_string());
        rest = behind;
    }
    addresses.sort();
    addresses
}

/// What `ip` says of the host's address.
fn address_line(network: &Network, address: &str) -> String {
    let text = network.within("h", || {
        let output = Command::new("ip").args(["-6", "addr", "show", "dev", "b1"]).output();
        String::from_utf8(output.expect("iproute2 is installed").stdout).expect("text")
    });
    text.lines().find(|line| line.contains(address)).unwrap_or_default().to_owned()
}

/// Sends a datagram from provider A's router to the host's address by A, and waits for its echo.
fn reaches_the_host(network: &Network) -> bool {
    let socket =
        network.within("h", || UdpSocket::bind(format!("[{BY_A}]:9999")).expect("it has the address"));
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a good time");
    let asker = network.within("ra", || UdpSocket::bind("[2001:db8:a::1]:0").expect("a socket"));
    asker.set_read_timeout(Some(Duration::from_millis(500))).expect("a good time");
    asker.send_to(b"hello", format!("[{BY_A}]:9999")).is_ok()
        && socket.recv_from(&mut [0; 9]).and_then(|(_, from)| socket.send_to(b"hello", from)).is_ok()
        && asker.recv(&mut [0; 9]).is_ok()
}

fn unix_us() -> u64 {
    treecast_host::clock::since_1970().as_micros() as u64
}

/// Messages that are sealed with another secret.
fn forge(network: &Network) {
    let wrong = [9; 32];
    let state = PrefixState {
        prefix: "2001:db8:b:100::/56".parse().expect("a prefix"),
        preference: Preference::Discouraged,
        epoch: u64::MAX,
    };
    let open = Open {
        prefix: "2001:db8:a:100::/56".parse().expect("a prefix"),
        kind: TunnelKind::Vxlan,
        stub_end: "2001:db8:b:100::66".parse().expect("an address"),
        stub_as: 64_512,
        lifetime_s: 60,
    };
    let sealed = |protocol, message| {
        Envelope { sender: "stub".into(), stamp: unix_us(), message }.seal(&Key::new(protocol, &wrong))
    };
    let update = PrefixUpdate {
        zone: "stub.example.".parse().expect("a name"),
        networks: vec!["lan.stub.example.".parse().expect("a name")],
        blocks: vec![(state.prefix, true)],
        ttl: 5,
    };
    let key = signer("srms.", &wrong).expect("a key");
    let (update, _) = update.message(1, &key, unix_us() / 1_000_000).expect("an update");
    network.within("rgw", || {
        let socket = UdpSocket::bind("[::]:0").expect("a socket");
        let send = |bytes: &[u8], to: &str| {
            let to: SocketAddr = to.parse().expect("an address");
            socket.send_to(bytes, to).expect("it is sent");
        };
        send(&sealed(Protocol::Srmp, Message::Prefixes(vec![state])), "[::1]:4547");
        send(&sealed(Protocol::Itmp, Message::Open(open)), "[2001:db8:a::1]:4548");
        send(&update, "[::1]:5300");
    });
}

#[test]
fn a_host_avoids_a_failed_provider_and_comes_back() {
    let (folder, network) = (folder(), network());
    let stub = folder.arg("stub.toml");
    let mut tms = start(&network, "ra", &["tms", &folder.arg("provider.toml")]);
    let mut dhcp = start(&network, "rgw", &["dhcp", &stub]);
    let mut dns = start(&network, "rgw", &["dns", &stub]);
    let mut srms = start(&network, "rgw", &["srms", &stub]);
    let mut router = start(&network, "rgw", &["router", &stub]);
    let server_key = public_key(&folder, "dhcp.key");
    let mut host = start(&network, "h", &["host", "b1", "--server-key", &server_key, "--ifid", "::80"]);

    // Everybody has both addresses. The tunnel to A is there, and B's TMS, which does not run, holds nothing up.
    for _ in 0..2 {
        assert_eq!(host.next("address")["preferred"], true);
        assert_eq!(router.next("address")["preferred"], true);
    }
    assert_eq!(tms.next("tunnel")["peer"], "stub");
    assert_eq!(srms.next("tunnel")["peer"], "A");
    assert_eq!(srms.wait_for(|event| event["event"] == "no_answer" && event["role"] == "tms")["server"], "B");
    wait_until("the name has both addresses", || look_up(&network, "www.stub.example") == [BY_A, BY_B]);
    wait_until("the address may be used", || !address_line(&network, BY_A).contains("tentative"));
    assert!(!address_line(&network, BY_A).contains("deprecated"));
    wait_until("the host is reached", || reaches_the_host(&network));

    // Forged messages are dropped, and change nothing.
    host.pending();
    forge(&network);
    for (program, reason) in
        [(&mut dhcp, "wrong-code"), (&mut tms, "wrong-code"), (&mut dns, "wrong-signature")]
    {
        program.wait_for(|event| event["event"] == "dropped" && event["reason"] == reason);
    }
    assert_eq!(look_up(&network, "www.stub.example"), [BY_A, BY_B]);

    // The link to A fails.
    network.configure("ra", "link set dev rgw down\n");
    let discouraged = host.next("address");
    assert_eq!((&discouraged["address"], &discouraged["preferred"]), (&BY_A.into(), &false.into()));
    assert!(address_line(&network, BY_A).contains("deprecated"));
    assert!(!address_line(&network, BY_B).contains("deprecated"));
    assert_eq!(router.next("address")["preferred"], false);
    wait_until("the name has no address of A", || look_up(&network, "www.stub.example") == [BY_B]);
    wait_until("the host is reached through the tunnel", || reaches_the_host(&network));

    // It is back.
    network.configure(
        "ra",
        "link set dev rgw up\naddr replace fd00:1::2/64 dev rgw nodad\n\
                             route replace 2001:db8:a:100::/56 via fd00:1::1\n",
    );
    let again = host.next("address");
    assert_eq!((&again["address"], &again["preferred"]), (&BY_A.into(), &true.into()));
    assert!(!address_line(&network, BY_A).contains("deprecated"));
    wait_until("the name has all addresses", || look_up(&network, "www.stub.example") == [BY_A, BY_B]);
    wait_until("the host is reached over the link", || reaches_the_host(&network));
    // Each program says what it knows.
    let status = |node: &str, arguments: &[&str]| -> serde_json::Value {
        let asked = network.prints(node, &[&["mast", "status", "--json"], arguments].concat());
        serde_json::from_str(&asked).expect("an object")
    };
    let of_stub = status("rgw", &[&stub]);
    let provider = &of_stub["srms"]["providers"][0];
    assert_eq!((&provider["preference"], &provider["is_up"]), (&"encouraged".into(), &true.into()));
    assert_eq!(provider["tunnel"]["interface"], tunnels(&network, "rgw")[0].as_str());
    assert_eq!(of_stub["dhcp-dhcp"]["states"][0]["epoch"], provider["epoch"]);
    assert_eq!(of_stub["dhcp-dhcp"]["links"][0]["leases"][0]["ifid"], "::80");
    assert_eq!(of_stub["dns"]["networks"][0]["discouraged"], serde_json::json!([]));
    assert_eq!(of_stub["router"]["interfaces"][0]["addresses"].as_array().map(Vec::len), Some(2));
    let of_host = status("h", &["--interface", "b1"]);
    assert_eq!(of_host["host b1"]["interfaces"][0]["addresses"][0], serde_json::json!([BY_A, true]));
    let of_provider = status("ra", &[&folder.arg("provider.toml")]);
    assert_eq!(of_provider["tms"]["tunnels"][0]["peer"], "stub");
    let expected = "none of these programs runs in this network namespace: srms, dns, router, dhcp-dhcp";
    network.refuses("h", &["mast", "status", &stub], &[expected]);

    let events: Vec<_> = tms.pending().into_iter().chain(host.pending()).collect();
    assert_eq!(events, Vec::<serde_json::Value>::new(), "no second tunnel, and no other address");
}

/// What `ip` prints on a node.
fn ip(network: &Network, node: &str, arguments: &[&str]) -> String {
    let output = network.within(node, || Command::new("ip").args(arguments).output().expect("it runs"));
    String::from_utf8(output.stdout).expect("text")
}

/// The number of the SRMS's rules.
fn rules(network: &Network, node: &str) -> usize {
    ip(network, node, &["-6", "rule"]).lines().filter(|line| line.starts_with("47")).count()
}

/// The names of the tunnels.
fn tunnels(network: &Network, node: &str) -> Vec<String> {
    let text = ip(network, node, &["-o", "link"]);
    let words = text.split([' ', ':', '@']).filter(|word| word.starts_with("mast"));
    words.map(str::to_owned).collect()
}

#[test]
fn tunnels_are_made_again_closed_and_cleaned() {
    let (folder, network) = (folder(), network());
    let stub = folder.arg("stub.toml");
    let counts = || (rules(&network, "rgw"), tunnels(&network, "rgw").len(), tunnels(&network, "ra").len());
    let mut tms = start(&network, "ra", &["tms", &folder.arg("provider.toml")]);
    let mut srms = start(&network, "rgw", &["srms", &stub]);
    tms.next("tunnel");
    srms.next("tunnel");

    // Somebody removes both ends.
    for node in ["ra", "rgw"] {
        network.configure(node, &format!("link del {}\n", tunnels(&network, node)[0]));
    }
    for program in [&mut tms, &mut srms] {
        program.next("tunnel_removed");
        program.next("tunnel");
    }
    // A program that is killed leaves its tunnel. It tells of a tunnel before it writes down whose that is.
    let is_kept = || folder.told("state/srms-tunnels.json").contains("server_name");
    wait_until("the tunnel is written down", is_kept);
    srms.child.end();
    assert_eq!(counts(), (4, 1, 1));
    let clean = || network.prints("rgw", &["mast", "clean", &stub]);
    clean();
    tms.next("tunnel_removed");
    assert_eq!(counts(), (0, 0, 0));

    // One that ends in order closes it.
    let mut again = start(&network, "rgw", &["srms", &stub]);
    again.next("tunnel");
    again.child.signal(libc::SIGTERM);
    tms.next("tunnel_removed");
    assert_eq!((again.wait(), counts()), (Some(0), (4, 0, 0)));

    // What an unreadable file no longer tells is found by its name and group.
    fs::write(folder.path("state/srms-tunnels.json"), "[").expect("a file");
    network.configure("rgw", "link add mast77 group 28019 type vxlan id 119 dstport 4790 remote ::1\n");
    let mut told = start_without_waiting(&network, "rgw", &["srms", &stub]);
    let unreadable = told.next("failed")["what"].as_str().map(str::to_owned).expect("words");
    assert!(unreadable.contains("state/srms-tunnels.json, so what it held is lost"), "{unreadable}");
    told.next("tunnel");
    assert_eq!(counts(), (4, 1, 1), "the one that nobody knows is removed");
    wait_until("the tunnel is written down", is_kept);
    told.child.end();
    clean();
    tms.next("tunnel_removed");
    assert_eq!(counts(), (0, 0, 0));
}

/// The stub without tunnels, DHCP and DNS. Its link to B is another router's, `r2`, and has this number there.
fn stub_with_two_routers(index: u32) -> String {
    let sections = STUB.split("\n\n").take(3);
    let sections = sections.map(|section| section.split("[provider.tunnel]").next().unwrap_or_default());
    let trap = format!("trap = {{ agent = \"fd00:1::2\", index = {index} }}");
    let lines = sections.flat_map(str::lines).filter(|line| !line.starts_with("gateway"));
    let text = lines.collect::<Vec<_>>().join("\n");
    let text = text.replace("interface = \"ra\"", "interface = \"lo\"").replace("interface = \"rb\"", &trap);
    format!(
        "{text}\n[srms]\nrecovery_s = 0\ntrap_listen = \"[::]:1620\"\n\
         [watch]\ninterfaces = [\"p\"]\nsrms = \"[fd00:1::1]:1620\"\n"
    )
}

#[test]
fn a_trap_of_another_router_or_community_is_dropped() {
    let (folder, network) = (folder(), Network::new(&["r1", "r2", "p"]));
    network.connect(1, "r1", "r2");
    network.connect(2, "r2", "p");
    let index = network.within("r2", || index_of("p").expect("the interface is there"));
    let file = folder.arg("two.toml");
    fs::write(&file, stub_with_two_routers(index)).expect("a file");
    let mut srms = start(&network, "r1", &["srms", &file]);
    let watch = start(&network, "r2", &["watch", &file]);
    assert_eq!(srms.wait_for(|event| event["event"] == "link" && event["provider"] == "B")["is_up"], true);
    network.configure("p", "link set dev r2 down\n");
    let discouraged = srms.next("preference");
    assert_eq!((&discouraged["provider"], &discouraged["preference"]), (&"B".into(), &"discouraged".into()));
    drop(watch);

    let notice = |community: &[u8], interface| LinkNotice {
        community: community.to_vec(),
        number: 1,
        wants_answer: false,
        interface,
        is_up: true,
    };
    let send = |node, notice: LinkNotice| {
        let socket = network.within(node, || UdpSocket::bind("[::]:0").expect("a socket"));
        socket.send_to(&notice.to_bytes(1), "[fd00:1::1]:1620").expect("it is sent");
    };
    send("r1", notice(b"public", index));
    assert_eq!(srms.next("dropped")["reason"], "unknown-agent");
    send("r2", notice(b"private", index));
    send("r2", notice(b"public", index + 9));
    // Drops for one reason are told once a second.
    thread::sleep(Duration::from_millis(1_100));
    send("r1", notice(b"public", index));
    // A busy machine may let more than a second pass between the others.
    srms.wait_for(|event| event["event"] == "dropped" && event["count"] == 4);
    srms.child.signal(libc::SIGTERM);
    assert_eq!(srms.wait(), Some(0));

    // Nobody tells it again, but it is known after a restart. Then a true notification comes.
    let mut again = start_without_waiting(&network, "r1", &["srms", &file]);
    let kept = again.wait_for(|event| event["event"] == "preference");
    assert_eq!((&kept["provider"], &kept["preference"]), (&"B".into(), &"discouraged".into()));
    send("r2", notice(b"public", index));
    assert_eq!(again.next("preference")["preference"], "encouraged");
}
