//! Paths as long as Linux takes them: 4,096 bytes, and 255 for each name.

use std::{io::Read, io::Write, os::fd::OwnedFd, path::Path};

use crate::session::{Scratch, finish_well, finish_with};
use treecast_host::{
    folder::{OPEN_FOLDER, c_string, make_folder_at, make_link_at, open_at},
    root::Root,
};

/// Makes folders below `set`, each in the one before, and files at the end: one with a path of 4,096 bytes, one with a byte more, one that
/// is a symbolic link. Returns their paths. `name_len` is the length of each folder's name.
fn make_set(scratch: &Scratch, name_len: usize) -> [String; 3] {
    std::fs::create_dir(scratch.path("set")).unwrap();
    let mut folder: OwnedFd = std::fs::File::open(scratch.path("set")).unwrap().into();
    let (name, mut path) = ("n".repeat(name_len), "set".to_owned());
    while path.len() + 1 + name_len + 2 <= 4096 {
        make_folder_at(&folder, &c_string(&name).unwrap(), 0o755).unwrap();
        folder = open_at(&folder, &c_string(&name).unwrap(), OPEN_FOLDER, 0).unwrap();
        path = format!("{path}/{name}");
    }
    let file = |first: &str, len: usize| format!("{first}{}", "x".repeat(len - 1));
    let len = 4096 - path.len() - 1;
    let names = [file("a", len), file("b", len + 1), file("c", len)];
    for name in &names[..2] {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let file = open_at(&folder, &c_string(name).unwrap(), flags, 0o644).unwrap();
        std::fs::File::from(file).write_all(b"at the end").unwrap();
    }
    make_link_at(&c_string(&names[0]).unwrap(), &folder, &c_string(&names[2]).unwrap()).unwrap();
    names.map(|name| format!("{path}/{name}"))
}

/// What of the set has come into a folder; names there begin behind `without`.
fn assert_came(scratch: &Scratch, into: &str, without: &str, [whole, beyond, link]: &[String; 3]) {
    let root = Root::open(&scratch.path(into)).unwrap();
    let at = |path: &String| Path::new(path.strip_prefix(without).unwrap()).to_owned();
    let mut text = String::new();
    root.file(&at(whole)).unwrap().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "at the end", "{into}");
    let target = root.link(&at(link)).unwrap().0;
    assert_eq!(Some(&*target), Path::new(whole).file_name(), "{into}");
    assert!(root.status(&at(beyond)).is_err(), "{into}");
}

#[test]
fn a_path_of_4096_bytes_comes_by_every_kind_of_session_and_a_longer_one_is_named() {
    for kind in [
        "--block 1420",
        "--block 580 --plain --repair after",
        "--block 1420 --fec 20%",
        "--block 1420 --fanout unicast",
        "--block 580 --repair carousel",
        "--block 1200 --repair carousel --plain --fec auto",
        "--block 1200 --repair local",
        "--block 1200 --repair local --plain",
    ] {
        let scratch = Scratch::new();
        let paths = make_set(&scratch, 255);
        assert_eq!(paths.each_ref().map(String::len), [4096, 4097, 4096]);
        let mut sender = scratch.send(format!("{kind} --wait-timeout 20 set"));
        finish_well(scratch.receive("a", ""));
        assert_came(&scratch, "a", "", &paths);
        if kind.contains("carousel") {
            sender.end();
            continue;
        }
        let told = finish_with(3, sender);
        assert!(told.contains("it has 4097 bytes, and 4096 can be sent"), "{kind}: {told}");
    }
}

/// The kernel takes no such path at once, neither where names begin with the long part, nor below a folder.
#[test]
fn paths_of_many_short_names_and_without_a_folder_around_them_come_too() {
    let scratch = Scratch::new();
    let paths = make_set(&scratch, 1);
    for (what, without) in [("set", ""), ("set/", "set/")] {
        let is_content = !without.is_empty();
        let sender = scratch.send(format!("--wait-timeout 20 {what}"));
        finish_well(scratch.receive(if is_content { "b" } else { "a" }, "--keep-existing"));
        if is_content {
            finish_well(sender);
        } else {
            finish_with(3, sender);
            assert_came(&scratch, "a", "", &paths);
            std::fs::remove_file(scratch.path("ticket")).unwrap();
        }
    }
    let root = Root::open(&scratch.path("b")).unwrap();
    assert!(paths.iter().all(|path| root.status(Path::new(&path["set/".len()..])).is_ok()));
}

#[test]
fn a_longer_path_is_refused_with_strict() {
    let scratch = Scratch::new();
    make_set(&scratch, 255);
    scratch.refuses("send --wait-timeout 1 --strict set", &["it has 4097 bytes, and 4096 can be sent"]);
}
