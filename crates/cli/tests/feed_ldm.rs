//! Products of LDM, from a stand-in of pqact to receivers. The stand-in does what pqact of LDM 6.14.5 was seen to do
//! (`contrib/ldm/with-ldm.sh` runs that): it starts the program of the entry in `contrib/ldm/pqact.conf` with a product that it makes
//! up, keeps its pipe open, writes each product's metadata and data (`PIPE -metadata`), and closes the pipe in the end. Its pipe
//! gets full buffers of 4096 bytes. The rest of a product leaves with it because of `-flush`.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use crate::session::{
    Guarded, Scratch, SpawnGuarded, contents, finish, finish_well, finish_with, path, treecast, wait_until,
};

/// The command of the entry, with this folder in place of its own.
fn decoder(folder: &Path) -> Command {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/ldm/pqact.conf");
    let config = fs::read_to_string(config).unwrap();
    let entry = config.lines().find(|line| !line.starts_with('#')).unwrap();
    let fields: Vec<&str> = entry.split('\t').collect();
    assert_eq!(fields[..3], ["CONDUIT", ".*", "PIPE"]);
    let words: Vec<&str> = fields[3].split(' ').collect();
    assert_eq!(
        words[..3],
        ["-flush", "-metadata", "treecast"],
        "pqact keeps the pipe open, and writes metadata"
    );
    let mut command = treecast();
    command.args(&words[3..words.len() - 1]).arg(folder).stdin(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What pqact writes to a pipe at a time, at most.
const BUFFER: usize = 4096;

/// The feed type CONDUIT, as a bit.
const CONDUIT: u32 = 1 << 28;

struct Pqact {
    decoder: Guarded,
    buffer: Vec<u8>,
}

impl Pqact {
    fn start(folder: &Path) -> Self {
        let mut pqact = Self { decoder: decoder(folder).spawn_guarded(), buffer: Vec::new() };
        pqact.put(u32::MAX, "_BEGIN_", "localhost", 0, b"");
        pqact
    }

    fn write(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        let full = self.buffer.len() / BUFFER * BUFFER;
        let rest = self.buffer.split_off(full);
        self.flush();
        self.buffer = rest;
    }

    fn flush(&mut self) {
        // A decoder may have ended.
        _ = self.decoder.stdin.as_mut().unwrap().write_all(&self.buffer);
        self.buffer.clear();
    }

    fn product(&mut self, identifier: &str, signature: u8, data: &[u8]) {
        self.put(CONDUIT, identifier, "idd.example.edu", signature, data);
    }

    fn put(&mut self, feed_type: u32, identifier: &str, origin: &str, signature: u8, data: &[u8]) {
        let total = 4 + 16 + 4 + 8 + 4 + 4 + 4 + (4 + identifier.len()) + (4 + origin.len());
        self.write(&(total as u32).to_ne_bytes());
        self.write(&[signature; 16]);
        self.write(&(data.len() as u32).to_ne_bytes());
        self.write(&1_286_928_000_u64.to_ne_bytes());
        self.write(&250_000_i32.to_ne_bytes());
        self.write(&feed_type.to_ne_bytes());
        self.write(&17_u32.to_ne_bytes());
        for text in [identifier, origin] {
            self.write(&(text.len() as u32).to_ne_bytes());
            self.write(text.as_bytes());
        }
        self.write(data);
        self.flush();
    }

    fn close(mut self) -> Guarded {
        self.flush();
        drop(self.decoder.stdin.take());
        self.decoder
    }
}

#[test]
fn products_of_ldm_reach_receivers() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("spool")).unwrap();
    let mut sender = treecast();
    sender.args(["feed", "--interface", "lo", "--remove", "--ticket-file"]).arg(scratch.path("ticket"));
    sender.arg(scratch.path("spool")).stdout(Stdio::null()).stderr(Stdio::null());
    let sender = sender.spawn_guarded();
    wait_until("the ticket is written", || scratch.path("ticket").exists());
    let receiver = scratch.receive("out", "");
    let mut pqact = Pqact::start(&scratch.path("spool"));
    let names: Vec<String> =
        (0..20).map(|number| format!("data/nam !grib2 /#{number:03}/TMPK! {number:06}")).collect();
    for (number, name) in names.iter().enumerate() {
        pqact.product(name, number as u8, &contents(number * 9000));
    }
    for (number, name) in names.iter().enumerate() {
        wait_until(name, || scratch.path("out").join(name).exists());
        assert!(fs::read(scratch.path("out").join(name)).unwrap() == contents(number * 9000), "{name}");
    }
    finish_well(pqact.close());
    assert!(!scratch.path("out/_BEGIN_").exists(), "nobody sent this product");
    sender.signal(15);
    finish_well(sender);
    finish(receiver);
}

#[test]
fn a_product_that_cannot_be_stored_is_told_of_and_the_next_one_is_stored() {
    let scratch = Scratch::new();
    let spool = scratch.path("spool");
    let mut pqact = Pqact::start(&spool);
    pqact.product("a", 1, b"first");
    pqact.product("a/b", 2, &contents(300_000));
    pqact.product("a", 3, b"second");
    pqact.product("../../out", 4, b"third");
    let long = "x".repeat(251);
    pqact.product(&long, 5, b"fourth");
    pqact.product(&long, 6, b"fifth");
    let told = finish_with(3, pqact.close());
    assert!(told.contains("cannot store a/b: ") && told.lines().count() == 1, "{told}");
    let cut = format!("{}.06060606", &long[..246]);
    assert_eq!(scratch.names("spool"), ["a", "a.03030303", "out", &cut, &long]);
    let mut pqact = Pqact::start(&spool);
    pqact.write(&[7; 100]);
    let told = finish_with(1, pqact.close());
    assert!(told.contains("PIPE -metadata") && told.lines().count() == 1, "{told}");
    let mut pqact = Pqact::start(&spool);
    pqact.product("short", 1, &[0; 10]);
    pqact.write(&100_u32.to_ne_bytes());
    finish_with(1, pqact.close());
    assert!(
        spool.join("short").exists() && scratch.names("spool").iter().all(|name| !name.starts_with('.')),
        "{}",
        path(&spool)
    );
}

#[test]
fn a_pqact_that_was_killed_may_hand_over_its_products_again() {
    let scratch = Scratch::new();
    let spool = scratch.path("spool");
    let mut pqact = Pqact::start(&spool);
    pqact.product("a", 1, b"first");
    pqact.product("a", 2, b"other");
    pqact.write(b"part of a product");
    finish_with(1, pqact.close());
    fs::create_dir(spool.join(".treecast-store-1-0")).unwrap();
    fs::write(spool.join(".treecast-store-1-0/product"), "of a decoder that was killed").unwrap();
    let times = || ["a", "a.02020202"].map(|name| spool.join(name).metadata().unwrap().modified().unwrap());
    let before = times();
    let mut pqact = Pqact::start(&spool);
    pqact.product("a", 1, b"first");
    pqact.product("a", 2, b"other");
    pqact.product("a", 3, b"third");
    finish_well(pqact.close());
    assert_eq!(scratch.names("spool"), ["a", "a.02020202", "a.03030303"]);
    assert_eq!(times(), before, "a file that is written again would be sent again");
}
