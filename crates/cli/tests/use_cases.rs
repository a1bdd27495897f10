//! `treecast lab run` of a use case on a small testbed, from the file to the report. Needs root.

use std::{fs, path::Path, process::Command};

use treecast_measure::{
    Db,
    db::{Measured, UseCaseInfo},
};

/// r1 - r2 - r3, the sender behind r1, two hosts behind r2 and two behind r3.
const TESTBED: &str = r#"{
    "stub_range": "fd14:0::/32",
    "tran_range": "fd14:0::/32",
    "stubs": [
        { "id": 10, "mask": 112, "area": 1, "router": 1, "clients": 2 },
        { "id": 20, "mask": 112, "area": 1, "router": 2, "clients": 2 },
        { "id": 30, "mask": 112, "area": 1, "router": 3, "clients": 2 }
    ],
    "trans": [[[1, 2], 1], [[2, 3], 1]],
    "area_boundary": []
}"#;

const PARTICIPANTS: &str = r#"
[[use_case]]
name = "small"
title = "a small group"
sender = 10
networks = [20, 30]
max = 10
"#;

const EXPERIMENT: &str = r#"
title = "small"
topology = "testbed:testbed.json"
participants = "participants.toml"
use_case = "small"
receivers = [2]
rates = ["500k"]
seconds = 2
settle = "0s"
sample = "500ms"

[[delivery]]
name = "unicast"
kind = "unicast"

[[delivery]]
name = "multicast"
kind = "multicast"

[[delivery]]
name = "mead"
kind = "mead"

[[delivery]]
name = "none"
kind = "mead"
support = "none"

[[delivery]]
name = "xcast"
kind = "xcast"

[[delivery]]
name = "xcast, anonymous, twice"
kind = "xcast"
max = 2
anonymous = true

[[delivery]]
name = "xcast+"
kind = "xcast-plus"
key = true

[[claim]]
says = "nothing is lost"
measure = "loss"
of = "mead"
at_most = 0.0

[[claim]]
says = "fewer bytes"
measure = "network"
of = "mead"
at_most = 0.95
"#;

#[test]
fn each_way_gets_all_to_everybody_and_takes_what_the_tree_says() {
    let folder = std::env::temp_dir().join(format!("treecast-use-case-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary folder");
    let files = [("testbed.json", TESTBED), ("participants.toml", PARTICIPANTS), ("small.toml", EXPERIMENT)];
    files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).expect("it is ours"));
    let out = folder.join("out");
    let mut command = Command::new(env!("CARGO_BIN_EXE_treecast"));
    command.args(["lab", "run", "--out"]).arg(&out).arg(folder.join("small.toml"));
    let output = command.output().expect("treecast can be run");
    let told =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let report = fs::read_to_string(out.join("report.html")).expect("a report");
    assert!(report.contains("Bytes on all links, saved against unicast"));

    let infos = infos(&out);
    assert_eq!(infos.len(), 7, "{told}");
    for info in &infos {
        let measured = measured(info);
        assert_eq!((measured.came, measured.duplicates), (measured.expected, 0), "{}: {told}", info.delivery);
        // Ethernet headers, and what hosts and routers say to each other, come on top of what the tree says.
        let share = measured.bytes.network as f64 / info.computed.network as f64;
        assert!((1.0..1.15).contains(&share), "{}: {share}", info.delivery);
        assert!(measured.latency.min_ms > 0.0 && measured.latency.min_ms <= measured.latency.mean_ms);
    }
    let of = |delivery: &str| infos.iter().find(|info| info.delivery == delivery).expect("it was run");
    let sent = |delivery: &str| measured(of(delivery)).bytes.sender as f64;
    assert!(sent("mead") < sent("unicast") * 0.5 && sent("multicast") < sent("mead"));
    // One list of four, or two of two; one of the two routers.
    assert!(sent("xcast") < sent("unicast") * 0.5 && sent("xcast") < sent("xcast, anonymous, twice"));
    assert!(sent("multicast") < sent("xcast+") && sent("xcast+") < sent("xcast"));
    // Where no router speaks MEADcast, everybody gets unicast.
    assert!((0.95..1.1).contains(&(sent("none") / sent("unicast"))));
    fs::remove_dir_all(&folder).expect("it is ours");
}

fn infos(out: &Path) -> Vec<UseCaseInfo> {
    let db = Db::open(&out.join("results.sqlite")).expect("results");
    let runs = db.runs().expect("runs").into_iter();
    runs.filter_map(|run| db.use_case(run.id).expect("it is whole")).collect()
}

fn measured(info: &UseCaseInfo) -> &Measured {
    info.measured.as_ref().expect("it was measured")
}
