//! MLD and router discovery over ICMPv6: what parses is emitted and parsed again as the same message, no longer than it came.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_wire::mld::Message;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = Message::parse(bytes) {
        let emitted = message.to_bytes();
        assert!(emitted.len() <= bytes.len());
        assert_eq!(Message::parse(&emitted), Ok(message));
    }
});
