//! Topology files: what they say, and what is said when they are wrong.

use std::time::Duration;

use treecast_lab::{Loss, NetworkKind, Role, Topology};

const CAMPUS: &str = r#"
name = "campus"

[cables.gigabit]
rate = "1G"
[cables.radio]
like = "gigabit"
loss = "5%"

[nodes]
server0 = { role = "server" }
router0 = { role = "router", addresses = ["fd00:ffff::1"] }
client = { role = "client", count = 3 }

[lans.hall]
nodes = ["router0", "client*"]
cable = "gigabit"
prefixes = ["fd00:1::/64", "10.1.0.0/24"]
[lans.hall.ends.client2]
cable = "radio"
interface = "wlan0"
addresses = ["fd00:1::99"]

[links.uplink]
nodes = ["server0", "router0"]
delay = "10ms"
"#;

/// The text in [`CAMPUS`], the text that somebody writes instead, and the error that follows.
const MISTAKES: &[(&str, &str, &str)] = &[
    (
        "like = \"gigabit\"",
        "like = \"radio\"",
        "campus.toml:6: a loop of names: radio like radio: let one of them stand by itself",
    ),
    (
        "rate = \"1G\"",
        "like = \"radio\"",
        "campus.toml:4: a loop of names: gigabit like radio like gigabit: let one of them stand by itself",
    ),
    (
        "fd00:1::99",
        "fd00:ffff::1",
        "campus.toml:19: fd00:ffff::1 of client2 is outside its network hall: give the network a prefix that holds it",
    ),
    (
        "rate = \"1G\"",
        "rat = \"1G\"",
        "campus.toml:5: unknown key \"rat\" in gigabit: it has like, rate, queue, loss, delay, jitter, background and drop",
    ),
    (
        "\"server0\", \"router0\"]",
        "\"server0\",\n\"client9\"]",
        "campus.toml:26: there is no node client9: define it or correct the name",
    ),
    (
        "\"client*\"",
        "\"guest*\"",
        "campus.toml:16: no node's name starts with \"guest\": define one or correct the name",
    ),
    (
        "[lans.hall.ends.client2]",
        "[lans.hall.ends.server0]",
        "campus.toml:19: server0 is not among the nodes of hall: add it there or correct the name",
    ),
    (
        "role = \"server\"",
        "role = \"boss\"",
        "campus.toml:11: role \"boss\" is unknown: use server, client or router",
    ),
    ("client = {", "server0 = {", "campus.toml:13: duplicate key"),
    (
        "wlan0",
        "averylonginterface",
        "campus.toml:19: interface name \"averylonginterface\" has 18 bytes: the kernel allows an interface at most 15",
    ),
    (
        "server0 = {",
        "theserverofthecampus = {",
        "campus.toml:11: node name \"theserverofthecampus\" has 20 bytes: the kernel allows an interface at most 15",
    ),
    (
        "[\"server0\", \"router0\"]",
        "[\"router0\", \"router0\"]",
        "campus.toml:25: router0 is in uplink twice: a loop, which carries no traffic",
    ),
    (
        "delay = \"10ms\"",
        "delay = \"11\"",
        "campus.toml:26: delay = \"11\": expected a time up to 10s, like 10ms or 500us",
    ),
    (
        "delay = \"10ms\"",
        "jitter = \"10ms\"",
        "campus.toml:24: jitter is more than delay: a packet cannot arrive before it is sent",
    ),
    ("count = 3", "count = 0", "campus.toml:13: count must be a number from 1 to 4000"),
    (
        "[links.uplink]",
        "[links.hall]",
        "campus.toml:24: a second network is called hall: give it another name",
    ),
    (
        "10.1.0.0/24",
        "10.1.0.1/24",
        "campus.toml:18: \"10.1.0.1/24\" is no prefix: expected one like fd00:1::/64 or 10.1.0.0/24",
    ),
    (
        "cable = \"gigabit\"",
        "cable = \"copper\"",
        "campus.toml:17: there is no cable copper: define [cables.copper]",
    ),
    ("name = \"campus\"", "name = 7", "campus.toml:2: name is of type integer: a string was expected"),
    (
        "role = \"server\" }",
        "role = \"server\", addresses = [\"fd00:ffff::2\"] }",
        "campus.toml:11: server0 is no router, so its addresses belong to its ends",
    ),
];

fn refused(from: &str, to: &str) -> String {
    assert!(CAMPUS.contains(from), "{from}");
    Topology::from_toml(&CAMPUS.replacen(from, to, 1), "campus.toml").unwrap_err().to_string()
}

#[test]
fn a_file_says_all_that_a_network_has() {
    let campus = Topology::from_toml(CAMPUS, "campus.toml").unwrap();
    assert_eq!((campus.name.as_str(), campus.nodes.len(), campus.count(Role::Client)), ("campus", 5, 3));
    let [hall, uplink] = &campus.networks[..] else { panic!("{:?}", campus.networks) };
    assert_eq!((hall.kind, uplink.kind), (NetworkKind::Lan, NetworkKind::Link));
    assert_eq!(hall.members[0].v6.to_string(), "fd00:1::1");
    let radio = &hall.members[3];
    assert_eq!((radio.interface.as_str(), radio.v6.to_string().as_str()), ("wlan0", "fd00:1::99"));
    assert_eq!((radio.quality.rate_bps, radio.quality.loss), (Some(1_000_000_000), Loss::Uniform(0.05)));
    assert!(hall.members[2].quality.loss.is_none());
    assert_eq!(uplink.members[1].quality.delay, Duration::from_millis(10));
    assert_eq!((uplink.members[1].interface.as_str(), uplink.v4.length), ("if2", 24));
}

#[test]
fn every_error_is_one_line_with_its_place() {
    for (from, to, expected) in MISTAKES {
        assert_eq!(refused(from, to), *expected);
    }
    let text = refused("[nodes]", "[nodes");
    assert!(text.starts_with("campus.toml:10: ") && !text.contains('\n'), "{text}");
}

#[test]
fn two_equal_addresses_are_refused() {
    let file = CAMPUS.to_owned() + "\n[lans.hall.ends.client1]\naddresses = [\"fd00:1::99\"]\n";
    let error = Topology::from_toml(&file, "campus.toml").unwrap_err().to_string();
    assert_eq!(
        error,
        "campus.toml:19: fd00:1::99 of client2 is an address of client1 too: change one of them"
    );
}

#[test]
fn a_router_with_more_interfaces_than_the_kernel_routes_between_is_refused() {
    let mut file = String::from("[nodes]\nr = { role = \"router\" }\nc = { role = \"client\" }\n");
    for lan in 0..32 {
        file += &format!("[lans.l{lan}]\nnodes = [\"r\"]\n");
    }
    assert!(Topology::from_toml(&file, "many.toml").is_ok());
    file += "[lans.l32]\nnodes = [\"r\"]\n";
    let error = Topology::from_toml(&file, "many.toml").unwrap_err().to_string();
    assert_eq!(
        error,
        "many.toml:2: router r has 33 interfaces, but the kernel routes multicast between at most 32: split it in two"
    );
}

#[test]
fn a_file_cannot_fill_the_memory() {
    let refused = |text: &str| Topology::from_toml(text, "big.toml").unwrap_err().to_string();
    let nodes = "[nodes]\na = { role = \"client\", count = 4000 }\nb = { role = \"client\", count = 4000 }\n";
    assert_eq!(refused(nodes), "big.toml:3: makes more than 4096 nodes: a lab can have that many");
    let nodes = "[nodes]\na = { role = \"client\", count = 4000 }\n[lans.l]\nnodes = [\n\"a*\",\n\"a*\"]\n";
    assert_eq!(
        refused(nodes),
        "big.toml:6: makes more than 4096 members of a network: a lab can have that many"
    );
    let mut cables = String::from("[cables.c0]\n");
    (1..=500).for_each(|n| cables += &format!("[cables.c{n}]\nlike = \"c{}\"\n", n - 1));
    assert_eq!(refused(&cables), "big.toml:1000: one cable too many: 500 can be named");
    assert_eq!(refused(""), "big.toml: has no nodes: define at least one");
}

#[test]
fn a_missing_file_is_one_line() {
    let error = Topology::parse("no-such-file.toml").unwrap_err().to_string();
    assert!(error.starts_with("no-such-file.toml: cannot be read as a topology (No such file"), "{error}");
}

#[test]
fn the_thesis_testbed_is_in_the_labs() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/meadcast/testbed.json");
    let testbed = Topology::parse(&format!("testbed:{file}")).unwrap();
    assert_eq!(
        (testbed.nodes.len(), testbed.count(Role::Router), testbed.count(Role::Client)),
        (204, 39, 165)
    );
    assert_eq!(testbed.networks.iter().filter(|network| network.kind == NetworkKind::Lan).count(), 33);
}
