//! `--log`, `--log-format` and `TREECAST_LOG`.

use crate::session::{Scratch, events, refused, treecast};
use serde_json::Value;

/// What a sender and a receiver say beside their events, of a session of one small file.
fn session(log: &str) -> [String; 2] {
    let scratch = Scratch::with_file("file", 10_000);
    let sender = scratch.send(format!("file {log}"));
    let receiver = scratch.receive("copies", format!("--name client {log}"));
    [sender, receiver].map(|child| {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        said
    })
}

#[test]
fn logs_are_json_lines_with_the_session_and_the_receiver() {
    let [sender, receiver] = session("--log info --log-format json");
    let events = events(&sender);
    assert_eq!(events.len(), sender.lines().count(), "{sender}");
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
    let [sender, _] = session("");
    assert!(sender.contains("client joined from ") && !sender.contains("INFO"), "{sender}");
    let [sender, _] = session("--log error");
    assert_eq!(sender, "", "nothing is as bad as that");
}

#[test]
fn a_wrong_level_is_refused_in_one_line() {
    refused(treecast().arg("status").env("TREECAST_LOG", "loud"), &["TREECAST_LOG", "info"]);
}
