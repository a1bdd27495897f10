use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

use super::{
    leftovers::{Done, Noted, What},
    *,
};
use crate::files::{begin, held_log::Piece, names::Names};
use crate::scratch::scratch;

const SESSION: SessionId = SessionId(0xa);
const HASHES: Hashes = Hashes { sent: [7; 32], own: [8; 32] };
const FILE: FileId = FileId(0xa << 32 | 3);

fn open(path: &std::path::Path) -> (TargetFolder, Journal, Leftovers) {
    let folder = TargetFolder::open(path).unwrap();
    let (journal, leftovers) = Journal::open(&folder, SESSION, true).unwrap();
    (folder, journal, leftovers)
}

/// A journal whose receiver is killed after it has noted `ranges` of an object.
fn killed(path: &std::path::Path, ranges: &[Range<u64>]) {
    let (_, mut journal, _) = open(path);
    let mut part = journal.part(FILE, false).unwrap();
    part.file().unwrap().set_len(100).unwrap();
    part.keep();
    journal.have(FILE, &begin(100, "name"), ranges);
}

#[test]
fn a_folder_without_room_for_a_journal_says_why() {
    let folder = TargetFolder::open(std::path::Path::new("/proc")).unwrap();
    let line = Journal::open(&folder, SESSION, true).err().unwrap().to_string();
    assert!(line.starts_with("cannot use folder /proc: no file can be made in it: "), "{line}");
    assert!(!line.contains("os error 0"), "{line}");
}

#[test]
fn the_next_receiver_has_what_the_killed_one_noted() {
    let path = scratch("journal");
    killed(&path, &[0..10, 20..30]);
    let (folder, mut journal, leftovers) = open(&path);
    assert_eq!(leftovers.kept(&folder, FILE, &begin(100, "name")), Kept::Ranges(vec![0..10, 20..30]));
    assert_eq!(leftovers.kept(&folder, FILE, &begin(100, "other")), Kept::Nothing);
    journal.have(FILE, &begin(100, "name"), &[50..60]);
    journal.write();
    journal.file.write_all(b"have 3 1234 90-10").unwrap();
    drop(journal);
    let (folder, mut journal, leftovers) = open(&path);
    let expected = Kept::Ranges(vec![0..10, 20..30, 50..60]);
    assert_eq!(leftovers.kept(&folder, FILE, &begin(100, "name")), expected, "a torn line is passed over");
    journal.gone(FILE);
    drop(journal);
    let (_, journal, leftovers) = open(&path);
    assert!(leftovers.is_empty());
    journal.end(Ending::Over);
    assert_eq!(hidden_files(&folder), [""; 0]);
}

#[test]
fn a_folder_that_has_been_moved_keeps_nothing() {
    let path = scratch("journal-moved");
    let (before, after) = (path.join("before"), path.join("after"));
    let (_, mut journal, leftovers) = open(&before);
    journal.open_held_log(&leftovers).unwrap();
    journal.have(FILE, &begin(100, "name"), &[0..10]);
    journal.write();
    std::fs::rename(&before, &after).unwrap();
    assert_eq!(std::fs::read_dir(&after).unwrap().count(), 3);
    journal.end(Ending::Over);
    assert_eq!(std::fs::read_dir(&after).unwrap().count(), 0);
}

#[test]
fn a_part_file_that_is_gone_or_short_counts_as_far_as_it_goes() {
    let path = scratch("journal-short");
    killed(&path, &[0..10, 20..30]);
    let part = path.join(".treecast-0000000a.0.3.part");
    File::options().write(true).open(&part).unwrap().set_len(15).unwrap();
    let (folder, journal, leftovers) = open(&path);
    assert_eq!(leftovers.kept(&folder, FILE, &begin(100, "name")), Kept::Ranges(vec![0..10]));
    drop(journal);
    std::fs::remove_file(part).unwrap();
    assert!(open(&path).2.is_empty());
}

#[test]
fn a_whole_file_counts_while_it_is_the_one_that_was_noted() {
    let path = scratch("journal-done");
    let (folder, mut journal, _) = open(&path);
    let part = journal.part(FILE, false).unwrap();
    part.file().unwrap().write_all_at(b"abc", 0).unwrap();
    let status = Names::new(folder).commit(part, &begin(3, "name")).unwrap();
    journal.done(FILE, &begin(3, "name"), HASHES, status);
    journal.end(Ending::Interrupted);
    let (folder, mut journal, leftovers) = open(&path);
    let trusted = Kept::Whole { hashes: HASHES, is_trusted: true };
    assert_eq!(leftovers.kept(&folder, FILE, &begin(3, "name")), trusted);
    assert_eq!(leftovers.whole(&folder, FILE), Some(("name".to_owned(), ObjectKind::File, 3)));
    journal.add(format_args!("boot before"));
    journal.done(FILE, &begin(3, "name"), HASHES, status);
    drop(journal);
    let (folder, _journal, mut leftovers) = open(&path);
    let doubted = Kept::Whole { hashes: HASHES, is_trusted: false };
    assert_eq!(leftovers.kept(&folder, FILE, &begin(3, "name")), doubted, "the machine was down since");
    assert_eq!(leftovers.whole(&folder, FILE), None, "nor is the hash");
    let compressed = Hashes { own: *blake3::hash(b"abc").as_bytes(), ..HASHES };
    let mut right = Leftovers::default();
    let (modified, changed) = (status.modified, status.changed);
    let done = Done {
        hashes: compressed,
        inode: status.inode.1,
        modified,
        changed,
        kind: ObjectKind::File,
        size: 3,
        name: "name".into(),
        is_recent: false,
    };
    let noted = Noted { announcement: announcement(&begin(3, "name")), what: What::Done(done) };
    right.objects.insert(3, noted);
    assert!(right.whole(&folder, FILE).is_some(), "it is the file that came compressed");
    let Some(Noted { what: What::Done(done), .. }) = leftovers.objects.remove(&3) else { panic!() };
    let done = Done { is_recent: true, ..done };
    // Whoever has written to it can set its time back, and not the time of change.
    std::thread::sleep(Duration::from_millis(20));
    std::fs::write(path.join("name"), "abd").unwrap();
    let there = File::options().write(true).open(path.join("name")).unwrap();
    let time =
        SystemTime::UNIX_EPOCH + Duration::new(status.modified.seconds as u64, status.modified.nanoseconds);
    there.set_modified(time).unwrap();
    let noted = Noted { announcement: announcement(&begin(3, "name")), what: What::Done(done) };
    let altered = Leftovers { objects: BTreeMap::from([(3, noted)]) };
    assert_eq!(altered.kept(&folder, FILE, &begin(3, "name")), doubted);
    assert_eq!(altered.whole(&folder, FILE), None, "its hash is another");
    File::options()
        .write(true)
        .open(path.join("name"))
        .unwrap()
        .set_modified(SystemTime::UNIX_EPOCH)
        .unwrap();
    assert_eq!(altered.kept(&folder, FILE, &begin(3, "name")), Kept::Nothing);
}

#[test]
fn receivers_that_live_keep_their_slots_and_what_is_old_goes() {
    let path = scratch("journal-slots");
    let (_, living, _) = open(&path);
    let (folder, mut other, _) = open(&path);
    assert_eq!((living.slot, other.slot), (0, 1));
    other.have(FILE, &begin(100, "name"), &[0..10]);
    drop(other);
    let old = File::options().write(true).open(path.join(".treecast-0000000a.1.journal")).unwrap();
    old.set_modified(SystemTime::now() - MAX_AGE * 2).unwrap();
    for name in [".treecast-0000000a.1.5.part", ".treecast-0000000b.0.5.part", ".treecast-notes"] {
        std::fs::write(path.join(name), "x").unwrap();
    }
    remove_old(&folder);
    assert_eq!(hidden_files(&folder), [".treecast-0000000a.0.journal", ".treecast-notes"]);
}

/// Notes two bytes in both files of the log.
fn note_held(journal: &Journal) {
    for _ in 0..2 {
        let piece = Piece { index: 1, announced: [7; 16], position: 0, bytes: b"ab" };
        journal.held_log().write(|log| log.turn().and_then(|()| log.write(&[piece])));
    }
}

#[test]
fn one_that_is_interrupted_leaves_nothing_of_what_it_held() {
    let path = scratch("journal-held-interrupted");
    for (ending, count) in [(Ending::CutShort, 3), (Ending::Interrupted, 1)] {
        let (folder, mut journal, leftovers) = open(&path);
        journal.open_held_log(&leftovers).unwrap();
        note_held(&journal);
        let status = sys::status_at(folder.root(), c"").unwrap();
        journal.done(FILE, &begin(3, "name"), HASHES, status);
        journal.end(ending);
        let names = hidden_files(&folder);
        assert_eq!(names.len(), count, "{names:?}");
        assert!(names.contains(&".treecast-0000000a.0.journal".to_owned()));
    }
}

#[test]
fn one_that_is_stopped_before_it_is_admitted_leaves_all_to_the_next() {
    let path = scratch("journal-not-admitted");
    killed(&path, &[0..10]);
    let (_, journal, leftovers) = open(&path);
    journal.open_held_log(&leftovers).unwrap();
    note_held(&journal);
    drop(journal);
    for _ in 0..2 {
        drop(open(&path));
    }
    let (folder, journal, leftovers) = open(&path);
    assert_eq!(leftovers.kept(&folder, FILE, &begin(100, "name")), Kept::Ranges(vec![0..10]));
    assert_eq!(journal.open_held_log(&leftovers).unwrap().len(), 1);
    journal.end(Ending::Over);
    assert_eq!(hidden_files(&folder), [""; 0]);
}

#[test]
fn a_journal_or_part_file_that_somebody_else_may_have_put_there_is_not_gone_on_with() {
    let path = scratch("journal-not-ours");
    let [journal, part] = ["journal", "3.part"].map(|end| path.join(format!(".treecast-0000000a.0.{end}")));
    let set_mode = |mode| std::fs::set_permissions(&journal, std::fs::Permissions::from_mode(mode));
    let other_name = path.join("other");
    let deeds: [(&dyn Fn(), usize); 5] = [
        (&|| {}, 1),
        (&|| std::fs::hard_link(&journal, &other_name).unwrap(), 0),
        (&|| set_mode(0o620).unwrap(), 0),
        (&|| std::os::unix::fs::chown(&journal, Some(12_345), None).unwrap(), 0),
        (&|| std::fs::hard_link(&part, &other_name).unwrap(), 0),
    ];
    for (deed, kept) in deeds {
        killed(&path, &[0..10]);
        deed();
        let (folder, journal, leftovers) = open(&path);
        assert_eq!(leftovers.objects.len(), kept);
        // Another user's is left to him.
        let is_his =
            sys::status_at(folder.root(), c".treecast-0000000a.0.journal").is_ok_and(|it| !it.is_ours());
        assert_eq!(journal.slot, u32::from(is_his));
        journal.end(Ending::Over);
        std::fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn what_somebody_else_put_where_the_held_log_belongs_gives_way() {
    let path = scratch("journal-held");
    let (outside, held) = (path.join("outside"), path.join(".treecast-0000000a.0.1.held"));
    let set_mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    std::fs::create_dir_all(&path).unwrap();
    let make_fifo = || {
        sys::make_pipe(&held).unwrap();
    };
    let make_hard_link = || {
        std::fs::write(&outside, "precious").unwrap();
        set_mode(&outside, 0o600);
        std::fs::hard_link(&outside, &held).unwrap();
    };
    let make_readable = || {
        std::fs::write(&held, "").unwrap();
        set_mode(&held, 0o644);
    };
    let make_link = || std::os::unix::fs::symlink(&outside, &held).unwrap();
    for make in [&make_fifo as &dyn Fn(), &make_hard_link, &make_readable, &make_link] {
        let (_, journal, leftovers) = open(&path);
        make();
        assert!(journal.open_held_log(&leftovers).unwrap().is_empty());
        note_held(&journal);
        let metadata = held.symlink_metadata().unwrap();
        assert!(metadata.is_file() && metadata.len() > 0);
        assert_eq!((metadata.mode() & 0o777, metadata.nlink()), (0o600, 1));
        assert_eq!(journal.open_held_log(&leftovers).unwrap().len(), 1, "what is ours alone stays");
        journal.end(Ending::Over);
    }
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "precious");
}

/// The journal lies beside what a receiver takes, and `--max-bytes` bounds that.
#[test]
fn a_journal_has_a_share_of_what_may_be_received() {
    let path = crate::scratch::scratch_on_disk("journal-share");
    let longest = |max_bytes| {
        let rules = crate::files::Rules { max_bytes, ..Default::default() };
        let folder = TargetFolder::open(&path).unwrap().with_rules(rules);
        let (mut journal, _) = Journal::open(&folder, SESSION, true).unwrap();
        let begin = crate::files::begin(1 << 40, "name");
        for start in 0..100_000 {
            journal.have(FileId::new(SESSION, 0), &begin, &[start * 2_000..start * 2_000 + 1_000]);
        }
        journal.write();
        journal.file.metadata().unwrap().len()
    };
    let bounded = longest(Some(1_000_000));
    assert!((1 << 19..(1 << 20) + (1 << 16)).contains(&bounded), "{bounded} bytes");
    assert!(longest(None) > 4 << 20);
}
