//! Golden packets: what is emitted, and how it reads to a person, is what `vectors/` says.
//!
//! After a wanted change of the format, `TREECAST_WRITE_VECTORS=1 cargo test -p treecast-wire`
//! writes the files anew; review the difference before it is committed.
#![allow(clippy::disallowed_methods, reason = "the vectors are files")]

use std::fs;

use crate::{
    samples::{self, Sample},
    vectors,
};
use treecast_wire::{
    chunk_index::ChunkIndex,
    header::{HEADER_LEN, Header, PacketType},
    iotup::Frame,
    message::Message,
    ticket::Ticket,
    unicast,
};

#[test]
fn what_is_emitted_is_what_the_vectors_hold() {
    for Sample { name, bytes, text } in samples::all() {
        vectors::must_hold(&name, &bytes, &format!("{text}\n"));
    }
}

#[test]
fn what_the_vectors_hold_reads_as_their_snapshots_say() {
    for name in vectors::names() {
        let bytes = fs::read(vectors::path(&name, "bin")).expect("it was listed");
        let Some(text) = read(&name, &bytes) else { continue };
        let golden = fs::read_to_string(vectors::path(&name, "txt")).expect("a snapshot beside it");
        assert_eq!(format!("{text}\n"), golden, "{name}");
    }
}

#[test]
fn every_packet_type_has_a_vector() {
    let names = vectors::names();
    for kind in PacketType::ALL {
        assert!(names.contains(&format!("session-{kind:?}")), "{kind:?}");
    }
}

#[test]
fn the_protocol_document_describes_every_packet_type_with_its_bit_and_every_format() {
    let document = vectors::folder().join("../docs/protocol.md");
    let document =
        fs::read_to_string(&document).unwrap_or_else(|error| panic!("{}: {error}", document.display()));
    for kind in PacketType::ALL {
        let bits = (0..u32::BITS).filter(|bit| kind as u64 >> bit & 1 == 1).map(|bit| bit.to_string());
        let row = format!("| {} | {kind:?} |", bits.collect::<Vec<_>>().join(" and "));
        assert!(document.contains(&row), "docs/protocol.md, section 2, lacks the row \"{row}\"");
    }
    for name in vectors::names() {
        let mention = format!("vectors/{}/", vectors::protocol(&name));
        assert!(document.contains(&mention), "docs/protocol.md does not say what {mention} holds");
    }
}

/// The text of a vector of this test's formats; those of others are named otherwise.
fn read(name: &str, bytes: &[u8]) -> Option<String> {
    let (format, _) = name.split_once('-')?;
    Some(match format {
        "session" => read_session(bytes),
        "ticket" => {
            let ticket: Ticket = std::str::from_utf8(bytes).expect("text").parse().expect("a ticket");
            format!("{ticket:#?}")
        }
        "delta" => ChunkIndex::parse(bytes).expect("an index").to_string(),
        "iotup" => Frame::parse(bytes).expect("a frame").0.to_string(),
        "unicast" if name.ends_with("tcp-reply") => {
            unicast::FileHeader::parse(bytes).expect("a header").to_string()
        }
        "unicast" if name.ends_with("udp-request") => {
            unicast::Request::parse(bytes).expect("a request").to_string()
        }
        "unicast" => unicast::Reply::parse(bytes).expect("a reply").0.to_string(),
        _ => return None,
    })
}

fn read_session(bytes: &[u8]) -> String {
    let header = Header::parse(bytes).expect("a header");
    if header.kind.is_block() {
        return header.to_string();
    }
    let message = Message::parse(&header, &bytes[HEADER_LEN..]).expect("a message");
    format!("{header}\n{message}")
}
