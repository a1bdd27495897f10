//! Senders that are killed and started again go on with their session.

mod session;

use std::fs;

use session::{Scratch, contents, finish_well, path, refused, treecast};

/// Kills a sender and starts it again with the same arguments.
fn again(scratch: &Scratch, mut sender: std::process::Child, args: &[&str]) -> std::process::Child {
    sender.kill().unwrap();
    sender.wait().unwrap();
    scratch.send_anew(args)
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
        second.kill().unwrap();
        second.wait().unwrap();
        assert!(fs::read(scratch.path("a/file")).unwrap() == contents(300_000), "{more:?}");
    }
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
    sender.kill().unwrap();
    sender.wait().unwrap();
    refuse(&["--plain", path(&file)], &["--plain", path(&kept)]);
    refuse(&["--control", "127.0.0.1:1", path(&file)], &["--control"]);
    refuse(&["--feed", "-"], &["--feed", "--session"]);
    refuse(&["--dialect", "iotup", path(&file)], &["--session"]);
    scratch.file("file", 1001);
    refuse(&[path(&file)], &["has changed", path(&kept)]);
}
