//! Several rates (`treecast send --rates`, and `--rate auto`) from end to end: three hosts on a switch, one of them behind a link that is too slow for the
//! first rate. Needs root, for network namespaces.
//!
//! These tests show that receivers move and get everything. How fast all are then depends on the machine, and is shown where time is
//! simulated (`crates/sim/tests/slower_groups.rs` and `rates.rs` there).

use crate::{
    child::Teller,
    mroute_network::Network,
    session::{FED_LEN, Scratch, feed_until},
};
use serde_json::Value;

/// A sender, a switch around it and receivers. The last receiver's link takes 5 Mbit/s, the others' 50.
struct Switch {
    network: Network,
    scratch: Scratch,
}

const NAMES: [&str; 3] = ["c0", "c1", "c2"];

impl Switch {
    fn new() -> Self {
        let network = Network::new(&["sw", "s", "c0", "c1", "c2"]);
        let hosts = ["s", "c0", "c1", "c2"];
        network.lan(9, "sw", &hosts);
        // Asks for listeners, and believes who has left at once.
        let asks = "mcast_startup_query_interval 100 mcast_last_member_interval 20 mcast_querier 1";
        network.configure("sw", &format!("link set dev lan type bridge {asks}\n"));
        hosts.iter().for_each(|host| network.configure(host, "route add default dev sw\n"));
        for (port, rate) in [("c0", "50mbit"), ("c1", "50mbit"), ("c2", "5mbit")] {
            network.shape("sw", port, &format!("rate {rate} burst 16kb limit 128kb"));
        }
        Self { network, scratch: Scratch::new() }
    }

    fn send(&self, args: &str) -> Teller {
        let args = format!("send --json --interface sw --ticket-file ticket {args}");
        let sender = self.network.tell("s", &mut self.scratch.command(args));
        self.scratch.wait_for_ticket();
        sender
    }

    fn receive(&self, name: &str, what: &str) -> Teller {
        let args = format!("receive --json --interface sw --name {name} --into {name} {what}");
        self.network.tell(name, &mut self.scratch.command(args))
    }

    /// Feeds three receivers until the sender tells of something. Returns its last event, and all of them.
    fn feed(&self, fanout: &str, is_so: impl FnMut(&Value) -> bool) -> (Value, Vec<Value>) {
        let mut sender = self.send(&format!("--wait 3 --feed - {fanout}"));
        let receivers = NAMES.map(|name| self.receive(name, "@ticket"));
        let count = feed_until(&mut sender, &self.scratch, is_so);
        receivers.into_iter().for_each(|receiver| _ = receiver.end());
        for (name, number) in NAMES.into_iter().flat_map(|name| (0..count).map(move |number| (name, number)))
        {
            self.scratch.assert_file(&format!("{name}/{number}"), FED_LEN);
        }
        sender.end()
    }
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == kind).collect()
}

#[test]
fn a_slow_receiver_moves_to_the_slower_group() {
    slow_receiver_moves("none");
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_slow_receiver_moves_to_where_there_are_no_repair_symbols() {
    slow_receiver_moves("auto");
}

/// Delivers files to three receivers at two rates that are named.
fn slow_receiver_moves(fec: &str) {
    const FILES: [usize; 5] = [2_000_000, 500_000, 1_500_000, 0, 3_500_000];
    let switch = Switch::new();
    FILES.iter().enumerate().for_each(|(number, len)| drop(switch.scratch.file(&number.to_string(), *len)));
    let sender = switch.send(&format!("--group 239.255.7.8 --rates 16M,4M --wait 3 --fec {fec} 0 1 2 3 4"));
    let told = NAMES.map(|name| switch.receive(name, "@ticket")).map(|receiver| receiver.end().1);
    let (done, sent) = sender.end();
    for (name, number) in NAMES.into_iter().flat_map(|name| (0..5).map(move |number| (name, number))) {
        switch.scratch.assert_file(&format!("{name}/{number}"), FILES[number]);
    }
    let of_slow = |event: &Value| event["event"] == "moved" && event["receiver"] == "c2";
    let first = sent.iter().find(|event| of_slow(event)).expect("its link takes a third of the first rate");
    assert_eq!((&first["group_number"], &first["rate_bps"]), (&1.into(), &4_000_000.into()));
    let address = of_kind(&told[2], "moved")[0]["address"].to_string();
    assert!(address.contains("239.255.7.9:"), "the address behind the first group's: {address}");
    assert!(done["groups"][1]["sent_bytes"].as_u64().unwrap() > 0, "{}", done["groups"]);
}

/// With `--rate auto`, the sender finds out by itself who is slow.
#[test]
fn a_slow_receiver_is_called_to_a_group_of_its_own() {
    slow_receiver_is_called(&Switch::new(), "");
}

/// Copies for slow receivers leave at a rate of their own.
#[test]
fn a_slow_receiver_gets_its_copies_at_a_rate_of_its_own() {
    slow_receiver_is_called(&Switch::new(), "--fanout unicast");
}

/// One of the fast receivers hears no multicast. The slow one leaves the group of the others, and hears another one.
#[test]
fn a_slow_receiver_is_called_away_from_those_of_multicast_and_of_copies() {
    // UDP to ff00::/8 does not come.
    const NO_MULTICAST: &str = "6,48 0 0 20,21 0 3 17,48 0 0 38,21 0 1 255,6 0 0 2,6 0 0 4294967295";
    let switch = Switch::new();
    switch.network.lose("c1", "sw", NO_MULTICAST);
    let sent = slow_receiver_is_called(&switch, "--fanout auto --group ff15::7:20");
    let reached = |receiver: &str| sent.iter().any(|event| is_reached_by_multicast(event, receiver));
    assert_eq!(["c0", "c1"].map(reached), [true, false], "{sent:?}");
    let mut after = sent.iter().skip_while(|event| event["event"] != "moved");
    assert!(after.any(|event| is_reached_by_multicast(event, "c2")), "its group is multicast, too: {sent:?}");
}

fn is_reached_by_multicast(event: &Value, receiver: &str) -> bool {
    event["event"] == "way" && event["receiver"] == receiver && event["way"] == "multicast"
}

/// What still comes at the one rate is not taken for what follows at the other.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_receiver_joins_the_others_again_when_they_are_as_slow() {
    let switch = Switch::new();
    let mut has_moved = false;
    let (done, _) = switch.feed("--fanout unicast", |event| {
        if event["event"] != "moved" || event["receiver"] != "c2" {
            return false;
        }
        if !std::mem::replace(&mut has_moved, true) {
            let bucket = "rate 3mbit burst 16kb limit 128kb";
            ["c0", "c1"].into_iter().for_each(|one| switch.network.shape("sw", one, bucket));
        }
        event["group_number"] == 0
    });
    assert!(done["moves"].as_u64().unwrap() >= 2, "{done}");
}

/// Returns what the sender has told.
fn slow_receiver_is_called(switch: &Switch, fanout: &str) -> Vec<Value> {
    let mut is_called = false;
    let (done, sent) = switch.feed(fanout, |event| {
        is_called |= event["event"] == "moved" && event["receiver"] == "c2" && event["group_number"] == 1;
        // Where several ways are tried, its new group is to reach it by multicast, too.
        is_called && (!fanout.contains("auto") || is_reached_by_multicast(event, "c2"))
    });
    let groups = &done["groups"];
    assert!(groups[1]["sent_bytes"].as_u64().unwrap() > 0, "its group is sent to: {groups}");
    sent
}

/// The sender's own link is the limit: nobody gets more by being served apart.
#[test]
fn receivers_that_only_share_the_senders_link_stay_together() {
    const LEN: usize = 8_000_000;
    let switch = Switch::new();
    switch.network.shape("sw", "c2", "rate 50mbit burst 16kb limit 128kb");
    switch.network.shape("s", "sw", "rate 20mbit burst 16kb limit 128kb");
    switch.scratch.file("file", LEN);
    let sender = switch.send("--wait 3 --fanout unicast --plain file");
    let receivers = NAMES.map(|name| switch.receive(name, "@ticket"));
    receivers.into_iter().for_each(|receiver| _ = receiver.end());
    let (done, sent) = sender.end();
    assert_eq!(of_kind(&sent, "moved").len(), 0, "{sent:?}");
    let left = done["fanout"]["unicast"]["left_bytes"].as_f64().unwrap();
    assert!(left < LEN as f64 * 3.0 * 1.1, "nothing is sent twice: {left} bytes");
}

/// A carousel's receivers listen to all groups at first, in both dialects.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_slow_receiver_of_a_carousel_leaves_the_fastest_group() {
    const LEN: usize = 1_500_000;
    for (dialect, group) in [("session", "239.255.7.16"), ("iotup", "239.255.7.24")] {
        let switch = Switch::new();
        switch.scratch.file("image", LEN);
        let send =
            format!("--repair carousel --dialect {dialect} --group {group} --rates 16M,4M --idle 6 image");
        let sender = switch.send(&send);
        let what = match dialect {
            "session" => "@ticket".to_owned(),
            _ => format!("--dialect iotup --group {group} --groups 2 image"),
        };
        // One behind the other: when two leave a group at once, this switch, which knows IGMPv2 alone, may miss that.
        let told = ["c2", "c0"].map(|name| switch.receive(name, &what).end().1);
        sender.end();
        ["c0", "c2"].iter().for_each(|name| switch.scratch.assert_file(&format!("{name}/image"), LEN));
        let moved = of_kind(&told[0], "moved");
        // The other's link takes all groups.
        assert_eq!(moved[0]["group_number"], 1, "{dialect}: {moved:?}");
    }
}
