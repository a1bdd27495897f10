//! What a sealed packet to the group has around the packet itself (DESIGN, "Security"; the scheme is that of
//! RFC 5116 with the counter of RFC 9001, 5.3: an AEAD whose nonce is never used twice).
//!
//! ```text
//!  0        8         16               48                     48 + n     64 + n
//!  +--------+---------+----------------+----------------------+----------+
//!  | key id | counter | session header | payload, encrypted   | tag      |
//!  +--------+---------+----------------+----------------------+----------+
//! ```
//!
//! Key id, counter and header are in clear and authenticated. The nonce is four zero bytes and the counter.

use std::fmt;

use crate::{ParseError, field::Reader, header::HEADER_LEN};

/// Length of key id and counter, in bytes.
pub const PREFIX_LEN: usize = 16;

/// Length of what stands in clear before the payload, in bytes: what the tag covers besides it.
pub const SEALED_HEADER_LEN: usize = PREFIX_LEN + HEADER_LEN;

/// Length of the tag, in bytes.
pub const TAG_LEN: usize = 16;

/// Number of bytes by which a sealed packet is longer than a plain one.
pub const SEAL_LEN: usize = PREFIX_LEN + TAG_LEN;

/// A random number that tells one key of a group from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u64);

/// Which key seals a packet, and the packet's place among those that it seals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    pub key: KeyId,
    /// Counts up from 0 with each packet that the key seals.
    pub counter: u64,
}

impl Prefix {
    /// Reads the prefix at the start of `bytes`; what follows it is not looked at.
    ///
    /// # Errors
    /// When fewer than 16 bytes are there.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        Ok(Self { key: KeyId(reader.u64("key id")?), counter: reader.u64("counter")? })
    }

    /// The prefix as it stands on the wire.
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
