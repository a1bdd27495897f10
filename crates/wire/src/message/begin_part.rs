//! BeginOfFilePart: a part of a Begin-of-File whose name is too long for one packet to the group. Paths carry 1,280 bytes
//! or less, and a name may have 4,096.
//!
//! ```text
//!  0        2       4
//!  +--------+-------+--------------+
//!  | length | start | bytes (rest) |
//!  +--------+-------+--------------+
//! ```
//!
//! The bytes are those of the Begin-of-File's body from `start` on. The body has `length` bytes in all.

use std::fmt;

use super::BeginOfFile;
use crate::{ParseError, field::Reader};

/// Length of what stands before the bytes.
const HEAD_LEN: usize = 2 + 2;

/// Some bytes of a Begin-of-File.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeginOfFilePart {
    len: u16,
    start: u16,
    bytes: Box<[u8]>,
}

impl BeginOfFilePart {
    /// Creates the part of a body of `len` bytes that begins at `start`.
    ///
    /// # Errors
    /// If no Begin-of-File has this length, or the part is empty or ends behind it.
    pub fn new(len: u16, start: u16, bytes: &[u8]) -> Result<Self, ParseError> {
        if !(BeginOfFile::LEN_BEFORE_NAME + 1..=BeginOfFile::MAX_LEN).contains(&len.into()) {
            return Err(ParseError::invalid("length of the whole", len, "25 to 4120 bytes"));
        }
        if bytes.is_empty() || usize::from(start) + bytes.len() > len.into() {
            return Err(ParseError::invalid(
                "start of the part",
                start,
                "1 byte or more, and none behind the end of the whole",
            ));
        }
        Ok(Self { len, start, bytes: bytes.into() })
    }

    /// Cuts an announcement into parts whose bodies have at most `room` bytes.
    pub fn cut(begin: &BeginOfFile, room: usize) -> impl Iterator<Item = Self> {
        let mut body = Vec::new();
        begin.emit(&mut body);
        let (len, step) = (body.len() as u16, room.saturating_sub(HEAD_LEN).max(1));
        (0..body.len()).step_by(step).map(move |start| {
            let bytes = body[start..body.len().min(start + step)].into();
            Self { len, start: start as u16, bytes }
        })
    }

    /// Length of the whole body, in bytes.
    pub fn whole_len(&self) -> usize {
        self.len.into()
    }

    /// Where the part begins in the whole body, in bytes.
    pub fn start(&self) -> usize {
        self.start.into()
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let len = reader.u16("length of the whole")?;
        let start = reader.u16("start of the part")?;
        Self::new(len, start, reader.rest())
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.len.to_be_bytes());
        out.extend_from_slice(&self.start.to_be_bytes());
        out.extend_from_slice(&self.bytes);
    }
}

impl fmt::Display for BeginOfFilePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "length={} start={} bytes={}", self.len, self.start, self.bytes.escape_ascii())
    }
}
