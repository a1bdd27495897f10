//! Retx-Request (interdomain-2013, table 4.1): start position and end position, 8 bytes each.

use std::ops::Range;

use crate::{ParseError, field::fixed_body};

fixed_body! {
    /// Asks for the bytes `start..end` of an object again; `end` is the first byte not asked for. The range is empty only
    /// where it ends a report of what is lacking.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RetransmissionRequest in "retransmission request", shown "start={start} end={end}", checked by check {
        start: u64 = "start position",
        end: u64 = "end position",
    }
}

impl RetransmissionRequest {
    /// Creates a request for the bytes in `range`.
    ///
    /// # Errors
    /// If the range is empty.
    pub fn new(range: Range<u64>) -> Result<Self, ParseError> {
        match range.is_empty() {
            true => Err(ParseError::invalid("end position", range.end, "a value above the start position")),
            false => Ok(Self { start: range.start, end: range.end }),
        }
    }

    /// Creates what ends a report of all that is lacking of an object of `size` bytes.
    pub fn end_of_report(size: u64) -> Self {
        Self { start: size, end: size }
    }

    fn check(&self) -> Result<(), ParseError> {
        match self.end < self.start {
            true => Err(ParseError::invalid("end position", self.end, "no value below the start position")),
            false => Ok(()),
        }
    }

    pub fn range(&self) -> Range<u64> {
        self.start..self.end
    }
}
