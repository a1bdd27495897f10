//! Several rates (`treecast send --rates`, and `--rate auto`) from end to end: three hosts on a switch, one of them behind a link that is too slow for the
//! first rate. Needs root, for network namespaces.

mod child;
mod mroute_network;
mod session;

use std::{fs, path::PathBuf, process::Stdio};

use child::{SpawnGuarded, Teller};
use mroute_network::Network;
use serde_json::Value;
use session::{Scratch, contents, path, until_the_slow_one_is_called, wait_until};

const HOSTS: [&str; 4] = ["s", "c0", "c1", "c2"];

/// A switch with a sender and receivers around it. The last receiver's link takes 5 Mbit/s, the others' 50.
fn switch() -> Network {
    switch_with("5mbit")
}

/// A switch with a sender and receivers around it. The last receiver's link has this rate, the others' 50 Mbit/s.
fn switch_with(last: &str) -> Network {
    let network = Network::new(&["sw", "s", "c0", "c1", "c2"]);
    network.lan(9, "sw", &HOSTS);
    // Asks for listeners, and believes who has left at once.
    let asks = "mcast_startup_query_interval 100 mcast_last_member_interval 20 mcast_querier 1";
    network.configure("sw", &format!("link set dev lan type bridge {asks}\n"));
    HOSTS.iter().for_each(|host| network.configure(host, "route add default dev sw\n"));
    for (port, rate) in [("c0", "50mbit"), ("c1", "50mbit"), ("c2", last)] {
        network.shape("sw", port, &format!("rate {rate} burst 16kb limit 128kb"));
    }
    network
}

/// Starts treecast at a host, which prints its events.
fn start(network: &Network, host: &str, arguments: &[&str]) -> Teller {
    let mut command = mroute_network::treecast(arguments);
    command.arg("--json").stdout(Stdio::piped());
    Teller::of(network.within(host, || command.spawn_guarded()))
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == kind).collect()
}

#[test]
fn a_slow_receiver_moves_and_the_fast_ones_do_not_notice() {
    slow_receiver_moves("none");
}

#[test]
fn a_slow_receiver_moves_to_where_there_are_no_repair_symbols() {
    slow_receiver_moves("auto");
}

fn slow_receiver_moves(fec: &str) {
    let switch = switch();
    let (told, (done, sent)) = until_the_slow_one_is_called(|| {
        let (told, (done, sent)) = deliver_at_rates(&switch, fec);
        let moved: Vec<_> = of_kind(&sent, "moved").iter().map(|moved| moved["receiver"].clone()).collect();
        let seconds: Vec<f64> = told.iter().map(|events| seconds(events)).collect();
        if moved == ["c2"] && seconds[0].max(seconds[1]) < seconds[2] / 2.0 {
            return Ok((told, (done, sent)));
        }
        Err(format!("{seconds:?}, {moved:?}"))
    });
    let moves = of_kind(&sent, "moved");
    assert_eq!((&moves[0]["group_number"], &moves[0]["rate_bps"]), (&1.into(), &4_000_000.into()));
    let address = of_kind(&told[2], "moved")[0]["address"].to_string();
    assert!(address.contains("239.255.7.9:"), "the address behind the first group's: {address}");
    let mut receivers = done["receivers"].as_array().unwrap().iter();
    let (slow, whole) = (receivers.find(|one| one["receiver"] == "c2").unwrap(), &done["bytes"]);
    let share = |field: &str, unit: f64| slow[field].as_f64().unwrap() * unit / whole.as_f64().unwrap();
    assert!(share("duplicate_blocks", 1500.0) < 0.02, "{slow}");
    assert!(share("retransmitted_bytes", 1.0) < 0.5, "its group has brought most of it: {slow}");
    assert!(done["groups"][1]["sent_bytes"].as_u64() <= whole.as_u64(), "{}", done["groups"]);
}

/// Delivers files to three receivers at two rates that are named.
fn deliver_at_rates(switch: &Network, fec: &str) -> Told {
    const FILES: [usize; 5] = [2_000_000, 500_000, 1_500_000, 0, 3_500_000];
    let scratch = Scratch::new();
    let files: Vec<PathBuf> =
        FILES.iter().enumerate().map(|(number, len)| scratch.file(&number.to_string(), *len)).collect();
    let ticket = scratch.path("ticket");
    let send = ["send", "--interface", "sw", "--group", "239.255.7.8", "--rates", "16M,4M", "--wait", "3"];
    let more = ["--fec", fec, "--ticket-file", path(&ticket)];
    let files: Vec<&str> = files.iter().map(|file| path(file)).collect();
    let sender = start(switch, "s", &[&send[..], &more, &files].concat());
    wait_until("the ticket is written", || ticket.exists());
    let at = format!("@{}", path(&ticket));
    let receive = |name: &str| {
        let into = scratch.path(name);
        start(switch, name, &["receive", "--interface", "sw", "--name", name, "--into", path(&into), &at])
    };
    let receivers = NAMES.map(receive);
    let told = receivers.into_iter().map(|receiver| receiver.end().1).collect();
    let sent = sender.end();
    for name in NAMES {
        for (number, len) in FILES.iter().enumerate() {
            let copy = fs::read(scratch.path(name).join(number.to_string())).unwrap();
            assert!(copy == contents(*len), "{name} has another file {number}");
        }
    }
    (told, sent)
}

/// With `--rate auto`, the sender finds out by itself who is slow.
#[test]
fn a_slow_receiver_is_called_to_a_group_of_its_own() {
    slow_receiver_is_called(&switch(), &[]);
}

/// Copies for slow receivers leave at a rate of their own.
#[test]
fn a_slow_receiver_gets_its_copies_at_a_rate_of_its_own() {
    slow_receiver_is_called(&switch(), &["--fanout", "unicast"]);
}

/// One of the fast receivers hears no multicast. The slow one leaves the group of the others, and hears another one.
#[test]
fn a_slow_receiver_is_called_away_from_those_of_multicast_and_of_copies() {
    // UDP to ff00::/8 does not come.
    const NO_MULTICAST: &str = "6,48 0 0 20,21 0 3 17,48 0 0 38,21 0 1 255,6 0 0 2,6 0 0 4294967295";
    let switch = switch();
    switch.lose("c1", "sw", NO_MULTICAST);
    let sent = slow_receiver_is_called(&switch, &["--fanout", "auto", "--group", "ff15::7:20"]);
    let reached = |receiver: &str| is_reached_by_multicast(sent.iter(), receiver);
    assert_eq!(["c0", "c1"].map(reached), [true, false], "{sent:?}");
    let moved = sent.iter().position(|event| event["event"] == "moved").unwrap();
    assert!(is_reached_by_multicast(sent[moved..].iter(), "c2"), "its group is multicast, too: {sent:?}");
}

fn is_reached_by_multicast<'a>(mut events: impl Iterator<Item = &'a Value>, receiver: &str) -> bool {
    events
        .any(|event| event["event"] == "way" && event["receiver"] == receiver && event["way"] == "multicast")
}

/// What still comes at the one rate is not taken for what follows at the other.
#[test]
fn a_receiver_joins_the_others_again_when_they_are_as_slow() {
    const LEN: usize = 10_000_000;
    let switch = switch();
    let shape = |rate: &str| {
        let bucket = format!("rate {rate} burst 16kb limit 128kb");
        ["c0", "c1"].into_iter().for_each(|one| switch.shape("sw", one, &bucket));
    };
    let done = until_the_slow_one_is_called(|| {
        let scratch = Scratch::new();
        shape("50mbit");
        let (mut sender, receivers) = begin(&switch, &scratch, LEN, &["--fanout", "unicast"]);
        let first = sender.wait_for(|event| event["event"] == "moved" || event["event"] == "done");
        if first["event"] == "done" {
            receivers.into_iter().for_each(|receiver| _ = receiver.end());
            return Err("nobody is called".to_owned());
        }
        shape("3mbit");
        let (_, (done, sent)) = end(&scratch, LEN, sender, receivers);
        let moves: Vec<_> = of_kind(&sent, "moved").into_iter().cloned().collect();
        let is_back = |moved: &Value| moved["receiver"] == "c2" && moved["group_number"] == 0;
        if moves[0]["receiver"] == "c2" && moves.iter().any(is_back) {
            Ok(done)
        } else {
            Err(format!("{moves:?}"))
        }
    });
    for receiver in done["receivers"].as_array().unwrap() {
        let again = receiver["duplicate_blocks"].as_f64().unwrap() * 1400.0 / LEN as f64;
        assert!(again < 0.15, "only what it has got before the others comes again: {receiver}");
    }
}

/// Returns what the sender has told.
fn slow_receiver_is_called(switch: &Network, fanout: &[&str]) -> Vec<Value> {
    const LEN: usize = 12_000_000;
    let (done, sent) = until_the_slow_one_is_called(|| {
        let (told, (done, sent)) = deliver(switch, &Scratch::new(), LEN, fanout);
        let first = of_kind(&sent, "moved").into_iter().find(|moved| moved["receiver"] == "c2");
        let is_called = first.is_some_and(|moved| moved["group_number"] == 1);
        let seconds: Vec<f64> = told.iter().map(|events| seconds(events)).collect();
        if is_called && seconds[0].min(seconds[1]) < seconds[2] * 0.7 {
            return Ok((done, sent));
        }
        Err(format!("{seconds:?}, {:?}", of_kind(&sent, "moved")))
    });
    let slower = done["groups"][1]["sent_bytes"].as_u64().unwrap();
    assert!(slower > LEN as u64 / 4, "its group has brought what it lacked: {}", done["groups"]);
    sent
}

/// The sender's own link is the limit: nobody gets more by being served apart.
#[test]
fn receivers_that_only_share_the_senders_link_stay_together() {
    const LEN: usize = 8_000_000;
    let (switch, scratch) = (switch_with("50mbit"), Scratch::new());
    switch.shape("s", "sw", "rate 20mbit burst 16kb limit 128kb");
    let (_, (done, sent)) = deliver(&switch, &scratch, LEN, &["--fanout", "unicast", "--plain"]);
    assert_eq!(of_kind(&sent, "moved").len(), 0, "{sent:?}");
    let left = done["fanout"]["unicast"]["left_bytes"].as_f64().unwrap();
    assert!(left < LEN as f64 * 3.0 * 1.1, "nothing is sent twice: {left} bytes");
}

/// What receivers have told, and the sender in the end and altogether.
type Told = (Vec<Vec<Value>>, (Value, Vec<Value>));

/// Delivers a file to three receivers at the rate that the sender finds.
fn deliver(switch: &Network, scratch: &Scratch, len: usize, fanout: &[&str]) -> Told {
    let (sender, receivers) = begin(switch, scratch, len, fanout);
    end(scratch, len, sender, receivers)
}

const NAMES: [&str; 3] = ["c0", "c1", "c2"];

fn begin(switch: &Network, scratch: &Scratch, len: usize, fanout: &[&str]) -> (Teller, [Teller; 3]) {
    let (file, ticket) = (scratch.file("file", len), scratch.path("ticket"));
    let send = ["send", "--interface", "sw", "--wait", "3", "--ticket-file", path(&ticket), path(&file)];
    let sender = start(switch, "s", &[&send[..], fanout].concat());
    wait_until("the ticket is written", || ticket.exists());
    let at = format!("@{}", path(&ticket));
    let receivers = NAMES.map(|name| {
        let into = scratch.path(name);
        start(switch, name, &["receive", "--interface", "sw", "--name", name, "--into", path(&into), &at])
    });
    (sender, receivers)
}

fn end(scratch: &Scratch, len: usize, sender: Teller, receivers: [Teller; 3]) -> Told {
    let told = receivers.into_iter().map(|receiver| receiver.end().1).collect();
    let sent = sender.end();
    for name in NAMES {
        assert!(
            fs::read(scratch.path(name).join("file")).unwrap() == contents(len),
            "{name} has another file"
        );
    }
    (told, sent)
}

/// How long a receiver took for the last of its files.
fn seconds(told: &[Value]) -> f64 {
    of_kind(told, "object").last().unwrap()["seconds"].as_f64().unwrap()
}

/// A carousel's receivers listen to all groups at first, in both dialects.
#[test]
fn a_slow_receiver_of_a_carousel_leaves_the_fastest_group() {
    let switch = switch();
    for (dialect, group) in [("session", "239.255.7.16"), ("iotup", "239.255.7.24")] {
        until_the_slow_one_is_called(|| slow_receiver_of_a_carousel(&switch, dialect, group));
    }
}

fn slow_receiver_of_a_carousel(switch: &Network, dialect: &str, group: &str) -> Result<(), String> {
    const LEN: usize = 1_500_000;
    let scratch = Scratch::new();
    let (image, ticket) = (scratch.file("image", LEN), scratch.path("ticket"));
    let send = ["send", "--repair", "carousel", "--dialect", dialect, "--group", group];
    let more = ["--interface", "sw", "--rates", "16M,4M", "--idle", "6", "--ticket-file", path(&ticket)];
    let sender = start(switch, "s", &[&send[..], &more, &[path(&image)]].concat());
    wait_until("the ticket is written", || ticket.exists());
    let at = format!("@{}", path(&ticket));
    let what: &[&str] = match dialect {
        "session" => &[&at],
        _ => &["--dialect", "iotup", "--group", group, "--groups", "2", "image"],
    };
    // One behind the other: when two leave a group at once, this switch, which knows IGMPv2 alone, may miss that.
    let told = ["c2", "c0"].map(|name| {
        let into = scratch.path(name);
        let arguments = ["receive", "--interface", "sw", "--into", path(&into)];
        start(switch, name, &[&arguments[..], what].concat()).end().1
    });
    sender.end();
    for name in ["c0", "c2"] {
        assert!(fs::read(scratch.path(name).join("image")).unwrap() == contents(LEN), "{dialect} {name}");
    }
    let [slow, fast] = [0, 1].map(|at| of_kind(&told[at], "moved"));
    // The other's link takes all groups.
    let is_right = fast.is_empty() && slow.first().is_some_and(|moved| moved["group_number"] == 1);
    if is_right { Ok(()) } else { Err(format!("{dialect}: {slow:?} {fast:?}")) }
}
