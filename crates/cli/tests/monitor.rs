//! `treecast monitor`: a program's exit code comes through, a recording is shown in every format, and
//! what is killed leaves a recording that is read up to there.

mod child;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use child::SpawnGuarded;

const TREECAST: &str = env!("CARGO_BIN_EXE_treecast");

struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("treecast-monitor-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn recording(&self) -> PathBuf {
        self.0.join("a.rec")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn monitor(arguments: &[&str]) -> Output {
    Command::new(TREECAST).arg("monitor").args(arguments).output().unwrap()
}

fn show(path: &Path, format: &str) -> (String, String) {
    let output = monitor(&["show", path.to_str().unwrap(), format]);
    assert!(output.status.success(), "{output:?}");
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_program_is_recorded_and_its_exit_code_comes_through() {
    let folder = Folder::new("program");
    let path = folder.recording();
    let file = path.to_str().unwrap();
    let output = monitor(&[
        "--every",
        "20ms",
        "--interface",
        "lo",
        "--out",
        file,
        "--",
        "sh",
        "-c",
        "sleep 0.3; exit 9",
    ]);
    assert_eq!(output.status.code(), Some(9));
    assert!(output.stdout.is_empty(), "with --out nothing goes to the terminal's output");
    let summary = String::from_utf8(output.stderr).unwrap();
    assert!(summary.contains("exit code 9") && summary.contains("own cost"), "{summary}");

    let (csv, _) = show(&path, "--csv");
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines.len() > 3 && lines[0].contains("interface/lo/rx_bytes"), "{csv}");
    assert!(lines.iter().all(|line| line.split(',').count() == lines[0].split(',').count()));
    let (json, _) = show(&path, "--json");
    let last: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    assert_eq!(last, serde_json::json!({"event": "end", "complete": true}));
    let (sql, complaint) = show(&path, "--sql");
    assert!(sql.starts_with("BEGIN;") && sql.ends_with("COMMIT;\n") && complaint.is_empty());
    let table = monitor(&["show", file]);
    assert!(String::from_utf8(table.stdout).unwrap().contains("process/cpu_ns"));
}

#[test]
fn a_killed_monitor_leaves_a_recording_that_is_shown_and_marked() {
    let folder = Folder::new("killed");
    let path = folder.recording();
    let mut child = Command::new(TREECAST)
        .args(["monitor", "--every", "10ms", "--interface", "lo", "--out"])
        .arg(&path)
        .stderr(Stdio::null())
        .spawn_guarded();
    // A recording can be read while it is written.
    let start = Instant::now();
    let samples = || {
        String::from_utf8(monitor(&["show", path.to_str().unwrap(), "--csv"]).stdout).unwrap().lines().count()
    };
    while samples() <= 5 && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let (csv, complaint) = show(&path, "--csv");
    assert!(csv.lines().count() > 5, "{csv}");
    assert!(
        complaint.contains("was cut short; every sample before that is whole")
            && complaint.lines().count() == 1,
        "{complaint}"
    );
}

#[test]
fn samples_go_to_the_terminal_or_to_a_program_until_a_signal_comes() {
    for (json, expected) in [(true, "\"cpu/user_ns\""), (false, "RX Mbit/s")] {
        let mut command = Command::new("timeout");
        command.args([
            "--foreground",
            "--preserve-status",
            "-s",
            "INT",
            "1",
            TREECAST,
            "monitor",
            "--every",
            "50ms",
        ]);
        if json {
            command.arg("--json");
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().count() > 2 && text.contains(expected), "{text}");
    }
}

#[test]
fn bad_input_is_one_line_and_exit_code_1() {
    let folder = Folder::new("bad");
    let text = folder.0.join("notes.txt");
    fs::write(&text, "no recording").unwrap();
    for arguments in [
        &["show", text.to_str().unwrap()][..],
        &["show", "/no/such/file"],
        &["--interface", "no-such-if"],
        &["--out", text.to_str().unwrap()],
        &["--", "/no/such/program"],
    ] {
        let output = monitor(arguments);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), complaint.lines().count()),
            (Some(1), 1),
            "{arguments:?}: {complaint}"
        );
    }
}
