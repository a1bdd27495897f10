//! SymbolsSent: how many repair symbols of a source block the sender has sent. A receiver that still lacks
//! symbols then knows that it must ask for more.
//!
//! ```text
//!  0              4      8
//!  +--------------+------+
//!  | source block | next |
//!  +--------------+------+
//! ```

use std::fmt;

use crate::{ParseError, field::Reader};

/// The message that all symbols of a source block with numbers below `next` have been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SymbolsSent {
    pub source_block: u32,
    pub next: u32,
}

impl SymbolsSent {
    /// Length of the payload in bytes.
    pub const LEN: usize = 8;

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let source_block = reader.u32("source block")?;
        let next = reader.u32("next symbol")?;
        reader.end("symbols sent")?;
        Ok(Self { source_block, next })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.source_block.to_be_bytes());
        out.extend_from_slice(&self.next.to_be_bytes());
    }
}

impl fmt::Display for SymbolsSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block={} next={}", self.source_block, self.next)
    }
}
