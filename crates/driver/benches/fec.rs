//! How fast source blocks of several lengths are encoded and decoded, and how many repair symbols one core makes:
//! `cargo bench -p treecast-driver --bench fec`. What `treecast_proto::fec::MAX_SOURCE_SYMBOLS` was chosen by.

use std::time::Instant;

use treecast_driver::fec::{Encoder, decode};

const SYMBOL_LEN: u16 = 1420;
const BYTES: usize = 40_000_000;
const LOSS_PERCENT: u64 = 30;

fn main() {
    println!("symbols of {SYMBOL_LEN} bytes, {LOSS_PERCENT} % lost, MB/s of the source block on one core");
    println!("{:>8} {:>8} {:>8} {:>8} {:>8}", "symbols", "encode", "repair", "decode", "failed");
    for symbols in [64, 128, 256, 512, 1024, 2048, 2304, 2560, 2816, 3072] {
        measure(symbols);
    }
}

fn measure(symbols: u32) {
    let len = symbols as usize * usize::from(SYMBOL_LEN);
    let rounds = (BYTES / len).max(3);
    let data: Vec<u8> = (0..len).map(|at| ((at * 7919) >> 3) as u8).collect();
    let mb_per_second = |bytes: usize, since: Instant| bytes as f64 / 1e6 / since.elapsed().as_secs_f64();
    let mut encoder = Encoder::new(&data, SYMBOL_LEN).expect("right lengths");
    let since = Instant::now();
    for _ in 0..rounds {
        encoder = Encoder::new(&data, SYMBOL_LEN).expect("right lengths");
    }
    let encoding = mb_per_second(rounds * len, since);
    let since = Instant::now();
    let repair = encoder.repair(symbols..symbols * 2).expect("right numbers");
    let repairing = mb_per_second(len, since);
    let sets: Vec<_> = (0..rounds as u64).map(|seed| received(&data, &repair, symbols, seed)).collect();
    let (since, mut failed) = (Instant::now(), 0);
    for set in sets {
        failed += usize::from(decode(symbols, SYMBOL_LEN, set).is_none());
    }
    let decoding = mb_per_second(rounds * len, since);
    println!("{symbols:>8} {encoding:>8.0} {repairing:>8.0} {decoding:>8.0} {failed:>4}/{rounds}");
}

/// As many symbols as there are blocks: those of the blocks that are not lost, and repair symbols.
fn received(data: &[u8], repair: &[u8], symbols: u32, seed: u64) -> Vec<(u32, Vec<u8>)> {
    let mut random = seed;
    let mut is_lost = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % 100 < LOSS_PERCENT
    };
    let chunks = data.chunks(SYMBOL_LEN.into()).chain(repair.chunks(SYMBOL_LEN.into()));
    let all = (0..).zip(chunks.map(<[u8]>::to_vec));
    all.filter(|(number, _)| *number >= symbols || !is_lost()).take(symbols as usize).collect()
}
