//! `treecast doctor beacon` on two hosts: the matrix as JSON and for Prometheus, with a key.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Stdio,
};

use crate::{
    child::{PrivateFile, SpawnGuarded},
    mroute_network::{Network, treecast},
    session::wait_until,
};
use serde_json::Value;

const GROUP: &str = "[ff15::77]:7777";

#[test]
fn beacons_show_each_other_as_json_and_to_prometheus() {
    let network = Network::new(&["a", "b"]);
    network.connect(1, "a", "b");
    let key = PrivateFile::key();
    let beacon = ["doctor", "beacon", "--group", GROUP, "--key", &key];
    let metrics = ["--interface", "b", "--name", "first", "--metrics", "127.0.0.1:9123"];
    let mut first = treecast(&[&beacon[..], &metrics].concat());
    first.stdout(Stdio::null()).stderr(Stdio::null());
    let _first = network.within("a", move || first.spawn_guarded());
    let other = ["--interface", "a", "--name", "second", "--json"];
    let mut second = treecast(&[&beacon[..], &other].concat());
    second.stdout(Stdio::piped()).stderr(Stdio::null());
    let second = network.within("b", move || second.spawn_guarded());

    let series = "treecast_beacon_loss_ratio{from=\"second\",to=\"first\"} 0\n";
    wait_until("the first beacon has figures of the second", || {
        network.within("a", page).is_some_and(|page| page.contains(series))
    });
    second.signal(libc::SIGTERM);
    let output = second.wait_with_output().expect("it is our child");
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout);
    let events: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an event a line")).collect();
    assert_eq!(events[0]["event"], "ready");
    let is_heard = |event: &Value| {
        (&event["event"], &event["from"], &event["to"], &event["state"])
            == (&"change".into(), &"first".into(), &"second".into(), &"well".into())
    };
    assert!(events.iter().any(is_heard), "{text}");
    let last = events.last().expect("a matrix at the end");
    let names: Vec<_> = last["beacons"].as_array().expect("beacons").iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["second", "first"], "{last:#}");
    assert_eq!(last["seen"].as_array().map(Vec::len), Some(2), "{last:#}");
}

/// The page that Prometheus gets. `None`: nobody answers yet.
fn page() -> Option<String> {
    let mut stream = TcpStream::connect("127.0.0.1:9123").ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
