//! `send --delta` and `receive --old`: receivers with an older version fetch what differs, and every copy is right, whatever the
//! older version is.

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    child::{Guarded, SpawnGuarded},
    session::{Scratch, events, finish, finish_well, last_event, refused, start, treecast, wait_until},
};
use treecast_lab::{Lab, Options, Topology};

const TREECAST: &str = env!("CARGO_BIN_EXE_treecast");
const LEN: usize = 12_000_000;

fn noise(seed: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new_keyed(&[seed; 32]).finalize_xof().fill(&mut bytes);
    bytes
}

/// An older version and a newer one, which differ in four places and in their length: about 200 kB are to be fetched.
fn versions() -> (Vec<u8>, Vec<u8>) {
    let old = noise(1, LEN);
    let mut new = old.clone();
    for at in [0, LEN / 3, LEN - 20_000] {
        new[at..at + 20_000].copy_from_slice(&noise(2, 20_000));
    }
    let behind = new.split_off(LEN / 2);
    (old, [&new[..], b"some bytes more", &behind].concat())
}

/// Prepares both versions in a scratch folder: the new one as `file`, the old one as `old/file`.
fn prepare(scratch: &Scratch) -> (Vec<u8>, Vec<u8>) {
    let (old, new) = versions();
    fs::create_dir_all(scratch.path("old")).unwrap();
    fs::write(scratch.path("old/file"), &old).unwrap();
    fs::write(scratch.path("file"), &new).unwrap();
    (old, new)
}

/// A receiver's folder in which `content` has the file's name.
fn folder_with(scratch: &Scratch, folder: &str, content: &[u8]) {
    fs::create_dir_all(scratch.path(folder)).unwrap();
    fs::write(scratch.path(folder).join("file"), content).unwrap();
}

#[track_caller]
fn assert_copy(scratch: &Scratch, folder: &str, new: &[u8]) {
    assert!(fs::read(scratch.path(folder).join("file")).unwrap() == new, "{folder}");
    assert_eq!(scratch.names(folder), ["file"], "nothing is left beside it");
}

/// A sender and receivers on one link, each of which loses 5 % of what comes.
struct Site {
    lab: Option<Lab>,
    scratch: Scratch,
}

impl Site {
    fn up(test: &str, receivers: usize) -> Self {
        let scratch = Scratch::new();
        let state_directory = scratch.path("state");
        let options = Options { state_directory, program: TREECAST.into(), ..Options::default() };
        let topology = Topology::parse(&format!("lan:clients={receivers},loss=5%,rate=100M")).unwrap();
        let lab = Lab::up(&topology, &format!("{test}{}", std::process::id()), &options).expect("root may");
        Self { lab: Some(lab), scratch }
    }

    fn lab(&self) -> &Lab {
        self.lab.as_ref().expect("it is up")
    }

    fn start(&self, node: &str, arguments: &[&str], output: &str) -> Guarded {
        let mut command = Command::new(TREECAST);
        let mut command = self.lab().inside(node, command.args(arguments)).unwrap();
        command.stdout(File::create(self.scratch.path(output)).unwrap());
        command.stderr(File::create(self.scratch.path(&format!("{output}.err"))).unwrap());
        command.spawn_guarded()
    }

    /// Sends the file to receivers with these folders, and returns the bytes that left the sender's host and what each
    /// receiver has said.
    fn deliver(&self, options: &[&str], folders: &[&str]) -> (u64, Vec<String>) {
        let before = self.sent_bytes();
        let (ticket, file, wait) =
            (self.scratch.arg("ticket"), self.scratch.arg("file"), folders.len().to_string());
        let of_all = ["send", "--delta", "--rate", "50M", "--wait", &wait, "--ticket-file", &ticket, &file];
        let arguments = [&of_all[..], options].concat();
        let mut programs = vec![(self.start("server0", &arguments, "sender"), "sender".to_owned())];
        wait_until("the ticket is written", || self.scratch.path("ticket").exists());
        for (number, folder) in folders.iter().enumerate() {
            let (into, ticket) = (self.scratch.arg(folder), format!("@{ticket}"));
            let output = format!("receiver{number}");
            let mut arguments = vec!["receive", "--json", "--into", &into, &ticket];
            if self.scratch.path(folder).exists() {
                arguments.extend(["--old", &into]);
            }
            programs.push((self.start(&format!("client{number}"), &arguments, &output), output));
        }
        let said = programs.into_iter().map(|(program, output)| {
            let (code, _) = finish(program);
            let said = fs::read_to_string(self.scratch.path(&output)).unwrap()
                + &fs::read_to_string(self.scratch.path(&format!("{output}.err"))).unwrap();
            assert_eq!(code, Some(0), "{output}: {said}");
            said
        });
        let said: Vec<_> = said.skip(1).collect();
        (self.sent_bytes() - before, said)
    }

    /// Bytes that have left the sender's host.
    fn sent_bytes(&self) -> u64 {
        let read = || fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let table = self.lab().enter("server0", read).unwrap();
        let lines = table.lines().filter_map(|line| line.split_once(':'));
        let links = lines.filter(|(name, _)| name.trim() != "lo");
        links.map(|(_, counts)| counts.split_whitespace().nth(8).unwrap().parse::<u64>().unwrap()).sum()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.lab.take().into_iter().for_each(|lab| drop(lab.down()));
    }
}

#[test]
fn only_what_differs_is_on_the_link() {
    let site = Site::up("delta", 4);
    let (old, new) = prepare(&site.scratch);
    let folders = ["a", "b", "c", "d"];
    folders.iter().for_each(|folder| folder_with(&site.scratch, folder, &old));
    let (bytes, said) = site.deliver(&[], &folders);
    folders.iter().for_each(|folder| assert_copy(&site.scratch, folder, &new));
    assert!(bytes < LEN as u64 / 10, "{bytes} bytes were on the link");
    for said in said {
        let copied = last_event(&said, "older_version")["bytes"].as_u64().unwrap();
        assert_eq!(last_event(&said, "done")["older_bytes"], copied, "{said}");
        assert!(copied > LEN as u64 * 9 / 10, "{said}");
        assert_eq!(events(&said).iter().filter(|event| event["event"] == "announced").count(), 1);
        let done = last_event(&said, "done");
        assert_eq!(
            (&done["objects"], &done["objects_begun"]),
            (&1.into(), &1.into()),
            "the index is no file"
        );
    }
}

/// A carousel hears what receivers lack by datagrams, and loops that. One that comes late and has nothing gets everything.
#[test]
fn a_carousel_sends_what_its_receivers_lack() {
    let site = Site::up("deltac", 5);
    let (old, new) = prepare(&site.scratch);
    let folders = ["a", "b", "c", "d"];
    folders.iter().for_each(|folder| folder_with(&site.scratch, folder, &old));
    let (ticket, file) = (site.scratch.arg("ticket"), site.scratch.arg("file"));
    let args = ["send", "--delta", "--repair", "carousel", "--rate", "50M", "--idle", "8"];
    let sender = site.start("server0", &[&args[..], &["--ticket-file", &ticket, &file]].concat(), "sender");
    wait_until("the ticket is written", || site.scratch.path("ticket").exists());
    let receive = |number: usize, folder: &str| {
        let (into, ticket) = (site.scratch.arg(folder), format!("@{ticket}"));
        let output = format!("receiver{number}");
        let mut arguments = vec!["receive", "--into", &into, &ticket];
        if site.scratch.path(folder).exists() {
            arguments.extend(["--old", &into]);
        }
        site.start(&format!("client{number}"), &arguments, &output)
    };
    let before = site.sent_bytes();
    let receivers: Vec<_> =
        folders.iter().enumerate().map(|(number, folder)| receive(number, folder)).collect();
    receivers.into_iter().for_each(|receiver| assert_eq!(finish(receiver).0, Some(0)));
    let bytes = site.sent_bytes() - before;
    folders.iter().for_each(|folder| assert_copy(&site.scratch, folder, &new));
    assert!(bytes < LEN as u64 / 8, "{bytes} bytes were on the link");
    println!("a carousel: {bytes} of {LEN} bytes were on the link");

    assert_eq!(finish(receive(4, "late")).0, Some(0));
    assert_copy(&site.scratch, "late", &new);
    let (code, said) = finish(sender);
    assert_eq!(code, Some(0), "{said}");
    let told = fs::read_to_string(site.scratch.path("sender")).unwrap();
    assert!(told.contains("of what receivers lacked of 11.4 MiB"), "{told}");
}

/// A receiver whose reports do not get through gets everything, if later.
#[test]
fn a_carousel_sends_everything_to_whoever_cannot_report() {
    let site = Site::up("deltam", 1);
    let (old, new) = prepare(&site.scratch);
    folder_with(&site.scratch, "a", &old);
    let (ticket, file) = (site.scratch.arg("ticket"), site.scratch.arg("file"));
    let args = ["send", "--delta", "--repair", "carousel", "--rate", "50M", "--idle", "2"];
    let sender = site.start("server0", &[&args[..], &["--ticket-file", &ticket, &file]].concat(), "sender");
    wait_until("the ticket is written", || site.scratch.path("ticket").exists());
    let mut firewall = Command::new("nft");
    let rules = "add table inet mute; add chain inet mute out { type filter hook output priority 0; }; \
                 add rule inet mute out udp dport != 0 fib daddr type unicast drop";
    let firewall = site.lab().inside("client0", firewall.args(rules.split(' '))).unwrap().status().unwrap();
    assert!(firewall.success());
    let (into, ticket) = (site.scratch.arg("a"), format!("@{ticket}"));
    let receiver = site.start("client0", &["receive", "--into", &into, "--old", &into, &ticket], "receiver");
    assert_eq!(finish(receiver).0, Some(0));
    assert_copy(&site.scratch, "a", &new);
    assert_eq!(finish(sender).0, Some(0));
}

#[test]
fn whoever_has_none_or_a_wrong_one_gets_the_whole() {
    let site = Site::up("deltaw", 6);
    let (old, new) = prepare(&site.scratch);
    folder_with(&site.scratch, "old-one", &old);
    folder_with(&site.scratch, "another", &old);
    folder_with(&site.scratch, "wrong", &noise(7, 3_000_000));
    folder_with(&site.scratch, "empty", b"");
    folder_with(&site.scratch, "new", &new);
    let folders = ["old-one", "another", "wrong", "empty", "new", "none"];
    let (bytes, _) = site.deliver(&[], &folders);
    folders.iter().for_each(|folder| assert_copy(&site.scratch, folder, &new));
    // Once to all, and to each what it has lost of what it lacks.
    assert!(bytes < LEN as u64 * 3 / 2, "{bytes} bytes were on the link");
}

#[test]
fn lists_of_receivers_carry_it() {
    for fanout in ["mead", "xcast"] {
        let site = Site::up(&format!("delta{fanout}"), 2);
        let (old, new) = prepare(&site.scratch);
        ["a", "b"].iter().for_each(|folder| folder_with(&site.scratch, folder, &old));
        let (bytes, _) = site.deliver(&["--fanout", fanout], &["a", "b"]);
        ["a", "b"].iter().for_each(|folder| assert_copy(&site.scratch, folder, &new));
        assert!(bytes < LEN as u64 / 5, "{fanout}: {bytes} bytes were on the link");
    }
}

#[test]
fn every_fanout_and_repair_takes_it() {
    let (connected, carousel) = (&["--wait", "2"][..], &["--repair", "carousel"][..]);
    for (how, sends_less) in [
        (&[][..], true),
        (&["--fanout", "unicast"][..], true),
        (&["--fanout", "auto"], true),
        (&["--repair", "after", "--plain"], true),
        (&["--rate", "max"], true),
        (carousel, false),
        (&["--repair", "carousel", "--fec", "auto"], false),
        (&["--repair", "carousel", "--plain"], false),
    ] {
        let scratch = Scratch::new();
        let (old, new) = prepare(&scratch);
        folder_with(&scratch, "a", &old);
        let file = scratch.arg("file");
        let rate = if how.contains(&"--rate") { &[][..] } else { &["--rate", "100M"] };
        let wait = if sends_less { connected } else { &[] };
        let sender = scratch.send(&[how, rate, wait, &["--delta", "--json", &file]].concat());
        let old = |old: &str| ["--old".to_owned(), scratch.arg(old)];
        let receivers = [("a", old("a")), ("b", old("old/file"))]
            .map(|(folder, old)| scratch.receive(folder, &old.each_ref().map(|word| &**word)));
        receivers.into_iter().for_each(|receiver| _ = finish_well(receiver));
        ["a", "b"].iter().for_each(|folder| assert_copy(&scratch, folder, &new));
        if sends_less {
            let done = last_event(&finish_well(sender), "done");
            let count = |key: &str| done[key].as_u64().unwrap();
            assert!(count("sent_bytes") < LEN as u64 / 4, "{how:?}: {done}");
            assert_eq!((count("objects"), count("objects_done")), (1, 1), "{how:?}: {done}");
        }
    }
}

#[test]
fn holes_stay_holes() {
    let scratch = Scratch::new();
    let mut image = vec![0; 64 << 20];
    image[5 << 20..][..300_000].copy_from_slice(&noise(3, 300_000));
    fs::create_dir_all(scratch.path("old")).unwrap();
    sparse_file(&scratch.path("old/file"), &image);
    image[40 << 20..][..300_000].copy_from_slice(&noise(4, 300_000));
    sparse_file(&scratch.path("file"), &image);
    let sender = scratch.send(&["--delta", "--rate", "100M", &scratch.arg("file")]);
    finish_well(scratch.receive("copy", &["--old", &scratch.arg("old")]));
    let said = finish_well(sender);
    assert!(said.contains("--delta saved 63.") && said.contains(" of 64.0 MiB"), "{said}");
    assert_copy(&scratch, "copy", &image);
    let allocated = scratch.path("copy/file").metadata().unwrap().blocks() * 512;
    assert!(allocated < 2 << 20, "{allocated} bytes are allocated");
}

/// Writes a file with a hole wherever the content is zero.
fn sparse_file(path: &Path, content: &[u8]) {
    let file = File::create(path).unwrap();
    file.set_len(content.len() as u64).unwrap();
    for (at, piece) in (0..).step_by(4096).zip(content.chunks(4096)) {
        if piece.iter().any(|byte| *byte != 0) {
            file.write_all_at(piece, at).unwrap();
        }
    }
}

#[test]
fn a_renamed_object_is_brought_up_to_date_from_what_has_its_new_name() {
    let scratch = Scratch::new();
    let (old, new) = prepare(&scratch);
    folder_with(&scratch, "copy", b"");
    fs::remove_file(scratch.path("copy/file")).unwrap();
    fs::write(scratch.path("copy/other"), &old).unwrap();
    let sender = scratch.send(&["--delta", "--rate", "100M", "--json", &scratch.arg("file")]);
    finish_well(scratch.receive("copy", &["--rename", "file=other", "--old", &scratch.arg("copy/other")]));
    let done = last_event(&finish_well(sender), "done");
    assert!(done["sent_bytes"].as_u64().unwrap() < LEN as u64 / 4, "{done}");
    assert!(fs::read(scratch.path("copy/other")).unwrap() == new);
    assert_eq!(scratch.names("copy"), ["other"]);
}

#[test]
fn what_is_no_older_version_costs_nothing_but_bandwidth() {
    let scratch = Scratch::new();
    let (old, new) = prepare(&scratch);
    fs::create_dir_all(scratch.path("folder/file")).unwrap();
    fs::write(scratch.path("short"), &old[..1_000_000]).unwrap();
    let pipe = scratch.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let sender = scratch.send(&["--delta", "--rate", "100M", "--wait", "5", &scratch.arg("file")]);
    let cases = [
        ("folder", "there is no older version to use (it is a folder)"),
        ("pipe", "there is no older version to use (it is neither a file nor a block device)"),
        ("short", "are in the older version"),
        ("old", "are in the older version"),
        ("ticket", "nothing of the older version can be used"),
    ];
    let receivers = cases.map(|(old, told)| {
        (scratch.receive(&format!("copy-{old}"), &["--old", &scratch.arg(old)]), old, told)
    });
    for (receiver, old, told) in receivers {
        let said = finish_well(receiver);
        assert!(said.contains(told), "{old}: {said}");
        assert_copy(&scratch, &format!("copy-{old}"), &new);
    }
    finish_well(sender);
}

#[test]
fn an_older_version_that_changes_meanwhile_gives_no_wrong_byte() {
    let scratch = Scratch::new();
    let (old, new) = prepare(&scratch);
    let path = scratch.path("old/file");
    let sender = scratch.send(&["--delta", "--rate", "100M", &scratch.arg("file")]);
    let mut receiver = scratch.receive("copy", &["--old", &scratch.arg("old")]);
    let mut turn = 0_u8;
    while receiver.try_wait().unwrap().is_none() {
        turn = turn.wrapping_add(1);
        let mut other = old.clone();
        other[usize::from(turn) * 40_000..][..1_000_000].copy_from_slice(&noise(turn, 1_000_000));
        fs::write(&path, &other[..LEN - usize::from(turn) * 1_000]).unwrap();
    }
    finish_well(receiver);
    finish_well(sender);
    assert_copy(&scratch, "copy", &new);
}

#[test]
fn a_path_and_a_device_are_brought_up_to_date_where_they_are() {
    let scratch = Scratch::new();
    let (old, new) = prepare(&scratch);
    // A whole number of sectors.
    let image = [&old[..], &vec![7; 2_048_000 - old.len() % 512]].concat();
    fs::write(scratch.path("image"), &image).unwrap();
    let device = Loop::new(scratch.path("image"));
    let sender = scratch.send(&["--delta", "--rate", "100M", "--wait", "2", "--json", &scratch.arg("file")]);
    let ticket = format!("@{}", scratch.arg("ticket"));
    fs::write(scratch.path("here"), &old).unwrap();
    let to = |to: &str, more: &[&str]| {
        let mut command = treecast();
        command.args(["receive", "--interface", "lo", "--json", "--to", to]).args(more).arg(&ticket);
        start(&mut command)
    };
    let here = scratch.arg("here");
    let receivers = [to(&here, &["--old", &here]), to(&device.0, &["--read-back"])];
    for receiver in receivers {
        let said = finish_well(receiver);
        let copied = last_event(&said, "older_version")["bytes"].as_u64().unwrap();
        assert!(copied > LEN as u64 / 3, "{said}");
    }
    finish_well(sender);
    assert!(fs::read(scratch.path("here")).unwrap() == new);
    let there = fs::read(&device.0).unwrap();
    assert!(there[..new.len()] == new && there[new.len()..] == image[new.len()..]);
}

/// A loop device. It goes when this is dropped.
struct Loop(String);

impl Loop {
    fn new(image: PathBuf) -> Self {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(image).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Self(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

#[test]
fn a_sender_and_a_receiver_that_are_started_again_go_on() {
    let scratch = Scratch::new();
    let (old, new) = prepare(&scratch);
    folder_with(&scratch, "copy", &old);
    let args = ["--delta", "--rate", "1M", "--session", &scratch.arg("session"), &scratch.arg("file")];
    let mut sender = scratch.send(&args);
    let mut receiver = scratch.receive("copy", &["--json", "--old", &scratch.arg("copy")]);
    wait_until("some of it is stored", || scratch.parts("copy") > 0);
    receiver.end();
    sender.end();
    let sender = scratch.send_anew(&args);
    finish_well(scratch.receive("copy", &["--old", &scratch.arg("copy")]));
    finish_well(sender);
    assert_copy(&scratch, "copy", &new);
}

/// A file that somebody else has put there may hold what the sender must not learn, so it is not compared unless the user says so.
#[test]
fn only_an_earlier_delivery_of_the_same_sender_is_an_older_version() {
    let scratch = Scratch::new();
    let (old, new) = prepare(&scratch);
    let key = |name: &str| {
        let mut command = treecast();
        command.env("XDG_CONFIG_HOME", scratch.path("config")).args(["keys", "new", name]);
        assert!(command.output().unwrap().status.success());
        scratch.arg(&format!("config/treecast/keys/{name}.pem"))
    };
    let (ours, other) = (key("ours"), key("other"));
    let deliver = |content: &[u8], key: &str| {
        fs::write(scratch.path("file"), content).unwrap();
        // The one of the delivery before, if there was one.
        _ = fs::remove_file(scratch.path("ticket"));
        let sender = scratch.send(&["--delta", "--rate", "100M", "--key", key, &scratch.arg("file")]);
        let said = finish_well(scratch.receive("copy", &["--json"]));
        finish_well(sender);
        assert_copy(&scratch, "copy", content);
        last_event(&said, "older_version")
    };
    let is_refused = |event: &serde_json::Value| {
        let why_not = event["why_not"].as_str().unwrap_or_default();
        event["bytes"] == 0 && why_not.contains("is not from this sender")
    };
    folder_with(&scratch, "copy", &old);
    let event = deliver(&new, &ours);
    assert!(is_refused(&event), "nobody has delivered it: {event}");
    let event = deliver(&old, &ours);
    assert!(event["bytes"].as_u64().unwrap() > LEN as u64 * 9 / 10, "{event}");
    let event = deliver(&new, &other);
    assert!(is_refused(&event), "another sender has delivered it: {event}");
    let copy = File::options().write(true).open(scratch.path("copy/file")).unwrap();
    copy.write_all_at(b"a secret of this host", 1_000).unwrap();
    let event = deliver(&old, &other);
    assert!(is_refused(&event), "it was changed here since: {event}");
}

#[test]
fn what_does_not_go_with_it_is_refused() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 10);
    for (how, words) in [
        (&["--repair", "none"][..], &["--delta", "--repair"][..]),
        (&["--repair", "local"], &["--delta", "--repair"]),
        (&["--dialect", "iotup", "--group", "ff15::77"], &["--delta", "--dialect iotup"]),
        (&["--compress", "zstd"], &["--delta", "--compress"]),
        (&["--rates", "5M,1M"], &["--delta", "--rates"]),
        (&["--fec", "10%"], &["--delta", "--fec"]),
        (&["--feed", "-"], &["--delta", "feed"]),
    ] {
        let mut command = treecast();
        refused(command.args(["send", "--interface", "lo", "--delta"]).args(how).arg(&file), words);
    }
    let mut command = treecast();
    command.args([
        "receive",
        "--interface",
        "lo",
        "--dialect",
        "iotup",
        "--group",
        "ff15::77",
        "--old",
        "x",
        "y",
    ]);
    refused(&mut command, &["--old"]);
}
