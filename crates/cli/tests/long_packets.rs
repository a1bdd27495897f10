//! A sender whose card takes longer packets than the bridge behind it: short packets pass, full ones vanish, and nobody is told.

use std::process::{Command, Stdio};

use crate::{
    child::{SpawnGuarded, Teller},
    mroute_network::Network,
    session::{Scratch, contents, path, treecast},
};
use serde_json::Value;

const LEN: usize = 20_000_000;

fn start_on(network: &Network, node: &str, command: &mut Command) -> Teller {
    // A super-packet passes a veth pair whatever the MTU of its end is.
    command.env("TREECAST_OFFLOAD", "single").stdin(Stdio::null()).stdout(Stdio::piped());
    Teller::of(network.within(node, || command.spawn_guarded()))
}

/// Sends a file from e1 to e2 and e3 with these options. Returns the last event of the sender, and all events of the receivers.
fn deliver(network: &Network, scratch: &Scratch, options: &[&str]) -> (Value, Vec<Value>) {
    let (file, ticket) = (scratch.file("file", LEN), scratch.path("ticket"));
    let mut command = treecast();
    command.args(["send", "--json", "--interface", "b1", "--wait", "2"]).args(options);
    let mut sender = start_on(network, "e1", command.args(["--ticket-file", path(&ticket), path(&file)]));
    sender.next("ticket");
    let receive = |node: &&str| {
        let mut command = treecast();
        command.args(["receive", "--json", "--interface", "b1", "--into"]).arg(scratch.path(node));
        start_on(network, node, command.arg(format!("@{}", path(&ticket))))
    };
    let receivers: Vec<Teller> = ["e2", "e3"].iter().map(receive).collect();
    let (done, _) = sender.end();
    let told = receivers.into_iter().flat_map(|receiver| receiver.end().1).collect();
    for node in ["e2", "e3"] {
        let copy = std::fs::read(scratch.path(node).join("file")).expect("it has come");
        assert!(copy == contents(LEN), "{node}");
    }
    (done, told)
}

/// There is no other way to such receivers. They take half a minute to be sure.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn where_nothing_comes_over_a_connection_receivers_end_and_name_a_length_that_passes() {
    let network = Network::new(&["b1", "e1", "e2", "e3"]);
    network.lan(3, "b1", &["e1", "e2", "e3"]);
    network.configure("e1", "link set dev b1 mtu 9000\n");
    let of_repair = |repair: &str, node: &str| {
        let scratch = Scratch::new();
        let (file, ticket) = (scratch.file("file", LEN), scratch.path("ticket"));
        let mut command = treecast();
        command.args(["send", "--json", "--interface", "b1", "--repair", repair]);
        let mut sender =
            start_on(&network, "e1", command.args(["--ticket-file", path(&ticket), path(&file)]));
        sender.next("ticket");
        let mut command = treecast();
        command.args(["receive", "--json", "--interface", "b1", "--into"]).arg(scratch.path("copy"));
        (scratch, sender, start_on(&network, node, command.arg(format!("@{}", path(&ticket)))))
    };
    let both = [("carousel", "e2"), ("local", "e3")].map(|(repair, node)| (repair, of_repair(repair, node)));
    for (repair, (_scratch, _sender, mut receiver)) in both {
        let line = receiver.wait_for(|event| event.to_string().contains("blocks of 1400 bytes"));
        let done = receiver.next("done");
        assert_eq!(
            (&done["complete"], &done["objects_done"]),
            (&false.into(), &0.into()),
            "{repair}: {line} {done}"
        );
        assert_eq!(receiver.wait(), Some(1), "{repair}");
    }
}

/// Repair symbols are as long as blocks, so they vanish, too.
#[test]
fn full_packets_that_vanish_come_over_tcp_and_receivers_name_a_length_that_passes() {
    let network = Network::new(&["b1", "e1", "e2", "e3"]);
    network.lan(3, "b1", &["e1", "e2", "e3"]);
    network.configure("e1", "link set dev b1 mtu 9000\n");
    for options in [&["--fec", "auto"][..], &["--fec", "none"], &["--fec", "auto", "--rate", "200M"]] {
        let scratch = Scratch::new();
        let (done, told) = deliver(&network, &scratch, options);
        assert_eq!(done["complete"], true, "{options:?}: {done}");
        let symbols = done["repair_symbols"].as_u64().expect("a number");
        println!("{options:?}: {symbols} symbols, {} s", done["seconds"]);
        // There are 2,250 blocks.
        assert!(symbols < 20_000, "{options:?}: {symbols}");
        // At a fixed rate, hardly any short packets go to the group.
        let has_pace = !options.contains(&"--rate");
        let is_told = told.iter().any(|event| event.to_string().contains("blocks of 1400 bytes"));
        assert!(is_told || !has_pace, "{options:?}: {told:?}");
    }
}
