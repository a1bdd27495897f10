//! Contents: how many objects one loop of a carousel holds, 4 bytes. Their file ids have the indexes
//! from 0 up; a receiver that has them all may leave.

use std::fmt;

use crate::{ParseError, field::Reader};

/// The most objects that a carousel may hold, which bounds what a receiver keeps about them.
pub const MAX_OBJECTS: u32 = 65_536;

/// The size of a carousel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contents {
    objects: u32,
}

impl Contents {
    /// Length of the payload in bytes.
    pub const LEN: usize = 4;

    /// # Errors
    /// When `objects` is 0 or above [`MAX_OBJECTS`].
    pub fn new(objects: u32) -> Result<Self, ParseError> {
        match objects {
            1..=MAX_OBJECTS => Ok(Self { objects }),
            _ => Err(ParseError::invalid("objects", objects, "1 to 65536")),
        }
    }

    /// The number of objects: their indexes are below it.
    pub fn objects(self) -> u32 {
        self.objects
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let objects = reader.u32("objects")?;
        reader.end("contents")?;
        Self::new(objects)
    }

    pub(super) fn emit(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.objects.to_be_bytes());
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "objects={}", self.objects)
    }
}
