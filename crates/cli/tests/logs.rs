//! `--log`, `--log-format` and `TREECAST_LOG`.

mod child;

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use child::{Guarded, SpawnGuarded};
use serde_json::Value;

fn treecast(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_treecast"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A sender's and a receiver's standard error, of a session of one small file.
fn session(test: &str, log: &[&str]) -> [String; 2] {
    let folder = std::env::temp_dir().join(format!("treecast-logs-{test}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("file");
    fs::write(&file, vec![7; 10_000]).unwrap();
    let send = [&["send", "--interface", "lo", file.to_str().unwrap()], log].concat();
    let mut sender = treecast(&send).spawn_guarded();
    let mut ticket = String::new();
    BufReader::new(sender.stdout.as_mut().unwrap()).read_line(&mut ticket).unwrap();
    let into = folder.join("copies");
    let receive =
        ["receive", "--name", "client", "--interface", "lo", "--into", into.to_str().unwrap(), ticket.trim()];
    let receiver = treecast(&[&receive, log].concat()).spawn_guarded();
    let said = [sender, receiver].map(finish);
    fs::remove_dir_all(&folder).unwrap();
    said
}

fn finish(child: Guarded) -> String {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn logs_are_json_lines_with_the_session_and_the_receiver() {
    let [sender, receiver] = session("json", &["--log", "info", "--log-format", "json"]);
    let events: Vec<Value> = sender.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let joined = events.iter().find(|event| event["message"] == "joined").expect(&sender);
    assert_eq!((&joined["level"], &joined["joined"]), (&"INFO".into(), &1.into()));
    let spans = joined["spans"].as_array().unwrap();
    assert_eq!((&spans[0]["name"], &spans[1]["receiver"]), (&"send".into(), &"client".into()));
    assert_eq!(spans[0]["session"].as_str().map(str::len), Some(8));
    assert!(events.iter().any(|event| event["message"] == "object done" && event["name"] == "file"));
    let last: Value = serde_json::from_str(receiver.lines().last().unwrap()).unwrap();
    assert_eq!((&last["message"], &last["span"]["name"]), (&"object done".into(), &"receive".into()));
}

#[test]
fn without_them_lines_are_for_people() {
    let [sender, _] = session("none", &[]);
    assert!(sender.contains("client joined from ") && !sender.contains("INFO"), "{sender}");
    let [sender, _] = session("error", &["--log", "error"]);
    assert_eq!(sender, "", "nothing is as bad as that");
}

#[test]
fn a_wrong_level_is_refused_in_one_line() {
    let output = treecast(&["status"]).env("TREECAST_LOG", "loud").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("TREECAST_LOG") && said.contains("info"), "{said}");
}
