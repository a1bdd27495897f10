//! `send --delta` and `receive --old`: receivers with an older version fetch what differs, and every copy is right, whatever the
//! older version is.

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, MetadataExt},
    process::Command,
};

use crate::{
    devices::{Loop, sparse_file},
    session::{Scratch, all_well, assert_says, events, finish_well, last_event, start, wait_until},
    site::Site,
};

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
fn site(receivers: usize) -> (Site, Vec<u8>, Vec<u8>) {
    let site = Site::up(&format!("lan:clients={receivers},loss=5%,rate=100M"));
    let (old, new) = prepare(&site.scratch);
    (site, old, new)
}

/// Has receivers with these folders get the file, and returns the bytes that left the sender's host and what each receiver has said.
fn receive(site: &Site, folders: &[&str]) -> (u64, Vec<String>) {
    let before = sent_bytes(site);
    let receivers = folders.iter().enumerate().map(|(number, folder)| {
        let old = if site.scratch.path(folder).exists() { format!("--old {folder}") } else { String::new() };
        let command = format!("receive --json --into {folder} @ticket {old}");
        (site.start(&format!("client{number}"), command, &format!("{folder}-told")), folder)
    });
    let receivers: Vec<_> = receivers.collect();
    let said =
        receivers.into_iter().map(|(receiver, folder)| site.ends(receiver, &format!("{folder}-told"), 0));
    let said = said.collect();
    (sent_bytes(site) - before, said)
}

/// Sends the file to receivers with these folders, as [`receive`].
fn deliver(site: &Site, options: &str, folders: &[&str]) -> (u64, Vec<String>) {
    let sender = site.send(format!("--delta --rate 50M --wait {} file {options}", folders.len()));
    let received = receive(site, folders);
    site.ends(sender, "sender", 0);
    received
}

/// Bytes that have left the sender's host.
fn sent_bytes(site: &Site) -> u64 {
    let read = || fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let table = site.lab().enter("server0", read).unwrap();
    let lines = table.lines().filter_map(|line| line.split_once(':'));
    let links = lines.filter(|(name, _)| name.trim() != "lo");
    links.map(|(_, counts)| counts.split_whitespace().nth(8).unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn only_what_differs_is_on_the_link() {
    let (site, old, new) = site(4);
    let folders = ["a", "b", "c", "d"];
    folders.iter().for_each(|folder| folder_with(&site.scratch, folder, &old));
    let (bytes, said) = deliver(&site, "", &folders);
    folders.iter().for_each(|folder| assert_copy(&site.scratch, folder, &new));
    assert!(bytes < LEN as u64 / 10, "{bytes} bytes were on the link");
    for said in said {
        let copied = last_event(&said, "older_version")["bytes"].as_u64().unwrap();
        let done = last_event(&said, "done");
        assert_eq!(done["older_bytes"], copied, "{said}");
        assert!(copied > LEN as u64 * 9 / 10, "{said}");
        assert_eq!(events(&said).iter().filter(|event| event["event"] == "announced").count(), 1);
        let counts = (&done["objects"], &done["objects_begun"]);
        assert_eq!(counts, (&1.into(), &1.into()), "the index is no file");
    }
}

/// A carousel hears what receivers lack by datagrams, and loops that. One that comes late and has nothing gets everything.
#[test]
fn a_carousel_sends_what_its_receivers_lack() {
    let (site, old, new) = site(4);
    let folders = ["a", "b", "c", "d"];
    folders.iter().for_each(|folder| folder_with(&site.scratch, folder, &old));
    let sender = site.send("--delta --repair carousel --rate 50M --idle 8 file");
    let (bytes, _) = receive(&site, &folders);
    folders.iter().for_each(|folder| assert_copy(&site.scratch, folder, &new));
    assert!(bytes < LEN as u64 / 8, "{bytes} bytes were on the link");
    println!("a carousel: {bytes} of {LEN} bytes were on the link");
    receive(&site, &["late"]);
    assert_copy(&site.scratch, "late", &new);
    assert_says(&site.ends(sender, "sender", 0), &["of what receivers lacked of 11.4 MiB"]);
}

/// A receiver whose reports do not get through gets everything, if later.
#[test]
fn a_carousel_sends_everything_to_whoever_cannot_report() {
    let (site, old, new) = site(1);
    folder_with(&site.scratch, "a", &old);
    let sender = site.send("--delta --repair carousel --rate 50M --idle 2 file");
    let rules = "add table inet mute; add chain inet mute out { type filter hook output priority 0; }; \
                 add rule inet mute out udp dport != 0 fib daddr type unicast drop";
    site.filter(&["client0"], rules);
    receive(&site, &["a"]);
    assert_copy(&site.scratch, "a", &new);
    site.ends(sender, "sender", 0);
}

#[test]
fn whoever_has_none_or_a_wrong_one_gets_the_whole() {
    let (site, old, new) = site(6);
    folder_with(&site.scratch, "old-one", &old);
    folder_with(&site.scratch, "another", &old);
    folder_with(&site.scratch, "wrong", &noise(7, 3_000_000));
    folder_with(&site.scratch, "empty", b"");
    folder_with(&site.scratch, "new", &new);
    let folders = ["old-one", "another", "wrong", "empty", "new", "none"];
    let (bytes, _) = deliver(&site, "", &folders);
    folders.iter().for_each(|folder| assert_copy(&site.scratch, folder, &new));
    // Once to all, and to each what it has lost of what it lacks.
    assert!(bytes < LEN as u64 * 3 / 2, "{bytes} bytes were on the link");
}

#[test]
fn lists_of_receivers_carry_it() {
    for fanout in ["mead", "xcast"] {
        let (site, old, new) = site(2);
        ["a", "b"].iter().for_each(|folder| folder_with(&site.scratch, folder, &old));
        let (bytes, _) = deliver(&site, &format!("--fanout {fanout}"), &["a", "b"]);
        ["a", "b"].iter().for_each(|folder| assert_copy(&site.scratch, folder, &new));
        assert!(bytes < LEN as u64 / 5, "{fanout}: {bytes} bytes were on the link");
    }
}

#[test]
fn every_fanout_and_repair_takes_it() {
    for (how, sends_less) in [
        ("--rate 100M", true),
        ("--rate 100M --fanout unicast", true),
        ("--rate 100M --fanout auto", true),
        ("--rate 100M --repair after --plain", true),
        ("--rate max", true),
        ("--rate 100M --repair carousel", false),
        ("--rate 100M --repair carousel --fec auto", false),
        ("--rate 100M --repair carousel --plain", false),
    ] {
        let scratch = Scratch::new();
        let (old, new) = prepare(&scratch);
        folder_with(&scratch, "a", &old);
        let wait = if sends_less { "--wait 2" } else { "" };
        let sender = scratch.send(format!("{how} {wait} --delta --json file"));
        all_well([scratch.receive("a", "--old a"), scratch.receive("b", "--old old/file")]);
        ["a", "b"].iter().for_each(|folder| assert_copy(&scratch, folder, &new));
        if sends_less {
            let done = last_event(&finish_well(sender), "done");
            let count = |key: &str| done[key].as_u64().unwrap();
            assert!(count("sent_bytes") < LEN as u64 / 4, "{how}: {done}");
            assert_eq!((count("objects"), count("objects_done")), (1, 1), "{how}: {done}");
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
    let sender = scratch.send("--delta --rate 100M file");
    finish_well(scratch.receive("copy", "--old old"));
    assert_says(&finish_well(sender), &["--delta saved 63.", " of 64.0 MiB"]);
    assert_copy(&scratch, "copy", &image);
    let allocated = scratch.path("copy/file").metadata().unwrap().blocks() * 512;
    assert!(allocated < 2 << 20, "{allocated} bytes are allocated");
}

#[test]
fn a_renamed_object_is_brought_up_to_date_from_what_has_its_new_name() {
    let scratch = Scratch::new();
    let (old, new) = prepare(&scratch);
    fs::create_dir(scratch.path("copy")).unwrap();
    fs::write(scratch.path("copy/other"), &old).unwrap();
    let sender = scratch.send("--delta --rate 100M --json file");
    finish_well(scratch.receive("copy", "--rename file=other --old copy/other"));
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
    assert!(Command::new("mkfifo").arg(scratch.path("pipe")).status().unwrap().success());
    let sender = scratch.send("--delta --rate 100M --wait 5 file");
    let cases = [
        ("folder", "there is no older version to use (it is a folder)"),
        ("pipe", "there is no older version to use (it is neither a file nor a block device)"),
        ("short", "are in the older version"),
        ("old", "are in the older version"),
        ("ticket", "nothing of the older version can be used"),
    ];
    let receivers =
        cases.map(|(old, told)| (scratch.receive(&format!("copy-{old}"), format!("--old {old}")), old, told));
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
    let sender = scratch.send("--delta --rate 100M file");
    let mut receiver = scratch.receive("copy", "--old old");
    let mut turn = 0_u8;
    while receiver.try_wait().unwrap().is_none() {
        turn = turn.wrapping_add(1);
        let mut other = old.clone();
        other[usize::from(turn) * 40_000..][..1_000_000].copy_from_slice(&noise(turn, 1_000_000));
        fs::write(&path, &other[..LEN - usize::from(turn) * 1_000]).unwrap();
    }
    all_well([receiver, sender]);
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
    let sender = scratch.send("--delta --rate 100M --wait 2 --json file");
    fs::write(scratch.path("here"), &old).unwrap();
    let to =
        |to: &str| start(&mut scratch.command(format!("receive --interface lo --json --to {to} @ticket")));
    let receivers = [to("here --old here"), to(&format!("{} --read-back", device.device))];
    for receiver in receivers {
        let said = finish_well(receiver);
        let copied = last_event(&said, "older_version")["bytes"].as_u64().unwrap();
        assert!(copied > LEN as u64 / 3, "{said}");
    }
    finish_well(sender);
    assert!(fs::read(scratch.path("here")).unwrap() == new);
    let there = device.content();
    assert!(there[..new.len()] == new && there[new.len()..] == image[new.len()..]);
}

#[test]
fn a_sender_and_a_receiver_that_are_started_again_go_on() {
    let scratch = Scratch::new();
    let (old, new) = prepare(&scratch);
    folder_with(&scratch, "copy", &old);
    let args = "--delta --rate 1M --session session file";
    let sender = scratch.send(args);
    let receiver = scratch.receive("copy", "--json --old copy");
    wait_until("some of it is stored", || scratch.parts("copy") > 0);
    drop((receiver, sender));
    let sender = scratch.send_anew(args);
    all_well([scratch.receive("copy", "--old copy"), sender]);
    assert_copy(&scratch, "copy", &new);
}

/// A file that somebody else has put there may hold what the sender must not learn, so it is not compared unless the user says so.
#[test]
fn only_an_earlier_delivery_of_the_same_sender_is_an_older_version() {
    let scratch = Scratch::new();
    let (old, new) = prepare(&scratch);
    ["ours", "other"].iter().for_each(|name| _ = scratch.run(["keys", "new", &format!("./{name}")]));
    let deliver = |content: &[u8], key: &str| {
        fs::write(scratch.path("file"), content).unwrap();
        // The one of the delivery before, if there was one.
        _ = fs::remove_file(scratch.path("ticket"));
        let sender = scratch.send(format!("--delta --rate 100M --key ./{key} file"));
        let said = finish_well(scratch.receive("copy", "--json"));
        finish_well(sender);
        assert_copy(&scratch, "copy", content);
        last_event(&said, "older_version")
    };
    let is_refused = |event: &serde_json::Value| {
        let why_not = event["why_not"].as_str().unwrap_or_default();
        event["bytes"] == 0 && why_not.contains("is not from this sender")
    };
    folder_with(&scratch, "copy", &old);
    let event = deliver(&new, "ours");
    assert!(is_refused(&event), "nobody has delivered it: {event}");
    let event = deliver(&old, "ours");
    assert!(event["bytes"].as_u64().unwrap() > LEN as u64 * 9 / 10, "{event}");
    let event = deliver(&new, "other");
    assert!(is_refused(&event), "another sender has delivered it: {event}");
    let copy = File::options().write(true).open(scratch.path("copy/file")).unwrap();
    copy.write_all_at(b"a secret of this host", 1_000).unwrap();
    let event = deliver(&old, "other");
    assert!(is_refused(&event), "it was changed here since: {event}");
}
