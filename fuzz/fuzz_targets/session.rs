//! Header and message: what parses is emitted as the same bytes, but for a PutOut, whose unknown codes count as a known one.
//! And a datagram of several of them, which ends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_wire::{
    datagram::next_packet,
    header::{HEADER_LEN, Header},
    message::Message,
};

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some((header, end))) = next_packet(rest) {
        assert_eq!(end, HEADER_LEN + header.payload_len as usize);
        rest = &rest[end..];
    }
    let Ok(header) = Header::parse(bytes) else { return };
    assert_eq!(header.to_bytes(), bytes[..HEADER_LEN]);
    let payload = &bytes[HEADER_LEN..];
    if let Ok(message) = Message::parse(&header, payload) {
        let packet = message.to_packet(header.file_id);
        if matches!(message, Message::PutOut(_)) {
            let header = Header::parse(&packet).expect("it was just made");
            assert_eq!(Message::parse(&header, &packet[HEADER_LEN..]).as_ref(), Ok(&message));
        } else {
            assert_eq!(packet[HEADER_LEN..], *payload);
        }
        assert!(message.to_string().starts_with(&format!("{:?}", header.kind)));
    }
});
