//! A session with `--fanout` among routers: a sender, and a receiver on each host.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{
    child::{SpawnGuarded, Teller},
    mroute_network::Network,
    session::{Scratch, path, treecast},
};

/// s - rf - r1 - LAN of e1, e2 and e3; e4 is behind rf. Only r1 is to speak MEADcast.
pub fn network() -> Network {
    Network::with_lan_behind("rf", "r1")
}

pub const RECEIVERS: [(&str, &str); 4] = [("e1", "b1"), ("e2", "b1"), ("e3", "b1"), ("e4", "rf")];

/// A sender on s with these arguments, and a receiver on each host.
pub fn start(network: &Network, scratch: &Scratch, arguments: &[&str]) -> (Teller, Vec<Teller>) {
    let sender = start_sender(network, scratch, arguments);
    (sender, RECEIVERS.iter().map(|receiver| receive(network, scratch, receiver)).collect())
}

fn start_on(network: &Network, node: &str, command: &mut Command) -> Teller {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Teller::of(network.within(node, || command.spawn_guarded()))
}

pub fn start_sender(network: &Network, scratch: &Scratch, arguments: &[&str]) -> Teller {
    let mut command = treecast();
    command.args(["send", "--json", "--interface", "rf", "--ticket-file"]).arg(scratch.path("ticket"));
    if !arguments.contains(&"--receivers") {
        command.args(["--wait", "4"]);
    }
    let mut sender = start_on(network, "s", command.args(arguments));
    sender.next("ticket");
    sender
}

pub fn receive(network: &Network, scratch: &Scratch, (node, interface): &(&str, &str)) -> Teller {
    let mut command = treecast();
    command.args(["receive", "--json", "--name", node, "--interface", interface, "--into"]);
    command.arg(scratch.path(node)).arg(format!("@{}", path(&scratch.path("ticket"))));
    start_on(network, node, &mut command)
}

/// What leaves by a way in less time than a receiver is thought to hear by it: half a second at 20 Mbit/s. On a busy machine one may
/// seem deaf right after it has proved to hear, and then it gets unicast for two seconds, or for the rest of a small file.
pub const SERVED_BYTES: u64 = 600_000;

pub fn left_bytes(done: &Value, way: &str) -> u64 {
    done["fanout"][way]["left_bytes"].as_u64().expect("a number")
}
