//! GroupKey: the key with which packets to the group will be sealed ([`crate::seal`]). It travels from the
//! sender to one receiver, only over an encrypted control connection.
//!
//! ```text
//! key id 8 | secret 32
//! ```

use std::fmt;

use crate::{ParseError, field::Reader, seal::KeyId};

/// A key of the group.
#[derive(Clone, PartialEq, Eq)]
pub struct GroupKey {
    pub id: KeyId,
    /// The secret that the key is derived from.
    pub secret: [u8; 32],
}

impl GroupKey {
    /// Length of the payload in bytes.
    pub const LEN: usize = 8 + 32;

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let key = Self { id: KeyId(reader.u64("key id")?), secret: reader.array("secret")? };
        reader.end("Group-Key")?;
        Ok(key)
    }

    pub(super) fn emit(&self, packet: &mut Vec<u8>) {
        packet.extend_from_slice(&self.id.0.to_be_bytes());
        packet.extend_from_slice(&self.secret);
    }
}

/// Leaves the secret out, because this text may end up in a log.
impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupKey({self})")
    }
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key={}", self.id)
    }
}
