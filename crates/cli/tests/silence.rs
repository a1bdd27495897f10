//! Senders and receivers that are stopped: nobody waits for them for ever, and who is given up learns why.

use std::time::Duration;

use crate::{
    child::Teller,
    session::{
        Guarded, Scratch, all_well, assert_says, events, finish, finish_well, finish_with, joined,
        last_event, start,
    },
    site::Site,
};
use serde_json::json;

/// A folder with a file.
fn scratch() -> Scratch {
    Scratch::with_file("file", 3_000_000)
}

/// A receiver. The limit is the shortest that can be asked for.
fn receive(scratch: &Scratch, name: &str, args: &str) -> Guarded {
    scratch.receive(name, format!("--name {name} {args}"))
}

#[test]
fn a_stopped_sender_is_given_up_and_a_waiting_one_is_not() {
    let (stopped, waiting) = (scratch(), scratch());
    let mut sender = stopped.send("--wait 2 --json file");
    let patient = waiting.send("--wait 2 file");
    let receiver = receive(&stopped, "one", "--stall-limit 10 --reconnect 0");
    let first = receive(&waiting, "one", "--stall-limit 10");
    // The sender tells so, too.
    let _told = joined(&mut sender);
    // The receiver has learned it.
    std::thread::sleep(Duration::from_millis(500));
    sender.signal(libc::SIGSTOP);
    assert_says(&finish_with(1, receiver), &["it said nothing for 10 s: is it stopped?"]);
    sender.end();
    // They have waited for longer than that.
    std::thread::sleep(Duration::from_secs(1));
    let second = receive(&waiting, "two", "--stall-limit 10");
    all_well([first, second, patient]);
}

#[test]
fn a_sender_that_cannot_be_reached_is_told_of_before_it_is_given_up() {
    let scratch = scratch();
    let mut sender = scratch.send("file");
    sender.signal(libc::SIGSTOP);
    let more = "it takes the connection, but does not answer";
    for reason in [more, "refused"] {
        let into = format!("into-{}", reason.len());
        let said = finish_with(1, receive(&scratch, &into, "--connect-timeout 5"));
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("cannot reach the sender")).collect();
        let [first, last] = lines[..] else {
            panic!("one while it tries, and one when it has given up: {said}")
        };
        assert_says(first, &[" yet (", " s more; "]);
        assert!(first.contains(reason) && last.contains(reason), "{said}");
        sender.end();
    }
    let (_, said) = finish(receive(&scratch, "json", "--connect-timeout 4 --json"));
    let told: Vec<_> = events(&said).into_iter().filter(|event| event["event"] == "unreachable").collect();
    let [event] = &told[..] else { panic!("{said}") };
    assert!(event["reason"].as_str().unwrap().contains("refused"), "{event}");
    assert!(event["addresses"][0].is_string() && event["seconds_left"].as_f64().unwrap() < 4.0, "{event}");
}

#[test]
fn a_receiver_that_is_put_out_learns_why() {
    let scratch = scratch();
    let sender = scratch.send("--stall-limit 10 --rate 20M file");
    let receiver = receive(&scratch, "sleeper", "--reconnect 0");
    scratch.wait_for_part("sleeper");
    receiver.signal(libc::SIGSTOP);
    finish_with(3, sender);
    receiver.signal(libc::SIGCONT);
    assert_says(&finish_with(1, receiver), &["it put this receiver out: it said nothing for 10 s"]);
}

#[test]
fn a_receiver_that_is_put_out_is_waited_for_as_one_that_has_left() {
    let scratch = scratch();
    let mut sender = Teller::of(scratch.send("--stall-limit 10 --rate 20M --linger 60 --json file"));
    let receiver = receive(&scratch, "sleeper", "");
    scratch.wait_for_part("sleeper");
    receiver.signal(libc::SIGSTOP);
    assert_says(&sender.next("left").to_string(), &["it said nothing for 10 s"]);
    receiver.signal(libc::SIGCONT);
    sender.next("joined");
    sender.end();
    finish_well(receiver);
}

#[test]
fn a_receiver_that_is_told_to_stop_is_not_waited_for() {
    for stopped_by in [libc::SIGINT, libc::SIGTERM] {
        let scratch = scratch();
        let sender = scratch.send("--rate 8M --linger 600 file");
        let receiver = receive(&scratch, "leaver", "");
        scratch.wait_for_part("leaver");
        receiver.signal(stopped_by);
        finish_with(1, receiver);
        // It lacks the file.
        assert_says(&finish_with(3, sender), &["leaver", "it was told to stop"]);
    }
}

#[test]
fn a_sender_says_which_of_the_receivers_named_have_not_come() {
    let scratch = scratch();
    // Receivers of a sender that gives up look for the next one, which has its state, unless it keeps none.
    let args =
        "--fanout auto --receivers 127.0.0.1,::1,127.0.0.7,fd00::9 --wait-timeout 10 --session none file";
    let sender = scratch.send(args);
    let receiver = receive(&scratch, "one", "");
    let said = finish_with(1, sender);
    let line = said.lines().find(|line| line.contains("1 of 4 receivers came")).unwrap_or_default();
    // It has come from one address of the host.
    let one_of_two =
        line.contains("none from 127.0.0.1, 127.0.0.7") || line.contains("none from ::1, 127.0.0.7");
    assert!(one_of_two && line.contains("127.0.0.7, fd00::9; start"), "{said}");
    finish(receiver);
}

#[test]
fn a_sender_that_may_starts_with_whoever_is_there_when_the_time_is_over() {
    let scratch = scratch();
    let args = "--wait 3 --wait-timeout 6 --session none file --wait-at-least";
    let sender = scratch.send(format!("{args} 1"));
    finish_well(receive(&scratch, "one", ""));
    let words =
        ["1 of 3 receivers came within 6 s: it starts", "2 receivers that the start waited for never came"];
    assert_says(&finish_with(3, sender), &words);

    let sender = scratch.send_anew(format!("{args} 2"));
    finish_with(1, receive(&scratch, "two", ""));
    assert_says(&finish_with(1, sender), &["1 of 3 receivers came", "--wait-at-least"]);
}

#[test]
fn a_receiver_learns_that_the_others_have_not_come() {
    let scratch = scratch();
    let sender = scratch.send("--wait 2 --wait-timeout 10 --session none file");
    let said = finish_with(1, receive(&scratch, "one", ""));
    assert_says(&said, &["it waited for 2 receivers, and 1 came within 10 s", "start anew"]);
    assert!(!said.contains("is kept"), "nobody can go on with it: {said}");
    assert_says(&finish_with(1, sender), &["--wait-timeout"]);
}

/// Nobody answers a carousel, but hosts say when no program listens there.
#[test]
fn a_carousel_by_copies_tells_who_was_never_there_and_ends_when_all_have_gone() {
    let send = |scratch: &Scratch, len: usize, more: &str| {
        scratch.file("file", len);
        // A loop takes longer than 3 s or 9 s, beside the first burst of 64 KiB: nobody can listen unnoticed.
        let slowly =
            "--repair carousel --fanout unicast --receivers 127.0.0.1 --json --block 1200 --rate 200k";
        scratch.send(format!("{slowly} {more} file"))
    };
    let alone = Scratch::new();
    let in_vain = send(&alone, 150_000, "--loops 1");
    let scratch = Scratch::new();
    let sender = send(&scratch, 300_000, "--idle 1");
    finish_well(scratch.receive("copy", ""));
    for (sender, code, presence) in [(in_vain, 3, "absent"), (sender, 0, "ended")] {
        let (ended, text) = finish(sender);
        let named = json!([{"receiver": "127.0.0.1", "presence": presence}]);
        assert_eq!((ended, &last_event(&text, "done")["named"]), (Some(code), &named), "{text}");
    }
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_group_that_nobody_hears_is_told_of_and_holds_nobody_back() {
    let rules =
        "table inet site { chain input { type filter hook input priority 0; meta l4proto udp drop; }; }";
    for fanout in ["multicast", "unicast"] {
        let site = Site::up("lan:clients=2,rate=100M,loss=0%");
        site.filter(&["client0", "client1"], rules);
        let scratch = &site.scratch;
        scratch.file("files/large", 40_000_000);
        (0..300).for_each(|number| _ = scratch.file(&format!("files/{number}"), 100 + 300 * number));
        let since = std::time::Instant::now();
        let args = format!("send --fanout {fanout} --wait 2 --ticket-file ticket files");
        let sender = start(&mut site.command("server0", args));
        scratch.wait_for_ticket();
        let receivers = ["client0", "client1"]
            .map(|client| start(&mut site.command(client, format!("receive --into {client} @ticket"))));
        let said = finish_well(sender);
        all_well(receivers);
        assert_eq!(said.matches("no receiver ").count(), 1, "{said}");
        assert_says(&said, &["over TCP"]);
        // Two copies of 54 MB over a link of 100 Mbit/s take 9 s. At the group's rate it would be half an hour.
        assert!(since.elapsed() < Duration::from_secs(90), "{:?}: {said}", since.elapsed());
        scratch.assert_file("client1/files/large", 40_000_000);
    }
}
