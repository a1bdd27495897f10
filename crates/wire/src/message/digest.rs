//! Digest: the BLAKE3-256 hash of a whole object, 32 bytes.

use crate::{ParseError, field::Reader};

/// The BLAKE3 hash of an object, sent once the sender has read the object to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let hash = reader.array("hash")?;
        reader.end("digest")?;
        Ok(Self(hash))
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}
