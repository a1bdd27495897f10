//! Digest: the BLAKE3-256 hash of a whole object. In a secure session it also has the sender's signature of the
//! object's manifest, which is its announcement together with its hash. One signature may be for many
//! manifests. Then this manifest's place among them follows.
//!
//! ```text
//!  0                   32                   96                 100
//!  +-------------------+--------------------+------------------+---------------------+
//!  | hash              | signature          | index            | siblings, 32 each   |
//!  +-------------------+--------------------+------------------+---------------------+
//! ```

use std::fmt;

use super::BeginOfFile;
use crate::{ParseError, field::Reader, header::FileId};

/// Length of an Ed25519 signature in bytes.
pub const SIGNATURE_LEN: usize = 64;

/// The first bytes of a signed manifest. No other signature of treecast covers such bytes.
const MANIFEST_DOMAIN: &[u8] = b"treecast manifest 1\0";

/// The first bytes of the signature for many manifests. No other signature of treecast covers such bytes.
const BATCH_DOMAIN: &[u8] = b"treecast manifests 1\0";

/// The BLAKE3 hash of an object, sent once the sender has read the object to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    pub hash: [u8; 32],
    /// The signature of [`manifest_bytes`], or of [`batch_bytes`] if there is a `place`. `None` in a plain
    /// session.
    pub signature: Option<[u8; SIGNATURE_LEN]>,
    /// The manifest's place among those that were signed together. `None` if it was signed alone.
    pub place: Option<Place>,
}

/// A leaf's place in a binary tree of hashes. It has the hashes beside the leaf and beside each node above it,
/// from the leaf upwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The leaf's number, from the left.
    pub index: u32,
    pub siblings: Vec<[u8; 32]>,
}

impl Place {
    /// The largest number of levels of a tree, without the root.
    pub const MAX_DEPTH: usize = 8;
}

/// The bytes that the sender signs for many manifests: they contain the root of a tree whose leaves are the
/// manifests.
pub fn batch_bytes(root: &[u8; 32]) -> Vec<u8> {
    [BATCH_DOMAIN, root].concat()
}

/// The bytes that the sender signs for one manifest: the object's session and number, its announcement, and its
/// hash.
pub fn manifest_bytes(file: FileId, begin: &BeginOfFile, hash: &[u8; 32]) -> Vec<u8> {
    let mut bytes = [MANIFEST_DOMAIN, &file.0.to_be_bytes(), hash].concat();
    begin.emit(&mut bytes);
    bytes
}

impl Digest {
    pub fn unsigned(hash: [u8; 32]) -> Self {
        Self { hash, signature: None, place: None }
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let hash = reader.array("hash")?;
        let is_signed = payload.len() > 32;
        let signature = is_signed.then(|| reader.array("signature")).transpose()?;
        let is_placed = payload.len() > 32 + SIGNATURE_LEN;
        let place = is_placed.then(|| parse_place(&mut reader, payload)).transpose()?;
        reader.end("digest")?;
        Ok(Self { hash, signature, place })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.hash);
        out.extend(self.signature.iter().flatten());
        if let Some(place) = &self.place {
            out.extend_from_slice(&place.index.to_be_bytes());
            place.siblings.iter().for_each(|sibling| out.extend_from_slice(sibling));
        }
    }
}

fn parse_place(reader: &mut Reader<'_>, payload: &[u8]) -> Result<Place, ParseError> {
    let index = u32::from_be_bytes(reader.array("index")?);
    let depth = (payload.len() - 32 - SIGNATURE_LEN - 4) / 32;
    if depth > Place::MAX_DEPTH {
        return Err(ParseError::invalid("siblings", depth, "8 at most"));
    }
    if index >> depth != 0 {
        return Err(ParseError::invalid("index", index, "the number of a leaf below the siblings"));
    }
    let siblings = (0..depth).map(|_| reader.array("siblings")).collect::<Result<_, _>>()?;
    Ok(Place { index, siblings })
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blake3=")?;
        self.hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        match (&self.signature, &self.place) {
            (Some(_), Some(place)) => {
                write!(f, " signed as number {} of {}", place.index, 1 << place.siblings.len())
            }
            (Some(_), None) => write!(f, " signed"),
            (None, _) => Ok(()),
        }
    }
}
