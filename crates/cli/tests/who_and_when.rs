//! When a session starts, and with whom.

use std::{
    fs,
    process::Stdio,
    time::{Duration, Instant},
};

use crate::{
    child::{SpawnGuarded, Teller},
    session::{Scratch, contents, finish_well, path, refused, start, treecast},
};

#[test]
fn a_session_starts_at_its_time_and_who_comes_later_catches_up() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 600_000);
    let begun = Instant::now();
    let args = [
        "--json",
        "--start-at",
        "+2s",
        "--wait",
        "2",
        "--wait-timeout",
        "1",
        "--wait-at-least",
        "1",
        "--rate",
        "2M",
    ];
    let mut sender = Teller::of(scratch.send(&[&args[..], &[path(&file)]].concat()));
    let early = scratch.receive("early", &[]);
    sender.next("joined");
    sender.next("started");
    // The time of --wait-timeout has begun at the set one.
    assert!(begun.elapsed() >= Duration::from_millis(2_900), "{:?}", begun.elapsed());
    let late = scratch.receive("late", &[]);
    for (name, receiver) in [("early", early), ("late", late)] {
        finish_well(receiver);
        assert!(fs::read(scratch.path(name).join("file")).unwrap() == contents(600_000), "{name}");
    }
    sender.end();
}

#[test]
fn a_start_that_cannot_be_is_refused_in_one_line() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 10);
    let refuse = |args: &[&str], words: &[&str]| {
        refused(treecast().args(["send", "--interface", "lo"]).args(args).arg(&file), words);
    };
    refuse(&["--start-at", "25:00"], &["--start-at", "22:00"]);
    refuse(&["--start-at", "2099-01-01 00:00"], &["--start-at", "within a year"]);
    refuse(&["--start-at", "+1m", "--repair", "carousel"], &["first listener", "leave out --start-at"]);
    refuse(&["--start-at", "+1m", "--repair", "local"], &["leave out --start-at"]);
}

/// The sender of each of these was to wait for three receivers, and one is there.
#[test]
fn a_session_that_waits_starts_when_it_is_told_to() {
    for way in ["signal", "status", "number"] {
        let scratch = Scratch::new();
        let file = scratch.file("file", 1000);
        let runtime = scratch.path("run");
        fs::create_dir(&runtime).unwrap();
        let ticket = scratch.path("ticket");
        let status = |args: &[&str]| {
            let mut command = treecast();
            command.arg("status").args(args).env("XDG_RUNTIME_DIR", &runtime);
            command
        };
        let mut command = scratch.treecast();
        command.args([
            "send",
            "--json",
            "--interface",
            "lo",
            "--wait",
            "3",
            "--wait-timeout",
            "never",
            "--ticket-file",
        ]);
        command.args([&ticket, &file]).env("XDG_RUNTIME_DIR", &runtime);
        let sender = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn_guarded();
        let mut sender = Teller::of(sender);
        sender.next("ticket");
        let receiver = scratch.receive("a", &[]);
        sender.next("joined");
        // As root, the status of all users is found, that of other tests as well.
        let pid = sender.child.id().to_string();
        match way {
            "signal" => sender.child.signal(libc::SIGUSR1),
            "status" => {
                assert_eq!(finish_well(start(&mut status(&["--start", &pid]))), "the sender starts\n")
            }
            _ => {
                let more = finish_well(start(&mut status(&["--wait", "7", &pid])));
                assert_eq!(more, "the sender waits for 7 receivers now\n");
                let waits = sender.next("waits_for");
                assert_eq!((&waits["joined"], &waits["wanted"]), (&1.into(), &7.into()));
                finish_well(start(&mut status(&["--wait", "1", &pid])));
            }
        }
        sender.next("waits_for");
        sender.next("started");
        finish_well(receiver);
        // The user has said that those who were there are enough.
        sender.end();
    }
}

#[test]
fn a_session_that_nobody_is_at_tells_when_it_gives_up() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 1000);
    let mut command = scratch.treecast();
    command.args(["send", "--interface", "lo", "--wait-timeout", "1", path(&file)]);
    refused(&mut command, &["0 of 1 receiver came within 1 s", "--wait-timeout", "`treecast send --resume "]);
    refused(scratch.treecast().args(["send", "--wait-timeout", "ever", path(&file)]), &["or never"]);
}
