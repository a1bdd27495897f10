//! ICMPv6's errors, and MEADcast's headers in both dialects: what parses is emitted and parsed again as the same, no longer than it came.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_wire::{
    icmpv6::DeliveryError,
    ipv6,
    mead::{Dialect, Header, Options},
};

fuzz_target!(|bytes: &[u8]| {
    let _ = ipv6::Header::parse(bytes);
    let _ = DeliveryError::parse(bytes);
    for dialect in [Dialect::Rfc, Dialect::Linux65] {
        let Ok((header, rest)) = Header::parse(bytes, dialect) else { continue };
        let emitted = header.to_bytes(dialect);
        assert_eq!(emitted.len() + rest.len(), bytes.len());
        assert_eq!(Header::parse(&emitted, dialect), Ok((header, &[][..])));
        if let Ok((options, next, len)) = Options::parse(rest) {
            assert!(len <= rest.len());
            let again = options.to_bytes(next);
            assert!(options.is_empty() || Options::parse(&again) == Ok((options, next, again.len())));
        }
    }
});
