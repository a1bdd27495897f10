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
    /// The kind of reason, which says what the receiver can do.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub enum PutOutCode {
        /// The receiver was not admitted, for a reason that no other code names. Trying again will not help.
        Refused = 0,
        /// The ticket has expired by the sender's clock.
        Expired = 1,
        /// The receiver sent no answer while it owed one. It may come again.
        Stalled = 2,
        /// The receiver has come again over another connection, which replaces this one.
        Replaced = 3,
        /// The session has ended, if the sender says so. The receiver's part in it has ended, if the receiver says
        /// so.
        Ended = 4,
        /// The receiver's key is not on the sender's allow list.
        NotListed = 5,
        /// A receiver with the same key is there already, under another name.
        KeyInUse = 6,
        /// The receiver's ticket is of another session.
        OtherSession = 7,
        /// The receiver and the sender have different versions of the protocol.
        OtherVersion = 8,
        /// The sender serves no more receivers.
        Full = 9,
        /// The sender was stopped, and keeps its session for another start. The receiver may wait for that.
        Stopped = 10,
        /// The session is for certain standing receivers, and this receiver is none of them.
        NotMeant = 11,
    }
}

impl PutOutCode {
    /// Converts a code. Later versions may have more codes; the text then says what they mean.
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

    /// Whether the code is sent. A message without code and text is a Goodbye.
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
