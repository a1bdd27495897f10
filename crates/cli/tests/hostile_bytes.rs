//! Whatever bytes come: no parser panics, and none takes memory without bound. Golden packets are changed at random, from a seed. `make
//! fuzz` searches longer.

mod parsers;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    fs,
    panic::catch_unwind,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Upper bound, in bytes, of the memory that a parser may have at a time. The reader of routing tables reads 1 MiB at once.
const MOST_MEMORY: usize = 4 << 20;

/// The longest input, in bytes.
const MOST_INPUT: usize = 9000;

/// How often each golden packet is changed.
const ROUNDS: usize = 60;

/// Counts the memory that is in use, and the most that was.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(now, Relaxed);
        // SAFETY: the caller keeps to the rules of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps to the rules of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Random numbers from a seed (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn place(&mut self, bytes: &[u8]) -> usize {
        self.below(bytes.len())
    }
}

/// One test, because it counts the memory of the whole program.
#[test]
fn any_bytes_neither_panic_nor_take_memory_without_bound() {
    let golden = golden();
    assert!(golden.len() > 100, "only {} golden packets were found", golden.len());
    let mut random = Random(0x7ee_ca57);
    for (at, (name, bytes)) in golden.iter().enumerate() {
        check(name, bytes);
        for round in 0..ROUNDS {
            let mut bytes = bytes.clone();
            for _ in 0..=random.below(4) {
                change(&mut bytes, &golden[random.below(golden.len())].1, &mut random);
            }
            bytes.truncate(MOST_INPUT);
            check(&format!("{name}, change {round} of golden packet {at}"), &bytes);
        }
    }
    for round in 0..500 {
        let bytes: Vec<u8> = (0..random.below(300)).map(|_| random.next() as u8).collect();
        check(&format!("random bytes {round}"), &bytes);
    }
}

/// Golden packets, and beginnings of the texts and streams that have none.
fn golden() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    let protocols = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<(String, Vec<u8>)> = protocols
        .flat_map(|protocol| fs::read_dir(protocol).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "bin"))
        .map(|path| (path.display().to_string(), fs::read(&path).unwrap()))
        .collect();
    // Folders list their files in any order, and the seed counts on one.
    all.sort();
    all.extend(made().into_iter().map(|(name, bytes)| (name.to_owned(), bytes)));
    all
}

fn made() -> Vec<(&'static str, Vec<u8>)> {
    let record = |kind: u8, subtype: u8, body: &[u8]| {
        [&[56, 122, 122, 24, 0, kind, 0, subtype, 0, 0, 0, body.len() as u8][..], body].concat()
    };
    let attributes = [0x40, 1, 1, 0, 0x40, 2, 6, 2, 1, 0, 0, 0, 7];
    let peers = record(13, 1, &[192, 0, 2, 1, 0, 0, 0, 1, 0, 192, 0, 2, 2, 10, 0, 0, 1, 0, 1]);
    let entry = [&[0, 0, 0, 1, 24, 192, 0, 2, 0, 1, 0, 0, 0, 0, 3, 232, 0, 13][..], &attributes].concat();
    let dumped = [192, 0, 2, 0, 24, 1, 56, 122, 122, 24, 192, 0, 2, 2, 0, 7, 0, 8, 0x40, 2, 4, 2, 1, 0, 7, 9];
    let several = [&[0; 4][..], &dumped, &dumped].concat();
    let mut entry_of_bgp4mp = vec![0, 7, 0, 9, 0, 0, 0, 1, 192, 0, 2, 2, 192, 0, 2, 9, 0, 0, 0, 1, 56, 122];
    entry_of_bgp4mp.extend([122, 24, 0, 1, 1, 4, 192, 0, 2, 1, 24, 192, 0, 2, 0, 7, 0x40, 2, 4, 2, 1, 0, 7]);
    let metadata = {
        let mut bytes = 60_u32.to_ne_bytes().to_vec();
        bytes.extend([7; 16]);
        bytes.extend([4_u32, 0, 0, 0, 1, 17, 4].iter().flat_map(|number| number.to_ne_bytes()));
        bytes.extend(b"name");
        bytes.extend(4_u32.to_ne_bytes());
        bytes.extend(b"hostDATA");
        bytes
    };
    let segment = {
        let mut bytes = b"\x89tczstd\n".to_vec();
        bytes.extend([1, 0, 0, 0, 0, 0, 0, 17]);
        bytes.extend([
            0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x45, 0, 0, 0x10, 0x61, 0x62, 1, 0, 0xfb, 0xff, 0x39,
        ]);
        bytes.resize(300, 0);
        bytes
    };
    let mdns = [
        &[0, 0, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0][..],
        b"\x01x\x09_treecast\x04_udp\x05local\0\0\x10\0\x01\0\0\0\x78\0\x08\x07a0=what",
    ];
    vec![
        ("TABLE_DUMP_V2", [peers, record(13, 2, &entry)].concat()),
        ("TABLE_DUMP with two routes", record(12, 1, &several)),
        ("BGP4MP_ENTRY", record(16, 2, &entry_of_bgp4mp)),
        ("relations", b"# 20150201\n1|2|-1\n3|2|0\n4 5 2\n".to_vec()),
        ("delegations", b"2|r|20150305|1|19870101|20150305|+0\nr|US|ipv4|10.0.0.0|256|20000101|allocated|x\n".to_vec()),
        ("a log of LDM", b"Oct 13 00:00:02 h.example u.example[7] INFO: 38 20101013000001.5 X 017 a\n".to_vec()),
        ("a log of pqmon", b"Oct 13 00:00:02 h pqmon[7] NOTE: 53218 1 70781 499999456 124000 2\n".to_vec()),
        ("the stream of pqact", metadata),
        ("a compressed segment", segment),
        ("mDNS", mdns.concat()),
        ("status", br#"{"pid":7,"session":"ab","progress":{"role":"send"},"seconds":1.5}"#.to_vec()),
        ("the doctor's hello", br#"{"ask":"hello","version":3}"#.to_vec()),
        ("the doctor's joins", br#"{"ask":"listen","run":1,"senders":2,"tests":3,"joins":[{"group":1,"sources":["192.0.2.1"]}],"visit":null}"#.to_vec()),
    ]
}

/// Changes some bytes: turns bits over, sets extremes, cuts, repeats, and takes pieces of another packet.
fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    if bytes.is_empty() {
        bytes.extend_from_slice(other);
        return;
    }
    let at = random.place(bytes);
    match random.below(8) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
        2 => bytes.truncate(at),
        3 => {
            let end = (at + 1 + random.below(8)).min(bytes.len());
            bytes[at..end].fill([0, 0xff][random.below(2)]);
        }
        4 => {
            let piece = bytes[at..].to_vec();
            bytes.extend(piece);
        }
        5 => {
            let piece = &other[random.place(other).min(other.len())..];
            drop(bytes.splice(at..at, piece.iter().copied()));
        }
        6 => _ = bytes.drain(at..(at + 1 + random.below(8)).min(bytes.len())),
        _ => bytes.resize(bytes.len() + random.below(600), random.next() as u8),
    }
}

#[track_caller]
fn check(what: &str, bytes: &[u8]) {
    for (name, parse) in parsers::ALL {
        let before = NOW.load(Relaxed);
        MOST.store(before, Relaxed);
        let result = catch_unwind(|| parse(bytes));
        assert!(result.is_ok(), "the parser of {name} panics: {what}: {bytes:02x?}");
        let taken = MOST.load(Relaxed).saturating_sub(before);
        assert!(taken <= MOST_MEMORY, "the parser of {name} takes {taken} bytes: {what}: {bytes:02x?}");
    }
}
