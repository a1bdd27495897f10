use std::{
    collections::BTreeSet,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use treecast_wire::{
    chunk_index::MAX_INDEX_LEN,
    header::SessionId,
    message::{Attributes, ModificationTime, ObjectKind},
};

use super::*;
use crate::chunk_index::IndexWriter;
use crate::files::{Device, Hashes, Kept, Rules, SourceBlock, Whole, begin};
use crate::scratch::{scratch, scratch_on_disk};

fn store(path: &std::path::Path) -> Store {
    start(TargetFolder::open(path).unwrap())
}

/// A store whose user has named the folder as the place of older versions.
fn store_with_older_versions(path: &std::path::Path) -> Store {
    start(TargetFolder::open(path).unwrap().with_old(Some(path)))
}

fn start(folder: TargetFolder) -> Store {
    let (journal, _) = Journal::open(&folder, SessionId(0), false).unwrap();
    Store::start(folder, journal, Waker::new().unwrap(), Buffers::default()).unwrap()
}

/// The names in a folder, but those of journals.
fn names(path: &std::path::Path) -> Vec<String> {
    let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).filter(|name| !name.ends_with(".journal")).collect()
}

/// Hands over tasks, and waits until they are done. Returns what was reported of them.
fn done(store: &mut Store, bytes: &[u8], tasks: Vec<Task>) -> Vec<Report> {
    let mut batch = store.batch();
    batch.push_block(FileId(0), 0, bytes);
    store.submit(batch, tasks, usize::MAX);
    // Carried out in order: nothing is stored of this one.
    let (reports, last) = commit(store, FileId(u64::MAX));
    last.unwrap_err();
    reports
}

/// Commits, and waits for the answer; returns what was reported before it, too.
fn commit(store: &mut Store, file: FileId) -> (Vec<Report>, Result<(), String>) {
    let batch = store.batch();
    store.submit(batch, vec![Task::Commit { file }], usize::MAX);
    let mut before = Vec::new();
    loop {
        match store.reports.recv().unwrap() {
            Report::Input(ReceiverInput::Committed { file: of }) if of == file => return (before, Ok(())),
            Report::Input(ReceiverInput::StoreFailed { file: of, reason }) if of == file => {
                return (before, Err(reason));
            }
            other => before.push(other),
        }
    }
}

#[test]
fn nothing_is_on_the_disk_before_it_is_announced() {
    let path = scratch("early");
    let mut store = store(&path);
    let file = FileId(3);
    done(&mut store, b"abc", vec![Task::Keep { file, range: 2..5, at: 0 }]);
    assert_eq!(names(&path).len(), 0);
    let announce = Task::Announce { file, begin: begin(5, "name"), kept: Kept::Nothing };
    done(&mut store, b"xy", vec![announce, Task::Keep { file, range: 0..2, at: 0 }]);
    commit(&mut store, file).1.unwrap();
    assert_eq!(std::fs::read(path.join("name")).unwrap(), b"xyabc");
}

#[test]
fn room_is_taken_only_for_what_is_sure() {
    const SIZE: u64 = 8 << 20;
    let path = scratch_on_disk("reserve");
    let mut store = store(&path);
    let (sure, hearsay) = (FileId(1), FileId(2));
    let tasks = vec![
        Task::Announce { file: sure, begin: begin(SIZE, "sure"), kept: Kept::Nothing },
        Task::Announce { file: hearsay, begin: begin(SIZE, "hearsay"), kept: Kept::Nothing },
        Task::Reserve { file: sure, size: SIZE },
    ];
    done(&mut store, b"", tasks);
    commit(&mut store, sure).1.unwrap();
    commit(&mut store, hearsay).1.unwrap();
    let blocks = |name: &str| std::os::unix::fs::MetadataExt::blocks(&path.join(name).metadata().unwrap());
    assert_eq!(blocks("hearsay"), 0);
    assert!(blocks("sure") * 512 >= SIZE, "{} blocks", blocks("sure"));
}

#[test]
fn a_whole_object_becomes_a_file_with_its_mode_and_time_whatever_had_its_name() {
    let path = scratch("make");
    std::fs::create_dir(path.join("folder")).unwrap();
    std::fs::write(path.join("folder/there"), "before").unwrap();
    let modified = ModificationTime { seconds: 1_000_000, nanoseconds: 7 };
    let make = |index, name: &str| {
        let attributes = Attributes { kind: ObjectKind::File, mode: 0o666, modified };
        let begin = begin(3, name).with_attributes(attributes).unwrap();
        let hash = *blake3::hash(b"abc").as_bytes();
        let whole = Whole { announced: [0; 16], begin, content: b"abc".to_vec(), hash };
        let whole = Box::new(whole);
        Task::Make { file: FileId(index), whole }
    };
    let tasks = vec![
        make(0, "new/folder/a"),
        make(1, "new/folder/b"),
        make(2, "folder/there"),
        make(3, "folder"),
        make(4, "folder/there/c"),
    ];
    let reports = done(&mut store(&path), b"", tasks);
    for name in ["new/folder/a", "new/folder/b", "folder/there"] {
        let metadata = path.join(name).metadata().unwrap();
        assert_eq!(
            (metadata.mode() & 0o777, metadata.mtime(), metadata.mtime_nsec()),
            (0o666 & !u32::from(treecast_host::user::umask()), 1_000_000, 7)
        );
        assert_eq!(std::fs::read(path.join(name)).unwrap(), b"abc");
    }
    let committed = (0..3).map(|index| Report::Input(ReceiverInput::Committed { file: FileId(index) }));
    assert_eq!(reports[..3], committed.collect::<Vec<_>>());
    assert!(
        matches!(
            &reports[3..],
            [
                Report::Input(ReceiverInput::StoreFailed { .. }),
                Report::Input(ReceiverInput::StoreFailed { .. })
            ]
        ),
        "{reports:?}"
    );
    assert_eq!(names(&path).len(), 2, "no temporary name is left");
}

/// Each wait for the thread is a change of the thread that runs, and many receivers on one machine do little else.
#[test]
fn who_would_wait_for_the_thread_does_its_work() {
    const BLOCK: usize = 10_000;
    let path = scratch("own-hands");
    let mut store = store(&path);
    let (file, blocks) = (FileId(1), 200);
    let announce = Task::Announce { file, begin: begin((BLOCK * blocks) as u64, "f"), kept: Kept::Nothing };
    let batch = store.batch();
    store.submit(batch, vec![announce], 0);
    let before = waits_of_this_thread();
    for start in (0..blocks as u64 * BLOCK as u64).step_by(BLOCK) {
        let mut batch = store.batch();
        batch.push_block(file, start, &[7; BLOCK]);
        let keep = Task::Keep { file, range: start..start + BLOCK as u64, at: 0 };
        store.submit(batch, vec![keep], 0);
    }
    let waits = waits_of_this_thread() - before;
    drop(store);
    assert!(waits < blocks / 4, "{waits} of {blocks}");
}

/// The number of times that this thread has given up its processor to wait for something.
fn waits_of_this_thread() -> usize {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn a_refused_announcement_gives_way_to_another() {
    let path = scratch("refused");
    let mut store = store(&path);
    let file = FileId(3);
    let refused = begin(5, "../name");
    let announce = Task::Announce { file, begin: refused.clone(), kept: Kept::Nothing };
    let reports = done(&mut store, b"abc", vec![announce]);
    assert!(matches!(&reports[..], [Report::Refused { begin, .. }] if *begin == refused));
    let tasks = vec![
        Task::Discard { file },
        Task::Announce { file, begin: begin(9, "wrong"), kept: Kept::Nothing },
        Task::Announce { file, begin: begin(3, "right"), kept: Kept::Nothing },
        Task::Keep { file, range: 0..3, at: 0 },
    ];
    done(&mut store, b"abc", tasks);
    commit(&mut store, file).1.unwrap();
    assert_eq!(std::fs::read(path.join("right")).unwrap(), b"abc");
    assert_eq!(names(&path), ["right"]);
}

/// A store whose objects wait so long for room, and an announced object of 10 bytes in it.
fn store_with_patience(path: &std::path::Path, wait_for_space: Duration) -> Store {
    let folder = TargetFolder::open(path).unwrap().with_rules(Rules { wait_for_space, ..Rules::default() });
    let (journal, _) = Journal::open(&folder, SessionId(0), false).unwrap();
    let mut store = Store::start(folder, journal, Waker::new().unwrap(), Buffers::default()).unwrap();
    done(
        &mut store,
        b"",
        vec![Task::Announce { file: FileId(1), begin: begin(10, "a"), kept: Kept::Nothing }],
    );
    store
}

/// A write that a quota refuses, of which the file system says nothing beforehand. Returns whether the object waits.
fn fail_by_quota(worker: &mut Worker) -> bool {
    let error = worker.parts.folder.error("write a".into(), std::io::ErrorKind::QuotaExceeded.into());
    worker.parts.waits_for_room(FileId(1), &begin(10, "a"), &Kept::Nothing, slice::from_ref(&(0..10)), &error)
}

fn wait_until_tried(worker: &mut Worker) {
    while worker.parts.full.is_waiting() {
        std::thread::sleep(Duration::from_millis(20));
        worker.parts.look_for_room();
    }
}

#[test]
fn what_a_quota_refuses_again_and_again_fails_when_its_time_is_up() {
    let path = scratch("quota");
    let store = store_with_patience(&path, Duration::from_secs(1));
    let mut hands = store.hands.lock().unwrap();
    let mut times = 0;
    while fail_by_quota(&mut hands.worker) {
        times += 1;
        assert!(times < 10, "it waits for ever");
        wait_until_tried(&mut hands.worker);
    }
    assert!(times > 1, "it is tried more than once");
    drop(hands);
}

#[test]
fn an_object_for_which_there_was_room_has_all_its_time_when_the_disk_is_full_again() {
    let path = scratch("quota-again");
    let store = store_with_patience(&path, Duration::from_millis(1200));
    let mut hands = store.hands.lock().unwrap();
    for time in 0..4 {
        assert!(fail_by_quota(&mut hands.worker), "shortage {time} is another one");
        wait_until_tried(&mut hands.worker);
        hands.worker.parts.keep(FileId(1), 0, &[7; 10]);
    }
    drop(hands);
}

#[test]
fn a_compressed_object_is_what_it_was_and_one_that_lies_gets_no_name() {
    let path = scratch("compressed");
    let mut store = store(&path);
    let text: Vec<u8> = (0..150_000).map(|at| b"compressible "[at % 13]).collect();
    let sent = crate::coding::Encoder::new(3).unwrap().encode(&text).unwrap().unwrap();
    let object = |file, name: &str| {
        let begin = begin(sent.len() as u64, name).compressed();
        let keep = Task::Keep { file, range: 0..sent.len() as u64, at: 0 };
        vec![Task::Announce { file, begin, kept: Kept::Nothing }, keep]
    };
    let (good, bad) = (FileId(1), FileId(2));
    done(&mut store, &sent, object(good, "good"));
    commit(&mut store, good).1.unwrap();
    assert!(std::fs::read(path.join("good")).unwrap() == text);
    // The machine was down meanwhile: it is the file that has been made of what was sent, or not.
    let own = *blake3::hash(&text).as_bytes();
    let hash_of = |store: &mut Store, number, own| {
        let begin = begin(sent.len() as u64, "good").compressed();
        let kept = Kept::Whole { hashes: Hashes { sent: [7; 32], own }, is_trusted: false };
        let file = FileId(number);
        let reports = done(store, b"x", vec![Task::Announce { file, begin, kept }, Task::Hash { file }]);
        let [Report::Input(ReceiverInput::Hashed { hash, .. })] = reports[..] else { panic!("{reports:?}") };
        hash
    };
    assert_eq!(hash_of(&mut store, 10, own), [7; 32]);
    assert_eq!(hash_of(&mut store, 11, [8; 32]), [0; 32]);
    let mut changed = sent.clone();
    changed[crate::coding::HEAD_LEN + 20] ^= 1;
    done(&mut store, &changed, object(bad, "bad"));
    let reason = commit(&mut store, bad).1.unwrap_err();
    assert!(
        reason.contains("decompress bad") && reason.contains("part at 0 is not what it says"),
        "{reason}"
    );
    assert_eq!(names(&path), ["good"]);
    // Nobody compresses such a short one, and nobody says that one must not.
    let short = Whole {
        begin: begin(4, "short").compressed(),
        announced: [0; 16],
        content: b"abcd".to_vec(),
        hash: *blake3::hash(b"abcd").as_bytes(),
    };
    let made = done(&mut store, b"x", vec![Task::Make { file: FileId(3), whole: Box::new(short) }]);
    assert_eq!(made, [Report::Input(ReceiverInput::Committed { file: FileId(3) })]);
    assert_eq!(std::fs::read(path.join("short")).unwrap(), b"abcd");
}

#[test]
fn a_compressed_segment_keeps_the_room_that_it_needs_when_it_is_decompressed() {
    const SEGMENT: u64 = 256 * 1024;
    let path = scratch_on_disk("compressed-room");
    let mut store = store(&path);
    let file = FileId(1);
    // Two segments with a tail of zeros, and one that is zero before it is compressed, too.
    let tasks = vec![
        Task::Announce { file, begin: begin(3 * SEGMENT, "name").compressed(), kept: Kept::Nothing },
        Task::Reserve { file, size: 3 * SEGMENT },
        Task::Keep { file, range: 0..4096, at: 0 },
        Task::KeepZeros { file, range: 4096..SEGMENT },
        Task::Keep { file, range: SEGMENT..SEGMENT + 4096, at: 0 },
        Task::KeepZeros { file, range: SEGMENT + 4096..3 * SEGMENT },
    ];
    done(&mut store, &[7; 4096], tasks);
    let part = path.join(".treecast-00000000.0.1.part").metadata().unwrap();
    let room = part.blocks() * 512;
    assert!((2 * SEGMENT..3 * SEGMENT).contains(&room), "{room}");
}

#[test]
fn zeros_become_a_hole_and_count_for_the_hash() {
    let path = scratch_on_disk("zeros");
    let mut store = store(&path);
    let (file, size) = (FileId(1), 3 << 20);
    let tasks = vec![
        Task::Announce { file, begin: begin(size, "name"), kept: Kept::Nothing },
        Task::Keep { file, range: 0..100, at: 0 },
        Task::KeepZeros { file, range: 100..size },
        Task::Hash { file },
    ];
    let hash = *blake3::hash(&[&[7; 100][..], &vec![0; size as usize - 100]].concat()).as_bytes();
    let expected = Report::Input(ReceiverInput::Hashed { file, hash });
    assert_eq!(done(&mut store, &[7; 100], tasks), [expected]);
    commit(&mut store, file).1.unwrap();
    let there = path.join("name").metadata().unwrap();
    assert!(there.size() == size && there.blocks() * 512 < 100_000, "{}", there.blocks());
}

/// The length of a block in what follows.
const LEN: usize = 1000;

/// An object of ten blocks in two source blocks, and a repair symbol of the first one.
fn two_source_blocks() -> (Vec<u8>, Vec<u8>) {
    let data: Vec<u8> = (0..10 * LEN).map(|at| (at * 31 % 251) as u8).collect();
    let symbol = crate::fec::Encoder::new(&data[..5 * LEN], LEN as u16).unwrap().repair(5..6).unwrap();
    let bytes = [&data[..], &symbol].concat();
    (data, bytes)
}

fn keep_blocks(file: FileId, blocks: Range<usize>) -> Task {
    let range = blocks.start * LEN..blocks.end * LEN;
    Task::Keep { file, at: range.start, range: range.start as u64..range.end as u64 }
}

/// Decodes a source block of which the first block is missing.
fn decode(file: FileId, number: u32) -> Task {
    let start = u64::from(number) * 5;
    let missing = start * LEN as u64..(start + 1) * LEN as u64;
    let blocks = start..start + 5;
    let source_block = SourceBlock { number, blocks, symbol_len: LEN as u16, missing: vec![missing] };
    Task::Decode { file, source_block }
}

/// The first block of each source block is lost, and of the second one no symbol came either.
fn decode_both(file: FileId, name: &str) -> Vec<Task> {
    let symbols =
        Task::KeepSymbols { file, source_block: 0, first: 5, symbol_len: LEN as u16, at: 10 * LEN, len: LEN };
    vec![
        Task::Announce { file, begin: begin(10 * LEN as u64, name), kept: Kept::Nothing },
        keep_blocks(file, 1..5),
        keep_blocks(file, 6..10),
        symbols,
        decode(file, 0),
        decode(file, 1),
    ]
}

/// Waits until there are this many reports.
fn wait_for(store: &Store, mut reports: Vec<Report>, count: usize) -> Vec<Report> {
    while reports.len() < count {
        reports.push(store.reports.recv().unwrap());
    }
    reports
}

#[test]
fn source_blocks_are_decoded_beside_other_work_unless_nobody_wants_them_any_more() {
    let path = scratch("decoding");
    let (data, bytes) = two_source_blocks();
    let (unwanted, wanted) = (FileId(1), FileId(2));
    let mut store = store(&path);
    let mut tasks = decode_both(unwanted, "unwanted");
    tasks.push(Task::Discard { file: unwanted });
    tasks.extend(decode_both(wanted, "wanted"));
    let reports = done(&mut store, &bytes, tasks);
    let reports = wait_for(&store, reports, 2);
    let decoded = |source_block, is_right| {
        Report::Input(ReceiverInput::Decoded { file: wanted, source_block, is_right })
    };
    assert_eq!(reports, [decoded(0, true), decoded(1, false)]);
    done(&mut store, &bytes, vec![keep_blocks(wanted, 5..6)]);
    commit(&mut store, wanted).1.unwrap();
    assert_eq!(std::fs::read(path.join("wanted")).unwrap(), data);
}

#[test]
fn a_decoder_that_panics_fails_its_object_and_no_other() {
    let path = scratch("decoder-panics");
    let (data, bytes) = two_source_blocks();
    let (bad, good) = (FileId(1), FileId(2));
    let mut store = store(&path);
    store.hands.lock().unwrap().worker.parts.decoding.decode = |_, _, _| panic!("no such {}", "symbol");
    let reports = done(&mut store, &bytes, decode_both(bad, "bad"));
    let reports = wait_for(&store, reports, 2);
    let [helps, Report::Input(ReceiverInput::StoreFailed { file, reason })] = &reports[..] else {
        panic!("{reports:?}")
    };
    assert!(*file == bad && reason.contains("no such symbol"), "{reason}");
    assert_eq!(*helps, Report::Helps { file: bad, remedy: crate::remedies::Remedy::NoSymbols });
    store.hands.lock().unwrap().worker.parts.decoding.decode = crate::fec::decode;
    let reports = done(&mut store, &bytes, decode_both(good, "good"));
    assert_eq!(wait_for(&store, reports, 2).len(), 2);
    done(&mut store, &bytes, vec![keep_blocks(good, 5..6)]);
    commit(&mut store, good).1.unwrap();
    assert_eq!(std::fs::read(path.join("good")).unwrap(), data);
    assert_eq!(names(&path), ["good"]);
}

/// A wrong symbol spoils its source block, and what came meanwhile may be in the object's hash.
#[test]
fn what_comes_while_its_source_block_is_decoded_is_not_written_over() {
    static GATE: Mutex<()> = Mutex::new(());
    let path = scratch("decoded-late");
    let (data, bytes) = two_source_blocks();
    let file = FileId(1);
    let mut store = store(&path);
    store.hands.lock().unwrap().worker.parts.decoding.decode = |_, _, _| {
        drop(GATE.lock().unwrap());
        Some(vec![0; 5 * LEN])
    };
    let closed = GATE.lock().unwrap();
    done(&mut store, &bytes, decode_both(file, "name"));
    let reports =
        done(&mut store, &bytes, vec![keep_blocks(file, 0..1), keep_blocks(file, 5..6), Task::Hash { file }]);
    assert_eq!(
        reports,
        [Report::Input(ReceiverInput::Hashed { file, hash: *blake3::hash(&data).as_bytes() })]
    );
    drop(closed);
    wait_for(&store, Vec::new(), 2);
    commit(&mut store, file).1.unwrap();
    assert_eq!(std::fs::read(path.join("name")).unwrap(), data);
}

#[test]
fn the_decoder_ends_with_the_session() {
    static BEGAN: AtomicBool = AtomicBool::new(false);
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    let path = scratch("decoder-ends");
    let mut store = store(&path);
    store.hands.lock().unwrap().worker.parts.decoding.decode = |_, _, _| {
        BEGAN.store(true, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(100));
        IS_OVER.store(true, Ordering::SeqCst);
        None
    };
    done(&mut store, &two_source_blocks().1, decode_both(FileId(1), "name"));
    while !BEGAN.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    drop(store);
    assert!(IS_OVER.load(Ordering::SeqCst));
}

/// A loop device over a file. It goes when this is dropped.
struct Loop(std::path::PathBuf);

impl Loop {
    fn new(image: &std::path::Path) -> Self {
        let output = std::process::Command::new("losetup").args(["--find", "--show"]).arg(image).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        Self(String::from_utf8(output.stdout).unwrap().trim().into())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        _ = std::process::Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

#[test]
fn a_device_that_does_not_hold_what_was_written_fails_only_if_it_is_read_back() {
    let path = scratch("read-back");
    let image = path.join("image");
    std::fs::write(&image, vec![0xff; 1 << 20]).unwrap();
    let file = FileId(1);
    for (reads_back, is_altered) in [(true, false), (true, true), (false, true)] {
        let target = Loop::new(&image);
        let device = Device::open(&target.0, reads_back).unwrap();
        let folder = TargetFolder::open(&path).unwrap().with_device(Some(device));
        let (journal, _) = Journal::open(&folder, SessionId(0), false).unwrap();
        let mut store = Store::start(folder, journal, Waker::new().unwrap(), Buffers::default()).unwrap();
        let tasks = vec![
            Task::Announce { file, begin: begin(8192, "name"), kept: Kept::Nothing },
            Task::Keep { file, range: 0..8192, at: 0 },
            Task::Hash { file },
        ];
        done(&mut store, &[7; 8192], tasks);
        let written = std::fs::File::options().write(true).open(&target.0).unwrap();
        if is_altered {
            std::os::unix::fs::FileExt::write_all_at(&written, &[8], 5000).unwrap();
        }
        let (_, result) = commit(&mut store, file);
        assert_eq!(result.is_err(), reads_back && is_altered, "{result:?}");
        if let Err(line) = result {
            assert!(
                line.contains("verify name") && line.contains("does not hold what was written"),
                "{line}"
            );
        }
    }
}

/// Bits may flip between memory, where the hash was computed, and the disk.
#[test]
fn a_file_that_the_disk_holds_otherwise_gets_no_name_if_it_is_read_back() {
    for (reads_back, is_altered) in [(true, false), (true, true), (false, true)] {
        let path = scratch(&format!("read-back-file-{reads_back}-{is_altered}"));
        let rules = Rules { reads_back, ..Rules::default() };
        let folder = TargetFolder::open(&path).unwrap().with_rules(rules);
        let (journal, _) = Journal::open(&folder, SessionId(0), false).unwrap();
        let mut store = Store::start(folder, journal, Waker::new().unwrap(), Buffers::default()).unwrap();
        let file = FileId(1);
        let tasks = vec![
            Task::Announce { file, begin: begin(8192, "name"), kept: Kept::Nothing },
            Task::Keep { file, range: 0..8192, at: 0 },
            Task::Hash { file },
        ];
        done(&mut store, &[7; 8192], tasks);
        if is_altered {
            let part = names(&path).into_iter().find(|name| name.ends_with(".part")).unwrap();
            let part = std::fs::File::options().write(true).open(path.join(part)).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&part, &[8], 5000).unwrap();
        }
        let (_, result) = commit(&mut store, file);
        assert_eq!(result.is_err(), reads_back && is_altered, "{result:?}");
        assert_eq!(path.join("name").exists(), result.is_ok());
        if let Err(line) = result {
            let words = ["verify name on the disk", "does not hold what was written"];
            assert!(words.iter().all(|word| line.contains(word)), "{line}");
        }
    }
}

fn index_of(object: &[u8]) -> Vec<u8> {
    let mut writer = IndexWriter::new(object.len() as u64).unwrap();
    writer.update(object);
    writer.finish()
}

fn index_begin(len: u64) -> BeginOfFile {
    let modified = ModificationTime { seconds: 0, nanoseconds: 0 };
    begin(len, "name").with_attributes(Attributes { kind: ObjectKind::Index, mode: 0, modified }).unwrap()
}

#[test]
fn one_older_version_is_open_at_a_time() {
    const SIZE: u64 = 600_000;
    const OBJECTS: u32 = 30;
    let path = scratch("older-open");
    let mut old = vec![0; SIZE as usize];
    blake3::Hasher::new().finalize_xof().fill(&mut old);
    let content = index_of(&old);
    let older: Vec<_> = (0..OBJECTS).map(|number| path.join(format!("older{number}"))).collect();
    let mut tasks = Vec::new();
    for (number, path) in (0..).zip(&older) {
        let name = format!("older{number}");
        std::fs::write(path, &old).unwrap();
        let (index, file) =
            (FileId::new(SessionId(0), number * 2), FileId::new(SessionId(0), number * 2 + 1));
        tasks.extend([
            Task::Announce { file: index, begin: index_begin(content.len() as u64), kept: Kept::Nothing },
            Task::Keep { file: index, range: 0..content.len() as u64, at: 0 },
            Task::Announce { file, begin: begin(SIZE, &name).with_index(), kept: Kept::Nothing },
            Task::Seed { file, block_len: 1_400 },
            Task::Commit { file: index },
        ]);
    }
    let open = || -> BTreeSet<PathBuf> {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let open = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        open.filter(|open| older.contains(open)).collect()
    };
    let mut store = store_with_older_versions(&path);
    let mut batch = store.batch();
    batch.push_block(FileId(0), 0, &content);
    store.submit(batch, tasks, usize::MAX);
    let (mut done, mut most) = (0, 0);
    while done < OBJECTS {
        // What two looks find was open between them. One look takes time, in which a file is closed and the next one opened.
        let before = open();
        most = most.max(open().intersection(&before).count());
        while let Some(report) = store.report() {
            if let Report::Seeded { ranges, why_not, .. } = report {
                assert_eq!((&ranges[..], why_not), (slice::from_ref(&(0..SIZE)), None));
                done += 1;
            }
        }
    }
    assert!(most <= 1, "{most} older versions were open at once");
}

#[test]
fn an_index_that_is_not_needed_takes_no_memory_whenever_it_comes() {
    let path = scratch("index-not-needed");
    let mut store = store(&path);
    let content = index_of(&vec![0; 600_000]);
    let index = |file| {
        let len = content.len() as u64;
        [
            Task::Announce { file, begin: index_begin(len), kept: Kept::Nothing },
            Task::Keep { file, range: 0..len, at: 0 },
            Task::Commit { file },
        ]
    };
    let tasks = [
        &index(FileId(0))[..],
        &[Task::NoIndex { file: FileId(1) }, Task::NoIndex { file: FileId(3) }],
        &index(FileId(2)),
    ];
    assert_eq!(done(&mut store, &content, tasks.concat()).len(), 2, "they are committed");
    assert_eq!(store.hands.lock().unwrap().worker.parts.seeding.memory(), 0);
}

#[test]
fn what_an_older_version_holds_is_stored_in_whole_blocks() {
    const SIZE: u64 = 600_000;
    let path = scratch("older");
    let mut old = vec![0; SIZE as usize];
    blake3::Hasher::new().finalize_xof().fill(&mut old);
    std::fs::write(path.join("name"), &old).unwrap();
    let mut new = old;
    new[300_000..310_000].fill(1);
    let content = index_of(&new);
    let (index, file, len) = (FileId(0), FileId(1), content.len() as u64);
    let announced = index_begin(len);
    let mut store = store_with_older_versions(&path);
    let tasks = vec![
        Task::Announce { file: index, begin: announced, kept: Kept::Nothing },
        Task::Keep { file: index, range: 0..len, at: 0 },
        Task::Announce { file, begin: begin(SIZE, "name").with_index(), kept: Kept::Nothing },
        Task::Seed { file, block_len: 1_400 },
    ];
    assert!(done(&mut store, &content, tasks).is_empty(), "it waits for the index");
    commit(&mut store, index).1.unwrap();
    let Report::Seeded { ranges, why_not: None, .. } = store.reports.recv().unwrap() else { panic!() };
    let is_whole = |end: &u64| end.is_multiple_of(1_400) || *end == SIZE;
    assert!(ranges.iter().all(|range| is_whole(&range.start) && is_whole(&range.end)), "{ranges:?}");
    let missing = ranges[0].end..ranges[1].start;
    assert!(ranges.len() == 2 && missing.start <= 300_000 && missing.end >= 310_000, "{ranges:?}");
    assert!(missing.end - missing.start < 150_000, "{ranges:?}");
    let bytes = new[missing.start as usize..missing.end as usize].to_vec();
    let keep = Task::KeepHeld { file, position: missing.start, bytes };
    let reports = done(&mut store, b"", vec![keep, Task::Hash { file }]);
    let hash = *blake3::hash(&new).as_bytes();
    assert_eq!(reports, [Report::Input(ReceiverInput::Hashed { file, hash })]);
    commit(&mut store, file).1.unwrap();
    assert!(std::fs::read(path.join("name")).unwrap() == new);
    assert_eq!(names(&path), ["name"], "the index is gone");
}

#[test]
fn an_object_whose_index_does_not_come_or_is_none_is_fetched_whole() {
    let path = scratch("no-index");
    let mut store = store(&path);
    let announce =
        |file| Task::Announce { file, begin: begin(300_000, "f").with_index(), kept: Kept::Nothing };
    for file in [FileId(1), FileId(2)] {
        let tasks = vec![announce(file), Task::NoIndex { file }, Task::Seed { file, block_len: 1_400 }];
        let nothing = Report::Seeded { file, ranges: Vec::new(), why_not: None };
        assert_eq!(done(&mut store, b"", tasks), [nothing]);
    }
    let begin = index_begin(MAX_INDEX_LEN + 1);
    let tasks = vec![Task::Announce { file: FileId(3), begin, kept: Kept::Nothing }];
    assert!(matches!(&done(&mut store, b"", tasks)[..], [Report::Refused { .. }]));
}
