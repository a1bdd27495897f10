//! The parsers of what strangers send that are private otherwise, for fuzzing and for tests with random bytes.

use crate::{coding, discovery};

/// Reads a message of mDNS.
pub fn mdns(bytes: &[u8]) {
    discovery::read_mdns(bytes);
}

/// Reads a segment, and takes it back to what it was if it is compressed.
pub fn segment(bytes: &[u8]) {
    let Some(head) = coding::Head::of(bytes, bytes.len()) else { return };
    let mut into = vec![0; bytes.len()];
    // Content that is not what its head says is an error.
    _ = coding::Decoder::new()
        .and_then(|mut decoder| decoder.decode(head, &bytes[head.content()], &mut into));
}
