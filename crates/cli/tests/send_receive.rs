//! `treecast send` and `treecast receive` as a user runs them, over the loopback interface.

use std::{
    fs,
    io::Write,
    net::{TcpListener, UdpSocket},
    path::Path,
    process::{Command, Stdio},
};

use crate::{
    child::Teller,
    session::{
        Guarded, Scratch, TREECAST, all_well, assert_says, events, finish_well, finish_with, last_event,
        refused, start, wait_until,
    },
};
use serde_json::Value;
use treecast_wire::{
    header::{FileId, SessionId},
    message::{BeginOfFile, Digest, Message, PROTOCOL_VERSION, TransferType, Welcome},
    ticket::{Repair, Ticket},
};

#[test]
fn every_receiver_gets_every_file() {
    for extra in [
        "--repair nack",
        "--repair none --rate 400M --block 1420",
        // The first packets left before there was anybody who was to get copies.
        "--fanout auto --repair none --rate 100M --block 1420",
        "--source 127.0.0.1 --block 1420",
    ] {
        let scratch = Scratch::new();
        let sizes = [("tree/one", 3_000_000), ("tree/sub/two", 1), ("tree/empty", 0), ("single", 1420 * 7)];
        scratch.files(&sizes);
        let sender = scratch.send(format!("--wait 2 tree single {extra}"));
        let receivers = ["a", "b"].map(|folder| (folder, scratch.receive(folder, "")));
        let told = finish_well(sender);
        assert!(told.starts_with("treecast2."), "the ticket is the first line: {told}");
        let ticket = told.lines().next().unwrap_or_default();
        assert!(told.contains(&format!("on another host: treecast receive {ticket}")), "{told}");
        for (folder, receiver) in receivers {
            finish_well(receiver);
            scratch.assert_files(folder, &sizes);
        }
        assert_eq!(scratch.names("a"), ["single", "tree"], "nothing else is left");
    }
}

#[test]
fn each_way_across_the_kernels_border_carries_a_session() {
    for (out, into) in [("super", "single"), ("batch", "super"), ("single", "batch")] {
        let scratch = Scratch::with_file("file", 2_000_000);
        let mut command = scratch.command("send --interface lo --block 1420 --ticket-file ticket file");
        let sender = scratch.send_by(command.env("TREECAST_OFFLOAD", out));
        let mut command = scratch.receive_command("a", "");
        all_well([start(command.env("TREECAST_OFFLOAD", into).arg("@ticket")), sender]);
        scratch.assert_file("a/file", 2_000_000);
    }
}

#[test]
fn events_come_one_a_line_with_bytes_and_counts() {
    let scratch = Scratch::with_file("file", 1_000_000);
    let sender = scratch.send("--json file");
    let receiver = scratch.receive("a", "--json --name anna");
    let [sent, received] = [sender, receiver].map(finish_well);
    assert!(
        [&sent, &received].iter().all(|text| events(text).len() == text.lines().count()),
        "{sent} {received}"
    );
    let sent = |kind: &str| last_event(&sent, kind);
    assert!(sent("ticket")["ticket"].as_str().unwrap().starts_with("treecast2."));
    assert_eq!((&sent("joined")["receiver"], &sent("object")["complete"]), (&"anna".into(), &1.into()));
    let done = sent("done");
    assert_eq!((&done["bytes"], &done["receivers"][0]["bytes"]), (&1_000_000.into(), &1_000_000.into()));
    assert!(done["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(last_event(&received, "object")["bytes"], 1_000_000);
    for key in ["seconds", "bytes", "retransmitted_bytes", "duplicate_bytes", "dropped_packets"] {
        assert!(last_event(&received, "done")[key].is_number(), "{key}");
    }
}

#[test]
fn only_what_matches_is_taken() {
    let scratch = Scratch::with_files(&[("tree/wanted.iso", 100_000), ("tree/other.txt", 200_000)]);
    let sender = scratch.send("tree");
    all_well([scratch.receive("a", "--only *.iso"), sender]);
    assert_eq!(scratch.names("a/tree"), ["wanted.iso"]);
}

/// A small file and two that take two seconds each.
fn set_of_three(scratch: &Scratch) {
    for (name, len) in [("set/a", 20_000), ("set/b", 4_000_000), ("set/c", 4_000_000)] {
        scratch.file(name, len);
    }
}

#[test]
fn who_wants_few_files_has_gone_before_the_others_are_sent() {
    let scratch = Scratch::new();
    set_of_three(&scratch);
    let sender = scratch.send("--rate 16M --wait 2 set");
    let (picky, all) = (scratch.receive("picky", "--only set/a"), scratch.receive("all", ""));
    finish_well(picky);
    assert!(!scratch.path("all/set/c").exists(), "the other receiver is not done");
    all_well([all, sender]);
    assert_eq!(scratch.names("picky/set"), ["a"]);
}

#[test]
fn what_nobody_wants_is_neither_sent_nor_counted() {
    let scratch = Scratch::new();
    set_of_three(&scratch);
    let sender = scratch.send("--rate 16M --json set");
    finish_well(scratch.receive("picky", "--only set/a"));
    let told = finish_well(sender);
    let done = last_event(&told, "done");
    assert!(done["sent_bytes"].as_u64() < Some(8_000_000), "{done}");
    let one = &done["receivers"][0];
    assert_eq!(
        (&one["wanted_bytes"], &one["bytes"], &one["standing"]),
        (&20_000.into(), &20_000.into(), &"done".into())
    );
    let left = last_event(&told, "progress")["seconds_left"].as_f64();
    assert!(left.is_none_or(|left| left < 1.0), "{left:?}");
}

#[test]
fn what_is_skipped_or_matches_nothing_is_told() {
    let scratch = Scratch::with_file("tree/text", 1);
    assert!(Command::new("mkfifo").arg(scratch.path("tree/pipe")).status().unwrap().success());
    let sender = scratch.send("tree");
    let receiver = scratch.receive("new/folder", "--only *.iso");
    let wanted = "1 of 1 receiver has what it wanted (--only), after ";
    assert_says(&finish_well(sender), &["1 entry skipped", "tree/pipe", wanted]);
    let told = finish_with(1, receiver);
    let lines: Vec<_> = told.lines().filter(|line| line.contains("leave none of the files")).collect();
    assert!(lines.len() == 1 && lines[0].contains("(2 went by)"), "{told}");
    assert!(scratch.names("new/folder").is_empty(), "made, and nothing in it");
}

#[test]
fn what_cannot_be_sent_is_refused_in_one_line() {
    let scratch = Scratch::with_file("file", 1000);
    scratch.refuses("send --wait-timeout 1 /dev/null", &["/dev/null", "neither a file nor a folder"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let control = taken.local_addr().unwrap();
    let send = format!("send --wait-timeout 1 --interface lo --control {control} file");
    scratch.refuses(send, &[&control.port().to_string(), "in use"]);
    scratch.refuses("send --wait-timeout 1 --interface lo file", &["0 of 1 receiver came", "1 s"]);
    let mut down = Command::new("unshare");
    down.args(["--net", TREECAST, "send", "--interface", "lo", "file"]).current_dir(scratch.path(""));
    refused(&mut down, &["interface lo is down"]);
}

/// The sender's socket is for both families, and the kernel gives it such addresses as `::ffff:127.0.0.1`.
#[test]
fn a_receiver_that_comes_by_ipv4_is_shown_with_its_plain_address() {
    for args in ["--json", ""] {
        let scratch = Scratch::with_file("file", 300_000);
        let sender = scratch.send(format!("{args} file"));
        let mut ticket = scratch.ticket();
        ticket.control = vec![([127, 0, 0, 1], ticket.control[0].port()).into()];
        fs::write(scratch.path("ticket"), ticket.to_string()).unwrap();
        let [received, sent] = [scratch.receive("a", args), sender].map(finish_well);
        assert!(sent.contains("127.0.0.1:") && !(sent + &received).contains("ffff:"), "{received}");
    }
}

#[test]
fn a_receiver_hears_at_the_port_that_it_names() {
    const LEN: usize = 300_000;
    let scratch = Scratch::with_file("file", LEN);
    let taken = UdpSocket::bind("[::]:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let sender = scratch.send("--fanout unicast --wait 2 file");
    let mut command = scratch.receive_command("a", format!("--port {port} @ticket"));
    refused(&mut command, &["UDP port", &port.to_string(), "in use", "--port"]);
    drop(taken);
    let receiver = scratch.receive("a", format!("--port {port} --json"));
    let sockets = || fs::read_to_string("/proc/thread-self/net/udp6").unwrap();
    wait_until("it has the port", || sockets().contains(&format!(":{port:04X} ")));
    let other = scratch.receive("b", "");
    let done = last_event(&finish_well(receiver), "done");
    assert!(done["retransmitted_bytes"].as_u64().unwrap() < LEN as u64, "packets come there: {done}");
    all_well([other, sender]);
}

/// A firewall may have one hole for both, and what comes to the group is not taken for what comes to the receiver alone.
#[test]
fn a_receiver_hears_a_group_at_the_port_that_it_names() {
    let scratch = Scratch::with_file("file", 4_000_000);
    let free = UdpSocket::bind("[::]:0").unwrap().local_addr().unwrap().port();
    let sender = scratch.send(format!("--group 239.255.5.92:{free} --fanout auto --rate 20M --json file"));
    finish_well(scratch.receive("a", format!("--port {free}")));
    let done = last_event(&finish_well(sender), "done");
    assert_eq!(done["receivers"][0]["way"], "multicast", "{done}");
}

#[test]
fn a_port_is_of_no_use_where_all_comes_to_a_group() {
    for (more, words) in [
        ("", ["multicast group, at port", "leave out --port"]),
        ("--repair carousel", ["a carousel comes to the port", "leave out --port"]),
    ] {
        let scratch = Scratch::with_file("file", 10);
        let _sender = scratch.send(format!("{more} file"));
        refused(&mut scratch.receive_command("a", "--port 21993 @ticket"), &words);
        assert!(scratch.names("a").is_empty(), "nothing is left");
    }
}

#[test]
fn what_cannot_be_received_is_refused_in_one_line() {
    let scratch = Scratch::new();
    let receive = |args: String, words: &[&str]| {
        scratch.refuses(format!("receive --connect-timeout 1 {args}"), words);
    };
    let gone = ticket(&TcpListener::bind("127.0.0.1:0").unwrap(), 21_990).to_string();
    receive(gone[..gone.len() - 9].to_owned(), &["cut short"]);
    receive(format!("--interface nowhere0 {gone}"), &["nowhere0", "does not exist"]);
    receive(format!("--interface lo --into a {gone}"), &["cannot reach", "127.0.0.1"]);
    assert!(scratch.names("a").is_empty(), "nothing is left");
    scratch.file("file", 1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = ticket(&listener, 21_991);
    receive(format!("--interface lo --into file/folder {there}"), &["file/folder"]);
    let _taken = UdpSocket::bind("239.255.77.1:21992").unwrap();
    let there = ticket(&listener, 21_992);
    receive(format!("--interface lo {there}"), &["21992", "in use"]);
}

fn ticket(control: &TcpListener, port: u16) -> Ticket {
    let group = format!("239.255.77.1:{port}").parse().unwrap();
    let control = vec![control.local_addr().unwrap()];
    Ticket { control, ..Ticket::new(SessionId(77), Repair::Nack, 1420, group) }
}

/// A sender that is not to be trusted: names that would leave the folder.
#[test]
fn no_name_leaves_the_folder() {
    let scratch = Scratch::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ticket = ticket(&listener, 21_993);
    fs::write(scratch.path("ticket"), ticket.to_string()).unwrap();
    let receiver = scratch.receive("a", "");
    let (mut stream, _) = listener.accept().unwrap();
    let mut send = |message: Message, index: usize| {
        let packet = message.to_packet(FileId::new(ticket.session, index as u32));
        stream.write_all(&packet).unwrap();
    };
    send(Message::Welcome(Welcome { version: PROTOCOL_VERSION, block_len: 1420, receiver: 1 }), 0);
    let (escaped, long) = (scratch.arg("escaped"), format!("a/{}", "x".repeat(256)));
    let names = ["../escaped", &escaped, "a/../../escaped", "..", &long];
    for (index, name) in names.into_iter().enumerate() {
        send(Message::BeginOfFile(BeginOfFile::new(TransferType::DiskToDisk, 0, name).unwrap()), index);
        send(Message::Digest(Digest::unsigned(*blake3::hash(b"").as_bytes())), index);
    }
    send(Message::Goodbye, 0);
    let text = finish_with(3, receiver);
    assert_eq!(text.matches("nothing may leave the target folder").count(), 5, "{text}");
    assert_eq!((scratch.names("a"), scratch.names("")), (vec![], vec!["a".into(), "ticket".into()]));
}

/// A receiver into a file system in memory of this size. A command runs behind it, in its folder.
fn receive_into_memory(scratch: &Scratch, size: &str, args: &str, then: &str) -> Guarded {
    fs::create_dir(scratch.path("small")).unwrap();
    let script = format!(
        "mount -t tmpfs -o size={size} small small && {TREECAST} receive --interface lo {args} --into small @ticket; \
         code=$?; cd small; ls -A; {then} exit $code"
    );
    start(Command::new("unshare").args(["--mount", "sh", "-c", &script]).current_dir(scratch.path("")))
}

#[test]
fn a_full_disk_fails_one_receiver_and_not_the_others() {
    let scratch = Scratch::with_file("file", 3_000_000);
    let sender = scratch.send("--wait 2 file");
    let tiny = receive_into_memory(&scratch, "1M", "--name tiny --wait-for-space 1", "");
    let other = scratch.receive("a", "");
    let told = finish_with(3, sender);
    let row = told.lines().find(|line| line.starts_with("tiny ")).unwrap_or_else(|| panic!("{told}"));
    assert_says(row, &["file", "is full", "needs 2.9 MiB"]);
    finish_well(other);
    scratch.assert_file("a/file", 3_000_000);
    let told = finish_with(3, tiny);
    assert!(!told.contains(".part"), "nothing is left in the full folder: {told}");
}

#[test]
fn what_is_noted_of_small_files_gives_way_to_them_when_the_disk_is_full() {
    let scratch = Scratch::new();
    (0..1000).for_each(|index| drop(scratch.file(&format!("many/{index}"), 10_000)));
    let sender = scratch.send("many");
    // The files take 12,288,000 bytes of it.
    let told = finish_well(receive_into_memory(&scratch, "14M", "", "cat many/* | wc -c;"));
    finish_well(sender);
    assert!(told.contains("\nmany\n10000000\n") && !told.contains(".treecast-"), "{told}");
}

/// What somebody does to a file while it is sent.
type Damage = fn(&Path);

fn grow(path: &Path) {
    fs::File::options().append(true).open(path).unwrap().write_all(b"more bytes").unwrap();
}

#[test]
fn a_file_that_shrinks_or_changes_is_withdrawn() {
    fn open(path: &Path) -> fs::File {
        fs::File::options().write(true).open(path).unwrap()
    }
    let shrink = |path: &Path| open(path).set_len(1000).unwrap();
    let change = |path: &Path| open(path).write_all(b"other bytes").unwrap();
    let cases =
        [("became shorter", shrink as Damage), ("changed while", change), ("became longer", grow as Damage)];
    for (word, act) in cases {
        let scratch = Scratch::new();
        let file = scratch.file("file", 2_000_000);
        let sender = scratch.send("--rate 8M --block 1420 file");
        let receiver = scratch.receive("a", "");
        scratch.wait_for_part("a");
        act(&file);
        let told = finish_with(3, sender);
        let lines: Vec<_> = told.lines().filter(|line| line.contains(word)).collect();
        assert!(lines.len() == 1 && lines[0].contains("file "), "said once: {told}");
        assert_says(&finish_with(3, receiver), &[word]);
        assert!(scratch.names("a").is_empty(), "nothing is left");
    }
}

/// Both sides name a file of a folder that is another one when its turn comes, whatever its size was.
#[test]
fn a_file_that_changes_between_listing_and_sending_is_named_by_both_sides() {
    let replace = |path: &Path| {
        let other = path.with_extension("other");
        fs::write(&other, "x").unwrap();
        fs::rename(other, path).unwrap();
    };
    let link = |path: &Path| {
        fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", path).unwrap();
    };
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    let cases = [
        (0, "became longer", grow as Damage),
        (1, "became longer", grow),
        (1, "was replaced", replace),
        (0, "was replaced", link),
        (1, "was removed", remove),
        (300_000, "was removed", remove),
    ];
    for ((size, word, act), repair) in cases.iter().flat_map(|case| [(case, "nack"), (case, "after")]) {
        let scratch = Scratch::new();
        let file = scratch.file("tree/file", *size);
        scratch.file("tree/other", 1000);
        let sender = scratch.send(format!("--repair {repair} tree"));
        act(&file);
        let told = finish_with(3, scratch.receive("a", ""));
        let failed = told.lines().any(|line| line.contains("tree/file: failed: ") && line.contains(word));
        assert!(failed && told.contains("; 1 failed"), "{size} {word}: {told}");
        assert_says(&finish_with(3, sender), &[&format!("tree/file {word}")]);
        assert_eq!(scratch.names("a/tree"), ["other"]);
    }
}

#[test]
fn files_that_hold_more_than_their_size_says_and_the_senders_own_output_are_not_sent() {
    let scratch = Scratch::new();
    let sender = scratch.send("/proc/self/status");
    let told = finish_with(3, scratch.receive("a", ""));
    assert_says(&told, &["status: failed: ", "holds more than its size says"]);
    finish_with(3, sender);
    let output = scratch.file("tree/send.log", 0);
    scratch.file("tree/other", 1000);
    fs::remove_file(scratch.path("ticket")).unwrap();
    let mut sender = scratch.command("send --interface lo --ticket-file ticket tree");
    sender.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(fs::File::create(output).unwrap());
    let sender = scratch.with_ticket(&mut sender);
    let told = finish_with(3, scratch.receive("b", ""));
    assert_says(&told, &["send.log: failed: ", "the sender's own output goes"]);
    assert_says(&finish_with(3, sender), &["the sender's own output goes"]);
    assert_eq!(scratch.names("b/tree"), ["other"]);
}

#[test]
fn a_part_of_a_folder_is_sent_as_rsync_would() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let scratch = Scratch::new();
    ["tree/keep", "tree/a.o", "tree/cache/x"].iter().for_each(|name| drop(scratch.file(name, 10)));
    fs::write(scratch.path("tree").join(OsStr::from_bytes(b"caf\xe9")), "x").unwrap();
    let sender = scratch.send("--exclude *.o --exclude /cache/ tree/");
    finish_well(scratch.receive("a", ""));
    let unsent = r"caf\xe9: its name cannot be sent: it is not UTF-8";
    assert_says(&finish_with(3, sender), &[unsent, "1 file not sent ("]);
    assert_eq!(scratch.names("a"), ["keep"]);
    scratch.refuses("send --wait-timeout 1 --strict tree", &["is not UTF-8"]);
    scratch.refuses("send --wait-timeout 1 --exclude * tree", &["everything is excluded"]);
    scratch.refuses("send --wait-timeout 1 --exclude [a tree", &["\"[a\"", "cannot be used"]);
}

#[test]
fn ctrl_c_with_discard_leaves_nothing_behind_and_the_sender_knows() {
    let scratch = Scratch::with_file("file", 2_000_000);
    let sender = scratch.send("--rate 4M --block 1420 --wait 2 file");
    let receiver = scratch.receive("a", "--name quitter --discard");
    let other = scratch.receive("b", "");
    scratch.wait_for_part("a");
    receiver.signal(libc::SIGINT);
    assert_says(&finish_with(1, receiver), &["interrupted"]);
    assert!(scratch.names("a").is_empty(), "nothing is left");
    finish_well(other);
    let told = finish_with(3, sender);
    assert!(told.lines().any(|line| line.starts_with("quitter ") && line.contains("left")), "{told}");
}

/// Stops one of two receivers when some of a file has come to it, and lets it go on when its sender has ended. Returns what the sender
/// tells of it, and what the receiver says.
fn stop_one_of_two(option: &str) -> (String, String) {
    let scratch = Scratch::with_file("file", 2_000_000);
    let sender = scratch.send(format!("--rate 8M --block 1420 --wait 2 {option} file"));
    let stopped = scratch.receive("a", "--name sleeper --reconnect 1");
    let other = scratch.receive("b", "");
    scratch.wait_for_part("a");
    stopped.signal(libc::SIGSTOP);
    finish_well(other);
    let told = finish_with(3, sender);
    let row = told.lines().find(|line| line.starts_with("sleeper ")).unwrap_or_else(|| panic!("{told}"));
    stopped.signal(libc::SIGCONT);
    (row.to_owned(), finish_with(1, stopped))
}

/// The last two limits are a multiple of the time that sending takes, which is 2 s, and a time.
#[test]
fn receivers_that_are_stopped_or_late_are_given_up_alone() {
    let cases = [
        // Its socket may have held all of it; still it was put out, and nobody told it that this was all.
        ("--stall-limit 10", "said nothing for 10 s", "start again with the same ticket"),
        ("--give-up-after x3", "it did not have everything", "it did not have everything"),
        ("--give-up-after 5s", "it did not have everything", "it did not have everything"),
    ];
    // They wait most of the time.
    std::thread::scope(|scope| {
        for (limit, row, told) in cases {
            scope.spawn(move || {
                let (sent, received) = stop_one_of_two(limit);
                assert_says(&sent, &[row]);
                assert_says(&received, &[told]);
            });
        }
    });
}

/// A sender with these options of what is typed, whose events are read.
fn feed(scratch: &Scratch, options: &str) -> (Teller, std::process::ChildStdin) {
    let mut command = scratch.command("send --json --interface lo --feed - --ticket-file ticket");
    let mut sender = Teller::start(command.args(options.split_whitespace()).stderr(Stdio::null()));
    sender.next("ticket");
    scratch.wait_for_ticket();
    let lines = sender.child.stdin.take().unwrap();
    (sender, lines)
}

#[test]
fn a_feed_is_sent_line_by_line_and_its_end_ends_the_session() {
    let scratch = Scratch::with_files(&[("first", 300_000), ("second", 100)]);
    let (mut sender, mut lines) = feed(&scratch, "--at-once 1");
    let receiver = scratch.receive("copies", "");
    writeln!(lines, "first").unwrap();
    wait_until("the first file is there", || scratch.names("copies").contains(&"first".to_owned()));
    writeln!(lines, "/no/such/file\nsecond").unwrap();
    drop(lines);
    finish_well(receiver);
    assert_says(&sender.next("not_sent").to_string(), &["/no/such/file"]);
    let done = sender.next("done");
    assert_eq!(
        (&done["not_sent"], &done["complete"]),
        (&1.into(), &true.into()),
        "nobody has failed: {done}"
    );
    assert_eq!(sender.wait(), Some(3));
    assert_eq!(scratch.names("copies"), ["first", "second"]);
    scratch.assert_file("copies/first", 300_000);
}

/// Exit code 0 says that everybody has everything.
#[test]
fn a_feed_of_which_a_file_is_not_there_names_it_at_the_end_and_does_not_end_well() {
    let scratch = Scratch::with_file("file", 100);
    let mut command = scratch.command("send --interface lo --feed - --ticket-file ticket");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut sender = scratch.with_ticket(&mut command);
    sender.stdin.take().unwrap().write_all(b"file\n/no/such/file\n").unwrap();
    finish_well(scratch.receive("a", ""));
    let told = finish_with(3, sender);
    let last = told.lines().find(|line| line.starts_with("1 file not sent ("));
    assert_says(last.unwrap_or_default(), &["/no/such/file: ", "No such file"]);
}

/// Takes all descriptors away that a program has not open: the kernel gives out the lowest free number, and none from the limit on.
fn leave_no_descriptor(pid: u32) {
    let is_open = |number: &u32| fs::symlink_metadata(format!("/proc/{pid}/fd/{number}")).is_ok();
    let limit = format!("--nofile={}", (0..).find(|number| !is_open(number)).unwrap());
    let status = Command::new("prlimit").args(["--pid", &pid.to_string(), &limit]).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_receiver_for_which_there_is_no_descriptor_is_told_of_and_counts() {
    let scratch = Scratch::with_file("file", 2_000_000);
    let sender = scratch.send("--rate 4M --block 1420 file");
    let first = scratch.receive("a", "");
    scratch.wait_for_part("a");
    leave_no_descriptor(sender.id());
    assert_says(&finish_with(1, scratch.receive("b", "--connect-timeout 1")), &["cannot reach the sender"]);
    finish_well(first);
    let words = [
        "cannot be admitted: this process has no descriptor left",
        "ulimit -n",
        "could not be admitted: there was no descriptor left",
    ];
    assert_says(&finish_with(3, sender), &words);
}

#[test]
fn a_receiver_that_was_waited_for_and_never_came_does_not_have_everything() {
    let scratch = Scratch::with_file("file", 100);
    let sender = scratch.send("--wait 2 --wait-timeout 5 --wait-at-least 1 file");
    finish_well(scratch.receive("a", ""));
    assert_says(&finish_with(3, sender), &["\n1 receiver that the start waited for never came (--wait)\n"]);
}

#[test]
fn who_comes_late_to_a_feed_is_told_of_as_such() {
    let scratch = Scratch::with_files(&[("first", 300_000), ("second", 100)]);
    let (mut sender, mut lines) = feed(&scratch, "");
    let early = scratch.receive("early", "--name early");
    writeln!(lines, "first").unwrap();
    sender.next("object");
    let mut late = Teller::start(scratch.receive_command("late", "--json --name late").arg("@ticket"));
    late.next("joined");
    writeln!(lines, "second").unwrap();
    drop(lines);
    let done = sender.next("done");
    assert_eq!(sender.wait(), Some(3));
    finish_well(early);
    late.end();
    let of = |name: &str| {
        let one = done["receivers"].as_array().unwrap().iter().find(|one| one["receiver"] == name).unwrap();
        ["objects", "missed", "failed"].map(|count| Value::as_u64(&one[count]).unwrap())
    };
    assert_eq!((of("early"), of("late")), ([2, 0, 0], [1, 1, 0]), "{done}");
    assert_eq!(scratch.names("late"), ["second"]);
}
