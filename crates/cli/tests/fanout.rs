//! `treecast send --fanout mead|xcast|auto` between network namespaces, by way of `treecast router`.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use crate::{
    child::{PrivateFile, Teller, longest_silence},
    fanout_session::{RECEIVERS, SERVED_BYTES, left_bytes, network, receive, routers, start, start_sender},
    mroute_network::{Network, TENTH},
    session::{Scratch, TREECAST, all_well, finish_well, last_event, refused, wait_until},
};
use serde_json::Value;

/// Has the link between rf and a node take packets of so many bytes.
fn narrow(network: &Network, node: &str, mtu: u32) {
    for (end, interface) in [("rf", node), (node, "rf")] {
        network.configure(end, &format!("link set dev {interface} mtu {mtu}\n"));
    }
}

/// What a session that brought every file has come to: the last events of the sender and of each receiver, and all of the
/// sender's.
struct Delivered {
    done: Value,
    events: Vec<Value>,
    received: Vec<Value>,
}

impl Delivered {
    fn by(sender: Teller, receivers: Vec<Teller>, scratch: &Scratch, len: usize) -> Self {
        let (done, events) = sender.end();
        let received = receivers.into_iter().map(|receiver| receiver.end().0).collect();
        RECEIVERS.iter().for_each(|(node, _)| scratch.assert_file(&format!("{node}/file"), len));
        Self { done, events, received }
    }

    fn left_bytes(&self, way: &str) -> u64 {
        left_bytes(&self.done, way)
    }

    /// The sum of a figure of all receivers.
    fn received(&self, figure: &str) -> u64 {
        self.received.iter().map(|done| done[figure].as_u64().expect("a number")).sum()
    }

    /// Each receiver has got less than half of the file again.
    fn assert_little_again(&self, len: usize) {
        let again = |done: &Value| done["retransmitted_bytes"].as_u64().expect("a number");
        assert!(self.received.iter().all(|done| again(done) < len as u64 / 2), "{:?}", self.received);
    }
}

/// Sends a file of so many bytes from s to each host.
fn deliver(network: &Network, len: usize, arguments: &str) -> Delivered {
    let scratch = Scratch::with_file("file", len);
    let (sender, receivers) = start(network, &scratch, &format!("{arguments} file"));
    Delivered::by(sender, receivers, &scratch, len)
}

/// The first way that each receiver took: on a busy machine, one may seem to hear nothing for a while.
fn ways(events: &[Value]) -> BTreeMap<String, String> {
    let text = |event: &Value, field: &str| event[field].as_str().expect("a text").to_owned();
    let mut ways = BTreeMap::new();
    for event in events.iter().filter(|event| event["event"] == "way") {
        ways.entry(text(event, "receiver")).or_insert_with(|| text(event, "way"));
    }
    ways
}

/// The most receivers that one fanout served at a time.
fn most_at_a_time(events: &[Value], way: &str) -> usize {
    let mut served = BTreeSet::new();
    let counts = events.iter().filter(|event| event["event"] == "way").map(|event| {
        let receiver = event["receiver"].as_str().expect("a text");
        if event["way"] == way {
            served.insert(receiver)
        } else {
            served.remove(receiver)
        };
        served.len()
    });
    counts.max().unwrap_or(0)
}

fn expected(ways: &[(&str, &str)]) -> BTreeMap<String, String> {
    ways.iter().map(|(node, way)| ((*node).to_owned(), (*way).to_owned())).collect()
}

#[test]
fn who_has_a_router_gets_meadcast_and_others_unicast_and_every_file_is_right() {
    for security in ["", "--plain"] {
        const LEN: usize = 6_000_000;
        let network = network();
        let _routers = routers(&network, ["r1"], "");
        let delivered = deliver(&network, LEN, &format!("{security} --fanout mead --rate 20M"));
        assert_eq!(ways(&delivered.events), expected(&[("e1", "mead"), ("e2", "mead"), ("e3", "mead")]));
        // One copy for three from the proof on, and one for the fourth; four before that.
        let (by_mead, by_unicast) = (delivered.left_bytes("mead"), delivered.left_bytes("unicast"));
        assert!(by_mead > SERVED_BYTES, "{by_mead} {by_unicast}");
        assert!((LEN as u64..4 * LEN as u64).contains(&by_unicast), "{by_mead} {by_unicast}");
        assert_eq!(delivered.left_bytes("multicast"), 0);
    }
}

#[test]
fn without_any_router_everybody_gets_unicast() {
    const LEN: usize = 1_000_000;
    let network = network();
    let delivered = deliver(&network, LEN, "--fanout mead");
    assert_eq!(ways(&delivered.events), expected(&[]));
    assert_eq!((delivered.left_bytes("mead"), delivered.left_bytes("multicast")), (0, 0));
    assert_eq!(delivered.done["receivers"][0]["way"], "unicast");
}

/// Every packet with a routing header.
const ROUTING_HEADERS: &str = "4,48 0 0 20,21 0 1 43,6 0 0 2,6 0 0 4294967295";

/// What slow start has sent too much on one receiver's link comes again at that link's rate: with nothing but retransmissions to
/// send, the rate was next to nothing. First the congestion control had taken its own messages for all that arrived; then the
/// rate that it had found last, with the last of the group's packets, stood until the end.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn what_one_receiver_has_lost_by_slow_start_comes_again_at_its_links_rate() {
    const LEN: usize = 12_000_000;
    for fanout in ["unicast", "mead"] {
        let network = network();
        let _routers = routers(&network, ["r1"], "");
        network.shape("rf", "e4", "rate 30mbit burst 64k latency 40ms");
        let delivered = deliver(&network, LEN, &format!("--fanout {fanout} --rate auto"));
        // 3.2 s at best; on a very busy machine it was a minute and more.
        let seconds = delivered.done["seconds"].as_f64().expect("a number");
        println!("{fanout}: {seconds} s");
        assert!(seconds < 45.0, "{fanout}: {}", delivered.done);
    }
}

/// Long enough for a busy machine. The measured figure is printed: less than half a second where nothing else runs.
const LONGEST_STALL: Duration = Duration::from_secs(2);

#[test]
fn a_firewall_in_mid_transfer_stalls_nobody_for_long() {
    const LEN: usize = 20_000_000;
    let (network, scratch) = (network(), Scratch::new());
    let _routers = routers(&network, ["r1"], "");
    scratch.file("file", LEN);
    let (mut sender, receivers) = start(&network, &scratch, "--fanout mead --rate 20M file");
    let (stop, network) = (AtomicBool::new(false), &network);
    std::thread::scope(|scope| {
        let gaps: Vec<_> = RECEIVERS
            .iter()
            .map(|(node, _)| scope.spawn(|| network.within(node, || longest_silence(&stop))))
            .collect();
        for _ in 0..3 {
            sender.wait_for(|event| event["event"] == "way" && event["way"] == "mead");
        }
        std::thread::sleep(Duration::from_secs(1));
        network.lose("rf", "s", ROUTING_HEADERS);
        for _ in 0..3 {
            sender.wait_for(|event| event["event"] == "way" && event["way"] == "unicast");
        }
        // Until the next attempts, which fail.
        sender.next("object");
        stop.store(true, Ordering::Relaxed);
        let gaps: Vec<_> = gaps.into_iter().map(|gap| gap.join().expect("it measures")).collect();
        println!("longest time without data at each receiver: {gaps:?}");
        assert!(gaps.iter().all(|gap| *gap < LONGEST_STALL), "{gaps:?}");
    });
    Delivered::by(sender, receivers, &scratch, LEN);
}

/// The receivers of a list stay the same when another router is found on the way to some of them, and packets name it then.
#[test]
fn a_router_that_comes_in_mid_transfer_is_used() {
    const LEN: usize = 30_000_000;
    let (network, scratch) = (network(), Scratch::new());
    let _first = routers(&network, ["rf"], "");
    scratch.file("file", LEN);
    let (mut sender, _receivers) = start(&network, &scratch, "--fanout mead --rate 4M file");
    for _ in RECEIVERS {
        sender.wait_for(|event| event["event"] == "way" && event["way"] == "mead");
    }
    let _second = routers(&network, ["r1"], "");
    wait_until("packets name it", || network.router_status("r1").packets > 0);
}

/// They were sent to alone until the next discovery of everybody, five seconds later, and so on a busy machine was whoever
/// started a second later than the first.
#[test]
fn receivers_that_come_later_are_looked_for_at_once() {
    const LEN: usize = 8_000_000;
    let (network, scratch) = (network(), Scratch::new());
    let _routers = routers(&network, ["r1"], "");
    scratch.file("file", LEN);
    let mut sender = start_sender(&network, &scratch, "--fanout mead --rate 20M file");
    let first = receive(&network, &scratch, &RECEIVERS[0]);
    sender.next("joined");
    // The discovery that began with it is over.
    std::thread::sleep(Duration::from_millis(1500));
    let others = RECEIVERS[1..].iter().map(|receiver| receive(&network, &scratch, receiver));
    let receivers: Vec<_> = std::iter::once(first).chain(others).collect();
    let delivered = Delivered::by(sender, receivers, &scratch, LEN);
    assert!(delivered.left_bytes("mead") > SERVED_BYTES, "{}", delivered.done);
}

/// A repair symbol in a MEADcast packet mends what any of its receivers has lost. Some symbols go ahead, others because receivers
/// lack blocks. (With `--fec auto`, when symbols begin depends on how soon receivers ask, and so on the machine.)
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn repair_symbols_go_by_lists_and_copies() {
    const LEN: usize = 12_000_000;
    for fanout in ["mead", "auto"] {
        let network = network();
        let _routers = routers(&network, ["r1"], "");
        network.lose("rf", "s", TENTH);
        let delivered = deliver(&network, LEN, &format!("--fanout {fanout} --fec 5% --rate 20M"));
        let kept = delivered.received("repair_symbols");
        let sent = delivered.done["repair_symbols"].as_u64().expect("a number");
        assert!(
            sent > 0 && kept > sent,
            "each serves several: {sent} sent, {kept} kept; {fanout} {} {:?}",
            delivered.done,
            delivered.received
        );
        assert!(delivered.left_bytes("mead") > SERVED_BYTES, "{}", delivered.done);
    }
}

/// Whom the routers' domain key makes believe, and the options that make packets others.
#[test]
fn only_routers_with_the_domains_key_are_believed_and_options_reach_packets() {
    const LEN: usize = 4_000_000;
    let network = network();
    let (right, wrong) = (PrivateFile::key(), PrivateFile::new(&"b".repeat(64)));
    let _routers = routers(&network, ["r1"], &format!("--key {}", &*right));
    for (key, expects_mead) in [(&right, true), (&wrong, false)] {
        let options = "--max 6 --dont-replicate --to-router --grouping thesis --fanout mead --rate 20M";
        let delivered = deliver(&network, LEN, &format!("{options} --domain-key {}", &**key));
        let is_told = delivered
            .events
            .iter()
            .any(|event| event["event"] == "warning" && event.to_string().contains("no router proves"));
        assert_eq!(
            (delivered.left_bytes("mead") > SERVED_BYTES, ways(&delivered.events).len(), is_told),
            (expects_mead, if expects_mead { 3 } else { 0 }, !expects_mead),
            "{}",
            delivered.done
        );
    }
}

#[test]
fn a_router_of_the_other_dialect_is_spoken_to_in_it() {
    const LEN: usize = 4_000_000;
    let network = network();
    let _routers = routers(&network, ["r1"], "--dialect linux-6.5");
    let options = "--fanout mead --rate 20M --mead-dialect linux-6.5 --max 3";
    let delivered = deliver(&network, LEN, options);
    // A router and two receivers: the third is alone. On a busy machine, they may take turns.
    assert_eq!(most_at_a_time(&delivered.events, "mead"), 2, "{:?}", delivered.events);
    assert!(delivered.left_bytes("mead") > SERVED_BYTES, "{}", delivered.done);
}

/// Nobody asks for routers: what comes tells.
#[test]
fn xcast_serves_who_is_behind_a_router_and_others_by_unicast() {
    const LEN: usize = 8_000_000;
    for options in ["", "--user-space"] {
        let network = network();
        // One list for all four: rf sends the part of three on to r1, which makes unicast of it.
        let _routers = routers(&network, ["rf", "r1"], options);
        let delivered = deliver(&network, LEN, "--fanout xcast --rate 20M");
        let all = RECEIVERS.map(|(node, _)| (node, "xcast"));
        assert_eq!(ways(&delivered.events), expected(&all), "{options:?}");
        let (by_xcast, by_unicast) = (delivered.left_bytes("xcast"), delivered.left_bytes("unicast"));
        assert!(by_xcast > SERVED_BYTES && by_unicast < 4 * LEN as u64, "{by_xcast} {by_unicast}");
        assert_eq!((delivered.left_bytes("mead"), delivered.left_bytes("multicast")), (0, 0));
    }
}

/// A link that is as narrow as one may be takes no lists, and what goes to a receiver alone.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn nothing_is_lost_on_a_link_that_takes_1280_bytes() {
    const LEN: usize = 3_000_000;
    for fanout in ["mead", "xcast", "auto"] {
        let network = network();
        narrow(&network, "e4", 1280);
        let _routers = routers(&network, ["r1"], "");
        let delivered = deliver(&network, LEN, &format!("--fanout {fanout} --rate 10M"));
        delivered.assert_little_again(LEN);
    }
}

/// A list that does not fit on a way is told of, with what to do, where packets to single receivers do not fit either.
#[test]
fn a_way_that_is_too_narrow_for_the_session_is_told_of() {
    const LEN: usize = 3_000_000;
    let network = network();
    narrow(&network, "r1", 1280);
    let _routers = routers(&network, ["rf", "r1"], "");
    let delivered = deliver(&network, LEN, "--fanout mead --max 3 --rate 10M");
    let is_told = |event: &Value| {
        let text = event["text"].as_str().unwrap_or_default();
        event["event"] == "warning"
            && text.contains("up to 1280 bytes fit")
            && text.contains("with blocks of")
    };
    assert!(delivered.events.iter().any(is_told), "{:?}", delivered.events);
}

/// Whoever has copies of its own gets them in fragments, and the user learns it once, whichever way others are served.
#[test]
fn a_way_that_is_too_narrow_for_copies_is_told_of() {
    const LEN: usize = 3_000_000;
    for (fanout, lists) in [("unicast", ""), ("xcast", "--max 3"), ("auto", "--max 3")] {
        let network = network();
        narrow(&network, "e4", 1280);
        let delivered = deliver(&network, LEN, &format!("{lists} --fanout {fanout} --rate 10M"));
        delivered.assert_little_again(LEN);
        let told = delivered.events.iter().filter(|event| event["event"] == "warning");
        let told: Vec<_> = told.filter_map(|event| event["text"].as_str()).collect();
        let narrow: Vec<_> =
            told.iter().filter(|text| text.contains("1280 bytes fit on the way to fd00:4::2,")).collect();
        assert!(narrow.len() == 1, "{fanout}: {told:?}");
        let advice = narrow[0].split_once("with blocks of ").expect("it says what to do").1;
        let advice = advice.strip_suffix(" bytes").expect("it says how long");
        let all_headers = 1280 - advice.parse::<usize>().expect("a number");
        assert_eq!(all_headers, 48 + 32 + 32, "IPv6, UDP, the session's header and its seal: {}", narrow[0]);
    }
}

/// A link on the way takes a packet for one or two, and no whole list; the router there says so.
#[test]
fn xcast_lists_are_cut_to_what_fits_on_the_way() {
    const LEN: usize = 8_000_000;
    let network = network();
    narrow(&network, "r1", 1330);
    let _routers = routers(&network, ["r1"], "");
    let delivered = deliver(&network, LEN, "--fanout xcast --rate 20M --max 12");
    assert!(ways(&delivered.events).len() >= 2, "{:?}", delivered.events);
    assert!(delivered.left_bytes("xcast") > 2 * SERVED_BYTES, "two lists: {}", delivered.done);
}

#[test]
fn without_an_xcast_router_all_end_with_unicast_and_lists_are_seldom_tried() {
    const LEN: usize = 8_000_000;
    let network = network();
    let delivered = deliver(&network, LEN, "--fanout xcast --rate 20M");
    // Only the first one of a list hears it, and has unicast as soon as it is alone there.
    let ways = ways(&delivered.events);
    assert!(ways.len() <= 1, "{:?}", delivered.events);
    // It may end in the midst of a trial.
    let receivers = delivered.done["receivers"].as_array().expect("a list").iter();
    assert!(receivers.filter(|one| one["way"] != "unicast").count() <= 1, "{}", delivered.done);
    // Two trials, each half a second of the three that the file takes.
    let by_xcast = delivered.left_bytes("xcast");
    assert!((1..LEN as u64).contains(&by_xcast), "{}", delivered.done);
}

#[test]
fn auto_takes_the_cheapest_way_that_reaches_each() {
    const LEN: usize = 8_000_000;
    let network = network();
    let _routers = routers(&network, ["r1"], "");
    // Multicast reaches e4 alone: r1 does not route it.
    let _multicast = network.router("rf", &[]);
    let delivered = deliver(&network, LEN, "--fanout auto --rate 20M");
    let all = [("e1", "mead"), ("e2", "mead"), ("e3", "mead"), ("e4", "multicast")];
    assert_eq!(ways(&delivered.events), expected(&all));
    assert!(delivered.left_bytes("mead") > SERVED_BYTES, "{}", delivered.done);
    assert!(delivered.left_bytes("multicast") > SERVED_BYTES, "{}", delivered.done);
}

#[test]
fn auto_on_one_lan_ends_with_one_copy_for_all() {
    const LEN: usize = 20_000_000;
    let scratch = Scratch::with_file("file", LEN);
    let sender = scratch.send("--fanout auto --rate 40M --wait 3 --json file");
    let receivers = ["a", "b", "c"].map(|name| scratch.receive(name, ""));
    let output = finish_well(sender);
    assert!(output.matches(r#""event":"way""#).count() >= 3);
    all_well(receivers);
    ["a/file", "b/file", "c/file"].iter().for_each(|copy| scratch.assert_file(copy, LEN));
    let done = &last_event(&output, "done");
    assert_eq!(done["fanout"]["multicast"]["receivers"], 3, "{output}");
    assert!(left_bytes(done, "unicast") < LEN as u64, "{done}");
    assert!(left_bytes(done, "multicast") >= LEN as u64 / 2, "{done}");
}

#[test]
fn receivers_that_cannot_be_reached_are_refused_in_one_line() {
    let (network, scratch) = (network(), Scratch::new());
    scratch.file("file", 10);
    let refuse = |args: &str, words: &[&str]| {
        let args = format!("send --fanout mead --interface rf {args} file");
        network.within("s", || scratch.refuses(args, words));
    };
    refuse("--receivers fd00:3::2,10.0.3.2", &["10.0.3.2", "IPv4", "IPv6 address"]);
    refuse("--receivers fd00:3::2,fd00:3::2", &["fd00:3::2", "twice"]);
    refuse("--receivers fd00:9::1", &["fd00:9::1", "cannot be reached", "route"]);
    refuse("--receivers fe80::1", &["fe80::1", "global"]);
    refuse("--receivers /no/such/file", &["/no/such/file", "an address a line"]);
    refuse("--max 33", &["33", "2 addresses (a router and a receiver) to 32"]);
    refuse("--max 1", &["and not 1;", "2 addresses (a router"]);
    network.configure("s", "link set dev rf mtu 1300\n");
    refuse("", &["rf", "1300", "raise it"]);
}

/// With `--receivers`, lists are known before anybody has come, and as many receivers are waited for.
#[test]
fn routers_are_found_before_receivers_come() {
    const LEN: usize = 4_000_000;
    let network = network();
    let _routers = routers(&network, ["r1"], "");
    let list = PrivateFile::new("fd00:3::2\nfd00:3::3\nfd00:3::4 # e3\nfd00:4::2\n");
    let arguments = format!("--fanout mead --rate 20M --receivers {}", &*list);
    let Delivered { done, events, .. } = deliver(&network, LEN, &arguments);
    assert!(events.iter().any(|event| event["event"] == "joined" && event["wanted"] == 4), "{events:?}");
    assert!(left_bytes(&done, "mead") > SERVED_BYTES, "{done}");
}

#[test]
fn whoever_may_not_make_packets_is_told_which_right_it_takes() {
    let (network, scratch) = (network(), Scratch::new());
    let file = scratch.file("file", 10);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-net_raw", "--inh-caps", "-net_raw", TREECAST]);
    command.args(["send", "--fanout", "mead", "--interface", "rf"]).arg(&file);
    network.within("s", || refused(&mut command, &["CAP_NET_RAW"]));
}
