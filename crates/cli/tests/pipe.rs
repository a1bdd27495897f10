//! Streams from standard input to standard output, and programs that run for each file.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    process::{Command, Stdio},
};

use crate::session::{
    self, Guarded, Lab, Scratch, SpawnGuarded, contents, finish, finish_well, finish_with, start, treecast,
    wait_until,
};

/// A sender of what is written to it, which waits for so many receivers.
fn stream(scratch: &Scratch, wait: &str) -> Guarded {
    stream_with(scratch, &["--wait", wait])
}

fn stream_with(scratch: &Scratch, args: &[&str]) -> Guarded {
    let ticket = scratch.path("ticket");
    let mut command = treecast();
    command
        .args(["send", "-", "--interface", "lo", "--rate", "100M", "--ticket-file"])
        .arg(&ticket)
        .args(args);
    let sender = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn_guarded();
    wait_until("the ticket is written", || ticket.exists());
    sender
}

/// A receiver that writes to the file `name`.
fn outlet(scratch: &Scratch, name: &str, args: &[&str]) -> Guarded {
    let mut command = treecast();
    command.args(["receive", "--stdout", "--interface", "lo"]).args(args);
    command.arg(format!("@{}", scratch.path("ticket").display()));
    let file = File::create(scratch.path(name)).unwrap();
    command.stdin(Stdio::null()).stdout(file).stderr(Stdio::piped()).spawn_guarded()
}

fn read(scratch: &Scratch, name: &str) -> Vec<u8> {
    fs::read(scratch.path(name)).unwrap()
}

#[test]
fn a_stream_reaches_all_who_are_there_and_one_that_is_killed_harms_nobody() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("spool")).unwrap();
    let mut sender = stream(&scratch, "3");
    let spool = scratch.arg("spool");
    let receivers = ["a", "b"].map(|name| outlet(&scratch, name, &["--into", &spool]));
    let mut killed = outlet(&scratch, "c", &[]);
    let mut input = sender.stdin.take().unwrap();
    // More pieces than the sender keeps, so it waits for its receivers.
    let bytes = contents(80 << 20);
    input.write_all(&bytes[..4 << 20]).unwrap();
    wait_until("something has come", || !read(&scratch, "c").is_empty());
    killed.kill().unwrap();
    input.write_all(&bytes[4 << 20..]).unwrap();
    drop(input);
    receivers.into_iter().for_each(|receiver| drop(finish_well(receiver)));
    for name in ["a", "b"] {
        assert!(read(&scratch, name) == bytes, "{name}");
    }
    assert!(bytes.starts_with(&read(&scratch, "c")), "a pipe never gets a wrong byte");
    assert!(fs::read_dir(scratch.path("spool")).unwrap().next().is_none(), "nothing is left behind");
    finish_with(3, sender);
}

#[test]
fn a_tree_goes_through_pipes_to_ten_hosts_that_lose_packets_and_one_is_killed() {
    let (scratch, lab) = (Scratch::new(), Lab::up("tcp", "lan:clients=10,loss=5%,rate=100M"));
    let folder = scratch.path("");
    // Runs a line of shell on a node. `$T` is treecast.
    let run = |node: &str, line: &str| {
        let mut bash = lab.on(node, "bash");
        bash.args(["-o", "pipefail", "-c", line]).env("T", env!("CARGO_BIN_EXE_treecast"));
        start(bash.current_dir(&folder))
    };
    for (number, len) in [0, 1, 700, 65_536, 300_000].into_iter().cycle().take(100).enumerate() {
        scratch.file(&format!("tree/{}/{number}", number % 7), len);
    }
    std::os::unix::fs::symlink("../0/0", scratch.path("tree/1/link")).unwrap();
    let send = "tar c tree | $T send --rate 40M --wait 10 --ticket-file ticket -";
    let sender = run("server0", send);
    wait_until("the ticket is written", || scratch.path("ticket").exists());
    let names: Vec<_> = (0..9).map(|number| format!("client{number}")).collect();
    let receivers: Vec<_> = names
        .iter()
        .map(|name| {
            fs::create_dir(scratch.path(name)).unwrap();
            run(name, &format!("$T receive --stdout @ticket | tar x -C {name}"))
        })
        .collect();
    let mut killed = run("client9", "exec $T receive --stdout @ticket > part");
    wait_until("something has come", || scratch.path("part").metadata().is_ok_and(|part| part.len() > 0));
    killed.end();
    for (name, receiver) in names.iter().zip(receivers) {
        finish_well(receiver);
        let compare = format!("diff -r --no-dereference tree {name}/tree");
        finish_well(run(name, &compare));
    }
    finish_with(3, sender);
}

#[test]
fn the_folder_of_a_killed_receiver_is_removed_by_the_next_one() {
    let scratch = Scratch::new();
    let _sender = stream(&scratch, "9");
    let spool = scratch.arg("spool");
    let mut killed = outlet(&scratch, "a", &["--into", &spool]);
    let folders = || scratch.names("spool");
    wait_until("it has a folder", || scratch.path("spool").exists() && folders().len() == 1);
    let left = folders();
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(folders(), left);
    let next = outlet(&scratch, "b", &["--into", &spool]);
    wait_until("only the next one has a folder", || folders().len() == 1 && folders() != left);
    next.signal(15);
    finish(next);
    assert!(folders().is_empty());
}

#[test]
fn who_comes_when_a_stream_has_begun_is_told_so() {
    for rest in [&b""[..], b" and end"] {
        let scratch = Scratch::new();
        let mut sender = stream(&scratch, "1");
        let first = outlet(&scratch, "first", &[]);
        let mut input = sender.stdin.take().unwrap();
        input.write_all(b"beginning").unwrap();
        wait_until("the beginning has come", || read(&scratch, "first") == b"beginning");
        let late = outlet(&scratch, "late", &[]);
        // The sender says who comes.
        let mut lines = BufReader::new(sender.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("2 are there")));
        input.write_all(rest).unwrap();
        drop(input);
        finish_well(first);
        assert_eq!(read(&scratch, "first"), [b"beginning", rest].concat());
        let line = finish_with(1, late);
        assert!(line.contains("the stream had begun") && line.contains("--wait"), "{line}");
        assert!(line.contains("1 piece had ended before") && !line.contains("nothing was lost;"), "{line}");
        assert!(read(&scratch, "late").is_empty());
        drop(lines);
        // One of its receivers lacks the beginning.
        finish_with(3, sender);
    }
}

/// Whether the sender has much of it in memory or not: more pieces than that are over when the second receiver comes.
#[test]
fn who_comes_late_gets_all_of_a_stream_that_is_kept() {
    let scratch = Scratch::new();
    let spool = scratch.arg("spool");
    let mut sender = stream_with(&scratch, &["--spool", &spool]);
    let first = outlet(&scratch, "first", &[]);
    let mut input = sender.stdin.take().unwrap();
    let bytes = contents(70 << 20);
    let (begin, end) = bytes.split_at(68 << 20);
    input.write_all(begin).unwrap();
    wait_until("the beginning has come", || read(&scratch, "first").len() == begin.len());
    let late = outlet(&scratch, "late", &[]);
    wait_until("some has come late", || !read(&scratch, "late").is_empty());
    input.write_all(end).unwrap();
    drop(input);
    for (name, receiver) in [("first", first), ("late", late)] {
        finish_well(receiver);
        assert!(read(&scratch, name) == bytes, "{name}");
    }
    finish_well(sender);
    assert!(scratch.names("spool").is_empty(), "nothing is left behind");
}

#[test]
fn a_stream_that_cannot_be_read_is_complete_for_nobody() {
    let scratch = Scratch::new();
    let ticket = scratch.path("ticket");
    let mut command = treecast();
    command.args(["send", "-", "--interface", "lo", "--ticket-file"]).arg(&ticket);
    let folder = File::open(scratch.path("")).unwrap();
    let sender = command.stdin(folder).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn_guarded();
    wait_until("the ticket is written", || ticket.exists());
    finish_with(1, outlet(&scratch, "out", &[]));
    let line = finish_with(1, sender);
    assert!(line.contains("standard input could not be read"), "{line}");
}

#[test]
fn a_receiver_whose_output_nobody_reads_can_be_stopped() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("spool")).unwrap();
    let sender = scratch.send(&[session::path(&scratch.file("one", 3_000_000))]);
    let mut command = treecast();
    command
        .args(["receive", "--stdout", "--interface", "lo", "--max-time", "3", "--into"])
        .arg(scratch.path("spool"));
    command.arg(format!("@{}", scratch.path("ticket").display()));
    let mut receiver = start(&mut command);
    let told = finish_with(3, sender);
    assert!(told.contains("before all of it was written"), "{told}");
    wait_until("the receiver has ended", || receiver.try_wait().unwrap().is_some());
    assert!(fs::read_dir(scratch.path("spool")).unwrap().next().is_none(), "nothing is left behind");
    let line = finish_with(1, receiver);
    assert!(line.contains("before all of it was written"), "{line}");
}

#[test]
fn one_file_goes_to_standard_output_and_several_do_not() {
    let scratch = Scratch::new();
    let file = scratch.file("one", 300_000);
    let sender = scratch.send(&[session::path(&file)]);
    let receiver = outlet(&scratch, "out", &[]);
    finish_well(receiver);
    finish_well(sender);
    assert!(read(&scratch, "out") == contents(300_000));
    let other = scratch.file("two", 10);
    let sender = scratch.send_anew(&[session::path(&file), session::path(&other)]);
    let line = finish_with(1, outlet(&scratch, "none", &[]));
    assert!(line.contains("several files") && line.contains("--only"), "{line}");
    // The small files may have been there before it ended.
    drop(session::finish(sender));
    assert!(read(&scratch, "none").is_empty());
}

#[test]
fn a_reader_that_goes_away_ends_its_receiver_alone() {
    let scratch = Scratch::new();
    let mut sender = stream(&scratch, "2");
    let whole = outlet(&scratch, "whole", &[]);
    let mut command = treecast();
    command
        .args(["receive", "--stdout", "--interface", "lo"])
        .arg(format!("@{}", scratch.path("ticket").display()));
    let mut cut = start(&mut command);
    let bytes = contents(3 << 20);
    let mut input = sender.stdin.take().unwrap();
    input.write_all(&bytes[..1 << 20]).unwrap();
    let mut output = cut.stdout.take().unwrap();
    output.read_exact(&mut [0; 1000]).unwrap();
    drop(output);
    input.write_all(&bytes[1 << 20..]).unwrap();
    drop(input);
    let line = finish_with(1, cut);
    assert!(line.contains("standard output"), "{line}");
    finish_well(whole);
    assert!(read(&scratch, "whole") == bytes);
    finish_with(3, sender);
}

/// `receive --stdout | head`: what is behind the place where the reader has broken off is in no buffer of the sender any more.
#[test]
fn the_sender_hears_of_a_reader_that_went_away_before_the_end_of_one_file() {
    let scratch = Scratch::new();
    let sender = scratch.send(&[session::path(&scratch.file("one", 3_000_000))]);
    let mut command = treecast();
    command.args(["receive", "--stdout", "--interface", "lo", "--into"]).arg(scratch.path("spool"));
    command.arg(format!("@{}", scratch.path("ticket").display()));
    let mut cut = start(&mut command);
    let mut output = cut.stdout.take().unwrap();
    output.read_exact(&mut [0; 1000]).unwrap();
    drop(output);
    let line = finish_with(1, cut);
    assert!(line.contains("cannot write to standard output: Broken pipe"), "{line}");
    let (code, told) = finish(sender);
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("at 0 of 1 receiver") && told.contains("standard output"), "{told}");
}

#[test]
fn a_program_runs_for_each_file_and_its_failure_counts() {
    let scratch = Scratch::new();
    let names = ["plain", "$(touch broken)", "it's; two 'words'"];
    let files = names.map(|name| scratch.file(name, 1000));
    let seen = scratch.arg("seen");
    let paths = files.each_ref().map(|file| session::path(file));
    let sender = scratch.send(&paths);
    let copy = format!("cp --target-directory={seen} {{}}");
    fs::create_dir(&seen).unwrap();
    finish_well(scratch.receive("into", &["--exec", &copy]));
    finish_well(sender);
    let mut expected = names.map(str::to_owned);
    expected.sort();
    assert_eq!(scratch.names("seen"), expected);

    let sender = scratch.send_anew(&paths);
    let line = finish_with(3, scratch.receive("again", &["--exec", "test {} -ef /"]));
    assert!(line.contains("ended with exit code 1") && line.contains("plain"), "{line}");
    finish_well(sender);
    let line = finish_with(1, scratch.receive("more", &["--exec", "sha256sum"]));
    assert!(line.contains("{}"), "{line}");
}

#[test]
fn what_cannot_go_with_standard_input_is_refused() {
    let told = |args: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_treecast")).arg("send").args(args).stdin(Stdio::null()).output();
        String::from_utf8(output.unwrap().stderr).unwrap()
    };
    for (args, why) in [
        (&["-", "file"][..], "beside"),
        (&["-", "--feed", "list"], "--feed"),
        (&["-", "--session", "file"], "--session"),
        (&["-", "--repair", "carousel"], "carousel"),
        (&["-", "--spool", "folder", "--repair", "none"], "--spool"),
        (&["file", "--spool", "folder"], "--spool"),
    ] {
        let line = told(args);
        assert!(line.contains(why) && line.lines().count() == 1, "{args:?}: {line}");
    }
}
