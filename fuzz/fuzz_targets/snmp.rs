//! Answers of SNMP agents: whatever comes is read or refused, and no object name is longer than the answer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_load::snmp::parse_answer;

fuzz_target!(|bytes: &[u8]| {
    if let Some(answer) = parse_answer(bytes) {
        assert!(answer.object.to_string().split('.').count() <= bytes.len() + 1);
    }
});
