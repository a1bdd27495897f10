//! Receivers and senders that are killed and started again, cables that are cut, disks that are full, hidden
//! files with times that are off. `treecast lab faults --seeds 200` plays more. Needs root.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
    thread,
};

/// Two programs play seeds 1 to 8, because they wait most of the time; among them those that have found something.
const FIRST: [&str; 2] = ["1", "5"];
const SEEDS: &str = "4";

/// Plays seeds from this one on. Returns what the program said, and what stays in its folder of labs.
fn play(first: &str) -> (Output, Vec<PathBuf>) {
    let state = std::env::temp_dir().join(format!("treecast-faults-state-{}-{first}", std::process::id()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_treecast"));
    command.args(["lab", "faults", "--verbose", "--first", first, "--seeds", SEEDS]);
    let output = command.env("TREECAST_LAB_STATE", &state).output().unwrap();
    let left = fs::read_dir(&state).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    _ = fs::remove_dir_all(state);
    (output, left)
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn whoever_is_up_at_the_end_has_every_file_right_and_hardly_anything_twice() {
    let played = thread::scope(|scope| {
        let playing = FIRST.map(|first| scope.spawn(move || play(first)));
        playing.map(|playing| playing.join().unwrap())
    });
    for (output, left) in played {
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success(), "{said}");
        assert!(said.contains(&format!("{SEEDS} schedules played, 0 failed")), "{said}");
        assert!(left.is_empty(), "{left:?}");
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains("treecast-faults-"), "{mounts}");
}
