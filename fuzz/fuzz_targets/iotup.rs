//! The IoT updater's frame: what parses is emitted as the same bytes, and its data is in the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_wire::iotup::{Frame, HEADER_LEN};

fuzz_target!(|bytes: &[u8]| {
    if let Ok((frame, data)) = Frame::parse(bytes) {
        assert_eq!(frame.to_bytes(), bytes[..HEADER_LEN]);
        assert!(frame.range().end <= frame.file_size);
        assert_eq!(frame.range().end - frame.range().start, data.len() as u64);
    }
});
