//! Block devices and files with holes: what is zero is not sent, and is zero in the copy.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::session::{
    Guarded, Scratch, all_well, assert_says, contents, finish, finish_well, finish_with, start,
};

const MIB: usize = 1 << 20;

/// A loop device over a file of a scratch folder. It goes when this is dropped.
pub struct Loop {
    pub device: String,
    image: PathBuf,
}

impl Loop {
    pub fn new(image: PathBuf) -> Self {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(&image).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Self { device: String::from_utf8(output.stdout).unwrap().trim().to_owned(), image }
    }

    /// A device of so many bytes, none of which is zero.
    fn filled(scratch: &Scratch, name: &str, len: usize) -> Self {
        let image = scratch.path(name);
        fs::write(&image, vec![0xff; len]).unwrap();
        Self::new(image)
    }

    /// What is on it, as a reader of the device sees it.
    pub fn content(&self) -> Vec<u8> {
        fs::read(&self.device).unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

/// An image of which little is not zero: some at its beginning, a few short pieces, and its last bytes.
fn image(len: usize) -> Vec<u8> {
    let mut image = vec![0; len];
    image[..300_000].copy_from_slice(&contents(300_000));
    for at in [len / 3, len / 3 + 9_000, len / 2 + 1, len - 700] {
        image[at..at + 700].copy_from_slice(&contents(1000)[300..]);
    }
    image
}

/// A file with this content and holes.
pub fn sparse_file(path: &Path, content: &[u8]) {
    let file = File::create(path).unwrap();
    file.set_len(content.len() as u64).unwrap();
    for (at, piece) in (0..).step_by(4096).zip(content.chunks(4096)) {
        if piece.iter().any(|byte| *byte != 0) {
            file.write_all_at(piece, at).unwrap();
        }
    }
}

fn allocated(path: &Path) -> u64 {
    path.metadata().unwrap().blocks() * 512
}

/// A receiver that writes to `to`.
fn receive_to(scratch: &Scratch, to: &str, args: &str) -> Guarded {
    start(&mut scratch.command(format!("receive --interface lo --to {to} {args} @ticket")))
}

#[test]
fn a_device_is_sent_to_devices_in_the_time_of_what_is_not_zero() {
    let scratch = Scratch::new();
    let expected = image(48 * MIB);
    sparse_file(&scratch.path("image"), &expected);
    let source = Loop::new(scratch.path("image"));
    let targets = ["a", "b"].map(|name| Loop::filled(&scratch, name, 49 * MIB));
    let began = Instant::now();
    // All of it would take 40 s.
    let sender = scratch.send(format!("--wait 2 --rate 10M {}", source.device));
    let receivers = [
        receive_to(&scratch, &targets[0].device, ""),
        receive_to(&scratch, &targets[1].device, "--read-back"),
    ];
    all_well(receivers);
    finish_well(sender);
    assert!(began.elapsed() < Duration::from_secs(35), "{:?}", began.elapsed());
    for target in targets {
        let content = target.content();
        assert!(content[..expected.len()] == expected, "{}", target.device);
        assert!(content[expected.len()..].iter().all(|byte| *byte == 0xff), "what lies behind stays");
        assert!(
            allocated(&target.image) < 4 * MIB as u64,
            "zeros take no room: {}",
            allocated(&target.image)
        );
    }
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_sparse_file_stays_sparse_with_every_repair_and_for_who_comes_late() {
    for how in ["--repair nack", "--plain", "--repair local"] {
        let scratch = Scratch::new();
        let expected = image(24 * MIB);
        sparse_file(&scratch.path("disk"), &expected);
        let sender = scratch.send(format!("{how} --rate 20M --wait-timeout 20 disk"));
        let first = scratch.receive("first", "");
        scratch.wait_for_part("first");
        let late = scratch.receive("late", "");
        all_well([first, late, sender]);
        for name in ["first", "late"] {
            let copy = scratch.path(name).join("disk");
            assert!(fs::read(&copy).unwrap() == expected, "{how} {name}");
            assert!(allocated(&copy) < 2 * MIB as u64, "{how} {name}: {}", allocated(&copy));
        }
    }
}

#[test]
fn a_carousel_says_what_is_zero_in_each_loop() {
    for how in ["", "--plain", "--fec auto"] {
        let scratch = Scratch::new();
        let expected = image(24 * MIB);
        sparse_file(&scratch.path("disk"), &expected);
        let _sender = scratch.send(format!("{how} --repair carousel --rate 40M disk"));
        finish_well(scratch.receive("copy", ""));
        let copy = scratch.path("copy").join("disk");
        assert!(fs::read(&copy).unwrap() == expected, "{how}");
        assert!(allocated(&copy) < 2 * MIB as u64, "{how}: {}", allocated(&copy));
    }
}

#[test]
fn one_file_gets_a_path_and_a_second_one_is_refused() {
    let scratch = Scratch::with_files(&[("large", 3 * MIB), ("small", 1000)]);
    for (file, len) in [("large", 3 * MIB), ("small", 1000)] {
        fs::write(scratch.path("old"), "it is replaced").unwrap();
        let sender = scratch.send([file]);
        all_well([receive_to(&scratch, "old", "--exec 'cp {} {}.copy'"), sender]);
        fs::remove_file(scratch.path("ticket")).unwrap();
        ["old", "old.copy"].iter().for_each(|copy| scratch.assert_file(copy, len));
    }
    let sender = scratch.send("large small");
    assert_says(&finish_with(1, receive_to(&scratch, "new", "")), &["--to takes one", "--only"]);
    drop(sender);
    assert!(scratch.names("").iter().all(|name| !name.starts_with(".treecast")), "nothing is left behind");
}

#[test]
fn a_small_file_goes_to_a_device_and_two_do_not() {
    let scratch = Scratch::new();
    let target = Loop::filled(&scratch, "target", MIB);
    scratch.files(&[("file", 5000), ("other", 90_000)]);
    let sender = scratch.send("file");
    all_well([receive_to(&scratch, &target.device, "--read-back"), sender]);
    assert!(target.content()[..5000] == contents(5000) && target.content()[5000] == 0xff);
    let sender = scratch.send_anew("file other");
    assert_says(&finish(receive_to(&scratch, &target.device, "")).1, &["takes one"]);
    drop(sender);
}

#[test]
fn a_device_that_is_too_small_or_in_use_is_refused_in_one_line() {
    let scratch = Scratch::new();
    let target = Loop::filled(&scratch, "target", 2 * MIB);
    let before = target.content();
    scratch.file("file", 2 * MIB + 1);
    let sender = scratch.send("file");
    let line = finish_with(3, receive_to(&scratch, &target.device, ""));
    assert!(line.contains(&format!("{} has 2.0 MiB, and file needs 1 B more", target.device)), "{line}");
    finish_with(3, sender);
    assert!(target.content() == before, "nothing is written");

    let refused_to = |to: &str, words: &[&str]| {
        scratch.refuses(format!("receive --interface lo --to {to} @ticket"), words);
    };
    // It is another device's backing.
    let outer = Loop::new(PathBuf::from(&target.device));
    refused_to(&target.device, &[&target.device, "is part of loop"]);
    drop(outer);

    let mounted = Loop::filled(&scratch, "mounted", 2 * MIB);
    let made = Command::new("mkfs.ext4").args(["-q", "-F", &mounted.device]).stderr(Stdio::null()).status();
    assert!(made.unwrap().success());
    fs::create_dir(scratch.path("at")).unwrap();
    let mount = |args: &[&str]| assert!(Command::new("mount").args(args).status().unwrap().success());
    let at = scratch.arg("at");
    // Not itself, but what is made of it.
    let outer = Loop::new(PathBuf::from(&mounted.device));
    mount(&[&outer.device, &at]);
    scratch
        .refuses(["send", "--interface", "lo", &mounted.device], &[&outer.device, "mounted at", "read-only"]);
    assert!(Command::new("umount").arg(&at).status().unwrap().success());
    drop(outer);
    mount(&[&mounted.device, &at]);
    refused_to(&mounted.device, &[&mounted.device, "is mounted at", &at]);
    // Nor is it sent while it changes.
    scratch.refuses(
        ["send", "--interface", "lo", &mounted.device],
        &[&mounted.device, "mounted at", "read-only"],
    );
    mount(&["-o", "remount,ro", &at]);
    let content = mounted.content();
    let sender = scratch.send_anew([&mounted.device]);
    all_well([scratch.receive("copy", ""), sender]);
    assert!(Command::new("umount").arg(&at).status().unwrap().success());
    let name = Path::new(&mounted.device).file_name().unwrap();
    assert!(fs::read(scratch.path("copy").join(name)).unwrap() == content);

    // Somebody else has it open for himself.
    let held = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&target.device).unwrap();
    refused_to(&target.device, &[&target.device, "in use"]);
    drop(held);
    refused_to(&at, &["is a folder", "--into"]);
    refused_to("/dev/treecast-none", &["there is no such device", "/dev/treecast-none"]);
    refused_to("/dev/null", &["/dev/null", "neither a file nor a block device"]);
}
