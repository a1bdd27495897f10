//! SymbolRequest: a receiver names source blocks of one object, and how many more symbols it needs to decode each one
//! (0: it has all). First comes the number of repair symbols that have come over the receiver's own connection, 8 bytes.
//! Then come 1 to 64 source blocks, 12 bytes each.
//!
//! ```text
//!  0              4         8
//!  +------------------------+
//!  | symbols that arrived   |
//!  +--------------+---------+------+
//!  | source block | lacking | next |   each
//!  +--------------+---------+------+
//! ```

use std::fmt;

use crate::{ParseError, field::Reader};

/// The largest number of source blocks in a message.
pub const MAX_LACKS: usize = 64;

const ARRIVED_LEN: usize = 8;

const LACK_LEN: usize = 12;

/// The number of symbols that one source block lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lack {
    pub source_block: u32,
    /// The number of symbols that are needed, whichever they are. 0 means that the source block is complete,
    /// and that the sender need not send requested blocks of it.
    pub lacking: u32,
    /// The number after the last symbol that had been sent when the receiver counted.
    pub next: u32,
}

/// A request for more repair symbols, or the message that a source block needs none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolRequest {
    arrived: u64,
    lacks: Vec<Lack>,
}

impl SymbolRequest {
    /// Creates a request. `arrived` is the number of symbols that have come over the receiver's own connection.
    ///
    /// # Errors
    /// If it names no source block, or more than [`MAX_LACKS`].
    pub fn new(arrived: u64, lacks: Vec<Lack>) -> Result<Self, ParseError> {
        if lacks.is_empty() || lacks.len() > MAX_LACKS {
            return Err(ParseError::invalid("source blocks", lacks.len(), "1 to 64"));
        }
        Ok(Self { arrived, lacks })
    }

    /// The number of repair symbols, of all objects, that have come over the receiver's own connection. Symbols
    /// that the sender has sent there beyond this number are on their way.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    pub fn lacks(&self) -> &[Lack] {
        &self.lacks
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        if payload.len() > ARRIVED_LEN + MAX_LACKS * LACK_LEN {
            return Err(ParseError::invalid("payload length", payload.len(), "at most 776 for this type"));
        }
        let mut reader = Reader::new(payload);
        let arrived = reader.u64("arrived symbols")?;
        let lacks_len = payload.len() - ARRIVED_LEN;
        let mut lacks = Vec::with_capacity(lacks_len / LACK_LEN);
        for _ in 0..lacks_len.div_ceil(LACK_LEN) {
            let source_block = reader.u32("source block")?;
            let lacking = reader.u32("lacking symbols")?;
            lacks.push(Lack { source_block, lacking, next: reader.u32("next symbol")? });
        }
        reader.end("symbol request")?;
        Self::new(arrived, lacks)
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.arrived.to_be_bytes());
        for lack in &self.lacks {
            out.extend_from_slice(&lack.source_block.to_be_bytes());
            out.extend_from_slice(&lack.lacking.to_be_bytes());
            out.extend_from_slice(&lack.next.to_be_bytes());
        }
    }
}

impl fmt::Display for SymbolRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "arrived={}", self.arrived)?;
        for Lack { source_block, lacking, next } in &self.lacks {
            write!(f, " {source_block}:lacking={lacking},next={next}")?;
        }
        Ok(())
    }
}
