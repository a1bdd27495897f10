//! Segments of compressed objects: a head that lies takes nothing back to what it was, and reads nothing behind the segment.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    treecast_driver::parsers::segment(bytes);
});
