//! Receivers whose disk is full, and has room again, or not.

use std::{fs, path::PathBuf, process::Command};

use crate::session::{
    Scratch, all_well, assert_says, events, finish, finish_well, finish_with, path, wait_until,
};
use serde_json::Value;

/// A small file system in memory; unmounted when dropped.
pub struct Disk(PathBuf);

impl Disk {
    pub fn new(scratch: &Scratch, name: &str, size: &str) -> Self {
        let folder = scratch.path(name);
        fs::create_dir_all(&folder).unwrap();
        mount(&["-t", "tmpfs", "-o", &format!("size={size}"), "disk", path(&folder)]);
        Self(folder)
    }

    pub fn grow(&self, size: &str) {
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
    for way in ["--wait 2", "--repair carousel", "--wait 2 --fec 20%"] {
        let scratch = Scratch::new();
        let files = [("set/a", 1_500_000), ("set/b", 3_000_000), ("set/c", 40_000), ("set/d", 50_000)];
        scratch.files(&files);
        let disk = Disk::new(&scratch, "a", "2M");
        // Another program takes what is free while a large file is under way.
        let other = fs::File::create(scratch.path("a/other")).unwrap();
        let mut sender = scratch.send(format!("{way} --rate 20M set"));
        let steady = scratch.receive("b", "");
        let receiver = scratch.receive_into_file("a", "--name anna", "told");
        finish_well(steady);
        let said = || events(&scratch.told("told"));
        wait_until("it says that its disk is full", || scratch.has_told("told", "full"));
        // Others are done, and this one waits still.
        let waits = |event: &Value| event["event"] == "progress" && event["why"] == "full";
        wait_until("it says what it waits for", || said().iter().any(waits));
        drop(other);
        disk.grow("16M");
        let (code, text) = finish(receiver);
        let said = said();
        assert_eq!(code, Some(0), "{way}: {text} {:?}", said.last());
        scratch.assert_files("a", &files);
        let full = said.iter().find(|event| event["event"] == "full").unwrap();
        assert!(full["needed_bytes"].as_u64() > full["free_bytes"].as_u64(), "{full}");
        assert!(said.iter().any(|event| event["event"] == "room"));
        if way.contains("carousel") { sender.end() } else { drop(finish_well(sender)) }
    }
}

/// What is lacking is named: a file system may have bytes and no inode.
#[test]
fn a_receiver_without_inodes_says_so_and_goes_on_when_there_are_some() {
    let scratch = Scratch::with_files(&[("set/a", 300_000), ("set/b", 300_000)]);
    // The folder, the journal, the log of small files and one file.
    let disk = Disk::new(&scratch, "a", "16M,nr_inodes=4");
    let sender = scratch.send("set");
    let receiver = scratch.receive_into_file("a", "", "told");
    wait_until("it says what is lacking", || scratch.has_told("told", "full"));
    assert_says(&scratch.told("told"), &[r#""lacks":"inodes""#]);
    mount(&["-o", "remount,nr_inodes=100", path(&disk.0)]);
    all_well([receiver, sender]);
}

/// The file that has no room fails in the end; what is there of it stays, and where that is is said.
#[test]
fn what_is_there_when_nobody_makes_room_is_named() {
    let scratch = Scratch::with_files(&[("set/large", 3_000_000), ("set/small", 30_000)]);
    let _disk = Disk::new(&scratch, "a", "4M");
    let sender = scratch.send("--rate 10M set");
    let receiver = scratch.receive("a", "--wait-for-space 2");
    scratch.wait_for_part("a");
    // It fails when the disk is full.
    _ = fs::write(scratch.path("a/others"), vec![1; 4 << 20]);
    let told = finish_with(3, receiver);
    finish(sender);
    let line = told.lines().find(|line| line.contains("large: failed")).unwrap();
    let part = scratch.part("a");
    assert_says(line, &[part.file_name().unwrap().to_str().unwrap(), " of it stay in "]);
    assert_says(&told, &["is full: set/large needs", "for 2 s (--wait-for-space)"]);
}
