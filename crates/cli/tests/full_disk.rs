//! Receivers whose disk is full, and has room again, or not.

use std::{fs, path::PathBuf, process::Command};

use crate::session::{self, Scratch, contents, events, finish, finish_well, finish_with, path, wait_until};
use serde_json::Value;

/// A small file system in memory; unmounted when dropped.
struct Disk(PathBuf);

impl Disk {
    fn new(scratch: &Scratch, name: &str, size: &str) -> Self {
        let folder = scratch.path(name);
        fs::create_dir_all(&folder).unwrap();
        mount(&["-t", "tmpfs", "-o", &format!("size={size}"), "disk", path(&folder)]);
        Self(folder)
    }

    fn grow(&self, size: &str) {
        mount(&["-o", &format!("remount,size={size}"), path(&self.0)]);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn mount(args: &[&str]) {
    assert!(Command::new("mount").args(args).status().unwrap().success(), "{args:?}");
}

/// What comes of a file for which there is no room is fetched again when there is; others are not held up.
#[test]
fn a_receiver_goes_on_by_itself_when_there_is_room_again() {
    for way in [&["--wait", "2"][..], &["--repair", "carousel"], &["--wait", "2", "--fec", "20%"]] {
        let scratch = Scratch::new();
        let files = [("set/a", 1_500_000), ("set/b", 3_000_000), ("set/c", 40_000), ("set/d", 50_000)];
        for (name, size) in files {
            scratch.file(name, size);
        }
        let disk = Disk::new(&scratch, "a", "2M");
        // Another program takes what is free while a large file is under way.
        let other = fs::File::create(scratch.path("a/other")).unwrap();
        let set = scratch.path("set");
        let mut sender = scratch.send(&[way, &["--rate", "20M", path(&set)]].concat());
        let steady = scratch.receive("b", &[]);
        let told = scratch.path("told");
        let mut command = scratch.receive_command("a");
        command.args(["--json", "--name", "anna"]).arg(format!("@{}", scratch.path("ticket").display()));
        let receiver = session::SpawnGuarded::spawn_guarded(command.stdout(fs::File::create(&told).unwrap()));
        finish_well(steady);
        let said = || events(&fs::read_to_string(&told).unwrap());
        wait_until("it says that its disk is full", || said().iter().any(|event| event["event"] == "full"));
        // Others are done, and this one waits still.
        let waits = |event: &Value| event["event"] == "progress" && event["why"] == "full";
        wait_until("it says what it waits for", || said().iter().any(waits));
        drop(other);
        disk.grow("16M");
        let (code, text) = finish(receiver);
        let said = said();
        assert_eq!(code, Some(0), "{way:?}: {text} {:?}", said.last());
        for (name, size) in files {
            assert!(fs::read(scratch.path("a").join(name)).unwrap() == contents(size), "{way:?} {name}");
        }
        let full = said.iter().find(|event| event["event"] == "full").unwrap();
        assert!(full["needed_bytes"].as_u64() > full["free_bytes"].as_u64(), "{full}");
        assert!(said.iter().any(|event| event["event"] == "room"));
        if way.contains(&"carousel") { sender.kill().unwrap() } else { drop(finish_well(sender)) }
    }
}

/// What is lacking is named: a file system may have bytes and no inode.
#[test]
fn a_receiver_without_inodes_says_so_and_goes_on_when_there_are_some() {
    let scratch = Scratch::new();
    scratch.file("set/a", 300_000);
    scratch.file("set/b", 300_000);
    // The folder, the journal, the log of small files and one file.
    let disk = Disk::new(&scratch, "a", "16M,nr_inodes=4");
    let set = scratch.path("set");
    let sender = scratch.send(&[path(&set)]);
    let told = scratch.path("told");
    let mut command = scratch.receive_command("a");
    command.args(["--json"]).arg(format!("@{}", scratch.path("ticket").display()));
    let receiver = session::SpawnGuarded::spawn_guarded(command.stdout(fs::File::create(&told).unwrap()));
    let said = || events(&fs::read_to_string(&told).unwrap());
    wait_until("it says what is lacking", || said().iter().any(|event| event["event"] == "full"));
    let full = said().into_iter().find(|event| event["event"] == "full").unwrap();
    assert_eq!(full["lacks"], "inodes", "{full}");
    mount(&["-o", "remount,nr_inodes=100", path(&disk.0)]);
    finish_well(receiver);
    finish_well(sender);
}

/// The file that has no room fails in the end; what is there of it stays, and where that is is said.
#[test]
fn what_is_there_when_nobody_makes_room_is_named() {
    let scratch = Scratch::new();
    scratch.file("set/large", 3_000_000);
    scratch.file("set/small", 30_000);
    let disk = Disk::new(&scratch, "a", "4M");
    let set = scratch.path("set");
    let sender = scratch.send(&["--rate", "10M", path(&set)]);
    let receiver = scratch.receive("a", &["--wait-for-space", "2"]);
    wait_until("some has come", || scratch.parts("a") > 0);
    let others = scratch.path("a/others");
    _ = Command::new("dd")
        .args(["if=/dev/zero", "bs=4k", "count=1000"])
        .arg(format!("of={}", path(&others)))
        .output();
    let told = finish_with(3, receiver);
    finish(sender);
    let part = scratch
        .names("a")
        .into_iter()
        .find(|name| name.ends_with(".part"))
        .unwrap_or_else(|| panic!("{told}"));
    let line = told.lines().find(|line| line.contains("large: failed")).unwrap();
    assert!(line.contains(&part) && line.contains(" of it stay in "), "{line}");
    assert!(
        told.contains("is full: set/large needs") && told.contains("for 2 s (--wait-for-space)"),
        "{told}"
    );
    drop(disk);
}
