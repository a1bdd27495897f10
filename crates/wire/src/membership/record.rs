//! A group record: what a listener says about one group (RFC 9777, 5.2; RFC 9776, 4.2).
//!
//! ```text
//!  0      1          2             4               4+L
//!  +------+----------+-------------+---------------+--------------+----------------+
//!  | type | aux data | sources n   | group         | source 1..n  | auxiliary data |
//!  |  1   | length 1 |     2       | L = 4 or 16   |  L each      | 4 * length     |
//!  +------+----------+-------------+---------------+--------------+----------------+
//! ```

use std::fmt;

use super::{Address, address, braced};
use crate::{
    ParseError,
    field::{Field, Reader},
    listed,
};

listed! {
    /// The meaning of a record's source list.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum RecordKind {
        /// MODE_IS_INCLUDE: the host listens only to these sources.
        IsInclude = 1,
        /// MODE_IS_EXCLUDE: the host listens to all sources except these.
        IsExclude = 2,
        /// CHANGE_TO_INCLUDE_MODE: from now on, the host listens only to these sources.
        ToInclude = 3,
        /// CHANGE_TO_EXCLUDE_MODE: from now on, the host listens to all sources except these.
        ToExclude = 4,
        /// ALLOW_NEW_SOURCES: the host listens to these sources, too.
        Allow = 5,
        /// BLOCK_OLD_SOURCES: the host no longer listens to these sources.
        Block = 6,
    }
}

impl RecordKind {
    fn from_type(value: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == value)
    }
}

/// A host's state for one group, as its report describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRecord<A> {
    pub kind: RecordKind,
    pub group: A,
    pub sources: Vec<A>,
}

impl<A: Address> GroupRecord<A> {
    /// Reads one record. `None` if its type is unknown; receivers must skip such records (RFC 9777, section
    /// 5.2.12; RFC 9776, section 4.2.12).
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Option<Self>, ParseError> {
        let kind = RecordKind::from_type(reader.u8("record type")?);
        let auxiliary_words = reader.u8("auxiliary data length")?;
        let count = reader.u16("number of sources")?;
        let group = Field::read(reader, "group")?;
        let sources = address::read_many(reader, "sources", count)?;
        reader.take("auxiliary data", usize::from(auxiliary_words) * 4)?;
        Ok(kind.map(|kind| Self { kind, group, sources }))
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.kind as u8, 0]);
        address::emit_count(&self.sources, out);
        self.group.emit(out);
        address::emit_many(&self.sources, out);
    }
}

impl<A: Address> fmt::Display for GroupRecord<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            RecordKind::IsInclude => "is-include",
            RecordKind::IsExclude => "is-exclude",
            RecordKind::ToInclude => "to-include",
            RecordKind::ToExclude => "to-exclude",
            RecordKind::Allow => "allow",
            RecordKind::Block => "block",
        };
        write!(f, "{} {kind} ", self.group)?;
        braced(f, &self.sources)
    }
}
