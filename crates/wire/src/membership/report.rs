//! A report of the newer protocol versions: this is what I listen to (RFC 9777, 5.2; RFC 9776, 4.2).
//!
//! ```text
//!  0      1          2          4          6           8
//!  +------+----------+----------+----------+-----------+------------+
//!  | type | reserved | checksum | reserved | records n | record 1..n|
//!  +------+----------+----------+----------+-----------+------------+
//! ```

use std::fmt;

use super::{Address, GroupRecord};
use crate::{ParseError, field::Reader};

/// An MLDv2 or IGMPv3 report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report<A> {
    pub records: Vec<GroupRecord<A>>,
}

impl<A: Address> Report<A> {
    /// Parses the message except its checksum. Records of unknown type, and bytes behind the last record, are
    /// ignored, as both RFCs demand.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        reader.take("type, checksum and flags", 6)?;
        let count = reader.u16("number of records")?;
        let mut records = Vec::new();
        for _ in 0..count {
            records.extend(GroupRecord::parse(&mut reader)?);
        }
        Ok(Self { records })
    }

    /// Appends the whole message, with checksum 0. It writes at most 65,535 records.
    pub(crate) fn emit(&self, kind: u8, out: &mut Vec<u8>) {
        let count = u16::try_from(self.records.len()).unwrap_or(u16::MAX);
        out.extend_from_slice(&[kind, 0, 0, 0, 0, 0]);
        out.extend_from_slice(&count.to_be_bytes());
        for record in self.records.iter().take(usize::from(count)) {
            record.emit(out);
        }
    }
}

impl<A: Address> fmt::Display for Report<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("report")?;
        for (index, record) in self.records.iter().enumerate() {
            write!(f, "{} {record}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}
