//! Receivers and senders that are killed and started again, cables that are cut, disks that are full, hidden
//! files with times that are off. `treecast lab faults --seeds 200` plays more. Needs root.

use std::{fs, process::Command};

/// Seeds 1 to 8; among them those that have found something.
const SEEDS: &str = "8";

#[test]
fn whoever_is_up_at_the_end_has_every_file_right_and_hardly_anything_twice() {
    let state = std::env::temp_dir().join(format!("treecast-faults-state-{}", std::process::id()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_treecast"));
    command.args(["lab", "faults", "--verbose", "--seeds", SEEDS]).env("TREECAST_LAB_STATE", &state);
    let output = command.output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    let left: Vec<_> =
        fs::read_dir(&state).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    _ = fs::remove_dir_all(state);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!("{SEEDS} schedules played, 0 failed")), "{said}");
    assert!(left.is_empty(), "{left:?}");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains("treecast-faults-"), "{mounts}");
}
