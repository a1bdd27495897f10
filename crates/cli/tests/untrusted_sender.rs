//! What a sender may do in a receiver's folder, and what it may not.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    process::Command,
};

use crate::session::{
    Guarded, Scratch, TREECAST, assert_says, finish, finish_well, finish_with, start, treecast, wait_until,
};

const WAYS: [&str; 2] = ["--rate 80M", "--rate 80M --repair carousel"];

/// Slow enough for a receiver that goes away and comes again.
const SLOW_WAYS: [&str; 2] = ["--rate 16M --wait 2", "--rate 16M --repair carousel"];

fn mode(path: &std::path::Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &std::path::Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A sender of what is in folder `from`.
fn send_all(scratch: &Scratch, way: &str) -> Guarded {
    let names: String = scratch.names("from").iter().map(|name| format!(" 'from/{name}'")).collect();
    _ = fs::remove_file(scratch.path("ticket"));
    scratch.send(format!("{way}{names}"))
}

#[test]
fn nothing_gets_more_permissions_than_the_umask_and_folders_that_exist_keep_theirs() {
    for way in WAYS {
        let scratch = Scratch::new();
        for (name, size) in [("from/.ssh/config", 10), ("from/new/small", 10), ("from/new/large", 300_000)] {
            set_mode(&scratch.file(name, size), 0o666);
        }
        for name in ["from/.ssh", "from/new"] {
            set_mode(&scratch.path(name), 0o777);
        }
        fs::create_dir_all(scratch.path("a/.ssh")).unwrap();
        set_mode(&scratch.path("a/.ssh"), 0o710);
        let _sender = send_all(&scratch, way);
        let mut receive = Command::new("sh");
        receive.args(["-c", "umask 027; exec \"$@\"", "sh", TREECAST, "receive", "--interface", "lo"]);
        receive.args(["--hidden", "--into", "a", "@ticket"]).current_dir(scratch.path(""));
        finish_well(start(&mut receive));
        let names = ["a/.ssh", "a/.ssh/config", "a/new", "a/new/small", "a/new/large"];
        let modes = names.map(|name| mode(&scratch.path(name)));
        assert_eq!(modes, [0o710, 0o640, 0o750, 0o640, 0o640], "{way}");
    }
}

#[test]
fn names_that_begin_with_a_dot_at_the_top_are_taken_only_when_asked_for() {
    for way in WAYS {
        let scratch = Scratch::new();
        for name in ["from/.bashrc", "from/.config/new", "from/site/.htaccess"] {
            scratch.file(name, 1000);
        }
        fs::create_dir(scratch.path("a")).unwrap();
        fs::write(scratch.path("a/.bashrc"), "mine").unwrap();
        let sender = send_all(&scratch, way);
        let told = finish_with(3, scratch.receive("a", ""));
        drop(sender);
        let advice = "hidden names are not allowed; take such files with --hidden";
        assert_says(&told, &["\".bashrc\" begins with a dot", advice]);
        assert_eq!(scratch.names("a"), [".bashrc", "site"], "{way}");
        assert_eq!(fs::read(scratch.path("a/.bashrc")).unwrap(), b"mine");
        scratch.assert_file("a/site/.htaccess", 1000);
        let _sender = send_all(&scratch, way);
        finish_well(scratch.receive("a", "--hidden"));
        scratch.assert_file("a/.bashrc", 1000);
    }
}

#[test]
fn what_exists_stays_where_that_is_asked_for() {
    for way in WAYS {
        let scratch = Scratch::new();
        for (name, size) in [("from/set/small", 1000), ("from/set/large", 300_000), ("from/set/new", 70_000)]
        {
            scratch.file(name, size);
        }
        fs::create_dir_all(scratch.path("a/set")).unwrap();
        for name in ["small", "large"] {
            fs::write(scratch.path("a/set").join(name), "mine").unwrap();
        }
        let _sender = send_all(&scratch, way);
        let told = finish_well(scratch.receive("a", "--keep-existing"));
        assert_eq!(told.matches("is there already, and stays").count(), 2, "{told}");
        let sizes =
            ["small", "large", "new"].map(|name| scratch.path("a/set").join(name).metadata().unwrap().len());
        assert_eq!(sizes, [4, 4, 70_000], "{way}");
        assert_eq!(scratch.names("a"), ["set"]);
    }
}

#[test]
fn a_session_that_grows_too_large_ends_and_what_is_whole_stays() {
    for way in WAYS {
        for (limit, value, most) in [("--max-bytes", "250k", 2), ("--max-files", "4", 4)] {
            let scratch = Scratch::new();
            (0..9).for_each(|number| drop(scratch.file(&format!("from/set/{number}"), 100_000)));
            let sender = send_all(&scratch, way);
            let told = finish_with(1, scratch.receive("a", [limit, value]));
            drop(sender);
            let line = told.lines().find(|line| line.contains("ended early")).unwrap_or_default();
            assert_says(line, &[limit, "what was not complete is removed"]);
            assert!(!told.contains("told to stop"), "{told}");
            let there = scratch.names("a/set");
            assert!(there.len() <= most, "{way} {limit}: {there:?}");
            let left = scratch.names("a");
            assert!(left.iter().all(|name| name == "set"), "{way} {limit}: {left:?}");
        }
    }
}

/// What came by then is kept, and counts as the receiver's own when it goes on, whatever is to stay.
#[test]
fn a_receiver_whose_time_is_up_goes_on_when_it_is_started_again() {
    for way in SLOW_WAYS {
        let scratch = Scratch::new();
        for (name, size) in [("from/set/a", 20_000), ("from/set/z", 9_000_000)] {
            scratch.file(name, size);
        }
        let _sender = send_all(&scratch, way);
        let steady = scratch.receive("steady", "");
        let told = finish_with(1, scratch.receive("a", "--max-time 3 --keep-existing --name a"));
        assert_says(&told, &["s that receiving may take are over"]);
        assert!(!told.contains("told to stop"), "{told}");
        assert_eq!(scratch.parts("a"), 1, "{told}");
        assert_says(&finish_well(scratch.receive("a", "--keep-existing --name a")), &["there from before"]);
        scratch.assert_file("a/set/z", 9_000_000);
        assert_eq!(scratch.names("a"), ["set"]);
        drop(steady);
    }
}

/// Bytes that a receiver has left on the disk may be altered until it says that they are right.
#[test]
fn a_part_file_that_is_altered_before_or_after_its_receiver_comes_again_never_ends_as_verified() {
    for way in SLOW_WAYS {
        let scratch = Scratch::with_file("from/file", 9_000_000);
        let _sender = send_all(&scratch, way);
        let steady = scratch.receive("steady", "");
        finish(scratch.receive("a", "--max-time 3 --name a"));
        let part = fs::File::options().write(true).open(scratch.part("a")).unwrap();
        let kept = part.metadata().unwrap().len();
        assert!(kept > 0);
        let alter = |at| std::os::unix::fs::FileExt::write_all_at(&part, b"altered", at).unwrap();
        alter(1_000);
        let again = scratch.receive("a", "--name a");
        // What was kept had been read and hashed by then, while nothing of it came anew.
        std::thread::sleep(std::time::Duration::from_millis(900));
        alter(300_000);
        finish_well(again);
        scratch.assert_file("a/file", 9_000_000);
        drop(steady);
    }
}

/// A name that a terminal shows as another one.
const TURNED: &str = "bill\u{202e}fdp.exe";
const ESCAPED: &str = "bill\\u{202e}fdp.exe";

#[test]
fn names_and_reasons_of_the_other_side_are_escaped_wherever_a_person_reads_them() {
    let scratch = Scratch::new();
    scratch.file(&format!("from/{TURNED}"), 600_000);
    // It cannot be stored where a folder has its name, and both sides say so.
    fs::create_dir_all(scratch.path("a").join(TURNED)).unwrap();
    let sender = scratch.send(format!("--wait 3 --rate 3M from/{TURNED}"));
    let one = scratch.receive("a", "--name anna");
    let two = scratch.receive("b", "--log info");
    let three = scratch.receive("c", "--json");
    let mut status = String::new();
    wait_until("the session is on", || {
        let output = treecast().arg("status").output().unwrap();
        status = String::from_utf8(output.stdout).unwrap();
        status.contains("3 receivers there")
    });
    let told = [one, two, sender].map(|child| finish(child).1);
    for text in &told {
        assert!(!text.contains('\u{202e}') && text.contains(ESCAPED), "{text}");
    }
    assert!(!status.contains('\u{202e}'), "{status}");
    let is_row = |line: &str| line.starts_with("anna ") && line.contains(ESCAPED);
    assert!(told[2].lines().any(is_row), "no table: {}", told[2]);
    let (_, json) = finish(three);
    assert!(json.contains(TURNED), "JSON escapes by itself: {json}");
}
