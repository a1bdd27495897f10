//! Xcast's header, list of ports and registration: what parses is emitted and parsed again as the same, no longer than it came.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_wire::xcast::{Header, Options, Registration, len};

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
    if let Ok((options, next, len)) = Options::parse(rest, destinations)
        && !options.is_empty()
    {
        assert!(len <= rest.len());
        let again = options.to_bytes(next);
        assert_eq!(Options::parse(&again, destinations), Ok((options, next, again.len())));
    }
});

/// Nearly all that a fuzzer tries would stop at the checksum: every other input gets a right one.
fn with_checksum(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let header_len = len(bytes.get(5).map_or(0, |count| usize::from(count & 0x7f)));
    if bytes.len().is_multiple_of(2) && bytes.len() >= header_len {
        bytes[6..8].fill(0);
        let words =
            bytes[..header_len].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let checksum = 0xffff - (words.sum::<u32>() % 0xffff) as u16;
        bytes[6..8].copy_from_slice(&checksum.to_be_bytes());
    }
    bytes
}
