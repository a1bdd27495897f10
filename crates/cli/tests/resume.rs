//! Receivers that are killed and started again fetch only what they lack.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use crate::session::{
    Guarded, Scratch, SpawnGuarded, contents, fetched, finish, finish_well, last_event, path, start,
    wait_until,
};
use serde_json::Value;
use treecast_proto::random::SplitMix64;

/// A receiver that stands still, so that nothing is done before it goes on.
fn stand_still(scratch: &Scratch) -> Guarded {
    let told = scratch.path("told-by-steady");
    let mut command = scratch.receive_command("steady");
    command.args(["--json", &format!("@{}", scratch.arg("ticket"))]).stdout(File::create(&told).unwrap());
    let steady = command.spawn_guarded();
    wait_until("it is there", || fs::read_to_string(&told).unwrap().contains(r#""event":"joined""#));
    steady.signal(libc::SIGSTOP);
    steady
}

/// Starts a receiver and kills it when its progress is enough. Returns that progress, or none when the receiver ended before.
fn kill_when(command: &mut Command, is_enough: impl Fn(&Value) -> bool) -> Option<Value> {
    let mut receiver = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn_guarded();
    for line in BufReader::new(receiver.stdout.take().unwrap()).lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if event["event"] == "progress" && is_enough(&event) {
            receiver.end();
            return Some(event);
        }
    }
    assert!(receiver.wait().unwrap().success());
    None
}

/// Starts a receiver in folder `into` and kills it when it has fetched `bytes` more; returns what it had fetched by
/// then, or none when it ended before.
fn kill_after(scratch: &Scratch, into: &str, bytes: u64) -> Option<u64> {
    let mut command = scratch.receive_command(into);
    command.args(["--json", "--name", into]).arg(format!("@{}", scratch.path("ticket").display()));
    kill_when(&mut command, |event| fetched(event) >= bytes).map(|event| fetched(&event))
}

/// What a receiver says at its end.
fn done(receiver: Guarded) -> Value {
    last_event(&finish_well(receiver), "done")
}

/// A carousel tells nobody what it lacks: it takes what it has not from the next loop.
#[test]
fn a_carousels_receiver_that_was_killed_fetches_what_it_lacks() {
    const SIZE: u64 = 22_000_003;
    let scratch = Scratch::new();
    let (files, size) = files(&scratch);
    assert_eq!(size, SIZE);
    let from: Vec<_> = files.iter().map(|(name, _)| scratch.path(name)).collect();
    let paths: Vec<_> = from.iter().map(|file| path(file)).collect();
    let mut sender =
        scratch.send(&[&["--repair", "carousel", "--rate", "40M", "--block", "1400"], &paths[..]].concat());
    let (mut had, mut lost) = (0, 0);
    for more in [5_000_000, 6_000_000] {
        let mut command = scratch.receive_command("a");
        command.arg("--json").arg(format!("@{}", scratch.path("ticket").display()));
        let killed = kill_when(&mut command, |event| event["bytes"].as_u64() >= Some(had + more));
        let killed = killed.expect("it lacks the rest");
        lost += had.saturating_sub(killed["kept_bytes"].as_u64().unwrap());
        had = killed["bytes"].as_u64().unwrap();
    }
    let done = done(scratch.receive("a", &["--json"]));
    lost += had.saturating_sub(done["kept_bytes"].as_u64().unwrap());
    sender.kill().unwrap();
    sender.wait().unwrap();
    // What had come and was not on the disk yet: little, and more on a busy machine. Without a journal it would be 16 MB.
    assert!(had > 10_000_000 && lost < SIZE / 2, "{lost} of {had} bytes: {done}");
    for (name, size) in &files {
        assert!(fs::read(scratch.path("a").join(name)).unwrap() == contents(*size), "{name}");
    }
    assert_eq!(scratch.names("a"), ["large", "other"], "nothing else is left");
}

/// Files of a session, and their size in all.
fn files(scratch: &Scratch) -> (Vec<(String, usize)>, u64) {
    let files = vec![("large".to_owned(), 14_000_000), ("other".to_owned(), 8_000_003)];
    for (name, size) in &files {
        scratch.file(name, *size);
    }
    let bytes = files.iter().map(|(_, size)| *size as u64).sum();
    (files, bytes)
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_receiver_that_is_killed_again_and_again_fetches_nothing_much_twice() {
    for (seed, repair) in [(1, "nack"), (2, "after"), (3, "nack")] {
        let scratch = Scratch::new();
        let (files, bytes) = files(&scratch);
        let (large, other) = (scratch.path("large"), scratch.path("other"));
        let sender = scratch.send(&[
            "--rate",
            "60M",
            "--block",
            "1420",
            "--repair",
            repair,
            "--wait",
            "2",
            path(&large),
            path(&other),
        ]);
        let steady = stand_still(&scratch);
        let mut random = SplitMix64(seed);
        let (mut sum, mut kills) = (0, 0);
        for _ in 0..4 {
            match kill_after(&scratch, "a", random.below(bytes / 4)) {
                Some(fetched) => (sum, kills) = (sum + fetched, kills + 1),
                None => break,
            }
        }
        steady.signal(libc::SIGCONT);
        let last = done(scratch.receive("a", &["--json", "--name", "a"]));
        sum += fetched(&last);
        // What went over the connection before a kill, and was told after the last progress, is not in the sum.
        assert!(
            kills == 4 && sum <= bytes + bytes / 50,
            "seed {seed}: {sum} of {bytes} bytes, {kills} kills: {last}"
        );
        finish_well(steady);
        finish(sender);
        for (name, size) in files {
            assert!(
                fs::read(scratch.path("a").join(&name)).unwrap() == contents(size),
                "seed {seed}: {name}"
            );
        }
        assert_eq!(scratch.names("a"), ["large", "other"], "nothing else is left");
    }
}

/// Small files are kept in memory until they are whole; a killed receiver loses no more by that.
#[test]
fn of_many_small_files_next_to_nothing_is_fetched_twice() {
    const FILES: usize = 1200;
    const LEN: usize = 7000;
    let scratch = Scratch::new();
    for number in 0..FILES {
        scratch.file(&format!("set/{number:04}"), LEN + number);
    }
    let bytes = (0..FILES).map(|number| (LEN + number) as u64).sum::<u64>();
    let set = scratch.path("set");
    let sender = scratch.send(&["--rate", "30M", "--block", "1420", "--wait", "2", path(&set)]);
    let steady = stand_still(&scratch);
    let mut sum = 0;
    for limit in [1_000_000, 2_000_000] {
        sum += kill_after(&scratch, "a", limit).unwrap();
    }
    steady.signal(libc::SIGCONT);
    // It says more than a pipe takes that nobody reads before the end.
    let told = scratch.path("told");
    let mut command = scratch.receive_command("a");
    command.args(["--json", "--name", "a"]).arg(format!("@{}", scratch.path("ticket").display()));
    let last = command.stdin(Stdio::null()).stdout(fs::File::create(&told).unwrap()).spawn_guarded();
    finish_well(last);
    let told = fs::read_to_string(told).unwrap();
    let last: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    sum += fetched(&last);
    assert!(sum <= bytes + bytes / 50, "{sum} of {bytes} bytes: {last}");
    finish_well(steady);
    finish(sender);
    for number in 0..FILES {
        let name = format!("a/set/{number:04}");
        assert!(fs::read(scratch.path(&name)).unwrap() == contents(LEN + number), "{name}");
    }
    assert_eq!(scratch.names("a"), ["set"], "nothing else is left");
}

/// Objects that were done before a receiver came again are not sent any more; it has them.
#[test]
fn what_was_whole_before_a_receiver_came_again_is_not_lacking() {
    let scratch = Scratch::new();
    for number in 0..20 {
        scratch.file(&format!("set/small{number:02}"), 20_000 + number);
    }
    scratch.file("set/zlarge", 8_000_000);
    let set = scratch.path("set");
    let sender = scratch.send(&["--rate", "40M", "--block", "1420", "--wait", "2", path(&set)]);
    let steady = scratch.receive("steady", &[]);
    kill_after(&scratch, "a", 3_000_000).unwrap();
    assert!(scratch.path("a/set/small19").exists(), "the small ones are whole by now");
    let last = done(scratch.receive("a", &["--json", "--name", "a"]));
    finish_well(steady);
    finish(sender);
    assert!(last["objects"] == 22 && last["kept_bytes"].as_u64().unwrap() > 1_500_000, "{last}");
    for number in 0..20 {
        let name = format!("a/set/small{number:02}");
        assert!(fs::read(scratch.path(&name)).unwrap() == contents(20_000 + number), "{name}");
    }
    assert!(fs::read(scratch.path("a/set/zlarge")).unwrap() == contents(8_000_000));
}

/// A machine that is shut down, or a person who presses Ctrl-C, throws nothing away.
#[test]
fn a_receiver_that_is_told_to_stop_keeps_what_came_and_says_how_to_go_on() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let scratch = Scratch::new();
        let file = scratch.file("file", 8_000_000);
        let small = scratch.file("small", 30_000);
        let args = ["--rate", "20M", "--block", "1420", "--wait", "2", path(&small), path(&file)];
        let sender = scratch.send(&args);
        let steady = stand_still(&scratch);
        let mut command = scratch.receive_command("a");
        command.args(["--json", "--name", "a"]).arg(format!("@{}", scratch.path("ticket").display()));
        let mut stopped =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn_guarded();
        let lines = BufReader::new(stopped.stdout.take().unwrap()).lines();
        let mut events = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let came = |event: &Value| event["event"] == "progress" && event["bytes"].as_u64() > Some(3_000_000);
        events.by_ref().find(came).expect("it lacks the rest");
        stopped.signal(signal);
        let last = events.last().unwrap();
        assert!(last["event"] == "done" && last["failed"] == 0, "what is kept has not failed: {last}");
        let kept = last["unfinished_bytes"].as_u64().unwrap();
        let (code, told) = finish(stopped);
        let folder = scratch.path("a").display().to_string();
        assert!(code == Some(1) && kept > 2_000_000, "{told}");
        for word in [
            "interrupted",
            "1 file had come whole",
            "MiB of incomplete files are kept in",
            &folder,
            "--discard",
        ] {
            assert!(told.contains(word), "{word:?} is not in {told:?}");
        }
        assert!(scratch.parts("a") == 1 && scratch.path("a/small").exists());
        steady.signal(libc::SIGCONT);
        let last = done(scratch.receive("a", &["--json", "--name", "a"]));
        assert!(last["kept_bytes"].as_u64().unwrap() >= kept, "{kept} are not fetched again: {last}");
        finish_well(steady);
        finish(sender);
        assert!(fs::read(scratch.path("a/file")).unwrap() == contents(8_000_000));
        assert_eq!(scratch.names("a"), ["file", "small"], "nothing else is left");
    }
}

#[test]
fn receivers_in_one_folder_leave_each_others_files_alone() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 1_000_000);
    let sender = scratch.send(&["--rate", "4M", "--block", "1420", path(&file)]);
    let mut killed = scratch.receive("a", &[]);
    wait_until("some of it has come", || scratch.parts("a") > 0);
    let living = scratch.receive("a", &[]);
    wait_until("both are at it", || scratch.parts("a") == 2);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(scratch.parts("a"), 2, "a killed process cleans nothing up");
    let third = scratch.receive("a", &[]);
    finish_well(living);
    finish_well(third);
    assert_eq!(scratch.names("a"), ["file"]);
    // The third has gone on as the one that was killed.
    finish_well(sender);
}

#[test]
fn what_comes_after_the_machine_was_down_is_looked_at_again() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 3_000_000);
    let sender = scratch.send(&["--rate", "20M", "--block", "1420", "--wait", "2", path(&file)]);
    let steady = scratch.receive("steady", &[]);
    kill_after(&scratch, "a", 1_000_000).unwrap();
    // What a machine that lost its power may leave: a journal, and zeros where the bytes were.
    let part = scratch.names("a").into_iter().find(|name| name.ends_with(".part")).unwrap();
    let part = fs::File::options().write(true).open(scratch.path("a").join(part)).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&part, &[0; 100_000], 50_000).unwrap();
    let last = done(start(
        scratch
            .receive_command("a")
            .args(["--json", "--name", "a"])
            .arg(format!("@{}", scratch.path("ticket").display())),
    ));
    finish_well(steady);
    finish(sender);
    assert!(last["kept_bytes"].as_u64().unwrap() > 900_000, "{last}");
    assert!(fs::read(scratch.path("a/file")).unwrap() == contents(3_000_000));
}
