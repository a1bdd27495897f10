//! A stub with two providers, whose access link is cut: the networks of labs/mast/transfer.toml in a short transfer, and with a forger. Needs
//! root, and frr (`scripts/setup.sh test`).

use std::fs;

use crate::session::{Scratch, treecast};
use serde_json::Value;
use treecast_measure::Db;

const TRANSFER: &str = include_str!("../../../labs/mast/transfer.toml");

/// A transfer of 5 s, cut after 1 s for 2 s.
const SETTINGS: [&str; 6] = [
    "settle=0s",
    "workload.lasts=5s",
    "workload.cuts=1s",
    "workload.outage=2s",
    "workload.forge=true",
    "timeout=90s",
];

/// The experiment with one of its networks, and one claim. Tests of both networks run side by side, because they wait most of the time.
fn with_network(name: &str) -> String {
    let (networks, rest) = TRANSFER.split_once("[workload]").expect("a workload");
    let (workload, _) = rest.split_once("[[claim]]").expect("claims");
    let (head, _) = networks.split_once("[[network]]").expect("networks");
    let network = networks.split("[[network]]").find(|it| it.contains(&format!("name = \"{name}\"")));
    let network = network.expect("the network is there");
    let claim = "says = \"it survives\"\nholds = 'min(survived) == 1'\n";
    format!("{head}[[network]]{network}[workload]{workload}[[claim]]\n{claim}")
}

/// Runs the experiment. Returns a function that looks up the values of a measure.
fn run(scratch: &Scratch, network: &str) -> impl Fn(&str) -> Vec<f64> + use<> {
    let file = scratch.path("transfer.toml");
    fs::write(&file, with_network(network)).unwrap();
    let mut command = treecast();
    command.args(["lab", "run", "--json", "--out"]).arg(scratch.path("out")).arg(file);
    SETTINGS.iter().for_each(|setting| _ = command.args(["--set", setting]));
    let output = command.output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let done = events.into_iter().find(|event| event["event"] == "done");
    let done = done.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!((&done["failures"], &done["whole_runs"]), (&Value::Array(vec![]), &1.into()));

    let db = Db::open(&scratch.path("out").join("results.sqlite")).unwrap();
    let rows = db.rows(db.runs().unwrap()[0].id).unwrap();
    move |measure| {
        let of = rows.iter().filter(|row| row.measure == measure);
        of.map(|row| row.value.unwrap_or(f64::NAN)).collect()
    }
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_transfer_survives_a_cut_with_mast() {
    let scratch = Scratch::new();
    let values = run(&scratch, "mast");
    assert_eq!((values("survived"), values("stall").len()), (vec![1.0], 1));
    assert_eq!(values("received"), values("sent"));
    assert_eq!(values("global_stub_prefixes"), [0.0, 0.0]);
    // From the stub, and to it: NaN would be a prefix that was used to the end.
    assert_eq!(values("avoided").len(), 2);
    let avoided = values("avoided");
    assert!(avoided.iter().all(|seconds| (0.0..2.0).contains(seconds)), "{avoided:?}");
    assert_eq!(values("disturbed"), [0.0, 0.0], "what is forged changes nothing");
    let (forged, refused) = (values("forged"), values("refused_messages"));
    assert!(forged[0] >= 10.0 && refused[0] >= 3.0, "{forged:?} {refused:?}");
}

#[test]
fn a_transfer_survives_a_cut_with_bgp_alone() {
    let scratch = Scratch::new();
    let values = run(&scratch, "bgp");
    assert_eq!((values("survived"), values("stall").len()), (vec![1.0], 1));
    assert_eq!(values("received"), values("sent"));
    assert_eq!(values("global_stub_prefixes"), [10.0, 10.0]);
}
