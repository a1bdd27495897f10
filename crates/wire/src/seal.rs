//! The bytes around a sealed packet to the group (DESIGN, "Security"). The scheme is that of RFC 5116 with the
//! counter of RFC 9001, section 5.3: an AEAD whose nonce is never used twice.
//!
//! ```text
//!  0        8         16               48                     48 + n     64 + n
//!  +--------+---------+----------------+----------------------+----------+
//!  | key id | counter | session header | payload, encrypted   | tag      |
//!  +--------+---------+----------------+----------------------+----------+
//! ```
//!
//! Key id, counter and header are not encrypted, but authenticated. The nonce is four zero bytes and the
//! counter.

use std::fmt;

use crate::{
    ParseError,
    field::{Field, Reader},
    header::HEADER_LEN,
};

/// Length of key id and counter, in bytes.
pub const PREFIX_LEN: usize = 16;

/// Length of the unencrypted bytes before the payload. The tag covers them, too.
pub const SEALED_HEADER_LEN: usize = PREFIX_LEN + HEADER_LEN;

/// Length of the tag, in bytes.
pub const TAG_LEN: usize = 16;

/// Number of bytes by which a sealed packet is longer than a plain one.
pub const SEAL_LEN: usize = PREFIX_LEN + TAG_LEN;

/// A random number that identifies a key of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u64);

impl Field for KeyId {
    const LEN: usize = u64::LEN;

    fn read(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, ParseError> {
        reader.u64(name).map(Self)
    }

    fn emit(&self, out: &mut Vec<u8>) {
        self.0.emit(out);
    }
}

/// The key of a packet, and the packet's number among those that the key seals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    pub key: KeyId,
    /// The counter, which starts at 0 for each key.
    pub counter: u64,
}

impl Prefix {
    /// Parses the prefix at the start of `bytes`, and ignores what follows.
    ///
    /// # Errors
    /// If there are fewer than 16 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        Ok(Self { key: KeyId(reader.u64("key id")?), counter: reader.u64("counter")? })
    }

    /// The prefix's bytes on the wire.
    pub fn to_bytes(&self) -> [u8; PREFIX_LEN] {
        let mut bytes = [0; PREFIX_LEN];
        bytes[..8].copy_from_slice(&self.key.0.to_be_bytes());
        bytes[8..].copy_from_slice(&self.counter.to_be_bytes());
        bytes
    }

    /// The nonce of the packet's AEAD.
    pub fn nonce(&self) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.counter.to_be_bytes());
        nonce
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key={} counter={}", self.key, self.counter)
    }
}
