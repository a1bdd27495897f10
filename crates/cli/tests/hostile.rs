//! A network that does its worst: packets recorded, replayed, altered and reordered, garbage, and members
//! that forge. Nothing wrong is ever accepted, and what is right comes through.

use std::{
    fs::File,
    io::Read,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use crate::session::{
    Scratch, SpawnGuarded, all_well, finish, finish_well, finish_with, joined, last_event, wait_until,
};
use serde_json::Value;
use treecast_driver::{
    connection::Connection,
    seal::Sealer,
    security::{Identity, PublicKey, tls::ReceiverTls},
    udp::{DEFAULT_MULTICAST_HOPS, GroupAddress, open_group_receiver, open_group_sender},
};
use treecast_host::interface::Interface;
use treecast_wire::{
    header::{FileId, HEADER_LEN, Header, PacketType},
    message::{GroupKey, Hello, Message, PROTOCOL_VERSION, Progress, PutOut, PutOutCode},
    seal::SEALED_HEADER_LEN,
    ticket::Ticket,
};

const SIZE: usize = 3_000_000;

fn group(ticket: &Ticket) -> GroupAddress {
    GroupAddress { group: ticket.group, source: None, interface: Interface::named("lo").unwrap() }
}

/// The last event of a receiver.
fn done(text: &str) -> Value {
    last_event(text, "done")
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

/// Sends bytes that mean nothing, about twice as many as the session has.
fn flood(address: &GroupAddress, is_over: &AtomicBool) -> usize {
    let socket = open_group_sender(address, DEFAULT_MULTICAST_HOPS).unwrap();
    let mut sent = 0;
    while !is_over.load(Ordering::Relaxed) {
        let junk = [sent as u8; 1500];
        for len in [0, 1, 31, 32, 63, 64, 200, 1452, 1500] {
            sent += usize::from(socket.send_to(&junk[..len], address.scoped()).is_ok());
        }
        // Faster, it would leave no processor to the receivers of a busy machine.
        thread::sleep(Duration::from_millis(1));
    }
    sent
}

#[test]
fn whoever_has_no_key_can_do_no_more_than_be_counted() {
    let scratch = Scratch::with_file("file", SIZE);
    let sender = scratch.send("--wait 2 --rate 20M file");
    let ticket = scratch.ticket();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let meddler = scope.spawn(|| meddle(&group(&ticket), &is_over));
        let flooder = scope.spawn(|| flood(&group(&ticket), &is_over));
        let receivers = ["a", "b"].map(|into| scratch.receive(into, "--json"));
        for receiver in receivers {
            let done = done(&finish_well(receiver));
            assert!(done["forged_packets"].as_u64() > Some(0), "{done}");
            assert!(done["replayed_packets"].as_u64() > Some(0), "{done}");
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(meddler.join().unwrap() > 0 && flooder.join().unwrap() > 0);
    });
    finish_well(sender);
    ["a/file", "b/file"].iter().for_each(|copy| scratch.assert_file(copy, SIZE));
}

/// An honest receiver's part in the session, admitted as any other is.
fn join(ticket: &Ticket) -> (Connection, GroupKey) {
    let identity = Identity::generate().unwrap();
    join_as(ticket, &identity, "mallory", IpAddr::V4(Ipv4Addr::UNSPECIFIED)).unwrap()
}

/// Joins with this key and name from an address of the loopback network. The error is the sender's word to one that it does
/// not admit.
fn join_as(
    ticket: &Ticket,
    identity: &Identity,
    name: &str,
    from: IpAddr,
) -> Result<(Connection, GroupKey), PutOut> {
    let to = ticket.control[0];
    let socket = socket2::Socket::new(socket2::Domain::for_address(to), socket2::Type::STREAM, None).unwrap();
    if !from.is_unspecified() {
        socket.bind(&SocketAddr::new(from, 0).into()).unwrap();
    }
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    let sender = PublicKey::from_bytes(ticket.security.as_ref().unwrap().sender_key).unwrap();
    let tls = ReceiverTls::new(identity, sender).unwrap();
    let mut connection = Connection::to_sender(stream, 65_475, Some(&tls)).unwrap();
    let hello = Hello::new(PROTOCOL_VERSION, 0, 1 << 20, name).unwrap();
    connection.queue(&Message::Hello(hello).to_packet(FileId::new(ticket.session, 0)));
    loop {
        connection.flush().unwrap();
        connection.read().unwrap();
        while let Some((header, payload)) = connection.next_packet().unwrap() {
            match Message::parse(&header, payload).unwrap() {
                Message::GroupKey(key) => return Ok((connection, key)),
                Message::PutOut(word) => return Err(word),
                _ => {}
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Sends blocks of the first object that it has made up: at each position so many.
fn forge(ticket: &Ticket, key: Option<&GroupKey>, blocks: &[(u64, usize)]) {
    let address = group(ticket);
    let socket = open_group_sender(&address, DEFAULT_MULTICAST_HOPS).unwrap();
    let (mut sealer, len) = (key.map(Sealer::for_group), u64::from(ticket.block_len));
    for (position, count) in blocks {
        for block in 0..*count as u64 {
            let (file, at) = (FileId::new(ticket.session, 0), (position / len + block) * len);
            let header = Header::new(PacketType::Data, file, at, ticket.block_len.into());
            let mut packet = header.to_bytes().to_vec();
            packet.resize(HEADER_LEN + ticket.block_len as usize, 0xee);
            if let Some(sealer) = &mut sealer {
                let plain = std::mem::take(&mut packet);
                sealer.seal_packet(&plain, &mut packet).unwrap();
            }
            socket.send_to(&packet, address.scoped()).unwrap();
        }
    }
}

/// A member has the group's key, and in a plain session everybody is one. What it forges costs the chunks that it lies in.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_member_that_forges_costs_chunks_and_not_the_object() {
    const LARGE: usize = 8_000_000;
    const CHUNK: u64 = 65_536;
    for args in ["--rate 100M", "--rate 100M --plain", "--rate 100M --fec 20%"] {
        let scratch = Scratch::with_file("file", LARGE);
        let is_plain = args.contains("--plain");
        let wait = if is_plain { "2" } else { "3" };
        let sender = scratch.send(format!("{args} --block 1400 --wait {wait} file"));
        let ticket = scratch.ticket();
        let mut first = scratch.receive("a", "--json");
        let mut told = joined(&mut first);
        let member = (!is_plain).then(|| join(&ticket));
        // One block, a run over the border of two chunks, and one in the last chunk, which is short.
        let last = LARGE as u64 / CHUNK * CHUNK;
        let blocks = [(3 * CHUNK, 1), (11 * CHUNK - 9000, 20), (last + 100, 1)];
        forge(&ticket, member.as_ref().map(|(_, key)| key), &blocks);
        thread::sleep(Duration::from_millis(100));
        let second = scratch.receive("b", "");
        let has_begun = || scratch.parts("b") > 0 || scratch.path("b/file").exists();
        wait_until("the session has begun", has_begun);
        drop(member);
        let mut text = String::new();
        told.read_to_string(&mut text).unwrap();
        all_well([first, second]);
        // To the sender, the member is a receiver that has left.
        let said = finish(sender).1;
        assert!(is_plain || said.contains("all of it is at 2 of 3 receivers"), "{said}");
        ["a/file", "b/file"].iter().for_each(|copy| scratch.assert_file(copy, LARGE));
        let done = done(&text);
        let (wrong, again) = (done["wrong_chunks"].as_u64(), done["retransmitted_bytes"].as_u64());
        assert!((3..=6).contains(&wrong.unwrap()), "{args}: {done}");
        assert!((1..=10 * CHUNK).contains(&again.unwrap()), "{args}: {done}");
    }
}

/// Each piece is verified before the pipe gets it, and what was forged of it is fetched again.
#[test]
fn a_forged_block_never_reaches_a_pipe() {
    for (args, wait) in [("--plain", 1), ("", 2)] {
        let scratch = Scratch::with_file("input", SIZE);
        let send = format!(
            "send --interface lo --block 1400 --rate 100M --wait {wait} --ticket-file ticket {args} -"
        );
        let mut command = scratch.command(send);
        command.stdin(File::open(scratch.path("input")).unwrap());
        let sender = scratch.with_ticket(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let ticket = scratch.ticket();
        let member = args.is_empty().then(|| join(&ticket));
        let mut command = scratch.command("receive --stdout --interface lo @ticket");
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let receiver = command.stdout(File::create(scratch.path("output")).unwrap()).spawn_guarded();
        // Before and while the receiver comes, until it has got something. The sender waits for both of them.
        wait_until("the first chunk has passed", || {
            forge(&ticket, member.as_ref().map(|(_, key)| key), &[(65_536, 3), (500_000, 20)]);
            scratch.path("output").metadata().unwrap().len() > 0
        });
        drop(member);
        finish_well(receiver);
        scratch.assert_file("output", SIZE);
        finish(sender);
    }
}

/// Whoever says in tiny steps that it takes something from a small buffer is not waited for.
#[test]
fn a_member_that_creeps_does_not_hold_the_others_up() {
    const LARGE: usize = 20_000_000;
    let scratch = Scratch::with_file("file", LARGE);
    let sender = scratch.send("--wait 2 file");
    let ticket = scratch.ticket();
    let (mut member, _) = join(&ticket);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let creeper = scope.spawn(|| {
            let mut position = 0;
            while !is_over.load(Ordering::Relaxed) {
                position += 1;
                let progress = Progress { position, ..Progress::default() };
                member.queue(&Message::Progress(progress).to_packet(FileId::new(ticket.session, 0)));
                // Should the session have ended, the receiver's code tells why.
                _ = member.flush();
                thread::sleep(Duration::from_millis(20));
            }
            drop(member);
        });
        let (code, text) = finish(scratch.receive("a", ""));
        is_over.store(true, Ordering::Relaxed);
        creeper.join().unwrap();
        assert_eq!(code, Some(0), "{text}");
    });
    finish_with(3, sender);
    scratch.assert_file("a/file", LARGE);
}

/// One ticket, joined again and again: from one address and with one key it is good for a few places, and who comes again
/// takes its own.
#[test]
fn one_ticket_is_good_for_so_many_places_from_one_address_and_with_one_key() {
    let scratch = Scratch::with_file("file", 10_000);
    let sender = scratch.send("--control 127.0.0.1:0 --per-address 5 --linger 0 --wait 24 file");
    let ticket = scratch.ticket();
    let mut members = Vec::new();
    let mut come = |identity: &Identity, name: &str, from: [u8; 4]| {
        let result = join_as(&ticket, identity, name, from.into());
        result.map(|member| members.push(member)).map_err(|word| (word.code, word.reason.as_str().to_owned()))
    };
    let new_key = || Identity::generate().unwrap();
    for number in 0..30 {
        match come(&new_key(), &format!("crowd{number}"), [127, 0, 0, 9]) {
            Ok(()) => assert!(number < 5),
            Err((code, reason)) => {
                assert!(number >= 5 && code == PutOutCode::Full, "{number}: {reason}");
                assert!(reason.contains("5 receivers are there already from its address"), "{reason}");
            }
        }
    }
    let shared = new_key();
    for number in 0..20 {
        match come(&shared, &format!("shared{number}"), [127, 0, 1, number + 1]) {
            Ok(()) => assert!(number < 16),
            Err((code, reason)) => {
                assert!(number >= 16 && code == PutOutCode::KeyInUse, "{number}: {reason}");
            }
        }
    }
    let restless = new_key();
    for _ in 0..10 {
        assert_eq!(come(&restless, "restless", [127, 0, 2, 1]), Ok(()), "it takes its own place");
    }
    all_well(["a", "b"].map(|into| scratch.receive(into, "")));
    drop(members);
    assert_eq!(finish(sender).0, Some(3), "the crowd has received nothing");
}
