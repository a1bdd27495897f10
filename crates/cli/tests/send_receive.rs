//! `treecast send` and `treecast receive` as a user runs them, over the loopback interface.

use std::{
    fs,
    io::Write,
    net::{TcpListener, UdpSocket},
    path::Path,
    process::{Command, Stdio},
};

use crate::session::{
    Scratch, SpawnGuarded, contents, finish, finish_well, finish_with, path, refused, start, treecast,
    wait_until,
};
use serde_json::Value;
use treecast_wire::{
    header::{FileId, SessionId},
    message::{BeginOfFile, Message, PROTOCOL_VERSION, TransferType, Welcome},
    ticket::{Repair, Ticket},
};

#[test]
fn every_receiver_gets_every_file() {
    for extra in [
        &["--repair", "nack"][..],
        &["--repair", "none", "--rate", "400M", "--block", "1420"],
        // The first packets left before there was anybody who was to get copies.
        &["--fanout", "auto", "--repair", "none", "--rate", "100M", "--block", "1420"],
        &["--source", "127.0.0.1", "--block", "1420"],
    ] {
        let scratch = Scratch::new();
        let sizes = [("tree/one", 3_000_000), ("tree/sub/two", 1), ("tree/empty", 0), ("single", 1420 * 7)];
        for (name, size) in sizes {
            scratch.file(name, size);
        }
        let (tree, single) = (scratch.path("tree"), scratch.path("single"));
        let mut args = vec!["--wait", "2", path(&tree), path(&single)];
        args.extend(extra);
        let sender = scratch.send(&args);
        let receivers = [scratch.receive("a", &[]), scratch.receive("b", &[])];
        let told = finish_well(sender);
        assert!(told.starts_with("treecast2."), "the ticket is the first line: {told}");
        let ticket = told.lines().next().unwrap_or_default();
        assert!(told.contains(&format!("on another host: treecast receive {ticket}")), "{told}");
        receivers.into_iter().for_each(|receiver| drop(finish_well(receiver)));
        for (name, size) in sizes {
            for folder in ["a", "b"] {
                let copy = fs::read(scratch.path(folder).join(name)).unwrap();
                assert!(copy == contents(size), "{extra:?} {folder} {name}");
            }
        }
        assert_eq!(scratch.names("a"), ["single", "tree"], "nothing else is left");
    }
}

#[test]
fn each_way_across_the_kernels_border_carries_a_session() {
    for (out, into) in [("super", "single"), ("batch", "super"), ("single", "batch")] {
        let scratch = Scratch::new();
        let file = scratch.file("file", 2_000_000);
        let ticket = scratch.path("ticket");
        let mut command = treecast();
        command.env("TREECAST_OFFLOAD", out).args(["send", "--interface", "lo", "--block", "1420"]);
        let sender = start(command.arg("--ticket-file").arg(&ticket).arg(&file));
        wait_until("the ticket is written", || ticket.exists());
        let mut command = scratch.receive_command("a");
        let receiver = start(command.env("TREECAST_OFFLOAD", into).arg(format!("@{}", ticket.display())));
        finish_well(sender);
        finish_well(receiver);
        assert!(fs::read(scratch.path("a/file")).unwrap() == contents(2_000_000), "{out} {into}");
    }
}

#[test]
fn events_come_one_a_line_with_bytes_and_counts() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 1_000_000);
    let sender = scratch.send(&["--json", path(&file)]);
    let receiver = scratch.receive("a", &["--json", "--name", "anna"]);
    let events = |text: String| -> Vec<serde_json::Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let sent = events(finish_well(sender));
    let received = events(finish_well(receiver));
    let find = |events: &[serde_json::Value], name: &str| {
        events.iter().find(|event| event["event"] == name).unwrap_or_else(|| panic!("no {name}")).clone()
    };
    assert!(find(&sent, "ticket")["ticket"].as_str().unwrap().starts_with("treecast2."));
    assert_eq!(find(&sent, "joined")["receiver"], "anna");
    assert_eq!(find(&sent, "object")["complete"], 1);
    let done = find(&sent, "done");
    assert_eq!((&done["bytes"], &done["receivers"][0]["bytes"]), (&1_000_000.into(), &1_000_000.into()));
    assert!(done["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(find(&received, "object")["bytes"], 1_000_000);
    for key in ["seconds", "bytes", "retransmitted_bytes", "duplicate_bytes", "dropped_packets"] {
        assert!(find(&received, "done")[key].is_number(), "{key}");
    }
}

#[test]
fn only_what_matches_is_taken() {
    let scratch = Scratch::new();
    scratch.file("tree/wanted.iso", 100_000);
    scratch.file("tree/other.txt", 200_000);
    let tree = scratch.path("tree");
    let sender = scratch.send(&[path(&tree)]);
    let receiver = scratch.receive("a", &["--only", "*.iso"]);
    finish_well(sender);
    finish_well(receiver);
    assert_eq!(scratch.names("a/tree"), ["wanted.iso"]);
}

/// A small file and two that take four seconds each.
fn set_of_three(scratch: &Scratch) -> std::path::PathBuf {
    scratch.file("set/a", 20_000);
    for name in ["set/b", "set/c"] {
        scratch.file(name, 4_000_000);
    }
    scratch.path("set")
}

#[test]
fn who_wants_few_files_has_gone_before_the_others_are_sent() {
    let scratch = Scratch::new();
    let set = set_of_three(&scratch);
    let sender = scratch.send(&["--rate", "16M", "--wait", "2", path(&set)]);
    let (picky, all) = (scratch.receive("picky", &["--only", "set/a"]), scratch.receive("all", &[]));
    finish_well(picky);
    assert!(!scratch.path("all/set/c").exists(), "the other receiver is not done");
    finish_well(all);
    finish_well(sender);
    assert_eq!(scratch.names("picky/set"), ["a"]);
}

#[test]
fn what_nobody_wants_is_neither_sent_nor_counted() {
    let scratch = Scratch::new();
    let set = set_of_three(&scratch);
    let sender = scratch.send(&["--rate", "16M", "--json", path(&set)]);
    finish_well(scratch.receive("picky", &["--only", "set/a"]));
    let told = finish_well(sender);
    let last = |event: &str| {
        let of = |line: &&str| line.contains(&format!(r#""event":"{event}""#));
        told.lines().rfind(of).map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()).unwrap()
    };
    let done = last("done");
    assert!(done["sent_bytes"].as_u64() < Some(8_000_000), "{done}");
    let one = &done["receivers"][0];
    assert_eq!(
        (&one["wanted_bytes"], &one["bytes"], &one["standing"]),
        (&20_000.into(), &20_000.into(), &"done".into())
    );
    let left = last("progress")["seconds_left"].as_f64();
    assert!(left.is_none_or(|left| left < 1.0), "{left:?}");
}

#[test]
fn what_is_skipped_or_matches_nothing_is_told() {
    let scratch = Scratch::new();
    let tree = scratch.path("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("text"), "1").unwrap();
    assert!(Command::new("mkfifo").arg(tree.join("pipe")).status().unwrap().success());
    let sender = scratch.send(&[path(&tree)]);
    let receiver = scratch.receive("new/folder", &["--only", "*.iso"]);
    let told = finish_well(sender);
    assert!(told.contains("1 entry skipped") && told.contains("tree/pipe"), "{told}");
    assert!(told.contains("1 of 1 receiver has what it wanted (--only), after "), "{told}");
    let output = receiver.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<_> = told.lines().filter(|line| line.contains("leave none of the files")).collect();
    assert!(lines.len() == 1 && lines[0].contains("(2 went by)"), "{told}");
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(scratch.names("new/folder").is_empty(), "made, and nothing in it");
}

#[test]
fn what_cannot_be_sent_is_refused_in_one_line() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 1000);
    let send = |args: &[&str]| {
        let mut command = treecast();
        command.args(["send", "--wait-timeout", "1"]).args(args);
        command
    };
    refused(&mut send(&["/dev/null"]), &["/dev/null", "neither a file nor a folder"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let control = taken.local_addr().unwrap();
    let port = control.port().to_string();
    refused(
        &mut send(&["--interface", "lo", "--control", &control.to_string(), path(&file)]),
        &[&port, "in use"],
    );
    refused(&mut send(&["--interface", "lo", path(&file)]), &["0 of 1 receiver came", "1 s"]);
    let mut down = Command::new("unshare");
    down.args(["--net", env!("CARGO_BIN_EXE_treecast"), "send", "--interface", "lo", path(&file)]);
    refused(&mut down, &["interface lo is down"]);
}

/// The sender's socket is for both families, and the kernel gives it such addresses as `::ffff:127.0.0.1`.
#[test]
fn a_receiver_that_comes_by_ipv4_is_shown_with_its_plain_address() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 300_000);
    for args in [&["--json"][..], &[]] {
        let sender = scratch.send(&[args, &[path(&file)]].concat());
        let mut ticket = scratch.ticket();
        let port = ticket.control[0].port();
        ticket.control = vec![([127, 0, 0, 1], port).into()];
        fs::write(scratch.path("ticket"), ticket.to_string()).unwrap();
        let told = finish_well(scratch.receive("a", args));
        assert!(!told.contains("ffff:"), "{told}");
        let told = finish_well(sender);
        assert!(told.contains("127.0.0.1:") && !told.contains("ffff:"), "{told}");
        fs::remove_file(scratch.path("ticket")).unwrap();
    }
}

#[test]
fn a_receiver_hears_at_the_port_that_it_names() {
    const LEN: usize = 300_000;
    let scratch = Scratch::new();
    let file = scratch.file("file", LEN);
    let taken = UdpSocket::bind("[::]:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let number = port.to_string();
    let sender = scratch.send(&["--fanout", "unicast", "--wait", "2", path(&file)]);
    let ticket = format!("@{}", path(&scratch.path("ticket")));
    let named = ["--port", number.as_str()];
    refused(
        scratch.receive_command("a").args(named).arg(&ticket),
        &["UDP port", &number, "in use", "--port"],
    );
    drop(taken);
    let receiver = scratch.receive("a", &[&named[..], &["--json"]].concat());
    let is_bound = || {
        let sockets = fs::read_to_string("/proc/thread-self/net/udp6").unwrap();
        sockets.contains(&format!(":{port:04X} "))
    };
    wait_until("it has the port", is_bound);
    let other = scratch.receive("b", &[]);
    let told = finish_well(receiver);
    let done: Value = told.lines().last().unwrap().parse().unwrap();
    assert!(done["retransmitted_bytes"].as_u64().unwrap() < LEN as u64, "packets come there: {done}");
    finish_well(other);
    finish_well(sender);
}

/// A firewall may have one hole for both, and what comes to the group is not taken for what comes to the receiver alone.
#[test]
fn a_receiver_hears_a_group_at_the_port_that_it_names() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 4_000_000);
    let free = UdpSocket::bind("[::]:0").unwrap().local_addr().unwrap().port().to_string();
    let group = format!("239.255.5.92:{free}");
    let arguments = ["--group", &group, "--fanout", "auto", "--rate", "20M", "--json", path(&file)];
    let sender = scratch.send(&arguments);
    finish_well(scratch.receive("a", &["--port", &free]));
    let told = finish_well(sender);
    let done = told.lines().rfind(|line| line.contains(r#""event":"done""#)).unwrap();
    let done: Value = done.parse().unwrap();
    assert_eq!(done["receivers"][0]["way"], "multicast", "{done}");
}

#[test]
fn a_port_is_of_no_use_where_all_comes_to_a_group() {
    for (more, words) in [
        (&[][..], ["multicast group, at port", "leave out --port"]),
        (&["--repair", "carousel"], ["a carousel comes to the port", "leave out --port"]),
    ] {
        let scratch = Scratch::new();
        let file = scratch.file("file", 10);
        let _sender = scratch.send(&[more, &[path(&file)]].concat());
        let ticket = format!("@{}", path(&scratch.path("ticket")));
        refused(scratch.receive_command("a").args(["--port", "21993"]).arg(&ticket), &words);
        assert!(scratch.names("a").is_empty(), "nothing is left");
    }
}

#[test]
fn what_cannot_be_received_is_refused_in_one_line() {
    let scratch = Scratch::new();
    let receive = |args: &[&str]| {
        let mut command = treecast();
        command.args(["receive", "--connect-timeout", "1"]).args(args);
        command
    };
    let gone = ticket(&TcpListener::bind("127.0.0.1:0").unwrap(), 21_990).to_string();
    refused(&mut receive(&[&gone[..gone.len() - 9]]), &["cut short"]);
    refused(&mut receive(&["--interface", "nowhere0", &gone]), &["nowhere0", "does not exist"]);
    let into = scratch.path("a");
    refused(
        &mut receive(&["--interface", "lo", "--into", path(&into), &gone]),
        &["cannot reach", "127.0.0.1"],
    );
    assert!(scratch.names("a").is_empty(), "nothing is left");
    let nowhere = scratch.file("file", 1).join("folder");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = ticket(&listener, 21_991).to_string();
    refused(&mut receive(&["--interface", "lo", "--into", path(&nowhere), &there]), &[path(&nowhere)]);
    let taken = UdpSocket::bind("239.255.77.1:21992").unwrap();
    let there = ticket(&listener, 21_992).to_string();
    refused(&mut receive(&["--interface", "lo", &there]), &["21992", "in use"]);
    drop(taken);
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
    let receiver = scratch.receive("a", &[]);
    let (mut stream, _) = listener.accept().unwrap();
    let welcome = Welcome { version: PROTOCOL_VERSION, block_len: 1420, receiver: 1 };
    stream.write_all(&Message::Welcome(welcome).to_packet(FileId::new(ticket.session, 0))).unwrap();
    let (escaped, long) = (scratch.path("escaped"), format!("a/{}", "x".repeat(256)));
    let names = ["../escaped", path(&escaped), "a/../../escaped", "..", &long];
    for (index, name) in names.into_iter().enumerate() {
        let file = FileId::new(ticket.session, index as u32);
        let begin = BeginOfFile::new(TransferType::DiskToDisk, 0, name).unwrap();
        stream.write_all(&Message::BeginOfFile(begin).to_packet(file)).unwrap();
        let hash = *blake3::hash(b"").as_bytes();
        stream
            .write_all(&Message::Digest(treecast_wire::message::Digest::unsigned(hash)).to_packet(file))
            .unwrap();
    }
    stream.write_all(&Message::Goodbye.to_packet(FileId::new(ticket.session, 0))).unwrap();
    let text = finish_with(3, receiver);
    assert_eq!(text.matches("nothing may leave the target folder").count(), 5, "{text}");
    assert!(!escaped.exists());
    assert_eq!((scratch.names("a"), scratch.names("")), (vec![], vec!["a".into(), "ticket".into()]));
}

#[test]
fn a_full_disk_fails_one_receiver_and_not_the_others() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 3_000_000);
    fs::create_dir(scratch.path("small")).unwrap();
    let sender = scratch.send(&["--wait", "2", path(&file)]);
    let script = format!(
        "mount -t tmpfs -o size=1M small {small} && {treecast} receive --interface lo --name tiny --wait-for-space 1 --into {small} @{ticket}; \
         code=$?; ls -A {small}; exit $code",
        small = scratch.path("small").display(),
        treecast = env!("CARGO_BIN_EXE_treecast"),
        ticket = scratch.path("ticket").display(),
    );
    let tiny = start(Command::new("unshare").args(["--mount", "sh", "-c", &script]));
    let other = scratch.receive("a", &[]);
    let told = finish_with(3, sender);
    let row = told.lines().find(|line| line.starts_with("tiny ")).unwrap_or_else(|| panic!("{told}"));
    assert!(row.contains("file") && row.contains("is full") && row.contains("needs 2.9 MiB"), "{row}");
    finish_well(other);
    assert!(fs::read(scratch.path("a/file")).unwrap() == contents(3_000_000));
    let told = finish_with(3, tiny);
    assert!(!told.contains(".part"), "nothing is left in the full folder: {told}");
}

#[test]
fn what_is_noted_of_small_files_gives_way_to_them_when_the_disk_is_full() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("many")).unwrap();
    for index in 0..1000 {
        scratch.file(&format!("many/{index}"), 10_000);
    }
    let small = scratch.path("small");
    fs::create_dir(&small).unwrap();
    let many = scratch.path("many");
    let sender = scratch.send(&[path(&many)]);
    // The files take 12,288,000 bytes of it.
    let script = format!(
        "mount -t tmpfs -o size=14M small {small} && {treecast} receive --interface lo --into {small} @{ticket} \
         && ls -A {small} && cat {small}/many/* | wc -c",
        small = small.display(),
        treecast = env!("CARGO_BIN_EXE_treecast"),
        ticket = scratch.path("ticket").display(),
    );
    let told = finish_well(start(Command::new("unshare").args(["--mount", "sh", "-c", &script])));
    finish_well(sender);
    assert!(told.contains("\nmany\n10000000\n") && !told.contains(".treecast-"), "{told}");
}

/// What somebody does to a file while it is sent.
type Damage = fn(&Path);

fn grow(path: &Path) {
    let mut file = fs::File::options().append(true).open(path).unwrap();
    file.write_all(b"more bytes").unwrap();
}

#[test]
fn a_file_that_shrinks_or_changes_is_withdrawn() {
    let shrink = |path: &Path| fs::File::options().write(true).open(path).unwrap().set_len(1000).unwrap();
    let change = |path: &Path| {
        let mut file = fs::File::options().write(true).open(path).unwrap();
        file.write_all(b"other bytes").unwrap();
    };
    let cases =
        [("became shorter", shrink as Damage), ("changed while", change), ("became longer", grow as Damage)];
    for (word, act) in cases {
        let scratch = Scratch::new();
        let file = scratch.file("file", 2_000_000);
        let sender = scratch.send(&["--rate", "8M", "--block", "1420", path(&file)]);
        let receiver = scratch.receive("a", &[]);
        wait_until("some of it has come", || scratch.parts("a") > 0);
        act(&file);
        let told = finish_with(3, sender);
        let lines: Vec<_> = told.lines().filter(|line| line.contains(word)).collect();
        assert!(lines.len() == 1 && lines[0].contains(path(&file)), "said once: {told}");
        let told = finish_with(3, receiver);
        assert!(told.contains(word), "{told}");
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
    for (size, word, act) in cases {
        for repair in ["nack", "after"] {
            let scratch = Scratch::new();
            let file = scratch.file("tree/file", size);
            scratch.file("tree/other", 1000);
            let tree = scratch.path("tree");
            let sender = scratch.send(&["--repair", repair, path(&tree)]);
            act(&file);
            let told = finish_with(3, scratch.receive("a", &[]));
            let failed = told.lines().any(|line| line.contains("tree/file: failed: ") && line.contains(word));
            assert!(failed && told.contains("; 1 failed"), "{size} {word}: {told}");
            let told = finish_with(3, sender);
            assert!(told.contains(&format!("{} {word}", file.display())), "{size} {word}: {told}");
            assert_eq!(scratch.names("a/tree"), ["other"]);
        }
    }
}

#[test]
fn files_that_hold_more_than_their_size_says_and_the_senders_own_output_are_not_sent() {
    let scratch = Scratch::new();
    let sender = scratch.send(&["/proc/self/status"]);
    let told = finish_with(3, scratch.receive("a", &[]));
    assert!(told.contains("status: failed: ") && told.contains("holds more than its size says"), "{told}");
    finish_with(3, sender);
    let output = scratch.file("tree/send.log", 0);
    scratch.file("tree/other", 1000);
    let ticket = scratch.path("own-ticket");
    let mut sender = treecast();
    sender.args(["send", "--interface", "lo", "--ticket-file"]).args([&ticket, &scratch.path("tree")]);
    sender.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(fs::File::create(&output).unwrap());
    let sender = sender.spawn_guarded();
    wait_until("the ticket is written", || ticket.exists());
    let receiver = start(scratch.receive_command("b").arg(format!("@{}", ticket.display())));
    let told = finish_with(3, receiver);
    assert!(told.contains("send.log: failed: ") && told.contains("the sender's own output goes"), "{told}");
    let told = finish_with(3, sender);
    assert!(told.contains("the sender's own output goes"), "{told}");
    assert_eq!(scratch.names("b/tree"), ["other"]);
}

#[test]
fn a_part_of_a_folder_is_sent_as_rsync_would() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let scratch = Scratch::new();
    for name in ["tree/keep", "tree/a.o", "tree/cache/x"] {
        scratch.file(name, 10);
    }
    fs::write(scratch.path("tree").join(OsStr::from_bytes(b"caf\xe9")), "x").unwrap();
    let (tree, content) = (scratch.arg("tree"), format!("{}/", scratch.arg("tree")));
    let sender = scratch.send(&["--exclude", "*.o", "--exclude", "/cache/", &content]);
    finish_well(scratch.receive("a", &[]));
    let told = finish_with(3, sender);
    assert!(told.contains(r"caf\xe9: its name cannot be sent: it is not UTF-8"), "{told}");
    assert!(told.contains("1 file not sent ("), "{told}");
    assert_eq!(scratch.names("a"), ["keep"]);
    let send = |args: &[&str]| {
        let mut command = treecast();
        command.args(["send", "--wait-timeout", "1"]).args(args);
        command
    };
    refused(&mut send(&["--strict", &tree]), &["is not UTF-8"]);
    refused(&mut send(&["--exclude", "*", &tree]), &["everything is excluded"]);
    refused(&mut send(&["--exclude", "[a", &tree]), &["\"[a\"", "cannot be used"]);
}

#[test]
fn ctrl_c_with_discard_leaves_nothing_behind_and_the_sender_knows() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 2_000_000);
    let sender = scratch.send(&["--rate", "4M", "--block", "1420", "--wait", "2", path(&file)]);
    let receiver = scratch.receive("a", &["--name", "quitter", "--discard"]);
    let other = scratch.receive("b", &[]);
    wait_until("some of it has come", || scratch.parts("a") > 0);
    receiver.signal(libc::SIGINT);
    let told = finish_with(1, receiver);
    assert!(told.contains("interrupted"), "{told}");
    assert!(scratch.names("a").is_empty(), "nothing is left");
    finish_well(other);
    let told = finish_with(3, sender);
    assert!(told.lines().any(|line| line.starts_with("quitter ") && line.contains("left")), "{told}");
}

/// Stops one of two receivers when some of a file has come to it, and lets it go on when its sender has ended. Returns what the sender
/// tells of it, the exit code of the receiver and what that one says.
fn stop_one_of_two(option: &str, value: &str) -> (String, Option<i32>, String) {
    let scratch = Scratch::new();
    let file = scratch.file("file", 2_000_000);
    let args = ["--rate", "8M", "--block", "1420", "--wait", "2", option, value, path(&file)];
    let sender = scratch.send(&args);
    let stopped = scratch.receive("a", &["--name", "sleeper", "--reconnect", "1"]);
    let other = scratch.receive("b", &[]);
    wait_until("some of it has come", || scratch.parts("a") > 0);
    stopped.signal(libc::SIGSTOP);
    finish_well(other);
    let told = finish_with(3, sender);
    let row = told.lines().find(|line| line.starts_with("sleeper ")).unwrap_or_else(|| panic!("{told}"));
    stopped.signal(libc::SIGCONT);
    let (code, told) = finish(stopped);
    (row.to_owned(), code, told)
}

#[test]
fn a_stopped_receiver_fails_alone() {
    let (row, code, told) = stop_one_of_two("--stall-limit", "10");
    assert!(row.contains("said nothing for 10 s"), "{row}");
    // Its socket may have held all of it; still it was put out, and nobody told it that this was all.
    assert!(told.contains("start again with the same ticket"), "{told}");
    assert_eq!(code, Some(1), "{told}");
}

/// A multiple of the time that sending takes, which is 2 s, and a time.
#[test]
fn receivers_that_do_not_have_everything_in_time_are_given_up() {
    for limit in ["x3", "5s"] {
        let (row, code, told) = stop_one_of_two("--give-up-after", limit);
        assert!(row.contains("it did not have everything"), "{limit}: {row}");
        assert_eq!(code, Some(1), "{limit}: {told}");
        assert!(told.contains("it did not have everything"), "it is told why: {limit}: {told}");
    }
}

#[test]
fn a_feed_is_sent_line_by_line_and_its_end_ends_the_session() {
    let scratch = Scratch::new();
    let (first, second) = (scratch.file("first", 300_000), scratch.file("second", 100));
    let ticket = scratch.path("ticket");
    let mut command = treecast();
    command.args(["send", "--json", "--interface", "lo", "--feed", "-", "--at-once", "1", "--ticket-file"]);
    command.arg(&ticket).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut sender = command.spawn_guarded();
    wait_until("the ticket is written", || ticket.exists());
    let receiver = scratch.receive("copies", &[]);
    let mut lines = sender.stdin.take().unwrap();
    writeln!(lines, "{}", path(&first)).unwrap();
    wait_until("the first file is there", || scratch.names("copies").contains(&"first".to_owned()));
    writeln!(lines, "/no/such/file\n{}", path(&second)).unwrap();
    drop(lines);
    finish_well(receiver);
    let text = finish_with(3, sender);
    let done = text.lines().find(|line| line.contains(r#""event":"done""#)).unwrap();
    assert!(
        done.contains(r#""not_sent":1"#) && done.contains(r#""complete":true"#),
        "nobody has failed: {done}"
    );
    assert!(text.contains(r#""event":"not_sent""#) && text.contains("/no/such/file"), "{text}");
    assert_eq!(scratch.names("copies"), ["first", "second"]);
    assert!(fs::read(scratch.path("copies/first")).unwrap() == contents(300_000));
}

/// Exit code 0 says that everybody has everything.
#[test]
fn a_feed_of_which_a_file_is_not_there_names_it_at_the_end_and_does_not_end_well() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 100);
    let ticket = scratch.path("ticket");
    let mut command = treecast();
    command.args(["send", "--interface", "lo", "--feed", "-", "--ticket-file"]).arg(&ticket);
    let mut sender =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn_guarded();
    write!(sender.stdin.take().unwrap(), "{}\n/no/such/file\n", path(&file)).unwrap();
    wait_until("the ticket is written", || ticket.exists());
    finish_well(scratch.receive("a", &[]));
    let told = finish_with(3, sender);
    let last =
        told.lines().find(|line| line.starts_with("1 file not sent (")).unwrap_or_else(|| panic!("{told}"));
    assert!(last.contains("/no/such/file: ") && last.contains("No such file"), "{last}");
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
    let scratch = Scratch::new();
    let file = scratch.file("file", 2_000_000);
    let sender = scratch.send(&["--rate", "4M", "--block", "1420", path(&file)]);
    let first = scratch.receive("a", &[]);
    wait_until("some of it has come", || scratch.parts("a") > 0);
    leave_no_descriptor(sender.id());
    let told = finish_with(1, scratch.receive("b", &["--connect-timeout", "1"]));
    assert!(told.contains("cannot reach the sender"), "{told}");
    finish_well(first);
    let told = finish_with(3, sender);
    let words = [
        "cannot be admitted: this process has no descriptor left",
        "ulimit -n",
        "could not be admitted: there was no descriptor left",
    ];
    assert!(words.iter().all(|word| told.contains(word)), "{told}");
}

#[test]
fn a_receiver_that_was_waited_for_and_never_came_does_not_have_everything() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 100);
    let args = ["--wait", "2", "--wait-timeout", "5", "--wait-at-least", "1", path(&file)];
    let sender = scratch.send(&args);
    finish_well(scratch.receive("a", &[]));
    let told = finish_with(3, sender);
    assert!(told.contains("\n1 receiver that the start waited for never came (--wait)\n"), "{told}");
}

#[test]
fn who_comes_late_to_a_feed_is_told_of_as_such() {
    let scratch = Scratch::new();
    let (first, second) = (scratch.file("first", 300_000), scratch.file("second", 100));
    let (ticket, printed, joined) = (scratch.path("ticket"), scratch.path("sent"), scratch.path("joined"));
    let mut command = treecast();
    command.args(["send", "--json", "--interface", "lo", "--feed", "-", "--ticket-file"]).arg(&ticket);
    command.stdin(Stdio::piped()).stdout(fs::File::create(&printed).unwrap()).stderr(Stdio::piped());
    let mut sender = command.spawn_guarded();
    wait_until("the ticket is written", || ticket.exists());
    let early = scratch.receive("early", &["--name", "early"]);
    let mut lines = sender.stdin.take().unwrap();
    writeln!(lines, "{}", path(&first)).unwrap();
    let has = |file: &Path, event: &str| {
        fs::read_to_string(file).is_ok_and(|text| text.contains(&format!(r#""event":"{event}""#)))
    };
    wait_until("the first file is over", || has(&printed, "object"));
    let mut late = scratch.receive_command("late");
    late.args(["--json", "--name", "late"]).arg(format!("@{}", path(&ticket)));
    let late = late.stdout(fs::File::create(&joined).unwrap()).spawn_guarded();
    wait_until("the late one is there", || has(&joined, "joined"));
    writeln!(lines, "{}", path(&second)).unwrap();
    drop(lines);
    finish_with(3, sender);
    for child in [early, late] {
        finish_well(child);
    }
    let told = fs::read_to_string(&printed).unwrap();
    let done: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    let of = |name: &str| {
        let one = done["receivers"].as_array().unwrap().iter().find(|one| one["receiver"] == name).unwrap();
        [&one["objects"], &one["missed"], &one["failed"]].map(|count| count.as_u64().unwrap())
    };
    assert_eq!((of("early"), of("late")), ([2, 0, 0], [1, 1, 0]), "{done}");
    assert_eq!(scratch.names("late"), ["second"]);
}
