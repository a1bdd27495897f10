//! Every fanout with every repair, in one small network that loses a tenth of what the sender sends. Needs root.

use std::{process::Stdio, thread};

use crate::{
    mroute_network::{Network, TENTH},
    session::{Scratch, contents, finish, wait_until},
};

const LEN: usize = 300_000;

const FANOUTS: [&str; 5] = ["multicast", "mead", "xcast", "unicast", "auto"];

/// Each repair's name, and its options.
const REPAIRS: [(&str, &str); 5] = [
    ("nack", "--repair nack --fec none"),
    ("after", "--repair after"),
    ("carousel", "--repair carousel"),
    ("none", "--repair none"),
    ("nack-fec", "--repair nack --fec auto"),
];

/// The receivers' nodes and addresses.
const RECEIVERS: [(&str, &str); 2] = [("e1", "fd00:2::2"), ("e2", "fd00:2::3")];

/// s - r - LAN of both receivers.
fn network() -> Network {
    let network = Network::new(&["s", "r", "b", "e1", "e2"]);
    network.connect(1, "s", "r");
    network.lan(2, "b", &["r", "e1", "e2"]);
    network.route("s", &[2], 1, 2);
    RECEIVERS.iter().for_each(|(node, _)| network.route(node, &[1], 2, 1));
    network.lose("r", "s", TENTH);
    network
}

#[test]
fn every_fanout_carries_every_repair() {
    let (network, scratch) = (network(), Scratch::new());
    let _multicast = network.router("r", &[]);
    let _lists = network.daemon("r", &["router", "run", "--all"], Stdio::inherit());
    scratch.file("file", LEN);
    for fanout in FANOUTS {
        thread::scope(|scope| {
            let (network, scratch) = (&network, &scratch);
            let cells = REPAIRS.map(|(repair, options)| {
                scope.spawn(move || run_cell(network, scratch, fanout, repair, options))
            });
            cells.into_iter().for_each(|cell| cell.join().expect("the cell is right"));
        });
    }
}

fn run_cell(network: &Network, scratch: &Scratch, fanout: &str, repair: &str, options: &str) {
    let cell = format!("{fanout}-{repair}");
    let is_carousel = repair == "carousel";
    std::fs::create_dir_all(scratch.path(&cell)).expect("the folder can be made");
    let whom = match (is_carousel, fanout) {
        (false, _) => "--wait 2".to_owned(),
        (true, "multicast") => String::new(),
        (true, _) => format!("--receivers {}", RECEIVERS.map(|(_, address)| address).join(",")),
    };
    let command = format!(
        "send --interface r --rate 20M --fanout {fanout} {options} {whom} --ticket-file {cell}/ticket file"
    );
    let sender = network.start("s", &mut scratch.command(command));
    wait_until("the ticket is written", || scratch.path(&format!("{cell}/ticket")).exists());
    let receivers = RECEIVERS.map(|(node, _)| {
        let command = format!("receive --interface b --name {node} --into {cell}/{node} @{cell}/ticket");
        network.start(node, &mut scratch.command(command))
    });
    // A way that is tried brings a second copy of each packet, and so nearly all of them.
    let has_one_copy = ["multicast", "unicast"].contains(&fanout);
    let mut lacks_some = false;
    for ((node, _), receiver) in RECEIVERS.iter().zip(receivers) {
        let (code, said) = finish(receiver);
        let copy = std::fs::read(scratch.path(&format!("{cell}/{node}/file"))).ok();
        match (repair, code) {
            ("none", Some(3)) => {
                lacks_some = true;
                assert!(copy.is_none(), "{cell} {node}: {said}");
            }
            ("none", _) if has_one_copy => panic!("{cell} {node}: it lacks nothing: {said}"),
            _ => assert!(code == Some(0) && copy == Some(contents(LEN)), "{cell} {node}: {said}"),
        }
    }
    if is_carousel {
        sender.signal(libc::SIGINT);
    }
    let (code, said) = finish(sender);
    assert_eq!(code, Some(if lacks_some { 3 } else { 0 }), "{cell}: {said}");
}
