//! Senders that are killed and started again go on with their session.

use std::{
    fs,
    io::Write as _,
    net::TcpListener,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::Path,
    time::Duration,
};

use crate::{
    child::Teller,
    mroute_network::Network,
    session::{
        Guarded, Scratch, all_well, assert_says, fetched, finish, finish_well, finish_with, last_event, path,
        refused, start, wait_until,
    },
};
use serde_json::Value;

/// Kills a sender and starts it again with the same arguments.
fn again(scratch: &Scratch, sender: Guarded, args: &str) -> Guarded {
    drop(sender);
    scratch.send_anew(args)
}

#[test]
fn a_ticket_is_good_for_the_sender_that_is_started_again() {
    for more in ["--wait 1", "--plain", "--fanout unicast", "--repair carousel --idle 1"] {
        let scratch = Scratch::with_file("file", 300_000);
        let args = format!("--rate 20M --session kept file {more}");
        let first = scratch.send(&args);
        let ticket = scratch.told("ticket");
        let mut second = again(&scratch, first, &args);
        assert_eq!(scratch.told("ticket"), ticket, "{more}");
        finish_well(scratch.receive("a", ""));
        // Not every sender sees on the loopback interface that nobody listens any more.
        second.end();
        scratch.assert_file("a/file", 300_000);
    }
}

#[test]
fn a_session_goes_on_without_having_thought_of_it_before() {
    const SIZE: usize = 6_000_000;
    for (signal, more) in
        [(libc::SIGINT, ""), (libc::SIGTERM, "--plain"), (libc::SIGKILL, "--fanout unicast")]
    {
        let scratch = Scratch::with_file("file", SIZE);
        let sender = scratch.send(format!("--rate 20M --block 1420 file {more}"));
        let receiver = scratch.receive("a", "--json");
        scratch.wait_for_part("a");
        sender.signal(signal);
        let told = finish(sender).1;
        let advice = format!(
            "`treecast send --resume {:08x}` goes on with the same ticket",
            scratch.ticket().session.0
        );
        assert_eq!(told.contains(&advice), signal != libc::SIGKILL, "{told}");
        let sessions = scratch.path("state/treecast/sessions");
        let [kept] = &scratch.names("state/treecast/sessions")[..] else { panic!("one session is kept") };
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let kept = sessions.join(kept);
        let modes = [mode(&sessions), mode(&kept), mode(&kept.join("session")), mode(&kept.join("command"))];
        assert_eq!(modes, [0o700, 0o700, 0o600, 0o600]);
        let again = start(scratch.command("send --resume --rate 40M").current_dir("/"));
        let done = last_event(&finish_well(receiver), "done");
        assert_says(&finish_well(again), &[scratch.told("ticket").trim()]);
        let fetched = fetched(&done);
        assert!((SIZE as u64..=SIZE as u64 * 51 / 50).contains(&fetched), "{fetched} of {SIZE}: {done}");
        scratch.assert_file("a/file", SIZE);
        assert_eq!(scratch.names("state/treecast/sessions"), [""; 0], "everybody has everything");
        scratch.refuses("send --resume", &["no session is kept", path(&sessions)]);
    }
}

/// `--resume` is not promised where it would end as before.
#[test]
fn going_on_is_told_of_only_where_it_brings_something() {
    let scratch = Scratch::with_file("tree/good", 1000);
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    fs::write(scratch.path("tree").join(name), "x").unwrap();
    let sender = scratch.send("tree");
    finish_well(scratch.receive("a", ""));
    let told = finish_with(3, sender);
    assert!(told.contains("its name cannot be sent") && !told.contains("--resume"), "{told}");

    let file = scratch.file("file", 3_000_000);
    // It takes 24 s, so that it is cut while it is sent.
    let sender = scratch.send_anew("--rate 1M --block 1420 file");
    let receiver = scratch.receive("b", "");
    scratch.wait_for_part("b");
    fs::File::options().write(true).open(&file).unwrap().set_len(1000).unwrap();
    finish_with(3, receiver);
    let told = finish_with(3, sender);
    assert!(told.contains("became shorter") && !told.contains("--resume"), "{told}");

    let unwanted = "send --interface lo --session kept.session --wait-timeout 1 file";
    scratch.refuses(unwanted, &["0 of 1 receiver came within 1 s"]);
    let advice = "`treecast send --session kept.session FILE`";
    scratch.refuses("send --resume kept.session", &["is a file of --session", advice]);
}

/// A profile that has changed, or gone, changes no session that has begun with it.
#[test]
fn a_session_of_a_profile_goes_on_as_it_began() {
    const SIZE: usize = 3_000_000;
    let scratch = Scratch::with_file("file", SIZE);
    let config = scratch.path("treecast/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(&config, "[profile.lab]\nrate = \"20M\"\nblock = 1420\nplain = true\n").unwrap();
    let send = |args: &str| {
        let mut command = scratch.command(format!("send {args}"));
        command.env("XDG_CONFIG_HOME", scratch.path(""));
        command
    };
    let sender = scratch.send_by(&mut send("--profile lab --interface lo --ticket-file ticket file"));
    let receiver = scratch.receive("a", "--json");
    scratch.wait_for_part("a");
    drop(sender);
    fs::write(&config, "[send]\nrate = \"none\"\n").unwrap();
    let [session] = &*scratch.names("state/treecast/sessions") else { panic!("one session is kept") };
    let kept = scratch.told(&format!("state/treecast/sessions/{session}/command"));
    assert!(kept.contains("\0--plain\0"), "{kept:?}");
    refused(&mut send("--resume --profile lab"), &["--resume", "--profile"]);
    let again = start(&mut send("--resume"));
    finish_well(receiver);
    assert_says(&finish_well(again), &[scratch.told("ticket").trim()]);
    scratch.assert_file("a/file", SIZE);
}

#[test]
fn one_of_several_sessions_that_can_go_on_is_named() {
    let scratch = Scratch::new();
    let senders = ["first", "second"].map(|name| {
        scratch.file(name, 1000);
        _ = fs::remove_file(scratch.path("ticket"));
        (scratch.send([name]), scratch.told("ticket"))
    });
    scratch.refuses("send --resume second", &["has a sender that runs", "end that one first"]);
    let tickets = senders.map(|(_killed, ticket)| ticket);
    let words = ["several sessions can go on", "(first, of ", "(second, of ", "--resume"];
    scratch.refuses("send --resume", &words);
    scratch.refuses("send --resume third", &["no kept session is called \"third\"", "(first, of "]);
    for (name, ticket) in [("first", &tickets[0]), (tickets[1].trim(), &tickets[1])] {
        let again = start(&mut scratch.command(["send", "--resume", name]));
        fs::write(scratch.path("ticket"), ticket).unwrap();
        finish_well(scratch.receive("a", ""));
        assert_says(&finish_well(again), &[ticket.trim()]);
    }
    assert_eq!(scratch.names("a"), ["first", "second"]);
}

#[test]
fn no_state_is_kept_of_a_session_that_is_to_leave_none() {
    let scratch = Scratch::with_file("file", 1000);
    drop(scratch.send("--session none file"));
    assert_eq!(scratch.names("state/treecast/sessions"), [""; 0]);
}

#[test]
fn a_session_goes_on_with_what_it_began_with_or_not_at_all() {
    let scratch = Scratch::with_file("file", 1000);
    let refuse = |args: &str, words: &[&str]| {
        scratch.refuses(format!("send --interface lo --session kept {args}"), words);
    };
    let sender = scratch.send("--session kept file");
    refuse("file", &["in use"]);
    drop(sender);
    refuse("--plain file", &["began with security;", "kept"]);
    refuse("--fanout unicast file", &["began with fanout multicast;", "--session"]);
    refuse("--control 127.0.0.1:1 file", &["--control"]);
    refuse("--feed -", &["--feed", "--session"]);
    refuse("--dialect iotup file", &["--session"]);
    scratch.file("file", 1001);
    refuse("file", &["has changed", "kept"]);
}

#[test]
fn a_session_whose_ticket_has_expired_does_not_go_on() {
    let scratch = Scratch::with_file("file", 1000);
    let args = "--expires 1s --session kept file";
    drop(scratch.send(args));
    std::thread::sleep(Duration::from_secs(2));
    let words = ["ticket", "kept", "ago by this host's clock", "nobody can join", "--session"];
    scratch.refuses(format!("send --interface lo {args}"), &words);
}

#[test]
fn other_rates_are_taken_and_told() {
    let scratch = Scratch::with_file("file", 1000);
    let sender = scratch.send("--rates 8M,2M --session kept file");
    let sender = again(&scratch, sender, "--rates 9M,1M --session kept file");
    finish_well(scratch.receive("a", ""));
    let told = finish_well(sender);
    assert_says(&told, &["began with rates 8000000,2000000: it goes on with 9000000,1000000"]);
    scratch.refuses("send --interface lo --session kept file", &["began with rates 8000000,2000000;"]);
}

/// How many bytes of the first object have been multicast, by the session file `kept`.
fn marked(scratch: &Scratch) -> u64 {
    let text = scratch.told("kept");
    let marks = text.lines().filter_map(|line| line.strip_prefix("sent 0 "));
    marks.filter_map(|end| end.parse().ok()).max().unwrap_or(0)
}

#[test]
fn receivers_come_back_to_a_sender_that_was_killed_and_fetch_nothing_much_twice() {
    for more in ["--repair nack", "--repair after", "--plain", "--fec 10%"] {
        let scratch = Scratch::new();
        let sizes = [("large", 9_000_000), ("other", 3_000_001), ("small", 20_000), ("empty", 0)];
        scratch.files(&sizes);
        let args = format!("--rate 40M --block 1420 --wait 2 --session kept {more} large other small empty");
        let mut sender = scratch.send(&args);
        let receivers = ["a", "b"].map(|name| scratch.receive(name, "--json"));
        for bytes in [2_000_000, 7_000_000] {
            wait_until("some of it is out", || marked(&scratch) > bytes);
            sender = again(&scratch, sender, &args);
        }
        let total: u64 = sizes.iter().map(|(_, size)| *size as u64).sum();
        for (name, receiver) in ["a", "b"].into_iter().zip(receivers) {
            let done = last_event(&finish_well(receiver), "done");
            let fetched = fetched(&done);
            let is_little = (total..=total + total / 50).contains(&fetched);
            assert!(is_little, "{more} {name}: {fetched} of {total}: {done}");
            assert_eq!((&done["objects"], &done["failed"]), (&4.into(), &0.into()), "{done}");
            scratch.assert_files(name, &sizes);
            assert_eq!(scratch.names(name).len(), 4, "nothing else is left");
        }
        finish_well(sender);
    }
}

#[test]
fn a_sender_that_goes_on_counts_only_what_it_sends_itself() {
    const SIZE: usize = 6_000_000;
    let scratch = Scratch::with_file("file", SIZE);
    let args = "--rate 20M --json --session kept file";
    let sender = scratch.send(args);
    let receiver = scratch.receive("a", "");
    wait_until("more than a megabyte is out", || marked(&scratch) >= 1_000_000);
    let sender = again(&scratch, sender, args);
    finish_well(receiver);
    let done = last_event(&finish_well(sender), "done");
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
    for more in ["", "--plain"] {
        let scratch = Scratch::with_files(&[("first", 300_000), ("second", 2_000_000)]);
        let sender =
            scratch.send(format!("--rate 20M --block 1420 --at-once 1 --wait 2 {more} first second"));
        let steady = scratch.receive("steady", "");
        let killed = scratch.receive("a", "");
        wait_until("the first is there", || scratch.path("a/first").exists());
        drop(killed);
        finish_well(steady);
        let done = last_event(&finish_well(scratch.receive("a", "--json")), "done");
        assert!(done["kept_bytes"].as_u64().unwrap() >= 300_000, "{done}");
        finish_well(sender);
        scratch.assert_file("a/second", 2_000_000);
    }
}

/// Nothing may be stored yet when the sender is killed, and the receiver after it.
#[test]
fn a_receiver_that_came_back_and_is_killed_then_is_the_same_when_it_is_started_again() {
    for more in ["", "--plain"] {
        let scratch = Scratch::with_file("file", 300_000);
        let args = format!("--wait 2 --session kept {more} file");
        let sender = scratch.send(&args);
        let mut receiver = Teller::start(&mut scratch.receive_command("a", "--json @ticket"));
        receiver.next("joined");
        std::thread::sleep(Duration::from_millis(300));
        let sender = again(&scratch, sender, &args);
        receiver.next("joined");
        std::thread::sleep(Duration::from_millis(300));
        drop(receiver);
        all_well(["a", "b"].map(|name| scratch.receive(name, "")));
        finish_well(sender);
        scratch.assert_file("a/file", 300_000);
    }
}

/// Starts a session of two receivers, of which the second stands still when the sender is killed and started again.
fn with_one_silent(scratch: &Scratch, more: &str) -> (Guarded, Guarded) {
    scratch.file("file", 3_000_000);
    let args = format!("--rate 20M --wait 2 --session kept file {more}");
    let sender = scratch.send(&args);
    let [steady, silent] = ["a", "b"].map(|name| scratch.receive(name, ""));
    wait_until("some of it is out", || marked(scratch) > 0);
    silent.signal(libc::SIGSTOP);
    let sender = again(scratch, sender, &args);
    finish_well(steady);
    (sender, silent)
}

#[test]
fn a_sender_that_is_started_again_waits_for_who_has_not_heard_of_that_yet() {
    for more in ["", "--plain"] {
        let scratch = Scratch::new();
        let (mut sender, silent) = with_one_silent(&scratch, &format!("--linger 0 {more}"));
        std::thread::sleep(Duration::from_secs(2));
        assert!(sender.try_wait().unwrap().is_none(), "{more}: it has not waited");
        silent.signal(libc::SIGCONT);
        all_well([silent, sender]);
        scratch.assert_file("b/file", 3_000_000);
    }
}

#[test]
fn who_does_not_come_back_to_a_sender_that_was_started_again_is_named() {
    let scratch = Scratch::new();
    let (sender, _silent) = with_one_silent(&scratch, "--json --stall-limit 10");
    let done = last_event(&finish_with(3, sender), "done");
    let failures = |receiver: &&Value| receiver["failures"].to_string().contains("has not come back");
    assert_eq!(done["receivers"].as_array().unwrap().iter().filter(failures).count(), 1, "{done}");
}

#[test]
fn a_receiver_looks_for_its_sender_over_a_link_that_is_down_for_a_while() {
    let scratch = Scratch::new();
    let network = Network::new(&["n", "peer"]);
    network.connect(1, "n", "peer");
    scratch.file("file", 3_000_000);
    let send = || {
        _ = fs::remove_file(scratch.path("ticket"));
        let args = "send --interface lo --fanout unicast --rate 20M --session kept --ticket-file ticket file";
        let sender = network.start("n", &mut scratch.command(args));
        scratch.wait_for_ticket();
        sender
    };
    let sender = send();
    let mut receiver = network.start("n", &mut scratch.command("receive --interface peer --into a @ticket"));
    scratch.wait_for_part("a");
    network.configure("n", "link set peer down\n");
    drop(sender);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(receiver.try_wait().unwrap(), None, "it gives up at once");
    let sender = send();
    network.configure("n", "link set peer up\n");
    all_well([receiver, sender]);
    scratch.assert_file("a/file", 3_000_000);
}

#[test]
fn a_stranger_where_the_sender_was_makes_no_receiver_give_up() {
    for more in ["", "--plain"] {
        let scratch = Scratch::with_file("file", 3_000_000);
        let args = format!("--rate 20M --session kept file {more}");
        let sender = scratch.send(&args);
        let receiver = scratch.receive("a", "--json");
        scratch.wait_for_part("a");
        let ticket = scratch.ticket();
        drop(sender);
        let stranger = TcpListener::bind(ticket.control[0]).unwrap();
        stranger.set_nonblocking(true).unwrap();
        let mut answers = 0;
        wait_until("it has asked again", || {
            if let Ok((mut asker, _)) = stranger.accept() {
                asker.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n").unwrap();
                answers += 1;
            }
            answers == 2
        });
        drop(stranger);
        let sender = scratch.send_anew(&args);
        let told = finish_well(receiver);
        finish_well(sender);
        scratch.assert_file("a/file", 3_000_000);
        assert_eq!(told.matches(r#""event":"announced""#).count(), 1, "{told}");
    }
}

/// Whoever comes while somebody is still at work is told of all, over or not.
#[test]
fn a_late_receiver_gets_what_is_over() {
    let scratch = Scratch::new();
    let mut files: Vec<_> = (0..100).map(|number| (format!("set/{number:03}"), 3000 + number)).collect();
    files.push(("set/zlarge".to_owned(), 8_000_000));
    scratch.files(&files);
    let sender = scratch.send("--rate 20M --block 1420 set");
    let first = scratch.receive("a", "");
    wait_until("the small ones are over", || scratch.path("a/set/099").exists());
    std::thread::sleep(Duration::from_millis(300));
    finish_well(scratch.receive("b", ""));
    all_well([first, sender]);
    scratch.assert_files("b", &files);
}
