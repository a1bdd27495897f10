//! `treecast bench router`, briefly: that it measures what it says, and leaves nothing behind. How fast anything is, is not looked
//! at. Needs root.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::child::{SpawnGuarded, treecast_as_nobody};

fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_treecast"));
    command.args(["bench", "router", "--receivers", "3"]).args(arguments).stdin(Stdio::null());
    command
}

/// The namespaces of the bench that this process was.
fn left_behind(process: u32) -> usize {
    let name = format!("benchrouter{process}");
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().contains(&name)).count()
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn every_way_is_measured_and_compared() {
    let arguments = ["--runs", "1", "--seconds", "0.2", "--user-space", "--json"];
    let child = bench(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn_guarded();
    let process = child.id();
    let output = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{errors}"));
    let runs = report["runs"].as_array().expect("a list");
    assert_eq!((report["receivers"].as_u64(), runs.len()), (Some(3), 1));
    let count = |slice: &Value, of: &str| slice[of].as_u64().expect("a number");
    for flow in [
        "multicast_super",
        "mead_super",
        "xcast_super",
        "unicast_single",
        "mead_single",
        "proved_super",
        "proved_single",
    ] {
        let slice = &runs[0][flow];
        let copies = if flow == "unicast_single" { 1 } else { 3 };
        let (sent, arrived) = (count(slice, "packets_in"), count(slice, "packets_out"));
        assert!(sent > 0 && arrived >= sent && arrived <= copies * sent + 100, "{flow}: {slice}");
        let len = if flow.ends_with("super") { 60_062 } else { 1014 };
        let average = count(slice, "bytes_out") / arrived;
        // A few others come, of neighbours and listeners.
        assert!(average <= len && average * 10 > len * 9, "{flow}: super-packets stay whole: {slice}");
    }
    for flow in ["stray_super", "stray_single"] {
        let (sent, arrived) = (count(&runs[0][flow], "packets_in"), count(&runs[0][flow], "packets_out"));
        assert!(sent > 0 && arrived < 100, "{flow}: {}", runs[0][flow]);
    }
    let pairs = report["plain"].as_array().expect("a list");
    assert!(pairs.len() >= 5);
    for pair in pairs {
        for slice in ["without", "with"].iter().flat_map(|which| pair[which].as_array().expect("UDP and TCP"))
        {
            assert!(count(slice, "bytes_out") > 0, "{pair}");
        }
    }
    assert!(count(&report["user_space"][0], "packets_out") > 0, "{}", report["user_space"]);
    for share in ["super_share", "single_share", "plain_udp_share", "plain_tcp_share", "super_cpu_share"] {
        let share = &report[share];
        let [low, middle, high] =
            ["lower_quartile", "median", "upper_quartile"].map(|at| share[at].as_f64().expect("a number"));
        assert!(0.0 < low && low <= middle && middle <= high, "{share}");
    }
    assert_eq!(report["met"].as_bool(), Some(output.status.code() == Some(0)));
    assert_eq!(left_behind(process), 0);
}

#[test]
fn it_can_be_interrupted_and_says_what_it_needs() {
    let mut child = bench(&["--seconds", "0.2"]).stderr(Stdio::piped()).spawn_guarded();
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let first = lines.next().expect("a line").expect("text");
    assert!(first.contains("checking"), "{first}");
    assert!(left_behind(child.id()) > 0);
    child.signal(libc::SIGINT);
    let last = lines.last().expect("a line").expect("text");
    assert!(last.ends_with("interrupted"), "{last}");
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
    assert_eq!(left_behind(child.id()), 0);

    let output = treecast_as_nobody(&["bench", "router"]);
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && line.lines().count() == 1 && line.contains("root"), "{line}");
}
