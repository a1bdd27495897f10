//! A stub with two providers, whose access link is cut: labs/mast/transfer.toml, shortened, and with a forger. Needs root, and frr
//! (`scripts/setup.sh test`).

mod child;
mod session;

use std::process::Stdio;

use child::{SpawnGuarded, Teller};
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

#[test]
fn a_transfer_survives_a_cut_with_mast_and_with_bgp_alone() {
    let scratch = Scratch::new();
    let mut command = treecast();
    command.args(["lab", "run", "--json", "--out"]).arg(scratch.path("out"));
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/mast/transfer.toml"));
    SETTINGS.iter().for_each(|setting| _ = command.args(["--set", setting]));
    let mut running = Teller::of(command.stdout(Stdio::piped()).spawn_guarded());
    let done = running.next("done");
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
