//! Retx-Request (interdomain-2013, table 4.1): start position and end position, 8 bytes each.

use std::{fmt, ops::Range};

use crate::{ParseError, field::Reader};

/// Asks for the bytes `start..end` of an object again; `end` is the first byte not asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetransmissionRequest {
    range: Range<u64>,
}

impl RetransmissionRequest {
    /// Length of the payload in bytes.
    pub const LEN: usize = 16;

    /// # Errors
    /// When the range is empty.
    pub fn new(range: Range<u64>) -> Result<Self, ParseError> {
        if range.is_empty() {
            return Err(ParseError::invalid("end position", range.end, "a value above the start position"));
        }
        Ok(Self { range })
    }

    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let start = reader.u64("start position")?;
        let end = reader.u64("end position")?;
        reader.end("retransmission request")?;
        Self::new(start..end)
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.range.start.to_be_bytes());
        out.extend_from_slice(&self.range.end.to_be_bytes());
    }
}

impl fmt::Display for RetransmissionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "start={} end={}", self.range.start, self.range.end)
    }
}
