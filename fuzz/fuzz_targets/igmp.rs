//! IGMP and its router discovery: what parses is emitted and parsed again as the same message, no longer than
//! it came. The checksum is put right first, which a fuzzer would not find.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_wire::igmp::Message;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    seal(&mut bytes);
    if let Ok(message) = Message::parse(&bytes) {
        let emitted = message.to_bytes();
        assert!(emitted.len() <= bytes.len());
        assert_eq!(Message::parse(&emitted), Ok(message));
    }
});

fn seal(message: &mut [u8]) {
    let Some(field) = message.get_mut(2..4) else { return };
    field.fill(0);
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
    let mut sum: u32 = message.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    message[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}
