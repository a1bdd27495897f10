//! A network of two MEADcast and Xcast routers and three receivers, and packets made by hand for it.
#![allow(dead_code, reason = "each of the tests uses a part")]

use std::{
    net::{Ipv6Addr, UdpSocket},
    process::Stdio,
    time::Duration,
};

use treecast_dataplane::explicit::Status;
use treecast_wire::{
    ipv6::{self, next_header},
    mead::{Dialect, Header},
};

use crate::mroute_network::{self, Network, PATIENCE, PORT, Router};

pub const SENDER: Ipv6Addr = host(0, 1);
pub const R1: Ipv6Addr = host(0, 2);
pub const R2: Ipv6Addr = host(1, 2);
pub const C1: Ipv6Addr = host(2, 2);
pub const C2: Ipv6Addr = host(3, 2);
pub const C3: Ipv6Addr = host(4, 2);

pub const fn host(network: u16, number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, network, 0, 0, 0, 0, 0, number)
}

/// s - r1 - r2, with c3 at r1, c1 and c2 at r2.
pub fn tree() -> Network {
    let network = Network::of_cables(&[("s", "r1"), ("r1", "r2"), ("r2", "c1"), ("r2", "c2"), ("r1", "c3")]);
    network.route("s", &[1, 2, 3, 4], 0, 2);
    network.route("r1", &[2, 3], 1, 2);
    network.route("r2", &[0, 4], 1, 1);
    network
}

/// A router that ends at once when it is to.
pub fn start(network: &Network, node: &str, arguments: &[&str]) -> Router {
    let arguments = [&["router", "run", "--all", "--leave-within", "0"], arguments].concat();
    network.daemon(node, &arguments, Stdio::inherit())
}

pub fn set(network: &Network, node: &str, change: &[&str]) {
    let output = network.treecast(node, &[&["router", "set"], change].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

pub fn status(network: &Network, node: &str) -> Status {
    network.router_status(node)
}

/// Plain UDP sockets on c1, c2 and c3.
pub fn receivers(network: &Network) -> [UdpSocket; 3] {
    ["c1", "c2", "c3"].map(|node| {
        network.within(node, || {
            let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, PORT)).expect("the port is free");
            socket.set_read_timeout(Some(PATIENCE)).expect("a good time");
            socket
        })
    })
}

/// Checks what has come to each receiver, in alphabetical order. Nothing else may come.
#[track_caller]
pub fn assert_heard(receivers: &[UdpSocket; 3], expected: [&[&str]; 3], what: &str) {
    for (receiver, expected) in receivers.iter().zip(expected) {
        let mut all = heard_of(receiver, expected.len());
        all.sort();
        assert_eq!(all, expected, "{what}");
    }
}

/// All that has come, when nothing more does after `expected` datagrams. These may take their time: a router in user
/// space needs a processor.
pub fn heard_of(socket: &UdpSocket, expected: usize) -> Vec<String> {
    let mut buffer = [0; 2048];
    let mut all = Vec::new();
    loop {
        let patience = if all.len() < expected { PATIENCE } else { Duration::from_millis(300) };
        socket.set_read_timeout(Some(patience)).expect("a good time");
        let Ok((len, from)) = socket.recv_from(&mut buffer) else { return all };
        assert_eq!(from.ip(), SENDER, "it seems to come from its sender");
        all.push(String::from_utf8_lossy(&buffer[..len]).into_owned());
    }
}

pub fn udp(destination: Ipv6Addr, payload: &[u8]) -> Vec<u8> {
    mroute_network::udp(SENDER, destination, [0x1234, PORT], payload)
}

pub fn packet(header: &Header, destination: Ipv6Addr, rest: &[u8]) -> Vec<u8> {
    with_header(&header.to_bytes(Dialect::Rfc), destination, rest)
}

/// A packet with this routing header.
pub fn with_header(header: &[u8], destination: Ipv6Addr, rest: &[u8]) -> Vec<u8> {
    ipv6::Header::new(SENDER, destination, next_header::ROUTING).packet(&[header, rest])
}

pub fn groups() -> Header {
    let groups = [(R1, vec![C3]), (R2, vec![C1, C2])];
    Header::data(next_header::UDP, &groups).expect("a good list")
}

/// Sends a packet as it is from s.
pub fn inject(network: &Network, packet: &[u8]) {
    network.inject("s", "r1", packet, 1);
}

pub fn send(network: &Network, text: &str) {
    inject(network, &packet(&groups(), C3, &udp(C3, text.as_bytes())));
}
