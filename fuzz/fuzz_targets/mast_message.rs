//! Messages of SRMP and ITMP: whatever comes is read or refused, also with a right code, and what was read is written as it came.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_mast::message::{Envelope, Key, Protocol};

/// The bytes behind the fields.
const CODE_LEN: usize = 32;

fuzz_target!(|bytes: &[u8]| {
    for protocol in [Protocol::Srmp, Protocol::Itmp] {
        let key = Key::new(protocol, &[7; 32]);
        _ = Envelope::open(bytes, |_| Some(&key));
        // With its code, a message's fields are read.
        let Ok(envelope) = Envelope::open(&key.with_code(bytes), |_| Some(&key)) else { continue };
        let again = envelope.seal(&key);
        assert!(again.len() <= bytes.len() + CODE_LEN);
        assert_eq!(Envelope::open(&again, |_| Some(&key)), Ok(envelope));
    }
});
