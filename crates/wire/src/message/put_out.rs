//! PutOut: a Goodbye to one receiver that is not served, or no longer, although others may be.
//!
//! ```text
//!  0      1
//!  +------+----------------------------------+
//!  | code | reason, to the end of the message |
//!  +------+----------------------------------+
//! ```

use std::fmt;

use super::Reason;
use crate::{ParseError, field::Reader};

/// Why a receiver is not served: a code for it to act on, and a text for whoever runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutOut {
    pub code: PutOutCode,
    pub reason: Reason,
}

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
    /// The sender ends the session.
    Ended = 4,
    /// Its key is not on the sender's allow list.
    NotListed = 5,
    /// A receiver with its key is there already, under another name.
    KeyInUse = 6,
    /// Its ticket is that of another session.
    OtherSession = 7,
    /// It speaks another version of the protocol.
    OtherVersion = 8,
    /// As many receivers are there as a sender serves.
    Full = 9,
}

impl PutOutCode {
    pub const ALL: [Self; 10] = [
        Self::Refused,
        Self::Expired,
        Self::Stalled,
        Self::Replaced,
        Self::Ended,
        Self::NotListed,
        Self::KeyInUse,
        Self::OtherSession,
        Self::OtherVersion,
        Self::Full,
    ];

    fn parse(code: u8) -> Result<Self, ParseError> {
        let known = Self::ALL.into_iter().find(|known| *known as u8 == code);
        known.ok_or_else(|| ParseError::invalid("put-out code", code, "0 to 9"))
    }
}

impl PutOut {
    pub fn new(code: PutOutCode, reason: &str) -> Self {
        Self { code, reason: Reason::new(reason) }
    }

    /// Length of the payload in bytes.
    pub fn emitted_len(&self) -> usize {
        1 + self.reason.emitted_len()
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let code = PutOutCode::parse(reader.u8("put-out code")?)?;
        Ok(Self { code, reason: Reason::parse(reader.rest())? })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.code as u8);
        self.reason.emit(out);
    }
}

impl fmt::Display for PutOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "code={:?} {}", self.code, self.reason)
    }
}
