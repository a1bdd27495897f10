//! Requests and replies of the unicast server: what parses is emitted as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_wire::unicast::{FileHeader, Reply, Request};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = FileHeader::parse(bytes) {
        assert_eq!(header.to_bytes(), bytes[..FileHeader::LEN]);
    }
    if let Ok(request) = Request::parse(bytes) {
        assert_eq!(request.to_bytes(), *bytes);
        let range = request.range(1 << 32);
        assert!(range.start <= range.end && range.end <= 1 << 32);
    }
    if let Ok((reply, data)) = Reply::parse(bytes) {
        assert_eq!(reply.to_bytes(), bytes[..Reply::HEADER_LEN]);
        assert!(reply.range().end <= reply.file.file_size);
        assert_eq!(bytes.len(), Reply::HEADER_LEN + data.len());
    }
});
