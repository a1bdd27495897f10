//! PutOut: a Goodbye with a reason. A sender sends it to a receiver that it refuses or puts out, while others
//! may go on. A receiver sends it when it ends before its session.
//!
//! ```text
//!  0      1
//!  +------+----------------------------------+
//!  | code | reason, to the end of the message |
//!  +------+----------------------------------+
//! ```
//!
//! Every version must be able to read it, because it also tells a receiver that the versions differ. Until
//! version 2 there was no code, and no text began with an octet below 32. So codes are below 32. An unknown
//! code counts as [`PutOutCode::Refused`], and [`PutOutCode::OtherVersion`] is sent as the text alone.

use std::fmt;

use super::Reason;
use crate::{ParseError, field::Reader, listed};

/// The reason why a receiver is not served: a code for the program, and a text for its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutOut {
    pub code: PutOutCode,
    pub reason: Reason,
}

listed! {
    /// What a receiver can do about it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub enum PutOutCode {
        /// It was not admitted, for a reason that no other code names, and will not be if it comes again as it is.
        Refused = 0,
        /// The ticket has expired by the sender's clock.
        Expired = 1,
        /// It said nothing while it owed an answer; it may come again.
        Stalled = 2,
        /// It has itself come again, over another connection.
        Replaced = 3,
        /// Who says it ends: the sender the session, or a receiver its part in it.
        Ended = 4,
        /// Its key is not on the sender's allow list.
        NotListed = 5,
        /// A receiver with its key is there already, under another name.
        KeyInUse = 6,
        /// Its ticket is that of another session.
        OtherSession = 7,
        /// It and the sender speak different versions of the protocol.
        OtherVersion = 8,
        /// As many receivers are there as a sender serves.
        Full = 9,
    }
}

impl PutOutCode {
    /// Later versions have more of them, and what they say is in the text.
    fn parse(code: u8) -> Self {
        Self::ALL.into_iter().find(|known| *known as u8 == code).unwrap_or(Self::Refused)
    }
}

/// The smallest first octet of a text. Smaller octets are codes.
const FIRST_OF_TEXT: u8 = 32;

impl PutOut {
    pub fn new(code: PutOutCode, reason: &str) -> Self {
        Self { code, reason: Reason::new(reason) }
    }

    /// A message without code and text is a Goodbye.
    fn has_code(&self) -> bool {
        self.code != PutOutCode::OtherVersion || self.reason.as_str().is_empty()
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let first = reader.u8("put-out code")?;
        if first >= FIRST_OF_TEXT {
            return Ok(Self { code: PutOutCode::OtherVersion, reason: Reason::parse(payload)? });
        }
        let code = PutOutCode::parse(first);
        Ok(Self { code, reason: Reason::parse(reader.rest())? })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        if self.has_code() {
            out.push(self.code as u8);
        }
        self.reason.emit(out);
    }
}

impl fmt::Display for PutOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "code={:?} {}", self.code, self.reason)
    }
}
