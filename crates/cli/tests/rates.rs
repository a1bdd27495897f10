//! `treecast send --rates` from end to end: three hosts on a switch, one of them behind a link that is too slow for the
//! first rate. Needs root, for network namespaces.

mod child;
mod session;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use serde_json::Value;
use session::{Guarded, Scratch, SpawnGuarded, contents, finish_well, path, refused, treecast, wait_until};

/// A switch with a sender and receivers around it, each in a namespace of its own; removed when dropped.
struct Switch {
    prefix: String,
}

const HOSTS: [&str; 4] = ["s", "c0", "c1", "c2"];

impl Switch {
    /// The last receiver's link takes 5 Mbit/s, the others' 50.
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let switch = Self { prefix: format!("rates{}n{number}", std::process::id()) };
        switch.ip(&["netns", "add", &switch.name("sw")]);
        // Asks for listeners, and believes who has left at once.
        let asks =
            "mcast_snooping 1 mcast_querier 1 mcast_startup_query_interval 100 mcast_last_member_interval 20";
        switch.at("sw", &format!("ip link add name br0 type bridge {asks}"));
        switch.at("sw", "ip link set br0 up");
        for (number, host) in HOSTS.iter().enumerate() {
            switch.ip(&["netns", "add", &switch.name(host)]);
            let peer = switch.name(host);
            switch.at("sw", &format!("ip link add p{number} type veth peer name eth0 netns {peer}"));
            switch.at("sw", &format!("ip link set p{number} master br0 up"));
            switch.at(host, &format!("ip address add 10.9.0.{}/24 dev eth0", number + 1));
            switch.at(host, "ip link set eth0 up");
            switch.at(host, "ip route add default dev eth0");
        }
        for (port, rate) in [("p1", "50mbit"), ("p2", "50mbit"), ("p3", "5mbit")] {
            let shape = format!("tc qdisc add dev {port} root tbf rate {rate} burst 16kb limit 128kb");
            switch.at("sw", &shape);
        }
        switch
    }

    fn name(&self, host: &str) -> String {
        format!("{}-{host}", self.prefix)
    }

    fn ip(&self, arguments: &[&str]) {
        assert!(Command::new("ip").args(arguments).status().unwrap().success(), "{arguments:?}");
    }

    /// Runs a program at a host, which must go well.
    fn at(&self, host: &str, words: &str) {
        let words: Vec<&str> = words.split(' ').collect();
        self.ip(&[&["netns", "exec", &self.name(host)], &words[..]].concat());
    }

    /// Starts treecast at a host; a file takes what it prints, for a pipe would fill.
    fn treecast(&self, host: &str, arguments: &[&str], output: &Path) -> Guarded {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(host), env!("CARGO_BIN_EXE_treecast")]).args(arguments);
        command.stdin(Stdio::null()).stdout(File::create(output).unwrap()).stderr(Stdio::piped());
        command.spawn_guarded()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        for host in HOSTS.iter().chain(&["sw"]) {
            _ = Command::new("ip").args(["netns", "del", &self.name(host)]).status();
        }
    }
}

/// The events that a program has printed when it has ended well.
fn events(child: Guarded, output: &Path) -> Vec<Value> {
    finish_well(child);
    let printed = fs::read_to_string(output).unwrap();
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == kind).collect()
}

#[test]
fn a_slow_receiver_moves_and_the_fast_ones_do_not_notice() {
    const NAMES: [&str; 3] = ["c0", "c1", "c2"];
    const FILES: [usize; 5] = [2_000_000, 500_000, 1_500_000, 0, 3_500_000];
    let (switch, scratch) = (Switch::new(), Scratch::new());
    let files: Vec<PathBuf> =
        FILES.iter().enumerate().map(|(number, len)| scratch.file(&number.to_string(), *len)).collect();
    let ticket = scratch.path("ticket");
    let send = ["send", "--interface", "eth0", "--group", "239.255.7.8", "--rates", "16M,4M", "--wait", "3"];
    let more = ["--json", "--ticket-file", path(&ticket)];
    let files: Vec<&str> = files.iter().map(|file| path(file)).collect();
    let printed = |name: &str| scratch.path(&format!("{name}.json"));
    let sender = switch.treecast("s", &[&send[..], &more, &files].concat(), &printed("s"));
    wait_until("the ticket is written", || ticket.exists());
    let at = format!("@{}", path(&ticket));
    let receive = |name: &str| {
        let into = scratch.path(name);
        let arguments =
            ["receive", "--interface", "eth0", "--json", "--name", name, "--into", path(&into), &at];
        switch.treecast(name, &arguments, &printed(name))
    };
    let receivers = NAMES.map(receive);
    let told = receivers.into_iter().zip(NAMES).map(|(child, name)| events(child, &printed(name)));
    let told: Vec<_> = told.collect();
    let sent = events(sender, &printed("s"));

    for name in NAMES {
        for (number, len) in FILES.iter().enumerate() {
            let copy = fs::read(scratch.path(name).join(number.to_string())).unwrap();
            assert!(copy == contents(*len), "{name} has another file {number}");
        }
    }
    let moves = of_kind(&sent, "moved");
    assert_eq!((moves.len(), &moves[0]["receiver"]), (1, &Value::from("c2")), "{moves:?}");
    assert_eq!((&moves[0]["group_number"], &moves[0]["rate_bps"]), (&1.into(), &4_000_000.into()));
    let address = of_kind(&told[2], "moved")[0]["address"].to_string();
    assert!(address.contains("239.255.7.9:"), "the address behind the first group's: {address}");

    let done = *of_kind(&sent, "done").last().unwrap();
    let last = |told: &Vec<Value>| of_kind(told, "object").last().unwrap()["seconds"].as_f64().unwrap();
    let seconds: Vec<f64> = told.iter().map(last).collect();
    let mut receivers = done["receivers"].as_array().unwrap().iter();
    let (slow, whole) = (receivers.find(|one| one["receiver"] == "c2").unwrap(), &done["bytes"]);
    let share = |field: &str, unit: f64| slow[field].as_f64().unwrap() * unit / whole.as_f64().unwrap();
    assert!(
        seconds[0].max(seconds[1]) < seconds[2] / 2.0,
        "the fast ones had everything long before: {seconds:?}"
    );
    assert!(share("duplicate_blocks", 1500.0) < 0.02, "{slow}");
    assert!(share("retransmitted_bytes", 1.0) < 0.5, "its group has brought most of it: {slow}");
    assert!(done["groups"][1]["sent_bytes"].as_u64() <= whole.as_u64(), "{}", done["groups"]);
}

/// A carousel's receivers listen to all groups at first, in both dialects.
#[test]
fn a_slow_receiver_of_a_carousel_leaves_the_fastest_group() {
    const LEN: usize = 1_500_000;
    let (switch, scratch) = (Switch::new(), Scratch::new());
    let image = scratch.file("image", LEN);
    for (dialect, group) in [("session", "239.255.7.16"), ("iotup", "239.255.7.24")] {
        let place = |name: &str| scratch.path(&format!("{dialect}-{name}"));
        let ticket = place("ticket");
        let send = ["send", "--repair", "carousel", "--dialect", dialect, "--group", group, "--json"];
        let more =
            ["--interface", "eth0", "--rates", "16M,4M", "--idle", "2", "--ticket-file", path(&ticket)];
        let sender = switch.treecast("s", &[&send[..], &more, &[path(&image)]].concat(), &place("s.json"));
        wait_until("the ticket is written", || ticket.exists());
        let at = format!("@{}", path(&ticket));
        let what: &[&str] = match dialect {
            "session" => &[&at],
            _ => &["--dialect", "iotup", "--group", group, "--groups", "2", "image"],
        };
        // One behind the other: when two leave a group at once, this switch, which knows IGMPv2 alone, may miss that.
        let told = ["c2", "c0"].map(|name| {
            let (into, output) = (place(name), place(&format!("{name}.json")));
            let arguments = ["receive", "--interface", "eth0", "--json", "--into", path(&into)];
            events(switch.treecast(name, &[&arguments[..], what].concat(), &output), &output)
        });
        events(sender, &place("s.json"));
        for name in ["c0", "c2"] {
            assert!(fs::read(place(name).join("image")).unwrap() == contents(LEN), "{dialect} {name}");
        }
        assert!(of_kind(&told[1], "moved").is_empty(), "{dialect}: its link takes all groups");
        let moved = of_kind(&told[0], "moved");
        assert_eq!(moved[0]["group_number"], 1, "{dialect}: {moved:?}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let refuses = |arguments: &[&str], word: &str| {
        let mut command = treecast();
        command.args(["send", "--interface", "lo"]).args(arguments).arg(env!("CARGO_BIN_EXE_treecast"));
        refused(&mut command, &[word]);
    };
    refuses(&["--rates", "9M,1M", "--rate", "9M"], "leave these out, or --rates");
    refuses(&["--rates", "9M,1M", "--rate-floor", "1M"], "leave these out, or --rates");
    refuses(&["--rates", "9M,1M", "--repair", "none"], "--repair nack, after or carousel");
    refuses(&["--rates", "9M,1M", "--fec", "auto"], "leave out --fec");
    refuses(&["--rates", "9M,1M", "--fanout", "unicast"], "--fanout multicast");
    refuses(&["--rates", "9M,1M", "--group", "239.255.255.255"], "--group");
    for bad in ["9M", "1M,9M", "9M,9M", "9M,0"] {
        let output = treecast().args(["send", "--rates", bad, "."]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("from fast to slow"), "{bad}: {said}");
    }
}
