//! Senders that are killed and started again go on with their session.

use std::{
    fs::{self, File},
    io::Write as _,
    net::TcpListener,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    process::Command,
    time::{Duration, Instant},
};

use crate::{
    mroute_network::Network,
    session::{
        Guarded, Scratch, SpawnGuarded, contents, fetched, finish, finish_well, finish_with, last_event,
        path, refused, start, treecast, wait_until,
    },
};
use serde_json::Value;

/// Kills a sender and starts it again with the same arguments.
fn again(scratch: &Scratch, sender: Guarded, args: &[&str]) -> Guarded {
    kill(sender);
    scratch.send_anew(args)
}

fn kill(mut child: Guarded) {
    child.end();
}

#[test]
fn a_ticket_is_good_for_the_sender_that_is_started_again() {
    for more in [
        &["--wait", "1"][..],
        &["--plain"],
        &["--fanout", "unicast"],
        &["--repair", "carousel", "--idle", "1"],
    ] {
        let scratch = Scratch::new();
        let (file, kept) = (scratch.file("file", 300_000), scratch.path("kept"));
        let args = [&["--rate", "20M", "--session", path(&kept), path(&file)], more].concat();
        let first = scratch.send(&args);
        let ticket = fs::read_to_string(scratch.path("ticket")).unwrap();
        let mut second = again(&scratch, first, &args);
        assert_eq!(fs::read_to_string(scratch.path("ticket")).unwrap(), ticket, "{more:?}");
        finish_well(scratch.receive("a", &[]));
        // Not every sender sees on the loopback interface that nobody listens any more.
        second.end();
        assert!(fs::read(scratch.path("a/file")).unwrap() == contents(300_000), "{more:?}");
    }
}

/// Starts a sender without `--session`, and stops it when a receiver has some of its file. Also returns what the sender has said.
fn stopped_at_work(scratch: &Scratch, signal: i32, args: &[&str]) -> (Guarded, String) {
    let sender = scratch.send(args);
    let receiver = scratch.receive("a", &["--json"]);
    wait_until("some of it has come", || scratch.parts("a") > 0);
    sender.signal(signal);
    (receiver, finish(sender).1)
}

#[test]
fn a_session_goes_on_without_having_thought_of_it_before() {
    const SIZE: usize = 6_000_000;
    for (signal, more) in
        [(libc::SIGINT, &[][..]), (libc::SIGTERM, &["--plain"]), (libc::SIGKILL, &["--fanout", "unicast"])]
    {
        let scratch = Scratch::new();
        scratch.file("file", SIZE);
        let file = scratch.path("file");
        let args = [&["--rate", "20M", "--block", "1420", path(&file)], more].concat();
        let (receiver, told) = stopped_at_work(&scratch, signal, &args);
        let number = format!("{:08x}", scratch.ticket().session.0);
        assert_eq!(
            told.contains(&format!("`treecast send --resume {number}` goes on with the same ticket")),
            signal != libc::SIGKILL,
            "{told}"
        );
        let ticket = fs::read_to_string(scratch.path("ticket")).unwrap();
        let sessions = scratch.path("state/treecast/sessions");
        let kept: Vec<_> = fs::read_dir(&sessions).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(kept.len(), 1, "{kept:?}");
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let modes =
            [mode(&sessions), mode(&kept[0]), mode(&kept[0].join("session")), mode(&kept[0].join("command"))];
        assert_eq!(modes, [0o700, 0o700, 0o600, 0o600]);
        let mut again = scratch.treecast();
        let again = start(again.args(["send", "--resume", "--rate", "40M"]).current_dir("/"));
        let done = done(&finish_well(receiver));
        let told = finish_well(again);
        assert!(told.contains(ticket.trim()), "{told}");
        let fetched = fetched(&done);
        assert!((SIZE as u64..=SIZE as u64 * 51 / 50).contains(&fetched), "{fetched} of {SIZE}: {done}");
        assert!(fs::read(scratch.path("a/file")).unwrap() == contents(SIZE));
        assert_eq!(scratch.names("state/treecast/sessions"), [""; 0], "everybody has everything");
        refused(scratch.treecast().args(["send", "--resume"]), &["no session is kept", path(&sessions)]);
    }
}

/// `--resume` is not promised where it would end as before.
#[test]
fn going_on_is_told_of_only_where_it_brings_something() {
    let scratch = Scratch::new();
    scratch.file("tree/good", 1000);
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    fs::write(scratch.path("tree").join(name), "x").unwrap();
    let sender = scratch.send(&[path(&scratch.path("tree"))]);
    finish_well(scratch.receive("a", &[]));
    let told = finish_with(3, sender);
    assert!(told.contains("its name cannot be sent") && !told.contains("--resume"), "{told}");

    let file = scratch.file("file", 3_000_000);
    fs::remove_file(scratch.path("ticket")).unwrap();
    // It takes 24 s, so that it is cut while it is sent.
    let sender = scratch.send(&["--rate", "1M", "--block", "1420", path(&file)]);
    let receiver = scratch.receive("b", &[]);
    wait_until("some of it has come", || scratch.parts("b") > 0);
    fs::File::options().write(true).open(&file).unwrap().set_len(1000).unwrap();
    finish_with(3, receiver);
    let told = finish_with(3, sender);
    assert!(told.contains("became shorter") && !told.contains("--resume"), "{told}");

    let session = scratch.arg("kept.session");
    let mut command = scratch.treecast();
    command.args(["send", "--interface", "lo", "--session", &session, "--wait-timeout", "1", path(&file)]);
    refused(&mut command, &["0 of 1 receiver came within 1 s"]);
    refused(
        scratch.treecast().args(["send", "--resume", &session]),
        &["is a file of --session", &format!("`treecast send --session {session} FILE`")],
    );
}

/// A profile that has changed, or gone, changes no session that has begun with it.
#[test]
fn a_session_of_a_profile_goes_on_as_it_began() {
    const SIZE: usize = 3_000_000;
    let scratch = Scratch::new();
    let file = scratch.file("file", SIZE);
    let config = scratch.path("treecast/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(&config, "[profile.lab]\nrate = \"20M\"\nblock = 1420\nplain = true\n").unwrap();
    let treecast = || {
        let mut command = scratch.treecast();
        command.env("XDG_CONFIG_HOME", scratch.path("")).arg("send");
        command
    };
    let ticket = scratch.path("ticket");
    let mut send = treecast();
    let sender =
        start(send.args(["--profile", "lab", "--interface", "lo", "--ticket-file"]).arg(&ticket).arg(&file));
    wait_until("the ticket is written", || ticket.exists());
    let receiver = scratch.receive("a", &["--json"]);
    wait_until("some of it has come", || scratch.parts("a") > 0);
    kill(sender);
    fs::write(&config, "[send]\nrate = \"none\"\n").unwrap();
    let [session] = &*scratch.names("state/treecast/sessions") else { panic!("one session is kept") };
    let kept = fs::read(scratch.path("state/treecast/sessions").join(session).join("command")).unwrap();
    assert!(String::from_utf8_lossy(&kept).contains("\0--plain\0"), "{kept:?}");
    refused(treecast().args(["--resume", "--profile", "lab"]), &["--resume", "--profile"]);
    let again = start(treecast().arg("--resume"));
    done(&finish_well(receiver));
    assert!(finish_well(again).contains(fs::read_to_string(ticket).unwrap().trim()));
    assert!(fs::read(scratch.path("a/file")).unwrap() == contents(SIZE));
}

#[test]
fn one_of_several_sessions_that_can_go_on_is_named() {
    let scratch = Scratch::new();
    let files = ["first", "second"].map(|name| scratch.file(name, 1000));
    let mut senders = files.iter().map(|file| {
        _ = fs::remove_file(scratch.path("ticket"));
        (scratch.send(&[path(file)]), fs::read_to_string(scratch.path("ticket")).unwrap())
    });
    let (first, first_ticket) = senders.next().unwrap();
    let (second, second_ticket) = senders.next().unwrap();
    let resume = |args: &[&str]| {
        let mut command = scratch.treecast();
        command.args(["send", "--resume"]).args(args);
        command
    };
    refused(&mut resume(&["second"]), &["has a sender that runs", "end that one first"]);
    kill(first);
    kill(second);
    refused(&mut resume(&[]), &["several sessions can go on", "(first, of ", "(second, of ", "--resume"]);
    refused(&mut resume(&["third"]), &["no kept session is called \"third\"", "(first, of "]);
    for (name, ticket) in [("first", &first_ticket), (second_ticket.trim(), &second_ticket)] {
        let again = start(&mut resume(&[name]));
        std::fs::write(scratch.path("ticket"), ticket).unwrap();
        finish_well(scratch.receive("a", &[]));
        assert!(finish_well(again).contains(ticket.trim()), "{name}");
    }
    assert_eq!(scratch.names("a"), ["first", "second"]);
}

#[test]
fn no_state_is_kept_of_a_session_that_is_to_leave_none() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 1000);
    kill(scratch.send(&["--session", "none", path(&file)]));
    assert_eq!(scratch.names("state/treecast/sessions"), [""; 0]);
}

#[test]
fn a_session_goes_on_with_what_it_began_with_or_not_at_all() {
    let scratch = Scratch::new();
    let (file, kept) = (scratch.file("file", 1000), scratch.path("kept"));
    let mut sender = scratch.send(&["--session", path(&kept), path(&file)]);
    let refuse = |args: &[&str], words: &[&str]| {
        let mut command = treecast();
        command.args(["send", "--interface", "lo", "--session", path(&kept)]).args(args);
        refused(&mut command, words);
    };
    refuse(&[path(&file)], &["in use"]);
    sender.end();
    refuse(&["--plain", path(&file)], &["began with security;", path(&kept)]);
    refuse(&["--fanout", "unicast", path(&file)], &["began with fanout multicast;", "--session"]);
    refuse(&["--control", "127.0.0.1:1", path(&file)], &["--control"]);
    refuse(&["--feed", "-"], &["--feed", "--session"]);
    refuse(&["--dialect", "iotup", path(&file)], &["--session"]);
    scratch.file("file", 1001);
    refuse(&[path(&file)], &["has changed", path(&kept)]);
}

#[test]
fn a_session_whose_ticket_has_expired_does_not_go_on() {
    let scratch = Scratch::new();
    let (file, kept) = (scratch.file("file", 1000), scratch.path("kept"));
    let args = ["--expires", "1s", "--session", path(&kept), path(&file)];
    kill(scratch.send(&args));
    std::thread::sleep(Duration::from_secs(2));
    let mut again = treecast();
    again.args(["send", "--interface", "lo"]).args(args);
    refused(&mut again, &["ticket", path(&kept), "ago by this host's clock", "nobody can join", "--session"]);
}

#[test]
fn other_rates_are_taken_and_told() {
    let scratch = Scratch::new();
    let (file, kept) = (scratch.file("file", 1000), scratch.path("kept"));
    let args = |rates| ["--rates", rates, "--session", path(&kept), path(&file)];
    let sender = scratch.send(&args("8M,2M"));
    let sender = again(&scratch, sender, &args("9M,1M"));
    finish_well(scratch.receive("a", &[]));
    let told = finish_well(sender);
    assert!(told.contains("began with rates 8000000,2000000: it goes on with 9000000,1000000"), "{told}");
    let mut fewer = treecast();
    fewer.args(["send", "--interface", "lo", "--session", path(&kept), path(&file)]);
    refused(&mut fewer, &["began with rates 8000000,2000000;"]);
}

/// What a receiver says at its end.
fn done(told: &str) -> Value {
    last_event(told, "done")
}

#[test]
fn receivers_come_back_to_a_sender_that_was_killed_and_fetch_nothing_much_twice() {
    for more in [&["--repair", "nack"][..], &["--repair", "after"], &["--plain"], &["--fec", "10%"]] {
        let scratch = Scratch::new();
        let sizes = [("large", 9_000_000), ("other", 3_000_001), ("small", 20_000), ("empty", 0)];
        let files = sizes.map(|(name, size)| scratch.file(name, size));
        let kept = scratch.path("kept");
        let mut args = vec!["--rate", "40M", "--block", "1420", "--wait", "2", "--session", path(&kept)];
        args.extend(more);
        args.extend(files.iter().map(|file| path(file)));
        let mut sender = scratch.send(&args);
        let receivers = ["a", "b"].map(|name| scratch.receive(name, &["--json"]));
        for bytes in [2_000_000, 7_000_000] {
            let marked = |kept: &std::path::Path| {
                let text = fs::read_to_string(kept).unwrap();
                let marks = text.lines().filter_map(|line| line.strip_prefix("sent 0 "));
                marks.filter_map(|end| end.parse::<u64>().ok()).max().unwrap_or(0)
            };
            wait_until("some of it is out", || marked(&kept) > bytes);
            sender = again(&scratch, sender, &args);
        }
        let total: u64 = sizes.iter().map(|(_, size)| *size as u64).sum();
        for (name, receiver) in ["a", "b"].into_iter().zip(receivers) {
            let done = done(&finish_well(receiver));
            let fetched = fetched(&done);
            assert!(
                (total..=total + total / 50).contains(&fetched),
                "{more:?} {name}: {fetched} of {total}: {done}"
            );
            assert_eq!((&done["objects"], &done["failed"]), (&4.into(), &0.into()), "{done}");
            for (file, size) in sizes {
                assert!(
                    fs::read(scratch.path(name).join(file)).unwrap() == contents(size),
                    "{more:?} {name}: {file}"
                );
            }
            assert_eq!(scratch.names(name).len(), 4, "nothing else is left");
        }
        finish_well(sender);
    }
}

#[test]
fn a_sender_that_goes_on_counts_only_what_it_sends_itself() {
    const SIZE: usize = 6_000_000;
    let scratch = Scratch::new();
    let (file, kept) = (scratch.file("file", SIZE), scratch.path("kept"));
    let args = ["--rate", "20M", "--json", "--session", path(&kept), path(&file)];
    let sender = scratch.send(&args);
    let receiver = scratch.receive("a", &[]);
    let is_marked = |line: &str| line.strip_prefix("sent 0 ").is_some_and(|end| end.len() >= "4000000".len());
    let far = || fs::read_to_string(&kept).unwrap().lines().any(is_marked);
    wait_until("more than a megabyte is out", far);
    let sender = again(&scratch, sender, &args);
    finish_well(receiver);
    let done = done(&finish_well(sender));
    let count = |key: &str| done[key].as_u64().unwrap();
    assert!(count("before_bytes") >= 1_000_000, "{done}");
    assert_eq!(count("before_bytes") + count("sent_bytes"), SIZE as u64, "{done}");
    let one = &done["receivers"][0];
    let sent = count("sent_bytes") + one["retransmitted_bytes"].as_u64().unwrap();
    assert_eq!(one["bytes"], SIZE as u64, "{one}");
    assert!(one["run_bytes"].as_u64().unwrap() <= sent, "{one}");
}

#[test]
fn a_receiver_that_was_killed_and_comes_back_whole_has_not_failed() {
    for more in [&[][..], &["--plain"]] {
        let scratch = Scratch::new();
        let files = [scratch.file("first", 300_000), scratch.file("second", 2_000_000)];
        let mut args = vec!["--rate", "20M", "--block", "1420", "--at-once", "1", "--wait", "2"];
        args.extend(more);
        args.extend(files.iter().map(|file| path(file)));
        let sender = scratch.send(&args);
        let steady = scratch.receive("steady", &[]);
        let mut killed = scratch.receive("a", &[]);
        wait_until("the first is there", || scratch.path("a/first").exists());
        killed.end();
        finish_well(steady);
        let told = finish_well(scratch.receive("a", &["--json"]));
        assert!(done(&told)["kept_bytes"].as_u64().unwrap() >= 300_000, "{told}");
        finish_well(sender);
        assert!(fs::read(scratch.path("a/second")).unwrap() == contents(2_000_000));
    }
}

/// Nothing may be stored yet when the sender is killed, and the receiver after it.
#[test]
fn a_receiver_that_came_back_and_is_killed_then_is_the_same_when_it_is_started_again() {
    for more in [&[][..], &["--plain"]] {
        let scratch = Scratch::new();
        let (file, kept) = (scratch.file("file", 300_000), scratch.path("kept"));
        let mut args = vec!["--wait", "2", "--session", path(&kept)];
        args.extend(more);
        args.push(path(&file));
        let sender = scratch.send(&args);
        let (told, ticket) = (scratch.path("told"), format!("@{}", scratch.path("ticket").display()));
        let mut command = scratch.receive_command("a");
        command.args(["--json", &ticket]).stdout(File::create(&told).unwrap());
        let receiver = command.spawn_guarded();
        let joined = |times| {
            let told = fs::read_to_string(&told).unwrap();
            told.matches(r#""event":"joined""#).count() == times
        };
        wait_until("it has joined", || joined(1));
        std::thread::sleep(Duration::from_millis(300));
        let sender = again(&scratch, sender, &args);
        wait_until("it has come back", || joined(2));
        std::thread::sleep(Duration::from_millis(300));
        kill(receiver);
        let receivers = ["a", "b"].map(|name| scratch.receive(name, &[]));
        for receiver in receivers {
            finish_well(receiver);
        }
        finish_well(sender);
        assert!(fs::read(scratch.path("a/file")).unwrap() == contents(300_000), "{more:?}");
    }
}

/// Starts a session of two receivers, of which the second stands still when the sender is killed and started again.
fn with_one_silent(scratch: &Scratch, more: &[&str]) -> (Guarded, Guarded) {
    let (file, kept) = (scratch.file("file", 3_000_000), scratch.path("kept"));
    let args = [&["--rate", "20M", "--wait", "2", "--session", path(&kept), path(&file)], more].concat();
    let sender = scratch.send(&args);
    let receivers = ["a", "b"].map(|name| scratch.receive(name, &[]));
    wait_until("some of it is out", || fs::read_to_string(&kept).unwrap().contains("\nsent 0 "));
    let [steady, silent] = receivers;
    silent.signal(libc::SIGSTOP);
    let sender = again(scratch, sender, &args);
    finish_well(steady);
    (sender, silent)
}

#[test]
fn a_sender_that_is_started_again_waits_for_who_has_not_heard_of_that_yet() {
    for more in [&[][..], &["--plain"]] {
        let scratch = Scratch::new();
        let more = [&["--linger", "0"], more].concat();
        let (mut sender, silent) = with_one_silent(&scratch, &more);
        std::thread::sleep(std::time::Duration::from_secs(2));
        assert!(sender.try_wait().unwrap().is_none(), "{more:?}: it has not waited");
        silent.signal(libc::SIGCONT);
        finish_well(silent);
        finish_well(sender);
        assert!(fs::read(scratch.path("b/file")).unwrap() == contents(3_000_000), "{more:?}");
    }
}

#[test]
fn who_does_not_come_back_to_a_sender_that_was_started_again_is_named() {
    let scratch = Scratch::new();
    let (sender, silent) = with_one_silent(&scratch, &["--json", "--stall-limit", "10"]);
    let ended = sender.wait_with_output().unwrap();
    kill(silent);
    let done = done(&String::from_utf8(ended.stdout).unwrap());
    assert_eq!(ended.status.code(), Some(3), "{done}");
    let failures = |receiver: &&Value| receiver["failures"].to_string().contains("has not come back");
    assert_eq!(done["receivers"].as_array().unwrap().iter().filter(failures).count(), 1, "{done}");
}

#[test]
fn a_receiver_looks_for_its_sender_over_a_link_that_is_down_for_a_while() {
    let scratch = Scratch::new();
    let network = Network::new(&["n", "peer"]);
    network.connect(1, "n", "peer");
    let start = |command: &mut Command| network.within("n", || start(command));
    let file = scratch.file("file", 3_000_000);
    let (kept, ticket, into) = (scratch.path("kept"), scratch.path("ticket"), scratch.path("a"));
    let send = || {
        _ = fs::remove_file(&ticket);
        let mut command = treecast();
        command.args(["send", "--interface", "lo", "--fanout", "unicast", "--rate", "20M", "--session"]);
        let sender = start(command.arg(&kept).arg("--ticket-file").args([&ticket, &file]));
        wait_until("the ticket is written", || ticket.exists());
        sender
    };
    let sender = send();
    let mut command = treecast();
    command.args(["receive", "--interface", "peer", "--into"]).arg(&into);
    let mut receiver = start(command.arg(format!("@{}", ticket.display())));
    wait_until("some of it has come", || scratch.parts("a") > 0);
    network.configure("n", "link set peer down\n");
    kill(sender);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(receiver.try_wait().unwrap(), None, "it gives up at once");
    let sender = send();
    network.configure("n", "link set peer up\n");
    finish_well(receiver);
    finish_well(sender);
    assert!(fs::read(into.join("file")).unwrap() == contents(3_000_000));
}

#[test]
fn a_stranger_where_the_sender_was_makes_no_receiver_give_up() {
    for more in [&[][..], &["--plain"]] {
        let scratch = Scratch::new();
        let (file, kept) = (scratch.file("file", 3_000_000), scratch.path("kept"));
        let args = [&["--rate", "20M", "--session", path(&kept), path(&file)], more].concat();
        let sender = scratch.send(&args);
        let receiver = scratch.receive("a", &["--json"]);
        wait_until("some of it has come", || scratch.parts("a") > 0);
        let ticket = scratch.ticket();
        kill(sender);
        let stranger = TcpListener::bind(ticket.control[0]).unwrap();
        stranger.set_nonblocking(true).unwrap();
        let (mut answers, begun) = (0, Instant::now());
        while answers < 2 && begun.elapsed() < Duration::from_secs(60) {
            match stranger.accept() {
                Ok((mut asker, _)) => {
                    asker.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n").unwrap();
                    answers += 1;
                }
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        assert_eq!(answers, 2, "it asks again: {more:?}");
        drop(stranger);
        let sender = scratch.send_anew(&args);
        let told = finish_well(receiver);
        finish_well(sender);
        assert!(fs::read(scratch.path("a/file")).unwrap() == contents(3_000_000), "{more:?}");
        assert_eq!(told.matches(r#""event":"announced""#).count(), 1, "{told}");
    }
}

/// Whoever comes while somebody is still at work is told of all, over or not.
#[test]
fn a_late_receiver_gets_what_is_over() {
    let scratch = Scratch::new();
    for number in 0..100 {
        scratch.file(&format!("set/{number:03}"), 3000 + number);
    }
    scratch.file("set/zlarge", 8_000_000);
    let set = scratch.path("set");
    let sender = scratch.send(&["--rate", "20M", "--block", "1420", path(&set)]);
    let first = scratch.receive("a", &[]);
    wait_until("the small ones are over", || scratch.path("a/set/099").exists());
    std::thread::sleep(std::time::Duration::from_millis(300));
    finish_well(scratch.receive("b", &[]));
    finish_well(first);
    finish_well(sender);
    for number in 0..100 {
        let name = format!("b/set/{number:03}");
        assert!(fs::read(scratch.path(&name)).unwrap() == contents(3000 + number), "{name}");
    }
    assert!(fs::read(scratch.path("b/set/zlarge")).unwrap() == contents(8_000_000));
}
