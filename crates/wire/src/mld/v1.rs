//! The messages of MLD version 1, which all have one layout (RFC 2710, 3).
//!
//! ```text
//!  0      1      2          4              6          8       24
//!  +------+------+----------+--------------+----------+-------+
//!  | type | code | checksum | max response | reserved | group |
//!  |      |      |          | delay (ms)   |          |       |
//!  +------+------+----------+--------------+----------+-------+
//! ```

use std::{fmt, net::Ipv6Addr, time::Duration};

use crate::{
    ParseError,
    field::Reader,
    membership::{Address, address},
};

/// A query, report or done of version 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct V1 {
    /// The longest time until an answer, in queries only: whole milliseconds, at most 65.535 s.
    pub max_response: Duration,
    /// The group. `None` in a general query.
    pub group: Option<Ipv6Addr>,
}

impl V1 {
    /// Length on the wire in bytes.
    pub const LEN: usize = 24;

    /// Parses the message except its type and checksum. Bytes behind it are ignored.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        reader.take("type, code and checksum", 4)?;
        let max_response = Duration::from_millis(u64::from(reader.u16("maximum response delay")?));
        reader.u16("reserved")?;
        let group: Ipv6Addr = address::read(&mut reader, "group")?;
        Ok(Self { max_response, group: (!group.is_unspecified()).then_some(group) })
    }

    pub(super) fn emit(&self, kind: u8, out: &mut Vec<u8>) {
        let millis = u16::try_from(self.max_response.as_millis()).unwrap_or(u16::MAX);
        out.extend_from_slice(&[kind, 0, 0, 0]);
        out.extend_from_slice(&millis.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        self.group.unwrap_or(Ipv6Addr::UNSPECIFIED).emit(out);
    }
}

impl fmt::Display for V1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group {
            None => f.write_str("general")?,
            Some(group) => write!(f, "{group}")?,
        }
        write!(f, " max-response={:?}", self.max_response)
    }
}
