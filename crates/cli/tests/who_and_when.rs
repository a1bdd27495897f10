//! When a session starts, and with whom.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::{
    child::Teller,
    session::{Scratch, all_well, finish_well, start},
};

#[test]
fn a_session_starts_at_its_time_and_who_comes_later_catches_up() {
    let scratch = Scratch::with_file("file", 600_000);
    let begun = Instant::now();
    let args = "--json --start-at +2s --wait 2 --wait-timeout 1 --wait-at-least 1 --rate 2M file";
    let mut sender = Teller::of(scratch.send(args));
    let early = scratch.receive("early", "");
    sender.next("joined");
    sender.next("started");
    // The time of --wait-timeout has begun at the set one.
    assert!(begun.elapsed() >= Duration::from_millis(2_900), "{:?}", begun.elapsed());
    let late = scratch.receive("late", "");
    all_well([early, late]);
    ["early/file", "late/file"].iter().for_each(|copy| scratch.assert_file(copy, 600_000));
    sender.end();
}

/// The sender of each of these was to wait for three receivers, and one is there.
#[test]
fn a_session_that_waits_starts_when_it_is_told_to() {
    for way in ["signal", "status", "number"] {
        let scratch = Scratch::with_file("file", 1000);
        fs::create_dir(scratch.path("run")).unwrap();
        let command = |args: &str| {
            let mut command = scratch.command(args);
            command.env("XDG_RUNTIME_DIR", scratch.path("run"));
            command
        };
        let send = "send --json --interface lo --wait 3 --wait-timeout never --ticket-file ticket file";
        let mut sender = Teller::start(&mut command(send));
        sender.next("ticket");
        scratch.wait_for_ticket();
        let receiver = scratch.receive("a", "");
        sender.next("joined");
        // As root, the status of all users is found, that of other tests as well.
        let pid = sender.child.id();
        let status = |args: &str| finish_well(start(&mut command(&format!("status {args} {pid}"))));
        match way {
            "signal" => sender.child.signal(libc::SIGUSR1),
            "status" => assert_eq!(status("--start"), "the sender starts\n"),
            _ => {
                assert_eq!(status("--wait 7"), "the sender waits for 7 receivers now\n");
                let waits = sender.next("waits_for");
                assert_eq!((&waits["joined"], &waits["wanted"]), (&1.into(), &7.into()));
                status("--wait 1");
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
    let scratch = Scratch::with_file("file", 1000);
    let words = ["0 of 1 receiver came within 1 s", "--wait-timeout", "`treecast send --resume "];
    scratch.refuses("send --interface lo --wait-timeout 1 file", &words);
    scratch.refuses("send --interface lo --repair local --wait-timeout 1 file", &words[..1]);
}
