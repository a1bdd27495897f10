//! Welcome: the sender's answer to a Hello that it admits.
//!
//! ```text
//!  0         1              3          7
//!  +---------+--------------+----------+
//!  | version | block length | receiver |
//!  +---------+--------------+----------+
//! ```

use crate::{ParseError, field::fixed_body};

fixed_body! {
    /// The message that a receiver is admitted.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Welcome in "welcome", shown "version={version} block={block_len} receiver={receiver}", checked by check {
        pub version: u8 = "version",
        /// The number of bytes of an object in each packet but the last. Every block starts at a multiple of it.
        pub block_len: u16 = "block length",
        /// The receiver's number in messages to the group; not 0.
        pub receiver: u32 = "receiver",
    }
}

/// The sender of a feed that is started again in the same session numbers its objects from the next multiple of this number on.
pub const FEED_STEP: u32 = 65_536;

impl Welcome {
    fn check(self) -> Result<(), ParseError> {
        if self.block_len == 0 {
            return Err(ParseError::invalid("block length", 0, "at least 1"));
        }
        if self.receiver == 0 {
            return Err(ParseError::invalid("receiver", 0, "at least 1"));
        }
        Ok(())
    }
}
