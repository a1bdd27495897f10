//! Contents: the number of objects in one loop of a carousel, 4 bytes. The indexes in their file ids count from
//! 0. A receiver that has all of them may leave.

use std::fmt;

use crate::{ParseError, field::Reader};

/// The largest number of objects in a carousel, which limits the memory of a receiver.
pub const MAX_OBJECTS: u32 = 65_536;

/// The number of objects in a carousel.
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

    /// The number of objects. Their indexes are below it.
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
