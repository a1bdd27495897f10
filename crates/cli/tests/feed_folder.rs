//! `treecast feed DIR` as a user runs it.

use std::{
    fs::{self, File},
    io::Write,
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

use crate::session::{
    Arguments, Guarded, Scratch, assert_says, events, finish, finish_well, finish_with, last_event, refused,
    stop, wait_until,
};

fn feed_command(scratch: &Scratch, args: &str) -> Command {
    fs::create_dir_all(scratch.path("in")).unwrap();
    scratch.command(format!("feed --interface lo --json --ticket-file ticket {args} in"))
}

/// A sender of the folder `in`, whose events go to a file of this name.
fn feed(scratch: &Scratch, told: &str, args: &str) -> Guarded {
    _ = fs::remove_file(scratch.path("ticket"));
    let told = File::create(scratch.path(told)).unwrap();
    let mut command = feed_command(scratch, args);
    scratch.with_ticket(command.stdin(Stdio::null()).stdout(told.try_clone().unwrap()).stderr(told))
}

/// A file that was written a while ago.
fn old_file(scratch: &Scratch, name: &str, len: usize) {
    let path = scratch.file(name, len);
    let long_ago = SystemTime::now() - Duration::from_secs(60);
    File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
}

fn wait_for(scratch: &Scratch, folder: &str, name: &str) {
    wait_until(&format!("{name} is there"), || scratch.path(folder).join(name).exists());
}

/// A receiver whose events go to the file `came`.
fn receive_with_events(scratch: &Scratch) -> Guarded {
    scratch.receive_into_file("out", "", "came")
}

/// Waits until a program has told of so many events of a kind.
fn wait_for_events(scratch: &Scratch, file: &str, kind: &str, count: usize) {
    let kind = format!(r#""event":"{kind}""#);
    wait_until(&format!("{count} of {kind}"), || scratch.told(file).matches(&kind).count() >= count);
}

#[test]
fn each_file_is_sent_once_also_over_a_restart() {
    let scratch = Scratch::new();
    old_file(&scratch, "in/before", 1000);
    let sender = feed(&scratch, "first", "");
    let receiver = scratch.receive("out", "");
    wait_for(&scratch, "out", "before");
    scratch.file("in/new", 300_000);
    scratch.file("in/.hidden", 10);
    scratch.file("elsewhere", 10);
    fs::rename(scratch.path("elsewhere"), scratch.path("in/moved")).unwrap();
    scratch.file("in/below/it/deep", 10);
    for name in ["new", "moved", "below/it/deep"] {
        wait_for(&scratch, "out", name);
    }
    // A file that changes is sent again.
    scratch.file("in/new", 200);
    wait_until("it is new", || fs::metadata(scratch.path("out/new")).is_ok_and(|new| new.len() == 200));
    wait_for_events(&scratch, "first", "object", 5);
    stop(sender);
    finish(receiver);
    let stopped = scratch.told("first");
    assert!(stopped.contains("go out after the next start"), "{stopped}");
    assert_eq!(scratch.names("out"), ["before", "below", "moved", "new"]);
    scratch.file("in/meanwhile", 10);
    let mut sender = feed(&scratch, "second", "");
    let receiver = scratch.receive("again", "");
    wait_for(&scratch, "again", "meanwhile");
    sender.kill().unwrap();
    drop(receiver);
    assert_eq!(scratch.names("again").iter().filter(|name| !name.starts_with('.')).count(), 1);
}

#[test]
fn a_file_that_cannot_be_sent_is_not_removed_and_is_tried_again_after_a_restart() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("in")).unwrap();
    let refused =
        [OsStr::new("new\nline"), OsStr::from_bytes(b"\xff")].map(|name| scratch.path("in").join(name));
    refused.iter().for_each(|path| fs::write(path, "x").unwrap());
    for args in ["", "--remove"] {
        scratch.file("in/good", 10);
        let sender = feed(&scratch, "sent", args);
        let receiver = scratch.receive("out", "");
        wait_for_events(&scratch, "sent", "object", 1);
        wait_until("the others are told of", || scratch.told("sent").matches("not_sent").count() >= 2);
        sender.signal(15);
        finish(sender);
        finish(receiver);
        assert!(refused.iter().all(|path| path.exists()));
        assert_eq!(scratch.path("in/good").exists(), args.is_empty());
    }
}

/// With --session, a sender that is started again has the same ticket, and receivers that were there go on by themselves.
#[test]
fn a_feed_that_is_started_again_with_its_session_goes_on_with_its_receivers() {
    let scratch = Scratch::new();
    let start = || feed(&scratch, "sent", "--session session --wait 2");
    let sender = start();
    let first = scratch.told("ticket");
    let mut receivers = [scratch.receive("a", ""), scratch.receive("b", "")];
    let send = |name: &str| {
        scratch.file(&format!("in/{name}"), 300_000);
        ["a", "b"].iter().for_each(|folder| wait_for(&scratch, folder, name));
    };
    send("1");
    stop(sender);
    scratch.file("in/2", 300_000);
    let mut sender = start();
    assert_eq!(scratch.told("ticket"), first);
    ["a", "b"].iter().for_each(|folder| wait_for(&scratch, folder, "2"));
    sender.end();
    let sender = start();
    send("3");
    assert!(receivers.iter_mut().all(|receiver| receiver.try_wait().unwrap().is_none()), "they go on");
    for (receiver, folder) in receivers.into_iter().zip(["a", "b"]) {
        receiver.signal(2);
        let stopped = "is away: it was stopped, and may be started again; what came is kept";
        let words =
            [stopped, "is away: the connection was cut off; ", "for 120 s; --reconnect gives that time"];
        assert_says(&finish_with(1, receiver), &words);
        ["1", "2", "3"].iter().for_each(|name| scratch.assert_file(&format!("{folder}/{name}"), 300_000));
    }
    stop(sender);
    let done = last_event(&scratch.told("sent"), "done");
    let again: Vec<_> =
        done["receivers"].as_array().unwrap().iter().map(|one| &one["retransmitted_bytes"]).collect();
    let is_little = |again: &&serde_json::Value| again.as_u64().is_some_and(|again| again < 150_000);
    assert!(again.len() >= 2 && again.iter().all(is_little), "receivers get new files by multicast: {done}");
}

/// A file that was under way when the sender was killed goes out anew under another number. Its first part would stay for ever.
#[test]
fn nothing_stays_of_files_that_a_killed_sender_had_under_way() {
    let scratch = Scratch::new();
    let start = || feed(&scratch, "sent", "--session session --rate 8M");
    old_file(&scratch, "in/first", 3_000_000);
    let mut sender = start();
    let receiver = receive_with_events(&scratch);
    wait_until("a part is there", || scratch.parts("out") == 1);
    sender.end();
    let mut sender = start();
    wait_for(&scratch, "out", "first");
    assert_eq!(scratch.parts("out"), 0, "{:?}", scratch.names("out"));

    scratch.file("in/second", 3_000_000);
    wait_until("a part is there", || scratch.parts("out") == 1);
    sender.end();
    wait_until("it is told that the sender is away", || scratch.told("came").contains(r#""why":"away""#));
    receiver.signal(2);
    finish_with(1, receiver);
    let done = last_event(&scratch.told("came"), "done");
    assert_eq!((&done["objects"], &done["failed"]), (&1.into(), &1.into()), "{done}");
    // A receiver that is stopped keeps what came: the sender may come again.
    assert_eq!(scratch.parts("out"), 1, "{:?}", scratch.names("out"));
}

/// A receiver that was cut off comes again, to the next sender of the session if the first one is stopped meanwhile. What went out in
/// vain goes out after the next start. Without --session, the sender says that nobody gets it any more.
#[test]
fn a_feed_that_is_stopped_while_its_receivers_are_away_keeps_what_they_lack_for_the_next_start() {
    for (session, words) in [
        (true, "go out after the next start, also those that receivers lack"),
        (false, "1 of 1 receiver did not get what the table says"),
    ] {
        let scratch = Scratch::new();
        old_file(&scratch, "in/big", 2_000_000);
        let args = if session { "--rate 8M --session session" } else { "--rate 8M" };
        let sender = feed(&scratch, "first", args);
        let mut receiver = scratch.receive("out", "");
        wait_until("a part is there", || scratch.parts("out") == 1);
        receiver.end();
        wait_for_events(&scratch, "first", "left", 1);
        sender.signal(2);
        // With a session that is kept, nothing is lost.
        finish_with(if session { 0 } else { 3 }, sender);
        assert_says(&scratch.told("first"), &[words]);

        let sender = feed(&scratch, "second", args);
        let receiver = scratch.receive("out", "");
        scratch.file("in/last", 100);
        wait_for(&scratch, "out", "last");
        if session {
            wait_for(&scratch, "out", "big");
        }
        assert_eq!(scratch.path("out/big").exists(), session);
        stop(sender);
        drop(receiver);
    }
}

/// The first signal has what is under way finished, and receivers end well. The rest goes out after the next start.
#[test]
fn a_busy_feed_that_is_stopped_finishes_what_is_under_way() {
    let scratch = Scratch::new();
    let names = ["a", "b", "c", "d"];
    names.iter().for_each(|name| old_file(&scratch, &format!("in/{name}"), 1_500_000));
    let args = "--rate 8M --at-once 2";
    let sender = feed(&scratch, "sent", args);
    let receiver = receive_with_events(&scratch);
    wait_for_events(&scratch, "came", "announced", 2);
    sender.signal(2);
    let (code, said) = finish(receiver);
    assert_eq!(code, Some(0), "{said}");
    finish_well(sender);
    assert_says(&scratch.told("sent"), &["stopping when the 2 files are done"]);
    assert_eq!(scratch.names("out"), ["a", "b"]);

    let sender = feed(&scratch, "sent", args);
    let receiver = scratch.receive("out", "");
    for name in ["c", "d"] {
        wait_for(&scratch, "out", name);
    }
    stop(sender);
    finish_well(receiver);
}

/// What does not get done in the time for that is named at the receiver, and stays for the next start. A second signal ends the sender
/// at once.
#[test]
fn a_stopped_feed_ends_in_spite_of_what_does_not_get_done() {
    let scratch = Scratch::new();
    old_file(&scratch, "in/small", 10);
    let args = "--rate 500k";
    let mut sender = feed(&scratch, "sent", args);
    let receiver = receive_with_events(&scratch);
    wait_for(&scratch, "out", "small");
    scratch.file("in/large", 8_000_000);
    wait_for_events(&scratch, "came", "announced", 2);
    let since = std::time::Instant::now();
    sender.signal(15);
    finish_with(3, sender);
    let took = since.elapsed().as_secs();
    assert!((25..50).contains(&took), "{took} s");
    let (code, _) = finish(receiver);
    let came = events(&scratch.told("came"));
    let failed = came.iter().find(|event| event["event"] == "failed").expect("what is missing is named");
    assert_eq!(failed["name"], "large");
    assert_says(failed["reason"].as_str().unwrap(), &["it was stopped"]);
    assert_eq!(code, Some(1));

    sender = feed(&scratch, "sent", args);
    let mut receiver = receive_with_events(&scratch);
    wait_for_events(&scratch, "came", "announced", 1);
    sender.signal(15);
    std::thread::sleep(Duration::from_millis(2_500));
    sender.signal(15);
    assert!(finish(sender).0.is_none(), "the signal has ended it");
    receiver.kill().unwrap();
}

#[test]
fn a_file_is_sent_whole_however_long_its_writer_pauses() {
    let scratch = Scratch::new();
    let sender = feed(&scratch, "sent", "--remove");
    let receiver = scratch.receive("out", "");
    let mut slow = File::create(scratch.path("in/slow")).unwrap();
    slow.write_all(b"first half, ").unwrap();
    std::thread::sleep(Duration::from_millis(3500));
    // The sender looks at all files.
    scratch.file("in/x/other", 10);
    wait_for(&scratch, "out", "x/other");
    std::thread::sleep(Duration::from_millis(500));
    assert!(scratch.path("in/slow").exists() && !scratch.path("out/slow").exists());
    slow.write_all(b"second half").unwrap();
    drop(slow);
    wait_for(&scratch, "out", "slow");
    assert_eq!(fs::read(scratch.path("out/slow")).unwrap(), b"first half, second half");
    stop(sender);
    finish_well(receiver);
}

#[test]
fn a_receiver_takes_what_it_wants_under_its_own_names_and_in_batches() {
    let scratch = Scratch::new();
    let names = [
        ("radar/1", 300_000),
        ("radar/2", 10),
        ("radar/3.tmp", 10),
        ("model/large", 500_000),
        ("model/small", 10),
    ];
    names.iter().for_each(|(name, len)| old_file(&scratch, &format!("in/{name}"), *len));
    let sender = feed(&scratch, "sent", "--wait 2");
    let choosy = "--only radar/* --only model/* --not *.tmp --max-size 400k --rename radar/*=old/{name}.{}";
    let command = format!("sh -c 'echo $0 $# >> {}' batch {{}}", scratch.arg("list"));
    let choosy = [choosy.words(), ["--exec", &command, "--batch", "1"].words()].concat();
    let choosy = scratch.receive("choosy", choosy);
    let all = scratch.receive("all", "--rename model/small=.out");
    wait_until("the command has run", || scratch.told("list") == "batch 3\n");
    wait_for(&scratch, "all", "model/large");
    for name in ["old/1.radar/1", "old/2.radar/2", "model/small"] {
        assert!(scratch.path("choosy").join(name).exists(), "{name}");
    }
    assert!(!scratch.path("choosy/model/large").exists() && !scratch.path("choosy/radar").exists());
    wait_for_events(&scratch, "sent", "object", 5);
    sender.signal(15);
    // One receiver refuses a hidden name.
    finish_with(3, sender);
    finish_well(choosy);
    let (code, told) = finish(all);
    assert!(code != Some(0) && told.contains("hidden") && !scratch.path("all/.out").exists(), "{told}");
}

#[test]
fn a_receiver_that_was_away_gets_the_newest_files_that_it_has_missed() {
    let scratch = Scratch::new();
    let sender = feed(&scratch, "sent", "--keep 3 --remove");
    let receiver = scratch.receive("always", "");
    let mut away = scratch.receive("away", "");
    scratch.file("in/0", 300_000);
    for folder in ["always", "away"] {
        wait_for(&scratch, folder, "0");
    }
    away.end();
    for number in 1..=5 {
        scratch.file(&format!("in/{number}"), 200_000);
        wait_for(&scratch, "always", &number.to_string());
    }
    wait_until("old ones are removed", || scratch.names("in") == ["3", "4", "5"]);
    let away = scratch.receive("away", "");
    for number in 3..=5 {
        wait_for(&scratch, "away", &number.to_string());
    }
    assert!(!scratch.path("away/2").exists());
    sender.signal(15);
    // One receiver lacks two files.
    finish_with(3, sender);
    finish_well(receiver);
    finish(away);
    assert_eq!(scratch.names("in"), [""; 0], "they are done with");
}

#[test]
fn what_is_urgent_leaves_first_and_what_expires_is_given_up() {
    let scratch = Scratch::new();
    old_file(&scratch, "in/a-late", 4_000_000);
    old_file(&scratch, "in/b-usual", 1000);
    old_file(&scratch, "in/urgent/c", 1000);
    let rules = "[[rule]]\nnames = \"urgent/*\"\npriority = 9\n\n[[rule]]\nnames = \"*\"\npriority = 1\n";
    fs::write(scratch.path("rules"), rules).unwrap();
    let terms = "--rule a-*:expires=3s,retx-factor=2 --rules rules --rate 4M --at-once 1 --remove";
    let sender = feed(&scratch, "sent", terms);
    let receiver = receive_with_events(&scratch);
    wait_for_events(&scratch, "came", "failed", 1);
    wait_until("all files are removed", || {
        scratch.names("in") == ["urgent"] && scratch.names("in/urgent").is_empty()
    });
    sender.signal(15);
    finish_with(3, sender);
    finish(receiver);
    let came = events(&scratch.told("came"));
    let ended = came.iter().filter(|event| event["event"] == "object" || event["event"] == "failed");
    let names: Vec<_> = ended.map(|event| event["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["urgent/c", "b-usual", "a-late"]);
    ["sent", "came"].iter().for_each(|file| assert_says(&scratch.told(file), &["it has expired"]));
}

#[test]
fn an_urgent_file_passes_all_small_ones_that_wait() {
    let scratch = Scratch::new();
    (0..60).for_each(|number| old_file(&scratch, &format!("in/{number:02}"), 10_000));
    let sender = feed(&scratch, "sent", "--rule urgent:priority=1 --rate 1M --at-once 2");
    let receiver = receive_with_events(&scratch);
    let came = || -> Vec<_> {
        let came = events(&scratch.told("came")).into_iter().filter(|event| event["event"] == "object");
        came.map(|event| event["name"].clone()).collect()
    };
    wait_until("some have come", || came().len() >= 5);
    let before = came().len();
    scratch.file("in/urgent", 10_000);
    wait_for(&scratch, "out", "urgent");
    wait_until("that is told", || came().contains(&"urgent".into()));
    let at = came().iter().position(|name| name == "urgent").unwrap();
    // Two are under way, and some may leave while this test looks.
    assert!((before..before + 10).contains(&at), "{before} came before, and {at} in the end");
    stop(sender);
    finish(receiver);
}

#[test]
fn what_fills_a_folder_before_anybody_comes_waits_there() {
    let scratch = Scratch::new();
    let sender = feed(&scratch, "sent", "--spool-files 3 --remove");
    (0..10).for_each(|number| _ = scratch.file(&format!("in/{number}"), 10));
    wait_until("that is told", || scratch.told("sent").contains("no receiver has come yet, and at most 3"));
    assert_eq!(scratch.names("in").len(), 10);
    let receiver = scratch.receive("out", "");
    wait_until("all are sent", || scratch.names("in").is_empty());
    wait_until("all have come", || scratch.names("out").iter().filter(|name| name.len() == 1).count() == 10);
    sender.signal(15);
    let told = scratch.told("sent") + &finish_well(sender);
    assert!(!told.contains("dropped, the last"), "{told}");
    finish(receiver);
}

#[test]
fn a_folder_that_fills_loses_the_oldest_of_the_lowest_priority_and_says_so() {
    let scratch = Scratch::new();
    let args = "--spool-files 3 --rule kept-*:priority=1 --rule z:expires=1s --remove --rate 1M --at-once 1";
    let sender = feed(&scratch, "sent", args);
    let receiver = scratch.receive("out", "");
    scratch.file("in/large", 700_000);
    wait_until("it is being sent", || scratch.told("sent").contains(r#""objects":1"#));
    scratch.file("in/kept-0", 10);
    for number in 1..=8 {
        scratch.file(&format!("in/{number}"), 10);
    }
    scratch.file("in/z", 10);
    wait_until("files are dropped", || scratch.names("in") == ["8", "kept-0", "large", "z"]);
    fs::remove_file(scratch.path("in/8")).unwrap();
    wait_until("the others are sent", || scratch.names("in").is_empty());
    for name in ["large", "kept-0"] {
        wait_for(&scratch, "out", name);
    }
    assert!(!scratch.path("out/7").exists() && !scratch.path("out/8").exists());
    stop(sender);
    let told = scratch.told("sent");
    assert!(told.contains("at most 3 objects may wait; the oldest of the lowest priority went"), "{told}");
    let done = last_event(&told, "done");
    assert_eq!(done["dropped"], 7, "{told}");
    assert_eq!((&done["expired"], &done["not_sent"]), (&1.into(), &1.into()), "{told}");
    // What nobody could send fails nowhere, and the feed's end is no failure.
    finish_well(receiver);
}

#[test]
fn a_folder_is_looked_at_where_changes_are_not_told_and_belongs_to_one_sender() {
    let scratch = Scratch::new();
    let sender = feed(&scratch, "sent", "--poll --remove");
    refused(&mut feed_command(&scratch, ""), &["another sender watches", "in"]);
    let receiver = scratch.receive("out", "");
    scratch.file("in/one", 10);
    wait_for(&scratch, "out", "one");
    stop(sender);
    finish_well(receiver);
}

#[test]
fn what_is_excluded_stays_in_the_folder_whenever_it_comes() {
    let scratch = Scratch::new();
    for name in ["in/before.txt", "in/before.tmp", "in/cache/deep/before", "in/top/log", "in/below/top/log"] {
        old_file(&scratch, name, 100);
    }
    let sender = feed(&scratch, "sent", "--remove --exclude *.tmp --exclude cache/ --exclude=/top/log");
    let receiver = scratch.receive("out", "");
    wait_for(&scratch, "out", "before.txt");
    wait_for(&scratch, "out", "below/top/log");
    for name in ["in/after.tmp", "in/cache/after", "in/below/after.tmp", "in/below/after.txt"] {
        scratch.file(name, 100);
    }
    wait_for(&scratch, "out", "below/after.txt");
    wait_until("it is removed", || !scratch.path("in/below/after.txt").exists());
    sender.signal(15);
    finish(sender);
    finish(receiver);
    for name in ["before.tmp", "cache/deep/before", "top/log", "after.tmp", "cache/after", "below/after.tmp"]
    {
        assert!(scratch.path("in").join(name).exists(), "{name} is removed");
        assert!(!scratch.path("out").join(name).exists(), "{name} is sent");
    }
}
