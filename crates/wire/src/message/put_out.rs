//! PutOut: a Goodbye to one receiver that is not served, or no longer, although others may be; or that of a receiver that ends
//! before its session.
//!
//! ```text
//!  0      1
//!  +------+----------------------------------+
//!  | code | reason, to the end of the message |
//!  +------+----------------------------------+
//! ```
//!
//! Every version must be able to read it, for it tells a receiver that it has another one. Until version 2 there was no code,
//! and no text began with an octet below 32; so codes are below 32, one that is not known counts as [`PutOutCode::Refused`],
//! and [`PutOutCode::OtherVersion`] is the text alone.

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

    /// Later versions have more of them, and what they say is in the text.
    fn parse(code: u8) -> Self {
        Self::ALL.into_iter().find(|known| *known as u8 == code).unwrap_or(Self::Refused)
    }
}

/// Where text begins: what is below is a code.
const FIRST_OF_TEXT: u8 = 32;

impl PutOut {
    pub fn new(code: PutOutCode, reason: &str) -> Self {
        Self { code, reason: Reason::new(reason) }
    }

    /// Length of the payload in bytes.
    pub fn emitted_len(&self) -> usize {
        usize::from(self.has_code()) + self.reason.emitted_len()
    }

    /// A message without code and text is a Goodbye.
    fn has_code(&self) -> bool {
        self.code != PutOutCode::OtherVersion || self.reason.emitted_len() == 0
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
