//! The messages of IGMP versions 1 and 2, which all have one layout (RFC 2236, 2; RFC 1112, appendix I).
//!
//! ```text
//!  0      1              2          4       8
//!  +------+--------------+----------+-------+
//!  | type | max response | checksum | group |
//!  |      | time (0.1 s) |          |       |
//!  +------+--------------+----------+-------+
//! ```

use std::{fmt, net::Ipv4Addr, time::Duration};

use crate::{
    ParseError,
    field::Reader,
    membership::{Address, address},
};

/// A query, report or leave of version 1 or 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct V2 {
    /// The longest time until an answer, in queries only: whole tenths of a second, at most 25.5 s, and zero in
    /// version 1.
    pub max_response: Duration,
    /// The group. `None` in a general query.
    pub group: Option<Ipv4Addr>,
}

impl V2 {
    /// Length on the wire in bytes.
    pub const LEN: usize = 8;

    /// Parses the message except its type and checksum. Bytes behind it are ignored.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        reader.u8("type")?;
        let max_response = Duration::from_millis(100 * u64::from(reader.u8("max resp time")?));
        reader.u16("checksum")?;
        let group: Ipv4Addr = address::read(&mut reader, "group")?;
        Ok(Self { max_response, group: (!group.is_unspecified()).then_some(group) })
    }

    pub(super) fn emit(&self, kind: u8, out: &mut Vec<u8>) {
        let tenths = u8::try_from(self.max_response.as_millis() / 100).unwrap_or(u8::MAX);
        out.extend_from_slice(&[kind, tenths, 0, 0]);
        self.group.unwrap_or(Ipv4Addr::UNSPECIFIED).emit(out);
    }

    /// The protocol version of a query with these fields (RFC 9776, 7.1).
    pub fn query_version(&self) -> u8 {
        if self.max_response.is_zero() { 1 } else { 2 }
    }
}

impl fmt::Display for V2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group {
            None => f.write_str("general")?,
            Some(group) => write!(f, "{group}")?,
        }
        write!(f, " max-response={:?}", self.max_response)
    }
}
