//! Receivers behind slower links, served by lists. A file of its own, because other tests beside it would make all receivers
//! late, and the sender would take that for their limit.

use crate::{
    fanout_session::{RECEIVERS, SERVED_BYTES, left_bytes, network, routers, start},
    session::{FED_LEN, Scratch, feed_until},
};
use serde_json::Value;

/// Lists are of receivers that bear about as much. The one that bears a tenth gets copies at a rate of its own.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_slower_receiver_is_called_away_from_the_others_lists() {
    for way in ["mead", "xcast"] {
        by_lists(way);
    }
}

/// Sends by lists of this kind, until the slow one is called.
fn by_lists(way: &str) {
    let (network, scratch) = (network(), Scratch::new());
    let _routers = routers(&network, ["rf", "r1"], "");
    for (node, port, rate) in [("b1", "e1", 50), ("b1", "e2", 50), ("b1", "e3", 5), ("rf", "e4", 50)] {
        // A deep bucket hides from a sender that is so near that it is too fast.
        network.shape(node, port, &format!("rate {rate}mbit burst {}kb limit 128kb", rate / 3 + 1));
    }
    let (mut sender, receivers) = start(&network, &scratch, &format!("--fanout {way} --feed -"));
    let is_called =
        |event: &Value| event["event"] == "moved" && event["receiver"] == "e3" && event["group_number"] != 0;
    let count = feed_until(&mut sender, &scratch, is_called);
    receivers.into_iter().for_each(|receiver| _ = receiver.end());
    let (done, _) = sender.end();
    for ((node, _), number) in RECEIVERS.iter().flat_map(|one| (0..count).map(move |number| (one, number))) {
        scratch.assert_file(&format!("{node}/{number}"), FED_LEN);
    }
    assert!(left_bytes(&done, way) > SERVED_BYTES, "{}", done["fanout"]);
}
