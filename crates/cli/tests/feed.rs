//! `treecast feed` as a user runs it.

use std::fs;

use crate::session::{Scratch, assert_says, only_refused};

#[track_caller]
fn says(scratch: &Scratch, args: &str) -> String {
    scratch.run(format!("feed {args}"))
}

#[track_caller]
fn json(scratch: &Scratch, args: &str) -> serde_json::Value {
    serde_json::from_str(&says(scratch, &format!("{args} --json"))).unwrap()
}

const LOG: &str = "\
Oct 13 00:00:00 idd.up.example leaf.b.example(feed)[9] NOTE: topo: leaf.b.example {{X, (.*)}}
Oct 13 00:00:01 leaf.c.example idd.up.example[1] INFO: 600 20101013000001.000 X 001  one
Oct 13 00:00:01 leaf.c.example idd.up.example[1] INFO: 6OO 20101013000001.500 X 002  two
Oct 13 00:02:01 leaf.c.example idd.up.example[1] INFO: 1400 20101013000201.000 X 003  three
";

#[test]
fn a_log_is_shown_as_tables_json_and_plots() {
    let scratch = Scratch::new();
    fs::write(scratch.path("feed.log"), LOG).unwrap();
    let text = says(&scratch, "analyze feed.log --plots plots");
    assert_says(
        &text,
        &["2010-10-13   2 kB", "longer than 60 s", "Number of Leaf Nodes", "the size", "6OO", "X-tree.svg"],
    );
    let values = fs::read_to_string(scratch.path("plots/X-bytes.csv")).unwrap();
    assert!(values.starts_with("series,") && values.lines().count() > 1, "{values}");
    for plot in ["X-bytes.svg", "X-products.svg", "X-tree.svg"] {
        assert!(fs::read_to_string(scratch.path("plots").join(plot)).unwrap().contains("</svg>"), "{plot}");
    }
    let json = json(&scratch, "analyze feed.log");
    assert_eq!((&json["feeds"][0]["bytes"], &json["feeds"][0]["tree"]["leaves"]), (&2000.into(), &2.into()));
    assert_eq!((&json["wrong"][0]["line"], &json["wrong"][0]["value"]), (&3.into(), &"6OO".into()));
}

/// pqmon writes figures of its own into the log every minute. A day of them is no reason to refuse the log.
#[test]
fn a_day_of_pqmon_s_figures_is_no_wrong_line() {
    let scratch = Scratch::new();
    let minutes = (0..1440).map(|minute| {
        let (hour, minute) = (minute / 60, minute % 60);
        format!("Oct 13 {hour:02}:{minute:02}:00 leaf.c.example pqmon[812] NOTE: 53218 1 70781 499999456 124000 2 5824\n")
    });
    fs::write(scratch.path("feed.log"), LOG.to_owned() + &minutes.collect::<String>()).unwrap();
    let json = json(&scratch, "analyze feed.log");
    assert_eq!((&json["lines"]["wrong"], &json["lines"]["other"]), (&1.into(), &1440.into()), "{json}");
    assert_eq!(json["lines"]["products"], 2);
}

#[test]
fn what_cannot_be_analysed_is_said_in_one_line() {
    let scratch = Scratch::new();
    fs::write(scratch.path("feed.log"), LOG).unwrap();
    fs::write(scratch.path("empty.log"), "").unwrap();
    for (args, words) in [
        ("no.log", &["no.log", "check the name"][..]),
        ("empty.log", &["empty.log", "no line names a product"]),
        ("feed.log --wrong-lines 0", &["feed.log", "line 3", "the size", "6OO"]),
    ] {
        only_refused(&mut scratch.command(format!("feed analyze {args}")), words);
    }
}

#[test]
fn a_synthetic_feed_has_the_figures_of_the_paper() {
    let scratch = Scratch::new();
    let synth = |out: &str| {
        let scaled = "--time-scale 24 --size-scale 1000 --objects 20";
        says(&scratch, &format!("synth nexrad2 --out {out} {scaled}"))
    };
    let said = synth("feed");
    assert_says(&said, &["NEXRAD2.log: 81", "20 files"]);
    let report = json(&scratch, "analyze feed/NEXRAD2.log");
    let feed = &report["feeds"][0];
    let day = feed["bytes"].as_f64().unwrap();
    assert!((56e9..58e9).contains(&day), "sizes are as they were: {day}");
    assert_eq!(feed["tree"]["nodes"], 150);
    assert_eq!(feed["silences"]["over_300_s"], 1, "{}", feed["silences"]);
    let sizes: Vec<u64> = fs::read_dir(scratch.path("feed/objects"))
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap().len())
        .collect();
    assert!(sizes.len() == 20 && sizes.iter().all(|size| (200..2_000).contains(size)), "{sizes:?}");
    assert_eq!(said.replace("feed/", "again/"), synth("again"));
    let same = |name: &str| {
        fs::read(scratch.path("feed").join(name)).unwrap()
            == fs::read(scratch.path("again").join(name)).unwrap()
    };
    assert!(same("NEXRAD2.log") && same("objects/NEXRAD2-0000003"), "the same seed");
    scratch.refuses("feed synth nexrad2 --out feed/NEXRAD2.log", &["check --out"]);
}
