//! Receivers that are killed and started again fetch only what they lack.

use std::{fs, process::Command};

use crate::{
    child::Teller,
    session::{Guarded, Scratch, all_well, assert_says, fetched, finish, finish_well, wait_until},
};
use serde_json::Value;

/// A receiver that stands still, so that nothing is done before it goes on.
fn stand_still(scratch: &Scratch) -> Guarded {
    let steady = scratch.receive_into_file("steady", "", "told-by-steady");
    wait_until("it is there", || scratch.has_told("told-by-steady", "joined"));
    steady.signal(libc::SIGSTOP);
    steady
}

/// Starts a receiver and kills it when its progress is enough. Returns that progress, or none when the receiver ended before.
fn kill_when(command: &mut Command, is_enough: impl Fn(&Value) -> bool) -> Option<Value> {
    let mut receiver = Teller::start(command);
    let event = receiver
        .wait_for(|event| event["event"] == "done" || event["event"] == "progress" && is_enough(event));
    if event["event"] == "progress" {
        return Some(event);
    }
    assert_eq!(receiver.wait(), Some(0));
    None
}

/// Starts a receiver in folder `into` and kills it when it has fetched `bytes` more; returns what it had fetched by
/// then, or none when it ended before.
fn kill_after(scratch: &Scratch, into: &str, bytes: u64) -> Option<u64> {
    let mut command = scratch.receive_command(into, ["--json", "--name", into, "@ticket"]);
    kill_when(&mut command, |event| fetched(event) >= bytes).map(|event| fetched(&event))
}

/// What the receiver of this name says at its end, which is to come.
fn done(scratch: &Scratch, name: &str) -> Value {
    let receiver = Teller::start(&mut scratch.receive_command(name, ["--json", "--name", name, "@ticket"]));
    receiver.end().0
}

/// A carousel tells nobody what it lacks: it takes what it has not from the next loop.
#[test]
fn a_carousels_receiver_that_was_killed_fetches_what_it_lacks() {
    let scratch = Scratch::new();
    let size = files(&scratch);
    let mut sender = scratch.send("--repair carousel --rate 40M --block 1400 large other");
    let (mut had, mut lost) = (0, 0);
    for more in [5_000_000, 6_000_000] {
        let mut command = scratch.receive_command("a", "--json @ticket");
        let killed = kill_when(&mut command, |event| event["bytes"].as_u64() >= Some(had + more));
        let killed = killed.expect("it lacks the rest");
        lost += had.saturating_sub(killed["kept_bytes"].as_u64().unwrap());
        had = killed["bytes"].as_u64().unwrap();
    }
    let done = done(&scratch, "a");
    lost += had.saturating_sub(done["kept_bytes"].as_u64().unwrap());
    sender.end();
    // What had come and was not on the disk yet: little, and more on a busy machine. Without a journal it would be 16 MB.
    assert!(had > 10_000_000 && lost < size / 2, "{lost} of {had} bytes: {done}");
    assert_files(&scratch);
}

const FILES: [(&str, usize); 2] = [("large", 14_000_000), ("other", 8_000_003)];

/// Makes the files of a session. Returns their size in all.
fn files(scratch: &Scratch) -> u64 {
    scratch.files(&FILES);
    FILES.iter().map(|(_, size)| *size as u64).sum()
}

fn assert_files(scratch: &Scratch) {
    scratch.assert_files("a", &FILES);
    assert_eq!(scratch.names("a"), ["large", "other"], "nothing else is left");
}

/// Small files are kept in memory until they are whole; a killed receiver loses no more by that.
#[test]
fn of_many_small_files_next_to_nothing_is_fetched_twice() {
    let scratch = Scratch::new();
    let files: Vec<_> = (0..1200).map(|number| (format!("set/{number:04}"), 7000 + number)).collect();
    scratch.files(&files);
    let bytes = files.iter().map(|(_, len)| *len as u64).sum::<u64>();
    let sender = scratch.send("--rate 30M --block 1420 --wait 2 set");
    let steady = stand_still(&scratch);
    let mut sum = 0;
    for limit in [1_000_000, 2_000_000] {
        sum += kill_after(&scratch, "a", limit).unwrap();
    }
    steady.signal(libc::SIGCONT);
    let last = done(&scratch, "a");
    sum += fetched(&last);
    assert!(sum <= bytes + bytes / 50, "{sum} of {bytes} bytes: {last}");
    finish_well(steady);
    finish(sender);
    scratch.assert_files("a", &files);
    assert_eq!(scratch.names("a"), ["set"], "nothing else is left");
}

/// Objects that were done before a receiver came again are not sent any more; it has them.
#[test]
fn what_was_whole_before_a_receiver_came_again_is_not_lacking() {
    let scratch = Scratch::new();
    let mut files: Vec<_> =
        (0..20).map(|number| (format!("set/small{number:02}"), 20_000 + number)).collect();
    files.push(("set/zlarge".to_owned(), 8_000_000));
    scratch.files(&files);
    let sender = scratch.send("--rate 40M --block 1420 --wait 2 set");
    let steady = scratch.receive("steady", "");
    kill_after(&scratch, "a", 3_000_000).unwrap();
    assert!(scratch.path("a/set/small19").exists(), "the small ones are whole by now");
    let last = done(&scratch, "a");
    finish_well(steady);
    finish(sender);
    assert!(last["objects"] == 22 && last["kept_bytes"].as_u64().unwrap() > 1_500_000, "{last}");
    scratch.assert_files("a", &files);
}

/// A machine that is shut down, or a person who presses Ctrl-C, throws nothing away.
#[test]
fn a_receiver_that_is_told_to_stop_keeps_what_came_and_says_how_to_go_on() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let scratch = Scratch::with_files(&[("file", 8_000_000), ("small", 30_000)]);
        let sender = scratch.send("--rate 20M --block 1420 --wait 2 small file");
        let steady = stand_still(&scratch);
        let mut command = scratch.receive_command("a", "--json --name a @ticket");
        let mut stopped = Teller::start(command.stderr(fs::File::create(scratch.path("errors")).unwrap()));
        let came = |event: &Value| event["event"] == "progress" && event["bytes"].as_u64() > Some(3_000_000);
        stopped.wait_for(came);
        stopped.child.signal(signal);
        let last = stopped.next("done");
        assert_eq!(last["failed"], 0, "what is kept has not failed: {last}");
        let kept = last["unfinished_bytes"].as_u64().unwrap();
        assert_eq!((stopped.wait(), kept > 2_000_000), (Some(1), true), "{last}");
        let words =
            ["interrupted", "1 file had come whole", "MiB of incomplete files are kept in", "--discard"];
        assert_says(&scratch.told("errors"), &words);
        assert!(scratch.parts("a") == 1 && scratch.path("a/small").exists());
        steady.signal(libc::SIGCONT);
        let last = done(&scratch, "a");
        assert!(last["kept_bytes"].as_u64().unwrap() >= kept, "{kept} are not fetched again: {last}");
        finish_well(steady);
        finish(sender);
        scratch.assert_file("a/file", 8_000_000);
        assert_eq!(scratch.names("a"), ["file", "small"], "nothing else is left");
    }
}

#[test]
fn receivers_in_one_folder_leave_each_others_files_alone() {
    let scratch = Scratch::with_file("file", 1_000_000);
    let sender = scratch.send("--rate 4M --block 1420 file");
    let mut killed = scratch.receive("a", "");
    scratch.wait_for_part("a");
    let living = scratch.receive("a", "");
    wait_until("both are at it", || scratch.parts("a") == 2);
    killed.end();
    assert_eq!(scratch.parts("a"), 2, "a killed process cleans nothing up");
    let third = scratch.receive("a", "");
    all_well([living, third]);
    assert_eq!(scratch.names("a"), ["file"]);
    // The third has gone on as the one that was killed.
    finish_well(sender);
}

#[test]
fn what_comes_after_the_machine_was_down_is_looked_at_again() {
    let scratch = Scratch::with_file("file", 3_000_000);
    let sender = scratch.send("--rate 20M --block 1420 --wait 2 file");
    let steady = scratch.receive("steady", "");
    kill_after(&scratch, "a", 1_000_000).unwrap();
    // What a machine that lost its power may leave: a journal, and zeros where the bytes were.
    let part = fs::File::options().write(true).open(scratch.part("a")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&part, &[0; 100_000], 50_000).unwrap();
    let last = done(&scratch, "a");
    finish_well(steady);
    finish(sender);
    assert!(last["kept_bytes"].as_u64().unwrap() > 900_000, "{last}");
    scratch.assert_file("a/file", 3_000_000);
}
