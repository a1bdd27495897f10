//! When a session starts, and with whom.

mod child;
mod session;

use std::{
    fs,
    time::{Duration, Instant},
};

use child::Teller;
use session::{Scratch, contents, finish_well, path, refused, treecast};

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
