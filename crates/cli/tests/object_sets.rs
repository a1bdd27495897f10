//! Folders as one set: modes, times, links, and what is empty.

use std::{
    fs::{self, File, Permissions},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        process::CommandExt,
    },
    path::Path,
    process::Command,
    time::{Duration, SystemTime},
};

use crate::{
    child::{self, Guarded},
    session::{Scratch, all_well, assert_says, finish, finish_well, finish_with, start, wait_until},
};

/// What is to be the same of something at both ends: kind and permissions, time, and bytes or what it points to.
fn likeness(path: &Path) -> (u32, (i64, i64), Vec<u8>) {
    let metadata = path.symlink_metadata().unwrap();
    let content = match metadata.file_type() {
        kind if kind.is_symlink() => fs::read_link(path).unwrap().into_os_string().into_encoded_bytes(),
        kind if kind.is_dir() => Vec::new(),
        _ => fs::read(path).unwrap(),
    };
    (metadata.mode(), (metadata.mtime(), metadata.mtime_nsec()), content)
}

const SET: [&str; 9] = [
    "set",
    "set/empty",
    "set/none",
    "set/run",
    "set/sub",
    "set/sub/deep",
    "set/sub/deep/secret",
    "set/sub/link",
    "set/upper",
];

fn make_set(scratch: &Scratch) {
    fs::create_dir_all(scratch.path("set/none")).unwrap();
    scratch.file("set/sub/deep/secret", 300_000);
    scratch.file("set/run", 10);
    scratch.file("set/empty", 0);
    symlink("deep/secret", scratch.path("set/sub/link")).unwrap();
    symlink("sub", scratch.path("set/upper")).unwrap();
    for (number, (name, mode)) in [
        ("set/sub/deep/secret", 0o400),
        ("set/run", 0o751),
        ("set/empty", 0o644),
        ("set/none", 0o2750),
        ("set/sub/deep", 0o500),
        ("set/sub", 0o755),
        ("set", 0o700),
    ]
    .into_iter()
    .enumerate()
    {
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890 + number as u64, 123_456_789);
        File::open(scratch.path(name)).unwrap().set_modified(time).unwrap();
        fs::set_permissions(scratch.path(name), Permissions::from_mode(mode)).unwrap();
    }
}

fn assert_alike(scratch: &Scratch, into: &str) {
    for name in SET {
        let (mode, time, content) = likeness(&scratch.path(name));
        let copy = likeness(&scratch.path(into).join(name));
        // The bits beyond the permissions are not carried.
        let mode = if name == "set/none" { mode & !0o2000 } else { mode };
        assert!(copy == (mode, time, content), "{into} {name}: {:o} {:?}", copy.0, copy.1);
    }
}

#[test]
fn a_folder_arrives_as_it_is() {
    for repair in ["nack", "after"] {
        let scratch = Scratch::new();
        make_set(&scratch);
        let sender = scratch.send(format!("--wait 2 --repair {repair} set"));
        let receivers = [scratch.receive("a", ""), scratch.receive("b", "")];
        finish_well(sender);
        for (receiver, into) in receivers.into_iter().zip(["a", "b"]) {
            assert_says(&finish_well(receiver), &["9 files (6 of them folders and links), 293 KiB"]);
            assert_alike(&scratch, into);
            assert_eq!(scratch.names(into), ["set"]);
        }
    }
}

#[test]
fn a_set_that_is_sent_again_replaces_the_old_one() {
    let scratch = Scratch::new();
    make_set(&scratch);
    for _ in 0..2 {
        let sender = scratch.send("set");
        all_well([scratch.receive("a", ""), sender]);
        assert_alike(&scratch, "a");
        fs::remove_file(scratch.path("ticket")).unwrap();
        fs::write(scratch.path("a/set/run"), "changed").unwrap();
        fs::remove_file(scratch.path("a/set/upper")).unwrap();
        fs::write(scratch.path("a/set/upper"), "a file where a link was").unwrap();
    }
}

/// Lets a user without rights run a copy of the program in the scratch folder, with a folder `a` to receive into.
fn as_nobody(scratch: &Scratch) -> impl Fn(&str) -> Guarded {
    const NOBODY: u32 = 65_534;
    child::copy_treecast(&scratch.path("treecast"));
    fs::create_dir(scratch.path("a")).unwrap();
    for name in ["", "a"] {
        fs::set_permissions(scratch.path(name), Permissions::from_mode(0o777)).unwrap();
    }
    let folder = scratch.path("");
    move |line| {
        let mut command = Command::new("sh");
        start(command.args(["-c", line]).current_dir(&folder).uid(NOBODY).gid(NOBODY))
    }
}

/// Each program may have 48 files open: as a user who cannot raise the limit.
#[test]
fn a_set_of_many_files_needs_few_open_ones() {
    let scratch = Scratch::new();
    let files: Vec<_> = (0..300).map(|number| (format!("set/{number:03}"), 70_000 + number)).collect();
    scratch.files(&files);
    let run = as_nobody(&scratch);
    let sender = run("ulimit -n 48; exec ./treecast send --interface lo --ticket-file ticket set");
    scratch.wait_for_ticket();
    let told = finish_well(run("ulimit -n 48; exec ./treecast receive --interface lo --into a @ticket"));
    assert!(told.contains("; 0 failed") || told.contains("; nothing was lost"), "{told}");
    finish_well(sender);
    scratch.assert_files("a", &files);
}

/// Go's module cache is like that: nobody may write into its folders, and its owner gets updates of it all the same.
#[test]
fn a_read_only_folder_is_updated_by_its_owner_and_stays_read_only() {
    let scratch = Scratch::new();
    let run = as_nobody(&scratch);
    let mode = |name: &str| scratch.path(name).metadata().unwrap().permissions().mode() & 0o7777;
    let set_modes = |mode| {
        for folder in ["set/sub", "set"] {
            fs::set_permissions(scratch.path(folder), Permissions::from_mode(mode)).unwrap();
        }
    };
    fs::create_dir_all(scratch.path("set/sub")).unwrap();
    for round in 1..=2_u8 {
        set_modes(0o755);
        fs::write(scratch.path("set/sub/changed"), [round; 9]).unwrap();
        fs::write(scratch.path(&format!("set/sub/new{round}")), [round; 100_000]).unwrap();
        set_modes(0o555);
        let sender = run("exec ./treecast send --interface lo --ticket-file ticket set");
        scratch.wait_for_ticket();
        let told = finish_well(run("exec ./treecast receive --interface lo --into a @ticket"));
        assert!(!told.contains("failed: "), "round {round}: {told}");
        finish_well(sender);
        fs::remove_file(scratch.path("ticket")).unwrap();
        assert_eq!(fs::read(scratch.path("a/set/sub/changed")).unwrap(), [round; 9]);
        assert_eq!((mode("a/set"), mode("a/set/sub")), (0o555, 0o555), "round {round}");
    }
    assert_eq!(scratch.names("a/set/sub"), ["changed", "new1", "new2"]);
}

#[test]
fn what_leads_out_of_the_set_is_not_carried() {
    let scratch = Scratch::with_file("set/file", 1000);
    for (name, target) in [("absolute", "/etc/passwd"), ("out", "../ticket"), ("astray", "x/../file")] {
        symlink(target, scratch.path("set").join(name)).unwrap();
    }
    let sender = scratch.send("set");
    finish_well(scratch.receive("a", ""));
    let told = finish_well(sender);
    assert!(told.contains("3 entries skipped: set/absolute (an absolute link, to /etc/passwd)"), "{told}");
    assert_eq!(scratch.names("a/set"), ["file"]);
}

/// What is in the way at the receiver is told, a line each, and is still there afterwards.
#[test]
fn what_is_in_the_way_stays() {
    let scratch = Scratch::with_files(&[("set/file", 1000), ("set/sub/deep", 1000), ("set/fine", 1000)]);
    let outside = scratch.path("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::create_dir_all(scratch.path("a/set/file/kept")).unwrap();
    symlink(&outside, scratch.path("a/set/sub")).unwrap();
    let sender = scratch.send("set");
    let told = finish_with(3, scratch.receive("a", ""));
    for line in ["set/file: failed: ", "set/sub: failed: ", "set/sub/deep: failed: "] {
        assert_eq!(told.matches(line).count(), 1, "{line} in {told}");
    }
    assert_eq!(finish(sender).0, Some(3));
    assert_eq!(scratch.names("a/set"), ["file", "fine", "sub"]);
    assert!(scratch.path("a/set/file/kept").is_dir() && scratch.names("outside").is_empty());
    scratch.assert_file("a/set/fine", 1000);
}

#[test]
fn what_is_whole_is_right_after_an_interruption() {
    let scratch = Scratch::with_files(&[("set/aaa", 1000), ("set/large", 3_000_000)]);
    fs::set_permissions(scratch.path("set"), Permissions::from_mode(0o750)).unwrap();
    let sender = scratch.send("--rate 8M --block 1420 set");
    let receiver = scratch.receive("a", "--discard");
    wait_until("the first is whole", || scratch.path("a/set/aaa").exists());
    receiver.signal(libc::SIGINT);
    assert_eq!(finish(receiver).0, Some(1));
    finish(sender);
    assert_eq!((likeness(&scratch.path("a/set")).0, likeness(&scratch.path("a/set")).1), {
        let set = likeness(&scratch.path("set"));
        (set.0, set.1)
    });
    assert_eq!(scratch.names("a/set"), ["aaa"]);
    assert_eq!(scratch.parts("a"), 0);
}
