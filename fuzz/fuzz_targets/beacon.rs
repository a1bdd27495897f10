//! Beacons: what parses is emitted again byte for byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_wire::beacon::Beacon;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((beacon, sealed)) = Beacon::parse(bytes) {
        let emitted = match sealed {
            Some(sealed) => beacon.to_sealed_bytes(|_| sealed.code),
            None => beacon.to_bytes(),
        };
        assert_eq!(emitted, bytes);
    }
});
