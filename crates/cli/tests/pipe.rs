//! Streams from standard input to standard output, and programs that run for each file.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    process::{ChildStdin, Command, Stdio},
};

use crate::{
    session::{
        Guarded, Scratch, SpawnGuarded, TREECAST, all_well, assert_says, contents, finish_well, finish_with,
        start, wait_until,
    },
    site::Site,
};

/// A sender of what is written to it.
fn stream(scratch: &Scratch, args: &str) -> (Guarded, ChildStdin) {
    let mut command =
        scratch.command(format!("send - --interface lo --rate 100M --ticket-file ticket {args}"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut sender = scratch.with_ticket(&mut command);
    let input = sender.stdin.take().unwrap();
    (sender, input)
}

/// A receiver that writes to the file `name`.
fn outlet(scratch: &Scratch, name: &str, args: &str) -> Guarded {
    let mut command = scratch.command(format!("receive --stdout --interface lo {args} @ticket"));
    let file = File::create(scratch.path(name)).unwrap();
    command.stdin(Stdio::null()).stdout(file).stderr(Stdio::piped()).spawn_guarded()
}

fn read(scratch: &Scratch, name: &str) -> Vec<u8> {
    fs::read(scratch.path(name)).unwrap()
}

#[test]
fn a_stream_reaches_all_who_are_there_and_one_that_is_killed_harms_nobody() {
    let scratch = Scratch::new();
    let (sender, mut input) = stream(&scratch, "--wait 3");
    let receivers = ["a", "b"].map(|name| outlet(&scratch, name, "--into spool"));
    let mut killed = outlet(&scratch, "c", "");
    // More pieces than the sender keeps, so it waits for its receivers.
    let bytes = contents(80 << 20);
    input.write_all(&bytes[..4 << 20]).unwrap();
    wait_until("something has come", || !read(&scratch, "c").is_empty());
    killed.kill().unwrap();
    input.write_all(&bytes[4 << 20..]).unwrap();
    drop(input);
    all_well(receivers);
    ["a", "b"].iter().for_each(|name| assert!(read(&scratch, name) == bytes, "{name}"));
    assert!(bytes.starts_with(&read(&scratch, "c")), "a pipe never gets a wrong byte");
    assert!(scratch.names("spool").is_empty(), "nothing is left behind");
    finish_with(3, sender);
}

#[test]
fn a_tree_goes_through_pipes_to_ten_hosts_that_lose_packets_and_one_is_killed() {
    let site = Site::up("lan:clients=10,loss=5%,rate=100M");
    let scratch = &site.scratch;
    // Runs a line of shell on a node. `$T` is treecast.
    let run = |node: &str, line: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-o", "pipefail", "-c", line]).env("T", TREECAST).current_dir(scratch.path(""));
        start(&mut site.on(node, bash))
    };
    for (number, len) in [0, 1, 700, 65_536, 300_000].into_iter().cycle().take(100).enumerate() {
        scratch.file(&format!("tree/{}/{number}", number % 7), len);
    }
    std::os::unix::fs::symlink("../0/0", scratch.path("tree/1/link")).unwrap();
    let sender = run("server0", "tar c tree | $T send --rate 40M --wait 10 --ticket-file ticket -");
    scratch.wait_for_ticket();
    let names: Vec<_> = (0..9).map(|number| format!("client{number}")).collect();
    let receive = |name: &String| {
        fs::create_dir(scratch.path(name)).unwrap();
        run(name, &format!("$T receive --stdout @ticket | tar x -C {name}"))
    };
    let receivers: Vec<_> = names.iter().map(receive).collect();
    let mut killed = run("client9", "exec $T receive --stdout @ticket > part");
    wait_until("something has come", || scratch.path("part").metadata().is_ok_and(|part| part.len() > 0));
    killed.end();
    for (name, receiver) in names.iter().zip(receivers) {
        finish_well(receiver);
        finish_well(run(name, &format!("diff -r --no-dereference tree {name}/tree")));
    }
    finish_with(3, sender);
}

#[test]
fn the_folder_of_a_killed_receiver_is_removed_by_the_next_one() {
    let scratch = Scratch::new();
    let _stream = stream(&scratch, "--wait 9");
    let mut killed = outlet(&scratch, "a", "--into spool");
    let folders = || scratch.names("spool");
    wait_until("it has a folder", || folders().len() == 1);
    let left = folders();
    killed.end();
    assert_eq!(folders(), left);
    let next = outlet(&scratch, "b", "--into spool");
    wait_until("only the next one has a folder", || folders().len() == 1 && folders() != left);
    next.signal(15);
    crate::session::finish(next);
    assert!(folders().is_empty());
}

#[test]
fn who_comes_when_a_stream_has_begun_is_told_so() {
    for rest in [&b""[..], b" and end"] {
        let scratch = Scratch::new();
        let (mut sender, mut input) = stream(&scratch, "--wait 1");
        let first = outlet(&scratch, "first", "");
        input.write_all(b"beginning").unwrap();
        wait_until("the beginning has come", || read(&scratch, "first") == b"beginning");
        let late = outlet(&scratch, "late", "");
        // The sender says who comes.
        let mut lines = BufReader::new(sender.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("2 are there")));
        input.write_all(rest).unwrap();
        drop(input);
        finish_well(first);
        assert_eq!(read(&scratch, "first"), [b"beginning", rest].concat());
        let line = finish_with(1, late);
        assert_says(&line, &["the stream had begun", "--wait", "1 piece had ended before"]);
        assert!(!line.contains("nothing was lost;"), "{line}");
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
    let (sender, mut input) = stream(&scratch, "--spool spool");
    let first = outlet(&scratch, "first", "");
    let bytes = contents(70 << 20);
    let (begin, end) = bytes.split_at(68 << 20);
    input.write_all(begin).unwrap();
    wait_until("the beginning has come", || read(&scratch, "first").len() == begin.len());
    let late = outlet(&scratch, "late", "");
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
    let mut command = scratch.command("send - --interface lo --ticket-file ticket");
    command.stdin(File::open(scratch.path("")).unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let sender = scratch.with_ticket(&mut command);
    finish_with(1, outlet(&scratch, "out", ""));
    assert_says(&finish_with(1, sender), &["standard input could not be read"]);
}

#[test]
fn a_receiver_whose_output_nobody_reads_can_be_stopped() {
    let scratch = Scratch::with_file("one", 3_000_000);
    let sender = scratch.send("one");
    let mut receiver =
        start(&mut scratch.command("receive --stdout --interface lo --max-time 10 --into spool @ticket"));
    assert_says(&finish_with(3, sender), &["before all of it was written"]);
    wait_until("the receiver has ended", || receiver.try_wait().unwrap().is_some());
    assert!(scratch.names("spool").is_empty(), "nothing is left behind");
    assert_says(&finish_with(1, receiver), &["before all of it was written"]);
}

#[test]
fn one_file_goes_to_standard_output_and_several_do_not() {
    let scratch = Scratch::with_file("one", 300_000);
    let sender = scratch.send("one");
    all_well([outlet(&scratch, "out", ""), sender]);
    scratch.assert_file("out", 300_000);
    scratch.file("two", 10);
    // The small files may have been there before it ended.
    let _sender = scratch.send_anew("one two");
    assert_says(&finish_with(1, outlet(&scratch, "none", "")), &["several files", "--only"]);
    assert!(read(&scratch, "none").is_empty());
}

#[test]
fn a_reader_that_goes_away_ends_its_receiver_alone() {
    let scratch = Scratch::new();
    let (sender, mut input) = stream(&scratch, "--wait 2");
    let whole = outlet(&scratch, "whole", "");
    let bytes = contents(3 << 20);
    let mut cut = start(&mut scratch.command("receive --stdout --interface lo @ticket"));
    input.write_all(&bytes[..1 << 20]).unwrap();
    cut.stdout.take().unwrap().read_exact(&mut [0; 1000]).unwrap();
    input.write_all(&bytes[1 << 20..]).unwrap();
    drop(input);
    assert_says(&finish_with(1, cut), &["standard output"]);
    finish_well(whole);
    assert!(read(&scratch, "whole") == bytes);
    finish_with(3, sender);
}

/// `receive --stdout | head`: what is behind the place where the reader has broken off is in no buffer of the sender any more.
#[test]
fn the_sender_hears_of_a_reader_that_went_away_before_the_end_of_one_file() {
    let scratch = Scratch::with_file("one", 3_000_000);
    let sender = scratch.send("one");
    let mut cut = start(&mut scratch.command("receive --stdout --interface lo --into spool @ticket"));
    cut.stdout.take().unwrap().read_exact(&mut [0; 1000]).unwrap();
    assert_says(&finish_with(1, cut), &["cannot write to standard output: Broken pipe"]);
    assert_says(&finish_with(3, sender), &["at 0 of 1 receiver", "standard output"]);
}

#[test]
fn a_program_runs_for_each_file_and_its_failure_counts() {
    let scratch = Scratch::new();
    let names = ["plain", "$(touch broken)", "it's; two 'words'"];
    names.iter().for_each(|name| _ = scratch.file(name, 1000));
    let sender = scratch.send(names);
    fs::create_dir(scratch.path("seen")).unwrap();
    all_well([scratch.receive("into", "--exec 'cp --target-directory=seen {}'"), sender]);
    let mut expected = names.map(str::to_owned);
    expected.sort();
    assert_eq!(scratch.names("seen"), expected);

    let sender = scratch.send_anew(names);
    let told = finish_with(3, scratch.receive("again", "--exec 'test {} -ef /'"));
    assert_says(&told, &["ended with exit code 1", "plain"]);
    finish_well(sender);
    assert_says(&finish_with(1, scratch.receive("more", "--exec sha256sum")), &["{}"]);
}
