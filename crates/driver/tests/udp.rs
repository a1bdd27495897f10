//! Every way of sending against every way of receiving, over loopback.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    time::Duration,
};

use treecast_driver::{
    seal::{Opener, Refused, Sealer, draw_group_key},
    udp::{
        Batch, Collector, DEFAULT_MULTICAST_HOPS, GroupAddress, Item, Offload, Stamp, Transmitter,
        open_group_receiver, open_group_sender, open_unicast_receiver, open_unicast_sender,
    },
};
use treecast_host::{clock, interface::Interface, option};
use treecast_wire::{
    header::{FileId, Header, PacketType, SessionId},
    message::{BeginOfFile, Message, Pace, Phase, TransferType},
    seal::{SEALED_HEADER_LEN, TAG_LEN},
};

const BLOCK_LEN: usize = 1420;
const WAYS: [Offload; 3] = [Offload::SuperPackets, Offload::Batches, Offload::Single];

fn loopback_group(last: u8) -> GroupAddress {
    // The process id keeps test runs that happen at the same time apart.
    let [_, _, high, low] = std::process::id().to_be_bytes();
    GroupAddress {
        group: SocketAddr::new(IpAddr::V4(Ipv4Addr::new(239, 255, high, low)), 21_000 + u16::from(last)),
        source: None,
        interface: Interface::named("lo").unwrap(),
    }
}

fn contents(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// Receives until `done`, failing after a minute.
fn collect(collector: &mut Collector, mut done: impl FnMut(&mut Batch) -> bool) {
    let mut batch = Batch::default();
    let start = std::time::Instant::now();
    while !done(&mut batch) {
        assert!(start.elapsed().as_secs() < 60, "nothing more came in");
        if !collector.fits(&batch) {
            batch.clear();
        }
        if !collector.receive(&mut batch).unwrap() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn announce(file: FileId) -> Vec<u8> {
    let begin = BeginOfFile::new(TransferType::DiskToDisk, 5, "name").unwrap();
    Message::BeginOfFile(begin).to_packet(file)
}

#[test]
fn every_way_out_reaches_every_way_in() {
    let data = contents(BLOCK_LEN * 60 + 77);
    let file = FileId::new(SessionId(1), 0);
    let first = Header { file_id: file, sequence: 0, payload_len: 0, kind: PacketType::Data, number: 0 };
    for (index, (out, into)) in WAYS.iter().flat_map(|out| WAYS.map(|into| (*out, into))).enumerate() {
        let address = loopback_group(index as u8);
        let (socket, _) = open_group_receiver(&address, 1 << 20).unwrap();
        let mut collector = Collector::new(socket, into, BLOCK_LEN as u16, None).unwrap();
        let sender = open_group_sender(&address, DEFAULT_MULTICAST_HOPS).unwrap();
        let mut transmitter = Transmitter::new(sender, out);
        transmitter.send_datagram(address.scoped(), &announce(file)).unwrap();
        transmitter.send_blocks(address.scoped(), first, BLOCK_LEN, &data).unwrap();

        assert!(object(&mut collector, data.len()) == data, "{out:?} to {into:?}");
        assert_eq!((transmitter.offload(), collector.offload()), (out, into), "a way was refused here");
    }
}

/// Takes one message and an object of so many bytes.
fn object(collector: &mut Collector, len: usize) -> Vec<u8> {
    let mut received = vec![0; len];
    let (mut bytes, mut messages) = (0, 0);
    collect(collector, |batch| {
        for item in batch.take_items() {
            match item {
                Item::Message { .. } => messages += 1,
                Item::Symbols { .. } | Item::Pace { .. } => panic!("nobody sent these"),
                Item::Blocks { range, at, .. } => {
                    let len = (range.end - range.start) as usize;
                    received[range.start as usize..range.end as usize]
                        .copy_from_slice(&batch.bytes()[at..at + len]);
                    bytes += len;
                }
            }
        }
        bytes == len && messages == 1
    });
    received
}

/// Every length of the last block: its tag lies wholly in the block's room, partly, or behind it.
#[test]
fn sealed_packets_go_every_way_and_replayed_or_altered_ones_none() {
    let file = FileId::new(SessionId(1), 0);
    let tails = [1, 77, BLOCK_LEN - 16, BLOCK_LEN - 5, BLOCK_LEN - 1, BLOCK_LEN];
    let ways = WAYS.iter().flat_map(|out| WAYS.map(|into| (*out, into)));
    for (index, ((out, into), tail)) in ways.zip(tails.into_iter().cycle()).enumerate() {
        let data = contents(BLOCK_LEN * 60 + tail);
        let address = loopback_group(40 + index as u8);
        let (socket, _) = open_group_receiver(&address, 1 << 20).unwrap();
        let key = draw_group_key().unwrap();
        let mut opener = Opener::for_group();
        opener.add(&key);
        let mut collector = Collector::new(socket, into, BLOCK_LEN as u16, Some(opener)).unwrap();
        let socket = open_group_sender(&address, DEFAULT_MULTICAST_HOPS).unwrap();
        let mut transmitter = Transmitter::new(socket, out);
        let mut sealer = Sealer::for_group(&key);
        let (mut message, mut blocks) = (Vec::new(), Vec::new());
        sealer.seal_packet(&announce(file), &mut message).unwrap();
        let first = Header { file_id: file, sequence: 0, payload_len: 0, kind: PacketType::Data, number: 1 };
        sealer.seal_blocks(first, BLOCK_LEN, &data, &mut blocks).unwrap();
        let frame_len = SEALED_HEADER_LEN + BLOCK_LEN + TAG_LEN;
        // Altered ones come first, in super-packets of their own, then the right ones twice.
        let mut altered = blocks[..10 * frame_len].to_vec();
        altered.chunks_mut(frame_len).enumerate().for_each(|(slot, frame)| frame[slot * 140] ^= 1);
        transmitter.send_segments(address.scoped(), frame_len, &altered).unwrap();
        for _ in 0..2 {
            transmitter.send_datagram(address.scoped(), &message).unwrap();
            transmitter.send_segments(address.scoped(), frame_len, &blocks).unwrap();
        }

        assert!(object(&mut collector, data.len()) == data, "{out:?} to {into:?}");
        let packets = 1 + 60 + 1;
        let start = std::time::Instant::now();
        while collector.refused().replayed < packets && start.elapsed().as_secs() < 60 {
            let mut batch = Batch::default();
            collector.receive(&mut batch).unwrap();
            assert!(batch.is_empty(), "{out:?} to {into:?}: what was replayed was taken");
        }
        assert_eq!(collector.refused(), Refused { forged: 10, replayed: packets }, "{out:?} to {into:?}");
    }
}

/// A receiver at an address of its own, a socket to send to it from, and its address.
fn unicast() -> (Collector, UdpSocket, SocketAddr) {
    let (socket, _) = open_unicast_receiver(0, 1 << 20).unwrap();
    let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), socket.local_addr().unwrap().port());
    let collector = Collector::new(socket, Offload::SuperPackets, BLOCK_LEN as u16, None).unwrap();
    (collector, open_unicast_sender(to.ip()).unwrap(), to)
}

/// The kernel joins equal datagrams whatever they hold: here three messages of one length.
#[test]
fn joined_messages_are_told_apart() {
    let (mut collector, sender, to) = unicast();
    let mut messages = announce(FileId(1));
    let len = messages.len();
    messages.extend(announce(FileId(2)));
    messages.extend(announce(FileId(3)));
    option::set(&sender, libc::SOL_UDP, libc::UDP_SEGMENT, len as i32).unwrap();
    sender.send_to(&messages, to).unwrap();

    let mut files = Vec::new();
    collect(&mut collector, |batch| {
        files.extend(batch.take_items().into_iter().map(|item| match item {
            Item::Message { file, .. } => file.0,
            blocks => panic!("{blocks:?} instead of a message"),
        }));
        files.len() == 3
    });
    assert_eq!(files, [1, 2, 3]);
}

#[test]
fn the_kernels_drops_are_counted() {
    let address = loopback_group(20);
    let (socket, buffer) = open_group_receiver(&address, 20_000).unwrap();
    assert!(buffer.bytes >= 20_000 && buffer.warning.is_none(), "{buffer:?}");
    let mut collector = Collector::new(socket, Offload::SuperPackets, BLOCK_LEN as u16, None).unwrap();
    let transmitter =
        Transmitter::new(open_group_sender(&address, DEFAULT_MULTICAST_HOPS).unwrap(), Offload::Single);
    let send = || transmitter.send_datagram(address.scoped(), &announce(FileId(1))).unwrap();
    (0..500).for_each(|_| send());
    let (mut sent, mut received, mut batch) = (500, 0, Batch::default());
    let start = std::time::Instant::now();
    loop {
        while collector.receive(&mut batch).unwrap() {
            received += batch.take_items().len() as u64;
        }
        let dropped = collector.dropped();
        if dropped > 0 && received + dropped == sent {
            break;
        }
        assert!(start.elapsed().as_secs() < 60, "{received} received and {dropped} dropped of {sent}");
        // The counter comes with packets that are queued after a drop. A busy kernel queues them later.
        send();
        sent += 1;
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_buffer_smaller_than_asked_for_is_warned_of() {
    let (_, buffer) = open_unicast_receiver(0, usize::MAX).unwrap();
    let warning = buffer.warning.unwrap();
    assert!(
        warning.contains("net.core.rmem_max") && warning.contains(&buffer.bytes.to_string()),
        "{warning}"
    );
}

#[test]
fn strangers_packets_are_counted_and_dropped() {
    let (mut collector, sender, to) = unicast();
    for junk in [&[][..], &[1; 7], &[0; 32], &[0xff; 1400], &[9; 9000]] {
        sender.send_to(junk, to).unwrap();
    }
    let mut malformed = 0;
    collect(&mut collector, |batch| {
        malformed += batch.take_malformed();
        let items = batch.take_items();
        batch.clear();
        assert_eq!(items, []);
        malformed >= 5
    });
}

/// Sends a packet, and reads it 20 ms later. Returns the times before and after it was sent, and what was read.
fn send_and_read_late(
    packet: &[u8],
    to: SocketAddr,
    collector: &mut Collector,
) -> (Duration, Duration, Item) {
    let before = clock::since_1970();
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(packet, to).unwrap();
    let after = clock::since_1970();
    std::thread::sleep(Duration::from_millis(20));
    let mut items = Vec::new();
    collect(collector, |batch| {
        items.extend(batch.take_items());
        !items.is_empty()
    });
    (before, after, items.remove(0))
}

/// Delays are measured by these times: a receiver that reads its socket late must not take that for a queue.
#[test]
fn what_tells_the_rate_comes_with_its_number_and_the_kernels_time() {
    let pace = Pace {
        timestamp_us: 5,
        rate_bps: 1_000_000,
        suppression_bps: Pace::NO_RATE,
        echo_us: 0,
        round: 1,
        longest_round_trip_us: 40_000,
        packet_bytes: 1500,
        is_slow_start: true,
        limited_by: 0,
        echo_for: 0,
        phase: Phase::Start,
        is_unused: false,
        receivers: 3,
        probe: None,
    };
    let file = FileId::new(SessionId(1), 0);
    let mut packet = Message::Pace(pace).to_packet(file);
    treecast_wire::header::set_number(&mut packet, 77);
    for offload in WAYS {
        let (socket, _) = open_unicast_receiver(0, 1 << 16).unwrap();
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, socket.local_addr().unwrap().port()));
        let mut collector = Collector::new(socket, offload, BLOCK_LEN as u16, None).unwrap();
        // The kernel starts to stamp packets some time after the first socket asks for it. Until then the time is that of reading.
        let start = std::time::Instant::now();
        loop {
            let (before, after, item) = send_and_read_late(&packet, to, &mut collector);
            let Item::Pace { number, stamp: Stamp { time: Some(time), is_marked }, pace: came, .. } = item
            else {
                panic!("{item:?} with {offload:?}")
            };
            assert_eq!((number, is_marked, came), (77, false, pace), "{offload:?}");
            assert!(before <= time, "{before:?} {time:?}");
            if time <= after {
                break;
            }
            assert!(start.elapsed().as_secs() < 60, "{after:?} {time:?}");
        }
    }
}
