//! The stream that LDM's pqact hands to a decoder: whatever it holds, it ends, and no text is longer than the stream.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_feed::decoder;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some(metadata)) = decoder::read(&mut rest) {
        assert!(metadata.identifier.len() <= 3 * bytes.len());
        let Some(behind) = rest.get(metadata.size_bytes as usize..) else { return };
        rest = behind;
    }
});
