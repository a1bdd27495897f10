//! SymbolRequest: how many symbols some source blocks of an object lack at a receiver, 1 to 64 of them, 12 bytes
//! each.
//!
//! ```text
//!  0              4         8      12
//!  +--------------+---------+------+
//!  | source block | lacking | next |   each
//!  +--------------+---------+------+
//! ```

use std::fmt;

use crate::{ParseError, field::Reader};

/// The most source blocks that one message names.
pub const MAX_LACKS: usize = 64;

const LACK_LEN: usize = 12;

/// What one source block lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lack {
    pub source_block: u32,
    /// How many more symbols are needed, whichever they are; at least 1.
    pub lacking: u32,
    /// The number behind the last symbol that was out when this was counted.
    pub next: u32,
}

/// Asks for more repair symbols.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolRequest {
    lacks: Vec<Lack>,
}

impl SymbolRequest {
    /// # Errors
    /// When it names no source block or more than [`MAX_LACKS`], or one that lacks nothing.
    pub fn new(lacks: Vec<Lack>) -> Result<Self, ParseError> {
        if lacks.is_empty() || lacks.len() > MAX_LACKS {
            return Err(ParseError::invalid("source blocks", lacks.len(), "1 to 64"));
        }
        if lacks.iter().any(|lack| lack.lacking == 0) {
            return Err(ParseError::invalid("lacking symbols", 0, "at least 1"));
        }
        Ok(Self { lacks })
    }

    pub fn lacks(&self) -> &[Lack] {
        &self.lacks
    }

    /// How many bytes follow the header.
    pub fn emitted_len(&self) -> usize {
        self.lacks.len() * LACK_LEN
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        if payload.len() > MAX_LACKS * LACK_LEN {
            return Err(ParseError::invalid("payload length", payload.len(), "at most 768 for this type"));
        }
        let mut reader = Reader::new(payload);
        let mut lacks = Vec::with_capacity(payload.len() / LACK_LEN);
        for _ in 0..payload.len().div_ceil(LACK_LEN) {
            let source_block = reader.u32("source block")?;
            let lacking = reader.u32("lacking symbols")?;
            lacks.push(Lack { source_block, lacking, next: reader.u32("next symbol")? });
        }
        reader.end("symbol request")?;
        Self::new(lacks)
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        for lack in &self.lacks {
            out.extend_from_slice(&lack.source_block.to_be_bytes());
            out.extend_from_slice(&lack.lacking.to_be_bytes());
            out.extend_from_slice(&lack.next.to_be_bytes());
        }
    }
}

impl fmt::Display for SymbolRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Lack { source_block, lacking, next }) in self.lacks.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{source_block}:lacking={lacking},next={next}")?;
        }
        Ok(())
    }
}
