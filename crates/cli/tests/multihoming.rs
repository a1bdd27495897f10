//! A stub with two providers, whose access link is cut: labs/mast/transfer.toml, shortened, and with a forger. Needs root, and frr
//! (`scripts/setup.sh test`).

mod child;
mod session;

use serde_json::Value;
use session::{Scratch, treecast};
use treecast_measure::Db;

/// A transfer of 9 s, cut after 2 s for 3 s.
const SETTINGS: [&str; 6] = [
    "settle=0s",
    "workload.lasts=9s",
    "workload.cuts=2s",
    "workload.outage=3s",
    "workload.forge=true",
    "timeout=90s",
];

/// Runs the experiment. Returns its last event, `None` if it ends without one.
fn run(scratch: &Scratch) -> Option<Value> {
    let mut command = treecast();
    command.args(["lab", "run", "--json", "--out"]).arg(scratch.path("out"));
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/mast/transfer.toml"));
    SETTINGS.iter().for_each(|setting| _ = command.args(["--set", setting]));
    let output = command.output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let done = events.into_iter().find(|event| event["event"] == "done");
    if done.is_none() {
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    }
    done
}

#[test]
fn a_transfer_survives_a_cut_with_mast_and_with_bgp_alone() {
    let scratch = Scratch::new();
    // In about one of ten labs the stub's hosts reach nobody from the beginning, and the run ends with an error. The cause is not known
    // yet. What this test is about begins later.
    let done = run(&scratch).or_else(|| run(&scratch)).expect("one of two labs begins");
    assert_eq!((&done["failures"], &done["whole_runs"]), (&Value::Array(vec![]), &2.into()));

    let db = Db::open(&scratch.path("out").join("results.sqlite")).unwrap();
    for run in db.runs().unwrap() {
        let rows = db.rows(run.id).unwrap();
        let values = |measure: &str| {
            let of = rows.iter().filter(|row| row.measure == measure);
            of.map(|row| row.value.unwrap_or(f64::NAN)).collect::<Vec<_>>()
        };
        let network = run.parameters["network"].as_str();
        assert_eq!((values("survived"), values("stall").len()), (vec![1.0], 1), "{network}");
        assert_eq!(values("received"), values("sent"), "{network}");
        if network == "bgp" {
            assert_eq!(values("global_stub_prefixes"), [10.0, 10.0]);
            continue;
        }
        assert_eq!(values("global_stub_prefixes"), [0.0, 0.0]);
        // From the stub, and to it: NaN would be a prefix that was used to the end.
        assert_eq!(values("avoided").len(), 2);
        assert!(
            values("avoided").iter().all(|seconds| (0.0..3.0).contains(seconds)),
            "{:?}",
            values("avoided")
        );
        assert_eq!(values("disturbed"), [0.0, 0.0], "what is forged changes nothing");
        assert!(values("forged")[0] >= 10.0 && values("refused_messages")[0] >= 3.0, "{rows:?}");
    }
}
