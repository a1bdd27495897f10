//! Answers of SNMP agents and their notifications: whatever comes is read or refused, and no object name is longer than the answer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_wire::snmp::{parse_answer, parse_link_notice, parse_request};

fuzz_target!(|bytes: &[u8]| {
    if let Some(answer) = parse_answer(bytes) {
        assert!(answer.object.to_string().split('.').count() <= bytes.len() + 1);
    }
    if let Some(notice) = parse_link_notice(bytes) {
        assert_eq!(parse_link_notice(&notice.to_bytes(0)), Some(notice));
    }
    _ = parse_request(bytes);
});
