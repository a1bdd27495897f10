//! A session with `--fanout` among routers: a sender, and a receiver on each host.

use serde_json::Value;

use crate::{
    child::Teller,
    mroute_network::{Network, Router},
    session::Scratch,
};

/// s - rf - r1 - LAN of e1, e2 and e3; e4 is behind rf. Only r1 is to speak MEADcast.
pub fn network() -> Network {
    Network::with_lan_behind("rf", "r1")
}

pub const RECEIVERS: [(&str, &str); 4] = [("e1", "b1"), ("e2", "b1"), ("e3", "b1"), ("e4", "rf")];

/// A MEADcast and Xcast router on each of these nodes.
pub fn routers<const COUNT: usize>(
    network: &Network,
    nodes: [&str; COUNT],
    options: &str,
) -> [Router; COUNT] {
    let arguments: Vec<_> =
        ["router", "run", "--all"].into_iter().chain(options.split_whitespace()).collect();
    nodes.map(|node| network.daemon(node, &arguments, std::process::Stdio::inherit()))
}

/// A sender on s with these arguments, and a receiver on each host.
pub fn start(network: &Network, scratch: &Scratch, arguments: &str) -> (Teller, Vec<Teller>) {
    let sender = start_sender(network, scratch, arguments);
    (sender, RECEIVERS.iter().map(|receiver| receive(network, scratch, receiver)).collect())
}

pub fn start_sender(network: &Network, scratch: &Scratch, arguments: &str) -> Teller {
    let wait = if arguments.contains("--receivers") { "" } else { "--wait 4" };
    let command = format!("send --json --interface rf --ticket-file ticket {wait} {arguments}");
    let mut sender = network.tell("s", &mut scratch.command(command));
    sender.next("ticket");
    scratch.wait_for_ticket();
    sender
}

pub fn receive(network: &Network, scratch: &Scratch, (node, interface): &(&str, &str)) -> Teller {
    let command = format!("receive --json --name {node} --interface {interface} --into {node} @ticket");
    network.tell(node, &mut scratch.command(command))
}

/// What leaves by a way in less time than a receiver is thought to hear by it: half a second at 20 Mbit/s. On a busy machine one may
/// seem deaf right after it has proved to hear, and then it gets unicast for two seconds, or for the rest of a small file.
pub const SERVED_BYTES: u64 = 600_000;

pub fn left_bytes(done: &Value, way: &str) -> u64 {
    done["fanout"][way]["left_bytes"].as_u64().expect("a number")
}
