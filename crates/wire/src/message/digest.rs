//! Digest: the BLAKE3-256 hash of a whole object, and in a secure session the sender's signature of the object's
//! manifest: its announcement and its hash together.
//!
//! ```text
//!  0                               32                             96
//!  +-------------------------------+------------------------------+
//!  | hash                          | signature, or nothing        |
//!  +-------------------------------+------------------------------+
//! ```

use std::fmt;

use super::BeginOfFile;
use crate::{ParseError, field::Reader, header::FileId};

/// Length of an Ed25519 signature in bytes.
pub const SIGNATURE_LEN: usize = 64;

/// What a manifest's signature is good for, and nothing else's is.
const MANIFEST_DOMAIN: &[u8] = b"treecast manifest 1\0";

/// The BLAKE3 hash of an object, sent once the sender has read the object to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest {
    pub hash: [u8; 32],
    /// Of [`manifest_bytes`]; none in a plain session.
    pub signature: Option<[u8; SIGNATURE_LEN]>,
}

/// What the sender of a secure session signs: which object of which session is how called, how long, what else its
/// announcement says, and what its hash is.
pub fn manifest_bytes(file: FileId, begin: &BeginOfFile, hash: &[u8; 32]) -> Vec<u8> {
    let mut bytes = MANIFEST_DOMAIN.to_vec();
    bytes.extend_from_slice(&file.0.to_be_bytes());
    bytes.extend_from_slice(hash);
    begin.emit(&mut bytes);
    bytes
}

impl Digest {
    pub fn unsigned(hash: [u8; 32]) -> Self {
        Self { hash, signature: None }
    }

    /// Length of the payload in bytes.
    pub fn emitted_len(&self) -> usize {
        self.hash.len() + self.signature.map_or(0, |signature| signature.len())
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let hash = reader.array("hash")?;
        let is_signed = payload.len() > 32;
        let signature = is_signed.then(|| reader.array("signature")).transpose()?;
        reader.end("digest")?;
        Ok(Self { hash, signature })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.hash);
        out.extend(self.signature.iter().flatten());
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blake3=")?;
        self.hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        match self.signature {
            Some(_) => write!(f, " signed"),
            None => Ok(()),
        }
    }
}
