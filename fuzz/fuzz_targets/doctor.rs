//! What the doctor asks a host, what a host answers, and the packets that the doctor hears.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    treecast_doctor::parsers::messages(bytes);
    treecast_doctor::parsers::heard(bytes);
});
