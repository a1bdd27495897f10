//! A sender whose card takes longer packets than the bridge behind it: short packets pass, full ones vanish, and nobody is told.

use crate::{child::Teller, mroute_network::Network, session::Scratch};
use serde_json::Value;

const LEN: usize = 20_000_000;

/// Hosts on one bridge. The card of e1, which sends, takes longer packets than the bridge.
fn network() -> Network {
    let network = Network::new(&["b1", "e1", "e2", "e3"]);
    network.lan(3, "b1", &["e1", "e2", "e3"]);
    network.configure("e1", "link set dev b1 mtu 9000\n");
    network
}

fn start(network: &Network, scratch: &Scratch, node: &str, command: &str) -> Teller {
    // A super-packet passes a veth pair whatever the MTU of its end is.
    network.tell(node, scratch.command(command).env("TREECAST_OFFLOAD", "single"))
}

/// Sends a file from e1 to these hosts with these options.
fn send(network: &Network, options: &str, to: &[&str]) -> (Scratch, Teller, Vec<Teller>) {
    let scratch = Scratch::with_file("file", LEN);
    let command = format!("send --json --interface b1 {options} --ticket-file ticket file");
    let mut sender = start(network, &scratch, "e1", &command);
    sender.next("ticket");
    scratch.wait_for_ticket();
    let receive = |node: &&str| {
        start(network, &scratch, node, &format!("receive --json --interface b1 --into {node} @ticket"))
    };
    let receivers = to.iter().map(receive).collect();
    (scratch, sender, receivers)
}

/// There is no other way to such receivers. They take half a minute to be sure.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn where_nothing_comes_over_a_connection_receivers_end_and_name_a_length_that_passes() {
    let network = network();
    let both = [("carousel", "e2"), ("local", "e3")]
        .map(|(repair, node)| send(&network, &format!("--repair {repair}"), &[node]));
    for (_scratch, _sender, receivers) in both {
        for mut receiver in receivers {
            let line = receiver.wait_for(|event| event.to_string().contains("blocks of 1400 bytes"));
            let done = receiver.next("done");
            let said = (&done["complete"], &done["objects_done"]);
            assert_eq!(said, (&false.into(), &0.into()), "{line} {done}");
            assert_eq!(receiver.wait(), Some(1), "{done}");
        }
    }
}

/// Repair symbols are as long as blocks, so they vanish, too.
#[test]
fn full_packets_that_vanish_come_over_tcp_and_receivers_name_a_length_that_passes() {
    let network = network();
    for options in ["--fec auto", "--fec none", "--fec auto --rate 200M"] {
        let (scratch, sender, receivers) = send(&network, &format!("--wait 2 {options}"), &["e2", "e3"]);
        let (done, _) = sender.end();
        let told: Vec<Value> = receivers.into_iter().flat_map(|receiver| receiver.end().1).collect();
        ["e2/file", "e3/file"].iter().for_each(|copy| scratch.assert_file(copy, LEN));
        assert_eq!(done["complete"], true, "{options}: {done}");
        let symbols = done["repair_symbols"].as_u64().expect("a number");
        println!("{options}: {symbols} symbols, {} s", done["seconds"]);
        // There are 2,250 blocks.
        assert!(symbols < 20_000, "{options}: {symbols}");
        // At a fixed rate, hardly any short packets go to the group.
        let has_pace = !options.contains("--rate");
        let is_told = told.iter().any(|event| event.to_string().contains("blocks of 1400 bytes"));
        assert!(is_told || !has_pace, "{options}: {told:?}");
    }
}
