//! Mtrace2: what parses is emitted and parsed again as the same message, no longer than it came.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_wire::mtrace2::Message;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = Message::parse(bytes) {
        let emitted = message.to_bytes();
        assert_eq!(emitted.len(), message.len());
        assert!(emitted.len() <= bytes.len());
        assert_eq!(Message::parse(&emitted), Ok(message));
    }
});
