//! Every way of sending against every way of receiving, over loopback.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use treecast_driver::{
    interface::Interface,
    udp::{
        Batch, Collector, DEFAULT_MULTICAST_HOPS, GroupAddress, Item, Offload, Transmitter,
        open_group_receiver, open_group_sender, open_unicast_receiver, open_unicast_sender,
    },
};
use treecast_wire::{
    header::{FileId, Header, PacketType, SessionId},
    message::{BeginOfFile, Message, TransferType},
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

/// Receives until `done`, failing after ten seconds.
fn collect(collector: &mut Collector, mut done: impl FnMut(&mut Batch) -> bool) {
    let mut batch = Batch::default();
    let start = std::time::Instant::now();
    while !done(&mut batch) {
        assert!(start.elapsed().as_secs() < 10, "nothing more came in");
        if !collector.fits(&batch) {
            batch.clear();
        }
        if !collector.receive(&mut batch).unwrap() {
            std::thread::sleep(std::time::Duration::from_millis(1));
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
        let mut collector = Collector::new(socket, into, BLOCK_LEN as u16).unwrap();
        let sender = open_group_sender(&address, DEFAULT_MULTICAST_HOPS).unwrap();
        let mut transmitter = Transmitter::new(sender, out);
        transmitter.send_datagram(address.scoped(), &announce(file)).unwrap();
        transmitter.send_blocks(address.scoped(), first, BLOCK_LEN, &data).unwrap();

        let mut received = vec![0; data.len()];
        let (mut bytes, mut messages) = (0, 0);
        collect(&mut collector, |batch| {
            for item in batch.take_items() {
                match item {
                    Item::Message { .. } => messages += 1,
                    Item::Blocks { range, at, .. } => {
                        let len = (range.end - range.start) as usize;
                        received[range.start as usize..range.end as usize]
                            .copy_from_slice(&batch.bytes()[at..at + len]);
                        bytes += len;
                    }
                }
            }
            bytes == data.len() && messages == 1
        });
        assert!(received == data, "{out:?} to {into:?}");
        assert_eq!((transmitter.offload(), collector.offload()), (out, into), "a way was refused here");
    }
}

/// The kernel joins equal datagrams whatever they hold: here three messages of one length.
#[test]
fn joined_messages_are_told_apart() {
    let (socket, _) = open_unicast_receiver(0, 1 << 20).unwrap();
    let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), socket.local_addr().unwrap().port());
    let mut collector = Collector::new(socket, Offload::SuperPackets, BLOCK_LEN as u16).unwrap();
    let sender = open_unicast_sender(to.ip()).unwrap();
    let mut messages = announce(FileId(1));
    let len = messages.len();
    messages.extend(announce(FileId(2)));
    messages.extend(announce(FileId(3)));
    set_segment_len(&sender, len);
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
    let mut collector = Collector::new(socket, Offload::SuperPackets, BLOCK_LEN as u16).unwrap();
    let transmitter =
        Transmitter::new(open_group_sender(&address, DEFAULT_MULTICAST_HOPS).unwrap(), Offload::Single);
    let sent = 500;
    for _ in 0..sent {
        transmitter.send_datagram(address.scoped(), &announce(FileId(1))).unwrap();
    }
    let mut received = 0;
    let mut batch = Batch::default();
    while collector.receive(&mut batch).unwrap() {
        received += batch.take_items().len() as u64;
    }
    assert!(received < sent, "the buffer was meant to overflow");
    // The counter comes with packets that are queued after a drop.
    transmitter.send_datagram(address.scoped(), &announce(FileId(1))).unwrap();
    collect(&mut collector, |batch| batch.take_items().len() == 1);
    assert_eq!(collector.dropped(), sent - received);
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
    let (socket, _) = open_unicast_receiver(0, 1 << 20).unwrap();
    let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), socket.local_addr().unwrap().port());
    let mut collector = Collector::new(socket, Offload::SuperPackets, BLOCK_LEN as u16).unwrap();
    let sender = open_unicast_sender(to.ip()).unwrap();
    for junk in [&[][..], &[1; 7], &[0; 32], &[0xff; 1400], &[9; 9000]] {
        sender.send_to(junk, to).unwrap();
    }
    let mut malformed = 0;
    collect(&mut collector, |batch| {
        malformed += batch.malformed();
        let items = batch.take_items();
        batch.clear();
        assert_eq!(items, []);
        malformed >= 5
    });
}

fn set_segment_len(socket: &std::net::UdpSocket, len: usize) {
    let len = len as libc::c_int;
    // SAFETY: pointer and length describe `len`.
    let result = unsafe {
        libc::setsockopt(
            std::os::fd::AsRawFd::as_raw_fd(socket),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const len).cast(),
            4,
        )
    };
    assert_eq!(result, 0);
}
