//! Standing receivers: services that take what trusted senders announce. Needs root.

use std::{
    fs,
    os::unix::{fs::MetadataExt, net::UnixDatagram},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    child::Guarded,
    mroute_network::Network,
    session::{
        Scratch, contents, finish, finish_well, finish_with, last_event, path, refused, start, treecast,
        wait_until,
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
        &["--wait-timeout", "5", "--rate", "8M", path(&file)],
    ]
    .concat();
    let mut receivers = vec![house.standing("e1", ""), house.standing("e2", "")];
    for node in ["e1", "e2"] {
        wait_until("it has started", || house.count(node, "started") == 1);
    }
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
    let wait = ["--wait-timeout", "3", "--to-standing", "any"];
    let stranger = [&wait[..], &["--announce=image", path(&small)]].concat();
    for _ in 0..2 {
        let (code, said) = finish(house.send("other.pem", &stranger));
        assert_eq!(code, Some(1), "nobody comes: {said}");
    }
    let others = [&["--announce=other", path(&small)][..], &["--announce=image", path(&large)]];
    let others = others.map(|args| house.send("key.pem", &[&wait[..], args].concat()));
    let wanted =
        house.send("key.pem", &["--to-standing", "any", "--announce=image 7", path(&small), path(&text)]);
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
    let args = ["--session", path(&session), "--to-standing", "any", "--rate", "1M", path(&file)];
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
    finish_with(
        3,
        house.send(
            "key.pem",
            &[
                "--announce=small",
                "--to-standing",
                "any",
                "--linger",
                "0",
                "--wait-timeout",
                "20",
                "--wait",
                "2",
                path(&small),
            ],
        ),
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
    finish_well(house.send("key.pem", &["--to-standing", "any", "--wait-timeout", "20", path(&file)]));
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

/// The kinds of entries in a receiver's history.
fn kinds(house: &House, node: &str) -> Vec<String> {
    house.history(node).iter().map(|entry| entry["event"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn who_is_named_gets_it_and_nobody_else() {
    let house = House::new();
    let file = house.scratch.file("canary.img", 10_000);
    let all = ["e1", "e2", "e3"];
    let receivers = all.map(|node| house.standing(node, "command = \"touch {}/ran\"\n"));
    let send =
        |names: &str| house.send("key.pem", &["--to-standing", names, "--wait-timeout", "30", path(&file)]);
    // The start waits for e4, which is not there, until the others have asked.
    let mut waiting = send("e1,e4");
    for node in ["e2", "e3"] {
        wait_until("it was told that it is not meant", || house.count(node, "not_meant") == 1);
        assert_eq!(kinds(&house, node), ["started", "not_meant"], "{:?}", house.history(node));
    }
    waiting.end();
    let text = finish_well(send("e1"));
    assert!(text.contains("all of it is at 1 of 1 receiver "), "{text}");
    for node in ["e2", "e3"] {
        assert!(kinds(&house, node).iter().all(|kind| kind == "started" || kind == "not_meant"));
        assert_eq!(house.scratch.names(node), [""; 0], "{node} has got something");
    }
    let names = house.scratch.names("e1");
    assert!(["canary.img", "ran"].iter().all(|name| names.iter().any(|other| other == name)), "{names:?}");
    // People who have the ticket are not named either, unless it is announced to them, too.
    let args = ["--to-standing", "e2", "--json", "--wait", "1", path(&file)];
    refused(treecast().args(["send", "--key", &house.scratch.arg("key.pem")]).args(args), &["--wait"]);
    let both = ["--announce", "--to-standing", "e2,e3", "--wait-timeout", "30", path(&file)];
    finish_well(house.send("key.pem", &both));
    wait_until("both have it", || house.count("e2", "received") + house.count("e3", "received") == 2);
    assert_eq!(house.count("e1", "received"), 1);
    for (node, receiver) in all.into_iter().zip(receivers) {
        receiver.signal(15);
        let text = finish_well(receiver);
        // The first one has lost a sender that was killed.
        assert!(node == "e1" || !text.contains("interrupted"), "{text}");
    }
}

#[test]
fn a_name_that_nobody_has_is_told_with_the_nearest_one_and_does_not_hold_up_the_others() {
    let house = House::new();
    let file = house.scratch.file("image", 1000);
    let _receivers = ["e1", "e2"].map(|node| house.standing(node, ""));
    for node in ["e1", "e2"] {
        wait_until("it has started", || house.count(node, "started") == 1);
    }
    let text =
        finish_with(1, house.send("key.pem", &["--to-standing", "ee1", "--wait-timeout", "6", path(&file)]));
    for words in ["no receiver is called ee1 (is it e1?)", "there are e1, e2", "within 6 s"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!((house.count("e1", "received"), house.count("e2", "received")), (0, 0));
    // A thousand names, of which all but two are wrong: the announcement is as long as for one.
    let names: Vec<String> = (1..=1000).map(|number| format!("e{number}")).collect();
    let list = house.scratch.path("devices");
    fs::write(&list, names.join("\n")).unwrap();
    let args = ["--to-standing", path(&list), "--wait-timeout", "6", "--linger", "1", path(&file)];
    let text = finish_with(3, house.send("key.pem", &args));
    assert!(text.contains("2 of 1000 receivers came within 6 s: it starts with them"), "{text}");
    assert!(text.contains("all of it is at 2 of 1000 receivers"), "{text}");
    wait_until("both have it", || house.count("e1", "received") + house.count("e2", "received") == 2);
}

#[test]
fn what_is_announced_to_people_is_taken_only_by_rules_that_say_so() {
    let house = House::new();
    let file = house.scratch.file("image", 1000);
    let rules = [("e1", ""), ("e2", "audience = \"anybody\"\n"), ("e3", "audience = \"named\"\n")];
    let _receivers = rules.map(|(node, rule)| house.standing(node, rule));
    for (node, _) in rules {
        wait_until("it has started", || house.count(node, "started") == 1);
    }
    finish_well(house.send("key.pem", &["--announce=for people", "--wait-timeout", "30", path(&file)]));
    wait_until("e2 has it", || house.count("e2", "received") == 1);
    assert_eq!([kinds(&house, "e1"), kinds(&house, "e3")], [["started", "not_meant"]; 2]);
    finish_well(
        house.send("key.pem", &["--to-standing", "any", "--wait", "2", "--wait-timeout", "30", path(&file)]),
    );
    wait_until("both have it", || house.count("e1", "received") + house.count("e2", "received") == 3);
    assert_eq!(kinds(&house, "e3"), ["started", "not_meant", "not_meant"]);
    finish_well(house.send("key.pem", &["--to-standing", "e3", "--wait-timeout", "30", path(&file)]));
    wait_until("e3 has it", || house.count("e3", "received") == 1);
    refused(&mut house.standing_command("e1", "audience = \"me\"\n"), &["e1.toml:6: ", "anybody", "named"]);
}

#[test]
fn a_sender_hears_how_the_commands_of_its_receivers_went() {
    let house = House::new();
    let file = house.scratch.file("image", 1000);
    let rules = [
        ("e1", "command = \"sh -c 'echo installed; echo more'\"\n"),
        ("e2", "command = \"sh -c 'echo no room >&2; exit 7'\"\n"),
        ("e3", ""),
    ];
    let mut receivers = rules.map(|(node, rule)| house.standing(node, rule));
    let session = house.scratch.path("session");
    let args =
        ["--session", path(&session), "--to-standing", "e1,e2,e3", "--wait-timeout", "60", path(&file)];
    let text = finish_with(3, house.send("key.pem", &args));
    assert!(text.contains("all of it is at 3 of 3 receivers "), "{text}");
    assert!(text.contains("the command was successful at 1 of 2 receivers"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("e2 ") && line.ends_with("no room")), "{text}");
    let row = |text: &str, receiver: &str| {
        let done = last_event(text, "done");
        let receivers = done["receivers"].as_array().unwrap().clone();
        receivers.into_iter().find(|row| row["receiver"] == receiver).unwrap()["command"].clone()
    };
    // A sender that is started again is told again, by a receiver that is started again, too.
    receivers[1].end();
    receivers[1] = house.standing("e2", rules[1].1);
    let text = finish_with(3, house.send("key.pem", &[&["--json"][..], &args[..]].concat()));
    let (command, told) = (row(&text, "e2"), last_event(&text, "command"));
    assert_eq!((&command["code"], &command["line"]), (&7.into(), &"no room".into()), "{text}");
    assert_eq!((&told["receiver"], &told["code"]), (&"e2".into(), &7.into()), "{text}");
    // One that never ends is waited for as long as for everything else.
    receivers[0].end();
    let sleeps = "command = \"sh -c 'echo $$ > {}/sleeps; exec sleep 1000'\"\n";
    receivers[0] = house.standing("e1", sleeps);
    let other = house.scratch.file("other", 1000);
    let args = ["--json", "--to-standing", "e1", "--wait-timeout", "60", "--linger", "2", path(&other)];
    let command = row(&finish_with(3, house.send("key.pem", &args)), "e1");
    assert_eq!(command["code"], Value::Null, "{command}");
    assert!(command["line"].as_str().unwrap().contains("has not told within 2 s"), "{command}");
    kill_sleepers(&house.scratch.path("e1/sleeps"));
}

#[test]
fn a_command_that_is_owed_is_run_by_the_rule_that_took_the_session_alone() {
    let house = House::new();
    let file = house.scratch.file("image", 1000);
    let command = "command = \"sh -c 'echo $$ >> {}/ran; exec sleep 1000'\"\n";
    let ran = house.scratch.path("e1/ran");
    let times = || fs::read_to_string(&ran).unwrap_or_default().lines().count();
    let mut receiver = house.standing("e1", command);
    let send = ["--to-standing", "any", "--linger", "0", "--wait-timeout", "60", path(&file)];
    finish_with(3, house.send("key.pem", &send));
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
        house.start("e1", treecast().args(["receive", "--standing"]).arg(&config))
    };
    let mut receiver = start_with(&others);
    wait_until("it is told that nothing is run", || house.count("e1", "command_failed") == 1);
    let failed = house.history("e1").into_iter().find(|entry| entry["event"] == "command_failed").unwrap();
    assert!(failed["text"].as_str().unwrap().contains("no rule is now as the one was"), "{failed}");
    receiver.end();
    // With its own rule it is not owed any more: somebody was told.
    let receiver = start_with(&kept);
    wait_until("it has started", || house.count("e1", "started") == 3);
    receiver.signal(15);
    finish_well(receiver);
    assert_eq!((times(), house.scratch.path("e1/wrong").exists()), (1, false));
    kill_sleepers(&ran);
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
    let [old, new] = ["old", "new"].map(|folder| {
        fs::create_dir(house.scratch.path(folder)).unwrap();
        let path = house.scratch.path(folder).join("image");
        fs::write(&path, folder).unwrap();
        path
    });
    let args = |session: &str, file: &PathBuf| {
        let session = house.scratch.arg(session);
        ["--session", session.as_str(), "--to-standing", "any", "--wait-timeout", "8", path(file)]
            .map(str::to_owned)
            .to_vec()
    };
    let send = |session: &str, file: &PathBuf| {
        let args = args(session, file);
        house.send("key.pem", &args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    // The older session begins, and nobody comes.
    let mut older = send("old-session", &old);
    wait_until("it has begun", || house.scratch.path("old-session").exists());
    older.end();
    let mut receiver = house.standing("e1", "");
    finish_well(send("new-session", &new));
    wait_until("it has the newer one", || house.count("e1", "received") == 1);
    for _ in 0..2 {
        finish_with(1, send("old-session", &old));
        assert_eq!(fs::read_to_string(house.scratch.path("e1/image")).unwrap(), "new");
        let ignored = house.history("e1").into_iter().rfind(|entry| entry["event"] == "ignored").unwrap();
        assert!(ignored["text"].as_str().unwrap().contains("began before"), "{ignored}");
        // Its memory is its history.
        receiver.end();
        receiver = house.standing("e1", "");
    }
}

#[test]
fn a_standing_receiver_that_runs_is_shown_with_its_rules_and_its_last_session() {
    let house = House::new();
    let file = house.scratch.file("image", 1000);
    let mut command = house.standing_command("e1", "command = \"true\"\n");
    let config = house.scratch.path("e1.toml");
    let text = fs::read_to_string(&config).unwrap();
    let name = format!("e1-{}", std::process::id());
    fs::write(
        &config,
        text.replace("name = \"e1\"", &format!("name = \"{name}\"\nmetrics = \"127.0.0.1:9464\"")),
    )
    .unwrap();
    let receiver = house.start("e1", &mut command);
    let shown = || {
        let text = finish_well(start(treecast().args(["status", "--json"])));
        let sessions = last_event(&text, "status")["sessions"].as_array().unwrap().clone();
        sessions.into_iter().find(|session| session["name"] == name.as_str())
    };
    wait_until("it is shown", || {
        shown().is_some_and(|shown| shown["interfaces"] == serde_json::json!(["b1"]))
    });
    let shown_first = shown().unwrap();
    assert_eq!((&shown_first["role"], &shown_first["phase"]), (&"standing".into(), &"waiting".into()));
    assert_eq!((&shown_first["last"], &shown_first["rules"][0]["has_command"]), (&Value::Null, &true.into()));
    finish_well(house.send("key.pem", &["--to-standing", &name, "--wait-timeout", "60", path(&file)]));
    wait_until("the session is shown as the last one", || {
        shown().is_some_and(|shown| shown["last"]["name"] == "image" && shown["counts"]["commands_run"] == 1)
    });
    let text = finish_well(start(treecast().arg("status")));
    let own = text.split("standing receiver ").find(|part| part.starts_with(&name)).unwrap();
    for words in
        ["rule 1: sessions for standing receivers of 1 sender into ", ", then a command", " received image ("]
    {
        assert!(own.contains(words), "{words}: {own}");
    }
    let metrics = house.network.within("e1", || {
        let mut stream = std::net::TcpStream::connect("127.0.0.1:9464").unwrap();
        std::io::Write::write_all(&mut stream, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
        answer
    });
    assert!(metrics.contains("\ntreecast_standing_received_total 1\n"), "{metrics}");
    receiver.signal(15);
    finish_well(receiver);
}
