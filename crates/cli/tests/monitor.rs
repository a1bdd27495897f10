//! `treecast monitor`: a program's exit code comes through, a recording is shown in every format, and
//! what is killed leaves a recording that is read up to there.

use std::process::{Command, Output, Stdio};

use crate::{
    child::SpawnGuarded,
    session::{Scratch, TREECAST, assert_says, wait_until},
};

fn monitor(scratch: &Scratch, arguments: &str) -> Output {
    scratch.command(format!("monitor {arguments}")).output().unwrap()
}

/// What is shown of the recording `a.rec` in a format, and what is said of it.
fn show(scratch: &Scratch, format: &str) -> (String, String) {
    let output = monitor(scratch, &format!("show a.rec {format}"));
    assert!(output.status.success(), "{output:?}");
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_program_is_recorded_and_its_exit_code_comes_through() {
    let scratch = Scratch::new();
    let program = "--every 20ms --interface lo --out a.rec -- sh -c 'sleep 0.3; exit 9'";
    let output = monitor(&scratch, program);
    assert_eq!(output.status.code(), Some(9));
    assert!(output.stdout.is_empty(), "with --out nothing goes to the terminal's output");
    assert_says(&String::from_utf8(output.stderr).unwrap(), &["exit code 9", "own cost"]);

    let (csv, _) = show(&scratch, "--csv");
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines.len() > 3 && lines[0].contains("interface/lo/rx_bytes"), "{csv}");
    assert!(lines.iter().all(|line| line.split(',').count() == lines[0].split(',').count()));
    let (json, _) = show(&scratch, "--json");
    let last: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    assert_eq!(last, serde_json::json!({"event": "end", "complete": true}));
    let (sql, complaint) = show(&scratch, "--sql");
    assert!(sql.starts_with("BEGIN;") && sql.ends_with("COMMIT;\n") && complaint.is_empty());
    assert_says(&show(&scratch, "").0, &["process/cpu_ns"]);
}

#[test]
fn a_killed_monitor_leaves_a_recording_that_is_shown_and_marked() {
    let scratch = Scratch::new();
    let mut command = scratch.command("monitor --every 10ms --interface lo --out a.rec");
    let mut child = command.stderr(Stdio::null()).spawn_guarded();
    // A recording can be read while it is written.
    let samples = || {
        let csv = monitor(&scratch, "show a.rec --csv").stdout;
        String::from_utf8(csv).unwrap().lines().count()
    };
    wait_until("there are samples", || samples() > 5);
    child.end();

    let (csv, complaint) = show(&scratch, "--csv");
    assert!(csv.lines().count() > 5, "{csv}");
    assert_says(&complaint, &["was cut short; every sample before that is whole"]);
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
}

#[test]
fn samples_go_to_the_terminal_or_to_a_program_until_a_signal_comes() {
    for (json, expected) in [(true, "\"cpu/user_ns\""), (false, "RX Mbit/s")] {
        let mut command = Command::new("timeout");
        command.args(["--foreground", "--preserve-status", "-s", "INT", "1", TREECAST, "monitor"]);
        command.args(["--every", "50ms"]).args(json.then_some("--json"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().count() > 2 && text.contains(expected), "{text}");
    }
}
