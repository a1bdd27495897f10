//! Announcements, SAP and the exchange of codes: what parses is emitted again byte for byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_wire::{announcement::Announcement, code, sap::Packet};

fuzz_target!(|bytes: &[u8]| {
    if let Ok((announcement, signature)) = Announcement::parse(bytes) {
        assert_eq!(announcement.to_bytes(&signature), bytes);
    }
    if let Ok(packet) = Packet::parse(bytes) {
        let again = packet.to_bytes();
        if packet.payload_type.is_empty() == packet.payload.starts_with(b"v=0") {
            assert_eq!(Packet::parse(&again), Ok(packet));
        }
        _ = Announcement::parse(packet.payload);
    }
    if let Ok(exchange) = code::parse_request(bytes) {
        assert_eq!(code::request(&exchange), bytes);
    }
    if let Ok(answer) = code::Answer::parse(bytes) {
        assert_eq!(answer.to_bytes(), bytes);
    }
    _ = code::parse_reply(bytes);
});
