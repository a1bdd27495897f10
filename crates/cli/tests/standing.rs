//! Standing receivers: services that take what trusted senders announce. Needs root.

use std::{
    fs,
    os::unix::{fs::MetadataExt, net::UnixDatagram},
    path::Path,
    process::Command,
    time::Duration,
};

use crate::{
    child::Guarded,
    mroute_network::Network,
    session::{
        Scratch, assert_says, finish, finish_well, finish_with, last_event, refused, stop, wait_until,
    },
};
use serde_json::Value;

/// A sender with a key, and standing receivers that trust it, on one LAN.
struct House {
    network: Network,
    scratch: Scratch,
    key: String,
}

impl House {
    fn new() -> Self {
        let network = Network::new(&["b1", "s", "e1", "e2", "e3"]);
        network.lan(3, "b1", &["s", "e1", "e2", "e3"]);
        let scratch = Scratch::new();
        let key = new_key(&scratch, "key.pem");
        Self { network, scratch, key }
    }

    /// A standing receiver, with more lines for its one rule.
    fn standing(&self, node: &str, rule: &str) -> Guarded {
        self.network.start(node, &mut self.standing_command(node, rule))
    }

    /// Starts standing receivers, and waits until they have.
    fn all_standing<const COUNT: usize>(&self, rules: [(&str, &str); COUNT]) -> [Guarded; COUNT] {
        let receivers = rules.map(|(node, rule)| self.standing(node, rule));
        rules.iter().for_each(|(node, _)| self.wait_for(node, "started", 1));
        receivers
    }

    fn standing_command(&self, node: &str, rule: &str) -> Command {
        let text = format!(
            "name = \"{node}\"\nstate = \"{node}-state\"\n[[rule]]\nsenders = [\"{}\"]\ninto = \"{node}\"\n{rule}",
            self.key
        );
        fs::write(self.scratch.path(&format!("{node}.toml")), text).unwrap();
        self.scratch.command(format!("receive --standing {node}.toml"))
    }

    fn send(&self, args: &str) -> Guarded {
        self.send_by("key.pem", args)
    }

    fn send_by(&self, key: &str, args: &str) -> Guarded {
        self.network.start("s", &mut self.scratch.command(format!("send --key ./{key} {args}")))
    }

    fn history(&self, node: &str) -> Vec<Value> {
        let text = self.scratch.run(format!("status --history --json --state {node}-state"));
        last_event(&text, "history")["entries"].as_array().unwrap().clone()
    }

    /// How many entries of a kind are in a receiver's history.
    fn count(&self, node: &str, kind: &str) -> usize {
        self.history(node).iter().filter(|entry| entry["event"] == kind).count()
    }

    fn wait_for(&self, node: &str, kind: &str, count: usize) {
        wait_until(&format!("{node} has {count} of {kind}"), || self.count(node, kind) >= count);
    }

    /// The text of the last entry of a kind.
    fn text(&self, node: &str, kind: &str) -> String {
        let entry = self.history(node).into_iter().rfind(|entry| entry["event"] == kind).unwrap();
        entry["text"].as_str().unwrap().to_owned()
    }

    /// The kinds of entries in a receiver's history.
    fn kinds(&self, node: &str) -> Vec<String> {
        self.history(node).iter().map(|entry| entry["event"].as_str().unwrap().to_owned()).collect()
    }

    /// How many bytes of the first object have been multicast, by the file `session`.
    fn sent(&self) -> u64 {
        let text = self.scratch.told("session");
        let marks = text.lines().filter_map(|line| line.strip_prefix("sent 0 "));
        marks.filter_map(|end| end.parse().ok()).max().unwrap_or(0)
    }
}

/// Makes a key, and returns its public half.
fn new_key(scratch: &Scratch, name: &str) -> String {
    scratch.run(format!("keys new ./{name}")).split_whitespace().next().unwrap().to_owned()
}

#[test]
fn all_get_everything_whoever_is_killed_and_started_again() {
    const SIZE: usize = 3_000_000;
    let house = House::new();
    house.scratch.file("image", SIZE);
    let all = ["e1", "e2", "e3"];
    let args = "--session session --to-standing e1,e2,e3 --wait-timeout 5 --rate 8M image";
    let mut receivers = Vec::from(house.all_standing([("e1", ""), ("e2", "")]));
    let mut sender = house.send(args);
    for (bytes, again) in [(1_000_000, "e2"), (2_000_000, "e1")] {
        wait_until("some of it is out", || house.sent() > bytes);
        // The power fails, and comes back.
        sender.end();
        let index = usize::from(again == "e2");
        receivers[index].end();
        receivers[index] = house.standing(again, "");
        sender = house.send(args);
    }
    receivers.push(house.standing("e3", ""));
    finish_well(sender);
    for node in all {
        house.scratch.assert_file(&format!("{node}/image"), SIZE);
        house.wait_for(node, "received", 1);
    }
    assert_eq!((house.count("e2", "started"), house.count("e3", "started")), (2, 1));
    assert!(house.count("e2", "began") >= 2);
    // It is announced again, and nobody needs it.
    finish_well(house.send(args));
    for (receiver, node) in receivers.into_iter().zip(all) {
        stop(receiver);
        assert_eq!((house.count(node, "received"), house.count(node, "stopped")), (1, 1), "{node}");
    }
}

#[test]
fn rules_say_what_is_taken_and_strangers_are_ignored_and_told_of_once() {
    let house = House::new();
    new_key(&house.scratch, "other.pem");
    house.scratch.files(&[("small.iso", 1000), ("large.iso", 100_000), ("notes.txt", 10)]);
    let rule = "session = \"image*\"\nonly = \"*.iso\"\nowner = \"7:8\"\nmax_bytes = \"50k\"\n\
                command = \"cp {}/small.iso {}/copy\"\n";
    let [receiver] = house.all_standing([("e1", rule)]);
    let wait = "--wait-timeout 3 --to-standing any";
    for _ in 0..2 {
        // Nobody comes.
        finish_with(1, house.send_by("other.pem", &format!("{wait} --announce=image small.iso")));
    }
    let others = ["--announce=other small.iso", "--announce=image large.iso"];
    let others = others.map(|args| house.send(&format!("{wait} {args}")));
    let mut wanted = house.scratch.command("send --key ./key.pem --to-standing any small.iso notes.txt");
    finish_well(house.network.start("s", wanted.arg("--announce=image 7")));
    others.into_iter().for_each(|other| assert_eq!(finish(other).0, Some(1)));
    house.wait_for("e1", "command_run", 1);
    assert_eq!(house.scratch.names("e1"), ["copy", "small.iso"]);
    let received = fs::metadata(house.scratch.path("e1/small.iso")).unwrap();
    assert_eq!((received.uid(), received.gid()), (7, 8));
    let history = house.history("e1");
    let ignored = history.iter().filter(|entry| entry["event"] == "ignored");
    let mut ignored: Vec<&str> = ignored.map(|entry| entry["text"].as_str().unwrap()).collect();
    ignored.sort_unstable();
    let expected = [
        "it is larger than its rule allows",
        "no rule for its sender has such a name",
        "no rule trusts its sender's key",
    ];
    assert_eq!(ignored, expected, "{history:?}");
    let shown = house.scratch.run("status --history --state e1-state");
    assert_says(&shown, &[" received image 7 (", ": 1 file, "]);
    stop(receiver);
}

#[test]
fn limits_of_time_hold_over_reconnects_and_for_commands() {
    let house = House::new();
    house.scratch.file("image", 10_000_000);
    // What the command starts would write the file `late`.
    let command = "command = \"sh -c '(sleep 4; touch {}/late) & wait'\"\ncommand_time = \"1s\"\n";
    let receivers = house.all_standing([("e1", command), ("e2", "max_time = \"6s\"\n")]);
    // 80 seconds for the file.
    let args = "--session session --to-standing any --rate 1M image";
    let sender = house.send(args);
    wait_until("some of it is out", || house.sent() > 300_000);
    drop(sender);
    let sender = house.send(args);
    house.wait_for("e2", "given_up", 1);
    let at = |entry: &Value| entry["at"].as_u64().unwrap();
    let history = house.history("e2");
    let (began, end) = (history.iter().find(|entry| entry["event"] == "began"), history.last());
    let took = at(end.unwrap()) - at(began.unwrap());
    assert!((5..=9).contains(&took), "{took} s: {history:?}");
    drop(sender);
    house.scratch.file("small", 1000);
    let args = "--announce=small --to-standing any --linger 0 --wait-timeout 20 --wait 2 small";
    finish_with(3, house.send(args));
    house.wait_for("e1", "command_failed", 1);
    assert_says(&house.text("e1", "command_failed"), &["after 1 s (command_time)"]);
    std::thread::sleep(Duration::from_secs(4));
    assert!(!house.scratch.path("e1/late").exists(), "its process group is killed, too");
    receivers.into_iter().for_each(|receiver| _ = stop(receiver));
}

#[test]
fn a_sender_says_which_of_its_standing_receivers_lacks_what() {
    let house = House::new();
    house.scratch.file("image", 1000);
    let _receiver = house.standing("e1", "");
    let text = finish_with(3, house.send("--to-standing e1,e9 --wait-timeout 8 --linger 1 image"));
    assert!(text.lines().any(|line| line.starts_with("e9 ") && line.contains("it has not come")), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("e1 ") && line.contains(" of 1 file")), "{text}");
    house.scratch.refuses("send --to-standing e1 image", &["--key"]);
    let refuse = |args: &str, words: &[&str]| {
        house.scratch.refuses(format!("send --key ./key.pem {args} image"), words);
    };
    refuse("--to-standing e1,e1", &["e1 stands there twice", "--to-standing"]);
    refuse("--to-standing e1 --repair carousel", &["--to-standing"]);
    refuse("--to-standing e1 --wait 2", &["leave out --wait"]);
    refuse("--to-standing e2 --json --wait 1", &["--wait"]);
}

#[test]
fn a_service_tells_its_manager_that_it_is_ready_and_lives_and_ends() {
    let house = House::new();
    let socket = house.scratch.path("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let mut command = house.standing_command("e1", "");
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "200000");
    let service = house.network.start("e1", &mut command);
    let told = || {
        let mut text = [0; 200];
        let len = manager.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..len]).into_owned()
    };
    assert!(told().starts_with("READY=1\nSTATUS="));
    (0..3).for_each(|_| assert_eq!(told(), "WATCHDOG=1"));
    // Another one keeps off its history.
    refused(&mut house.standing_command("e1", ""), &["another standing receiver"]);
    service.signal(libc::SIGTERM);
    while told() != "STOPPING=1" {}
    assert_says(&finish_well(service), &["started; e1 with key tck1."]);
}

#[test]
fn a_service_that_starts_before_its_link_is_up_takes_what_is_announced_later() {
    let house = House::new();
    house.network.configure("e1", "link set dev b1 down\n");
    let receiver = house.standing("e1", "");
    house.wait_for("e1", "warning", 1);
    // The kernel has removed the addresses of IPv6.
    house.network.configure("e1", "link set dev b1 up\naddr add fd00:3::9/64 dev b1 nodad\n");
    house.scratch.file("image", 1000);
    finish_well(house.send("--to-standing any --wait-timeout 20 image"));
    house.wait_for("e1", "received", 1);
    assert_eq!((house.count("e1", "warning"), house.count("e1", "interrupted")), (1, 0));
    stop(receiver);
}

#[test]
fn a_file_of_rules_that_is_wrong_is_refused_in_one_line() {
    let house = House::new();
    for (rule, words) in [
        ("colour = 1\n", &["e1.toml:6: unknown field `colour`", "expected one of"][..]),
        ("audience = \"me\"\n", &["e1.toml:6: ", "anybody", "named"]),
        ("max_bytes = \"x\"\n", &["rule 1: max_bytes", "500k"]),
        ("owner = \"nobody-of-that-name\"\n", &["rule 1: owner"]),
    ] {
        refused(&mut house.standing_command("e1", rule), words);
    }
    house.scratch.refuses("receive --standing /no/such/file", &["/no/such/file", "--standing"]);
}

#[test]
fn who_is_named_gets_it_and_nobody_else() {
    let house = House::new();
    house.scratch.file("canary.img", 10_000);
    let all = ["e1", "e2", "e3"];
    let receivers = all.map(|node| house.standing(node, "command = \"touch {}/ran\"\n"));
    let send = |names: &str| house.send(&format!("--to-standing {names} --wait-timeout 30 canary.img"));
    // The start waits for e4, which is not there, until the others have asked.
    let waiting = send("e1,e4");
    for node in ["e2", "e3"] {
        house.wait_for(node, "not_meant", 1);
        assert_eq!(house.kinds(node), ["started", "not_meant"], "{:?}", house.history(node));
    }
    drop(waiting);
    assert_says(&finish_well(send("e1")), &["all of it is at 1 of 1 receiver "]);
    for node in ["e2", "e3"] {
        assert!(house.kinds(node).iter().all(|kind| kind == "started" || kind == "not_meant"));
        assert_eq!(house.scratch.names(node), [""; 0], "{node} has got something");
    }
    let names = house.scratch.names("e1");
    assert!(["canary.img", "ran"].iter().all(|name| names.iter().any(|other| other == name)), "{names:?}");
    finish_well(house.send("--announce --to-standing e2,e3 --wait-timeout 30 canary.img"));
    ["e2", "e3"].iter().for_each(|node| house.wait_for(node, "received", 1));
    assert_eq!(house.count("e1", "received"), 1);
    for (node, receiver) in all.into_iter().zip(receivers) {
        let text = stop(receiver);
        // The first one has lost a sender that was killed.
        assert!(node == "e1" || !text.contains("interrupted"), "{text}");
    }
}

#[test]
fn a_name_that_nobody_has_is_told_with_the_nearest_one_and_does_not_hold_up_the_others() {
    let house = House::new();
    house.scratch.file("image", 1000);
    let _receivers = house.all_standing([("e1", ""), ("e2", "")]);
    let text = finish_with(1, house.send("--to-standing ee1 --wait-timeout 6 image"));
    assert_says(&text, &["no receiver is called ee1 (is it e1?)", "there are e1, e2", "within 6 s"]);
    assert_eq!((house.count("e1", "received"), house.count("e2", "received")), (0, 0));
    // A thousand names, of which all but two are wrong: the announcement is as long as for one.
    let names: Vec<String> = (1..=1000).map(|number| format!("e{number}")).collect();
    fs::write(house.scratch.path("devices"), names.join("\n")).unwrap();
    let text = finish_with(3, house.send("--to-standing ./devices --wait-timeout 6 --linger 1 image"));
    let words =
        ["2 of 1000 receivers came within 6 s: it starts with them", "all of it is at 2 of 1000 receivers"];
    assert_says(&text, &words);
    ["e1", "e2"].iter().for_each(|node| house.wait_for(node, "received", 1));
}

#[test]
fn what_is_announced_to_people_is_taken_only_by_rules_that_say_so() {
    let house = House::new();
    house.scratch.file("image", 1000);
    let rules = [("e1", ""), ("e2", "audience = \"anybody\"\n"), ("e3", "audience = \"named\"\n")];
    let _receivers = house.all_standing(rules);
    finish_well(house.send("--announce=people --wait-timeout 30 image"));
    house.wait_for("e2", "received", 1);
    assert_eq!([house.kinds("e1"), house.kinds("e3")], [["started", "not_meant"]; 2]);
    finish_well(house.send("--to-standing any --wait 2 --wait-timeout 30 image"));
    house.wait_for("e1", "received", 1);
    house.wait_for("e2", "received", 2);
    assert_eq!(house.kinds("e3"), ["started", "not_meant", "not_meant"]);
    finish_well(house.send("--to-standing e3 --wait-timeout 30 image"));
    house.wait_for("e3", "received", 1);
}

#[test]
fn a_sender_hears_how_the_commands_of_its_receivers_went() {
    let house = House::new();
    house.scratch.file("image", 1000);
    let rules = [
        ("e1", "command = \"sh -c 'echo installed; echo more'\"\n"),
        ("e2", "command = \"sh -c 'echo no room >&2; exit 7'\"\n"),
        ("e3", ""),
    ];
    let mut receivers = rules.map(|(node, rule)| house.standing(node, rule));
    let args = "--session session --to-standing e1,e2,e3 --wait-timeout 60 image";
    let text = finish_with(3, house.send(args));
    let words = ["all of it is at 3 of 3 receivers ", "the command was successful at 1 of 2 receivers"];
    assert_says(&text, &words);
    assert!(text.lines().any(|line| line.starts_with("e2 ") && line.ends_with("no room")), "{text}");
    let row = |text: &str, receiver: &str| {
        let done = last_event(text, "done");
        let receivers = done["receivers"].as_array().unwrap().clone();
        receivers.into_iter().find(|row| row["receiver"] == receiver).unwrap()["command"].clone()
    };
    // A sender that is started again is told again, by a receiver that is started again, too.
    receivers[1].end();
    receivers[1] = house.standing("e2", rules[1].1);
    let text = finish_with(3, house.send(&format!("--json {args}")));
    let (command, told) = (row(&text, "e2"), last_event(&text, "command"));
    assert_eq!((&command["code"], &command["line"]), (&7.into(), &"no room".into()), "{text}");
    assert_eq!((&told["receiver"], &told["code"]), (&"e2".into(), &7.into()), "{text}");
    // One that never ends is waited for as long as for everything else.
    receivers[0].end();
    let sleeps = "command = \"sh -c 'echo $$ > {}/sleeps; exec sleep 1000'\"\n";
    receivers[0] = house.standing("e1", sleeps);
    house.scratch.file("other", 1000);
    let args = "--json --to-standing e1 --wait-timeout 60 --linger 2 other";
    let command = row(&finish_with(3, house.send(args)), "e1");
    assert_eq!(command["code"], Value::Null, "{command}");
    assert!(command["line"].as_str().unwrap().contains("has not told within 2 s"), "{command}");
    kill_sleepers(&house.scratch.path("e1/sleeps"));
}

#[test]
fn a_command_that_is_owed_is_run_by_the_rule_that_took_the_session_alone() {
    let house = House::new();
    house.scratch.file("image", 1000);
    let command = "command = \"sh -c 'echo $$ >> {}/ran; exec sleep 1000'\"\n";
    let times = || house.scratch.told("e1/ran").lines().count();
    let mut receiver = house.standing("e1", command);
    finish_with(3, house.send("--to-standing any --linger 0 --wait-timeout 60 image"));
    wait_until("the command runs", || times() == 1);
    receiver.end();
    // Two other rules have the same folder; one of them trusts the same sender.
    new_key(&house.scratch, "other.pem");
    let other = new_key(&house.scratch, "another.pem");
    let config = house.scratch.path("e1.toml");
    let kept = fs::read_to_string(&config).unwrap();
    let wrong = "into = \"e1\"\ncommand = \"touch {}/wrong\"\n";
    let others = format!(
        "name = \"e1\"\nstate = \"e1-state\"\n[[rule]]\nsenders = [\"{other}\"]\n{wrong}\
         [[rule]]\nsenders = [\"{}\"]\nsession = \"notes\"\n{wrong}",
        house.key
    );
    let start_with = |text: &str| {
        fs::write(&config, text).unwrap();
        house.network.start("e1", &mut house.scratch.command("receive --standing e1.toml"))
    };
    let mut receiver = start_with(&others);
    house.wait_for("e1", "command_failed", 1);
    assert_says(&house.text("e1", "command_failed"), &["no rule is now as the one was"]);
    receiver.end();
    // With its own rule it is not owed any more: somebody was told.
    let receiver = start_with(&kept);
    house.wait_for("e1", "started", 3);
    stop(receiver);
    assert_eq!((times(), house.scratch.path("e1/wrong").exists()), (1, false));
    kill_sleepers(&house.scratch.path("e1/ran"));
}

/// Ends commands that a killed service has left running. Each wrote its number into this file.
fn kill_sleepers(numbers: &Path) {
    for number in fs::read_to_string(numbers).unwrap().lines() {
        let sleeper = format!("/proc/{number}/cmdline");
        if fs::read(sleeper).unwrap_or_default() == b"sleep\x001000\0" {
            treecast_host::process::kill(number.parse().unwrap(), 9).unwrap();
        }
    }
}

#[test]
fn an_older_session_does_not_take_the_place_of_a_newer_one() {
    let house = House::new();
    for folder in ["old", "new"] {
        fs::create_dir(house.scratch.path(folder)).unwrap();
        fs::write(house.scratch.path(folder).join("image"), folder).unwrap();
    }
    let send = |which: &str| {
        let session = format!("--session {which}-session --to-standing any");
        house.send(&format!("{session} --wait-timeout 8 {which}/image"))
    };
    // The older session begins, and nobody comes.
    let older = send("old");
    wait_until("it has begun", || house.scratch.path("old-session").exists());
    drop(older);
    let mut receiver = house.standing("e1", "");
    finish_well(send("new"));
    house.wait_for("e1", "received", 1);
    for _ in 0..2 {
        finish_with(1, send("old"));
        assert_eq!(house.scratch.told("e1/image"), "new");
        assert_says(&house.text("e1", "ignored"), &["began before"]);
        // Its memory is its history.
        receiver.end();
        receiver = house.standing("e1", "");
    }
}

#[test]
fn a_standing_receiver_that_runs_is_shown_with_its_rules_and_its_last_session() {
    let house = House::new();
    house.scratch.file("image", 1000);
    let mut command = house.standing_command("e1", "command = \"true\"\n");
    let name = format!("e1-{}", std::process::id());
    let text = house.scratch.told("e1.toml");
    let named = format!("name = \"{name}\"\nmetrics = \"127.0.0.1:9464\"");
    fs::write(house.scratch.path("e1.toml"), text.replace("name = \"e1\"", &named)).unwrap();
    let receiver = house.network.start("e1", &mut command);
    let shown = || {
        let text = house.scratch.run("status --json");
        let sessions = last_event(&text, "status")["sessions"].as_array().unwrap().clone();
        sessions.into_iter().find(|session| session["name"] == name.as_str())
    };
    wait_until("it is shown", || {
        shown().is_some_and(|shown| shown["interfaces"] == serde_json::json!(["b1"]))
    });
    let shown_first = shown().unwrap();
    assert_eq!((&shown_first["role"], &shown_first["phase"]), (&"standing".into(), &"waiting".into()));
    assert_eq!((&shown_first["last"], &shown_first["rules"][0]["has_command"]), (&Value::Null, &true.into()));
    finish_well(house.send(&format!("--to-standing {name} --wait-timeout 60 image")));
    wait_until("the session is shown as the last one", || {
        shown().is_some_and(|shown| shown["last"]["name"] == "image" && shown["counts"]["commands_run"] == 1)
    });
    let text = house.scratch.run("status");
    let own = text.split("standing receiver ").find(|part| part.starts_with(&name)).unwrap();
    let rule = "rule 1: sessions for standing receivers of 1 sender into ";
    assert_says(own, &[rule, ", then a command", " received image ("]);
    let metrics = house.network.within("e1", || {
        let mut stream = std::net::TcpStream::connect("127.0.0.1:9464").unwrap();
        std::io::Write::write_all(&mut stream, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
        answer
    });
    assert!(metrics.contains("\ntreecast_standing_received_total 1\n"), "{metrics}");
    stop(receiver);
}
