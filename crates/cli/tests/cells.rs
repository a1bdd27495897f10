//! Every fanout with every repair, in one small network that loses a tenth of what the sender sends. Needs root.

use std::{
    process::{Command, Stdio},
    thread,
};

use crate::{
    mroute_network::{Network, TENTH},
    session::{Guarded, Scratch, contents, finish, path, start, treecast, wait_until},
};

const LEN: usize = 300_000;

const FANOUTS: [&str; 5] = ["multicast", "mead", "xcast", "unicast", "auto"];

/// Each repair's name, and its options.
const REPAIRS: [(&str, &[&str]); 5] = [
    ("nack", &["--repair", "nack", "--fec", "none"]),
    ("after", &["--repair", "after"]),
    ("carousel", &["--repair", "carousel"]),
    ("none", &["--repair", "none"]),
    ("nack-fec", &["--repair", "nack", "--fec", "auto"]),
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
    let file = scratch.file("file", LEN);
    for fanout in FANOUTS {
        thread::scope(|scope| {
            let cells = REPAIRS.map(|(repair, options)| {
                let cell = || run_cell(&network, &scratch, fanout, repair, options, path(&file));
                scope.spawn(cell)
            });
            cells.into_iter().for_each(|cell| cell.join().expect("the cell is right"));
        });
    }
}

fn run_cell(network: &Network, scratch: &Scratch, fanout: &str, repair: &str, options: &[&str], file: &str) {
    let cell = format!("{fanout}-{repair}");
    let is_carousel = repair == "carousel";
    let ticket = scratch.path(&format!("{cell}/ticket"));
    std::fs::create_dir_all(scratch.path(&cell)).expect("the folder can be made");
    let mut command = treecast();
    command.args(["send", "--interface", "r", "--rate", "20M", "--fanout", fanout]).args(options);
    match (is_carousel, fanout) {
        (false, _) => _ = command.args(["--wait", "2"]),
        (true, "multicast") => {}
        (true, _) => _ = command.args(["--receivers", &RECEIVERS.map(|(_, address)| address).join(",")]),
    }
    let sender = within(network, "s", command.arg("--ticket-file").arg(&ticket).arg(file));
    wait_until("the ticket is written", || ticket.exists());
    let receivers = RECEIVERS.map(|(node, _)| {
        let mut command = treecast();
        command.args(["receive", "--interface", "b", "--name", node, "--into"]);
        command.arg(scratch.path(&format!("{cell}/{node}"))).arg(format!("@{}", path(&ticket)));
        within(network, node, &mut command)
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

fn within(network: &Network, node: &str, command: &mut Command) -> Guarded {
    network.within(node, move || start(command))
}
