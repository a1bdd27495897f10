//! A network that does its worst: packets recorded, replayed, altered and reordered, garbage at full speed, and members
//! that forge. Nothing wrong is ever accepted, and what is right comes through.

mod session;

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use serde_json::Value;
use session::{Scratch, contents, finish_well, path};
use treecast_driver::{
    interface::Interface,
    udp::{DEFAULT_MULTICAST_HOPS, GroupAddress, open_group_receiver, open_group_sender},
};
use treecast_wire::{seal::SEALED_HEADER_LEN, ticket::Ticket};

const SIZE: usize = 3_000_000;

fn ticket(scratch: &Scratch) -> Ticket {
    fs::read_to_string(scratch.path("ticket")).unwrap().trim().parse().unwrap()
}

fn group(ticket: &Ticket) -> GroupAddress {
    GroupAddress { group: ticket.group, source: None, interface: Interface::named("lo").unwrap() }
}

/// The last event of a receiver.
fn done(text: &str) -> Value {
    let event = text.lines().rfind(|line| line.contains("\"done\"")).unwrap_or_else(|| panic!("{text}"));
    serde_json::from_str(event).unwrap()
}

/// Takes part in the group without a key: sends each packet again as it was, altered in a bit of each of its parts, cut
/// short, and the last few in another order.
fn meddle(address: &GroupAddress, is_over: &AtomicBool) -> usize {
    let (listener, _) = open_group_receiver(address, 1 << 20).unwrap();
    listener.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let sender = open_group_sender(address, DEFAULT_MULTICAST_HOPS).unwrap();
    let (mut last, mut seen, mut buffer) = (Vec::<Vec<u8>>::new(), 0, vec![0; 65_536]);
    while !is_over.load(Ordering::Relaxed) {
        let Ok(len) = listener.recv(&mut buffer) else { continue };
        seen += 1;
        // It hears itself, too; each packet of the sender's is enough once in a while.
        if seen % 7 != 0 || len == 0 {
            continue;
        }
        let packet = buffer[..len].to_vec();
        for at in [0, 8, 17, 40, SEALED_HEADER_LEN, len - 1].into_iter().filter(|at| *at < len) {
            let mut altered = packet.clone();
            altered[at] ^= 1 << (seen % 8);
            let _ = sender.send_to(&altered, address.scoped());
        }
        let _ = sender.send_to(&packet[..len / 2], address.scoped());
        last.push(packet);
        if last.len() == 5 {
            last.drain(..).rev().for_each(|packet| drop(sender.send_to(&packet, address.scoped())));
        }
    }
    seen
}

/// Sends bytes that mean nothing as fast as they go.
fn flood(to: SocketAddr, is_over: &AtomicBool) -> usize {
    let socket = UdpSocket::bind((IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)).unwrap();
    socket.set_multicast_loop_v4(true).unwrap();
    let mut sent = 0;
    while !is_over.load(Ordering::Relaxed) {
        let junk = [sent as u8; 1500];
        for len in [0, 1, 31, 32, 63, 64, 200, 1452, 1500] {
            sent += usize::from(socket.send_to(&junk[..len], to).is_ok());
        }
    }
    sent
}

#[test]
fn whoever_has_no_key_can_do_no_more_than_be_counted() {
    let scratch = Scratch::new();
    let file = scratch.file("file", SIZE);
    let sender = scratch.send(&["--wait", "2", "--rate", "20M", path(&file)]);
    let ticket = ticket(&scratch);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let meddler = scope.spawn(|| meddle(&group(&ticket), &is_over));
        let flooder = scope.spawn(|| flood(ticket.group, &is_over));
        let receivers = ["a", "b"].map(|into| scratch.receive(into, &["--json"]));
        for receiver in receivers {
            let done = done(&finish_well(receiver));
            assert!(done["forged_packets"].as_u64() > Some(0), "{done}");
            assert!(done["replayed_packets"].as_u64() > Some(0), "{done}");
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(meddler.join().unwrap() > 0 && flooder.join().unwrap() > 0);
    });
    finish_well(sender);
    for into in ["a", "b"] {
        assert!(fs::read(scratch.path(into).join("file")).unwrap() == contents(SIZE), "{into}");
    }
}
