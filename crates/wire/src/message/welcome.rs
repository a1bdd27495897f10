//! Welcome: the sender's answer to a Hello that it admits.
//!
//! ```text
//!  0         1              3          7
//!  +---------+--------------+----------+
//!  | version | block length | receiver |
//!  +---------+--------------+----------+
//! ```

use std::fmt;

use crate::{ParseError, field::Reader};

/// The message that a receiver is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    pub version: u8,
    /// The number of bytes of an object in each packet but the last. Every block starts at a multiple of it.
    pub block_len: u16,
    /// The receiver's number in messages to the group; not 0.
    pub receiver: u32,
}

impl Welcome {
    /// Length of the payload in bytes.
    pub const LEN: usize = 7;

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let version = reader.u8("version")?;
        let block_len = reader.u16("block length")?;
        let receiver = reader.u32("receiver")?;
        reader.end("welcome")?;
        if block_len == 0 {
            return Err(ParseError::invalid("block length", 0, "at least 1"));
        }
        if receiver == 0 {
            return Err(ParseError::invalid("receiver", 0, "at least 1"));
        }
        Ok(Self { version, block_len, receiver })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.version);
        out.extend_from_slice(&self.block_len.to_be_bytes());
        out.extend_from_slice(&self.receiver.to_be_bytes());
    }
}

impl fmt::Display for Welcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version={} block={} receiver={}", self.version, self.block_len, self.receiver)
    }
}
