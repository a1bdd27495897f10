//! Every parser of bytes that somebody else may have made.

use std::hint::black_box;

use treecast_doctor::parsers as doctor;
use treecast_driver::{parsers as driver, status::Snapshot};
use treecast_feed::{analysis::Analysis, decoder};
use treecast_load::packet;
use treecast_mast::{
    dhcp::wire,
    dns::{
        keys::Keys,
        server::{Server, Transport},
        zone::Zone,
    },
    message::{Envelope, Key, Protocol},
};
use treecast_rib::{delegations::Delegations, read, relations::Relations, source};
use treecast_wire::{
    announcement::Announcement, beacon::Beacon, chunk_index::ChunkIndex, code, datagram, header::Header,
    icmpv6::DeliveryError, igmp, iotup, ipv6, list_proof::ListProof, mead, message::Message, mld, mtrace2,
    sap, seal::Prefix, snmp, ticket::Ticket, unicast, xcast,
};

/// A parser, and what it reads.
pub type Parser = (&'static str, fn(&[u8]));

/// All of them.
pub const ALL: &[Parser] = &[
    ("messages of a session", session),
    ("what seals a packet", |bytes| _ = black_box(Prefix::parse(bytes))),
    ("tickets", ticket),
    ("announcements", |bytes| _ = black_box(Announcement::parse(bytes))),
    ("SAP", |bytes| _ = black_box(sap::Packet::parse(bytes))),
    ("mDNS", driver::mdns),
    ("the exchange of codes", exchange),
    ("indexes of chunks", |bytes| _ = black_box(ChunkIndex::parse(bytes))),
    ("compressed segments", driver::segment),
    ("status", |bytes| _ = black_box(serde_json::from_slice::<Snapshot>(bytes))),
    ("the doctor's requests and answers", doctor::messages),
    ("packets that the doctor hears", doctor::heard),
    ("packets of the traffic generator", |bytes| {
        for format in [packet::Format::Own, packet::Format::Paper] {
            _ = black_box(packet::Packet::parse(format, bytes));
        }
    }),
    ("beacons", |bytes| _ = black_box(Beacon::parse(bytes))),
    ("frames of the IoT updater", |bytes| _ = black_box(iotup::Frame::parse(bytes))),
    ("the unicast server", |bytes| {
        _ = black_box(unicast::FileHeader::parse(bytes));
        _ = black_box(unicast::Request::parse(bytes));
        _ = black_box(unicast::Reply::parse(bytes));
    }),
    ("MLD", |bytes| {
        _ = black_box(mld::Message::parse(bytes));
        _ = black_box(mld::parse_packet(bytes));
    }),
    ("IGMP", |bytes| _ = black_box(igmp::Message::parse(bytes))),
    ("Mtrace2", |bytes| _ = black_box(mtrace2::Message::parse(bytes))),
    ("packets with lists of receivers", lists),
    ("ICMPv6", |bytes| {
        _ = black_box(ipv6::Header::parse(bytes));
        _ = black_box(DeliveryError::parse(bytes));
    }),
    ("SNMP", |bytes| {
        _ = black_box(snmp::parse_answer(bytes));
        _ = black_box(snmp::parse_request(bytes));
        _ = black_box(snmp::parse_link_notice(bytes));
    }),
    ("messages of MAST", |bytes| {
        for protocol in [Protocol::Srmp, Protocol::Itmp] {
            let key = Key::new(protocol, &[7; 32]);
            _ = black_box(Envelope::open(bytes, |_| Some(&key)));
            _ = black_box(Envelope::open(&key.with_code(bytes), |_| Some(&key)));
        }
    }),
    ("DHCPv6 of MAST", |bytes| {
        if let Some(message) = black_box(wire::decode(bytes)) {
            _ = black_box(wire::prefixes(&message));
        }
    }),
    ("DNS of MAST", |bytes| {
        let name = |text: &str| text.parse().expect("a name");
        let mut server =
            Server::new(Zone::new(name("stub.example."), name("ns.stub.example."), 1, 5), Keys::default());
        for transport in [Transport::Udp, Transport::Tcp] {
            _ = black_box(server.answer(1_800_000_000, bytes, transport));
        }
    }),
    ("the stream of pqact", |mut bytes| {
        while let Ok(Some(metadata)) = black_box(decoder::read(&mut bytes)) {
            let Some(behind) = bytes.get(metadata.size_bytes as usize..) else { return };
            bytes = behind;
        }
    }),
    ("logs of LDM", |bytes| {
        let mut analysis = Analysis::new(u64::MAX);
        analysis.read(bytes).expect("memory can be read");
        _ = black_box(analysis.finish());
    }),
    ("routing tables", |bytes| {
        _ = black_box(source::format(bytes));
        _ = black_box(read::read(bytes, "x", 1).expect("it is small"));
    }),
    ("relations between ASes", |bytes| _ = black_box(Relations::read(bytes, "x").expect("it is small"))),
    ("delegations", |bytes| _ = black_box(Delegations::read(bytes, "x").expect("it is small"))),
];

fn session(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((_, end))) = datagram::next_packet(rest) {
        rest = &rest[end..];
    }
    if let Ok(header) = Header::parse(bytes) {
        _ = black_box(Message::parse(&header, &bytes[treecast_wire::header::HEADER_LEN..]));
    }
}

fn ticket(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        _ = black_box(text.parse::<Ticket>());
    }
    // Behind a right checksum.
    _ = black_box(Ticket::seal(bytes).parse::<Ticket>());
}

fn exchange(bytes: &[u8]) {
    _ = black_box(code::parse_request(bytes));
    _ = black_box(code::Answer::parse(bytes));
    _ = black_box(code::parse_reply(bytes));
}

fn lists(bytes: &[u8]) {
    for dialect in [mead::Dialect::Rfc, mead::Dialect::Linux65] {
        if let Ok((_, rest)) = mead::Header::parse(bytes, dialect) {
            _ = black_box(mead::Options::parse(rest));
        }
    }
    if let Ok((header, rest)) = xcast::Header::parse(bytes) {
        _ = black_box(xcast::Options::parse(rest, header.destinations.len()));
    }
    _ = black_box(xcast::Registration::parse(bytes));
    _ = black_box(ListProof::parse(bytes));
}
