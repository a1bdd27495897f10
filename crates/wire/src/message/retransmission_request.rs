//! Retx-Request (interdomain-2013, table 4.1): start position and end position, 8 bytes each.

use std::ops::Range;

use crate::{ParseError, field::fixed_body};

fixed_body! {
    /// Asks for the bytes `start..end` of an object again; `end` is the first byte not asked for.
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
        let request = Self { start: range.start, end: range.end };
        request.check().map(|()| request)
    }

    fn check(&self) -> Result<(), ParseError> {
        match self.range().is_empty() {
            true => Err(ParseError::invalid("end position", self.end, "a value above the start position")),
            false => Ok(()),
        }
    }

    pub fn range(&self) -> Range<u64> {
        self.start..self.end
    }
}
