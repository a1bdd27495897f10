//! The announcement of a session, which its sender signs and repeats while receivers can come (`treecast send --announce`).
//!
//! ```text
//!  0        4        12           16        20      28      36         37     41         42           44
//!  +--------+--------+------------+---------+-------+-------+----------+------+----------+------------+------+--------+-----------+
//!  | "tca2" | number | valid for  | objects | bytes | begun | audience | list | name len | ticket len | name | ticket | signature |
//!  +--------+--------+------------+---------+-------+-------+----------+------+----------+------------+------+--------+-----------+
//! ```
//!
//! The number is the time of signing, so it grows over restarts of the sender. The ticket names the key of the signature.
//! The audience says whom the session is for ([`Audience`]). It holds no names: the sender names its receivers when they ask.

use std::fmt;

use crate::{
    ParseError,
    field::Reader,
    message::SIGNATURE_LEN,
    ticket::{KEY_LEN, Ticket},
};

/// The first bytes of every announcement. The last one is the version.
const MAGIC: [u8; 4] = *b"tca2";

/// What comes before the fields in the bytes that are signed, so that the signature is good for nothing else.
const CONTEXT: &[u8] = b"treecast 2026-11 announcement\0";

const FIXED_LEN: usize = 44;

/// The longest name of a session in bytes.
pub const MAX_NAME_LEN: usize = 64;

/// The longest text of a ticket in an announcement, in bytes. Tickets with 16 control addresses fit.
pub const MAX_TICKET_LEN: usize = 700;

/// The length of the longest announcement in bytes. With the headers of mDNS or SAP it fits into the smallest MTU of IPv6.
pub const MAX_LEN: usize = FIXED_LEN + MAX_NAME_LEN + MAX_TICKET_LEN + SIGNATURE_LEN;

const _: () = assert!(MAX_LEN <= 1280 - 48 - 300);

/// The longest time for which an announcement may be valid, in seconds.
pub const MAX_VALID_SECONDS: u32 = 3600;

/// Flags of the octet that says whom a session is for.
const FOR_PEOPLE: u8 = 1 << 0;
const FOR_STANDING: u8 = 1 << 1;
const NAMED: u8 = 1 << 2;
const AWAITS_RESULTS: u8 = 1 << 3;

/// The receivers that a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audience {
    /// Whether anybody who asks may receive the session (`treecast discover` prints the ticket).
    pub people: bool,
    /// The standing receivers that the session is for.
    pub standing: ForStanding,
    /// Whether the sender waits for the result of the command that a standing receiver runs afterwards.
    pub awaits_results: bool,
}

/// The standing receivers that a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForStanding {
    /// The session is for no standing receiver.
    None,
    /// The session is for every standing receiver that trusts its sender.
    Any,
    /// The session is for those that its sender has a list of. Each has to ask the sender whether it is one of them.
    /// `list` is a random number of this list: a receiver that is not on it asks again when the number is another one.
    Named { list: u32 },
}

impl Audience {
    /// The audience of a session that anybody who asks may receive, and no standing receiver takes.
    pub const PEOPLE: Self = Self { people: true, standing: ForStanding::None, awaits_results: false };

    fn parse(flags: u8, list: u32) -> Result<Self, ParseError> {
        let has = |flag: u8| flags & flag != 0;
        let standing = match (has(FOR_STANDING), has(NAMED), list) {
            (false, false, 0) => ForStanding::None,
            (true, false, 0) => ForStanding::Any,
            (true, true, list) => ForStanding::Named { list },
            _ => {
                let expected = "names of standing receivers alone, and else no list";
                return Err(ParseError::invalid("audience", format!("{flags:#x}, list {list}"), expected));
            }
        };
        let is_known = flags & !(FOR_PEOPLE | FOR_STANDING | NAMED | AWAITS_RESULTS) == 0;
        if !is_known || flags & (FOR_PEOPLE | FOR_STANDING) == 0 {
            return Err(ParseError::invalid(
                "audience",
                format!("{flags:#x}"),
                "people, standing receivers or both",
            ));
        }
        Ok(Self { people: has(FOR_PEOPLE), standing, awaits_results: has(AWAITS_RESULTS) })
    }

    fn emit(self, out: &mut Vec<u8>) {
        let (standing, list) = match self.standing {
            ForStanding::None => (0, 0),
            ForStanding::Any => (FOR_STANDING, 0),
            ForStanding::Named { list } => (FOR_STANDING | NAMED, list),
        };
        let people = if self.people { FOR_PEOPLE } else { 0 };
        out.push(people | standing | if self.awaits_results { AWAITS_RESULTS } else { 0 });
        out.extend_from_slice(&list.to_be_bytes());
    }
}

impl fmt::Display for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.people, self.standing) {
            (true, ForStanding::None) => "anybody who asks",
            (true, ForStanding::Any) => "anybody who asks, and standing receivers",
            (true, ForStanding::Named { .. }) => "anybody who asks, and certain standing receivers",
            (false, ForStanding::Named { .. }) => "certain standing receivers",
            (false, _) => "standing receivers",
        })
    }
}

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
    /// The time at which the session began, in milliseconds since 1970, by the sender's clock. It stays the same over
    /// restarts of the sender. 0: not known.
    pub begun: u64,
    /// The receivers that the session is for.
    pub audience: Audience,
    name: String,
    ticket: Ticket,
    key: [u8; KEY_LEN],
}

impl Announcement {
    /// Creates an announcement to anybody who asks.
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
        let (name, audience) = (name.to_owned(), Audience::PEOPLE);
        Ok(Self { number: 0, valid_seconds: 0, objects: 0, bytes: 0, begun: 0, audience, name, ticket, key })
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
            return Err(ParseError::invalid("magic", format!("{magic:02x?}"), "tca2"));
        }
        let number = reader.u64("number")?;
        let valid_seconds = reader.u32("validity")?;
        if valid_seconds > MAX_VALID_SECONDS {
            return Err(ParseError::invalid("validity", valid_seconds, "at most 3600 s"));
        }
        let (objects, bytes) = (reader.u32("objects")?, reader.u64("bytes")?);
        let begun = reader.u64("begin")?;
        let audience = Audience::parse(reader.u8("audience")?, reader.u32("list")?)?;
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
        let announcement = Self::new(name, ticket)?;
        Ok((Self { number, valid_seconds, objects, bytes, begun, audience, ..announcement }, signature))
    }

    fn fields(&self) -> Vec<u8> {
        let ticket = self.ticket.to_string();
        let mut out = Vec::with_capacity(MAX_LEN);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.number.to_be_bytes());
        out.extend_from_slice(&self.valid_seconds.to_be_bytes());
        out.extend_from_slice(&self.objects.to_be_bytes());
        out.extend_from_slice(&self.bytes.to_be_bytes());
        out.extend_from_slice(&self.begun.to_be_bytes());
        self.audience.emit(&mut out);
        out.push(self.name.len() as u8);
        out.extend_from_slice(&(ticket.len() as u16).to_be_bytes());
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(ticket.as_bytes());
        out
    }
}

impl fmt::Display for Announcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, valid_seconds, objects, bytes, begun, audience, name, ticket, .. } = self;
        write!(
            f,
            "announcement {number} of {name:?}, session {:08x} begun {begun}, for {audience}: {objects} objects, {bytes} bytes, \
             valid for {valid_seconds} s",
            ticket.session.0
        )
    }
}
