//! What a sealed packet has in front: what parses is emitted as the same bytes, and the counter alone makes the nonce.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_wire::seal::{PREFIX_LEN, Prefix};

fuzz_target!(|bytes: &[u8]| {
    let Ok(prefix) = Prefix::parse(bytes) else {
        assert!(bytes.len() < PREFIX_LEN);
        return;
    };
    assert_eq!(prefix.to_bytes(), bytes[..PREFIX_LEN]);
    assert_eq!(prefix.nonce()[..4], [0; 4]);
    assert_eq!(prefix.nonce()[4..], bytes[8..PREFIX_LEN]);
});
