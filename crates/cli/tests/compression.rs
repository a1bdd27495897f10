//! `send --compress`: less is sent, and receivers get what was there.

use std::{
    fs::{self, File},
    io::Write,
    process::Stdio,
    time::{Duration, Instant},
};

use crate::session::{Scratch, SpawnGuarded, all_well, contents, finish_well};

const MIB: usize = 1 << 20;

/// Text, what cannot be compressed, zeros, and text again.
fn mixed() -> Vec<u8> {
    let text = |len: usize| (0..len / 8).flat_map(|at| format!("{:07}\n", at / 3).into_bytes());
    let mut noise = vec![0; MIB];
    blake3::Hasher::new().finalize_xof().fill(&mut noise);
    text(12 * MIB).chain(noise).chain(vec![0; 2 * MIB]).chain(text(5 * MIB + 77)).collect()
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_compressed_file_takes_the_time_of_what_is_sent_with_every_repair() {
    // 20 MiB take 42 s at 4 Mbit/s.
    for how in [
        "--rate 4M",
        "--rate 100M --fec 20%",
        "--rate 100M --plain --repair after",
        "--rate 100M --repair carousel",
        "--rate 100M --fanout unicast",
    ] {
        let scratch = Scratch::new();
        let (content, other) = (mixed(), contents(70_000));
        fs::write(scratch.path("mixed"), &content).unwrap();
        fs::write(scratch.path("other"), &other).unwrap();
        let began = Instant::now();
        let mut sender = scratch.send(format!("{how} --compress zstd:5 mixed other"));
        finish_well(scratch.receive("copy", ""));
        if how.contains("carousel") {
            sender.end();
        } else {
            finish_well(sender);
        }
        assert!(began.elapsed() < Duration::from_secs(35), "{how:?}: {:?}", began.elapsed());
        assert!(fs::read(scratch.path("copy/mixed")).unwrap() == content, "{how:?}");
        assert!(fs::read(scratch.path("copy/other")).unwrap() == other, "{how:?}");
    }
}

#[test]
fn a_stream_is_compressed_piece_by_piece() {
    let scratch = Scratch::new();
    let content = mixed();
    let mut command = scratch.command("send - --interface lo --compress zstd --ticket-file ticket");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut sender = scratch.with_ticket(&mut command);
    let mut command = scratch.command("receive --stdout --interface lo @ticket");
    command.stdin(Stdio::null()).stdout(File::create(scratch.path("out")).unwrap()).stderr(Stdio::piped());
    let receiver = command.spawn_guarded();
    sender.stdin.take().unwrap().write_all(&content).unwrap();
    all_well([receiver, sender]);
    assert!(fs::read(scratch.path("out")).unwrap() == content);
}
