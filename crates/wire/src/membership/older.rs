//! The messages of MLD version 1 (RFC 2710, 3) and of IGMP versions 1 and 2 (RFC 1112, appendix I; RFC 2236, 2). All messages of
//! a protocol have one layout: the head ([`super::head`]) and the group.

use std::{fmt, time::Duration};

use super::{Address, head};
use crate::{
    ParseError,
    field::{Field, Reader},
};

/// What a query, report or leave (MLD: done) of an older version says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Older<A> {
    /// Meaningful in queries only. MLD: whole milliseconds, at most 65.535 s. IGMP: whole tenths of a second, at most
    /// 25.5 s, and zero in version 1.
    pub max_response: Duration,
    /// The group. `None` in a general query.
    pub group: Option<A>,
}

impl<A: Address> Older<A> {
    /// Length on the wire in bytes.
    pub const LEN: usize = A::HEAD_LEN + A::LEN;

    /// Parses the message except its type and checksum. Bytes behind it are ignored.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        let max_response = A::RESPONSE_UNIT * u32::from(head::read::<A>(&mut reader)?);
        let group = Field::read(&mut reader, "group")?;
        Ok(Self { max_response, group: (group != A::UNSPECIFIED).then_some(group) })
    }

    /// Appends the whole message, its checksum 0.
    pub(crate) fn emit(&self, kind: u8, out: &mut Vec<u8>) {
        let units = head::units::<A>(self.max_response);
        head::emit::<A>(kind, units.min(A::LARGEST_CODE.into()) as u16, out);
        self.group.unwrap_or(A::UNSPECIFIED).emit(out);
    }
}

impl<A: Address> fmt::Display for Older<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(group) = self.group {
            write!(f, "{group}")?
        } else {
            f.write_str("general")?
        }
        write!(f, " max-response={:?}", self.max_response)
    }
}
