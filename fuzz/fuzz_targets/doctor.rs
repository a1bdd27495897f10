//! What the doctor asks a host, what a host answers, and the packets that the doctor hears.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    treecast_load::parsers::doctor(bytes);
    treecast_load::parsers::heard(bytes);
});
