//! Receivers behind slower links, served by lists. A file of its own, because other tests beside it would make all receivers
//! late, and the sender would take that for their limit.

mod child;
mod fanout_session;
mod mroute_network;
mod session;

use std::process::Stdio;

use fanout_session::{RECEIVERS, SERVED_BYTES, left_bytes, network, start};
use serde_json::Value;
use session::{Scratch, contents, path, until_the_slow_one_is_called};

const LEN: usize = 12_000_000;

/// Lists are of receivers that bear about as much. The one that bears a tenth gets copies at a rate of its own.
#[test]
fn lists_do_not_wait_for_a_slower_receiver() {
    for way in ["mead", "xcast"] {
        until_the_slow_one_is_called(|| by_lists(way));
    }
}

/// Sends by lists of this kind. The slow one is to be called, and the others not to wait for it.
fn by_lists(way: &str) -> Result<(), String> {
    let (network, scratch) = (network(), Scratch::new());
    let _routers =
        ["rf", "r1"].map(|node| network.daemon(node, &["router", "run", "--all"], Stdio::inherit()));
    for (node, port, rate) in [("b1", "e1", 50), ("b1", "e2", 50), ("b1", "e3", 5), ("rf", "e4", 50)] {
        // A deep bucket hides from a sender that is so near that it is too fast.
        network.shape(node, port, &format!("rate {rate}mbit burst {}kb limit 128kb", rate / 3 + 1));
    }
    let file = scratch.file("file", LEN);
    let (sender, receivers) = start(&network, &scratch, &["--fanout", way, path(&file)]);
    let told: Vec<_> = receivers.into_iter().map(|receiver| receiver.end().1).collect();
    let (done, events) = sender.end();
    let moved: Vec<_> = events.iter().filter(|event| event["event"] == "moved").collect();
    let is_called = moved.first().is_some_and(|moved| moved["receiver"] == "e3");
    let object = |events: &Vec<Value>| events.iter().find(|event| event["event"] == "object").cloned();
    let seconds = told.iter().map(|events| object(events).and_then(|object| object["seconds"].as_f64()));
    let seconds: Vec<f64> = seconds.map(|seconds| seconds.expect("it has come")).collect();
    let fast = seconds[0].max(seconds[1]).max(seconds[3]);
    for (node, _) in RECEIVERS {
        let copy = std::fs::read(scratch.path(node).join("file")).expect("it has come");
        assert!(copy == contents(LEN), "{way} {node}");
    }
    assert!(left_bytes(&done, way) > SERVED_BYTES, "{}", done["fanout"]);
    let told = format!("{way}: {seconds:?}, {moved:?}");
    println!("{told}");
    if is_called && fast < seconds[2] * 0.7 { Ok(()) } else { Err(told) }
}
