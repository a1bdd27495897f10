//! Messages of mDNS: whatever comes is read or passed over.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    treecast_driver::parsers::mdns(bytes);
});
