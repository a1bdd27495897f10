//! Whoever reads what treecast prints may go away: everything goes on, or ends, as if it were read.

use std::{
    fs::File,
    io::{pipe, read_to_string},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use crate::session::{Guarded, Scratch, SpawnGuarded, TREECAST, finish_well, wait_until};

/// How the command ends, and what it says on standard error, when nobody reads its standard output.
fn unread(arguments: &[&str]) -> (ExitStatus, String) {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    into(Stdio::from(writer), arguments)
}

fn into(stdout: Stdio, arguments: &[&str]) -> (ExitStatus, String) {
    // Tests run in their crate's folder.
    let mut command = Command::new(TREECAST);
    let command = command.args(arguments).current_dir("../..").stdin(Stdio::null()).stdout(stdout);
    let output = command.output().unwrap();
    (output.status, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let cases: &[&[&str]] = &[
        &["--help"],
        &["send", "--help"],
        &["lab", "list", "--json"],
        &["lab", "run", "--plan", "labs/librecast/demo.toml", "--set", "file=README.md"],
        &["lab", "run", "--plan", "--json", "labs/librecast/demo.toml", "--set", "file=README.md"],
    ];
    for arguments in cases {
        let (status, said) = unread(arguments);
        assert_eq!((status.code(), said.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

const FILES: usize = 1500;

/// A folder with so many files that the lines about them are more than a pipe holds.
fn many_files(scratch: &Scratch) {
    for number in 0..FILES {
        scratch.file(&format!("set/{number:0100}"), 10);
    }
}

/// Neither the sender nor the other receivers wait for a program that does not read what it has asked for.
#[test]
fn a_session_does_not_wait_for_who_reads_its_events_and_loses_none_of_them() {
    let scratch = Scratch::new();
    many_files(&scratch);
    let mut sender = scratch.send("--json --wait 2 set");
    let steady = receive(&scratch, "steady", Stdio::null(), Stdio::null(), "");
    let mut unread = receive(&scratch, "unread", Stdio::piped(), Stdio::inherit(), "--json");
    finish_well(steady);
    wait_until("all is there", || scratch.names("unread/set").len() == FILES);
    for program in [&mut sender, &mut unread] {
        let said = read_to_string(program.stdout.take().unwrap()).unwrap();
        let objects = said.lines().filter(|line| line.contains(r#""event":"object""#)).count();
        let last = said.lines().next_back().unwrap_or_default();
        assert!(objects >= FILES && last.contains(r#""event":"done""#), "{objects}: {last}");
        assert_eq!(program.wait().unwrap().code(), Some(0));
    }
}

/// A receiver that says what it says there.
fn receive(scratch: &Scratch, name: &str, output: Stdio, errors: Stdio, arguments: &str) -> Guarded {
    scratch.receive_command(name, arguments).arg("@ticket").stdout(output).stderr(errors).spawn_guarded()
}

#[test]
fn a_receiver_does_not_wait_for_who_reads_standard_error_and_loses_no_line() {
    let scratch = Scratch::new();
    many_files(&scratch);
    let sender = scratch.send("--wait 1 set");
    let mut unread = receive(&scratch, "unread", Stdio::null(), Stdio::piped(), "");
    wait_until("all is there", || scratch.names("unread/set").len() == FILES);
    let said = read_to_string(unread.stderr.take().unwrap()).unwrap();
    finish_well(sender);
    assert_eq!(said.lines().filter(|line| line.ends_with(": 10 B, verified")).count(), FILES, "{said}");
    assert_eq!(unread.wait().unwrap().code(), Some(0));
}

/// A script that has forgotten its pipe gets its receiver back when the session is over.
#[test]
fn a_receiver_ends_soon_though_nobody_ever_reads_standard_error() {
    let scratch = Scratch::new();
    many_files(&scratch);
    let sender = scratch.send("--wait 1 set");
    let mut unread = receive(&scratch, "unread", Stdio::null(), Stdio::piped(), "");
    finish_well(sender);
    let ended = Instant::now();
    wait_until("the receiver has ended", || unread.try_wait().unwrap().is_some());
    assert!(ended.elapsed() < Duration::from_secs(60), "it waited for its reader: {:?}", ended.elapsed());
    assert_eq!(unread.wait().unwrap().code(), Some(0));
    assert_eq!(scratch.names("unread/set").len(), FILES);
}

#[test]
fn a_monitor_that_nobody_reads_ends_by_itself() {
    for format in [&[][..], &["--json"]] {
        let arguments = [&["monitor", "--every", "10ms"], format].concat();
        let (status, said) = unread(&arguments);
        assert_eq!(status.code(), Some(0), "{said}");
        assert!(said.contains("monitor: ") && !said.contains("panicked"), "{said}");
    }
}

#[test]
fn a_program_under_the_monitor_goes_on_when_nobody_reads() {
    let (status, said) = unread(&["monitor", "--every", "10ms", "--", "sh", "-c", "sleep 0.2; exit 9"]);
    assert_eq!(status.code(), Some(9), "{said}");
}

#[test]
fn a_lab_is_built_and_taken_down_whole_though_nobody_reads() {
    let name = format!("unread{}", std::process::id());
    let (up, said) = unread(&["lab", "up", "lan:clients=1", "--name", &name]);
    let (graph, _) = unread(&["lab", "graph", &name]);
    let (exec, _) = into(Stdio::null(), &["lab", "exec", &name, "client0", "true"]);
    let (down, _) = unread(&["lab", "down", &name]);
    assert!(up.success() && graph.success() && exec.success() && down.success(), "{said}");
}

#[test]
fn a_full_disk_is_told_in_one_line() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (status, said) = into(full.into(), &["lab", "list", "--json"]);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.starts_with("treecast: cannot write to standard output: "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_node_that_reaches_nobody_is_told_of() {
    let name = format!("alone{}", std::process::id());
    let path = std::env::temp_dir().join(format!("{name}.toml"));
    let topology = "nodes = { a = { role = \"server\" }, b = { role = \"client\" }, c = { role = \"client\" } }\n\
                    lans.hall.nodes = [\"a\", \"b\"]\n";
    std::fs::write(&path, topology).unwrap();
    let (up, said) = into(Stdio::null(), &["lab", "up", path.to_str().unwrap(), "--name", &name]);
    let (down, _) = into(Stdio::null(), &["lab", "down", &name]);
    std::fs::remove_file(&path).unwrap();
    assert!(up.success() && down.success(), "{said}");
    assert_eq!(said, "treecast: node c is in no LAN and no link: it reaches nobody\n");
}
