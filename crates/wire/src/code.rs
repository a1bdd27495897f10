//! The exchange by which a receiver gets a ticket with a short code (`treecast send --code`), over one TCP connection.
//!
//! ```text
//! receiver: Request  "tcc1" 4 | SPAKE2 message 33
//! sender:   Reply    status 1 | SPAKE2 message 33      (zeros unless the status is 0)
//! receiver: Proof    32
//! sender:   Answer   status 1 | attempts left 1 | length 2 | sealed ticket
//! ```
//!
//! Before the proof, the sender tells nothing by which a guess could be checked. So each guess costs one of its attempts.

use crate::{ParseError, field::Reader, listed};

/// The first bytes of a request. The last one is the version.
const MAGIC: [u8; 4] = *b"tcc1";

/// Length of a message of SPAKE2 over Ed25519, in bytes: the side, and a point.
pub const EXCHANGE_LEN: usize = 33;

/// Length of a request in bytes.
pub const REQUEST_LEN: usize = MAGIC.len() + EXCHANGE_LEN;

/// Length of a reply in bytes.
pub const REPLY_LEN: usize = 1 + EXCHANGE_LEN;

/// Length of a proof in bytes.
pub const PROOF_LEN: usize = 32;

/// Length of the fixed part of an answer in bytes.
pub const ANSWER_LEN: usize = 4;

/// The longest sealed ticket in bytes.
pub const MAX_SEALED_LEN: usize = 2048;

listed! {
    /// What a sender says to somebody with a code.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Status {
        /// The exchange goes on, or the code was right.
        Good = 0 => "good",
        /// The code was wrong.
        Wrong = 1 => "wrong",
        /// Too many wrong codes have been tried: nobody gets the ticket any more.
        Dead = 2 => "dead",
        /// Too many exchanges are going on.
        Busy = 3 => "busy",
    }
}

impl Status {
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let status = reader.u8("status")?;
        let known = Self::ALL.into_iter().find(|known| *known as u8 == status);
        known.ok_or_else(|| ParseError::invalid("status", status, "0 to 3"))
    }
}

/// The receiver's first message.
pub fn request(exchange: &[u8; EXCHANGE_LEN]) -> [u8; REQUEST_LEN] {
    let mut bytes = [0; REQUEST_LEN];
    bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
    bytes[MAGIC.len()..].copy_from_slice(exchange);
    bytes
}

/// Parses the receiver's first message.
///
/// # Errors
/// If it is of another version, or another program's.
pub fn parse_request(bytes: &[u8]) -> Result<[u8; EXCHANGE_LEN], ParseError> {
    let mut reader = Reader::up_to(REQUEST_LEN, bytes, "request")?;
    let magic: [u8; 4] = reader.array("magic")?;
    match magic == MAGIC {
        true => reader.array("exchange"),
        false => Err(ParseError::invalid("magic", format!("{magic:02x?}"), "tcc1")),
    }
}

/// The sender's first message. Without an `exchange`, the status says why there is none.
pub fn reply(status: Status, exchange: Option<&[u8; EXCHANGE_LEN]>) -> [u8; REPLY_LEN] {
    let mut bytes = [0; REPLY_LEN];
    bytes[0] = status as u8;
    bytes[1..].copy_from_slice(exchange.unwrap_or(&[0; EXCHANGE_LEN]));
    bytes
}

/// Parses the sender's first message.
///
/// # Errors
/// If its status is unknown.
pub fn parse_reply(bytes: &[u8]) -> Result<(Status, [u8; EXCHANGE_LEN]), ParseError> {
    let mut reader = Reader::up_to(REPLY_LEN, bytes, "reply")?;
    Ok((Status::read(&mut reader)?, reader.array("exchange")?))
}

/// The fixed part of the sender's second message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    pub status: Status,
    /// The number of wrong codes that may still be tried.
    pub attempts_left: u8,
    /// Length, in bytes, of the sealed ticket that follows. 0 unless the status is good.
    pub sealed_len: u16,
}

impl Answer {
    pub fn to_bytes(self) -> [u8; ANSWER_LEN] {
        let len = self.sealed_len.to_be_bytes();
        [self.status as u8, self.attempts_left, len[0], len[1]]
    }

    /// Parses the fixed part.
    ///
    /// # Errors
    /// If the status is unknown, or the length is none of a sealed ticket.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::up_to(ANSWER_LEN, bytes, "answer")?;
        let status = Status::read(&mut reader)?;
        let (attempts_left, sealed_len) = (reader.u8("attempts left")?, reader.u16("length")?);
        let has_ticket = status == Status::Good;
        if has_ticket != (sealed_len > 0) || usize::from(sealed_len) > MAX_SEALED_LEN {
            return Err(ParseError::invalid("length", sealed_len, "1 to 2048 with a ticket, and 0 without"));
        }
        Ok(Self { status, attempts_left, sealed_len })
    }
}
