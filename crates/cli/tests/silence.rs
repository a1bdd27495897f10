//! Senders and receivers that are stopped: nobody waits for them for ever, and who is given up learns why.

use std::{
    io::{BufRead as _, BufReader},
    time::Duration,
};

use crate::session::{
    self, Guarded, Lab, Scratch, events, finish, finish_well, finish_with, joined, last_event, path,
    wait_until,
};
use serde_json::json;

/// The shortest that can be asked for.
const STALL_LIMIT: [&str; 2] = ["--stall-limit", "10"];

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.file("file", 3_000_000);
    scratch
}

fn send(scratch: &Scratch, arguments: &[&str]) -> Guarded {
    scratch.send(&[arguments, &[&scratch.arg("file")]].concat())
}

fn receive(scratch: &Scratch, name: &str, arguments: &[&str]) -> Guarded {
    scratch.receive(name, &[&["--name", name], arguments].concat())
}

/// Until something has come to a receiver, and not all.
fn wait_for_part(scratch: &Scratch, name: &str) {
    wait_until("it has begun", || scratch.parts(name) > 0);
}

#[test]
fn a_stopped_sender_is_given_up_and_a_waiting_one_is_not() {
    let (stopped, waiting) = (scratch(), scratch());
    let mut sender = send(&stopped, &["--wait", "2", "--json"]);
    let patient = send(&waiting, &["--wait", "2"]);
    let receiver = receive(&stopped, "one", &[&STALL_LIMIT[..], &["--reconnect", "0"]].concat());
    let first = receive(&waiting, "one", &STALL_LIMIT);
    // The sender tells so, too.
    let _told = joined(&mut sender);
    // The receiver has learned it.
    std::thread::sleep(Duration::from_millis(500));
    sender.signal(libc::SIGSTOP);
    let said = finish_with(1, receiver);
    assert!(said.contains("it said nothing for 10 s: is it stopped?"), "{said}");
    sender.end();

    std::thread::sleep(Duration::from_secs(1));
    let second = receive(&waiting, "two", &STALL_LIMIT);
    for child in [first, second, patient] {
        let (code, said) = finish(child);
        assert_eq!(code, Some(0), "it has waited for longer than that: {said}");
    }
}

#[test]
fn a_sender_that_cannot_be_reached_is_told_of_before_it_is_given_up() {
    let scratch = scratch();
    let mut sender = send(&scratch, &[]);
    sender.signal(libc::SIGSTOP);
    let more = "it takes the connection, but does not answer";
    for reason in [more, "refused"] {
        let into = format!("into-{}", reason.len());
        let said = finish_with(1, receive(&scratch, &into, &["--connect-timeout", "5"]));
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("cannot reach the sender")).collect();
        let [first, last] = lines[..] else {
            panic!("one while it tries, and one when it has given up: {said}")
        };
        assert!(first.contains(" yet (") && first.contains(" s more; "), "{first}");
        assert!(first.contains(reason) && last.contains(reason), "{said}");
        sender.end();
    }
    let (_, said) = finish(receive(&scratch, "json", &["--connect-timeout", "4", "--json"]));
    let told: Vec<_> = events(&said).into_iter().filter(|event| event["event"] == "unreachable").collect();
    let [event] = &told[..] else { panic!("{said}") };
    assert!(event["reason"].as_str().unwrap().contains("refused"), "{event}");
    assert!(event["addresses"][0].is_string() && event["seconds_left"].as_f64().unwrap() < 4.0, "{event}");
}

#[test]
fn a_receiver_that_is_put_out_learns_why() {
    let scratch = scratch();
    let sender = send(&scratch, &[&STALL_LIMIT[..], &["--rate", "20M"]].concat());
    let receiver = receive(&scratch, "sleeper", &["--reconnect", "0"]);
    wait_for_part(&scratch, "sleeper");
    receiver.signal(libc::SIGSTOP);
    finish_with(3, sender);
    receiver.signal(libc::SIGCONT);
    let said = finish_with(1, receiver);
    assert!(said.contains("it put this receiver out: it said nothing for 10 s"), "{said}");
}

#[test]
fn a_receiver_that_is_put_out_is_waited_for_as_one_that_has_left() {
    let scratch = scratch();
    let mut sender =
        send(&scratch, &[&STALL_LIMIT[..], &["--rate", "20M", "--linger", "60", "--json"]].concat());
    let receiver = receive(&scratch, "sleeper", &[]);
    wait_for_part(&scratch, "sleeper");
    receiver.signal(libc::SIGSTOP);
    let mut told = BufReader::new(sender.stdout.take().unwrap()).lines().map(Result::unwrap);
    let left = told.find(|line| line.contains(r#""event":"left""#)).unwrap();
    assert!(left.contains("it said nothing for 10 s"), "{left}");
    receiver.signal(libc::SIGCONT);
    let rest: Vec<String> = told.collect();
    assert!(rest.iter().any(|line| line.contains(r#""event":"joined""#)), "{rest:?}");
    for child in [sender, receiver] {
        finish_well(child);
    }
}

/// Receivers of a sender that gives up look for the next one, which has its state, unless it keeps none.
const NO_STATE: [&str; 2] = ["--session", "none"];

#[test]
fn a_receiver_that_is_told_to_stop_is_not_waited_for() {
    for stopped_by in [libc::SIGINT, libc::SIGTERM] {
        let scratch = scratch();
        let sender = send(&scratch, &["--rate", "8M", "--linger", "600"]);
        let receiver = receive(&scratch, "leaver", &[]);
        wait_for_part(&scratch, "leaver");
        receiver.signal(stopped_by);
        finish_with(1, receiver);
        let (code, said) = finish(sender);
        assert_eq!(code, Some(3), "it lacks the file: {said}");
        assert!(said.contains("leaver") && said.contains("it was told to stop"), "{said}");
    }
}

#[test]
fn a_sender_says_which_of_the_receivers_named_have_not_come() {
    let scratch = scratch();
    let named =
        ["--fanout", "auto", "--receivers", "127.0.0.1,::1,127.0.0.7,fd00::9", "--wait-timeout", "10"];
    let sender = send(&scratch, &[&named[..], &NO_STATE].concat());
    let receiver = receive(&scratch, "one", &[]);
    let said = finish_with(1, sender);
    let line =
        said.lines().find(|line| line.contains("1 of 4 receivers came")).unwrap_or_else(|| panic!("{said}"));
    // It has come from one address of the host.
    let one_of_two =
        line.contains("none from 127.0.0.1, 127.0.0.7") || line.contains("none from ::1, 127.0.0.7");
    assert!(one_of_two && line.contains("127.0.0.7, fd00::9; start"), "{line}");
    finish(receiver);
}

#[test]
fn a_sender_that_may_starts_with_whoever_is_there_when_the_time_is_over() {
    let scratch = scratch();
    let at_least = |count: &'static str| {
        let waits = ["--wait", "3", "--wait-at-least", count, "--wait-timeout", "6"];
        [&waits[..], &NO_STATE].concat()
    };
    let sender = send(&scratch, &at_least("1"));
    finish_well(receive(&scratch, "one", &[]));
    let (code, said) = finish(sender);
    assert!(code == Some(3) && said.contains("1 of 3 receivers came within 6 s: it starts"), "{said}");
    assert!(said.contains("2 receivers that the start waited for never came"), "{said}");

    let sender = scratch.send_anew(&[&at_least("2")[..], &[&scratch.arg("file")]].concat());
    finish_with(1, receive(&scratch, "two", &[]));
    let (code, said) = finish(sender);
    assert!(
        code == Some(1) && said.contains("1 of 3 receivers came") && said.contains("--wait-at-least"),
        "{said}"
    );
}

#[test]
fn a_receiver_learns_that_the_others_have_not_come() {
    let scratch = scratch();
    let sender = send(&scratch, &[&["--wait", "2", "--wait-timeout", "10"], &NO_STATE[..]].concat());
    let said = finish_with(1, receive(&scratch, "one", &[]));
    assert!(said.contains("it waited for 2 receivers, and 1 came within 10 s"), "{said}");
    assert!(said.contains("start anew") && !said.contains("is kept"), "nobody can go on with it: {said}");
    let (code, said) = finish(sender);
    assert!(code == Some(1) && said.contains("--wait-timeout"), "{said}");
}

/// Nobody answers a carousel, but hosts say when no program listens there.
#[test]
fn a_carousel_by_copies_tells_who_was_never_there_and_ends_when_all_have_gone() {
    let send = |scratch: &Scratch, len: usize, more: &[&str]| {
        let carousel = ["--repair", "carousel", "--fanout", "unicast", "--receivers", "127.0.0.1", "--json"];
        let file = scratch.file("file", len);
        // A loop takes longer than 3 s or 9 s, beside the first burst of 64 KiB: nobody can listen unnoticed.
        let slowly = ["--block", "1200", "--rate", "200k"];
        scratch.send(&[&carousel[..], &slowly, more, &[path(&file)]].concat())
    };
    let alone = Scratch::new();
    let in_vain = send(&alone, 150_000, &["--loops", "1"]);
    let scratch = Scratch::new();
    let sender = send(&scratch, 300_000, &["--idle", "1"]);
    let (code, text) = finish(scratch.receive("copy", &[]));
    assert_eq!(code, Some(0), "{text}");
    for (sender, code, presence) in [(in_vain, 3, "absent"), (sender, 0, "ended")] {
        let (ended, text) = finish(sender);
        let named = json!([{"receiver": "127.0.0.1", "presence": presence}]);
        assert_eq!((ended, &last_event(&text, "done")["named"]), (Some(code), &named), "{text}");
    }
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_group_that_nobody_hears_is_told_of_and_holds_nobody_back() {
    let network = Lab::up("tcq", "lan:clients=2,rate=100M,loss=0%");
    let rules =
        "table inet site { chain input { type filter hook input priority 0; meta l4proto udp drop; }; }";
    network.filter(&["client0", "client1"], rules);
    let start = |node: &str, args: &[&str]| session::start(network.treecast(node).args(args));
    for fanout in ["multicast", "unicast"] {
        let scratch = Scratch::new();
        scratch.file("files/large", 40_000_000);
        (0..300).for_each(|number| _ = scratch.file(&format!("files/{number}"), 100 + 300 * number));
        let (ticket, files) = (scratch.arg("ticket"), scratch.arg("files"));
        let since = std::time::Instant::now();
        let args = ["send", "--fanout", fanout, "--wait", "2", "--ticket-file", &ticket, &files];
        let sender = start("server0", &args);
        wait_until("the ticket is written", || scratch.path("ticket").exists());
        let receivers = ["client0", "client1"].map(|client| {
            let (into, ticket) = (scratch.arg(client), format!("@{ticket}"));
            start(client, &["receive", "--into", &into, &ticket])
        });
        let said = finish_well(sender);
        receivers.into_iter().for_each(|receiver| _ = finish_well(receiver));
        assert_eq!(said.matches("no receiver ").count(), 1, "{said}");
        assert!(said.contains("over TCP"), "{said}");
        // Two copies of 54 MB over a link of 100 Mbit/s take 9 s. At the group's rate it would be half an hour.
        assert!(since.elapsed() < Duration::from_secs(90), "{:?}: {said}", since.elapsed());
        let copy = std::fs::read(scratch.path("client1/files/large")).unwrap();
        assert!(copy == session::contents(40_000_000));
    }
}
