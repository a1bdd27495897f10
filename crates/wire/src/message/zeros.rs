//! Zeros: a run of blocks that are all zero, by its first byte and the first one behind it, 8 bytes each.

use std::ops::Range;

use crate::{ParseError, field::fixed_body};

/// The longest run that one packet stands for, in bytes.
pub const MAX_ZEROS_LEN: u64 = 64 * 1024;

fixed_body! {
    /// Stands for the blocks `start..end` of an object, whose bytes are all zero.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Zeros in "zeros", shown "start={start} end={end}", checked by check {
        start: u64 = "start position",
        end: u64 = "end position",
    }
}

impl Zeros {
    /// Creates a message for the bytes in `range`.
    ///
    /// # Errors
    /// If the range is empty, or longer than [`MAX_ZEROS_LEN`].
    pub fn new(range: Range<u64>) -> Result<Self, ParseError> {
        let zeros = Self { start: range.start, end: range.end };
        zeros.check().map(|()| zeros)
    }

    fn check(&self) -> Result<(), ParseError> {
        match self.end.checked_sub(self.start) {
            Some(1..=MAX_ZEROS_LEN) => Ok(()),
            _ => Err(ParseError::invalid(
                "end position",
                self.end,
                "1 to 65536 bytes above the start position",
            )),
        }
    }

    pub fn range(&self) -> Range<u64> {
        self.start..self.end
    }
}
