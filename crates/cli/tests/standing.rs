//! Standing receivers: services that take what trusted senders announce. Needs root.

mod child;
mod mroute_network;
mod session;

use std::{
    fs,
    os::unix::{fs::MetadataExt, net::UnixDatagram},
    path::PathBuf,
    process::Command,
    time::Duration,
};

use child::Guarded;
use mroute_network::Network;
use serde_json::Value;
use session::{
    Scratch, contents, finish, finish_well, finish_with, last_event, path, refused, start, treecast,
    wait_until,
};

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

    fn start(&self, node: &str, command: &mut Command) -> Guarded {
        self.network.within(node, || start(command))
    }

    /// A standing receiver, with more lines for its one rule.
    fn standing(&self, node: &str, rule: &str) -> Guarded {
        self.start(node, &mut self.standing_command(node, rule))
    }

    fn standing_command(&self, node: &str, rule: &str) -> Command {
        let config = self.scratch.path(&format!("{node}.toml"));
        let text = format!(
            "name = \"{node}\"\nstate = \"{node}-state\"\n[[rule]]\nsenders = [\"{}\"]\ninto = \"{node}\"\n{rule}",
            self.key
        );
        fs::write(&config, text).unwrap();
        let mut command = treecast();
        command.args(["receive", "--standing"]).arg(config);
        command
    }

    fn send(&self, key: &str, args: &[&str]) -> Guarded {
        let mut command = treecast();
        command.args(["send", "--key", &self.scratch.arg(key)]).args(args);
        self.start("s", &mut command)
    }

    fn history(&self, node: &str) -> Vec<Value> {
        let state = self.scratch.arg(&format!("{node}-state"));
        let text = finish_well(start(treecast().args(["status", "--history", "--json", "--state", &state])));
        last_event(&text, "history")["entries"].as_array().unwrap().clone()
    }

    /// How many entries of a kind are in a receiver's history.
    fn count(&self, node: &str, kind: &str) -> usize {
        self.history(node).iter().filter(|entry| entry["event"] == kind).count()
    }
}

/// Makes a key, and returns its public half.
fn new_key(scratch: &Scratch, name: &str) -> String {
    let text = finish_well(start(treecast().args(["keys", "new"]).arg(scratch.path(name))));
    text.split_whitespace().next().unwrap().to_owned()
}

/// How many bytes of the first object have been multicast, by a session file.
fn sent(session: &PathBuf) -> u64 {
    let text = fs::read_to_string(session).unwrap_or_default();
    let marks = text.lines().filter_map(|line| line.strip_prefix("sent 0 "));
    marks.filter_map(|end| end.parse().ok()).max().unwrap_or(0)
}

#[test]
fn all_get_everything_whoever_is_killed_and_started_again() {
    const SIZE: usize = 3_000_000;
    let house = House::new();
    let (file, session) = (house.scratch.file("image", SIZE), house.scratch.path("session"));
    let all = ["e1", "e2", "e3"];
    let args = [
        &["--session", path(&session), "--to-standing", "e1,e2,e3"][..],
        &["--wait-timeout", "1", "--rate", "8M", path(&file)],
    ]
    .concat();
    let mut receivers = vec![house.standing("e1", ""), house.standing("e2", "")];
    let mut sender = house.send("key.pem", &args);
    for (bytes, again) in [(1_000_000, "e2"), (2_000_000, "e1")] {
        wait_until("some of it is out", || sent(&session) > bytes);
        // The power fails, and comes back.
        sender.end();
        let index = usize::from(again == "e2");
        receivers[index].end();
        receivers[index] = house.standing(again, "");
        sender = house.send("key.pem", &args);
    }
    receivers.push(house.standing("e3", ""));
    finish_well(sender);
    for node in all {
        assert!(fs::read(house.scratch.path(node).join("image")).unwrap() == contents(SIZE), "{node}");
        wait_until("its history says so", || house.count(node, "received") == 1);
    }
    assert_eq!((house.count("e2", "started"), house.count("e3", "started")), (2, 1));
    assert!(house.count("e2", "began") >= 2);
    // It is announced again, and nobody needs it.
    let again = house.send("key.pem", &args);
    finish_well(again);
    for (receiver, node) in receivers.iter_mut().zip(all) {
        receiver.signal(15);
        assert!(receiver.wait().unwrap().success());
        assert_eq!((house.count(node, "received"), house.count(node, "stopped")), (1, 1), "{node}");
    }
}

#[test]
fn rules_say_what_is_taken_and_strangers_are_ignored_and_told_of_once() {
    let house = House::new();
    new_key(&house.scratch, "other.pem");
    let (small, large) = (house.scratch.file("small.iso", 1000), house.scratch.file("large.iso", 100_000));
    let text = house.scratch.file("notes.txt", 10);
    let rule = "session = \"image*\"\nonly = \"*.iso\"\nowner = \"7:8\"\nmax_bytes = \"50k\"\n\
                command = \"cp {}/small.iso {}/copy\"\n";
    let receiver = house.standing("e1", rule);
    wait_until("it has started", || house.count("e1", "started") == 1);
    let wait = ["--wait-timeout", "3"];
    let stranger = [&wait[..], &["--announce=image", path(&small)]].concat();
    for _ in 0..2 {
        let (code, said) = finish(house.send("other.pem", &stranger));
        assert_eq!(code, Some(1), "nobody comes: {said}");
    }
    let others = [&["--announce=other", path(&small)][..], &["--announce=image", path(&large)]];
    let others = others.map(|args| house.send("key.pem", &[&wait[..], args].concat()));
    let wanted = house.send("key.pem", &["--announce=image 7", path(&small), path(&text)]);
    finish_well(wanted);
    others.into_iter().for_each(|other| assert_eq!(finish(other).0, Some(1)));
    wait_until("the command has run", || house.count("e1", "command_run") == 1);
    assert_eq!(house.scratch.names("e1"), ["copy", "small.iso"]);
    let received = fs::metadata(house.scratch.path("e1/small.iso")).unwrap();
    assert_eq!((received.uid(), received.gid()), (7, 8));
    let history = house.history("e1");
    let ignored: Vec<&str> = history
        .iter()
        .filter(|entry| entry["event"] == "ignored")
        .map(|entry| entry["text"].as_str().unwrap())
        .collect();
    let mut sorted = ignored.clone();
    sorted.sort_unstable();
    let expected = [
        "it is larger than its rule allows",
        "no rule for its sender has such a name",
        "no rule trusts its sender's key",
    ];
    assert_eq!(sorted, expected, "{history:?}");
    let shown = finish_well(start(treecast().args([
        "status",
        "--history",
        "--state",
        &house.scratch.arg("e1-state"),
    ])));
    assert!(shown.contains(" received image 7 (") && shown.contains(": 1 file, "), "{shown}");
    receiver.signal(15);
    finish_well(receiver);
}

#[test]
fn limits_of_time_hold_over_reconnects_and_for_commands() {
    let house = House::new();
    let file = house.scratch.file("image", 10_000_000);
    // What the command starts would write the file `late`.
    let command = "command = \"sh -c '(sleep 4; touch {}/late) & wait'\"\ncommand_time = \"1s\"\n";
    let slow = house.standing("e1", command);
    let limited = house.standing("e2", "max_time = \"6s\"\n");
    wait_until("both have started", || house.count("e1", "started") + house.count("e2", "started") == 2);
    let session = house.scratch.path("session");
    // 80 seconds for the file.
    let args = ["--session", path(&session), "--announce=image", "--rate", "1M", path(&file)];
    let mut sender = house.send("key.pem", &args);
    wait_until("some of it is out", || sent(&session) > 300_000);
    sender.end();
    let mut sender = house.send("key.pem", &args);
    wait_until("its time is over", || house.count("e2", "given_up") == 1);
    let at = |entry: &Value| entry["at"].as_u64().unwrap();
    let history = house.history("e2");
    let (began, end) = (history.iter().find(|entry| entry["event"] == "began"), history.last());
    let took = at(end.unwrap()) - at(began.unwrap());
    assert!((5..=9).contains(&took), "{took} s: {history:?}");
    sender.end();
    let small = house.scratch.file("small", 1000);
    finish_well(
        house.send("key.pem", &["--announce=small", "--wait-timeout", "20", "--wait", "2", path(&small)]),
    );
    wait_until("the command is killed", || house.count("e1", "command_failed") == 1);
    let history = house.history("e1");
    let failed = history.iter().find(|entry| entry["event"] == "command_failed").unwrap();
    assert!(failed["text"].as_str().unwrap().contains("after 1 s (command_time)"), "{failed}");
    std::thread::sleep(Duration::from_secs(4));
    assert!(!house.scratch.path("e1/late").exists(), "its process group is killed, too");
    for receiver in [slow, limited] {
        receiver.signal(15);
        finish_well(receiver);
    }
}

#[test]
fn a_sender_says_which_of_its_standing_receivers_lacks_what() {
    let house = House::new();
    let file = house.scratch.file("image", 1000);
    let _receiver = house.standing("e1", "");
    let args = ["--to-standing", "e1,e9", "--wait-timeout", "8", "--linger", "1", path(&file)];
    let text = finish_with(3, house.send("key.pem", &args));
    assert!(text.lines().any(|line| line.starts_with("e9 ") && line.contains("it has not come")), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("e1 ") && line.contains(" of 1 file")), "{text}");
    let refuse = |args: &[&str], words: &[&str]| refused(treecast().arg("send").args(args).arg(&file), words);
    refuse(&["--to-standing", "e1"], &["--key"]);
    let key = house.scratch.arg("key.pem");
    refuse(&["--key", &key, "--to-standing", "e1,e1"], &["e1 stands there twice", "--to-standing"]);
    refuse(&["--key", &key, "--to-standing", "e1", "--repair", "carousel"], &["--to-standing"]);
    refuse(&["--key", &key, "--to-standing", "e1", "--wait", "2"], &["leave out --wait"]);
}

#[test]
fn a_service_tells_its_manager_that_it_is_ready_and_lives_and_ends() {
    let house = House::new();
    let socket = house.scratch.path("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let mut command = house.standing_command("e1", "");
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "200000");
    let service = house.start("e1", &mut command);
    let told = || {
        let mut text = [0; 200];
        let len = manager.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..len]).into_owned()
    };
    assert!(told().starts_with("READY=1\nSTATUS="));
    (0..3).for_each(|_| assert_eq!(told(), "WATCHDOG=1"));
    // Another one keeps off its history.
    refused(&mut house.standing_command("e1", ""), &["another standing receiver"]);
    service.signal(15);
    while told() != "STOPPING=1" {}
    let text = finish_well(service);
    assert!(text.contains("started; e1 with key tck1."), "{text}");
}

#[test]
fn a_service_that_starts_before_its_link_is_up_takes_what_is_announced_later() {
    let house = House::new();
    house.network.configure("e1", "link set dev b1 down\n");
    let receiver = house.standing("e1", "");
    wait_until("it says that it waits", || house.count("e1", "warning") == 1);
    // The kernel has removed the addresses of IPv6.
    house.network.configure("e1", "link set dev b1 up\naddr add fd00:3::9/64 dev b1 nodad\n");
    let file = house.scratch.file("image", 1000);
    finish_well(house.send("key.pem", &["--announce=image", "--wait-timeout", "20", path(&file)]));
    wait_until("its history says so", || house.count("e1", "received") == 1);
    assert_eq!((house.count("e1", "warning"), house.count("e1", "interrupted")), (1, 0));
    receiver.signal(15);
    finish_well(receiver);
}

#[test]
fn a_file_of_rules_that_is_wrong_is_refused_in_one_line() {
    let house = House::new();
    refused(
        &mut house.standing_command("e1", "colour = 1\n"),
        &["e1.toml:6: unknown field `colour`", "expected one of"],
    );
    refused(&mut house.standing_command("e1", "max_bytes = \"x\"\n"), &["rule 1: max_bytes", "500k"]);
    refused(&mut house.standing_command("e1", "owner = \"nobody-of-that-name\"\n"), &["rule 1: owner"]);
    refused(treecast().args(["receive", "--standing", "/no/such/file"]), &["/no/such/file", "--standing"]);
}
