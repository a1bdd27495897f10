//! Reads a routing table with treecast and with bgpkit-parser, and prints the time that each takes. Also measures what
//! `rib read` and `rib report` do with it.
//!
//!     TREECAST_RIB=ipv6-rib.mrt cargo bench -p treecast-rib --bench rib
//!
//! The file must be unpacked. Times are wall time in seconds; the last column is processor time of the whole process.

use std::{fs::File, io::BufReader, path::Path, time::Instant};

use treecast_rib::{
    input::read_file,
    read, report,
    store::{self, tables::Content},
};

const ROUNDS: usize = 7;

fn main() {
    let Some(path) = std::env::var_os("TREECAST_RIB") else {
        println!("TREECAST_RIB names no file: nothing is measured");
        return;
    };
    let open = || File::open(&path).expect("TREECAST_RIB names a file");
    let ours = |threads| read::read(open(), "", threads).expect("the file is readable").entries();
    let bgpkit =
        || bgpkit_parser::BgpkitParser::from_reader(BufReader::new(open())).into_iter().count() as u64;
    let table = || match read_file(Path::new(&path), 0) {
        Ok(Content::Dump(dump)) => dump,
        _ => panic!("TREECAST_RIB names no routing table"),
    };
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let database = folder.path().join("rib.db");
    let store = || {
        let content = Content::Dump(table());
        _ = std::fs::remove_file(&database);
        let mut sqlite = store::create(&database).expect("a database can be made");
        sqlite.add(&content, false).expect("the database can be written");
        1
    };
    println!("reader                   entries  median_wall_s  median_cpu_s");
    for (name, read) in [
        ("treecast", &(|| ours(0)) as &dyn Fn() -> u64),
        ("treecast, 1 thread", &|| ours(1)),
        ("bgpkit-parser", &bgpkit),
        ("rib read, with SQLite", &store),
        ("rib report", &|| report::analyse(&table(), &[]).report.entries),
    ] {
        let mut times = Vec::new();
        let mut entries = 0;
        for _ in 0..ROUNDS {
            let (wall, cpu) = (Instant::now(), cpu_seconds());
            entries = read();
            times.push((wall.elapsed().as_secs_f64(), cpu_seconds() - cpu));
        }
        let median = |time: fn(&(f64, f64)) -> f64| {
            let mut times: Vec<f64> = times.iter().map(time).collect();
            times.sort_by(f64::total_cmp);
            times[ROUNDS / 2]
        };
        println!("{name:22} {entries:>9}  {:>13.3}  {:>12.3}", median(|time| time.0), median(|time| time.1));
    }
}

/// The processor time of this process in seconds: user and system, from /proc, in ticks of 10 ms.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
