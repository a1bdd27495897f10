//! `treecast lab run` of a use case on a small testbed, from the file to the report. Needs root.

use std::{fs, path::Path};

use crate::session::Scratch;

use treecast_measure::{Db, frame::Frame};

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
settle = "0s"
sample = "500ms"

[workload]
kind = "stream"
rates = ["500k"]
seconds = 2

[cast]
participants = "participants.toml"
use_case = "small"
receivers = [2]

[[network]]
name = "small"
topology = "testbed:testbed.json"

[[delivery]]
name = "unicast"
fanout = "unicast"

[[delivery]]
name = "multicast"
fanout = "multicast"

[[delivery]]
name = "mead"
fanout = "mead"

[[delivery]]
name = "none"
fanout = "mead"
support = "none"

[[delivery]]
name = "xcast"
fanout = "xcast"

[[delivery]]
name = "xcast, anonymous, twice"
fanout = "xcast"
options = { max = 2, anonymous = true }

[[delivery]]
name = "xcast+"
fanout = "xcast-plus"
options = { key = true }

[[claim]]
says = "nothing is lost"
holds = 'max(lost{delivery = "mead"}) <= 0'

[[claim]]
says = "fewer bytes"
holds = 'median(network_bytes{delivery = "mead"}) / median(network_bytes{delivery = "unicast"}) <= 0.95'

[[plot]]
title = "Bytes on all links, saved against unicast"
kind = "bars"
x = "receivers_a_network"
y = '1 - network_bytes / median(network_bytes{delivery = "unicast"} by receivers_a_network)'
"#;

#[test]
fn each_way_gets_all_to_everybody_and_takes_what_the_tree_says() {
    let scratch = Scratch::new();
    for (name, text) in
        [("testbed.json", TESTBED), ("participants.toml", PARTICIPANTS), ("small.toml", EXPERIMENT)]
    {
        fs::write(scratch.path(name), text).expect("it is ours");
    }
    let told = scratch.run("lab run --out out small.toml");
    let out = scratch.path("out");
    let report = fs::read_to_string(out.join("report.html")).expect("a report");
    assert!(report.contains("Bytes on all links, saved against unicast"));

    let frame = frame(&out);
    assert_eq!(frame.runs.len(), 7, "{told}");
    let value = |delivery: &str, measure: &str| -> f64 {
        let run = frame.runs.iter().find(|run| run.parameters["delivery"] == delivery).expect("it was run");
        let row = run.rows.iter().find(|row| row.measure == measure);
        row.and_then(|row| row.value).unwrap_or_else(|| panic!("{delivery} has no {measure}: {told}"))
    };
    for run in &frame.runs {
        let delivery = run.parameters["delivery"].as_str();
        let of = |measure: &str| value(delivery, measure);
        assert_eq!((of("came"), of("duplicates")), (of("expected"), 0.0), "{delivery}: {told}");
        // Ethernet headers, and what hosts and routers say to each other, come on top of what the tree says.
        let share = of("network_bytes") / of("computed_network_bytes");
        assert!((1.0..1.15).contains(&share), "{delivery}: {share}");
        assert!(of("latency_median") > 0.0 && of("latency_median") <= of("latency_max"));
    }
    let sent = |delivery: &str| value(delivery, "sender_bytes");
    assert!(sent("mead") < sent("unicast") * 0.5 && sent("multicast") < sent("mead"));
    // One list of four, or two of two; one of the two routers.
    assert!(sent("xcast") < sent("unicast") * 0.5 && sent("xcast") < sent("xcast, anonymous, twice"));
    assert!(sent("multicast") < sent("xcast+") && sent("xcast+") < sent("xcast"));
    // Where no router speaks MEADcast, everybody gets unicast.
    assert!((0.95..1.1).contains(&(sent("none") / sent("unicast"))));
}

fn frame(out: &Path) -> Frame {
    let db = Db::open(&out.join("results.sqlite")).expect("results");
    Frame::load(&db, &[]).expect("they are whole")
}
