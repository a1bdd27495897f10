//! Xcast's header, list of ports and registration: what parses is emitted and parsed again as the same, no longer than it came.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_wire::xcast::{Header, Registration, len, parse_ports, ports_to_bytes};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(registration) = Registration::parse(bytes) {
        assert_eq!(Registration::parse(&registration.to_bytes()), Ok(registration));
    }
    let bytes = with_checksum(bytes);
    let Ok((header, rest)) = Header::parse(&bytes) else { return };
    let emitted = header.to_bytes();
    assert_eq!(emitted.len() + rest.len(), bytes.len());
    let destinations = header.destinations.len();
    assert_eq!(Header::parse(&emitted), Ok((header, &[][..])));
    if let Ok((Some(ports), next, len)) = parse_ports(rest, destinations) {
        assert!(len <= rest.len());
        let again = ports_to_bytes(&ports, next);
        assert_eq!(parse_ports(&again, destinations), Ok((Some(ports), next, again.len())));
    }
});

/// Nearly all that a fuzzer tries would stop at the checksum: every other input gets a right one.
fn with_checksum(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let header_len = len(bytes.get(5).map_or(0, |count| usize::from(count & 0x7f)));
    if bytes.len().is_multiple_of(2) && bytes.len() >= header_len {
        bytes[6..8].fill(0);
        let words = bytes[..header_len].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let checksum = 0xffff - (words.sum::<u32>() % 0xffff) as u16;
        bytes[6..8].copy_from_slice(&checksum.to_be_bytes());
    }
    bytes
}
