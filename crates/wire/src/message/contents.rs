//! Contents: the number of objects in one loop of a carousel, 4 bytes. The indexes in their file ids count from
//! 0. A receiver that has all of them may leave.

use crate::{ParseError, field::fixed_body};

/// The largest number of objects in a carousel, which limits the memory of a receiver.
pub const MAX_OBJECTS: u32 = 65_536;

fixed_body! {
    /// The number of objects in a carousel.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Contents in "contents", shown "objects={objects}", checked by check {
        objects: u32 = "objects",
    }
}

impl Contents {
    /// Creates the message that a carousel has this number of objects.
    ///
    /// # Errors
    /// If `objects` is 0 or above [`MAX_OBJECTS`].
    pub fn new(objects: u32) -> Result<Self, ParseError> {
        let contents = Self { objects };
        contents.check().map(|()| contents)
    }

    fn check(self) -> Result<(), ParseError> {
        match self.objects {
            1..=MAX_OBJECTS => Ok(()),
            other => Err(ParseError::invalid("objects", other, "1 to 65536")),
        }
    }

    /// The number of objects. Their indexes are below it.
    pub fn objects(self) -> u32 {
        self.objects
    }
}
