//! Packets of the traffic generator, in its own format and in the paper's.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_load::packet::{Format, Packet};

fuzz_target!(|bytes: &[u8]| {
    for format in [Format::Own, Format::Paper] {
        _ = Packet::parse(format, bytes);
    }
});
