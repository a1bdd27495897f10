//! The announcement of a session, which its sender signs and repeats while receivers can come (`treecast send --announce`).
//!
//! ```text
//!  0        4        12           16        20      28         29           31
//!  +--------+--------+------------+---------+-------+----------+------------+------+--------+-----------+
//!  | "tca1" | number | valid for  | objects | bytes | name len | ticket len | name | ticket | signature |
//!  +--------+--------+------------+---------+-------+----------+------------+------+--------+-----------+
//! ```
//!
//! The number is the time of signing, so it grows over restarts of the sender. The ticket names the key of the signature.

use std::fmt;

use crate::{
    ParseError,
    field::Reader,
    message::SIGNATURE_LEN,
    ticket::{KEY_LEN, Ticket},
};

/// The first bytes of every announcement. The last one is the version.
const MAGIC: [u8; 4] = *b"tca1";

/// What comes before the fields in the bytes that are signed, so that the signature is good for nothing else.
const CONTEXT: &[u8] = b"treecast 2026-11 announcement\0";

const FIXED_LEN: usize = 31;

/// The longest name of a session in bytes.
pub const MAX_NAME_LEN: usize = 64;

/// The longest text of a ticket in an announcement, in bytes. Tickets with 16 control addresses fit.
pub const MAX_TICKET_LEN: usize = 700;

/// The length of the longest announcement in bytes. With the headers of mDNS or SAP it fits into the smallest MTU of IPv6.
pub const MAX_LEN: usize = FIXED_LEN + MAX_NAME_LEN + MAX_TICKET_LEN + SIGNATURE_LEN;

const _: () = assert!(MAX_LEN <= 1280 - 48 - 300);

/// The longest time for which an announcement may be valid, in seconds.
pub const MAX_VALID_SECONDS: u32 = 3600;

/// What a sender says of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// The time of signing in milliseconds since 1970, by the sender's clock. A later announcement has a larger number.
    pub number: u64,
    /// The time in seconds for which it is valid, at most [`MAX_VALID_SECONDS`]. 0: the session is not announced any more.
    pub valid_seconds: u32,
    /// The number of objects that are known. A feed's session begins with few.
    pub objects: u32,
    /// Total size, in bytes, of the objects that are known.
    pub bytes: u64,
    name: String,
    ticket: Ticket,
    key: [u8; KEY_LEN],
}

impl Announcement {
    /// Creates an announcement.
    ///
    /// # Errors
    /// If the name is empty, longer than [`MAX_NAME_LEN`] bytes or has control characters; if the ticket is a plain session's, whose
    /// sender has no key, or too long.
    pub fn new(name: &str, ticket: Ticket) -> Result<Self, ParseError> {
        if name.is_empty() || name.len() > MAX_NAME_LEN || name.chars().any(char::is_control) {
            let expected = "1 to 64 bytes without control characters";
            return Err(ParseError::invalid("name", name.escape_debug(), expected));
        }
        let Some(key) = ticket.security.as_ref().map(|security| security.sender_key) else {
            return Err(ParseError::invalid("ticket", "a plain session's", "one with the sender's key"));
        };
        let len = ticket.to_string().len();
        if len > MAX_TICKET_LEN {
            return Err(ParseError::invalid("ticket", format!("{len} bytes"), "at most 700 bytes"));
        }
        Ok(Self { number: 0, valid_seconds: 0, objects: 0, bytes: 0, name: name.to_owned(), ticket, key })
    }

    /// The session's name, which its sender has given it. Other sessions may have the same.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The ticket, by which a receiver can join.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// The sender's key, as the ticket has it.
    pub fn key(&self) -> [u8; KEY_LEN] {
        self.key
    }

    /// The bytes that the sender signs.
    pub fn signed_bytes(&self) -> Vec<u8> {
        [CONTEXT, &self.fields()].concat()
    }

    /// The announcement with the signature of [`Self::signed_bytes`] behind it.
    pub fn to_bytes(&self, signature: &[u8; SIGNATURE_LEN]) -> Vec<u8> {
        [&self.fields()[..], signature].concat()
    }

    /// Parses an announcement, and returns its signature, which nobody has checked yet.
    ///
    /// # Errors
    /// If a field is not valid, or the length is wrong.
    pub fn parse(bytes: &[u8]) -> Result<(Self, [u8; SIGNATURE_LEN]), ParseError> {
        let mut reader = Reader::new(bytes);
        let magic: [u8; 4] = reader.array("magic")?;
        if magic != MAGIC {
            return Err(ParseError::invalid("magic", format!("{magic:02x?}"), "tca1"));
        }
        let number = reader.u64("number")?;
        let valid_seconds = reader.u32("validity")?;
        if valid_seconds > MAX_VALID_SECONDS {
            return Err(ParseError::invalid("validity", valid_seconds, "at most 3600 s"));
        }
        let (objects, bytes) = (reader.u32("objects")?, reader.u64("bytes")?);
        let name_len = usize::from(reader.u8("name length")?);
        let ticket_len = usize::from(reader.u16("ticket length")?);
        let text = |field, bytes| {
            str::from_utf8(bytes).map_err(|_| ParseError::invalid(field, "other bytes", "UTF-8"))
        };
        let name = text("name", reader.take("name", name_len)?)?;
        if ticket_len > MAX_TICKET_LEN {
            return Err(ParseError::invalid("ticket", format!("{ticket_len} bytes"), "at most 700 bytes"));
        }
        let written = text("ticket", reader.take("ticket", ticket_len)?)?;
        let ticket: Ticket = written
            .parse()
            .map_err(|error| ParseError::invalid("ticket", error, "a ticket of this version"))?;
        let signature = reader.array("signature")?;
        reader.end("announcement")?;
        if ticket.to_string() != written {
            return Err(ParseError::invalid("ticket", "another form of it", "its one form"));
        }
        let announcement = Self { number, valid_seconds, objects, bytes, ..Self::new(name, ticket)? };
        Ok((announcement, signature))
    }

    fn fields(&self) -> Vec<u8> {
        let ticket = self.ticket.to_string();
        let mut out = Vec::with_capacity(MAX_LEN);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.number.to_be_bytes());
        out.extend_from_slice(&self.valid_seconds.to_be_bytes());
        out.extend_from_slice(&self.objects.to_be_bytes());
        out.extend_from_slice(&self.bytes.to_be_bytes());
        out.push(self.name.len() as u8);
        out.extend_from_slice(&(ticket.len() as u16).to_be_bytes());
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(ticket.as_bytes());
        out
    }
}

impl fmt::Display for Announcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, valid_seconds, objects, bytes, name, ticket, .. } = self;
        write!(
            f,
            "announcement {number} of {name:?}, session {:08x}: {objects} objects, {bytes} bytes, valid for {valid_seconds} s",
            ticket.session.0
        )
    }
}
