//! Digest: the BLAKE3-256 hash of a whole object, 32 bytes.

use std::fmt;

use crate::{ParseError, field::Reader};

/// The BLAKE3 hash of an object, sent once the sender has read the object to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Length of the payload in bytes.
    pub const LEN: usize = 32;

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

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blake3=")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
